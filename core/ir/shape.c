/* Verbs that move elements without computing: broadcast, reshape, transpose, slice, pad, concatenate, and
 * kin. */
#include <stdlib.h>

#include "ir/graph.h"

static Val set_zero(B *b, Val v, uint32_t zero) {
  if (v >= 0 && !b->err) b->nodes.p[v].zero |= zero;
  return v;
}

/* --- broadcast --- */

static bool broadcast_fits(B *b, const shape *x, const shape *s, const int *where) {
  for (int i = 0; i < x->rank; i++) {
    bool in = where[i] >= 0 && where[i] < s->rank && (!i || where[i] > where[i - 1]);
    if (in && (ir_dim_same(x->d[i], s->d[where[i]]) || (x->d[i].n == 1 && !x->d[i].sym))) continue;
    char p[256], q[256];
    ir_shape_text(x, p, sizeof p);
    ir_shape_text(s, q, sizeof q);
    bool generic = in && (x->d[i].sym || s->d[where[i]].sym);
    b_fail(b, generic ? TPU_NOT_IMPLEMENTED : TPU_RUNTIME,
           "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
           "dimension %d.  "
           "Target sizes: %s.  Tensor sizes: %s",
           in ? (long long)s->d[where[i]].n : -1LL, (long long)x->d[i].n, where[i], q, p);
    return false;
  }
  return true;
}

Val b_broadcast_dims(B *b, Val x, const shape *s, const int *where) {
  if (ir_bad(b, x)) return BAD;
  const ir_node *n = ir_nd(b, x);
  const shape *xs = n->s;
  if (!broadcast_fits(b, xs, s, where)) return BAD;
  if (xs->rank == s->rank && shape_equal(xs, s)) return x;
  if (n->op == IR_CONST && ((n->flags & NF_NUMBER) || !xs->rank)) return ir_splat(b, x, s);
  int64_t dims[IR_MAX_RANK];
  uint32_t zero = 0;
  for (int i = 0; i < xs->rank; i++) {
    dims[i] = where[i];
    if (n->zero >> i & 1) zero |= 1u << where[i];
  }
  text *t = ir_attr(b);
  ir_attr_i64s(t, "broadcast_dimensions", dims, xs->rank);
  return set_zero(b, ir_opn(b, IR_BROADCAST, b_dtype(b, x), s, &x, 1, t), zero);
}

Val b_broadcast_to(B *b, Val x, const shape *s) {
  if (ir_bad(b, x)) return BAD;
  const shape *xs = b_shape(b, x);
  if (xs == s || shape_equal(xs, s)) return x;
  int rank = xs->rank, lead = s->rank - rank, where[IR_MAX_RANK];
  if (lead < 0) {
    b_fail(b, TPU_RUNTIME,
           "expand: the number of sizes provided (%d) must be greater or equal to the number of dimensions "
           "in the tensor (%d)",
           s->rank, rank);
    return BAD;
  }
  for (int i = 0; i < rank; i++) {
    where[i] = lead + i;
    if (xs->d[i].sym && xs->d[i].sym == s->d[lead + i].sym) x = ir_resize_axis(b, x, i, s->d[lead + i].n);
  }
  return b_broadcast_dims(b, x, s, where);
}

/* --- reshape --- */

/* Whether the generic dims pass through: the same ones in the same order, with equal static products between
 * them. */
static bool generic_pass(const shape *x, const shape *s) {
  int i = 0, j = 0;
  for (;;) {
    int64_t p = 1, q = 1;
    for (; i < x->rank && !x->d[i].sym; i++) p *= x->d[i].n;
    for (; j < s->rank && !s->d[j].sym; j++) q *= s->d[j].n;
    bool xe = i == x->rank, se = j == s->rank;
    if (p != q || xe != se) return false;
    if (xe) return true;
    if (!ir_dim_same(x->d[i++], s->d[j++])) return false;
  }
}

static bool any_sym(const shape *s) {
  for (int i = 0; i < s->rank; i++)
    if (s->d[i].sym) return true;
  return false;
}

static uint32_t reshape_zero(const shape *x, const shape *s, uint32_t zero) {
  uint32_t r = 0;
  for (int i = 0, j = 0; i < x->rank; i++) {
    if (!x->d[i].sym) continue;
    while (!s->d[j].sym) j++;
    if (zero >> i & 1) r |= 1u << j;
    j++;
  }
  return r;
}

