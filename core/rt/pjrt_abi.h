/* The PJRT C API as we use it: our own declarations, written from the documented layout (x86-64 and
 * arm64 Linux, LP64). Included by rt/ and by the fake plugin of the tests, by nobody else.
 *
 * A call is `api->fn[SLOT](args)`; args start with their size and a NULL extension pointer, and are
 * followed by 64 zero bytes (PJRT_ARGS), so that a plugin with longer structs reads zeros: zero is the
 * right value of every field that we do not set. Structs that end before a multiple of 8 have the rest
 * spelled out as a field for the same reason. Many functions share a shape, hence the few structs. */
#ifndef TPU_RT_PJRT_ABI_H
#define TPU_RT_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;

enum { PJRT_SLOTS = 138, PJRT_TAIL = 64 };

typedef enum pjrt_slot {
#define SLOT(n, NAME, type, size) PJRT_##NAME = n,
#include "rt/pjrt.def"
#undef SLOT
} pjrt_slot;

typedef enum pjrt_code {
  PJRT_INVALID_ARGUMENT = 3,
  PJRT_NOT_FOUND = 5,
  PJRT_RESOURCE_EXHAUSTED = 8,
  PJRT_FAILED_PRECONDITION = 9,
  PJRT_UNIMPLEMENTED = 12,
  PJRT_INTERNAL = 13,
} pjrt_code;

typedef PJRT_Error *(*pjrt_fn)(void *args); /* NULL is success; the caller destroys the error */
typedef void (*pjrt_void_fn)(void *args);

#define PJRT_HEAD     \
  size_t struct_size; \
  void *extension_start

typedef struct PJRT_Api {
  PJRT_HEAD;
  size_t version_size;
  void *version_extension;
  int32_t major, minor;
  union {
    pjrt_fn fn[PJRT_SLOTS];
    struct {
      pjrt_void_fn error_destroy, error_message; /* slots 0 and 1 return nothing */
    };
  };
} PJRT_Api;

/* No argument. */
typedef struct pjrt_none {
  PJRT_HEAD;
} pjrt_none;

/* Plugin attributes: an array out. */
typedef struct pjrt_span {
  PJRT_HEAD;
  const void *data;
  size_t n;
} pjrt_span;

/* One object. */
typedef struct pjrt_ref {
  PJRT_HEAD;
  void *object;
} pjrt_ref;

/* One object; eight bytes out. */
typedef struct pjrt_ref_out {
  PJRT_HEAD;
  void *object;
  union {
    void *pointer;
    uintptr_t address;
    size_t size;
    int64_t i64;
  } out;
} pjrt_ref_out;

/* One object; an array or a string (not NUL-terminated) out, borrowed from the object. */
typedef struct pjrt_ref_span {
  PJRT_HEAD;
  void *object;
  const void *data;
  size_t n;
} pjrt_ref_span;

typedef struct pjrt_ref_flag {
  PJRT_HEAD;
  void *object;
  bool flag;
  char pad_[7];
} pjrt_ref_flag;

typedef struct pjrt_ref_int {
  PJRT_HEAD;
  void *object;
  int32_t value;
  int32_t pad_;
} pjrt_ref_int;

/* The callback owns the error, which is NULL on success; it may run before the call returns. */
typedef struct pjrt_on_ready {
  PJRT_HEAD;
  PJRT_Event *event;
  void (*callback)(PJRT_Error *error, void *user_arg);
  void *user_arg;
} pjrt_on_ready;

typedef enum pjrt_value_type {
  PJRT_STRING = 0,
  PJRT_I64 = 1,
  PJRT_I64_LIST = 2,
  PJRT_FLOAT = 3,
  PJRT_BOOL = 4,
} pjrt_value_type;

typedef struct pjrt_named_value {
  PJRT_HEAD;
  const char *name;
  size_t name_size;
  int32_t type; /* pjrt_value_type */
  int32_t pad_;
  union {
    const char *string;
    int64_t i64;
    const int64_t *i64_list;
    float f32;
    bool flag;
  } value;
  size_t value_size; /* characters, list length, or 1 */
} pjrt_named_value;

