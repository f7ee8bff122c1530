/* Device memory accounting. See memory.h; the public functions are in tpu.h. */
#include "value/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/env.h"
#include "tpu.h"
#include "value/value.h"

static tpu_memory stats[TPU_MAX_DEVICES], pinned; /* under the core lock; under its own */
static pthread_mutex_t pinned_lock = PTHREAD_MUTEX_INITIALIZER;

static void count(tpu_memory *m, int64_t bytes) {
  m->allocated += bytes;
  if (bytes >= 0) {
    m->allocated_total += bytes;
    m->buffers++;
    m->buffers_total++;
  } else {
    m->freed_total -= bytes;
    m->buffers--;
    m->buffers_freed_total++;
  }
  if (m->allocated > m->allocated_peak) m->allocated_peak = m->allocated;
  if (m->buffers > m->buffers_peak) m->buffers_peak = m->buffers;
}

void memory_count(int device, int64_t bytes) { count(&stats[device], bytes); }

void tpu_pinned_count(int64_t bytes) {
  pthread_mutex_lock(&pinned_lock);
  count(&pinned, bytes);
  pthread_mutex_unlock(&pinned_lock);
}

static int64_t limit_of(int device) {
  static int64_t env = -1, host;
  if (env < 0) {
    env = env_bytes("TORCH_TPU_MEMORY_LIMIT", 0);
    host = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  }
  if (env) return env;
  if (!stats[device].limit) {
    int64_t used, limit;
    stats[device].limit = rt_is_open() && rt_memory_stats(device, &used, &limit) && limit > 0 ? limit : host;
  }
  return stats[device].limit;
}

/* "1.50 GiB", in the unit that shows something; into `to`, which is returned. */
static const char *words(char to[static 32], int64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
  double n = (double)bytes;
  int u = 0;
  for (; u < 3 && n >= 1024; u++) n /= 1024;
  snprintf(to, 32, u ? "%.2f %s" : "%.0f %s", n, units[u]);
  return to;
}

/* What the process may have of it. */
static int64_t allowed(int device) {
  return limit_of(device) - (int64_t)(stats[device].all_but * (double)limit_of(device));
}

bool memory_fits(int device, int64_t bytes, bool smaller) {
  tpu_memory *m = &stats[device];
  bool fits = m->allocated + bytes <= allowed(device);
  m->retries += !fits && smaller;
  return fits;
}

tpu_error *memory_reserve(int device, int64_t bytes) {
  tpu_memory *m = &stats[device];
  if (memory_fits(device, bytes, false)) return NULL;
  int64_t may = allowed(device), limit = limit_of(device);
  m->ooms++;
  char asked[32], total[32], left[32], used[32], part[32], share[64] = "";
  if (may < limit) snprintf(share, sizeof share, "%s may be had by this process and ", words(part, may));
  return tpu_err(
      TPU_OUT_OF_MEMORY,
      "TPU out of memory. Tried to allocate %s. TPU %d has a total capacity of %s of which %s%s is "
      "free; %s is allocated by PyTorch. Free tensors or use a smaller batch "
      "(TORCH_TPU_MEMORY_LIMIT sets the limit on a CPU plugin).",
      words(asked, bytes), device, words(total, limit), share,
      words(left, may > m->allocated ? may - m->allocated : 0), words(used, m->allocated));
}

/* The counts of a device, or of pinned memory when it is TPU_PINNED; held until let_go. */
static tpu_memory *hold(int device) {
  if (device != TPU_PINNED) {
    core_lock();
    return &stats[device];
  }
  pthread_mutex_lock(&pinned_lock);
  return &pinned;
}

static void let_go(int device) {
  if (device == TPU_PINNED)
    pthread_mutex_unlock(&pinned_lock);
  else
    core_unlock();
}

void tpu_memory_stats(int device, tpu_memory *out) {
  *out = *hold(device);
  if (device != TPU_PINNED) out->limit = limit_of(device);
  let_go(device);
}

void tpu_memory_set_fraction(int device, double fraction) {
  core_lock();
  stats[device].all_but = 1 - fraction;
  core_unlock();
}

void tpu_memory_reset_peak(int device) {
  tpu_memory *m = hold(device);
  m->allocated_peak = m->allocated;
  m->buffers_peak = m->buffers;
  let_go(device);
}

void tpu_memory_reset_accumulated(int device) {
  tpu_memory *m = hold(device);
  m->allocated_total = m->freed_total = m->buffers_total = m->buffers_freed_total = m->ooms = m->retries = 0;
  let_go(device);
}
