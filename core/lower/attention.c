/* Scaled dot-product attention as one program, and the encoder layer that inference takes whole.
 *
 * Scores are accumulated in f32; rows in which everything is masked give 0 (PyTorch's mathematical path).
 * Query heads may be a multiple of the key heads (grouped queries): the group becomes part of the query
 * length, so that keys and values are never repeated. Dropout: one block of the generator gives (key,
 * counter); both leave as philox_seed and philox_offset and the backward draws the same words again. */
#include <math.h>

#include "lower/lower.h"

enum { QUERY, KEY, VALUE };

typedef struct attention {
  Val q, k, v; /* q folded, k, v [B, Hk, S, E] */
  tpu_dtype dt, acc;
  shape scores; /* [B, H, L, S] */
  int64_t group;
  double scale;
  bool causal;
} attention;

/* --- heads --- */

/* [B, H, L, E] -> [B, Hk, G * L, E], when there are groups; [B, Hk, G, L, E] where L is generic. */
static Val fold(B *b, const attention *a, Val x) {
  if (a->group == 1 || !b_ok(b)) return x;
  const shape *xs = b_shape(b, x);
  shape s = {.rank = 5, .d = {xs->d[0], {xs->d[1].n / a->group, 0}, {a->group, 0}, xs->d[2], xs->d[3]}};
  if (!xs->d[2].sym) {
    s.rank = 4;
    s.d[2].n *= xs->d[2].n;
    s.d[3] = xs->d[3];
  }
  return b_reshape(b, x, &s);
}

static Val unfold(B *b, const attention *a, Val x) {
  if (a->group == 1 || !b_ok(b)) return x;
  shape s = *b_shape(b, x);
  s.d[1].n *= a->group;
  if (s.rank == 4) {
    s.d[2].n /= a->group;
  } else {
    s.d[2] = s.d[3];
    s.d[3] = s.d[4];
    s.rank = 4;
  }
  return b_reshape(b, x, &s);
}

static bool read_heads(L *l, int i, attention *a) {
  B *b = l_b(l);
  Val q = l_tensor(l, i), k = l_tensor(l, i + 1), v = l_tensor(l, i + 2);
  const shape *qs = b_shape(b, q), *ks = b_shape(b, k), *vs = b_shape(b, v);
  if (!b_ok(b)) return false;
  if (qs->rank != 4 || ks->rank != 4 || vs->rank != 4) {
    l_decline(l, "attention of other than 4 dims");
    return false;
  }
  a->dt = b_dtype(b, q);
  a->acc = dt_acc(a->dt);
  int64_t h = qs->d[1].n, hk = ks->d[1].n;
  a->group = hk ? h / hk : 1;
  if (hk != vs->d[1].n || (hk && h % hk) || (!hk && h)) {
    l_decline(l, "attention with these numbers of heads");
    return false;
  }
  a->scores = *qs;
  a->scores.d[3] = ks->d[2];
  a->q = fold(b, a, q);
  a->k = k;
  a->v = v;
  return b_ok(b);
}

static double scale_of(L *l, int i, Val q) {
  B *b = l_b(l);
  const shape *s = b_shape(b, q);
  return l_double_or(l, i, b_ok(b) && s->rank ? 1.0 / sqrt((double)b_dim_static(b, q, s->rank - 1)) : 1);
}

/* x @ y over the last two dims with y's last contracted (nt) or x's second to last (tn); heads are batch
 * dims. x may be folded to 5 dims; a group is then one more free dim, or one more contracted one (tn). Result
 * in f32 or wider. */
static Val dot5(B *b, Val x, Val y, int nc, const int *xc, const int *yc, tpu_dtype acc) {
  return b_dot_general_acc(b, x, y, nc, xc, yc, 2, (int[]){0, 1}, (int[]){0, 1}, acc);
}
static Val dot_nt(B *b, Val x, Val y, tpu_dtype acc) {
  if (b_rank(b, x) == 5) return dot5(b, x, y, 1, (int[]){4}, (int[]){3}, acc);
  return b_matmul_acc(b, x, b_swap(b, y, 2, 3), acc);
}
static Val dot_nn(B *b, Val x, Val y, tpu_dtype acc) {
  if (b_rank(b, x) == 5) return dot5(b, x, y, 1, (int[]){4}, (int[]){2}, acc);
  return b_matmul_acc(b, x, y, acc);
}
static Val dot_tn(B *b, Val x, Val y, tpu_dtype acc) {
  if (b_rank(b, x) == 5) return dot5(b, x, y, 2, (int[]){2, 3}, (int[]){2, 3}, acc);
  return b_matmul_acc(b, b_swap(b, x, 2, 3), y, acc);
}

/* --- scores --- */

