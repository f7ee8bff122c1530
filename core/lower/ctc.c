/* Connectionist temporal classification. The lengths of a batch are ints of the call: a composition hands
 * them to the programs below as numbers, so that a new batch is no new program.
 *
 * l' = blank, t0, blank, t1, ..., blank (2 S + 1 labels); alpha[t][s] = log of the weight of all paths that
 * end at label s at time t, beta the same from the other end. Everything is -inf beyond a sample's lengths.
 */
#include <math.h>

#include "lower/indexing.h"
#include "step/compose.h"

typedef struct ctc {
  int64_t t, n, c, s, labels; /* time, batch, classes, longest target, 2 s + 1 */
  tpu_dtype dt;
  Val probs;         /* [T, N, C] */
  Val label;         /* [N, L] I32, the extended targets */
  Val skips;         /* [N, L] i1: a path may come from two labels before */
  Val input, target; /* lengths, [N, 1] I32 */
  Val lp;            /* [T, N, L]: probs of the labels; -inf beyond the target */
} ctc;

/* --- labels --- */

static Val lengths(L *l, int i, int64_t n) {
  B *b = l_b(l);
  Val v[512];
  if (n > 512) {
    l_decline(l, "ctc_loss of more than 512 samples");
    return BAD;
  }
  for (int k = 0; k < (int)n; k++)
    v[k] = b_unsqueeze(b, b_unsqueeze(b, l_scalar_item(l, i, k, DT_I32), 0), 0);
  return b_concat(b, v, (int)n, 0);
}

/* Targets [N, S], from a matrix or from all targets end to end. */
static Val padded_targets(B *b, const ctc *c, Val targets) {
  shape s = shape_of(2, (int64_t[]){c->n, c->s});
  if (b_rank(b, targets) == 2) return b_cast(b, b_slice(b, targets, 1, 0, c->s, 1), DT_I32);
  int64_t all = b_dim_static(b, targets, 0);
  Val from = b_sub(b, b_cumulative(b, RED_SUM, c->target, 0, false), c->target);
  Val at = b_minimum(b, b_add(b, from, b_iota(b, DT_I32, &s, 1)), b_const_i(b, DT_I32, all - 1));
  return all ? b_cast(b, b_take(b, targets, at, 0), DT_I32) : b_zeros(b, DT_I32, &s);
}

static Val step_iota(B *b, const ctc *c) {
  shape s = shape_of(2, (int64_t[]){c->n, c->labels});
  return b_iota(b, DT_I32, &s, 1);
}

/* x[N, L] moved `by` labels on, -inf (or a label that none is) coming in. */
static Val shifted(B *b, Val x, int64_t by, double fill) {
  return b_pad_axis(b, x, 1, by, -by, b_like(b, x, fill));
}

/* (log_probs, targets, input_lengths, target_lengths, longest, blank, zero_infinity) from argument i on */
static bool read_ctc(L *l, int i, ctc *c) {
  B *b = l_b(l);
  *c = (ctc){.probs = l_tensor(l, i), .s = l_int(l, i + 4)};
  Val targets = l_tensor(l, i + 1);
  if (!b_ok(b)) return false;
  c->dt = b_dtype(b, c->probs);
  c->t = b_dim_static(b, c->probs, 0);
  c->n = b_dim_static(b, c->probs, 1);
  c->c = b_dim_static(b, c->probs, 2);
  c->labels = 2 * c->s + 1;
  c->input = lengths(l, i + 2, c->n);
  c->target = lengths(l, i + 3, c->n);
  if (c->input == BAD || c->target == BAD) return false;
  int64_t blank = l_int(l, i + 5);
  Val t = padded_targets(b, c, targets), at = step_iota(b, c), two = b_const_i(b, DT_I32, 2),
      silent = b_const_i(b, DT_I32, blank);
  shape s = shape_of(2, (int64_t[]){c->n, c->labels});
  Val odd = b_eq(b, b_rem(b, at, two), b_const_i(b, DT_I32, 1)), label = b_full(b, &s, silent);
  if (c->s) label = b_select(b, odd, b_pad_axis(b, b_repeat_interleave(b, t, 1, 2), 1, 0, 1, silent), label);
  Val used = b_le(b, at, b_mul(b, c->target, two));
  b_check(b,
          b_or(b, b_not(b, used),
               b_and(b, b_ge(b, label, b_const_i(b, DT_I32, 0)), b_lt(b, label, b_const_i(b, DT_I32, c->c)))),
          TPU_RUNTIME, "Expected all targets to be classes");
  c->label =
      b_clamp(b, b_const_i(b, DT_I32, 0), b_select(b, used, label, silent), b_const_i(b, DT_I32, c->c - 1));
  c->skips =
      b_and(b, odd, b_and(b, b_ge(b, at, two), b_ne(b, c->label, shifted(b, c->label, c->s ? 2 : 0, -1))));
  s = shape_of(3, (int64_t[]){c->t, c->n, c->labels});
  c->lp = b_gather_axis(b, c->probs, b_broadcast_to(b, c->label, &s), 2);
  c->lp = b_select(b, used, c->lp, b_like(b, c->lp, -INFINITY));
  return b_ok(b);
}

