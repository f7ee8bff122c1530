/* torch_tpu core: the one public header. The glue (C++) and the Python module (_C, C) see nothing else.
 *
 * The core knows nothing of PyTorch, Python or C++; a dtype in this header is a c10::ScalarType number, so
 * that callers need no table. Conventions:
 *  - A fallible function returns `tpu_error *`, NULL is success; the caller owns it (tpu_error_free).
 *  - Arrays and tensors in a call are borrowed for the duration of the call.
 *  - Every function may be called from any thread; the core has one lock of its own and calls nothing of
 * Python under it.
 *  - No function starts the runtime unless its comment says so. */
#ifndef TPU_H
#define TPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the Python module calls these across a shared library */

/* --- devices --- */
/* Finds and loads the plugin, makes the client. Idempotent. What every dispatch does by itself on first use.
 */
tpu_error *tpu_open(void);
bool tpu_is_open(void);
int tpu_device_count(void);             /* without starting the runtime; 0 = no plugin found */
tpu_error *tpu_device_check(int index); /* torch's words for an index that does not exist */
tpu_error *tpu_synchronize(int device); /* flushes, waits, raises what failed; -1 = all devices */
/* Flushes the fused trace without waiting. */
tpu_error *tpu_flush(void);

/* --- storages --- */
/* What a c10::DataPtr of ours has as context. One owner: the DataPtr. */
typedef struct tpu_storage tpu_storage;
tpu_error *tpu_storage_new(int device, size_t nbytes,
                           tpu_storage **out); /* runs nothing, allocates nothing on the device */
void tpu_storage_free(tpu_storage *s);         /* any thread, at any time, also after exit began */
/* Honest address: unique range, base of the storage. Non-NULL also for 0 bytes. Not readable by the host. */
void *tpu_storage_address(const tpu_storage *s);
size_t tpu_storage_nbytes(const tpu_storage *s);
int tpu_storage_device(const tpu_storage *s);
tpu_error *tpu_storage_resize(tpu_storage *s,
                              size_t nbytes); /* keeps the common prefix; a growing one moves the address */
/* The live storage whose range holds `address`, or NULL (for pointers that came back without their DataPtr).
 */
tpu_storage *tpu_storage_find(const void *address);
uint64_t tpu_storage_version(const tpu_storage *s);

/* --- tensors and calls --- */
enum {
  TPU_T_UNDEFINED = 1, /* an undefined tensor (optional argument not given) */
  TPU_T_HOST = 2,      /* 0-dim CPU tensor: `host` points at its value */
  TPU_T_WRAPPED = 4,   /* a Python number in tensor's clothes: promotes as a number */
  TPU_T_CONJ = 8,      /* the lazy conjugate bit */
  TPU_T_NEG = 16       /* the lazy negative bit */
};

typedef struct tpu_tensor {
  tpu_storage *storage;           /* NULL when HOST or UNDEFINED */
  const void *host;               /* HOST only */
  const int64_t *sizes, *strides; /* in elements of dtype */
  int64_t offset;                 /* in elements of dtype */
  void *handle;                   /* the glue's own (TensorImpl *), given back in callbacks */
  int16_t dtype;                  /* c10::ScalarType */
  int16_t device;
  uint8_t rank, flags;
} tpu_tensor;

typedef enum tpu_tag {
  TPU_A_NONE, /* None */
  TPU_A_TENSOR,
  TPU_A_TENSORS, /* n tensors (undefined ones where the schema says Tensor?[]) */
  TPU_A_INT,     /* int, SymInt, also Layout, MemoryFormat, Device index */
  TPU_A_DOUBLE,
  TPU_A_BOOL,
  TPU_A_SCALAR_I, /* schema type Scalar holding an int */
  TPU_A_SCALAR_D,
  TPU_A_SCALAR_B,
  TPU_A_SCALAR_C, /* p -> double[2] */
  TPU_A_INTS,
  TPU_A_DOUBLES,
  TPU_A_BOOLS,
  TPU_A_SCALARS, /* n arguments of the four scalar tags */
  TPU_A_DTYPE,   /* i = c10::ScalarType */
  TPU_A_STRING,  /* n bytes at s */
  TPU_A_SIZES    /* the core's own: INTS of which those with SIZE_GENERIC set are generic sizes */
} tpu_tag;
#define SIZE_GENERIC ((int64_t)1 << 62)
static inline bool size_is_generic(int64_t v) { return v > 0 && (v & SIZE_GENERIC); }

