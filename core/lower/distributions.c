/* Samplers that reject: gamma, Dirichlet, Poisson, binomial. A program cannot draw an unknown number of
 * words, so a fixed number of rounds is drawn and the first accepted one counts; the chance that none is
 * accepted is below 1e-9, and then the mode stands in. */
#include <math.h>

#include "lower/math.h"

static Val kadd(B *b, Val x, double v) { return b_add(b, x, m_k(b, x, v)); }
static Val kmul(B *b, Val x, double v) { return b_mul(b, x, m_k(b, x, v)); }
static Val kdiv(B *b, double v, Val x) { return b_div(b, m_k(b, x, v), x); }

/* Uniform in (0, 1) from word `i` of a draw. */
static Val unit(B *b, Val words, int i) {
  Val w = b_cast(b, b_squeeze(b, b_slice(b, words, 0, i, i + 1, 1), 0), DT_F64);
  return kmul(b, kadd(b, w, 0.5), 0x1p-32);
}

/* The first proposal that was accepted; `value` starts as what stands in for none. */
static void offer(B *b, Val proposal, Val accept, Val *value, Val *done) {
  *value = b_select(b, b_and(b, accept, b_not(b, *done)), proposal, *value);
  *done = b_or(b, *done, accept);
}

static Val f64_arg(L *l, int i) {
  B *b = l_b(l);
  Val x = l_tensor(l, i);
  m_dtype(l, b_dtype(b, x), M_NO_INT | M_NO_COMPLEX);
  return b_cast(b, x, DT_F64);
}

static Val no(B *b, const shape *s) { return b_full(b, s, b_const_i(b, DT_BOOL, 0)); }

/* Marsaglia and Tsang (2000), for alpha >= 1; below, gamma(alpha + 1) u^(1 / alpha). */
static Val gamma_of(L *l, Val alpha) {
  enum { ROUNDS = 8 };
  B *b = l_b(l);
  const shape s = *b_shape(b, alpha);
  Val words = l_random_words_like(l, &s, 3 * ROUNDS + 1), low = b_lt(b, alpha, m_k(b, alpha, 1));
  Val d = kadd(b, b_select(b, low, kadd(b, alpha, 1), alpha), -1.0 / 3),
      c = kdiv(b, 1, b_sqrt(b, kmul(b, d, 9))), value = d, done = no(b, &s);
  for (int i = 0; i < ROUNDS; i++) {
    Val r = b_sqrt(b, kmul(b, b_log(b, unit(b, words, 3 * i)), -2));
    Val x = b_mul(b, r, b_cos(b, kmul(b, unit(b, words, 3 * i + 1), 2 * M_PI)));
    Val t = kadd(b, b_mul(b, c, x), 1), v = b_mul(b, b_mul(b, t, t), t), good = b_gt(b, v, m_k(b, v, 0));
    Val log_v = b_log(b, b_select(b, good, v, m_k(b, v, 1)));
    Val bound =
        b_add(b, kmul(b, b_mul(b, x, x), 0.5), b_mul(b, d, b_add(b, b_sub(b, m_k(b, v, 1), v), log_v)));
    Val accept = b_and(b, good, b_lt(b, b_log(b, unit(b, words, 3 * i + 2)), bound));
    offer(b, b_mul(b, d, v), accept, &value, &done);
  }
  Val boost = b_pow(b, unit(b, words, 3 * ROUNDS), kdiv(b, 1, alpha));
  return b_optimization_barrier(b, b_select(b, low, b_mul(b, value, boost), value));
}

static void standard_gamma(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, l_tensor(l, 0));
  Val v = b_cast(b, gamma_of(l, f64_arg(l, 0)), dt);
  ret(l, b_maximum(b, v,
                   m_k(b, v,
                       dt == DT_F64   ? 0x1p-1022
                       : dt == DT_F16 ? 0x1p-14
                                      : 0x1p-126))); /* never 0 */
}

static void dirichlet(L *l) {
  B *b = l_b(l);
  Val g = gamma_of(l, f64_arg(l, 0));
  g = b_maximum(b, g, m_k(b, g, 0x1p-1022));
  ret(l, b_cast(b, b_div(b, g, b_sum(b, g, 1u << (b_rank(b, g) - 1), true)), b_dtype(b, l_tensor(l, 0))));
}

/* --- counts: inversion where the mean is small --- */

