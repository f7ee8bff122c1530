/* Dots: dot_general with accumulation in f32, matmul by torch's rules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph.h"

typedef struct dims {
  int nc, nb;
  const int *xc, *yc, *xb, *yb;
} dims;

static uint32_t bits(int n, const int *v) {
  uint32_t m = 0;
  for (int i = 0; i < n; i++) m |= 1u << v[i];
  return m;
}

/* Contracted and batch dims must be equal; one symbol on two rungs is cut to the smaller. */
static bool fit(B *b, Val *x, Val *y, int n, const int *xa, const int *ya) {
  for (int i = 0; i < n; i++) {
    ir_dim p = b_shape(b, *x)->d[xa[i]], q = b_shape(b, *y)->d[ya[i]];
    if (ir_dim_same(p, q)) continue;
    if (!p.sym || p.sym != q.sym) {
      bool generic = p.sym || q.sym;
      b_fail(b, generic ? TPU_NOT_IMPLEMENTED : TPU_RUNTIME, "dot: dims of sizes %lld and %lld do not match",
             (long long)p.n, (long long)q.n);
      return false;
    }
    int64_t m = p.n < q.n ? p.n : q.n;
    *x = ir_resize_axis(b, *x, xa[i], m);
    *y = ir_resize_axis(b, *y, ya[i], m);
  }
  return b_ok(b);
}

static void put_dims(text *t, const char *name, int n, const int *v) {
  int64_t w[IR_MAX_RANK];
  for (int i = 0; i < n; i++) w[i] = v[i];
  ir_attr_list(t, name, w, n);
}

static void dot_attr(B *b, text *t, tpu_dtype dt, const dims *d) {
  static const char *const words[] = {"DEFAULT", "HIGH", "HIGHEST"};
  text_str(t, "dot_dimension_numbers = #stablehlo.dot<");
  if (d->nb) {
    put_dims(t, "lhs_batching_dimensions", d->nb, d->xb);
    put_dims(t, ", rhs_batching_dimensions", d->nb, d->yb);
    text_str(t, ", ");
  }
  put_dims(t, "lhs_contracting_dimensions", d->nc, d->xc);
  put_dims(t, ", rhs_contracting_dimensions", d->nc, d->yc);
  text_str(t, ">");
  if (b->precision > 0 && (dt == DT_F32 || dt == DT_C64))
    text_printf(t, ", precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]",
                words[b->precision], words[b->precision]);
}

static shape dot_shape(const shape *x, const shape *y, const dims *d) {
  shape r = {0};
  uint32_t xu = bits(d->nb, d->xb) | bits(d->nc, d->xc), yu = bits(d->nb, d->yb) | bits(d->nc, d->yc);
  for (int i = 0; i < d->nb; i++) r.d[r.rank++] = x->d[d->xb[i]];
  for (int i = 0; i < x->rank; i++)
    if (!(xu >> i & 1)) r.d[r.rank++] = x->d[i];
  for (int i = 0; i < y->rank; i++)
    if (!(yu >> i & 1)) r.d[r.rank++] = y->d[i];
  return r;
}

/* The work of a dot is the product of the dims of its result and of those that it contracts. */
static void bound_waste(B *b, const shape *result, const shape *x, const dims *d) {
  ir_dim all[3 * IR_MAX_RANK];
  int n = 0;
  for (int i = 0; i < result->rank; i++) all[n++] = result->d[i];
  for (int i = 0; i < d->nc; i++) all[n++] = x->d[d->xc[i]];
  ir_bound_waste(b, all, n);
}

/* An operand that is a transpose contracts the transposed value itself where the order of its free dims
 * allows: the CPU plugin does not fold transposes into dots, and copying a weight for every token costs ten
 * times the product. axes: nc contracted, then nb batch. */
