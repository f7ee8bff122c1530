/* Paddings (constant, reflected, replicated) with their gradients, and sliding windows as matrices: unfold,
 * im2col, col2im. */
#include "lower/indexing.h"

/* --- constant --- */

static void constant_pad(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  const int64_t *pad;
  int n = l_ints(l, 1, &pad), rank = b_rank(b, x);
  int64_t lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK] = {0};
  if (n % 2) l_fail(l, TPU_RUNTIME, "Length of pad must be even but instead it equals %d", n);
  if (n / 2 > rank)
    l_fail(l, TPU_RUNTIME,
           "Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
           "%d while "
           "the input has %d dimensions.",
           n, rank);
  for (int k = 0; k < n / 2 && b_ok(b); k++) {
    int i = rank - 1 - k;
    lo[i] = pad[2 * k];
    hi[i] = pad[2 * k + 1];
    int64_t size = b_shape(b, x)->d[i].n; /* of a generic dim: b_pad says which sizes are too small */
    if (size + lo[i] + hi[i] < 0)
      l_fail(l, TPU_RUNTIME,
             "The input size %lld, plus negative padding %lld and %lld resulted in a negative output size, "
             "which is "
             "invalid. Check dimension %d of your input.",
             (long long)size, (long long)lo[i], (long long)hi[i], i);
  }
  ret(l, b_pad(b, x, lo, hi, NULL, l_scalar(l, 2, b_dtype(b, x))));
}

/* --- reflect, replicate --- */

enum { PAD_REPLICATE = 8 }; /* datum: number of dims, plus this */

static Val part(B *b, Val x, int axis, int64_t from, int64_t to) { return b_slice(b, x, axis, from, to, 1); }

static int64_t at_least_0(int64_t v) { return v > 0 ? v : 0; }

/* The border of `k` places that goes before (or after) an axis of n. */
static Val border(B *b, Val x, int axis, int64_t k, bool after, bool replicate) {
  int64_t n = b_dim_static(b, x, axis);
  if (!replicate)
    return b_reverse(b, after ? part(b, x, axis, n - 1 - k, n - 1) : part(b, x, axis, 1, k + 1), axis);
  return b_tile_dim(b, after ? part(b, x, axis, n - 1, n) : part(b, x, axis, 0, 1), axis, k);
}

/* The place in the generic dim d that each element of `out`, the dim with its padding, repeats; I32. */
static Val sources(B *b, ir_dim d, ir_dim out, int64_t lo, bool replicate) {
  shape line = {.rank = 1, .d = {out}};
  Val last = b_sub(b, b_symbol_size(b, d.sym), b_const_i(b, DT_I32, 1)), zero = b_const_i(b, DT_I32, 0);
  Val at = b_sub(b, b_iota(b, DT_I32, &line, 0), b_const_i(b, DT_I32, lo));
  if (replicate) return b_maximum(b, b_minimum(b, at, last), zero);
  at = b_abs(b, at);
  return b_minimum(b, at, b_sub(b, b_add(b, last, last), at));
}

static Val pad_axis(B *b, Val x, int axis, int64_t lo, int64_t hi, bool replicate) {
  ir_dim d = b_shape(b, x)->d[axis];
  if (d.sym) return b_take(b, x, sources(b, d, b_dim_map(b, d, 1, lo + hi, 1), lo, replicate), axis);
  int64_t n = b_dim_static(b, x, axis);
  Val pieces[3];
  int k = 0;
  if (lo > 0) pieces[k++] = border(b, x, axis, lo, false, replicate);
  pieces[k++] = part(b, x, axis, at_least_0(-lo), n - at_least_0(-hi));
  if (hi > 0) pieces[k++] = border(b, x, axis, hi, true, replicate);
  return b_concat(b, pieces, k, axis);
}

