/* Device memory accounting, a device at a time: what torch.tpu.memory_stats reports, and the limit that makes
 * an allocation fail with torch's OutOfMemoryError before the plugin is asked. Guarded by the core lock. */
#ifndef TPU_VALUE_MEMORY_H
#define TPU_VALUE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define TPU_MAX_DEVICES 256

void memory_count(int device,
                  int64_t bytes); /* > 0: a buffer came, < 0: it went (a zero-byte buffer counts as coming) */
/* May `bytes` more be had? Where not, and `smaller` says that less will be tried, it is counted as a retry.
 */
bool memory_fits(int device, int64_t bytes, bool smaller);
/* The same, and OutOfMemoryError with " out of memory." and the sizes where not; counted as an OOM. */
tpu_error *memory_reserve(int device, int64_t bytes);

#endif
