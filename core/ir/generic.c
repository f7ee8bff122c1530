/* Verbs of generic dims: other names for sizes, parts and merges of generic dims, and sizes that the host can
 * compute. */
#include "ir/graph.h"

/* `zero`: the axes whose padding is 0 under the new sizes. */
static Val rename_sizes(B *b, Val x, const shape *s, uint32_t zero) {
  Val ops[1] = {x};
  ir_spec sp = {.op = IR_RESHAPE, .ops = ops, .nops = 1, .nres = 1, .tag = IR_RELABEL};
  if (ir_bad(b, x)) return BAD;
  sp.dt = b_dtype(b, x), sp.s = ir_intern(b, s);
  Val v = ir_make(b, &sp);
  if (v >= 0) b->nodes.p[v].zero |= zero;
  return v;
}

Val b_relabel(B *b, Val x, const shape *s) {
  if (ir_bad(b, x)) return BAD;
  const shape *xs = b_shape(b, x);
  if (shape_equal(xs, s)) return x;
  bool fits = xs->rank == s->rank;
  for (int i = 0; fits && i < s->rank; i++) fits = xs->d[i].n == s->d[i].n;
  if (!fits) {
    b_fail(b, TPU_INTERNAL, "relabel: other physical sizes");
    return BAD;
  }
  return rename_sizes(b, x, s, ir_zero_axes(b, x));
}

Val b_narrow(B *b, Val x, int axis, Val start, int64_t n, int64_t step, int32_t sym) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x);
  int64_t need = n ? (n - 1) * step + 1 : 0, zero[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK], by[IR_MAX_RANK];
  for (int i = 0; i < s.rank; i++) hi[i] = s.d[i].n, by[i] = 1;
  if (start == BAD) {
    x = ir_resize_axis(b, x, axis, need);
  } else { /* the window must not be clamped: room behind the end */
    x = ir_resize_axis(b, x, axis, s.d[axis].n + need);
    Val ops[1 + IR_MAX_RANK] = {x};
    for (int i = 0; i < s.rank; i++) ops[1 + i] = b_const_i(b, DT_I32, 0), hi[i] = s.d[i].n;
    ops[1 + axis] = b_cast(b, start, DT_I32);
    hi[axis] = need;
    s.d[axis] = (ir_dim){need, sym};
    text *t = ir_attr(b);
    ir_attr_i64s(t, "slice_sizes", hi, s.rank);
    x = ir_opn(b, IR_DYNAMIC_SLICE, b_dtype(b, x), &s, ops, 1 + s.rank, t);
    if (step == 1) return x;
  }
  s.d[axis] = (ir_dim){n, sym};
  if (step == 1) return rename_sizes(b, x, &s, 0);
  hi[axis] = need, by[axis] = step;
  return ir_slice_raw(b, x, zero, hi, by, &s);
}

Val b_merge(B *b, Val x, int from, int to, int64_t n, int32_t sym) {
  if (ir_bad(b, x)) return BAD;
  const shape *xs = b_shape(b, x);
  shape flat = {0}, out;
  int64_t phys = 1;
  for (int i = from; i <= to; i++) phys *= xs->d[i].n;
  for (int i = 0; i < xs->rank; i++) {
    if (i > from && i <= to) continue;
    flat.d[flat.rank++] = i == from ? (ir_dim){phys, 0} : xs->d[i];
  }
  out = flat;
  out.d[from] = (ir_dim){n, sym};
  Val v = rename_sizes(b, x, &flat, 0);
  bool outermost = true; /* only then does the data lie without holes */
  for (int i = from + 1; i <= to; i++) outermost = outermost && !xs->d[i].sym;
  if (outermost) return rename_sizes(b, ir_resize_axis(b, v, from, n), &out, 0);
  shape line = {.rank = 1, .d = {{n, sym}}};
  Val rest = b_iota(b, DT_I32, &line, 0), at = BAD;
  int64_t step = 1;
  for (int i = to; i >= from; i--) { /* coordinates of logical place j, innermost first */
    Val size = xs->d[i].sym ? b_symbol_size(b, xs->d[i].sym) : b_const_i(b, DT_I32, xs->d[i].n);
    Val c = i == from ? rest : b_rem(b, rest, size);
    if (i > from) rest = b_div(b, rest, size);
    c = b_mul(b, c, b_const_i(b, DT_I32, step));
    at = at == BAD ? c : b_add(b, at, c);
    step *= xs->d[i].n;
  }
  return b_take(b, v, at, from);
}

