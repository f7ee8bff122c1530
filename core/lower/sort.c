/* Order statistics: sort, topk, kthvalue, median, mode. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lower/indexing.h"

/* least <= k <= the size of the axis */
static void check_place(L *l, Val x, int axis, int64_t k, int64_t least, const char *words) {
  B *b = l_b(l);
  bool generic = b_dim_is_generic(b, x, axis);
  if (k < least || (!generic && k > b_dim_static(b, x, axis))) l_fail(l, TPU_RUNTIME, "%s", words);
  if (generic) b_check(b, b_ge(b, b_size(b, x, axis, DT_I64), b_const_i(b, DT_I64, k)), TPU_RUNTIME, words);
}

/* --- sort, topk --- */

static void sort_by(L *l, int dim_at) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), at;
  int axis = l_axis(l, dim_at, b_rank(b, x));
  if (dt_is_complex(b_dtype(b, x))) l_fail(l, TPU_RUNTIME, "Sort does not support complex dtypes on CPU");
  Val v = b_sort(b, x, axis, l_bool(l, dim_at + 1), &at);
  ret(l, v);
  ret(l, at);
}

/* datum: position of dim; descending follows. Every sort is stable. */
static void sort(L *l) { sort_by(l, l_datum(l)); }

/* (self, k, dim, largest, sorted) */
static void topk(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), at;
  int rank = b_rank(b, x), axis = l_axis(l, 2, rank);
  int64_t k = l_int(l, 1);
  if (b_dtype(b, x) == DT_BOOL) l_fail(l, TPU_RUNTIME, "topk does not support bool dtypes on CPU");
  if (dt_is_complex(b_dtype(b, x))) l_fail(l, TPU_RUNTIME, "topk(): does not support complex dtypes on CPU");
  check_place(l, x, axis, k, 0, "selected index k out of range");
  if (!b_ok(b)) return;
  if (rank == 0 && k == 0) x = b_slice(b, b_unsqueeze(b, x, 0), 0, 0, 0, 1);
  Val v = b_topk(b, x, k, axis, l_bool(l, 3), &at);
  ret(l, v);
  ret(l, at);
}

/* --- one place of the sorted axis --- */

static void check_axis(L *l, Val x, int axis, const char *op) {
  B *b = l_b(l);
  if (b_rank(b, x) && !b_dim_is_generic(b, x, axis) && b_dim_static(b, x, axis) == 0)
    l_fail(l, TPU_INDEX, "%s(): Expected reduction dim %d to have non-zero size.", op, axis);
  bool refused = dt_is_complex(b_dtype(b, x)) || (b_dtype(b, x) == DT_BOOL && strcmp(op, "mode") != 0);
  if (b_ok(b) && refused && !ix_is_empty(b_shape(b, x)))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op,
           tpu_dtype_torch_name(b_dtype(b, x)));
}

/* Returns element `place` (scalar, or of x's shape with 1 at the axis) of the sorted axis with its index. */
static void ret_place(L *l, Val sorted, Val order, int axis, Val place, bool keep) {
  B *b = l_b(l);
  shape s = *b_shape(b, sorted);
  if (!b_ok(b)) return;
  s.d[axis] = (ir_dim){1, 0};
  place = b_broadcast_to(b, place, &s);
  Val v = b_gather_axis(b, sorted, place, axis), at = b_gather_axis(b, order, place, axis);
  ret(l, keep ? v : b_squeeze(b, v, axis));
  ret(l, keep ? at : b_squeeze(b, at, axis));
}

static void ret_scalar(L *l, Val x) {
  ret(l, x);
  ret(l, b_const_i(l_b(l), DT_I64, 0));
}

/* (self, k, dim, keepdim) */
static void kthvalue(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), order;
  int rank = b_rank(b, x), axis = l_axis(l, 2, rank);
  int64_t k = l_int(l, 1);
  char words[96];
  snprintf(words, sizeof words, "kthvalue(): selected number k out of range for dimension %d", axis);
  check_axis(l, x, axis, "kthvalue");
  check_place(l, x, axis, k, 1, words);
  if (!b_ok(b)) return;
  if (rank == 0) {
    ret_scalar(l, x);
    return;
  }
  Val sorted = b_sort(b, x, axis, false, &order);
  ret_place(l, sorted, order, axis, b_const_i(b, DT_I32, k - 1), l_bool(l, 3));
}

/* Place of the lower median among n sorted values, NaN last: without NaN the middle one; else the first NaN,
 * or, ignoring NaN, the middle of the others. I32 with 1 at the axis. */
