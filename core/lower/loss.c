/* Losses and their gradients. Computed in the accumulation dtype; reduction 0 none, 1 mean, 2 sum. */
#include "lower/indexing.h"

enum { NONE, MEAN, SUM };

static Val wide(L *l, int i, tpu_dtype acc) { return b_cast(l_b(l), l_tensor(l, i), acc); }

/* Elementwise losses -> the result, rounded to dt. */
static Val reduced(B *b, Val v, int64_t reduction, tpu_dtype dt) {
  uint32_t all = axes_all(b_rank(b, v));
  if (reduction == MEAN) v = b_mean(b, v, all, false);
  if (reduction == SUM) v = b_sum(b, v, all, false);
  return b_cast(b, v, dt);
}

/* What the gradient of each element of x is multiplied by: grad, over the number of elements for a mean. */
static Val seed(L *l, int i, Val x, int64_t reduction) {
  B *b = l_b(l);
  tpu_dtype acc = b_dtype(b, x);
  Val g = wide(l, i, acc);
  return reduction == MEAN ? b_div(b, g, b_numel(b, x, acc)) : g;
}

/* --- of a difference --- */

enum { D_MSE, D_SMOOTH, D_HUBER };

/* (self, target, reduction[, beta or delta]) */
static void difference(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_result_type2(l, 0, 1), acc = dt_acc(dt);
  Val d = b_sub(b, wide(l, 0, acc), wide(l, 1, acc)), v, half = b_const(b, acc, 0.5);
  double beta = l_datum(l) == D_MSE ? 0 : l_double(l, 3);
  if (l_datum(l) == D_HUBER && beta <= 0)
    l_fail(l, TPU_RUNTIME, "huber_loss does not support non-positive values for delta.");
  if (l_datum(l) == D_SMOOTH && beta < 0)
    l_fail(l, TPU_RUNTIME, "smooth_l1_loss does not support negative values for beta.");
  if (l_datum(l) == D_MSE) {
    v = b_mul(b, d, d);
  } else {
    Val a = b_abs(b, d), k = b_const(b, acc, beta), small = b_mul(b, half, b_mul(b, a, a)),
        large = b_sub(b, a, b_mul(b, half, k));
    if (l_datum(l) == D_HUBER)
      v = b_select(b, b_le(b, a, k), small, b_mul(b, k, large));
    else if (beta == 0)
      v = a;
    else
      v = b_select(b, b_lt(b, a, k), b_div(b, small, k), large);
  }
  ret(l, reduced(b, v, l_int(l, 2), dt));
}

/* (grad, self, target, reduction[, beta or delta]) */
static void difference_backward(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_result_type(l, 3, (int[]){0, 1, 2}), acc = dt_acc(dt);
  Val d = b_sub(b, wide(l, 1, acc), wide(l, 2, acc)), slope;
  if (l_datum(l) == D_MSE) {
    slope = b_mul(b, d, b_const(b, acc, 2));
  } else {
    Val k = b_const(b, acc, l_double(l, 4)), low = b_neg(b, k), sign = b_sign(b, d);
    if (l_datum(l) == D_HUBER)
      slope = b_select(b, b_le(b, d, low), low, b_select(b, b_ge(b, d, k), k, d));
    else
      slope = b_select(b, b_lt(b, b_abs(b, d), k), b_div(b, d, k), sign);
  }
  ret(l, b_cast(b, b_mul(b, slope, seed(l, 0, d, l_int(l, 3))), dt));
}

/* --- of a probability --- */

static void check_unit(L *l, Val x, const char *what) {
  B *b = l_b(l);
  b_check(b, b_not(b, b_or(b, b_lt(b, x, b_like(b, x, 0)), b_gt(b, x, b_like(b, x, 1)))), TPU_RUNTIME, what);
}

static void same_size(L *l, const char *op, Val x, Val y) {
  const shape *p = b_shape(l_b(l), x), *q = b_shape(l_b(l), y);
  bool same = p->rank == q->rank;
  for (int i = 0; same && i < p->rank; i++) same = p->d[i].sym || q->d[i].sym || p->d[i].n == q->d[i].n;
  if (!same) l_fail(l, TPU_RUNTIME, "%s: the sizes of input and target differ", op);
}

