/* Comparisons, logic, selection and clamping. */
#include "lower/math.h"

/* --- comparisons and logic --- */

static void compare(L *l) { /* datum: b_cmp_dir */
  B *b = l_b(l);
  b_cmp_dir dir = (b_cmp_dir)l_datum(l);
  tpu_dtype dt = m_dtype(l, l_result_type2(l, 0, 1), (dir > CMP_NE ? M_NO_COMPLEX : 0) | M_COMPARES);
  ret(l, b_cmp(b, dir, l_tensor_as(l, 0, dt), l_tensor_as(l, 1, dt)));
}

static void logical(L *l) { /* datum: OP_AND, OP_OR, OP_XOR */
  ret(l, b_binary(l_b(l), l_datum(l), l_tensor_as(l, 0, DT_BOOL), l_tensor_as(l, 1, DT_BOOL)));
}

/* --- selection --- */

static void where(L *l) {
  B *b = l_b(l);
  Val c = l_tensor(l, 0);
  tpu_dtype dt = l_result_type2(l, 1, 2), cd = b_dtype(b, c);
  if (cd != DT_BOOL && cd != DT_U8)
    l_fail(l, TPU_RUNTIME, "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
           tpu_dtype_torch_name(cd));
  m_dtype(l, dt, 0);
  ret(l, b_select(b, b_cast(b, c, DT_BOOL), l_tensor_as(l, 1, dt), l_tensor_as(l, 2, dt)));
}

static void masked_fill(L *l) { /* self, mask, value: a Scalar or a 0-dim tensor; result of self's dtype */
  B *b = l_b(l);
  Val x = l_tensor(l, 0), mask = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), vd = m_arg_dtype(l, 2);
  if (b_dtype(b, mask) != DT_BOOL)
    l_fail(l, TPU_RUNTIME, "masked_fill_ only supports boolean masks, but got mask with dtype %s",
           tpu_dtype_torch_name(b_dtype(b, mask)));
  if (l_is_tensor(l, 2) && b_rank(b, l_tensor(l, 2)))
    l_fail(l, TPU_RUNTIME,
           "masked_fill only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
           b_rank(b, l_tensor(l, 2)));
  if (l_is_tensor(l, 2) && dt_is_complex(vd) && !dt_is_complex(dt))
    b_check(b, b_eq(b, b_imag(b, l_tensor(l, 2)), b_const(b, dt_real(vd), 0)), TPU_RUNTIME,
            "value cannot be converted to a real type without overflow");
  ret(l, b_select(b, mask, l_tensor_as(l, 2, dt), x));
}

/* clamp(self, min?, max?), clamp_min, clamp_max: datum 0, 1, 2. NaN anywhere wins. */
static void clamp(L *l) {
  B *b = l_b(l);
  int idx[3] = {0}, n = 1, lo = l_datum(l) == 2 ? -1 : 1, hi = l_datum(l) == 1 ? -1 : l_datum(l) == 2 ? 1 : 2;
  if (lo >= 0 && !l_has(l, lo)) lo = -1;
  if (hi >= 0 && !l_has(l, hi)) hi = -1;
  if (lo < 0 && hi < 0)
    l_fail(l, TPU_RUNTIME, "torch.clamp: At least one of 'min' or 'max' must not be None");
  if (lo >= 0) idx[n++] = lo;
  if (hi >= 0) idx[n++] = hi;
  tpu_dtype dt = m_dtype(l, l_result_type(l, n, idx), 0);
  if (dt == DT_BOOL && lo >= 0 && hi >= 0) m_dtype(l, dt, M_NO_BOOL);
  if (dt_is_complex(dt)) m_check_cast(l, dt);
  if (dt_is_complex(dt)) l_fail(l, TPU_NOT_IMPLEMENTED, "clamp is not supported for complex types");
  Val v = l_tensor_as(l, 0, dt);
  if (lo >= 0) v = b_maximum(b, v, l_tensor_as(l, lo, dt));
  if (hi >= 0) v = b_minimum(b, v, l_tensor_as(l, hi, dt));
  ret(l, v);
}

#define P ROW_ELEMENTWISE
#define COMPARE(name, dir) \
  {name ".Tensor", compare, dir, P}, { name ".Scalar", compare, dir, P }
const tpu_row rows_compare[] = {
    COMPARE("eq", CMP_EQ),
    COMPARE("ne", CMP_NE),
    COMPARE("lt", CMP_LT),
    COMPARE("le", CMP_LE),
    COMPARE("gt", CMP_GT),
    COMPARE("ge", CMP_GE),
    {"logical_and", logical, OP_AND, P},
    {"logical_or", logical, OP_OR, P},
    {"logical_xor", logical, OP_XOR, P},
    {"where.self", where, 0, P | ROW_SAME_DTYPE},
    {"masked_fill.Scalar", masked_fill, 0, P | ROW_SHARED | ROW_FITS},
    {"masked_fill.Tensor", masked_fill, 0, P | ROW_SHARED},
    {"clamp", clamp, 0, P | ROW_FITS | ROW_SAME_DTYPE},
    {"clamp.Tensor", clamp, 0, P},
    {"clamp_min", clamp, 1, P | ROW_FITS | ROW_SAME_DTYPE},
    {"clamp_min.Tensor", clamp, 1, P},
    {"clamp_max", clamp, 2, P | ROW_FITS},
    {"clamp_max.Tensor", clamp, 2, P},
    {0},
};
