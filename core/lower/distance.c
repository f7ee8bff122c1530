/* Distances between rows (cdist, pdist) with their gradients, and histograms. */
#include <math.h>

#include "lower/indexing.h"

/* --- distances --- */

/* |d| to a distance along `axis`; p is structure. */
static Val distance(B *b, Val d, double p, int axis) {
  uint32_t axes = 1u << axis;
  Val a = b_abs(b, d);
  if (p == 0) return b_sum(b, b_cast(b, b_ne(b, a, b_like(b, a, 0)), b_dtype(b, a)), axes, false);
  if (p == 1) return b_sum(b, a, axes, false);
  if (p == 2) return b_sqrt(b, b_sum(b, b_mul(b, a, a), axes, false));
  if (isinf(p)) return b_max(b, a, axes, false);
  return b_pow(b, b_sum(b, b_pow(b, a, b_like(b, a, p)), axes, false), b_like(b, a, 1 / p));
}

/* sqrt of |x|^2 + |y|^2 - 2 x.y */
static Val euclidean(B *b, Val x, Val y) {
  int r = b_rank(b, x) - 1, q = b_rank(b, y) - 1;
  Val xx = b_sum(b, b_mul(b, x, x), 1u << r, true), yy = b_sum(b, b_mul(b, y, y), 1u << q, true);
  Val xy = b_matmul(b, x, b_swap(b, y, q, q - 1));
  Val v = b_sub(b, b_add(b, xx, b_swap(b, yy, q, q - 1)), b_mul(b, b_like(b, xy, 2), xy));
  return b_sqrt(b, b_maximum(b, v, b_like(b, v, 0)));
}

static void euclidean_dist(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  ret(l, b_cast(b, euclidean(b, b_cast(b, x, acc), b_cast(b, y, acc)), dt));
}

enum { CDIST_PRODUCT_FROM = 25 }; /* torch's limit from which p = 2 goes by the product */

/* x[..., P, M] and y[..., R, M] as differences [..., P, R, M]. */
static Val differences(B *b, Val x, Val y) {
  int r = b_rank(b, x), q = b_rank(b, y);
  return b_sub(b, b_unsqueeze(b, x, r - 1), b_unsqueeze(b, y, q - 2));
}

/* (x1, x2, p, compute_mode) */
static void cdist_forward(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  double p = l_double(l, 2);
  int64_t mode = l_int_or(l, 3, 0);
  tpu_dtype dt = l_result_type2(l, 0, 1), acc = dt_acc(dt);
  int r = b_rank(b, x), q = b_rank(b, y);
  if (r < 2 || q < 2)
    l_fail(l, TPU_RUNTIME, "cdist only supports at least 2D tensors, X1 got: %dD, X2 got: %dD", r, q);
  for (int i = 0; i < 2; i++) {
    tpu_dtype own = b_dtype(b, i ? y : x);
    if (!dt_is_float(own))
      l_fail(l, TPU_RUNTIME, "cdist only supports floating-point dtypes, X%d got: %s", i + 1,
             tpu_dtype_torch_name(own));
  }
  if (b_dtype(b, x) != b_dtype(b, y))
    l_fail(l, TPU_RUNTIME, "expected scalar type %s but found %s", tpu_dtype_torch_name(b_dtype(b, x)),
           tpu_dtype_torch_name(b_dtype(b, y)));
  if (p < 0) l_fail(l, TPU_RUNTIME, "cdist only supports non-negative p values");
  if (!b_ok(b)) return;
  int64_t rows = b_dim_static(b, x, r - 2), cols = b_dim_static(b, y, q - 2), m = b_dim_static(b, x, r - 1);
  if (m != b_dim_static(b, y, q - 1))
    l_fail(l, TPU_RUNTIME, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld", (long long)m,
           (long long)b_dim_static(b, y, q - 1));
  if (!b_ok(b)) return;
  x = b_cast(b, x, acc);
  y = b_cast(b, y, acc);
  bool product =
      p == 2 && (mode == 1 || (mode == 0 && (rows > CDIST_PRODUCT_FROM || cols > CDIST_PRODUCT_FROM)));
  Val d = differences(b, x, y);
  ret(l, b_cast(b, product ? euclidean(b, x, y) : distance(b, d, p, b_rank(b, d) - 1), dt));
}