/* k, mass of k, sum up to k. The next mass is mass * (top - k) / (k + 1) * ratio: the Poisson has top - k
 * = 1. */
typedef struct inversion {
  Val u, ratio, top; /* top BAD: Poisson */
} inversion;

static Val going(B *b, const inversion *in, const Val *v) {
  return b_and(b, b_gt(b, in->u, v[2]), b_lt(b, v[0], m_k(b, v[0], 200)));
}

static Val invert_more(B *b, void *ctx, const Val *v) {
  Val go = going(b, ctx, v);
  return b_reduce(b, RED_OR, go, axes_all(b_rank(b, go)), false);
}

static void invert_step(B *b, void *ctx, const Val *v, Val *out) {
  const inversion *in = ctx;
  Val go = going(b, in, v), k = kadd(b, v[0], 1), mass = b_div(b, b_mul(b, v[1], in->ratio), k);
  if (in->top != BAD) mass = b_mul(b, mass, b_maximum(b, b_sub(b, in->top, v[0]), m_k(b, k, 0)));
  out[0] = b_select(b, go, k, v[0]);
  out[1] = b_select(b, go, mass, v[1]);
  out[2] = b_select(b, go, b_add(b, v[2], mass), v[2]);
}

static Val invert(B *b, inversion *in, Val mass0) {
  Val v[3] = {b_zeros(b, DT_F64, b_shape(b, mass0)), mass0, mass0};
  b_while(b, 3, v, invert_more, invert_step, in, v);
  return in->top == BAD ? v[0] : b_minimum(b, v[0], in->top);
}

/* --- counts: Hoermann's transformed rejection (PTRS, BTRS, 1993) --- */

enum { TRIES = 10, COUNT_WORDS = 2 * TRIES + 1 };

/* log of the mass of k over that of the mode, up to what both share. */
typedef Val (*log_mass)(B *b, const Val *p, Val k);

typedef struct rejection {
  Val a, c, bb, vr, log_alpha, log_mode, top; /* the hat; top BAD: none */
  log_mass mass;
  const Val *p;
} rejection;

static Val reject(B *b, const rejection *r, Val words, Val stand_in) {
  Val value = stand_in, done = no(b, b_shape(b, stand_in));
  for (int i = 0; i < TRIES; i++) {
    Val u = kadd(b, unit(b, words, 1 + 2 * i), -0.5), v = unit(b, words, 2 + 2 * i),
        us = b_sub(b, m_k(b, u, 0.5), b_abs(b, u));
    Val k = b_floor(b, b_add(b, b_mul(b, b_add(b, b_div(b, kmul(b, r->a, 2), us), r->bb), u), r->c));
    Val quick = b_and(b, b_ge(b, us, m_k(b, us, 0.07)), b_le(b, v, r->vr)), in = b_ge(b, k, m_k(b, k, 0));
    if (r->top != BAD) in = b_and(b, in, b_le(b, k, r->top));
    Val safe = b_select(b, in, k, stand_in);
    Val hat = b_log(b, b_add(b, b_div(b, r->a, b_mul(b, us, us)), r->bb));
    Val left = b_sub(b, b_add(b, b_log(b, v), r->log_alpha), hat);
    Val slow = b_and(b, in, b_le(b, left, b_sub(b, r->mass(b, r->p, safe), r->log_mode)));
    offer(b, k, b_or(b, b_and(b, quick, in), slow), &value, &done);
  }
  return value;
}

static Val poisson_mass(B *b, const Val *p, Val k) { /* p: log lambda */
  return b_sub(b, b_mul(b, k, p[0]), b_lgamma(b, kadd(b, k, 1)));
}

