/* Softmax and its relatives: one pass for the maximum, one for the sum, in f32 for 16-bit floats. */
#include "lower/lower.h"

enum { S_PLAIN, S_LOG, S_SAFE };

/* The axis at argument i as a mask over x, which gets a dim when it has none; *scalar says so. */
static uint32_t open_axis(L *l, int i, Val *x, bool *scalar) {
  B *b = l_b(l);
  int axis = l_axis(l, i, b_rank(b, *x));
  *scalar = b_rank(b, *x) == 0;
  if (*scalar) *x = b_unsqueeze(b, *x, 0);
  return 1u << axis;
}

static Val close_axis(B *b, Val x, bool scalar) { return scalar ? b_squeeze(b, x, 0) : x; }

static void check_float(L *l, const char *kernel, Val x) {
  tpu_dtype dt = b_dtype(l_b(l), x);
  if (!dt_is_float(dt))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, tpu_dtype_torch_name(dt));
}

/* x in its accumulation dtype -> its softmax over the axes. Rows of -inf alone give NaN, or 0 when safe. */
static Val normalised(B *b, Val x, uint32_t axes, int kind) {
  Val top = b_max_loose(b, x, axes, true);
  if (kind == S_SAFE)
    top = b_select(b, b_eq(b, top, b_like(b, top, -__builtin_inf())), b_like(b, top, 0), top);
  Val z = b_sub(b, x, top), e = b_exp(b, z), sum = b_sum(b, e, axes, true);
  if (kind == S_LOG) return b_sub(b, z, b_log(b, sum));
  if (kind == S_SAFE) sum = b_select(b, b_eq(b, sum, b_like(b, sum, 0)), b_like(b, sum, 1), sum);
  return b_div(b, e, sum);
}

/* (self, dim, half_to_float); _safe_softmax: (self, dim, dtype) */
static void softmax(L *l) {
  B *b = l_b(l);
  int kind = l_datum(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  bool scalar;
  if (kind == S_SAFE && l_has(l, 2)) {
    dt = l_dtype(l, 2);
    x = b_cast(b, x, dt);
  }
  check_float(l, kind == S_LOG ? "log_softmax_lastdim_kernel_impl" : "softmax_lastdim_kernel_impl", x);
  uint32_t axes = open_axis(l, 1, &x, &scalar);
  if (!b_ok(b)) return;
  if (kind != S_SAFE && l_bool(l, 2)) dt = DT_F32;
  Val v = normalised(b, b_cast(b, x, dt_acc(dt)), axes, kind);
  ret(l, b_cast(b, close_axis(b, v, scalar), dt));
}

/* (grad, output, dim, input_dtype) */
static void softmax_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), y = l_tensor(l, 1);
  tpu_dtype dt = l_dtype(l, 3), acc = dt_acc(b_dtype(b, g));
  bool scalar;
  g = b_cast(b, g, acc);
  y = b_cast(b, y, acc);
  open_axis(l, 2, &g, &scalar);
  uint32_t axes = open_axis(l, 2, &y, &scalar);
  Val v;
  if (l_datum(l) == S_LOG)
    v = b_sub(b, g, b_mul(b, b_exp(b, y), b_sum(b, g, axes, true)));
  else
    v = b_mul(b, y, b_sub(b, g, b_sum(b, b_mul(b, g, y), axes, true)));
  ret(l, b_cast(b, close_axis(b, v, scalar), dt));
}

/* The mask of _masked_softmax as an array that broadcasts over x: 0 is [L, L], 1 is [B, L] (both under
 * attention scores [B, H, L, L]), 2 has x's own shape. */
static Val spread_mask(L *l, Val x, Val mask, int64_t kind) {
  B *b = l_b(l);
  if (b_dtype(b, mask) != DT_BOOL) l_fail(l, TPU_RUNTIME, "Mask should be a boolean tensor");
  if (kind == 1 && b_rank(b, x) == 4 && b_rank(b, mask) == 2)
    mask = b_unsqueeze(b, b_unsqueeze(b, mask, 1), 1);
  if (kind < 0 || kind > 2)
    l_fail(l, TPU_RUNTIME, "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
  return b_ok(b) ? b_broadcast_to(b, mask, b_shape(b, x)) : BAD;
}

/* (self, mask, dim, mask_type): places where the mask is true get no weight */
static void masked_softmax(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), mask = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, x);
  if (!l_has(l, 3)) l_fail(l, TPU_RUNTIME, "Mask Type should be defined");
  check_float(l, "masked_softmax", x);
  mask = spread_mask(l, x, mask, l_int(l, 3));
  if (!b_ok(b)) return;
  int rank = b_rank(b, x), axis = l_has(l, 2) ? l_axis(l, 2, rank) : rank - 1;
  Val v = b_cast(b, x, dt_acc(dt));
  v = b_select(b, mask, b_like(b, v, -__builtin_inf()), v);
  ret(l, b_cast(b, normalised(b, v, 1u << axis, S_PLAIN), dt));
}

/* (grad, output, mask, dim) */
static void masked_softmax_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), y = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, g), acc = dt_acc(dt);
  Val mask = spread_mask(l, g, l_tensor(l, 2), 2);
  int rank = b_rank(b, g), axis = l_has(l, 3) ? l_axis(l, 3, rank) : rank - 1;
  g = b_cast(b, g, acc);
  y = b_cast(b, y, acc);
  Val gy = b_select(b, mask, b_like(b, g, 0), b_mul(b, g, y));
  Val v = b_sub(b, gy, b_mul(b, y, b_sum(b, gy, 1u << axis, true)));
  ret(l, b_cast(b, b_select(b, mask, b_like(b, v, 0), v), dt));
}

const tpu_row rows_softmax[] = {{"_softmax", softmax, S_PLAIN, ROW_SAME_DTYPE},
                                {"_log_softmax", softmax, S_LOG, ROW_SAME_DTYPE},
                                {"_safe_softmax", softmax, S_SAFE, 0},
                                {"_softmax_backward_data", softmax_backward, S_PLAIN, ROW_SAME_DTYPE},
                                {"_log_softmax_backward_data", softmax_backward, S_LOG, ROW_SAME_DTYPE},
                                {"_masked_softmax", masked_softmax, 0, 0},
                                {"_masked_softmax_backward", masked_softmax_backward, 0, 0},
                                {0}};
