/* Reductions: sum and kin, mean, argmax, cumulative scans. */
#include <math.h>

#include "ir/graph.h"

/* --- combiners --- */

static const int red_op[] = {[RED_SUM] = OP_ADD,     [RED_PROD] = OP_MUL, [RED_MAX] = OP_MAXIMUM,
                             [RED_MIN] = OP_MINIMUM, [RED_AND] = OP_AND,  [RED_OR] = OP_OR,
                             [RED_XOR] = OP_XOR};

bool ir_red_ok(B *b, b_red kind, tpu_dtype dt) {
  bool order = kind == RED_MAX || kind == RED_MIN, bits = kind >= RED_AND;
  if ((!order || !dt_is_complex(dt)) && (!bits || dt_is_integral(dt))) return true;
  b_fail(b, TPU_NOT_IMPLEMENTED, "this reduction is not implemented for '%s'", tpu_dtype_torch_name(dt));
  return false;
}

Val ir_red_identity(B *b, b_red kind, tpu_dtype dt) {
  switch (kind) {
  case RED_PROD: return b_const(b, dt, 1);
  case RED_MAX: return b_min_value(b, dt);
  case RED_MIN: return b_max_value(b, dt);
  case RED_AND: return b_const_i(b, dt, -1);
  default: return b_const(b, dt, 0);
  }
}

int ir_red_region(B *b, b_red kind, tpu_dtype dt) {
  int r = ir_region_open(b, true);
  Val p = ir_arg(b, dt, &ir_scalar), q = ir_arg(b, dt, &ir_scalar);
  Val v = b_binary(b, red_op[kind], p, q);
  ir_region_close(b, &v, 1);
  return r;
}

/* --- reduce --- */

/* The shape without the reduced axes; `list` receives them. */
static shape reduced(const shape *s, uint32_t axes, int64_t *list, int *n) {
  shape r = {0};
  *n = 0;
  for (int i = 0; i < s->rank; i++) {
    if (axes >> i & 1)
      list[(*n)++] = i;
    else
      r.d[r.rank++] = s->d[i];
  }
  return r;
}

static Val keep_dims(B *b, Val v, const shape *s, uint32_t axes) {
  shape k = *s;
  for (int i = 0; i < k.rank; i++)
    if (axes >> i & 1) k.d[i] = (ir_dim){1, 0};
  return b_reshape(b, v, &k);
}

static Val reduce_node(B *b, b_red kind, Val x, uint32_t axes) {
  const shape *s = b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x);
  int64_t list[IR_MAX_RANK];
  int n;
  shape r = reduced(s, axes, list, &n);
  Val ops[2] = {x, ir_red_identity(b, kind, dt)};
  if (ir_bad(b, ops[1])) return BAD;
  text *t = ir_attr(b);
  ir_attr_i64s(t, "dimensions", list, n);
  ir_spec sp = {.op = IR_REDUCE, .dt = dt, .s = ir_intern(b, &r), .ops = ops, .nops = 2, .nattr = (int)t->n};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  sp.tag = 1 + (int)kind;
  Val v = ir_lookup(b, &sp);
  if (v >= 0 || b->err) return v;
  int region = ir_red_region(b, kind, dt);
  return ir_add(b, &sp, region, 0);
}

/* max and min of floats on CPU: the plain form goes to a library that drops NaN whatever the flags say, so a
 * second reduction looks for NaN. A combiner select(p > q or p != p, p, q) keeps NaN in one pass, and is
 * faster over one axis (f32[1024,1024]: 196 and 214 us) but slower over several (f32[8,64,32,32] over 0, 2,
 * 3: 337 and 119 us); and with a cast to bf16 behind it LLVM needs time exponential in the length of the
 * axis: bf16[8,16,32] never ended. */
static Val keep_nan_reduce(B *b, b_red kind, Val x, uint32_t axes) {
  Val any = reduce_node(b, RED_OR, b_isnan(b, x), axes), v = reduce_node(b, kind, x, axes);
  return b_select(b, any, b_const(b, b_dtype(b, x), NAN), v);
}

