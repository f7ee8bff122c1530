/* Scans: cumulative sums, products, extremes, log-sum-exp. */
#include "lower/lower.h"

/* (self, dim, dtype); datum: RED_SUM or RED_PROD */
static void cumulative(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = l_dtype(l, 2);
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

/* log(exp(p) + exp(q)), exact for infinities of one sign; complex numbers are scaled by the real part. */
static Val log_add_exp(B *b, Val p, Val q) {
  bool is_complex = dt_is_complex(b_dtype(b, p));
  Val re = b_real(b, p), im = b_real(b, q), most = b_maximum(b, re, im);
  if (is_complex) {
    Val m = b_select(b, b_isinf(b, most), b_like(b, most, 0), most);
    return b_add(b, b_log(b, b_add(b, b_exp(b, b_sub(b, p, m)), b_exp(b, b_sub(b, q, m)))), m);
  }
  Val sum = b_add(b, most, b_log1p(b, b_exp(b, b_neg(b, b_abs(b, b_sub(b, p, q))))));
  return b_select(b, b_and(b, b_isinf(b, most), b_eq(b, p, q)), p, sum);
}

/* Log-step, as b_cumulative. What comes in from outside is log 0. */
static void logcumsumexp(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int axis = l_axis(l, 1, b_rank(b, x));
  tpu_dtype dt = b_dtype(b, x);
  if (dt_is_integral(dt))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"logcumsumexp_out_cpu\" not implemented for '%s'",
           tpu_dtype_torch_name(dt));
  int64_t n = b_rank(b, x) ? b_dim_static(b, x, axis) : 1;
  Val v = b_cast(b, x, dt_acc(dt)), nothing = b_min_value(b, dt_real(dt_acc(dt)));
  for (int64_t k = 1; k < n && b_ok(b); k *= 2) {
    Val moved = b_pad_axis(b, v, axis, k, -k, b_cast(b, nothing, b_dtype(b, v)));
    v = log_add_exp(b, moved, v);
  }
  ret(l, b_cast(b, v, dt));
}

const tpu_row rows_scan[] = {{"cumsum", cumulative, RED_SUM, ROW_MASK},
                             {"cumprod", cumulative, RED_PROD, ROW_MASK},
                             {"cummax", cumulative_extreme, CUM_MAX, ROW_MASK},
                             {"cummin", cumulative_extreme, 0, ROW_MASK},
                             {"_cummax_helper", cumulative_extreme, CUM_MAX | CUM_HELPER, ROW_NONE},
                             {"_cummin_helper", cumulative_extreme, CUM_HELPER, ROW_NONE},
                             {"logcumsumexp", logcumsumexp, 0, ROW_NONE},
                             {"_logcumsumexp", logcumsumexp, 0, ROW_NONE},
                             {0}};