static Val peel_transpose(B *b, Val x, int n, int *axes) {
  const ir_node *t = ir_nd(b, x);
  if (t->op != IR_TRANSPOSE) return x;
  int perm[IR_MAX_RANK], rank = t->s->rank, last = -1;
  char attr[256]; /* "permutation = array<i64: 1, 0>" */
  snprintf(attr, sizeof attr, "%.*s", (int)t->nattr, t->attr);
  const char *p = strchr(attr, 58);
  for (int i = 0; i < rank; i++) {
    char *end;
    perm[i] = (int)strtol(p + 1, &end, 10);
    p = end;
  }
  for (int i = 0; i < rank;
       i++) { /* free dims, in result order, must stand in the same order in the operand */
    bool used = false;
    for (int k = 0; k < n; k++) used = used || axes[k] == i;
    if (used) continue;
    if (perm[i] < last) return x;
    last = perm[i];
  }
  for (int k = 0; k < n; k++) axes[k] = perm[axes[k]];
  return t->ops[0];
}

static Val dot_plain(B *b, Val x, Val y, tpu_dtype acc, const dims *d);

static Val dot(B *b, Val x, Val y, tpu_dtype acc, const dims *d) {
  int xa[2 * IR_MAX_RANK], ya[2 * IR_MAX_RANK], n = d->nc + d->nb;
  for (int i = 0; i < n; i++) {
    xa[i] = i < d->nc ? d->xc[i] : d->xb[i - d->nc];
    ya[i] = i < d->nc ? d->yc[i] : d->yb[i - d->nc];
  }
  x = peel_transpose(b, x, n, xa);
  y = peel_transpose(b, y, n, ya);
  dims q = {.nc = d->nc, .nb = d->nb, .xc = xa, .yc = ya, .xb = xa + d->nc, .yb = ya + d->nc};
  return dot_plain(b, x, y, acc, &q);
}

/* Result in `acc`. On CPU low floats are widened first: the plugin does the same inside, and slower. */
static Val dot_plain(B *b, Val x, Val y, tpu_dtype acc, const dims *d) {
  if (!fit(b, &x, &y, d->nc, d->xc, d->yc) || !fit(b, &x, &y, d->nb, d->xb, d->yb)) return BAD;
  Val zero = b_like(b, x, 0);
  x = b_mask_pad(b, x, bits(d->nc, d->xc), zero);
  y = b_mask_pad(b, y, bits(d->nc, d->yc), zero);
  if (!b->plain || !dt_is_low(b_dtype(b, x))) {
    x = b_cast(b, x, acc);
    y = b_cast(b, y, acc);
  }
  if (b->err) return BAD;
  shape s = dot_shape(b_shape(b, x), b_shape(b, y), d);
  bound_waste(b, &s, b_shape(b, x), d);
  text *t = ir_attr(b);
  dot_attr(b, t, b_dtype(b, x), d);
  return ir_opn(b, IR_DOT, acc, &s, (Val[]){x, y}, 2, t);
}

static Val dot_checked(B *b, Val x, Val y, tpu_dtype out, const dims *d) {
  if (!ir_promote(b, &x, &y)) return BAD;
  int xr = b_rank(b, x), yr = b_rank(b, y);
  for (int i = 0; i < d->nc + d->nb; i++) {
    int p = i < d->nc ? d->xc[i] : d->xb[i - d->nc], q = i < d->nc ? d->yc[i] : d->yb[i - d->nc];
    if (p < 0 || q < 0 || p >= xr || q >= yr) {
      b_fail(b, TPU_INTERNAL, "dot: dims %d and %d of ranks %d and %d", p, q, xr, yr);
      return BAD;
    }
  }
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  if (out == DT_NONE) out = dt;
  if (dt_bytes(out) > dt_bytes(acc) && tpu_dtypes[out].cls == tpu_dtypes[acc].cls) acc = out;
  return b_cast(b, dot(b, x, y, acc, d), out);
}

Val b_dot_general(B *b, Val x, Val y, int nc, const int *xc, const int *yc, int nb, const int *xb,
                  const int *yb) {
  return b_dot_general_acc(b, x, y, nc, xc, yc, nb, xb, yb, DT_NONE);
}

