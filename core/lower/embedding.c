/* Embedding tables: look-up, its gradient, renormalisation, bags. */
#include <math.h>

#include "lower/indexing.h"

/* (weight, indices, ...) */
static void embedding(L *l) {
  B *b = l_b(l);
  Val w = l_tensor(l, 0);
  if (b_rank(b, w) != 2) l_fail(l, TPU_RUNTIME, "'weight' must be 2-D");
  ix_expect_argument(l, b_dtype(b, l_tensor(l, 1)), 1, "embedding");
  if (!b_ok(b)) return;
  ret(l,
      b_take(b, w, ix_ready(l, l_tensor(l, 1), w, 0, IX_EXACT, TPU_INDEX, "index out of range in self"), 0));
}

/* How often each of `rows` is named by idx (of any rank; out of range: not counted), in dtype dt. */
static Val frequencies(B *b, Val idx, ir_dim rows, tpu_dtype dt) {
  shape s = {.rank = 1, .d = {rows}};
  return b_scatter_nd(b, SCAT_ADD, b_zeros(b, dt, &s), &idx, 1, b_const(b, dt, 1));
}

/* Rows of zeros to which g[idx dims..., D] is added at idx, but for padding; g in its accumulation dtype. */
static Val table_gradient(B *b, Val g, Val idx, int64_t rows, int64_t padding, bool by_frequency) {
  shape s = {.rank = 2};
  s.d[0] = (ir_dim){rows, 0};
  s.d[1] = b_shape(b, g)->d[b_rank(b, g) - 1];
  if (by_frequency) {
    Val n = b_take(b, frequencies(b, idx, s.d[0], b_dtype(b, g)), idx, 0);
    g = b_div(b, g, b_unsqueeze(b, n, b_rank(b, n)));
  }
  if (padding >= 0)
    idx = b_select(b, b_eq(b, idx, b_const_i(b, b_dtype(b, idx), padding)), b_const_i(b, b_dtype(b, idx), -1),
                   idx);
  return b_scatter_nd(b, SCAT_ADD, b_zeros(b, b_dtype(b, g), &s), &idx, 1, g);
}

/* (grad, indices, num_weights, padding_idx, scale_grad_by_freq) */
static void embedding_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), idx = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, g);
  ix_expect_argument(l, b_dtype(b, idx), 2, "embedding_backward");
  if (b_rank(b, g) < 1) l_fail(l, TPU_RUNTIME, "embedding_backward: expected a gradient with dimensions");
  if (!b_ok(b)) return;
  ret(l, b_cast(b, table_gradient(b, b_cast(b, g, dt_acc(dt)), idx, l_int(l, 2), l_int(l, 3), l_bool(l, 4)),
                dt));
}

/* embedding_renorm_(self!, indices, max_norm, norm_type): named rows whose norm is above the limit are scaled
 * down to it. */
static void embedding_renorm(L *l) {
  B *b = l_b(l);
  Val w = l_tensor(l, 0);
  double limit = l_double(l, 2), p = l_double(l, 3);
  tpu_dtype dt = b_dtype(b, w), acc = dt_acc(dt);
  ix_expect_argument(l, b_dtype(b, l_tensor(l, 1)), 2, "embedding_renorm_");
  Val idx = ix_ready(l, l_tensor(l, 1), w, 0, IX_EXACT, TPU_INDEX, "index out of range in self"),
      a = b_abs(b, b_cast(b, w, acc)), n;
  if (!b_ok(b)) return;
  if (isinf(p))
    n = b_max(b, a, 2, true);
  else if (p == 2)
    n = b_sqrt(b, b_sum(b, b_mul(b, a, a), 2, true));
  else if (p == 0)
    n = b_sum(b, b_cast(b, b_cast(b, a, DT_BOOL), acc), 2, true);
  else
    n = b_pow(b, b_sum(b, b_pow(b, a, b_like(b, a, p)), 2, true), b_like(b, a, 1 / p));
  Val named =
      b_gt(b, b_unsqueeze(b, frequencies(b, idx, b_shape(b, w)->d[0], DT_I32), 1), b_const_i(b, DT_I32, 0));
  Val bound = b_like(b, n, limit), factor = b_div(b, bound, b_add(b, n, b_like(b, n, 1e-7)));
  ret(l,
      b_select(b, b_and(b, named, b_gt(b, n, bound)), b_cast(b, b_mul(b, b_cast(b, w, acc), factor), dt), w));
}

/* --- bags --- */

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

