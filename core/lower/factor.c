/* Orthogonal factors, eigenvalues, singular values, least squares, the matrix exponential. */
#include <math.h>
#include <string.h>

#include "lower/linalg.h"

/* --- QR --- */

/* The first n columns of the product of the reflectors in packed [..., m, k]; taus [..., <= k]. */
static Val reflectors(B *b, Val packed, Val taus, int64_t n) {
  int64_t k = la_cols(b, packed);
  int rank = b_rank(b, taus);
  if (!b_ok(b)) return BAD;
  int64_t have = b_dim_static(b, taus, rank - 1);
  Val zero = b_like(b, packed, 0);
  packed = n > k ? b_pad_axis(b, packed, b_rank(b, packed) - 1, 0, n - k, zero) : la_columns(b, packed, 0, n);
  taus = b_pad_axis(b, taus, rank - 1, 0, n - have, b_like(b, taus, 0));
  return b_householder_product(b, packed, taus);
}

/* linalg_qr(A, mode) -> Q, R */
static void qr(L *l) {
  B *b = l_b(l);
  const char *mode = l_string(l, 1);
  Val a, taus;
  if (!la_matrix(l, 0, "linalg.qr", false, &a)) return;
  bool complete = !strcmp(mode, "complete"), only_r = !strcmp(mode, "r");
  if (!complete && !only_r && strcmp(mode, "reduced"))
    l_fail(l, TPU_RUNTIME,
           "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'",
           mode);
  int64_t m = la_rows(b, a), n = la_cols(b, a), k = m < n ? m : n;
  if (!b_ok(b)) return;
  Val packed = b_qr(b, a, &taus);
  ret_columns(l, only_r ? la_empty(b, b_dtype(b, a)) : reflectors(b, packed, taus, complete ? m : k));
  ret_columns(l, la_triu(b, complete ? packed : la_head_rows(b, packed, k), 0));
}

static void geqrf(L *l) {
  B *b = l_b(l);
  Val a, taus;
  if (!la_matrix(l, 0, "torch.geqrf", false, &a)) return;
  ret_columns(l, b_qr(b, a, &taus));
  ret(l, taus);
}

/* linalg_householder_product(input, tau) */
static void householder_product(L *l) {
  B *b = l_b(l);
  Val a, taus = l_tensor(l, 1);
  if (!la_matrix(l, 0, "torch.linalg.householder_product", false, &a)) return;
  int64_t m = la_rows(b, a), n = la_cols(b, a),
          k = b_rank(b, taus) ? b_dim_static(b, taus, b_rank(b, taus) - 1) : 0;
  if (m < n)
    l_fail(
        l, TPU_RUNTIME,
        "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]");
  if (n < k)
    l_fail(
        l, TPU_RUNTIME,
        "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]");
  if (b_ok(b)) ret_columns(l, reflectors(b, a, taus, n));
}

/* ormqr(self, tau, other, left, transpose) */
static void ormqr(L *l) {
  B *b = l_b(l);
  Val a, other;
  if (!la_matrix(l, 0, "torch.ormqr", false, &a) || !la_matrix(l, 2, "torch.ormqr", false, &other)) return;
  bool left = l_bool(l, 3);
  int64_t m = la_rows(b, a), n = left ? la_rows(b, other) : la_cols(b, other);
  if (m != n)
    l_fail(l, TPU_RUNTIME, "torch.ormqr: %s must be equal to input.shape[-2]",
           left ? "other.shape[-2]" : "other.shape[-1]");
  Val tau = l_tensor(l, 1);
  int64_t k = la_cols(b, a) < m ? la_cols(b, a) : m;
  if (b_ok(b) && (b_rank(b, tau) < 1 || b_dim_static(b, tau, b_rank(b, tau) - 1) != k))
    l_fail(l, TPU_RUNTIME, "torch.ormqr: tau.shape[-1] must be equal to min(%s, input.shape[-1])",
           left ? "other.shape[-2]" : "other.shape[-1]");
  if (!b_ok(b)) return;
  Val q = reflectors(b, a, tau, m);
  if (l_bool(l, 4)) q = la_adjoint(b, q);
  ret_columns(l, left ? b_matmul(b, q, other) : b_matmul(b, other, q));
}

/* --- eigenvalues --- */

