/* Shapes: concatenation, flips and rolls, repetition, pieces of tensors and the gradients of views, shuffles,
 * cross product. Paddings by the tensor's own values and windows (im2col, unfold) are in pad.c. */
#include <stdlib.h>

#include "lower/indexing.h"

/* --- cat, stack --- */

/* What cat and stack make of their tensors. */
static tpu_dtype common_dtype(L *l) {
  tpu_dtype dt = l_result_type(l, 1, (int[]){0}), to = l_written_dtype(l);
  if (to != DT_NONE && !dt_can_cast(dt, to))
    l_fail(l, TPU_TYPE, "torch.cat(): input types can't be cast to the desired output type %s",
           tpu_dtype_torch_name(to));
  return dt;
}

/* torch skips tensors of shape [0], whatever the rank of the others. */
static bool is_legacy_empty(B *b, Val v) {
  const shape *s = b_shape(b, v);
  return s->rank == 1 && s->d[0].n == 0 && !s->d[0].sym;
}

static Val cat_growing(B *b, const Val *vs, int n, int axis, int64_t rung) {
  Val v = vs[0];
  for (int k = 1; k < n; k++) v = b_append(b, v, vs[k], axis, rung);
  return v;
}

static void check_cat_shapes(L *l, const Val *vs, int n, int axis) {
  B *b = l_b(l);
  const shape *s = b_shape(b, vs[0]);
  for (int k = 1; k < n; k++) {
    const shape *t = b_shape(b, vs[k]);
    if (t->rank != s->rank)
      l_fail(l, TPU_RUNTIME, "Tensors must have same number of dimensions: got %d and %d", s->rank, t->rank);
    for (int i = 0; i < s->rank && i < t->rank; i++)
      if (i != axis && !s->d[i].sym && !t->d[i].sym && s->d[i].n != t->d[i].n)
        l_fail(l, TPU_RUNTIME,
               "Sizes of tensors must match except in dimension %d. Expected size %lld but got size %lld for "
               "tensor number %d in the list.",
               axis, (long long)s->d[i].n, (long long)t->d[i].n, k);
  }
}

enum { CAT_MANY = 256 };

/* The kept items cast to the common dtype, in groups when there are very many. */
static void cat(L *l) {
  B *b = l_b(l);
  int n = l_len(l, 0), kept = 0;
  tpu_dtype dt = common_dtype(l);
  if (n == 0) {
    l_fail(l, TPU_VALUE, "torch.cat(): expected a non-empty list of Tensors");
    return;
  }
  Val small[CAT_MANY], *vs = small, last = BAD;
  if (n > CAT_MANY) vs = tpu_xmalloc((size_t)n * sizeof *vs);
  bool generic = false;
  for (int k = 0; k < n; k++) {
    Val v = b_cast(b, last = l_item(l, 0, k), dt);
    if (b_ok(b) && b_rank(b, v) == 0)
      l_fail(l, TPU_RUNTIME, "zero-dimensional tensor (at position %d) cannot be concatenated", k);
    if (!is_legacy_empty(b, v)) vs[kept++] = v;
  }
  if (!kept) {
    vs[kept++] = b_cast(b, last, dt);
    l_axis(l, 1, 1);
  }
  int axis = l_axis(l, 1, b_rank(b, vs[0]));
  for (int k = 0; k < kept; k++) generic = generic || b_dim_is_generic(b, vs[k], axis);
  check_cat_shapes(l, vs, kept, axis);
  int64_t rung = l_rung(l);
  if (b_ok(b))
    ret(l, kept > 1 && (generic || rung > 0) ? cat_growing(b, vs, kept, axis, rung)
                                             : b_concat(b, vs, kept, axis));
  if (vs != small) free(vs);
}

