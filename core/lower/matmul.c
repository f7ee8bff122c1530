/* Products of matrices and vectors. Everything is one dot_general; what is added to it is added in the
 * accumulation dtype and the sum rounded once. beta = 0 and alpha = 1 are structure and cost nothing. */
#include "lower/lower.h"
#include "lower/math.h"

enum {
  P_MM,
  P_BMM,
  P_MV,
  P_DOT,
  P_VDOT,
  P_OUTER,
  P_SUM_BMM,
  P_KIND = 15,
  P_DTYPE = 16 /* an out_dtype argument stands before beta */
};

/* The way PyTorch writes a dtype in the messages of the matrix products. */
static const char *type_word(tpu_dtype dt) {
  switch (dt) {
  case DT_F32: return "float";
  case DT_F64: return "double";
  case DT_F16: return "c10::Half";
  case DT_BF16: return "c10::BFloat16";
  case DT_I64: return "long";
  case DT_I32: return "int";
  case DT_I16: return "short";
  case DT_I8: return "signed char";
  case DT_U8: return "unsigned char";
  case DT_BOOL: return "bool";
  case DT_C64: return "c10::complex<float>";
  case DT_C128: return "c10::complex<double>";
  default: return tpu_dtype_torch_name(dt);
  }
}

/* Static dims of different sizes; generic ones are the builder's. */
static bool differ(ir_dim p, ir_dim q) { return !p.sym && !q.sym && p.n != q.n; }

static void check_mm(L *l, const shape *x, const shape *y, bool added) {
  if (x->rank != 2 && !added) l_fail(l, TPU_RUNTIME, "self must be a matrix");
  if (x->rank != 2) l_fail(l, TPU_RUNTIME, "mat1 must be a matrix, got %d-D tensor", x->rank);
  if (y->rank != 2)
    l_fail(l, TPU_RUNTIME, added ? "mat2 must be a matrix, got %d-D tensor" : "mat2 must be a matrix",
           y->rank);
  if (b_ok(l_b(l)) && differ(x->d[1], y->d[0]))
    l_fail(l, TPU_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
           (long long)x->d[0].n, (long long)x->d[1].n, (long long)y->d[0].n, (long long)y->d[1].n);
}

static void check_bmm(L *l, const shape *x, const shape *y, bool summed) {
  if (x->rank != 3) l_fail(l, TPU_RUNTIME, "batch1 must be a 3D tensor");
  if (y->rank != 3) l_fail(l, TPU_RUNTIME, "batch2 must be a 3D tensor");
  if (!b_ok(l_b(l)) || (!differ(x->d[0], y->d[0]) && !differ(x->d[2], y->d[1]))) return;
  if (!summed)
    l_fail(
        l, TPU_RUNTIME,
        "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].",
        (long long)x->d[0].n, (long long)x->d[2].n, (long long)y->d[0].n, (long long)y->d[1].n);
  if (differ(x->d[0], y->d[0]))
    l_fail(l, TPU_RUNTIME, "batch1 and batch2 must have same number of batches, got %lld and %lld",
           (long long)x->d[0].n, (long long)y->d[0].n);
  l_fail(l, TPU_RUNTIME, "Incompatible matrix sizes for bmm (%lldx%lld and %lldx%lld)", (long long)x->d[1].n,
         (long long)x->d[2].n, (long long)y->d[1].n, (long long)y->d[2].n);
}

/* What is added counts as a vector here: 1 when there is none, as in torch. */
static void check_mv(L *l, const shape *x, const shape *y, const shape *added) {
  if (x->rank != 2 || y->rank != 1 || (added && added->rank > 1))
    l_fail(l, TPU_RUNTIME, "vector + matrix @ vector expected, got %d, %d, %d", added ? added->rank : 1,
           x->rank, y->rank);
  if (!b_ok(l_b(l))) return;
  bool bad = added && added->rank == 1 && added->d[0].n != 1 && differ(added->d[0], x->d[0]);
  if (bad || differ(x->d[1], y->d[0]))
    l_fail(l, TPU_RUNTIME, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
           (long long)(added && added->rank ? added->d[0].n : x->d[0].n), (long long)x->d[0].n,
           (long long)x->d[1].n, (long long)y->d[0].n);
}