Val b_dot_general_acc(B *b, Val x, Val y, int nc, const int *xc, const int *yc, int nb, const int *xb,
                      const int *yb, tpu_dtype out) {
  dims d = {nc, nb, xc, yc, xb, yb};
  return dot_checked(b, x, y, out, &d);
}

/* --- matmul --- */

static ir_dim batch_dim(const shape *s, int rank, int i) {
  int at = i - (rank - s->rank);
  return at < 0 ? (ir_dim){1, 0} : s->d[at];
}

/* x with its batch dims broadcast to those of `batch` (in front of its last two). */
static Val spread(B *b, Val x, const shape *batch) {
  const shape *xs = b_shape(b, x);
  shape s = *batch;
  for (int i = 0; i < 2; i++) s.d[s.rank++] = xs->d[xs->rank - 2 + i];
  return b_broadcast_to(b, x, &s);
}

/* Both of rank >= 2. A weight of rank 2 contracts without batch dims: one dot whose free dims are all of x's.
 */
static Val matmul_nd(B *b, Val x, Val y, tpu_dtype out) {
  int xr = b_rank(b, x), yr = b_rank(b, y);
  if (yr == 2) {
    dims d = {.nc = 1, .xc = (int[]){xr - 1}, .yc = (int[]){0}};
    return dot_checked(b, x, y, out, &d);
  }
  shape xb = *b_shape(b, x), yb = *b_shape(b, y), batch = {0};
  xb.rank -= 2;
  yb.rank -= 2;
  batch.rank = xb.rank > yb.rank ? xb.rank : yb.rank;
  for (int i = 0; i < batch.rank; i++) {
    ir_dim p = batch_dim(&xb, batch.rank, i), q = batch_dim(&yb, batch.rank, i);
    batch.d[i] = p.n == 1 && !p.sym ? q : p;
  }
  x = spread(b, x, &batch);
  y = spread(b, y, &batch);
  if (b->err) return BAD;
  int axes[IR_MAX_RANK], r = batch.rank;
  for (int i = 0; i < r; i++) axes[i] = i;
  dims d = {.nc = 1, .nb = r, .xc = (int[]){r + 1}, .yc = (int[]){r}, .xb = axes, .yb = axes};
  return dot_checked(b, x, y, out, &d);
}

static bool matmul_fits(B *b, Val x, Val y) {
  const shape *p = b_shape(b, x), *q = b_shape(b, y);
  if (!p->rank || !q->rank) {
    b_fail(b, TPU_RUNTIME, "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
           p->rank, q->rank);
    return false;
  }
  ir_dim i = p->d[p->rank - 1], j = q->d[q->rank > 1 ? q->rank - 2 : 0];
  if (i.sym || j.sym || i.n == j.n) return true;
  if (p->rank == 2 && q->rank == 2)
    b_fail(b, TPU_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
           (long long)p->d[0].n, (long long)i.n, (long long)j.n, (long long)q->d[1].n);
  else
    b_fail(b, TPU_RUNTIME, "matmul: size mismatch, got %lld and %lld", (long long)i.n, (long long)j.n);
  return false;
}

static Val matmul(B *b, Val x, Val y, tpu_dtype out) {
  if (!ir_promote(b, &x, &y) || !matmul_fits(b, x, y)) return BAD;
  int xr = b_rank(b, x), yr = b_rank(b, y);
  if (yr == 1 || (xr == 1 && yr == 2)) {
    dims d = {.nc = 1, .xc = (int[]){xr - 1}, .yc = (int[]){0}};
    return dot_checked(b, x, y, out, &d);
  }
  if (xr > 1) return matmul_nd(b, x, y, out);
  Val r = matmul_nd(b, b_unsqueeze(b, x, 0), y, out);
  return b_squeeze(b, r, b_rank(b, r) - 2);
}

Val b_matmul(B *b, Val x, Val y) { return matmul(b, x, y, DT_NONE); }
Val b_matmul_acc(B *b, Val x, Val y, tpu_dtype out) { return matmul(b, x, y, out); }