/* The same of a generic dim: what lies in padding goes to places that do not exist. */
static Val unpad_generic(B *b, Val g, int axis, ir_dim d, int64_t lo, bool replicate) {
  Val at = sources(b, d, b_shape(b, g)->d[axis], lo, replicate);
  at = b_mask_pad(b, at, 1, b_const_i(b, DT_I32, d.n));
  Val v = ix_move(b, g, axis, 0);
  shape s = *b_shape(b, v);
  s.d[0] = d;
  return ix_move(b, b_scatter_nd(b, SCAT_ADD, b_zeros(b, b_dtype(b, g), &s), &at, 1, v), 0, axis);
}

/* The same axis of the gradient, folded back to n. */
static Val unpad_axis(B *b, Val g, int axis, int64_t n, int64_t lo, int64_t hi, bool replicate) {
  int64_t m = n + lo + hi, k;
  Val zero = b_like(b, g, 0), v = b_pad_axis(b, g, axis, -lo, -hi, zero);
  if (lo > 0) {
    Val e = part(b, g, axis, 0, lo);
    k = replicate ? 1 : lo;
    e = replicate ? b_sum(b, e, 1u << axis, true) : b_reverse(b, e, axis);
    v = b_add(b, v, b_pad_axis(b, e, axis, replicate ? 0 : 1, n - k - (replicate ? 0 : 1), zero));
  }
  if (hi > 0) {
    Val e = part(b, g, axis, m - hi, m);
    k = replicate ? 1 : hi;
    e = replicate ? b_sum(b, e, 1u << axis, true) : b_reverse(b, e, axis);
    v = b_add(b, v, b_pad_axis(b, e, axis, n - k - (replicate ? 0 : 1), replicate ? 0 : 1, zero));
  }
  return v;
}

static const int64_t *pad_arg(L *l, int i, Val x, int dims, bool replicate) {
  B *b = l_b(l);
  const int64_t *pad;
  int n = l_ints(l, i, &pad), rank = b_rank(b, x);
  if (n != 2 * dims) l_fail(l, TPU_RUNTIME, "padding size is expected to be %d, but got: %d", 2 * dims, n);
  if (rank != dims + 1 && rank != dims + 2)
    l_fail(l, TPU_RUNTIME,
           "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
           "for input, "
           "but got a tensor of rank %d",
           dims + 1, dims + 2, rank);
  for (int k = 0; k < dims && b_ok(b); k++) {
    int axis = rank - 1 - k;
    int64_t size = b_shape(b, x)->d[axis].n, lo = pad[2 * k], hi = pad[2 * k + 1], border = lo > hi ? lo : hi;
    b_require(b, b_shape(b, x)->d[axis], replicate || border < 0 ? 1 : border + 1);
    b_require(b, b_shape(b, x)->d[axis], 1 - lo - hi);
    if (!replicate && (lo >= size || hi >= size))
      l_fail(l, TPU_RUNTIME,
             "Argument #%d: Padding size should be less than the corresponding input dimension, but got: "
             "padding "
             "(%lld, %lld) at dimension %d of input",
             4 + 2 * k, (long long)lo, (long long)hi, axis);
    if (size + lo + hi < 1 || size < 1)
      l_fail(l, TPU_RUNTIME, "input (size %lld of dimension %d) is too small. Calculated output size: %lld",
             (long long)size, axis, (long long)(size + lo + hi));
  }
  return b_ok(b) ? pad : NULL;
}

/* (self, padding) */
static void edge_pad(L *l) {
  B *b = l_b(l);
  int dims = l_datum(l) & 7;
  bool replicate = l_datum(l) & PAD_REPLICATE;
  Val x = l_tensor(l, 0);
  const int64_t *pad = pad_arg(l, 1, x, dims, replicate);
  for (int k = 0; k < dims && pad; k++)
    x = pad_axis(b, x, b_rank(b, x) - 1 - k, pad[2 * k], pad[2 * k + 1], replicate);
  ret(l, x);
}

