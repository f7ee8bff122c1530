/* While and if: regions built by callbacks with the same builder; values from outside may be used inside. */
#include "ir/graph.h"

typedef struct types {
  tpu_dtype *dts;
  const shape **shapes;
} types;

static types types_of(B *b, const Val *v, int n) {
  types t = {arena_alloc(&b->mem, (size_t)n * sizeof *t.dts),
             arena_alloc(&b->mem, (size_t)n * sizeof *t.shapes)};
  for (int i = 0; i < n; i++) {
    t.dts[i] = b_dtype(b, v[i]);
    t.shapes[i] = b_shape(b, v[i]);
  }
  return t;
}

static void check_results(B *b, const char *what, const Val *v, const types *t, int n) {
  for (int i = 0; i < n && !b->err; i++) {
    if (ir_bad(b, v[i]))
      b_fail(b, TPU_INTERNAL, "%s: result %d is missing", what, i);
    else if (b_dtype(b, v[i]) != t->dts[i] || b_shape(b, v[i]) != t->shapes[i])
      b_fail(b, TPU_INTERNAL, "%s: result %d has another type than before", what, i);
  }
}

static bool all_good(const B *b, const Val *v, int n) {
  for (int i = 0; i < n; i++)
    if (ir_bad(b, v[i])) return false;
  return !b->err;
}

static Val *open_with_args(B *b, const types *t, int n, int *region) {
  *region = ir_region_open(b, false);
  Val *args = arena_alloc(&b->mem, (size_t)n * sizeof *args);
  for (int i = 0; i < n; i++) args[i] = ir_arg(b, t->dts[i], t->shapes[i]);
  return args;
}

static Val *no_results(B *b, int n) {
  Val *v = arena_alloc(&b->mem, (size_t)n * sizeof *v);
  for (int i = 0; i < n; i++) v[i] = BAD;
  return v;
}

void b_while(B *b, int n, const Val *init, b_region1 cond, b_region body, void *ctx, Val *outs) {
  Val *in = arena_copy(&b->mem, init, (size_t)n * sizeof *in); /* outs may be init */
  for (int i = 0; i < n; i++) outs[i] = BAD;
  if (!all_good(b, in, n) || !n) return;
  types t = types_of(b, in, n);
  int r[2];
  Val *args = open_with_args(b, &t, n, &r[0]);
  Val go = cond(b, ctx, args);
  if (ir_bad(b, go) || b_dtype(b, go) != DT_BOOL || b_rank(b, go))
    b_fail(b, TPU_INTERNAL, "while: the condition is not an i1 scalar");
  ir_region_close(b, &go, 1);
  args = open_with_args(b, &t, n, &r[1]);
  Val *res = no_results(b, n);
  body(b, ctx, args, res);
  check_results(b, "while", res, &t, n);
  ir_region_close(b, res, n);
  Val o = ir_add(b,
                 &(ir_spec){.op = IR_WHILE,
                            .dt = t.dts[0],
                            .s = t.shapes[0],
                            .ops = in,
                            .nops = n,
                            .tag = -1,
                            .nres = n,
                            .dts = t.dts,
                            .shapes = t.shapes},
                 r[0], r[1]);
  for (int i = 0; i < n; i++) outs[i] = ir_result(o, n, i);
}

void b_if(B *b, Val pred, int n, b_region then_fn, b_region else_fn, void *ctx, Val *outs) {
  for (int i = 0; i < n; i++) outs[i] = BAD;
  if (ir_bad(b, pred) || !n) return;
  if (b_dtype(b, pred) != DT_BOOL || b_rank(b, pred)) {
    b_fail(b, TPU_INTERNAL, "if: the predicate is not an i1 scalar");
    return;
  }
  types t = {0};
  int r[2];
  for (int k = 0; k < 2; k++) {
    Val *res = no_results(b, n);
    r[k] = ir_region_open(b, false);
    (k ? else_fn : then_fn)(b, ctx, NULL, res);
    if (!k && all_good(b, res, n)) t = types_of(b, res, n);
    if (t.dts)
      check_results(b, "if", res, &t, n);
    else
      b_fail(b, TPU_INTERNAL, "if: a result is missing");
    ir_region_close(b, res, n);
  }
  if (b->err) return;
  Val o = ir_add(b,
                 &(ir_spec){.op = IR_IF,
                            .dt = t.dts[0],
                            .s = t.shapes[0],
                            .ops = &pred,
                            .nops = 1,
                            .tag = -1,
                            .nres = n,
                            .dts = t.dts,
                            .shapes = t.shapes},
                 r[0], r[1]);
  for (int i = 0; i < n; i++) outs[i] = ir_result(o, n, i);
}
