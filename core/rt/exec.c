/* Executables: compile, (de)serialise, launch. Thread-safe; an rt_exec is constant once made. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rt/rt_int.h"
#include "tpu.h"

struct rt_exec {
  PJRT_LoadedExecutable *loaded; /* owned */
  PJRT_Executable *program;      /* owned */
  size_t nouts;
};

int (*rt_interrupt_hook)(void);

enum { POLL_MS = 50, PROGRESS_AFTER_MS = 1000, STACK = 64 << 20 };

/* CompileOptionsProto: one replica, one partition ... */
#define ONE "\x1a\x04\x20\x01\x28\x01"
/* ... portable: runs on the device named at launch ... */
#define PORTABLE "\x20\x01"
/* ... and max and min that keep NaN: {key, bool false} among the option overrides. */
#define NAN_KEY  "xla_cpu_enable_fast_min_max"
#define KEEP_NAN "\x3a\x21\x0a\x1b" NAN_KEY "\x12\x02\x10\x00"
_Static_assert(sizeof NAN_KEY - 1 == 0x1b, "the length that KEEP_NAN writes");

void rt_exec_free(rt_exec *e) {
  if (!e) return;
  if (rt_usable()) {
    if (e->program) rt_destroy(PJRT_EXECUTABLE_DESTROY, e->program);
    if (e->loaded) rt_destroy(PJRT_LOADED_DESTROY, e->loaded);
  }
  free(e);
}

/* Takes `loaded`, also on error. */
static tpu_error *wrap(PJRT_LoadedExecutable *loaded, rt_exec **out) {
  rt_exec *e = tpu_xcalloc(1, sizeof *e);
  e->loaded = loaded;
  PJRT_ARGS(pjrt_ref_out, get, .object = loaded);
  tpu_error *error = rt_call(PJRT_LOADED_GET_EXECUTABLE, get);
  if (!error) {
    e->program = get->out.pointer;
    PJRT_ARGS(pjrt_ref_out, count, .object = e->program);
    error = rt_call(PJRT_EXECUTABLE_NUM_OUTPUTS, count);
    e->nouts = count->out.size;
  }
  if (error) {
    rt_exec_free(e);
    e = NULL;
  }
  *out = e;
  return error;
}

static tpu_error *compile_now(const char *mlir, size_t n, rt_exec **out) {
  *out = NULL;
  PJRT_ARGS(pjrt_program, program, .code = mlir, .code_size = n, .format = "mlir", .format_size = 4);
  PJRT_ARGS(pjrt_compile, a, .client = rt.client, .program = program);
  text options = {0};
  text_add(&options, ONE, sizeof ONE - 1);
  if (rt_portable()) text_add(&options, PORTABLE, sizeof PORTABLE - 1);
  if (rt.is_cpu) text_add(&options, KEEP_NAN, sizeof KEEP_NAN - 1);
  a->options = options.p;
  a->options_size = options.n;
  tpu_error *e = rt_call(PJRT_CLIENT_COMPILE, a);
  text_free(&options);
  return e ? e : wrap(a->executable, out);
}

/* A compile on a thread of its own. The caller waits for it and frees it; one that the caller has left stands
 * in `left` until it is joined: at the next compile, or when the process ends. */
typedef struct job {
  struct job *next; /* of those left */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char *mlir; /* own copy: the caller may leave first */
  const char *what;
  size_t n;
  bool done, abandoned;
  tpu_error *error;
  rt_exec *exec;
  void (*late)(void *, rt_exec *);
  void *late_ctx;
} job;

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static job *left;      /* abandoned, not joined */
static int waited_for; /* jobs whose caller is still there */
static bool leaving;   /* the process ends, by this thread: no other one may begin a compile */
static pthread_t leaver;
static _Thread_local bool compiles; /* this thread is a job's */

static job *job_new(const char *mlir, size_t n) {
  job *j = tpu_xcalloc(1, sizeof *j);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&j->changed, &attr);
  pthread_condattr_destroy(&attr);
  pthread_mutex_init(&j->lock, NULL);
  j->mlir = memcpy(tpu_xmalloc(n), mlir, n);
  j->n = n;
  return j;
}

static void job_free(job *j) {
  pthread_cond_destroy(&j->changed);
  pthread_mutex_destroy(&j->lock);
  free(j->mlir);
  free(j);
}

