/* Random ops. Every draw is a function of the generator's (seed, offset) and of the element's logical
 * position alone, so that a program draws the same numbers in every mode; values that went through
 * transcendental functions stand behind a barrier, so that what they are fused with cannot change their last
 * bits. */
#include <math.h>

#include "lower/math.h"

/* --- words to numbers --- */

/* n words for each element of s: w[0] .. w[n-1] of shape s. */
static void draw(L *l, const shape *s, int n, Val *w) {
  B *b = l_b(l);
  Val all = l_random_words_like(l, s, n);
  for (int i = 0; i < n; i++) w[i] = b_squeeze(b, b_slice(b, all, 0, i, i + 1, 1), 0);
}

/* Random bits of a 64-bit word. */
static Val bits64(L *l, const shape *s) {
  B *b = l_b(l);
  Val w[2];
  draw(l, s, 2, w);
  return b_or(b, b_shl(b, b_cast(b, w[0], DT_U64), b_const_i(b, DT_U64, 32)), b_cast(b, w[1], DT_U64));
}

static int digits_of(tpu_dtype dt) {
  return dt == DT_F64 ? 53 : dt == DT_F32 ? 24 : dt == DT_F16 ? 11 : dt == DT_BF16 ? 8 : 3;
}

/* Uniform in [0, 1) on the grid of 2^-digits, in F64 for F64 and F32 for the rest: exact, never 1 in dt. */
static Val unit(L *l, const shape *s, tpu_dtype dt) {
  B *b = l_b(l);
  int digits = digits_of(dt);
  if (dt == DT_F64) {
    Val v = b_cast(b, b_shrl(b, bits64(l, s), b_const_i(b, DT_U64, 64 - digits)), DT_F64);
    return b_mul(b, v, m_k(b, v, 0x1p-53));
  }
  Val w;
  draw(l, s, 1, &w);
  Val v = b_cast(b, b_shrl(b, w, b_const_i(b, DT_U32, 32 - digits)), DT_F32);
  return b_mul(b, v, m_k(b, v, ldexp(1, -digits)));
}

/* Uniform in (0, 1] with a fine grid near 0: for logarithms. */
static Val open_unit(L *l, const shape *s, tpu_dtype dt) {
  B *b = l_b(l);
  Val w, v;
  if (dt == DT_F64) {
    v = b_cast(b, b_shrl(b, bits64(l, s), b_const_i(b, DT_U64, 11)), DT_F64);
    return b_mul(b, b_add(b, v, m_k(b, v, 0.5)), m_k(b, v, 0x1p-53));
  }
  draw(l, s, 1, &w);
  v = b_cast(b, w, DT_F32);
  return b_mul(b, b_add(b, v, m_k(b, v, 0.5)), m_k(b, v, 0x1p-32));
}

/* Box-Muller, the cosine half: finite, |z| < 9. In F64 for F64, F32 for the rest. */
static Val gauss(L *l, const shape *s, tpu_dtype dt) {
  B *b = l_b(l);
  Val u = open_unit(l, s, dt), angle = unit(l, s, dt == DT_F64 ? DT_F64 : DT_F32);
  Val r = b_sqrt(b, b_mul(b, b_log(b, u), m_k(b, u, -2)));
  return b_optimization_barrier(b, b_mul(b, r, b_cos(b, b_mul(b, angle, m_k(b, angle, 2 * M_PI)))));
}

/* -log(u) > 0 */
static Val expo(L *l, const shape *s, tpu_dtype dt) {
  B *b = l_b(l);
  Val u = open_unit(l, s, dt), v = b_neg(b, b_log(b, u));
  return b_optimization_barrier(b, b_maximum(b, v, m_k(b, v, dt == DT_F64 ? 0x1p-54 : 0x1p-25)));
}

static Val affine(B *b, Val x, double scale, double shift) {
  if (scale != 1) x = b_mul(b, x, m_k(b, x, scale));
  return shift != 0 ? b_add(b, x, m_k(b, x, shift)) : x;
}

/* --- in place, by shape and dtype of self --- */

enum { UNIFORM, NORMAL, EXPONENTIAL, GEOMETRIC, CAUCHY, LOG_NORMAL };

