/* _foreach_*: the pointwise ops over lists, item by item in one program; in-place forms are derived as
 * everywhere. */
#include <math.h>

#include "lower/math.h"
#include "lower/promote.h"

/* What an operand is; a row's datum is a code and, for each operand after the first, where it comes from. */
typedef enum source { LIST, SCALAR, SCALARS, TENSOR } source;
#define FROM(code, source) ((code) | (source) << 16)
static int code_of(const L *l) { return l_datum(l) & 0xffff; }
static source source_of(const L *l) { return (source)(l_datum(l) >> 16); }

/* The number of items; the lists must agree. */
static int length(L *l, int nlists) {
  int n = l_len(l, 0);
  for (int i = 1; i < nlists; i++)
    if (l_len(l, i) != n)
      l_fail(l, TPU_RUNTIME, "Tensor lists must have the same number of tensors, got %d and %d", n,
             l_len(l, i));
  return b_ok(l_b(l)) ? n : 0;
}

/* n, or 0 after an error when a list of numbers at argument i is not as long. */
static int with_scalars(L *l, int i, source from, int n) {
  if (from == SCALARS && l_len(l, i) != n)
    l_fail(l, TPU_RUNTIME, "Tensor list must have same number of elements as scalar list.");
  return b_ok(l_b(l)) ? n : 0;
}

static promo_operand type_of(L *l, int i, int k, source from) {
  if (from == SCALAR || from == SCALARS) return (promo_operand){l_scalar_dtype(l, i), PROMO_NUMBER};
  Val v = from == LIST ? l_item(l, i, k) : l_tensor(l, i);
  return (promo_operand){b_dtype(l_b(l), v), b_rank(l_b(l), v) ? PROMO_DIM : PROMO_ZERO_DIM};
}

/* Operand i of item k in dtype dt; numbers stay in f32 beside 16-bit floats. */
static Val value_of(L *l, int i, int k, source from, tpu_dtype dt) {
  if (from == SCALAR) return l_scalar(l, i, dt_acc(dt));
  if (from == SCALARS) return l_scalar_item(l, i, k, dt_acc(dt));
  return b_cast(l_b(l), from == LIST ? l_item(l, i, k) : l_tensor(l, i), dt);
}

static tpu_dtype common(L *l, int i, int k, source from) { /* of item k and operand i */
  promo_operand ops[2] = {type_of(l, 0, k, LIST), type_of(l, i, k, from)};
  return promote_types(ops, 2, l_float_type(DT_I64));
}

static void unary(L *l) {
  B *b = l_b(l);
  for (int k = 0, n = length(l, 1); k < n; k++) {
    Val x = l_item(l, 0, k);
    ret(l, m_unary(b, code_of(l), b_cast(b, x, m_dtype(l, b_dtype(b, x), l_flags(l)))));
  }
}

/* self, other, and for add and sub of lists or tensors alpha. */
static void binary(L *l) {
  B *b = l_b(l);
  int code = code_of(l);
  source from = source_of(l);
  bool scaled = (l_flags(l) & M_FREE) && !l_scalar_is(l, 2, 1);
  int n = with_scalars(l, 1, from, length(l, from == LIST ? 2 : 1));
  for (int k = 0; k < n; k++) {
    tpu_dtype dt = m_dtype(l, common(l, 1, k, from), l_flags(l));
    Val x = value_of(l, 0, k, LIST, dt), y = value_of(l, 1, k, from, dt);
    if (l_flags(l) & M_FREE) m_check_factor(l, 2, "alpha", dt);
    ret(l, b_cast(b, m_scaled(b, code, x, y, scaled ? l_scalar(l, 2, dt_acc(dt)) : BAD), dt));
  }
}