static Val reduce(B *b, b_red kind, Val x, uint32_t axes, bool keepdim, bool loose) {
  if (ir_bad(b, x)) return BAD;
  const shape *s = b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  axes &= axes_all(s->rank);
  if (!ir_red_ok(b, kind, dt)) return BAD;
  if (!axes) return x;
  Val v = b_cast(b, b_mask_pad(b, x, axes, ir_red_identity(b, kind, dt)), acc);
  bool nan = (kind == RED_MAX || kind == RED_MIN) && dt_is_float(acc) && !b->plain && !loose;
  v = b_cast(b, nan ? keep_nan_reduce(b, kind, v, axes) : reduce_node(b, kind, v, axes), dt);
  return keepdim ? keep_dims(b, v, s, axes) : v;
}

Val b_reduce(B *b, b_red kind, Val x, uint32_t axes, bool keepdim) {
  return reduce(b, kind, x, axes, keepdim, false);
}
Val b_max_loose(B *b, Val x, uint32_t axes, bool keepdim) {
  return reduce(b, RED_MAX, x, axes, keepdim, true);
}

Val b_sum(B *b, Val x, uint32_t axes, bool keepdim) { return b_reduce(b, RED_SUM, x, axes, keepdim); }
Val b_max(B *b, Val x, uint32_t axes, bool keepdim) { return b_reduce(b, RED_MAX, x, axes, keepdim); }
Val b_min(B *b, Val x, uint32_t axes, bool keepdim) { return b_reduce(b, RED_MIN, x, axes, keepdim); }

Val b_mean(B *b, Val x, uint32_t axes, bool keepdim) {
  if (ir_bad(b, x)) return BAD;
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  if (dt_is_integral(dt)) {
    b_fail(b, TPU_RUNTIME,
           "mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
           "dtype. Got: %s",
           tpu_dtype_torch_name(dt));
    return BAD;
  }
  Val sum = b_sum(b, b_cast(b, x, acc), axes, keepdim);
  Val count = b_cast(b, b_count(b, x, axes, dt_real(acc)), acc);
  return b_cast(b, b_div(b, sum, count), dt);
}

/* --- argmax, argmin --- */

/* Among (value, index) pairs: the better value, NaN before all, then the smaller index. */
static int arg_region(B *b, bool max, tpu_dtype dt) {
  int r = ir_region_open(b, true);
  Val pv = ir_arg(b, dt, &ir_scalar), pi = ir_arg(b, DT_I32, &ir_scalar);
  Val qv = ir_arg(b, dt, &ir_scalar), qi = ir_arg(b, DT_I32, &ir_scalar);
  Val better = b_cmp(b, max ? CMP_GT : CMP_LT, pv, qv), equal = b_eq(b, pv, qv);
  if (dt_is_float(dt)) {
    Val pn = b_ne(b, pv, pv), qn = b_ne(b, qv, qv);
    better = b_or(b, better, b_and(b, pn, b_not(b, qn)));
    equal = b_or(b, equal, b_and(b, pn, qn));
  }
  Val pick = b_or(b, better, b_and(b, equal, b_lt(b, pi, qi)));
  Val res[2] = {b_select(b, pick, pv, qv), b_select(b, pick, pi, qi)};
  ir_region_close(b, res, 2);
  return r;
}

/* On CPU a reduction of pairs is five to ten times slower than two plain ones: the extreme, then the first
 * place that equals it. */
static Val two_step_arg(B *b, b_red kind, Val x, int axis, bool keepdim, Val *value) {
  Val best = b_reduce(b, kind, x, 1u << axis, true);
  Val hit = b_or(b, b_eq(b, x, best), b_isnan(b, x));
  Val at = b_select(b, hit, b_iota(b, DT_I32, b_shape(b, x), axis), b_const_i(b, DT_I32, INT32_MAX));
  if (value) *value = keepdim ? best : b_squeeze(b, best, axis);
  return b_cast(b, b_min(b, at, 1u << axis, keepdim), DT_I64);
}

