/* Reductions: sums, products, extremes, any and all, norms, moments. Order statistics are in sort.c,
 * distances in distance.c. */
#include <math.h>
#include <string.h>

#include "lower/indexing.h"

enum {
  R_SUM,
  R_NANSUM,
  R_MEAN,
  R_PROD,
  R_MAX,
  R_MIN,
  R_ANY,
  R_ALL,
  R_KIND = 15,
  R_DIMS = 16 /* the dims are argument 1, keepdim argument 2; otherwise all dims are reduced */
};

static uint32_t axes_of(L *l, Val x) {
  int rank = b_rank(l_b(l), x);
  return l_datum(l) & R_DIMS ? l_axes(l, 1, rank) : axes_all(rank);
}

static bool keep_of(L *l) { return (l_datum(l) & R_DIMS) && l_bool(l, 2); }

static int base_len(L *l) { return (int)strcspn(l_name(l), "."); }

/* --- sum, mean, prod --- */

static tpu_dtype mean_dtype(L *l, tpu_dtype from, tpu_dtype asked) {
  tpu_dtype dt = asked == DT_NONE ? from : asked;
  if (dt_is_integral(dt))
    l_fail(l, TPU_RUNTIME,
           "mean(): could not infer output dtype. %s dtype must be either a floating point or complex dtype. "
           "Got: %s",
           asked == DT_NONE ? "Input" : "Optional", tpu_dtype_torch_name(dt));
  return dt;
}

/* datum: what to add up, and where the dims are. The operand is cast to the result's dtype first, as in
 * torch. */
static void sum_like(L *l) {
  B *b = l_b(l);
  int kind = l_datum(l) & R_KIND;
  Val x = l_tensor(l, 0);
  tpu_dtype from = b_dtype(b, x), asked = l_dtype(l, l_datum(l) & R_DIMS ? 3 : 1);
  if (asked == DT_NONE && kind != R_MEAN) asked = l_written_dtype(l);
  tpu_dtype dt = asked != DT_NONE ? asked : dt_is_integral(from) ? DT_I64 : from;
  if (kind == R_MEAN) dt = mean_dtype(l, from, asked);
  if (kind == R_NANSUM && dt_is_complex(from))
    l_fail(l, TPU_RUNTIME, "nansum on CPU does not support complex inputs");
  if (kind == R_NANSUM && dt_is_float(from) && !dt_is_float(dt))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"nansum_cpu\" not implemented for '%s'", tpu_dtype_torch_name(dt));
  if (kind == R_NANSUM && dt_is_float(from)) x = b_select(b, b_isnan(b, x), b_like(b, x, 0), x);
  x = b_cast(b, x, dt);
  uint32_t axes = axes_of(l, x);
  bool keep = keep_of(l);
  ret(l, kind == R_MEAN ? b_mean(b, x, axes, keep)
                        : b_reduce(b, kind == R_PROD ? RED_PROD : RED_SUM, x, axes, keep));
}

static void trace(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  if (b_rank(b, x) != 2) l_fail(l, TPU_RUNTIME, "trace: expected a matrix");
  if (b_dtype(b, x) == DT_BOOL) l_fail(l, TPU_NOT_IMPLEMENTED, "\"trace\" not implemented for 'Bool'");
  if (!b_ok(b)) return;
  if (dt_is_integral(b_dtype(b, x))) x = b_cast(b, x, DT_I64);
  const shape *s = b_shape(b, x);
  Val diagonal = b_eq(b, b_iota(b, DT_I32, s, 0), b_iota(b, DT_I32, s, 1));
  ret(l, b_sum(b, b_select(b, diagonal, x, b_like(b, x, 0)), 3, false));
}

static void count_nonzero(L *l) {
  B *b = l_b(l);
  Val x = b_cast(b, l_tensor(l, 0), DT_BOOL);
  uint32_t axes = l_has(l, 1) ? l_axes(l, 1, b_rank(b, x)) : axes_all(b_rank(b, x));
  ret(l, b_sum(b, b_cast(b, x, DT_I64), axes, false));
}

/* --- any, all --- */