/* (self, target, weight, reduction) */
static void bce(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, l_tensor(l, 0)), acc = dt_acc(dt);
  Val x = wide(l, 0, acc), t = wide(l, 1, acc), one = b_const(b, acc, 1), floor = b_const(b, acc, -100);
  same_size(l, "binary_cross_entropy", x, t);
  check_unit(l, x, "all elements of input should be between 0 and 1");
  check_unit(l, t, "all elements of target should be between 0 and 1");
  Val no = b_mul(b, b_sub(b, t, one), b_maximum(b, b_log1p(b, b_neg(b, x)), floor)),
      yes = b_mul(b, t, b_maximum(b, b_log(b, x), floor));
  Val v = b_sub(b, no, yes);
  if (l_has(l, 2)) v = b_mul(b, v, wide(l, 2, acc));
  ret(l, reduced(b, v, l_int(l, 3), dt));
}

/* (grad, self, target, weight, reduction) */
static void bce_backward(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, l_tensor(l, 1)), acc = dt_acc(dt);
  Val x = wide(l, 1, acc), t = wide(l, 2, acc), one = b_const(b, acc, 1);
  Val under = b_maximum(b, b_mul(b, b_sub(b, one, x), x), b_const(b, acc, 1e-12));
  Val v = b_div(b, b_mul(b, seed(l, 0, x, l_int(l, 4)), b_sub(b, x, t)), under);
  if (l_has(l, 3)) v = b_mul(b, v, wide(l, 3, acc));
  ret(l, b_cast(b, v, dt));
}

/* binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction) */
static void bce_logits(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_result_type2(l, 0, 1), acc = dt_acc(dt);
  Val x = wide(l, 0, acc), t = wide(l, 1, acc), zero = b_const(b, acc, 0), one = b_const(b, acc, 1);
  same_size(l, "binary_cross_entropy_with_logits", x, t);
  Val soft = b_add(b, b_log1p(b, b_exp(b, b_neg(b, b_abs(b, x)))),
                   b_maximum(b, b_neg(b, x), zero)); /* -log sigmoid(x) */
  if (l_has(l, 3)) soft = b_mul(b, soft, b_add(b, b_mul(b, b_sub(b, wide(l, 3, acc), one), t), one));
  Val v = b_add(b, b_mul(b, b_sub(b, one, t), x), soft);
  if (l_has(l, 2)) v = b_mul(b, v, wide(l, 2, acc));
  ret(l, reduced(b, v, l_int(l, 4), dt));
}

/* soft_margin_loss(self, target, reduction), log(1 + exp(-t * x)) */
static void soft_margin(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_result_type2(l, 0, 1), acc = dt_acc(dt);
  Val z = b_mul(b, b_neg(b, wide(l, 1, acc)), wide(l, 0, acc));
  ret(l, reduced(b, b_log1p(b, b_exp(b, z)), l_int(l, 2), dt));
}

/* (grad, self, target, reduction) */
static void soft_margin_backward(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_result_type2(l, 1, 2), acc = dt_acc(dt);
  Val x = wide(l, 1, acc), t = b_neg(b, wide(l, 2, acc)), z = b_exp(b, b_mul(b, t, x));
  Val v = b_div(b, b_mul(b, t, z), b_add(b, z, b_like(b, z, 1)));
  ret(l, b_cast(b, b_mul(b, v, seed(l, 0, v, l_int(l, 3))), dt));
}

/* --- negative log likelihood --- */

/* x [N, C, ...] or [C], target without the classes. */
typedef struct nll {
  Val x, target; /* the target: ignored places made 0 */
  Val counts;    /* i1: not ignored */
  Val weight;    /* of each place, 0 where ignored; in the accumulation dtype */
  int axis;      /* of the classes */
} nll;

/* self, target, weight, reduction, ignore_index from argument i on. Gradients (i > 0) do not check the
 * classes again. */