typedef struct bags {
  Val idx, bag;    /* of every index: its row (-1 where padding), its bag; I32 or I64, I64 */
  Val size;        /* of every bag, without padding; I64 */
  ir_dim n, count; /* indices, bags */
  int mode;
} bags;

/* Which bag an index at position i belongs to: the last whose offset is <= i. */
static Val bag_of(B *b, Val offsets, ir_dim n) {
  shape s = {.rank = 1, .d = {n}};
  Val at = ix_search(b, b_cast(b, offsets, DT_I64), b_iota(b, DT_I64, &s, 0), true);
  return b_cast(b, b_sub(b, at, b_const_i(b, DT_I32, 1)), DT_I64);
}

static Val without_padding(B *b, Val idx, int64_t padding) {
  tpu_dtype dt = b_dtype(b, idx);
  return padding < 0 ? idx : b_select(b, b_eq(b, idx, b_const_i(b, dt, padding)), b_const_i(b, dt, -1), idx);
}

/* Bags to which nothing goes count as none: their indices are dropped by the scatter. */
static Val bag_or_none(B *b, Val bag, Val idx) {
  return b_select(b, b_ge(b, idx, b_const_i(b, b_dtype(b, idx), 0)), bag, b_const_i(b, DT_I64, -1));
}

/* The largest of each bag and the row it came from (the first of equals); bags without indices: 0 and 0. */
static void bag_max(L *l, const bags *g, Val v, Val *out, Val *rows) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, v);
  shape line = *b_shape(b, v), s = {.rank = 2, .d = {g->count, line.d[1]}};
  Val bag = bag_or_none(b, g->bag, g->idx), zero = b_const_i(b, DT_I64, 0), none = b_size(b, v, 0, DT_I64);
  Val best = b_scatter_nd(b, SCAT_MAX, b_full(b, &s, b_min_value(b, dt)), &bag, 1, v);
  Val own = b_take(b, best, b_maximum(b, g->bag, zero), 0);
  Val at = b_select(b, b_eq(b, v, own), b_iota(b, DT_I64, &line, 0), none);
  Val first = b_scatter_nd(b, SCAT_MIN, b_full(b, &s, none), &bag, 1, at), found = b_lt(b, first, none);
  *out = b_select(b, found, best, b_like(b, best, 0));
  Val last = b_sub(b, none, b_const_i(b, DT_I64, 1));
  Val row = g->n.n ? b_take(b, g->idx, b_minimum(b, first, last), 0) : zero;
  *rows = b_broadcast_to(b, b_select(b, found, b_cast(b, row, DT_I64), zero), &s);
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
 * padding_idx)
 * -> output, offset2bag, bag_size, max_indices */
static void embedding_bag(L *l) {
  B *b = l_b(l);
  Val w = l_tensor(l, 0), raw = l_tensor(l, 1), offsets = l_tensor(l, 2), rows;
  tpu_dtype dt = b_dtype(b, w), acc = dt_acc(dt);
  bags g = {.mode = (int)l_int(l, 4)};
  if (b_rank(b, raw) != 1 || b_rank(b, offsets) != 1)
    l_fail(l, TPU_RUNTIME, "embedding_bag: input and offsets must be 1-D");
  ix_expect_argument(l, l_result_type2(l, 1, 2), 1, "embedding_bag");
  if (!b_ok(b)) return;
  if (l_has(l, 6) && g.mode != BAG_SUM)
    l_fail(l, TPU_RUNTIME,
           "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
           "mode='sum'");
  if (l_bool(l, 7)) {
    ir_dim d = b_shape(b, offsets)->d[0];
    if (d.n < 1) l_fail(l, TPU_RUNTIME, "include_last_offset: number of offsets should be at least 1");
    Val less = b_sub(b, b_size(b, offsets, 0, DT_I32), b_const_i(b, DT_I32, 1));
    offsets = d.sym ? b_narrow(b, offsets, 0, BAD, d.n, 1, b_symbol(b, less))
                    : b_slice(b, offsets, 0, 0, d.n - 1, 1);
  }
  if (!b_ok(b)) return;
  g.n = b_shape(b, raw)->d[0], g.count = b_shape(b, offsets)->d[0];
  raw = ix_ready(l, raw, w, 0, IX_EXACT, TPU_INDEX, "embedding_bag: index out of range in self");
  g.idx = without_padding(b, raw, l_int(l, 8));
  g.bag = bag_of(b, offsets, g.n);
  Val bag = bag_or_none(b, g.bag, g.idx), v = b_cast(b, b_take(b, w, raw, 0), acc);
  g.size = frequencies(b, bag, g.count, DT_I64);
  shape s = {.rank = 2, .d = {g.count, b_shape(b, w)->d[1]}};
  Val out;
  rows = b_zeros(b, DT_I64, b_shape(b, g.size));
  if (g.mode == BAG_MAX) {
    bag_max(l, &g, v, &out, &rows);
  } else {
    if (l_has(l, 6)) v = b_mul(b, v, b_unsqueeze(b, b_cast(b, l_tensor(l, 6), acc), 1));
    out = b_scatter_nd(b, SCAT_ADD, b_zeros(b, acc, &s), &bag, 1, v);
    Val n = b_cast(b, b_maximum(b, g.size, b_const_i(b, DT_I64, 1)), acc);
    if (g.mode == BAG_MEAN) out = b_div(b, out, b_unsqueeze(b, n, 1));
  }
  ret(l, b_cast(b, out, dt));
  ret(l, g.bag);
  ret(l, g.size);
  ret(l, rows);
}

