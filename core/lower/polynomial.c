/* Orthogonal polynomials of special_*: degree n a tensor, so the recurrence runs to the largest degree and
 * each element stops at its own. */
#include "lower/math.h"

/* p[k+1] = ((a k + a1) x + (b k + b1)) p[k] / (d k + d1) - (c k + c1) p[k-1] / (d k + d1),
 * p[0] = 1, p[1] = s x + t. The shifted Chebyshev families are the plain ones of 2 x - 1. */
typedef struct recurrence {
  double a, a1, b, b1, c, c1, d, d1, s, t;
} recurrence;

static const recurrence kinds[] = {
    [0] = {.a1 = 2, .c1 = 1, .d1 = 1, .s = 1},                                   /* T */
    [1] = {.a1 = 2, .c1 = 1, .d1 = 1, .s = 2},                                   /* U */
    [2] = {.a1 = 2, .c1 = 1, .d1 = 1, .s = 2, .t = -1},                          /* V */
    [3] = {.a1 = 2, .c1 = 1, .d1 = 1, .s = 2, .t = 1},                           /* W */
    [4] = {.a1 = 2, .c = 2, .d1 = 1, .s = 2},                                    /* H */
    [5] = {.a1 = 1, .c = 1, .d1 = 1, .s = 1},                                    /* He */
    [6] = {.a1 = -1, .b = 2, .b1 = 1, .c = 1, .d = 1, .d1 = 1, .s = -1, .t = 1}, /* Laguerre */
    [7] = {.a = 2, .a1 = 1, .c = 1, .d = 1, .d1 = 1, .s = 1},                    /* Legendre */
};

typedef struct walk {
  const recurrence *r;
  Val x, n;
} walk;

static Val line(B *b, Val k, double slope, double at0) {
  return b_add(b, b_mul(b, k, m_k(b, k, slope)), m_k(b, k, at0));
}

static Val more(B *b, void *ctx, const Val *v) {
  walk *w = ctx;
  Val left = b_gt(b, w->n, v[0]);
  return b_reduce(b, RED_OR, left, axes_all(b_rank(b, left)), false);
}

static void step(B *b, void *ctx, const Val *v, Val *out) { /* v: k, p[k-1], p[k] */
  walk *w = ctx;
  const recurrence *r = w->r;
  Val k = v[0], go = b_gt(b, w->n, k),
      factor = b_add(b, b_mul(b, line(b, k, r->a, r->a1), w->x), line(b, k, r->b, r->b1));
  Val next = b_sub(b, b_mul(b, factor, v[2]), b_mul(b, line(b, k, r->c, r->c1), v[1]));
  next = b_div(b, next, line(b, k, r->d, r->d1));
  out[0] = b_add(b, k, m_k(b, k, 1));
  out[1] = b_select(b, go, v[2], v[1]);
  out[2] = b_select(b, go, next, v[2]);
}

Val m_polynomial(B *b, int code, Val x, Val n) {
  bool shifted = code >= M_SHIFTED_T;
  int kind = code - (shifted ? M_SHIFTED_T : M_CHEBYSHEV_T);
  if (kind < 0 || kind >= (int)(sizeof kinds / sizeof *kinds)) {
    b_fail(b, TPU_INTERNAL, "no function %d", code);
    return BAD;
  }
  const recurrence *r = &kinds[kind];
  shape s = b_broadcast_shape(b, x, n);
  n = m_unary(b, M_TRUNC, b_broadcast_to(b, n, &s));
  x = b_broadcast_to(b, x, &s);
  if (shifted) x = b_sub(b, b_mul(b, x, m_k(b, x, 2)), m_k(b, x, 1));
  Val one = b_broadcast_to(b, m_k(b, x, 1), &s), first = line(b, x, r->s, r->t),
      v[3] = {m_k(b, x, 1), one, first};
  walk w = {r, x, n};
  b_while(b, 3, v, more, step, &w, v);
  Val p = b_select(b, b_lt(b, n, m_k(b, n, 1)), one, v[2]);
  return b_select(b, b_lt(b, n, m_k(b, n, 0)), m_k(b, x, 0), p);
}
