/* Special functions of one variable: chlo's where the plugin has them, else Chebyshev series (chebyshev.inc
 * says of what). */
#include <math.h>

#include "lower/math.h"

#include "lower/chebyshev.inc"

#define SERIES(b, name, t) series(b, cheb_##name, (int)(sizeof cheb_##name / sizeof *cheb_##name), t)

static Val sub_k(B *b, Val x, double v) { return b_sub(b, x, m_k(b, x, v)); }
static Val add_k(B *b, Val x, double v) { return b_add(b, x, m_k(b, x, v)); }
static Val mul_k(B *b, Val x, double v) { return b_mul(b, x, m_k(b, x, v)); }
static Val k_div(B *b, double v, Val x) { return b_div(b, m_k(b, x, v), x); }
static Val square(B *b, Val x) { return b_mul(b, x, x); }

/* Sum of c[k] T_k(t) by Clenshaw's recurrence; f32 needs only what counts in it. */
static Val series(B *b, const double *c, int n, Val t) {
  if (b_dtype(b, t) == DT_F32)
    while (n > 2 && fabs(c[n - 1]) < 1e-10 * fabs(c[0])) n--;
  Val t2 = mul_k(b, t, 2), b1 = m_k(b, t, c[n - 1]), b2 = m_k(b, t, 0);
  for (int k = n - 2; k > 0; k--) {
    Val next = add_k(b, b_sub(b, b_mul(b, t2, b1), b2), c[k]);
    b2 = b1;
    b1 = next;
  }
  return add_k(b, b_sub(b, b_mul(b, t, b1), b2), c[0]);
}

/* The variables of the series: 2 x / limit - 1, 2 limit / x - 1, 2 (x / limit)^2 - 1. */
static Val t_near(B *b, Val x, double limit) { return sub_k(b, mul_k(b, x, 2 / limit), 1); }
static Val t_far(B *b, Val x, double limit) { return sub_k(b, k_div(b, 2 * limit, x), 1); }
static Val t_square(B *b, Val x, double limit) {
  return sub_k(b, mul_k(b, square(b, x), 2 / (limit * limit)), 1);
}

/* --- modified Bessel functions --- */

/* e^-|x| I(x) of order 0 or 1. */
static Val ie(B *b, int order, Val x) {
  Val a = b_abs(b, x), near = b_minimum(b, a, m_k(b, a, 8)), far = b_maximum(b, a, m_k(b, a, 8)),
      tn = t_near(b, near, 8), tf = t_far(b, far, 8);
  Val small = order ? b_mul(b, near, SERIES(b, i1e_near, tn)) : SERIES(b, i0e_near, tn);
  Val large = b_div(b, order ? SERIES(b, i1e_far, tf) : SERIES(b, i0e_far, tf), b_sqrt(b, far));
  Val v = b_select(b, b_le(b, a, m_k(b, a, 8)), small, large);
  return order ? b_select(b, b_lt(b, x, m_k(b, x, 0)), b_neg(b, v), v) : v;
}

static Val i_of(B *b, int order, Val x) { return b_mul(b, ie(b, order, x), b_exp(b, b_abs(b, x))); }

/* K(x), times e^x when scaled. */
static Val k_of(B *b, int order, bool scaled, Val x) {
  Val zero = m_k(b, x, 0), near = b_minimum(b, b_abs(b, x), m_k(b, x, 2)),
      far = b_maximum(b, x, m_k(b, x, 2));
  Val log = b_mul(b, b_log(b, mul_k(b, near, 0.5)), i_of(b, order, near)), tn = t_square(b, near, 2),
      tf = t_far(b, far, 2);
  Val small =
      order ? b_add(b, log, b_div(b, SERIES(b, k1_rest, tn), near)) : b_sub(b, SERIES(b, k0_rest, tn), log);
  Val large = b_div(b, order ? SERIES(b, k1e_far, tf) : SERIES(b, k0e_far, tf), b_sqrt(b, far));
  if (scaled)
    small = b_mul(b, small, b_exp(b, near));
  else
    large = b_mul(b, large, b_exp(b, b_neg(b, far)));
  Val v = b_select(b, b_le(b, x, m_k(b, x, 2)), small, large);
  v = b_select(b, b_eq(b, x, zero), m_k(b, x, INFINITY), v);
  return b_select(b, b_lt(b, x, zero), m_k(b, x, NAN), v);
}

