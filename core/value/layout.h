/* Strides of results: the ones PyTorch would give. Pure functions. */
#ifndef TPU_VALUE_LAYOUT_H
#define TPU_VALUE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct strided { /* an operand; borrowed */
  int rank;
  const int64_t *sizes, *strides;
} strided;

void layout_contiguous(int rank, const int64_t *sizes, int64_t *strides);
/* Contiguous, but for the last two dims: column by column. */
void layout_columns(int rank, const int64_t *sizes, int64_t *strides);
/* TensorIterator's rule (aten/src/ATen/TensorIterator.cpp, reorder_dimensions): operands are aligned at the
 * last dim; dims are ordered by the strides of the first operand that tells them apart. */
void layout_elementwise(int n, const strided *ops, int rank, const int64_t *sizes, int64_t *strides);
/* channels_last (rank 4, 5) when one of the first two operands, or `all` operands, are laid out so and not
 * contiguous as well. */
void layout_channels(int n, const strided *ops, bool all, int rank, const int64_t *sizes, int64_t *strides);

#endif
