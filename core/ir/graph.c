/* Nodes, hash-consing, regions, the frame of a program (parameters, results, symbols, checks). */
#include "ir/graph.h"

#include <stdarg.h>
#include <stdlib.h>

const shape ir_scalar = {0};

static const char *const mnemonics[IR_COUNT] = {
#define UNARY(NAME, fn, mlir, dts)  mlir,
#define BINARY(NAME, fn, mlir, dts) mlir,
#include "ir/ops.def"
#define NODE(NAME, mlir) mlir,
#include "ir/nodes.def"
#undef NODE
};

const char *ir_mnemonic(int op) { return mnemonics[op]; }

/* --- life and errors --------------------------------------------------------------------------------------
 */

static void start(B *b) {
  IR_PUSH(b->regions, ((ir_region){.parent = -1}));
  b->precision = 2;
}

B *b_create(void) {
  B *b = tpu_xcalloc(1, sizeof *b);
  b->table_cap = 1024;
  b->table = tpu_xmalloc((size_t)b->table_cap * sizeof *b->table);
  memset(b->table, 0xff, (size_t)b->table_cap * sizeof *b->table);
  start(b);
  return b;
}

void b_reset(B *b) {
  arena_reset(&b->mem);
  tpu_error_free(b->err);
  b->err = NULL;
  memset(b->table, 0xff, (size_t)b->table_cap * sizeof *b->table);
  b->nodes.n = b->shapes.n = b->regions.n = b->params.n = b->alias.n = 0;
  b->results.n = b->syms.n = b->checks.n = b->needs.n = b->cur = 0;
  b->masks_off = b->plain = false;
  b->masks_left_out = 0;
  start(b);
}

void b_destroy(B *b) {
  if (!b) return;
  arena_free(&b->mem);
  tpu_error_free(b->err);
  free(b->table);
  free(b->nodes.p);
  free((void *)b->shapes.p);
  free(b->regions.p);
  free(b->params.p);
  free(b->alias.p);
  free(b->results.p);
  free(b->syms.p);
  free(b->checks.p);
  free(b->needs.p);
  text_free(&b->attr);
  free(b);
}

void b_fail(B *b, tpu_code code, const char *fmt, ...) {
  if (b->err) return;
  va_list ap;
  va_start(ap, fmt);
  b->err = tpu_verr(code, fmt, ap);
  va_end(ap);
}

bool b_ok(const B *b) { return !b->err; }

tpu_error *b_take_error(B *b) {
  tpu_error *e = b->err;
  b->err = NULL;
  return e;
}

bool ir_bad(const B *b, Val v) { return b->err || v < 0 || v >= b->nodes.n; }

const ir_node *ir_nd(const B *b, Val v) {
  static const ir_node none = {.op = IR_PARAM, .dt = DT_F32, .s = &ir_scalar};
  return v < 0 || v >= b->nodes.n ? &none : &b->nodes.p[v];
}

/* --- types -------------------------------------------------------------------------------------------------
 */

bool shape_equal(const shape *a, const shape *b) {
  if (a == b) return true;
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->d[i].n != b->d[i].n || a->d[i].sym != b->d[i].sym) return false;
  return true;
}

/* The builder's one copy of `s`. Programs have few distinct shapes and use the last ones most. */
const shape *ir_intern(B *b, const shape *s) {
  if (s->rank == 0) return &ir_scalar;
  for (int i = b->shapes.n - 1; i >= 0; i--)
    if (b->shapes.p[i] == s || shape_equal(b->shapes.p[i], s)) return b->shapes.p[i];
  shape *c = arena_alloc(&b->mem, sizeof *c);
  c->rank = s->rank;
  memcpy(c->d, s->d, (size_t)s->rank * sizeof s->d[0]);
  for (int i = 0; i < c->rank; i++)
    if (c->d[i].n < 0) b_fail(b, TPU_RUNTIME, "negative dimension %lld", (long long)c->d[i].n);
  IR_PUSH(b->shapes, (const shape *)c);
  return c;
}

/* --- hash-consing --- */

static uint32_t mix(uint32_t h, const void *p, size_t n) {
  const unsigned char *c = p;
  uint64_t x = h;
  for (; n >= 8; n -= 8, c += 8) {
    uint64_t w;
    memcpy(&w, c, 8);
    x = (x ^ w) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
  }
  for (; n; n--, c++) x = (x ^ *c) * 0x100000001B3u;
  return (uint32_t)(x ^ (x >> 32));
}

static uint32_t spec_hash(const ir_spec *sp) {
  const void *key[] = {sp->nres > 1 ? NULL : (const void *)sp->s};
  int32_t head[4] = {sp->op, sp->nres > 1 ? DT_NONE : sp->dt, sp->tag, sp->nops};
  uint32_t h = mix(17, head, sizeof head);
  h = mix(h, key, sizeof key);
  h = mix(h, sp->ops, (size_t)sp->nops * sizeof(Val));
  return mix(h, sp->attr, (size_t)sp->nattr);
}

