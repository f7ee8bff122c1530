/* Pointwise arithmetic of two and three operands, with PyTorch's promotion and its words for what is not
 * allowed. */
#include <string.h>

#include "lower/math.h"

/* datum: the code; operands are arguments 0 and 1, each a tensor, a number or a Scalar. */
static void binary(L *l) {
  B *b = l_b(l);
  uint32_t flags = l_flags(l);
  tpu_dtype dt = m_dtype(l, l_result_type2(l, 0, 1), flags);
  Val x = m_operand(l, 0, dt, flags), y = m_operand(l, 1, dt, flags);
  if (flags & M_NO_ZERO) m_check_divisor(b, y);
  ret(l, b_cast(b, m_binary(b, l_datum(l), x, y), dt));
}

/* --- add, sub, rsub --- */

static void check_sub(L *l) {
  bool x = m_arg_dtype(l, 0) == DT_BOOL, y = m_arg_dtype(l, 1) == DT_BOOL;
  if (x && y)
    l_fail(l, TPU_RUNTIME,
           "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
           "`logical_xor()` "
           "operator instead.");
  if (x || y)
    l_fail(l, TPU_RUNTIME,
           "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert "
           "a mask, "
           "use the `~` or `logical_not()` operator instead.");
}

/* datum: OP_ADD, OP_SUB, M_RSUB; arguments self, other, alpha. */
static void add(L *l) {
  B *b = l_b(l);
  if (l_datum(l) != OP_ADD) check_sub(l);
  tpu_dtype dt = m_dtype(l, l_result_type2(l, 0, 1), 0);
  Val x = m_operand(l, 0, dt, M_WIDE_SCALAR), y = m_operand(l, 1, dt, M_WIDE_SCALAR);
  m_check_factor(l, 2, "alpha", dt);
  Val alpha = l_scalar_is(l, 2, 1) ? BAD : l_scalar(l, 2, dt_acc(dt));
  ret(l, b_cast(b, m_scaled(b, l_datum(l), x, y, alpha), dt));
}

static void add_relu(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_result_type2(l, 0, 1);
  Val alpha = l_scalar_is(l, 2, 1) ? BAD : l_scalar(l, 2, dt_acc(dt));
  ret(l, m_unary(b, M_RELU, m_scaled(b, OP_ADD, l_tensor_as(l, 0, dt), l_tensor_as(l, 1, dt), alpha)));
}

/* --- division and powers --- */

static int rounding(L *l, int i) {
  const char *mode = l_has(l, i) ? l_string(l, i) : "";
  if (!*mode) return OP_DIV;
  if (!strcmp(mode, "trunc")) return M_DIV_TRUNC;
  if (!strcmp(mode, "floor")) return M_DIV_FLOOR;
  l_fail(l, TPU_RUNTIME, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'",
         mode);
  return OP_DIV;
}

static void div_mode(L *l) {
  B *b = l_b(l);
  int op = rounding(l, 2);
  tpu_dtype dt = m_dtype(l, l_result_type2(l, 0, 1), op == OP_DIV ? M_FLOAT : M_NO_COMPLEX);
  if (op != OP_DIV && dt == DT_BOOL) m_dtype(l, dt, M_NO_BOOL);
  Val x = m_operand(l, 0, dt, M_WIDE_SCALAR), y = m_operand(l, 1, dt, M_WIDE_SCALAR);
  if (op != OP_DIV) m_check_divisor(b, y);
  ret(l, b_cast(b, m_binary(b, op, x, y), dt));
}

static void pow_(L *l) { /* Tensor_Tensor, Tensor_Scalar, Scalar */
  B *b = l_b(l);
  bool number = !l_is_tensor(l, 1) || l_is_wrapped(l, 1),
       known = number && (l_scalar_is(l, 1, 0) || l_scalar_is(l, 1, 1));
  tpu_dtype dt = m_dtype(l, l_result_type2(l, 0, 1), known ? 0 : M_NO_BOOL);
  if (number) {
    ret(l, m_pow(l, l_tensor_as(l, 0, dt), BAD, dt, 1));
    return;
  }
  Val e = l_tensor_as(l, 1, dt);
  if (!l_is_tensor(l, 0) && l_scalar_is(l, 0, 1))
    ret(l, b_broadcast_to(b, m_k(b, e, 1), b_shape(b, e)));
  else
    ret(l, m_pow(l, l_tensor_as(l, 0, dt), e, dt, -1));
}

