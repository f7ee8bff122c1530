/* Writing by index: scatter and its reductions, index_add, index_copy, index_reduce, index_put, put,
 * masked_scatter. Low floats accumulate in f32 (the builder's rule). */
#include <stdio.h>
#include <string.h>

#include "lower/indexing.h"

/* --- one interface for scatter (an index of x's rank) and index_* (whole slices) --- */

typedef struct target {
  Val idx;
  int axis;
  bool slices;
} target;

static Val write_to(B *b, b_scat kind, const target *t, Val x, Val v) {
  return t->slices ? ix_scatter_slices(b, kind, x, t->idx, v, t->axis)
                   : b_scatter_axis(b, kind, x, t->idx, v, t->axis);
}

/* `one` wherever an update goes, 0 elsewhere; v gives the shape of the updates. */
static Val mark(B *b, const target *t, Val x, Val v, tpu_dtype dt, b_scat kind) {
  Val one = b_const_i(b, dt, 1), zeros = b_zeros(b, dt, b_shape(b, x));
  return write_to(b, kind, t, zeros, t->slices ? b_broadcast_to(b, one, b_shape(b, v)) : one);
}

static Val identity(B *b, ix_red red, tpu_dtype dt) {
  switch (red) {
  case IX_PROD: return b_const_i(b, dt, 1);
  case IX_AMAX: return b_min_value(b, dt);
  case IX_AMIN: return b_max_value(b, dt);
  default: return b_const_i(b, dt, 0);
  }
}

static const b_scat scat_of[] = {[IX_SUM] = SCAT_ADD,  [IX_PROD] = SCAT_MUL, [IX_MEAN] = SCAT_ADD,
                                 [IX_AMAX] = SCAT_MAX, [IX_AMIN] = SCAT_MIN, [IX_SET] = SCAT_SET};

static Val reduce_to(B *b, ix_red red, const target *t, Val x, Val v, bool include_self) {
  tpu_dtype dt = b_dtype(b, x), acc = red == IX_SET ? dt : dt_acc(dt);
  if (red != IX_SET && !include_self)
    x = b_select(b, mark(b, t, x, v, DT_BOOL, SCAT_SET), identity(b, red, dt), x);
  Val r = write_to(b, scat_of[red], t, b_cast(b, x, acc), b_cast(b, v, acc));
  if (red == IX_MEAN) {
    tpu_dtype real = dt_is_complex(acc) ? dt_real(acc) : acc;
    Val n = mark(b, t, x, v, real == DT_BOOL ? DT_I32 : real, SCAT_ADD), one = b_like(b, n, 1);
    n = include_self ? b_add(b, n, one) : b_maximum(b, n, one);
    r = dt_is_integral(acc) ? b_floor_div(b, r, n) : b_div(b, r, n);
  }
  return b_cast(b, r, dt);
}

/* What scatter, scatter_reduce and index_reduce call the reductions. */
enum { NAMES_SCATTER, NAMES_SCATTER_REDUCE, NAMES_INDEX_REDUCE };

static ix_red red_named(L *l, int set, const char *name) {
  static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
  for (int i = set == NAMES_INDEX_REDUCE; i < 5 && set != NAMES_SCATTER; i++)
    if (!strcmp(name, names[i])) return (ix_red)i;
  if (set == NAMES_SCATTER && !strcmp(name, "add")) return IX_SUM;
  if (set == NAMES_SCATTER && !strcmp(name, "multiply")) return IX_PROD;
  l_fail(l, TPU_RUNTIME,
         set == NAMES_SCATTER ? "reduce argument must be either add or multiply, got %s"
         : set == NAMES_SCATTER_REDUCE
             ? "reduce argument must be either sum, prod, mean, amax or amin, got %s"
             : "index_reduce(): Expected reduce to be one of prod, mean, amax or "
               "amin but got %s.",
         name);
  return IX_SUM;
}

/* --- scatter --- */

static bool is_static_empty(B *b, Val v) {
  for (int i = 0; i < b_rank(b, v); i++)
    if (!b_dim_is_generic(b, v, i) && b_dim_static(b, v, i) == 0) return true;
  return false;
}

static int rank1(B *b, Val v) { return b_rank(b, v) ? b_rank(b, v) : 1; }

