/* Buffers: upload, download, host pointers, checks. Thread-safe; no state of its own. */
#include <string.h>

#include "rt/rt_int.h"

enum { MAX_RANK = 64 };

/* Bytes of a dense array; false when a dim is negative or the product overflows. */
static bool dense_bytes(tpu_dtype dt, const int64_t *dims, size_t rank, size_t *out) {
  size_t n = dt_bytes(dt);
  bool overflow = false, empty = false;
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0)
      empty = true;
    else
      overflow |= __builtin_mul_overflow(n, (size_t)dims[i], &n);
  }
  *out = empty ? 0 : n;
  return empty || (!overflow && n <= INT64_MAX);
}

static bool known_dtype(tpu_dtype dt) { return dt >= 0 && dt < DT_COUNT; }

tpu_error *rt_upload(const void *data, tpu_dtype dt, const int64_t *dims, size_t rank,
                     const int64_t *byte_strides, int device, PJRT_Buffer **out) {
  *out = NULL;
  if (!rt_usable()) return rt_not_open();
  if (!rt_has_device(device)) return rt_bad_device(device);
  size_t n;
  if (!known_dtype(dt)) return tpu_err(TPU_INTERNAL, "rt_upload: no such dtype: %d", (int)dt);
  if (rank > MAX_RANK) return tpu_err(TPU_RUNTIME, "a tensor has at most %d dims, not %zu", MAX_RANK, rank);
  if (!dense_bytes(dt, dims, rank, &n))
    return tpu_err(TPU_RUNTIME, "a tensor with a negative or too large size");
  if (n && !data) return tpu_err(TPU_INTERNAL, "rt_upload: no data");
  static const char nothing[16];
  PJRT_ARGS(pjrt_from_host, a, .client = rt.client, .data = n ? data : nothing, .type = tpu_dtypes[dt].pjrt,
            .dims = dims, .num_dims = rank, .semantics = PJRT_ONLY_DURING_CALL,
            .device = rt.devices[device].device);
  if (byte_strides && n) {
    a->byte_strides = byte_strides;
    a->num_byte_strides = rank;
  }
  TRY(rt_call(PJRT_CLIENT_BUFFER_FROM_HOST, a));
  if (a->done_with_host) rt_destroy(PJRT_EVENT_DESTROY, a->done_with_host);
  *out = a->buffer;
  return NULL;
}

static tpu_error *ready_event(PJRT_Buffer *b, PJRT_Event **out) {
  PJRT_ARGS(pjrt_ref_out, a, .object = b);
  TRY(rt_call(PJRT_BUFFER_READY_EVENT, a));
  *out = a->out.pointer;
  return NULL;
}

tpu_error *rt_await(PJRT_Buffer *b) {
  if (!rt_usable()) return rt_not_open();
  PJRT_Event *e;
  TRY(ready_event(b, &e));
  return rt_event_finish(e);
}

bool rt_is_ready(PJRT_Buffer *b) {
  if (!rt_usable()) return false;
  PJRT_Event *e;
  tpu_error *error = ready_event(b, &e);
  if (!error) {
    PJRT_ARGS(pjrt_ref_flag, a, .object = e);
    error = rt_call(PJRT_EVENT_IS_READY, a);
    rt_destroy(PJRT_EVENT_DESTROY, e);
    if (!error) return a->flag;
  }
  tpu_error_free(error); /* the next read gets it again */
  return true;
}

bool rt_is_taken(PJRT_Buffer *b) {
  if (!rt_usable()) return true;
  PJRT_ARGS(pjrt_ref_flag, a, .object = b);
  tpu_error *e = rt_call(PJRT_BUFFER_IS_DELETED, a);
  bool told = !e;
  tpu_error_free(e);
  return !told || a->flag;
}

tpu_error *rt_host_pointer(PJRT_Buffer *b, const void **out) {
  *out = NULL;
  if (!rt_usable()) return rt_not_open();
  if (!rt.is_cpu) return NULL;
  TRY(rt_await(b)); /* the pointer call does not wait */
  PJRT_ARGS(pjrt_ref_out, a, .object = b);
  TRY(rt_call(PJRT_BUFFER_UNSAFE_POINTER, a));
  *out = (const void *)a->out.address;
  return NULL;
}

