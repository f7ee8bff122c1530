/* Types: asking for shapes and sizes, promotion, broadcasting two or more values together. */
#include <stdio.h>

#include "ir/graph.h"

/* --- asking --- */

tpu_dtype b_dtype(const B *b, Val v) {
  const ir_node *n = ir_nd(b, v);
  return n->dt < 0 ? DT_F32 : (tpu_dtype)n->dt;
}

int b_rank(const B *b, Val v) { return ir_nd(b, v)->s->rank; }
const shape *b_shape(const B *b, Val v) { return ir_nd(b, v)->s; }

int axis_norm(B *b, int64_t axis, int rank) {
  int r = rank ? rank : 1;
  if (axis >= -r && axis < r) return (int)(axis < 0 ? axis + r : axis);
  b_fail(b, TPU_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -r,
         r - 1, (long long)axis);
  return 0;
}

/* The dim, or a static 1 when the axis does not exist (axis 0 of a scalar, or after an error). */
static ir_dim dim_at(const B *b, Val v, int axis) {
  const shape *s = b_shape(b, v);
  return axis >= 0 && axis < s->rank ? s->d[axis] : (ir_dim){1, 0};
}

int64_t b_dim_static(B *b, Val v, int axis) {
  ir_dim d = dim_at(b, v, axis);
  if (!d.sym) return d.n;
  b_fail(b, TPU_NOT_IMPLEMENTED, "the size of a generic dim is asked for as a number");
  return 1;
}

int64_t b_numel_static(B *b, Val v) {
  int64_t n = 1;
  for (int i = 0; i < b_rank(b, v); i++) n *= b_dim_static(b, v, i);
  return n;
}

bool b_dim_is_generic(const B *b, Val v, int axis) { return dim_at(b, v, axis).sym != 0; }

bool b_is_generic(const B *b, Val v) {
  const shape *s = b_shape(b, v);
  for (int i = 0; i < s->rank; i++)
    if (s->d[i].sym) return true;
  return false;
}

static Val dim_size(B *b, ir_dim d, tpu_dtype dt) {
  return d.sym ? b_cast(b, b_symbol_size(b, d.sym), dt) : b_const_i(b, dt, d.n);
}

Val b_size(B *b, Val v, int axis, tpu_dtype dt) {
  return ir_bad(b, v) ? BAD : dim_size(b, dim_at(b, v, axis), dt);
}

Val b_count(B *b, Val x, uint32_t axes, tpu_dtype dt) {
  if (ir_bad(b, x)) return BAD;
  const shape *s = b_shape(b, x);
  int64_t fixed = 1;
  Val r = BAD;
  for (int i = 0; i < s->rank; i++) {
    if (!(axes >> i & 1)) continue;
    if (!s->d[i].sym) {
      fixed *= s->d[i].n;
      continue;
    }
    Val n = dim_size(b, s->d[i], dt);
    r = r < 0 ? n : b_mul(b, r, n);
  }
  if (r < 0) return b_const_i(b, dt, fixed);
  return fixed == 1 ? r : b_mul(b, r, b_const_i(b, dt, fixed));
}

Val b_numel(B *b, Val v, tpu_dtype dt) { return b_count(b, v, axes_all(b_rank(b, v)), dt); }

shape shape_of(int rank, const int64_t *dims) {
  shape s = {.rank = rank};
  for (int i = 0; i < rank; i++) s.d[i].n = dims[i];
  return s;
}

int64_t ir_numel_phys(const shape *s) {
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++) n *= s->d[i].n;
  return n;
}

uint32_t axes_all(int rank) { return rank >= 32 ? 0xffffffffu : (1u << rank) - 1; }

void ir_shape_text(const shape *s, char *buf, size_t n) {
  size_t k = (size_t)snprintf(buf, n, "[");
  for (int i = 0; i < s->rank && k < n; i++)
    k += (size_t)snprintf(buf + k, n - k, s->d[i].sym ? "%s?%lld" : "%s%lld", i ? ", " : "",
                          (long long)s->d[i].n);
  if (k < n) snprintf(buf + k, n - k, "]");
}

