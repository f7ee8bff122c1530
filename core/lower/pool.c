/* Pooling over the last two or three dims, batched or not. Windows are separable: an axis at a time, each a
 * few strided slices. */
#include "lower/pool.h"

#include <stdio.h>

static bool plane_empty(const pool *p) {
  for (int i = 0; i < p->n; i++)
    if (!p->in[i] || !p->out[i]) return true;
  return false;
}

static int64_t pick(const int64_t *v, int n, int i, int64_t absent) {
  return n == 0 ? absent : v[n == 1 ? 0 : i];
}

/* Output size of a window along an axis, PyTorch's rule. */
static int64_t windows(int64_t in, int64_t k, int64_t stride, int64_t pad, int64_t dilation, bool ceil_mode) {
  int64_t span = in + 2 * pad - dilation * (k - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  int64_t out = (span >= 0 ? span / stride : -((-span + stride - 1) / stride)) + 1;
  return ceil_mode && (out - 1) * stride >= in + pad ? out - 1 : out;
}

/* The same as a dim. In ceil mode the last window begins inside the input or its first pad. */
static ir_dim window_dim(B *b, ir_dim in, int64_t k, int64_t stride, int64_t pad, int64_t dilation,
                         bool ceil_mode) {
  if (!in.sym) return (ir_dim){windows(in.n, k, stride, pad, dilation, ceil_mode), 0};
  int64_t rest = 2 * pad - dilation * (k - 1) - 1 + stride;
  if (!ceil_mode) return b_dim_map(b, in, 1, rest, stride);
  return b_dim_min(b, b_dim_map(b, in, 1, rest + stride - 1, stride),
                   b_dim_map(b, in, 1, pad + stride - 1, stride));
}

static void check_rank(L *l, Val x, int n) {
  B *b = l_b(l);
  const shape *s = b_shape(b, x);
  bool good = s->rank == n + 1 || s->rank == n + 2;
  for (int i = s->rank - n - 1; i < s->rank && good; i++) {
    b_require(b, s->d[i], 1);
    good = s->d[i].sym || s->d[i].n > 0;
  }
  if (!good)
    l_fail(l, TPU_RUNTIME, "non-empty %dD or %dD (batch mode) tensor expected for input", n + 1, n + 2);
}

static void check_window(L *l, const pool *p, int j) {
  int64_t k = p->k[j], pad = p->pad[j], d = p->dilation[j];
  if (k <= 0) l_fail(l, TPU_RUNTIME, "kernel size should be greater than zero");
  if (p->stride[j] <= 0)
    l_fail(l, TPU_RUNTIME, p->stride[j] ? "stride should be greater than zero" : "stride should not be zero");
  if (d <= 0)
    l_fail(l, TPU_RUNTIME, "dilation should be greater than zero, but got dilation: %lld", (long long)d);
  if (pad < 0) l_fail(l, TPU_RUNTIME, "pad must be non-negative, but got pad: %lld", (long long)pad);
  if (pad > ((k - 1) * d + 1) / 2)
    l_fail(l, TPU_RUNTIME,
           "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and "
           "dilation=%lld",
           (long long)pad, (long long)k, (long long)d);
}

static void too_small(L *l, const pool *p, int64_t channels) {
  char in[128], out[128];
  size_t a = 0, z = 0;
  for (int j = 0; j < p->n; j++) {
    a += (size_t)snprintf(in + a, sizeof in - a, "x%lld", (long long)p->in[j]);
    z += (size_t)snprintf(out + z, sizeof out - z, "x%lld", (long long)p->out[j]);
  }
  l_fail(l, TPU_RUNTIME,
         "Given input size: (%lld%s). Calculated output size: (%lld%s). Output size is too small",
         (long long)channels, in, (long long)channels, out);
}

/* Reads kernel_size, stride, padding (and dilation when `dilated`) from argument i on, then ceil_mode. */
static bool read_pool(L *l, int i, Val x, int n, bool dilated, pool *p) {
  B *b = l_b(l);
  const int64_t *k, *s, *pad, *d = NULL;
  int nk = l_ints(l, i, &k), ns = l_ints(l, i + 1, &s), np = l_ints(l, i + 2, &pad),
      nd = dilated ? l_ints(l, i + 3, &d) : 0;
  *p = (pool){.n = n, .ceil_mode = l_bool(l, i + 3 + dilated), .xs = *b_shape(b, x)};
  check_rank(l, x, n);
  if (!b_ok(b)) return false;
  p->out_shape = p->xs;
  p->plane = axes_all(p->xs.rank) & ~axes_all(p->xs.rank - n);
  for (int j = 0; j < n; j++) {
    int axis = p->xs.rank - n + j;
    p->in[j] = p->xs.d[axis].n;
    p->size[j] = b_size(b, x, axis, DT_I32);
    p->k[j] = pick(k, nk, j, 1);
    p->stride[j] = pick(s, ns, j, p->k[j]);
    p->pad[j] = pick(pad, np, j, 0);
    p->dilation[j] = pick(d, nd, j, 1);
    check_window(l, p, j);
    if (!b_ok(b)) return false;
    ir_dim out = window_dim(b, p->xs.d[axis], p->k[j], p->stride[j], p->pad[j], p->dilation[j], p->ceil_mode);
    b_require(b, out, 1);
    p->out_shape.d[axis] = out;
    p->out[j] = out.n;
  }
  for (int j = 0; j < n; j++)
    if (p->out[j] < 1) too_small(l, p, p->xs.d[p->xs.rank - n - 1].n);
  return b_ok(b);
}

static shape with_plane(B *b, Val x, int n, const int64_t *sizes) {
  shape s = *b_shape(b, x);
  for (int i = 0; i < n; i++) s.d[s.rank - n + i] = (ir_dim){sizes[i], 0};
  return s;
}

/* --- max --- */

/* Flat position of every element in its plane, I32, of x's shape. */
Val pool_positions(B *b, Val x, int n) {
  const shape s = *b_shape(b, x);
  Val at = BAD, step = b_const_i(b, DT_I32, 1);
  for (int i = s.rank - 1; i >= s.rank - n; i--) {
    Val v = b_mul(b, b_iota(b, DT_I32, &s, i), step);
    at = at == BAD ? v : b_add(b, at, v);
    step = b_mul(b, step, b_size(b, x, i, DT_I32));
  }
  return at;
}

void pool_better(B *b, Val *best, Val *arg, Val v, Val at) {
  Val zero = b_const_i(b, DT_I32, 0);
  Val better = b_or(b, b_gt(b, v, *best), b_and(b, b_lt(b, *arg, zero), b_ge(b, at, zero)));
  if (dt_is_float(b_dtype(b, v))) better = b_or(b, better, b_isnan(b, v));
  *best = b_select(b, better, v, *best);
  *arg = b_select(b, better, at, *arg);
}

/* Windows along one axis: the best value, and the flat position it came from (-1: padding alone so far). */
static void max_axis(B *b, const pool *p, int j, Val *v, Val *at) {
  int axis = b_rank(b, *v) - p->n + j;
  int64_t reach = (p->out[j] - 1) * p->stride[j] + (p->k[j] - 1) * p->dilation[j] + 1,
          hi = reach - p->in[j] - p->pad[j];
  Val x = b_pad_axis(b, *v, axis, p->pad[j], hi, b_min_value(b, b_dtype(b, *v)));
  Val from = b_pad_axis(b, *at, axis, p->pad[j], hi, b_const_i(b, DT_I32, -1));
  for (int64_t k = 0; k < p->k[j]; k++) {
    int64_t lo = k * p->dilation[j], to = lo + (p->out[j] - 1) * p->stride[j] + 1;
    Val w = b_slice(b, x, axis, lo, to, p->stride[j]), i = b_slice(b, from, axis, lo, to, p->stride[j]);
    if (k) {
      pool_better(b, v, at, w, i);
    } else {
      *v = w;
      *at = i;
    }
  }
}

/* (self, kernel_size, stride, padding, dilation, ceil_mode) -> values, flat positions */
static void max_pool(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val v = l_tensor(l, 0);
  pool p;
  if (!read_pool(l, 1, v, n, true, &p)) return;
  Val at = b_physical(b, pool_positions(b, v, n), NULL, p.plane, b_const_i(b, DT_I32, -1));
  v = b_physical(b, v, NULL, p.plane, b_min_value(b, b_dtype(b, v)));
  for (int j = n - 1; j >= 0; j--) max_axis(b, &p, j, &v, &at);
  ret(l, b_relabel(b, v, &p.out_shape));
  ret(l, b_relabel(b, b_cast(b, at, DT_I64), &p.out_shape));
}

/* Adds g[..., windows] to the places of planes of zeros that `at` names. */
Val pool_scatter(B *b, b_scat kind, Val g, Val at, int n, const int64_t *plane) {
  const shape s = *b_shape(b, g);
  int64_t planes = 1, size = 1, area = 1;
  for (int i = 0; i < s.rank - n; i++) planes *= s.d[i].n;
  for (int i = 0; i < n; i++) {
    area *= s.d[s.rank - n + i].n;
    size *= plane[i];
  }
  int64_t flat[2] = {planes, area};
  shape to = shape_of(2, (int64_t[]){planes, size}), line = shape_of(2, flat);
  Val idx[2] = {b_iota(b, DT_I32, &line, 0), b_cast(b, b_reshape_to(b, at, 2, flat), DT_I32)};
  Val v = b_scatter_nd(b, kind, b_zeros(b, b_dtype(b, g), &to), idx, 2, b_reshape_to(b, g, 2, flat));
  shape full = with_plane(b, g, n, plane);
  return b_reshape(b, v, &full);
}

/* The gradient as a sum over window offsets: what each window gives to the element at that offset, spread by
 * the stride. */
static Val max_by_offsets(B *b, const pool *p, Val g, Val at) {
  const shape s = *b_shape(b, g);
  int rank = s.rank, first = rank - p->n;
  Val sum = BAD, zero = b_like(b, g, 0), base = b_const_i(b, DT_I32, 0), step[3],
      unit = b_const_i(b, DT_I32, 1);
  int64_t total = 1, k[3] = {0};
  for (int j = p->n - 1; j >= 0; j--) {
    step[j] = unit;
    unit = b_mul(b, unit, p->size[j]);
    total *= p->k[j];
    Val start = b_sub(b, b_mul(b, b_iota(b, DT_I32, &s, first + j), b_const_i(b, DT_I32, p->stride[j])),
                      b_const_i(b, DT_I32, p->pad[j]));
    base = b_add(b, base, b_mul(b, start, step[j]));
  }
  at = b_cast(b, at, DT_I32);
  for (int64_t t = 0; t < total; t++) {
    Val move = b_const_i(b, DT_I32, 0);
    int64_t rest = t, lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK] = {0}, in[IR_MAX_RANK] = {0};
    for (int j = p->n - 1; j >= 0; j--) {
      k[j] = rest % p->k[j];
      rest /= p->k[j];
      move = b_add(b, move, b_mul(b, step[j], b_const_i(b, DT_I32, k[j] * p->dilation[j])));
      lo[first + j] = k[j] * p->dilation[j] - p->pad[j];
      in[first + j] = p->stride[j] - 1;
      hi[first + j] = p->in[j] - ((p->out[j] - 1) * p->stride[j] + 1) - lo[first + j];
    }
    Val part = b_select(b, b_eq(b, at, b_add(b, base, move)), g, zero);
    part = b_pad(b, part, lo, hi, in, zero);
    sum = sum == BAD ? part : b_add(b, sum, part);
  }
  return sum;
}

