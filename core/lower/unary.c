/* Pointwise functions of one tensor. The functions themselves are in math.c and special.c; here stand the
 * dtypes that each takes. */
#include <math.h>

#include "lower/math.h"

/* datum: the code of the function. */
static void unary(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  if (l_datum(l) == OP_NEG && b_dtype(b, x) == DT_BOOL) {
    l_fail(l, TPU_RUNTIME,
           "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
           "mask, use "
           "the `~` or `logical_not()` operator instead.");
    return;
  }
  tpu_dtype dt = m_dtype(l, b_dtype(b, x), l_flags(l));
  ret(l, m_unary(b, l_datum(l), b_cast(b, x, dt)));
}

static void sign(L *l) {
  if (dt_is_complex(b_dtype(l_b(l), l_tensor(l, 0))))
    l_fail(
        l, TPU_NOT_IMPLEMENTED,
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.");
  unary(l);
}

static void abs_(L *l) {
  if (l_in_place(l) && dt_is_complex(b_dtype(l_b(l), l_tensor(l, 0))))
    l_fail(l, TPU_RUNTIME, "In-place abs is not supported for complex tensors.");
  unary(l);
}

static void degrees(L *l) {
  if (dt_is_complex(b_dtype(l_b(l), l_tensor(l, 0))))
    l_fail(l, TPU_RUNTIME, "%s is not supported for complex tensors.", l_name(l));
  unary(l);
}

static void relu(L *l) {
  if (b_dtype(l_b(l), l_tensor(l, 0)) == DT_BOOL)
    l_fail(l, TPU_RUNTIME, "Boolean inputs not supported for relu");
  unary(l);
}

static void bitwise_not(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  m_dtype(l, b_dtype(b, x), M_INT_ONLY);
  ret(l, b_not(b, x));
}

/* round(x * 10^d) / 10^d */
static void round_decimals(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = m_dtype(l, b_dtype(b, x), M_NO_COMPLEX | M_NO_INT);
  int64_t d = l_int(l, 1);
  if (d == 0) {
    ret(l, b_round(b, x));
    return;
  }
  x = m_wide(b, x);
  Val ten = m_k(b, x, pow(10, (double)(d < 0 ? -d : d)));
  Val v = d > 0 ? b_div(b, b_round(b, b_mul(b, x, ten)), ten) : b_mul(b, b_round(b, b_div(b, x, ten)), ten);
  ret(l, b_cast(b, v, dt));
}

static double largest(tpu_dtype dt) {
  static const double max[DT_COUNT] = {[DT_F16] = 65504,          [DT_BF16] = 0x1.FEp127,
                                       [DT_F32] = 0x1.FFFFFEp127, [DT_F64] = 0x1.FFFFFFFFFFFFFp1023,
                                       [DT_F8E5M2] = 57344,       [DT_F8E4M3FN] = 448,
                                       [DT_F8E5M2FNUZ] = 57344,   [DT_F8E4M3FNUZ] = 240};
  return max[dt];
}

static Val finite_or(B *b, Val x, double nan, double posinf, double neginf) {
  Val v = b_select(b, b_isnan(b, x), m_k(b, x, nan), x);
  v = b_select(b, b_eq(b, x, m_k(b, x, INFINITY)), m_k(b, x, posinf), v);
  return b_select(b, b_eq(b, x, m_k(b, x, -INFINITY)), m_k(b, x, neginf), v);
}

static void nan_to_num(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  double big = largest(dt_real(dt)), nan = l_double_or(l, 1, 0), posinf = l_double_or(l, 2, big),
         neginf = l_double_or(l, 3, -big);
  if (dt_is_complex(dt))
    x = b_complex(b, finite_or(b, b_real(b, x), nan, posinf, neginf),
                  finite_or(b, b_imag(b, x), nan, posinf, neginf));
  else if (dt_is_float(dt))
    x = finite_or(b, x, nan, posinf, neginf);
  ret(l, x);
}

/* polygamma(int n, Tensor self) */
static void polygamma(L *l) {
  B *b = l_b(l);
  int64_t n = l_int(l, 0);
  Val x = l_to_float(l, 1), w = m_wide(b, x);
  m_dtype(l, b_dtype(b, x), M_NO_COMPLEX);
  if (n < 0) l_fail(l, TPU_RUNTIME, "polygamma(n, x) does not support negative n.");
  ret(l, b_cast(b, m_polygamma(b, n, w), b_dtype(b, x)));
}

static void mvlgamma(L *l) {
  B *b = l_b(l);
  Val x = l_to_float(l, 0), w = m_wide(b, x);
  m_dtype(l, b_dtype(b, x), M_NO_COMPLEX);
  if (b_dtype(b, l_tensor(l, 0)) == DT_BOOL)
    l_fail(l, TPU_RUNTIME, "The input tensor may not be a boolean tensor.");
  int64_t p = l_int(l, 1);
  if (p < 1) l_fail(l, TPU_RUNTIME, "p has to be greater than or equal to 1");
  Val sum = m_k(b, w, (double)(p * (p - 1)) / 4 * log(M_PI));
  for (int64_t i = 0; i < p; i++) sum = b_add(b, sum, b_lgamma(b, b_sub(b, w, m_k(b, w, (double)i / 2))));
  ret(l, b_cast(b, sum, b_dtype(b, x)));
}

/* Mantissa in [0.5, 1) and exponent, from the bits; subnormals are scaled up first. */
static void frexp_(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  if (!dt_is_float(dt)) {
    l_fail(l, TPU_RUNTIME, "torch.frexp() only supports floating-point dtypes");
    return;
  }
  Val w = dt == DT_F64 ? x : b_cast(b, x, DT_F32);
  tpu_dtype wide = b_dtype(b, w), bits = wide == DT_F64 ? DT_I64 : DT_I32;
  int digits = wide == DT_F64 ? 52 : 23, bias = wide == DT_F64 ? 1022 : 126;
  Val a = b_abs(b, w), tiny = b_lt(b, a, m_k(b, w, ldexp(1, 1 - bias)));
  Val i = b_bitcast(b, b_select(b, tiny, b_mul(b, w, m_k(b, w, ldexp(1, digits + 1))), w), bits);
  Val field = b_const_i(b, bits, (int64_t)(2 * bias + 3) << digits);
  Val e = b_sub(b, b_shrl(b, b_and(b, i, field), b_const_i(b, bits, digits)), b_const_i(b, bits, bias));
  e = b_sub(b, e, b_select(b, tiny, b_const_i(b, bits, digits + 1), b_const_i(b, bits, 0)));
  Val m =
      b_bitcast(b, b_or(b, b_and(b, i, b_not(b, field)), b_const_i(b, bits, (int64_t)bias << digits)), wide);
  Val same = b_or(b, b_not(b, b_is_finite(b, w)), b_eq(b, w, m_k(b, w, 0)));
  ret(l, b_cast(b, b_select(b, same, w, m), dt));
  ret(l, b_cast(b, b_select(b, same, m_k(b, e, 0), e), DT_I32));
}

static void logit(L *l) { /* each step is rounded, as on the CPU: near 1/2 the difference shows in 16 bits */
  B *b = l_b(l);
  Val x = l_to_float(l, 0);
  m_dtype(l, b_dtype(b, x), M_NO_COMPLEX);
  double eps = l_double_or(l, 1, -1);
  if (eps >= 0) x = b_clamp(b, m_k(b, x, eps), x, m_k(b, x, 1 - eps));
  ret(l, m_unary(b, OP_LOG, m_binary(b, OP_DIV, x, m_binary(b, OP_SUB, m_k(b, x, 1), x))));
}

static void angle(L *l) {
  B *b = l_b(l);
  ret(l, m_unary(b, M_ANGLE, l_to_float(l, 0)));
}

#define P ROW_ELEMENTWISE
#define F (ROW_ELEMENTWISE | M_FLOAT)
#define R (ROW_ELEMENTWISE | M_FLOAT | M_NO_COMPLEX)
#define N (ROW_ELEMENTWISE | M_NO_COMPLEX)
const tpu_row rows_unary[] = {
    {"abs", abs_, OP_ABS, P | M_NO_BOOL | ROW_SAME_DTYPE},
    {"neg", unary, OP_NEG, P | ROW_SAME_DTYPE},
    {"sign", sign, M_SIGN, P | ROW_SAME_DTYPE},
    {"sgn", unary, M_SGN, P | ROW_SAME_DTYPE},
    {"floor", unary, OP_FLOOR, N | M_NO_BOOL | ROW_SAME_DTYPE},
    {"ceil", unary, OP_CEIL, N | M_NO_BOOL | ROW_SAME_DTYPE},
    {"round", unary, OP_ROUND, N | M_NO_BOOL | ROW_SAME_DTYPE},
    {"round.decimals", round_decimals, 0, P | ROW_SAME_DTYPE},
    {"trunc", unary, M_TRUNC, N | M_NO_BOOL | ROW_SAME_DTYPE},
    {"frac", unary, M_FRAC, N | M_NO_INT | ROW_SAME_DTYPE},
    {"exp", unary, OP_EXP, F},
    {"exp2", unary, M_EXP2, F},
    {"expm1", unary, OP_EXPM1, F},
    {"log", unary, OP_LOG, F},
    {"log2", unary, M_LOG2, F},
    {"log10", unary, M_LOG10, F},
    {"log1p", unary, OP_LOG1P, F},
    {"sqrt", unary, OP_SQRT, F},
    {"rsqrt", unary, OP_RSQRT, F},
    {"reciprocal", unary, M_RECIPROCAL, F},
    {"sin", unary, OP_SIN, F},
    {"cos", unary, OP_COS, F},
    {"tan", unary, OP_TAN, F},
    {"asin", unary, OP_ASIN, F},
    {"acos", unary, OP_ACOS, F},
    {"atan", unary, OP_ATAN, F},
    {"sinh", unary, M_SINH, F},
    {"cosh", unary, M_COSH, F},
    {"tanh", unary, OP_TANH, F},
    {"asinh", unary, OP_ASINH, F},
    {"acosh", unary, OP_ACOSH, F},
    {"atanh", unary, OP_ATANH, F},
    {"sigmoid", unary, OP_LOGISTIC, F},
    {"sinc", unary, M_SINC, F},
    {"deg2rad", degrees, M_DEG2RAD, R},
    {"rad2deg", degrees, M_RAD2DEG, R},
    {"erf", unary, M_ERF, R},
    {"erfc", unary, M_ERFC, R},
    {"erfinv", unary, M_ERFINV, R},
    {"lgamma", unary, M_LGAMMA, R},
    {"digamma", unary, M_DIGAMMA, R},
    {"polygamma", polygamma, 0, P},
    {"mvlgamma", mvlgamma, 0, ROW_LIKE_SELF},
    {"i0", unary, M_I0, R},
    {"special_i0e", unary, M_I0E, R},
    {"special_i1", unary, M_I1, R},
    {"special_i1e", unary, M_I1E, R},
    {"special_entr", unary, M_ENTR, R},
    {"special_ndtri", unary, M_NDTRI, R},
    {"special_log_ndtr", unary, M_LOG_NDTR, R},
    {"special_erfcx", unary, M_ERFCX, R},
    {"special_modified_bessel_i0", unary, M_I0, R},
    {"special_modified_bessel_i1", unary, M_I1, R},
    {"special_modified_bessel_k0", unary, M_K0, R},
    {"special_modified_bessel_k1", unary, M_K1, R},
    {"special_scaled_modified_bessel_k0", unary, M_K0E, R},
    {"special_scaled_modified_bessel_k1", unary, M_K1E, R},
    {"special_bessel_j0", unary, M_BESSEL_J0, R},
    {"special_bessel_j1", unary, M_BESSEL_J1, R},
    {"special_bessel_y0", unary, M_BESSEL_Y0, R},
    {"special_bessel_y1", unary, M_BESSEL_Y1, R},
    {"special_spherical_bessel_j0", unary, M_SPHERICAL_J0, R},
    {"relu", relu, M_RELU, N},
    {"signbit", unary, M_SIGNBIT, N | ROW_SAME_DTYPE},
    {"isnan", unary, M_ISNAN, P},
    {"isinf", unary, M_ISINF, P},
    {"isposinf", unary, M_ISPOSINF, N | ROW_SAME_DTYPE},
    {"isneginf", unary, M_ISNEGINF, N | ROW_SAME_DTYPE},
    {"logical_not", unary, M_LOGICAL_NOT, P},
    {"bitwise_not", bitwise_not, 0, P},
    {"angle", angle, 0, P},
    {"_conj_physical", unary, OP_CONJ, P | ROW_SAME_DTYPE},
    {"conj_physical_", unary, OP_CONJ, P},
    {"conj_physical.out", unary, OP_CONJ, P}, /* the functional form is composite */
    {"nan_to_num", nan_to_num, 0, P | ROW_SAME_DTYPE},
    {"frexp.Tensor", frexp_, 0, P | ROW_SAME_DTYPE},
    {"logit", logit, 0, P},
    {0},
};