static void stack(L *l) {
  B *b = l_b(l);
  int n = l_len(l, 0);
  if (n == 0) {
    l_fail(l, TPU_RUNTIME, "stack expects a non-empty TensorList");
    return;
  }
  tpu_dtype dt = common_dtype(l);
  int axis = l_axis(l, 1, b_rank(b, l_item(l, 0, 0)) + 1);
  Val small[CAT_MANY], *vs = n > CAT_MANY ? tpu_xmalloc((size_t)n * sizeof *vs) : small;
  for (int k = 0; k < n && b_ok(b); k++) {
    Val v = l_item(l, 0, k);
    const shape *s = b_shape(b, l_item(l, 0, 0)), *t = b_shape(b, v);
    bool same = s->rank == t->rank;
    for (int i = 0; i < s->rank && same; i++) same = s->d[i].n == t->d[i].n || s->d[i].sym || t->d[i].sym;
    if (!same)
      l_fail(l, TPU_RUNTIME, "stack expects each tensor to be equal size, but they differ at entry %d", k);
    vs[k] = b_unsqueeze(b, b_cast(b, v, dt), axis);
  }
  if (b_ok(b)) ret(l, b_concat(b, vs, n, axis));
  if (vs != small) free(vs);
}

/* --- flip, roll, repeat --- */

static void flip(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  const int64_t *dims;
  uint32_t axes = l_ints(l, 1, &dims) ? l_axes(l, 1, rank) : 0;
  for (int i = 0; i < rank; i++)
    if (axes >> i & 1) x = b_reverse(b, x, i);
  ret(l, x);
}

/* Element i is the one `shift` places before it. */
static Val roll_generic(B *b, Val x, int axis, int64_t shift) {
  shape line = {.rank = 1, .d = {b_shape(b, x)->d[axis]}};
  Val at = b_sub(b, b_iota(b, DT_I64, &line, 0), b_const_i(b, DT_I64, shift));
  return b_take(b, x, b_floor_mod(b, at, b_size(b, x, axis, DT_I64)), axis);
}

static Val roll_axis(B *b, Val x, int axis, int64_t shift) {
  if (b_dim_is_generic(b, x, axis)) return roll_generic(b, x, axis, shift);
  int64_t n = b_dim_static(b, x, axis);
  if (!b_ok(b) || n == 0) return x;
  int64_t k = ((shift % n) + n) % n;
  if (k == 0) return x;
  return b_concat(b, (Val[]){b_slice(b, x, axis, n - k, n, 1), b_slice(b, x, axis, 0, n - k, 1)}, 2, axis);
}

static void roll(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  const int64_t *shifts, *dims;
  int n = l_ints(l, 1, &shifts), m = l_ints(l, 2, &dims);
  if (n < 1) l_fail(l, TPU_RUNTIME, "`shifts` required");
  if (n != m && !(m == 0 && n == 1))
    l_fail(l, TPU_RUNTIME, "shifts and dimensions must align. shifts: %d, dims:%d", n, m);
  if (!b_ok(b)) return;
  if (m == 0) {
    ret(l, ix_unflat(b, roll_axis(b, ix_flat(b, x), 0, shifts[0]), b_shape(b, x)));
    return;
  }
  if (b_rank(b, x) == 0) l_fail(l, TPU_INDEX, "Dimension specified as 0 but tensor has no dimensions");
  for (int i = 0; i < n && b_rank(b, x); i++)
    x = roll_axis(b, x, axis_norm(b, dims[i], b_rank(b, x)), shifts[i]);
  ret(l, x);
}

/* The axis so many times, a number that may vary. */
static Val repeat_axis(B *b, Val x, int axis, ir_dim times) {
  shape s = *b_shape(b, x);
  if (!times.sym || (!s.d[axis].sym && !s.d[axis].n)) return b_tile_dim(b, x, axis, times.n);
  int where[IR_MAX_RANK];
  if (s.rank == IR_MAX_RANK) b_fail(b, TPU_NOT_IMPLEMENTED, "repeat of a tensor of so many dims");
  if (!b_ok(b)) return BAD;
  for (int i = 0; i < s.rank; i++) where[i] = i + (i >= axis);
  for (int i = s.rank++; i > axis; i--) s.d[i] = s.d[i - 1];
  s.d[axis] = times;
  return ix_merge(b, b_broadcast_dims(b, x, &s, where), axis, axis + 1);
}