static bool read_nll(L *l, int i, bool image, nll *n) {
  B *b = l_b(l);
  Val x = l_tensor(l, i), t = l_tensor(l, i + 1);
  const shape *xs = b_shape(b, x), *ts = b_shape(b, t);
  tpu_dtype acc = dt_acc(b_dtype(b, x)), tdt = b_dtype(b, t);
  if (image && (xs->rank != 4 || ts->rank != 3))
    l_fail(l, TPU_RUNTIME, "only batches of spatial %s supported (3D tensors) but got %s of dimension: %d",
           ts->rank != 3 ? "targets" : "inputs", ts->rank != 3 ? "targets" : "inputs",
           ts->rank != 3 ? ts->rank : xs->rank);
  if (!image && (xs->rank < 1 || xs->rank > 2)) l_fail(l, TPU_RUNTIME, "input tensor should be 1D or 2D");
  if (!image && ts->rank > 1)
    l_fail(l, TPU_RUNTIME, "0D or 1D target tensor expected, multi-target not supported");
  if (tdt != DT_I64 && tdt != DT_U8)
    l_fail(l, TPU_RUNTIME, "expected target dtype to be Long or Byte, but got %s", tpu_dtype_torch_name(tdt));
  if (!b_ok(b)) return false;
  if (xs->rank == 1 && ts->rank == 1) { /* a batch of one */
    t = b_squeeze(b, t, 0);
    ts = b_shape(b, t);
  }
  n->x = x;
  n->axis = xs->rank == 1 ? 0 : 1;
  for (int a = 0, k = 0; a < xs->rank; a++) {
    if (a == n->axis) continue;
    if (!ix_same(xs->d[a], ts->d[k]))
      l_fail(l, TPU_RUNTIME, "size mismatch (got input: [%lld, %lld], target: [%lld])", (long long)xs->d[0].n,
             (long long)xs->d[1].n, (long long)ts->d[0].n);
    k++;
  }
  if (!b_ok(b)) return false;
  ir_dim classes = xs->d[n->axis];
  Val ignored = b_eq(b, b_cast(b, t, DT_I64), b_const_i(b, DT_I64, l_int(l, i + 4)));
  t = b_select(b, ignored, b_const_i(b, DT_I64, 0), b_cast(b, t, DT_I64));
  n->target = classes.n ? ix_ready(l, t, x, n->axis, i ? IX_UNCHECKED : IX_EXACT, TPU_INDEX,
                                   "Target is out of bounds.")
                        : t;
  n->weight = b_const(b, acc, 1);
  if (l_has(l, i + 2)) {
    Val w = l_tensor(l, i + 2);
    ir_dim have = b_rank(b, w) == 1 ? b_shape(b, w)->d[0] : (ir_dim){-1, 0};
    if (have.n < 0 || (!classes.sym && !have.sym && have.n != classes.n))
      l_fail(l, TPU_RUNTIME,
             "weight tensor should be defined either for all %lld classes or no classes but got weight "
             "tensor of shape: [%lld]",
             (long long)classes.n, (long long)(b_rank(b, w) ? b_shape(b, w)->d[0].n : 1));
    n->weight = b_take(b, b_cast(b, w, acc), n->target, 0);
  }
  n->counts = b_not(b, ignored);
  n->weight = b_select(b, ignored, b_const(b, acc, 0), n->weight);
  return b_ok(b);
}

/* (self, target, weight, reduction, ignore_index) -> output, total_weight; datum: images */
static void nll_loss(L *l) {
  B *b = l_b(l);
  nll n;
  if (!read_nll(l, 0, l_datum(l), &n)) return;
  tpu_dtype dt = b_dtype(b, n.x), acc = dt_acc(dt);
  int64_t reduction = l_int(l, 3);
  Val v = b_squeeze(b, b_gather_axis(b, n.x, b_unsqueeze(b, n.target, n.axis), n.axis), n.axis);
  v = b_neg(b, b_mul(b, b_cast(b, v, acc), n.weight));
  v = b_select(b, n.counts, v, b_const(b, acc, 0)); /* whatever stands in ignored places */
  if (reduction == NONE) {
    ret(l, b_cast(b, v, dt));
    ret(l, b_const(b, dt, 0));
    return;
  }
  uint32_t all = axes_all(b_rank(b, v));
  Val sum = b_sum(b, v, all, false), total = b_sum(b, n.weight, all, false);
  ret(l, b_cast(b, reduction == MEAN ? b_div(b, sum, total) : sum, dt));
  ret(l, b_cast(b, total, dt));
}