typedef struct tpu_arg {
  uint8_t tag; /* tpu_tag */
  uint32_t n;  /* length of lists and strings */
  union {
    int64_t i;
    double d;
    const tpu_tensor *t; /* TENSOR: one; TENSORS: n */
    const int64_t *is;   /* INTS, BOOLS (as 0/1) */
    const double *ds;    /* DOUBLES, SCALAR_C */
    const struct tpu_arg *as;
    const char *s;
  } u;
} tpu_arg;

/* A random number stream (design 7). Owned by the glue's generator; offset counts Philox blocks of four
 * words. */
typedef struct tpu_philox {
  uint64_t seed, offset;
} tpu_philox;

/* A kernel = row + the way its results leave: made at registration from the schema. */
typedef struct tpu_row tpu_row;
typedef enum tpu_variant {
  TPU_FUNCTIONAL,
  TPU_INPLACE,
  TPU_OUT,
  TPU_OUT_EXACT /* out tensors have the results' dtypes: forms that torch generates from the functional one */
} tpu_variant;

typedef struct tpu_result {
  tpu_storage *storage;           /* new, owned by the receiver; NULL: undefined tensor */
  const int64_t *sizes, *strides; /* valid until the next call on this thread */
  int16_t dtype, device;
  uint8_t rank;
} tpu_result;

typedef struct tpu_call {
  const tpu_row *row;
  tpu_variant variant;
  int nargs;
  const tpu_arg *args; /* schema order; OUT: without the out arguments */
  /* INPLACE: the tensors that receive the results, in order (usually just self; foreach: the self list; they
   * are arguments too). OUT: the out tensors. FUNCTIONAL: 0. */
  int nouts;
  const tpu_tensor *outs;
  int device;         /* device of the first tpu tensor, or where a factory's result shall live */
  tpu_philox *philox; /* the generator argument, or the device's default; NULL when the op draws nothing */
  /* results of FUNCTIONAL (and extra results of the others), written by tpu_dispatch; the array is the
   * thread's own */
  int nresults;
  const tpu_result *results;
  const char *declined; /* set when tpu_dispatch declined: why (valid until the next call) */
} tpu_call;

/* Rows by name ("add.Tensor", without "aten::"); n rows, 0 <= i < n. */
int tpu_num_rows(void);
const tpu_row *tpu_row_at(int i);
const tpu_row *tpu_row_find(const char *name);
const char *tpu_row_name(const tpu_row *r);
bool tpu_row_is_random(const tpu_row *r);
bool tpu_row_is_internal(const tpu_row *r); /* "tpu::" rows: no ATen schema */
bool tpu_row_is_shared(const tpu_row *r);   /* the in-place form takes an expanded self */
/* What torch's kernel asks of the memory of a written tensor and of the arguments: see ATen/MemoryOverlap.h.
 */
typedef enum tpu_overlap {
  TPU_OVERLAP_FREE, /* nothing */
  TPU_OVERLAP_SELF, /* with argument 0 all or nothing in common */
  TPU_OVERLAP_EACH, /* with every argument all or nothing in common: elementwise kernels */
  TPU_OVERLAP_NONE  /* nothing in common, but for the argument that an in-place form writes */
} tpu_overlap;
tpu_overlap tpu_row_overlap(const tpu_row *r);

/* Runs (strict, debug) or records (fused) one call. Starts the runtime.
 * On success call->declined is NULL, or says why the core does not support this case: then nothing happened
 * and the caller takes the CPU fallback with its untouched arguments. */
tpu_error *tpu_dispatch(tpu_call *call);

/* Set by the glue: make `out` (a handle of a tpu_tensor) have these sizes, contiguous, warning as torch does
 * when it was not empty; fills *t anew. Called without the core's lock. NULL result = fine. */
extern tpu_error *(*tpu_resize_out)(tpu_tensor *t, int rank, const int64_t *sizes);

/* Set by the glue: is this tensor (a handle) a leaf that requires gradients? Called under the core's lock. */
extern bool (*tpu_is_parameter)(const void *handle);

