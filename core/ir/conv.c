/* Convolution: the plain stablehlo.convolution, and the lowerings that avoid the slow spots of the CPU
 * plugin. */
#include "ir/conv.h"

static int64_t or_1(int64_t v) { return v > 0 ? v : 1; }

/* `hi` of a spatial dim, so that the result has that many places. */
static int64_t pad_to(const b_conv *c, int i, int64_t n, int64_t k, int64_t out) {
  int64_t base = n ? (n - 1) * c->lhs_dilation[i] + 1 : 0, span = k ? (k - 1) * c->rhs_dilation[i] + 1 : 0;
  return (out - 1) * c->stride[i] + span - base - c->lo[i];
}

/* A spatial dim of the result. */
static ir_dim conv_out(B *b, conv *v, int i) {
  b_conv *c = &v->c;
  ir_dim x = v->xs.d[2 + i], w = v->ws.d[2 + i];
  if (c->to) {
    c->hi[i] = pad_to(c, i, x.n, w.n, c->to[i].n);
    return c->to[i];
  }
  if (w.sym) b_fail(b, TPU_NOT_IMPLEMENTED, "a convolution with a kernel of generic size");
  int64_t pads = c->lo[i] + c->hi[i], span = w.n ? (w.n - 1) * c->rhs_dilation[i] + 1 : 0;
  if (x.n == 0) return (ir_dim){pads < span ? 0 : (pads - span) / c->stride[i] + 1, x.sym};
  return b_dim_map(b, x, c->lhs_dilation[i], 1 - c->lhs_dilation[i] + pads - span + c->stride[i],
                   c->stride[i]);
}

static bool channels_fit(B *b, const conv *v) {
  const b_conv *c = &v->c;
  ir_dim in = v->xs.d[1], k = v->ws.d[1], o = v->ws.d[0], n = v->xs.d[0];
  bool same = in.sym || k.sym ? in.sym && k.sym : in.n == k.n * c->feature_groups;
  bool generic = in.sym || k.sym || o.sym;
  if ((generic && (c->feature_groups > 1 || !same)) || ((n.sym || o.sym) && c->batch_groups > 1))
    b_fail(b, TPU_NOT_IMPLEMENTED, "a convolution whose generic dims are in groups");
  else if (!same || o.n % c->feature_groups || n.n % c->batch_groups || o.n % c->batch_groups)
    b_fail(b, TPU_RUNTIME,
           "Given groups=%lld, weight of size [%lld, %lld, ...], expected input to have %lld channels, but "
           "got %lld channels instead",
           (long long)c->feature_groups, (long long)o.n, (long long)k.n, (long long)(k.n * c->feature_groups),
           (long long)in.n);
  return b_ok(b);
}

/* Defaults filled in; *out: the result's shape with its generic dims, v->out the same physically. */
static bool conv_sizes(B *b, conv *v, shape *out) {
  b_conv *c = &v->c;
  c->feature_groups = or_1(c->feature_groups);
  c->batch_groups = or_1(c->batch_groups);
  if (c->spatial < 1 || c->spatial > 3 || v->xs.rank != c->spatial + 2 || v->ws.rank != c->spatial + 2) {
    b_fail(b, TPU_RUNTIME, "convolution over %d dims of input of rank %d and weight of rank %d", c->spatial,
           v->xs.rank, v->ws.rank);
    return false;
  }
  if (!channels_fit(b, v)) return false;
  *out = v->xs;
  out->d[0].n /= c->batch_groups;
  out->d[1] = v->ws.d[0];
  for (int i = 0; i < c->spatial; i++) {
    c->stride[i] = or_1(c->stride[i]);
    c->lhs_dilation[i] = or_1(c->lhs_dilation[i]);
    c->rhs_dilation[i] = or_1(c->rhs_dilation[i]);
    out->d[2 + i] = conv_out(b, v, i);
  }
  v->out = b_shape_physical(out);
  c->to = NULL;
  return b_ok(b);
}