/* d(distance)/d(difference), times g: g and dist have 1 where d has the columns. */
static Val distance_grad(B *b, Val d, Val g, Val dist, double p) {
  Val zero = b_like(b, d, 0), a = b_abs(b, d), sign = b_sign(b, d), still = b_eq(b, dist, zero);
  if (p == 0) return b_mul(b, zero, d);
  if (p == 1) return b_mul(b, g, sign);
  if (isinf(p)) return b_mul(b, b_mul(b, g, sign), b_cast(b, b_eq(b, a, dist), b_dtype(b, d)));
  if (p == 2) return b_select(b, still, zero, b_div(b, b_mul(b, g, d), dist));
  Val e = b_like(b, d, p - 1), v = b_mul(b, b_mul(b, sign, b_pow(b, a, e)), b_div(b, g, b_pow(b, dist, e)));
  if (p < 2) still = b_or(b, still, b_eq(b, a, zero));
  return b_select(b, still, zero, v);
}

/* (grad, x1, x2, p, cdist): the gradient of x1 */
static void cdist_backward(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, l_tensor(l, 1)), acc = dt_acc(dt);
  Val g = b_cast(b, l_tensor(l, 0), acc), x = b_cast(b, l_tensor(l, 1), acc),
      y = b_cast(b, l_tensor(l, 2), acc);
  Val dist = b_cast(b, l_tensor(l, 4), acc), d = differences(b, x, y);
  int r = b_rank(b, d);
  g = b_unsqueeze(b, g, b_rank(b, g));
  dist = b_unsqueeze(b, dist, b_rank(b, dist));
  Val v = b_broadcast_to(b, distance_grad(b, d, g, dist, l_double(l, 3)), b_shape(b, d));
  ret(l, b_cast(b, b_sum(b, v, 1u << (r - 2), false), dt));
}

/* Row numbers i < j of the pairs of n rows in order, as two I32 vectors: i is where pair k stands among the
 * starts of the rows. */
static void pairs(B *b, int64_t n, Val *first, Val *second) {
  int64_t count = n * (n - 1) / 2;
  shape s = shape_of(1, &count), line = shape_of(1, (int64_t[]){n - 1});
  Val k = b_iota(b, DT_I64, &s, 0), row = b_iota(b, DT_I64, &line, 0), one = b_const_i(b, DT_I64, 1),
      two = b_const_i(b, DT_I64, 2);
  Val width = b_sub(b, b_mul(b, b_const_i(b, DT_I64, 2 * n - 1), row), b_mul(b, row, row));
  Val starts = b_div(b, width, two),
      i = b_cast(b, b_sub(b, b_cast(b, ix_search(b, starts, k, true), DT_I64), one), DT_I64);
  *first = b_cast(b, i, DT_I32);
  *second = b_cast(b, b_add(b, b_add(b, b_sub(b, k, b_take(b, starts, i, 0)), i), one), DT_I32);
}

/* (self, p) */
static void pdist_forward(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), i, j;
  double p = l_double(l, 1);
  tpu_dtype dt = b_dtype(b, x);
  if (b_rank(b, x) != 2) l_fail(l, TPU_RUNTIME, "_pdist_forward requires a matrix");
  int64_t n = b_dim_static(b, x, 0);
  if (!b_ok(b)) return;
  if (n < 2) {
    ret(l, b_zeros(b, dt, &(shape){.rank = 1}));
    return;
  }
  pairs(b, n, &i, &j);
  x = b_cast(b, x, dt_acc(dt));
  ret(l, b_cast(b, distance(b, b_sub(b, b_take(b, x, i, 0), b_take(b, x, j, 0)), p, 1), dt));
}

