/* Geometry of tensors over values. See geometry.h. */
#include "value/geometry.h"

#include <string.h>

int64_t view_numel(int rank, const int64_t *sizes) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= sizes[i];
  return n;
}

bool view_is_contiguous(int rank, const int64_t *sizes, const int64_t *strides) {
  int64_t want = 1;
  for (int i = rank - 1; i >= 0; i--) {
    if (sizes[i] != 1 && strides[i] != want) return sizes[i] == 0;
    want *= sizes[i];
  }
  return true;
}

bool view_memory_order(int rank, const int64_t *sizes, const int64_t *strides, int *perm) {
  int n = 0;
  bool plain = view_is_contiguous(rank, sizes, strides);
  for (int i = 0; i < rank; i++) { /* insertion sort: stride down; dims of one element follow */
    if (!plain && sizes[i] == 1) continue;
    int j = n++;
    for (; !plain && j > 0 && strides[perm[j - 1]] < strides[i]; j--) perm[j] = perm[j - 1];
    perm[j] = i;
  }
  for (int i = 0; !plain && i < rank; i++)
    if (sizes[i] == 1) perm[n++] = i;
  int64_t want = 1;
  for (int i = rank - 1; i >= 0; i--) {
    int d = perm[i];
    if (sizes[d] != 1 && strides[d] != want) return false;
    want *= sizes[d];
  }
  return true;
}

bool view_overlaps(int rank, const int64_t *sizes, const int64_t *strides) {
  for (int i = 0; i < rank; i++)
    if (sizes[i] > 1 && strides[i] == 0) return true;
  return false;
}

static int64_t gcd(int64_t a, int64_t c) {
  while (c) {
    int64_t t = a % c;
    a = c;
    c = t;
  }
  return a;
}

/* Tensor dims with more than one element and a stride, by stride down. */
static int sorted_dims(const view *t, int *order) {
  int n = 0;
  for (int i = 0; i < t->rank; i++) {
    if (t->sizes[i] <= 1 || t->strides[i] == 0) continue;
    int j = n++;
    for (; j > 0 && t->strides[order[j - 1]] < t->strides[i]; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  return n;
}

static bool plan_chain(const view *t, int64_t flat, geom *g) {
  int order[TPU_MAX_RANK];
  int n = sorted_dims(t, order);
  int64_t chain = 0, rest = t->offset, covered = 1;
  for (int i = 0; i < n; i++) {
    int d = order[i];
    int64_t stride = t->strides[d], c = i ? gcd(chain, stride) : stride;
    int64_t start = rest / c, step = stride / c, span = (t->sizes[d] - 1) * step + 1;
    int64_t extent = i ? chain / c : (flat + c - 1) / c;
    if (start + span > extent) return false;
    rest -= start * c;
    g->extent[i] = extent, g->step[i] = step, g->size[i] = t->sizes[d], g->dim[i] = (int8_t)d;
    covered *= span == extent && step == 1 ? 1 : 0;
    chain = c;
  }
  if (n == 0) chain = flat > 0 ? flat : 1; /* one element */
  if (chain > 1 || n == 0) {
    g->extent[n] = chain, g->step[n] = 1, g->size[n] = 1, g->dim[n] = -1;
    covered *= chain == 1;
    n++;
  }
  g->n = (uint8_t)n;
  g->flat = 1;
  for (int i = 0; i < n; i++) g->flat *= g->extent[i];
  g->covers = covered && g->flat == flat && !view_overlaps(t->rank, t->sizes, t->strides);
  return true;
}

static bool plan_generic(const view *t, tpu_dtype vdt, int vrank, const vdim *vd, geom *g) {
  int order[TPU_MAX_RANK];
  if (t->offset || t->dtype != vdt || t->rank != vrank || view_numel(t->rank, t->sizes) == 0) return false;
  if (!view_memory_order(t->rank, t->sizes, t->strides, order)) return false;
  bool same = true;
  for (int i = 0; i < vrank; i++) {
    if (t->sizes[order[i]] != vd[i].logical || (vd[i].sym && vd[i].logical < 2)) return false;
    g->perm[order[i]] = (int8_t)i;
    same = same && order[i] == i;
  }
  for (int i = 0; i < vrank; i++)
    if (vd[i].sym) g->phys[order[i]] = vd[i].n;
  g->kind = same ? GEOM_WHOLE : GEOM_PERMUTE;
  g->covers = true;
  return true;
}

tpu_error *view_in_bounds(const view *t, size_t storage_bytes) {
  int64_t end = t->offset + 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->sizes[i] == 0) return NULL;
    end += (t->sizes[i] - 1) * t->strides[i];
  }
  if ((uint64_t)end * dt_bytes(t->dtype) <= storage_bytes) return NULL;
  return tpu_err(
      TPU_RUNTIME,
      "The tensor has a non-zero number of elements, but its storage, which has been resized to %zu "
      "bytes, does not hold them (it needs %lld).",
      storage_bytes, (long long)end * (long long)dt_bytes(t->dtype));
}

