/* Stable sorts by torch's order: NaN is the greatest, -0 equals 0, ties keep their place; top-k. */
#include <math.h>

#include "ir/graph.h"

/* p before q. */
static Val before(B *b, Val p, Val q, bool descending) {
  Val lt = b_cmp(b, descending ? CMP_GT : CMP_LT, p, q);
  if (!dt_is_float(b_dtype(b, p))) return lt;
  Val pn = b_ne(b, p, p), qn = b_ne(b, q, q);
  return b_or(b, lt, descending ? b_and(b, pn, b_not(b, qn)) : b_and(b, qn, b_not(b, pn)));
}

/* The comparator over all operands; keys decide in order. */
static int sort_region(B *b, const tpu_dtype *dts, int n, int nkeys, bool descending) {
  int r = ir_region_open(b, true);
  Val *args = arena_alloc(&b->mem, 2 * (size_t)n * sizeof *args);
  for (int i = 0; i < 2 * n; i++) args[i] = ir_arg(b, dts[i / 2], &ir_scalar);
  Val v = BAD;
  for (int k = nkeys - 1; k >= 0; k--) {
    Val p = args[2 * k], q = args[2 * k + 1], first = before(b, p, q, descending);
    v = v < 0 ? first : b_or(b, first, b_and(b, b_not(b, before(b, q, p, descending)), v));
  }
  ir_region_close(b, &v, 1);
  return r;
}

/* A key in which padding comes last; ties with data are safe, since the sort is stable and padding stands behind. */
static Val pad_key(B *b, Val x, int axis, bool descending) {
  tpu_dtype dt = b_dtype(b, x);
  Val last = descending ? b_min_value(b, dt) : dt_is_float(dt) ? b_const(b, dt, NAN) : b_max_value(b, dt);
  return b_mask_pad(b, x, 1u << axis, last);
}

void b_sort_multi(B *b, const Val *vs, int n, int nkeys, int axis, bool descending, Val *outs) {
  for (int i = 0; i < n; i++) outs[i] = BAD;
  for (int i = 0; i < n; i++)
    if (ir_bad(b, vs[i])) return;
  Val *w = arena_copy(&b->mem, vs, (size_t)n * sizeof *w);
  shape s;
  axis = axis_norm(b, axis, b_rank(b, vs[0]));
  if (!ir_match(b, w, n, &s)) return;
  if (!s.rank || ir_numel_phys(&s) == 0) {
    memcpy(outs, w, (size_t)n * sizeof *w);
    return;
  }
  tpu_dtype *dts = arena_alloc(&b->mem, (size_t)n * sizeof *dts);
  const shape **shapes = arena_alloc(&b->mem, (size_t)n * sizeof *shapes);
  for (int i = 0; i < n; i++) {
    dts[i] = b_dtype(b, w[i]);
    if (i < nkeys && dt_is_complex(dts[i])) b_fail(b, TPU_RUNTIME, "Sort does not support complex dtypes");
    if (i < nkeys) w[i] = pad_key(b, w[i], axis, descending);
    shapes[i] = ir_intern(b, &s);
  }
  text *t = ir_attr(b);
  text_printf(t, "dimension = %d : i64, is_stable = true", axis);
  ir_spec sp = {.op = IR_SORT, .dt = dts[0], .s = shapes[0], .ops = w, .nops = n, .nattr = (int)t->n, .nres = n, .dts = dts, .shapes = shapes};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  sp.tag = 2 * nkeys + descending;
  Val o = ir_lookup(b, &sp);
  if (o < 0 && !b->err) {
    int region = sort_region(b, dts, n, nkeys, descending);
    o = ir_add(b, &sp, region, 0);
  }
  for (int i = 0; i < n && o >= 0; i++) outs[i] = ir_result(o, n, i);
}

Val b_sort(B *b, Val x, int axis, bool descending, Val *index) {
  if (index) *index = BAD;
  if (ir_bad(b, x)) return BAD;
  const shape *s = b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x), key = dt == DT_BOOL ? DT_U8 : dt_acc(dt);
  axis = axis_norm(b, axis, s->rank);
  if (b->err || !s->rank) {
    if (index) *index = b_const_i(b, DT_I64, 0);
    return b->err ? BAD : x;
  }
  Val out[2], in[2] = {b_cast(b, x, key), index ? b_iota(b, DT_I32, s, axis) : BAD};
  b_sort_multi(b, in, index ? 2 : 1, 1, axis, descending, out);
  if (index) *index = b_cast(b, out[1], DT_I64);
  return b_cast(b, out[0], dt);
}

Val b_topk(B *b, Val x, int64_t k, int axis, bool largest, Val *index) {
  Val at, v = b_sort(b, x, axis, largest, &at);
  if (index) *index = BAD;
  if (v < 0) return BAD;
  shape s = *b_shape(b, v);
  axis = axis_norm(b, axis, s.rank);
  if (!s.rank) {
    if (index) *index = at;
    return v;
  }
  if (k < 0 || k > s.d[axis].n) {
    b_fail(b, TPU_RUNTIME, "selected index k out of range");
    return BAD;
  }
  int64_t lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK];
  for (int i = 0; i < s.rank; i++) hi[i] = s.d[i].n;
  hi[axis] = k;
  s.d[axis] = (ir_dim){k, 0};
  if (index) *index = ir_slice_raw(b, at, lo, hi, NULL, &s);
  return ir_slice_raw(b, v, lo, hi, NULL, &s);
}