/* --- Bessel functions --- */

static Val far_bessel(B *b, int order, bool second, Val x) {
  Val t = sub_k(b, mul_k(b, square(b, k_div(b, 8, x)), 2), 1),
      phase = sub_k(b, x, M_PI * (2 * order + 1) / 4);
  Val p = order ? SERIES(b, p1, t) : SERIES(b, p0, t);
  Val q = b_mul(b, order ? SERIES(b, q1, t) : SERIES(b, q0, t), k_div(b, 8, x));
  Val c = b_cos(b, phase), s = b_sin(b, phase), scale = b_sqrt(b, k_div(b, M_2_PI, x));
  Val v = second ? b_add(b, b_mul(b, p, s), b_mul(b, q, c)) : b_sub(b, b_mul(b, p, c), b_mul(b, q, s));
  return b_mul(b, v, scale);
}

static Val near_j(B *b, int order, Val x) {
  Val t = t_square(b, x, 8);
  return order ? b_mul(b, x, SERIES(b, j1_near, t)) : SERIES(b, j0_near, t);
}

static Val near_y(B *b, int order, Val x) {
  Val log = b_mul(b, mul_k(b, b_log(b, mul_k(b, x, 0.5)), M_2_PI), near_j(b, order, x)),
      t = t_square(b, x, 8);
  if (order == 0) return b_add(b, SERIES(b, y0_rest, t), log);
  return b_sub(b, b_add(b, b_mul(b, x, SERIES(b, y1_rest, t)), log), k_div(b, M_2_PI, x));
}

static Val bessel(B *b, int order, bool second, Val x) {
  Val a = b_abs(b, x), eight = m_k(b, x, 8), zero = m_k(b, x, 0), near = b_minimum(b, a, eight),
      far = b_maximum(b, a, eight);
  Val v = b_select(b, b_le(b, a, eight), second ? near_y(b, order, near) : near_j(b, order, near),
                   far_bessel(b, order, second, far));
  if (!second) return order ? b_select(b, b_lt(b, x, zero), b_neg(b, v), v) : v;
  v = b_select(b, b_eq(b, x, zero), m_k(b, x, -INFINITY), v);
  return b_select(b, b_lt(b, x, zero), m_k(b, x, NAN), v);
}

static Val spherical_j0(B *b, Val x) {
  Val v = b_div(b, b_sin(b, x), x), x2 = square(b, x);
  Val tiny = add_k(b, b_mul(b, x2, add_k(b, mul_k(b, x2, 1.0 / 120), -1.0 / 6)), 1);
  v = b_select(b, b_lt(b, b_abs(b, x), m_k(b, x, 1e-2)), tiny, v);
  return m_zero_mask(b, b_not(b, b_isinf(b, x)), v);
}

/* --- the error function's relatives --- */

/* e^(x^2) erfc(x); the series is of (1 + 2 x) erfcx(x), x >= 0. */
static Val erfcx(B *b, Val x) {
  Val a = b_abs(b, x), t = b_div(b, sub_k(b, a, 3.75), add_k(b, a, 3.75));
  t = b_select(b, b_isinf(b, a), m_k(b, a, 1), t);
  Val v = b_div(b, SERIES(b, erfcx, t), add_k(b, mul_k(b, a, 2), 1));
  return b_select(b, b_lt(b, x, m_k(b, x, 0)), b_sub(b, mul_k(b, b_exp(b, square(b, x)), 2), v), v);
}

static Val log_ndtr(B *b, Val x) {
  Val z = mul_k(b, x, M_SQRT1_2), low = b_minimum(b, z, m_k(b, z, 0));
  Val left = b_sub(b, b_log(b, mul_k(b, erfcx(b, b_neg(b, low)), 0.5)), square(b, low));
  return b_select(b, b_lt(b, x, m_k(b, x, -1)), left, b_log1p(b, mul_k(b, b_erfc(b, z), -0.5)));
}

