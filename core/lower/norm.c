/* Normalisations: batch, layer, group, RMS, weight. Everything is computed in the accumulation dtype (f32 for
 * 16-bit floats) and rounded once; saved statistics stay in it. */
#include <stdio.h>

#include "lower/lower.h"

static Val wide(L *l, int i, tpu_dtype acc) {
  return l_has(l, i) ? b_cast(l_b(l), l_tensor(l, i), acc) : BAD;
}

/* A [C] vector under x, whose channels are axis 1. */
static Val channels(B *b, Val v, int rank) {
  for (int i = 2; i < rank; i++) v = b_unsqueeze(b, v, 1);
  return v;
}

static Val scale_shift(B *b, Val x, Val w, Val bias) {
  if (w != BAD) x = b_mul(b, x, w);
  return bias != BAD ? b_add(b, x, bias) : x;
}

static Val square(B *b, Val x) { return b_mul(b, x, x); }

static Val empty(B *b, tpu_dtype dt) {
  shape none = shape_of(1, (int64_t[]){0});
  return b_zeros(b, dt, &none);
}

/* --- batch --- */

/* Where the arguments of a batch norm stand; -1 where it has none. */
typedef struct places {
  int running, training, momentum, eps;
} places;

enum { BN_NATIVE, BN_NO_STATS, BN_INFERENCE, BN_UPDATE, BN_STATS };

static const places bn_places[] = {[BN_NATIVE] = {3, 5, 6, 7},
                                   [BN_NO_STATS] = {-1, 3, 4, 5},
                                   [BN_INFERENCE] = {3, -1, 5, 6},
                                   [BN_UPDATE] = {3, -1, 5, 6},
                                   [BN_STATS] = {1, -1, 3, -1}};

static uint32_t all_but_channels(B *b, Val x) { return axes_all(b_rank(b, x)) & ~2u; }

/* Mean and biased variance over everything but the channels; of no elements: NaN. */
static void moments(B *b, Val x, Val *mean, Val *var) {
  uint32_t axes = all_but_channels(b, x);
  *mean = b_mean(b, x, axes, false);
  *var = b_mean(b, square(b, b_sub(b, x, channels(b, *mean, b_rank(b, x)))), axes, false);
}

static Val blend(L *l, int i, Val fresh, Val momentum) {
  B *b = l_b(l);
  Val old = l_tensor(l, i);
  tpu_dtype dt = b_dtype(b, old), acc = b_dtype(b, fresh);
  Val kept = b_mul(b, b_cast(b, old, acc), b_sub(b, b_like(b, fresh, 1), momentum));
  return b_cast(b, b_add(b, kept, b_mul(b, fresh, momentum)), dt);
}

/* running = (1 - momentum) * running + momentum * fresh, the variance unbiased. */
static void update_running(L *l, const places *at, Val x, Val mean, Val var) {
  B *b = l_b(l);
  if (at->running < 0) return;
  tpu_dtype acc = b_dtype(b, mean);
  Val momentum = l_scalar(l, at->momentum, acc);
  Val n = b_count(b, x, all_but_channels(b, x), acc);
  Val unbiased = b_mul(b, var, b_div(b, n, b_sub(b, n, b_like(b, n, 1))));
  if (l_has(l, at->running)) l_write(l, at->running, 0, blend(l, at->running, mean, momentum));
  if (l_has(l, at->running + 1))
    l_write(l, at->running + 1, 0, blend(l, at->running + 1, unbiased, momentum));
}