/* _linalg_eigh(A, UPLO, compute_v) -> eigenvalues, eigenvectors */
static void eigh(L *l) {
  B *b = l_b(l);
  Val a, v;
  if (!la_matrix(l, 0, "linalg.eigh", true, &a)) return;
  char c = l_string(l, 1)[0];
  ret(l, b_eigh(b, a, c == 'L' || c == 'l', &v));
  ret_columns(l, l_bool(l, 2) ? v : la_empty(b, b_dtype(b, a)));
}

/* --- singular values: one-sided Jacobi ---
 *
 * Columns of [G; V] (G = A V) are rotated in pairs until those of G are orthogonal. The columns stand as two
 * halves, top[i] is paired with bot[i]; after each step the halves turn as in a round-robin tournament, so
 * that 2h - 1 steps meet all pairs. Small singular values come out as accurate as large ones, and a step is a
 * few elementwise passes over all pairs at once. */

typedef struct jacobi {
  int64_t batch, m, n, h; /* G is [batch, m, 2h], V [batch, n, 2h] */
  tpu_dtype dt, real;
  double eps;
} jacobi;

enum { SWEEPS = 30 };

static Val column_dot(B *b, Val x, Val y, int64_t m) { /* conj(x) . y over the first m rows: [batch, 1, h] */
  return b_sum(b, la_head_rows(b, b_mul(b, b_conj(b, x), y), m), 2, true);
}

/* v: step, finished, worst of this sweep, top, bot */
static Val jacobi_more(B *b, void *ctx, const Val *v) {
  const jacobi *c = ctx;
  return b_and(b, b_not(b, v[1]), b_lt(b, v[0], b_const_i(b, DT_I32, SWEEPS * (2 * c->h - 1))));
}

static Val turn(B *b, Val first, Val rest) { return b_concat(b, (Val[]){first, rest}, 2, 2); }

static void jacobi_step(B *b, void *ctx, const Val *v, Val *out) {
  const jacobi *c = ctx;
  Val x = v[3], y = v[4], zero = b_const(b, c->real, 0), one = b_const(b, c->real, 1);
  Val p = b_real(b, column_dot(b, x, x, c->m)), q = b_real(b, column_dot(b, y, y, c->m)),
      g = column_dot(b, x, y, c->m);
  Val size = b_abs(b, g), scale = b_mul(b, b_sqrt(b, p), b_sqrt(b, q));
  Val skip = b_le(b, size, b_mul(b, scale, b_const(b, c->real, c->eps)));
  Val safe = b_select(b, skip, one, size);
  Val zeta = b_div(b, b_sub(b, q, p), b_mul(b, safe, b_const(b, c->real, 2)));
  Val t = b_div(b, one, b_add(b, b_abs(b, zeta), b_sqrt(b, b_add(b, one, b_mul(b, zeta, zeta)))));
  t = b_select(b, b_lt(b, zeta, zero), b_neg(b, t), t);
  t = b_select(b, skip, zero, t);
  Val cs = b_rsqrt(b, b_add(b, one, b_mul(b, t, t)));
  Val sn = b_cast(b, b_mul(b, cs, t), c->dt);
  cs = b_cast(b, cs, c->dt);
  if (dt_is_complex(c->dt)) { /* turn y so that its product with x is real */
    Val phase = b_select(b, skip, b_cast(b, one, c->dt), b_div(b, g, b_cast(b, safe, c->dt)));
    y = b_mul(b, y, b_conj(b, phase));
  } else {
    sn = b_select(b, b_lt(b, g, zero), b_neg(b, sn), sn);
  }
  Val nx = b_sub(b, b_mul(b, cs, x), b_mul(b, sn, y)), ny = b_add(b, b_mul(b, sn, x), b_mul(b, cs, y));
  Val off = b_max(b, b_select(b, skip, zero, b_div(b, size, b_select(b, b_gt(b, scale, zero), scale, one))),
                  7, false);
  off = b_maximum(b, v[2], off);
  Val k = b_add(b, v[0], b_const_i(b, DT_I32, 1)), round = b_const_i(b, DT_I32, 2 * c->h - 1);
  Val ends = b_eq(b, b_rem(b, k, round), b_const_i(b, DT_I32, 0));
  out[0] = k;
  out[1] = b_and(b, ends, b_le(b, off, b_const(b, c->real, 20 * c->eps)));
  out[2] = b_select(b, ends, zero, off);
  out[3] = c->h == 1 ? nx
                     : turn(b, turn(b, la_columns(b, nx, 0, 1), la_columns(b, ny, 0, 1)),
                            la_columns(b, nx, 1, c->h - 1));
  out[4] = c->h == 1 ? ny : turn(b, la_columns(b, ny, 1, c->h), la_columns(b, nx, c->h - 1, c->h));
}

