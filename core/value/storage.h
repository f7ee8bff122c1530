/* Storages: the context of a c10::DataPtr. A storage names one value at a time; an in-place write rebinds it.
 *
 * Address: each storage owns a unique range of a reserved, unmapped address space, so that data_ptr() is
 * honest and touching it from the host faults as it does for any device pointer. Ranges are recycled by size
 * class. Guarded by the core lock. */
#ifndef TPU_VALUE_STORAGE_H
#define TPU_VALUE_STORAGE_H

#include "tpu.h"
#include "value/value.h"

struct tpu_storage {
  tpu_value *value; /* NULL: never written (reads as zeros); owned reference */
  size_t nbytes;    /* logical */
  uint64_t version; /* rebinds so far */
  bool parameter;   /* seen as a leaf that requires gradients: never padded (step/sizes.h) */
  uintptr_t address;
  uint8_t size_class;
  int16_t device;
  uint32_t mark_serial, mark_index; /* scratch of the call that is being prepared */
};

tpu_storage *storage_create(int device, size_t nbytes); /* core lock held */
void storage_destroy(tpu_storage *s);                   /* core lock held */
/* Calls fn for each live storage; fn makes and destroys none. */
void storage_each(void (*fn)(tpu_storage *s, void *ctx), void *ctx);
void storage_bind(tpu_storage *s, tpu_value *v); /* takes the caller's reference of v */

#endif