/* --- graphs: calls recorded once and launched as a whole from then on (torch.compile) ---
 * tpu_graph_run launches what was recorded for exactly such inputs (types, views, sizes, which share a
 * storage, numbers). Where there is nothing it sets *ran = false, and the caller records: tpu_graph_begin,
 * the calls, tpu_graph_end, which launches them. Between the two the thread's calls on the device run
 * nothing. What cannot be kept (a value was read, a tensor came from elsewhere) runs as any other calls do,
 * and is not kept. */
typedef struct tpu_graph tpu_graph;
typedef struct tpu_graph_inputs {
  int n, nnumbers;
  const tpu_tensor *tensors; /* of the graph's device, or 0-dim CPU numbers; kept alive until tpu_graph_end */
  const int64_t *numbers;
} tpu_graph_inputs;
typedef struct tpu_graph_out {
  int input;   /* the result is this input itself; -1: it is not */
  int view_of; /* it lies in this input's storage; -1: in storages[storage] */
  int storage;
  int16_t dtype;
  uint8_t rank, flags;
  int64_t offset;
  int64_t *sizes, *strides;
} tpu_graph_out;
typedef struct tpu_graph_results { /* what it points at is valid until the thread's next call */
  int nouts, nstorages, nnumbers;
  const tpu_graph_out *outs;
  tpu_storage *const *storages; /* each owned by the receiver */
  const int64_t *numbers;       /* as given to tpu_graph_end */
} tpu_graph_results;

/* `generic`: for each of n inputs the dims (bit mask) whose size varies from call to call. `inlined`: one
 * program, whatever repeats in it. `fixed`: no size varies, in the graph either. Each graph has one owner. */
tpu_graph *tpu_graph_new(const char *name, int device, bool inlined, bool fixed, int n,
                         const uint32_t *generic);
void tpu_graph_free(tpu_graph *g);
int tpu_graph_device(const tpu_graph *g);
/* `philox` is the device's generator: read, and moved on. */
tpu_error *tpu_graph_run(tpu_graph *g, const tpu_graph_inputs *in, tpu_philox *philox, bool *ran,
                         tpu_graph_results *out);
tpu_error *tpu_graph_begin(tpu_graph *g, const tpu_graph_inputs *in, const tpu_philox *philox);
typedef struct tpu_graph_ending {
  int nouts, nnumbers;
  const tpu_tensor *outs;
  const int64_t *numbers;   /* handed out again by each run */
  const tpu_philox *philox; /* the generator after the calls */
} tpu_graph_ending;
/* *why: NULL, or why the recording is not kept (static). */
tpu_error *tpu_graph_end(const tpu_graph_ending *end, const char **why);
const char *tpu_graph_broken(void); /* why what this thread records will not be kept (static), or NULL */
void tpu_graph_abort(void);         /* instead of tpu_graph_end: what was recorded runs when it is needed */
/* For each kind of inputs that was recorded: [{"inputs": [of each value: the input that has it], "outputs":
 * [{"input" | "view_of" | "slot"}], "run": see record_programs_json}]. */
char *tpu_graph_programs_json(tpu_graph *g);
char *tpu_graph_json(tpu_graph *g); /* [{ops, launches, programs: distinct, files}] of what is recorded */

/* --- host transfers --- */
/* dst (tpu) = src (host memory of src_dtype, strides in elements); same sizes. The source may be overwritten
 * right after. */
tpu_error *tpu_upload(const void *src, int src_dtype, const int64_t *src_strides, const tpu_tensor *dst);
/* host memory, dense row-major in src's own dtype <- src (tpu). Waits. conj/neg bits are resolved. */
tpu_error *tpu_download(const tpu_tensor *src, void *dst);
/* tpu -> tpu, any dtypes, devices, geometry; sizes must broadcast from src to dst. */
tpu_error *tpu_copy(const tpu_tensor *src, const tpu_tensor *dst);

/* --- streams, events --- */
typedef struct tpu_event tpu_event;
tpu_error *tpu_event_record(int device, tpu_event **out); /* flushes */
bool tpu_event_query(tpu_event *e);
tpu_error *tpu_event_wait(tpu_event *e);                       /* host waits */
double tpu_event_elapsed_ms(tpu_event *start, tpu_event *end); /* waits for both */
void tpu_event_free(tpu_event *e);