static void power(L *l) {
  source from = source_of(l);
  int n = with_scalars(l, 1, from, length(l, from == LIST ? 2 : 1));
  for (int k = 0; k < n; k++) {
    tpu_dtype dt = m_dtype(l, common(l, 1, k, from), M_NO_BOOL);
    ret(l, m_pow(l, l_item(l, 0, k), from == SCALAR ? BAD : value_of(l, 1, k, from, dt), dt,
                 from == SCALAR ? 1 : -1));
  }
}

static void power_of_number(L *l) { /* Scalar self, Tensor[] exponent */
  for (int k = 0, n = l_len(l, 1); k < n; k++) {
    promo_operand ops[2] = {type_of(l, 0, 0, SCALAR), type_of(l, 1, k, LIST)};
    tpu_dtype dt = m_dtype(l, promote_types(ops, 2, l_float_type(DT_I64)), M_NO_BOOL);
    ret(l, m_pow(l, l_scalar(l, 0, dt), l_item(l, 1, k), dt, -1));
  }
}

static void lerp(L *l) { /* self, tensors1, weight */
  B *b = l_b(l);
  source from = source_of(l);
  int n = with_scalars(l, 2, from, length(l, from == LIST ? 3 : 2));
  for (int k = 0; k < n; k++) {
    Val x = l_item(l, 0, k), y = l_item(l, 1, k);
    tpu_dtype dt = m_dtype(l, b_dtype(b, x), M_NO_INT);
    ret(l,
        b_cast(b,
               m_lerp(b, m_wide(b, x), m_wide(b, b_cast(b, y, dt)), m_wide(b, value_of(l, 2, k, from, dt))),
               dt));
  }
}

/* self + value * tensor1 (* or /) tensor2; value one Scalar, a list of them, or a tensor of them. */
static void addc(L *l) {
  B *b = l_b(l);
  source from = source_of(l);
  int n = with_scalars(l, 3, from, length(l, 3));
  int rank = from == TENSOR ? b_rank(b, l_tensor(l, 3)) : 1;
  if (rank != 1)
    l_fail(l, TPU_RUNTIME, "Expected packed scalar Tensor to be of dimension 1. Got %d instead.", rank);
  else if (from == TENSOR && b_dim_static(b, l_tensor(l, 3), 0) != n)
    l_fail(l, TPU_RUNTIME, "Expected length of scalars to match input of length %d but got %lld instead.", n,
           (long long)b_dim_static(b, l_tensor(l, 3), 0));
  for (int k = 0; k < n && b_ok(b); k++) {
    promo_operand ops[3] = {type_of(l, 0, k, LIST), type_of(l, 1, k, LIST), type_of(l, 2, k, LIST)};
    tpu_dtype dt = m_dtype(l, promote_types(ops, 3, l_float_type(DT_I64)), M_NO_BOOL), wide = dt_acc(dt);
    Val value = BAD, v[3];
    if (code_of(l) == OP_DIV) m_check_addcdiv(l, ops[1].dt, ops[2].dt);
    if (from == TENSOR)
      value = b_cast(b, b_squeeze(b, b_slice(b, l_tensor(l, 3), 0, k, k + 1, 1), 0), wide);
    else if (from == SCALARS || !l_scalar_is(l, 3, 1))
      value = value_of(l, 3, k, from, dt);
    for (int i = 0; i < 3; i++) v[i] = b_cast(b, l_item(l, i, k), wide);
    ret(l, b_cast(b,
                  code_of(l) == OP_DIV ? m_addcdiv(b, v[0], value, v[1], v[2])
                                       : m_addcmul(b, v[0], value, v[1], v[2]),
                  dt));
  }
}