/* log(exp x + exp y + exp z) */
static Val log_sum(B *b, Val x, Val y, Val z) {
  Val top = b_maximum(b, b_maximum(b, x, y), z);
  Val safe = b_select(b, b_eq(b, top, b_like(b, top, -INFINITY)), b_like(b, top, 0), top);
  Val sum = b_add(b, b_add(b, b_exp(b, b_sub(b, x, safe)), b_exp(b, b_sub(b, y, safe))),
                  b_exp(b, b_sub(b, z, safe)));
  return b_add(b, b_log(b, sum), safe);
}

/* --- the two recursions --- */

/* v: time, rows of all times [T, N, L], the last row [N, L] */
static Val more(B *b, void *ctx, const Val *v) {
  return b_lt(b, v[0], b_const_i(b, DT_I32, ((ctc *)ctx)->t));
}

static Val row_at(B *b, const ctc *c, Val all, Val t) {
  Val zero = b_const_i(b, DT_I32, 0);
  return b_squeeze(b, b_dynamic_slice(b, all, (Val[]){t, zero, zero}, (int64_t[]){1, c->n, c->labels}), 0);
}

static Val with_row(B *b, Val all, Val row, Val t) {
  Val zero = b_const_i(b, DT_I32, 0);
  return b_dynamic_update(b, all, b_unsqueeze(b, row, 0), (Val[]){t, zero, zero});
}

static Val two_before(B *b, const ctc *c, Val row) {
  return b_select(b, c->skips, shifted(b, row, c->s ? 2 : 0, -INFINITY), b_like(b, row, -INFINITY));
}

static void alpha_step(B *b, void *ctx, const Val *v, Val *out) {
  const ctc *c = ctx;
  Val sum = c->s ? log_sum(b, v[2], shifted(b, v[2], 1, -INFINITY), two_before(b, c, v[2])) : v[2];
  Val row = b_add(b, sum, row_at(b, c, c->lp, v[0]));
  row = b_select(b, b_lt(b, v[0], c->input), row, b_like(b, row, -INFINITY));
  out[0] = b_add(b, v[0], b_const_i(b, DT_I32, 1));
  out[1] = with_row(b, v[1], row, v[0]);
  out[2] = row;
}

static Val run(B *b, ctc *c, Val first, Val row0, b_region step) {
  shape s = shape_of(3, (int64_t[]){c->t, c->n, c->labels});
  Val v[3] = {first, b_full(b, &s, b_const(b, c->dt, -INFINITY)), row0};
  b_while(b, 3, v, more, step, c, v);
  return v[1];
}

/* A virtual row before time 0 from which the first two labels can be reached. */
static Val alphas(B *b, ctc *c) {
  Val at = step_iota(b, c), zero = b_const(b, c->dt, 0);
  Val row = b_select(b, b_eq(b, at, b_const_i(b, DT_I32, 0)), zero, b_const(b, c->dt, -INFINITY));
  /* label 0 leads to 0 and 1; the skip of label 2 needs an odd label, which is not reached yet */
  return run(b, c, b_const_i(b, DT_I32, 0), row, alpha_step);
}