Val b_reshape(B *b, Val x, const shape *s) {
  if (ir_bad(b, x)) return BAD;
  const ir_node *n = ir_nd(b, x);
  const shape *xs = n->s;
  if (shape_equal(xs, s)) return x;
  bool generic = any_sym(xs) || any_sym(s);
  if (generic ? !generic_pass(xs, s) : ir_numel_phys(xs) != ir_numel_phys(s)) {
    char q[256];
    ir_shape_text(s, q, sizeof q);
    if (generic)
      b_fail(b, TPU_NOT_IMPLEMENTED, "reshape that merges or splits a generic dim");
    else
      b_fail(b, TPU_RUNTIME, "shape '%s' is invalid for input of size %lld", q, (long long)ir_numel_phys(xs));
    return BAD;
  }
  if (n->op == IR_CONST && (n->flags & NF_NUMBER)) return ir_splat(b, x, s);
  uint32_t zero = reshape_zero(xs, s, n->zero);
  if (n->op == IR_RESHAPE && n->tag != IR_RELABEL) return b_reshape(b, n->ops[0], s);
  return set_zero(b, ir_op1(b, IR_RESHAPE, b_dtype(b, x), s, x), zero);
}

Val b_reshape_to(B *b, Val x, int rank, const int64_t *dims) {
  shape s = shape_of(rank, dims);
  return b_reshape(b, x, &s);
}

Val b_unsqueeze(B *b, Val x, int axis) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  axis = axis_norm(b, axis, s.rank + 1);
  if (b->err) return BAD;
  memmove(s.d + axis + 1, s.d + axis, (size_t)(s.rank - axis) * sizeof s.d[0]);
  s.d[axis] = (ir_dim){1, 0};
  s.rank++;
  return b_reshape(b, x, &s);
}

Val b_squeeze(B *b, Val x, int axis) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  axis = axis_norm(b, axis, s.rank);
  if (b->err || !s.rank) return b->err ? BAD : x;
  if (s.d[axis].n != 1 || s.d[axis].sym) {
    b_fail(b, TPU_INTERNAL, "squeeze of a dim of size %lld", (long long)s.d[axis].n);
    return BAD;
  }
  s.rank--;
  memmove(s.d + axis, s.d + axis + 1, (size_t)(s.rank - axis) * sizeof s.d[0]);
  return b_reshape(b, x, &s);
}

Val b_flatten(B *b, Val x, int from, int to) {
  if (ir_bad(b, x)) return BAD;
  const shape *xs = b_shape(b, x);
  from = axis_norm(b, from, xs->rank);
  to = axis_norm(b, to, xs->rank);
  if (b->err) return BAD;
  shape s = {0};
  for (int i = 0; i < from && i < xs->rank; i++) s.d[s.rank++] = xs->d[i];
  ir_dim m = {1, 0};
  for (int i = from; i <= to && i < xs->rank; i++) {
    m.n *= xs->d[i].n;
    if (xs->d[i].sym) m.sym = xs->d[i].sym; /* fits only when the others are 1: b_reshape sees to that */
  }
  s.d[s.rank++] = m;
  for (int i = to + 1; i < xs->rank; i++) s.d[s.rank++] = xs->d[i];
  return b_reshape(b, x, &s);
}

Val b_transpose(B *b, Val x, const int *perm) {
  if (ir_bad(b, x)) return BAD;
  const ir_node *n = ir_nd(b, x);
  shape s = {.rank = n->s->rank};
  int64_t dims[IR_MAX_RANK];
  uint32_t seen = 0, zero = 0;
  bool same = true;
  for (int i = 0; i < s.rank; i++) {
    int p = perm[i];
    if (p < 0 || p >= s.rank || (seen >> p & 1)) {
      b_fail(b, TPU_INTERNAL, "transpose: not a permutation");
      return BAD;
    }
    seen |= 1u << p;
    dims[i] = p;
    s.d[i] = n->s->d[p];
    same = same && p == i;
    if (n->zero >> p & 1) zero |= 1u << i;
  }
  if (same) return x;
  if (n->op == IR_CONST && (n->flags & NF_NUMBER)) return ir_splat(b, x, &s);
  text *t = ir_attr(b);
  ir_attr_i64s(t, "permutation", dims, s.rank);
  return set_zero(b, ir_opn(b, IR_TRANSPOSE, b_dtype(b, x), &s, &x, 1, t), zero);
}