typedef struct pjrt_client_create {
  PJRT_HEAD;
  const pjrt_named_value *options;
  size_t num_options;
  void *kv_get, *kv_get_arg, *kv_put, *kv_put_arg;
  PJRT_Client *client; /* out */
  void *kv_try_get, *kv_try_get_arg;
} pjrt_client_create;

typedef struct pjrt_program {
  PJRT_HEAD;
  const char *code;
  size_t code_size;
  const char *format; /* "mlir" */
  size_t format_size;
} pjrt_program;

typedef struct pjrt_compile {
  PJRT_HEAD;
  PJRT_Client *client;
  const pjrt_program *program;
  const char *options; /* CompileOptionsProto; empty ones abort the process */
  size_t options_size;
  PJRT_LoadedExecutable *executable; /* out */
} pjrt_compile;

enum { PJRT_ONLY_DURING_CALL = 0 }; /* host buffer semantics: copied before the call returns */

typedef struct pjrt_from_host {
  PJRT_HEAD;
  PJRT_Client *client;
  const void *data; /* NULL crashes the process */
  int32_t type;     /* PJRT_Buffer_Type; an unknown one aborts the process */
  int32_t pad_;
  const int64_t *dims;
  size_t num_dims;
  const int64_t *byte_strides;
  size_t num_byte_strides;
  int32_t semantics;
  int32_t pad2_;
  PJRT_Device *device; /* NULL, and no memory either, crashes the process */
  void *memory;
  void *device_layout;
  PJRT_Event *done_with_host; /* out, owned */
  PJRT_Buffer *buffer;        /* out, owned */
} pjrt_from_host;

typedef struct pjrt_memory_stats {
  PJRT_HEAD;
  PJRT_Device *device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  char pad_[7];
  int64_t num_allocs, num_allocs_is_set;
  int64_t largest_alloc, largest_alloc_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  char pad2_[7];
  int64_t rest_[14]; /* reserved, pool and peak figures that we do not read */
} pjrt_memory_stats;

typedef struct pjrt_serialize {
  PJRT_HEAD;
  PJRT_Executable *executable;
  const char *bytes; /* out, owned by `owner` */
  size_t n;
  void *owner;
  void (*free_owner)(void *owner);
} pjrt_serialize;

typedef struct pjrt_deserialize {
  PJRT_HEAD;
  PJRT_Client *client;
  const void *bytes;
  size_t n;
  PJRT_LoadedExecutable *executable; /* out */
  const char *options;
  size_t options_size;
  void *load_options;
} pjrt_deserialize;

typedef struct pjrt_execute_options {
  PJRT_HEAD;
  void *send_callbacks, *recv_callbacks;
  size_t num_send_ops, num_recv_ops;
  int32_t launch_id;
  int32_t pad_;
  const int64_t *no_donate;
  size_t num_no_donate;
  void *context;
  const char *call_location;
  size_t num_tasks;
  void *task_ids, *incarnation_ids, *multi_slice;
  bool major_to_minor_callbacks;
  char pad2_[7];
  void *hlo_callbacks;
  size_t num_hlo_callbacks;
} pjrt_execute_options;

typedef struct pjrt_execute {
  PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  const pjrt_execute_options *options;
  PJRT_Buffer *const *const *argument_lists; /* [device][argument]; a NULL buffer crashes the process */
  size_t num_devices, num_args;
  PJRT_Buffer **const *output_lists; /* [device][output], filled */
  PJRT_Event **complete_events;      /* [device], filled, owned; or NULL */
  PJRT_Device *device;               /* portable executables need it */
} pjrt_execute;

typedef struct pjrt_layout { /* tiled, without tiles: a permutation of the dims */
  PJRT_HEAD;
  size_t tiled_size;
  void *tiled_extension;
  const int64_t *minor_to_major;
  size_t minor_to_major_size;
  void *tile_dims, *tile_dim_sizes;
  size_t num_tiles;
  int32_t type; /* 0: tiled */
  int32_t pad_;
} pjrt_layout;

typedef struct pjrt_to_host {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  const pjrt_layout *layout; /* NULL: row-major */
  void *dst;
  size_t n;
  PJRT_Event *event; /* out, owned */
} pjrt_to_host;

