/* Elementwise compositions: see math.h. Formulas are those of PyTorch's CPU kernels where their last bits or
 * special values show. */
#include <math.h>
#include <string.h>

#include "lower/math.h"

Val m_wide(B *b, Val x) { return b_cast(b, x, dt_acc(b_dtype(b, x))); }

Val m_zero_mask(B *b, Val pred, Val x) { return b_select(b, pred, x, m_k(b, x, 0)); }

void m_check_cast(L *l, tpu_dtype dt) {
  tpu_dtype to = l_written_dtype(l);
  if (to != DT_NONE && !dt_can_cast(dt, to))
    l_fail(l, TPU_RUNTIME, "result type %s can't be cast to the desired output type %s",
           tpu_dtype_torch_name(dt), tpu_dtype_torch_name(to));
}

tpu_dtype m_dtype(L *l, tpu_dtype dt, uint32_t flags) {
  bool bad = ((flags & M_NO_BOOL) && dt == DT_BOOL) || ((flags & M_NO_COMPLEX) && dt_is_complex(dt)) ||
             ((flags & M_NO_INT) && dt_is_integral(dt)) || ((flags & M_INT_ONLY) && !dt_is_integral(dt));
  if (bad && dt != DT_NONE && !(flags & M_COMPARES)) m_check_cast(l, dt);
  if (bad || dt == DT_NONE) {
    const char *name = strncmp(l_name(l), "special_", 8) ? l_name(l) : l_name(l) + 8;
    int n = (int)strcspn(name, ".");
    if (n > 1 && name[n - 1] == '_' && name[n - 2] != '_') n--;
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"%.*s_cpu\" not implemented for '%s'", n, name,
           tpu_dtype_torch_name(dt));
    return dt == DT_NONE ? DT_F32 : dt;
  }
  return flags & M_FLOAT ? l_float_type(dt) : dt;
}

tpu_dtype m_arg_dtype(L *l, int i) {
  return l_is_tensor(l, i) && !l_is_wrapped(l, i) ? b_dtype(l_b(l), l_tensor(l, i)) : l_scalar_dtype(l, i);
}

void m_check_divisor(B *b, Val y) {
  double v;
  if (b_const_value(b, y, &v) && v != 0) return;
  if (dt_is_integral(b_dtype(b, y))) b_check(b, b_ne(b, y, m_k(b, y, 0)), TPU_RUNTIME, "ZeroDivisionError");
}

/* --- unary --- */

static Val trunc_(B *b, Val x) {
  return dt_is_integral(b_dtype(b, x)) ? x
                                       : b_select(b, b_lt(b, x, m_k(b, x, 0)), b_ceil(b, x), b_floor(b, x));
}

static Val sign_bit(B *b, Val x) {
  tpu_dtype dt = b_dtype(b, x);
  static const tpu_dtype bits[] = {[1] = DT_I8, [2] = DT_I16, [4] = DT_I32, [8] = DT_I64};
  if (dt_is_float(dt)) x = b_bitcast(b, x, bits[dt_bytes(dt)]);
  return b_lt(b, x, m_k(b, x, 0));
}

/* (0 < x) - (x < 0): NaN gives 0. */
static Val sign_(B *b, Val x) {
  tpu_dtype dt = b_dtype(b, x);
  if (dt == DT_BOOL) return x;
  Val zero = m_k(b, x, 0), pos = b_cast(b, b_lt(b, zero, x), dt);
  return dt_is_unsigned(dt) ? pos : b_sub(b, pos, b_cast(b, b_lt(b, x, zero), dt));
}

static Val sgn_(B *b, Val x) {
  if (!dt_is_complex(b_dtype(b, x))) return sign_(b, x);
  Val a = b_abs(b, x);
  return b_select(b, b_eq(b, a, m_k(b, a, 0)), m_k(b, x, 0), b_div(b, x, b_cast(b, a, b_dtype(b, x))));
}

static Val sinc(B *b, Val x) {
  Val px = b_mul(b, x, m_k(b, x, M_PI));
  return b_select(b, b_eq(b, x, m_k(b, x, 0)), m_k(b, x, 1), b_div(b, b_sin(b, px), px));
}

