/* The one client of the process: rt_open, devices, info, fork. rt_open is under a lock; what it writes
 * into `rt` is constant once rt_live is true. A forked child only sees rt_forked. */
#include <stdlib.h>
#include <string.h>

#include "rt/rt_int.h"

rt_state rt;
atomic_bool rt_live, rt_forked;

static atomic_bool opening; /* some thread is inside rt_open */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static const PJRT_Api *test_api;    /* set by rt_use_api */
static const PJRT_Api *initialized; /* the table whose PLUGIN_INITIALIZE was called */

/* How PJRT's words become ours. */
static tpu_code code_of(int32_t pjrt) {
  switch (pjrt) {
  case PJRT_RESOURCE_EXHAUSTED: return TPU_OUT_OF_MEMORY;
  case PJRT_UNIMPLEMENTED: return TPU_NOT_IMPLEMENTED;
  default: return TPU_RUNTIME;
  }
}

static void destroy_error(const PJRT_Api *api, PJRT_Error *e) {
  PJRT_ARGS(pjrt_ref, a, .object = e);
  if (e) api->error_destroy(a);
}

tpu_error *rt_take_error(const PJRT_Api *api, PJRT_Error *e) {
  PJRT_ARGS(pjrt_ref_int, code, .object = e);
  destroy_error(api, api->fn[PJRT_ERROR_GET_CODE](code));
  PJRT_ARGS(pjrt_ref_span, words, .object = e);
  api->error_message(words);
  bool oom = code->value == PJRT_RESOURCE_EXHAUSTED;
  tpu_error *error = tpu_err(code_of(code->value), "%s%.*s", oom ? "TPU out of memory. " : "",
                             words->data ? (int)words->n : 0, words->data ? (const char *)words->data : "");
  destroy_error(api, e);
  return error;
}

tpu_error *rt_not_open(void) {
  if (atomic_load(&rt_forked)) {
    return tpu_err(TPU_RUNTIME, "Cannot re-initialize the TPU runtime in forked subprocess. To use TPU with "
                                "multiprocessing, you must use the 'spawn' start method");
  }
  return tpu_err(TPU_INTERNAL, "the TPU runtime is not open");
}

tpu_error *rt_bad_device(int device) {
  return tpu_err(TPU_RUNTIME,
                 "there is no device tpu:%d: this process has %d (TORCH_TPU_NUM_DEVICES sets the "
                 "number for the CPU plugin)",
                 device, rt.ndevices);
}

static void in_forked_child(void) {
  if (!atomic_load(&rt_live) && !atomic_load(&opening)) return;
  atomic_store(&rt_forked, true);
  atomic_store(&rt_live, false);
}

static char *copy_span(const void *p, size_t n) {
  char *s = tpu_xmalloc(n + 1);
  if (n) memcpy(s, p, n);
  s[n] = 0;
  return s;
}

static tpu_error *ask_string(pjrt_slot slot, void *object, const char **out) {
  PJRT_ARGS(pjrt_ref_span, a, .object = object);
  TRY(rt_call(slot, a));
  *out = copy_span(a->data, a->n);
  return NULL;
}

/* "name=value;" of the plugin's attributes, and the StableHLO version among them. */
static tpu_error *ask_attributes(text *all, const char **stablehlo) {
  PJRT_ARGS(pjrt_span, a);
  TRY(rt_call(PJRT_PLUGIN_ATTRIBUTES, a));
  const pjrt_named_value *v = a->data;
  for (size_t i = 0; i < a->n; i++) {
    text value = {0};
    text_str(&value, "");
    if (v[i].type == PJRT_STRING) text_add(&value, v[i].value.string, v[i].value_size);
    if (v[i].type == PJRT_I64) text_i64(&value, v[i].value.i64);
    if (v[i].type == PJRT_I64_LIST) {
      for (size_t k = 0; k < v[i].value_size; k++) {
        if (k) text_str(&value, ".");
        text_i64(&value, v[i].value.i64_list[k]);
      }
    }
    text_printf(all, "%.*s=%s;", (int)v[i].name_size, v[i].name, value.p);
    static const char wanted[] = "stablehlo_current_version";
    bool hit = v[i].name_size == sizeof wanted - 1 && !memcmp(v[i].name, wanted, sizeof wanted - 1);
    if (hit && !*stablehlo) *stablehlo = tpu_xstrdup(value.p);
    text_free(&value);
  }
  return NULL;
}