bool geom_plan(const view *t, tpu_dtype vdt, int vrank, const vdim *vd, size_t storage_bytes, geom *g) {
  memset(g, 0, sizeof *g);
  for (int i = 0; i < vrank; i++)
    if (vd[i].sym) {
      bool good = plan_generic(t, vdt, vrank, vd, g) || (t->dtype == vdt && groups_plan(t, vrank, vd, g));
      for (int d = 0; d < t->rank; d++) g->generic = g->generic || g->phys[d];
      return good;
    }
  int64_t numel = view_numel(t->rank, t->sizes), flat = (int64_t)storage_bytes / dt_bytes(t->dtype);
  g->retype = vdt != t->dtype;
  g->flat = flat;
  if (numel == 0) {
    g->kind = GEOM_EMPTY;
    g->covers = flat == 0;
    return true;
  }
  if (t->offset == 0 && numel == flat && view_is_contiguous(t->rank, t->sizes, t->strides)) {
    bool same = !g->retype && vrank == t->rank;
    for (int i = 0; same && i < vrank; i++) same = vd[i].n == t->sizes[i];
    g->kind = same ? GEOM_WHOLE : GEOM_RESHAPE;
    g->covers = true;
    return true;
  }
  g->offset = t->offset != 0;
  g->kind = plan_chain(t, flat, g) ? GEOM_CHAIN : GEOM_GATHER;
  if (g->kind == GEOM_GATHER) {
    g->covers = false;
    g->flat = flat;
  }
  return true;
}

/* --- builder side --- */

/* x as a flat value of dtype dt, by bits (bool <-> bytes by value: XLA keeps a bool in a byte of 0 or 1). */
static Val flat_as(B *b, Val x, tpu_dtype dt) {
  tpu_dtype from = b_dtype(b, x);
  int64_t n = b_numel_static(b, x);
  x = b_reshape_to(b, x, 1, &n);
  if (from == dt) return x;
  if (from == DT_BOOL) return flat_as(b, b_cast(b, x, DT_U8), dt);
  if (dt == DT_BOOL) return b_cast(b, flat_as(b, x, DT_U8), DT_BOOL);
  if (dt_is_complex(from)) { /* no bit cast between complex and real: interleave the parts */
    int64_t d[2] = {n, 1}, n2 = 2 * n;
    Val parts[2] = {b_reshape_to(b, b_real(b, x), 2, d), b_reshape_to(b, b_imag(b, x), 2, d)};
    return flat_as(b, b_reshape_to(b, b_concat(b, parts, 2, 1), 1, &n2), dt);
  }
  if (dt_is_complex(dt)) {
    Val r = flat_as(b, x, dt_real(dt));
    int64_t half = b_dim_static(b, r, 0) / 2, d[2] = {half, 2};
    r = b_reshape_to(b, r, 2, d);
    Val re = b_reshape_to(b, b_slice(b, r, 1, 0, 1, 1), 1, &half);
    return b_complex(b, re, b_reshape_to(b, b_slice(b, r, 1, 1, 2, 1), 1, &half));
  }
  int a = dt_bytes(from), c = dt_bytes(dt);
  if (a < c) { /* [n] -> [n/k, k] -> wider [n/k] */
    int64_t k = c / a, whole = n / k, d[2] = {whole, k};
    x = b_reshape_to(b, b_slice(b, x, 0, 0, whole * k, 1), 2, d);
    return b_bitcast(b, x, dt);
  }
  x = b_bitcast(b, x, dt);
  int64_t m = n * (a / c);
  return b_reshape_to(b, x, 1, &m);
}

