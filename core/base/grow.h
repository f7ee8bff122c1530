/* Growing arrays: one more place at the end of `arr`, which has `n` of `cap` places used. The caller writes
 * arr[n] and counts. */
#ifndef TPU_BASE_GROW_H
#define TPU_BASE_GROW_H

#include "base/error.h"

#define GROW(arr, n, cap, first)                          \
  do {                                                    \
    if ((n) == (cap)) {                                   \
      (cap) = (cap) ? (cap) * 2 : (first);                \
      (arr) = tpu_xrealloc((arr), (cap) * sizeof *(arr)); \
    }                                                     \
  } while (0)

#endif
