/* Reading by index: advanced indexing, index_select, gather, take; filling by index; searches in sorted
 * sequences. */
#include <string.h>

#include "lower/indexing.h"

/* --- x[i, j, :], index_select, gather, take --- */

/* datum: IX_UNCHECKED for the unsafe form. */
static void index_tensor(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  ix_plan p;
  if (!ix_plan_make(l, 1, x, IX_WRAP | l_datum(l), &p)) return;
  if (p.n == 0)
    ret(l, x);
  else if (p.n == 1)
    ret(l, ix_take(l, x, p.idx[0], p.axis[0]));
  else
    ret(l, ix_plan_out(b, &p, b_gather_nd(b, ix_plan_front(b, &p, x), p.idx, p.n)));
}

static void index_select(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), idx = l_tensor(l, 2);
  int axis = l_axis(l, 1, b_rank(b, x));
  if (b_rank(b, idx) > 1) l_fail(l, TPU_INDEX, "index_select(): Index is supposed to be a vector");
  ix_expect(l, idx, IX_INT, "index_select()");
  if (b_rank(b, x) == 0 && b_rank(b, idx) == 1 && b_shape(b, idx)->d[0].n != 1)
    l_fail(l, TPU_RUNTIME, "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
           (long long)b_shape(b, idx)->d[0].n);
  if (!b_ok(b)) return;
  idx = ix_ready(l, idx, x, axis, IX_EXACT, TPU_INDEX, "index out of range in self");
  if (b_rank(b, x) == 0) {
    ret(l, x);
    return;
  }
  if (b_rank(b, idx) == 0) idx = b_unsqueeze(b, idx, 0);
  ret(l, ix_take(l, x, idx, axis));
}

/* The check of gather and scatter: idx of x's rank, at most as long as x but for the axis. */
static bool gather_fits(L *l, Val x, Val idx, int axis, const char *op) {
  B *b = l_b(l);
  const shape *xs = b_shape(b, x), *is = b_shape(b, idx);
  int p = xs->rank ? xs->rank : 1, q = is->rank ? is->rank : 1;
  if (p != q) l_fail(l, TPU_RUNTIME, "Index tensor must have the same number of dimensions as input tensor");
  for (int i = 0; i < is->rank && i < xs->rank; i++)
    if (i != axis && !ix_within(is->d[i], xs->d[i]))
      l_fail(l, TPU_RUNTIME,
             "Size does not match at dimension %d expected index of size %lld to be no larger than self of "
             "size %lld apart "
             "from dimension %d (%s)",
             i, (long long)is->d[i].n, (long long)xs->d[i].n, axis, op);
  return b_ok(b);
}

static void gather(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), idx = l_tensor(l, 2);
  int axis = l_axis(l, 1, b_rank(b, x));
  if (!b_is_generic(b, idx) && b_numel_static(b, idx) == 0) {
    ret(l, b_zeros(b, b_dtype(b, x), b_shape(b, idx)));
    return;
  }
  ix_expect(l, idx, IX_INT, "gather()");
  if (!gather_fits(l, x, idx, axis, "gather")) return;
  idx = ix_ready(l, idx, x, axis, IX_EXACT, TPU_RUNTIME, NULL);
  shape is = *b_shape(b, idx);
  if (is.rank == 0 && b_rank(b, x) == 1) idx = b_unsqueeze(b, idx, 0);
  Val v = b_gather_axis(b, x, idx, axis);
  ret(l, is.rank == b_rank(b, v) ? v : b_reshape(b, v, &is));
}

static void take(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), idx = l_tensor(l, 1);
  ix_expect(l, idx, IX_LONG, "take()");
  if (!b_is_generic(b, idx) && b_numel_static(b, idx) == 0) {
    ret(l, b_zeros(b, b_dtype(b, x), b_shape(b, idx)));
    return;
  }
  if (ix_is_empty(b_shape(b, x))) l_fail(l, TPU_INDEX, "take(): tried to take from an empty tensor");
  ret(l, b_take(b, ix_flat(b, x),
                ix_ready(l, idx, x, -1, IX_WRAP, TPU_INDEX,
                         "out of range: tried to access an index outside of the tensor"),
                0));
}

/* --- fill --- */