static Val median_place(B *b, Val x, int axis, bool ignore_nan) {
  Val one = b_const_i(b, DT_I32, 1), two = b_const_i(b, DT_I32, 2), n = b_size(b, x, axis, DT_I32),
      middle = b_div(b, b_sub(b, n, one), two);
  if (!dt_is_float(b_dtype(b, x))) return middle;
  Val good = b_sum(b, b_cast(b, b_not(b, b_isnan(b, x)), DT_I32), 1u << axis, true);
  if (!ignore_nan) return b_select(b, b_lt(b, good, n), good, middle);
  return b_div(b, b_maximum(b, b_sub(b, good, one), b_const_i(b, DT_I32, 0)), two);
}

/* datum: 1 to ignore NaN. (self) */
static void median(L *l) {
  B *b = l_b(l);
  Val x = ix_flat(b, l_tensor(l, 0));
  tpu_dtype dt = b_dtype(b, x);
  if (b_ok(b) && ix_is_empty(b_shape(b, x))) {
    ret(l, dt_is_int(dt) ? b_const_i(b, dt, 0) : b_cast(b, b_const(b, DT_F64, NAN), dt));
    return;
  }
  if (dt_is_complex(dt) || dt == DT_BOOL)
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"median_cpu\" not implemented for '%s'", tpu_dtype_torch_name(dt));
  Val place = b_broadcast_to(b, median_place(b, x, 0, l_datum(l)), &(shape){.rank = 1, .d = {{1, 0}}});
  ret(l, b_squeeze(b, b_gather_axis(b, b_sort(b, x, 0, false, NULL), place, 0), 0));
}

/* (self, dim, keepdim) */
static void median_dim(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), order;
  int rank = b_rank(b, x), axis = l_axis(l, 1, rank);
  check_axis(l, x, axis, "median");
  if (!b_ok(b)) return;
  if (rank == 0) {
    ret_scalar(l, x);
    return;
  }
  Val sorted = b_sort(b, x, axis, false, &order);
  ret_place(l, sorted, order, axis, median_place(b, x, axis, l_datum(l)), l_bool(l, 2));
}

/* Element i is the one before it along the axis, or the first. */
static Val one_back(B *b, Val x, int axis) {
  const shape *s = b_shape(b, x);
  int64_t n = s->d[axis].n;
  if (!s->d[axis].sym)
    return b_concat(b, (Val[]){b_slice(b, x, axis, 0, 1, 1), b_slice(b, x, axis, 0, n - 1, 1)}, 2, axis);
  Val at = b_sub(b, b_iota(b, DT_I32, s, axis), b_const_i(b, DT_I32, 1));
  return b_gather_axis(b, x, b_maximum(b, at, b_const_i(b, DT_I32, 0)), axis);
}

/* (self, dim, keepdim): the smallest of the most frequent values, and its last index. The runs of the sorted
 * axis are measured at their ends: distance to the latest start. */
static void mode(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), order;
  int rank = b_rank(b, x), axis = l_axis(l, 1, rank);
  check_axis(l, x, axis, "mode");
  if (!b_ok(b)) return;
  if (rank == 0) {
    ret_scalar(l, x);
    return;
  }
  Val sorted = b_sort(b, x, axis, false, &order);
  Val at = b_iota(b, DT_I32, b_shape(b, sorted), axis), before = one_back(b, sorted, axis);
  Val starts = b_select(b, b_ne(b, sorted, before), at, b_const_i(b, DT_I32, 0));
  Val length = b_sub(b, at, b_cumulative(b, RED_MAX, starts, axis, false));
  ret_place(l, sorted, order, axis, b_argreduce(b, true, length, axis, true, NULL), l_bool(l, 2));
}

const tpu_row rows_sort[] = {{"sort", sort, 1, ROW_LIKE_SELF | ROW_OVERLAP_SELF | ROW_SAME_DTYPE},
                             {"sort.stable", sort, 2, ROW_LIKE_SELF | ROW_OVERLAP_SELF | ROW_SAME_DTYPE},
                             {"topk", topk, 0, ROW_SAME_DTYPE},
                             {"kthvalue", kthvalue, 0, ROW_SAME_DTYPE},
                             {"median", median, 0, 0},
                             {"nanmedian", median, 1, 0},
                             {"median.dim", median_dim, 0, ROW_SAME_DTYPE},
                             {"nanmedian.dim", median_dim, 1, ROW_SAME_DTYPE},
                             {"mode", mode, 0, ROW_SAME_DTYPE},
                             {0}};
