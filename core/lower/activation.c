/* Activations with their gradients. All are computed in f32 for 16-bit floats and rounded once; the formulas
 * are those of PyTorch's CPU kernels, so that their special values (NaN, the edges of the pieces) agree. */
#include <math.h>

#include "lower/math.h"

/* Argument i, wide; a float tensor, else an error. */
static Val arg(L *l, int i) {
  B *b = l_b(l);
  Val x = l_tensor(l, i);
  m_dtype(l, b_dtype(b, x), l_flags(l));
  return m_wide(b, x);
}

/* Scalar argument i in the type of x. */
static Val num(L *l, int i, Val x) { return l_scalar(l, i, b_dtype(l_b(l), x)); }

/* The result, of the common dtype of the tensors at i and j. */
static void ret_like2(L *l, Val v, int i, int j) {
  B *b = l_b(l);
  tpu_dtype dt = dt_promote(b_dtype(b, l_tensor(l, i)), b_dtype(b, l_tensor(l, j)));
  ret(l, b_cast(b, v, dt));
}

static void ret_like(L *l, Val v, int i) { ret(l, b_cast(l_b(l), v, b_dtype(l_b(l), l_tensor(l, i)))); }

/* datum: the code. */
static void plain(L *l) { ret_like(l, m_unary(l_b(l), l_datum(l), arg(l, 0)), 0); }

/* --- gelu --- */

static const double kKappa = 0.044715, kBeta = M_SQRT2 * M_2_SQRTPI * 0.5;

static Val gelu_tanh_inner(B *b, Val x) {
  Val cube = b_mul(b, b_mul(b, x, x), x);
  return b_tanh(b, b_mul(b, m_k(b, x, kBeta), b_add(b, x, b_mul(b, m_k(b, x, kKappa), cube))));
}

static Val normal_cdf(B *b, Val x) {
  return b_mul(b, m_k(b, x, 0.5), b_add(b, m_k(b, x, 1), b_erf(b, b_mul(b, x, m_k(b, x, M_SQRT1_2)))));
}

static bool is_tanh(L *l, int i) {
  const char *s = l_string(l, i);
  if (s[0] == 't') return true;
  if (s[0] != 'n') l_fail(l, TPU_RUNTIME, "approximate argument must be either none or tanh.");
  return false;
}

static void gelu(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0);
  if (!is_tanh(l, 1)) {
    ret_like(l, b_mul(b, x, normal_cdf(b, x)), 0);
    return;
  }
  Val t = gelu_tanh_inner(b, x);
  ret_like(l, b_mul(b, b_mul(b, m_k(b, x, 0.5), x), b_add(b, m_k(b, x, 1), t)), 0);
}

static void gelu_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), one = m_k(b, x, 1), half = m_k(b, x, 0.5), slope;
  if (is_tanh(l, 2)) {
    Val t = gelu_tanh_inner(b, x), x2 = b_mul(b, x, x);
    Val inner = b_mul(b, m_k(b, x, kBeta), b_add(b, one, b_mul(b, m_k(b, x, 3 * kKappa), x2)));
    Val right = b_mul(b, b_mul(b, b_mul(b, half, x), b_sub(b, one, b_mul(b, t, t))), inner);
    slope = b_add(b, b_mul(b, half, b_add(b, one, t)), right);
  } else {
    Val pdf = b_mul(b, b_exp(b, b_mul(b, m_k(b, x, -0.5), b_mul(b, x, x))),
                    m_k(b, x, M_2_SQRTPI * M_SQRT1_2 * 0.5));
    slope = b_add(b, normal_cdf(b, x), b_mul(b, x, pdf));
  }
  ret_like2(l, b_mul(b, g, slope), 0, 1);
}

/* --- pieces: every gradient is g times a slope, or 0 --- */

static void elu(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0), alpha = num(l, 1, x), scale = num(l, 2, x), in = num(l, 3, x);
  Val neg = b_mul(b, b_expm1(b, b_mul(b, x, in)), b_mul(b, alpha, scale));
  ret_like(l, b_select(b, b_le(b, x, m_k(b, x, 0)), neg, b_mul(b, x, scale)), 0);
}