/* The operands with zeros in the padding that is summed over, as static ones. */
static void conv_operands(B *b, conv *v, Val *x, Val *w) {
  uint32_t summed = axes_all(v->n + 2) & ~1u;
  *w = b_physical(b, *w, NULL, summed, b_like(b, *w, 0));
  *x = b_physical(b, *x, NULL, summed, b_like(b, *x, 0));
  if (v->xs.d[1].sym) *w = b_pad_axis(b, *w, 1, 0, v->xs.d[1].n - v->ws.d[1].n, b_like(b, *w, 0));
  v->xs = *b_shape(b, *x);
  v->ws = *b_shape(b, *w);
}

static void conv_attr(B *b, text *t, const conv *v, tpu_dtype dt) {
  static const char *const words[] = {"DEFAULT", "HIGH", "HIGHEST"};
  static const char *const spatial[] = {"0", "0, 1", "0, 1, 2"};
  const b_conv *c = &v->c;
  const char *s = spatial[c->spatial - 1];
  text_printf(t,
              "batch_group_count = %lld : i64, dimension_numbers = #stablehlo.conv<[b, f, %s]x[o, i, "
              "%s]->[b, f, %s]>, feature_group_count = %lld : i64",
              (long long)c->batch_groups, s, s, s, (long long)c->feature_groups);
  ir_attr_i64s(t, "lhs_dilation", c->lhs_dilation, c->spatial);
  text_str(t, ", padding = dense<[");
  for (int i = 0; i < c->spatial; i++)
    text_printf(t, "%s[%lld, %lld]", i ? ", " : "", (long long)c->lo[i], (long long)c->hi[i]);
  text_printf(t, "]> : tensor<%dx2xi64>", c->spatial);
  if (b->precision > 0 && (dt == DT_F32 || dt == DT_C64))
    text_printf(t, ", precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]",
                words[b->precision], words[b->precision]);
  ir_attr_i64s(t, "rhs_dilation", c->rhs_dilation, c->spatial);
  text_str(t, ", window_reversal = array<i1: ");
  for (int i = 0; i < c->spatial; i++) text_printf(t, "%s%s", i ? ", " : "", c->flip ? "true" : "false");
  text_str(t, ">");
  ir_attr_i64s(t, "window_strides", c->stride, c->spatial);
}

static Val plain_conv(B *b, Val x, Val w, const conv *v, tpu_dtype acc) {
  text *t = ir_attr(b);
  conv_attr(b, t, v, b_dtype(b, x));
  return ir_opn(b, IR_CONV, acc, &v->out, (Val[]){x, w}, 2, t);
}

static int64_t spatial_product(const shape *s, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= s->d[2 + i].n;
  return p;
}

/* Negative pads of an input that is not dilated are cuts. */
static Val cut_negative(B *b, Val x, conv *v) {
  int64_t lo[5] = {0}, hi[5] = {0};
  for (int i = 0; i < v->n; i++) {
    if (v->c.lhs_dilation[i] > 1) continue;
    if (v->c.lo[i] < 0) lo[2 + i] = v->c.lo[i], v->c.lo[i] = 0;
    if (v->c.hi[i] < 0) hi[2 + i] = v->c.hi[i], v->c.hi[i] = 0;
  }
  x = b_pad(b, x, lo, hi, NULL, b_like(b, x, 0));
  if (x >= 0) v->xs = *b_shape(b, x);
  return x;
}

static bool spread_out(const conv *v) {
  bool dilated = false;
  for (int i = 0; i < v->n; i++) {
    if (v->c.lhs_dilation[i] < v->ws.d[2 + i].n || v->c.stride[i] > 1 || v->c.rhs_dilation[i] > 1)
      return false;
    dilated = dilated || v->c.lhs_dilation[i] > 1;
  }
  return dilated && v->c.feature_groups == 1 && v->c.batch_groups == 1;
}

static bool undilated(const conv *v) {
  for (int i = 0; i < v->n; i++)
    if (v->c.lhs_dilation[i] > 1) return false;
  return true;
}