/* (self, dim, index, value) */
static void index_fill(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), idx = l_tensor(l, 2);
  int rank = b_rank(b, x), axis = l_axis(l, 1, rank);
  tpu_dtype dt = b_dtype(b, x), from = l_is_tensor(l, 3) ? b_dtype(b, l_tensor(l, 3)) : l_scalar_dtype(l, 3);
  if (b_dtype(b, idx) != DT_I64) l_fail(l, TPU_INDEX, "index_fill_(): Expected dtype int64 for index.");
  if (b_rank(b, idx) > 1) l_fail(l, TPU_RUNTIME, "Index has to be a vector/scalar");
  if (l_is_tensor(l, 3) && b_rank(b, l_tensor(l, 3)))
    l_fail(l, TPU_RUNTIME,
           "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
           b_rank(b, l_tensor(l, 3)));
  if (dt_is_complex(from) && !dt_is_complex(dt))
    l_fail(l, TPU_RUNTIME, "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  if (!b_ok(b)) return;
  Val value = l_tensor_as(l, 3, dt);
  idx = ix_flat(b, ix_ready(l, idx, x, axis, IX_WRAP, TPU_INDEX, NULL));
  if (rank == 0) {
    ret(l, b_is_generic(b, idx) || b_numel_static(b, idx) ? value : x);
    return;
  }
  shape line = {.rank = 1};
  line.d[0] = b_shape(b, x)->d[axis];
  Val hit = b_scatter_nd(b, SCAT_SET, b_zeros(b, DT_BOOL, &line), &idx, 1, b_const_i(b, DT_BOOL, 1));
  ret(l, b_select(b, b_broadcast_dims(b, hit, b_shape(b, x), &axis), value, x));
}

/* --- searches --- */

static Val search_result(L *l, Val at, int int32_at) {
  return b_cast(l_b(l), at, l_bool(l, int32_at) ? DT_I32 : DT_I64);
}

/* (self, boundaries, out_int32, right) */
static void bucketize(L *l) {
  B *b = l_b(l);
  Val bounds = l_tensor(l, 1);
  if (b_rank(b, bounds) != 1)
    l_fail(l, TPU_RUNTIME, "bucketize(): boundaries tensor must be 1 dimension, but got dim(%d)",
           b_rank(b, bounds));
  if (!b_ok(b)) return;
  tpu_dtype dt = l_result_type2(l, 0, 1);
  ret(l, search_result(l, ix_search(b, b_cast(b, bounds, dt), l_tensor_as(l, 0, dt), l_bool(l, 3)), 2));
}