static Val angle(B *b, Val x) {
  if (dt_is_complex(b_dtype(b, x))) return b_atan2(b, b_imag(b, x), b_real(b, x));
  return b_select(b, b_isnan(b, x), x, b_select(b, b_lt(b, x, m_k(b, x, 0)), m_k(b, x, M_PI), m_k(b, x, 0)));
}

static Val exp2_(B *b, Val x) {
  if (dt_is_complex(b_dtype(b, x))) return b_exp(b, b_mul(b, x, m_k(b, x, M_LN2)));
  return b_pow(b, m_k(b, x, 2), x);
}

static Val relu6_of_3(B *b, Val x) { /* min(max(x + 3, 0), 6) */
  return b_clamp(b, m_k(b, x, 0), b_add(b, x, m_k(b, x, 3)), m_k(b, x, 6));
}

static Val infinite(B *b, Val x, double inf) {
  if (!dt_is_float(b_dtype(b, x))) return b_broadcast_to(b, b_const_i(b, DT_BOOL, 0), b_shape(b, x));
  return b_eq(b, x, m_k(b, x, inf));
}

/* sinh, cosh: far out (e^(|x| / 2))^2 / 2, which loses no digits and overflows no earlier than the result. */
static Val hyperbolic(B *b, int op, Val x) {
  Val near = b_unary(b, op, x);
  if (dt_is_complex(b_dtype(b, x))) return near;
  Val a = b_abs(b, x), t = b_exp(b, b_mul(b, a, m_k(b, a, 0.5))),
      far = b_mul(b, t, b_mul(b, t, m_k(b, t, 0.5)));
  if (op == OP_SINH) far = b_select(b, b_lt(b, x, m_k(b, x, 0)), b_neg(b, far), far);
  return b_select(b, b_gt(b, a, m_k(b, a, 20)), far, near);
}

static Val compose(B *b, int code, Val x) {
  switch (code) {
  case M_SINH: return hyperbolic(b, OP_SINH, x);
  case M_COSH: return hyperbolic(b, OP_COSH, x);
  case M_TRUNC: return trunc_(b, x);
  case M_FRAC: return b_sub(b, x, trunc_(b, x));
  case M_SIGN: return sign_(b, x);
  case M_SGN: return sgn_(b, x);
  case M_RECIPROCAL: return b_div(b, m_k(b, x, 1), x);
  case M_EXP2: return exp2_(b, x);
  case M_LOG2: return b_div(b, b_log(b, x), m_k(b, x, M_LN2));
  case M_LOG10: return b_div(b, b_log(b, x), m_k(b, x, M_LN10));
  case M_SINC: return sinc(b, x);
  case M_DEG2RAD: return b_mul(b, x, m_k(b, x, M_PI / 180));
  case M_RAD2DEG: return b_mul(b, x, m_k(b, x, 180 / M_PI));
  case M_SIGNBIT: return sign_bit(b, x);
  case M_ISNAN: return b_isnan(b, x);
  case M_ISINF: return b_isinf(b, x);
  case M_ISPOSINF: return infinite(b, x, INFINITY);
  case M_ISNEGINF: return infinite(b, x, -INFINITY);
  case M_ANGLE: return angle(b, x);
  case M_LOGICAL_NOT: return b_eq(b, x, m_k(b, x, 0));
  case M_RELU: return b_maximum(b, x, m_k(b, x, 0));
  case M_HARDSWISH: return b_div(b, b_mul(b, x, relu6_of_3(b, x)), m_k(b, x, 6));
  case M_HARDSIGMOID: return b_div(b, relu6_of_3(b, x), m_k(b, x, 6));
  case M_SILU: return b_mul(b, x, b_logistic(b, x));
  case M_MISH: return b_mul(b, x, b_tanh(b, b_log1p(b, b_exp(b, x))));
  default: return m_special(b, code, x);
  }
}

/* Whether 16-bit floats need no f32 for it: one exact operation. */
static bool exact(int code) {
  switch (code) {
  case OP_ABS:
  case OP_NEG:
  case OP_FLOOR:
  case OP_CEIL:
  case OP_ROUND:
  case OP_IS_FINITE:
  case OP_REAL:
  case OP_CONJ:
  case M_TRUNC:
  case M_SIGN:
  case M_SGN:
  case M_SIGNBIT:
  case M_ISNAN:
  case M_ISINF:
  case M_ISPOSINF:
  case M_ISNEGINF:
  case M_LOGICAL_NOT:
  case M_RELU: return true;
  default: return false;
  }
}

