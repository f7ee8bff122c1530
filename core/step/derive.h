/* Padding given and taken while a graph is recorded: as recorded calls, where the host does it otherwise
 * (transfer.c). Core lock held. */
#ifndef TPU_STEP_DERIVE_H
#define TPU_STEP_DERIVE_H

#include "tpu.h"
#include "value/storage.h"

/* The tensor as a value of its own whose dims of the mask (and those that are generic already) are padded; a
 * reference for the caller. */
tpu_error *derive_padded(const tpu_tensor *t, uint32_t dims, tpu_value **out);
/* The storage's value as a tensor: its logical dims, dense. `strides` is room for its strides. */
tpu_tensor derive_whole(tpu_storage *s, int64_t *sizes, int64_t *strides);
/* The storage's value without its padding; the trace holds it. */
tpu_error *derive_exact(tpu_storage *s, tpu_value **out);

#endif
