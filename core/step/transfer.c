/* Host transfers, copies between devices, and the bookkeeping of storages that needs a device: retyping,
 * cutting to exact, resizing. Views are read and written on the host where the data passes through it anyway,
 * so that none of them compiles a program. */
#include <stdlib.h>
#include <string.h>

#include "step/run.h"
#include "step/sizes.h"
#include "step/derive.h"
#include "step/graph.h"
#include "step/step.h"
#include "step/trace.h"
#include "value/layout.h"
#include "value/memory.h"

tpu_error *step_materialize(tpu_storage *s) {
  while (s->value && s->value->state != V_CELL) TRY(trace_need(s->value));
  return !s->value || s->value->cell->buf
             ? NULL
             : tpu_err(TPU_RUNTIME, "this tensor shared its memory with the result of a concatenation "
                                    "that failed, and is lost");
}

/* A new value of host data; dims and byte strides (NULL: dense) in the value's order. */
static tpu_error *value_of_host(const void *data, tpu_dtype dt, int rank, const int64_t *dims,
                                const int64_t *byte_strides, int device, tpu_value **out) {
  vdim d[IR_MAX_RANK];
  for (int i = 0; i < rank; i++) d[i] = vdim_static(dims[i]);
  int64_t bytes = dims_bytes(dt, rank, d);
  TRY(memory_reserve(device, bytes));
  PJRT_Buffer *buf;
  TRY(rt_upload(data, dt, dims, (size_t)rank, byte_strides, device, &buf));
  *out = value_create(dt, rank, d, device);
  value_set_cell(*out, cell_create(buf, device, bytes));
  return NULL;
}

/* The value's bytes on the host: the buffer's own memory on a CPU plugin (*owned NULL), else a copy to free.
 * The value is real. */
static tpu_error *host_bytes(const tpu_value *v, const void **p, void **owned) {
  *owned = NULL;
  TRY(rt_host_pointer(v->cell->buf, p));
  if (*p || value_bytes(v) == 0) return NULL;
  *owned = tpu_xmalloc((size_t)value_bytes(v));
  *p = *owned;
  tpu_error *e = rt_download(v->cell->buf, *owned, (size_t)value_bytes(v));
  if (e) free(*owned);
  return e;
}

/* Elements of one view to another of the same sizes (strides in elements), innermost dims by memcpy where
 * both are dense. */
static void copy_view(char *dst, const int64_t *dst_strides, const char *src, const int64_t *strides,
                      int rank, const int64_t *sizes, size_t item) {
  int64_t idx[TPU_MAX_RANK] = {0}, run = 1, numel = 1;
  int inner = rank;
  while (inner > 0 && (sizes[inner - 1] == 1 || (strides[inner - 1] == run && dst_strides[inner - 1] == run)))
    run *= sizes[--inner];
  for (int i = 0; i < rank; i++) numel *= sizes[i];
  if (numel == 0) return;
  size_t chunk = (size_t)run * item;
  for (int64_t done = 0; done < numel; done += run) {
    int64_t from = 0, to = 0;
    for (int i = 0; i < inner; i++) from += idx[i] * strides[i], to += idx[i] * dst_strides[i];
    memcpy(dst + to * (int64_t)item, src + from * (int64_t)item, chunk);
    for (int i = inner - 1; i >= 0 && ++idx[i] == sizes[i]; i--) idx[i] = 0;
  }
}

/* conj and neg bits, in place on the host. */
static void resolve_bits(void *p, tpu_dtype dt, int64_t n, int flags) {
  if (!(flags & (TPU_T_CONJ | TPU_T_NEG))) return;
  bool conj = flags & TPU_T_CONJ, neg = flags & TPU_T_NEG;
  tpu_dtype part = dt_real(dt);
  int64_t step = dt_is_complex(dt) ? 2 : 1;
  for (int64_t i = 0; i < n * step; i++) {
    bool flip = neg != (conj && step == 2 && (i & 1));
    if (!flip) continue;
    if (part == DT_F32)
      ((float *)p)[i] = -((float *)p)[i];
    else if (part == DT_F64)
      ((double *)p)[i] = -((double *)p)[i];
  }
}

