/* Adaptive and fractional pooling: windows that follow from the output size. */
#include "lower/pool.h"

/* --- adaptive: window i of an axis is [floor(i * in / out), ceil((i + 1) * in / out)) --- */

static int64_t from_of(int64_t i, int64_t in, int64_t out) { return i * in / out; }
static int64_t to_of(int64_t i, int64_t in, int64_t out) { return ((i + 1) * in + out - 1) / out; }

static bool check_adaptive(L *l, Val x, int at, const int64_t **out) {
  B *b = l_b(l);
  int n = l_datum(l), rank = b_rank(b, x);
  if (l_ints(l, at, out) != n) l_fail(l, TPU_RUNTIME, "adaptive pooling: output_size must be %d", n);
  if (rank != n + 1 && rank != n + 2)
    l_fail(l, TPU_RUNTIME, "adaptive pooling: Expected %dD or %dD tensor, but got a tensor of rank %d", n + 1,
           n + 2, rank);
  for (int j = 0; j < n && b_ok(b); j++) {
    ir_dim in = b_shape(b, x)->d[rank - n + j];
    b_require(b, in, 1);
    if (!in.sym && in.n < 1)
      l_fail(l, TPU_RUNTIME,
             "adaptive pooling: Expected input to have non-zero size for non-batch dimensions");
    if ((*out)[j] < 0)
      l_fail(l, TPU_RUNTIME, "adaptive pooling: elements of output_size must be greater than or equal to 0");
  }
  return b_ok(b);
}

/* Axis `axis` (of in = out * k) as two: [out, k]. */
static Val split_axis(B *b, Val x, int axis, int64_t out) {
  shape s = *b_shape(b, x);
  int64_t k = s.d[axis].n / out;
  for (int i = s.rank++; i > axis + 1; i--) s.d[i] = s.d[i - 1];
  s.d[axis] = (ir_dim){out, 0};
  s.d[axis + 1] = (ir_dim){k, 0};
  return b_reshape(b, x, &s);
}

/* Row t of every window along the axis; windows that are shorter repeat their last row. */
static Val row_of_windows(B *b, Val x, int axis, int64_t in, int64_t out, int64_t t) {
  int64_t *idx = malloc((size_t)(out + 1) * sizeof *idx);
  for (int64_t i = 0; i < out; i++) {
    int64_t from = from_of(i, in, out), last = to_of(i, in, out) - 1;
    idx[i] = from + t < last ? from + t : last;
  }
  Val v = b_take(b, x, b_dense_i64(b, DT_I32, idx, (int)out), axis);
  free(idx);
  return v;
}

static int64_t longest(int64_t in, int64_t out) {
  int64_t n = 0;
  for (int64_t i = 0; i < out; i++)
    if (to_of(i, in, out) - from_of(i, in, out) > n) n = to_of(i, in, out) - from_of(i, in, out);
  return n;
}

/* mean_matrix for a generic dim: the windows are worked out from its size. */
static Val mean_matrix_of(B *b, tpu_dtype dt, ir_dim in, int64_t out) {
  shape s = {.rank = 2, .d = {in, {out, 0}}};
  Val n = b_symbol_size(b, in.sym), k = b_const_i(b, DT_I32, out), one = b_const_i(b, DT_I32, 1);
  Val row = b_iota(b, DT_I32, &s, 0), i = b_iota(b, DT_I32, &s, 1);
  Val from = b_div(b, b_mul(b, i, n), k),
      to = b_div(b, b_add(b, b_mul(b, b_add(b, i, one), n), b_sub(b, k, one)), k);
  Val weight = b_div(b, b_const(b, dt, 1), b_cast(b, b_sub(b, to, from), dt));
  return b_select(b, b_and(b, b_ge(b, row, from), b_lt(b, row, to)), weight, b_const(b, dt, 0));
}