static void batch_norm(L *l) {
  B *b = l_b(l);
  int form = l_datum(l);
  const places *at = &bn_places[form];
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  int rank = b_rank(b, x);
  if (rank < 2)
    l_fail(l, TPU_RUNTIME, "batch_norm: expected an input of at least 2 dimensions, got %d", rank);
  if (!b_ok(b)) return;
  bool training = form == BN_UPDATE || (at->training >= 0 && l_bool(l, at->training)), saves = training;
  bool stats = at->running >= 0 && l_has(l, at->running);
  if (!training && !stats)
    l_fail(l, TPU_RUNTIME, "running_mean and running_var must be defined in evaluation mode");
  Val v = b_cast(b, x, acc), mean, var, eps = l_scalar(l, at->eps, acc);
  if (training) {
    moments(b, v, &mean, &var);
    update_running(l, at, v, mean, var);
  } else {
    mean = wide(l, at->running, acc);
    var = wide(l, at->running + 1, acc);
  }
  Val invstd = b_div(b, b_like(b, var, 1), b_sqrt(b, b_add(b, var, eps)));
  Val w = wide(l, 1, acc), bias = wide(l, 2, acc);
  v = b_mul(b, b_sub(b, v, channels(b, mean, rank)),
            channels(b, w == BAD ? invstd : b_mul(b, invstd, w), rank));
  ret(l, b_cast(b, scale_shift(b, v, BAD, bias == BAD ? BAD : channels(b, bias, rank)), dt));
  ret(l, saves ? mean : empty(b, acc));
  ret(l, saves ? invstd : empty(b, acc));
  if (form == BN_UPDATE) ret(l, empty(b, DT_U8));
}

/* batch_norm_update_stats(input, running_mean, running_var, momentum) -> mean, biased variance */
static void batch_norm_update_stats(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), mean, var;
  x = b_cast(b, x, dt_acc(b_dtype(b, x)));
  moments(b, x, &mean, &var);
  update_running(l, &bn_places[BN_STATS], x, mean, var);
  ret(l, mean);
  ret(l, var);
}

/* (grad, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask[,
 * reserve]) */
static void batch_norm_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt), wdt = l_has(l, 2) ? b_dtype(b, l_tensor(l, 2)) : dt;
  bool train = l_bool(l, 7);
  int rank = b_rank(b, x);
  if (!b_ok(b)) return;
  uint32_t axes = all_but_channels(b, x);
  g = b_cast(b, g, acc);
  x = b_cast(b, x, acc);
  Val mean, invstd;
  if (train) {
    mean = wide(l, 5, acc);
    invstd = wide(l, 6, acc);
  } else {
    mean = wide(l, 3, acc);
    invstd = b_rsqrt(b, b_add(b, wide(l, 4, acc), l_scalar(l, 8, acc)));
  }
  Val centred = b_sub(b, x, channels(b, mean, rank));
  Val sum = b_sum(b, g, axes, false), dot = b_sum(b, b_mul(b, g, centred), axes, false);
  Val w = wide(l, 2, acc), factor = w == BAD ? invstd : b_mul(b, invstd, w), v = g;
  if (train) {
    Val n = b_count(b, x, axes, acc), slope = b_div(b, b_mul(b, dot, square(b, invstd)), n);
    v = b_sub(b, v, channels(b, b_div(b, sum, n), rank));
    v = b_sub(b, v, b_mul(b, centred, channels(b, slope, rank)));
  }
  if (l_bool_item(l, 9, 0))
    ret(l, b_cast(b, b_mul(b, v, channels(b, factor, rank)), dt));
  else
    ret_none(l);
  if (l_bool_item(l, 9, 1))
    ret(l, b_cast(b, b_mul(b, dot, invstd), wdt));
  else
    ret_none(l);
  if (l_bool_item(l, 9, 2))
    ret(l, b_cast(b, sum, wdt));
  else
    ret_none(l);
}

/* --- batch, in the pieces of SyncBatchNorm --- */

static void sync_stats(L *l) { /* (input, eps) -> mean, invstd */
  B *b = l_b(l);
  Val x = l_tensor(l, 0), mean, var;
  tpu_dtype acc = dt_acc(b_dtype(b, x));
  moments(b, b_cast(b, x, acc), &mean, &var);
  ret(l, mean);
  ret(l, b_rsqrt(b, b_add(b, var, l_scalar(l, 1, acc))));
}

static void sync_elemt(L *l) { /* (input, weight, bias, mean, invstd, eps) */
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  int rank = b_rank(b, x);
  Val w = wide(l, 1, acc), bias = wide(l, 2, acc), invstd = wide(l, 4, acc);
  Val v = b_sub(b, b_cast(b, x, acc), channels(b, wide(l, 3, acc), rank));
  v = b_mul(b, v, channels(b, w == BAD ? invstd : b_mul(b, invstd, w), rank));
  ret(l, b_cast(b, scale_shift(b, v, BAD, bias == BAD ? BAD : channels(b, bias, rank)), dt));
}