static void check_dot(L *l, const shape *x, const shape *y) {
  if (x->rank != 1 || y->rank != 1)
    l_fail(l, TPU_RUNTIME, "1D tensors expected, but got %dD and %dD tensors", x->rank, y->rank);
  if (b_ok(l_b(l)) && differ(x->d[0], y->d[0]))
    l_fail(l, TPU_RUNTIME,
           "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of "
           "elements, but got "
           "%lld and %lld elements respectively",
           (long long)x->d[0].n, (long long)y->d[0].n, (long long)x->d[0].n, (long long)y->d[0].n);
}

static void check_outer(L *l, const shape *x, const shape *y) {
  if (x->rank != 1) l_fail(l, TPU_RUNTIME, "addr: Expected 1-D argument vec1, but got %d-D", x->rank);
  if (y->rank != 1) l_fail(l, TPU_RUNTIME, "addr: Expected 1-D argument vec2, but got %d-D", y->rank);
}

/* The product of x and y, of one dtype, in dtype `out`; BAD after an error. */
static Val product(L *l, Val x, Val y, tpu_dtype out, const shape *added) {
  B *b = l_b(l);
  if (!b_ok(b)) return BAD;
  const shape *xs = b_shape(b, x), *ys = b_shape(b, y);
  int kind = l_datum(l) & P_KIND;
  tpu_dtype dt = b_dtype(b, x);
  switch (kind) {
  case P_MM: check_mm(l, xs, ys, added); break;
  case P_BMM:
  case P_SUM_BMM: check_bmm(l, xs, ys, kind == P_SUM_BMM); break;
  case P_MV: check_mv(l, xs, ys, added); break;
  case P_OUTER: check_outer(l, xs, ys); break;
  default: check_dot(l, xs, ys);
  }
  if (!b_ok(b)) return BAD;
  if (dt != b_dtype(b, y)) {
    bool lone = kind == P_DOT || kind == P_VDOT;
    const char *form = lone           ? "dot : expected both vectors to have same dtype, but found %s and %s"
                       : kind == P_MM ? "expected m1 and m2 to have the same dtype, but got: %s != %s"
                                      : "expected scalar type %s but found %s";
    bool words = kind == P_MM;
    l_fail(l, TPU_RUNTIME, form, words ? type_word(dt) : tpu_dtype_torch_name(dt),
           words ? type_word(b_dtype(b, y)) : tpu_dtype_torch_name(b_dtype(b, y)));
    return BAD;
  }
  if (kind == P_OUTER)
    return b_mul(b, b_unsqueeze(b, b_cast(b, x, out), 1), b_unsqueeze(b, b_cast(b, y, out), 0));
  if (kind == P_VDOT) x = b_conj(b, x);
  if (kind == P_SUM_BMM)
    return b_cast(b,
                  b_dot_general(b, b_cast(b, x, out), b_cast(b, y, out), 2, (int[]){0, 2}, (int[]){0, 1}, 0,
                                NULL, NULL),
                  out);
  return b_matmul_acc(b, x, y, out);
}

static void not_bool(L *l, const char *kernel, Val x) {
  if (b_dtype(l_b(l), x) == DT_BOOL)
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", kernel);
}

/* mm, bmm, mv, dot, vdot; with P_DTYPE argument 2 is the dtype of the result. */
static void multiply(L *l) {
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  not_bool(l, "addmm_impl_cpu_", x);
  ret(l, product(l, x, y, l_datum(l) & P_DTYPE ? l_dtype(l, 2) : b_dtype(l_b(l), x), NULL));
}

