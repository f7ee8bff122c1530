/* Convolution: the plain stablehlo.convolution, and the lowerings that avoid the slow spots of the CPU
 * plugin. */
#include "ir/conv.h"

static int64_t or_1(int64_t v) { return v > 0 ? v : 1; }

static bool conv_sizes(B *b, conv *v) {
  b_conv *c = &v->c;
  c->feature_groups = or_1(c->feature_groups);
  c->batch_groups = or_1(c->batch_groups);
  if (c->spatial < 1 || c->spatial > 3 || v->xs.rank != c->spatial + 2 || v->ws.rank != c->spatial + 2) {
    b_fail(b, TPU_RUNTIME, "convolution over %d dims of input of rank %d and weight of rank %d", c->spatial,
           v->xs.rank, v->ws.rank);
    return false;
  }
  for (int i = 0; i < v->ws.rank; i++)
    if (v->ws.d[i].sym || (i && v->xs.d[i].sym))
      b_fail(b, TPU_NOT_IMPLEMENTED, "convolution over a generic dim");
  if (v->xs.d[0].sym && c->batch_groups > 1) b_fail(b, TPU_NOT_IMPLEMENTED, "convolution over a generic dim");
  int64_t in = v->xs.d[1].n, o = v->ws.d[0].n;
  if (in != v->ws.d[1].n * c->feature_groups || o % c->feature_groups || v->xs.d[0].n % c->batch_groups ||
      o % c->batch_groups)
    b_fail(b, TPU_RUNTIME,
           "Given groups=%lld, weight of size [%lld, %lld, ...], expected input to have %lld channels, but "
           "got %lld channels instead",
           (long long)c->feature_groups, (long long)o, (long long)v->ws.d[1].n,
           (long long)(v->ws.d[1].n * c->feature_groups), (long long)in);
  v->out = v->xs;
  v->out.d[0].n /= c->batch_groups;
  v->out.d[1].n = o;
  for (int i = 0; i < c->spatial; i++) {
    c->stride[i] = or_1(c->stride[i]);
    c->lhs_dilation[i] = or_1(c->lhs_dilation[i]);
    c->rhs_dilation[i] = or_1(c->rhs_dilation[i]);
    int64_t n = v->xs.d[2 + i].n, k = v->ws.d[2 + i].n;
    int64_t base = (n ? (n - 1) * c->lhs_dilation[i] + 1 : 0) + c->lo[i] + c->hi[i],
            span = k ? (k - 1) * c->rhs_dilation[i] + 1 : 0;
    v->out.d[2 + i].n = base < span ? 0 : (base - span) / c->stride[i] + 1;
  }
  return b_ok(b);
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
  bool can_output =
      v->c.feature_groups == 1 && outs <= MOST_SLICES && outputs <= most_elements && !v->xs.d[0].sym;
  int64_t planes = v->n < 3 ? 0 : v->ws.d[2].n < v->out.d[2].n ? v->ws.d[2].n : v->out.d[2].n;
  if (planes && planes <= MOST_SLICES && !v->xs.d[0].sym) return conv_by_planes(b, x, w, v);
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
  if (!conv_sizes(b, &v)) return BAD;
  if (!ir_numel_phys(&v.out) || !ir_numel_phys(&v.xs) || !ir_numel_phys(&v.ws)) return b_zeros(b, dt, &v.out);
  if (b->plain) return b_cast(b, plain_conv(b, x, w, &v, acc), dt);
  return b_cast(b, cpu_conv(b, b_cast(b, x, acc), b_cast(b, w, acc), &v, acc), dt);
}