/* What the CPU plugin is slow at, and what to do instead. Its fast path is for f32 of one or two spatial
 * dims, groups of many channels, no window reversal, and kernels that are not larger than the image (the
 * simplifier swaps those with the image, which reverses the window). Measured, in ms, plain and chosen (f32,
 * N 8, 3x3): depthwise 64 channels of 16x16 2.2 and 0.07; its weight gradient 2148 and 7.9 (32 channels of
 * 32x32, two outputs each); 512 channels of 2x2 282 and 1.1; input gradient of 64 channels of 56x56 with the
 * window reversed 1836, with the weights reversed 97; 1x1 of 512 channels of 4x4 1.6 and 0.5. Three spatial
 * dims are made two, see conv_by_planes: 32 channels of 16x16x16 63 and 20. */
static Val cpu_conv(B *b, Val x, Val w, conv *v, tpu_dtype acc) {
  enum { MOST_SLICES = 64 };
  const int64_t most_elements = 1 << 25;
  for (int i = 0; v->c.flip && i < v->n; i++) w = b_reverse(b, w, 2 + i);
  v->c.flip = false;
  x = cut_negative(b, x, v);
  if (b->err) return BAD;
  int64_t taps = spatial_product(&v->ws, v->n), outs = spatial_product(&v->out, v->n), c = v->ws.d[1].n;
  int64_t patches = v->out.d[0].n * v->xs.d[1].n * taps * outs, outputs = v->xs.d[0].n * c * taps * outs;
  bool can_patch = v->c.batch_groups == 1 && taps <= MOST_SLICES && patches <= most_elements;
  bool can_output = v->c.feature_groups == 1 && outs <= MOST_SLICES && outputs <= most_elements;
  int64_t planes = v->n < 3 ? 0 : v->ws.d[2].n < v->out.d[2].n ? v->ws.d[2].n : v->out.d[2].n;
  if (planes && planes <= MOST_SLICES) return conv_by_planes(b, x, w, v);
  if (v->c.batch_groups > 1) return can_output ? conv_by_outputs(b, x, w, v) : plain_conv(b, x, w, v, acc);
  if (v->c.feature_groups > 1 && c <= 2 && c * taps <= MOST_SLICES) return conv_depthwise(b, x, w, v);
  if (spread_out(v)) return conv_by_blocks(b, x, w, v);
  if (taps == 1 && v->c.feature_groups == 1 && undilated(v)) return conv_by_patches(b, x, w, v);
  bool slow = acc != DT_F32 || taps > spatial_product(&v->xs, v->n);
  if (slow && can_output && (outs < taps || !can_patch)) return conv_by_outputs(b, x, w, v);
  return slow && can_patch ? conv_by_patches(b, x, w, v) : plain_conv(b, x, w, v, acc);
}

Val b_convolution(B *b, Val x, Val w, const b_conv *c) {
  if (!ir_promote(b, &x, &w)) return BAD;
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  conv v = {.c = *c, .n = c->spatial, .xs = *b_shape(b, x), .ws = *b_shape(b, w)};
  shape out;
  if (!conv_sizes(b, &v, &out)) return BAD;
  ir_dim work[2 * IR_MAX_RANK];
  int n = 0;
  for (int i = 0; i < out.rank; i++) work[n++] = out.d[i];
  for (int i = 1; i < v.ws.rank; i++) work[n++] = v.ws.d[i];
  ir_bound_waste(b, work, n);
  conv_operands(b, &v, &x, &w);
  if (b->err) return BAD;
  if (!ir_numel_phys(&v.out) || !ir_numel_phys(&v.xs) || !ir_numel_phys(&v.ws)) return b_zeros(b, dt, &out);
  Val y =
      b->plain ? plain_conv(b, x, w, &v, acc) : cpu_conv(b, b_cast(b, x, acc), b_cast(b, w, acc), &v, acc);
  return b_relabel(b, b_cast(b, y, dt), &out);
}