/* Is the tensor the whole generic value, its dims perhaps in another order? */
static bool generic_layout(const tpu_value *v, const tpu_tensor *t) {
  geom g;
  view w = {tpu_dtype_from_torch(t->dtype), t->rank, t->sizes, t->strides, t->offset};
  if (!geom_plan(&w, (tpu_dtype)v->dtype, v->rank, v->d, t->storage->nbytes, &g)) return false;
  return g.kind == GEOM_WHOLE || g.kind == GEOM_PERMUTE;
}

static tpu_error *download_locked(const tpu_tensor *t, void *dst) {
  tpu_dtype dt = tpu_dtype_from_torch(t->dtype);
  size_t item = dt_bytes(dt);
  int64_t numel = view_numel(t->rank, t->sizes);
  if (numel == 0) return NULL;
  view w = {dt, t->rank, t->sizes, t->strides, t->offset};
  TRY(view_in_bounds(&w, t->storage->nbytes));
  if (!t->storage->value) {
    memset(dst, 0, (size_t)numel * item);
    return NULL;
  }
  TRY(step_materialize(t->storage));
  TRY(step_checks(true));
  tpu_value *v = t->storage->value;
  bool generic = value_is_generic(v), dense = generic && generic_layout(v, t);
  if (generic && !dense) TRY(step_exact_twin(t->storage, &v));
  const void *p;
  void *owned;
  TRY(host_bytes(v, &p, &owned));
  int64_t strides[TPU_MAX_RANK];
  memcpy(strides, t->strides, t->rank * sizeof *strides);
  if (dense) { /* physical strides of a dense or permuted view */
    int order[TPU_MAX_RANK];
    view_memory_order(t->rank, t->sizes, t->strides, order);
    int64_t s = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
      strides[order[i]] = s;
      s *= v->d[i].n;
    }
  }
  int64_t out[TPU_MAX_RANK];
  layout_contiguous(t->rank, t->sizes, out);
  copy_view(dst, out, (const char *)p + t->offset * (int64_t)item, strides, t->rank, t->sizes, item);
  free(owned);
  resolve_bits(dst, dt, numel, t->flags);
  return NULL;
}

tpu_error *tpu_download(const tpu_tensor *t, void *dst) {
  if (!rt_is_open()) TRY(tpu_open());
  if (tpu_dtype_from_torch(t->dtype) == DT_NONE)
    return tpu_err(TPU_NOT_IMPLEMENTED, "a tpu tensor of a dtype that XLA does not have");
  core_lock();
  tpu_error *e = download_locked(t, dst);
  core_unlock();
  return e;
}

static tpu_error *padded_of_host(const void *src, const int64_t *strides, tpu_dtype dt, int rank,
                                 const int64_t *sizes, uint32_t dims, int device, tpu_value **out);

static bool covers_storage(const tpu_tensor *t, tpu_dtype dt, int *order) {
  return t->offset == 0 && view_memory_order(t->rank, t->sizes, t->strides, order) &&
         (size_t)view_numel(t->rank, t->sizes) * dt_bytes(dt) == t->storage->nbytes &&
         !view_overlaps(t->rank, t->sizes, t->strides);
}

/* A tensor of the sizes and device of `like`, dense, in a storage of its own; strides is room for its
 * strides. */
static tpu_error *dense_like(const tpu_tensor *like, tpu_dtype dt, tpu_tensor *out, int64_t *strides) {
  *out = *like;
  layout_contiguous(like->rank, like->sizes, strides);
  out->strides = strides, out->offset = 0, out->flags = 0, out->dtype = tpu_dtypes[dt].torch;
  return tpu_storage_new(like->device, (size_t)view_numel(like->rank, like->sizes) * dt_bytes(dt),
                         &out->storage);
}

