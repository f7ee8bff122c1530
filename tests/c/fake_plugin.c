/* See fake_plugin.h. One big lock; callbacks run without it. */
#include "fake_plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "rt/pjrt_abi.h"

enum { MAX_IO = 1024, MAX_NUM_DEVICES = 256 };

struct PJRT_Error {
  int32_t code;
  char text[512];
};

typedef struct watcher {
  struct watcher *next;
  void (*callback)(PJRT_Error *error, void *arg);
  void *arg;
} watcher;

/* The completion of a launch, shared by its events and its outputs. */
typedef struct state {
  int refs;
  bool done;
  char *failed; /* the text it fails with, or NULL */
  watcher *watchers;
  struct state *next_held;
} state;

struct PJRT_Event {
  state *s;
};

struct PJRT_Device {
  int id;
};

struct PJRT_Client {
  PJRT_Device devices[MAX_NUM_DEVICES], *list[MAX_NUM_DEVICES];
  size_t n;
  char platform[32];
};

struct PJRT_Buffer {
  fake_array a;
  PJRT_Device *device;
  bool deleted;
  state *s;
};

/* What loaded and unloaded handles of a program share. */
typedef struct program {
  int refs;
  char *mlir;
  PJRT_Device *bound; /* where it runs; NULL: portable, on the device that the launch names */
  size_t nargs, nouts;
  fake_array args[MAX_IO], outs[MAX_IO]; /* types only */
  bool donated[MAX_IO];
} program;