/* One step of beta: v[0] counts from the end. */
static void beta_step(B *b, void *ctx, const Val *v, Val *out) {
  const ctc *c = ctx;
  Val one = b_const_i(b, DT_I32, 1), t = b_sub(b, b_const_i(b, DT_I32, c->t - 1), v[0]),
      low = b_like(b, v[2], -INFINITY);
  Val at = step_iota(b, c), end = b_mul(b, c->target, b_const_i(b, DT_I32, 2));
  Val first =
          b_select(b, b_or(b, b_eq(b, at, end), b_eq(b, at, b_sub(b, end, one))), b_like(b, v[2], 0), low),
      sum = v[2];
  if (c->s) { /* from one and two labels on; label s + 2 must be one that allows it */
    Val skip = b_pad_axis(b, b_select(b, c->skips, v[2], low), 1, -2, 2, b_like(b, v[2], -INFINITY));
    sum = log_sum(b, v[2], b_pad_axis(b, v[2], 1, -1, 1, b_like(b, v[2], -INFINITY)), skip);
  }
  Val last = b_sub(b, c->input, one);
  Val row = b_add(b, b_select(b, b_eq(b, t, last), first, sum), row_at(b, c, c->lp, t));
  row = b_select(b, b_gt(b, t, last), low, row);
  out[0] = b_add(b, v[0], one);
  out[1] = with_row(b, v[1], row, t);
  out[2] = row;
}

/* --- rows --- */

/* -> negative log likelihood [N], log alpha [N, T, L] */
static void ctc_loss(L *l) {
  B *b = l_b(l);
  ctc c;
  if (!read_ctc(l, 0, &c)) return;
  Val a = alphas(b, &c), one = b_const_i(b, DT_I32, 1), zero = b_const_i(b, DT_I32, 0),
      low = b_const(b, c.dt, -INFINITY);
  shape line = shape_of(1, &c.n);
  Val last = b_maximum(b, b_sub(b, b_squeeze(b, c.input, 1), one), zero),
      row = b_gather_nd(b, a, (Val[]){last, b_iota(b, DT_I32, &line, 0)}, 2);
  Val at = step_iota(b, &c), end = b_mul(b, c.target, b_const_i(b, DT_I32, 2));
  Val hit = b_or(b, b_eq(b, at, end), b_eq(b, at, b_sub(b, end, one)));
  row = b_select(b, hit, row, low);
  Val top = b_max(b, row, 2, true);
  top = b_select(b, b_eq(b, top, low), b_like(b, top, 0), top);
  Val v = b_neg(b, b_squeeze(b, b_add(b, b_log(b, b_sum(b, b_exp(b, b_sub(b, row, top)), 2, true)), top), 1));
  Val nothing = b_and(b, b_eq(b, c.input, zero), b_eq(b, c.target, zero));
  ret(l, b_select(b, b_squeeze(b, nothing, 1), b_like(b, v, 0), v));
  ret(l, b_swap(b, a, 0, 1));
}

/* (grad, then as above, neg_log_likelihood, log_alpha) */
static void ctc_loss_backward(L *l) {
  B *b = l_b(l);
  ctc c;
  if (!read_ctc(l, 1, &c)) return;
  Val nll = l_tensor(l, 8), alpha = b_swap(b, l_tensor(l, 9), 0, 1);
  shape s = shape_of(2, (int64_t[]){c.n, c.labels});
  Val beta = run(b, &c, b_const_i(b, DT_I32, 0), b_full(b, &s, b_const(b, c.dt, -INFINITY)), beta_step);
  Val loss = b_unsqueeze(b, nll, 1), zero = b_const(b, c.dt, 0),
      dead = b_eq(b, c.lp, b_like(b, c.lp, -INFINITY));
  Val w = b_add(b, b_sub(b, b_add(b, alpha, beta), c.lp), loss);
  w = b_select(b, b_or(b, dead, b_eq(b, b_add(b, alpha, beta), b_like(b, w, -INFINITY))), zero, b_exp(b, w));
  shape classes = shape_of(3, (int64_t[]){c.n, c.labels, c.c});
  Val onehot = b_cast(b, b_eq(b, b_unsqueeze(b, c.label, 2), b_iota(b, DT_I32, &classes, 2)), c.dt);
  Val share =
      b_dot_general(b, w, onehot, 1, (int[]){2}, (int[]){1}, 1, (int[]){1}, (int[]){0}); /* [N, T, C] */
  Val p = b_exp(b, c.probs);
  Val g = b_mul(b, b_sub(b, p, b_swap(b, share, 0, 1)), b_unsqueeze(b, l_tensor(l, 0), 1));
  shape full = shape_of(3, (int64_t[]){c.t, c.n, c.c});
  Val live = b_lt(b, b_iota(b, DT_I32, &full, 0), c.input), lost = b_eq(b, loss, b_like(b, loss, INFINITY));
  if (l_bool(l, 7))
    live = b_and(b, live, b_not(b, lost));
  else
    g = b_select(b, lost, b_like(b, g, NAN), g);
  ret(l, b_select(b, live, g, zero));
}