static void elu_backward(L *l) { /* grad, alpha, scale, input_scale, is_result, self_or_result */
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 5), alpha = num(l, 1, x), scale = num(l, 2, x), in = num(l, 3, x),
      nc = b_mul(b, alpha, scale);
  Val inner = l_bool(l, 4) ? b_add(b, x, nc) : b_mul(b, nc, b_exp(b, b_mul(b, x, in)));
  Val neg = b_mul(b, b_mul(b, g, in), inner);
  ret_like2(l, b_select(b, b_le(b, x, m_k(b, x, 0)), neg, b_mul(b, g, scale)), 0, 5);
}

static void leaky_relu(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0);
  ret_like(l, b_select(b, b_gt(b, x, m_k(b, x, 0)), x, b_mul(b, x, num(l, 1, x))), 0);
}

static void leaky_relu_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1);
  ret_like2(l, b_select(b, b_gt(b, x, m_k(b, x, 0)), g, b_mul(b, g, num(l, 2, x))), 0, 1);
}

static void threshold(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  m_dtype(l, b_dtype(b, x), M_NO_BOOL | M_NO_COMPLEX);
  ret(l, b_select(b, b_le(b, x, num(l, 1, x)), num(l, 2, x), x));
}

static void threshold_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  ret_like2(l, b_select(b, b_le(b, x, num(l, 2, x)), m_k(b, g, 0), g), 0, 1);
}

static void hardtanh(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  if (b_dtype(b, x) == DT_BOOL) l_fail(l, TPU_RUNTIME, "Bool inputs not supported for %s", l_name(l));
  m_dtype(l, b_dtype(b, x), M_NO_COMPLEX);
  ret(l, b_clamp(b, num(l, 1, x), x, num(l, 2, x)));
}

static void hardtanh_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1);
  Val in = b_and(b, b_gt(b, x, num(l, 2, x)), b_lt(b, x, num(l, 3, x)));
  ret_like2(l, m_zero_mask(b, in, g), 0, 1);
}

static Val inside(L *l, Val x, int i) { /* -lambda <= x <= lambda */
  B *b = l_b(l);
  Val lambda = num(l, i, x);
  return b_and(b, b_ge(b, x, b_neg(b, lambda)), b_le(b, x, lambda));
}

static void hardshrink(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0);
  ret_like(l, b_select(b, inside(l, x, 1), m_k(b, x, 0), x), 0);
}

static void softshrink(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0), lambda = num(l, 1, x);
  Val v = b_select(b, b_gt(b, x, lambda), b_sub(b, x, lambda), b_add(b, x, lambda));
  ret_like(l, b_select(b, inside(l, x, 1), b_mul(b, x, m_k(b, x, 0)), v), 0);
}

static void shrink_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), lambda = num(l, 2, x);
  Val out = b_or(b, b_lt(b, x, b_neg(b, lambda)), b_gt(b, x, lambda));
  ret_like2(l, m_zero_mask(b, out, g), 0, 1);
}

static void hardswish_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1);
  Val mid = b_mul(b, g, b_add(b, b_div(b, x, m_k(b, x, 3)), m_k(b, x, 0.5)));
  Val v = b_select(b, b_lt(b, x, m_k(b, x, 3)), mid, g);
  ret_like2(l, b_select(b, b_le(b, x, m_k(b, x, -3)), m_k(b, g, 0), v), 0, 1);
}

static void hardsigmoid_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1);
  Val in = b_and(b, b_gt(b, x, m_k(b, x, -3)), b_lt(b, x, m_k(b, x, 3)));
  ret_like2(l, b_select(b, in, b_div(b, g, m_k(b, g, 6)), m_k(b, g, 0)), 0, 1);
}

/* --- smooth ones --- */

static void softplus(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0), beta = num(l, 1, x), z = b_mul(b, x, beta);
  Val v = b_div(b, b_log1p(b, b_exp(b, z)), beta);
  ret_like(l, b_select(b, b_gt(b, z, num(l, 2, x)), x, v), 0);
}

static void softplus_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), z = b_mul(b, x, num(l, 2, x));
  Val v = b_mul(b, g, b_logistic(b, z));
  ret_like2(l, b_select(b, b_gt(b, z, num(l, 3, x)), g, v), 0, 1);
}