static bool scatter_fits(L *l, Val x, Val idx, Val src, int axis) {
  B *b = l_b(l);
  const shape *xs = b_shape(b, x), *is = b_shape(b, idx), *ss = src < 0 ? is : b_shape(b, src);
  if (rank1(b, x) != rank1(b, idx))
    l_fail(l, TPU_RUNTIME, "Index tensor must have the same number of dimensions as self tensor");
  if (src >= 0 && ss->rank && ss->rank < is->rank) /* torch asks for the sizes of src first */
    l_fail(l, TPU_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %d)",
           -ss->rank, ss->rank - 1, ss->rank);
  if (src >= 0 && rank1(b, idx) != rank1(b, src))
    l_fail(l, TPU_RUNTIME, "Index tensor must have the same number of dimensions as src tensor");
  for (int i = 0; i < is->rank && b_ok(b); i++) {
    bool over_self = i != axis && i < xs->rank && !ix_within(is->d[i], xs->d[i]);
    bool over_src = i < ss->rank && !ix_within(is->d[i], ss->d[i]);
    if (over_self || over_src)
      l_fail(l, TPU_RUNTIME,
             "Expected index of size %lld at dimension %d to be no larger than self of size %lld apart from "
             "dimension %d and "
             "to be no larger than src of size %lld",
             (long long)is->d[i].n, i, i < xs->rank ? (long long)xs->d[i].n : 1LL, axis,
             i < ss->rank ? (long long)ss->d[i].n : 1LL);
  }
  return b_ok(b);
}

enum {
  SC_SRC = 1,
  SC_NAMED = 2,
  SC_INCLUDE = 4,
  SC_ADD = 8
}; /* src is a tensor; argument 4 names the reduction; argument 5 include_self */

/* (self, dim, index, src or value, [reduce], [include_self]) */
static void scatter(L *l) {
  B *b = l_b(l);
  int how = l_datum(l);
  Val x = l_tensor(l, 0), idx = l_tensor(l, 2);
  tpu_dtype dt = b_dtype(b, x);
  Val src = how & SC_SRC ? l_tensor(l, 3) : l_scalar(l, 3, dt);
  int axis = l_axis(l, 1, b_rank(b, x));
  ix_red red = IX_SET;
  if (how & SC_NAMED)
    red = red_named(l, how & SC_INCLUDE ? NAMES_SCATTER_REDUCE : NAMES_SCATTER, l_string(l, 4));
  if (how & SC_ADD) red = IX_SUM;
  if ((how & SC_SRC) && b_dtype(b, src) != dt)
    l_fail(l, TPU_RUNTIME, "scatter(): Expected self.dtype to be equal to src.dtype");
  if (is_static_empty(b, idx)) {
    ret(l, x);
    return;
  }
  ix_expect(l, idx, IX_INT, "scatter()");
  if (!b_ok(b) || !scatter_fits(l, x, idx, how & SC_SRC ? src : BAD, axis)) return;
  target t = {ix_ready(l, idx, x, axis, IX_EXACT, TPU_RUNTIME, NULL), axis, false};
  shape one = {0};
  if ((how & SC_SRC) && b_rank(b, idx) == 0)
    src = b_reshape(b, b_rank(b, src) ? b_slice(b, src, 0, 0, 1, 1) : src, &one);
  if (b_rank(b, idx) == 0 && b_rank(b, x)) t.idx = b_unsqueeze(b, t.idx, 0);
  if ((how & SC_SRC) && b_rank(b, t.idx) && b_rank(b, src) == 0) src = b_unsqueeze(b, src, 0);
  ret(l, reduce_to(b, red, &t, x, src, !(how & SC_INCLUDE) || l_bool(l, 5)));
}

/* --- index_add, index_copy, index_reduce --- */

/* "[4, 5]" */
static const char *list_of(const shape *s, char to[static 160]) {
  int at = snprintf(to, 160, "[");
  for (int i = 0; i < s->rank && at < 120; i++)
    at += snprintf(to + at, 160 - (size_t)at, i ? ", %lld" : "%lld", (long long)s->d[i].n);
  snprintf(to + at, 160 - (size_t)at, "]");
  return to;
}

static void copy_fits(L *l, const shape *xs, const shape *ss, int64_t indices, int axis) {
  char to[160], from[160];
  bool scalar = !xs->rank || !ss->rank;
  if (ss->rank == 0 && indices != 1)
    l_fail(l, TPU_INDEX, "index_copy_(): When source is scalar, index should have one element (got %lld)",
           (long long)indices);
  if (!scalar && xs->rank != ss->rank)
    l_fail(l, TPU_INDEX,
           "index_copy_(): When source and destination are not scalars, their dimensionality must match. "
           "Source dimensionality (%d), destination dimensionality (%d)",
           ss->rank, xs->rank);
  bool same = (xs->rank ? xs->rank : 1) == (ss->rank ? ss->rank : 1);
  for (int i = 0; i < xs->rank && i < ss->rank && same; i++)
    same = i == axis || xs->d[i].n == ss->d[i].n || xs->d[i].sym || ss->d[i].sym;
  if (!same)
    l_fail(l, TPU_RUNTIME,
           "index_copy_(): Source/destination tensor must have same slice shapes. Destination shape: %s and "
           "source shape: %s at dimension %d.",
           list_of(xs, to), list_of(ss, from), axis);
}

