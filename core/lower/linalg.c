/* LU with partial pivoting (a loop over columns: no library call for it on every platform), what follows from
 * it, Cholesky, triangular systems. */
#include "lower/linalg.h"

#include <string.h>

/* --- shared --- */

/* The CPU kernel whose name torch's error gives, where a dtype is refused by the kernel and not before it;
 * `integers`: those too. */
static const struct {
  const char *op, *kernel;
  bool integers;
} kernels[] = {{"cholesky", "cholesky_cpu", true},
               {"cholesky_inverse", "cholesky_inverse_out_cpu", true},
               {"cholesky_solve", "cholesky_solve_cpu", true},
               {"linalg.cholesky", "cholesky_cpu", false},
               {"linalg.det", "lu_cpu", false},
               {"linalg.eigh", "linalg_eigh_cpu", true},
               {"linalg.lu", "lu_cpu", true},
               {"linalg.qr", "geqrf_cpu", false},
               {"linalg.solve", "lu_cpu", false},
               {"linalg.solve_triangular", "triangular_solve_cpu", true},
               {"linalg.svd", "linalg_svd_cpu", false},
               {"torch.geqrf", "geqrf_cpu", true},
               {"torch.linalg.householder_product", "orgqr_cpu", true},
               {"torch.linalg.lu_solve", "linalg.lu_solve_cpu", false},
               {"torch.lu_factor", "lu_cpu", true},
               {"torch.ormqr", "ormqr_cpu", true},
               {"torch.triangular_solve", "triangular_solve_cpu", true}};

static void refuse_dtype(L *l, const char *op, tpu_dtype dt) {
  bool low = dt_is_low(dt);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    if (!strcmp(kernels[k].op, op) && (low || kernels[k].integers))
      l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernels[k].kernel,
             tpu_dtype_torch_name(dt));
  l_fail(l, TPU_RUNTIME,
         low ? "%s: Low precision dtypes not supported. Got %s"
             : "%s: Expected a floating point or complex tensor as input. Got %s",
         op, tpu_dtype_torch_name(dt));
}

bool la_matrix(L *l, int i, const char *op, bool square, Val *x) {
  B *b = l_b(l);
  *x = l_tensor(l, i);
  tpu_dtype dt = b_dtype(b, *x);
  if (b_rank(b, *x) < 2)
    l_fail(l, TPU_RUNTIME, "%s: The input tensor A must have at least 2 dimensions.", op);
  if (dt_is_integral(dt) || dt_is_low(dt)) refuse_dtype(l, op, dt);
  if (b_ok(b) && square && la_rows(b, *x) != la_cols(b, *x))
    l_fail(l, TPU_RUNTIME, "%s: A must be batches of square matrices, but they are %lld by %lld matrices", op,
           (long long)la_rows(b, *x), (long long)la_cols(b, *x));
  return b_ok(b);
}

Val la_transpose(B *b, Val x) { return b_ok(b) ? b_swap(b, x, b_rank(b, x) - 2, b_rank(b, x) - 1) : BAD; }
Val la_adjoint(B *b, Val x) { return b_conj(b, la_transpose(b, x)); }

Val la_flat(B *b, Val x) {
  if (!b_ok(b)) return BAD;
  const shape *s = b_shape(b, x);
  int64_t dims[3] = {1, s->d[s->rank - 2].n, s->d[s->rank - 1].n};
  for (int i = 0; i < s->rank - 2; i++) dims[0] *= s->d[i].n;
  return b_reshape_to(b, x, 3, dims);
}

Val la_unflat(B *b, Val v, const shape *x) {
  if (!b_ok(b)) return BAD;
  const shape *s = b_shape(b, v);
  shape r = {.rank = x->rank - 2};
  for (int i = 0; i < r.rank; i++) r.d[i] = x->d[i];
  for (int i = 1; i < s->rank; i++) r.d[r.rank++] = s->d[i];
  return b_reshape(b, v, &r);
}

static Val band(B *b, Val x, int64_t k, b_cmp_dir keep) {
  if (!b_ok(b)) return BAD;
  const shape *s = b_shape(b, x);
  shape m = {.rank = 2, .d = {s->d[s->rank - 2], s->d[s->rank - 1]}};
  Val off = b_sub(b, b_iota(b, DT_I32, &m, 1), b_iota(b, DT_I32, &m, 0));
  return b_select(b, b_cmp(b, keep, off, b_const_i(b, DT_I32, k)), x, b_like(b, x, 0));
}

