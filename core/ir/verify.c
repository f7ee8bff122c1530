/* Structural rules that every graph keeps; a broken one is a bug of the builder. Run by b_print in debug
 * builds and by tests. */
#include "ir/graph.h"

static bool encloses(const B *b, int outer, int r) {
  while (r != outer && r > 0) r = b->regions.p[r].parent;
  return r == outer;
}

static tpu_error *check_use(const B *b, Val user, int at, Val v, int region) {
  if (v < 0 || v >= b->nodes.n) return tpu_err(TPU_INTERNAL, "node %d: operand %d is not a node", user, at);
  const ir_node *n = &b->nodes.p[v];
  if (n->dt < 0 && b->nodes.p[user].op != IR_RESULT)
    return tpu_err(TPU_INTERNAL, "node %d: operand %d has several results", user, at);
  if (!encloses(b, n->region, region))
    return tpu_err(TPU_INTERNAL, "node %d: operand %d is not visible here", user, at);
  return NULL;
}

static tpu_error *check_shape(const B *b, Val v, const shape *s) {
  if (s->rank < 0 || s->rank > IR_MAX_RANK) return tpu_err(TPU_INTERNAL, "node %d: rank %d", v, s->rank);
  for (int i = 0; i < s->rank; i++) {
    if (s->d[i].n < 0) return tpu_err(TPU_INTERNAL, "node %d: dim %d is negative", v, i);
    if (s->d[i].sym < 0 || s->d[i].sym > b->syms.n)
      return tpu_err(TPU_INTERNAL, "node %d: dim %d has no symbol %d", v, i, s->d[i].sym);
  }
  return NULL;
}

/* Elementwise nodes: operands of the result's shape. */
static tpu_error *check_elementwise(const B *b, Val v, const ir_node *n) {
  bool same = n->op < OP_COUNT || (n->op >= IR_COMPARE && n->op <= IR_CONVERT) ||
              (n->op >= IR_COMPLEX && n->op <= IR_NEXT_AFTER);
  for (int i = 0; same && i < n->nops; i++) {
    const ir_node *o = &b->nodes.p[n->ops[i]];
    if (o->s != n->s)
      return tpu_err(TPU_INTERNAL, "node %d (%s): operand %d has another shape", v, ir_mnemonic(n->op), i);
  }
  bool typed = n->op < OP_COUNT && n->op >= OP_ADD;
  if (typed && (b->nodes.p[n->ops[0]].dt != n->dt || b->nodes.p[n->ops[1]].dt != n->dt))
    return tpu_err(TPU_INTERNAL, "node %d (%s): operands have another dtype", v, ir_mnemonic(n->op));
  return NULL;
}

static tpu_error *check_regions(const B *b, Val v, const ir_node *n) {
  for (int r = 0; r < n->nregions; r++) {
    int id = n->own[r];
    if (id <= 0 || id >= b->regions.n) return tpu_err(TPU_INTERNAL, "node %d: no region %d", v, id);
    const ir_region *g = &b->regions.p[id];
    if (g->parent != n->region) return tpu_err(TPU_INTERNAL, "node %d: its region is somewhere else", v);
    if (g->end > v) return tpu_err(TPU_INTERNAL, "node %d: its region ends after it", v);
    for (int k = 0; k < g->nres; k++) TRY(check_use(b, v, k, g->res[k], id));
  }
  return NULL;
}

tpu_error *b_verify(const B *b) {
  for (Val v = 0; v < b->nodes.n; v++) {
    const ir_node *n = &b->nodes.p[v];
    if (n->op >= IR_COUNT) return tpu_err(TPU_INTERNAL, "node %d: no op %d", v, n->op);
    TRY(check_shape(b, v, n->s));
    for (int i = 0; i < n->nops; i++) {
      if (n->ops[i] >= v) return tpu_err(TPU_INTERNAL, "node %d: operand %d comes after it", v, i);
      TRY(check_use(b, v, i, n->ops[i], n->region));
    }
    TRY(check_elementwise(b, v, n));
    TRY(check_regions(b, v, n));
  }
  for (int i = 0; i < b->results.n; i++) {
    Val v = b->results.p[i];
    if (v < 0 || v >= b->nodes.n || b->nodes.p[v].dt < 0 || b->nodes.p[v].region)
      return tpu_err(TPU_INTERNAL, "result %d is not a value of @main", i);
  }
  return NULL;
}