static void sum_fits(L *l, const shape *xs, const shape *ss, int axis) {
  char to[160], from[160];
  bool same = xs->rank == ss->rank;
  for (int i = 0; i < xs->rank && same; i++)
    same = i == axis || xs->d[i].n == ss->d[i].n || xs->d[i].sym || ss->d[i].sym;
  if (!same)
    l_fail(l, TPU_RUNTIME,
           "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
           "self.shape = %s source.shape = %s",
           list_of(xs, to), list_of(ss, from));
}

static bool slices_fit(L *l, Val x, Val idx, Val src, int axis, const char *op) {
  B *b = l_b(l);
  bool copy = l_datum(l) == IX_SET;
  if (b_rank(b, idx) > 1)
    l_fail(l, TPU_INDEX, "%s: Index should have dimension 1 or 0 (got %d)", op, b_rank(b, idx));
  ix_expect(l, idx, copy ? IX_LONG : IX_INT, op);
  if (b_dtype(b, x) != b_dtype(b, src))
    l_fail(l, TPU_RUNTIME,
           "%s: self and source expected to have the same dtype, but got (self) %s and (source) %s", op,
           tpu_dtype_torch_name(b_dtype(b, x)), tpu_dtype_torch_name(b_dtype(b, src)));
  if (!b_ok(b)) return false;
  const shape *xs = b_shape(b, x), *ss = b_shape(b, src), *is = b_shape(b, idx);
  ir_dim one = {1, 0}, i0 = is->rank ? is->d[0] : one, s0 = axis < ss->rank ? ss->d[axis] : one;
  if (copy)
    copy_fits(l, xs, ss, i0.sym ? 1 : i0.n, axis);
  else
    sum_fits(l, xs, ss, axis);
  if (i0.sym != s0.sym) l_fail(l, TPU_NOT_IMPLEMENTED, "indices and source of different generic sizes");
  if (i0.n != s0.n && !i0.sym)
    l_fail(l, copy ? TPU_INDEX : TPU_RUNTIME,
           "%s: Number of indices (%lld) should be equal to source.size(dim) (%lld)", op, (long long)i0.n,
           (long long)s0.n);
  return b_ok(b);
}

/* (self, dim, index, source, ...); datum: IX_SUM (with alpha), IX_SET, IX_MEAN for index_reduce (reduce,
 * include_self) */
static void index_write(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), idx = l_tensor(l, 2), src = l_tensor(l, 3);
  int axis = l_axis(l, 1, b_rank(b, x));
  ix_red red = (ix_red)l_datum(l);
  const char *op = red == IX_SUM ? "index_add_()" : red == IX_SET ? "index_copy_()" : "index_reduce_()";
  bool include = true;
  if (!slices_fit(l, x, idx, src, axis, op)) return;
  if (red == IX_MEAN) {
    tpu_dtype dt = b_dtype(b, x);
    if (dt == DT_BOOL || dt_is_complex(dt))
      l_fail(l, TPU_NOT_IMPLEMENTED, "\"index_func_\" not implemented for '%s'", tpu_dtype_torch_name(dt));
    red = red_named(l, NAMES_INDEX_REDUCE, l_string(l, 4));
    include = l_bool(l, 5);
  } else if (red == IX_SUM && !l_scalar_is(l, 4, 1)) {
    tpu_dtype acc = dt_acc(b_dtype(b, x));
    src = b_mul(b, b_cast(b, src, acc), l_scalar(l, 4, acc));
  }
  bool sum = l_datum(l) == IX_SUM; /* torch has other words for vectors, and another type for the rest */
  bool flat = sum && b_rank(b, x) <= 1;
  target t = {ix_ready(l, idx, x, axis, IX_EXACT, sum && !flat ? TPU_RUNTIME : TPU_INDEX,
                       flat ? "index out of range in self" : NULL),
              axis, true};
  ret(l, reduce_to(b, red, &t, x, src, include));
}

/* --- index_put --- */