Val la_triu(B *b, Val x, int64_t k) { return band(b, x, k, CMP_GE); }
Val la_tril(B *b, Val x, int64_t k) { return band(b, x, k, CMP_LE); }

Val la_eye(B *b, tpu_dtype dt, const shape *like, int64_t n, int64_t m) {
  shape s = *like, plane = shape_of(2, (int64_t[]){n, m});
  s.d[s.rank - 2] = plane.d[0];
  s.d[s.rank - 1] = plane.d[1];
  Val v = b_cast(b, b_eq(b, b_iota(b, DT_I32, &plane, 0), b_iota(b, DT_I32, &plane, 1)), dt);
  return b_broadcast_to(b, v, &s);
}

Val la_diagonal(B *b, Val x) {
  int64_t m = la_rows(b, x), n = la_cols(b, x), k = m < n ? m : n;
  x = la_head_rows(b, la_columns(b, x, 0, k), k);
  if (!b_ok(b)) return BAD;
  int rank = b_rank(b, x);
  Val on = la_eye(b, DT_BOOL, b_shape(b, x), k, k);
  return b_sum(b, b_select(b, on, x, b_like(b, x, 0)), 1u << (rank - 2), false);
}

Val la_columns(B *b, Val x, int64_t lo, int64_t hi) { return b_slice(b, x, b_rank(b, x) - 1, lo, hi, 1); }
Val la_head_rows(B *b, Val x, int64_t n) { return b_slice(b, x, b_rank(b, x) - 2, 0, n, 1); }

Val la_empty(B *b, tpu_dtype dt) {
  shape none = shape_of(1, (int64_t[]){0});
  return b_zeros(b, dt, &none);
}

/* --- LU --- */

/* a[N, m, n] = P L U, packed in `lu`; perm[N, m]: row i of L U is row perm[i] of a; pivots[N, k] count from
 * 1; info[N]. */
typedef struct lu {
  Val lu, perm, pivots, info;
} lu;

typedef struct lu_loop {
  int64_t batch, m, n, k;
  bool pivot;
} lu_loop;

static Val lu_more(B *b, void *ctx, const Val *v) {
  const lu_loop *c = ctx;
  return b_lt(b, v[0], b_const_i(b, DT_I32, c->k));
}

static Val magnitude(B *b, Val x) {
  return dt_is_complex(b_dtype(b, x)) ? b_add(b, b_abs(b, b_real(b, x)), b_abs(b, b_imag(b, x)))
                                      : b_abs(b, x);
}

/* x[N, m] with the entries at k and at `other`[N] exchanged. */
static Val swap_entries(B *b, Val x, Val row, Val k, Val other, Val at_k, Val at_other) {
  return b_select(b, b_eq(b, row, k), b_unsqueeze(b, at_other, 1),
                  b_select(b, b_eq(b, row, b_unsqueeze(b, other, 1)), b_unsqueeze(b, at_k, 1), x));
}