/* self broadcast over what it is added to; for a matrix of 0 columns or rows the sum is beta * self alone. */
static Val spread(L *l, Val self, Val v) {
  B *b = l_b(l);
  if (!b_ok(b)) return BAD;
  const shape *s = b_shape(b, self), *to = b_shape(b, v);
  for (int i = 0; i < s->rank && i < to->rank; i++) {
    ir_dim p = s->d[s->rank - 1 - i], q = to->d[to->rank - 1 - i];
    if (differ(p, q) && p.n != 1)
      l_fail(l, TPU_RUNTIME,
             "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
             "dimension %d.",
             (long long)q.n, (long long)p.n, to->rank - 1 - i);
  }
  return b_broadcast_to(b, self, to);
}

/* Where something is added to batches of products, torch asks for dim 2 of each before all else. */
static void ask_batches(L *l, Val v) {
  int rank = b_rank(l_b(l), v);
  if (rank < 3)
    l_fail(l, TPU_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got 2)",
           rank ? -rank : -1, rank ? rank - 1 : 0);
}

/* beta * self + alpha * (x @ y) */
static void add_product(L *l) {
  B *b = l_b(l);
  Val self = l_tensor(l, 0), x = l_tensor(l, 1), y = l_tensor(l, 2);
  bool typed = l_datum(l) & P_DTYPE;
  int beta = typed ? 4 : 3, alpha = beta + 1;
  int kind = l_datum(l) & P_KIND;
  bool outer = kind == P_OUTER;
  if (kind == P_BMM || kind == P_SUM_BMM) {
    ask_batches(l, x);
    ask_batches(l, y);
  }
  tpu_dtype dt = typed ? l_dtype(l, 3) : b_dtype(b, self), acc = dt_acc(dt);
  if (outer) {
    dt = l_result_type(l, 3, (int[]){0, 1, 2});
    acc = dt_acc(dt);
    m_check_factor(l, beta, "beta", dt);
    m_check_factor(l, alpha, "alpha", dt);
    x = b_cast(b, x, dt);
    y = b_cast(b, y, dt);
  } else {
    if (!typed && b_ok(b) && b_dtype(b, x) == b_dtype(b, y) && dt != b_dtype(b, x))
      l_fail(l, TPU_RUNTIME, "self and mat2 must have the same dtype, but got %s and %s",
             tpu_dtype_torch_name(dt), tpu_dtype_torch_name(b_dtype(b, y)));
    not_bool(l, "addmm_impl_cpu_", self);
  }
  Val v = product(l, x, y, acc, b_shape(b, self));
  if (!b_ok(b)) return;
  if (!l_scalar_is(l, alpha, 1)) v = b_mul(b, v, l_scalar(l, alpha, acc));
  self = spread(l, self, v);
  if (!l_scalar_is(l, beta, 0)) {
    self = b_cast(b, self, acc);
    v = b_add(b, l_scalar_is(l, beta, 1) ? self : b_mul(b, self, l_scalar(l, beta, acc)), v);
  }
  ret(l, b_cast(b, v, dt));
}

/* _addmm_activation(self, mat1, mat2, *, beta, alpha, use_gelu) */
static void add_product_activated(L *l) {
  B *b = l_b(l);
  Val self = l_tensor(l, 0), x = l_tensor(l, 1), y = l_tensor(l, 2);
  tpu_dtype dt = b_dtype(b, self), acc = dt_acc(dt);
  Val v = product(l, x, y, acc, b_shape(b, self));
  if (!b_ok(b)) return;
  v = b_mul(b, v, l_scalar(l, 4, acc));
  if (!l_scalar_is(l, 3, 0))
    v = b_add(b, v, b_mul(b, b_cast(b, spread(l, self, v), acc), l_scalar(l, 3, acc)));
  if (l_bool(l, 5)) { /* the tanh form */
    Val cube = b_mul(b, b_mul(b, b_mul(b, v, v), v), b_like(b, v, 0.044715));
    Val t = b_tanh(b, b_mul(b, b_add(b, v, cube), b_like(b, v, 0.7978845608028654)));
    v = b_mul(b, b_mul(b, v, b_like(b, v, 0.5)), b_add(b, t, b_like(b, v, 1)));
  } else {
    v = b_maximum(b, v, b_like(b, v, 0));
  }
  ret(l, b_cast(b, v, dt));
}

