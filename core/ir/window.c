/* Windows: reduce_window, and max pooling with the index of the maximum. */
#include "ir/graph.h"

static int64_t at_least_1(int64_t v) { return v > 0 ? v : 1; }

/* Defaults filled in, the result's shape worked out; generic dims must not be windowed. */
static bool window_shape(B *b, const shape *x, const b_window *w, b_window *full, shape *out) {
  *full = *w;
  *out = *x;
  for (int i = 0; i < x->rank; i++) {
    int64_t *size = &full->size[i], *stride = &full->stride[i], *bd = &full->base_dilation[i],
            *wd = &full->window_dilation[i];
    *size = at_least_1(*size);
    *stride = at_least_1(*stride);
    *bd = at_least_1(*bd);
    *wd = at_least_1(*wd);
    bool plain = *size == 1 && *stride == 1 && *bd == 1 && !w->lo[i] && !w->hi[i];
    if (plain) continue;
    if (x->d[i].sym) {
      b_fail(b, TPU_NOT_IMPLEMENTED, "a window over a generic dim");
      return false;
    }
    int64_t n = x->d[i].n, base = (n ? (n - 1) * *bd + 1 : 0) + w->lo[i] + w->hi[i],
            span = (*size - 1) * *wd + 1;
    out->d[i].n = base < span ? 0 : (base - span) / *stride + 1;
  }
  return true;
}

static void window_attr(text *t, const b_window *w, int rank) {
  ir_attr_i64s(t, "base_dilations", w->base_dilation, rank);
  text_str(t, ", padding = dense<[");
  for (int i = 0; i < rank; i++)
    text_printf(t, "%s[%lld, %lld]", i ? ", " : "", (long long)w->lo[i], (long long)w->hi[i]);
  text_printf(t, "]> : tensor<%dx2xi64>", rank);
  ir_attr_i64s(t, "window_dilations", w->window_dilation, rank);
  ir_attr_i64s(t, "window_dimensions", w->size, rank);
  ir_attr_i64s(t, "window_strides", w->stride, rank);
}

/* The node itself; x and the result are of the dtype to accumulate in. The plain combiner: windows keep NaN.
 */
Val ir_window(B *b, b_red kind, Val x, const b_window *full, const shape *s) {
  Val ops[2] = {x, ir_red_identity(b, kind, b_dtype(b, x))};
  if (ir_bad(b, x) || ir_bad(b, ops[1])) return BAD;
  text *t = ir_attr(b);
  window_attr(t, full, s->rank);
  ir_spec sp = {.op = IR_WINDOW,
                .dt = b_dtype(b, x),
                .s = ir_intern(b, s),
                .ops = ops,
                .nops = 2,
                .tag = 1 + (int)kind,
                .nattr = (int)t->n};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  Val v = ir_lookup(b, &sp);
  if (v >= 0 || b->err) return v;
  int region = ir_red_region(b, kind, sp.dt);
  return ir_add(b, &sp, region, 0);
}

Val b_reduce_window(B *b, b_red kind, Val x, const b_window *w) {
  if (ir_bad(b, x)) return BAD;
  tpu_dtype dt = b_dtype(b, x);
  b_window full;
  shape s;
  const shape *xs = b_shape(b, x);
  if (!ir_red_ok(b, kind, dt) || !window_shape(b, xs, w, &full, &s)) return BAD;
  if (!xs->rank) return x;
  if (ir_numel_phys(&s) == 0) return b_zeros(b, dt, &s);
  if (ir_numel_phys(xs) == 0) return b_full(b, &s, ir_red_identity(b, kind, dt));
  return b_cast(b, ir_window(b, kind, b_cast(b, x, dt_acc(dt)), &full, &s), dt);
}

/* --- max with index --- */

