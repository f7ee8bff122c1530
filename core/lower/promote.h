/* torch.result_type as a pure function. */
#ifndef TPU_LOWER_PROMOTE_H
#define TPU_LOWER_PROMOTE_H

#include "base/dtype.h"

enum { PROMO_DIM = 0, PROMO_ZERO_DIM = 1, PROMO_NUMBER = 2 };

typedef struct promo_operand {
  tpu_dtype dt; /* of a number: BOOL, I64, F64 or C128 */
  uint8_t cat; /* PROMO_DIM: a tensor with dims, PROMO_ZERO_DIM: one without, PROMO_NUMBER: a Python number or
                  Scalar */
} promo_operand;

/* The common dtype of the operands; DT_NONE where PyTorch has none (see dt_promote) or n is 0.
 * `default_float` is torch.get_default_dtype(): the dtype that floating numbers count as. */
tpu_dtype promote_types(const promo_operand *ops, int n, tpu_dtype default_float);

#endif