Val pool_physical_positions(B *b, const pool *p, Val at) {
  Val v = b_const_i(b, DT_I64, 0), rest = at;
  int64_t step = 1;
  bool same = true;
  for (int j = p->n - 1; j >= 0; j--) {
    Val size = b_cast(b, p->size[j], DT_I64), c = j ? b_rem(b, rest, size) : rest;
    v = b_add(b, v, b_mul(b, c, b_const_i(b, DT_I64, step)));
    rest = b_div(b, rest, size);
    step *= p->in[j];
    same = same && (j == 0 || !p->xs.d[p->xs.rank - p->n + j].sym);
  }
  return same ? at : v;
}

/* (grad, self, kernel_size, stride, padding, dilation, ceil_mode, indices) */
static void max_pool_backward(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x);
  pool p;
  if (!read_pool(l, 2, x, n, true, &p)) return;
  Val at = b_physical(b, l_tensor(l, 7), &p.out_shape, p.plane, b_const_i(b, DT_I64, 0));
  g = b_cast(b, g, dt_acc(dt));
  g = b_physical(b, g, &p.out_shape, p.plane, b_like(b, g, 0));
  int64_t window = 1;
  for (int j = 0; j < n; j++) window *= p.k[j];
  Val v = window <= 32 && !plane_empty(&p)
              ? max_by_offsets(b, &p, g, at)
              : pool_scatter(b, SCAT_ADD, g, pool_physical_positions(b, &p, at), n, p.in);
  ret(l, b_relabel(b, b_cast(b, v, dt), &p.xs));
}

