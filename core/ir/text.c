/* The printer: what the results of @main need, as StableHLO text in the generic form, which no StableHLO
 * release has changed. Elementwise nodes of one type and constants have their short form. Values are numbered
 * in the order of printing, so equal programs give equal bytes. */
#include <stdlib.h>

#include "ir/graph.h"

typedef struct printer {
  const B *b;
  text *t;
  int32_t *name; /* node -> number; -1: not needed */
  int32_t next;
  int indent;
} printer;

static void put_type(text *t, tpu_dtype dt, const shape *s) {
  text_add(t, "tensor<", 7);
  for (int i = 0; i < s->rank; i++) {
    text_i64(t, s->d[i].n);
    text_add(t, "x", 1);
  }
  text_str(t, tpu_dtypes[dt].mlir);
  text_add(t, ">", 1);
}

static void node_type(printer *p, Val v) {
  const ir_node *n = &p->b->nodes.p[v];
  put_type(p->t, (tpu_dtype)n->dt, n->s);
}

static void put_name(printer *p, Val v) {
  const ir_node *n = &p->b->nodes.p[v];
  if (n->op == IR_PARAM) {
    text_add(p->t, "%arg", 4);
    text_i64(p->t, n->tag);
  } else if (n->op == IR_RESULT) {
    text_add(p->t, "%", 1);
    text_i64(p->t, p->name[n->ops[0]]);
    text_add(p->t, "#", 1);
    text_i64(p->t, n->tag);
  } else {
    text_add(p->t, "%", 1);
    text_i64(p->t, p->name[v]);
  }
}

static void newline(printer *p) {
  static const char blank[] = "\n                                ";
  int k = p->indent * 2;
  text_add(p->t, blank, (size_t)(1 + (k > 32 ? 32 : k)));
}

static void put_list(printer *p, const Val *v, int n, void (*one)(printer *, Val)) {
  for (int i = 0; i < n; i++) {
    if (i) text_add(p->t, ", ", 2);
    one(p, v[i]);
  }
}

static void print_nodes(printer *p, int region, int begin, int end);

static void print_region(printer *p, int r) {
  const ir_region *g = &p->b->regions.p[r];
  text_str(p->t, "{");
  if (g->nargs) {
    newline(p);
    text_str(p->t, "^bb0(");
    for (int i = 0; i < g->nargs; i++) {
      if (i) text_str(p->t, ", ");
      p->name[g->args[i]] = p->next++;
      put_name(p, g->args[i]);
      text_str(p->t, ": ");
      node_type(p, g->args[i]);
    }
    text_str(p->t, "):");
  }
  p->indent++;
  print_nodes(p, r, g->begin, g->end);
  newline(p);
  text_str(p->t, "\"stablehlo.return\"(");
  put_list(p, g->res, g->nres, put_name);
  text_str(p->t, ") : (");
  put_list(p, g->res, g->nres, node_type);
  text_str(p->t, ") -> ()");
  p->indent--;
  newline(p);
  text_str(p->t, "}");
}

static void print_generic(printer *p, Val v, const ir_node *n) {
  text *t = p->t;
  text_add(t, "\"", 1);
  text_str(t, ir_mnemonic(n->op));
  text_add(t, "\"(", 2);
  put_list(p, n->ops, n->nops, put_name);
  text_add(t, ")", 1);
  if (n->nattr) {
    text_add(t, " <{", 3);
    text_add(t, n->attr, (size_t)n->nattr);
    text_add(t, "}>", 2);
  }
  for (int i = 0; i < n->nregions; i++) {
    text_str(t, i ? ", " : " (");
    print_region(p, n->own[i]);
  }
  if (n->nregions) text_add(t, ")", 1);
  text_add(t, " : (", 4);
  put_list(p, n->ops, n->nops, node_type);
  text_add(t, ") -> ", 5);
  if (n->nres == 1) {
    node_type(p, v);
    return;
  }
  text_add(t, "(", 1);
  for (int k = 0; k < n->nres; k++) {
    if (k) text_add(t, ", ", 2);
    node_type(p, v + 1 + k);
  }
  text_add(t, ")", 1);
}

