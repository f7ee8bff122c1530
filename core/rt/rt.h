/* The runtime: everything that touches PJRT, and the only folder that may include rt/pjrt_abi.h.
 *
 * One plugin and one client a process. A buffer is a PJRT_Buffer, owned by whoever got it from an
 * `out_` parameter; nothing here is refcounted (value/cell.h does that). All functions are
 * thread-safe; none takes the core lock, none calls Python except through the interrupt hook. */
#ifndef TPU_RT_RT_H
#define TPU_RT_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"

typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct rt_exec rt_exec;   /* a loaded executable; runs on any device */
typedef struct rt_event rt_event; /* completion of a launch or a transfer */

/* Where the plugin comes from, found without loading anything (design 9: TORCH_TPU_PJRT_PLUGIN, a TPU host's
 * libtpu, an installed CPU plugin package). The candidates of installed packages are given by Python through
 * rt_add_candidate, since only Python knows its site-packages; earlier ones are preferred. */
typedef struct rt_found {
  const char *path; /* NULL: nothing found, and `why` is the sentence that names the package to install */
  const char *why;  /* "TORCH_TPU_PJRT_PLUGIN is set", "package lammps-jax-pjrt-cpu", ... */
  bool is_cpu;      /* guessed from the path before loading, known after */
} rt_found;
void rt_add_candidate(const char *path, const char *why, bool is_cpu);
rt_found rt_find_plugin(void);

/* Loads the plugin and makes the client. Idempotent. An error is not kept: a later call tries again.
 * In a forked child of a process that had opened: RuntimeError naming spawn. */
tpu_error *rt_open(void);
bool rt_is_open(void);
/* For tests: use this PJRT_Api instead of a plugin file (the fake plugin). Before rt_open. */
void rt_use_api(const void *pjrt_api);
/* Devices without opening: TORCH_TPU_NUM_DEVICES (CPU plugin, default 1), chips on the PCI bus of a TPU host,
 * 0 where no plugin is found. After rt_open: the client's count. */
int rt_device_count(void);

typedef struct rt_info {
  const char *plugin_path, *plugin_why;
  const char *platform;         /* "cpu", "tpu" */
  const char *platform_version; /* the plugin's own string */
  const char *stablehlo_version;
  const char *fingerprint; /* bytes for cache keys: path-independent identity of the plugin build (file size,
                              build id, versions), XLA_FLAGS, LIBTPU_INIT_ARGS, CPU features */
  int api_minor;
  int device_count;
  bool is_cpu;
} rt_info;
const rt_info *rt_get_info(void);       /* only after rt_open */
const char *rt_device_kind(int device); /* "cpu", "TPU v6 lite" */
/* Bytes in use / limit as the plugin reports them; false where it does not (CPU). */
bool rt_memory_stats(int device, int64_t *in_use, int64_t *limit);

/* Called about every 50 ms while a compile runs longer than that; returns nonzero to give up waiting
 * (Ctrl-C). The finished program is then still handed to `late` of rt_compile. NULL: never. */
extern int (*rt_interrupt_hook)(void);

/* Compiles StableHLO text (entry @main). Carries the options of every compile: 1 replica, 1 partition,
 * portable unless a CPU client has but one device, on CPU xla_cpu_enable_fast_min_max=false. Runs on a helper
 * thread while the caller polls the interrupt hook; on TPU_INTERRUPTED the compile goes on and its result
 * (NULL: it failed) is dropped into `late(late_ctx, exec)` when it ends,
 * called then and only then. */
tpu_error *rt_compile(const char *mlir, size_t n, const char *what, void (*late)(void *ctx, rt_exec *e),
                      void *late_ctx, rt_exec **out);
/* The process is about to end: waits for the compiles in flight, whoever began them, since a plugin whose
 * destructors run under a compile crashes. Other threads may begin none from here on. False: `interrupted`
 * (NULL: never), which is asked every 5 ms, said so, and only an end without destructors is safe. In a forked
 * child there is nothing to wait for. */
bool rt_finish_compiles(int (*interrupted)(void));
tpu_error *rt_exec_serialize(const rt_exec *e, text *out);
/* Bytes must be ours and verified: the plugin accepts some corrupt ones. */
tpu_error *rt_exec_load(const void *bytes, size_t n, rt_exec **out);
int rt_exec_num_outputs(const rt_exec *e);
void rt_exec_free(rt_exec *e);

/* Asynchronous launch on one device. `args` are borrowed and non-NULL; `outs` has room for num_outputs and
 * receives owned buffers. Inputs that the program donates are consumed unless their index is in no_donate;
 * their handles must still be freed. On error no outs are written. The launch is entered into the device's
 * in-flight ring, so that rt_sync sees it even when every output is dropped at once. Refused before the
 * plugin is called: NULL args, wrong counts. */
tpu_error *rt_execute(rt_exec *e, int device, PJRT_Buffer *const *args, size_t nargs,
                      const int64_t *no_donate, size_t n_no_donate, PJRT_Buffer **outs, size_t nouts);

/* Host -> device; the data is copied before return (the source may be overwritten at once). byte_strides
 * NULL: dense row-major. dims with a 0 are fine, data may then be NULL. */
tpu_error *rt_upload(const void *data, tpu_dtype dt, const int64_t *dims, size_t rank,
                     const int64_t *byte_strides, int device, PJRT_Buffer **out);
/* Device -> host, dense row-major, `n` bytes exactly; waits. */
tpu_error *rt_download(PJRT_Buffer *b, void *dst, size_t n);
/* CPU plugin: waits until ready and gives the buffer's own memory (valid as long as the buffer; read only).
 * Others: *out = NULL and no error. */
tpu_error *rt_host_pointer(PJRT_Buffer *b, const void **out);
tpu_error *rt_await(PJRT_Buffer *b);
bool rt_is_ready(PJRT_Buffer *b);
/* Has a launch taken it over? True also where that cannot be told. */
bool rt_is_taken(PJRT_Buffer *b);
tpu_error *rt_copy_to_device(PJRT_Buffer *b, int device, PJRT_Buffer **out);
void rt_buffer_free(PJRT_Buffer *b); /* never fails; NULL is fine; a no-op in a forked child */
/* Checks a buffer against what a program expects (the plugin compares byte sizes only). */
tpu_error *rt_buffer_check(PJRT_Buffer *b, tpu_dtype dt, const int64_t *dims, size_t rank);

/* Waits for every launch of the device (-1: all devices); the first device-side error is returned. */
tpu_error *rt_sync(int device);
/* An event of all that was launched on the device so far. */
rt_event *rt_event_record(int device);
bool rt_event_ready(const rt_event *e);
tpu_error *rt_event_wait(rt_event *e);
/* Wall-clock nanoseconds (CLOCK_MONOTONIC) at which the recorded work was done; waits for it. */
int64_t rt_event_time_ns(rt_event *e);
void rt_event_free(rt_event *e);

#endif