/* (grad, self, p, pdist) */
static void pdist_backward(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, l_tensor(l, 1)), acc = dt_acc(dt);
  Val g = b_cast(b, l_tensor(l, 0), acc), x = b_cast(b, l_tensor(l, 1), acc),
      dist = b_cast(b, l_tensor(l, 3), acc), i, j;
  int64_t n = b_dim_static(b, x, 0);
  Val zeros = b_zeros(b, acc, b_shape(b, x));
  if (!b_ok(b)) return;
  if (n < 2 || b_dim_static(b, x, 1) == 0) {
    ret(l, b_cast(b, zeros, dt));
    return;
  }
  pairs(b, n, &i, &j);
  Val d = b_sub(b, b_take(b, x, i, 0), b_take(b, x, j, 0));
  Val v = distance_grad(b, d, b_unsqueeze(b, g, 1), b_unsqueeze(b, dist, 1), l_double(l, 2));
  v = b_broadcast_to(b, v, b_shape(b, d));
  Val r = b_scatter_nd(b, SCAT_ADD, b_scatter_nd(b, SCAT_ADD, zeros, &i, 1, v), &j, 1, b_neg(b, v));
  ret(l, b_cast(b, r, dt));
}

/* --- histograms --- */

/* The ends, widened on both sides where they are equal. */
static void widen(B *b, Val *lo, Val *hi, double by) {
  Val same = b_eq(b, *lo, *hi), one = b_like(b, *lo, by);
  Val l = *lo, h = *hi;
  *lo = b_select(b, same, b_sub(b, l, one), l);
  *hi = b_select(b, same, b_add(b, h, one), h);
}

static void data_range(B *b, Val x, Val *lo, Val *hi) {
  *lo = *hi = b_like(b, x, 0);
  if (b_numel_static(b, x) == 0) return;
  *lo = b_min(b, x, 1, false);
  *hi = b_max(b, x, 1, false);
  b_check(b, b_and(b, b_is_finite(b, *lo), b_is_finite(b, *hi)), TPU_RUNTIME,
          "histogram: the range of the data is not finite");
}

static bool histogram_takes(L *l, Val x) {
  if (!dt_is_float(b_dtype(l_b(l), x)))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"histogram_cpu\" not implemented for '%s'",
           tpu_dtype_torch_name(b_dtype(l_b(l), x)));
  return b_ok(l_b(l));
}

/* (self, bins, min, max): equal ends mean those of the data. Places are computed in the dtype of the data. */
static void histc(L *l) {
  B *b = l_b(l);
  Val x = ix_flat(b, l_tensor(l, 0)), dlo, dhi;
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  int64_t bins = l_int(l, 1);
  if (bins <= 0) l_fail(l, TPU_RUNTIME, "torch.histc(): bins must be > 0, but got %lld", (long long)bins);
  if (!histogram_takes(l, x)) return;
  Val lo = l_scalar(l, 2, dt), hi = l_scalar(l, 3, dt);
  if (l_scalar_is(l, 2, 0) && l_scalar_is(l, 3, 0)) {
    data_range(b, x, &lo, &hi);
  } else if (b_numel_static(b, x)) {
    dlo = b_min(b, x, 1, false);
    dhi = b_max(b, x, 1, false);
    Val same = b_eq(b, lo, hi);
    lo = b_select(b, same, dlo, lo);
    hi = b_select(b, same, dhi, hi);
  }
  widen(b, &lo, &hi, 1);
  shape s = shape_of(1, &bins);
  Val n = b_like(b, x, (double)bins), last = b_const_i(b, DT_I32, bins - 1);
  Val at = b_minimum(b, b_cast(b, b_div(b, b_mul(b, b_sub(b, x, lo), n), b_sub(b, hi, lo)), DT_I32), last);
  at = b_select(b, b_and(b, b_ge(b, x, lo), b_le(b, x, hi)), at, b_const_i(b, DT_I32, -1));
  ret(l, b_cast(b, b_scatter_nd(b, SCAT_ADD, b_zeros(b, acc, &s), &at, 1, b_const(b, acc, 1)), dt));
}