/* `op %a, %b : type`, for StableHLO elementwise nodes whose operands and result have one type. */
static bool print_short(printer *p, Val v, const ir_node *n) {
  if (n->op >= OP_COUNT || ir_mnemonic(n->op)[0] != 's') return false;
  for (int i = 0; i < n->nops; i++) {
    const ir_node *o = &p->b->nodes.p[n->ops[i]];
    if (o->dt != n->dt || o->s != n->s) return false;
  }
  text_str(p->t, ir_mnemonic(n->op));
  text_add(p->t, " ", 1);
  put_list(p, n->ops, n->nops, put_name);
  text_add(p->t, " : ", 3);
  node_type(p, v);
  return true;
}

static void print_node(printer *p, Val v) {
  const ir_node *n = &p->b->nodes.p[v];
  newline(p);
  p->name[v] = p->next++;
  text_add(p->t, "%", 1);
  text_i64(p->t, p->name[v]);
  if (n->nres > 1) {
    text_add(p->t, ":", 1);
    text_i64(p->t, n->nres);
  }
  text_add(p->t, " = ", 3);
  if (n->op == IR_CONST) {
    text_str(p->t, "stablehlo.constant ");
    text_add(p->t, n->attr, (size_t)n->nattr);
    text_add(p->t, " : ", 3);
    node_type(p, v);
  } else if (!print_short(p, v, n)) {
    print_generic(p, v, n);
  }
}

static void print_nodes(printer *p, int region, int begin, int end) {
  const ir_node *nodes = p->b->nodes.p;
  for (int i = begin; i < end; i++) {
    int op = nodes[i].op;
    if (nodes[i].region == region && p->name[i] >= 0 && op != IR_PARAM && op != IR_ARG && op != IR_RESULT)
      print_node(p, i);
  }
}

/* Marks what the results need: one sweep from the end, since operands and regions come before their users. */
static void mark(printer *p) {
  const B *b = p->b;
  memset(p->name, 0xff, (size_t)b->nodes.n * sizeof *p->name);
  for (int i = 0; i < b->results.n; i++) p->name[b->results.p[i]] = 0;
  for (int i = b->nodes.n - 1; i >= 0; i--) {
    if (p->name[i] < 0) continue;
    const ir_node *n = &b->nodes.p[i];
    for (int k = 0; k < n->nops; k++) p->name[n->ops[k]] = 0;
    for (int r = 0; r < n->nregions; r++) {
      const ir_region *g = &b->regions.p[n->own[r]];
      for (int k = 0; k < g->nres; k++) p->name[g->res[k]] = 0;
    }
  }
}

static void print_main(printer *p) {
  const B *b = p->b;
  text *t = p->t;
  text_str(t, "module @program {\n  func.func public @main(");
  for (int i = 0; i < b->params.n; i++) {
    if (i) text_str(t, ", ");
    put_name(p, b->params.p[i]);
    text_str(t, ": ");
    node_type(p, b->params.p[i]);
    if (b->alias.p[i] >= 0) text_printf(t, " {tf.aliasing_output = %d : i32}", b->alias.p[i]);
  }
  text_str(t, ") -> (");
  put_list(p, b->results.p, b->results.n, node_type);
  text_str(t, ") {");
  p->indent = 2;
  print_nodes(p, 0, 0, b->nodes.n);
  newline(p);
  text_str(t, "return");
  if (b->results.n) {
    text_str(t, " ");
    put_list(p, b->results.p, b->results.n, put_name);
    text_str(t, " : ");
    put_list(p, b->results.p, b->results.n, node_type);
  }
  text_str(t, "\n  }\n}\n");
}

tpu_error *b_print(B *b, text *out) {
  if (b->err) return tpu_error_copy(b->err);
  if (b->cur) return tpu_err(TPU_INTERNAL, "a region is still open");
#ifndef NDEBUG
  TRY(b_verify(b));
#endif
  printer p = {.b = b, .t = out, .name = tpu_xmalloc(((size_t)b->nodes.n + 1) * sizeof(int32_t))};
  mark(&p);
  print_main(&p);
  free(p.name);
  return NULL;
}
