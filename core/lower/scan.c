/* Scans: cumulative sums, products, extremes, log-sum-exp. */
#include <math.h>

#include "lower/indexing.h"

/* (self, dim, dtype); datum: RED_SUM or RED_PROD */
static void cumulative(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = l_dtype(l, 2), to = l_written_dtype(l);
  if (dt != DT_NONE && to != DT_NONE && dt != to)
    l_fail(l, TPU_RUNTIME, "Expected out tensor to have dtype %s, but got %s instead",
           tpu_dtype_torch_name(dt), tpu_dtype_torch_name(to));
  if (dt == DT_NONE) dt = to;
  if (dt == DT_BOOL) l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s_out_cpu\" not implemented for 'Bool'", l_name(l));
  int axis = l_axis(l, 1, b_rank(b, x));
  if (dt == DT_NONE) dt = dt_is_integral(b_dtype(b, x)) ? DT_I64 : b_dtype(b, x);
  ret(l, b_cumulative(b, (b_red)l_datum(l), b_cast(b, x, dt), axis, false));
}

enum { CUM_MAX = 1, CUM_HELPER = 2 };

/* cummax, cummin: (self, dim); the helpers: (self, values!, indices!, dim) */
static void cumulative_extreme(L *l) {
  B *b = l_b(l);
  bool helper = l_datum(l) & CUM_HELPER;
  Val x = l_tensor(l, 0), value;
  int axis = l_axis(l, helper ? 3 : 1, b_rank(b, x));
  Val at = b_cum_arg(b, l_datum(l) & CUM_MAX, x, axis, &value);
  if (helper) {
    l_write(l, 1, 0, value);
    l_write(l, 2, 0, at);
  } else {
    ret(l, value);
    ret(l, at);
  }
}

/* log(exp(p) + exp(q)), exact for infinities of one sign. */
static Val log_add_exp(B *b, Val p, Val q) {
  Val most = b_maximum(b, p, q), one_sign = b_and(b, b_isinf(b, most), b_eq(b, p, q));
  Val sum = b_add(b, most, b_log1p(b, b_exp(b, b_neg(b, b_abs(b, b_sub(b, p, q))))));
  return b_select(b, one_sign, p, sum);
}

/* The same for complex numbers, as torch has it: from the one of the greater real part, so that the imaginary
 * part is not brought back into (-pi, pi]. */
static Val complex_log_add_exp(B *b, Val p, Val q) {
  Val re = b_real(b, p), im = b_real(b, q), swap = b_gt(b, re, im),
      nan = b_or(b, b_isnan(b, p), b_isnan(b, q));
  Val least = b_select(b, swap, q, p), most = b_select(b, swap, p, q);
  Val low = b_and(b, b_eq(b, re, im), b_eq(b, re, b_like(b, re, -INFINITY)));
  Val high = b_and(b, b_eq(b, re, im), b_eq(b, re, b_like(b, re, INFINITY)));
  Val sum = b_add(b, most, b_log1p(b, b_exp(b, b_sub(b, least, most))));
  sum = b_select(b, high, b_log(b, b_add(b, b_exp(b, p), b_exp(b, q))), b_select(b, low, least, sum));
  return b_select(b, nan, b_const_c(b, b_dtype(b, p), NAN, NAN), sum);
}

/* Log-step over shifted copies. What comes in from outside is log 0. */
static Val real_scan(B *b, Val v, int axis, int64_t n) {
  Val nothing = b_min_value(b, b_dtype(b, v));
  for (int64_t k = 1; k < n && b_ok(b); k *= 2) v = log_add_exp(b, b_pad_axis(b, v, axis, k, -k, nothing), v);
  return v;
}

typedef struct steps {
  Val x; /* the axis in front */
  int64_t n;
} steps;

static Val row_of(B *b, Val x, Val i) {
  const shape *s = b_shape(b, x);
  Val at[IR_MAX_RANK];
  int64_t sizes[IR_MAX_RANK];
  for (int k = 0; k < s->rank; k++) {
    at[k] = k ? b_const_i(b, DT_I32, 0) : i;
    sizes[k] = k ? s->d[k].n : 1;
  }
  return b_dynamic_slice(b, x, at, sizes);
}

/* args: the place, the sum so far, the result */
static void complex_step(B *b, void *ctx, const Val *args, Val *results) {
  steps *s = ctx;
  Val at[IR_MAX_RANK] = {args[0]};
  for (int k = 1; k < b_rank(b, s->x); k++) at[k] = b_const_i(b, DT_I32, 0);
  results[0] = b_add(b, args[0], b_const_i(b, DT_I32, 1));
  results[1] = complex_log_add_exp(b, row_of(b, s->x, args[0]), args[1]);
  results[2] = b_dynamic_update(b, args[2], results[1], at);
}

static Val steps_left(B *b, void *ctx, const Val *args) {
  return b_lt(b, args[0], b_const_i(b, DT_I32, ((steps *)ctx)->n));
}

/* One after the other: of complex logarithms, another order may be another branch. */
static Val complex_scan(B *b, Val v, int axis, int64_t n) {
  steps s = {ix_move(b, v, axis, 0), n};
  Val one = b_const_i(b, DT_I32, 1), out[3];
  if (!b_ok(b) || n < 2 || b_numel_static(b, v) == 0) return v;
  b_while(b, 3, (Val[]){one, row_of(b, s.x, b_const_i(b, DT_I32, 0)), s.x}, steps_left, complex_step, &s,
          out);
  return ix_move(b, out[2], 0, axis);
}

static void logcumsumexp(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int axis = l_axis(l, 1, b_rank(b, x));
  tpu_dtype dt = b_dtype(b, x);
  if (dt_is_integral(dt))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"logcumsumexp_out_cpu\" not implemented for '%s'",
           tpu_dtype_torch_name(dt));
  if (!b_ok(b)) return;
  Val v = ix_room(b, b_cast(b, x, dt_acc(dt)), BAD); /* padding is behind the data */
  int64_t n = b_rank(b, x) ? b_dim_static(b, v, axis) : 1;
  v = dt_is_complex(dt) ? complex_scan(b, v, axis, n) : real_scan(b, v, axis, n);
  if (b_ok(b)) ret(l, b_cast(b, b_relabel(b, v, b_shape(b, x)), dt));
}

const tpu_row rows_scan[] = {{"cumsum", cumulative, RED_SUM, ROW_OVERLAP_SELF},
                             {"cumprod", cumulative, RED_PROD, ROW_OVERLAP_SELF},
                             {"cummax", cumulative_extreme, CUM_MAX, ROW_SAME_DTYPE},
                             {"cummin", cumulative_extreme, 0, ROW_SAME_DTYPE},
                             {"_cummax_helper", cumulative_extreme, CUM_MAX | CUM_HELPER, 0},
                             {"_cummin_helper", cumulative_extreme, CUM_HELPER, 0},
                             {"logcumsumexp", logcumsumexp, 0, ROW_OVERLAP_SELF | ROW_SAME_DTYPE},
                             {"_logcumsumexp", logcumsumexp, 0, ROW_SAME_DTYPE},
                             {0}};