/* The matrix [in, out] of 1 / (length of the window) where the row is in the window. */
static Val mean_matrix(B *b, tpu_dtype dt, ir_dim dim, int64_t out) {
  int64_t in = dim.n;
  if (dim.sym) return mean_matrix_of(b, dt, dim, out);
  int64_t *from = malloc((size_t)(out + 1) * 2 * sizeof *from), *to = from + out;
  double *weight = malloc((size_t)(out + 1) * sizeof *weight);
  for (int64_t i = 0; i < out; i++) {
    from[i] = from_of(i, in, out);
    to[i] = to_of(i, in, out);
    weight[i] = 1.0 / (double)(to[i] - from[i]);
  }
  shape s = shape_of(2, (int64_t[]){in, out});
  Val row = b_iota(b, DT_I32, &s, 0);
  Val inside = b_and(b, b_ge(b, row, b_dense_i64(b, DT_I32, from, (int)out)),
                     b_lt(b, row, b_dense_i64(b, DT_I32, to, (int)out)));
  Val m = b_select(b, inside, b_dense_f64(b, dt, weight, (int)out), b_const(b, dt, 0));
  free(from);
  free(weight);
  return m;
}

/* x with its axis contracted against axis c of a matrix; the other axis of the matrix takes its place. */
static Val contract(B *b, Val x, int axis, Val m, int c) {
  int rank = b_rank(b, x), perm[IR_MAX_RANK];
  Val v = b_dot_general(b, x, m, 1, &axis, &c, 0, NULL, NULL);
  for (int i = 0; i < rank; i++) perm[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
  return b_transpose(b, v, perm);
}

void pool_adaptive_avg(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  const int64_t *out;
  if (!check_adaptive(l, x, 1, &out)) return;
  if (!dt_is_float(dt))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"adaptive_avg_pool%dd\" not implemented for '%s'", n,
           tpu_dtype_torch_name(dt));
  Val v = b_cast(b, x, dt_acc(dt));
  for (int j = 0; j < n && b_ok(b); j++) {
    int axis = b_rank(b, x) - n + j;
    ir_dim in = b_shape(b, v)->d[axis];
    if (!in.sym && out[j] == in.n) continue;
    if (out[j] == 1)
      v = b_mean(b, v, 1u << axis, true);
    else if (!in.sym && out[j] && in.n % out[j] == 0)
      v = b_mean(b, split_axis(b, v, axis, out[j]), 2u << axis, false);
    else
      v = contract(b, v, axis, mean_matrix(b, b_dtype(b, v), in, out[j]), 0);
  }
  ret(l, b_cast(b, v, dt));
}

/* (grad, self) */
void pool_adaptive_avg_backward(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x);
  int rank = b_rank(b, x);
  if (rank < n + 1 || b_rank(b, g) != rank)
    l_fail(l, TPU_RUNTIME, "adaptive pooling: the gradient must have the rank of the input");
  Val v = b_cast(b, g, dt_acc(dt));
  for (int j = 0; j < n && b_ok(b); j++) {
    int axis = rank - n + j;
    ir_dim in = b_shape(b, x)->d[axis];
    int64_t out = b_dim_static(b, g, axis);
    if (!in.sym && out == in.n) continue;
    if (!in.sym && out && in.n % out == 0)
      v = b_repeat_interleave(b, b_div(b, v, b_like(b, v, (double)(in.n / out))), axis, in.n / out);
    else
      v = contract(b, v, axis, mean_matrix(b, b_dtype(b, v), in, out), 1);
  }
  ret(l, b_cast(b, v, dt));
}

enum { ADAPTIVE_UNROLLED = 64 };

/* The same for a generic axis: the windows are worked out from its size, as many rows of them as the longest
 * may have. */