static void check_params(L *l, double p, double q) {
  const char *names[] = {"uniform_", "normal_", "exponential_", "geometric_", "cauchy_", "log_normal_"};
  switch (l_datum(l)) {
  case UNIFORM:
    if (!(p <= q))
      l_fail(l, TPU_RUNTIME, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", p,
             q);
    break;
  case NORMAL:
    if (!(q >= 0)) l_fail(l, TPU_RUNTIME, "normal expects std >= 0.0, but found std %g", q);
    break;
  case EXPONENTIAL:
    if (!(p > 0)) l_fail(l, TPU_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", p);
    break;
  case GEOMETRIC:
    if (!(p > 0 && p < 1)) l_fail(l, TPU_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    break;
  case CAUCHY:
    if (!(q > 0)) l_fail(l, TPU_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", q);
    break;
  default:
    if (!(q > 0)) l_fail(l, TPU_RUNTIME, "%s expects std > 0.0, but found std=%g", names[l_datum(l)], q);
  }
}

/* One sample of the family in F64 or F32. */
static Val sample(L *l, const shape *s, tpu_dtype dt, double p, double q) {
  B *b = l_b(l);
  Val v;
  switch (l_datum(l)) {
  case UNIFORM:
    v = affine(b, unit(l, s, dt), q - p, p);
    if (p != 0 || q != 1) v = b_select(b, b_ge(b, b_cast(b, v, dt), b_const(b, dt, q)), m_k(b, v, p), v);
    return v;
  case NORMAL: return affine(b, gauss(l, s, dt), q, p);
  case EXPONENTIAL: return isinf(p) ? b_zeros(b, dt_acc(dt), s) : affine(b, expo(l, s, dt), 1 / p, 0);
  case GEOMETRIC:
    v = b_ceil(b, affine(b, expo(l, s, dt), -1 / log1p(-p), 0));
    return b_maximum(b, v, m_k(b, v, 1));
  case CAUCHY:
    v = b_sub(b, unit(l, s, dt == DT_F64 ? DT_F64 : DT_F32), b_const(b, dt == DT_F64 ? DT_F64 : DT_F32, 0.5));
    v = b_maximum(b, v, m_k(b, v, -0.5 + 0x1p-24)); /* the pole itself is left out */
    return affine(b, b_optimization_barrier(b, b_tan(b, b_mul(b, v, m_k(b, v, M_PI)))), q, p);
  default: return b_optimization_barrier(b, b_exp(b, affine(b, gauss(l, s, dt), q, p)));
  }
}

static void fill_random(L *l) { /* self, p[, q], generator; datum: the family */
  B *b = l_b(l);
  Val self = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, self), real = dt_real(dt);
  bool one = l_datum(l) == EXPONENTIAL || l_datum(l) == GEOMETRIC;
  double p = l_double(l, 1), q = one ? 0 : l_double(l, 2);
  const shape s = *b_shape(b, self);
  check_params(l, p, q);
  if (l_datum(l) == GEOMETRIC)
    m_dtype(l, dt, M_NO_COMPLEX | M_NO_BOOL);
  else
    m_dtype(l, dt, l_datum(l) <= NORMAL ? M_NO_INT : M_NO_INT | M_NO_COMPLEX);
  if (dt_is_complex(dt)) { /* normal: each part has half the variance; uniform: both parts are */
    bool normal = l_datum(l) == NORMAL;
    Val re = sample(l, &s, real, normal ? 0 : p, normal ? q * M_SQRT1_2 : q),
        im = sample(l, &s, real, normal ? 0 : p, normal ? q * M_SQRT1_2 : q);
    Val v = b_complex(b, re, im);
    ret(l, normal && p != 0 ? b_add(b, v, m_k(b, v, p)) : v);
    return;
  }
  ret(l, b_cast(b, sample(l, &s, dt_is_integral(dt) ? DT_F64 : dt, p, q), dt));
}

/* normal.Tensor_float and friends: a functional op of mean and std, each a tensor or a float. */
static void normal(L *l) {
  B *b = l_b(l);
  bool tm = l_is_tensor(l, 0), ts = l_is_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, l_tensor(l, tm ? 0 : 1));
  m_dtype(l, dt, M_NO_INT | M_NO_COMPLEX);
  tpu_dtype wide = dt_acc(dt), to = l_written_dtype(l);
  if (to != DT_NONE && dt_is_integral(to))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"normal_kernel_cpu\" not implemented for '%s'",
           tpu_dtype_torch_name(to));
  Val mean = tm ? b_cast(b, l_tensor(l, 0), wide) : b_const(b, wide, l_double(l, 0));
  Val std = ts ? b_cast(b, l_tensor(l, 1), wide) : b_const(b, wide, l_double(l, 1));
  if (!ts && !(l_double(l, 1) >= 0))
    l_fail(l, TPU_RUNTIME, "normal expects std >= 0.0, but found std %g", l_double(l, 1));
  if (ts)
    b_check(b, b_not(b, b_lt(b, std, m_k(b, std, 0))), TPU_RUNTIME,
            "normal expects all elements of std >= 0.0");
  shape s = b_broadcast_shape(b, mean, std);
  ret(l, b_cast(b, b_add(b, mean, b_mul(b, std, gauss(l, &s, dt))), dt));
}

