/* Linear algebra: what linalg.c (LU, Cholesky, triangular systems) and factor.c (QR, eigenvalues, singular
 * values, exponential) share. Matrices are the last two dims, everything before is batch. Static sizes. */
#ifndef TPU_LOWER_LINALG_H
#define TPU_LOWER_LINALG_H

#include "lower/lower.h"

static inline int64_t la_rows(B *b, Val x) { return b_dim_static(b, x, b_rank(b, x) - 2); }
static inline int64_t la_cols(B *b, Val x) { return b_dim_static(b, x, b_rank(b, x) - 1); }
/* Argument i as a matrix of a float or complex dtype: an error that sticks, and false, otherwise. `square`
 * asks for equal sides. */
bool la_matrix(L *l, int i, const char *op, bool square, Val *x);
Val la_adjoint(B *b, Val x);
Val la_transpose(B *b, Val x);
/* x[..., r, c] as [batch, r, c]; la_unflat gives v[batch, ...] the batch dims of x back. */
Val la_flat(B *b, Val x);
Val la_unflat(B *b, Val v, const shape *x);
/* x with zeros below diagonal k (upper) or above it. */
Val la_triu(B *b, Val x, int64_t k);
Val la_tril(B *b, Val x, int64_t k);
/* n by m, ones on the diagonal, of dtype dt, broadcast to the batch dims of `like`. */
Val la_eye(B *b, tpu_dtype dt, const shape *like, int64_t n, int64_t m);
Val la_diagonal(B *b, Val x);
/* Columns from lo up to hi, rows likewise. */
Val la_columns(B *b, Val x, int64_t lo, int64_t hi);
Val la_head_rows(B *b, Val x, int64_t n);
Val la_empty(B *b, tpu_dtype dt); /* [0] */

#endif