/* A storage of its own, dense, holding host data of any strides. */
static tpu_error *temp_of_host(const void *src, tpu_dtype dt, const tpu_tensor *like,
                               const int64_t *src_strides, tpu_tensor *out, int64_t *strides) {
  int64_t bs[TPU_MAX_RANK];
  for (int i = 0; i < like->rank; i++) bs[i] = src_strides[i] * dt_bytes(dt);
  TRY(dense_like(like, dt, out, strides));
  core_lock();
  tpu_value *v;
  tpu_error *e = value_of_host(src, dt, like->rank, like->sizes, bs, like->device, &v);
  if (!e) storage_bind(out->storage, v);
  core_unlock();
  if (e) tpu_storage_free(out->storage);
  return e;
}

tpu_error *tpu_upload(const void *src, int src_dtype, const int64_t *src_strides, const tpu_tensor *dst) {
  if (!rt_is_open()) TRY(tpu_open());
  tpu_dtype from = tpu_dtype_from_torch(src_dtype), to = tpu_dtype_from_torch(dst->dtype);
  if (from == DT_NONE || to == DT_NONE || dst->rank > TPU_MAX_RANK)
    return tpu_err(TPU_NOT_IMPLEMENTED,
                   "copying a tensor of this dtype or rank to a tpu device; convert it on the CPU first");
  int order[TPU_MAX_RANK];
  if (from == to && !(dst->flags & (TPU_T_CONJ | TPU_T_NEG)) && covers_storage(dst, to, order)) {
    int64_t dims[TPU_MAX_RANK], bs[TPU_MAX_RANK];
    for (int i = 0; i < dst->rank; i++) {
      dims[i] = dst->sizes[order[i]];
      bs[i] = src_strides[order[i]] * dt_bytes(from);
    }
    core_lock();
    tpu_value *v;
    uint32_t generic = sizes_of_upload(from, dst->rank, dims);
    for (int i = 0; generic && i < dst->rank; i++) bs[i] /= dt_bytes(from);
    tpu_error *e = generic ? padded_of_host(src, bs, from, dst->rank, dims, generic, dst->device, &v)
                           : value_of_host(src, from, dst->rank, dims, bs, dst->device, &v);
    if (!e) storage_bind(dst->storage, v);
    core_unlock();
    return e;
  }
  tpu_tensor tmp;
  int64_t strides[TPU_MAX_RANK];
  TRY(temp_of_host(src, from, dst, src_strides, &tmp, strides));
  tpu_error *e = tpu_copy(&tmp, dst);
  tpu_storage_free(tmp.storage);
  return e;
}

static tpu_error *copy_row(const tpu_tensor *src, const tpu_tensor *dst) {
  static const tpu_row *row;
  if (!row) row = tpu_row_find("tpu::copy");
  tpu_arg args[2] = {{.tag = TPU_A_TENSOR, .n = 1, .u.t = dst}, {.tag = TPU_A_TENSOR, .n = 1, .u.t = src}};
  tpu_call c = {.row = row,
                .variant = TPU_INPLACE,
                .nargs = 2,
                .args = args,
                .nouts = 1,
                .outs = dst,
                .device = dst->device};
  TRY(tpu_dispatch(&c));
  return c.declined ? tpu_err(TPU_NOT_IMPLEMENTED, "copy_: %s", c.declined) : NULL;
}

/* A copy of a whole storage onto a whole storage of the same layout: values are immutable, so it is one name
 * more; of which dtype the value is does not matter then (storages are copied as bytes). */
static bool share_value(const tpu_tensor *src, const tpu_tensor *dst) {
  int order[TPU_MAX_RANK];
  tpu_dtype dt = tpu_dtype_from_torch(dst->dtype);
  bool same = src->storage->value && dt != DT_NONE && src->dtype == dst->dtype && src->rank == dst->rank &&
              !src->flags && !dst->flags && src->storage->nbytes == dst->storage->nbytes &&
              !memcmp(src->sizes, dst->sizes, src->rank * sizeof *src->sizes) &&
              !memcmp(src->strides, dst->strides, src->rank * sizeof *src->strides) &&
              covers_storage(src, dt, order) && covers_storage(dst, dt, order);
  if (!same) return false;
  value_retain(src->storage->value);
  storage_bind(dst->storage, src->storage->value);
  return true;
}

