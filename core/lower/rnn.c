/* Cells of LSTM and GRU from the products of their gates. The workspaces hold the activated gates, for the
 * backward rows alone. */
#include "lower/lower.h"

static Val gate(B *b, Val gates, int i, int64_t n) { return b_slice(b, gates, 1, i * n, (i + 1) * n, 1); }

/* input_gates (argument 0) and hidden_gates (1) with their biases (at bias, bias + 1), in the accumulation
 * dtype. */
static void biased(L *l, int bias, Val *x, Val *h) {
  B *b = l_b(l);
  Val v[2];
  for (int i = 0; i < 2; i++) {
    tpu_dtype acc = dt_acc(b_dtype(b, l_tensor(l, i)));
    v[i] = b_cast(b, l_tensor(l, i), acc);
    if (b_rank(b, v[i]) != 2) l_fail(l, TPU_RUNTIME, "fused cell: the gates must be of 2 dims");
    if (l_has(l, bias + i)) v[i] = b_add(b, v[i], b_cast(b, l_tensor(l, bias + i), acc));
  }
  *x = v[0];
  *h = v[1];
}

static Val sum_batch(B *b, Val v, tpu_dtype dt) { return b_cast(b, b_sum(b, v, 1, false), dt); }

/* (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> hy, cy, workspace [N, 4H]: i, f, g, o */
static void lstm_cell(L *l) {
  B *b = l_b(l);
  Val x, h, cx = l_tensor(l, 2);
  tpu_dtype dt = b_dtype(b, cx);
  biased(l, 3, &x, &h);
  if (!b_ok(b)) return;
  int64_t n = b_dim_static(b, cx, 1);
  Val all = b_add(b, x, h), g[4];
  for (int k = 0; k < 4; k++)
    g[k] = k == 2 ? b_tanh(b, gate(b, all, k, n)) : b_logistic(b, gate(b, all, k, n));
  Val c = b_add(b, b_mul(b, g[1], b_cast(b, cx, b_dtype(b, x))), b_mul(b, g[0], g[2]));
  ret(l, b_cast(b, b_mul(b, g[3], b_tanh(b, c)), dt));
  ret(l, b_cast(b, c, dt));
  ret(l, b_cast(b, b_concat(b, g, 4, 1), dt));
}

/* (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> grad_gates, grad_cx, grad_bias */
static void lstm_cell_backward(L *l) {
  B *b = l_b(l);
  Val cx = l_tensor(l, 2), ws = l_tensor(l, 4);
  tpu_dtype dt = b_dtype(b, cx), acc = dt_acc(dt);
  if (b_rank(b, cx) != 2 || b_rank(b, ws) != 2)
    l_fail(l, TPU_RUNTIME, "fused cell: the gates must be of 2 dims");
  if (!b_ok(b)) return;
  int64_t n = b_dim_static(b, cx, 1);
  Val zero = b_zeros(b, acc, b_shape(b, cx)), gh = l_has(l, 0) ? b_cast(b, l_tensor(l, 0), acc) : zero;
  Val gc = l_has(l, 1) ? b_cast(b, l_tensor(l, 1), acc) : zero, g[4], one = b_const(b, acc, 1);
  for (int k = 0; k < 4; k++) g[k] = gate(b, b_cast(b, ws, acc), k, n);
  Val t = b_tanh(b, b_cast(b, l_tensor(l, 3), acc));
  gc = b_add(b, gc, b_mul(b, b_mul(b, gh, g[3]), b_sub(b, one, b_mul(b, t, t))));
  Val d[4] = {b_mul(b, gc, g[2]), b_mul(b, gc, b_cast(b, cx, acc)), b_mul(b, gc, g[0]), b_mul(b, gh, t)};
  for (int k = 0; k < 4; k++) {
    Val slope = k == 2 ? b_sub(b, one, b_mul(b, g[k], g[k])) : b_mul(b, g[k], b_sub(b, one, g[k]));
    d[k] = b_mul(b, d[k], slope);
  }
  Val gates = b_concat(b, d, 4, 1);
  ret(l, b_cast(b, gates, dt));
  ret(l, b_cast(b, b_mul(b, gc, g[1]), dt));
  if (l_bool(l, 5))
    ret(l, sum_batch(b, gates, dt));
  else
    ret_none(l);
}

/* (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> hy, workspace [N, 5H]: reset, update, new, hx,
 * hidden part of new */
static void gru_cell(L *l) {
  B *b = l_b(l);
  Val x, h, hx = l_tensor(l, 2);
  tpu_dtype dt = b_dtype(b, hx);
  biased(l, 3, &x, &h);
  if (!b_ok(b)) return;
  int64_t n = b_dim_static(b, hx, 1);
  Val old = b_cast(b, hx, b_dtype(b, x)), r = b_logistic(b, b_add(b, gate(b, x, 0, n), gate(b, h, 0, n)));
  Val z = b_logistic(b, b_add(b, gate(b, x, 1, n), gate(b, h, 1, n))), hn = gate(b, h, 2, n);
  Val fresh = b_tanh(b, b_add(b, gate(b, x, 2, n), b_mul(b, r, hn)));
  ret(l, b_cast(b, b_add(b, fresh, b_mul(b, z, b_sub(b, old, fresh))), dt));
  ret(l, b_cast(b, b_concat(b, (Val[]){r, z, fresh, old, hn}, 5, 1), dt));
}

/* (grad_hy, workspace, has_bias) -> grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias,
 * grad_hidden_bias */
static void gru_cell_backward(L *l) {
  B *b = l_b(l);
  Val grad = l_tensor(l, 0), ws = l_tensor(l, 1), v[5];
  tpu_dtype dt = b_dtype(b, grad), acc = dt_acc(dt);
  if (b_rank(b, grad) != 2 || b_rank(b, ws) != 2)
    l_fail(l, TPU_RUNTIME, "fused cell: the gates must be of 2 dims");
  if (!b_ok(b)) return;
  int64_t n = b_dim_static(b, grad, 1);
  Val g = b_cast(b, grad, acc), one = b_const(b, acc, 1);
  for (int k = 0; k < 5; k++) v[k] = gate(b, b_cast(b, ws, acc), k, n);
  Val r = v[0], z = v[1], fresh = v[2], old = v[3], hn = v[4];
  Val dz = b_mul(b, b_mul(b, b_mul(b, g, b_sub(b, old, fresh)), b_sub(b, one, z)), z);
  Val dn = b_mul(b, b_mul(b, g, b_sub(b, one, z)), b_sub(b, one, b_mul(b, fresh, fresh)));
  Val dr = b_mul(b, b_mul(b, b_mul(b, dn, hn), b_sub(b, one, r)), r);
  Val gi = b_concat(b, (Val[]){dr, dz, dn}, 3, 1), gh = b_concat(b, (Val[]){dr, dz, b_mul(b, dn, r)}, 3, 1);
  ret(l, b_cast(b, gi, dt));
  ret(l, b_cast(b, gh, dt));
  ret(l, b_cast(b, b_mul(b, g, z), dt));
  for (int k = 0; k < 2; k++) {
    if (l_bool(l, 2))
      ret(l, sum_batch(b, k ? gh : gi, dt));
    else
      ret_none(l);
  }
}

const tpu_row rows_rnn[] = {{"_thnn_fused_lstm_cell", lstm_cell, 0, 0},
                            {"_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward, 0, 0},
                            {"_thnn_fused_gru_cell", gru_cell, 0, 0},
                            {"_thnn_fused_gru_cell_backward", gru_cell_backward, 0, 0},
                            {0}};