/* One column: find the pivot, exchange rows, subtract the outer product. v: k, lu, perm, pivots, info */
static void lu_step(B *b, void *ctx, const Val *v, Val *out) {
  const lu_loop *c = ctx;
  Val k = v[0], zero = b_const_i(b, DT_I32, 0), a = v[1];
  shape rows = shape_of(2, (int64_t[]){c->batch, c->m}), cols = shape_of(2, (int64_t[]){c->batch, c->n}),
        line = shape_of(1, &c->batch);
  Val i = b_iota(b, DT_I32, &rows, 1), j = b_iota(b, DT_I32, &cols, 1), n = b_iota(b, DT_I32, &line, 0);
  Val col = b_squeeze(b, b_dynamic_slice(b, a, (Val[]){zero, zero, k}, (int64_t[]){c->batch, c->m, 1}), 2);
  Val size = magnitude(b, col), below = b_gt(b, i, k);
  size = b_select(b, b_ge(b, i, k), size, b_like(b, size, -1));
  Val p =
      c->pivot ? b_cast(b, b_argreduce(b, true, size, 1, false, NULL), DT_I32) : b_broadcast_to(b, k, &line);
  Val top = b_squeeze(b, b_dynamic_slice(b, a, (Val[]){zero, k, zero}, (int64_t[]){c->batch, 1, c->n}), 1);
  Val best = b_gather_nd(b, a, (Val[]){n, p}, 2); /* [N, n] */
  Val old = b_squeeze(b, b_dynamic_slice(b, v[2], (Val[]){zero, k}, (int64_t[]){c->batch, 1}), 1);
  out[2] = swap_entries(b, v[2], i, k, p, old, b_gather_nd(b, v[2], (Val[]){n, p}, 2));
  Val is_k = b_unsqueeze(b, b_eq(b, i, k), 2), is_p = b_unsqueeze(b, b_eq(b, i, b_unsqueeze(b, p, 1)), 2);
  a = b_select(b, is_k, b_unsqueeze(b, best, 1), b_select(b, is_p, b_unsqueeze(b, top, 1), a));
  Val pv = b_squeeze(b, b_dynamic_slice(b, best, (Val[]){zero, k}, (int64_t[]){c->batch, 1}), 1);
  Val regular = b_ne(b, pv, b_like(b, pv, 0));
  col = b_squeeze(b, b_dynamic_slice(b, a, (Val[]){zero, zero, k}, (int64_t[]){c->batch, c->m, 1}), 2);
  Val f = b_div(b, col, b_unsqueeze(b, b_select(b, regular, pv, b_like(b, pv, 1)), 1));
  f = b_unsqueeze(b, b_select(b, below, f, b_like(b, f, 0)), 2);
  Val right = b_unsqueeze(b, b_select(b, b_gt(b, j, k), best, b_like(b, best, 0)), 1);
  Val left = b_and(b, b_unsqueeze(b, below, 2), b_unsqueeze(b, b_eq(b, j, k), 1));
  out[0] = b_add(b, k, b_const_i(b, DT_I32, 1));
  out[1] = b_select(b, left, f, b_sub(b, a, b_mul(b, f, right)));
  out[3] =
      b_dynamic_update(b, v[3], b_unsqueeze(b, b_add(b, p, b_const_i(b, DT_I32, 1)), 1), (Val[]){zero, k});
  out[4] = b_select(b, b_and(b, b_eq(b, v[4], zero), b_not(b, regular)), out[0], v[4]);
}

static lu factor_lu(B *b, Val a, bool pivot) {
  lu r = {BAD, BAD, BAD, BAD};
  if (!b_ok(b)) return r;
  const shape *s = b_shape(b, a);
  lu_loop c = {.batch = s->d[0].n, .m = s->d[1].n, .n = s->d[2].n, .pivot = pivot};
  c.k = c.m < c.n ? c.m : c.n;
  shape rows = shape_of(2, (int64_t[]){c.batch, c.m}), piv = shape_of(2, (int64_t[]){c.batch, c.k}),
        line = shape_of(1, &c.batch);
  Val v[5] = {b_const_i(b, DT_I32, 0), a, b_iota(b, DT_I32, &rows, 1), b_zeros(b, DT_I32, &piv),
              b_zeros(b, DT_I32, &line)};
  if (c.k && c.batch) b_while(b, 5, v, lu_more, lu_step, &c, v);
  return (lu){v[1], v[2], v[3], v[4]};
}

/* --- permutations --- */

typedef struct perm_loop {
  int64_t batch, m, k;
  Val pivots;
} perm_loop;

static Val perm_more(B *b, void *ctx, const Val *v) {
  return b_lt(b, v[0], b_const_i(b, DT_I32, ((perm_loop *)ctx)->k));
}

static void perm_step(B *b, void *ctx, const Val *v, Val *out) {
  const perm_loop *c = ctx;
  Val k = v[0], zero = b_const_i(b, DT_I32, 0), one = b_const_i(b, DT_I32, 1);
  shape rows = shape_of(2, (int64_t[]){c->batch, c->m}), line = shape_of(1, &c->batch);
  Val n = b_iota(b, DT_I32, &line, 0), at[2] = {zero, k};
  int64_t one_each[2] = {c->batch, 1};
  Val p = b_sub(b, b_squeeze(b, b_dynamic_slice(b, c->pivots, at, one_each), 1), one);
  Val old = b_squeeze(b, b_dynamic_slice(b, v[1], at, one_each), 1);
  out[0] = b_add(b, k, one);
  out[1] =
      swap_entries(b, v[1], b_iota(b, DT_I32, &rows, 1), k, p, old, b_gather_nd(b, v[1], (Val[]){n, p}, 2));
}