typedef struct svd {
  Val g, s, v; /* sorted: g [batch, m, n] = A v, orthogonal columns of length s [batch, n] (descending); v
                  [batch, n, n] */
} svd;

/* Columns of x[batch, r, .] in the order idx[batch, n]. */
static Val pick_columns(B *b, Val x, Val idx) {
  if (!b_ok(b)) return BAD;
  shape s = *b_shape(b, x);
  s.d[2] = b_shape(b, idx)->d[1];
  return b_gather_axis(b, x, b_broadcast_dims(b, idx, &s, (int[]){0, 2}), 2);
}

/* a[batch, m, n] with m >= n > 0 */
static svd decompose(B *b, Val a) {
  svd r = {BAD, BAD, BAD};
  if (!b_ok(b)) return r;
  const shape *s = b_shape(b, a);
  jacobi c = {.batch = s->d[0].n, .m = s->d[1].n, .n = s->d[2].n, .dt = b_dtype(b, a)};
  c.real = dt_real(c.dt);
  c.h = (c.n + 1) / 2;
  c.eps = c.real == DT_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  int64_t odd = 2 * c.h - c.n, wide = c.n + odd;
  /* scaled to 1, so that squares neither overflow nor vanish */
  Val top = b_max(b, b_abs(b, a), 6, true),
      fine = b_and(b, b_gt(b, top, b_like(b, top, 0)), b_is_finite(b, top));
  top = b_select(b, fine, top, b_like(b, top, 1));
  Val g = b_pad_axis(b, b_div(b, a, b_cast(b, top, c.dt)), 2, 0, odd, b_like(b, a, 0));
  shape line = shape_of(3, (int64_t[]){c.batch, wide, wide});
  Val all = b_concat(b, (Val[]){g, la_eye(b, c.dt, &line, wide, wide)}, 2, 1);
  Val v[5] = {b_const_i(b, DT_I32, 0), b_const_i(b, DT_BOOL, c.n == 1), b_const(b, c.real, 0),
              la_columns(b, all, 0, c.h), la_columns(b, all, c.h, 2 * c.h)};
  b_while(b, 5, v, jacobi_more, jacobi_step, &c, v);
  all = b_concat(b, v + 3, 2, 2);
  Val gs = la_head_rows(b, all, c.m), vs = b_slice(b, all, 1, c.m, c.m + wide, 1), idx;
  Val length = b_sqrt(b, b_sum(b, b_real(b, b_mul(b, b_conj(b, gs), gs)), 2, false));
  if (odd) { /* the column that was added goes last */
    Val added = b_squeeze(b, b_abs(b, b_slice(b, vs, 1, wide - 1, wide, 1)), 1);
    length = b_select(b, b_gt(b, added, b_like(b, added, 0.5)), b_like(b, length, -1), length);
  }
  Val sorted = b_sort(b, length, 1, true, &idx);
  idx = b_slice(b, idx, 1, 0, c.n, 1);
  r.s = b_mul(b, b_slice(b, sorted, 1, 0, c.n, 1), b_squeeze(b, top, 2));
  r.g = pick_columns(b, gs, idx);
  r.v = la_head_rows(b, pick_columns(b, vs, idx), c.n);
  return r;
}

/* The left vectors: the orthogonal factor of g, its columns turned to those of g; null columns are completed
 * by it. `k` columns. */
static Val left_vectors(B *b, const svd *d, int64_t k) {
  Val taus, packed = b_qr(b, d->g, &taus), q = reflectors(b, packed, taus, k), diag = la_diagonal(b, packed);
  if (!b_ok(b)) return BAD;
  tpu_dtype dt = b_dtype(b, q);
  int64_t n = la_cols(b, d->g);
  Val size = b_abs(b, diag), none = b_eq(b, size, b_like(b, size, 0));
  Val phase = b_div(b, diag, b_cast(b, b_select(b, none, b_like(b, size, 1), size), dt));
  phase = b_select(b, none, b_like(b, phase, 1), phase);
  phase = b_pad_axis(b, phase, 1, 0, k - n, b_like(b, phase, 1));
  return b_mul(b, q, b_unsqueeze(b, phase, 1));
}