/* (input, mean[W, C], invstd[W, C], running_mean, running_var, momentum, eps, counts[W]) -> mean, invstd */
static void sync_gather(L *l) {
  B *b = l_b(l);
  Val mean = l_tensor(l, 1);
  tpu_dtype acc = dt_acc(b_dtype(b, mean));
  mean = b_cast(b, mean, acc);
  Val eps = l_scalar(l, 6, acc), one = b_const(b, acc, 1);
  Val n = l_is_tensor(l, 7) ? b_unsqueeze(b, b_cast(b, l_tensor(l, 7), acc), 1)
                            : b_const(b, acc, (double)l_int(l, 7));
  n = b_broadcast_to(b, n, b_shape(b, mean));
  Val total = b_sum(b, n, 1, false), var = b_sub(b, b_div(b, one, square(b, wide(l, 2, acc))), eps);
  Val all = b_div(b, b_sum(b, b_mul(b, mean, n), 1, false), total);
  Val away = square(b, b_sub(b, mean, b_unsqueeze(b, all, 0)));
  Val v = b_sum(b, b_mul(b, b_add(b, var, away), n), 1, false), momentum = l_scalar(l, 5, acc);
  if (l_has(l, 3)) l_write(l, 3, 0, blend(l, 3, all, momentum));
  if (l_has(l, 4)) l_write(l, 4, 0, blend(l, 4, b_div(b, v, b_sub(b, total, one)), momentum));
  ret(l, all);
  ret(l, b_rsqrt(b, b_add(b, b_div(b, v, total), eps)));
}

/* (grad, input, mean, invstd, weight, input_g, weight_g, bias_g) -> sum_dy, sum_dy_xmu, grad_weight,
 * grad_bias */
static void sync_backward_reduce(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype acc = dt_acc(b_dtype(b, x)), wdt = l_has(l, 4) ? b_dtype(b, l_tensor(l, 4)) : acc;
  int rank = b_rank(b, x);
  uint32_t axes = all_but_channels(b, x);
  g = b_cast(b, g, acc);
  Val sum = b_sum(b, g, axes, false);
  Val dot =
      b_sum(b, b_mul(b, g, b_sub(b, b_cast(b, x, acc), channels(b, wide(l, 2, acc), rank))), axes, false);
  Val out[4] = {sum, dot, b_cast(b, b_mul(b, dot, wide(l, 3, acc)), wdt), b_cast(b, sum, wdt)};
  for (int i = 0; i < 4; i++) {
    if (l_bool(l, i < 2 ? 5 : i + 4))
      ret(l, out[i]);
    else
      ret_none(l);
  }
}

/* (grad, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count) */
static void sync_backward_elemt(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  int rank = b_rank(b, x);
  Val w = wide(l, 4, acc), invstd = wide(l, 3, acc), count = wide(l, 7, acc);
  Val n = b_sum(b, count, axes_all(b_rank(b, count)), false);
  Val slope = b_div(b, b_mul(b, wide(l, 6, acc), square(b, invstd)), n);
  Val v = b_sub(b, wide(l, 0, acc), channels(b, b_div(b, wide(l, 5, acc), n), rank));
  v = b_sub(
      b, v,
      b_mul(b, b_sub(b, b_cast(b, x, acc), channels(b, wide(l, 2, acc), rank)), channels(b, slope, rank)));
  ret(l, b_cast(b, b_mul(b, v, channels(b, w == BAD ? invstd : b_mul(b, invstd, w), rank)), dt));
}

/* --- layer, RMS --- */

/* "2, 3" */
static void list_words(char *out, size_t cap, const int64_t *v, int n) {
  size_t at = 0;
  out[0] = 0;
  for (int i = 0; i < n && at < cap; i++)
    at += (size_t)snprintf(out + at, cap - at, "%s%lld", i ? ", " : "", (long long)v[i]);
}

