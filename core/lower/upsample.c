/* Resampling of the last one, two or three dims: nearest, linear, cubic, and the antialiased filters.
 *
 * All are linear and separable: along an axis every output is a weighted sum of a few inputs, its taps, which
 * the host works out. A gradient is the product with the transposed matrix of the taps; a forward pass is
 * that product, or a few gathers on the CPU. */
#include <math.h>
#include <stdlib.h>

#include "lower/lower.h"

enum {
  U_NEAREST,
  U_EXACT,
  U_LINEAR,
  U_CUBIC,
  U_LINEAR_AA,
  U_CUBIC_AA,
  U_LANCZOS_AA,
  U_KIND = 15,
  U_BACKWARD = 16,
  U_DIMS = 32
};

typedef struct taps {
  int64_t in, out, n; /* n taps an output */
  int64_t *at;        /* [n][out] */
  double *w;          /* [n][out] */
} taps;

/* As PyTorch: positions in the precision of the data, so that the taps are the same. */
static double fit(double v, bool wide) { return wide ? v : (double)(float)v; }

/* Input steps an output step. `given`: the scale factor, 0 for none. */
static double scale_of(int64_t in, int64_t out, bool align, double given, bool wide) {
  if (align) return out > 1 ? fit((double)(in - 1) / (double)(out - 1), wide) : 0;
  return fit(given > 0 ? 1 / given : (double)in / (double)out, wide);
}

static void nearest_taps(taps *t, double scale, bool exact, bool wide) {
  for (int64_t o = 0; o < t->out; o++) {
    int64_t i = (int64_t)floor(fit((exact ? (double)o + 0.5 : (double)o) * scale, wide));
    t->at[o] = t->in == t->out ? o : i < t->in ? i : t->in - 1;
    t->w[o] = 1;
  }
}

static double source(int64_t o, double scale, bool align, bool wide) {
  return align ? fit((double)o * scale, wide) : fit(fit(scale * ((double)o + 0.5), wide) - 0.5, wide);
}

static void linear_taps(taps *t, double scale, bool align, bool wide) {
  for (int64_t o = 0; o < t->out; o++) {
    double x = fmax(source(o, scale, align, wide), 0);
    int64_t i = (int64_t)x < t->in ? (int64_t)x : t->in - 1;
    double f = fit(fmin(fmax(x - (double)i, 0), 1), wide);
    if (t->in == t->out) {
      i = o;
      f = 0;
    }
    t->at[o] = i;
    t->at[t->out + o] = i + (i < t->in - 1);
    t->w[o] = 1 - f;
    t->w[t->out + o] = f;
  }
}

static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static void cubic_taps(taps *t, double scale, bool align, bool wide) {
  for (int64_t o = 0; o < t->out; o++) {
    double x = source(o, scale, align, wide);
    int64_t i = (int64_t)floor(x) < t->in ? (int64_t)floor(x) : t->in - 1;
    double f = fit(fmin(fmax(x - (double)i, 0), 1), wide);
    for (int64_t k = 0; k < 4; k++) {
      int64_t at = i + k - 1;
      t->at[k * t->out + o] = at < 0 ? 0 : at < t->in ? at : t->in - 1;
      t->w[k * t->out + o] = cubic(f - (double)(k - 1), -0.75);
    }
  }
}

static double sinc(double x) { return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x); }

