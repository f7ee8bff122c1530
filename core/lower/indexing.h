/* What the families of indices share: gather-like, scatter-like, sorting and data-dependent rows. */
#ifndef TPU_LOWER_INDEXING_H
#define TPU_LOWER_INDEXING_H

#include "lower/lower.h"

/* x with axis `from` moved to place `to`; the others keep their order. */
Val ix_move(B *b, Val x, int from, int to);
/* x with dims at the front until it has `rank`. */
Val ix_raise(B *b, Val x, int rank);
/* x flat; a rank-0 x becomes [1]. Of a generic x: one generic dim, its elements in logical order. */
Val ix_flat(B *b, Val x);
/* Dims from..to (inclusive) as one, generic or not. */
Val ix_merge(B *b, Val x, int from, int to);
/* x as it lies, with its padding for elements: all dims static. The padding holds `fill`; BAD: anything. */
Val ix_room(B *b, Val x, Val fill);
/* The inverse of ix_flat: v[n] in the dims of s. */
Val ix_unflat(B *b, Val v, const shape *s);
/* Is p surely q, at most q? Of generic dims only a dim itself is; an error says so, and the op is asked again
 * on exact values. */
static inline bool ix_same(ir_dim p, ir_dim q) { return p.sym == q.sym && (p.sym || p.n == q.n); }
static inline bool ix_within(ir_dim p, ir_dim q) { return p.sym || q.sym ? ix_same(p, q) : p.n <= q.n; }
bool ix_is_empty(const shape *s); /* no elements, whatever the generic sizes */
/* Index tensors are int64, or int32 too: which, the op says, with torch's error for others. `op` is what the
 * text begins with. */
enum { IX_LONG = 0, IX_INT = 1 };
void ix_expect(L *l, Val idx, int kinds, const char *op);
/* The embedding ops' own words: idx is argument `place` of `op`. */
void ix_expect_argument(L *l, tpu_dtype dt, int place, const char *op);
/* Index values ready for the builder: I32 or I64, padding made 0, checked against the size of x's axis (of
 * the flat x when axis is -1); negative ones wrap round when `wrap`, else are out of range. `message` NULL:
 * names the dimension and its size. */
enum { IX_EXACT = 0, IX_WRAP = 1, IX_UNCHECKED = 2 };
Val ix_ready(L *l, Val idx, Val x, int axis, int wrap, tpu_code code, const char *message);
/* b_take by ready indices, in the form that is fast on the plugin. */
Val ix_take(L *l, Val x, Val idx, int axis);
/* How many elements of `sorted` stand before each v (right: before or equal); I32 of v's shape. `sorted` is
 * [M], or [..., M] with the leading dims of v. Both of one dtype. */
Val ix_search(B *b, Val sorted, Val v, bool right);
/* For a flat mask: the rank of each true among the trues, -1 for false; I32. */
Val ix_rank(B *b, Val mask);
/* For a mask of any dims: its rank among the trues for each true, 0 for false; I32. */
Val ix_mask_place(B *b, Val mask);
/* values[i] at place[i] of an array of n zeros; places out of range are dropped. */
Val ix_pack(B *b, Val place, Val values, int64_t n);
/* The ranks' order as a selection: flat positions of the trues, in order, then zeros; I32[n]. */
Val ix_trues(B *b, Val mask, int64_t n);
/* b_scatter_nd along one axis: whole slices of `source` (its axis as long as idx) go to x. idx of rank 0
 * or 1. */
Val ix_scatter_slices(B *b, b_scat kind, Val x, Val idx, Val source, int axis);

/* PyTorch's advanced indexing by a list of optional integer tensors: the indexed axes, and where the dims of
 * the (broadcast) index tensors go in the result: to the place of the first when the axes are neighbours,
 * else to the front. */
typedef struct ix_plan {
  int n, front;
  int axis[IR_MAX_RANK];
  Val idx[IR_MAX_RANK];
  shape common, result;
} ix_plan;
/* Argument i of the row against x; false after an error. Masks among the indices are an error (they have
 * become integers before). */
bool ix_plan_make(L *l, int i, Val x, int wrap, ix_plan *p);
Val ix_plan_front(B *b, const ix_plan *p, Val x); /* x with the indexed axes first, in order */
Val ix_plan_back(B *b, const ix_plan *p, Val x);  /* the inverse */
Val ix_plan_in(B *b, const ix_plan *p, Val v);    /* result layout -> [common..., rest...] */
Val ix_plan_out(B *b, const ix_plan *p, Val v);   /* the inverse */

/* Host-level parts (hosted.c): masks among the indices; repeats whose sum is not given; classes whose
 * number is not. */
tpu_error *hosted_index(composition *c);
tpu_error *hosted_index_put(composition *c);
tpu_error *hosted_repeat_interleave(composition *c);
tpu_error *hosted_one_hot(composition *c);

/* Reductions of scatter_reduce and index_reduce. */
typedef enum ix_red { IX_SUM, IX_PROD, IX_MEAN, IX_AMAX, IX_AMIN, IX_SET } ix_red;

#endif