typedef struct pjrt_copy_to_device {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  PJRT_Device *device;
  PJRT_Buffer *copy; /* out, owned */
} pjrt_copy_to_device;

#define PJRT_AT(type, field, at) \
  _Static_assert(offsetof(type, field) == (at), #type "." #field " stands at " #at)
#define PJRT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has " #size " bytes")

PJRT_AT(PJRT_Api, major, 32);
PJRT_AT(PJRT_Api, fn, 40);
PJRT_SIZE(PJRT_Api, 40 + 8 * PJRT_SLOTS);
PJRT_SIZE(pjrt_none, 16);
PJRT_SIZE(pjrt_span, 32);
PJRT_SIZE(pjrt_ref, 24);
PJRT_SIZE(pjrt_ref_out, 32);
PJRT_SIZE(pjrt_ref_span, 40);
PJRT_AT(pjrt_ref_flag, flag, 24);
PJRT_SIZE(pjrt_ref_flag, 32);
PJRT_AT(pjrt_ref_int, value, 24);
PJRT_SIZE(pjrt_ref_int, 32);
PJRT_SIZE(pjrt_on_ready, 40);
PJRT_AT(pjrt_named_value, type, 32);
PJRT_AT(pjrt_named_value, value, 40);
PJRT_SIZE(pjrt_named_value, 56);
PJRT_AT(pjrt_client_create, client, 64);
PJRT_SIZE(pjrt_client_create, 88);
PJRT_AT(pjrt_program, format, 32);
PJRT_SIZE(pjrt_program, 48);
PJRT_AT(pjrt_compile, executable, 48);
PJRT_SIZE(pjrt_compile, 56);
PJRT_AT(pjrt_from_host, dims, 40);
PJRT_AT(pjrt_from_host, semantics, 72);
PJRT_AT(pjrt_from_host, device, 80);
PJRT_AT(pjrt_from_host, done_with_host, 104);
PJRT_SIZE(pjrt_from_host, 120);
PJRT_AT(pjrt_memory_stats, bytes_in_use, 24);
PJRT_AT(pjrt_memory_stats, largest_alloc, 64);
PJRT_AT(pjrt_memory_stats, bytes_limit, 80);
PJRT_AT(pjrt_memory_stats, bytes_limit_is_set, 88);
PJRT_SIZE(pjrt_memory_stats, 208);
PJRT_AT(pjrt_serialize, owner, 40);
PJRT_SIZE(pjrt_serialize, 56);
PJRT_AT(pjrt_deserialize, executable, 40);
PJRT_SIZE(pjrt_deserialize, 72);
PJRT_AT(pjrt_execute_options, launch_id, 48);
PJRT_AT(pjrt_execute_options, no_donate, 56);
PJRT_AT(pjrt_execute_options, context, 72);
PJRT_AT(pjrt_execute_options, multi_slice, 112);
PJRT_AT(pjrt_execute_options, hlo_callbacks, 128);
PJRT_SIZE(pjrt_execute_options, 144);
PJRT_AT(pjrt_execute, argument_lists, 32);
PJRT_AT(pjrt_execute, output_lists, 56);
PJRT_AT(pjrt_execute, device, 72);
PJRT_SIZE(pjrt_execute, 80);
PJRT_AT(pjrt_layout, minor_to_major, 32);
PJRT_AT(pjrt_layout, type, 72);
PJRT_SIZE(pjrt_layout, 80);
PJRT_AT(pjrt_to_host, event, 48);
PJRT_SIZE(pjrt_to_host, 56);
PJRT_SIZE(pjrt_copy_to_device, 40);
#define SLOT(n, NAME, type, size) _Static_assert(sizeof(type) >= (size), #NAME);
#include "rt/pjrt.def"
#undef SLOT

/* Declares `name`, a pointer to zeroed args on the stack with the tail behind them. */
#define PJRT_ARGS(args_type, name, ...)                                  \
  struct {                                                               \
    args_type args;                                                      \
    char tail[PJRT_TAIL];                                                \
  } name##_ = {.args = {.struct_size = sizeof(args_type), __VA_ARGS__}}; \
  args_type *const name = &name##_.args

#endif