static double filter(int kind, double x) {
  if (kind == U_LINEAR_AA) return fmax(1 - fabs(x), 0);
  if (kind == U_CUBIC_AA) return cubic(x, -0.5);
  return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static double aa_support(int kind, double scale) {
  double half = kind == U_LINEAR_AA ? 1 : kind == U_CUBIC_AA ? 2 : 3;
  return scale >= 1 ? half * scale : half;
}

/* A filter as wide as the step between outputs, normalised. */
static void aa_taps(taps *t, int kind, double scale, bool wide) {
  double support = fit(aa_support(kind, scale), wide), shrink = scale >= 1 ? 1 / scale : 1;
  for (int64_t o = 0; o < t->out; o++) {
    double center = fit(scale * ((double)o + 0.5), wide), total = 0;
    int64_t from = (int64_t)(center - support + 0.5), to = (int64_t)(center + support + 0.5);
    if (from < 0) from = 0;
    if (to > t->in) to = t->in;
    if (to > from + t->n) to = from + t->n;
    for (int64_t k = 0; k < t->n; k++) {
      bool in = from + k < to;
      t->at[k * t->out + o] = in ? from + k : 0;
      t->w[k * t->out + o] = in ? filter(kind, ((double)(from + k) - center + 0.5) * shrink) : 0;
      total += t->w[k * t->out + o];
    }
    for (int64_t k = 0; k < t->n && total != 0; k++) t->w[k * t->out + o] /= total;
  }
}

static taps make_taps(int kind, int64_t in, int64_t out, bool align, double given, bool wide) {
  double scale = scale_of(in, out, align, given, wide);
  taps t = {.in = in, .out = out, .n = kind <= U_EXACT ? 1 : kind == U_LINEAR ? 2 : 4};
  if (kind >= U_LINEAR_AA) t.n = 2 * (int64_t)ceil(aa_support(kind, scale)) + 1;
  if (t.n > in && kind >= U_LINEAR_AA) t.n = in;
  t.at = malloc((size_t)(t.n * out) * sizeof *t.at);
  t.w = malloc((size_t)(t.n * out) * sizeof *t.w);
  if (kind <= U_EXACT)
    nearest_taps(&t, scale, kind == U_EXACT, wide);
  else if (kind == U_LINEAR)
    linear_taps(&t, scale, align, wide);
  else if (kind == U_CUBIC)
    cubic_taps(&t, scale, align, wide);
  else
    aa_taps(&t, kind, scale, wide);
  return t;
}

static void free_taps(taps *t) {
  free(t->at);
  free(t->w);
}

static Val tap_index(B *b, const taps *t, int64_t k) {
  return b_dense_i64(b, DT_I32, t->at + k * t->out, (int)t->out);
}

/* The weights of tap k, as a vector along `axis` of something of this rank. */
static Val tap_weight(B *b, const taps *t, int64_t k, int axis, int rank, tpu_dtype dt) {
  int64_t dims[IR_MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? t->out : 1;
  return b_reshape_to(b, b_dense_f64(b, dt, t->w + k * t->out, (int)t->out), rank, dims);
}

/* [out, in]: written out where there are many taps. */
static Val tap_matrix(B *b, const taps *t, tpu_dtype dt) {
  int64_t dims[2] = {t->out, t->in}, column[2] = {t->out, 1};
  if (t->n > 16) {
    double *m = calloc((size_t)(t->out * t->in), sizeof *m);
    for (int64_t k = 0; k < t->n; k++)
      for (int64_t o = 0; o < t->out; o++) m[o * t->in + t->at[k * t->out + o]] += t->w[k * t->out + o];
    Val v = b_reshape_to(b, b_dense_f64(b, dt, m, (int)(t->out * t->in)), 2, dims);
    free(m);
    return v;
  }
  shape s = shape_of(2, dims);
  Val col = b_iota(b, DT_I32, &s, 1), sum = BAD;
  for (int64_t k = 0; k < t->n; k++) {
    Val hit = b_eq(b, col, b_reshape_to(b, tap_index(b, t, k), 2, column));
    Val part = b_select(b, hit, tap_weight(b, t, k, 0, 2, dt), b_const(b, dt, 0));
    sum = k ? b_add(b, sum, part) : part;
  }
  return sum;
}

static Val by_gathers(B *b, Val x, const taps *t, int axis, bool weighted) {
  Val sum = BAD;
  for (int64_t k = 0; k < t->n; k++) {
    Val part = b_take(b, x, tap_index(b, t, k), axis);
    if (weighted) part = b_mul(b, part, tap_weight(b, t, k, axis, b_rank(b, x), b_dtype(b, x)));
    sum = k ? b_add(b, sum, part) : part;
  }
  return sum;
}

/* x times the matrix of the taps along `axis`; `from` = the axis of the matrix that is summed over. */
static Val by_matrix(B *b, Val x, const taps *t, int axis, int from) {
  int rank = b_rank(b, x), perm[IR_MAX_RANK];
  Val v = b_dot_general(b, x, tap_matrix(b, t, b_dtype(b, x)), 1, &axis, &from, 0, NULL, NULL);
  for (int i = 0; i < rank; i++) perm[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
  return b_transpose(b, v, perm);
}

typedef struct plan {
  int kind, n;
  bool backward, align;
  int64_t in[3], out[3];
  double given[3];
} plan;

/* (self, output_size[, align_corners], scales...) or (grad, output_size, input_size[, align_corners],
 * scales...) */
static bool read_plan(L *l, Val x, plan *p) {
  B *b = l_b(l);
  int d = l_datum(l), at = 2;
  const int64_t *out, *in = NULL;
  *p = (plan){.kind = d & U_KIND, .n = d / U_DIMS, .backward = d & U_BACKWARD};
  int nout = l_ints(l, 1, &out), rank = b_rank(b, x);
  if (nout != p->n)
    l_fail(l, TPU_RUNTIME, "It is expected output_size equals to %d, but got size %d", p->n, nout);
  if (p->backward && l_ints(l, at++, &in) != p->n + 2)
    l_fail(l, TPU_RUNTIME, "It is expected input_size equals to %d", p->n + 2);
  if (rank != p->n + 2)
    l_fail(l, TPU_RUNTIME, "Non-empty %dD data tensor expected but got a tensor of rank %d", p->n + 2, rank);
  if (!b_ok(b)) return false;
  p->align = p->kind > U_EXACT && l_bool(l, at);
  at += p->kind > U_EXACT;
  for (int i = 0; i < p->n; i++) {
    p->out[i] = out[nout == 1 ? 0 : i];
    p->in[i] = p->backward ? in[2 + i] : b_dim_static(b, x, 2 + i);
    p->given[i] = l_double_or(l, at + i, 0);
    if (p->in[i] < 1 || p->out[i] < 1)
      l_fail(l, TPU_RUNTIME,
             "Input and output sizes should be greater than 0, but got input (%lld) output (%lld)",
             (long long)p->in[i], (long long)p->out[i]);
    if (b_ok(b) && p->backward && b_dim_static(b, x, 2 + i) != p->out[i])
      l_fail(l, TPU_RUNTIME,
             "Expected grad_output to have the same shape as output; output.size(%d) = %lld but got "
             "grad_output.size(%d) = %lld",
             2 + i, (long long)p->out[i], 2 + i, (long long)b_dim_static(b, x, 2 + i));
  }
  return b_ok(b);
}

static void upsample(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  plan p;
  if (!read_plan(l, x, &p)) return;
  bool pick = p.kind <= U_EXACT && !p.backward, byte = dt == DT_U8;
  if (!dt_is_float(dt) && !(byte && !p.backward))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", l_name(l), tpu_dtype_torch_name(dt));
  if (!pick) x = b_cast(b, x, byte ? DT_F32 : dt_acc(dt));
  for (int i = p.n - 1; i >= 0 && b_ok(b); i--) {
    taps t = make_taps(p.kind, p.in[i], p.out[i], p.align, p.given[i], dt == DT_F64);
    if (p.backward)
      x = by_matrix(b, x, &t, 2 + i, 0);
    else if (pick || (l_on_cpu(l) && t.n <= 4))
      x = by_gathers(b, x, &t, 2 + i, !pick);
    else
      x = by_matrix(b, x, &t, 2 + i, 1);
    free_taps(&t);
  }
  if (byte && !pick) x = b_clamp(b, b_const(b, DT_F32, 0), b_round(b, x), b_const(b, DT_F32, 255));
  ret(l, b_cast(b, x, dt));
}

#define ROWS(name, kind, n)                                                      \
  {name, upsample, (kind) | (n) * U_DIMS, ROW_CHANNELS | ROW_SAME_DTYPE}, {      \
    name "_backward", upsample, (kind) | U_BACKWARD | (n) * U_DIMS, ROW_CHANNELS \
  }

const tpu_row rows_upsample[] = {
    ROWS("upsample_nearest1d", U_NEAREST, 1),        ROWS("upsample_nearest2d", U_NEAREST, 2),
    ROWS("upsample_nearest3d", U_NEAREST, 3),        ROWS("_upsample_nearest_exact1d", U_EXACT, 1),
    ROWS("_upsample_nearest_exact2d", U_EXACT, 2),   ROWS("_upsample_nearest_exact3d", U_EXACT, 3),
    ROWS("upsample_linear1d", U_LINEAR, 1),          ROWS("upsample_bilinear2d", U_LINEAR, 2),
    ROWS("upsample_trilinear3d", U_LINEAR, 3),       ROWS("upsample_bicubic2d", U_CUBIC, 2),
    ROWS("_upsample_bilinear2d_aa", U_LINEAR_AA, 2), ROWS("_upsample_bicubic2d_aa", U_CUBIC_AA, 2),
    ROWS("_upsample_lanczos2d_aa", U_LANCZOS_AA, 2), {0}};
