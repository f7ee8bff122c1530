/* Matrix products. Shapes are checked here with torch's words; accumulation and generic contracting dims are the builder's. */
#include "lower/lower.h"

static bool want_rank(L *l, int i, int rank) {
  int have = b_rank(l_b(l), l_tensor(l, i));
  if (have == rank) return true;
  l_fail(l, TPU_RUNTIME, "%s: Expected a %d-D tensor for argument %d, but got %d-D", l_name(l), rank, i, have);
  return false;
}

static int64_t phys(B *b, Val v, int axis) { return b_shape(b, v)->d[axis].n; }

/* The inner dims must agree: by symbol where generic, else by size. */
static bool inner_agree(B *b, Val x, int xa, Val y, int ya) {
  const shape *s = b_shape(b, x), *t = b_shape(b, y);
  if (s->d[xa].sym || t->d[ya].sym) return s->d[xa].sym == t->d[ya].sym;
  return s->d[xa].n == t->d[ya].n;
}

static bool same_dtype(L *l, Val x, Val y) {
  B *b = l_b(l);
  if (b_dtype(b, x) == b_dtype(b, y)) return true;
  l_fail(l, TPU_RUNTIME, "expected m1 and m2 to have the same dtype, but got: %s != %s", tpu_dtype_torch_name(b_dtype(b, x)),
         tpu_dtype_torch_name(b_dtype(b, y)));
  return false;
}

/* x @ y of two matrices or two batches (equal batch dims), both checked. */
static Val product(L *l, int i, int j) {
  B *b = l_b(l);
  Val x = l_tensor(l, i), y = l_tensor(l, j);
  int r = b_rank(b, x);
  if (!b_ok(b) || !same_dtype(l, x, y)) return BAD;
  if (!inner_agree(b, x, r - 1, y, r - 2)) {
    if (r == 2)
      l_fail(l, TPU_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (long long)phys(b, x, 0),
             (long long)phys(b, x, 1), (long long)phys(b, y, 0), (long long)phys(b, y, 1));
    else
      l_fail(l, TPU_RUNTIME,
             "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].",
             (long long)phys(b, x, 0), (long long)phys(b, x, 2), (long long)phys(b, y, 0), (long long)phys(b, y, 1));
    return BAD;
  }
  int xc = r - 1, yc = r - 2, batch = 0;
  return b_dot_general(b, x, y, 1, &xc, &yc, r == 3, &batch, &batch);
}

/* mm(x, y), bmm(x, y); the dtype overloads leave the result in out_dtype */
static void mm(L *l) {
  B *b = l_b(l);
  int rank = l_datum(l);
  if (!want_rank(l, 0, rank) || !want_rank(l, 1, rank)) return;
  Val p = product(l, 0, 1);
  tpu_dtype dt = l_has(l, 2) ? l_dtype(l, 2) : DT_NONE;
  ret(l, dt == DT_NONE ? p : b_cast(b, p, dt));
}

/* beta * self + alpha * p; a beta that is structurally 0 does not look at self (NaN there does not matter). */
static Val combine(L *l, int self, Val p, int beta, int alpha) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, p), acc = dt_is_low(dt) ? DT_F32 : dt;
  if (!b_ok(b)) return BAD;
  p = b_cast(b, p, acc);
  if (!l_scalar_is(l, alpha, 1)) p = b_mul(b, p, l_scalar(l, alpha, acc));
  if (l_scalar_is(l, beta, 0)) return b_cast(b, p, dt);
  Val c = b_cast(b, l_tensor(l, self), acc);
  if (!l_scalar_is(l, beta, 1)) {
    Val by = l_scalar(l, beta, acc);
    c = b_select(b, b_eq(b, by, b_like(b, by, 0)), b_like(b, c, 0), b_mul(b, c, by));
  }
  shape want = *b_shape(b, p);
  return b_cast(b, b_add(b, b_broadcast_to(b, c, &want), p), dt);
}

/* addmm(self, m1, m2, beta, alpha), baddbmm */
static void addmm(L *l) {
  int rank = l_datum(l);
  if (!want_rank(l, 1, rank) || !want_rank(l, 2, rank)) return;
  int beta = 3, alpha = 4;
  ret(l, combine(l, 0, product(l, 1, 2), beta, alpha));
}