/* The gradient of the table; the places of the arguments are of _embedding_bag_backward when datum is 1, else
 * of the dense form. */
static void embedding_bag_backward(L *l) {
  B *b = l_b(l);
  int shift = l_datum(l), rest = shift * 2;
  Val g = l_tensor(l, 0), idx = l_tensor(l, 1), bag = l_tensor(l, 2 + shift), size = l_tensor(l, 3 + shift),
      max = l_tensor(l, 4 + shift);
  int64_t rows = l_int(l, 5 + shift);
  bool by_frequency = l_bool(l, 6 + shift);
  int mode = (int)l_int(l, 7 + shift), weights = 8 + rest;
  if (shift && l_bool(l, 9)) {
    l_decline(l, "sparse gradients");
    return;
  }
  int64_t padding = l_int(l, weights + 1);
  tpu_dtype dt = b_dtype(b, g), acc = dt_acc(dt);
  if (!b_ok(b)) return;
  g = b_cast(b, g, acc);
  if (mode == BAG_MAX) {
    shape s = {.rank = 2, .d = {{rows, 0}, b_shape(b, g)->d[1]}};
    Val used = b_gt(b, b_unsqueeze(b, size, 1), b_const_i(b, b_dtype(b, size), 0));
    Val at[2] = {b_select(b, used, max, b_const_i(b, DT_I64, -1)), b_iota(b, DT_I64, b_shape(b, g), 1)};
    ret(l, b_cast(b, b_scatter_nd(b, SCAT_ADD, b_zeros(b, acc, &s), at, 2, g), dt));
    return;
  }
  if (mode == BAG_MEAN)
    g = b_div(b, g, b_unsqueeze(b, b_cast(b, b_maximum(b, size, b_const_i(b, DT_I64, 1)), acc), 1));
  Val v = b_take(b, g, bag, 0);
  if (l_has(l, weights)) v = b_mul(b, v, b_unsqueeze(b, b_cast(b, l_tensor(l, weights), acc), 1));
  ret(l, b_cast(b, table_gradient(b, v, idx, rows, padding, by_frequency), dt));
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx): of the weights of the samples */
static void sample_weights_backward(L *l) {
  B *b = l_b(l);
  Val g = l_tensor(l, 0), w = l_tensor(l, 1), idx = l_tensor(l, 2), bag = l_tensor(l, 4);
  tpu_dtype dt = b_dtype(b, g), acc = dt_acc(dt);
  int64_t padding = l_int(l, 6);
  Val zero = b_const_i(b, b_dtype(b, idx), 0);
  Val v = b_mul(b, b_cast(b, b_take(b, g, bag, 0), acc),
                b_cast(b, b_take(b, w, b_maximum(b, idx, zero), 0), acc));
  v = b_sum(b, v, 2, false);
  ret(l, b_cast(b, b_select(b, b_lt(b, without_padding(b, idx, padding), zero), b_like(b, v, 0), v), dt));
}

const tpu_row rows_embedding[] = {
    {"embedding", embedding, 0, 0},
    {"embedding_dense_backward", embedding_backward, 0, 0},
    {"embedding_renorm_", embedding_renorm, 0, 0},
    {"_embedding_bag", embedding_bag, 0, 0},
    {"_embedding_bag_forward_only", embedding_bag, 0, 0},
    {"_embedding_bag_backward", embedding_bag_backward, 1, 0},
    {"_embedding_bag_dense_backward", embedding_bag_backward, 0, 0},
    {"_embedding_bag_per_sample_weights_backward", sample_weights_backward, 0, 0},
    {0}};