static void log_sigmoid_forward(L *l) { /* output, buffer = e^-|x| */
  B *b = l_b(l);
  Val x = arg(l, 0), z = b_exp(b, b_neg(b, b_abs(b, x)));
  ret_like(l, b_sub(b, b_minimum(b, x, m_k(b, x, 0)), b_log1p(b, z)), 0);
  ret_like(l, z, 0);
}

static void
log_sigmoid_backward(L *l) { /* sigmoid(-x); the buffer is not read, it costs more than the exponential */
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1);
  ret_like2(l, b_mul(b, g, b_logistic(b, b_neg(b, x))), 0, 1);
}

static void silu_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), s = b_logistic(b, x), one = m_k(b, x, 1);
  ret_like2(l, b_mul(b, b_mul(b, g, s), b_add(b, one, b_mul(b, x, b_sub(b, one, s)))), 0, 1);
}

static void mish_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), s = b_logistic(b, x), t = b_tanh(b, b_log1p(b, b_exp(b, x))),
      one = m_k(b, x, 1);
  Val slope = b_add(b, t, b_mul(b, b_mul(b, x, s), b_sub(b, one, b_mul(b, t, t))));
  ret_like2(l, b_mul(b, g, slope), 0, 1);
}

/* Gradients from the output y: tanh g (1 - y^2), sigmoid g (1 - y) y. datum: OP_TANH or OP_LOGISTIC. */
static void from_output(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), y = arg(l, 1), one = m_k(b, y, 1);
  Val slope = l_datum(l) == OP_TANH ? b_sub(b, one, b_mul(b, y, y)) : b_mul(b, b_sub(b, one, y), y);
  ret_like2(l, b_mul(b, g, b_conj(b, slope)), 0, 1);
}

static void logit_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), one = m_k(b, x, 1);
  double eps = l_double_or(l, 2, -1), lo = eps < 0 ? 0 : eps;
  Val out = b_or(b, b_lt(b, x, m_k(b, x, lo)), b_gt(b, x, m_k(b, x, 1 - lo)));
  Val v = b_div(b, g, b_mul(b, x, b_sub(b, one, x)));
  v = b_select(b, b_or(b, b_eq(b, x, m_k(b, x, 0)), b_eq(b, x, one)), b_mul(b, g, m_k(b, g, INFINITY)), v);
  ret_like2(l, b_select(b, out, m_k(b, g, eps < 0 ? NAN : 0), v), 0, 1);
}

/* --- two operands --- */

static void prelu(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0);
  ret_like(l, b_select(b, b_gt(b, x, m_k(b, x, 0)), x, b_mul(b, x, arg(l, 1))), 0);
}

static void prelu_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), w = arg(l, 2), pos = b_gt(b, x, m_k(b, x, 0));
  ret_like(l, b_select(b, pos, g, b_mul(b, w, g)), 1);
  ret_like(l, b_select(b, pos, m_k(b, x, 0), b_mul(b, x, g)), 1);
}

/* The halves of x along argument `dim`. */
static int halves(L *l, Val x, int dim, Val *first, Val *second) {
  B *b = l_b(l);
  if (b_rank(b, x) == 0) l_fail(l, TPU_RUNTIME, "glu does not support 0-dimensional tensors");
  int axis = l_axis(l, dim, b_rank(b, x));
  int64_t n = b_dim_static(b, x, axis);
  if (n % 2)
    l_fail(l, TPU_RUNTIME, "Halving dimension must be even, but dimension %d is size %lld", axis,
           (long long)n);
  *first = b_slice(b, x, axis, 0, n / 2, 1);
  *second = b_slice(b, x, axis, n / 2, n / 2 * 2, 1);
  return axis;
}

static void glu(L *l) {
  B *b = l_b(l);
  Val x = arg(l, 0), u, v;
  halves(l, x, 1, &u, &v);
  ret_like(l, b_mul(b, u, b_logistic(b, v)), 0);
}