/* Sum of |x|^ord over all of x; the maximum of |x| where ord is infinite. */
static Val power_sum(L *l, Val a, bool root) {
  B *b = l_b(l);
  uint32_t all = axes_all(b_rank(b, a));
  if (l_scalar_is(l, 1, 2)) {
    Val s = b_sum(b, b_mul(b, a, a), all, false);
    return root ? b_sqrt(b, s) : s;
  }
  if (l_scalar_is(l, 1, 1)) return b_sum(b, a, all, false);
  if (l_scalar_is(l, 1, 0)) return b_sum(b, b_cast(b, b_ne(b, a, m_k(b, a, 0)), b_dtype(b, a)), all, false);
  Val ord = l_scalar(l, 1, b_dtype(b, a)), s = b_sum(b, b_pow(b, a, ord), all, false);
  if (!root) return s;
  s = b_pow(b, s, b_div(b, m_k(b, ord, 1), ord));
  Val inf = m_k(b, ord, INFINITY), most = b_reduce(b, RED_MAX, a, all, false),
      least = b_reduce(b, RED_MIN, a, all, false);
  return b_select(b, b_eq(b, ord, inf), most, b_select(b, b_eq(b, ord, b_neg(b, inf)), least, s));
}

static void norm(L *l) { /* self, ord, dtype; datum: 1 the norm, 0 its power */
  B *b = l_b(l);
  for (int k = 0, n = length(l, 1); k < n; k++) {
    Val x = l_item(l, 0, k);
    tpu_dtype dt = l_dtype(l, 2);
    if (dt == DT_NONE) dt = b_dtype(b, x);
    m_dtype(l, b_dtype(b, x), M_NO_INT);
    ret(l, b_cast(b, power_sum(l, b_abs(b, m_wide(b, b_cast(b, x, dt))), l_datum(l)), dt_real(dt)));
  }
}

static void maximum(L *l) {
  for (int k = 0, n = length(l, 1); k < n; k++) {
    Val x = l_item(l, 0, k);
    ret(l, b_max(l_b(l), x, axes_all(b_rank(l_b(l), x)), false));
  }
}

/* datum: 0 zero, 1 copy, 2 clone, 3 mm. */
static void whole(L *l) {
  B *b = l_b(l);
  for (int k = 0, n = length(l, l_datum(l) & 1 ? 2 : 1); k < n; k++) {
    Val x = l_item(l, 0, k);
    switch (l_datum(l)) {
    case 0: ret(l, b_zeros(b, b_dtype(b, x), b_shape(b, x))); break;
    case 1: ret(l, b_broadcast_to(b, b_cast(b, l_item(l, 1, k), b_dtype(b, x)), b_shape(b, x))); break;
    case 2: ret(l, x); break;
    default: ret(l, b_matmul(b, x, l_item(l, 1, k))); break;
    }
  }
}

#define P ROW_ELEMENTWISE
#define F (ROW_ELEMENTWISE | M_FLOAT)
#define R (ROW_ELEMENTWISE | M_FLOAT | M_NO_COMPLEX)
#define N (ROW_ELEMENTWISE | M_NO_COMPLEX)
#define NUMBERS(name, fn, code, flags)                                         \
  {name ".List", fn, FROM(code, LIST), flags},                                 \
      {name ".Scalar", fn, FROM(code, SCALAR), (flags) & ~(uint32_t)M_FREE}, { \
    name ".ScalarList", fn, FROM(code, SCALARS), (flags) & ~(uint32_t)M_FREE   \
  }
