/* Where a recorded graph is cut, so that equal blocks (the layers of a model) are one program each, compiled
 * once. Pure: looks at ids and wiring alone. */
#ifndef TPU_STEP_REPEAT_H
#define TPU_STEP_REPEAT_H

#include <stdint.h>

enum {
  REPEAT_MIN_OPS = 8,    /* a block */
  REPEAT_MIN_COPIES = 3, /* fewer are not worth a launch each */
  REPEAT_MIN_ALL = 32    /* ops in all copies together: below that one program compiles quickly */
};

/* Cuts of n calls: `ids[i]` says which op call i is, `crossing[i]` how many values are made before call i and
 * used at or after it. Writes ascending positions in (0, n) to cuts, which has room for n; returns their
 * number. */
uint32_t repeat_cuts(uint32_t n, const uint32_t *ids, const uint32_t *crossing, uint32_t *cuts);

#endif