static Val pad_flat(B *b, Val x, int64_t n) {
  int64_t have = b_dim_static(b, x, 0);
  if (have > n) return b_slice(b, x, 0, 0, n, 1);
  return have < n ? b_pad_axis(b, x, 0, 0, n - have, b_like(b, x, 0)) : x;
}

static Val chain_of(B *b, const geom *g, tpu_dtype dt, Val full) {
  return b_reshape_to(b, pad_flat(b, flat_as(b, full, dt), g->flat), g->n, g->extent);
}

/* Start of each chain dim from the flat offset. */
static void chain_starts(B *b, const geom *g, Val offset, Val *starts) {
  int64_t c = g->flat;
  Val rest = g->offset ? offset : b_const_i(b, DT_I64, 0);
  for (int i = 0; i < g->n; i++) {
    c = g->extent[i] ? c / g->extent[i] : c;
    Val stride = b_const_i(b, DT_I64, c);
    starts[i] = g->offset ? b_div(b, rest, stride) : rest;
    if (g->offset) rest = b_rem(b, rest, stride);
  }
}

static int64_t span(const geom *g, int i) { return (g->size[i] - 1) * g->step[i] + 1; }

static Val chain_slice(B *b, const geom *g, Val chain, Val offset) {
  Val starts[TPU_MAX_RANK + 1];
  int64_t spans[TPU_MAX_RANK + 1], zero[TPU_MAX_RANK + 1] = {0};
  bool cut = g->offset;
  for (int i = 0; i < g->n; i++) {
    spans[i] = span(g, i);
    cut = cut || spans[i] != g->extent[i] || g->step[i] != 1;
  }
  if (g->offset) {
    chain_starts(b, g, offset, starts);
    chain = b_dynamic_slice(b, chain, starts, spans);
  }
  return cut ? b_slice_nd(b, chain, zero, spans, g->step) : chain;
}

static shape view_shape(const view *t) { return shape_of(t->rank, t->sizes); }

/* Index into the flat value of every element of the view: i64 of the view's shape. */
static Val flat_index(B *b, const geom *g, const view *t, Val offset) {
  shape s = view_shape(t);
  Val idx = b_full(b, &s, g->offset ? b_cast(b, offset, DT_I64) : b_const_i(b, DT_I64, 0));
  for (int i = 0; i < t->rank; i++)
    if (t->sizes[i] > 1 && t->strides[i])
      idx = b_add(b, idx, b_mul(b, b_iota(b, DT_I64, &s, i), b_const_i(b, DT_I64, t->strides[i])));
  return idx;
}

static Val read_chain(B *b, const geom *g, const view *t, Val full, Val offset) {
  Val x = chain_slice(b, g, chain_of(b, g, t->dtype, full), offset);
  int64_t kept[TPU_MAX_RANK];
  int where[TPU_MAX_RANK], perm[TPU_MAX_RANK], n = 0, k = 0;
  for (int i = 0; i < g->n; i++)
    if (g->dim[i] >= 0) kept[n++] = g->size[i];
  x = b_reshape_to(b, x, n, kept);
  for (int d = 0; d < t->rank; d++) /* chain order -> tensor order */
    for (int i = 0; i < g->n; i++)
      if (g->dim[i] == d) {
        where[k] = d;
        perm[k++] = i;
      }
  x = b_transpose(b, x, perm);
  shape s = view_shape(t);
  return b_broadcast_dims(b, x, &s, where);
}