/* --- integers --- */

/* Uniform in [0, range) as U64; range 0 stands for 2^64. Below 2^32 by a fixed-point product of 64 random
 * bits (no division, bias below 2^-32), above by the remainder, as on the CPU. */
static Val below(L *l, const shape *s, uint64_t range) {
  B *b = l_b(l);
  if (range == 1) return b_zeros(b, DT_U64, s);
  if (range == 0) return bits64(l, s);
  Val k = b_const_i(b, DT_U64, (int64_t)range);
  if (range >> 32) return b_rem(b, bits64(l, s), k);
  Val w[2], half = b_const_i(b, DT_U64, 32);
  draw(l, s, 2, w);
  Val low = b_shrl(b, b_mul(b, b_cast(b, w[1], DT_U64), k), half);
  return b_shrl(b, b_add(b, b_mul(b, b_cast(b, w[0], DT_U64), k), low), half);
}

/* The largest value that random_() draws for dt: all integers that the dtype holds exactly. */
static int64_t top_of(tpu_dtype dt) {
  if (dt == DT_BOOL) return 1;
  if (dt_is_float(dt)) return (int64_t)1 << digits_of(dt);
  int width = dt_bytes(dt) * 8 - !dt_is_unsigned(dt);
  return width >= 63 ? INT64_MAX : ((int64_t)1 << width) - 1;
}

/* random_(self), random_.to(self, to), random_.from(self, from, to?): datum 0, 1, 2. */
static void random_ints(L *l) {
  B *b = l_b(l);
  Val self = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, self);
  m_dtype(l, dt, M_NO_COMPLEX);
  int64_t from = l_datum(l) == 2 ? l_int(l, 1) : 0, to = 0;
  bool to_top = l_datum(l) == 0 || (l_datum(l) == 2 && !l_has(l, 2));
  if (!to_top) to = l_int(l, l_datum(l));
  if (!to_top && from >= to)
    l_fail(l, TPU_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
           (long long)from, (long long)to);
  if (dt_is_integral(dt) &&
      (from > top_of(dt) || from < (dt_is_unsigned(dt) || dt == DT_BOOL ? 0 : -top_of(dt) - 1)))
    l_fail(l, TPU_RUNTIME, "from is out of bounds for %s", tpu_dtype_torch_name(dt));
  if (!to_top && dt_is_integral(dt) && to - 1 > top_of(dt))
    l_fail(l, TPU_RUNTIME, "to - 1 is out of bounds for %s", tpu_dtype_torch_name(dt));
  uint64_t range = to_top ? (uint64_t)top_of(dt) - (uint64_t)from + 1 : (uint64_t)to - (uint64_t)from;
  const shape s = *b_shape(b, self);
  Val v = b_cast(b, below(l, &s, range), DT_I64);
  ret(l, b_cast(b, from ? b_add(b, v, b_const_i(b, DT_I64, from)) : v, dt));
}

static void randperm(L *l) { /* n, dtype; .generator: n, generator, dtype */
  B *b = l_b(l);
  int64_t n = l_int(l, 0);
  tpu_dtype dt = l_dtype(l, l_datum(l));
  if (dt == DT_BOOL || (dt != DT_NONE && dt_is_complex(dt)))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"randperm\" not implemented for '%s'", tpu_dtype_torch_name(dt));
  if (n < 0) l_fail(l, TPU_RUNTIME, "n must be non-negative, got %lld", (long long)n);
  if (!b_ok(b)) return;
  shape s = shape_of(1, &n);
  Val index;
  b_sort(b, b_cast(b, bits64(l, &s), DT_I64), 0, false, &index);
  ret(l, b_cast(b, index, dt == DT_NONE ? DT_I64 : dt));
}

/* --- coins --- */