/* (self, indices, output_size[, stride, padding]) */
static void max_unpool(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val x = l_tensor(l, 0), at = l_tensor(l, 1);
  const int64_t *size;
  if (b_dtype(b, at) != DT_I64)
    l_fail(l, TPU_RUNTIME, "elements in indices should be type int64 but got: %s",
           tpu_dtype_torch_name(b_dtype(b, at)));
  if (l_ints(l, 2, &size) != n)
    l_fail(l, TPU_RUNTIME, "There should be exactly %d elements in output_size", n);
  if (b_rank(b, x) != n + 1 && b_rank(b, x) != n + 2)
    l_fail(l, TPU_RUNTIME,
           "Input to max_unpooling%dd should be a %dd or %dd Tensor, but got tensor with dim: %d", n, n + 1,
           n + 2, b_rank(b, x));
  if (b_ok(b) && !shape_equal(b_shape(b, x), b_shape(b, at)))
    l_fail(l, TPU_RUNTIME, "Expected shape of indices to be same as that of the input tensor");
  if (!b_ok(b)) return;
  int64_t area = 1;
  for (int i = 0; i < n; i++) area *= size[i];
  Val fine = b_and(b, b_ge(b, at, b_const_i(b, DT_I64, 0)), b_lt(b, at, b_const_i(b, DT_I64, area)));
  b_check(b, fine, TPU_RUNTIME, "found an invalid max index");
  ret(l, pool_scatter(b, SCAT_SET, x, at, n, size));
}