static void ldexp_(L *l) { /* self * 2^other; the power is a float of its own */
  B *b = l_b(l);
  if (m_arg_dtype(l, 1) == DT_BOOL && !dt_is_integral(m_arg_dtype(l, 0)))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"ldexp_cpu_exp\" not implemented for 'Bool'");
  Val e = l_to_float(l, 1);
  Val power = m_unary(b, M_EXP2, e);
  tpu_dtype dt = dt_promote(b_dtype(b, l_tensor(l, 0)), b_dtype(b, power));
  ret(l, m_binary(b, OP_MUL, l_tensor_as(l, 0, dt), b_cast(b, power, dt)));
}

static void heaviside(L *l) {
  tpu_dtype x = m_arg_dtype(l, 0), y = m_arg_dtype(l, 1), to = l_written_dtype(l);
  if (dt_is_complex(x) || dt_is_complex(y))
    l_fail(l, TPU_RUNTIME, "heaviside is not yet implemented for complex tensors.");
  if (x != y || (to != DT_NONE && to != x))
    l_fail(l, TPU_RUNTIME, "heaviside is not yet implemented for tensors with different dtypes.");
  binary(l);
}

/* --- three operands --- */

/* lerp(self, end, weight): all of one dtype, the weight may be a number. */
static void lerp(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x);
  if (b_dtype(b, y) != dt)
    l_fail(l, TPU_RUNTIME, "expected dtype %s for `end` but got dtype %s", tpu_dtype_torch_name(dt),
           tpu_dtype_torch_name(b_dtype(b, y)));
  m_dtype(l, dt, M_NO_INT);
  Val w = l_is_tensor(l, 2) ? m_wide(b, l_tensor_as(l, 2, dt)) : l_scalar(l, 2, dt_acc(dt));
  ret(l, b_cast(b, m_lerp(b, m_wide(b, x), m_wide(b, y), w), dt));
}

/* addcmul, addcdiv (self, tensor1, tensor2, value). datum: OP_MUL, OP_DIV. */
static void addc(L *l) {
  B *b = l_b(l);
  bool div = l_datum(l) == OP_DIV;
  const int idx[] = {0, 1, 2};
  if (div) m_check_addcdiv(l, b_dtype(b, l_tensor(l, 1)), b_dtype(b, l_tensor(l, 2)));
  tpu_dtype dt = m_dtype(l, l_result_type(l, 3, idx), M_NO_BOOL), wide = dt_acc(dt);
  Val x = b_cast(b, l_tensor_as(l, 0, dt), wide), y = b_cast(b, l_tensor_as(l, 1, dt), wide),
      z = b_cast(b, l_tensor_as(l, 2, dt), wide);
  Val value = l_scalar_is(l, 3, 1) ? BAD : l_scalar(l, 3, wide);
  ret(l, b_cast(b, div ? m_addcdiv(b, x, value, y, z) : m_addcmul(b, x, value, y, z), dt));
}

/* --- complex from parts --- */

static void complex_(L *l) { /* datum: 0 from real and imaginary part, 1 from radius and angle */
  B *b = l_b(l);
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  tpu_dtype dx = b_dtype(b, x), dy = b_dtype(b, y);
  if (dx == DT_F16) l_decline(l, "complex32");
  if (dx != DT_F32 && dx != DT_F64)
    l_fail(l, TPU_RUNTIME, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
           tpu_dtype_torch_name(dx), tpu_dtype_torch_name(dy));
  if (dx != dy)
    l_fail(l, TPU_RUNTIME, "Expected object of scalar type %s but got scalar type %s for second argument",
           tpu_dtype_torch_name(dx), tpu_dtype_torch_name(dy));
  ret(l, l_datum(l) ? b_complex(b, b_mul(b, x, b_cos(b, y)), b_mul(b, x, b_sin(b, y))) : b_complex(b, x, y));
}