static void repeat(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  shape times = l_sizes(l, 1);
  int n = times.rank;
  if (n < b_rank(b, x))
    l_fail(l, TPU_RUNTIME,
           "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  x = ix_raise(b, x, n);
  for (int i = 0; i < n && b_ok(b); i++) {
    if (times.d[i].n < 0)
      l_fail(l, TPU_RUNTIME, "Trying to create tensor with negative dimension %lld", (long long)times.d[i].n);
    x = repeat_axis(b, x, i, times.d[i]);
  }
  ret(l, x);
}

/* --- pieces and the gradients of views --- */

/* Brings start and end of a slice of n into 0 <= start <= end <= n. */
static void clamp_slice(L *l, int start_at, int end_at, int64_t n, int64_t *start, int64_t *end) {
  *start = l_int_or(l, start_at, 0);
  *end = l_int_or(l, end_at, INT64_MAX);
  if (*start < 0) *start += n;
  if (*end < 0) *end += n;
  if (*start < 0) *start = 0;
  if (*start > n) *start = n;
  if (*end < *start) *end = *start;
  if (*end > n) *end = n;
}

static int64_t step_of(L *l, int i) {
  int64_t step = l_int(l, i);
  if (step > 0) return step;
  l_fail(l, TPU_RUNTIME, "slice step must be positive");
  return 1;
}

/* g spread back to a dim of n from start in steps; `fill` elsewhere. */
static Val spread(B *b, Val g, int axis, int64_t n, int64_t start, int64_t step, Val fill) {
  int64_t lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK] = {0}, in[IR_MAX_RANK] = {0};
  int64_t k = b_dim_static(b, g, axis);
  lo[axis] = start;
  in[axis] = step - 1;
  hi[axis] = n - start - (k ? (k - 1) * step + 1 : 0);
  return b_pad(b, g, lo, hi, in, fill);
}

static int64_t size_arg(L *l, int i, int axis, int *rank) {
  const int64_t *sizes;
  *rank = l_ints(l, i, &sizes);
  return axis < *rank ? sizes[axis] : 1;
}

static int64_t index_arg(L *l, int i, int64_t n) {
  int64_t k = l_int(l, i);
  if (k < -n || k >= n)
    l_fail(l, TPU_INDEX, "index %lld is out of bounds for a dimension of size %lld", (long long)k,
           (long long)n);
  return k < 0 ? k + n : k;
}

/* (grad, input_sizes, dim, index) */
static void select_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0);
  int rank, axis = l_axis(l, 2, b_rank(b, g) + 1);
  shape s = l_sizes(l, 1);
  if (!b_ok(b)) return;
  g = b_unsqueeze(b, g, axis);
  bool generic = false;
  for (int i = 0; i < s.rank; i++) generic |= s.d[i].sym != 0;
  if (!generic) {
    int64_t n = size_arg(l, 1, axis, &rank), at = index_arg(l, 3, n);
    ret(l, spread(b, g, axis, n, at, 1, b_like(b, g, 0)));
    return;
  }
  int64_t at = l_int(l, 3);
  Val place = b_iota(b, DT_I32, &s, axis), zeros = b_full(b, &s, b_const(b, b_dtype(b, g), 0));
  Val hit = b_const_i(b, DT_I32, at);
  if (at < 0) hit = b_add(b, hit, b_size(b, zeros, axis, DT_I32));
  ret(l, b_select(b, b_eq(b, place, hit), g, zeros));
}

/* (grad, input_sizes, dim, start, end, step) */
static void slice_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0);
  int rank, axis = l_axis(l, 2, b_rank(b, g));
  int64_t n = size_arg(l, 1, axis, &rank), start, end;
  clamp_slice(l, 3, 4, n, &start, &end);
  ret(l, spread(b, g, axis, n, start, step_of(l, 5), b_like(b, g, 0)));
}

/* (self, src, dim, index) */
static void select_scatter(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), at[IR_MAX_RANK], src = b_cast(b, l_tensor(l, 1), b_dtype(b, x));
  int rank = b_rank(b, x), axis = l_axis(l, 2, rank);
  if (!b_ok(b)) return;
  shape s = *b_shape(b, x);
  for (int i = 0; i < rank; i++) at[i] = b_const_i(b, DT_I32, 0);
  at[axis] = b_const_i(b, DT_I32, index_arg(l, 3, b_dim_static(b, x, axis)));
  s.d[axis] = (ir_dim){1, 0};
  src = b_reshape(b, src, &s);
  ret(l, b_dynamic_update(b, x, src, at));
}

