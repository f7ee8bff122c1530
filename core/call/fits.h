/* Whether a number may be written as it is: c10::overflows, which fill_, full and their like ask. */
#ifndef TPU_CALL_FITS_H
#define TPU_CALL_FITS_H

#include "base/dtype.h"
#include "tpu.h"

bool number_fits(const tpu_arg *number, tpu_dtype dt);
/* The Scalars of a call of a ROW_FITS row against the dtypes that they become, as the CPU does: by the rules
 * in fits.c, and where there is none against the dtype argument, or that of the first argument. */
tpu_error *call_numbers_fit(const tpu_call *call);

#endif