Val m_unary(B *b, int code, Val x) {
  tpu_dtype dt = b_dtype(b, x);
  if (dt_is_low(dt) && !exact(code)) return b_cast(b, m_unary(b, code, b_cast(b, x, DT_F32)), dt);
  return code < OP_COUNT ? b_unary(b, code, x) : compose(b, code, x);
}

/* --- binary --- */

Val m_trunc_div(B *b, Val x,
                Val y) { /* the quotient of 16-bit floats is rounded before it is cut, as on the CPU */
  Val q = m_binary(b, OP_DIV, x, y);
  return dt_is_integral(b_dtype(b, q)) ? q : trunc_(b, q);
}

static Val copysign_(B *b, Val x, Val y) {
  Val a = b_abs(b, x);
  return b_select(b, sign_bit(b, y), b_neg(b, a), a);
}

/* Scaled by the larger one, so that nothing overflows. */
static Val hypot_(B *b, Val x, Val y) {
  Val ax = b_abs(b, x), ay = b_abs(b, y), hi = b_maximum(b, ax, ay), lo = b_minimum(b, ax, ay);
  Val r = b_div(b, lo, hi), h = b_mul(b, hi, b_sqrt(b, b_add(b, m_k(b, x, 1), b_mul(b, r, r))));
  h = b_select(b, b_eq(b, hi, m_k(b, hi, 0)), hi, h);
  return b_select(b, b_or(b, b_isinf(b, x), b_isinf(b, y)), m_k(b, x, INFINITY), h);
}

static Val not_nan(B *b, int op, Val x, Val y) { /* fmax, fmin */
  Val v = b_binary(b, op, x, y);
  return b_select(b, b_isnan(b, x), y, b_select(b, b_isnan(b, y), x, v));
}

/* log(e^x + e^y): max + log1p(e^-|x - y|); equal infinities are themselves. */
static Val logaddexp(B *b, Val x, Val y, double base) {
  if (dt_is_complex(b_dtype(b, x))) {
    Val less = b_lt(b, b_real(b, x), b_real(b, y)), hi = b_select(b, less, y, x),
        lo = b_select(b, less, x, y);
    return b_add(b, hi, b_log1p(b, b_exp(b, b_sub(b, lo, hi))));
  }
  Val m = b_maximum(b, x, y), d = b_neg(b, b_abs(b, b_sub(b, x, y)));
  Val t = base == 2 ? b_div(b, b_log1p(b, exp2_(b, d)), m_k(b, x, M_LN2)) : b_log1p(b, b_exp(b, d));
  return b_select(b, b_and(b, b_isinf(b, x), b_eq(b, x, y)), x, b_add(b, m, t));
}

static Val xlog(B *b, int op, Val x, Val y) { /* 0 where x is 0 and y is not NaN */
  Val zero = m_k(b, x, 0);
  return b_select(b, b_isnan(b, y), y, b_select(b, b_eq(b, x, zero), zero, b_mul(b, x, b_unary(b, op, y))));
}

typedef Val gcd_pair[2];

static Val gcd_more(B *b, void *ctx, const Val *v) {
  (void)ctx;
  return b_reduce(b, RED_OR, b_ne(b, v[1], m_k(b, v[1], 0)), axes_all(b_rank(b, v[1])), false);
}

static void gcd_step(B *b, void *ctx, const Val *v, Val *out) {
  (void)ctx;
  Val zero = m_k(b, v[1], 0), go = b_ne(b, v[1], zero),
      r = b_rem(b, v[0], b_select(b, go, v[1], m_k(b, v[1], 1)));
  out[0] = b_select(b, go, v[1], v[0]);
  out[1] = b_select(b, go, r, zero);
}

static Val gcd_(B *b, Val x, Val y) {
  shape s = b_broadcast_shape(b, x, y);
  gcd_pair v = {b_broadcast_to(b, b_abs(b, x), &s), b_broadcast_to(b, b_abs(b, y), &s)};
  b_while(b, 2, v, gcd_more, gcd_step, NULL, v);
  return v[0];
}