static void adaptive_max_generic(B *b, int axis, ir_dim in, int64_t out, Val *v, Val *at) {
  int64_t rows = out ? in.n / out + 2 : 1;
  if (rows > in.n) rows = in.n;
  if (out == 1) {
    Val i = b_argreduce(b, true, *v, axis, true, v);
    *at = b_gather_axis(b, *at, i, axis);
    return;
  }
  if (rows > ADAPTIVE_UNROLLED)
    b_fail(b, TPU_NOT_IMPLEMENTED, "adaptive pooling of a generic dim by long windows");
  shape line = shape_of(1, &out);
  Val n = b_symbol_size(b, in.sym), k = b_const_i(b, DT_I32, out), one = b_const_i(b, DT_I32, 1);
  Val i = b_iota(b, DT_I32, &line, 0), from = b_div(b, b_mul(b, i, n), k);
  Val last = b_div(b, b_sub(b, b_mul(b, b_add(b, i, one), n), one), k), x = *v, places = *at;
  for (int64_t t = 0; t < rows && b_ok(b); t++) {
    Val row = b_minimum(b, b_add(b, from, b_const_i(b, DT_I32, t)), last);
    Val w = b_take(b, x, row, axis), p = b_take(b, places, row, axis);
    if (t) {
      pool_better(b, v, at, w, p);
    } else {
      *v = w;
      *at = p;
    }
  }
}

/* A window per output element, equal ones by splitting the axis. */
static void adaptive_max_axis(B *b, int axis, int64_t in, int64_t out, Val *v, Val *at) {
  int64_t n = out ? longest(in, out) : 1;
  bool even = out && in % out == 0;
  Val x = even ? split_axis(b, *v, axis, out) : *v, from = even ? split_axis(b, *at, axis, out) : *at;
  if (even && n > 32) { /* global pooling of large planes */
    Val i = b_argreduce(b, true, x, axis + 1, true, v);
    *v = b_squeeze(b, *v, axis + 1);
    *at = b_squeeze(b, b_gather_axis(b, from, i, axis + 1), axis + 1);
    return;
  }
  for (int64_t t = 0; t < n && b_ok(b); t++) {
    Val w = even ? b_squeeze(b, b_slice(b, x, axis + 1, t, t + 1, 1), axis + 1)
                 : row_of_windows(b, x, axis, in, out, t);
    Val i = even ? b_squeeze(b, b_slice(b, from, axis + 1, t, t + 1, 1), axis + 1)
                 : row_of_windows(b, from, axis, in, out, t);
    if (t) {
      pool_better(b, v, at, w, i);
    } else {
      *v = w;
      *at = i;
    }
  }
}

/* (self, output_size) -> values, flat positions */
void pool_adaptive_max(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val v = l_tensor(l, 0);
  const int64_t *out;
  if (!check_adaptive(l, v, 1, &out)) return;
  Val at = pool_positions(b, v, n);
  for (int j = n - 1; j >= 0 && b_ok(b); j--) {
    int axis = b_rank(b, v) - n + j;
    ir_dim in = b_shape(b, v)->d[axis];
    if (in.sym)
      adaptive_max_generic(b, axis, in, out[j], &v, &at);
    else
      adaptive_max_axis(b, axis, in.n, out[j], &v, &at);
  }
  ret(l, v);
  ret(l, b_cast(b, at, DT_I64));
}

static void scatter_back(L *l, Val at) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x);
  pool p = {.n = n};
  int rank = b_rank(b, x);
  if (rank < n + 1) l_fail(l, TPU_RUNTIME, "pooling: the input has %d dims", rank);
  if (!b_ok(b)) return;
  p.xs = *b_shape(b, x);
  shape s = *b_shape(b, g); /* the planes of g are of its own sizes, the rest is as in x */
  for (int i = 0; i < rank - n && i < s.rank; i++) s.d[i] = p.xs.d[i];
  for (int j = 0; j < n; j++) {
    p.in[j] = p.xs.d[rank - n + j].n, p.size[j] = b_size(b, x, rank - n + j, DT_I32);
    b_dim_static(b, g, b_rank(b, g) - n + j);
  }
  at = pool_physical_positions(b, &p, b_cast(b, b_physical(b, at, &s, 0, BAD), DT_I64));
  g = b_physical(b, b_cast(b, g, dt_acc(dt)), &s, 0, BAD);
  Val v = pool_scatter(b, SCAT_ADD, g, at, n, p.in);
  ret(l, b_relabel(b, b_cast(b, v, dt), &p.xs));
}