static void *compile_thread(void *arg) {
  job *j = arg;
  rt_exec *exec;
  compiles = true;
  tpu_error *error = compile_now(j->mlir, j->n, &exec);
  pthread_mutex_lock(&j->lock);
  j->exec = exec;
  j->error = error;
  j->done = true;
  bool abandoned = j->abandoned;
  pthread_cond_signal(&j->changed);
  pthread_mutex_unlock(&j->lock);
  if (!abandoned) return NULL; /* the caller has the results now */
  tpu_error_free(error);
  if (j->late)
    j->late(j->late_ctx, exec);
  else
    rt_exec_free(exec);
  return NULL;
}

/* A thread that takes no signal: Ctrl-C belongs to the thread that waits. */
static bool start_thread(job *j) {
  sigset_t all, old;
  sigfillset(&all);
  const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) sigdelset(&all, fatal[i]);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK); /* the parser and the passes recurse */
  pthread_sigmask(SIG_SETMASK, &all, &old);
  bool ok = !pthread_create(&j->thread, &attr, compile_thread, j);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  return ok;
}

/* Joins the threads that were left and are over; is one of them still there? Under jobs_lock. */
static bool join_left(void) {
  for (job **at = &left; *at;) {
    job *j = *at;
    if (pthread_tryjoin_np(j->thread, NULL)) {
      at = &j->next;
      continue;
    }
    *at = j->next;
    job_free(j);
  }
  return left;
}

/* False: the process is ending. */
static bool begin_waiting(void) {
  pthread_mutex_lock(&jobs_lock);
  bool may = !leaving || pthread_equal(leaver, pthread_self());
  waited_for += may;
  join_left();
  pthread_mutex_unlock(&jobs_lock);
  return may;
}

static void at_exit(void) { rt_finish_compiles(NULL); }

/* `j`: the job that is left behind, NULL when it is over. */
static void end_waiting(job *j) {
  pthread_mutex_lock(&jobs_lock);
  waited_for--;
  if (j) {
    j->next = left;
    left = j;
    /* for who ends the process otherwise than Python does; the handler set last runs first, before the
     * plugin takes down what the compile uses */
    atexit(at_exit);
  }
  pthread_mutex_unlock(&jobs_lock);
}

void rt_begin_compiles(void) {
  pthread_mutex_lock(&jobs_lock);
  leaving = false;
  pthread_mutex_unlock(&jobs_lock);
}

bool rt_finish_compiles(int (*interrupted)(void)) {
  if (atomic_load(&rt_forked) || compiles) return true;
  bool shown = false;
  for (int ms = 0;; ms += POLL_MS / 10) {
    pthread_mutex_lock(&jobs_lock);
    leaving = true;
    leaver = pthread_self();
    bool busy = join_left() || waited_for;
    pthread_mutex_unlock(&jobs_lock);
    bool stop = busy && interrupted && interrupted();
    if (busy && !shown && ms >= PROGRESS_AFTER_MS && isatty(2)) {
      fprintf(stderr, "torch_tpu: a compile has to end before the process can%s\n",
              interrupted ? "; Ctrl-C ends it at once" : "");
      shown = true;
    }
    if (!busy || stop) return !busy;
    nanosleep(&(struct timespec){.tv_nsec = POLL_MS / 10 * 1000000}, NULL);
  }
}

static void show_progress(const job *j, int ms) {
  fprintf(stderr, "\r\033[Ktorch_tpu: compiling %s (%zu KiB of StableHLO), %d s", j->what, j->n / 1024 + 1,
          ms / 1000);
  fflush(stderr);
}

/* Waits for the job to be done. False: interrupted, and the job is abandoned. Under the job's lock. */
static bool wait_for(job *j) {
  bool shown = false;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  for (int ms = POLL_MS; !j->done; ms += POLL_MS) {
    until.tv_nsec += POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int rc = 0;
    while (!j->done && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&j->changed, &j->lock, &until);
    if (j->done) break;
    pthread_mutex_unlock(&j->lock); /* the hook may take other locks, and the GIL */
    bool give_up = rt_interrupt_hook && rt_interrupt_hook();
    if (ms >= PROGRESS_AFTER_MS && ms % PROGRESS_AFTER_MS < POLL_MS && isatty(2)) {
      show_progress(j, ms);
      shown = true;
    }
    pthread_mutex_lock(&j->lock);
    if (give_up && !j->done) {
      j->abandoned = true;
      break;
    }
  }
  if (shown) fprintf(stderr, "\r\033[K");
  return j->done;
}

