/* The step room: memo of calls, programs, launches, the fused trace. What value/ and call/ may ask of it.
 * Core lock held for all but step_is_shut_down and step_resize_value. */
#ifndef TPU_STEP_STEP_H
#define TPU_STEP_STEP_H

#include "tpu.h"
#include "base/text.h"
#include "value/geometry.h"
#include "value/storage.h"

bool step_is_shut_down(void);
int step_precision(void);           /* of dots: part of signatures */
tpu_dtype step_default_float(void); /* torch.get_default_dtype(): part of signatures */
bool step_masks_off(void);          /* test switch: part of signatures */
/* Makes the storage's value real (flushes the trace that makes it). The error of a poisoned value. May pause:
 * the storage may have another value then, a real one. */
tpu_error *step_materialize(tpu_storage *s);
/* The storage's value without its padding (itself, when it has none), borrowed. May pause. */
tpu_error *step_exact_twin(tpu_storage *s, tpu_value **out);
/* Gives the storage's value padding: its static dims of this size turn generic, those of the mask. May
 * pause. */
tpu_error *step_pad(tpu_storage *s, int64_t size, uint32_t mask);
/* Zeros for a storage that was never written and that the tensor covers, its dims of the mask
 * generic. */
tpu_error *step_zeros(const tpu_tensor *t, uint32_t mask);
/* The storage's value becomes its first n elements along an axis, a generic dim from now on. May pause. */
tpu_error *step_first(tpu_storage *s, int axis, int64_t n);
/* A view as a value of its own, the dims (bit mask) padded; a reference for the caller. May pause. */
tpu_error *step_pad_view(const tpu_tensor *t, uint32_t dims, tpu_value **out);
struct view_memory;
/* Which of a view's open dims (groups_open, groups_parts) are generic; `key`: its class. step/sizes.h says by
 * what evidence; those of the mask `met` by MEETING alone. */
uint32_t step_open_sizes(const text *key, const view *t, uint32_t open, uint32_t met, bool split,
                         struct view_memory **memory);
void step_saw_generic(int64_t size); /* a generic dim had this size */
/* The same bytes as a flat value of another dtype. */
tpu_error *step_retype(tpu_storage *s, tpu_dtype dt);
/* The value of a storage that changes its size: common prefix kept, rest zero. Takes the lock itself. */
tpu_error *step_resize_value(tpu_storage *s, size_t nbytes);
/* Runs checks (index ranges and the like) of launches so far; waits when asked. The first failure is returned
 * once; those after it are not: they may follow from it, and would come up in some later call. */
tpu_error *step_checks(bool wait);

#endif
