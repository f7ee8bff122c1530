/* Elementwise mathematics above the builder: what PyTorch calls one op and StableHLO a few.
 *
 * A code is a builder op (OP_* of ir/builder.h) or an M_* below; m_unary and m_binary take both, so that a
 * row, its foreach form and an activation share one definition. Operands arrive in the dtype in which the
 * result is wanted; 16-bit floats (and narrower) are computed in f32 and rounded once. Integers must have
 * been cast to a float dtype first where the function is a float one (ROW flag M_FLOAT). */
#ifndef TPU_LOWER_MATH_H
#define TPU_LOWER_MATH_H

#include "lower/lower.h"

enum {
  M_TRUNC = OP_COUNT,
  M_FRAC,
  M_SIGN,
  M_SGN,
  M_RECIPROCAL,
  M_SINH,
  M_COSH,
  M_EXP2,
  M_LOG2,
  M_LOG10,
  M_SINC,
  M_DEG2RAD,
  M_RAD2DEG,
  M_SIGNBIT,
  M_ISNAN,
  M_ISINF,
  M_ISPOSINF,
  M_ISNEGINF,
  M_ANGLE,
  M_LOGICAL_NOT,
  M_RELU,
  M_HARDSWISH,
  M_HARDSIGMOID,
  M_SILU,
  M_MISH,
  M_ERF,
  M_ERFC,
  M_ERFINV,
  M_LGAMMA,
  M_DIGAMMA, /* lower/special.c from here on */
  M_I0,
  M_I0E,
  M_I1,
  M_I1E,
  M_NDTRI,
  M_LOG_NDTR,
  M_ERFCX,
  M_ENTR,
  M_BESSEL_J0,
  M_BESSEL_J1,
  M_BESSEL_Y0,
  M_BESSEL_Y1,
  M_K0,
  M_K1,
  M_K0E,
  M_K1E,
  M_SPHERICAL_J0,
  M_UNARY_END,
  M_DIV_TRUNC,
  M_DIV_FLOOR,
  M_REMAINDER,
  M_HYPOT,
  M_COPYSIGN,
  M_FMAX,
  M_FMIN,
  M_LOGADDEXP,
  M_LOGADDEXP2,
  M_XLOGY,
  M_XLOG1PY,
  M_HEAVISIDE,
  M_GCD,
  M_LCM,
  M_LSHIFT,
  M_RSHIFT,
  M_NEXTAFTER,
  M_ZETA,
  M_RSUB,
  M_IGAMMA,
  M_IGAMMAC,
  M_CHEBYSHEV_T,
  M_CHEBYSHEV_U,
  M_CHEBYSHEV_V,
  M_CHEBYSHEV_W,
  M_HERMITE_H,
  M_HERMITE_HE,
  M_LAGUERRE_L,
  M_LEGENDRE_P,
  M_SHIFTED_T,
  M_SHIFTED_U,
  M_SHIFTED_V,
  M_SHIFTED_W
};

/* Row flags of the elementwise families: the dtypes that an op takes. */
enum {
  M_FLOAT = ROW_FAMILY, /* integers and bool count as the default float dtype */
  M_NO_BOOL = ROW_FAMILY << 1,
  M_NO_COMPLEX = ROW_FAMILY << 2,
  M_NO_INT = ROW_FAMILY << 3,   /* floats (and complex) only: no integers, no bool */
  M_INT_ONLY = ROW_FAMILY << 4, /* integers and bool only */
  M_NO_ZERO = ROW_FAMILY << 5,  /* an integer second operand must not be 0 */
  M_WIDE_SCALAR = ROW_FAMILY
      << 6, /* beside 16-bit floats a number keeps f32 precision (the CPU kernels' "opmath") */
  M_TO_BOOL = ROW_FAMILY << 7,  /* operands are read as bool */
  M_COMPARES = ROW_FAMILY << 8, /* the result is a bool, whatever is compared */
  M_FREE = ROW_FAMILY << 9      /* the family's own from here on */
};

Val m_unary(B *b, int code, Val x);
Val m_special(B *b, int code, Val x); /* the part of m_unary in special.c */
Val m_binary(B *b, int code, Val x, Val y);
/* gamma.c: Hurwitz zeta, psi and its derivatives, the regularised incomplete gamma functions. */
Val m_zeta(B *b, Val x, Val q);
Val m_polygamma(B *b, int64_t n, Val x);
Val m_igamma(B *b, bool upper, Val a, Val x);
Val m_polynomial(B *b, int code, Val x, Val n); /* the part of m_binary in polynomial.c */

/* The dtype in which an op with these flags computes on operands of common dtype dt; a sticky error in
 * PyTorch's words when it does not take them (`dt` is then returned). */
tpu_dtype m_dtype(L *l, tpu_dtype dt, uint32_t flags);
/* An error where the in-place or out= form cannot take a result of dtype dt: before the kernel is asked for.
 */
void m_check_cast(L *l, tpu_dtype dt);
/* The value of one of x's real type. */
static inline Val m_k(B *b, Val x, double v) { return b_like(b, x, v); }
/* x, or x in f32 when it is of a 16-bit or narrower float dtype. */
Val m_wide(B *b, Val x);
Val m_zero_mask(B *b, Val pred, Val x); /* x where pred, else 0 */

/* pieces that several files use */
/* Argument i, a tensor, number or Scalar, as an operand of an op of common dtype dt; f32 under M_WIDE_SCALAR.
 */
Val m_operand(L *l, int i, tpu_dtype dt, uint32_t flags);
/* x op alpha * y for OP_ADD, OP_SUB; y - alpha * x for M_RSUB. alpha BAD: 1. Result in x's dtype. */
Val m_scaled(B *b, int op, Val x, Val y, Val alpha);
/* Refuses a number i (alpha, beta) of a dtype that the result's cannot hold. */
void m_check_factor(L *l, int i, const char *name, tpu_dtype dt);
Val m_lerp(B *b, Val x, Val y, Val w);
Val m_addcmul(B *b, Val x, Val value, Val y, Val z); /* x + value * y * z; value BAD: 1 */
Val m_addcdiv(B *b, Val x, Val value, Val y, Val z);
void m_check_addcdiv(L *l, tpu_dtype y, tpu_dtype z); /* the error when both are integers */
Val m_pow(L *l, Val x, Val e, tpu_dtype dt,
          int scalar); /* x ** e in dt; e is argument `scalar` when that is a Scalar, else scalar is -1 */
Val m_trunc_div(B *b, Val x, Val y);
/* The dtype of the tensor, number or Scalar at argument i. */
tpu_dtype m_arg_dtype(L *l, int i);
/* The error when an integer divisor is 0; y of any dtype. */
void m_check_divisor(B *b, Val y);

#endif