tpu_error *rt_compile(const char *mlir, size_t n, const char *what, void (*late)(void *ctx, rt_exec *e),
                      void *late_ctx, rt_exec **out) {
  *out = NULL;
  if (!rt_usable()) return rt_not_open();
  if (!mlir || !n) return tpu_err(TPU_INTERNAL, "rt_compile: an empty program");
  if (!begin_waiting()) return tpu_err(TPU_RUNTIME, "no program is compiled any more: the process is ending");
  job *j = job_new(mlir, n);
  j->what = what;
  j->late = late;
  j->late_ctx = late_ctx;
  if (!start_thread(j)) {
    job_free(j);
    tpu_error *e = compile_now(mlir, n, out);
    end_waiting(NULL);
    return e;
  }
  pthread_mutex_lock(&j->lock);
  bool done = wait_for(j);
  pthread_mutex_unlock(&j->lock);
  if (!done) {
    end_waiting(j);
    return tpu_err(TPU_INTERRUPTED, "interrupted while compiling");
  }
  pthread_join(j->thread, NULL);
  end_waiting(NULL);
  *out = j->exec;
  tpu_error *error = j->error;
  job_free(j);
  return error;
}

tpu_error *rt_exec_serialize(const rt_exec *e, text *out) {
  if (!rt_usable()) return rt_not_open();
  PJRT_ARGS(pjrt_serialize, a, .executable = e->program);
  TRY(rt_call(PJRT_EXECUTABLE_SERIALIZE, a));
  text_add(out, a->bytes, a->n);
  if (a->free_owner) a->free_owner(a->owner);
  return NULL;
}

tpu_error *rt_exec_load(const void *bytes, size_t n, rt_exec **out) {
  *out = NULL;
  if (!rt_usable()) return rt_not_open();
  if (!bytes || !n) return tpu_err(TPU_INTERNAL, "rt_exec_load: no bytes");
  PJRT_ARGS(pjrt_deserialize, a, .client = rt.client, .bytes = bytes, .n = n);
  TRY(rt_call(PJRT_DESERIALIZE_AND_LOAD, a));
  return wrap(a->executable, out);
}

int rt_exec_num_outputs(const rt_exec *e) { return (int)e->nouts; }

static tpu_error *refuse(const rt_exec *e, int device, PJRT_Buffer *const *args, size_t nargs, size_t nouts) {
  if (!rt_usable()) return rt_not_open();
  if (!rt_has_device(device)) return rt_bad_device(device);
  if (nouts != e->nouts) {
    return tpu_err(TPU_INTERNAL, "a program with %zu outputs was run for %zu", e->nouts, nouts);
  }
  for (size_t i = 0; i < nargs; i++) {
    if (!args[i]) return tpu_err(TPU_INTERNAL, "argument %zu of a program is missing", i);
  }
  return NULL;
}

/* The launch went well but cannot be watched: its outputs are given up, the caller must not trust it. */
static tpu_error *give_up(tpu_error *error, PJRT_Buffer **outs, size_t nouts) {
  for (size_t i = 0; i < nouts; i++) {
    rt_buffer_free(outs[i]);
    outs[i] = NULL;
  }
  return error;
}

static bool times;
static double in_execute;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double tpu_debug_time_launches(bool on) {
  double spent = in_execute;
  times = on, in_execute = 0;
  return spent;
}

tpu_error *rt_execute(rt_exec *e, int device, PJRT_Buffer *const *args, size_t nargs,
                      const int64_t *no_donate, size_t n_no_donate, PJRT_Buffer **outs, size_t nouts) {
  bool fine = rt_usable() && rt_has_device(device) && nouts == e->nouts;
  for (size_t i = 0; i < nargs; i++) fine &= args[i] != NULL;
  if (!fine) return refuse(e, device, args, nargs, nouts);
  rt_device *d = &rt.devices[device];
  PJRT_ARGS(pjrt_execute_options, options, .no_donate = no_donate, .num_no_donate = n_no_donate);
  PJRT_Event *done = NULL;
  PJRT_ARGS(pjrt_execute, a, .executable = e->loaded, .options = options, .argument_lists = &args,
            .num_devices = 1, .num_args = nargs, .output_lists = &outs);
  if (rt_portable()) a->device = d->device;
  if (!nouts) a->complete_events = &done;
  double start = times ? seconds() : 0;
  TRY(rt_call(PJRT_LOADED_EXECUTE, a));
  if (times) in_execute += seconds() - start;
  if (nouts) {
    PJRT_ARGS(pjrt_ref_out, ready, .object = outs[0]);
    tpu_error *error = rt_call(PJRT_BUFFER_READY_EVENT, ready);
    if (error) return give_up(error, outs, nouts);
    done = ready->out.pointer;
  }
  if (done) rt_ring_push(d, done);
  return NULL;
}
