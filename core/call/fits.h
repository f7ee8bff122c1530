/* Whether a number may be written as it is: c10::overflows, which fill_, full and their like ask. */
#ifndef TPU_CALL_FITS_H
#define TPU_CALL_FITS_H

#include "base/dtype.h"
#include "tpu.h"

bool number_fits(const tpu_arg *number, tpu_dtype dt);
/* All Scalars of a call of a ROW_FITS row against the dtype they become: that of the call's dtype argument,
 * of the written tensor, or of the first argument. */
tpu_error *call_numbers_fit(const tpu_call *call);

#endif