const tpu_row rows_foreach[] = {
    NUMBERS("_foreach_add", binary, OP_ADD, P | M_FREE | ROW_FITS),
    {"_foreach_add.Tensor", binary, FROM(OP_ADD, TENSOR), P | M_FREE | ROW_FITS},
    NUMBERS("_foreach_sub", binary, OP_SUB, P | M_FREE | M_NO_BOOL | ROW_FITS),
    NUMBERS("_foreach_mul", binary, OP_MUL, P),
    {"_foreach_mul.Tensor", binary, FROM(OP_MUL, TENSOR), P},
    NUMBERS("_foreach_div", binary, OP_DIV, F),
    {"_foreach_div.Tensor", binary, FROM(OP_DIV, TENSOR), F},
    NUMBERS("_foreach_maximum", binary, OP_MAXIMUM, N | ROW_FITS),
    NUMBERS("_foreach_minimum", binary, OP_MINIMUM, N | ROW_FITS),
    NUMBERS("_foreach_clamp_min", binary, OP_MAXIMUM, N | ROW_FITS),
    NUMBERS("_foreach_clamp_max", binary, OP_MINIMUM, N | ROW_FITS),
    NUMBERS("_foreach_pow", power, 0, P | ROW_SPECIAL | ROW_FITS),
    {"_foreach_pow.ScalarAndTensor", power_of_number, 0, P},
    {"_foreach_lerp.List", lerp, FROM(0, LIST), P},
    {"_foreach_lerp.Scalar", lerp, FROM(0, SCALAR), P | ROW_FITS},
    {"_foreach_lerp.ScalarList", lerp, FROM(0, SCALARS), P | ROW_FITS},
    {"_foreach_addcmul.Scalar", addc, FROM(OP_MUL, SCALAR), P | ROW_FITS},
    {"_foreach_addcmul.ScalarList", addc, FROM(OP_MUL, SCALARS), P | ROW_FITS},
    {"_foreach_addcmul.Tensor", addc, FROM(OP_MUL, TENSOR), P},
    {"_foreach_addcdiv.Scalar", addc, FROM(OP_DIV, SCALAR), P | ROW_FITS},
    {"_foreach_addcdiv.ScalarList", addc, FROM(OP_DIV, SCALARS), P | ROW_FITS},
    {"_foreach_addcdiv.Tensor", addc, FROM(OP_DIV, TENSOR), P},
    {"_foreach_abs", unary, OP_ABS, P},
    {"_foreach_neg", unary, OP_NEG, P | M_NO_BOOL},
    {"_foreach_sign", unary, M_SIGN, N},
    {"_foreach_floor", unary, OP_FLOOR, N},
    {"_foreach_ceil", unary, OP_CEIL, N},
    {"_foreach_round", unary, OP_ROUND, N},
    {"_foreach_trunc", unary, M_TRUNC, N},
    {"_foreach_frac", unary, M_FRAC, N | M_NO_INT},
    {"_foreach_sqrt", unary, OP_SQRT, F},
    {"_foreach_rsqrt", unary, OP_RSQRT, F},
    {"_foreach_reciprocal", unary, M_RECIPROCAL, F},
    {"_foreach_exp", unary, OP_EXP, F},
    {"_foreach_expm1", unary, OP_EXPM1, F},
    {"_foreach_log", unary, OP_LOG, F},
    {"_foreach_log10", unary, M_LOG10, F},
    {"_foreach_log1p", unary, OP_LOG1P, F},
    {"_foreach_log2", unary, M_LOG2, F},
    {"_foreach_sin", unary, OP_SIN, F},
    {"_foreach_cos", unary, OP_COS, F},
    {"_foreach_tan", unary, OP_TAN, F},
    {"_foreach_asin", unary, OP_ASIN, F},
    {"_foreach_acos", unary, OP_ACOS, F},
    {"_foreach_atan", unary, OP_ATAN, F},
    {"_foreach_sinh", unary, M_SINH, F},
    {"_foreach_cosh", unary, M_COSH, F},
    {"_foreach_tanh", unary, OP_TANH, F},
    {"_foreach_sigmoid", unary, OP_LOGISTIC, F},
    {"_foreach_erf", unary, M_ERF, R},
    {"_foreach_erfc", unary, M_ERFC, R},
    {"_foreach_lgamma", unary, M_LGAMMA, R},
    {"_foreach_norm.Scalar", norm, 1, ROW_SPECIAL},
    {"_foreach_powsum.Scalar", norm, 0, ROW_SPECIAL | ROW_FITS},
    {"_foreach_max", maximum, 0, 0},
    {"_foreach_zero", whole, 0, P},
    {"_foreach_copy", whole, 1, P},
    {"_foreach_clone", whole, 2, P},
    {"_foreach_mm", whole, 3, 0},
    {0},
};