/* --- the host's part --- */

static tpu_error *check_lengths(const tpu_arg *in, const tpu_arg *target, const tpu_tensor *probs,
                                const tpu_tensor *targets, int64_t *longest) {
  if (probs->rank != 3)
    return tpu_err(TPU_RUNTIME, "Expected 3-dimensional log_probs, but got %d dims", probs->rank);
  int64_t steps = probs->sizes[0], batch = probs->sizes[1];
  if (in->n != batch) return tpu_err(TPU_RUNTIME, "input_lengths must be of size batch_size");
  if (target->n != batch) return tpu_err(TPU_RUNTIME, "target_lengths must be of size batch_size");
  *longest = targets->rank == 2 ? targets->sizes[1] : 0;
  for (int64_t k = 0; k < batch; k++) {
    if (in->u.is[k] < 0 || in->u.is[k] > steps)
      return tpu_err(TPU_RUNTIME,
                     "Expected input_lengths to have value at most %lld, but got value %lld (while checking "
                     "arguments for ctc_loss)",
                     (long long)steps, (long long)in->u.is[k]);
    if (target->u.is[k] < 0 || (targets->rank == 2 && target->u.is[k] > *longest))
      return tpu_err(TPU_RUNTIME,
                     "Expected tensor to have size at least %lld at dimension 1, but got size %lld for "
                     "argument #2 'targets' "
                     "(while checking arguments for ctc_loss)",
                     (long long)target->u.is[k], (long long)*longest);
    if (targets->rank != 2 && target->u.is[k] > *longest) *longest = target->u.is[k];
  }
  return NULL;
}

/* The call with its lengths as numbers; i arguments stand before log_probs. */
static tpu_error *ctc_compose(composition *c, int i) {
  const tpu_arg *a = c->call->args;
  const tpu_arg *in = &a[i + 2], *target = &a[i + 3];
  enum { MOST = 512 };
  tpu_arg numbers[2][MOST], args[10];
  int64_t longest = 0;
  TRY(check_lengths(in, target, a[i].u.t, a[i + 1].u.t, &longest));
  if (in->n > MOST || in->n == 0) return c_decline(c, "ctc_loss of no samples, or of more than 512");
  for (uint32_t k = 0; k < in->n; k++) {
    numbers[0][k] = (tpu_arg){.tag = TPU_A_SCALAR_I, .u.i = in->u.is[k]};
    numbers[1][k] = (tpu_arg){.tag = TPU_A_SCALAR_I, .u.i = target->u.is[k]};
  }
  int n = 0;
  for (int k = 0; k < i + 2; k++) args[n++] = a[k];
  for (int k = 0; k < 2; k++) args[n++] = (tpu_arg){.tag = TPU_A_SCALARS, .n = in->n, .u.as = numbers[k]};
  args[n++] = c_int(longest);
  if (!i) { /* (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity) */
    args[n++] = a[4];
    args[n++] = a[5];
  } else { /* (grad, log_probs, targets, lengths, lengths, neg_log_likelihood, log_alpha, blank,
              zero_infinity) */
    args[n++] = a[7];
    args[n++] = a[8];
    args[n++] = a[5];
    args[n++] = a[6];
  }
  const tpu_tensor *out[2];
  TRY(c_run(c, i ? "tpu::ctc_loss_backward" : "tpu::ctc_loss", n, args, i ? 1 : 2, out));
  for (int k = 0; k < (i ? 1 : 2); k++) c_return(c, out[k], out[k]->rank, out[k]->sizes);
  return NULL;
}

static tpu_error *ctc_forward_host(composition *c) { return ctc_compose(c, 0); }
static tpu_error *ctc_backward_host(composition *c) { return ctc_compose(c, 1); }

const tpu_row rows_ctc[] = {{"_ctc_loss", NULL, 0, 0, ctc_forward_host},
                            {"_ctc_loss_backward", NULL, 0, 0, ctc_backward_host},
                            {"tpu::ctc_loss", ctc_loss, 0, ROW_INTERNAL},
                            {"tpu::ctc_loss_backward", ctc_loss_backward, 0, ROW_INTERNAL},
                            {0}};