/* pivots[N, k] -> perm[N, m] */
static Val permutation(B *b, Val pivots, int64_t m) {
  if (!b_ok(b)) return BAD;
  const shape *s = b_shape(b, pivots);
  perm_loop c = {.batch = s->d[0].n, .m = m, .k = s->d[1].n, .pivots = b_cast(b, pivots, DT_I32)};
  shape rows = shape_of(2, (int64_t[]){c.batch, m});
  Val v[2] = {b_const_i(b, DT_I32, 0), b_iota(b, DT_I32, &rows, 1)};
  if (c.k && c.batch) b_while(b, 2, v, perm_more, perm_step, &c, v);
  return v[1];
}

static Val inverse_of(B *b, Val perm) {
  Val idx;
  b_sort(b, perm, 1, false, &idx);
  return b_cast(b, idx, DT_I32);
}

/* x[N, r, c] with rows (axis 1) or columns taken in the order perm[N, .] */
static Val permuted(B *b, Val x, Val perm, int axis) {
  if (!b_ok(b)) return BAD;
  return b_gather_axis(b, x, b_broadcast_dims(b, perm, b_shape(b, x), (int[]){0, axis}), axis);
}

/* P[N, m, m] with a = P L U */
static Val matrix_of(B *b, Val perm, tpu_dtype dt) {
  if (!b_ok(b)) return BAD;
  shape s = *b_shape(b, perm);
  s.d[s.rank++] = s.d[1];
  return b_cast(b, b_eq(b, b_iota(b, DT_I32, &s, 1), b_unsqueeze(b, perm, 1)), dt);
}

/* --- rows of LU --- */

static void check_info(L *l, Val info, bool asked, const char *message) {
  B *b = l_b(l);
  if (asked) b_check(b, b_eq(b, info, b_like(b, info, 0)), TPU_LINALG, message);
}

/* linalg_lu_factor_ex(A, *, pivot, check_errors) -> LU, pivots, info */
static void lu_factor(L *l) {
  B *b = l_b(l);
  Val a;
  if (!la_matrix(l, 0, "torch.lu_factor", false, &a)) return;
  const shape s = *b_shape(b, a);
  lu f = factor_lu(b, la_flat(b, a), l_bool(l, 1));
  check_info(
      l, f.info, l_bool(l, 2),
      "torch.linalg.lu_factor: U is singular and using it on lu_solve would result in a division by zero.");
  ret_columns(l, la_unflat(b, f.lu, &s));
  ret(l, la_unflat(b, f.pivots, &s));
  ret(l, la_unflat(b, f.info, &s));
}

/* The unit lower and the upper triangle of packed [N, m, n]. */
static Val lower_of(B *b, Val packed) {
  int64_t m = la_rows(b, packed), n = la_cols(b, packed), k = m < n ? m : n;
  if (!b_ok(b)) return BAD;
  Val v = la_tril(b, la_columns(b, packed, 0, k), -1);
  return b_add(b, v, la_eye(b, b_dtype(b, v), b_shape(b, v), m, k));
}

static Val upper_of(B *b, Val packed) {
  int64_t m = la_rows(b, packed), n = la_cols(b, packed);
  return la_triu(b, la_head_rows(b, packed, m < n ? m : n), 0);
}

/* linalg_lu(A, *, pivot) -> P, L, U */
static void lu_full(L *l) {
  B *b = l_b(l);
  Val a;
  if (!la_matrix(l, 0, "linalg.lu", false, &a)) return;
  const shape s = *b_shape(b, a);
  lu f = factor_lu(b, la_flat(b, a), l_bool(l, 1));
  ret(l, l_bool(l, 1) ? la_unflat(b, matrix_of(b, f.perm, b_dtype(b, a)), &s) : la_empty(b, b_dtype(b, a)));
  ret(l, la_unflat(b, lower_of(b, f.lu), &s));
  ret(l, la_unflat(b, upper_of(b, f.lu), &s));
}

/* pivots of any batch dims as [N, k] */
static Val flat_pivots(B *b, Val p) {
  if (!b_ok(b)) return BAD;
  const shape *s = b_shape(b, p);
  int64_t dims[2] = {1, s->d[s->rank - 1].n};
  for (int i = 0; i < s->rank - 1; i++) dims[0] *= s->d[i].n;
  return b_reshape_to(b, p, 2, dims);
}

/* lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots) -> P, L, U */
static void lu_unpack(L *l) {
  B *b = l_b(l);
  Val a, p = l_tensor(l, 1);
  a = l_tensor(l, 0); /* of any dtype */
  if (b_rank(b, a) < 2)
    l_fail(l, TPU_RUNTIME, "torch.lu_unpack: The input tensor A must have at least 2 dimensions.");
  if (!b_ok(b)) return;
  if (b_dtype(b, p) != DT_I32)
    l_fail(l, TPU_RUNTIME,
           "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: "
           "this function is "
           "intended to be used with the output produced by torch.linalg.lu_factor");
  const shape s = *b_shape(b, a);
  tpu_dtype dt = b_dtype(b, a);
  bool data = l_bool(l, 2), pivots = l_bool(l, 3);
  ret(l, pivots ? la_unflat(b, matrix_of(b, permutation(b, flat_pivots(b, p), la_rows(b, a)), dt), &s)
                : la_empty(b, dt));
  ret(l, data ? lower_of(b, a) : la_empty(b, dt));
  ret(l, data ? upper_of(b, a) : la_empty(b, dt));
}

/* x with A x = rhs (or A^H, or x A = rhs) from A = P L U; [N, ., .] each. */
static Val solve_lu(B *b, Val packed, Val perm, Val rhs, bool left, bool adjoint) {
  int t = adjoint ? 2 : 0, axis = left ? 1 : 2;
  if (left != adjoint) rhs = permuted(b, rhs, perm, axis);
  bool lower_first = left != adjoint;
  for (int i = 0; i < 2; i++) {
    bool lower = (i == 0) == lower_first;
    rhs = b_triangular_solve(b, packed, rhs, left, lower, lower, t);
  }
  return left != adjoint ? rhs : permuted(b, rhs, inverse_of(b, perm), axis);
}

/* The batch dims of a matrix and a right-hand side broadcast together. */
static shape common_batch(B *b, Val a, Val rhs) {
  shape s = *b_shape(b, a), t = *b_shape(b, rhs);
  s.rank -= 2;
  t.rank -= 2;
  return b_broadcast_shape(b, b_zeros(b, DT_BOOL, &s), b_zeros(b, DT_BOOL, &t));
}

/* x with the batch dims of `batch` and its own last `keep` dims, as [N, ...]; x: its shape before. */
static Val to_batch(B *b, Val x, const shape *batch, int keep) {
  if (!b_ok(b)) return BAD;
  const shape *s = b_shape(b, x);
  shape r = *batch, f = {.rank = 1};
  f.d[0] = (ir_dim){1, 0};
  for (int i = 0; i < batch->rank; i++) f.d[0].n *= batch->d[i].n;
  for (int i = s->rank - keep; i < s->rank; i++) r.d[r.rank++] = f.d[f.rank++] = s->d[i];
  return b_reshape(b, b_broadcast_to(b, x, &r), &f);
}

/* [N, r, c] -> batch dims, r, c */
static Val from_batch(B *b, Val v, const shape *batch) {
  shape s = *batch;
  s.rank += 2;
  return la_unflat(b, v, &s);
}

/* linalg_lu_solve(LU, pivots, B, *, left, adjoint) */
static void lu_solve(L *l) {
  B *b = l_b(l);
  Val a, rhs;
  if (!la_matrix(l, 0, "torch.linalg.lu_solve", true, &a) ||
      !la_matrix(l, 2, "torch.linalg.lu_solve", false, &rhs))
    return;
  bool left = l_bool(l, 3);
  if ((left ? la_rows(b, rhs) : la_cols(b, rhs)) != la_rows(b, a))
    l_fail(l, TPU_RUNTIME,
           "linalg.lu_solve: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)",
           left ? "AX = B" : "XA = B", (long long)la_rows(b, a), (long long)la_cols(b, a),
           (long long)la_rows(b, rhs), (long long)la_cols(b, rhs));
  if (!b_ok(b)) return;
  shape batch = common_batch(b, a, rhs);
  Val perm = permutation(b, to_batch(b, l_tensor(l, 1), &batch, 1), la_rows(b, a));
  Val v = solve_lu(b, to_batch(b, a, &batch, 2), perm, to_batch(b, rhs, &batch, 2), left, l_bool(l, 4));
  (left ? ret_columns : ret)(l, from_batch(b, v, &batch));
}

static bool is_vector(B *b, Val a, Val rhs) {
  const shape *s = b_shape(b, a), *t = b_shape(b, rhs);
  bool vector = t->rank == 1;
  if (!vector && s->rank - 1 == t->rank) {
    vector = true;
    for (int i = 0; i < t->rank; i++) vector = vector && s->d[i].n == t->d[i].n;
  }
  return vector;
}