/* bool of shape s, true with probability p (a number): exact to 2^-32. */
static Val coin(L *l, const shape *s, double p) {
  B *b = l_b(l);
  Val w;
  draw(l, s, 1, &w);
  if (p >= 1 || p <= 0) return b_full(b, s, b_const_i(b, DT_BOOL, p >= 1));
  return b_lt(b, b_cast(b, w, DT_U64), b_const_i(b, DT_U64, (int64_t)llround(p * 0x1p32)));
}

static void bernoulli_number(L *l) { /* self, p */
  B *b = l_b(l);
  Val self = l_tensor(l, 0);
  double p = l_double(l, 1);
  if (!(p >= 0 && p <= 1)) l_fail(l, TPU_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
  const shape s = *b_shape(b, self);
  ret(l, b_cast(b, coin(l, &s, p), b_dtype(b, self)));
}

/* bernoulli(self = p), bernoulli_.Tensor(self, p): datum 0, 1 = where p stands. */
static void bernoulli_tensor(L *l) {
  B *b = l_b(l);
  Val self = l_tensor(l, 0), p = l_tensor(l, l_datum(l));
  m_dtype(l, b_dtype(b, p), M_NO_INT | M_NO_COMPLEX);
  p = m_wide(b, p);
  b_check(b, b_and(b, b_ge(b, p, m_k(b, p, 0)), b_le(b, p, m_k(b, p, 1))), TPU_RUNTIME,
          "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
  const shape s = *b_shape(b, self);
  tpu_dtype to = l_written_dtype(l);
  if (dt_is_complex(to))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"bernoulli_tensor_cpu_self_\" not implemented for '%s'",
           tpu_dtype_torch_name(to));
  ret(l, b_cast(b, b_lt(b, unit(l, &s, b_dtype(b, p)), p), to == DT_NONE ? b_dtype(b, self) : to));
}

static void dropout(L *l) { /* input, p, train? -> output, mask */
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  double p = l_double(l, 1), keep = 1 - p;
  const shape s = *b_shape(b, x);
  if (!(p >= 0 && p <= 1))
    l_fail(l, TPU_RUNTIME, "dropout probability has to be between 0 and 1, but got %g", p);
  if (dt_is_integral(b_dtype(b, x)) && !(l_has(l, 2) && !l_bool(l, 2)))
    l_fail(l, TPU_RUNTIME, "result type Float can't be cast to the desired output type %s",
           tpu_dtype_torch_name(b_dtype(b, x)));
  if (l_has(l, 2) && !l_bool(l, 2)) {
    ret(l, x);
    ret(l, b_full(b, &s, b_const_i(b, DT_BOOL, 1)));
    return;
  }
  Val mask = coin(l, &s, keep), w = m_wide(b, x);
  w = b_mul(b, b_mul(b, w, b_cast(b, mask, b_dtype(b, w))), m_k(b, w, keep == 0 ? 0 : 1 / keep));
  ret(l, b_cast(b, w, b_dtype(b, x)));
  ret(l, mask);
}

static void dropout_backward(L *l) { /* grad, mask, scale */
  B *b = l_b(l);
  Val g = l_to_float(l, 0), w = m_wide(b, g);
  w = b_mul(b, b_mul(b, w, b_cast(b, l_tensor(l, 1), b_dtype(b, w))), m_k(b, w, l_double(l, 2)));
  ret(l, b_cast(b, w, b_dtype(b, g)));
}

/* rrelu_with_noise(self, noise, lower, upper, training): noise receives the slope where x <= 0, else 1. */
static void rrelu(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), w = m_wide(b, x), neg = b_le(b, w, m_k(b, w, 0));
  m_dtype(l, b_dtype(b, x), M_NO_INT | M_NO_COMPLEX);
  Val lo = l_scalar(l, 2, b_dtype(b, w)), hi = l_scalar(l, 3, b_dtype(b, w));
  if (!l_bool(l, 4)) {
    ret(l, b_cast(b, b_select(b, neg, b_mul(b, w, b_mul(b, b_add(b, lo, hi), m_k(b, w, 0.5))), w),
                  b_dtype(b, x)));
    return;
  }
  const shape s = *b_shape(b, x);
  Val r = b_add(b, lo, b_mul(b, unit(l, &s, b_dtype(b, w)), b_sub(b, hi, lo)));
  r = b_select(b, neg, r, m_k(b, r, 1));
  ret(l, b_cast(b, b_mul(b, w, r), b_dtype(b, x)));
  l_write(l, 1, 0, b_cast(b, r, b_dtype(b, l_tensor(l, 1))));
}

/* --- multinomial --- */