/* --- promotion --- */

bool ir_promote(B *b, Val *x, Val *y) {
  if (ir_bad(b, *x) || ir_bad(b, *y)) return false;
  tpu_dtype p = b_dtype(b, *x), q = b_dtype(b, *y);
  if (p == q) return true;
  tpu_dtype dt = dt_promote(p, q);
  if (dt == DT_NONE) {
    b_fail(b, TPU_RUNTIME, "Promotion for %s and %s is not supported", tpu_dtype_torch_name(p),
           tpu_dtype_torch_name(q));
    return false;
  }
  *x = b_cast(b, *x, dt);
  *y = b_cast(b, *y, dt);
  return b_ok(b);
}

/* --- broadcasting --- */

bool ir_dim_same(ir_dim a, ir_dim c) { return a.n == c.n && a.sym == c.sym; }

/* The common dim of two; `at` is the axis of the result, for the message. */
static ir_dim join(B *b, ir_dim p, ir_dim q, int at) {
  if (p.sym && p.sym == q.sym)
    return p.n <= q.n ? p : q; /* one size, two rungs: both are cut to the smaller */
  if (ir_dim_same(p, q)) return p;
  if (!p.sym && p.n == 1) return q;
  if (!q.sym && q.n == 1) return p;
  if (p.sym || q.sym)
    b_fail(b, TPU_NOT_IMPLEMENTED, "broadcast of a generic dim with a dim of another size");
  else
    b_fail(b, TPU_RUNTIME,
           "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d",
           (long long)p.n, (long long)q.n, at);
  return p;
}

static shape join_shapes(B *b, const shape *p, const shape *q) {
  shape r = {.rank = p->rank > q->rank ? p->rank : q->rank};
  for (int i = 0; i < r.rank; i++) {
    int ip = i - (r.rank - p->rank), iq = i - (r.rank - q->rank);
    if (ip < 0)
      r.d[i] = q->d[iq];
    else if (iq < 0)
      r.d[i] = p->d[ip];
    else
      r.d[i] = join(b, p->d[ip], q->d[iq], i);
  }
  return r;
}

shape b_broadcast_shape(B *b, Val x, Val y) {
  if (ir_bad(b, x) || ir_bad(b, y)) return (shape){0};
  return join_shapes(b, b_shape(b, x), b_shape(b, y));
}

bool ir_match(B *b, Val *vs, int n, shape *out) {
  for (int i = 0; i < n; i++)
    if (ir_bad(b, vs[i])) return false;
  bool equal = true;
  for (int i = 1; i < n; i++) equal = equal && b_shape(b, vs[i]) == b_shape(b, vs[0]);
  if (equal) {
    *out = *b_shape(b, vs[0]);
    return true;
  }
  shape s = *b_shape(b, vs[0]);
  for (int i = 1; i < n; i++) s = join_shapes(b, &s, b_shape(b, vs[i]));
  if (b->err) return false;
  for (int i = 0; i < n; i++) vs[i] = b_broadcast_to(b, vs[i], &s);
  *out = s;
  return b_ok(b);
}

uint32_t ir_zero_axes(const B *b, Val x) {
  const ir_node *n = ir_nd(b, x);
  double v;
  return n->op == IR_CONST && b_const_value(b, x, &v) && v == 0 ? ~0u : n->zero;
}

Val ir_resize_axis(B *b, Val x, int axis, int64_t n) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  int64_t lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK] = {0};
  if (s.d[axis].n == n) return x;
  uint32_t zero = ir_zero_axes(b, x) | (s.d[axis].sym ? 0 : 1u << axis); /* the new padding is 0 */
  hi[axis] = n - s.d[axis].n;                                            /* negative: cut */
  s.d[axis].n = n;
  Val v = ir_pad_raw(b, x, lo, hi, NULL, b_like(b, x, 0), &s);
  if (v >= 0) b->nodes.p[v].zero |= zero;
  return v;
}