static Val lcm_(B *b, Val x, Val y) { /* narrow integers in 32 bits, as C promotes them */
  tpu_dtype dt = b_dtype(b, x);
  if (dt_bytes(dt) < 4) return b_cast(b, lcm_(b, b_cast(b, x, DT_I32), b_cast(b, y, DT_I32)), dt);
  Val g = gcd_(b, x, y), zero = m_k(b, g, 0), none = b_eq(b, g, zero);
  Val q = b_div(b, x, b_select(b, none, m_k(b, g, 1), g));
  return b_select(b, none, zero, b_abs(b, b_mul(b, q, y)));
}

/* A negative or too large amount shifts everything out. */
static Val shift(B *b, bool left, Val x, Val n) {
  tpu_dtype dt = b_dtype(b, x);
  Val zero = m_k(b, x, 0), top = b_const_i(b, dt, dt_bytes(dt) * 8 - 1);
  Val out = dt_is_unsigned(dt) ? b_gt(b, n, top) : b_or(b, b_lt(b, n, zero), b_gt(b, n, top));
  Val fit = b_select(b, out, top, n);
  if (left) return b_select(b, out, zero, b_shl(b, x, fit));
  return dt_is_unsigned(dt) ? b_select(b, out, zero, b_shrl(b, x, fit)) : b_shra(b, x, fit);
}

static Val compose2(B *b, int code, Val x, Val y) {
  switch (code) {
  case M_DIV_TRUNC: return m_trunc_div(b, x, y);
  case M_DIV_FLOOR: return b_floor_div(b, x, y);
  case M_REMAINDER: return b_floor_mod(b, x, y);
  case M_HYPOT: return hypot_(b, x, y);
  case M_COPYSIGN: return copysign_(b, x, y);
  case M_FMAX: return not_nan(b, OP_MAXIMUM, x, y);
  case M_FMIN: return not_nan(b, OP_MINIMUM, x, y);
  case M_LOGADDEXP: return logaddexp(b, x, y, M_E);
  case M_LOGADDEXP2: return logaddexp(b, x, y, 2);
  case M_XLOGY: return xlog(b, OP_LOG, x, y);
  case M_XLOG1PY: return xlog(b, OP_LOG1P, x, y);
  case M_HEAVISIDE:
    return b_select(b, b_eq(b, x, m_k(b, x, 0)), y, b_cast(b, b_gt(b, x, m_k(b, x, 0)), b_dtype(b, x)));
  case M_GCD: return gcd_(b, x, y);
  case M_LCM: return lcm_(b, x, y);
  case M_LSHIFT: return shift(b, true, x, y);
  case M_RSHIFT: return shift(b, false, x, y);
  case M_NEXTAFTER: return b_next_after(b, x, y);
  case M_ZETA: return m_zeta(b, x, y);
  case M_IGAMMA:
  case M_IGAMMAC: return m_igamma(b, code == M_IGAMMAC, x, y);
  case M_RSUB: return b_sub(b, y, x);
  default: return m_polynomial(b, code, x, y);
  }
}

/* Ops that must see the 16-bit value itself, or give exact results without f32. */
static bool keeps_low(int code) {
  return code == M_NEXTAFTER || code == M_COPYSIGN || code == OP_MAXIMUM || code == OP_MINIMUM ||
         code == M_DIV_TRUNC;
}

Val m_binary(B *b, int code, Val x, Val y) {
  tpu_dtype dt = b_dtype(b, x);
  if (dt_is_low(dt) && !keeps_low(code)) return b_cast(b, m_binary(b, code, m_wide(b, x), m_wide(b, y)), dt);
  return code < OP_COUNT ? b_binary(b, code, x, y) : compose2(b, code, x, y);
}

/* --- operands of rows --- */

Val m_operand(L *l, int i, tpu_dtype dt, uint32_t flags) {
  B *b = l_b(l);
  if ((flags & M_WIDE_SCALAR) && dt_is_low(dt)) {
    if (l_is_wrapped(l, i) || !l_is_tensor(l, i)) return l_scalar(l, i, DT_F32);
    if (l_is_host(l, i) && dt_is_float(b_dtype(b, l_tensor(l, i)))) return b_cast(b, l_tensor(l, i), DT_F32);
  }
  return l_tensor_as(l, i, dt);
}