static tpu_error *ask_devices(void) {
  PJRT_ARGS(pjrt_ref_span, a, .object = rt.client);
  TRY(rt_call(PJRT_CLIENT_ADDRESSABLE_DEVICES, a));
  PJRT_Device *const *list = a->data;
  if (!a->n) return tpu_err(TPU_RUNTIME, "the PJRT plugin has no device that this process may use");
  rt.devices = tpu_xcalloc(a->n, sizeof *rt.devices);
  for (size_t i = 0; i < a->n; i++) {
    rt_device *d = &rt.devices[rt.ndevices++];
    d->device = list[i];
    pthread_mutex_init(&d->ring.lock, NULL);
    PJRT_ARGS(pjrt_ref_out, description, .object = d->device);
    TRY(rt_call(PJRT_DEVICE_GET_DESCRIPTION, description));
    const char *kind;
    TRY(ask_string(PJRT_DEVICE_DESCRIPTION_KIND, description->out.pointer, &kind));
    d->kind = (char *)(uintptr_t)kind;
  }
  return NULL;
}

static tpu_error *ask_info(rt_found found) {
  TRY(ask_string(PJRT_CLIENT_PLATFORM_NAME, rt.client, &rt.info.platform));
  TRY(ask_string(PJRT_CLIENT_PLATFORM_VERSION, rt.client, &rt.info.platform_version));
  rt.is_cpu = !strcmp(rt.info.platform, "cpu") || !strcmp(rt.info.platform, "Host");
  TRY(ask_devices());
  text attributes = {0};
  text_str(&attributes, "");
  tpu_error *e = ask_attributes(&attributes, &rt.info.stablehlo_version);
  if (e) {
    text_free(&attributes);
    return e;
  }
  if (!rt.info.stablehlo_version) rt.info.stablehlo_version = tpu_xstrdup("");
  rt.info.plugin_path = tpu_xstrdup(found.path ? found.path : "(given by a test)");
  rt.info.plugin_why = tpu_xstrdup(found.why ? found.why : "");
  rt.info.api_minor = rt.api->minor;
  rt.info.device_count = rt.ndevices;
  rt.info.is_cpu = rt.is_cpu;
  rt.info.fingerprint = rt_make_fingerprint(found.path, rt.api, &rt.info, attributes.p);
  text_free(&attributes);
  return NULL;
}

static void free_string(const char *s) { free((void *)(uintptr_t)s); }

/* Back to nothing. */
static void drop_all(void) {
  for (int i = 0; i < rt.ndevices; i++) {
    rt_ring *r = &rt.devices[i].ring;
    for (; r->n; r->n--, r->first = (r->first + 1) % RT_IN_FLIGHT) {
      tpu_error_free(rt_event_finish(r->slot[r->first]));
    }
    tpu_error_free(r->failed);
    pthread_mutex_destroy(&r->lock);
    free(rt.devices[i].kind);
  }
  free(rt.devices);
  if (rt.client) rt_destroy(PJRT_CLIENT_DESTROY, rt.client);
  free_string(rt.info.plugin_path);
  free_string(rt.info.plugin_why);
  free_string(rt.info.platform);
  free_string(rt.info.platform_version);
  free_string(rt.info.stablehlo_version);
  free_string(rt.info.fingerprint);
  rt = (rt_state){0};
}

/* Says what to do about the failures that people meet. */
static tpu_error *explain(tpu_error *e) {
  static const char *const busy[] = {"lockfile", "already in use", "in use by", "Device or resource busy"};
  for (size_t i = 0; i < sizeof busy / sizeof *busy; i++) {
    if (!strstr(tpu_error_message(e), busy[i])) continue;
    return tpu_err_prefix(e,
                          "another process holds the TPU, and a chip serves one process at a time: end that "
                          "process and try again");
  }
  return tpu_err_prefix(e, "the PJRT plugin could not make a client");
}