static bool is_mask(tpu_dtype dt) { return dt == DT_BOOL || dt == DT_U8; }

/* Where the one index is a mask over the dims from k on. Values without a dim for the trues need no count of
 * them; values with one are taken by the rank of each true. */
static Val put_mask(L *l, Val x, Val mask, int k, Val v, bool accumulate) {
  B *b = l_b(l);
  int rank = b_rank(b, x), r = b_rank(b, mask), rest = rank - k - r, q = b_rank(b, v), dims[IR_MAX_RANK];
  const shape *xs = b_shape(b, x), *ms = b_shape(b, mask);
  for (int i = 0; i < r; i++) {
    dims[i] = k + i;
    bool there = k + i < rank, generic = there && (ms->d[i].sym || xs->d[k + i].sym);
    if (generic ? ms->d[i].sym != xs->d[k + i].sym : !there || ms->d[i].n != xs->d[k + i].n)
      l_fail(l, generic ? TPU_NOT_IMPLEMENTED : TPU_INDEX,
             "The shape of the mask at index %d (%lld) does not match the shape of the indexed tensor at "
             "index %d",
             i, (long long)ms->d[i].n, k + i);
  }
  if (!b_ok(b)) return BAD;
  mask = b_cast(b, mask, DT_BOOL);
  if (q > rest) {
    int at = q - 1 - rest;
    bool one = !b_dim_is_generic(b, v, at) && b_dim_static(b, v, at) == 1;
    Val zero = b_const_i(b, DT_I32, 0);
    if (!one) {
      Val count = b_sum(b, b_cast(b, mask, DT_I32), axes_all(r), false);
      b_check(b, b_eq(b, count, b_size(b, v, at, DT_I32)), TPU_RUNTIME,
              "shape mismatch: value tensor cannot be broadcast to the indexing result");
    }
    v = b_take(b, v, one ? b_broadcast_to(b, zero, ms) : ix_mask_place(b, mask), at);
  }
  v = b_broadcast_to(b, v, xs);
  return b_select(b, b_broadcast_dims(b, mask, xs, dims), accumulate ? b_add(b, x, v) : v, x);
}

/* (self, indices, values, accumulate) */
static void index_put(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), v = l_tensor(l, 2);
  tpu_dtype dt = b_dtype(b, x);
  bool accumulate = l_bool(l, 3);
  int n = l_len(l, 1), given = 0, last = 0;
  if (b_dtype(b, v) != dt)
    l_fail(l, TPU_RUNTIME,
           "Index put requires the source and destination dtypes match, got %s for the destination and %s "
           "for the source.",
           tpu_dtype_torch_name(dt), tpu_dtype_torch_name(b_dtype(b, v)));
  for (int k = 0; k < n; k++)
    if (l_has_item(l, 1, k)) given++, last = k;
  if (!b_ok(b)) return;
  if (given == 1 && is_mask(b_dtype(b, l_item(l, 1, last)))) {
    ret(l, put_mask(l, x, l_item(l, 1, last), last, v, accumulate));
    return;
  }
  ix_plan p;
  char from[160], to[160];
  if (!ix_plan_make(l, 1, x, IX_WRAP | l_datum(l), &p)) return;
  const shape *s = b_shape(b, v);
  bool fits = s->rank <= p.result.rank;
  for (int i = 1; i <= s->rank && fits; i++) {
    ir_dim d = s->d[s->rank - i], e = p.result.d[p.result.rank - i];
    fits = d.n == 1 || d.sym || e.sym || d.n == e.n;
  }
  if (!fits)
    l_fail(l, TPU_RUNTIME,
           "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
           list_of(s, from), list_of(&p.result, to));
  v = b_broadcast_to(b, v, &p.result);
  if (p.n == 0) {
    ret(l, accumulate ? b_add(b, x, v) : v);
    return;
  }
  Val r = b_scatter_nd(b, accumulate ? SCAT_ADD : SCAT_SET, ix_plan_front(b, &p, x), p.idx, p.n,
                       ix_plan_in(b, &p, v));
  ret(l, ix_plan_back(b, &p, r));
}