/* (self, src, dim, start, end, step) */
static void slice_scatter(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), src = b_cast(b, l_tensor(l, 1), b_dtype(b, x)), at[IR_MAX_RANK];
  int rank = b_rank(b, x), axis = l_axis(l, 2, rank);
  int64_t n = b_dim_static(b, x, axis), start, end, step = step_of(l, 5);
  clamp_slice(l, 3, 4, n, &start, &end);
  shape s = *b_shape(b, x);
  s.d[axis].n = (end - start + step - 1) / step;
  src = b_broadcast_to(b, src, &s);
  if (!b_ok(b)) return;
  if (step == 1) {
    for (int i = 0; i < rank; i++) at[i] = b_const_i(b, DT_I32, i == axis ? start : 0);
    ret(l, s.d[axis].n ? b_dynamic_update(b, x, src, at) : x);
    return;
  }
  Val hit = spread(b, b_broadcast_to(b, b_const_i(b, DT_BOOL, 1), &s), axis, n, start, step,
                   b_const_i(b, DT_BOOL, 0));
  ret(l, b_select(b, hit, spread(b, src, axis, n, start, step, b_like(b, x, 0)), x));
}

/* v[..., n] as the `offset` diagonal of a [..., rows, cols] of `fill` outside; *hit tells which places. */
static Val to_diagonal(B *b, Val v, int64_t rows, int64_t cols, int64_t offset, Val *hit) {
  int r = b_rank(b, v) - 1;
  shape s = *b_shape(b, v);
  int64_t n = b_dim_static(b, v, r), along = offset >= 0 ? rows : cols;
  s.d[r] = (ir_dim){rows, 0};
  s.d[r + 1] = (ir_dim){cols, 0};
  s.rank = r + 2;
  v = b_unsqueeze(b, b_pad_axis(b, v, r, 0, along - n, b_like(b, v, 0)), offset >= 0 ? r + 1 : r);
  Val d = b_sub(b, b_iota(b, DT_I32, &s, r + 1), b_iota(b, DT_I32, &s, r));
  *hit = b_eq(b, d, b_const_i(b, DT_I32, offset));
  return b_broadcast_to(b, v, &s);
}

/* Moves the last two axes to places dim1 and dim2 of the result. */
static Val place_pair(B *b, Val x, int dim1, int dim2) {
  int rank = b_rank(b, x), perm[IR_MAX_RANK], next = 0;
  for (int i = 0; i < rank; i++) perm[i] = i == dim1 ? rank - 2 : i == dim2 ? rank - 1 : next++;
  return b_transpose(b, x, perm);
}

static bool distinct(L *l, int dim1, int dim2) {
  if (dim1 != dim2) return true;
  l_fail(l, TPU_RUNTIME, "diagonal dimensions cannot be identical %d, %d", dim1, dim2);
  return false;
}

/* (self, offset, dim1, dim2) */
static void diag_embed(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), hit;
  int rank = b_rank(b, x) + 1, dim1 = l_axis(l, 2, rank), dim2 = l_axis(l, 3, rank);
  int64_t offset = l_int(l, 1), m = b_dim_static(b, x, rank - 2) + (offset < 0 ? -offset : offset);
  if (!distinct(l, dim1, dim2) || !b_ok(b)) return;
  Val v = to_diagonal(b, x, m, m, offset, &hit);
  ret(l, place_pair(b, b_select(b, hit, v, b_like(b, v, 0)), dim1, dim2));
}

/* (grad, input_sizes, offset, dim1, dim2) */
static void diagonal_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), hit;
  const int64_t *sizes;
  int rank = l_ints(l, 1, &sizes), dim1 = l_axis(l, 3, rank), dim2 = l_axis(l, 4, rank);
  if (!distinct(l, dim1, dim2) || !b_ok(b)) return;
  Val v = to_diagonal(b, g, sizes[dim1], sizes[dim2], l_int(l, 2), &hit);
  ret(l, place_pair(b, b_select(b, hit, v, b_like(b, v, 0)), dim1, dim2));
}