/* A copy that leaves nothing of what dst was, from a generic value: the new value is made as the result of an
 * op, so that it is generic as well. *done: it was such a copy. */
static tpu_error *copy_whole(const tpu_tensor *src, const tpu_tensor *dst, bool *done) {
  static const tpu_row *row;
  if (!row) row = tpu_row_find("tpu::dense");
  int order[TPU_MAX_RANK];
  int64_t dims[TPU_MAX_RANK];
  tpu_dtype dt = tpu_dtype_from_torch(dst->dtype);
  core_lock();
  if ((*done = share_value(src, dst))) {
    core_unlock();
    return NULL;
  }
  const tpu_value *v = src->storage->value;
  *done = v && value_is_generic(v) && src->rank == dst->rank && dt != DT_NONE &&
          !memcmp(src->sizes, dst->sizes, src->rank * sizeof *src->sizes) &&
          !(dst->flags & (TPU_T_CONJ | TPU_T_NEG)) && covers_storage(dst, dt, order);
  core_unlock();
  if (!*done) return NULL;
  for (int i = 0; i < dst->rank; i++) dims[i] = order[i];
  tpu_arg args[3] = {{.tag = TPU_A_TENSOR, .n = 1, .u.t = src},
                     {.tag = TPU_A_DTYPE, .n = 1, .u.i = dst->dtype},
                     {.tag = TPU_A_INTS, .n = dst->rank, .u.is = dims}};
  tpu_call c = {.row = row, .nargs = 3, .args = args, .device = dst->device};
  TRY(tpu_dispatch(&c));
  *done = !c.declined && c.nresults == 1;
  if (!*done) return NULL;
  core_lock();
  value_retain(c.results[0].storage->value);
  storage_bind(dst->storage, c.results[0].storage->value);
  storage_destroy(c.results[0].storage);
  core_unlock();
  return NULL;
}

/* `t` made dense in a storage of its own on its own device. */
static tpu_error *dense_temp(const tpu_tensor *t, tpu_tensor *out, int64_t *strides) {
  TRY(dense_like(t, tpu_dtype_from_torch(t->dtype), out, strides));
  tpu_error *e = copy_row(t, out);
  if (e) tpu_storage_free(out->storage);
  return e;
}

static tpu_error *move_storage(tpu_storage *s, int device, tpu_storage **out) {
  TRY(tpu_storage_new(device, s->nbytes, out));
  core_lock();
  tpu_error *e = step_materialize(s);
  PJRT_Buffer *buf = NULL;
  if (!e && s->value) e = memory_reserve(device, value_bytes(s->value));
  if (!e && s->value) e = rt_copy_to_device(s->value->cell->buf, device, &buf);
  if (buf) {
    tpu_value *v = value_create((tpu_dtype)s->value->dtype, s->value->rank, s->value->d, device);
    value_set_cell(v, cell_create(buf, device, value_bytes(v)));
    storage_bind(*out, v);
  }
  core_unlock();
  if (e) tpu_storage_free(*out);
  return e;
}

tpu_error *tpu_copy(const tpu_tensor *src, const tpu_tensor *dst) {
  if (src->device == dst->device) {
    bool done;
    TRY(copy_whole(src, dst, &done));
    return done ? NULL : copy_row(src, dst);
  }
  tpu_tensor near, far;
  int64_t strides[TPU_MAX_RANK];
  TRY(dense_temp(src, &near, strides));
  far = near;
  far.device = dst->device;
  tpu_error *e = move_storage(near.storage, dst->device, &far.storage);
  tpu_storage_free(near.storage);
  if (e) return e;
  e = copy_row(&far, dst);
  tpu_storage_free(far.storage);
  return e;
}