static void int_mm(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  if (b_dtype(b, x) != DT_I8)
    l_fail(l, TPU_RUNTIME, "Expected self dtype to be of type int8 but got %s",
           tpu_dtype_torch_name(b_dtype(b, x)));
  ret(l, product(l, x, y, DT_I32, NULL));
}

/* _weight_int8pack_mm(self, mat2[N, K] int8, scales[N]) */
static void int8_weight(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), w = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  Val v = b_matmul_acc(b, x, b_cast(b, b_swap(b, w, 0, 1), dt), acc);
  ret(l, b_cast(b, b_mul(b, v, b_cast(b, l_tensor(l, 2), acc)), dt));
}

/* _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum): scales are
 * scalars, rows [M, 1] or columns [1, N]. */
static void scaled_mm(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), y = l_tensor(l, 1);
  tpu_dtype dt = l_has(l, 6) ? l_dtype(l, 6) : b_dtype(b, x);
  for (int i = 2; i < 4; i++) {
    int rank = b_rank(b, l_tensor(l, i));
    if (rank != 0 && rank != 2 && b_numel_static(b, l_tensor(l, i)) != 1)
      l_decline(l, "_scaled_mm with blockwise scales");
  }
  Val v = b_matmul_acc(b, b_cast(b, x, DT_F32), b_cast(b, y, DT_F32), DT_F32);
  Val scale = b_mul(b, l_tensor_as(l, 2, DT_F32), l_tensor_as(l, 3, DT_F32));
  v = b_mul(b, v, scale);
  if (l_has(l, 4)) v = b_add(b, v, l_tensor_as(l, 4, DT_F32));
  if (l_has(l, 5) && !dt_is_low(dt)) v = b_mul(b, v, l_tensor_as(l, 5, DT_F32));
  ret(l, b_cast(b, v, dt));
}

/* --- linear: taken whole, so that its leading dims are never merged (a generic one would have to be
 * repacked) */

static void check_linear(L *l, Val x, Val w) {
  B *b = l_b(l);
  if (!b_ok(b)) return;
  const shape *xs = b_shape(b, x), *ws = b_shape(b, w);
  if (!xs->rank || !ws->rank)
    l_fail(l, TPU_RUNTIME, "both arguments to linear need to be at least 1D, but they are %dD and %dD",
           xs->rank, ws->rank);
  if (ws->rank > 2)
    l_fail(l, TPU_RUNTIME, "linear: weight must be a vector or a matrix, got %d-D tensor", ws->rank);
  if (b_dtype(b, x) != b_dtype(b, w))
    l_fail(l, TPU_RUNTIME, "expected m1 and m2 to have the same dtype, but got: %s != %s",
           type_word(b_dtype(b, x)), type_word(b_dtype(b, w)));
  if (!b_ok(b) || !differ(xs->d[xs->rank - 1], ws->d[ws->rank - 1])) return;
  int64_t rows = 1;
  for (int i = 0; i + 1 < xs->rank; i++) rows *= xs->d[i].n;
  l_fail(l, TPU_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
         (long long)rows, (long long)xs->d[xs->rank - 1].n, (long long)ws->d[ws->rank - 1].n,
         (long long)(ws->rank > 1 ? ws->d[0].n : 1));
}

