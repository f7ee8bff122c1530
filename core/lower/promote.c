/* torch.result_type: dimensioned tensors decide, then 0-dim tensors, then numbers; a lower rank counts only
 * when it is of a higher class (bool < integer < float < complex). */
#include "lower/promote.h"

static tpu_dtype join(tpu_dtype a, tpu_dtype b) {
  return a == DT_NONE ? b : b == DT_NONE ? a : dt_promote(a, b);
}

static tpu_dtype combine(tpu_dtype higher, tpu_dtype lower) {
  if (higher == DT_NONE) return lower;
  if (lower == DT_NONE || dt_is_complex(higher)) return higher;
  if (dt_is_float(higher)) return dt_is_complex(lower) ? dt_complex(higher) : higher;
  if (higher == DT_BOOL || dt_is_float(lower) || dt_is_complex(lower)) return join(higher, lower);
  return higher;
}

static tpu_dtype number_type(tpu_dtype dt, tpu_dtype default_float) {
  return dt_is_complex(dt) ? dt_complex(default_float) : dt_is_float(dt) ? default_float : dt;
}

tpu_dtype promote_types(const promo_operand *ops, int n, tpu_dtype default_float) {
  tpu_dtype rank[3] = {DT_NONE, DT_NONE, DT_NONE};
  for (int i = 0; i < n; i++) {
    tpu_dtype dt = ops[i].cat == PROMO_NUMBER ? number_type(ops[i].dt, default_float) : ops[i].dt;
    tpu_dtype *r = &rank[ops[i].cat];
    bool had = *r != DT_NONE;
    *r = join(*r, dt);
    if (had && *r == DT_NONE) return DT_NONE;
  }
  return combine(rank[PROMO_DIM], combine(rank[PROMO_ZERO_DIM], rank[PROMO_NUMBER]));
}