/* --- storages --- */
tpu_error *step_exact_twin(tpu_storage *s, tpu_value **out) {
  if (graph_records(s->device) && s->value && value_is_generic(s->value)) return derive_exact(s, out);
  TRY(step_materialize(s));
  tpu_value *v = s->value;
  *out = v;
  if (!value_is_generic(v)) return NULL;
  int64_t dims[TPU_MAX_RANK], bs[TPU_MAX_RANK], step = dt_bytes((tpu_dtype)v->dtype);
  *out = v->twin;
  if (v->twin) return NULL;
  for (int i = v->rank - 1; i >= 0; i--) {
    dims[i] = v->d[i].logical;
    bs[i] = step;
    step *= v->d[i].n;
  }
  const void *p;
  void *owned;
  TRY(host_bytes(v, &p, &owned));
  tpu_error *e = value_of_host(p, (tpu_dtype)v->dtype, v->rank, dims, bs, v->device, &v->twin);
  free(owned);
  if (!e) v->twin->source = v->source;
  *out = v->twin;
  return e;
}

/* A value of host data with room behind the dims of the mask; strides in elements. */
static tpu_error *padded_of_host(const void *src, const int64_t *strides, tpu_dtype dt, int rank,
                                 const int64_t *sizes, uint32_t dims, int device, tpu_value **out) {
  int64_t phys[TPU_MAX_RANK] = {0}, to[TPU_MAX_RANK], n = dt_bytes(dt);
  for (int i = 0; i < rank; i++) {
    phys[i] = dims >> i & 1 ? ladder_rung(sizes[i]) : sizes[i];
    n *= phys[i];
  }
  layout_contiguous(rank, phys, to);
  char *room = tpu_xcalloc((size_t)n + 1, 1);
  copy_view(room, to, src, strides, rank, sizes, dt_bytes(dt));
  tpu_error *e = value_of_host(room, dt, rank, phys, NULL, device, out);
  free(room);
  for (int i = 0; i < rank && !e; i++)
    if (dims >> i & 1) (*out)->d[i] = (vdim){phys[i], sizes[i], 1};
  return e;
}

/* The dims that are generic, or static of this size and in the mask. */
static uint32_t dims_to_pad(const tpu_value *v, int64_t size, uint32_t mask) {
  uint32_t dims = 0;
  for (int i = 0; i < v->rank; i++)
    if (v->d[i].sym || (v->d[i].n == size && (mask >> i & 1))) dims |= 1u << i;
  return dims;
}

tpu_error *step_pad(tpu_storage *s, int64_t size, uint32_t mask) {
  if (graph_records(s->device)) {
    int64_t given[TPU_MAX_RANK], steps[TPU_MAX_RANK];
    tpu_value *v;
    tpu_tensor t = derive_whole(s, given, steps);
    TRY(derive_padded(&t, dims_to_pad(s->value, size, mask), &v));
    storage_bind(s, v);
    return NULL;
  }
  TRY(step_materialize(s));
  tpu_value *v = s->value, *padded;
  int64_t sizes[TPU_MAX_RANK], strides[TPU_MAX_RANK], step = 1;
  uint32_t dims = dims_to_pad(v, size, mask);
  for (int i = v->rank - 1; i >= 0; i--) {
    sizes[i] = v->d[i].logical, strides[i] = step;
    step *= v->d[i].n;
  }
  const void *p;
  void *owned;
  TRY(host_bytes(v, &p, &owned));
  tpu_error *e = padded_of_host(p, strides, (tpu_dtype)v->dtype, v->rank, sizes, dims, v->device, &padded);
  free(owned);
  if (e) return e;
  padded->source = v->source;
  storage_bind(s, padded);
  return NULL;
}

