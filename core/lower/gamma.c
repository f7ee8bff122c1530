/* The gamma function's family: psi and its derivatives, Hurwitz zeta, incomplete gamma. */
#include <math.h>

#include "lower/math.h"

static Val add_k(B *b, Val x, double v) { return b_add(b, x, m_k(b, x, v)); }
static Val mul_k(B *b, Val x, double v) { return b_mul(b, x, m_k(b, x, v)); }
static Val k_div(B *b, double v, Val x) { return b_div(b, m_k(b, x, v), x); }
static Val square(B *b, Val x) { return b_mul(b, x, x); }
static Val any(B *b, Val x) { return b_reduce(b, RED_OR, x, axes_all(b_rank(b, x)), false); }

static Val digamma(B *b, Val x) { /* the poles as in C: psi(+-0) = -+inf, psi(-n) = NaN */
  Val zero = b_eq(b, x, m_k(b, x, 0)), pole = m_binary(b, M_COPYSIGN, m_k(b, x, INFINITY), b_neg(b, x));
  Val whole = b_and(b, b_lt(b, x, m_k(b, x, 0)), b_eq(b, x, b_floor(b, x)));
  return b_select(b, zero, pole, b_select(b, whole, m_k(b, x, NAN), b_digamma(b, x)));
}

static Val trigamma(B *b, Val x) { /* reflected below 1/2, six steps up, then the asymptotic series */
  Val half = m_k(b, x, 0.5), low = b_lt(b, x, half), sine = b_sin(b, mul_k(b, x, M_PI));
  Val mirror = k_div(b, M_PI * M_PI, square(b, sine)), z = b_select(b, low, b_sub(b, m_k(b, x, 1), x), x),
      sum = m_k(b, x, 0);
  for (int i = 0; i < 6; i++) {
    sum = b_add(b, sum, k_div(b, 1, square(b, z)));
    z = add_k(b, z, 1);
  }
  Val q = k_div(b, 1, square(b, z));
  Val tail = b_sub(b, m_k(b, x, 1.0 / 6), b_mul(b, q, b_sub(b, m_k(b, x, 1.0 / 30), mul_k(b, q, 1.0 / 42))));
  tail = add_k(b, b_add(b, k_div(b, 0.5, z), b_mul(b, q, tail)), 1);
  sum = b_add(b, sum, b_div(b, tail, z));
  return b_select(b, low, b_sub(b, mirror, sum), sum);
}

/* One step of zeta(x, q) = q^-x + zeta(x, q + 1) wherever q is below 1; v: the sum, q. */
static Val zeta_more(B *b, void *ctx, const Val *v) {
  (void)ctx;
  return any(b, b_lt(b, v[1], m_k(b, v[1], 1)));
}

static void zeta_step(B *b, void *ctx, const Val *v, Val *out) {
  Val x = *(Val *)ctx, low = b_lt(b, v[1], m_k(b, v[1], 1));
  out[0] = b_add(b, v[0], m_zero_mask(b, low, b_pow(b, v[1], b_neg(b, x))));
  out[1] = b_select(b, low, add_k(b, v[1], 1), v[1]);
}

/* chlo's zeta is right for q > 0; a negative q is stepped up to it first. */
Val m_zeta(B *b, Val x, Val q) {
  shape s = b_broadcast_shape(b, x, q);
  x = b_broadcast_to(b, x, &s);
  q = b_broadcast_to(b, q, &s);
  Val one = m_k(b, x, 1), zero = m_k(b, x, 0), nonpos = b_le(b, q, zero),
      v[2] = {b_broadcast_to(b, zero, &s), q};
  b_while(b, 2, v, zeta_more, zeta_step, &x, v);
  Val z = b_add(b, v[0], b_zeta(b, x, v[1])), nan = m_k(b, x, NAN), inf = m_k(b, x, INFINITY);
  z = b_select(b, b_and(b, nonpos, b_ne(b, x, b_floor(b, x))), nan, z);
  z = b_select(b, b_and(b, nonpos, b_eq(b, q, b_floor(b, q))), inf, z);
  Val far = b_select(b, b_lt(b, q, one), inf, b_cast(b, b_eq(b, q, one), b_dtype(b, x)));
  z = b_select(b, b_and(b, b_eq(b, x, inf), b_not(b, b_isnan(b, q))), far, z);
  return b_select(b, b_lt(b, x, one), nan, b_select(b, b_eq(b, x, one), inf, z));
}

Val m_polygamma(B *b, int64_t n, Val x) {
  if (n == 0) return digamma(b, x);
  if (n == 1) return trigamma(b, x);
  return mul_k(b, m_zeta(b, m_k(b, x, (double)(n + 1)), x), (n % 2 ? 1 : -1) * exp(lgamma((double)n + 1)));
}

/* --- incomplete gamma --- */