Val b_swap(B *b, Val x, int p, int q) {
  if (ir_bad(b, x)) return BAD;
  int rank = b_rank(b, x), perm[IR_MAX_RANK];
  p = axis_norm(b, p, rank);
  q = axis_norm(b, q, rank);
  if (b->err || !rank) return b->err ? BAD : x;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[p] = q;
  perm[q] = p;
  return b_transpose(b, x, perm);
}

/* --- slice, pad --- */

Val ir_slice_raw(B *b, Val x, const int64_t *lo, const int64_t *hi, const int64_t *step, const shape *s) {
  if (ir_bad(b, x)) return BAD;
  int64_t ones[IR_MAX_RANK];
  for (int i = 0; i < s->rank; i++) ones[i] = 1;
  const ir_node *n = ir_nd(b, x);
  if (n->op == IR_CONST && (n->flags & NF_NUMBER)) return ir_splat(b, x, s);
  text *t = ir_attr(b);
  ir_attr_i64s(t, "start_indices", lo, s->rank);
  ir_attr_i64s(t, "limit_indices", hi, s->rank);
  ir_attr_i64s(t, "strides", step ? step : ones, s->rank);
  return ir_opn(b, IR_SLICE, b_dtype(b, x), s, &x, 1, t);
}

Val b_slice_nd(B *b, Val x, const int64_t *start, const int64_t *limit, const int64_t *step) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  int64_t lo[IR_MAX_RANK], hi[IR_MAX_RANK], st[IR_MAX_RANK];
  bool whole = true;
  uint32_t zero = ir_nd(b, x)->zero;
  for (int i = 0; i < s.rank; i++) {
    int64_t n = s.d[i].n;
    st[i] = step && step[i] > 0 ? step[i] : 1;
    hi[i] = limit[i] < n ? limit[i] : n;
    lo[i] = start[i] < 0 ? 0 : start[i];
    if (hi[i] < 0) hi[i] = 0;
    if (lo[i] > hi[i]) lo[i] = hi[i];
    if (lo[i] == 0 && hi[i] == n && st[i] == 1) continue;
    whole = false;
    if (s.d[i].sym) b_fail(b, TPU_NOT_IMPLEMENTED, "slice of a generic dim");
    s.d[i].n = (hi[i] - lo[i] + st[i] - 1) / st[i];
  }
  if (b->err || whole) return b->err ? BAD : x;
  return set_zero(b, ir_slice_raw(b, x, lo, hi, st, &s), zero);
}

Val b_slice(B *b, Val x, int axis, int64_t start, int64_t limit, int64_t step) {
  if (ir_bad(b, x)) return BAD;
  int64_t lo[IR_MAX_RANK], hi[IR_MAX_RANK], st[IR_MAX_RANK];
  const shape *s = b_shape(b, x);
  axis = axis_norm(b, axis, s->rank);
  if (b->err || !s->rank) return b->err ? BAD : x;
  for (int i = 0; i < s->rank; i++) {
    bool at = i == axis;
    lo[i] = at ? start : 0;
    hi[i] = at ? limit : s->d[i].n;
    st[i] = at ? step : 1;
  }
  return b_slice_nd(b, x, lo, hi, st);
}

Val ir_pad_raw(B *b, Val x, const int64_t *lo, const int64_t *hi, const int64_t *in, Val value,
               const shape *s) {
  if (ir_bad(b, x) || ir_bad(b, value)) return BAD;
  static const int64_t none[IR_MAX_RANK];
  text *t = ir_attr(b);
  ir_attr_i64s(t, "edge_padding_low", lo, s->rank);
  ir_attr_i64s(t, "edge_padding_high", hi, s->rank);
  ir_attr_i64s(t, "interior_padding", in ? in : none, s->rank);
  return ir_opn(b, IR_PAD, b_dtype(b, x), s, (Val[]){x, value}, 2, t);
}

/* A dim with `in` places between its elements, lo before and hi after them. */
static ir_dim padded(B *b, ir_dim d, int64_t lo, int64_t hi, int64_t in) {
  ir_dim wide = b_dim_map(b, d, in + 1, -in, 1);
  if (wide.n + lo + hi < 0)
    b_fail(b, TPU_RUNTIME, "padding leaves a dim of negative size %lld", (long long)(wide.n + lo + hi));
  if (lo + hi < 0) b_require(b, wide, -lo - hi);
  return b_dim_map(b, wide, 1, lo + hi, 1);
}

