/* What the files of rt/ share. Nobody else includes this, except the tests of rt. */
#ifndef TPU_RT_RT_INT_H
#define TPU_RT_RT_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "rt/pjrt_abi.h"
#include "rt/rt.h"

/* How many launches of a device are remembered; one more waits for the oldest. */
enum { RT_IN_FLIGHT = 64 };

/* Launches that may still run, oldest first. Guarded by `lock`. */
typedef struct rt_ring {
  pthread_mutex_t lock;
  PJRT_Event *slot[RT_IN_FLIGHT]; /* owned */
  unsigned first, n;
  tpu_error *failed; /* the first failure that no rt_sync has returned yet; owned */
} rt_ring;

typedef struct rt_device {
  PJRT_Device *device; /* borrowed from the client */
  char *kind;          /* owned */
  rt_ring ring;
} rt_device;

/* Written by rt_open under its lock before rt_live turns true; constant from then on. */
typedef struct rt_state {
  const PJRT_Api *api;
  PJRT_Client *client;
  rt_device *devices;
  int ndevices;
  bool is_cpu;
  rt_info info;
} rt_state;

extern rt_state rt;
extern atomic_bool rt_live;   /* opened, and not in a forked child */
extern atomic_bool rt_forked; /* in a forked child of a process that had opened */

/* plugin.c: the table of the plugin at found.path, checked; not yet initialised. */
tpu_error *rt_load_plugin(rt_found found, const PJRT_Api **out);
tpu_error *rt_check_api(const char *path, const PJRT_Api *api);
/* Parses TORCH_TPU_NUM_DEVICES. */
tpu_error *rt_wanted_devices(int *out, bool *is_set);
int rt_tpu_chips(void);          /* devices on the PCI bus that are TPUs */
void rt_forget_candidates(void); /* for tests */

/* elf.c: what is wrong with the file, seen before dlopen meets it: "the file is cut short: ..." */
tpu_error *rt_check_elf(const char *path);

/* preflight.c: an unknown word in XLA_FLAGS makes the plugin exit; tries it in a child first. */
tpu_error *rt_check_xla_flags(const PJRT_Api *api, const pjrt_named_value *options, size_t n);

/* client.c */
tpu_error *rt_not_open(void);
tpu_error *rt_bad_device(int device);
void rt_close_for_tests(void);

/* fingerprint.c: a malloc'd line, see rt_info.fingerprint. `path` NULL for a fake plugin. */
char *rt_make_fingerprint(const char *path, const PJRT_Api *api, const rt_info *info, const char *attributes);

/* event.c: takes ownership of `done`. */
void rt_ring_push(rt_device *d, PJRT_Event *done);
/* Waits for the event (owned, destroyed; NULL is fine). */
tpu_error *rt_event_finish(PJRT_Event *e);

/* exec.c: takes rt_finish_compiles back, for tests. */
void rt_begin_compiles(void);

/* Turns a PJRT error into ours and destroys it; `api` is its maker. */
tpu_error *rt_take_error(const PJRT_Api *api, PJRT_Error *e);

static inline tpu_error *rt_call(pjrt_slot slot, void *args) {
  PJRT_Error *e = rt.api->fn[slot](args);
  return __builtin_expect(e != NULL, 0) ? rt_take_error(rt.api, e) : NULL;
}

/* Destroys one object; a failure of that is dropped: there is nothing to do about it. */
static inline void rt_destroy(pjrt_slot slot, void *object) {
  PJRT_ARGS(pjrt_ref, a, .object = object);
  tpu_error_free(rt_call(slot, a));
}

static inline bool rt_usable(void) {
  return __builtin_expect(atomic_load_explicit(&rt_live, memory_order_acquire), 1);
}

/* Programs of a CPU client with one device are bound to it: naming the device costs a launch of a small
 * program 1.0 of 3.4 us. */
static inline bool rt_portable(void) { return !rt.is_cpu || rt.ndevices > 1; }

static inline bool rt_has_device(int device) { return device >= 0 && device < rt.ndevices; }

#endif