/* (grad, self, target, weight, reduction, ignore_index, total_weight) */
static void nll_loss_backward(L *l) {
  B *b = l_b(l);
  nll n;
  if (!read_nll(l, 1, l_datum(l), &n)) return;
  tpu_dtype dt = b_dtype(b, n.x), acc = dt_acc(dt);
  int64_t reduction = l_int(l, 4);
  Val g = wide(l, 0, acc);
  if (reduction == MEAN) g = b_div(b, g, wide(l, 6, acc));
  if (b_rank(b, g) == 1 && b_rank(b, n.target) == 0) g = b_squeeze(b, g, 0);
  Val v = b_neg(b, b_mul(b, g, n.weight));
  v = b_select(b, n.counts, v, b_const(b, acc, 0));
  Val class = b_iota(b, DT_I64, b_shape(b, n.x), n.axis),
      hit = b_eq(b, class, b_cast(b, b_unsqueeze(b, n.target, n.axis), DT_I64));
  v = b_select(b, hit, b_unsqueeze(b, b_broadcast_to(b, v, b_shape(b, n.target)), n.axis),
               b_const(b, acc, 0));
  ret(l, b_cast(b, v, dt));
}

/* --- margins over classes --- */

/* x as [N, C]; *one: it was [C] (or a number). */
static Val rows_of(B *b, Val x, bool *one) {
  *one = b_rank(b, x) < 2;
  if (b_rank(b, x) == 0) x = b_unsqueeze(b, x, 0);
  return *one ? b_unsqueeze(b, x, 0) : x;
}

typedef struct margins {
  Val x, hit, z, weight; /* [N, C] values, where the target is, max(0, margin - x[target] + x) elsewhere; [N,
                            1] weights */
  bool one, squared;
} margins;

static void expect_long(L *l, Val target) {
  tpu_dtype dt = b_dtype(l_b(l), target);
  if (dt != DT_I64)
    l_fail(l, TPU_RUNTIME, "expected scalar type Long but found %s", tpu_dtype_torch_name(dt));
}

/* (self, target, p, margin, weight, ...) from argument i on */
static bool read_margins(L *l, int i, margins *m) {
  B *b = l_b(l);
  Val x = l_tensor(l, i), t = l_tensor(l, i + 1);
  tpu_dtype acc = dt_acc(b_dtype(b, x));
  if (b_rank(b, x) > 2 || b_rank(b, t) > 1)
    l_fail(l, TPU_RUNTIME,
           "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %d dims",
           b_rank(b, x));
  if (!l_scalar_is(l, i + 2, 1) && !l_scalar_is(l, i + 2, 2))
    l_fail(l, TPU_RUNTIME, "only p == 1 and p == 2 supported");
  expect_long(l, t);
  if (!b_ok(b)) return false;
  m->squared = l_scalar_is(l, i + 2, 2);
  m->x = rows_of(b, b_cast(b, x, acc), &m->one);
  if (b_rank(b, t) == 0) t = b_unsqueeze(b, t, 0);
  ir_dim n = b_shape(b, m->x)->d[0], have = b_shape(b, t)->d[0];
  if (!n.sym && !have.sym && n.n != have.n)
    l_fail(l, TPU_RUNTIME, "inconsistent target size, expected %lld but got %lld", (long long)n.n,
           (long long)have.n);
  t = ix_ready(l, t, m->x, 1, i ? IX_UNCHECKED : IX_EXACT, TPU_RUNTIME, "target out of range");
  if (!b_ok(b)) return false;
  m->weight = l_has(l, i + 4) ? b_unsqueeze(b, b_take(b, wide(l, i + 4, acc), t, 0), 1) : b_const(b, acc, 1);
  t = b_unsqueeze(b, t, 1);
  Val own = b_gather_axis(b, m->x, t, 1), zero = b_const(b, acc, 0);
  m->hit = b_eq(b, b_iota(b, DT_I64, b_shape(b, m->x), 1), b_cast(b, t, DT_I64));
  Val z = b_add(b, b_sub(b, l_scalar(l, i + 3, acc), own), m->x);
  m->z = b_select(b, m->hit, zero, b_maximum(b, z, zero));
  return b_ok(b);
}

