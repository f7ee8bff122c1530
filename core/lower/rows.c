/* The list of all row tables, a table a family. Every row of the system is in one of them. */
#include <stddef.h>

#include "lower/lower.h"

#define FAMILIES(X) \
  X(unary)          \
  X(activation)     \
  X(binary)         \
  X(compare)        \
  X(copy)           \
  X(create)         \
  X(foreach)        \
  X(optim)          \
  X(random)         \
  X(distributions)  \
  X(reduce)         \
  X(shape)          \
  X(pad)            \
  X(index)          \
  X(scatter)        \
  X(embedding)      \
  X(sort)           \
  X(scan)           \
  X(distance)       \
  X(dynamic)        \
  X(matmul)         \
  X(softmax)        \
  X(norm)           \
  X(conv)           \
  X(pool)           \
  X(loss)           \
  X(ctc)            \
  X(attention)      \
  X(rnn)            \
  X(fft)            \
  X(linalg)         \
  X(factor)         \
  X(upsample)       \
  X(grid)           \
  X(hosted)

#define DECLARE(name) extern const tpu_row rows_##name[];
FAMILIES(DECLARE)

#define ENTRY(name) rows_##name,
const tpu_row *const tpu_row_tables[] = {FAMILIES(ENTRY) NULL};