/* (self, src, offset, dim1, dim2) */
static void diagonal_scatter(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), src = b_cast(b, l_tensor(l, 1), b_dtype(b, x)), hit;
  int rank = b_rank(b, x), dim1 = l_axis(l, 3, rank), dim2 = l_axis(l, 4, rank);
  if (!distinct(l, dim1, dim2) || !b_ok(b)) return;
  Val v = to_diagonal(b, src, b_dim_static(b, x, dim1), b_dim_static(b, x, dim2), l_int(l, 2), &hit);
  ret(l, b_select(b, place_pair(b, hit, dim1, dim2), place_pair(b, v, dim1, dim2), x));
}

/* (self, dim, start, length) */
static void narrow_copy(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int axis = l_axis(l, 1, b_rank(b, x));
  int64_t n = b_dim_static(b, x, axis), start = l_int(l, 2), length = l_int(l, 3);
  if (b_rank(b, x) == 0) l_fail(l, TPU_RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
  if (start < -n || start > n)
    l_fail(l, TPU_INDEX, "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
           -(long long)n, (long long)n, (long long)start);
  if (start < 0) start += n;
  if (length < 0 || start + length > n)
    l_fail(l, TPU_RUNTIME, "start (%lld) + length (%lld) exceeds dimension size (%lld).", (long long)start,
           (long long)length, (long long)n);
  ret(l, b_slice(b, x, axis, start, start + length, 1));
}

/* --- shuffles --- */

/* x reshaped to the leading dims of x and `dims`, the new dims permuted, reshaped to the leading dims and
 * `out`. */
static Val reorder(B *b, Val x, int lead, int n, const int64_t *dims, const int *order, int nout,
                   const int64_t *out) {
  shape s = *b_shape(b, x), t = s;
  int perm[IR_MAX_RANK];
  s.rank = lead + n;
  t.rank = lead + nout;
  for (int i = 0; i < n; i++) s.d[lead + i] = (ir_dim){dims[i], 0};
  for (int i = 0; i < nout; i++) t.d[lead + i] = (ir_dim){out[i], 0};
  for (int i = 0; i < lead + n; i++) perm[i] = i < lead ? i : lead + order[i - lead];
  return b_reshape(b, b_transpose(b, b_reshape(b, x, &s), perm), &t);
}

/* The factor of pixel_shuffle and pixel_unshuffle, checked with the rank of their input. */
static int64_t shuffle_factor(L *l, int rank, const char *direction) {
  int64_t r = l_int(l, 1);
  if (rank < 3)
    l_fail(l, TPU_RUNTIME,
           "%s expects input to have at least 3 dimensions, but got input with %d dimension(s)", l_name(l),
           rank);
  if (r <= 0)
    l_fail(l, TPU_RUNTIME, "%s expects a positive %s_factor, but got %lld", l_name(l), direction,
           (long long)r);
  return r;
}

static void pixel_shuffle(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  int64_t r = shuffle_factor(l, rank, "upscale");
  if (!b_ok(b)) return;
  int64_t c = b_dim_static(b, x, rank - 3), h = b_dim_static(b, x, rank - 2),
          w = b_dim_static(b, x, rank - 1);
  if (c % (r * r))
    l_fail(l, TPU_RUNTIME,
           "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
           "upscale_factor, but "
           "input.size(-3)=%lld is not divisible by %lld",
           (long long)c, (long long)(r * r));
  int64_t o = c / (r * r);
  ret(l, reorder(b, x, rank - 3, 5, (int64_t[]){o, r, r, h, w}, (int[]){0, 3, 1, 4, 2}, 3,
                 (int64_t[]){o, h * r, w * r}));
}

static void pixel_unshuffle(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  int64_t r = shuffle_factor(l, rank, "downscale");
  if (!b_ok(b)) return;
  int64_t c = b_dim_static(b, x, rank - 3), h = b_dim_static(b, x, rank - 2),
          w = b_dim_static(b, x, rank - 1);
  if (h % r || w % r)
    l_fail(l, TPU_RUNTIME,
           "pixel_unshuffle expects height and width to be divisible by downscale_factor, but "
           "input.size(-2)=%lld and "
           "input.size(-1)=%lld are not divisible by %lld",
           (long long)h, (long long)w, (long long)r);
  h /= r;
  w /= r;
  ret(l, reorder(b, x, rank - 3, 5, (int64_t[]){c, h, r, w, r}, (int[]){0, 2, 4, 1, 3}, 3,
                 (int64_t[]){c * r * r, h, w}));
}

static void channel_shuffle(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  int64_t g = l_int(l, 1);
  if (rank < 3)
    l_fail(l, TPU_RUNTIME, "channel_shuffle expects input with > 2 dims, but got input with sizes of rank %d",
           rank);
  int64_t c = b_dim_static(b, x, 1), rest = 1;
  if (g <= 0)
    l_fail(l, TPU_RUNTIME, "Number of groups to divide channels in must be positive. Value of groups:%lld",
           (long long)g);
  if (g > 0 && c % g)
    l_fail(l, TPU_RUNTIME,
           "Number of channels must be divisible by groups. Got %lld channels and %lld groups.", (long long)c,
           (long long)g);
  for (int i = 2; i < rank; i++) rest *= b_dim_static(b, x, i);
  if (!b_ok(b)) return;
  Val v = reorder(b, x, 1, 3, (int64_t[]){g, c / g, rest}, (int[]){1, 0, 2}, 2, (int64_t[]){c, rest});
  ret(l, b_reshape(b, v, b_shape(b, x)));
}

/* --- cross --- */

/* x moved by k places round an axis of 3. */
static Val turned(B *b, Val x, int axis, int64_t k) { return roll_axis(b, x, axis, -k); }

static void cross(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  tpu_dtype dt = l_result_type2(l, 0, 1);
  if (b_rank(b, x) != b_rank(b, y))
    l_fail(l, TPU_RUNTIME, "linalg.cross: inputs must have the same number of dimensions.");
  int axis = l_axis(l, 2, b_rank(b, x));
  int64_t n = b_dim_static(b, x, axis), m = b_dim_static(b, y, axis);
  if (n != 3 || m != 3)
    l_fail(l, TPU_RUNTIME, "linalg.cross: inputs dimension %lld must have length 3. Got %lld and %lld",
           (long long)l_int(l, 2), (long long)n, (long long)m);
  if (!b_ok(b)) return;
  x = b_cast(b, x, dt);
  y = b_cast(b, y, dt);
  Val p = b_mul(b, turned(b, x, axis, 1), turned(b, y, axis, 2)),
      q = b_mul(b, turned(b, x, axis, 2), turned(b, y, axis, 1));
  ret(l, b_sub(b, p, q));
}

const tpu_row rows_shape[] = {{"cat", cat, 0, ROW_GROWS | ROW_CHANNELS | ROW_OVERLAP_ALL},
                              {"stack", stack, 0, 0},
                              {"flip", flip, 0, ROW_LIKE_SELF},
                              {"roll", roll, 0, 0},
                              {"repeat", repeat, 0, ROW_SIZED | ROW_COUNT},
                              {"select_backward", select_backward, 0, ROW_SIZED},
                              {"slice_backward", slice_backward, 0, 0},
                              {"diagonal_backward", diagonal_backward, 0, 0},
                              {"select_scatter", select_scatter, 0, ROW_LIKE_SELF},
                              {"slice_scatter", slice_scatter, 0, ROW_LIKE_SELF},
                              {"diagonal_scatter", diagonal_scatter, 0, ROW_LIKE_SELF},
                              {"diag_embed", diag_embed, 0, 0},
                              {"narrow_copy", narrow_copy, 0, ROW_SAME_DTYPE},
                              {"pixel_shuffle", pixel_shuffle, 0, ROW_CHANNELS},
                              {"pixel_unshuffle", pixel_unshuffle, 0, ROW_CHANNELS},
                              {"channel_shuffle", channel_shuffle, 0, ROW_CHANNELS},
                              {"linalg_cross", cross, 0, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
                              {0}};