/* Both expansions share the factor x^a e^-x / Gamma(a). The series for P: sum of x^n / (a (a + 1) ... (a +
 * n)); v: n, term, sum, x. */
static Val series_more(B *b, void *ctx, const Val *v) {
  (void)ctx;
  return any(b, b_gt(b, v[1], mul_k(b, v[2], 0x1p-54)));
}

static void series_step(B *b, void *ctx, const Val *v, Val *out) {
  Val a = *(Val *)ctx;
  out[0] = add_k(b, v[0], 1);
  out[1] = b_mul(b, v[1], b_div(b, v[3], b_add(b, a, out[0])));
  out[2] = b_add(b, v[2], out[1]);
  out[3] = v[3];
}

/* The continued fraction for Q by Lentz's method; v: n, b, c, d, h, delta. */
static Val fraction_more(B *b, void *ctx, const Val *v) {
  (void)ctx;
  return b_and(b, any(b, b_gt(b, b_abs(b, add_k(b, v[5], -1)), m_k(b, v[5], 0x1p-51))),
               b_lt(b, v[0], m_k(b, v[0], 2000)));
}

static void fraction_step(B *b, void *ctx, const Val *v, Val *out) {
  Val a = *(Val *)ctx, n = v[0], an = b_mul(b, b_neg(b, n), b_sub(b, n, a)), bn = add_k(b, v[1], 2);
  Val done = b_le(b, b_abs(b, add_k(b, v[5], -1)), m_k(b, v[5], 0x1p-51));
  Val d = k_div(b, 1, b_add(b, b_mul(b, an, v[3]), bn)), c = b_add(b, bn, b_div(b, an, v[2])),
      delta = b_mul(b, c, d);
  out[0] = add_k(b, n, 1);
  out[1] = bn;
  out[2] = c;
  out[3] = d;
  out[4] = b_select(b, done, v[4], b_mul(b, v[4], delta));
  out[5] = b_select(b, done, m_k(b, delta, 1), delta);
}

/* P(a, x), or Q = 1 - P; in f64 throughout, since the factor cancels over many digits. */
static Val incomplete(B *b, bool upper, Val a, Val x) {
  shape s = b_broadcast_shape(b, a, x);
  a = b_broadcast_to(b, b_cast(b, a, DT_F64), &s);
  x = b_broadcast_to(b, b_cast(b, x, DT_F64), &s);
  Val zero = m_k(b, x, 0), one = b_broadcast_to(b, m_k(b, x, 1), &s), inf = m_k(b, x, INFINITY);
  Val good =
      b_and(b, b_and(b, b_gt(b, a, zero), b_gt(b, x, zero)), b_and(b, b_lt(b, a, inf), b_lt(b, x, inf)));
  Val sa = b_select(b, good, a, one), sx = b_select(b, good, x, one), high = b_gt(b, sx, add_k(b, sa, 1));
  Val factor = b_exp(b, b_sub(b, b_sub(b, b_mul(b, sa, b_log(b, sx)), sx), b_lgamma(b, sa)));
  Val xs = b_select(b, high, m_k(b, x, 0.5), sx), first = k_div(b, 1, sa),
      v[4] = {m_k(b, x, 0), first, first, xs};
  b_while(b, 4, v, series_more, series_step, &sa, v);
  Val p = b_mul(b, factor, v[2]);
  Val xf = b_select(b, high, sx, add_k(b, sa, 2)), b0 = add_k(b, b_sub(b, xf, sa), 1), d0 = k_div(b, 1, b0);
  Val w[6] = {m_k(b, x, 1), b0, b_full(b, &s, m_k(b, x, 1e300)), d0, d0, b_full(b, &s, m_k(b, x, 2))};
  b_while(b, 6, w, fraction_more, fraction_step, &sa, w);
  Val q = b_mul(b, factor, w[4]);
  Val r = upper ? b_select(b, high, q, b_sub(b, one, p)) : b_select(b, high, b_sub(b, one, q), p);
  Val at0 = m_k(b, x, upper ? 1 : 0), at_inf = m_k(b, x, upper ? 0 : 1), nan = m_k(b, x, NAN);
  r = b_select(b, b_eq(b, x, zero), at0, b_select(b, b_eq(b, x, inf), at_inf, r));
  r = b_select(b, b_eq(b, a, inf), b_select(b, b_eq(b, x, inf), nan, at0), r);
  r = b_select(b, b_eq(b, a, zero), b_select(b, b_gt(b, x, zero), at_inf, nan), r);
  Val bad = b_or(b, b_or(b, b_lt(b, x, zero), b_lt(b, a, zero)), b_or(b, b_isnan(b, x), b_isnan(b, a)));
  return b_select(b, bad, nan, r);
}

Val m_igamma(B *b, bool upper, Val a, Val x) { return b_cast(b, incomplete(b, upper, a, x), b_dtype(b, a)); }