/* (self, target, p, margin, weight, reduction) */
static void multi_margin(L *l) {
  B *b = l_b(l);
  margins m;
  if (!read_margins(l, 0, &m)) return;
  tpu_dtype dt = b_dtype(b, l_tensor(l, 0));
  Val v = b_mul(b, m.squared ? b_mul(b, m.z, m.z) : m.z, m.weight);
  v = b_div(b, b_sum(b, v, 2, false), b_size(b, m.x, 1, b_dtype(b, v)));
  if (m.one && l_int(l, 5) == NONE) v = b_squeeze(b, v, 0);
  ret(l, reduced(b, v, l_int(l, 5), dt));
}

/* (grad, self, target, p, margin, weight, reduction) */
static void multi_margin_backward(L *l) {
  B *b = l_b(l);
  margins m;
  if (!read_margins(l, 1, &m)) return;
  Val x = l_tensor(l, 1), zero = b_like(b, m.z, 0), g = wide(l, 0, b_dtype(b, m.x));
  Val h =
      m.squared ? b_mul(b, m.z, b_like(b, m.z, 2)) : b_select(b, b_gt(b, m.z, zero), b_like(b, m.z, 1), zero);
  h = b_div(b, b_mul(b, h, m.weight), b_size(b, m.x, 1, b_dtype(b, h)));
  h = b_select(b, m.hit, b_neg(b, b_sum(b, h, 2, true)), h);
  if (l_int(l, 6) == MEAN) g = b_div(b, g, b_size(b, m.x, 0, b_dtype(b, g)));
  if (b_rank(b, g) == 1) g = b_unsqueeze(b, g, 1);
  ret(l, b_cast(b, b_reshape(b, b_mul(b, h, g), b_shape(b, x)), b_dtype(b, x)));
}

/* Multi-label: the targets of a row are its entries before the first negative one. */
typedef struct labels {
  Val z; /* [N, C (label j), C (class c)]: max(0, 1 - x[t_j] + x[c]), 0 where j is no label or c is a target
          */
  Val is_target; /* [N, C] i1 */
  Val onehot;    /* [N, j, c] i1: label j names class c */
  bool one;
  Val classes; /* how many */
} labels;

static bool read_labels(L *l, int i, labels *m) {
  B *b = l_b(l);
  Val x = l_tensor(l, i), t = l_tensor(l, i + 1);
  bool unused;
  if (b_rank(b, x) > 2 || !shape_equal(b_shape(b, x), b_shape(b, t)))
    l_fail(l, TPU_RUNTIME, "inconsistent target size for multilabel_margin_loss");
  expect_long(l, t);
  if (!b_ok(b)) return false;
  x = rows_of(b, b_cast(b, x, dt_acc(b_dtype(b, x))), &m->one);
  t = rows_of(b, b_cast(b, t, DT_I64), &unused);
  m->classes = b_size(b, x, 1, DT_I64);
  Val none = b_const_i(b, DT_I64, 0);
  Val label = b_eq(b, b_cumulative(b, RED_SUM, b_cast(b, b_lt(b, t, none), DT_I32), 1, false),
                   b_const_i(b, DT_I32, 0));
  b_check(b, b_lt(b, t, m->classes), TPU_RUNTIME, "argument #3 is out of range");
  shape s = *b_shape(b, x);
  s.rank = 3;
  s.d[2] = s.d[1];
  m->onehot = b_and(b, b_unsqueeze(b, label, 2), b_eq(b, b_unsqueeze(b, t, 2), b_iota(b, DT_I64, &s, 2)));
  m->is_target = b_reduce(b, RED_OR, m->onehot, 2, false);
  Val zero = b_like(b, x, 0), own = b_sum(b, b_select(b, m->onehot, b_unsqueeze(b, x, 1), zero), 4, true);
  Val z = b_maximum(b, b_add(b, b_sub(b, b_like(b, x, 1), own), b_unsqueeze(b, x, 1)), zero);
  Val counts = b_and(b, b_unsqueeze(b, label, 2), b_not(b, b_unsqueeze(b, m->is_target, 1)));
  m->z = b_select(b, counts, z, zero);
  return b_ok(b);
}