/* --- average --- */

/* The counts of axis_counts where the axis is generic. Windows in the padding count 1, so that dividing makes
 * no NaN of the zeros there. */
static Val size_counts(B *b, const pool *p, int j, bool with_pad, tpu_dtype dt) {
  shape line = shape_of(1, &p->out[j]);
  Val n = p->size[j], pad = b_const_i(b, DT_I32, p->pad[j]), zero = b_const_i(b, DT_I32, 0);
  Val from = b_sub(b, b_mul(b, b_iota(b, DT_I32, &line, 0), b_const_i(b, DT_I32, p->stride[j])), pad),
      to = b_minimum(b, b_add(b, from, b_const_i(b, DT_I32, p->k[j])), b_add(b, n, pad));
  if (!with_pad) from = b_maximum(b, from, zero), to = b_minimum(b, to, n);
  return b_cast(b, b_maximum(b, b_sub(b, to, from), b_const_i(b, DT_I32, 1)), dt);
}

/* How many elements the windows along an axis count, as a vector that broadcasts over x. */
static Val axis_counts(B *b, const pool *p, int j, bool with_pad, tpu_dtype dt) {
  int64_t dims[3] = {1, 1, 1};
  dims[j] = p->out[j];
  if (p->xs.d[p->xs.rank - p->n + j].sym)
    return b_reshape_to(b, size_counts(b, p, j, with_pad, dt), p->n, dims);
  int64_t n = p->out[j], *counts = malloc((size_t)(n + 1) * sizeof *counts);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = i * p->stride[j] - p->pad[j], to = from + p->k[j];
    if (to > p->in[j] + p->pad[j]) to = p->in[j] + p->pad[j];
    if (!with_pad && from < 0) from = 0;
    if (!with_pad && to > p->in[j]) to = p->in[j];
    counts[i] = to > from ? to - from : 0;
  }
  Val v = b_reshape_to(b, b_dense_i64(b, dt, counts, (int)n), p->n, dims);
  free(counts);
  return v;
}

/* What the sum of a window is divided by. */
static Val divisor(L *l, const pool *p, int with_pad, int override, tpu_dtype dt) {
  B *b = l_b(l);
  if (l_has(l, override)) {
    if (!l_int(l, override)) l_fail(l, TPU_RUNTIME, "divisor must be not zero");
    return b_const_i(b, dt, l_int(l, override));
  }
  Val v = axis_counts(b, p, 0, l_bool(l, with_pad), dt);
  for (int j = 1; j < p->n; j++) v = b_mul(b, v, axis_counts(b, p, j, l_bool(l, with_pad), dt));
  return v;
}