static void poisson(L *l) {
  B *b = l_b(l);
  Val x = f64_arg(l, 0), ten = m_k(b, x, 10);
  const shape s = *b_shape(b, x);
  b_check(b, b_ge(b, x, m_k(b, x, 0)), TPU_RUNTIME, "invalid Poisson rate, expected rate to be non-negative");
  Val words = l_random_words_like(l, &s, COUNT_WORDS), small = b_minimum(b, x, ten),
      large = b_maximum(b, x, ten), log = b_log(b, large);
  inversion in = {unit(b, words, 0), small, BAD};
  Val few = invert(b, &in, b_exp(b, b_neg(b, small)));
  Val bb = kadd(b, kmul(b, b_sqrt(b, large), 2.53), 0.931), a = kadd(b, kmul(b, bb, 0.02483), -0.059);
  Val inv_alpha = kadd(b, kdiv(b, 1.1328, kadd(b, bb, -3.4)), 1.1239),
      vr = b_sub(b, m_k(b, bb, 0.9277), kdiv(b, 3.6224, kadd(b, bb, -2)));
  rejection r = {.a = a,
                 .c = kadd(b, large, 0.43),
                 .bb = bb,
                 .vr = vr,
                 .log_alpha = b_log(b, inv_alpha),
                 .log_mode = large,
                 .top = BAD,
                 .mass = poisson_mass,
                 .p = &log};
  Val many = reject(b, &r, words, b_floor(b, large)), v = b_select(b, b_lt(b, x, ten), few, many);
  ret(l, b_cast(b, b_optimization_barrier(b, v), b_dtype(b, l_tensor(l, 0))));
}

static Val binomial_mass(B *b, const Val *p, Val k) { /* p: n, log(p / (1 - p)) */
  Val choose = b_add(b, b_lgamma(b, kadd(b, k, 1)), b_lgamma(b, kadd(b, b_sub(b, p[0], k), 1)));
  return b_sub(b, b_mul(b, k, p[1]), choose);
}

static void binomial(L *l) { /* count, prob */
  B *b = l_b(l);
  Val n0 = f64_arg(l, 0), p0 = f64_arg(l, 1), zero = m_k(b, n0, 0), half = m_k(b, n0, 0.5);
  shape s = b_broadcast_shape(b, n0, p0);
  Val n = b_broadcast_to(b, n0, &s), p1 = b_broadcast_to(b, p0, &s), flip = b_gt(b, p1, half);
  Val p = b_select(b, flip, b_sub(b, m_k(b, p1, 1), p1), p1), q = b_sub(b, m_k(b, p, 1), p),
      mean = b_mul(b, n, p);
  Val words = l_random_words_like(l, &s, COUNT_WORDS), few_side = b_lt(b, mean, m_k(b, mean, 10)),
      ratio = b_div(b, p, q);
  inversion in = {unit(b, words, 0), ratio, n};
  Val few = invert(b, &in, b_select(b, few_side, b_exp(b, b_mul(b, n, b_log(b, q))), m_k(b, n, 1)));
  Val sd = b_sqrt(b, b_mul(b, b_maximum(b, mean, m_k(b, mean, 10)), q)),
      bb = kadd(b, kmul(b, sd, 2.53), 1.15);
  Val a = b_add(b, kadd(b, kmul(b, bb, 0.0248), -0.0873), kmul(b, p, 0.01)),
      vr = b_sub(b, m_k(b, bb, 0.92), kdiv(b, 4.2, bb));
  Val alpha = b_mul(b, kadd(b, kdiv(b, 5.1, bb), 2.83), sd), mode = b_floor(b, b_mul(b, kadd(b, n, 1), p)),
      args[2] = {n, b_log(b, ratio)};
  rejection r = {.a = a,
                 .c = kadd(b, mean, 0.5),
                 .bb = bb,
                 .vr = vr,
                 .log_alpha = b_log(b, alpha),
                 .log_mode = binomial_mass(b, args, mode),
                 .top = n,
                 .mass = binomial_mass,
                 .p = args};
  Val k = b_select(b, few_side, few, reject(b, &r, words, mode));
  k = b_select(b, flip, b_sub(b, n, k), k);
  Val bad = b_or(b, b_lt(b, n, zero), b_not(b, b_and(b, b_ge(b, p1, zero), b_le(b, p1, m_k(b, p1, 1)))));
  ret(l,
      b_cast(b, b_optimization_barrier(b, b_select(b, bad, m_k(b, k, NAN), k)), b_dtype(b, l_tensor(l, 0))));
}

const tpu_row rows_distributions[] = {
    {"_standard_gamma", standard_gamma, 0, ROW_ELEMENTWISE | ROW_RANDOM},
    {"_sample_dirichlet", dirichlet, 0, ROW_RANDOM},
    {"poisson", poisson, 0, ROW_ELEMENTWISE | ROW_RANDOM},
    {"binomial", binomial, 0, ROW_ELEMENTWISE | ROW_RANDOM},
    {0},
};