static tpu_error *shape(PJRT_Buffer *b, int32_t *type, const int64_t **dims, size_t *rank) {
  PJRT_ARGS(pjrt_ref_int, t, .object = b);
  TRY(rt_call(PJRT_BUFFER_ELEMENT_TYPE, t));
  PJRT_ARGS(pjrt_ref_span, d, .object = b);
  TRY(rt_call(PJRT_BUFFER_DIMENSIONS, d));
  *type = t->value;
  *dims = d->data;
  *rank = d->n;
  return NULL;
}

static tpu_dtype dtype_of(int32_t pjrt) {
  for (int i = 0; i < DT_COUNT; i++) {
    if (tpu_dtypes[i].pjrt == pjrt) return (tpu_dtype)i;
  }
  return DT_NONE;
}

static tpu_error *copy_out(PJRT_Buffer *b, size_t rank, void *dst, size_t n) {
  if (rank > MAX_RANK) return tpu_err(TPU_INTERNAL, "a buffer with %zu dims", rank);
  int64_t minor_to_major[MAX_RANK];
  for (size_t i = 0; i < rank; i++) minor_to_major[i] = (int64_t)(rank - 1 - i);
  PJRT_ARGS(pjrt_layout, row_major, .tiled_size = 56, .minor_to_major = minor_to_major,
            .minor_to_major_size = rank);
  PJRT_ARGS(pjrt_to_host, a, .buffer = b, .layout = row_major, .dst = dst, .n = n);
  TRY(rt_call(PJRT_BUFFER_TO_HOST, a));
  return rt_event_finish(a->event);
}

tpu_error *rt_download(PJRT_Buffer *b, void *dst, size_t n) {
  if (!rt_usable()) return rt_not_open();
  int32_t type;
  const int64_t *dims;
  size_t rank, have;
  TRY(shape(b, &type, &dims, &rank));
  tpu_dtype dt = dtype_of(type);
  if (dt == DT_NONE || !dense_bytes(dt, dims, rank, &have) || have != n) {
    return tpu_err(TPU_INTERNAL, "rt_download: %zu bytes asked of a buffer of another size", n);
  }
  if (!n) return rt_await(b);
  const void *p;
  TRY(rt_host_pointer(b, &p));
  if (!p) return copy_out(b, rank, dst, n);
  memcpy(dst, p, n);
  return NULL;
}

tpu_error *rt_copy_to_device(PJRT_Buffer *b, int device, PJRT_Buffer **out) {
  *out = NULL;
  if (!rt_usable()) return rt_not_open();
  if (!rt_has_device(device)) return rt_bad_device(device);
  PJRT_ARGS(pjrt_copy_to_device, a, .buffer = b, .device = rt.devices[device].device);
  TRY(rt_call(PJRT_BUFFER_COPY_TO_DEVICE, a));
  *out = a->copy;
  return NULL;
}

void rt_buffer_free(PJRT_Buffer *b) {
  if (b && rt_usable()) rt_destroy(PJRT_BUFFER_DESTROY, b);
}

static void add_type(text *t, tpu_dtype dt, const int64_t *dims, size_t rank) {
  text_str(t, known_dtype(dt) ? tpu_dtype_torch_name(dt) : "unknown");
  text_str(t, "[");
  for (size_t i = 0; i < rank; i++) text_printf(t, i ? ", %lld" : "%lld", (long long)dims[i]);
  text_str(t, "]");
}

tpu_error *rt_buffer_check(PJRT_Buffer *b, tpu_dtype dt, const int64_t *dims, size_t rank) {
  if (!rt_usable()) return rt_not_open();
  if (!known_dtype(dt)) return tpu_err(TPU_INTERNAL, "rt_buffer_check: no such dtype: %d", (int)dt);
  if (!b) return tpu_err(TPU_INTERNAL, "rt_buffer_check: no buffer");
  int32_t type;
  const int64_t *have;
  size_t n;
  TRY(shape(b, &type, &have, &n));
  if (type == tpu_dtypes[dt].pjrt && n == rank && (!rank || !memcmp(have, dims, rank * sizeof *dims)))
    return NULL;
  text t = {0};
  text_str(&t, "a buffer is ");
  add_type(&t, dtype_of(type), have, n);
  text_str(&t, " where the program expects ");
  add_type(&t, dt, dims, rank);
  tpu_error *e = tpu_err(TPU_INTERNAL, "%s", t.p);
  text_free(&t);
  return e;
}
