/* Lowerings of convolution by slices and dots, for where the CPU plugin's own is slow (see conv.c). */
#include "ir/conv.h"

enum { MOST = 64 }; /* slices; conv.c does not ask for more */

/* x with its pads and dilation in place: [N, C, base...]. */
static Val padded(B *b, Val x, const conv *v) {
  int64_t lo[5] = {0}, hi[5] = {0}, in[5] = {0};
  for (int i = 0; i < v->n; i++) {
    lo[2 + i] = v->c.lo[i];
    hi[2 + i] = v->c.hi[i];
    in[2 + i] = v->c.lhs_dilation[i] - 1;
  }
  return b_pad(b, x, lo, hi, in, b_like(b, x, 0));
}

/* Every position of a box of `size`, in row-major order. */
static bool next(const int64_t *size, int n, int64_t *at) {
  for (int i = n - 1; i >= 0; i--) {
    if (++at[i] < size[i]) return true;
    at[i] = 0;
  }
  return false;
}

/* [N, C, count...]: elements at first + i * step of the padded x. */
static Val box(B *b, Val x, const conv *v, const int64_t *first, const int64_t *count, const int64_t *step) {
  shape s = *b_shape(b, x);
  int64_t lo[5] = {0}, hi[5], st[5] = {1, 1, 1, 1, 1};
  hi[0] = s.d[0].n;
  hi[1] = s.d[1].n;
  for (int i = 0; i < v->n; i++) {
    lo[2 + i] = first[i];
    hi[2 + i] = first[i] + (count[i] - 1) * step[i] + 1;
    st[2 + i] = step[i];
    s.d[2 + i].n = count[i];
  }
  return ir_slice_raw(b, x, lo, hi, st, &s);
}

static void spatial_of(const shape *s, int n, int64_t *out) {
  for (int i = 0; i < n; i++) out[i] = s->d[2 + i].n;
}

/* The windows' elements, one kernel position behind the other: [N, C, P, out...]. */
static Val patches(B *b, Val x, const conv *v, int64_t *count) {
  int64_t k[3], out[3], at[3] = {0}, first[3];
  x = padded(b, x, v);
  spatial_of(&v->ws, v->n, k);
  spatial_of(&v->out, v->n, out);
  Val list[MOST];
  int n = 0;
  do {
    for (int i = 0; i < v->n; i++) first[i] = at[i] * v->c.rhs_dilation[i];
    list[n++] = b_unsqueeze(b, box(b, x, v, first, out, v->c.stride), 2);
  } while (next(k, v->n, at) && n < MOST);
  *count = n;
  return n == 1 ? list[0] : b_concat(b, list, n, 2);
}

/* Few channels a group: the sum over channels of the group and kernel positions of a shifted slice times its
 * weights, all groups and all their outputs at once: [N, G, 1, out...] x [1, G, m, 1...]. */
Val conv_depthwise(B *b, Val x, Val w, const conv *v) {
  int64_t k[3], out[3], at[3] = {0}, first[3], g = v->c.feature_groups, m = v->ws.d[0].n / g,
                        c = v->ws.d[1].n;
  x = padded(b, x, v);
  spatial_of(&v->ws, v->n, k);
  spatial_of(&v->out, v->n, out);
  shape ws = {.rank = 3 + v->n}, xs = {.rank = 3 + v->n};
  for (int i = 0; i < ws.rank; i++) {
    ws.d[i].n = i == 1 ? g : i == 2 ? m : 1;
    xs.d[i] = i == 0 ? v->out.d[0] : (ir_dim){i == 1 ? g : i == 2 ? c : out[i - 3], 0};
  }
  Val sum = BAD;
  do {
    int64_t lo[5] = {0}, hi[5] = {v->ws.d[0].n};
    for (int i = 0; i < v->n; i++) {
      first[i] = at[i] * v->c.rhs_dilation[i];
      lo[2 + i] = at[i];
      hi[2 + i] = at[i] + 1;
    }
    Val here = b_reshape(b, box(b, x, v, first, out, v->c.stride), &xs);
    for (int64_t i = 0; i < c; i++) {
      lo[1] = i;
      hi[1] = i + 1;
      Val wk = b_reshape(b, b_slice_nd(b, w, lo, hi, NULL), &ws),
          term = b_mul(b, b_slice(b, here, 2, i, i + 1, 1), wk);
      sum = sum < 0 ? term : b_add(b, sum, term);
    }
  } while (next(k, v->n, at) && b_ok(b));
  return b_reshape(b, sum, &v->out);
}

