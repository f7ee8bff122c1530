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

/* A key in which padding comes last; ties with data are safe, since the sort is stable and padding stands
 * behind. */
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
  ir_spec sp = {.op = IR_SORT,
                .dt = dts[0],
                .s = shapes[0],
                .ops = w,
                .nops = n,
                .nattr = (int)t->n,
                .nres = n,
                .dts = dts,
                .shapes = shapes};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  sp.tag = 2 * nkeys + descending;
  Val o = ir_lookup(b, &sp);
  if (o < 0 && !b->err) {
    int region = sort_region(b, dts, n, nkeys, descending);
    o = ir_add(b, &sp, region, 0);
  }
  for (int i = 0; i < n && o >= 0; i++) outs[i] = ir_result(o, n, i);
}

/* --- one key: on CPU a sort of a single integer operand goes to a fast library --- */

/* x as signed integers of the same order (equal where torch says equal), of 32 or 64 bits. */
static Val order_key(B *b, Val x) {
  tpu_dtype dt = b_dtype(b, x);
  bool wide = dt_bytes(dt) == 8;
  tpu_dtype key = wide ? DT_I64 : DT_I32;
  if (dt == DT_U32 || dt == DT_U64) return b_xor(b, b_bitcast(b, x, key), b_min_value(b, key));
  if (!dt_is_float(dt)) return b_cast(b, x, key);
  x = b_cast(b, x, dt_acc(dt));
  x = b_select(b, b_isnan(b, x), b_like(b, x, NAN),
               b_select(b, b_eq(b, x, b_like(b, x, 0)), b_like(b, x, 0), x));
  Val bits = b_bitcast(b, x, key), sign = b_shra(b, bits, b_const_i(b, key, wide ? 63 : 31));
  return b_xor(b, bits, b_and(b, sign, b_max_value(b, key)));
}

/* The stable order of I32 keys along axis, I32: key and place make one I64. */
static Val order_of(B *b, Val key, int axis) {
  Val place = b_iota(b, DT_I64, b_shape(b, key), axis), out;
  Val packed = b_or(b, b_shl(b, b_cast(b, key, DT_I64), b_const_i(b, DT_I64, 32)), place);
  b_sort_multi(b, &packed, 1, 1, axis, false, &out);
  return b_cast(b, out, DT_I32);
}

/* 64-bit keys: by the low half, then by the high half. */
static Val packed_order(B *b, Val x, int axis, bool descending) {
  Val key = order_key(b, x);
  if (descending) key = b_not(b, key);
  if (b->err) return BAD;
  key = b_mask_pad(b, key, 1u << axis, b_max_value(b, b_dtype(b, key)));
  if (b_dtype(b, key) == DT_I32) return order_of(b, key, axis);
  Val half = b_const_i(b, DT_I64, 32), low = b_xor(b, b_cast(b, key, DT_I32), b_min_value(b, DT_I32));
  Val first = order_of(b, low, axis), high = b_cast(b, b_shra(b, key, half), DT_I32);
  return b_gather_axis(b, first, order_of(b, b_gather_axis(b, high, first, axis), axis), axis);
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
  if (!b->plain && !dt_is_complex(dt) && ir_numel_phys(s) && (index || dt_is_float(dt))) {
    Val order = packed_order(b, x, axis, descending);
    if (index) *index = b_cast(b, order, DT_I64);
    return b_gather_axis(b, x, order, axis);
  }
  Val out[2], in[2] = {b_cast(b, x, key), index ? b_iota(b, DT_I32, s, axis) : BAD};
  b_sort_multi(b, in, index ? 2 : 1, 1, axis, descending, out);
  if (index) *index = b_cast(b, out[1], DT_I64);
  return b_cast(b, out[0], dt);
}

/* --- top-k --- */

/* The op takes the greatest along the last axis by a total order of the bits. */
static Val top_k_node(B *b, Val x, int64_t k) {
  shape s = *b_shape(b, x);
  s.d[s.rank - 1] = (ir_dim){k, 0};
  const shape *rs = ir_intern(b, &s);
  text *t = ir_attr(b);
  text_printf(t, "k = %lld : i64", (long long)k);
  ir_spec sp = {.op = IR_TOP_K, .dt = DT_F32, .s = rs, .ops = &x, .nops = 1, .nattr = (int)t->n, .nres = 2};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  sp.dts = (tpu_dtype[]){DT_F32, DT_I32};
  sp.shapes = (const shape *[]){rs, rs};
  Val o = ir_lookup(b, &sp);
  if (o < 0 && !b->err) o = ir_add(b, &sp, 0, 0);
  return o < 0 ? BAD : ir_result(o, 2, 1);
}

/* Floats of up to 32 bits; on CPU only where k is a small part of the axis. The places, I32. */
static Val top_places(B *b, Val x, int64_t k, int axis, bool largest) {
  int last = b_rank(b, x) - 1;
  Val v = b_cast(b, x, DT_F32), nan = b_const(b, DT_F32, NAN);
  v = b_select(b, b_eq(b, v, b_like(b, v, 0)), b_like(b, v, 0), v);
  if (!largest) {
    v = b_neg(b, v);
    nan = b_bitcast(b, b_const_i(b, DT_I32, (int32_t)0xffc00000u), DT_F32); /* the least of all */
  }
  v = b_select(b, b_isnan(b, v), nan, v);
  v = b_mask_pad(b, v, 1u << axis, largest ? b_const(b, DT_F32, -INFINITY) : nan);
  if (b->err) return BAD;
  return b_swap(b, top_k_node(b, b_swap(b, v, axis, last), k), axis, last);
}

enum {
  TOP_K_PART = 8
}; /* above n / 8 the sort is faster (f32[1000,1000] on CPU: k = 5 2 ms, k = 500 121, sort 45) */

Val b_topk(B *b, Val x, int64_t k, int axis, bool largest, Val *index) {
  if (index) *index = BAD;
  if (ir_bad(b, x)) return BAD;
  tpu_dtype dt = b_dtype(b, x);
  const shape *xs = b_shape(b, x);
  axis = axis_norm(b, axis, xs->rank);
  if (!b->err && xs->rank && dt_is_float(dt) && dt != DT_F64 && k > 0 &&
      (b->plain || k <= xs->d[axis].n / TOP_K_PART)) {
    Val places = top_places(b, x, k, axis, largest);
    if (index) *index = b_cast(b, places, DT_I64);
    return b_gather_axis(b, x, places, axis);
  }
  Val at, v = b_sort(b, x, axis, largest, &at);
  if (v < 0) return BAD;
  shape s = *b_shape(b, v);
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