/* scale * q @ k^T + bias, [B, H, L, S] in the accumulation dtype; -inf where masked. */
static Val scores_of(L *l, const attention *a, int bias) {
  B *b = l_b(l);
  Val s = unfold(b, a, dot_nt(b, a->q, a->k, a->acc)), low = b_const(b, a->acc, -INFINITY);
  s = b_mul(b, s, b_like(b, s, a->scale));
  if (l_has(l, bias)) {
    Val m = l_tensor(l, bias);
    s = b_dtype(b, m) == DT_BOOL ? b_select(b, m, s, low) : b_add(b, s, b_cast(b, m, a->acc));
  }
  if (!a->causal || !b_ok(b)) return s;
  shape plane = {.rank = 2, .d = {a->scores.d[2], a->scores.d[3]}};
  Val seen = b_ge(b, b_iota(b, DT_I32, &plane, 0), b_iota(b, DT_I32, &plane, 1));
  return b_select(b, seen, s, low);
}

/* What each weight is multiplied by under dropout: 0 or 1 / (1 - p). */
static Val kept(L *l, const shape *s, double p, Val key, Val counter) {
  B *b = l_b(l);
  if (!b_ok(b)) return BAD;
  Val words = b_squeeze(b, l_words_like(b, b_cast(b, key, DT_U64), b_cast(b, counter, DT_U64), s, 1), 0);
  Val u = b_mul(b, b_cast(b, b_shrl(b, words, b_const_i(b, DT_U32, 8)), DT_F32), b_const(b, DT_F32, 0x1p-24));
  return b_select(b, b_ge(b, u, b_const(b, DT_F32, p)), b_const(b, DT_F32, p < 1 ? 1 / (1 - p) : 0),
                  b_const(b, DT_F32, 0));
}

static Val word_pair(B *b, Val words, int64_t at) {
  Val hi = b_cast(b, b_slice(b, words, 0, at, at + 1, 1), DT_U64),
      lo = b_cast(b, b_slice(b, words, 0, at + 1, at + 2, 1), DT_U64);
  return b_bitcast(b, b_squeeze(b, b_or(b, b_shl(b, hi, b_const_i(b, DT_U64, 32)), lo), 0), DT_I64);
}

/* --- forward --- */

/* softmax(scores) @ v, normalised after the product; *lse = log of the sum of exp. `drop` BAD: no dropout. */
static Val attend(B *b, const attention *a, Val s, Val drop, Val *lse) {
  Val top = b_max_loose(b, s, 8, true), zero = b_like(b, s, 0);
  Val none = b_eq(b, top, b_like(b, top, -INFINITY)); /* a row of masks */
  top = b_select(b, none, zero, top);
  Val e = b_exp(b, b_sub(b, s, top)), sum = b_sum(b, e, 8, true);
  *lse = b_squeeze(b, b_add(b, top, b_log(b, sum)), 3);
  if (drop != BAD) e = b_mul(b, e, b_cast(b, drop, a->acc));
  Val v = unfold(b, a, dot_nn(b, fold(b, a, b_cast(b, e, a->dt)), a->v, a->acc));
  return b_cast(b, b_div(b, v, b_select(b, none, b_like(b, sum, 1), sum)), a->dt);
}

/* (query, key, value, attn_bias, dropout_p, is_causal, return_debug_mask, *, scale)
 * -> output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed, philox_offset, debug_attn_mask */
static void fused_attention(L *l) {
  B *b = l_b(l);
  attention a = {.scale = scale_of(l, 7, l_tensor(l, 0)), .causal = l_bool(l, 5)};
  if (!read_heads(l, 0, &a)) return;
  double p = l_double(l, 4);
  Val seed = b_const_i(b, DT_I64, 0), offset = seed, drop = BAD, lse;
  if (p > 0) {
    Val words = l_random_words(l, 4);
    seed = word_pair(b, words, 0);
    offset = word_pair(b, words, 2);
    drop = kept(l, &a.scores, p, seed, offset);
  }
  Val out = attend(b, &a, scores_of(l, &a, 3), drop, &lse);
  ret(l, out);
  ret(l, lse);
  ret_none(l);
  ret_none(l);
  ret(l, seed);
  ret(l, offset);
  ret_none(l);
}

/* --- backward --- */

/* v summed to the shape of the operand that was broadcast to it. */
static Val sum_to(B *b, Val v, const shape *s) {
  for (int i = b_rank(b, v) - s->rank; i > 0; i--) v = b_sum(b, v, 1, false);
  uint32_t axes = 0;
  const shape *from = b_shape(b, v);
  for (int i = 0; i < s->rank; i++)
    if (s->d[i].n == 1 && !s->d[i].sym && (from->d[i].sym || from->d[i].n != 1)) axes |= 1u << i;
  return axes ? b_sum(b, v, axes, true) : v;
}

/* (grad, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
 * dropout_p, is_causal, philox_seed, philox_offset, *, scale) -> dq, dk, dv, dbias */