/* Patches and one dot a group: [N, G, C/G, P, out...] x [G, O/G, C/G, P] -> [G, O/G, N, out...]. */
Val conv_by_patches(B *b, Val x, Val w, const conv *v) {
  int64_t g = v->c.feature_groups, count;
  Val p = patches(b, x, v, &count);
  shape ps = {.rank = 4 + v->n}, ws = shape_of(4, (int64_t[]){g, v->ws.d[0].n / g, v->ws.d[1].n, count});
  ps.d[0] = v->xs.d[0];
  ps.d[1].n = g;
  ps.d[2].n = v->ws.d[1].n;
  ps.d[3].n = count;
  for (int i = 0; i < v->n; i++) ps.d[4 + i] = v->out.d[2 + i];
  p = b_reshape(b, p, &ps);
  w = b_reshape(b, w, &ws);
  Val y;
  if (g == 1) {
    int64_t flat[3] = {v->ws.d[0].n, v->ws.d[1].n * count};
    shape fs = ps;
    fs.d[1].n = flat[1];
    for (int i = 0; i < v->n; i++) fs.d[2 + i] = ps.d[4 + i];
    fs.rank = 2 + v->n;
    y = b_dot_general(b, b_reshape_to(b, w, 2, flat), b_reshape(b, p, &fs), 1, (int[]){1}, (int[]){1}, 0,
                      NULL, NULL);
    return b_swap(b, y, 0, 1); /* [O, N, out...] */
  }
  y = b_dot_general(b, w, p, 2, (int[]){2, 3}, (int[]){2, 3}, 1, (int[]){0},
                    (int[]){1}); /* [G, O/G, N, out...] */
  int perm[6] = {2, 0, 1, 3, 4, 5};
  return b_reshape(b, b_transpose(b, y, perm), &v->out);
}

/* Few outputs, a large kernel (the gradient of a weight): one dot an output position, over channels and
 * kernel. x [bg, N', C, base], w [bg, O', C, k] -> [bg, N', O'] at every position. */
Val conv_by_outputs(B *b, Val x, Val w, const conv *v) {
  int64_t k[3], out[3], at[3] = {0}, first[3], bg = v->c.batch_groups, o = v->ws.d[0].n / bg,
                        n = v->out.d[0].n, c = v->ws.d[1].n, len = c;
  x = padded(b, x, v);
  spatial_of(&v->ws, v->n, k);
  spatial_of(&v->out, v->n, out);
  for (int i = 0; i < v->n; i++) len *= k[i];
  w = b_reshape_to(b, w, 3, (int64_t[]){bg, o, len});
  Val list[MOST];
  int count = 0;
  do {
    for (int i = 0; i < v->n; i++) first[i] = at[i] * v->c.stride[i];
    Val xs = box(b, x, v, first, k, v->c.rhs_dilation);
    list[count++] = b_reshape_to(b, xs, 4, (int64_t[]){bg, 1, n, len});
  } while (next(out, v->n, at) && count < MOST);
  Val all = count == 1 ? list[0] : b_concat(b, list, count, 1); /* [bg, Q, N', len] */
  Val y;
  if (n == 1 && o == 1) {
    Val wide = b_reshape_to(b, w, 4, (int64_t[]){bg, 1, 1, len});
    y = b_unsqueeze(b, b_sum(b, b_mul(b, all, wide), 8, false), 1); /* [bg, 1, Q, N'] */
  } else {
    y = b_dot_general(b, w, all, 1, (int[]){2}, (int[]){3}, 1, (int[]){0}, (int[]){0}); /* [bg, O', Q, N'] */
  }
  return b_reshape(b, b_transpose(b, y, (int[]){3, 0, 1, 2}), &v->out);
}

/* The kernels' imprints do not overlap (a transposed convolution whose stride is not smaller than its
 * kernel): one dot gives the block of every input position, [O, k..., N, sp...], and the blocks are laid side
 * by side. The full result has lo = hi = k - 1. */