/* _linalg_svd(A, full_matrices, compute_uv, *, driver) -> U, S, Vh */
static void linalg_svd(L *l) {
  B *b = l_b(l);
  Val a;
  if (!la_matrix(l, 0, "linalg.svd", false, &a)) return;
  const shape s = *b_shape(b, a);
  tpu_dtype dt = b_dtype(b, a);
  int64_t m = la_rows(b, a), n = la_cols(b, a), k = m < n ? m : n;
  bool full = l_bool(l, 1), vectors = l_bool(l, 2), turned = m < n;
  Val flat = la_flat(b, turned ? la_adjoint(b, a) : a);
  if (!b_ok(b)) return;
  int64_t batch = b_shape(b, flat)->d[0].n;
  svd d;
  Val u = la_empty(b, dt), vh = u;
  if (k && batch) {
    d = decompose(b, flat);
    if (vectors) {
      u = left_vectors(b, &d, full ? (m < n ? n : m) : k);
      vh = la_adjoint(b, d.v);
    }
  } else {
    shape f = *b_shape(b, flat), none = shape_of(2, (int64_t[]){batch, k});
    u = la_eye(b, dt, &f, turned ? n : m, full ? (turned ? n : m) : k);
    vh = la_eye(b, dt, &f, k, k);
    d.s = b_zeros(b, dt_real(dt), &none);
    if (!vectors) u = vh = la_empty(b, dt);
  }
  Val left = turned && vectors ? la_adjoint(b, vh) : u, right = turned && vectors ? la_adjoint(b, u) : vh;
  ret_columns(l, vectors ? la_unflat(b, left, &s) : left);
  ret(l, la_unflat(b, d.s, &s));
  ret_columns(l, vectors ? la_unflat(b, right, &s) : right);
}

/* --- least squares --- */

/* linalg_lstsq(self, b, rcond, *, driver) -> solution, residuals, rank, singular_values: of least norm, by
 * singular values. */
