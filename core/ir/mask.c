/* Masks of generic dims, run-time checks. */
#include "ir/graph.h"

/* --- masks --- */

static uint32_t generic_axes(const shape *s, uint32_t axes) {
  uint32_t g = 0;
  for (int i = 0; i < s->rank; i++)
    if (s->d[i].sym && (axes >> i & 1)) g |= 1u << i;
  return g;
}

/* A row iota < size is made once per dim and spread, so that all masks of one symbol share it. */
Val b_valid(B *b, const shape *s, uint32_t axes) {
  if (b->err) return BAD;
  Val r = BAD;
  for (int i = 0; i < s->rank; i++) {
    if (!s->d[i].sym || !(axes >> i & 1)) continue;
    shape line = {.rank = 1};
    line.d[0] = s->d[i];
    Val row = b_lt(b, b_iota(b, DT_I32, &line, 0), b_symbol_size(b, s->d[i].sym));
    Val v = b_broadcast_dims(b, row, s, &i);
    r = r < 0 ? v : b_and(b, r, v);
  }
  return r < 0 && b_ok(b) ? b_full(b, s, b_const_i(b, DT_BOOL, 1)) : r;
}

Val b_mask_pad(B *b, Val x, uint32_t axes, Val identity) {
  if (ir_bad(b, x) || ir_bad(b, identity)) return BAD;
  const shape *s = b_shape(b, x);
  uint32_t g = generic_axes(s, axes);
  if (!g) return x;
  if (b->masks_off) {
    b->masks_left_out++;
    return x;
  }
  double v;
  bool zero = b_const_value(b, identity, &v) && v == 0;
  if (zero && (ir_zero_axes(b, x) & g) == g) return x;
  identity = b_broadcast_to(b, b_cast(b, identity, b_dtype(b, x)), s);
  Val valid = b_valid(b, s, g);
  const ir_node *n = ir_nd(b, x);
  if (n->op == IR_SELECT && n->ops[0] == valid && n->ops[2] == identity) return x;
  Val r = b_select(b, valid, x, identity);
  if (zero && r >= 0) b->nodes.p[r].zero |= g;
  return r;
}

/* --- checks --- */

void b_check(B *b, Val ok, tpu_code code, const char *message) {
  if (ir_bad(b, ok)) return;
  if (b->cur) {
    b_fail(b, TPU_NOT_IMPLEMENTED, "a run-time check inside a region");
    return;
  }
  ok = b_reduce(b, RED_AND, b_cast(b, ok, DT_BOOL), axes_all(b_rank(b, ok)), false);
  if (b->err) return;
  const char *m = arena_copy(&b->mem, message, strlen(message) + 1);
  IR_PUSH(b->checks, ((ir_check){ok, code, m}));
}

int b_num_checks(const B *b) { return b->checks.n; }

void b_check_info(const B *b, int k, tpu_code *code, const char **message) {
  *code = b->checks.p[k].code;
  *message = b->checks.p[k].message;
}

Val b_check_result(B *b) {
  if (b->err || !b->checks.n) return BAD;
  Val r = b_const_i(b, DT_I32, 0);
  for (int k = b->checks.n - 1; k >= 0; k--)
    r = b_select(b, b->checks.p[k].ok, r, b_const_i(b, DT_I32, k + 1));
  return r;
}
