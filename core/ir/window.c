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