static void fused_attention_backward(L *l) {
  B *b = l_b(l);
  attention a = {.scale = scale_of(l, 16, l_tensor(l, 1)), .causal = l_bool(l, 13)};
  if (!read_heads(l, 1, &a)) return;
  Val g = l_tensor(l, 0), lse = b_unsqueeze(b, l_tensor(l, 7), 3), zero = b_const(b, a.acc, 0);
  double p = l_double(l, 12);
  Val s = scores_of(l, &a, 4);
  Val none = b_eq(b, lse, b_like(b, lse, -INFINITY));
  Val w = b_select(b, none, zero, b_exp(b, b_sub(b, s, lse)));
  Val drop = p > 0 ? b_cast(b, kept(l, &a.scores, p, l_tensor(l, 14), l_tensor(l, 15)), a.acc) : BAD;
  Val gf = fold(b, &a, g), dw = unfold(b, &a, dot_nt(b, gf, a.v, a.acc));
  Val used = drop == BAD ? w : b_mul(b, w, drop);
  if (drop != BAD) dw = b_mul(b, dw, drop);
  Val mean = b_sum(b, b_mul(b, w, dw), 8, true); /* = grad . out, without the rounding of out */
  Val ds = b_mul(b, w, b_sub(b, dw, mean)),
      scaled = fold(b, &a, b_cast(b, b_mul(b, ds, b_like(b, ds, a.scale)), a.dt));
  if (l_bool_item(l, 5, QUERY))
    ret(l, b_cast(b, unfold(b, &a, dot_nn(b, scaled, a.k, a.acc)), a.dt));
  else
    ret_none(l);
  if (l_bool_item(l, 5, KEY))
    ret(l, b_cast(b, dot_tn(b, scaled, a.q, a.acc), a.dt));
  else
    ret_none(l);
  if (l_bool_item(l, 5, VALUE))
    ret(l, b_cast(b, dot_tn(b, fold(b, &a, b_cast(b, used, a.dt)), gf, a.acc), a.dt));
  else
    ret_none(l);
  if (!l_bool_item(l, 5, 3) || !l_has(l, 4)) {
    ret_none(l);
    return;
  }
  Val bias = l_tensor(l, 4);
  ret(l, b_cast(b, sum_to(b, ds, b_shape(b, bias)), b_dtype(b, bias)));
}

/* --- modules taken whole: nn.MultiheadAttention and nn.TransformerEncoderLayer in inference --- */

/* x @ w^T + bias in x's dtype */
static Val linear(B *b, Val x, Val w, Val bias) {
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  return b_cast(b, b_add(b, b_matmul_acc(b, x, b_swap(b, w, 0, 1), acc), b_cast(b, bias, acc)), dt);
}

/* [B, L, H * E] -> [B, H, L, E] */
static Val split_heads(B *b, Val x, int64_t heads) {
  if (!b_ok(b)) return BAD;
  shape s = *b_shape(b, x);
  s.d[3].n = heads ? s.d[2].n / heads : 0;
  s.d[3].sym = 0;
  s.d[2] = (ir_dim){heads, 0};
  s.rank = 4;
  return b_swap(b, b_reshape(b, x, &s), 1, 2);
}

static Val join_heads(B *b, Val x) {
  x = b_swap(b, x, 1, 2);
  return b_ok(b) ? b_flatten(b, x, 2, 3) : BAD;
}

/* The rows of the packed projection for q, k or v. */
static Val projection(B *b, Val x, Val w, Val bias, int64_t dim, int which) {
  return linear(b, x, b_slice(b, w, 0, which * dim, (which + 1) * dim, 1),
                b_slice(b, bias, 0, which * dim, (which + 1) * dim, 1));
}

/* A mask (true: not seen; or additive) of kind 0 [L, S], 1 [B, S], 2 [B, H, L, S] over the scores. */
static Val apply_mask(L *l, Val s, int i, int kind) {
  B *b = l_b(l);
  if (!l_has(l, i)) return s;
  Val m = l_tensor(l, i);
  int64_t form = l_int_or(l, kind, 2);
  if (form == 1 && b_rank(b, m) == 2) m = b_unsqueeze(b, b_unsqueeze(b, m, 1), 1);
  return b_dtype(b, m) == DT_BOOL ? b_select(b, m, b_like(b, s, -INFINITY), s)
                                  : b_add(b, s, b_cast(b, m, b_dtype(b, s)));
}

/* Weights [B, H, L, S] in the accumulation dtype. */
static Val weights_of(L *l, Val q, Val k, int mask, int kind) {
  B *b = l_b(l);
  tpu_dtype acc = dt_acc(b_dtype(b, q));
  Val s = dot_nt(b, q, k, acc);
  s = apply_mask(l, b_mul(b, s, b_like(b, s, scale_of(l, -1, q))), mask, kind);
  Val e = b_exp(b, b_sub(b, s, b_max_loose(b, s, 8, true)));
  return b_div(b, e, b_sum(b, e, 8, true));
}