/* (self, index, source, accumulate) */
static void put(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), idx = l_tensor(l, 1), v = l_tensor(l, 2);
  if (b_dtype(b, x) != b_dtype(b, v))
    l_fail(l, TPU_RUNTIME,
           "put_(): self and source expected to have the same dtype, but got self.dtype = %s and "
           "source.dtype = %s",
           tpu_dtype_torch_name(b_dtype(b, x)), tpu_dtype_torch_name(b_dtype(b, v)));
  ix_expect(l, idx, IX_LONG, "put_()");
  Val at = ix_flat(b, idx), from = ix_flat(b, v);
  if (!b_ok(b)) return;
  ir_dim an = b_shape(b, at)->d[0], fn = b_shape(b, from)->d[0];
  int64_t n = an.n, m = fn.n;
  if (an.sym != fn.sym) l_fail(l, TPU_NOT_IMPLEMENTED, "put: indices and source of different generic sizes");
  if (n != m && !an.sym)
    l_fail(l, TPU_INDEX,
           "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
           "%lld, "
           "index.numel() = %lld",
           (long long)m, (long long)n);
  if (!b_ok(b)) return;
  at = ix_ready(l, at, x, -1, IX_WRAP, TPU_INDEX, NULL);
  Val r = n ? b_scatter_nd(b, l_bool(l, 3) ? SCAT_ADD : SCAT_SET, ix_flat(b, x), &at, 1, from) : x;
  ret(l, n ? ix_unflat(b, r, b_shape(b, x)) : x);
}

/* --- masked_scatter --- */

/* (self, mask, source): the trues, in order, get the elements of source */
static void masked_scatter(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), mask = l_tensor(l, 1), src = l_tensor(l, 2);
  if (b_dtype(b, mask) != DT_BOOL)
    l_fail(l, TPU_RUNTIME, "masked_scatter_ only supports boolean masks, but got mask with dtype %s",
           tpu_dtype_torch_name(b_dtype(b, mask)));
  if (b_dtype(b, x) != b_dtype(b, src))
    l_fail(l, TPU_RUNTIME, "masked_scatter_: expected self and source to have same dtypes but got %s and %s",
           tpu_dtype_torch_name(b_dtype(b, x)), tpu_dtype_torch_name(b_dtype(b, src)));
  shape s = b_broadcast_shape(b, x, mask);
  if (!b_ok(b)) return;
  x = b_broadcast_to(b, x, &s);
  mask = b_broadcast_to(b, mask, &s);
  Val count = b_sum(b, b_cast(b, mask, DT_I64), axes_all(b_rank(b, mask)), false);
  b_check(b, b_le(b, count, b_numel(b, src, DT_I64)), TPU_RUNTIME,
          "masked_scatter_: the number of elements in source must be at least the number of ones in mask");
  ret(l, b_select(b, mask, b_take(b, ix_flat(b, src), ix_mask_place(b, mask), 0), x));
}

/* (grad, mask, sizes of source) */
static void masked_scatter_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), mask = b_broadcast_to(b, l_tensor(l, 1), b_shape(b, g));
  const int64_t *sizes;
  int rank = l_ints(l, 2, &sizes);
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= sizes[i];
  if (!b_ok(b)) return;
  mask = ix_flat(b, ix_room(b, mask, b_const_i(b, DT_BOOL, 0)));
  g = ix_flat(b, ix_room(b, g, BAD));
  ret(l, b_reshape_to(b, ix_pack(b, ix_rank(b, mask), g, n), rank, sizes));
}

const tpu_row rows_scatter[] = {
    {"scatter.src", scatter, SC_SRC, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
    {"scatter.value", scatter, 0, ROW_OVERLAP_ALL | ROW_FITS | ROW_SAME_DTYPE},
    {"scatter.reduce", scatter, SC_SRC | SC_NAMED, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
    {"scatter.value_reduce", scatter, SC_NAMED, ROW_OVERLAP_ALL | ROW_FITS | ROW_SAME_DTYPE},
    {"scatter_add", scatter, SC_SRC | SC_ADD, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
    {"scatter_reduce.two", scatter, SC_SRC | SC_NAMED | SC_INCLUDE, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
    {"index_add", index_write, IX_SUM, ROW_OVERLAP_ALL | ROW_SAME_DTYPE | ROW_FITS},
    {"index_copy", index_write, IX_SET, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
    {"index_reduce", index_write, IX_MEAN, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
    {"index_put", index_put, 0, ROW_LIKE_SELF | ROW_SHARED, hosted_index_put},
    {"_index_put_impl", index_put, 0, ROW_LIKE_SELF | ROW_SHARED, hosted_index_put},
    {"_unsafe_index_put", index_put, IX_UNCHECKED, ROW_LIKE_SELF, hosted_index_put},
    {"put", put, 0, ROW_LIKE_SELF | ROW_OVERLAP_ALL},
    {"masked_scatter", masked_scatter, 0, 0},
    {"masked_scatter_backward", masked_scatter_backward, 0, 0},
    {0}};