void pool_indices_backward(L *l) { scatter_back(l, l_tensor(l, 2)); }
void pool_fractional_backward(L *l) { scatter_back(l, l_tensor(l, 4)); }

/* --- fractional --- */

/* Starts of the windows along an axis, I32 [N, C, out]: floor((i + u) * alpha) - floor(u * alpha), the last
 * at in - k. */
static Val starts(B *b, Val u, int64_t in, int64_t k, int64_t out) {
  const shape *us = b_shape(b, u);
  shape s = *us;
  s.d[s.rank++] = (ir_dim){out, 0};
  tpu_dtype dt = b_dtype(b, u);
  Val alpha = b_const(b, dt, out > 1 ? (double)(in - k) / (double)(out - 1) : 0),
      i = b_iota(b, DT_I32, &s, s.rank - 1);
  u = b_unsqueeze(b, u, us->rank);
  Val at = b_cast(b, b_mul(b, b_add(b, b_cast(b, i, dt), u), alpha), DT_I32);
  at = b_sub(b, at, b_cast(b, b_mul(b, u, alpha), DT_I32));
  return b_select(b, b_eq(b, i, b_const_i(b, DT_I32, out - 1)), b_const_i(b, DT_I32, in - k), at);
}

/* v[N, C, ...] gathered along an axis at rows at[N, C, out]. */
static Val gather_rows(B *b, Val v, Val at, int axis, int64_t out) {
  shape s = *b_shape(b, v);
  s.d[axis] = (ir_dim){out, 0};
  return b_gather_axis(b, v, b_broadcast_dims(b, at, &s, (int[]){0, 1, axis}), axis);
}

/* (self, kernel_size, output_size, random_samples[N, C, dims]) -> values, flat positions. The samples of an
 * axis stand last first. */
void pool_fractional(L *l) {
  B *b = l_b(l);
  int n = l_datum(l), rank = b_rank(b, l_tensor(l, 0));
  Val x = l_tensor(l, 0), samples = l_tensor(l, 3);
  const int64_t *k, *out;
  if (l_ints(l, 1, &k) != n || l_ints(l, 2, &out) != n || (rank != n + 1 && rank != n + 2))
    l_fail(
        l, TPU_RUNTIME,
        "fractional_max_pool%dd: kernel_size and output_size must be %d numbers, the input of %d or %d dims",
        n, n, n + 1, n + 2);
  bool batched = rank == n + 2;
  Val v = batched ? x : b_unsqueeze(b, x, 0), at = pool_positions(b, v, n);
  if (!b_ok(b)) return;
  for (int j = n - 1; j >= 0; j--) {
    int axis = 2 + j;
    int64_t in = b_dim_static(b, v, axis);
    if (out[j] + k[j] - 1 > in)
      l_fail(l, TPU_RUNTIME, "fractional_max_pool%dd(): pool size %lld too large relative to input size %lld",
             n, (long long)k[j], (long long)in);
    int64_t column = n == 2 ? 1 - j : j;
    Val u = b_squeeze(b, b_slice(b, samples, 2, column, column + 1, 1), 2),
        from = starts(b, u, in, k[j], out[j]), best = BAD, arg = BAD;
    for (int64_t t = 0; t < k[j] && b_ok(b); t++) {
      Val row = b_add(b, from, b_const_i(b, DT_I32, t)), w = gather_rows(b, v, row, axis, out[j]),
          i = gather_rows(b, at, row, axis, out[j]);
      if (t) {
        pool_better(b, &best, &arg, w, i);
      } else {
        best = w;
        arg = i;
      }
    }
    v = best;
    at = arg;
  }
  ret(l, batched ? v : b_squeeze(b, v, 0));
  ret(l, b_cast(b, batched ? at : b_squeeze(b, at, 0), DT_I64));
}