/* (grad, self, padding) */
static void edge_pad_backward(L *l) {
  B *b = l_b(l);
  int dims = l_datum(l) & 7;
  bool replicate = l_datum(l) & PAD_REPLICATE;
  Val g = l_tensor(l, 0), x = l_tensor(l, 1);
  const int64_t *pad = pad_arg(l, 2, x, dims, replicate);
  tpu_dtype dt = b_dtype(b, g);
  g = b_cast(b, g, dt_acc(dt));
  for (int k = 0; k < dims && pad; k++) {
    int axis = b_rank(b, x) - 1 - k;
    int64_t lo = pad[2 * k], hi = pad[2 * k + 1];
    ir_dim d = b_shape(b, x)->d[axis];
    g = d.sym ? unpad_generic(b, g, axis, d, lo, replicate) : unpad_axis(b, g, axis, d.n, lo, hi, replicate);
  }
  ret(l, b_cast(b, g, dt));
}

/* --- unfold --- */

/* The part k of each window, spread to where it came from and added: g is [..., windows at axis, ...]. */
static Val window_part(B *b, Val g, int axis, int64_t n, int64_t start, int64_t step) {
  int64_t lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK] = {0}, in[IR_MAX_RANK] = {0};
  int64_t windows = b_dim_static(b, g, axis);
  lo[axis] = start;
  in[axis] = step - 1;
  hi[axis] = n - start - (windows ? (windows - 1) * step + 1 : 0);
  return b_pad(b, g, lo, hi, in, b_like(b, g, 0));
}

enum { UNFOLD_UNROLLED = 16 };

/* (grad_in, input_sizes, dim, size, step): grad_in has the windows at dim and their elements in a last dim.
 */
static void unfold_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0);
  const int64_t *sizes;
  int rank = l_ints(l, 1, &sizes), axis = l_axis(l, 2, rank), last = b_rank(b, g) - 1;
  int64_t size = l_int(l, 3), step = l_int(l, 4), n = rank ? sizes[axis] : 1;
  if (!b_ok(b)) return;
  tpu_dtype dt = b_dtype(b, g);
  if (rank == 0) {
    ret(l, b_reshape_to(b, b_slice(b, g, last, 0, 1, 1), 0, NULL));
    return;
  }
  g = b_cast(b, g, dt_acc(dt));
  shape s = shape_of(rank, sizes);
  Val v = b_zeros(b, b_dtype(b, g), &s);
  if (size <= UNFOLD_UNROLLED) {
    for (int64_t k = 0; k < size; k++)
      v = b_add(b, v, window_part(b, b_squeeze(b, part(b, g, last, k, k + 1), last), axis, n, k, step));
  } else {
    g = ix_move(b, ix_move(b, g, axis, 0), last, 1);
    shape grid = shape_of(2, (int64_t[]){b_dim_static(b, g, 0), size});
    Val at = b_add(b, b_mul(b, b_iota(b, DT_I32, &grid, 0), b_const_i(b, DT_I32, step)),
                   b_iota(b, DT_I32, &grid, 1));
    v = ix_move(b, b_scatter_nd(b, SCAT_ADD, ix_move(b, v, axis, 0), &at, 1, g), 0, axis);
  }
  ret(l, b_cast(b, v, dt));
}

/* --- im2col, col2im --- */

typedef struct patches {
  int64_t k[2], dilation[2], pad[2], stride[2], size[2],
      out[2]; /* size: of the image, out: number of windows */
} patches;

static bool pair_arg(L *l, int i, int64_t *out, int64_t least, const char *name) {
  const int64_t *v;
  int n = l_ints(l, i, &v);
  if (n < 1 || n > 2) l_fail(l, TPU_RUNTIME, "It is expected %s equals to 2, but got size %d", name, n);
  if (!b_ok(l_b(l))) return false;
  for (int k = 0; k < 2; k++) out[k] = v[n == 2 ? k : 0];
  if (out[0] < least || out[1] < least)
    l_fail(l, TPU_RUNTIME, "%s should be greater than %s, but got (%lld, %lld)", name,
           least ? "zero" : "or equal to zero", (long long)out[0], (long long)out[1]);
  return b_ok(l_b(l));
}