/* (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
static void avg_pool(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  pool p;
  if (!read_pool(l, 1, x, n, false, &p)) return;
  int first = b_rank(b, x) - n;
  b_window w = {0};
  for (int j = 0; j < n; j++) {
    int64_t hi = (p.out[j] - 1) * p.stride[j] + p.k[j] - p.in[j] - p.pad[j];
    w.size[first + j] = p.k[j];
    w.stride[first + j] = p.stride[j];
    w.lo[first + j] = p.pad[j];
    w.hi[first + j] = hi > 0 ? hi : 0;
  }
  x = b_physical(b, b_cast(b, x, acc), NULL, p.plane, b_const(b, acc, 0));
  Val sum = b_reduce_window(b, RED_SUM, x, &w);
  ret(l, b_relabel(b, b_cast(b, b_div(b, sum, divisor(l, &p, 5, 6, acc)), dt), &p.out_shape));
}

/* (grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
static void avg_pool_backward(L *l) {
  B *b = l_b(l);
  int n = l_datum(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  pool p;
  if (!read_pool(l, 2, x, n, false, &p)) return;
  int first = b_rank(b, x) - n;
  g = b_physical(b, b_cast(b, g, acc), &p.out_shape, p.plane, b_const(b, acc, 0));
  g = b_div(b, g, divisor(l, &p, 6, 7, acc));
  int64_t lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK] = {0}, in[IR_MAX_RANK] = {0};
  b_window w = {0};
  for (int j = 0; j < n; j++) {
    lo[first + j] = p.k[j] - 1 - p.pad[j];
    hi[first + j] = p.in[j] + p.k[j] - 1 - lo[first + j] - ((p.out[j] - 1) * p.stride[j] + 1);
    in[first + j] = p.stride[j] - 1;
    w.size[first + j] = p.k[j];
  }
  g = b_pad(b, g, lo, hi, in, b_like(b, g, 0));
  ret(l, b_relabel(b, b_cast(b, b_reduce_window(b, RED_SUM, g, &w), dt), &p.xs));
}

enum { PL = ROW_CHANNELS };

const tpu_row rows_pool[] = {{"max_pool2d_with_indices", max_pool, 2, PL | ROW_SAME_DTYPE},
                             {"max_pool3d_with_indices", max_pool, 3, PL | ROW_SAME_DTYPE},
                             {"max_pool2d_with_indices_backward", max_pool_backward, 2, PL | ROW_SAME_DTYPE},
                             {"max_pool3d_with_indices_backward", max_pool_backward, 3, PL},
                             {"max_unpool2d", max_unpool, 2, PL | ROW_SAME_DTYPE},
                             {"max_unpool3d", max_unpool, 3, PL | ROW_SAME_DTYPE},
                             {"avg_pool2d", avg_pool, 2, PL | ROW_SAME_DTYPE},
                             {"avg_pool3d", avg_pool, 3, PL | ROW_SAME_DTYPE},
                             {"avg_pool2d_backward", avg_pool_backward, 2, PL},
                             {"avg_pool3d_backward", avg_pool_backward, 3, PL},
                             {"_adaptive_avg_pool2d", pool_adaptive_avg, 2, PL},
                             {"_adaptive_avg_pool3d", pool_adaptive_avg, 3, PL},
                             /* the functional forms of these three are composite, or none */
                             {"adaptive_avg_pool2d.out", pool_adaptive_avg, 2, PL},
                             {"adaptive_avg_pool3d.out", pool_adaptive_avg, 3, PL},
                             {"adaptive_avg_pool3d_backward.grad_input", pool_adaptive_avg_backward, 3, PL},
                             {"_adaptive_avg_pool2d_backward", pool_adaptive_avg_backward, 2, PL},
                             {"_adaptive_avg_pool3d_backward", pool_adaptive_avg_backward, 3, PL},
                             {"adaptive_max_pool2d", pool_adaptive_max, 2, PL | ROW_SAME_DTYPE},
                             {"adaptive_max_pool3d", pool_adaptive_max, 3, PL | ROW_SAME_DTYPE},
                             {"adaptive_max_pool2d_backward", pool_indices_backward, 2, PL},
                             {"adaptive_max_pool3d_backward", pool_indices_backward, 3, PL},
                             {"fractional_max_pool2d", pool_fractional, 2, PL | ROW_SAME_DTYPE},
                             {"fractional_max_pool3d", pool_fractional, 3, PL | ROW_SAME_DTYPE},
                             {"fractional_max_pool2d_backward", pool_fractional_backward, 2, PL},
                             {"fractional_max_pool3d_backward", pool_fractional_backward, 3, PL},
                             {0}};