/* The axes of normalized_shape (argument i): the last ones of x. */
static uint32_t normal_axes(L *l, Val x, int i) {
  const int64_t *n;
  int k = l_ints(l, i, &n), rank = b_rank(l_b(l), x);
  const shape *s = b_shape(l_b(l), x);
  bool fits = k >= 1 && k <= rank;
  for (int j = 0; j < k && fits; j++) fits = !s->d[rank - k + j].sym && s->d[rank - k + j].n == n[j];
  if (k < 1)
    l_fail(l, TPU_RUNTIME,
           "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
           "but got "
           "normalized_shape = []");
  if (!fits) {
    char want[128], have[128];
    int64_t sizes[IR_MAX_RANK];
    for (int j = 0; j < rank; j++) sizes[j] = s->d[j].n;
    list_words(want, sizeof want, n, k);
    list_words(have, sizeof have, sizes, rank);
    l_fail(l, TPU_RUNTIME,
           "Given normalized_shape=[%s], expected input with shape [*, %s], but got input of size[%s]", want,
           want, have);
    return 0;
  }
  return axes_all(rank) & ~axes_all(rank - k);
}

/* (input, normalized_shape, weight, bias, eps) -> output, mean, rstd */
static void layer_norm(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  uint32_t axes = normal_axes(l, x, 1);
  if (!b_ok(b)) return;
  Val v = b_cast(b, x, acc), mean = b_mean(b, v, axes, true), centred = b_sub(b, v, mean);
  Val var = b_mean(b, square(b, centred), axes, true);
  Val rstd = b_rsqrt(b, b_add(b, var, b_like(b, var, l_double(l, 4))));
  v = scale_shift(b, b_mul(b, centred, rstd), wide(l, 2, acc), wide(l, 3, acc));
  ret(l, b_cast(b, v, dt));
  ret(l, mean);
  ret(l, rstd);
}

/* Gradient of x in normed = centred * rstd from that of normed; `centres` false: RMS. */
static Val normed_gradient(B *b, Val g, Val normed, Val rstd, uint32_t axes, bool centres) {
  Val v = b_sub(b, g, b_mul(b, normed, b_mean(b, b_mul(b, g, normed), axes, true)));
  if (centres) v = b_sub(b, v, b_mean(b, g, axes, true));
  return b_mul(b, v, rstd);
}

/* (grad, input, normalized_shape, mean, rstd, weight, bias, output_mask) */
static void layer_norm_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  uint32_t axes = normal_axes(l, x, 2);
  if (!b_ok(b)) return;
  uint32_t outer = axes_all(b_rank(b, x)) & ~axes;
  Val rstd = wide(l, 4, acc), w = wide(l, 5, acc);
  Val normed = b_mul(b, b_sub(b, b_cast(b, x, acc), wide(l, 3, acc)), rstd);
  g = b_cast(b, g, acc);
  if (l_bool_item(l, 7, 0))
    ret(l, b_cast(b, normed_gradient(b, w == BAD ? g : b_mul(b, g, w), normed, rstd, axes, true), dt));
  else
    ret_none(l);
  if (l_bool_item(l, 7, 1) && w != BAD)
    ret(l, b_cast(b, b_sum(b, b_mul(b, g, normed), outer, false), b_dtype(b, l_tensor(l, 5))));
  else
    ret_none(l);
  if (l_bool_item(l, 7, 2) && l_has(l, 6))
    ret(l, b_cast(b, b_sum(b, g, outer, false), b_dtype(b, l_tensor(l, 6))));
  else
    ret_none(l);
}

/* _fused_rms_norm(input, normalized_shape, weight, eps) -> output, rstd */
static void rms_norm(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt), out = l_has(l, 2) ? l_result_type2(l, 0, 2) : dt;
  uint32_t axes = normal_axes(l, x, 1);
  if (!b_ok(b)) return;
  double tiny = acc == DT_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07, eps = l_double_or(l, 3, tiny);
  Val v = b_cast(b, x, acc), rstd = b_mean(b, square(b, v), axes, true);
  rstd = b_rsqrt(b, b_add(b, rstd, b_like(b, rstd, eps)));
  v = scale_shift(b, b_mul(b, v, rstd), wide(l, 2, acc), BAD);
  ret(l, b_cast(b, v, out));
  ret(l, rstd);
}

/* (grad, input, normalized_shape, rstd, weight, output_mask) */
static void rms_norm_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  uint32_t axes = normal_axes(l, x, 2);
  if (!b_ok(b)) return;
  Val rstd = wide(l, 3, acc), w = wide(l, 4, acc), normed = b_mul(b, b_cast(b, x, acc), rstd);
  g = b_cast(b, g, acc);
  if (l_bool_item(l, 5, 0))
    ret(l, b_cast(b, normed_gradient(b, w == BAD ? g : b_mul(b, g, w), normed, rstd, axes, false), dt));
  else
    ret_none(l);
  if (l_bool_item(l, 5, 1) && w != BAD)
    ret(l, b_cast(b, b_sum(b, b_mul(b, g, normed), axes_all(b_rank(b, x)) & ~axes, false),
                  b_dtype(b, l_tensor(l, 4))));
  else
    ret_none(l);
}