Val geom_read(B *b, const geom *g, const view *t, Val full, const Val *starts, const int32_t *syms) {
  shape s = view_shape(t);
  Val offset = g->offset ? starts[0] : BAD;
  switch ((geom_kind)g->kind) {
  case GEOM_WHOLE: return full;
  case GEOM_RESHAPE: return b_reshape(b, flat_as(b, full, t->dtype), &s);
  case GEOM_EMPTY: return b_zeros(b, t->dtype, &s);
  case GEOM_GROUPS: return groups_read(b, g, t, full, starts, syms);
  case GEOM_CHAIN: return read_chain(b, g, t, full, offset);
  case GEOM_GATHER: return b_take(b, flat_as(b, full, t->dtype), flat_index(b, g, t, offset), 0);
  case GEOM_PERMUTE: {
    int perm[TPU_MAX_RANK];
    for (int i = 0; i < t->rank; i++) perm[i] = g->perm[i];
    return b_transpose(b, full, perm);
  }
  }
  return BAD;
}

/* A covering write: the update in memory order becomes the value. */
static Val write_whole(B *b, const view *t, Val update) {
  int order[TPU_MAX_RANK];
  view_memory_order(t->rank, t->sizes, t->strides, order);
  return b_transpose(b, update, order);
}

/* flat (tensor dtype, g->flat elements) back to full's dtype and shape. */
static Val like_full(B *b, Val flat, Val full) {
  tpu_dtype dt = b_dtype(b, full);
  int64_t n = b_numel_static(b, full);
  Val x = pad_flat(b, flat_as(b, flat, dt), n);
  return b_reshape(b, x, b_shape(b, full));
}

static Val write_chain(B *b, const geom *g, const view *t, Val full, Val update, Val offset) {
  int64_t sizes[TPU_MAX_RANK + 1], spans[TPU_MAX_RANK + 1], lo[TPU_MAX_RANK + 1] = {0},
                                                                              interior[TPU_MAX_RANK + 1];
  int perm[TPU_MAX_RANK] = {0}, k = 0;
  bool stepped = false;
  for (int i = 0; i < g->n; i++) {
    sizes[i] = g->size[i], spans[i] = span(g, i), interior[i] = g->step[i] - 1;
    stepped = stepped || interior[i];
    if (g->dim[i] >= 0) perm[k++] = g->dim[i];
  }
  for (int d = 0; d < t->rank; d++) /* dims of one element go last and vanish in the reshape */
    if (t->sizes[d] == 1) perm[k++] = d;
  update = b_reshape_to(b, b_transpose(b, update, perm), g->n, sizes);
  Val starts[TPU_MAX_RANK + 1], chain = chain_of(b, g, t->dtype, full);
  chain_starts(b, g, offset, starts);
  if (stepped) { /* elements between the steps keep their old values */
    shape s = shape_of(g->n, sizes);
    Val yes = b_full(b, &s, b_const_i(b, DT_BOOL, 1));
    Val mask = b_pad(b, yes, lo, lo, interior, b_const_i(b, DT_BOOL, 0));
    Val old = b_dynamic_slice(b, chain, starts, spans);
    update = b_select(b, mask, b_pad(b, update, lo, lo, interior, b_like(b, update, 0)), old);
  }
  chain = b_dynamic_update(b, chain, update, starts);
  int64_t n = g->flat;
  return like_full(b, b_reshape_to(b, chain, 1, &n), full);
}

Val geom_write(B *b, const geom *g, const view *t, Val full, Val update, const Val *starts,
               const int32_t *syms) {
  Val offset = g->offset ? starts[0] : BAD;
  if (g->kind == GEOM_EMPTY) return full;
  if (g->covers) return write_whole(b, t, update);
  if (g->kind == GEOM_GROUPS) return groups_write(b, g, t, full, update, starts, syms);
  if (g->kind == GEOM_CHAIN) return write_chain(b, g, t, full, update, offset);
  Val flat = flat_as(b, full, t->dtype), idx = flat_index(b, g, t, offset);
  return like_full(b, b_scatter_nd(b, SCAT_SET, flat, &idx, 1, update), full);
}