tpu_error *step_zeros(const tpu_tensor *t, uint32_t mask) {
  tpu_dtype dt = tpu_dtype_from_torch(t->dtype);
  int order[TPU_MAX_RANK];
  vdim d[TPU_MAX_RANK];
  int64_t dims[TPU_MAX_RANK], n = dt_bytes(dt);
  tpu_value *v;
  view_memory_order(t->rank, t->sizes, t->strides, order);
  for (int i = 0; i < t->rank; i++) {
    d[i] = vdim_static(t->sizes[order[i]]);
    if (mask >> order[i] & 1) d[i] = (vdim){ladder_rung(d[i].n), d[i].n, 1};
    n *= dims[i] = d[i].n;
  }
  char *zeros = tpu_xcalloc((size_t)n + 1, 1);
  tpu_error *e = value_of_host(zeros, dt, t->rank, dims, NULL, t->device, &v);
  free(zeros);
  if (e) return e;
  memcpy(v->d, d, (size_t)t->rank * sizeof *d);
  storage_bind(t->storage, v);
  return NULL;
}

/* On the host's memory what lies beyond the rung goes: its copy needs no program, and what comes after it
 * does not work on room that stands empty. */
tpu_error *step_first(tpu_storage *s, int axis, int64_t n) {
  TRY(step_materialize(s));
  tpu_value *v = s->value, *first = NULL;
  if (v->d[axis].sym) return NULL;
  int64_t rung = ladder_rung(n), dims[TPU_MAX_RANK], bs[TPU_MAX_RANK], step = dt_bytes((tpu_dtype)v->dtype);
  for (int i = v->rank - 1; i >= 0; i--) {
    dims[i] = v->d[i].n, bs[i] = step;
    step *= v->d[i].n;
  }
  const void *p = NULL;
  if (rung < dims[axis]) TRY(rt_host_pointer(v->cell->buf, &p));
  if (p) {
    dims[axis] = rung;
    TRY(value_of_host(p, (tpu_dtype)v->dtype, v->rank, dims, bs, v->device, &first));
  } else {
    first = value_create((tpu_dtype)v->dtype, v->rank, v->d, v->device);
    cell_retain(v->cell);
    value_set_cell(first, v->cell);
  }
  s->nbytes = dt_bytes((tpu_dtype)v->dtype);
  for (int i = 0; i < v->rank; i++) {
    first->d[i] = i == axis ? (vdim){dims[i], n, 1} : v->d[i];
    s->nbytes *= (size_t)first->d[i].logical;
  }
  first->source = v->source;
  storage_bind(s, first);
  return NULL;
}

tpu_error *step_pad_view(const tpu_tensor *t, uint32_t dims, tpu_value **out) {
  if (graph_records(t->device)) return derive_padded(t, dims, out);
  tpu_dtype dt = tpu_dtype_from_torch(t->dtype);
  int64_t strides[TPU_MAX_RANK];
  char *dense = tpu_xmalloc((size_t)view_numel(t->rank, t->sizes) * dt_bytes(dt) + 1);
  tpu_tensor plain = *t;
  plain.flags = 0; /* conj and neg stay with the tensor */
  tpu_error *e = download_locked(&plain, dense);
  layout_contiguous(t->rank, t->sizes, strides);
  if (!e) e = padded_of_host(dense, strides, dt, t->rank, t->sizes, dims, t->device, out);
  free(dense);
  if (!e && t->storage->value) (*out)->source = t->storage->value->source;
  return e;
}

tpu_error *step_retype(tpu_storage *s, tpu_dtype dt) {
  tpu_value *v;
  const void *p;
  void *owned;
  int64_t n = (int64_t)s->nbytes / dt_bytes(dt);
  TRY(step_materialize(s));
  TRY(host_bytes(s->value, &p, &owned));
  tpu_error *e = value_of_host(p, dt, 1, &n, NULL, s->device, &v);
  free(owned);
  if (!e) storage_bind(s, v);
  return e;
}