static void any_all(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  int kind = l_datum(l) & R_KIND;
  Val v = b_reduce(b, kind == R_ANY ? RED_OR : RED_AND, b_cast(b, x, DT_BOOL), axes_of(l, x), keep_of(l));
  ret(l, b_cast(b, v, dt == DT_U8 ? DT_U8 : DT_BOOL));
}

/* any.dims, all.dims: an empty list reduces nothing. */
static void any_all_dims(L *l) {
  const int64_t *dims;
  if (!l_has(l, 1) || l_ints(l, 1, &dims) > 0) {
    any_all(l);
    return;
  }
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  ret(l, b_dtype(b, x) == DT_U8 ? b_cast(b, b_cast(b, x, DT_BOOL), DT_U8) : b_cast(b, x, DT_BOOL));
}

/* --- extremes --- */

/* An extreme of nothing is an error: in torch's words, by whether the caller named dims. */
static void check_not_empty(L *l, Val x, uint32_t axes, bool named) {
  B *b = l_b(l);
  const shape *s = b_shape(b, x);
  for (int i = 0; i < s->rank && named; i++)
    if ((axes >> i & 1) && !s->d[i].sym && s->d[i].n == 0)
      l_fail(l, TPU_INDEX, "%.*s(): Expected reduction dim %d to have non-zero size.", base_len(l), l_name(l),
             i);
  if (named) return;
  for (int i = 0; i < s->rank; i++)
    if (!s->d[i].sym && s->d[i].n == 0)
      l_fail(l, strncmp(l_name(l), "arg", 3) ? TPU_RUNTIME : TPU_INDEX,
             "%.*s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
             "dim with the 'dim' argument.",
             base_len(l), l_name(l));
}

static void refuse(L *l, Val x, const char *kernel) {
  l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel,
         tpu_dtype_torch_name(b_dtype(l_b(l), x)));
}

static void refuse_complex(L *l, Val x) {
  tpu_dtype dt = b_dtype(l_b(l), x);
  if (dt_is_complex(dt))
    l_fail(l, TPU_RUNTIME, "%.*s(): does not support complex input", base_len(l), l_name(l));
}

/* max, min, amax, amin: values only. */
static void extreme(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  const int64_t *dims;
  bool named = (l_datum(l) & R_DIMS) && l_ints(l, 1, &dims) > 0;
  uint32_t axes = axes_of(l, x);
  check_not_empty(l, x, axes, named);
  bool max = (l_datum(l) & R_KIND) == R_MAX, dimmed = l_datum(l) & R_DIMS;
  if (dt_is_complex(b_dtype(b, x)))
    refuse(l, x, dimmed ? max ? "max_values_cpu" : "min_values_cpu" : max ? "max_all" : "min_all");
  ret(l, b_reduce(b, (l_datum(l) & R_KIND) == R_MAX ? RED_MAX : RED_MIN, x, axes, keep_of(l)));
}

/* max.dim, min.dim: values and indices. */
static void extreme_dim(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), value;
  int axis = l_axis(l, 1, b_rank(b, x));
  check_not_empty(l, x, 1u << axis, true);
  refuse_complex(l, x);
  Val at = b_argreduce(b, (l_datum(l) & R_KIND) == R_MAX, x, axis, l_bool(l, 2), &value);
  ret(l, value);
  ret(l, at);
}

