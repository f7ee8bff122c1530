/* Program tiers and compile statistics. See program.h. */
#include "step/program.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/env.h"
#include "base/grow.h"
#include "base/map.h"
#include "step/cache.h"
#include "step/op.h"
#include "tpu.h"

typedef struct program_stat {
  char *name;
  int nops;
  double seconds, when; /* compile or load time; Unix time */
  int64_t bytes;
  bool loaded;
} program_stat;

static map programs; /* text -> program; never freed while the process lives: ops point at them */
static uint64_t clock_of_use;
static struct {
  int64_t compiled, loaded, hits;
  double seconds_compiling, seconds_loading;
  program_stat *list;
  size_t n, cap;
} stats;

static double now(clockid_t c) {
  struct timespec t;
  clock_gettime(c, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(const char *name, int nops, double seconds, int64_t bytes, bool loaded) {
  GROW(stats.list, stats.n, stats.cap, 64);
  stats.list[stats.n++] =
      (program_stat){tpu_xstrdup(name), nops, seconds, now(CLOCK_REALTIME), bytes, loaded};
  *(loaded ? &stats.loaded : &stats.compiled) += 1;
  *(loaded ? &stats.seconds_loading : &stats.seconds_compiling) += seconds;
}

void program_count_hit(void) { stats.hits++; }

/* The disk tier's key: what decides whether the bytes may run here, then the text. */
static void disk_key(const text *mlir, text *key) {
  text_str(key, rt_get_info()->fingerprint);
  text_add(key, "\0program\0", 9);
  text_add(key, mlir->p, mlir->n);
}

static bool from_disk(const text *key, rt_exec **out, int64_t *bytes) {
  text payload = {0};
  bool hit = cache_get(key->p, key->n, &payload);
  if (hit) {
    tpu_error *e = rt_exec_load(payload.p, payload.n, out);
    *bytes = (int64_t)payload.n;
    hit = !e; /* refused by the plugin: compile, and replace the entry */
    tpu_error_free(e);
  }
  text_free(&payload);
  return hit;
}

typedef struct late_ctx {
  text key;
  char *name;
  int nops;
  double start;
} late_ctx;

static void late_free(late_ctx *late) {
  text_free(&late->key);
  free(late->name);
  free(late);
}

static int64_t to_disk(const late_ctx *c, const rt_exec *e) {
  text payload = {0};
  int64_t bytes = 0;
  tpu_error *err = rt_exec_serialize(e, &payload);
  if (!err) {
    const cache_label label = {c->name, c->nops, now(CLOCK_MONOTONIC) - c->start};
    cache_put(c->key.p, c->key.n, payload.p, payload.n, &label);
    bytes = (int64_t)payload.n;
  }
  tpu_error_free(err);
  text_free(&payload);
  return bytes;
}

/* The caller gave up waiting (Ctrl-C); the finished program (NULL: it failed) still reaches the cache. */
static void compile_late(void *ctx, rt_exec *e) {
  late_ctx *late = ctx;
  if (e) {
    to_disk(late, e);
    rt_exec_free(e);
  }
  late_free(late);
}

static tpu_error *compile(const text *mlir, const text *key, const char *name, int nops, rt_exec **out,
                          int64_t *bytes) {
  late_ctx *late = tpu_xcalloc(1, sizeof *late);
  text_add(&late->key, key->p, key->n);
  late->name = tpu_xstrdup(name);
  late->nops = nops;
  late->start = now(CLOCK_MONOTONIC);
  static atomic_int started;
  text what = {0}; /* for who waits at a terminal */
  text_printf(&what, "program %d, %s", atomic_fetch_add(&started, 1) + 1, name);
  tpu_error *e = rt_compile(mlir->p, mlir->n, what.p, compile_late, late, out);
  text_free(&what);
  if (!e) *bytes = to_disk(late, *out);
  if (!e || tpu_error_code(e) != TPU_INTERRUPTED) late_free(late);
  return e;
}

typedef struct origin_of { /* where an executable came from */
  char file[CACHE_NAME];
  bool loaded;
  int64_t bytes;
  double seconds;
} origin_of;

static tpu_error *load_or_compile(const text *mlir, const char *name, int nops, rt_exec **out, origin_of *o) {
  text key = {0};
  disk_key(mlir, &key);
  cache_name_of(o->file, key.p, key.n, "tpu");
  double start = now(CLOCK_MONOTONIC);
  o->loaded = from_disk(&key, out, &o->bytes);
  cache_lock *lock = o->loaded ? NULL : cache_lock_key(key.p, key.n, 120000, rt_interrupt_hook);
  if (!o->loaded && lock)
    o->loaded = from_disk(&key, out, &o->bytes); /* another process compiled it while we waited */
  tpu_error *e = NULL;
  if (!o->loaded) {
    start = now(CLOCK_MONOTONIC);
    e = compile(mlir, &key, name, nops, out, &o->bytes);
  }
  cache_unlock(lock);
  text_free(&key);
  o->seconds = now(CLOCK_MONOTONIC) - start;
  return e;
}

/* TORCH_TPU_DUMP=dir: every program's text as dir/N-name.mlir, for debugging. */
static void dump(const text *mlir, const char *name) {
  static int n;
  const char *dir = env_get("TORCH_TPU_DUMP");
  if (!dir) return;
  char path[512];
  snprintf(path, sizeof path, "%s/%04d-%s.mlir", dir, ++n, name);
  for (char *c = path + strlen(dir) + 1; *c; c++)
    if (*c == ' ' || *c == ':' || *c == '/') *c = '_';
  FILE *f = fopen(path, "w");
  if (!f) return;
  fwrite(mlir->p, 1, mlir->n, f);
  fclose(f);
}

/* --- room for code --- */
/* XLA's CPU plugin maps three or more pieces of memory for a program, and a process may have some 65000 maps
 * (vm.max_map_count): past that the compiler, or whoever asks next, dies of a segmentation fault. So when
 * half of them are in use, the programs that were not used for longest are unloaded; the disk has them. */
enum { LOADS_A_LOOK = 64 };

static int64_t count_maps(void) {
  FILE *f = fopen("/proc/self/maps", "r");
  if (!f) return 0; /* no such limit */
  char buf[1 << 14];
  int64_t n = 0;
  for (size_t k; (k = fread(buf, 1, sizeof buf, f));)
    for (size_t i = 0; i < k; i++) n += buf[i] == '\n';
  fclose(f);
  return n;
}

static int64_t most_maps(void) {
  static int64_t most;
  if (most) return most;
  FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
  long long n = 0;
  most = f && fscanf(f, "%lld", &n) == 1 && n > 0 ? n : INT64_MAX;
  if (f) fclose(f);
  return most;
}

static int by_use(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void unload_older_half(void) {
  uint64_t *uses = tpu_xmalloc((programs.n + 1) * sizeof *uses);
  size_t n = 0, it = 0;
  for (program *p; (p = map_next(&programs, &it));)
    if (p->exec) uses[n++] = p->used;
  qsort(uses, n, sizeof *uses, by_use);
  uint64_t middle = n ? uses[n / 2] : 0;
  free(uses);
  it = 0;
  for (program *p; (p = map_next(&programs, &it));) {
    if (!p->exec || p->used >= middle) continue;
    rt_exec_free(p->exec);
    p->exec = NULL;
  }
}

static void make_room(void) {
  static int loads;
  if (++loads % LOADS_A_LOOK || count_maps() < most_maps() / 2) return;
  unload_older_half();
}

bool program_ready(program *p) {
  if (!p || !p->exec) return false;
  p->used = ++clock_of_use;
  return true;
}

tpu_error *program_get(const text *mlir, const char *name, int nops, program **out) {
  uint64_t h = hash_bytes(mlir->p, mlir->n);
  *out = map_get(&programs, mlir->p, mlir->n, h);
  if (program_ready(*out)) {
    stats.hits++;
    return NULL;
  }
  dump(mlir, name);
  rt_exec *exec = NULL;
  origin_of o = {0};
  core_pause();
  tpu_error *e = load_or_compile(mlir, name, nops, &exec, &o);
  core_lock();
  if (e) return tpu_err_prefix(e, "compiling %s", name);
  *out = map_get(&programs, mlir->p, mlir->n, h); /* another thread was faster */
  if (program_ready(*out)) {
    rt_exec_free(exec);
    return NULL;
  }
  if (!*out) {
    *out = tpu_xcalloc(1, sizeof **out);
    (*out)->mlir = map_put(&programs, mlir->p, mlir->n, h, *out);
    (*out)->length = mlir->n;
  }
  (*out)->exec = exec;
  memcpy((*out)->file, o.file, sizeof o.file);
  program_ready(*out);
  make_room();
  note(name, nops, o.seconds, o.bytes, o.loaded);
  return NULL;
}

void program_clear(void) {
  size_t it = 0;
  for (program *p; (p = map_next(&programs, &it));) {
    rt_exec_free(p->exec);
    free(p);
  }
  map_free(&programs);
  programs = (map){0};
}

/* --- statistics --- */
void tpu_reset_compile_stats(void) {
  core_lock();
  for (size_t i = 0; i < stats.n; i++) free(stats.list[i].name);
  free(stats.list);
  memset(&stats, 0, sizeof stats);
  core_unlock();
}

char *tpu_compile_stats_json(void) {
  text t = {0};
  core_lock();
  text_printf(&t,
              "{\"programs_compiled\": %lld, \"programs_loaded\": %lld, \"memory_hits\": %lld, "
              "\"seconds_compiling\": %.6f, "
              "\"seconds_loading\": %.6f, \"ops_memoised\": %d, \"programs\": [",
              (long long)stats.compiled, (long long)stats.loaded, (long long)stats.hits,
              stats.seconds_compiling, stats.seconds_loading, op_count());
  for (size_t i = 0; i < stats.n; i++) {
    const program_stat *s = &stats.list[i];
    text_printf(&t,
                "%s{\"name\": \"%s\", \"ops\": %d, \"seconds\": %.6f, \"bytes\": %lld, \"when\": %.3f, "
                "\"loaded\": %s}",
                i ? ", " : "", s->name, s->nops, s->seconds, (long long)s->bytes, s->when,
                s->loaded ? "true" : "false");
  }
  core_unlock();
  text_str(&t, "]}");
  return t.p;
}