Val b_pad(B *b, Val x, const int64_t *lo, const int64_t *hi, const int64_t *interior, Val value) {
  if (ir_bad(b, x) || ir_bad(b, value)) return BAD;
  shape s = *b_shape(b, x);
  uint32_t axes = 0;
  for (int i = 0; i < s.rank; i++) {
    int64_t in = interior ? interior[i] : 0;
    if (!lo[i] && !hi[i] && (!in || (!s.d[i].sym && s.d[i].n < 2))) continue;
    axes |= 1u << i;
    s.d[i] = padded(b, s.d[i], lo[i], hi[i], in);
  }
  if (b->err || !axes) return b->err ? BAD : x;
  value = b_cast(b, value, b_dtype(b, x));
  return ir_pad_raw(b, b_mask_pad(b, x, axes, value), lo, hi, interior, value, &s);
}

Val b_pad_axis(B *b, Val x, int axis, int64_t lo, int64_t hi, Val value) {
  if (ir_bad(b, x)) return BAD;
  int64_t l[IR_MAX_RANK] = {0}, h[IR_MAX_RANK] = {0};
  axis = axis_norm(b, axis, b_rank(b, x));
  l[axis] = lo;
  h[axis] = hi;
  return b_pad(b, x, l, h, NULL, value);
}

/* --- concatenate --- */

/* Checks the operands against each other; brings equal symbols of different rungs to the smaller one. */
static bool concat_shapes(B *b, Val *vs, int n, int axis, shape *out) {
  shape s = *b_shape(b, vs[0]);
  for (int k = 1; k < n; k++) {
    const shape *t = b_shape(b, vs[k]);
    if (t->rank != s.rank) {
      b_fail(b, TPU_RUNTIME, "Tensors must have same number of dimensions: got %d and %d", s.rank, t->rank);
      return false;
    }
    for (int i = 0; i < s.rank; i++) {
      if (i == axis) continue;
      if (s.d[i].sym && s.d[i].sym == t->d[i].sym) {
        if (t->d[i].n < s.d[i].n) s.d[i].n = t->d[i].n;
      } else if (!ir_dim_same(s.d[i], t->d[i])) {
        b_fail(b, s.d[i].sym || t->d[i].sym ? TPU_NOT_IMPLEMENTED : TPU_RUNTIME,
               "Sizes of tensors must match except in dimension %d. Expected size %lld but got size %lld for "
               "tensor number %d in the list.",
               axis, (long long)s.d[i].n, (long long)t->d[i].n, k);
        return false;
      }
    }
    s.d[axis].n += t->d[axis].n;
    if (t->d[axis].sym || s.d[axis].sym) {
      b_fail(b, TPU_NOT_IMPLEMENTED, "concatenation along a generic dim");
      return false;
    }
  }
  for (int k = 0; k < n; k++)
    for (int i = 0; i < s.rank; i++)
      if (i != axis && s.d[i].sym) vs[k] = ir_resize_axis(b, vs[k], i, s.d[i].n);
  *out = s;
  return b_ok(b);
}

Val b_concat(B *b, const Val *vs, int n, int axis) {
  if (b->err) return BAD;
  if (n < 1) {
    b_fail(b, TPU_RUNTIME, "expected a non-empty list of Tensors");
    return BAD;
  }
  Val *w = arena_copy(&b->mem, vs, (size_t)n * sizeof *w);
  Val first = w[0];
  for (int k = 1; k < n; k++) {
    Val other = w[k];
    if (!ir_promote(b, &first, &other)) return BAD;
  }
  if (ir_bad(b, first)) return BAD;
  axis = axis_norm(b, axis, b_rank(b, first));
  if (b->err || !b_rank(b, first)) {
    b_fail(b, TPU_RUNTIME, "zero-dimensional tensors cannot be concatenated");
    return BAD;
  }
  for (int k = 0; k < n; k++) w[k] = b_cast(b, w[k], b_dtype(b, first));
  shape s;
  if (n == 1 || !concat_shapes(b, w, n, axis, &s)) return b->err ? BAD : w[0];
  text *t = ir_attr(b);
  text_printf(t, "dimension = %d : i64", axis);
  return ir_opn(b, IR_CONCAT, b_dtype(b, first), &s, w, n, t);
}

/* Where the padding stays 0: behind a static y, and in other dims when both have it. */
static uint32_t append_zero(const B *b, Val x, Val y, int axis) {
  uint32_t zx = ir_zero_axes(b, x), zy = ir_zero_axes(b, y), at = 1u << axis;
  bool fixed = !b_shape(b, y)->d[axis].sym;
  return (zx & zy & ~at) | (fixed ? zx & at : 0);
}