/* linear(input [..., I], weight [O, I] or [I], bias [O] or scalar) */
static void linear(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), w = l_tensor(l, 1);
  not_bool(l, "addmm_impl_cpu_", x);
  check_linear(l, x, w);
  if (!b_ok(b)) return;
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  int last = b_rank(b, x) - 1, in = b_rank(b, w) - 1;
  Val v = b_dot_general_acc(b, x, w, 1, &last, &in, 0, NULL, NULL, acc);
  if (l_has(l, 2)) {
    Val bias = l_tensor(l, 2);
    if (b_ok(b) && b_dtype(b, bias) != dt)
      l_fail(l, TPU_RUNTIME, "self and mat2 must have the same dtype, but got %s and %s",
             tpu_dtype_torch_name(b_dtype(b, bias)), tpu_dtype_torch_name(dt));
    v = b_add(b, v, spread(l, b_cast(b, bias, acc), v));
  }
  ret(l, b_cast(b, v, dt));
}

/* (self, grad_output, weight, output_mask) -> gradients of input, weight, bias */
static void linear_backward(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), g = l_tensor(l, 1), w = l_tensor(l, 2);
  if (!b_ok(b)) return;
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  int lead = b_rank(b, x) - 1, at[IR_MAX_RANK];
  bool vector = b_rank(b, w) == 1;
  for (int i = 0; i < lead; i++) at[i] = i;
  if (vector) w = b_unsqueeze(b, w, 0), g = b_unsqueeze(b, g, lead);
  if (!l_bool_item(l, 3, 0))
    ret_none(l);
  else
    ret(l, b_cast(b, b_dot_general_acc(b, g, b_conj(b, w), 1, &lead, (int[]){0}, 0, NULL, NULL, acc), dt));
  if (!l_bool_item(l, 3, 1)) {
    ret_none(l);
  } else {
    Val dw = b_dot_general_acc(b, g, b_conj(b, x), lead, at, at, 0, NULL, NULL, acc);
    ret(l, b_cast(b, vector ? b_squeeze(b, dw, 0) : dw, dt));
  }
  if (!l_bool_item(l, 3, 2))
    ret_none(l);
  else
    ret(l, b_cast(b, b_sum(b, b_cast(b, g, acc), axes_all(lead), false), dt));
}

const tpu_row rows_matmul[] = {
    {"linear", linear, 0, 0},
    {"linear_backward", linear_backward, 0, 0},
    {"mm", multiply, P_MM, ROW_SAME_DTYPE},
    {"bmm", multiply, P_BMM, ROW_SAME_DTYPE},
    {"mv", multiply, P_MV, ROW_SAME_DTYPE},
    {"dot", multiply, P_DOT, ROW_SAME_DTYPE},
    {"vdot", multiply, P_VDOT, ROW_SAME_DTYPE},
    {"mm.dtype", multiply, P_MM | P_DTYPE, 0},
    {"bmm.dtype", multiply, P_BMM | P_DTYPE, 0},
    {"addmm", add_product, P_MM, ROW_OVERLAP_SELF | ROW_SAME_DTYPE | ROW_FITS},
    {"addmv", add_product, P_MV, ROW_OVERLAP_SELF | ROW_SAME_DTYPE | ROW_FITS},
    {"baddbmm", add_product, P_BMM, ROW_OVERLAP_SELF | ROW_SAME_DTYPE | ROW_FITS},
    {"addbmm", add_product, P_SUM_BMM, ROW_OVERLAP_SELF | ROW_SAME_DTYPE | ROW_FITS},
    {"addr", add_product, P_OUTER, ROW_OVERLAP_SELF | ROW_FITS},
    {"addmm.dtype", add_product, P_MM | P_DTYPE, 0},
    {"baddbmm.dtype", add_product, P_BMM | P_DTYPE, 0},
    {"_addmm_activation", add_product_activated, P_MM, ROW_FITS},
    {"_int_mm", int_mm, P_MM, 0},
    {"_weight_int8pack_mm", int8_weight, 0, 0},
    {"_scaled_mm", scaled_mm, 0, 0},
    {0}};