Val conv_by_blocks(B *b, Val x, Val w, const conv *v) {
  int n = v->n, perm[8], r = 0;
  for (int i = 0; i < n; i++)
    w = b_reverse(b, w, 2 + i); /* the first element of a block meets the last weight */
  Val y = b_dot_general(b, w, x, 1, (int[]){1}, (int[]){1}, 0, NULL, NULL);
  perm[r++] = 1 + n;
  perm[r++] = 0;
  for (int i = 0; i < n; i++) {
    perm[r++] = 2 + n + i;
    perm[r++] = 1 + i;
  }
  y = b_transpose(b, y, perm); /* [N, O, sp0, k0, sp1, k1, ...] */
  int64_t lo[8] = {0}, hi[8] = {0}, blo[5] = {0}, bhi[5] = {0};
  shape s = v->out;
  for (int i = 0; i < n; i++) {
    int64_t k = v->ws.d[2 + i].n, d = v->c.lhs_dilation[i];
    hi[3 + 2 * i] = d - k;
    s.d[2 + i].n = v->xs.d[2 + i].n * d;
    blo[2 + i] = v->c.lo[i] - (k - 1);
    bhi[2 + i] = v->out.d[2 + i].n - s.d[2 + i].n - blo[2 + i];
  }
  Val zero = b_like(b, y, 0);
  return b_pad(b, b_reshape(b, b_pad(b, y, lo, hi, NULL, zero), &s), blo, bhi, NULL, zero);
}

/* --- three spatial dims as two --- */

/* x [N, C, D, H, W] with the first spatial dim padded, dilated and moved: [N, D', C, H, W]. */
static Val depth_first(B *b, Val x, const conv *v) {
  int64_t lo[5] = {0, 0, v->c.lo[0]}, hi[5] = {0, 0, v->c.hi[0]}, in[5] = {0, 0, v->c.lhs_dilation[0] - 1};
  return b_swap(b, b_pad(b, x, lo, hi, in, b_like(b, x, 0)), 1, 2);
}

static b_conv drop_first(const b_conv *c) {
  b_conv r = *c;
  r.spatial = 2;
  for (int i = 0; i < 2; i++) {
    r.stride[i] = c->stride[i + 1];
    r.lo[i] = c->lo[i + 1];
    r.hi[i] = c->hi[i + 1];
    r.lhs_dilation[i] = c->lhs_dilation[i + 1];
    r.rhs_dilation[i] = c->rhs_dilation[i + 1];
  }
  return r;
}

/* One plane convolution per kernel depth, over all output planes at once; their sum. */
static Val sum_over_kernel(B *b, Val x, Val w, const conv *v, const b_conv *c2) {
  int64_t out = v->out.d[2].n, st = v->c.stride[0], n = v->xs.d[0].n, ch = v->xs.d[1].n, h = v->xs.d[3].n,
          wd = v->xs.d[4].n;
  Val sum = BAD;
  for (int64_t k = 0; k < v->ws.d[2].n && b_ok(b); k++) {
    int64_t at = k * v->c.rhs_dilation[0];
    Val xs = b_slice(b, x, 1, at, at + (out - 1) * st + 1, st);
    Val y = b_convolution(b, b_reshape_to(b, xs, 4, (int64_t[]){n * out, ch, h, wd}),
                          b_squeeze(b, b_slice(b, w, 2, k, k + 1, 1), 2), c2);
    sum = sum < 0 ? y : b_add(b, sum, y);
  }
  shape s = {.rank = 5, .d = {v->out.d[0], v->out.d[2], v->out.d[1], v->out.d[3], v->out.d[4]}};
  return b_swap(b, b_reshape(b, sum, &s), 1, 2);
}

/* One plane convolution per output plane, the kernel's depth being channels. */
static Val plane_by_plane(B *b, Val x, Val w, const conv *v, const b_conv *c2) {
  int64_t k = v->ws.d[2].n, rd = v->c.rhs_dilation[0];
  Val list[MOST];
  int n = 0;
  Val wf = b_flatten(b, w, 1, 2);
  for (; n < v->out.d[2].n && n < MOST; n++) {
    int64_t at = n * v->c.stride[0];
    Val xs = b_swap(b, b_slice(b, x, 1, at, at + (k - 1) * rd + 1, rd), 1, 2);
    list[n] = b_unsqueeze(b, b_convolution(b, b_flatten(b, xs, 1, 2), wf, c2), 2);
  }
  return b_concat(b, list, n, 2);
}

Val conv_by_planes(B *b, Val x, Val w, const conv *v) {
  b_conv c2 = drop_first(&v->c);
  x = depth_first(b, x, v);
  if (b->err) return BAD;
  return v->ws.d[2].n <= v->out.d[2].n ? sum_over_kernel(b, x, w, v, &c2) : plane_by_plane(b, x, w, v, &c2);
}
