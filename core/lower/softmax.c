/* Softmax and its relatives, forward and backward. Low floats are computed in f32 and rounded once. */
#include "lower/lower.h"

enum { PLAIN, LOG };

static tpu_dtype work_dtype(tpu_dtype dt) { return dt_acc(dt); }

static Val softmax_of(B *b, Val x, int axis, int kind) {
  uint32_t axes = 1u << axis;
  Val top = b_max(b, x, axes, true);
  Val z = b_sub(b, x, top), e = b_exp(b, z), s = b_sum(b, e, axes, true);
  return kind == LOG ? b_sub(b, z, b_log(b, s)) : b_div(b, e, s);
}

static bool is_empty(B *b, Val x) {
  for (int i = 0; i < b_rank(b, x); i++)
    if (b_shape(b, x)->d[i].n == 0) return true;
  return false;
}

/* A 0-dim tensor has one dim of size 1 for this family. */
static Val with_axis(B *b, Val x) { return b_rank(b, x) ? x : b_unsqueeze(b, x, 0); }
static Val without_axis(B *b, Val x, int rank) { return rank ? x : b_squeeze(b, x, 0); }

/* _softmax(self, dim, half_to_float), _log_softmax */
static void softmax(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x), out = l_bool(l, 2) && dt == DT_F16 ? DT_F32 : dt;
  int rank = b_rank(b, x), axis = l_axis(l, 1, rank);
  if (!b_ok(b)) return;
  if (!dt_is_float(dt) && !dt_is_complex(dt)) {
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"softmax_lastdim_kernel_impl\" not implemented for '%s'", tpu_dtype_torch_name(dt));
    return;
  }
  if (is_empty(b, x)) {
    ret(l, b_cast(b, x, out));
    return;
  }
  Val y = softmax_of(b, b_cast(b, with_axis(b, x), work_dtype(dt)), axis, l_datum(l));
  ret(l, b_cast(b, without_axis(b, y, rank), out));
}

/* _softmax_backward_data(grad, output, dim, input_dtype), _log_softmax_backward_data */
static void softmax_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), y = l_tensor(l, 1);
  int rank = b_rank(b, y), axis = l_axis(l, 2, rank);
  tpu_dtype out = l_dtype(l, 3), work = work_dtype(b_dtype(b, y));
  if (out == DT_NONE) out = b_dtype(b, g);
  if (!b_ok(b)) return;
  if (is_empty(b, y)) {
    ret(l, b_cast(b, g, out));
    return;
  }
  g = b_cast(b, with_axis(b, g), work), y = b_cast(b, with_axis(b, y), work);
  uint32_t axes = 1u << axis;
  Val r = l_datum(l) == LOG ? b_sub(b, g, b_mul(b, b_exp(b, y), b_sum(b, g, axes, true)))
                            : b_mul(b, b_sub(b, g, b_sum(b, b_mul(b, g, y), axes, true)), y);
  ret(l, b_cast(b, without_axis(b, r, rank), out));
}

/* _masked_softmax(self, mask, dim, mask_type): mask true = left out; rows without any element give 0 */
static void masked_softmax(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), mask = l_tensor(l, 1);
  int rank = b_rank(b, x);
  if (b_rank(b, mask) != rank) {
    l_decline(l, "a mask of another rank");
    return;
  }
  int axis = axis_norm(b, l_int_or(l, 2, rank - 1), rank);
  tpu_dtype dt = b_dtype(b, x);
  if (!b_ok(b)) return;
  x = b_select(b, mask, b_min_value(b, work_dtype(dt)), b_cast(b, x, work_dtype(dt)));
  Val y = softmax_of(b, x, axis, PLAIN);
  ret(l, b_cast(b, b_select(b, mask, b_like(b, y, 0), y), dt));
}

/* _masked_softmax_backward(grad, output, mask, dim) */
static void masked_softmax_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), y = l_tensor(l, 1), mask = l_tensor(l, 2);
  int rank = b_rank(b, y), axis = axis_norm(b, l_int_or(l, 3, rank - 1), rank);
  tpu_dtype dt = b_dtype(b, g), work = work_dtype(dt);
  if (!b_ok(b)) return;
  g = b_cast(b, g, work), y = b_cast(b, y, work);
  Val r = b_mul(b, b_sub(b, g, b_sum(b, b_mul(b, g, y), 1u << axis, true)), y);
  ret(l, b_cast(b, b_select(b, mask, b_like(b, r, 0), r), dt));
}

const tpu_row rows_softmax[] = {
    {"_softmax", softmax, PLAIN, ROW_MASK},
    {"_log_softmax", softmax, LOG, ROW_MASK},
    {"_softmax_backward_data", softmax_backward, PLAIN, ROW_MASK},
    {"_log_softmax_backward_data", softmax_backward, LOG, ROW_MASK},
    {"_masked_softmax", masked_softmax, 0, ROW_NONE},
    {"_masked_softmax_backward", masked_softmax_backward, 0, ROW_NONE},
    {0},
};