static bool visible(const B *b, int from, int r) {
  while (from != r) {
    if (from <= 0 || b->regions.p[from].closed) return false;
    from = b->regions.p[from].parent;
  }
  return true;
}

static bool same(const ir_node *n, const ir_spec *sp) {
  if (n->op != sp->op || n->tag != sp->tag || n->nops != sp->nops || n->nattr != sp->nattr) return false;
  if (sp->nres > 1 ? n->nres != sp->nres : n->dt != sp->dt || n->s != sp->s) return false;
  if (sp->nops && memcmp(n->ops, sp->ops, (size_t)sp->nops * sizeof(Val))) return false;
  return !sp->nattr || !memcmp(n->attr, sp->attr, (size_t)sp->nattr);
}

Val ir_lookup(B *b, const ir_spec *sp) {
  if (b->err) return BAD;
  uint32_t h = spec_hash(sp);
  for (int32_t i = b->table[h & (uint32_t)(b->table_cap - 1)]; i >= 0; i = b->nodes.p[i].next) {
    const ir_node *n = &b->nodes.p[i];
    if (n->hash == h && same(n, sp) && visible(b, b->cur, n->region)) return i;
  }
  return BAD;
}

static void rehash(B *b) {
  b->table_cap *= 2;
  b->table = tpu_xrealloc(b->table, (size_t)b->table_cap * sizeof *b->table);
  memset(b->table, 0xff, (size_t)b->table_cap * sizeof *b->table);
  for (int32_t i = 0; i < b->nodes.n; i++) {
    ir_node *n = &b->nodes.p[i];
    if (!n->hash) continue;
    int32_t *slot = &b->table[n->hash & (uint32_t)(b->table_cap - 1)];
    n->next = *slot;
    *slot = i;
  }
}

static Val push(B *b, ir_node n) {
  n.region = b->cur;
  n.next = -1;
  IR_PUSH(b->nodes, n);
  return b->nodes.n - 1;
}

Val ir_add(B *b, const ir_spec *sp, int region, int region2) {
  if (b->err) return BAD;
  bool multi = sp->nres > 1;
  ir_node n = {.op = (uint16_t)sp->op,
               .dt = (int16_t)(multi ? DT_NONE : sp->dt),
               .nres = (uint16_t)(multi ? sp->nres : 1)};
  n.s = multi ? &ir_scalar : sp->s;
  n.nops = sp->nops;
  n.ops = sp->nops ? arena_copy(&b->mem, sp->ops, (size_t)sp->nops * sizeof(Val)) : NULL;
  n.nattr = sp->nattr;
  n.attr = sp->nattr ? arena_copy(&b->mem, sp->attr, (size_t)sp->nattr) : NULL;
  n.tag = sp->tag;
  n.own[0] = region;
  n.own[1] = region2;
  n.nregions = (uint8_t)((region > 0) + (region2 > 0));
  n.hash = sp->tag < 0 ? 0 : spec_hash(sp); /* tag < 0: never shared */
  Val v = push(b, n);
  if (n.hash) {
    int32_t *slot = &b->table[n.hash & (uint32_t)(b->table_cap - 1)];
    b->nodes.p[v].next = *slot;
    *slot = v;
    if (b->nodes.n > b->table_cap) rehash(b);
  }
  for (int k = 0; multi && k < sp->nres; k++) {
    ir_node r = {
        .op = IR_RESULT, .dt = (int16_t)sp->dts[k], .nres = 1, .s = sp->shapes[k], .nops = 1, .tag = k};
    r.ops = arena_copy(&b->mem, &v, sizeof v);
    push(b, r);
  }
  return v;
}

Val ir_make(B *b, const ir_spec *sp) {
  Val v = ir_lookup(b, sp);
  return v >= 0 ? v : ir_add(b, sp, 0, 0);
}

Val ir_opn(B *b, int op, tpu_dtype dt, const shape *s, const Val *ops, int n, const text *attr) {
  if (b->err) return BAD;
  for (int i = 0; i < n; i++)
    if (ir_bad(b, ops[i])) return BAD;
  return ir_make(b, &(ir_spec){.op = op,
                               .dt = dt,
                               .s = ir_intern(b, s),
                               .ops = ops,
                               .nops = n,
                               .attr = attr ? attr->p : NULL,
                               .nattr = attr ? (int)attr->n : 0});
}

Val ir_op1(B *b, int op, tpu_dtype dt, const shape *s, Val x) { return ir_opn(b, op, dt, s, &x, 1, NULL); }

Val ir_op2(B *b, int op, tpu_dtype dt, const shape *s, Val x, Val y) {
  return ir_opn(b, op, dt, s, (Val[]){x, y}, 2, NULL);
}

Val ir_result(Val owner, int nres, int k) { return owner < 0 || nres <= 1 ? owner : owner + 1 + k; }