/* Only an outermost generic dim among static ones lies without holes in the split value. */
static bool splits_whole(ir_dim d, int ndims, const ir_dim *dims) {
  bool whole = d.sym || !dims[0].sym;
  for (int i = 1; i < ndims; i++) whole = whole && !dims[i].sym;
  return whole;
}

Val b_split(B *b, Val x, int axis, int ndims, const ir_dim *dims) {
  if (ir_bad(b, x)) return BAD;
  shape s = *b_shape(b, x), line = {.rank = ndims};
  int64_t phys = 1, step = 1;
  for (int i = 0; i < ndims; i++) phys *= (line.d[i] = dims[i]).n;
  shape out = {.rank = s.rank + ndims - 1};
  for (int i = 0; i < out.rank; i++)
    out.d[i] = i < axis ? s.d[i] : i < axis + ndims ? dims[i - axis] : s.d[i - ndims + 1];
  if (splits_whole(s.d[axis], ndims, dims)) {
    if (s.d[axis].n != phys) x = ir_resize_axis(b, x, axis, phys);
    return rename_sizes(b, x, &out, 0);
  }
  Val at = BAD, stride = b_const_i(b, DT_I32, step);
  for (int i = ndims - 1; i >= 0; i--) { /* the logical place of each element */
    Val part = b_mul(b, b_iota(b, DT_I32, &line, i), stride);
    at = at == BAD ? part : b_add(b, at, part);
    stride = b_mul(b, stride, dims[i].sym ? b_symbol_size(b, dims[i].sym) : b_const_i(b, DT_I32, dims[i].n));
  }
  return b_take(b, x, at, axis);
}

/* --- computed sizes --- */

ir_dim b_dim_map(B *b, ir_dim d, int64_t mul, int64_t add, int64_t div) {
  if (mul == 1 && add == 0 && div == 1) return d;
  int64_t n = d.n * mul + add;
  ir_dim r = {n < 0 ? 0 : n / div, 0};
  if (!d.sym || b->err) return r;
  Val v = b_symbol_size(b, d.sym);
  if (mul != 1) v = b_mul(b, v, b_const_i(b, DT_I32, mul));
  if (add) v = b_add(b, v, b_const_i(b, DT_I32, add));
  if (add < 0) v = b_maximum(b, v, b_const_i(b, DT_I32, 0));
  if (div != 1) v = b_div(b, v, b_const_i(b, DT_I32, div));
  r.sym = b_symbol(b, v);
  return r;
}

ir_dim b_dim_min(B *b, ir_dim p, ir_dim q) {
  ir_dim r = {p.n < q.n ? p.n : q.n, 0};
  if ((!p.sym && !q.sym) || p.sym == q.sym || b->err) return (ir_dim){r.n, p.sym};
  Val x = p.sym ? b_symbol_size(b, p.sym) : b_const_i(b, DT_I32, p.n),
      y = q.sym ? b_symbol_size(b, q.sym) : b_const_i(b, DT_I32, q.n);
  r.sym = b_symbol(b, b_minimum(b, x, y));
  return r;
}

void b_require(B *b, ir_dim d, int64_t least) {
  if (!d.sym || b->err) return;
  Val v = b_sub(b, b_symbol_size(b, d.sym), b_const_i(b, DT_I32, least));
  if (!b->err) IR_PUSH(b->needs, v);
}

/* Below, a program of one size saves less than a millisecond and costs hundreds. */
enum { MUCH_WORK = 1 << 25 };

void ir_bound_waste(B *b, const ir_dim *d, int n) {
  double work = 1, generic = 1;
  int several = 0;
  Val size = b_const_i(b, DT_I64, 2);
  for (int i = 0; i < n; i++) {
    work *= (double)d[i].n;
    if (!d[i].sym) continue;
    generic *= (double)d[i].n;
    size = b_mul(b, size, b_cast(b, b_symbol_size(b, d[i].sym), DT_I64));
    several++;
  }
  if (b->err || several < 2 || work < MUCH_WORK || b->cur || generic > INT32_MAX) return;
  Val v = b_sub(b, size, b_const_i(b, DT_I64, (int64_t)generic));
  if (!b->err) IR_PUSH(b->needs, v);
}