static void aminmax(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  bool named = l_has(l, 1), keep = l_bool(l, 2);
  uint32_t axes = named ? 1u << l_axis(l, 1, rank) : axes_all(rank);
  if (named) check_not_empty(l, x, axes, true);
  for (int i = 0; i < rank && !named; i++)
    if (!b_dim_is_generic(b, x, i) && b_dim_static(b, x, i) == 0)
      l_fail(l, TPU_RUNTIME,
             "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
  if (dt_is_complex(b_dtype(b, x))) refuse(l, x, "aminmax_cpu");
  ret(l, b_min(b, x, axes, keep));
  ret(l, b_max(b, x, axes, keep));
}

/* The first position of the extreme in the whole of x, where generic dims forbid to flatten it. */
static Val arg_of_all(B *b, bool max, Val x) {
  int rank = b_rank(b, x);
  Val best = b_reduce(b, max ? RED_MAX : RED_MIN, x, axes_all(rank), false);
  Val hit = b_or(b, b_eq(b, x, best), b_isnan(b, x)), step = b_const_i(b, DT_I64, 1),
      at = b_const_i(b, DT_I64, 0);
  for (int i = rank - 1; i >= 0; i--) {
    at = b_add(b, at, b_mul(b, b_iota(b, DT_I64, b_shape(b, x), i), step));
    step = b_mul(b, step, b_size(b, x, i, DT_I64));
  }
  return b_min(b, b_select(b, hit, at, b_max_value(b, DT_I64)), axes_all(rank), false);
}

static void argmax(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  bool max = (l_datum(l) & R_KIND) == R_MAX, named = l_has(l, 1);
  refuse_complex(l, x);
  if (b_dtype(b, x) == DT_BOOL)
    l_fail(l, TPU_RUNTIME, "%.*s(): does not support bool input", base_len(l), l_name(l));
  check_not_empty(l, x, named ? 1u << l_axis(l, 1, rank) : axes_all(rank), named);
  if (!b_ok(b)) return;
  if (named) {
    ret(l, b_argreduce(b, max, x, l_axis(l, 1, rank), l_bool(l, 2), NULL));
    return;
  }
  Val at = b_is_generic(b, x) ? arg_of_all(b, max, x) : b_argreduce(b, max, ix_flat(b, x), 0, false, NULL);
  ret(l, l_bool(l, 2) ? ix_raise(b, at, rank) : at);
}

/* --- norms --- */

/* x as magnitudes in the real dtype to accumulate in; squares when `square`. */
static Val magnitude(B *b, Val x, bool square) {
  tpu_dtype dt = b_dtype(b, x);
  if (dt_is_complex(dt) && square) {
    Val re = b_real(b, x), im = b_imag(b, x);
    return b_add(b, b_mul(b, re, re), b_mul(b, im, im));
  }
  x = b_cast(b, b_abs(b, x), dt_acc(dt_real(dt)));
  return square ? b_mul(b, x, x) : x;
}

/* The p-norm of x over axes in the real dtype of x; `p` is the position of a Scalar, or -1 for 2. */
static Val p_norm(L *l, Val x, int p, uint32_t axes, bool keep) {
  B *b = l_b(l);
  tpu_dtype out = dt_real(b_dtype(b, x)), acc = dt_acc(out);
  double n;
  if (p < 0 || !l_has(l, p) || l_scalar_is(l, p, 2))
    return b_cast(b, b_sqrt(b, b_sum(b, magnitude(b, x, true), axes, keep)), out);
  if (l_scalar_is(l, p, 0))
    return b_cast(b, b_sum(b, b_cast(b, b_cast(b, x, DT_BOOL), acc), axes, keep), out);
  Val a = magnitude(b, x, false);
  if (l_scalar_is(l, p, 1)) return b_cast(b, b_sum(b, a, axes, keep), out);
  if (l_scalar_is(l, p, INFINITY) && b_const_value(b, b_count(b, x, axes, DT_F64), &n) && n == 0)
    l_fail(l, TPU_RUNTIME,
           "linalg.vector_norm cannot compute the inf norm on an empty tensor because the operation does not "
           "have an identity");
  if (l_scalar_is(l, p, INFINITY)) return b_cast(b, b_max(b, a, axes, keep), out);
  if (l_scalar_is(l, p, -INFINITY)) return b_cast(b, b_min(b, a, axes, keep), out);
  Val e = l_scalar(l, p, acc);
  Val v = b_pow(b, b_sum(b, b_pow(b, a, e), axes, keep), b_div(b, b_like(b, e, 1), e));
  v = b_select(b, b_eq(b, e, b_like(b, e, INFINITY)), b_max(b, a, axes, keep), v);
  return b_cast(b, b_select(b, b_eq(b, e, b_like(b, e, -INFINITY)), b_min(b, a, axes, keep), v), out);
}

/* datum: bit 0 = dims and keepdim are arguments 2 and 3; the rest = position of the dtype, 0 for none. */
static void norm(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  bool dims = l_datum(l) & 1;
  int type_at = l_datum(l) >> 1, rank = b_rank(b, x);
  tpu_dtype dt = type_at ? l_dtype(l, type_at) : DT_NONE;
  if (dt == DT_NONE) dt = b_dtype(b, x);
  if (dt_is_integral(dt))
    l_fail(l, TPU_RUNTIME, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
           tpu_dtype_torch_name(dt));
  ret(l, p_norm(l, b_cast(b, x, dt), 1, dims ? l_axes(l, 2, rank) : axes_all(rank), dims && l_bool(l, 3)));
}

static void dist(L *l) {
  B *b = l_b(l);
  Val d = b_sub(b, l_tensor(l, 0), l_tensor(l, 1));
  ret(l, p_norm(l, d, 2, axes_all(b_rank(b, d)), false));
}

/* Slices along an axis whose norm is above a bound are scaled down to it. */
static void renorm(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  if (dt_is_integral(b_dtype(b, x)))
    l_fail(l, TPU_RUNTIME, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
           tpu_dtype_torch_name(b_dtype(b, x)));
  if (dt_is_complex(l_scalar_dtype(l, 1))) l_fail(l, TPU_RUNTIME, "renorm: p must be real-valued");
  if (dt_is_complex(l_scalar_dtype(l, 3))) l_fail(l, TPU_RUNTIME, "renorm: maxnorm must be real-valued");
  if (rank < 2) l_fail(l, TPU_RUNTIME, "renorm: input needs at least 2 dimensions, got %d dimensions", rank);
  int axis = l_axis(l, 2, rank);
  if (!b_ok(b)) return;
  tpu_dtype dt = b_dtype(b, x), real = dt_real(dt), acc = dt_acc(real);
  Val zero = b_const(b, DT_F64, 0);
  b_check(b, b_gt(b, l_scalar(l, 1, DT_F64), zero), TPU_RUNTIME, "renorm: non-positive-norm not supported");
  b_check(b, b_ge(b, l_scalar(l, 3, DT_F64), zero), TPU_RUNTIME, "renorm: expected maxnorm to be >= 0");
  Val n = b_cast(b, p_norm(l, x, 1, axes_all(rank) & ~(1u << axis), true), acc), bound = l_scalar(l, 3, acc);
  Val factor =
      b_select(b, b_gt(b, n, bound), b_div(b, bound, b_add(b, n, b_like(b, n, 1e-7))), b_like(b, n, 1));
  ret(l, b_cast(b, b_mul(b, x, b_cast(b, factor, real)), dt));
}

/* --- moments --- */

enum { V_STD = 1, V_MEAN = 2 };

/* std, var and those with the mean: (self, dim, correction, keepdim) */
static void variance(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt), real = dt_real(acc);
  if (dt_is_integral(dt)) {
    bool pair = l_datum(l) & V_MEAN;
    l_fail(l, TPU_RUNTIME, "%.*s only support floating point and complex dtypes", pair ? base_len(l) : 11,
           pair ? l_name(l) : "std and var");
    return;
  }
  uint32_t axes = l_axes(l, 1, b_rank(b, x));
  bool keep = l_bool(l, 3);
  x = b_cast(b, x, acc);
  Val mean = b_mean(b, x, axes, true), zero = b_const(b, real, 0);
  Val squares = b_sum(b, magnitude(b, b_sub(b, x, mean), true), axes, keep);
  Val free = b_sub(b, b_count(b, x, axes, real), l_has(l, 2) ? l_scalar(l, 2, real) : b_const(b, real, 1));
  Val v = b_div(b, squares, b_maximum(b, free, zero));
  ret(l, b_cast(b, l_datum(l) & V_STD ? b_sqrt(b, v) : v, dt_real(dt)));
  if (!(l_datum(l) & V_MEAN)) return;
  ret(l, b_cast(b, keep ? mean : b_mean(b, x, axes, false), dt));
}