static tpu_error *create(const pjrt_named_value *options, size_t n) {
  PJRT_ARGS(pjrt_client_create, a, .options = options, .num_options = n);
  TRY(rt_call(PJRT_CLIENT_CREATE, a));
  rt.client = a->client;
  return NULL;
}

static tpu_error *make_client(bool is_cpu) {
  int want;
  bool is_set;
  TRY(rt_wanted_devices(&want, &is_set));
  static const char name[] = "cpu_device_count";
  pjrt_named_value count = {.struct_size = sizeof count,
                            .name = name,
                            .name_size = sizeof name - 1,
                            .type = PJRT_I64,
                            .value.i64 = want,
                            .value_size = 1};
  if (!is_cpu) return create(NULL, 0);
  if (!test_api) TRY(rt_check_xla_flags(rt.api, &count, 1));
  tpu_error *e = create(&count, 1);
  if (!e) return NULL;
  bool option = strstr(tpu_error_message(e), "option") || strstr(tpu_error_message(e), name);
  if (is_set || !option) return e;
  tpu_error *again = create(NULL, 0); /* a plugin that does not know the option has its own number */
  if (again) {
    tpu_error_free(again);
    return e;
  }
  tpu_error_free(e);
  return NULL;
}

static tpu_error *open_locked(void) {
  rt_found found = {NULL, "given by a test", true};
  if (test_api) {
    TRY(rt_check_api("(given by a test)", test_api));
    rt.api = test_api;
  } else {
    found = rt_find_plugin();
    TRY(rt_load_plugin(found, &rt.api));
  }
  if (initialized != rt.api) {
    PJRT_ARGS(pjrt_none, a);
    tpu_error *e = rt_call(PJRT_PLUGIN_INITIALIZE, a);
    if (e) return explain(e);
    initialized = rt.api;
  }
  tpu_error *e = make_client(found.is_cpu);
  if (e) return tpu_error_code(e) == TPU_VALUE ? e : explain(e);
  return ask_info(found);
}

tpu_error *rt_open(void) {
  if (rt_usable()) return NULL;
  if (atomic_load(&rt_forked)) return rt_not_open();
  pthread_mutex_lock(&open_lock);
  atomic_store(&opening, true);
  tpu_error *e = NULL;
  if (!atomic_load(&rt_live)) {
    static bool fork_handler; /* under the lock */
    if (!fork_handler) fork_handler = !pthread_atfork(NULL, NULL, in_forked_child);
    e = open_locked();
    if (e)
      drop_all();
    else
      atomic_store(&rt_live, true);
  }
  atomic_store(&opening, false);
  pthread_mutex_unlock(&open_lock);
  return e;
}

bool rt_is_open(void) { return rt_usable(); }

void rt_use_api(const void *pjrt_api) { test_api = pjrt_api; }

void rt_close_for_tests(void) {
  pthread_mutex_lock(&open_lock);
  if (atomic_load(&rt_live)) {
    drop_all();
    atomic_store(&rt_live, false);
  }
  initialized = NULL;
  rt_begin_compiles();
  pthread_mutex_unlock(&open_lock);
}

int rt_device_count(void) {
  if (rt_usable()) return rt.ndevices;
  int n;
  bool is_set;
  rt_found found = {"", "", true};
  if (!test_api) found = rt_find_plugin();
  if (!found.path) return 0;
  if (!found.is_cpu) return rt_tpu_chips();
  tpu_error_free(rt_wanted_devices(&n, &is_set)); /* rt_open says what is wrong with it */
  return n;
}

const rt_info *rt_get_info(void) { return rt_usable() ? &rt.info : NULL; }

const char *rt_device_kind(int device) {
  return rt_usable() && rt_has_device(device) ? rt.devices[device].kind : "";
}

bool rt_memory_stats(int device, int64_t *in_use, int64_t *limit) {
  if (!rt_usable() || !rt_has_device(device)) return false;
  PJRT_ARGS(pjrt_memory_stats, a, .device = rt.devices[device].device);
  tpu_error *e = rt_call(PJRT_DEVICE_MEMORY_STATS, a);
  if (e) {
    tpu_error_free(e);
    return false;
  }
  *in_use = a->bytes_in_use;
  *limit = a->bytes_limit_is_set ? a->bytes_limit : 0;
  return true;
}