int b_num_requires(const B *b) { return b->needs.n; }
Val b_require_size(const B *b, int k) { return b->needs.p[k]; }

shape b_shape_physical(const shape *s) {
  shape r = *s;
  for (int i = 0; i < r.rank; i++) r.d[i].sym = 0;
  return r;
}

Val b_physical(B *b, Val x, const shape *like, uint32_t axes, Val fill) {
  if (ir_bad(b, x)) return BAD;
  if (fill != BAD) x = b_mask_pad(b, x, axes, fill);
  shape s = *b_shape(b, x);
  for (int i = 0; like && i < s.rank && i < like->rank && b_ok(b); i++) {
    if (ir_dim_same(s.d[i], like->d[i])) continue;
    if (!s.d[i].sym || !like->d[i].sym) {
      b_fail(b, TPU_NOT_IMPLEMENTED, "a generic dim and a static one of the same size");
    } else if (s.d[i].n != like->d[i].n) {
      x = ir_resize_axis(b, x, i, like->d[i].n);
      if ((axes >> i & 1) && fill != BAD && s.d[i].n < like->d[i].n) x = b_mask_pad(b, x, 1u << i, fill);
    }
  }
  if (ir_bad(b, x)) return BAD;
  s = b_shape_physical(b_shape(b, x));
  return b_relabel(b, x, &s);
}

/* --- sizes on the host --- */

static int put_code(size_code *out, int n, int cap, size_op op, int64_t v) {
  if (n < 0 || n >= cap) return -1;
  out[n] = (size_code){(uint8_t)op, v};
  return n + 1;
}

static int code_of(const B *b, Val v, int nparams, const Val *params, size_code *out, int n, int cap) {
  for (int k = 0; k < nparams; k++)
    if (params[k] == v) return put_code(out, n, cap, SIZE_SYM, k);
  const ir_node *d = ir_nd(b, v);
  if (d->op == IR_CONST && (d->flags & NF_NUMBER)) return put_code(out, n, cap, SIZE_CONST, d->num.i);
  if (d->op == IR_CONVERT) return code_of(b, d->ops[0], nparams, params, out, n, cap);
  size_op op;
  switch (d->op) {
  case OP_ADD: op = SIZE_ADD; break;
  case OP_SUB: op = SIZE_SUB; break;
  case OP_MUL: op = SIZE_MUL; break;
  case OP_DIV: op = SIZE_DIV; break;
  case OP_MAXIMUM: op = SIZE_MAX_OF; break;
  case OP_MINIMUM: op = SIZE_MIN_OF; break;
  default: return -1;
  }
  n = code_of(b, d->ops[0], nparams, params, out, n, cap);
  if (n >= 0) n = code_of(b, d->ops[1], nparams, params, out, n, cap);
  return n < 0 ? n : put_code(out, n, cap, op, 0);
}

int b_size_code(const B *b, Val size, int nparams, const Val *params, size_code *out, int cap) {
  return ir_bad(b, size) ? -1 : code_of(b, size, nparams, params, out, 0, cap);
}

int64_t size_eval(const size_code *code, int n, const int64_t *sizes) {
  int64_t st[SIZE_CODE_MAX + 1] = {0};
  int top = 0;
  for (int i = 0; i < n; i++) {
    if (code[i].op <= SIZE_CONST) {
      st[top++] = code[i].op == SIZE_SYM ? sizes[code[i].v] : code[i].v;
      continue;
    }
    int64_t y = st[--top], x = st[top - 1], *r = &st[top - 1];
    switch ((size_op)code[i].op) {
    case SIZE_ADD: *r = x + y; break;
    case SIZE_SUB: *r = x - y; break;
    case SIZE_MUL: *r = x * y; break;
    case SIZE_DIV: *r = y ? x / y : 0; break;
    case SIZE_MAX_OF: *r = x > y ? x : y; break;
    default: *r = x < y ? x : y; break;
    }
  }
  return st[0];
}