static void glu_backward(L *l) {
  B *b = l_b(l);
  Val g = arg(l, 0), x = arg(l, 1), u, v;
  int axis = halves(l, x, 2, &u, &v);
  Val s = b_logistic(b, v), ds = b_mul(b, s, b_sub(b, m_k(b, s, 1), s)),
      parts[2] = {b_mul(b, g, s), b_mul(b, b_mul(b, g, u), ds)};
  ret_like(l, b_concat(b, parts, 2, axis), 1);
}

/* glu_jvp(glu, x, dx, dim): tangent of u s(v) is du s + glu (1 - s) dv. */
static void glu_jvp(L *l) {
  B *b = l_b(l);
  Val y = arg(l, 0), x = arg(l, 1), dx = arg(l, 2), u, v, du, dv;
  halves(l, x, 3, &u, &v);
  halves(l, dx, 3, &du, &dv);
  Val s = b_logistic(b, v);
  ret_like(l, b_add(b, b_mul(b, du, s), b_mul(b, b_sub(b, y, b_mul(b, s, y)), dv)), 0);
}

#define F   (ROW_ELEMENTWISE | M_NO_INT | M_NO_COMPLEX)
#define C   (ROW_ELEMENTWISE | M_NO_INT)
#define ANY (ROW_ELEMENTWISE)
const tpu_row rows_activation[] = {
    {"silu", plain, M_SILU, C | ROW_SAME_DTYPE},
    {"silu_backward", silu_backward, 0, C},
    {"mish", plain, M_MISH, F | ROW_SAME_DTYPE},
    {"mish_backward", mish_backward, 0, F},
    {"hardswish", plain, M_HARDSWISH, F | ROW_SAME_DTYPE},
    {"hardswish_backward", hardswish_backward, 0, F},
    {"hardsigmoid", plain, M_HARDSIGMOID, F | ROW_SAME_DTYPE},
    {"hardsigmoid_backward", hardsigmoid_backward, 0, F},
    {"gelu", gelu, 0, F | ROW_SAME_DTYPE},
    {"gelu_backward", gelu_backward, 0, F},
    {"elu", elu, 0, F | ROW_SAME_DTYPE | ROW_FITS},
    {"elu_backward", elu_backward, 0, F | ROW_FITS},
    {"leaky_relu", leaky_relu, 0, F | ROW_SAME_DTYPE | ROW_FITS},
    {"leaky_relu_backward", leaky_relu_backward, 0, F | ROW_FITS},
    {"threshold", threshold, 0, ANY | ROW_SHARED | ROW_FITS},
    {"threshold_backward", threshold_backward, 0, ANY | ROW_FITS},
    {"hardtanh", hardtanh, 0, ANY | ROW_FITS | ROW_SAME_DTYPE},
    {"hardtanh_backward", hardtanh_backward, 0, F | ROW_FITS},
    {"hardshrink", hardshrink, 0, F | ROW_SAME_DTYPE | ROW_FITS},
    {"hardshrink_backward", shrink_backward, 0, F | ROW_FITS},
    {"softshrink", softshrink, 0, F | ROW_SAME_DTYPE | ROW_FITS},
    {"softshrink_backward", shrink_backward, 0, F | ROW_FITS},
    {"softplus", softplus, 0, F | ROW_SAME_DTYPE | ROW_FITS},
    {"softplus_backward", softplus_backward, 0, F | ROW_FITS},
    {"log_sigmoid_forward", log_sigmoid_forward, 0, (F & ~ROW_ELEMENTWISE) | ROW_LIKE_SELF | ROW_SAME_DTYPE},
    {"log_sigmoid_backward", log_sigmoid_backward, 0, F},
    {"sigmoid_backward", from_output, OP_LOGISTIC, C},
    {"tanh_backward", from_output, OP_TANH, C},
    {"logit_backward", logit_backward, 0, F},
    {"_prelu_kernel", prelu, 0, F},
    {"_prelu_kernel_backward", prelu_backward, 0, F},
    {"glu", glu, 0, M_NO_INT | M_NO_COMPLEX},
    {"glu_backward", glu_backward, 0, M_NO_INT | M_NO_COMPLEX},
    {"glu_jvp", glu_jvp, 0, M_NO_INT | M_NO_COMPLEX},
    {0},
};