/* --- group --- */

/* x as [N, G, C/G, spatial]. Generic spatial dims stay apart, and the sizes among the arguments are not read
 * then (ROW_EXTENTS). */
static Val groups_of(L *l, Val x, int sizes, int64_t g) {
  B *b = l_b(l);
  bool generic = b_is_generic(b, x) && b_rank(b, x) > 1;
  int64_t c = generic ? b_dim_static(b, x, 1) : l_int(l, sizes + 1);
  if (g < 1 || c % g)
    l_fail(l, TPU_RUNTIME,
           "Expected number of channels in input to be divisible by num_groups, but got input with %lld "
           "channels and num_groups=%lld",
           (long long)c, (long long)g);
  if (!b_ok(b)) return BAD;
  if (!generic) return b_reshape_to(b, x, 4, (int64_t[]){l_int(l, sizes), g, c / g, l_int(l, sizes + 2)});
  const shape *xs = b_shape(b, x);
  shape s = {.rank = xs->rank + 1, .d = {xs->d[0], {g, 0}, {c / g, 0}}};
  for (int i = 2; i < xs->rank; i++) s.d[i + 1] = xs->d[i];
  return b_reshape(b, x, &s);
}

/* A [C] vector under the groups v. */
static Val group_vector(B *b, Val vector, Val v) {
  if (vector == BAD) return BAD;
  const shape *s = b_shape(b, v);
  int64_t dims[IR_MAX_RANK] = {1, s->d[1].n, s->d[2].n};
  for (int i = 3; i < s->rank; i++) dims[i] = 1;
  return b_reshape_to(b, vector, s->rank, dims);
}

/* [N, G] statistics under the groups v, and back from there. */
static Val statistics_under(B *b, Val stat, Val v) {
  for (int i = 2; i < b_rank(b, v); i++) stat = b_unsqueeze(b, stat, i);
  return stat;
}

static Val statistics_of(B *b, Val stat) {
  while (b_ok(b) && b_rank(b, stat) > 2) stat = b_squeeze(b, stat, b_rank(b, stat) - 1);
  return stat;
}

/* The axes over which a group is normalised. */
static uint32_t in_group(B *b, Val v) { return axes_all(b_rank(b, v)) & ~3u; }

/* (input, weight, bias, N, C, HxW, group, eps) -> output, mean, rstd */
static void group_norm(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  Val v = groups_of(l, b_cast(b, x, acc), 3, l_int(l, 6));
  if (!b_ok(b)) return;
  Val mean = b_mean(b, v, in_group(b, v), true), centred = b_sub(b, v, mean),
      var = b_mean(b, square(b, centred), in_group(b, v), true);
  Val rstd = b_rsqrt(b, b_add(b, var, b_like(b, var, l_double(l, 7))));
  v = scale_shift(b, b_mul(b, centred, rstd), group_vector(b, wide(l, 1, acc), v),
                  group_vector(b, wide(l, 2, acc), v));
  ret(l, b_cast(b, b_reshape(b, v, b_shape(b, x)), dt));
  ret(l, statistics_of(b, mean));
  ret(l, statistics_of(b, rstd));
}

/* (grad, input, mean, rstd, weight, N, C, HxW, group, output_mask) */
static void group_norm_backward(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt), wdt = l_has(l, 4) ? b_dtype(b, l_tensor(l, 4)) : dt;
  int64_t grp = l_int(l, 8);
  Val g = groups_of(l, wide(l, 0, acc), 5, grp), v = groups_of(l, b_cast(b, x, acc), 5, grp);
  if (!b_ok(b)) return;
  int64_t c = b_dim_static(b, v, 1) * b_dim_static(b, v, 2);
  uint32_t axes = in_group(b, v);
  Val mean = statistics_under(b, wide(l, 2, acc), v), rstd = statistics_under(b, wide(l, 3, acc), v);
  Val w = group_vector(b, wide(l, 4, acc), v), normed = b_mul(b, b_sub(b, v, mean), rstd);
  Val gx = normed_gradient(b, w == BAD ? g : b_mul(b, g, w), normed, rstd, axes, true);
  if (l_bool_item(l, 9, 0))
    ret(l, b_cast(b, b_reshape(b, gx, b_shape(b, x)), dt));
  else
    ret_none(l);
  for (int k = 1; k < 3; k++) {
    Val s = b_sum(b, k == 1 ? b_mul(b, g, normed) : g, 1u | (axes & ~4u), false);
    if (l_bool_item(l, 9, k))
      ret(l, b_cast(b, b_reshape_to(b, s, 1, &c), wdt));
    else
      ret_none(l);
  }
}