/* The update must not be clamped: where y's physical size may pass the end, it is written into a longer
 * buffer that is cut. */
Val b_append(B *b, Val x, Val y, int axis, int64_t rung) {
  if (!ir_promote(b, &x, &y)) return BAD;
  shape xs = *b_shape(b, x), ys = *b_shape(b, y);
  axis = axis_norm(b, axis, xs.rank);
  if (b->err || xs.rank != ys.rank || !xs.rank) {
    b_fail(b, TPU_RUNTIME, "Tensors must have same number of dimensions: got %d and %d", xs.rank, ys.rank);
    return BAD;
  }
  Val at = b_size(b, x, axis, DT_I32), size = b_add(b, at, b_size(b, y, axis, DT_I32));
  for (int i = 0; i < xs.rank; i++) {
    if (i == axis || ir_dim_same(xs.d[i], ys.d[i])) continue;
    if (xs.d[i].sym && xs.d[i].sym == ys.d[i].sym)
      y = ir_resize_axis(b, y, i, xs.d[i].n);
    else
      b_fail(b, TPU_NOT_IMPLEMENTED, "append of a value with other dims");
  }
  int64_t room = rung;
  if (ys.d[axis].sym) room += ys.d[axis].n;
  x = ir_resize_axis(b, x, axis, room);
  Val starts[IR_MAX_RANK];
  for (int i = 0; i < xs.rank; i++) starts[i] = i == axis ? at : b_const_i(b, DT_I32, 0);
  if (b->err) return BAD;
  shape s = xs;
  s.d[axis] = (ir_dim){room, b_symbol(b, size)};
  Val ops[2 + IR_MAX_RANK] = {x, y};
  memcpy(ops + 2, starts, (size_t)s.rank * sizeof(Val));
  Val v = ir_opn(b, IR_DYNAMIC_UPDATE, b_dtype(b, x), &s, ops, 2 + s.rank, NULL);
  return ir_resize_axis(b, set_zero(b, v, append_zero(b, x, y, axis)), axis, rung);
}

/* --- reverse, dynamic slices, repetition --- */

Val b_reverse(B *b, Val x, int axis) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  axis = axis_norm(b, axis, s.rank);
  if (b->err || !s.rank) return b->err ? BAD : x;
  text *t = ir_attr(b);
  ir_attr_i64s(t, "dimensions", (int64_t[]){axis}, 1);
  Val v = ir_opn(b, IR_REVERSE, b_dtype(b, x), &s, &x, 1, t);
  if (!s.d[axis].sym || b->err) return v;
  int64_t n = s.d[axis].n, sizes[IR_MAX_RANK]; /* the logical part is now at the end: bring it to the front */
  v = ir_resize_axis(b, v, axis, 2 * n);
  Val ops[1 + IR_MAX_RANK] = {v};
  for (int i = 0; i < s.rank; i++) {
    sizes[i] = s.d[i].n;
    ops[1 + i] = b_const_i(b, DT_I32, 0);
  }
  ops[1 + axis] = b_sub(b, b_const_i(b, DT_I32, n), b_symbol_size(b, s.d[axis].sym));
  t = ir_attr(b);
  ir_attr_i64s(t, "slice_sizes", sizes, s.rank);
  return ir_opn(b, IR_DYNAMIC_SLICE, b_dtype(b, x), &s, ops, 1 + s.rank, t);
}

/* The start indices as scalars of one integer type. */
static bool same_starts(B *b, int rank, const Val *starts, Val *out) {
  tpu_dtype dt = DT_NONE;
  for (int i = 0; i < rank; i++) {
    if (ir_bad(b, starts[i])) return false;
    if (!dt_is_int(b_dtype(b, starts[i])) || b_rank(b, starts[i]))
      b_fail(b, TPU_INTERNAL, "a start index is an integer scalar");
    if (dt == DT_NONE) dt = b_dtype(b, starts[i]);
    if (dt != b_dtype(b, starts[i])) dt = DT_I64;
  }
  for (int i = 0; i < rank; i++) out[i] = b_cast(b, starts[i], dt);
  return b_ok(b);
}

