/* Device memory accounting. See memory.h; the public functions are in tpu.h. */
#include "value/memory.h"

#include <unistd.h>

#include "base/env.h"
#include "tpu.h"
#include "value/value.h"

static tpu_memory stats[TPU_MAX_DEVICES];

void memory_count(int device, int64_t bytes) {
  tpu_memory *m = &stats[device];
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

tpu_error *memory_reserve(int device, int64_t bytes) {
  tpu_memory *m = &stats[device];
  int64_t limit = limit_of(device);
  if (m->allocated + bytes <= limit) return NULL;
  m->ooms++;
  const double mib = 1024.0 * 1024.0;
  return tpu_err(TPU_OUT_OF_MEMORY,
                 "TPU out of memory. Tried to allocate %.2f MiB. TPU %d has a total capacity of %.2f MiB of "
                 "which %.2f MiB "
                 "is free; %.2f MiB is allocated by PyTorch. Free tensors or use a smaller batch "
                 "(TORCH_TPU_MEMORY_LIMIT "
                 "sets the limit on a CPU plugin).",
                 (double)bytes / mib, device, (double)limit / mib, (double)(limit - m->allocated) / mib,
                 (double)m->allocated / mib);
}

void tpu_memory_stats(int device, tpu_memory *out) {
  core_lock();
  *out = stats[device];
  out->limit = limit_of(device);
  core_unlock();
}

void tpu_memory_reset_peak(int device) {
  core_lock();
  stats[device].allocated_peak = stats[device].allocated;
  stats[device].buffers_peak = stats[device].buffers;
  core_unlock();
}

void tpu_memory_reset_accumulated(int device) {
  core_lock();
  tpu_memory *m = &stats[device];
  m->allocated_total = m->freed_total = m->buffers_total = m->buffers_freed_total = m->ooms = m->retries = 0;
  core_unlock();
}