/* With replacement: how many partial sums of the weights lie at or below a uniform point. */
static Val with_replacement(L *l, Val p, int64_t n) {
  B *b = l_b(l);
  int rank = b_rank(b, p), last = rank - 1;
  shape s = *b_shape(b, p), row = s;
  int64_t k = b_dim_static(b, p, last);
  row.d[last] = (ir_dim){n, 0};
  Val cdf = b_cumulative(b, RED_SUM, p, last, false), total = b_slice(b, cdf, last, k - 1, k, 1);
  Val u = b_mul(b, unit(l, &row, b_dtype(b, p)), total);
  Val at = b_sum(b, b_cast(b, b_le(b, b_unsqueeze(b, cdf, last), b_unsqueeze(b, u, rank)), DT_I64),
                 1u << rank, false);
  Val place = b_iota(b, DT_I64, &s, last),
      used = b_select(b, b_gt(b, p, m_k(b, p, 0)), place, m_k(b, place, 0));
  return b_minimum(
      b, at,
      b_max(b, used, 1u << last, true)); /* rounding must not reach a weight of 0 behind the last one */
}

static void multinomial(L *l) { /* self, num_samples, replacement */
  B *b = l_b(l);
  Val x = l_tensor(l, 0), index;
  int64_t n = l_int(l, 1);
  int rank = b_rank(b, x), last = rank - 1;
  if (!dt_is_float(b_dtype(b, x)))
    l_fail(l, TPU_RUNTIME, "multinomial only supports floating-point dtypes for input, got: %s",
           tpu_dtype_torch_name(b_dtype(b, x)));
  if (rank < 1 || rank > 2) l_fail(l, TPU_RUNTIME, "prob_dist must be 1 or 2 dim");
  if (n <= 0) l_fail(l, TPU_RUNTIME, "cannot sample n_sample <= 0 samples");
  if (!b_ok(b)) return;
  if (!l_bool(l, 2) && n > b_dim_static(b, x, last))
    l_fail(l, TPU_RUNTIME, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  Val p = m_wide(b, x), zero = m_k(b, p, 0);
  b_check(b, b_and(b, b_ge(b, p, zero), b_is_finite(b, p)), TPU_RUNTIME,
          "probability tensor contains either `inf`, `nan` or element < 0");
  b_check(b, b_gt(b, b_sum(b, p, 1u << last, false), zero), TPU_RUNTIME,
          "invalid multinomial distribution (sum of probabilities <= 0)");
  if (l_bool(l, 2) && n > 1) {
    ret(l, with_replacement(l, p, n));
    return;
  }
  const shape s = *b_shape(b, p);
  Val race = b_div(b, p, expo(l, &s, b_dtype(b, p))); /* the winners of an exponential race */
  if (n == 1)
    index = b_argreduce(b, true, race, last, true, NULL);
  else
    b_topk(b, race, n, last, true, &index);
  ret(l, index);
}

#define P            \
  (ROW_ELEMENTWISE | \
   ROW_RANDOM) /* generic sizes are cut first: the counters are those of the logical shape */
const tpu_row rows_random[] = {
    {"uniform_", fill_random, UNIFORM, P},
    {"normal_", fill_random, NORMAL, P},
    {"exponential_", fill_random, EXPONENTIAL, P},
    {"geometric_", fill_random, GEOMETRIC, P},
    {"cauchy_", fill_random, CAUCHY, P},
    {"log_normal_", fill_random, LOG_NORMAL, P},
    {"normal.Tensor_float", normal, 0, P},
    {"normal.float_Tensor", normal, 0, P},
    {"normal.Tensor_Tensor", normal, 0, P},
    {"random_", random_ints, 0, P},
    {"random_.to", random_ints, 1, P},
    {"random_.from", random_ints, 2, P},
    {"randperm", randperm, 1, ROW_RANDOM},
    {"randperm.generator", randperm, 2, ROW_RANDOM},
    {"bernoulli_.float", bernoulli_number, 0, P},
    {"bernoulli.p", bernoulli_number, 0, P},
    {"bernoulli", bernoulli_tensor, 0, P},
    {"bernoulli_.Tensor", bernoulli_tensor, 1, P},
    {"native_dropout", dropout, 0, P},
    {"native_dropout_backward", dropout_backward, 0, ROW_ELEMENTWISE},
    {"rrelu_with_noise", rrelu, 0, P | ROW_FITS},
    {"multinomial", multinomial, 0, ROW_RANDOM | ROW_SAME_DTYPE},
    {0},
};