/* The counts (or weights) of x between the given edges, and the edges. */
static void ret_histogram(L *l, Val x, Val edges, int weight_at, bool density, tpu_dtype dt) {
  B *b = l_b(l);
  tpu_dtype acc = b_dtype(b, x);
  int64_t bins = b_dim_static(b, edges, 0) - 1;
  shape s = shape_of(1, &bins);
  Val w = l_has(l, weight_at) ? b_cast(b, ix_flat(b, l_tensor(l, weight_at)), acc) : b_like(b, x, 1),
      one = b_const_i(b, DT_I32, 1);
  Val first = b_slice(b, edges, 0, 0, 1, 1), last = b_slice(b, edges, 0, bins, bins + 1, 1);
  Val at = b_minimum(b, b_sub(b, ix_search(b, edges, x, true), one), b_const_i(b, DT_I32, bins - 1));
  at = b_select(b, b_and(b, b_ge(b, x, first), b_le(b, x, last)), at, b_neg(b, one));
  Val h = b_scatter_nd(b, SCAT_ADD, b_zeros(b, acc, &s), &at, 1, w);
  if (density) {
    Val width = b_sub(b, b_slice(b, edges, 0, 1, bins + 1, 1), b_slice(b, edges, 0, 0, bins, 1));
    h = b_div(b, h, b_mul(b, b_sum(b, h, 1, true), width));
  }
  ret(l, b_cast(b, h, dt));
  ret(l, b_cast(b, edges, dt));
}

/* (self, bins, range, weight, density) */
static void histogram_count(L *l) {
  B *b = l_b(l);
  Val x = ix_flat(b, l_tensor(l, 0)), lo, hi;
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  const double *range;
  int64_t bins = l_int(l, 1), edges_n = bins + 1;
  int n = l_doubles(l, 2, &range);
  if (bins <= 0) l_fail(l, TPU_RUNTIME, "histogram(): bins must be > 0, but got %lld", (long long)bins);
  if (n && n != 2) l_fail(l, TPU_RUNTIME, "histogram(): range should have 2 elements");
  if (n == 2 && range[0] > range[1]) l_fail(l, TPU_RUNTIME, "torch.histogramdd: min should not exceed max");
  if (!histogram_takes(l, x)) return;
  x = b_cast(b, x, acc);
  if (n) {
    lo = b_const(b, acc, range[0]);
    hi = b_const(b, acc, range[1]);
  } else {
    data_range(b, x, &lo, &hi);
    if (b_numel_static(b, x) == 0) hi = b_like(b, x, 1);
  }
  widen(b, &lo, &hi, 0.5);
  shape s = shape_of(1, &edges_n);
  Val i = b_iota(b, acc, &s, 0), count = b_const(b, acc, (double)bins),
      step = b_div(b, b_sub(b, hi, lo), count);
  Val up = b_add(b, lo, b_mul(b, step, i)), down = b_sub(b, hi, b_mul(b, step, b_sub(b, count, i)));
  Val edges = b_select(b, b_lt(b, i, b_const(b, acc, (double)((bins + 1) / 2))), up,
                       down); /* as linspace: from both ends */
  ret_histogram(l, x, edges, 3, l_bool(l, 4), dt);
}

/* (self, bins, weight, density) */
static void histogram_edges(L *l) {
  B *b = l_b(l);
  Val x = ix_flat(b, l_tensor(l, 0)), edges = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  if (b_rank(b, edges) != 1 || (b_ok(b) && b_dim_static(b, edges, 0) < 2))
    l_fail(l, TPU_RUNTIME, "torch.histogram: bins tensor should have at least 2 edges in one dimension");
  if (!histogram_takes(l, x)) return;
  ret_histogram(l, b_cast(b, x, acc), b_cast(b, edges, acc), 2, l_bool(l, 3), dt);
}

const tpu_row rows_distance[] = {{"_euclidean_dist", euclidean_dist, 0, 0},
                                 {"_cdist_forward", cdist_forward, 0, 0},
                                 {"_cdist_backward", cdist_backward, 0, 0},
                                 {"_pdist_forward", pdist_forward, 0, 0},
                                 {"_pdist_backward", pdist_backward, 0, 0},
                                 {"histc", histc, 0, ROW_SAME_DTYPE | ROW_FITS},
                                 {"histogram.bin_ct", histogram_count, 0, ROW_SAME_DTYPE},
                                 {"histogram.bins_tensor", histogram_edges, 0, ROW_SAME_DTYPE},
                                 {0}};
