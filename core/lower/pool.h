/* Pooling: what the files pool.c (windows of one size) and adaptive.c (windows by output size) share. */
#ifndef TPU_LOWER_POOL_H
#define TPU_LOWER_POOL_H

#include <stdlib.h>

#include "lower/lower.h"

typedef struct pool {
  int n;                 /* spatial dims, the last of x */
  shape xs, out_shape;   /* of x and of the result */
  uint32_t plane;        /* the spatial axes */
  Val size[3];           /* I32: how long they are */
  int64_t in[3], out[3]; /* what b_physical makes of them */
  int64_t k[3], stride[3], pad[3], dilation[3];
  bool ceil_mode;
} pool;

Val pool_positions(B *b, Val x, int n);
/* (best, arg) becomes the better of it and (v, at): torch's rule, a later element wins when it is greater or
 * NaN, or when arg is -1. */
void pool_better(B *b, Val *best, Val *arg, Val v, Val at);
Val pool_scatter(B *b, b_scat kind, Val g, Val at, int n, const int64_t *plane);

/* Flat positions (I64) in a plane of logical sizes -> in one of physical sizes. */
Val pool_physical_positions(B *b, const pool *p, Val at);

void pool_adaptive_avg(L *l);
void pool_adaptive_avg_backward(L *l);
void pool_adaptive_max(L *l);
void pool_indices_backward(L *l); /* (grad, self, indices) */
void pool_fractional(L *l);
void pool_fractional_backward(L *l);

#endif