/* (sorted_sequence, self, out_int32, right, side, sorter) */
static void searchsorted(L *l) {
  B *b = l_b(l);
  Val bounds = l_tensor(l, 0);
  const char *side = l_string(l, 4);
  bool right = l_bool(l, 3);
  if (*side && strcmp(side, "left") && strcmp(side, "right"))
    l_fail(l, TPU_RUNTIME, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
  if (right && !strcmp(side, "left"))
    l_fail(l, TPU_RUNTIME,
           "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was "
           "True");
  right = right || !strcmp(side, "right");
  tpu_dtype dt = l_result_type2(l, 0, 1);
  if (l_has(l, 5) && b_dtype(b, l_tensor(l, 5)) != DT_I64)
    l_fail(l, TPU_RUNTIME, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
           tpu_dtype_torch_name(b_dtype(b, l_tensor(l, 5))));
  if (l_has(l, 5)) {
    Val order = ix_ready(l, l_tensor(l, 5), bounds, b_rank(b, bounds) - 1, IX_EXACT, TPU_RUNTIME,
                         "torch.searchsorted(): sorter index out of range");
    bounds = b_gather_axis(b, bounds, order, b_rank(b, bounds) - 1);
  }
  Val v = l_tensor_as(l, 1, dt);
  const shape *s = b_shape(b, bounds), *t = b_shape(b, v);
  bool same = s->rank == t->rank;
  for (int i = 0; i + 1 < s->rank && same; i++) same = s->d[i].n == t->d[i].n;
  if (s->rank == 0)
    l_fail(l, TPU_RUNTIME,
           "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1");
  if (s->rank != 1 && !same)
    l_fail(l, TPU_RUNTIME,
           "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
           "boundaries tensor and "
           "input value tensor must match");
  if (!b_ok(b)) return;
  ret(l, search_result(l, ix_search(b, b_cast(b, bounds, dt), v, right), 2));
}

enum { ISIN_DIRECT = 256 };

/* (elements, test_elements, assume_unique, invert); either of the first two may be a Scalar */
static void isin(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_result_type2(l, 0, 1);
  for (int i = 0; i < 2; i++) {
    tpu_dtype own = l_is_tensor(l, i) ? b_dtype(b, l_tensor(l, i)) : DT_I64;
    if (own == DT_BOOL || dt_is_complex(own))
      l_fail(l, TPU_RUNTIME, "Unsupported input type encountered for isin(): %s", tpu_dtype_torch_name(own));
  }
  Val x = l_tensor_as(l, 0, dt), set = ix_flat(b, l_tensor_as(l, 1, dt));
  if (!b_ok(b)) return;
  int64_t m = b_shape(b, set)->d[0].n;
  Val hit;
  if (m <= ISIN_DIRECT) {
    Val eq = b_eq(b, b_unsqueeze(b, x, b_rank(b, x)), set);
    hit = b_reduce(b, RED_OR, eq, 1u << b_rank(b, x), false);
  } else {
    Val sorted = b_sort(b, set, 0, false, NULL),
        last = b_sub(b, b_size(b, set, 0, DT_I32), b_const_i(b, DT_I32, 1)),
        at = b_minimum(b, ix_search(b, sorted, x, false), last);
    hit = b_eq(b, b_take(b, sorted, at, 0), x);
  }
  ret(l, l_bool(l, 3) ? b_not(b, hit) : hit);
}

/* --- static forms of data-dependent ops --- */

/* (self, size, fill_value): coordinates of the first `size` nonzeros, rows of fill_value behind. */
static void nonzero_static(L *l) {
  B *b = l_b(l);
  Val x = ix_room(b, b_cast(b, l_tensor(l, 0), DT_BOOL), b_const_i(b, DT_BOOL, 0)), flat = ix_flat(b, x);
  int rank = b_rank(b, x);
  int64_t size = l_int(l, 1), n = b_numel_static(b, flat), stride = n;
  if (size < 0) l_fail(l, TPU_RUNTIME, "nonzero_static: 'size' must be an non-negative integer");
  shape s = shape_of(2, (int64_t[]){size, rank}), line = shape_of(1, (int64_t[]){size});
  if (!b_ok(b)) return;
  Val fill = b_const_i(b, DT_I64, l_int(l, 2));
  if (rank == 0 || n == 0) {
    ret(l, b_full(b, &s, fill));
    return;
  }
  Val lin = b_cast(b, ix_trues(b, flat, size), DT_I64), col[IR_MAX_RANK];
  Val count = b_sum(b, b_cast(b, flat, DT_I64), 1, false),
      inside = b_lt(b, b_iota(b, DT_I64, &line, 0), count);
  for (int i = 0; i < rank; i++) {
    Val d = b_const_i(b, DT_I64, b_dim_static(b, x, i));
    stride /= b_dim_static(b, x, i);
    Val c = b_rem(b, b_div(b, lin, b_const_i(b, DT_I64, stride)), d);
    col[i] = b_unsqueeze(b, b_select(b, inside, c, fill), 1);
  }
  ret(l, b_concat(b, col, rank, 1));
}

/* (repeats, output_size): element i says how often i stands in the result. */
static void repeat_interleave(L *l) {
  B *b = l_b(l);
  Val times = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, times);
  if (b_rank(b, times) != 1) l_fail(l, TPU_RUNTIME, "repeat_interleave only accept 1D vector as repeat");
  if (dt != DT_I32 && dt != DT_I64)
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"repeat_interleave_cpu\" not implemented for '%s'",
           tpu_dtype_torch_name(dt));
  if (!l_has(l, 1)) l_fail(l, TPU_INTERNAL, "repeat_interleave without a size");
  if (!b_ok(b)) return;
  shape s = shape_of(1, (int64_t[]){l_int(l, 1)});
  b_check(b, b_ge(b, times, b_const_i(b, dt, 0)), TPU_RUNTIME, "repeats can not be negative");
  Val ends = b_cumulative(b, RED_SUM, b_cast(b, times, DT_I64), 0, false);
  ret(l, b_cast(b, ix_search(b, ends, b_iota(b, DT_I64, &s, 0), true), dt));
}

const tpu_row rows_index[] = {{"index.Tensor", index_tensor, 0, ROW_SAME_DTYPE, hosted_index},
                              {"_unsafe_index.Tensor", index_tensor, IX_UNCHECKED, 0},
                              {"index_select", index_select, 0, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
                              {"gather", gather, 0, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
                              {"take", take, 0, ROW_OVERLAP_ALL | ROW_SAME_DTYPE},
                              {"index_fill.int_Scalar", index_fill, 0, ROW_LIKE_SELF | ROW_SHARED | ROW_FITS},
                              {"index_fill.int_Tensor", index_fill, 0, ROW_LIKE_SELF | ROW_SHARED},
                              {"bucketize.Tensor", bucketize, 0, ROW_SAME_DTYPE},
                              {"bucketize.Scalar", bucketize, 0, 0},
                              {"searchsorted.Tensor", searchsorted, 0, ROW_SAME_DTYPE},
                              {"searchsorted.Scalar", searchsorted, 0, ROW_SAME_DTYPE},
                              {"isin.Tensor_Tensor", isin, 0, ROW_SAME_DTYPE},
                              {"isin.Tensor_Scalar", isin, 0, ROW_SAME_DTYPE},
                              {"isin.Scalar_Tensor", isin, 0, ROW_SAME_DTYPE},
                              {"nonzero_static", nonzero_static, 0, ROW_SAME_DTYPE},
                              {"repeat_interleave.Tensor", repeat_interleave, 0, 0, hosted_repeat_interleave},
                              {0}};