/* The elements of x that window position `at` sees, one per window: a strided slice of the padded x. */
static Val window_slice(B *b, Val padded, const b_window *w, const int64_t *at, const shape *out) {
  int64_t lo[IR_MAX_RANK], hi[IR_MAX_RANK];
  for (int i = 0; i < out->rank; i++) {
    lo[i] = at[i] * w->window_dilation[i];
    hi[i] = lo[i] + (out->d[i].n - 1) * w->stride[i] + 1;
  }
  return ir_slice_raw(b, padded, lo, hi, w->stride, out);
}

/* Row-major position of every element over the last `spatial` dims. */
static Val flat_positions(B *b, const shape *s, int spatial) {
  shape line = {.rank = spatial};
  memcpy(line.d, s->d + s->rank - spatial, (size_t)spatial * sizeof line.d[0]);
  int where[IR_MAX_RANK];
  for (int i = 0; i < spatial; i++) where[i] = s->rank - spatial + i;
  int64_t n = ir_numel_phys(&line);
  shape flat = shape_of(1, &n);
  return b_broadcast_dims(b, b_reshape(b, b_iota(b, DT_I32, &flat, 0), &line), s, where);
}

static bool next_position(const b_window *w, int rank, int64_t *at) {
  for (int i = rank - 1; i >= 0; i--) {
    if (++at[i] < w->size[i]) return true;
    at[i] = 0;
  }
  return false;
}

/* The maximum by reduce_window; its index by comparing every window position with it, unrolled into strided
 * slices: the first position that equals it, or as in torch the last NaN. (A chain of selects over the values
 * themselves is torch's own loop, but LLVM needs time exponential in its length for some element types.) */
Val b_max_window_index(B *b, Val x, const b_window *w, int spatial, Val *index) {
  *index = BAD;
  if (ir_bad(b, x)) return BAD;
  tpu_dtype dt = b_dtype(b, x);
  shape xs = *b_shape(b, x), s;
  b_window full;
  if (!ir_red_ok(b, RED_MAX, dt) || !window_shape(b, &xs, w, &full, &s)) return BAD;
  for (int i = xs.rank - spatial; i < xs.rank; i++)
    if (xs.d[i].sym) b_fail(b, TPU_NOT_IMPLEMENTED, "a window over a generic dim");
  if (ir_numel_phys(&s) == 0) {
    *index = b_zeros(b, DT_I64, &s);
    return b_zeros(b, dt, &s);
  }
  shape padded = xs;
  int64_t in[IR_MAX_RANK] = {0}, at[IR_MAX_RANK] = {0};
  for (int i = 0; i < xs.rank; i++) {
    in[i] = full.base_dilation[i] - 1;
    if (!padded.d[i].sym)
      padded.d[i].n = (xs.d[i].n ? (xs.d[i].n - 1) * (in[i] + 1) + 1 : 0) + full.lo[i] + full.hi[i];
  }
  Val best = ir_window(b, RED_MAX, b_cast(b, x, dt_acc(dt)), &full, &s),
      none = b_const_i(b, DT_I32, INT32_MAX);
  Val v = ir_pad_raw(b, b_cast(b, x, dt_acc(dt)), full.lo, full.hi, in, b_min_value(b, dt_acc(dt)), &padded);
  Val pos = ir_pad_raw(b, flat_positions(b, &xs, spatial), full.lo, full.hi, in, none, &padded);
  Val first = none, last_nan = b_const_i(b, DT_I32, -1);
  do {
    Val here = window_slice(b, v, &full, at, &s), index_here = window_slice(b, pos, &full, at, &s);
    first = b_minimum(b, first, b_select(b, b_eq(b, here, best), index_here, none));
    if (dt_is_float(dt))
      last_nan = b_maximum(b, last_nan, b_select(b, b_isnan(b, here), index_here, b_const_i(b, DT_I32, -1)));
  } while (next_position(&full, xs.rank, at) && !b->err);
  if (dt_is_float(dt)) first = b_select(b, b_ge(b, last_nan, b_const_i(b, DT_I32, 0)), last_nan, first);
  *index = b_cast(b, first, DT_I64);
  return b_cast(b, best, dt);
}