/* _linalg_solve_ex(A, B, *, left, check_errors) -> result, LU, pivots, info */
static void solve(L *l) {
  B *b = l_b(l);
  Val a, rhs = l_tensor(l, 1);
  if (!la_matrix(l, 0, "linalg.solve", true, &a)) return;
  bool left = l_bool(l, 2), vector = is_vector(b, a, rhs);
  if (b_dtype(b, rhs) != b_dtype(b, a))
    l_fail(l, TPU_RUNTIME,
           "linalg.solve: Expected A and B to have the same dtype, but found A of type %s and B of type %s "
           "instead",
           tpu_dtype_torch_name(b_dtype(b, a)), tpu_dtype_torch_name(b_dtype(b, rhs)));
  if (vector && !left)
    l_fail(l, TPU_RUNTIME,
           "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this "
           "case linalg.solve "
           "is equivalent to B / A.squeeze(-1)");
  if (vector) rhs = b_unsqueeze(b, rhs, b_rank(b, rhs));
  int64_t n = la_rows(b, a);
  if (b_ok(b) && (left ? la_rows(b, rhs) : la_cols(b, rhs)) != n)
    l_fail(l, TPU_RUNTIME,
           "linalg.solve: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)",
           left ? "AX = B" : "XA = B", (long long)n, (long long)n, (long long)la_rows(b, rhs),
           (long long)la_cols(b, rhs));
  if (!b_ok(b)) return;
  const shape s = *b_shape(b, a);
  lu f = factor_lu(b, la_flat(b, a), true);
  check_info(l, f.info, l_bool(l, 3),
             "torch.linalg.solve_ex: The solver failed because the input matrix is singular.");
  shape batch = common_batch(b, a, rhs);
  Val packed = to_batch(b, la_unflat(b, f.lu, &s), &batch, 2),
      perm = to_batch(b, la_unflat(b, f.perm, &s), &batch, 1);
  Val v = from_batch(b, solve_lu(b, packed, perm, to_batch(b, rhs, &batch, 2), left, false), &batch);
  (left ? ret_columns : ret)(l, vector ? b_squeeze(b, v, b_rank(b, v) - 1) : v);
  ret_columns(l, la_unflat(b, f.lu, &s));
  ret(l, la_unflat(b, f.pivots, &s));
  ret(l, la_unflat(b, f.info, &s));
}

/* linalg_inv_ex(A, *, check_errors) -> inverse, info */
static void inverse(L *l) {
  B *b = l_b(l);
  Val a;
  if (!la_matrix(l, 0, "linalg.inv", true, &a)) return;
  const shape s = *b_shape(b, a);
  Val flat = la_flat(b, a);
  lu f = factor_lu(b, flat, true);
  check_info(l, f.info, l_bool(l, 1),
             "torch.linalg.inv_ex: The diagonal element is zero, the inversion could not be completed "
             "because the input matrix is singular.");
  Val eye = la_eye(b, b_dtype(b, a), b_shape(b, flat), la_rows(b, a), la_rows(b, a));
  ret_columns(l, la_unflat(b, solve_lu(b, f.lu, f.perm, eye, true, false), &s));
  ret(l, la_unflat(b, f.info, &s));
}

/* _linalg_det(A) -> result, LU, pivots; _linalg_slogdet(A) -> sign, logabsdet, LU, pivots; datum: slogdet.
 * The autograd formulas expect the factors of the transpose when A is contiguous and real. */
static void determinant(L *l) {
  B *b = l_b(l);
  Val a;
  if (!la_matrix(l, 0, l_datum(l) ? "linalg.slogdet" : "linalg.det", true, &a)) return;
  const shape s = *b_shape(b, a);
  tpu_dtype dt = b_dtype(b, a);
  bool turned = l_is_contiguous(l, 0) && !dt_is_complex(dt);
  lu f = factor_lu(b, la_flat(b, turned ? la_transpose(b, a) : a), true);
  Val d = la_diagonal(b, f.lu), pivots = f.pivots;
  if (!b_ok(b)) return;
  Val moved = b_ne(b, pivots, b_add(b, b_iota(b, DT_I32, b_shape(b, pivots), 1), b_const_i(b, DT_I32, 1)));
  Val odd = b_reduce(b, RED_XOR, b_cast(b, moved, DT_I32), 2, false), minus = b_like(b, d, -1),
      one = b_like(b, d, 1);
  Val parity = b_select(b, b_eq(b, odd, b_const_i(b, DT_I32, 0)), one, minus);
  if (l_datum(l)) {
    Val size = b_abs(b, d), none = b_eq(b, size, b_like(b, size, 0));
    Val sign = dt_is_complex(dt) ? b_select(b, none, b_like(b, d, 0), b_div(b, d, b_cast(b, size, dt)))
                                 : b_sign(b, d);
    ret(l, la_unflat(b, b_mul(b, parity, b_reduce(b, RED_PROD, sign, 2, false)), &s));
    ret(l, la_unflat(b, b_sum(b, b_log(b, size), 2, false), &s));
  } else {
    ret(l, la_unflat(b, b_mul(b, parity, b_reduce(b, RED_PROD, d, 2, false)), &s));
  }
  ret_columns(l, la_unflat(b, f.lu, &s));
  ret(l, la_unflat(b, pivots, &s));
}

