/* Convolution and its gradients, in any number of dims, transposed or not, in groups.
 *
 * With x [N, C, sp], w [O, C/g, k], y [N, O, sp'] three products cover everything:
 *   forward(x, w) -> y;  to_input(y, w) -> x (the gradient of x; also the transposed convolution);
 * to_weight(x, y) -> w. A transposed convolution swaps the roles of x and y: its w is [C, O/g, k] with C the
 * channels of what goes in. */
#include "lower/lower.h"

typedef struct conv {
  int n; /* spatial dims */
  int64_t stride[3], pad[3], dilation[3], extra[3], groups;
  bool transposed;
} conv;

/* Of a kernel: axis 2 + i. */
static int64_t side(B *b, Val w, int i) { return b_dim_static(b, w, 2 + i); }

static void entries(L *l, int i, int n, int64_t absent, int64_t *out) {
  const int64_t *v;
  int k = l_ints(l, i, &v);
  for (int j = 0; j < n; j++) out[j] = k == 0 ? absent : v[k == 1 ? 0 : j];
}

/* stride, padding, dilation, transposed, output_padding, groups from argument i on; x and w of equal rank */
static bool read_conv(L *l, int i, Val x, Val w, conv *c) {
  B *b = l_b(l);
  int rank = b_rank(b, w);
  *c = (conv){.n = rank - 2, .transposed = l_bool(l, i + 3), .groups = l_int(l, i + 5)};
  if (c->n < 1 || c->n > 3) {
    l_decline(l, "convolution over other than 1, 2 or 3 dims");
    return false;
  }
  if (b_rank(b, x) != rank)
    l_fail(l, TPU_RUNTIME,
           "Expected %d-dimensional input for %d-dimensional weight, but got input of rank %d instead", rank,
           rank, b_rank(b, x));
  entries(l, i, c->n, 1, c->stride);
  entries(l, i + 1, c->n, 0, c->pad);
  entries(l, i + 2, c->n, 1, c->dilation);
  entries(l, i + 4, c->n, 0, c->extra);
  return b_ok(b);
}

static int64_t reach(const conv *c, int i, int64_t k) { return c->dilation[i] * (k - 1); }

/* `out`: the sizes to reach, here and below; NULL: what the padding gives. */
static Val forward(B *b, const conv *c, Val x, Val w, const ir_dim *out) {
  b_conv p = {.spatial = c->n, .feature_groups = c->groups, .to = out};
  for (int i = 0; i < c->n; i++) {
    p.stride[i] = c->stride[i];
    p.rhs_dilation[i] = c->dilation[i];
    p.lo[i] = p.hi[i] = c->pad[i];
  }
  return b_convolution(b, x, w, &p);
}

/* w [g*A, B, k] -> [g*B, A, k] */
static Val swap_channels(B *b, Val w, int64_t g) {
  if (g == 1) return b_swap(b, w, 0, 1);
  shape s = *b_shape(b, w), t = s, r = s;
  int64_t a = s.d[0].n / g, c = s.d[1].n;
  t.rank = s.rank + 1;
  t.d[0].n = g;
  t.d[1].n = a;
  for (int i = 1; i < s.rank; i++) t.d[i + 1] = s.d[i];
  r.d[0].n = g * c;
  r.d[1].n = a;
  return b_reshape(b, b_swap(b, b_reshape(b, w, &t), 1, 2), &r);
}

static Val to_input(B *b, const conv *c, Val y, Val w, const ir_dim *in) {
  b_conv p = {.spatial = c->n, .feature_groups = c->groups, .flip = true, .to = in};
  for (int i = 0; i < c->n; i++) {
    p.lhs_dilation[i] = c->stride[i];
    p.rhs_dilation[i] = c->dilation[i];
    p.lo[i] = reach(c, i, side(b, w, i)) - c->pad[i];
  }
  return b_convolution(b, y, swap_channels(b, w, c->groups), &p);
}

static Val to_weight(B *b, const conv *c, Val x, Val y, const ir_dim *k) {
  b_conv p = {.spatial = c->n, .batch_groups = c->groups, .to = k};
  for (int i = 0; i < c->n; i++) {
    p.stride[i] = c->dilation[i];
    p.rhs_dilation[i] = c->stride[i];
    p.lo[i] = c->pad[i];
  }
  return b_swap(b, b_convolution(b, b_swap(b, x, 0, 1), b_swap(b, y, 0, 1), &p), 0, 1);
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
static void convolution(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), w = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  conv c;
  if (b_dtype(b, w) != dt)
    l_fail(l, TPU_RUNTIME, "Input type (%s) and weight type (%s) should be the same",
           tpu_dtype_torch_name(dt), tpu_dtype_torch_name(b_dtype(b, w)));
  if (!read_conv(l, 3, x, w, &c)) return;
  if (l_has(l, 2)) { /* the bias is added before rounding */
    x = b_cast(b, x, acc);
    w = b_cast(b, w, acc);
  }
  ir_dim out[3];
  for (int i = 0; i < c.n && c.transposed; i++)
    out[i] = b_dim_map(b, b_shape(b, x)->d[2 + i], c.stride[i],
                       reach(&c, i, side(b, w, i)) + c.extra[i] + 1 - c.stride[i] - 2 * c.pad[i], 1);
  Val v = c.transposed ? to_input(b, &c, x, w, out) : forward(b, &c, x, w, NULL);
  if (l_has(l, 2)) {
    Val bias = b_cast(b, l_tensor(l, 2), acc);
    for (int i = 0; i < c.n; i++) bias = b_unsqueeze(b, bias, i + 1);
    v = b_add(b, v, bias);
  }
  ret(l, b_cast(b, v, dt));
}

/* (grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask) */
static void convolution_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), x = l_tensor(l, 1), w = l_tensor(l, 2);
  tpu_dtype dt = b_dtype(b, x);
  conv c;
  if (!read_conv(l, 3, x, w, &c)) return;
  const ir_dim *in = b_shape(b, x)->d + 2, *k = b_shape(b, w)->d + 2;
  if (!l_bool_item(l, 9, 0))
    ret_none(l);
  else
    ret(l, b_cast(b, c.transposed ? forward(b, &c, g, w, in) : to_input(b, &c, g, w, in), dt));
  if (!l_bool_item(l, 9, 1))
    ret_none(l);
  else
    ret(l, b_cast(b, c.transposed ? to_weight(b, &c, g, x, k) : to_weight(b, &c, x, g, k), b_dtype(b, w)));
  if (!l_bool_item(l, 9, 2))
    ret_none(l);
  else
    ret(l, b_cast(b, b_sum(b, g, axes_all(b_rank(b, g)) & ~2u, false), dt));
}

const tpu_row rows_conv[] = {{"convolution_overrideable", convolution, 0, ROW_CHANNELS},
                             {"convolution_backward_overrideable", convolution_backward, 0, ROW_CHANNELS},
                             {0}};