/* (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights,
 * average_attn_weights, mask_type) -> output, weights */
static void multi_head_attention(L *l) {
  B *b = l_b(l);
  Val w = l_tensor(l, 5), bias = l_tensor(l, 6), x[3];
  int64_t dim = l_int(l, 3), heads = l_int(l, 4);
  for (int i = 0; i < 3; i++) {
    x[i] = l_tensor(l, i);
    if (b_rank(b, x[i]) != 3)
      l_fail(l, TPU_RUNTIME, "expected 3-D `query`, `key` and `value`, got a %d-D tensor", b_rank(b, x[i]));
  }
  if (heads < 1 || dim % heads) l_fail(l, TPU_RUNTIME, "`embed_dim` must divide evenly by `num_heads`");
  if (!b_ok(b)) return;
  tpu_dtype dt = b_dtype(b, x[0]);
  for (int i = 0; i < 3; i++) x[i] = split_heads(b, projection(b, x[i], w, bias, dim, i), heads);
  Val p = weights_of(l, x[0], x[1], 9, 12), v = b_cast(b, dot_nn(b, b_cast(b, p, dt), x[2], dt_acc(dt)), dt);
  ret(l, linear(b, join_heads(b, v), l_tensor(l, 7), l_tensor(l, 8)));
  if (!l_bool(l, 10))
    ret_none(l);
  else
    ret(l, b_cast(b, l_bool(l, 11) ? b_mean(b, p, 2, false) : p, dt));
}

static Val layer_normed(L *l, Val x, int weight, int bias, double eps) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, x), acc = dt_acc(dt);
  Val v = b_cast(b, x, acc);
  v = b_sub(b, v, b_mean(b, v, 4, true));
  Val var = b_mean(b, b_mul(b, v, v), 4, true);
  v = b_mul(b, v, b_rsqrt(b, b_add(b, var, b_like(b, var, eps))));
  v = b_add(b, b_mul(b, v, b_cast(b, l_tensor(l, weight), acc)), b_cast(b, l_tensor(l, bias), acc));
  return b_cast(b, v, dt);
}

static Val activated(B *b, Val x, bool gelu) {
  if (!gelu) return b_maximum(b, x, b_like(b, x, 0));
  tpu_dtype dt = b_dtype(b, x);
  Val v = b_cast(b, x, dt_acc(dt));
  v = b_mul(b, b_mul(b, v, b_like(b, v, 0.5)),
            b_add(b, b_erf(b, b_mul(b, v, b_like(b, v, M_SQRT1_2))), b_like(b, v, 1)));
  return b_cast(b, v, dt);
}

/* (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
 * norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
 * mask, mask_type) */
static void encoder_layer(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), w = l_tensor(l, 3), bias = l_tensor(l, 4), h[3];
  int64_t dim = l_int(l, 1), heads = l_int(l, 2);
  bool first = l_bool(l, 8);
  double eps = l_double(l, 9);
  if (b_rank(b, x) != 3)
    l_fail(l, TPU_RUNTIME, "_transformer_encoder_layer_fwd: expected a 3-D src, got %d-D", b_rank(b, x));
  if (!b_ok(b)) return;
  tpu_dtype dt = b_dtype(b, x);
  Val in = first ? layer_normed(l, x, 10, 11, eps) : x;
  for (int i = 0; i < 3; i++) h[i] = split_heads(b, projection(b, in, w, bias, dim, i), heads);
  Val v = b_cast(b, dot_nn(b, b_cast(b, weights_of(l, h[0], h[1], 18, 19), dt), h[2], dt_acc(dt)), dt);
  x = b_add(b, x, linear(b, join_heads(b, v), l_tensor(l, 5), l_tensor(l, 6)));
  if (!first) x = layer_normed(l, x, 10, 11, eps);
  in = first ? layer_normed(l, x, 12, 13, eps) : x;
  v = activated(b, linear(b, in, l_tensor(l, 14), l_tensor(l, 15)), l_bool(l, 7));
  x = b_add(b, x, linear(b, v, l_tensor(l, 16), l_tensor(l, 17)));
  ret(l, first ? x : layer_normed(l, x, 12, 13, eps));
}

const tpu_row rows_attention[] = {
    {"_scaled_dot_product_fused_attention_overrideable", fused_attention, 0, ROW_RANDOM},
    {"_scaled_dot_product_fused_attention_overrideable_backward", fused_attention_backward, 0, 0},
    {"_native_multi_head_attention", multi_head_attention, 0, 0},
    {"_transformer_encoder_layer_fwd", encoder_layer, 0, 0},
    {0}};