/* --- modes, memory, statistics --- */
typedef enum tpu_mode { TPU_MODE_STRICT, TPU_MODE_DEBUG, TPU_MODE_FUSED } tpu_mode;
tpu_mode
tpu_get_mode(void); /* at first from TORCH_TPU_EAGER_MODE, TPU_LAUNCH_BLOCKING, TORCH_TPU_DEFER_AND_FUSE */
tpu_error *tpu_set_mode(tpu_mode m);  /* flushes */
void tpu_set_matmul_precision(int p); /* 0 default, 1 high, 2 highest */
void tpu_set_default_dtype(
    int dtype); /* torch.set_default_dtype: what integers become where floats are needed */
bool tpu_sizes_auto(void);
void tpu_set_sizes_auto(bool on);
char *tpu_sizes_json(void); /* what turned generic and why, which ops had to do without: {marks, exact} */

enum { TPU_PINNED = -1 }; /* stands for a device: pinned host memory */
typedef struct tpu_memory {
  int64_t allocated, allocated_peak;                                        /* bytes of live device buffers */
  int64_t buffers, buffers_peak;                                            /* their number */
  int64_t allocated_total, freed_total, buffers_total, buffers_freed_total; /* since start or reset */
  int64_t limit; /* bytes: TORCH_TPU_MEMORY_LIMIT, the plugin's, or the host's memory on a CPU plugin */
  int64_t ooms, retries;
  double all_but; /* the part of the limit that this process may not have */
} tpu_memory;
void tpu_memory_stats(int device, tpu_memory *out);
void tpu_memory_reset_peak(int device);
/* This process may have that part (0 ... 1) of the limit, which stays what it is. */
void tpu_memory_set_fraction(int device, double fraction);
void tpu_memory_reset_accumulated(int device);
void tpu_pinned_count(int64_t bytes); /* more, or less when negative */

/* The text answers (info, compile statistics, explanations) are JSON, owned by the caller (free()). Never
 * NULL. */
char *tpu_info_json(void); /* plugin, why, versions, devices; opens nothing */
char *tpu_compile_stats_json(
    void); /* programs_compiled, programs_loaded, memory_hits, seconds_compiling, programs: [...] */
void tpu_reset_compile_stats(void);
char *tpu_trace_json(void);    /* fused: ops pending, flushes, why each happened */
void tpu_clear_programs(void); /* the memory tier, and the evidence of sizes that vary */

/* A directory of compiled programs; NULL: the host's own. list: {dir, found, entries: [{file, name, ops,
 * seconds, bytes, used: Unix time, state, removed}]}; `check` reads every byte, `fix` throws away what is
 * damaged. prune: least recently used first, to `most` bytes, and all not used for so many seconds (-1: as
 * they like); {dir, found, entries, removed, bytes, left}. export: a whole entry (free()); import adds one
 * that is sound. */
char *tpu_cache_list_json(const char *dir, bool check, bool fix);
char *tpu_cache_prune_json(const char *dir, int64_t most, int64_t seconds);
bool tpu_cache_export(const char *file, char **bytes, size_t *n);
bool tpu_cache_import(const void *bytes, size_t n);

/* CPU fallback bookkeeping: the glue counts, Python reads. */
void tpu_fallback_count(const char *op, const char *why);
char *tpu_fallback_json(void); /* {op: {"count": n, "why": text}} */
void tpu_fallback_reset(void);

/* Plugin candidates of installed packages, from Python, in order of preference. */
void tpu_add_plugin_candidate(const char *path, const char *why, bool is_cpu);
/* Polled while waiting for a compile; nonzero = stop waiting. */
void tpu_set_interrupt_hook(int (*hook)(void));
/* Interpreter exit: flush nothing, free nothing from here on, wait for running compiles. False: the interrupt
 * hook ended the wait, and the process must end without running destructors. */
bool tpu_shutdown(void);

/* Test hooks. */
tpu_error *
tpu_debug_mark_generic(const tpu_tensor *t, int dim, int64_t rung,
                       double fill);       /* re-home t's value with dim padded to rung, padding = fill */
int64_t tpu_debug_disable_masks(bool off); /* how many masks the calls since the last one left out */
double tpu_debug_time_launches(bool on);   /* seconds in the plugin's Execute since the last call */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