void m_check_factor(L *l, int i, const char *name, tpu_dtype dt) {
  tpu_dtype a = l_scalar_dtype(l, i);
  if (a == DT_BOOL && dt != DT_BOOL)
    l_fail(l, TPU_RUNTIME, "Boolean %s only supported for Boolean results.", name);
  if (!dt_is_integral(a) && dt_is_integral(dt))
    l_fail(l, TPU_RUNTIME, "For integral input tensors, argument %s must not be a floating point number.",
           name);
  if (dt_is_complex(a) && !dt_is_complex(dt))
    l_fail(l, TPU_RUNTIME, "For non-complex input tensors, argument %s must not be a complex number.", name);
}

Val m_scaled(B *b, int op, Val x, Val y, Val alpha) {
  if (alpha == BAD) return m_binary(b, op, x, y);
  tpu_dtype dt = b_dtype(b, x);
  x = m_wide(b, x);
  Val v = op == M_RSUB ? b_sub(b, y, b_mul(b, x, alpha)) : b_binary(b, op, x, b_mul(b, m_wide(b, y), alpha));
  return b_cast(b, v, dt);
}

/* --- three operands --- */

Val m_lerp(B *b, Val x, Val y, Val w) {
  Val d = b_sub(b, y, x), one = m_k(b, w, 1);
  Val small = b_lt(b, b_abs(b, w), b_const(b, dt_real(b_dtype(b, w)), 0.5));
  return b_select(b, small, b_add(b, x, b_mul(b, w, d)), b_sub(b, y, b_mul(b, d, b_sub(b, one, w))));
}

Val m_addcmul(B *b, Val x, Val value, Val y, Val z) {
  Val p = value == BAD ? y : b_mul(b, value, y);
  return b_add(b, x, b_mul(b, p, z));
}

void m_check_addcdiv(L *l, tpu_dtype y, tpu_dtype z) {
  if (dt_is_integral(y) && dt_is_integral(z))
    l_fail(l, TPU_RUNTIME,
           "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will "
           "perform a true division of "
           "tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
           "torch.trunc(tensor1 / "
           "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
           "float inputs. The future "
           "addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all "
           "dtypes.");
}

Val m_addcdiv(B *b, Val x, Val value, Val y, Val z) {
  Val p = value == BAD ? y : b_mul(b, value, y);
  return b_add(b, x, b_div(b, p, z));
}

/* The exponents that PyTorch's kernel knows; *done says whether it was one. */
static Val pow_known(L *l, Val x, int scalar, bool *done) {
  B *b = l_b(l);
  bool whole = dt_is_integral(b_dtype(b, x));
  *done = true;
  if (l_scalar_is(l, scalar, 0)) return b_broadcast_to(b, m_k(b, x, 1), b_shape(b, x));
  if (l_scalar_is(l, scalar, 1)) return x;
  if (l_scalar_is(l, scalar, 2)) return b_mul(b, x, x);
  if (l_scalar_is(l, scalar, 3)) return b_mul(b, b_mul(b, x, x), x);
  if (!whole) {
    if (l_scalar_is(l, scalar, 0.5)) return b_sqrt(b, x);
    if (l_scalar_is(l, scalar, -0.5)) return b_div(b, m_k(b, x, 1), b_sqrt(b, x));
    if (l_scalar_is(l, scalar, -1)) return b_div(b, m_k(b, x, 1), x);
    if (l_scalar_is(l, scalar, -2)) return b_div(b, m_k(b, x, 1), b_mul(b, x, x));
  }
  *done = false;
  return BAD;
}

Val m_pow(L *l, Val x, Val e, tpu_dtype dt, int scalar) {
  B *b = l_b(l);
  x = m_wide(b, b_cast(b, x, dt));
  if (scalar >= 0) {
    bool done;
    Val v = pow_known(l, x, scalar, &done);
    if (done) return b_cast(b, v, dt);
    e = l_scalar(l, scalar, b_dtype(b, x));
    if (dt_is_integral(dt)) {
      Val whole = l_scalar(l, scalar, DT_I64);
      b_check(b, b_ge(b, whole, m_k(b, whole, 0)), TPU_RUNTIME,
              "Integers to negative integer powers are not allowed.");
    }
  }
  return b_cast(b, b_pow(b, x, m_wide(b, b_cast(b, e, dt))), dt);
}