struct PJRT_Executable {
  program *p;
};
struct PJRT_LoadedExecutable {
  program *p;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int64_t live[FAKE_KINDS], calls, calls_of[PJRT_SLOTS], fail_at;
static bool has_failed, holding;
static state *held;
static fake_kernel kernel;
static void *kernel_ctx;
static int compile_ms;
static int refused;       /* launches to come that are refused */
static bool refused_take; /* ... and take what they were given all the same */
static char fail_words[256], platform[32] = "cpu", client_words[256];
static char *last_program;

static PJRT_Error *fail(int32_t code, const char *words) {
  PJRT_Error *e = calloc(1, sizeof *e);
  e->code = code;
  snprintf(e->text, sizeof e->text, "%s", words);
  live[FAKE_ERRORS]++;
  return e;
}

/* Counts a call; the error that it is to end with, or NULL. Takes the lock; LEAVE gives it back. */
static PJRT_Error *enter(int slot, const void *args, size_t need) {
  pthread_mutex_lock(&lock);
  calls++;
  calls_of[slot]++;
  if (*(const size_t *)args < need) return fail(PJRT_INVALID_ARGUMENT, "args struct too small");
  if (fail_at && --fail_at == 0) {
    has_failed = true;
    return fail(PJRT_INTERNAL, "injected failure");
  }
  return NULL;
}

static PJRT_Error *leave(PJRT_Error *e) {
  pthread_mutex_unlock(&lock);
  return e;
}

#define ENTER(slot, type)                               \
  type *a = args;                                       \
  PJRT_Error *error = enter(PJRT_##slot, a, sizeof *a); \
  if (error) return leave(error)

/* For what destroys: goes on after the injected failure. */
#define ENTER_ANYWAY(slot) \
  pjrt_ref *a = args;      \
  PJRT_Error *error = enter(PJRT_##slot, a, sizeof *a)

#define SPAN(p, len)    \
  do {                  \
    a->data = (p);      \
    a->n = (len);       \
    return leave(NULL); \
  } while (0)

/* ---- errors ---- */

static void error_destroy(void *args) {
  pjrt_ref *a = args;
  pthread_mutex_lock(&lock);
  live[FAKE_ERRORS]--;
  pthread_mutex_unlock(&lock);
  free(a->object);
}

static void error_message(void *args) {
  pjrt_ref_span *a = args;
  const PJRT_Error *e = a->object;
  a->data = e->text;
  a->n = strlen(e->text);
}

static PJRT_Error *error_code(void *args) {
  pjrt_ref_int *a = args;
  a->value = ((const PJRT_Error *)a->object)->code;
  return NULL;
}

/* ---- events; under the lock ---- */

static state *state_new(void) {
  state *s = calloc(1, sizeof *s);
  s->refs = 1;
  s->done = !holding;
  if (fail_words[0]) s->failed = strdup(fail_words);
  if (holding) {
    s->refs++;
    s->next_held = held;
    held = s;
  }
  return s;
}

static void state_unref(state *s) {
  if (!s || --s->refs) return;
  free(s->failed);
  free(s);
}

static PJRT_Event *event_on(state *s) {
  PJRT_Event *e = calloc(1, sizeof *e);
  e->s = s;
  if (s) s->refs++;
  live[FAKE_EVENTS]++;
  return e;
}

static bool is_done(const state *s) { return !s || s->done; }
static PJRT_Error *outcome(const state *s) { return s && s->failed ? fail(PJRT_INTERNAL, s->failed) : NULL; }

static PJRT_Error *event_destroy(void *args) {
  ENTER_ANYWAY(EVENT_DESTROY);
  PJRT_Event *e = a->object;
  state_unref(e->s);
  free(e);
  live[FAKE_EVENTS]--;
  return leave(error);
}

static PJRT_Error *event_is_ready(void *args) {
  ENTER(EVENT_IS_READY, pjrt_ref_flag);
  a->flag = is_done(((PJRT_Event *)a->object)->s);
  return leave(NULL);
}

static PJRT_Error *event_error(void *args) {
  ENTER(EVENT_ERROR, pjrt_ref);
  return leave(outcome(((PJRT_Event *)a->object)->s));
}

static PJRT_Error *event_await(void *args) {
  ENTER(EVENT_AWAIT, pjrt_ref);
  state *s = ((PJRT_Event *)a->object)->s;
  while (!is_done(s)) pthread_cond_wait(&changed, &lock);
  return leave(outcome(s));
}

static PJRT_Error *event_on_ready(void *args) {
  ENTER(EVENT_ON_READY, pjrt_on_ready);
  state *s = a->event->s;
  if (is_done(s)) {
    PJRT_Error *e = outcome(s);
    leave(NULL);
    a->callback(e, a->user_arg);
    return NULL;
  }
  watcher *w = calloc(1, sizeof *w);
  *w = (watcher){s->watchers, a->callback, a->user_arg};
  s->watchers = w;
  return leave(NULL);
}

void fake_hold(bool hold) {
  pthread_mutex_lock(&lock);
  holding = hold;
  while (!hold && held) {
    state *s = held;
    held = s->next_held;
    s->done = true;
    pthread_cond_broadcast(&changed);
    while (s->watchers) {
      watcher *w = s->watchers;
      s->watchers = w->next;
      PJRT_Error *e = outcome(s);
      pthread_mutex_unlock(&lock);
      w->callback(e, w->arg);
      pthread_mutex_lock(&lock);
      free(w);
    }
    state_unref(s);
  }
  pthread_mutex_unlock(&lock);
}

/* ---- plugin, client, devices ---- */

static PJRT_Error *plugin_initialize(void *args) {
  ENTER(PLUGIN_INITIALIZE, pjrt_none);
  return leave(NULL);
}

static PJRT_Error *plugin_attributes(void *args) {
  static const int64_t version[] = {1, 20, 0};
  static const pjrt_named_value list[] = {
      {.struct_size = sizeof *list,
       .name = "xla_version",
       .name_size = 11,
       .type = PJRT_I64,
       .value.i64 = 2,
       .value_size = 1},
      {.struct_size = sizeof *list,
       .name = "stablehlo_current_version",
       .name_size = 25,
       .type = PJRT_I64_LIST,
       .value.i64_list = version,
       .value_size = 3},
  };
  ENTER(PLUGIN_ATTRIBUTES, pjrt_span);
  SPAN(list, 2);
}

static PJRT_Error *client_create(void *args) {
  ENTER(CLIENT_CREATE, pjrt_client_create);
  if (client_words[0]) return leave(fail(PJRT_FAILED_PRECONDITION, client_words));
  PJRT_Client *c = calloc(1, sizeof *c);
  c->n = 4;
  for (size_t i = 0; i < a->num_options; i++) {
    if (!strncmp(a->options[i].name, "cpu_device_count", a->options[i].name_size)) {
      c->n = (size_t)a->options[i].value.i64;
    }
  }
  for (size_t i = 0; i < c->n; i++) {
    c->devices[i].id = (int)i;
    c->list[i] = &c->devices[i];
  }
  memcpy(c->platform, platform, sizeof platform);
  live[FAKE_CLIENTS]++;
  a->client = c;
  return leave(NULL);
}

static PJRT_Error *client_destroy(void *args) {
  ENTER_ANYWAY(CLIENT_DESTROY);
  free(a->object);
  live[FAKE_CLIENTS]--;
  return leave(error);
}

static PJRT_Error *client_platform_name(void *args) {
  ENTER(CLIENT_PLATFORM_NAME, pjrt_ref_span);
  const PJRT_Client *c = a->object;
  SPAN(c->platform, strlen(c->platform));
}

static PJRT_Error *client_platform_version(void *args) {
  ENTER(CLIENT_PLATFORM_VERSION, pjrt_ref_span);
  SPAN("fake 1", 6);
}

static PJRT_Error *client_devices(void *args) {
  ENTER(CLIENT_ADDRESSABLE_DEVICES, pjrt_ref_span);
  PJRT_Client *c = a->object;
  SPAN(c->list, c->n);
}

static PJRT_Error *device_description(void *args) {
  ENTER(DEVICE_GET_DESCRIPTION, pjrt_ref_out);
  a->out.pointer = a->object;
  return leave(NULL);
}

static PJRT_Error *device_kind(void *args) {
  ENTER(DEVICE_DESCRIPTION_KIND, pjrt_ref_span);
  SPAN("fake", 4);
}

static PJRT_Error *device_memory_stats(void *args) {
  ENTER(DEVICE_MEMORY_STATS, pjrt_memory_stats);
  a->bytes_in_use = live[FAKE_BUFFERS];
  a->bytes_limit = 1 << 30;
  a->bytes_limit_is_set = true;
  return leave(NULL);
}

/* ---- buffers; under the lock ---- */

static size_t element_bytes(int32_t type) {
  for (int i = 0; i < DT_COUNT; i++) {
    if (tpu_dtypes[i].pjrt == type) return tpu_dtypes[i].bytes;
  }
  return 0;
}

static PJRT_Buffer *buffer_new(const fake_array *type, PJRT_Device *device, state *s) {
  PJRT_Buffer *b = calloc(1, sizeof *b);
  b->a = *type;
  b->a.bytes = element_bytes(type->type);
  for (size_t i = 0; i < type->rank; i++) b->a.bytes *= (size_t)type->dims[i];
  b->a.data = calloc(1, b->a.bytes ? b->a.bytes : 1);
  b->device = device;
  b->s = s;
  if (s) s->refs++;
  live[FAKE_BUFFERS]++;
  return b;
}

static PJRT_Error *check_alive(const PJRT_Buffer *b) {
  return b->deleted ? fail(PJRT_INVALID_ARGUMENT, "Buffer has been deleted or donated.") : NULL;
}

static void copy_strided(char *to, const char *from, const fake_array *t, const int64_t *strides,
                         size_t dim) {
  size_t item = element_bytes(t->type);
  if (dim == t->rank) {
    memcpy(to, from, item);
    return;
  }
  size_t step = item;
  for (size_t i = dim + 1; i < t->rank; i++) step *= (size_t)t->dims[i];
  for (int64_t i = 0; i < t->dims[dim]; i++) {
    copy_strided(to + (size_t)i * step, from + i * strides[dim], t, strides, dim + 1);
  }
}

static PJRT_Error *buffer_from_host(void *args) {
  ENTER(CLIENT_BUFFER_FROM_HOST, pjrt_from_host);
  if (!a->data || !a->device || !element_bytes(a->type) || a->num_dims > FAKE_MAX_RANK) {
    fprintf(stderr, "fake plugin: a real plugin would end the process here\n");
    abort();
  }
  fake_array t = {.type = a->type, .rank = a->num_dims};
  for (size_t i = 0; i < t.rank; i++) t.dims[i] = a->dims[i];
  PJRT_Buffer *b = buffer_new(&t, a->device, NULL);
  if (b->a.bytes && a->num_byte_strides)
    copy_strided(b->a.data, a->data, &t, a->byte_strides, 0);
  else
    memcpy(b->a.data, a->data, b->a.bytes);
  a->buffer = b;
  a->done_with_host = event_on(NULL);
  return leave(NULL);
}

static PJRT_Error *buffer_destroy(void *args) {
  ENTER_ANYWAY(BUFFER_DESTROY);
  PJRT_Buffer *b = a->object;
  state_unref(b->s);
  free(b->a.data);
  free(b);
  live[FAKE_BUFFERS]--;
  return leave(error);
}

static PJRT_Error *buffer_type(void *args) {
  ENTER(BUFFER_ELEMENT_TYPE, pjrt_ref_int);
  a->value = ((PJRT_Buffer *)a->object)->a.type;
  return leave(NULL);
}

static PJRT_Error *buffer_dims(void *args) {
  ENTER(BUFFER_DIMENSIONS, pjrt_ref_span);
  const PJRT_Buffer *b = a->object;
  SPAN(b->a.dims, b->a.rank);
}

static PJRT_Error *buffer_copy(void *args) {
  ENTER(BUFFER_COPY_TO_DEVICE, pjrt_copy_to_device);
  error = check_alive(a->buffer);
  if (error) return leave(error);
  a->copy = buffer_new(&a->buffer->a, a->device, a->buffer->s);
  memcpy(a->copy->a.data, a->buffer->a.data, a->copy->a.bytes);
  return leave(NULL);
}

static PJRT_Error *buffer_to_host(void *args) {
  ENTER(BUFFER_TO_HOST, pjrt_to_host);
  error = check_alive(a->buffer);
  if (error) return leave(error);
  if (a->n < a->buffer->a.bytes) return leave(fail(PJRT_INVALID_ARGUMENT, "dst too small"));
  memcpy(a->dst, a->buffer->a.data, a->buffer->a.bytes);
  a->event = event_on(a->buffer->s);
  return leave(NULL);
}

static PJRT_Error *buffer_is_deleted(void *args) {
  ENTER(BUFFER_IS_DELETED, pjrt_ref_flag);
  a->flag = ((PJRT_Buffer *)a->object)->deleted;
  return leave(NULL);
}

static PJRT_Error *buffer_ready(void *args) {
  ENTER(BUFFER_READY_EVENT, pjrt_ref_out);
  error = check_alive(a->object);
  if (error) return leave(error);
  a->out.pointer = event_on(((PJRT_Buffer *)a->object)->s);
  return leave(NULL);
}

static PJRT_Error *buffer_pointer(void *args) {
  ENTER(BUFFER_UNSAFE_POINTER, pjrt_ref_out);
  error = check_alive(a->object);
  if (error) return leave(error);
  a->out.pointer = ((PJRT_Buffer *)a->object)->a.data;
  return leave(NULL);
}

/* ---- programs ---- */

/* `tensor<2x3xf32>` at *s. */
static bool read_tensor(const char **s, fake_array *t) {
  if (strncmp(*s, "tensor<", 7)) return false;
  *t = (fake_array){0};
  const char *p = *s + 7;
  while (*p >= '0' && *p <= '9' && t->rank < FAKE_MAX_RANK) {
    char *end;
    t->dims[t->rank++] = strtoll(p, &end, 10);
    if (*end != 'x') return false;
    p = end + 1;
  }
  for (int i = 0; i < DT_COUNT; i++) {
    size_t n = strlen(tpu_dtypes[i].mlir);
    if (strncmp(p, tpu_dtypes[i].mlir, n) || p[n] != '>') continue;
    t->type = tpu_dtypes[i].pjrt;
    *s = p + n + 1;
    return true;
  }
  return false;
}

/* Types up to the end of one list; attributes in braces belong to the type before them. */
static bool read_list(const char **s, const char *end, fake_array *types, bool *donated, size_t *n) {
  *n = 0;
  while (*s < end) {
    if (!strncmp(*s, "tensor<", 7)) {
      if (*n == MAX_IO || !read_tensor(s, &types[*n])) return false;
      ++*n;
      continue;
    }
    bool mark = !strncmp(*s, "tf.aliasing_output", 18) || !strncmp(*s, "jax.buffer_donor", 16);
    if (mark && *n && donated) donated[*n - 1] = true;
    ++*s;
  }
  return true;
}

static const char *matching(const char *open) {
  int depth = 0;
  for (const char *p = open; *p; p++) {
    if (*p == '(') depth++;
    if (*p == ')' && --depth == 0) return p;
  }
  return NULL;
}

static program *program_new(const char *mlir, size_t n) {
  program *p = calloc(1, sizeof *p);
  p->refs = 1;
  p->mlir = strndup(mlir, n);
  const char *s = strstr(p->mlir, "@main(");
  const char *end = s ? matching(s + 5) : NULL;
  bool ok = end && read_list(&s, end, p->args, p->donated, &p->nargs);
  if (ok) {
    s = end + 1;
    while (*s == ' ') s++;
    if (!strncmp(s, "->", 2)) {
      s += 2;
      while (*s == ' ') s++;
      end = *s == '(' ? matching(s) : strchr(s, '{');
      if (!end) end = s + strlen(s);
      ok = read_list(&s, end, p->outs, NULL, &p->nouts);
    }
  }
  if (ok) return p;
  free(p->mlir);
  free(p);
  return NULL;
}

static void program_unref(program *p) {
  if (--p->refs) return;
  free(p->mlir);
  free(p);
}

static PJRT_Error *load(const char *mlir, size_t n, PJRT_Device *bound, PJRT_LoadedExecutable **out) {
  program *p = program_new(mlir, n);
  if (!p) return fail(2, "cannot parse the signature of @main");
  p->bound = bound;
  free(last_program);
  last_program = strdup(p->mlir);
  *out = calloc(1, sizeof **out);
  (*out)->p = p;
  live[FAKE_EXECUTABLES]++;
  return NULL;
}

static PJRT_Error *client_compile(void *args) {
  ENTER(CLIENT_COMPILE, pjrt_compile);
  if (!a->options_size) {
    fprintf(stderr, "fake plugin: empty compile options would end the process\n");
    abort();
  }
  if (compile_ms) {
    int ms = compile_ms;
    pthread_mutex_unlock(&lock);
    usleep((useconds_t)ms * 1000);
    pthread_mutex_lock(&lock);
  }
  bool portable = a->options_size >= 8 && !memcmp(a->options + 6, "\x20\x01", 2);
  return leave(load(a->program->code, a->program->code_size, portable ? NULL : &a->client->devices[0],
                    &a->executable));
}

static PJRT_Error *deserialize(void *args) {
  ENTER(DESERIALIZE_AND_LOAD, pjrt_deserialize);
  bool portable = a->n >= 4 && !memcmp(a->bytes, "FAKE", 4);
  if (!portable && (a->n < 4 || memcmp(a->bytes, "BIND", 4)))
    return leave(fail(PJRT_INVALID_ARGUMENT, "not a serialized program"));
  return leave(
      load((const char *)a->bytes + 4, a->n - 4, portable ? NULL : &a->client->devices[0], &a->executable));
}

static void serialized_free(void *p) { free(p); }

static PJRT_Error *serialize(void *args) {
  ENTER(EXECUTABLE_SERIALIZE, pjrt_serialize);
  size_t n = strlen(a->executable->p->mlir);
  char *bytes = malloc(n + 5);
  memcpy(bytes, a->executable->p->bound ? "BIND" : "FAKE", 4);
  memcpy(bytes + 4, a->executable->p->mlir, n + 1);
  a->bytes = bytes;
  a->n = n + 4;
  a->owner = bytes;
  a->free_owner = serialized_free;
  return leave(NULL);
}

static PJRT_Error *get_executable(void *args) {
  ENTER(LOADED_GET_EXECUTABLE, pjrt_ref_out);
  PJRT_Executable *e = calloc(1, sizeof *e);
  e->p = ((PJRT_LoadedExecutable *)a->object)->p;
  e->p->refs++;
  live[FAKE_EXECUTABLES]++;
  a->out.pointer = e;
  return leave(NULL);
}

static PJRT_Error *executable_destroy(void *args) {
  ENTER_ANYWAY(EXECUTABLE_DESTROY);
  program_unref(((PJRT_Executable *)a->object)->p);
  free(a->object);
  live[FAKE_EXECUTABLES]--;
  return leave(error);
}

static PJRT_Error *loaded_destroy(void *args) {
  ENTER_ANYWAY(LOADED_DESTROY);
  program_unref(((PJRT_LoadedExecutable *)a->object)->p);
  free(a->object);
  live[FAKE_EXECUTABLES]--;
  return leave(error);
}

static PJRT_Error *num_outputs(void *args) {
  ENTER(EXECUTABLE_NUM_OUTPUTS, pjrt_ref_out);
  a->out.size = ((PJRT_Executable *)a->object)->p->nouts;
  return leave(NULL);
}

/* What a real plugin checks, and also types and ranks, which it does not. */
static PJRT_Error *check_args(const program *p, const pjrt_execute *a) {
  char words[128];
  const PJRT_Device *device = p->bound ? p->bound : a->device;
  if (a->num_devices != 1 || !device)
    return fail(PJRT_INVALID_ARGUMENT, "portable programs need execute_device");
  if (a->num_args != p->nargs) {
    snprintf(words, sizeof words, "Execution supplied %zu arguments but compiled program expected %zu",
             a->num_args, p->nargs);
    return fail(PJRT_INVALID_ARGUMENT, words);
  }
  for (size_t i = 0; i < p->nargs; i++) {
    const PJRT_Buffer *b = a->argument_lists[0][i];
    if (!b) {
      fprintf(stderr, "fake plugin: a NULL argument would end the process\n");
      abort();
    }
    if (b->deleted) return check_alive(b);
    if (b->device != device) return fail(PJRT_INVALID_ARGUMENT, "argument on another device");
    bool same = b->a.type == p->args[i].type && b->a.rank == p->args[i].rank;
    for (size_t k = 0; same && k < b->a.rank; k++) same = b->a.dims[k] == p->args[i].dims[k];
    if (same) continue;
    snprintf(words, sizeof words, "argument %zu has another type than the program expects", i);
    return fail(PJRT_INVALID_ARGUMENT, words);
  }
  return NULL;
}

static bool kept(const pjrt_execute_options *o, size_t i) {
  for (size_t k = 0; k < o->num_no_donate; k++) {
    if (o->no_donate[k] == (int64_t)i) return true;
  }
  return false;
}

static void take_donated(const program *p, const pjrt_execute *a) {
  for (size_t i = 0; i < p->nargs; i++) {
    if (p->donated[i] && !kept(a->options, i)) a->argument_lists[0][i]->deleted = true;
  }
}

static PJRT_Error *execute(void *args) {
  ENTER(LOADED_EXECUTE, pjrt_execute);
  program *p = a->executable->p;
  error = check_args(p, a);
  if (error) return leave(error);
  if (refused) {
    refused--;
    if (refused_take) take_donated(p, a);
    return leave(fail(PJRT_RESOURCE_EXHAUSTED, "no room for this program"));
  }
  state *s = state_new();
  const fake_array **ins = calloc(p->nargs + 1, sizeof *ins);
  fake_array **outs = calloc(p->nouts + 1, sizeof *outs);
  for (size_t i = 0; i < p->nargs; i++) ins[i] = &a->argument_lists[0][i]->a;
  for (size_t i = 0; i < p->nouts; i++) {
    PJRT_Buffer *b = buffer_new(&p->outs[i], p->bound ? p->bound : a->device, s);
    a->output_lists[0][i] = b;
    outs[i] = &b->a;
  }
  take_donated(p, a);
  if (a->complete_events) a->complete_events[0] = event_on(s);
  fake_kernel run = s->failed ? NULL : kernel;
  pthread_mutex_unlock(&lock);
  if (run) run(kernel_ctx, p->mlir, ins, p->nargs, outs, p->nouts);
  pthread_mutex_lock(&lock);
  free(ins);
  free(outs);
  state_unref(s);
  return leave(NULL);
}

static PJRT_Error *unimplemented(void *args) {
  (void)args;
  pthread_mutex_lock(&lock);
  return leave(fail(PJRT_UNIMPLEMENTED, "the fake plugin does not have this function"));
}

/* ---- the table and the controls ---- */

const void *fake_api(void) {
  static PJRT_Api api = {.struct_size = sizeof api, .version_size = 24, .major = 0, .minor = 115};
  for (int i = 0; i < PJRT_SLOTS; i++) api.fn[i] = unimplemented;
  api.error_destroy = error_destroy;
  api.error_message = error_message;
  static const struct {
    pjrt_slot slot;
    pjrt_fn fn;
  } table[] = {
      {PJRT_ERROR_GET_CODE, error_code},
      {PJRT_PLUGIN_INITIALIZE, plugin_initialize},
      {PJRT_PLUGIN_ATTRIBUTES, plugin_attributes},
      {PJRT_EVENT_DESTROY, event_destroy},
      {PJRT_EVENT_IS_READY, event_is_ready},
      {PJRT_EVENT_ERROR, event_error},
      {PJRT_EVENT_AWAIT, event_await},
      {PJRT_EVENT_ON_READY, event_on_ready},
      {PJRT_CLIENT_CREATE, client_create},
      {PJRT_CLIENT_DESTROY, client_destroy},
      {PJRT_CLIENT_PLATFORM_NAME, client_platform_name},
      {PJRT_CLIENT_PLATFORM_VERSION, client_platform_version},
      {PJRT_CLIENT_ADDRESSABLE_DEVICES, client_devices},
      {PJRT_CLIENT_COMPILE, client_compile},
      {PJRT_CLIENT_BUFFER_FROM_HOST, buffer_from_host},
      {PJRT_DEVICE_DESCRIPTION_KIND, device_kind},
      {PJRT_DEVICE_GET_DESCRIPTION, device_description},
      {PJRT_DEVICE_MEMORY_STATS, device_memory_stats},
      {PJRT_EXECUTABLE_DESTROY, executable_destroy},
      {PJRT_EXECUTABLE_NUM_OUTPUTS, num_outputs},
      {PJRT_EXECUTABLE_SERIALIZE, serialize},
      {PJRT_LOADED_DESTROY, loaded_destroy},
      {PJRT_LOADED_GET_EXECUTABLE, get_executable},
      {PJRT_LOADED_EXECUTE, execute},
      {PJRT_DESERIALIZE_AND_LOAD, deserialize},
      {PJRT_BUFFER_DESTROY, buffer_destroy},
      {PJRT_BUFFER_ELEMENT_TYPE, buffer_type},
      {PJRT_BUFFER_DIMENSIONS, buffer_dims},
      {PJRT_BUFFER_COPY_TO_DEVICE, buffer_copy},
      {PJRT_BUFFER_TO_HOST, buffer_to_host},
      {PJRT_BUFFER_IS_DELETED, buffer_is_deleted},
      {PJRT_BUFFER_READY_EVENT, buffer_ready},
      {PJRT_BUFFER_UNSAFE_POINTER, buffer_pointer},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) api.fn[table[i].slot] = table[i].fn;
  return &api;
}

static void set_words(char *to, size_t n, const char *words) {
  pthread_mutex_lock(&lock);
  snprintf(to, n, "%s", words ? words : "");
  pthread_mutex_unlock(&lock);
}

void fake_fail_at(int64_t n) {
  pthread_mutex_lock(&lock);
  fail_at = n;
  has_failed = false;
  pthread_mutex_unlock(&lock);
}

void fake_refuse_launches(int n, bool take) {
  pthread_mutex_lock(&lock);
  refused = n;
  refused_take = take;
  pthread_mutex_unlock(&lock);
}

void fake_reset(void) {
  fake_refuse_launches(0, false);
  fake_hold(false);
  fake_fail_at(0);
  fake_fail_launches(NULL);
  fake_client_error(NULL);
  fake_platform("cpu");
  pthread_mutex_lock(&lock);
  calls = 0;
  memset(calls_of, 0, sizeof calls_of);
  kernel = NULL;
  compile_ms = 0;
  free(last_program);
  last_program = NULL;
  pthread_mutex_unlock(&lock);
}

static int64_t locked(const int64_t *v) {
  pthread_mutex_lock(&lock);
  int64_t n = *v;
  pthread_mutex_unlock(&lock);
  return n;
}

bool fake_has_failed(void) { return has_failed; }
int64_t fake_calls(void) { return locked(&calls); }
int64_t fake_calls_of(int slot) { return locked(&calls_of[slot]); }
int64_t fake_live(fake_kind kind) { return locked(&live[kind]); }

int64_t fake_live_total(void) {
  int64_t n = 0;
  for (int i = 0; i < FAKE_KINDS; i++) n += fake_live(i);
  return n;
}

void fake_set_kernel(fake_kernel k, void *ctx) {
  pthread_mutex_lock(&lock);
  kernel = k;
  kernel_ctx = ctx;
  pthread_mutex_unlock(&lock);
}

void fake_fail_launches(const char *words) { set_words(fail_words, sizeof fail_words, words); }
void fake_client_error(const char *words) { set_words(client_words, sizeof client_words, words); }
void fake_platform(const char *name) { set_words(platform, sizeof platform, name); }
void fake_compile_ms(int ms) { compile_ms = ms; }
const char *fake_last_program(void) { return last_program; }