/* --- Cholesky --- */

typedef struct minors {
  int64_t batch, n;
  Val a, none; /* lower triangles [N, n, n]; zeros [N] */
} minors;

static Val minors_more(B *b, void *ctx, const Val *v) {
  return b_lt(b, v[0], b_const_i(b, DT_I32, ((minors *)ctx)->n));
}

/* One column of the elimination. v: k, what is left of a, info */
static void minors_step(B *b, void *ctx, const Val *v, Val *out) {
  const minors *c = ctx;
  Val k = v[0], zero = b_const_i(b, DT_I32, 0);
  Val col = b_dynamic_slice(b, v[1], (Val[]){zero, zero, k}, (int64_t[]){c->batch, c->n, 1});
  Val pivot = b_real(b, b_dynamic_slice(b, col, (Val[]){zero, k, zero}, (int64_t[]){c->batch, 1, 1}));
  Val good = b_gt(b, pivot, b_like(b, pivot, 0));
  Val step = b_cast(b, b_select(b, good, pivot, b_like(b, pivot, 1)), b_dtype(b, col));
  Val bad = b_not(b, b_squeeze(b, b_squeeze(b, good, 2), 1));
  out[0] = b_add(b, k, b_const_i(b, DT_I32, 1));
  out[1] = b_sub(b, v[1], b_div(b, b_mul(b, col, la_adjoint(b, col)), step));
  out[2] = b_select(b, b_and(b, bad, b_eq(b, v[2], zero)), out[0], v[2]);
}

static void find_minor(B *b, void *ctx, const Val *args, Val *out) {
  (void)args;
  minors *c = ctx;
  Val whole = b_add(b, la_tril(b, c->a, 0), la_adjoint(b, la_tril(b, c->a, -1)));
  Val v[3] = {b_const_i(b, DT_I32, 0), whole, c->none};
  b_while(b, 3, v, minors_more, minors_step, c, v);
  out[0] = v[2];
}

static void no_minor(B *b, void *ctx, const Val *args, Val *out) {
  (void)b, (void)args;
  out[0] = ((minors *)ctx)->none;
}

/* The factor of x (lower, or upper from the upper triangle), and how far it is good: 0, or the order of the
 * first bad leading minor, which is looked for only where there is one. */
static Val cholesky_of(B *b, Val x, bool upper, Val *info) {
  *info = BAD;
  if (upper) x = la_adjoint(b, x);
  Val f = b_cholesky(b, x, true), d = b_real(b, la_diagonal(b, f)), flat = la_flat(b, x);
  if (!b_ok(b)) return BAD;
  const shape s = *b_shape(b, x), line = shape_of(1, &b_shape(b, flat)->d[0].n);
  minors c = {.batch = line.d[0].n, .n = la_rows(b, x), .a = flat, .none = b_zeros(b, DT_I32, &line)};
  Val found = c.none,
      failed = b_reduce(b, RED_OR, b_not(b, b_is_finite(b, d)), axes_all(b_rank(b, d)), false);
  if (c.batch && c.n) b_if(b, failed, 1, find_minor, no_minor, &c, &found);
  *info = la_unflat(b, found, &s);
  return upper ? la_adjoint(b, f) : f;
}