/* addbmm(self, b1, b2): the batch is summed */
static void addbmm(L *l) {
  B *b = l_b(l);
  if (!want_rank(l, 1, 3) || !want_rank(l, 2, 3)) return;
  Val x = l_tensor(l, 1), y = l_tensor(l, 2);
  if (!inner_agree(b, x, 2, y, 1) || !inner_agree(b, x, 0, y, 0)) {
    product(l, 1, 2);
    return;
  }
  int xc[2] = {0, 2}, yc[2] = {0, 1};
  ret(l, combine(l, 0, b_dot_general(b, x, y, 2, xc, yc, 0, NULL, NULL), 3, 4));
}

static Val vector_product(L *l, int i, int j, bool conj) {
  B *b = l_b(l);
  Val x = l_tensor(l, i), y = l_tensor(l, j);
  int xc = b_rank(b, x) - 1, yc = 0;
  if (!b_ok(b)) return BAD;
  if (b_rank(b, y) != 1 || xc < 0 || !inner_agree(b, x, xc, y, 0)) {
    l_fail(l, TPU_RUNTIME, xc == 0 ? "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of "
                                     "elements, but got %lld and %lld elements respectively"
                                   : "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
           (long long)phys(b, x, 0), (long long)(b_rank(b, y) ? phys(b, y, 0) : 0), (long long)phys(b, x, xc > 0 ? xc : 0),
           (long long)(b_rank(b, y) ? phys(b, y, 0) : 0));
    return BAD;
  }
  if (!same_dtype(l, x, y)) return BAD;
  return b_dot_general(b, conj ? b_conj(b, x) : x, y, 1, &xc, &yc, 0, NULL, NULL);
}

/* dot(x, y), vdot(x, y) */
static void dot(L *l) {
  if (want_rank(l, 0, 1) && want_rank(l, 1, 1)) ret(l, vector_product(l, 0, 1, l_datum(l)));
}

/* addmv(self, mat, vec, beta, alpha) */
static void addmv(L *l) {
  if (want_rank(l, 1, 2) && want_rank(l, 2, 1)) ret(l, combine(l, 0, vector_product(l, 1, 2, false), 3, 4));
}

/* _int_mm(int8, int8) -> int32 */
static void int_mm(L *l) {
  B *b = l_b(l);
  if (!want_rank(l, 0, 2) || !want_rank(l, 1, 2)) return;
  Val x = b_cast(b, l_tensor(l, 0), DT_I32), y = b_cast(b, l_tensor(l, 1), DT_I32);
  int xc = 1, yc = 0;
  ret(l, b_dot_general(b, x, y, 1, &xc, &yc, 0, NULL, NULL));
}

/* _addmm_activation(self, m1, m2, beta, alpha, use_gelu): relu or tanh-gelu of addmm */
static void addmm_activation(L *l) {
  B *b = l_b(l);
  if (!want_rank(l, 1, 2) || !want_rank(l, 2, 2)) return;
  Val x = combine(l, 0, product(l, 1, 2), 3, 4);
  if (!l_bool(l, 5)) {
    ret(l, b_maximum(b, x, b_like(b, x, 0)));
    return;
  }
  Val cube = b_mul(b, b_mul(b, x, x), b_mul(b, x, b_like(b, x, 0.044715)));
  Val t = b_tanh(b, b_mul(b, b_add(b, x, cube), b_like(b, x, 0.7978845608028654))); /* sqrt(2 / pi) */
  ret(l, b_mul(b, b_mul(b, x, b_like(b, x, 0.5)), b_add(b, t, b_like(b, x, 1))));
}

const tpu_row rows_matmul[] = {
    {"mm", mm, 2, ROW_MASK},
    {"mm.dtype", mm, 2, ROW_MASK},
    {"bmm", mm, 3, ROW_MASK},
    {"bmm.dtype", mm, 3, ROW_MASK},
    {"addmm", addmm, 2, ROW_MASK},
    {"baddbmm", addmm, 3, ROW_MASK},
    {"addbmm", addbmm, 0, ROW_MASK},
    {"dot", dot, false, ROW_MASK},
    {"vdot", dot, true, ROW_MASK},
    {"addmv", addmv, 0, ROW_MASK},
    {"_int_mm", int_mm, 0, ROW_MASK},
    {"_addmm_activation", addmm_activation, 0, ROW_NONE},
    {0},
};
