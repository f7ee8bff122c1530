/* Sampling at a grid of positions (grid_sampler): every output is a weighted sum of a few gathered inputs,
 * its taps; the gradient of the input scatters them back, that of the grid is the slope of the weights. */
#include "lower/lower.h"

enum { G_LINEAR, G_NEAREST, G_CUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
enum { MAX_TAPS = 4, MAX_COMBOS = 16 };

/* Along one spatial axis: where the taps are, what they weigh, the slope of that by the grid's coordinate;
 * all [N, out...]. */
typedef struct axis_taps {
  int n;
  Val at[MAX_TAPS], inside[MAX_TAPS], w[MAX_TAPS], slope[MAX_TAPS];
} axis_taps;

typedef struct sampler {
  int n; /* spatial dims */
  int64_t mode, padding;
  bool align;
  tpu_dtype dt, acc;
  Val x; /* [N, sp..., C] in acc */
  axis_taps axis[3];
  int combos;
} sampler;

static Val k(B *b, Val like, double v) { return b_like(b, like, v); }

/* --- coordinates --- */

/* x folded into [low / 2, high / 2]; *slope (may be NULL) is multiplied by the derivative. */
static Val reflect(B *b, Val x, int64_t low, int64_t high, Val *slope) {
  if (low == high) {
    if (slope) *slope = k(b, *slope, 0);
    return b_mul(b, x, k(b, x, 0));
  }
  Val min = k(b, x, (double)low / 2), span = k(b, x, (double)(high - low) / 2), d = b_sub(b, x, min),
      one = k(b, x, 1);
  Val sign = b_select(b, b_lt(b, d, k(b, d, 0)), b_neg(b, one), one);
  d = b_abs(b, d);
  Val turns = b_floor(b, b_div(b, d, span)), rest = b_rem(b, d, span);
  Val odd = b_ne(b, b_rem(b, turns, k(b, d, 2)), k(b, d, 0));
  if (slope) *slope = b_mul(b, *slope, b_select(b, odd, b_neg(b, sign), sign));
  return b_add(b, b_select(b, odd, b_sub(b, span, rest), rest), min);
}

/* Border and reflection bring every coordinate into the image. */
static Val bounded(B *b, const sampler *s, Val x, int64_t size, Val *slope) {
  if (s->padding == PAD_ZEROS) return x;
  if (s->padding == PAD_REFLECTION)
    x = reflect(b, x, s->align ? 0 : -1, s->align ? 2 * (size - 1) : 2 * size - 1, slope);
  Val low = k(b, x, 0), high = k(b, x, (double)(size - 1));
  if (slope) {
    Val in = b_and(b, b_gt(b, x, low), b_lt(b, x, high));
    *slope = b_select(b, in, *slope, k(b, *slope, 0));
  }
  return b_minimum(b, b_maximum(b, x, low), high);
}

/* Tap j: its index (clamped), and whether it was in the image. */
static void place(B *b, axis_taps *t, int j, Val at, int64_t size) {
  Val top = k(b, at, (double)(size - 1)), zero = k(b, at, 0);
  t->inside[j] = b_and(b, b_ge(b, at, zero), b_le(b, at, top));
  t->at[j] = b_cast(b, b_select(b, t->inside[j], at, zero), DT_I32);
}

static Val poly(B *b, Val x, double a, double c, double d, double e) { /* ((a x + c) x + d) x + e */
  Val v = b_add(b, b_mul(b, x, k(b, x, a)), k(b, x, c));
  v = b_add(b, b_mul(b, v, x), k(b, x, d));
  return b_add(b, b_mul(b, v, x), k(b, x, e));
}

/* Weights of the taps at -1, 0, 1, 2 of a fraction t, and their derivatives. */
static void cubic_weights(B *b, axis_taps *p, Val t) {
  const double a = -0.75;
  for (int j = 0; j < 4; j++) {
    double shift = j == 0 ? 1 : j == 1 ? 0 : j == 2 ? 1 : 2; /* |distance| = t + 1, t, 1 - t, 2 - t */
    bool far = j == 0 || j == 3, down = j >= 2;
    Val d = down ? b_sub(b, k(b, t, shift), t) : b_add(b, t, k(b, t, shift));
    p->w[j] = far ? poly(b, d, a, -5 * a, 8 * a, -4 * a) : poly(b, d, a + 2, -(a + 3), 0, 1);
    Val g = far ? poly(b, d, 0, 3 * a, -10 * a, 8 * a) : poly(b, d, 0, 3 * (a + 2), -2 * (a + 3), 0);
    p->slope[j] = down ? b_neg(b, g) : g;
  }
}

static void axis_of(B *b, const sampler *s, axis_taps *t, Val g, int64_t size) {
  double step = s->align ? (double)(size - 1) / 2 : (double)size / 2;
  Val x = s->align ? b_mul(b, b_add(b, g, k(b, g, 1)), k(b, g, step))
                   : b_mul(b, b_sub(b, b_mul(b, b_add(b, g, k(b, g, 1)), k(b, g, (double)size)), k(b, g, 1)),
                           k(b, g, 0.5));
  Val slope = k(b, x, step);
  /* positions that are no numbers are outside */
  if (s->mode != G_CUBIC) x = bounded(b, s, x, size, &slope);
  x = b_select(b, b_is_finite(b, x), x, k(b, x, -100));
  if (s->mode == G_NEAREST) {
    t->n = 1;
    place(b, t, 0, b_round(b, x), size);
    t->w[0] = k(b, x, 1);
    t->slope[0] = k(b, x, 0);
    return;
  }
  Val low = b_floor(b, x), f = b_sub(b, x, low);
  t->n = s->mode == G_CUBIC ? 4 : 2;
  if (s->mode == G_CUBIC) {
    cubic_weights(b, t, f);
  } else {
    t->w[0] = b_sub(b, k(b, f, 1), f);
    t->w[1] = f;
    t->slope[0] = k(b, f, -1);
    t->slope[1] = k(b, f, 1);
  }
  for (int j = 0; j < t->n; j++) {
    Val at = b_add(b, low, k(b, low, s->mode == G_CUBIC ? j - 1 : j));
    if (s->mode == G_CUBIC) at = bounded(b, s, at, size, NULL);
    place(b, t, j, at, size);
    t->slope[j] = b_mul(b, t->slope[j], slope);
  }
}

/* --- reading --- */

static Val channels_last(B *b, Val x) {
  int rank = b_rank(b, x), perm[IR_MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
  return b_transpose(b, x, perm);
}

static Val channels_first(B *b, Val x) {
  int rank = b_rank(b, x), perm[IR_MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
  return b_transpose(b, x, perm);
}

/* input, grid, interpolation_mode, padding_mode, align_corners from argument i on */
static bool read_sampler(L *l, int i, sampler *s) {
  B *b = l_b(l);
  Val x = l_tensor(l, i), grid = l_tensor(l, i + 1);
  int n = l_datum(l);
  *s = (sampler){
      .n = n, .mode = l_int(l, i + 2), .padding = l_int(l, i + 3), .align = l_bool(l, i + 4), .combos = 1};
  const shape *xs = b_shape(b, x), *gs = b_shape(b, grid);
  if (xs->rank != n + 2 || gs->rank != n + 2)
    l_fail(l, TPU_RUNTIME,
           "grid_sampler(): expected input and grid to be %dD with the same number of dimensions, but got "
           "input with sizes of rank %d "
           "and grid with sizes of rank %d",
           n + 2, xs->rank, gs->rank);
  if (!b_ok(b)) return false;
  int64_t batch = b_dim_static(b, x, 0), batches = b_dim_static(b, grid, 0),
          last = b_dim_static(b, grid, n + 1);
  if (batch != batches)
    l_fail(l, TPU_RUNTIME,
           "grid_sampler(): expected grid and input to have same batch size, but got %lld and %lld",
           (long long)batches, (long long)batch);
  if (last != n)
    l_fail(l, TPU_RUNTIME, "grid_sampler(): expected grid to have size %d in last dimension, but got %lld", n,
           (long long)last);
  if (!b_ok(b)) return false;
  s->dt = b_dtype(b, x);
  s->acc = dt_acc(s->dt);
  for (int j = 0; j < n; j++) {
    int64_t size = b_dim_static(b, x, 2 + j);
    if (size < 1)
      l_fail(l, TPU_RUNTIME, "grid_sampler(): expected input to have non-empty spatial dimensions");
    if (!b_ok(b)) return false;
    Val g = b_squeeze(b, b_slice(b, grid, n + 1, n - 1 - j, n - j, 1), n + 1);
    axis_of(b, s, &s->axis[j], b_cast(b, g, s->acc), size);
    s->combos *= s->axis[j].n;
  }
  s->x = channels_last(b, b_cast(b, x, s->acc));
  return b_ok(b);
}

/* Combination c of taps: indices (batch first), and 1 where all of them are in the image. */
static Val combo(B *b, const sampler *s, int c, Val *idx, int *tap) {
  Val inside = BAD;
  for (int j = s->n - 1; j >= 0; j--) {
    tap[j] = c % s->axis[j].n;
    c /= s->axis[j].n;
    idx[1 + j] = s->axis[j].at[tap[j]];
    Val in = s->axis[j].inside[tap[j]];
    inside = inside == BAD ? in : b_and(b, inside, in);
  }
  idx[0] = b_iota(b, DT_I32, b_shape(b, idx[1]), 0);
  return inside;
}

/* The product of the weights, that of axis `by` replaced by its slope (-1: none); 0 outside. [N, out..., 1]
 */
static Val weight_of(B *b, const sampler *s, const int *tap, int by, Val inside) {
  Val w = BAD;
  for (int j = 0; j < s->n; j++) {
    Val f = j == by ? s->axis[j].slope[tap[j]] : s->axis[j].w[tap[j]];
    w = j ? b_mul(b, w, f) : f;
  }
  w = b_select(b, inside, w, k(b, w, 0));
  return b_unsqueeze(b, w, s->n + 1);
}

static Val values_at(B *b, const sampler *s, const Val *idx) { return b_gather_nd(b, s->x, idx, s->n + 1); }

/* (input, grid, interpolation_mode, padding_mode, align_corners) */
static void grid_sampler(L *l) {
  B *b = l_b(l);
  sampler s;
  if (!read_sampler(l, 0, &s)) return;
  Val sum = BAD;
  for (int c = 0; c < s.combos && b_ok(b); c++) {
    Val idx[4];
    int tap[3];
    Val in = combo(b, &s, c, idx, tap), v = values_at(b, &s, idx);
    v = b_select(b, b_unsqueeze(b, in, s.n + 1), v, k(b, v, 0));
    v = b_mul(b, v, weight_of(b, &s, tap, -1, in));
    sum = c ? b_add(b, sum, v) : v;
  }
  ret(l, b_cast(b, channels_first(b, sum), s.dt));
}

/* (grad, input, grid, interpolation_mode, padding_mode, align_corners, output_mask) -> grad_input, grad_grid
 */
static void grid_sampler_backward(L *l) {
  B *b = l_b(l);
  sampler s;
  if (!read_sampler(l, 1, &s)) return;
  Val g = channels_last(b, b_cast(b, l_tensor(l, 0), s.acc)), parts[MAX_COMBOS], at[4][MAX_COMBOS],
      slopes[3] = {BAD, BAD, BAD};
  for (int c = 0; c < s.combos && b_ok(b); c++) {
    Val idx[4];
    int tap[3];
    Val in = combo(b, &s, c, idx, tap);
    parts[c] = b_unsqueeze(b, b_mul(b, g, weight_of(b, &s, tap, -1, in)), 0);
    for (int j = 0; j <= s.n; j++) at[j][c] = b_unsqueeze(b, idx[j], 0);
    Val dot = b_sum(b, b_mul(b, values_at(b, &s, idx), g), 1u << (s.n + 1), true);
    for (int j = 0; j < s.n; j++) {
      Val v =
          b_select(b, b_unsqueeze(b, in, s.n + 1), b_mul(b, dot, weight_of(b, &s, tap, j, in)), k(b, dot, 0));
      slopes[j] = c ? b_add(b, slopes[j], v) : v;
    }
  }
  if (l_bool_item(l, 6, 0)) {
    Val all[4];
    for (int j = 0; j <= s.n; j++) all[j] = b_concat(b, at[j], s.combos, 0);
    Val v = b_scatter_nd(b, SCAT_ADD, b_zeros(b, s.acc, b_shape(b, s.x)), all, s.n + 1,
                         b_concat(b, parts, s.combos, 0));
    ret(l, b_cast(b, channels_first(b, v), s.dt));
  } else {
    ret_none(l);
  }
  Val ordered[3];
  for (int j = 0; j < s.n; j++) ordered[s.n - 1 - j] = slopes[j];
  if (l_bool_item(l, 6, 1))
    ret(l, b_cast(b, b_concat(b, ordered, s.n, s.n + 1), b_dtype(b, l_tensor(l, 2))));
  else
    ret_none(l);
}

const tpu_row rows_grid[] = {{"grid_sampler_2d", grid_sampler, 2, 0},
                             {"grid_sampler_3d", grid_sampler, 3, 0},
                             {"grid_sampler_2d_backward", grid_sampler_backward, 2, 0},
                             {"grid_sampler_3d_backward", grid_sampler_backward, 3, 0},
                             {0}};