/* --- weight --- */

static uint32_t all_but(L *l, int i, Val v) {
  int rank = b_rank(l_b(l), v);
  return axes_all(rank) & ~(1u << l_axis(l, i, rank));
}

/* (v, g, dim) -> v * g / |v|, |v| */
static void weight_norm(L *l) {
  B *b = l_b(l);
  Val v = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, v), acc = dt_acc(dt);
  v = b_cast(b, v, acc);
  Val n = b_sqrt(b, b_sum(b, square(b, v), all_but(l, 2, v), true));
  ret(l, b_cast(b, b_mul(b, v, b_div(b, wide(l, 1, acc), n)), dt));
  ret(l, n);
}

/* (grad_w, saved_v, saved_g, saved_norms, dim) -> grad_v, grad_g */
static void weight_norm_backward(L *l) {
  B *b = l_b(l);
  Val v = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, v), acc = dt_acc(dt);
  v = b_cast(b, v, acc);
  Val gw = wide(l, 0, acc), g = wide(l, 2, acc), n = wide(l, 3, acc);
  Val dot = b_sum(b, b_mul(b, gw, v), all_but(l, 4, v), true), inv = b_div(b, b_like(b, n, 1), n);
  Val along = b_mul(b, v, b_mul(b, dot, square(b, inv)));
  ret(l, b_cast(b, b_mul(b, b_mul(b, g, inv), b_sub(b, gw, along)), dt));
  ret(l, b_cast(b, b_mul(b, dot, inv), b_dtype(b, l_tensor(l, 2))));
}

enum { BN = ROW_CHANNELS | ROW_FLOAT_PARAM };

const tpu_row rows_norm[] = {
    {"native_batch_norm", batch_norm, BN_NATIVE, BN | ROW_SAME_DTYPE},
    {"_native_batch_norm_legit", batch_norm, BN_NATIVE, BN | ROW_SAME_DTYPE},
    {"_native_batch_norm_legit.no_stats", batch_norm, BN_NO_STATS, BN},
    {"_native_batch_norm_legit_no_training", batch_norm, BN_INFERENCE, BN},
    {"_batch_norm_with_update", batch_norm, BN_UPDATE, BN},
    {"batch_norm_update_stats", batch_norm_update_stats, 0, BN},
    {"native_batch_norm_backward", batch_norm_backward, 0, BN},
    {"batch_norm_backward", batch_norm_backward, 0, BN},
    {"batch_norm_stats", sync_stats, 0, BN},
    {"batch_norm_elemt", sync_elemt, 0, BN},
    {"batch_norm_gather_stats", sync_gather, 0, ROW_FLOAT_PARAM},
    {"batch_norm_gather_stats_with_counts", sync_gather, 0, ROW_FLOAT_PARAM},
    {"batch_norm_backward_reduce", sync_backward_reduce, 0, BN},
    {"batch_norm_backward_elemt", sync_backward_elemt, 0, BN},
    {"native_layer_norm", layer_norm, 0, 0},
    {"native_layer_norm_backward", layer_norm_backward, 0, 0},
    {"_fused_rms_norm", rms_norm, 0, 0},
    {"_fused_rms_norm_backward", rms_norm_backward, 0, 0},
    {"native_group_norm", group_norm, 0, ROW_CHANNELS | ROW_EXTENTS},
    {"native_group_norm_backward", group_norm_backward, 0, ROW_CHANNELS | ROW_EXTENTS},
    {"_weight_norm_interface", weight_norm, 0, 0},
    {"_weight_norm_interface_backward", weight_norm_backward, 0, 0},
    {0}};