/* Arguments from i on: kernel_size, dilation, padding, stride. */
static bool patch_args(L *l, int i, patches *p) {
  if (!pair_arg(l, i, p->k, 1, "kernel_size") || !pair_arg(l, i + 1, p->dilation, 1, "dilation") ||
      !pair_arg(l, i + 2, p->pad, 0, "padding") || !pair_arg(l, i + 3, p->stride, 1, "stride"))
    return false;
  for (int k = 0; k < 2; k++) {
    int64_t room = p->size[k] + 2 * p->pad[k] - p->dilation[k] * (p->k[k] - 1) - 1;
    p->out[k] = room < 0 ? 0 : room / p->stride[k] + 1;
  }
  if (p->out[0] > 0 && p->out[1] > 0) return true;
  l_fail(l, TPU_RUNTIME,
         "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), "
         "padding=(%lld, "
         "%lld), calculated shape of the array of sliding blocks as (%lld, %lld), but its components must be "
         "at least one.",
         (long long)p->size[0], (long long)p->size[1], (long long)p->k[0], (long long)p->k[1],
         (long long)p->dilation[0], (long long)p->dilation[1], (long long)p->pad[0], (long long)p->pad[1],
         (long long)p->out[0], (long long)p->out[1]);
  return false;
}

/* How many windows there are along an axis of the image. */
static ir_dim patch_dim(B *b, ir_dim d, const patches *p, int k) {
  int64_t room = 2 * p->pad[k] - p->dilation[k] * (p->k[k] - 1) - 1 + p->stride[k];
  ir_dim out = b_dim_map(b, d, 1, room, p->stride[k]);
  b_require(b, out, 1);
  return out;
}

static void im2col(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  patches p;
  if (rank != 3 && rank != 4)
    l_fail(l, TPU_RUNTIME, "Expected 3D or 4D (batch mode) tensor, but got a tensor of rank %d", rank);
  for (int k = 0; k < 2 && b_ok(b); k++) p.size[k] = b_shape(b, x)->d[rank - 2 + k].n;
  if (!b_ok(b) || !patch_args(l, 1, &p)) return;
  if (p.k[0] * p.k[1] > 1024) {
    l_decline(l, "im2col with a kernel of more than 1024 elements");
    return;
  }
  if (rank == 3) x = b_unsqueeze(b, x, 0);
  shape s = *b_shape(b, x);
  x = b_physical(b, x, NULL, 4 | 8, b_like(b, x, 0));
  for (int k = 0; k < 2; k++) x = b_pad_axis(b, x, 2 + k, p.pad[k], p.pad[k], b_like(b, x, 0));
  Val parts[1024];
  int n = 0;
  for (int64_t i = 0; i < p.k[0]; i++)
    for (int64_t j = 0; j < p.k[1]; j++) {
      int64_t y0 = i * p.dilation[0], x0 = j * p.dilation[1];
      Val v = b_slice(b, x, 2, y0, y0 + (p.out[0] - 1) * p.stride[0] + 1, p.stride[0]);
      parts[n++] =
          b_unsqueeze(b, b_slice(b, v, 3, x0, x0 + (p.out[1] - 1) * p.stride[1] + 1, p.stride[1]), 2);
    }
  Val v = b_concat(b, parts, n, 2);
  shape full = {.rank = 5,
                .d = {s.d[0], s.d[1], {n, 0}, patch_dim(b, s.d[2], &p, 0), patch_dim(b, s.d[3], &p, 1)}};
  v = ix_merge(b, ix_merge(b, b_relabel(b, v, &full), 3, 4), 1, 2);
  ret(l, rank == 3 ? b_squeeze(b, v, 0) : v);
}