static void lstsq(L *l) {
  B *b = l_b(l);
  Val a, rhs = l_tensor(l, 1);
  const char *driver = l_string(l, 3);
  if (!la_matrix(l, 0, "torch.linalg.lstsq", false, &a)) return;
  const shape s = *b_shape(b, a), r = *b_shape(b, rhs);
  tpu_dtype dt = b_dtype(b, a), real = dt_real(dt);
  int64_t m = la_rows(b, a), n = la_cols(b, a);
  bool vector = r.rank == s.rank - 1, same = r.rank == s.rank || vector;
  for (int i = 0; i < s.rank - 2 && same; i++) same = s.d[i].n == r.d[i].n;
  if (vector) rhs = b_unsqueeze(b, rhs, r.rank);
  if (!same || !b_numel_static(b, a) || !b_numel_static(b, rhs)) {
    l_decline(l, "least squares of broadcast or empty batches");
    return;
  }
  if (la_rows(b, rhs) != m)
    l_fail(l, TPU_RUNTIME, "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  bool turned = m < n, svd_driver = !strcmp(driver, "gelsd") || !strcmp(driver, "gelss");
  svd d = decompose(b, la_flat(b, turned ? la_adjoint(b, a) : a));
  if (!b_ok(b)) return;
  /* g = A v (or A^H v), so that A = g v^H and the inverse is v s^-2 g^H */
  double eps = real == DT_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  Val cut = b_mul(b, b_slice(b, d.s, 1, 0, 1, 1),
                  b_const(b, real, l_double_or(l, 2, eps * (double)(m > n ? m : n))));
  Val keep = b_gt(b, d.s, cut), inv = b_select(b, keep, b_div(b, b_like(b, d.s, 1), d.s), b_like(b, d.s, 0));
  Val u = left_vectors(b, &d, turned ? m : n), left = turned ? d.v : u, right = turned ? u : d.v;
  Val v = b_matmul(b, la_adjoint(b, left), la_flat(b, rhs));
  v = b_matmul(b, right, b_mul(b, v, b_unsqueeze(b, b_cast(b, inv, dt), 2)));
  Val x = la_unflat(b, v, &s);
  (vector ? ret : ret_columns)(l, vector ? b_squeeze(b, x, s.rank - 1) : x);
  bool residuals = m > n && (svd_driver || !strcmp(driver, "gels"));
  if (residuals) {
    Val e = b_abs(b, b_sub(b, b_matmul(b, a, x), rhs));
    e = b_sum(b, b_mul(b, e, e), 1u << (s.rank - 2), false);
    ret(l, e);
  } else {
    ret(l, la_empty(b, real));
  }
  ret(l, !strcmp(driver, "gels") ? la_empty(b, DT_I64)
                                 : la_unflat(b, b_sum(b, b_cast(b, keep, DT_I64), 2, false), &s));
  ret(l, svd_driver ? la_unflat(b, d.s, &s) : la_empty(b, real));
}

/* --- exponential --- */

/* The Taylor polynomial of degree 16 in four groups of powers; good to 1e-19 for a norm of at most 0.5, to
 * 1e-9 for one of at most 2. */
static Val exp_polynomial(B *b, Val x) {
  Val p[5] = {la_eye(b, b_dtype(b, x), b_shape(b, x), la_rows(b, x), la_rows(b, x)), x}, sum = BAD;
  double c[17] = {1};
  for (int i = 1; i <= 16; i++) c[i] = c[i - 1] / i;
  for (int i = 2; i <= 4; i++) p[i] = b_matmul(b, p[i - 1], x);
  for (int g = 3; g >= 0; g--) {
    Val part = b_mul(b, p[0], b_like(b, x, c[4 * g]));
    for (int i = 1; i < 4 + (g == 3); i++) part = b_add(b, part, b_mul(b, p[i], b_like(b, x, c[4 * g + i])));
    sum = sum == BAD ? part : b_add(b, part, b_matmul(b, p[4], sum));
  }
  return sum;
}

/* v: step, number of squarings [batch, 1, 1], x */
static Val squaring_more(B *b, void *ctx, const Val *v) {
  (void)ctx;
  return b_lt(b, v[0], b_max(b, v[1], 7, false));
}

static void squaring(B *b, void *ctx, const Val *v, Val *out) {
  (void)ctx;
  out[0] = b_add(b, v[0], b_const_i(b, DT_I32, 1));
  out[1] = v[1];
  out[2] = b_select(b, b_lt(b, v[0], v[1]), b_matmul(b, v[2], v[2]), v[2]);
}

static void matrix_exp(L *l) {
  B *b = l_b(l);
  Val a = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, a);
  if (dt_is_integral(dt))
    l_fail(l, TPU_RUNTIME, "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got %s",
           tpu_dtype_torch_name(dt));
  if (b_rank(b, a) < 2)
    l_fail(l, TPU_RUNTIME, "linalg.matrix_exp: The input tensor A must have at least 2 dimensions.");
  if (b_ok(b) && la_rows(b, a) != la_cols(b, a))
    l_fail(l, TPU_RUNTIME,
           "linalg.matrix_exp: A must be batches of square matrices, but they are %lld by %lld matrices",
           (long long)la_rows(b, a), (long long)la_cols(b, a));
  if (!b_ok(b)) return;
  if (!b_numel_static(b, a)) {
    ret(l, a);
    return;
  }
  const shape s = *b_shape(b, a);
  Val x = la_flat(b, b_cast(b, a, dt_acc(dt)));
  Val norm = b_max(b, b_sum(b, b_abs(b, x), 2, true), 4, true);
  bool wide = b_dtype(b, norm) == DT_F64;
  Val n = b_log(b, b_maximum(b, norm, b_like(b, norm, 0.25)));
  n = b_ceil(b, b_add(b, b_mul(b, n, b_like(b, n, 1 / log(2))), b_like(b, n, wide ? 1 : -1)));
  n = b_clamp(b, b_like(b, n, 0), n, b_like(b, n, 1100));
  Val half = b_pow(b, b_like(b, n, 2), b_neg(b, n));
  Val v[3] = {b_const_i(b, DT_I32, 0), b_cast(b, n, DT_I32),
              exp_polynomial(b, b_mul(b, x, b_cast(b, half, b_dtype(b, x))))};
  b_while(b, 3, v, squaring_more, squaring, NULL, v);
  ret(l, b_cast(b, la_unflat(b, v[2], &s), dt));
}

const tpu_row rows_factor[] = {{"linalg_qr", qr, 0, ROW_SAME_DTYPE},
                               {"geqrf", geqrf, 0, 0},
                               {"linalg_householder_product", householder_product, 0, 0},
                               {"ormqr", ormqr, 0, ROW_SAME_DTYPE},
                               {"_linalg_eigh", eigh, 0, ROW_SAME_DTYPE},
                               {"_linalg_svd", linalg_svd, 0, ROW_SAME_DTYPE},
                               {"linalg_lstsq", lstsq, 0, 0},
                               {"linalg_matrix_exp", matrix_exp, 0, 0},
                               {0}};
