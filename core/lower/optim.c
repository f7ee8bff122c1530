/* The fused optimizer steps and the gradient scaler. One program updates every parameter of a group; learning
 * rate, betas and the like are run-time parameters, so a schedule compiles nothing. Numbers of a step are
 * computed in f64, as PyTorch's CPU kernels do. */
#include "lower/math.h"

/* Where the arguments that all optimizers share stand. */
typedef struct args {
  int maximize, grad_scale, found_inf, weight_decay;
} args;

static Val rank0(B *b, Val v) { return b_rank(b, v) ? b_reshape_to(b, v, 0, NULL) : v; }

/* Number at argument i (a float, or a tensor lr) as an f64 scalar. */
static Val number(L *l, int i) {
  if (!l_is_tensor(l, i)) return l_scalar(l, i, DT_F64);
  return b_cast(l_b(l), rank0(l_b(l), l_tensor(l, i)), DT_F64);
}

static Val one_minus(B *b, Val v) { return b_sub(b, m_k(b, v, 1), v); }

/* The new value of item k of argument i; the old one stays when found_inf says that the step is void. */
static void write_item(L *l, const args *a, int i, int k, Val v) {
  B *b = l_b(l);
  Val old = l_item(l, i, k);
  v = b_cast(b, v, b_dtype(b, old));
  if (l_has(l, a->found_inf)) {
    Val found = rank0(b, l_tensor(l, a->found_inf));
    v = b_select(b, b_eq(b, found, m_k(b, found, 1)), old, v);
  }
  l_write(l, i, k, v);
}

/* Gradient k, unscaled (and then written back) and turned round where the loss is maximised. */
static Val gradient(L *l, const args *a, int k) {
  B *b = l_b(l);
  Val g = m_wide(b, l_item(l, 1, k));
  if (l_has(l, a->grad_scale)) {
    g = b_div(b, g, b_cast(b, rank0(b, l_tensor(l, a->grad_scale)), b_dtype(b, g)));
    write_item(l, a, 1, k, g);
  }
  return l_bool(l, a->maximize) ? b_neg(b, g) : g;
}

static Val decayed(L *l, const args *a, Val g, Val p) { /* g + weight_decay * p */
  B *b = l_b(l);
  if (l_scalar_is(l, a->weight_decay, 0)) return g;
  return b_add(b, g, b_mul(b, p, b_cast(b, number(l, a->weight_decay), b_dtype(b, p))));
}

/* self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps,
 * amsgrad, maximize, grad_scale, found_inf. datum: 1 for AdamW (decay of the parameter, not of the gradient).
 */
static void adam(L *l) {
  static const args a = {.maximize = 12, .grad_scale = 13, .found_inf = 14, .weight_decay = 9};
  B *b = l_b(l);
  Val lr = number(l, 6), beta1 = number(l, 7), beta2 = number(l, 8), eps = number(l, 10);
  for (int k = 0, n = l_len(l, 0); k < n; k++) {
    Val p = m_wide(b, l_item(l, 0, k)), m = m_wide(b, l_item(l, 2, k)), v = m_wide(b, l_item(l, 3, k));
    Val step = rank0(b, b_cast(b, l_item(l, 5, k), DT_F64));
    tpu_dtype dt = b_dtype(b, p);
    Val size = b_cast(b, b_neg(b, b_div(b, lr, one_minus(b, b_pow(b, beta1, step)))), dt);
    Val root = b_cast(b, b_sqrt(b, one_minus(b, b_pow(b, beta2, step))), dt);
    Val g = gradient(l, &a, k), w1 = b_cast(b, one_minus(b, beta1), dt),
        w2 = b_cast(b, one_minus(b, beta2), dt);
    if (!l_datum(l))
      g = decayed(l, &a, g, p);
    else if (!l_scalar_is(l, a.weight_decay, 0))
      p = b_mul(b, p, b_cast(b, one_minus(b, b_mul(b, lr, number(l, a.weight_decay))), dt));
    m = b_add(b, m, b_mul(b, w1, b_sub(b, g, m)));
    v = b_add(b, b_mul(b, v, b_cast(b, beta2, dt)), b_mul(b, w2, b_mul(b, g, g)));
    write_item(l, &a, 2, k, m);
    write_item(l, &a, 3, k, v);
    if (l_bool(l, 11)) {
      v = b_maximum(b, m_wide(b, l_item(l, 4, k)), v);
      write_item(l, &a, 4, k, v);
    }
    Val denom = b_add(b, b_div(b, b_sqrt(b, v), root), b_cast(b, eps, dt));
    write_item(l, &a, 0, k, b_add(b, p, b_div(b, b_mul(b, size, m), denom)));
  }
}

/* self, grads, momentum_buffers, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
 * grad_scale, found_inf */