/* linalg_cholesky_ex(self, *, upper, check_errors) -> L, info; cholesky(self, upper), datum 1 */
static void cholesky(L *l) {
  B *b = l_b(l);
  Val x, info;
  if (!la_matrix(l, 0, l_datum(l) ? "cholesky" : "linalg.cholesky", true, &x)) return;
  Val f = cholesky_of(b, x, l_bool(l, 1), &info);
  check_info(
      l, info, l_datum(l) || l_bool(l, 2),
      l_datum(l)
          ? "cholesky: The factorization could not be completed because the input is not positive-definite."
          : "linalg.cholesky_ex: The factorization could not be completed because the input is not "
            "positive-definite.");
  ret_columns(l, f);
  if (!l_datum(l)) ret(l, info);
}

/* x with f f^H x = rhs (or f^H f x = rhs, upper). */
static Val cholesky_back(B *b, Val f, Val rhs, bool upper) {
  Val y = b_triangular_solve(b, f, rhs, true, !upper, false, upper ? 2 : 0);
  return b_triangular_solve(b, f, y, true, !upper, false, upper ? 0 : 2);
}

static void cholesky_inverse(L *l) {
  B *b = l_b(l);
  Val x;
  if (!la_matrix(l, 0, "cholesky_inverse", true, &x)) return;
  ret_columns(l, cholesky_back(b, x, la_eye(b, b_dtype(b, x), b_shape(b, x), la_rows(b, x), la_rows(b, x)),
                               l_bool(l, 1)));
}

/* _cholesky_solve_helper(self, A, upper) */
static void cholesky_solve(L *l) {
  B *b = l_b(l);
  Val rhs, f;
  if (!la_matrix(l, 0, "cholesky_solve", false, &rhs) || !la_matrix(l, 1, "cholesky_solve", true, &f)) return;
  ret_columns(l, cholesky_back(b, f, rhs, l_bool(l, 2)));
}

/* --- triangular systems --- */

/* triangular_solve(self, A, upper, transpose, unitriangular) -> solution, A */
static void triangular_solve(L *l) {
  B *b = l_b(l);
  Val rhs, a;
  if (!la_matrix(l, 0, "torch.triangular_solve", false, &rhs) ||
      !la_matrix(l, 1, "torch.triangular_solve", true, &a))
    return;
  Val v = b_triangular_solve(b, a, rhs, true, !l_bool(l, 2), l_bool(l, 4), l_bool(l, 3) ? 1 : 0);
  ret_columns(l, v);
  if (!b_ok(b)) return;
  shape s = *b_shape(b, v);
  s.d[s.rank - 1] = s.d[s.rank - 2];
  ret_columns(l, b_broadcast_to(b, a, &s));
}

/* linalg_solve_triangular(self, B, *, upper, left, unitriangular) */
static void solve_triangular(L *l) {
  B *b = l_b(l);
  Val a, rhs;
  if (!la_matrix(l, 0, "linalg.solve_triangular", true, &a) ||
      !la_matrix(l, 1, "linalg.solve_triangular", false, &rhs))
    return;
  if (b_dtype(b, a) != b_dtype(b, rhs))
    l_fail(l, TPU_RUNTIME, "linalg.solve_triangular: Expected A and B to have the same dtype");
  ret_columns(l, b_triangular_solve(b, a, rhs, l_bool(l, 3), !l_bool(l, 2), l_bool(l, 4), 0));
}

const tpu_row rows_linalg[] = {{"linalg_lu_factor_ex", lu_factor, 0, ROW_SAME_DTYPE},
                               {"linalg_lu", lu_full, 0, ROW_SAME_DTYPE},
                               {"lu_unpack", lu_unpack, 0, ROW_SAME_DTYPE},
                               {"linalg_lu_solve", lu_solve, 0, ROW_SAME_DTYPE},
                               {"_linalg_solve_ex", solve, 0, ROW_SAME_DTYPE},
                               {"linalg_inv_ex", inverse, 0, ROW_SAME_DTYPE},
                               {"_linalg_det", determinant, 0, ROW_SAME_DTYPE},
                               {"_linalg_slogdet", determinant, 1, ROW_SAME_DTYPE},
                               {"linalg_cholesky_ex", cholesky, 0, ROW_SAME_DTYPE},
                               {"cholesky", cholesky, 1, 0},
                               {"cholesky_inverse", cholesky_inverse, 0, 0},
                               {"_cholesky_solve_helper", cholesky_solve, 0, 0},
                               {"triangular_solve", triangular_solve, 0, ROW_OVERLAP_SELF | ROW_SAME_DTYPE},
                               {"linalg_solve_triangular", solve_triangular, 0, ROW_SAME_DTYPE},
                               {0}};