tpu_error *step_resize_value(tpu_storage *s, size_t nbytes) {
  core_lock();
  tpu_value *v = NULL;
  tpu_error *e = NULL;
  if (s->value && nbytes != s->nbytes && nbytes) {
    tpu_value *old;
    e = step_exact_twin(s, &old);
    const void *p = NULL;
    void *owned = NULL;
    if (!e) e = host_bytes(old, &p, &owned);
    if (!e) {
      tpu_dtype dt = nbytes % dt_bytes((tpu_dtype)old->dtype) ? DT_U8 : (tpu_dtype)old->dtype;
      char *grown = tpu_xcalloc(nbytes, 1);
      memcpy(grown, p, nbytes < s->nbytes ? nbytes : s->nbytes);
      int64_t n = (int64_t)nbytes / dt_bytes(dt);
      e = value_of_host(grown, dt, 1, &n, NULL, s->device, &v);
      free(grown);
      free(owned);
    }
  }
  if (!e && nbytes != s->nbytes) storage_bind(s, v);
  core_unlock();
  return e;
}

/* --- test hooks --- */
/* Real floats get `fill`; whole numbers the least one where that is negative, else the greatest; everything
 * else bits that make large numbers. */
static void fill_bytes(char *p, tpu_dtype dt, int64_t n, double fill) {
  float f = (float)fill;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  size_t item = dt_bytes(dt);
  uint64_t sign = 1ull << (8 * (item < 8 ? item : 8) - 1), extreme = dt_is_unsigned(dt) ? ~0ull : sign - 1;
  if (fill < 0) extreme = dt_is_unsigned(dt) ? 0 : sign;
  if (dt == DT_BOOL) extreme = !(fill < 0);
  for (int64_t k = 0; k < n; k++) {
    if (dt == DT_F64)
      memcpy(p + k * 8, &fill, 8);
    else if (dt == DT_F32)
      memcpy(p + k * 4, &f, 4);
    else if (dt == DT_BF16)
      memcpy(p + k * 2, (char *)&bits + 2, 2);
    else if (dt_is_int(dt) || dt == DT_BOOL)
      memcpy(p + k * (int64_t)item, &extreme, item);
    else
      memset(p + k * (int64_t)item, 0x7f, item);
  }
}

tpu_error *tpu_debug_mark_generic(const tpu_tensor *t, int dim, int64_t rung, double fill) {
  if (dim < 0 || dim >= t->rank || rung < t->sizes[dim])
    return tpu_err(TPU_VALUE, "dim %d cannot be padded to %lld", dim, (long long)rung);
  tpu_dtype dt = tpu_dtype_from_torch(t->dtype);
  size_t item = dt_bytes(dt);
  int64_t dims[TPU_MAX_RANK], from[TPU_MAX_RANK], to[TPU_MAX_RANK], n = 1;
  const tpu_value *old = t->storage->value;
  bool again = old && value_is_generic(old) && old->rank == t->rank;
  for (int i = 0; i < t->rank; i++) {
    dims[i] = i == dim ? rung : again ? old->d[i].n : t->sizes[i];
    n *= dims[i];
  }
  char *exact = tpu_xmalloc((size_t)view_numel(t->rank, t->sizes) * item + 1),
       *padded = tpu_xmalloc((size_t)n * item + 1);
  tpu_error *e = tpu_download(t, exact);
  fill_bytes(padded, dt, n, fill);
  layout_contiguous(t->rank, t->sizes, from);
  layout_contiguous(t->rank, dims, to);
  copy_view(padded, to, exact, from, t->rank, t->sizes, item);
  core_lock();
  tpu_value *v = NULL;
  if (!e) e = value_of_host(padded, dt, t->rank, dims, NULL, t->device, &v);
  if (!e) {
    for (int i = 0; i < t->rank; i++)
      if (i == dim || (again && old->d[i].sym)) v->d[i] = (vdim){dims[i], t->sizes[i], 1};
    storage_bind(t->storage, v);
  }
  core_unlock();
  free(exact);
  free(padded);
  return e;
}