/* (self, target, reduction) -> output, is_target */
static void multilabel_margin(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  labels m;
  if (!read_labels(l, 0, &m)) return;
  Val v = b_div(b, b_sum(b, m.z, 6, false), b_cast(b, m.classes, b_dtype(b, m.z)));
  if (m.one && l_int(l, 2) == NONE) v = b_squeeze(b, v, 0);
  ret(l, reduced(b, v, l_int(l, 2), dt));
  ret(l, b_cast(b, b_reshape(b, m.is_target, b_shape(b, x)), dt));
}

/* (grad, self, target, reduction, is_target) */
static void multilabel_margin_backward(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 1);
  labels m;
  if (!read_labels(l, 1, &m)) return;
  Val zero = b_like(b, m.z, 0), g = wide(l, 0, b_dtype(b, m.z));
  Val share = b_div(b, b_like(b, m.z, 1), b_cast(b, m.classes, b_dtype(b, m.z)));
  Val on = b_select(b, b_gt(b, m.z, zero), share, zero);
  Val lost = b_sum(b, b_select(b, m.onehot, b_sum(b, on, 4, true), zero), 2, false);
  Val v = b_sub(b, b_sum(b, on, 2, false), lost);
  if (l_int(l, 3) == MEAN) g = b_div(b, g, b_size(b, v, 0, b_dtype(b, g)));
  if (b_rank(b, g) == 1) g = b_unsqueeze(b, g, 1);
  ret(l, b_cast(b, b_reshape(b, b_mul(b, v, g), b_shape(b, x)), b_dtype(b, x)));
}

const tpu_row rows_loss[] = {{"mse_loss", difference, D_MSE, 0},
                             {"smooth_l1_loss", difference, D_SMOOTH, 0},
                             {"huber_loss", difference, D_HUBER, ROW_OVERLAP_SELF},
                             {"mse_loss_backward", difference_backward, D_MSE, 0},
                             {"smooth_l1_loss_backward", difference_backward, D_SMOOTH, 0},
                             {"huber_loss_backward", difference_backward, D_HUBER, 0},
                             {"binary_cross_entropy", bce, 0, ROW_SAME_DTYPE},
                             {"binary_cross_entropy_backward", bce_backward, 0, 0},
                             {"binary_cross_entropy_with_logits", bce_logits, 0, 0},
                             {"soft_margin_loss", soft_margin, 0, ROW_SAME_DTYPE},
                             {"soft_margin_loss_backward", soft_margin_backward, 0, 0},
                             {"nll_loss_forward", nll_loss, 0, ROW_SAME_DTYPE},
                             {"nll_loss_backward", nll_loss_backward, 0, 0},
                             {"nll_loss2d_forward", nll_loss, 1, ROW_SAME_DTYPE},
                             {"nll_loss2d_backward", nll_loss_backward, 1, 0},
                             {"multi_margin_loss", multi_margin, 0, ROW_SPECIAL | ROW_SAME_DTYPE | ROW_FITS},
                             {"multi_margin_loss_backward", multi_margin_backward, 0, ROW_SPECIAL | ROW_FITS},
                             {"multilabel_margin_loss_forward", multilabel_margin, 0, ROW_SAME_DTYPE},
                             {"multilabel_margin_loss_backward", multilabel_margin_backward, 0, 0},
                             {0}};