static void logsumexp(L *l) {
  B *b = l_b(l);
  Val x = l_to_float(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  uint32_t axes = l_axes(l, 1, b_rank(b, x));
  bool keep = l_bool(l, 2);
  x = b_cast(b, x, dt_acc(dt));
  Val most = b_max_loose(b, b_real(b, x), axes, true);
  most = b_select(b, b_isinf(b, most), b_like(b, most, 0), most);
  Val sum = b_log(b, b_sum(b, b_exp(b, b_sub(b, x, most)), axes, true));
  Val v = b_add(b, sum, most);
  for (int i = b_rank(b, x) - 1; i >= 0 && !keep; i--)
    if (axes >> i & 1) v = b_squeeze(b, v, i);
  ret(l, b_cast(b, v, dt));
}

const tpu_row rows_reduce[] = {
    {"sum", sum_like, R_SUM, 0},
    {"sum.dim_IntList", sum_like, R_SUM | R_DIMS, 0},
    {"nansum", sum_like, R_NANSUM | R_DIMS, 0},
    {"mean", sum_like, R_MEAN, 0},
    {"mean.dim", sum_like, R_MEAN | R_DIMS, 0},
    {"prod", sum_like, R_PROD, 0},
    {"prod.dim_int", sum_like, R_PROD | R_DIMS, 0},
    {"trace", trace, 0, 0},
    {"count_nonzero", count_nonzero, 0, 0},
    {"count_nonzero.dim_IntList", count_nonzero, 0, 0},
    {"any", any_all, R_ANY, ROW_SAME_DTYPE},
    {"any.dim", any_all, R_ANY | R_DIMS, ROW_SAME_DTYPE},
    {"any.dims", any_all_dims, R_ANY | R_DIMS, ROW_SAME_DTYPE},
    {"all", any_all, R_ALL, ROW_SAME_DTYPE},
    {"all.dim", any_all, R_ALL | R_DIMS, ROW_SAME_DTYPE},
    {"all.dims", any_all_dims, R_ALL | R_DIMS, ROW_SAME_DTYPE},
    {"_is_any_true", any_all, R_ANY, 0},
    {"_is_all_true", any_all, R_ALL, 0},
    {"max", extreme, R_MAX, 0},
    {"min", extreme, R_MIN, 0},
    {"amax", extreme, R_MAX | R_DIMS, ROW_SAME_DTYPE},
    {"amin", extreme, R_MIN | R_DIMS, ROW_SAME_DTYPE},
    {"max.dim", extreme_dim, R_MAX, ROW_SAME_DTYPE},
    {"min.dim", extreme_dim, R_MIN, ROW_SAME_DTYPE},
    {"aminmax", aminmax, 0, ROW_SAME_DTYPE},
    {"_aminmax", aminmax, 0, 0},
    {"_aminmax.dim", aminmax, 0, 0},
    {"argmax", argmax, R_MAX, ROW_SAME_DTYPE},
    {"argmin", argmax, R_MIN, ROW_SAME_DTYPE},
    {"norm.Scalar", norm, 0, ROW_SPECIAL | ROW_SAME_DTYPE},
    {"norm.ScalarOpt_dim", norm, 1, ROW_SPECIAL | ROW_SAME_DTYPE},
    {"norm.ScalarOpt_dim_dtype", norm, 1 | 4 << 1, ROW_SPECIAL | ROW_SAME_DTYPE},
    {"norm.ScalarOpt_dtype", norm, 2 << 1, ROW_SPECIAL},
    {"linalg_vector_norm", norm, 1 | 4 << 1, ROW_SPECIAL | ROW_OVERLAP_SELF | ROW_SAME_DTYPE},
    {"dist", dist, 0, ROW_SPECIAL},
    {"renorm", renorm, 0, ROW_SPECIAL | ROW_OVERLAP_SELF | ROW_SAME_DTYPE},
    {"std.correction", variance, V_STD, ROW_FITS},
    {"var.correction", variance, 0, ROW_FITS},
    {"std_mean.correction", variance, V_STD | V_MEAN, ROW_FITS},
    {"var_mean.correction", variance, V_MEAN, ROW_FITS},
    {"logsumexp", logsumexp, 0, 0},
    {0}};