static void sgd(L *l) {
  static const args a = {.maximize = 8, .grad_scale = 10, .found_inf = 11, .weight_decay = 3};
  B *b = l_b(l);
  bool momentum = !l_scalar_is(l, 4, 0) && l_len(l, 2);
  for (int k = 0, n = l_len(l, 0); k < n; k++) {
    Val p = m_wide(b, l_item(l, 0, k)), g = decayed(l, &a, gradient(l, &a, k), p);
    tpu_dtype dt = b_dtype(b, p);
    if (momentum) {
      Val mu = b_cast(b, number(l, 4), dt), buf = g;
      if (!l_bool(l, 9))
        buf = b_add(b, b_mul(b, m_wide(b, l_item(l, 2, k)), mu),
                    b_mul(b, g, b_cast(b, one_minus(b, number(l, 6)), dt)));
      write_item(l, &a, 2, k, buf);
      g = l_bool(l, 7) ? b_add(b, g, b_mul(b, buf, mu)) : buf;
    }
    write_item(l, &a, 0, k, b_sub(b, p, b_mul(b, g, b_cast(b, number(l, 5), dt))));
  }
}

/* self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf */
static void adagrad(L *l) {
  static const args a = {.maximize = 8, .grad_scale = 9, .found_inf = 10, .weight_decay = 6};
  B *b = l_b(l);
  for (int k = 0, n = l_len(l, 0); k < n; k++) {
    Val p = m_wide(b, l_item(l, 0, k)), g = decayed(l, &a, gradient(l, &a, k), p);
    Val step = rank0(b, b_cast(b, l_item(l, 3, k), DT_F64)), one = m_k(b, step, 1);
    tpu_dtype dt = b_dtype(b, p);
    Val rate = b_div(b, number(l, 4), b_add(b, one, b_mul(b, b_sub(b, step, one), number(l, 5))));
    Val sum = b_add(b, m_wide(b, l_item(l, 2, k)), b_mul(b, g, g));
    write_item(l, &a, 2, k, sum);
    Val denom = b_add(b, b_sqrt(b, sum), b_cast(b, number(l, 7), dt));
    write_item(l, &a, 0, k, b_sub(b, p, b_div(b, b_mul(b, b_cast(b, rate, dt), g), denom)));
  }
}

/* --- gradient scaler --- */

/* self[], found_inf, inv_scale: scales the gradients and notes whether one is not finite. */
static void unscale(L *l) {
  B *b = l_b(l);
  Val found = l_tensor(l, 1), inv = rank0(b, l_tensor(l, 2)), bad = b_ne(b, found, m_k(b, found, 0));
  for (int k = 0, n = l_len(l, 0); k < n; k++) {
    Val g = l_item(l, 0, k), w = m_wide(b, g);
    Val good = b_reduce(b, RED_AND, b_is_finite(b, g), axes_all(b_rank(b, g)), false);
    bad = b_or(b, bad, b_not(b, good));
    l_write(l, 0, k, b_cast(b, b_mul(b, w, b_cast(b, inv, b_dtype(b, w))), b_dtype(b, g)));
  }
  l_write(l, 1, 0, b_select(b, bad, m_k(b, found, 1), found));
}

/* self (scale), growth_tracker, found_inf, growth factor, backoff factor, growth_interval */
static void update_scale(L *l) {
  B *b = l_b(l);
  Val scale = l_tensor(l, 0), tracker = l_tensor(l, 1), found = l_tensor(l, 2);
  tpu_dtype dt = b_dtype(b, scale);
  Val bad = b_ne(b, rank0(b, found), m_k(b, found, 0)), next = b_add(b, tracker, m_k(b, tracker, 1));
  Val full = b_eq(b, next, b_const_i(b, b_dtype(b, tracker), l_int(l, 5)));
  Val grown = b_mul(b, scale, l_scalar(l, 3, dt));
  grown = b_select(b, b_and(b, full, b_is_finite(b, grown)), grown, scale);
  ret(l, b_select(b, bad, b_mul(b, scale, l_scalar(l, 4, dt)), grown));
  l_write(l, 1, 0, b_select(b, b_or(b, bad, full), m_k(b, tracker, 0), next));
}

#define O (ROW_ELEMENTWISE | ROW_FLOAT_PARAM)
const tpu_row rows_optim[] = {
    {"_fused_adam_", adam, 0, O},
    {"_fused_adam_.tensor_lr", adam, 0, O},
    {"_fused_adamw_", adam, 1, O},
    {"_fused_adamw_.tensor_lr", adam, 1, O},
    {"_fused_sgd_", sgd, 0, O},
    {"_fused_sgd_.tensor_lr", sgd, 0, O},
    {"_fused_adagrad_", adagrad, 0, O},
    {"_fused_adagrad_.tensor_lr", adagrad, 0, O},
    {"_amp_foreach_non_finite_check_and_unscale_", unscale, 0, 0},
    {"_amp_update_scale_", update_scale, 0, ROW_ELEMENTWISE | ROW_FLOAT_PARAM},
    {0},
};