/* --- attributes --- */

text *ir_attr(B *b) {
  text_clear(&b->attr);
  return &b->attr;
}

static void list(text *t, const int64_t *v, int n) {
  for (int i = 0; i < n; i++) {
    if (i) text_add(t, ", ", 2);
    text_i64(t, v[i]);
  }
}

void ir_attr_i64s(text *t, const char *name, const int64_t *v, int n) {
  if (t->n) text_add(t, ", ", 2);
  text_str(t, name);
  text_str(t, n ? " = array<i64: " : " = array<i64");
  list(t, v, n);
  text_add(t, ">", 1);
}

void ir_attr_list(text *t, const char *name, const int64_t *v, int n) {
  text_str(t, name);
  text_str(t, " = [");
  list(t, v, n);
  text_add(t, "]", 1);
}

/* --- regions --- */

int ir_region_open(B *b, bool closed) {
  IR_PUSH(b->regions, ((ir_region){.parent = b->cur, .begin = b->nodes.n, .closed = closed}));
  b->cur = b->regions.n - 1;
  return b->cur;
}

Val ir_arg(B *b, tpu_dtype dt, const shape *s) {
  if (b->err) return BAD;
  ir_region *r = &b->regions.p[b->cur];
  Val v =
      push(b, (ir_node){.op = IR_ARG, .dt = (int16_t)dt, .nres = 1, .tag = r->nargs, .s = ir_intern(b, s)});
  Val *args = arena_alloc(&b->mem, (size_t)(r->nargs + 1) * sizeof *args);
  if (r->nargs) memcpy(args, r->args, (size_t)r->nargs * sizeof *args);
  args[r->nargs++] = v;
  r->args = args;
  return v;
}

void ir_region_close(B *b, const Val *res, int n) {
  ir_region *r = &b->regions.p[b->cur];
  r->end = b->nodes.n;
  r->nres = n;
  r->res = arena_copy(&b->mem, res, (size_t)n * sizeof *res);
  b->cur = r->parent;
}

/* --- the frame --- */

Val b_param(B *b, tpu_dtype dt, const shape *s) {
  if (b->err) return BAD;
  if (b->cur) b_fail(b, TPU_INTERNAL, "a parameter is made inside a region");
  const shape *t = ir_intern(b, s);
  if (b->err) return BAD;
  Val v = push(b, (ir_node){.op = IR_PARAM, .dt = (int16_t)dt, .nres = 1, .tag = b->params.n, .s = t});
  IR_PUSH(b->params, v);
  IR_PUSH(b->alias, -1);
  return v;
}

void b_param_alias(B *b, Val param, int out_index) {
  if (ir_bad(b, param)) return;
  const ir_node *n = ir_nd(b, param);
  if (n->op != IR_PARAM)
    b_fail(b, TPU_INTERNAL, "only a parameter can be donated");
  else
    b->alias.p[n->tag] = out_index;
}

void b_return(B *b, Val v) {
  if (!b->err && v < 0) b_fail(b, TPU_INTERNAL, "a result of the program is missing");
  if (!b->err) IR_PUSH(b->results, v);
}

int32_t b_symbol(B *b, Val size) {
  if (ir_bad(b, size)) return 1; /* the error is there already; never 0 */
  const ir_node *n = ir_nd(b, size);
  if (n->dt != DT_I32 || n->s->rank) b_fail(b, TPU_INTERNAL, "a size is an i32 scalar");
  for (int i = 0; i < b->syms.n; i++)
    if (b->syms.p[i] == size) return i + 1;
  IR_PUSH(b->syms, size);
  return b->syms.n;
}

int32_t b_symbol_unread(B *b, int k) { return b_symbol(b, b_const_i(b, DT_I32, -1 - k)); }

bool b_is_read(const B *b, Val param) {
  for (int i = 0; i < b->nodes.n; i++)
    for (int k = 0; k < b->nodes.p[i].nops; k++)
      if (b->nodes.p[i].ops[k] == param) return true;
  for (int i = 0; i < b->results.n; i++)
    if (b->results.p[i] == param) return true;
  for (int i = 0; i < b->checks.n; i++)
    if (b->checks.p[i].ok == param) return true;
  return false;
}

Val b_symbol_size(B *b, int32_t sym) {
  if (b->err) return BAD;
  if (sym < 1 || sym > b->syms.n) b_fail(b, TPU_INTERNAL, "no symbol %d", (int)sym);
  return b->err ? BAD : b->syms.p[sym - 1];
}

int b_num_nodes(const B *b) { return b->nodes.n; }
void b_disable_masks(B *b, bool off) { b->masks_off = off; }
int b_masks_left_out(const B *b) { return b->masks_left_out; }
void b_set_precision(B *b, int p) { b->precision = p; }
void b_set_cpu_lowering(B *b, bool cpu) { b->plain = !cpu; }