#define P      ROW_ELEMENTWISE
#define F      (ROW_ELEMENTWISE | M_FLOAT)
#define R      (ROW_ELEMENTWISE | M_FLOAT | M_NO_COMPLEX)
#define N      (ROW_ELEMENTWISE | M_NO_COMPLEX)
#define Q      (ROW_ELEMENTWISE | M_NO_COMPLEX | M_NO_ZERO)
#define I      (ROW_ELEMENTWISE | M_INT_ONLY)
#define FLOATS (ROW_ELEMENTWISE | M_NO_INT | M_NO_COMPLEX)
#define S      (ROW_ELEMENTWISE | ROW_SPECIAL)
#define POLYNOMIAL(name, code)                                                          \
  {"special_" name, binary, code, R}, {"special_" name ".x_scalar", binary, code, R}, { \
    "special_" name ".n_scalar", binary, code, R                                        \
  }
const tpu_row rows_binary[] = {
    {"add.Tensor", add, OP_ADD, P | ROW_FITS},
    {"add.Scalar", add, OP_ADD, P | ROW_FITS},
    {"sub.Tensor", add, OP_SUB, P | ROW_FITS},
    {"sub.Scalar", add, OP_SUB, P | ROW_FITS},
    {"rsub.Tensor", add, M_RSUB, P | ROW_FITS},
    {"rsub.Scalar", add, M_RSUB, P | ROW_FITS},
    {"_add_relu.Tensor", add_relu, 0, P | ROW_FITS},
    {"_add_relu.Scalar", add_relu, 0, P | ROW_FITS},
    {"mul.Tensor", binary, OP_MUL, P | M_WIDE_SCALAR},
    {"mul.Scalar", binary, OP_MUL, P | M_WIDE_SCALAR},
    {"div.Tensor", binary, OP_DIV, F | M_WIDE_SCALAR},
    {"div.Scalar", binary, OP_DIV, F | M_WIDE_SCALAR},
    {"div.Tensor_mode", div_mode, 0, S},
    {"div.Scalar_mode", div_mode, 0, S},
    {"floor_divide", binary, M_DIV_FLOOR, Q | ROW_SPECIAL | M_WIDE_SCALAR | M_NO_BOOL},
    {"floor_divide.Scalar", binary, M_DIV_FLOOR, Q | ROW_SPECIAL | M_WIDE_SCALAR | M_NO_BOOL},
    {"remainder.Tensor", binary, M_REMAINDER, Q | ROW_SPECIAL | M_NO_BOOL},
    {"remainder.Scalar", binary, M_REMAINDER, Q | ROW_SPECIAL | M_NO_BOOL},
    {"remainder.Scalar_Tensor", binary, M_REMAINDER, Q | M_NO_BOOL},
    {"fmod.Tensor", binary, OP_REM, Q | ROW_SPECIAL | M_NO_BOOL},
    {"fmod.Scalar", binary, OP_REM, Q | ROW_SPECIAL | M_NO_BOOL},
    {"pow.Tensor_Tensor", pow_, 0, S},
    {"pow.Tensor_Scalar", pow_, 0, S | ROW_FITS},
    {"pow.Scalar", pow_, 0, S},
    {"ldexp.Tensor", ldexp_, 0, P},
    {"atan2", binary, OP_ATAN2, R},
    {"hypot", binary, M_HYPOT, FLOATS},
    {"copysign.Tensor", binary, M_COPYSIGN, R},
    {"copysign.Scalar", binary, M_COPYSIGN, R},
    {"maximum", binary, OP_MAXIMUM, N},
    {"minimum", binary, OP_MINIMUM, N},
    {"fmax", binary, M_FMAX, N},
    {"fmin", binary, M_FMIN, N},
    {"logaddexp", binary, M_LOGADDEXP, P | M_NO_INT},
    {"logaddexp2", binary, M_LOGADDEXP2, P | M_NO_INT},
    {"xlogy.Tensor", binary, M_XLOGY, R},
    {"xlogy.Scalar_Self", binary, M_XLOGY, R},
    {"xlogy.Scalar_Other", binary, M_XLOGY, R},
    {"special_xlog1py", binary, M_XLOG1PY, R},
    {"special_xlog1py.self_scalar", binary, M_XLOG1PY, R},
    {"special_xlog1py.other_scalar", binary, M_XLOG1PY, R},
    {"special_zeta", binary, M_ZETA, R},
    {"special_zeta.self_scalar", binary, M_ZETA, R},
    {"special_zeta.other_scalar", binary, M_ZETA, R},
    {"igamma", binary, M_IGAMMA, FLOATS},
    {"igammac", binary, M_IGAMMAC, FLOATS},
    {"heaviside", heaviside, M_HEAVISIDE, N | ROW_SAME_DTYPE},
    {"gcd", binary, M_GCD, I | M_NO_BOOL},
    {"lcm", binary, M_LCM, I | M_NO_BOOL},
    {"nextafter", binary, M_NEXTAFTER, FLOATS},
    {"bitwise_and.Tensor", binary, OP_AND, I},
    {"bitwise_and.Scalar", binary, OP_AND, I},
    {"bitwise_and.Scalar_Tensor", binary, OP_AND, I},
    {"bitwise_or.Tensor", binary, OP_OR, I},
    {"bitwise_or.Scalar", binary, OP_OR, I},
    {"bitwise_or.Scalar_Tensor", binary, OP_OR, I},
    {"bitwise_xor.Tensor", binary, OP_XOR, I},
    {"bitwise_xor.Scalar", binary, OP_XOR, I},
    {"bitwise_xor.Scalar_Tensor", binary, OP_XOR, I},
    {"bitwise_left_shift.Tensor", binary, M_LSHIFT, I | M_NO_BOOL},
    {"bitwise_left_shift.Tensor_Scalar", binary, M_LSHIFT, I | M_NO_BOOL},
    {"bitwise_left_shift.Scalar_Tensor", binary, M_LSHIFT, I | M_NO_BOOL},
    {"bitwise_right_shift.Tensor", binary, M_RSHIFT, I | M_NO_BOOL},
    {"bitwise_right_shift.Tensor_Scalar", binary, M_RSHIFT, I | M_NO_BOOL},
    {"bitwise_right_shift.Scalar_Tensor", binary, M_RSHIFT, I | M_NO_BOOL},
    {"__lshift__.Tensor", binary, M_LSHIFT, I | M_NO_BOOL},
    {"__lshift__.Scalar", binary, M_LSHIFT, I | M_NO_BOOL},
    {"__rshift__.Tensor", binary, M_RSHIFT, I | M_NO_BOOL},
    {"__rshift__.Scalar", binary, M_RSHIFT, I | M_NO_BOOL},
    {"__ilshift__.Tensor", binary, M_LSHIFT,
     I | M_NO_BOOL}, /* names that do not follow from the form above */
    {"__ilshift__.Scalar", binary, M_LSHIFT, I | M_NO_BOOL},
    {"__irshift__.Tensor", binary, M_RSHIFT, I | M_NO_BOOL},
    {"__irshift__.Scalar", binary, M_RSHIFT, I | M_NO_BOOL},
    {"lerp.Scalar", lerp, 0, P | ROW_FITS},
    {"lerp.Tensor", lerp, 0, P | ROW_SAME_DTYPE},
    {"addcmul", addc, OP_MUL, P | ROW_FITS},
    {"addcdiv", addc, OP_DIV, P | ROW_FITS},
    {"complex", complex_, 0, P | ROW_SAME_DTYPE},
    {"polar", complex_, 1, P | ROW_SAME_DTYPE},
    POLYNOMIAL("chebyshev_polynomial_t", M_CHEBYSHEV_T),
    POLYNOMIAL("chebyshev_polynomial_u", M_CHEBYSHEV_U),
    POLYNOMIAL("chebyshev_polynomial_v", M_CHEBYSHEV_V),
    POLYNOMIAL("chebyshev_polynomial_w", M_CHEBYSHEV_W),
    POLYNOMIAL("shifted_chebyshev_polynomial_t", M_SHIFTED_T),
    POLYNOMIAL("shifted_chebyshev_polynomial_u", M_SHIFTED_U),
    POLYNOMIAL("shifted_chebyshev_polynomial_v", M_SHIFTED_V),
    POLYNOMIAL("shifted_chebyshev_polynomial_w", M_SHIFTED_W),
    POLYNOMIAL("hermite_polynomial_h", M_HERMITE_H),
    POLYNOMIAL("hermite_polynomial_he", M_HERMITE_HE),
    POLYNOMIAL("laguerre_polynomial_l", M_LAGUERRE_L),
    POLYNOMIAL("legendre_polynomial_p", M_LEGENDRE_P),
    {0},
};