Val b_dynamic_slice(B *b, Val x, const Val *starts, const int64_t *sizes) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  Val ops[1 + IR_MAX_RANK] = {x};
  if (!s.rank) return x;
  if (!same_starts(b, s.rank, starts, ops + 1)) return BAD;
  for (int i = 0; i < s.rank; i++) {
    double at = 1;
    if (sizes[i] > s.d[i].n)
      b_fail(b, TPU_RUNTIME, "dynamic slice of %lld out of %lld", (long long)sizes[i], (long long)s.d[i].n);
    bool whole = sizes[i] == s.d[i].n && b_const_value(b, starts[i], &at) && at == 0;
    if (!whole) s.d[i].sym = 0; /* the caller keeps the window inside the logical size */
    s.d[i].n = sizes[i];
  }
  text *t = ir_attr(b);
  ir_attr_i64s(t, "slice_sizes", sizes, s.rank);
  return ir_opn(b, IR_DYNAMIC_SLICE, b_dtype(b, x), &s, ops, 1 + s.rank, t);
}

/* Is `what` among the values that v is computed from? */
static bool reads(const B *b, Val v, Val what) {
  if (v < what) return false;
  uint8_t *needed = tpu_xcalloc((size_t)(v - what) + 1, 1);
  needed[v - what] = 1;
  for (Val i = v; i > what && !needed[0]; i--) { /* operands and regions come before */
    if (!needed[i - what]) continue;
    const ir_node *n = ir_nd(b, i);
    for (int k = 0; k < n->nops; k++)
      if (n->ops[k] >= what) needed[n->ops[k] - what] = 1;
    for (int k = 0; k < n->nregions; k++)
      for (int32_t j = b->regions.p[n->own[k]].begin; j < i; j++)
        if (j >= what) needed[j - what] = 1;
  }
  bool found = needed[0];
  free(needed);
  return found;
}

/* XLA's CPU plugin fuses an update into its dynamic update and then writes in place, although the update
 * reads the old value elsewhere, when there is a reshape in between (x[..., -1] = x[..., -1].flip(0) of a
 * gathered x). What reads the old value is therefore computed before it is written. */
static Val read_before_write(B *b, Val x, Val update) {
  while (ir_nd(b, x)->op == IR_RESHAPE || ir_nd(b, x)->op == IR_BITCAST) x = ir_nd(b, x)->ops[0];
  return reads(b, update, x) ? b_optimization_barrier(b, update) : update;
}

Val b_dynamic_update(B *b, Val x, Val update, const Val *starts) {
  if (ir_bad(b, x) || ir_bad(b, update)) return BAD;
  shape s = *b_shape(b, x);
  update = b_cast(b, update, b_dtype(b, x));
  const shape *u = b_shape(b, update);
  if (u->rank != s.rank) b_fail(b, TPU_INTERNAL, "dynamic update of rank %d in rank %d", u->rank, s.rank);
  for (int i = 0; i < s.rank && i < u->rank; i++) {
    if (u->d[i].n > s.d[i].n)
      b_fail(b, TPU_RUNTIME, "dynamic update of %lld in %lld", (long long)u->d[i].n, (long long)s.d[i].n);
    if (u->d[i].sym && !ir_dim_same(u->d[i], s.d[i]))
      b_fail(b, TPU_NOT_IMPLEMENTED, "dynamic update by a generic dim");
  }
  if (b->err) return BAD;
  if (!s.rank) return update;
  Val ops[2 + IR_MAX_RANK] = {x, read_before_write(b, x, update)};
  if (!same_starts(b, s.rank, starts, ops + 2)) return BAD;
  return ir_opn(b, IR_DYNAMIC_UPDATE, b_dtype(b, x), &s, ops, 2 + s.rank, NULL);
}

static Val repeat(B *b, Val x, int axis, int64_t times, bool inside) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  axis = axis_norm(b, axis, s.rank);
  if (b->err || times == 1 || !s.rank) return b->err ? BAD : x;
  int at = inside ? axis + 1 : axis;
  Val v = b_unsqueeze(b, x, at);
  shape wide = *b_shape(b, v);
  wide.d[at].n = times;
  v = b_broadcast_to(b, v, &wide);
  if (s.d[axis].sym && times) {
    ir_dim d = b_dim_map(b, s.d[axis], times, 0, 1);
    return b_merge(b, v, axis, axis + 1, d.n, d.sym);
  }
  if (!times) return s.d[axis] = (ir_dim){0, 0}, b_zeros(b, b_dtype(b, x), &s);
  s.d[axis].n *= times;
  return b_reshape(b, v, &s);
}

Val b_tile_dim(B *b, Val x, int axis, int64_t times) { return repeat(b, x, axis, times, false); }
Val b_repeat_interleave(B *b, Val x, int axis, int64_t times) { return repeat(b, x, axis, times, true); }