Val b_argreduce(B *b, bool max, Val x, int axis, bool keepdim, Val *value) {
  if (value) *value = BAD;
  if (ir_bad(b, x)) return BAD;
  const shape *s = b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x), acc = dt == DT_BOOL ? DT_I32 : dt_acc(dt);
  axis = axis_norm(b, axis, s->rank);
  b_red kind = max ? RED_MAX : RED_MIN;
  if (b->err || !ir_red_ok(b, kind, dt)) return BAD;
  if (!s->rank) {
    if (value) *value = x;
    return b_const_i(b, DT_I64, 0);
  }
  if (!b->plain) return two_step_arg(b, kind, x, axis, keepdim, value);
  Val lowest = ir_red_identity(b, kind, acc);
  Val v = b_mask_pad(b, b_cast(b, x, acc), 1u << axis, lowest);
  Val ops[4] = {v, b_iota(b, DT_I32, s, axis), lowest, b_const_i(b, DT_I32, INT32_MAX)};
  int64_t list[IR_MAX_RANK];
  int n;
  shape r = reduced(s, 1u << axis, list, &n);
  if (b->err) return BAD;
  const shape *rs = ir_intern(b, &r);
  text *t = ir_attr(b);
  ir_attr_i64s(t, "dimensions", list, n);
  ir_spec sp = {.op = IR_REDUCE, .ops = ops, .nops = 4, .nattr = (int)t->n, .tag = 100 + max, .nres = 2};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  sp.dts = (tpu_dtype[]){acc, DT_I32};
  sp.shapes = (const shape *[]){rs, rs};
  Val o = ir_lookup(b, &sp);
  if (o < 0) {
    int region = arg_region(b, max, acc);
    o = ir_add(b, &sp, region, 0);
  }
  Val best = b_cast(b, ir_result(o, 2, 0), dt), index = b_cast(b, ir_result(o, 2, 1), DT_I64);
  if (value) *value = keepdim ? keep_dims(b, best, s, 1u << axis) : best;
  return keepdim ? keep_dims(b, index, s, 1u << axis) : index;
}

/* --- cumulative --- */

/* A window as long as the axis. The plugins rewrite that into a tree: f32[64,10000] takes 1.6 ms on CPU,
 * where log-step additions of shifted copies take 80. Padding of a generic axis is behind the data: it
 * matters only in reverse. */
static Val scan(B *b, b_red kind, Val x, int axis, bool reverse) {
  const shape *s = b_shape(b, x);
  int64_t n = s->d[axis].n;
  if (n < 2 || ir_numel_phys(s) == 0) return x;
  b_window w = {0};
  for (int i = 0; i < s->rank; i++) w.size[i] = w.stride[i] = w.base_dilation[i] = w.window_dilation[i] = 1;
  w.size[axis] = n;
  (reverse ? w.hi : w.lo)[axis] = n - 1;
  return ir_window(b, kind, x, &w, s);
}

Val b_cumulative(B *b, b_red kind, Val x, int axis, bool reverse) {
  if (ir_bad(b, x)) return BAD;
  const shape *s = b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  axis = axis_norm(b, axis, s->rank);
  if (b->err || !ir_red_ok(b, kind, dt)) return BAD;
  if (!s->rank) return x;
  Val v = b_cast(b, x, acc);
  if (reverse) v = b_mask_pad(b, v, 1u << axis, ir_red_identity(b, kind, acc));
  return b_cast(b, scan(b, kind, v, axis, reverse), dt);
}

/* An element is the latest extreme when it equals the scan up to it (or is NaN); the index is the latest such
 * place, which is again a scan. */
Val b_cum_arg(B *b, bool max, Val x, int axis, Val *value) {
  if (value) *value = BAD;
  if (ir_bad(b, x)) return BAD;
  const shape *s = b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x), acc = dt == DT_BOOL ? DT_U8 : dt_acc(dt);
  axis = axis_norm(b, axis, s->rank);
  b_red kind = max ? RED_MAX : RED_MIN;
  if (b->err || !ir_red_ok(b, kind, dt)) return BAD;
  if (!s->rank) {
    if (value) *value = x;
    return b_const_i(b, DT_I64, 0);
  }
  Val v = b_cast(b, x, acc), best = scan(b, kind, v, axis, false);
  Val here = b_or(b, b_eq(b, v, best), b_isnan(b, v));
  Val at = b_select(b, here, b_iota(b, DT_I32, s, axis), b_const_i(b, DT_I32, 0));
  if (value) *value = b_cast(b, best, dt);
  return b_cast(b, scan(b, RED_MAX, at, axis, false), DT_I64);
}
