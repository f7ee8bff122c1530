/* Windows: reduce_window, and max pooling with the index of the maximum. */
#include "ir/graph.h"

static int64_t at_least_1(int64_t v) { return v > 0 ? v : 1; }

/* Defaults filled in, the result's shape worked out; generic dims must not be windowed. */
static bool window_shape(B *b, const shape *x, const b_window *w, b_window *full, shape *out) {
  *full = *w;
  *out = *x;
  for (int i = 0; i < x->rank; i++) {
    int64_t *size = &full->size[i], *stride = &full->stride[i], *bd = &full->base_dilation[i], *wd = &full->window_dilation[i];
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
    int64_t n = x->d[i].n, base = (n ? (n - 1) * *bd + 1 : 0) + w->lo[i] + w->hi[i], span = (*size - 1) * *wd + 1;
    out->d[i].n = base < span ? 0 : (base - span) / *stride + 1;
  }
  return true;
}

static void window_attr(text *t, const b_window *w, int rank) {
  ir_attr_i64s(t, "base_dilations", w->base_dilation, rank);
  text_str(t, ", padding = dense<[");
  for (int i = 0; i < rank; i++) text_printf(t, "%s[%lld, %lld]", i ? ", " : "", (long long)w->lo[i], (long long)w->hi[i]);
  text_printf(t, "]> : tensor<%dx2xi64>", rank);
  ir_attr_i64s(t, "window_dilations", w->window_dilation, rank);
  ir_attr_i64s(t, "window_dimensions", w->size, rank);
  ir_attr_i64s(t, "window_strides", w->stride, rank);
}

Val b_reduce_window(B *b, b_red kind, Val x, const b_window *w) {
  if (ir_bad(b, x)) return BAD;
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  b_window full;
  shape s;
  const shape *xs = b_shape(b, x);
  if (!ir_red_ok(b, kind, dt) || !window_shape(b, xs, w, &full, &s)) return BAD;
  if (!xs->rank) return x;
  Val ops[2] = {b_cast(b, x, acc), ir_red_identity(b, kind, acc)};
  if (ir_numel_phys(&s) == 0) return b_zeros(b, dt, &s);
  if (ir_numel_phys(xs) == 0) return b_full(b, &s, ir_red_identity(b, kind, dt));
  bool nan = dt_is_float(acc) && (kind == RED_MAX || kind == RED_MIN);
  if (b->err) return BAD;
  text *t = ir_attr(b);
  window_attr(t, &full, xs->rank);
  ir_spec sp = {.op = IR_WINDOW, .dt = acc, .s = ir_intern(b, &s), .ops = ops, .nops = 2, .tag = 1 + (int)kind, .nattr = (int)t->n};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  Val v = ir_lookup(b, &sp);
  if (v < 0 && !b->err) {
    int region = ir_red_region(b, kind, acc, nan);
    v = ir_add(b, &sp, region, 0);
  }
  return b_cast(b, v, dt);
}

/* --- max with index -------------------------------------------------------------------------------------------------- */

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

/* Windows unrolled into strided slices: torch's own loop, a later element winning when it is greater or NaN, or when
 * nothing but padding (index -1) was seen. */
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
    if (!padded.d[i].sym) padded.d[i].n = (xs.d[i].n ? (xs.d[i].n - 1) * (in[i] + 1) + 1 : 0) + full.lo[i] + full.hi[i];
  }
  Val v = ir_pad_raw(b, x, full.lo, full.hi, in, b_min_value(b, dt), &padded);
  Val pos = ir_pad_raw(b, flat_positions(b, &xs, spatial), full.lo, full.hi, in, b_const_i(b, DT_I32, -1), &padded);
  Val best = window_slice(b, v, &full, at, &s), arg = window_slice(b, pos, &full, at, &s);
  while (next_position(&full, xs.rank, at) && !b->err) {
    Val nv = window_slice(b, v, &full, at, &s), ni = window_slice(b, pos, &full, at, &s);
    Val none = b_lt(b, arg, b_const_i(b, DT_I32, 0));
    Val better = b_or(b, b_gt(b, nv, best), b_and(b, none, b_ge(b, ni, b_const_i(b, DT_I32, 0))));
    if (dt_is_float(dt)) better = b_or(b, better, b_isnan(b, nv));
    best = b_select(b, better, nv, best);
    arg = b_select(b, better, ni, arg);
  }
  *index = b_cast(b, arg, DT_I64);
  return best;
}