static void col2im(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  tpu_dtype dt = b_dtype(b, x);
  patches p;
  if (rank != 2 && rank != 3)
    l_fail(l, TPU_RUNTIME, "Expected 2D or 3D (batch mode) tensor for input, but got a tensor of rank %d",
           rank);
  if (!b_ok(b) || !pair_arg(l, 1, p.size, 1, "output_size") || !patch_args(l, 2, &p)) return;
  if (rank == 2) x = b_unsqueeze(b, x, 0);
  ir_dim batch = b_ok(b) ? b_shape(b, x)->d[0] : (ir_dim){1, 0};
  int64_t rows = b_dim_static(b, x, 1), cols = b_dim_static(b, x, 2), kk = p.k[0] * p.k[1];
  if (rows % kk)
    l_fail(l, TPU_RUNTIME,
           "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
           "input.size(1)=%lld "
           "and kernel_size=(%lld, %lld).",
           (long long)rows, (long long)p.k[0], (long long)p.k[1]);
  if (cols != p.out[0] * p.out[1])
    l_fail(l, TPU_RUNTIME,
           "Given output_size=(%lld, %lld), expected size of input's dimension 2 to match the calculated "
           "number of sliding "
           "blocks %lld * %lld = %lld, but got input.size(2)=%lld.",
           (long long)p.size[0], (long long)p.size[1], (long long)p.out[0], (long long)p.out[1],
           (long long)(p.out[0] * p.out[1]), (long long)cols);
  if (!b_ok(b)) return;
  int64_t c = rows / kk, wide[2] = {p.size[0] + 2 * p.pad[0], p.size[1] + 2 * p.pad[1]};
  shape parts = {.rank = 5, .d = {batch, {c, 0}, {kk, 0}, {p.out[0], 0}, {p.out[1], 0}}};
  x = b_reshape(b, b_cast(b, x, dt_acc(dt)), &parts);
  shape s = {.rank = 4, .d = {batch, {c, 0}, {wide[0], 0}, {wide[1], 0}}};
  Val v = b_zeros(b, b_dtype(b, x), &s);
  for (int64_t i = 0; i < kk && b_ok(b); i++) {
    Val e = b_squeeze(b, part(b, x, 2, i, i + 1), 2);
    e = window_part(b, e, 2, wide[0], i / p.k[1] * p.dilation[0], p.stride[0]);
    v = b_add(b, v, window_part(b, e, 3, wide[1], i % p.k[1] * p.dilation[1], p.stride[1]));
  }
  for (int k = 0; k < 2; k++) v = part(b, v, 2 + k, p.pad[k], p.pad[k] + p.size[k]);
  v = b_cast(b, v, dt);
  ret(l, rank == 2 ? b_squeeze(b, v, 0) : v);
}

const tpu_row rows_pad[] = {
    {"constant_pad_nd", constant_pad, 0, ROW_CHANNELS | ROW_FITS},
    {"reflection_pad1d", edge_pad, 1, ROW_SAME_DTYPE},
    {"reflection_pad2d", edge_pad, 2, ROW_CHANNELS | ROW_SAME_DTYPE},
    {"reflection_pad3d", edge_pad, 3, ROW_CHANNELS | ROW_SAME_DTYPE},
    {"replication_pad1d", edge_pad, 1 | PAD_REPLICATE, ROW_SAME_DTYPE},
    {"replication_pad2d", edge_pad, 2 | PAD_REPLICATE, ROW_CHANNELS | ROW_SAME_DTYPE},
    {"replication_pad3d", edge_pad, 3 | PAD_REPLICATE, ROW_CHANNELS | ROW_SAME_DTYPE},
    {"reflection_pad1d_backward", edge_pad_backward, 1, 0},
    {"reflection_pad2d_backward", edge_pad_backward, 2, ROW_CHANNELS},
    {"reflection_pad3d_backward", edge_pad_backward, 3, ROW_CHANNELS},
    {"replication_pad1d_backward", edge_pad_backward, 1 | PAD_REPLICATE, 0},
    {"replication_pad2d_backward", edge_pad_backward, 2 | PAD_REPLICATE, ROW_CHANNELS},
    {"replication_pad3d_backward", edge_pad_backward, 3 | PAD_REPLICATE, ROW_CHANNELS},
    {"unfold_backward", unfold_backward, 0, 0},
    {"im2col", im2col, 0, 0},
    {"col2im", col2im, 0, 0},
    {0}};