/* The quantile of the normal distribution: from erfinv on the lower half, then two Newton steps on log_ndtr,
 * which keep the tail exact. */
static Val ndtri(B *b, Val p) {
  Val half = m_k(b, p, 0.5), zero = m_k(b, p, 0), q = b_minimum(b, p, b_sub(b, m_k(b, p, 1), p)),
      log = b_log(b, q);
  Val guess = mul_k(b, b_erf_inv(b, sub_k(b, mul_k(b, q, 2), 1)), M_SQRT2);
  Val tail = b_neg(b, b_sqrt(b, mul_k(b, log, -2)));
  Val x = b_select(b, b_lt(b, q, m_k(b, q, 1e-6)), tail, guess);
  for (int i = 0; i < 3; i++) {
    Val f = log_ndtr(b, x), density = add_k(b, mul_k(b, square(b, x), -0.5), -0.91893853320467274178);
    x = b_sub(b, x, b_mul(b, b_sub(b, f, log), b_exp(b, b_sub(b, f, density))));
  }
  x = b_select(b, b_gt(b, p, half), b_neg(b, x), x);
  x = b_select(b, b_eq(b, p, zero), m_k(b, p, -INFINITY), x);
  x = b_select(b, b_eq(b, p, m_k(b, p, 1)), m_k(b, p, INFINITY), x);
  Val inside = b_and(b, b_ge(b, p, zero), b_le(b, p, m_k(b, p, 1)));
  return b_select(b, inside, x, m_k(b, p, NAN));
}

/* --- the rest --- */

static Val entr(B *b, Val x) {
  Val zero = m_k(b, x, 0), v = b_neg(b, b_mul(b, x, b_log(b, x)));
  v = b_select(b, b_eq(b, x, zero), zero, v);
  return b_select(b, b_lt(b, x, zero), m_k(b, x, -INFINITY), v);
}

/* chlo's f32 form is off by 5e-6 near +-1: a Newton step on erfc, whose target 1 - |x| is exact there. */
static Val erfinv(B *b, Val x) {
  Val v = b_erf_inv(b, x), a = b_abs(b, x), y = b_abs(b, v), rest = b_sub(b, m_k(b, x, 1), a);
  if (b_dtype(b, x) != DT_F32) return v;
  Val slope = mul_k(b, b_exp(b, square(b, y)), 1 / M_2_SQRTPI);
  Val better = b_add(b, y, b_mul(b, b_sub(b, b_erfc(b, y), rest), slope));
  better = b_select(b, b_lt(b, x, m_k(b, x, 0)), b_neg(b, better), better);
  return b_select(b, b_and(b, b_gt(b, a, m_k(b, a, 0.5)), b_lt(b, a, m_k(b, a, 1))), better, v);
}

Val m_special(B *b, int code, Val x) {
  switch (code) {
  case M_ERF: return b_erf(b, x);
  case M_ERFC: return b_erfc(b, x);
  case M_ERFINV: return erfinv(b, x);
  case M_LGAMMA: return b_lgamma(b, x);
  case M_DIGAMMA: return m_polygamma(b, 0, x);
  case M_I0: return i_of(b, 0, x);
  case M_I0E: return ie(b, 0, x);
  case M_I1: return i_of(b, 1, x);
  case M_I1E: return ie(b, 1, x);
  case M_NDTRI: return ndtri(b, x);
  case M_LOG_NDTR: return log_ndtr(b, x);
  case M_ERFCX: return erfcx(b, x);
  case M_ENTR: return entr(b, x);
  case M_BESSEL_J0: return bessel(b, 0, false, x);
  case M_BESSEL_J1: return bessel(b, 1, false, x);
  case M_BESSEL_Y0: return bessel(b, 0, true, x);
  case M_BESSEL_Y1: return bessel(b, 1, true, x);
  case M_K0: return k_of(b, 0, false, x);
  case M_K1: return k_of(b, 1, false, x);
  case M_K0E: return k_of(b, 0, true, x);
  case M_K1E: return k_of(b, 1, true, x);
  case M_SPHERICAL_J0: return spherical_j0(b, x);
  default: b_fail(b, TPU_INTERNAL, "no function %d", code); return BAD;
  }
}
