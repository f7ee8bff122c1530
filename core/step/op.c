/* The memo of calls: from a prepared call to a tpu_op, and from a tpu_op back to builder verbs. See op.h. */
#include "step/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/map.h"
#include "lower/lower_int.h"
#include "step/step.h"
#include "value/layout.h"

static map memo;
static uint32_t op_ids;
static B *scratch;

int op_count(void) { return (int)memo.n; }

void op_forget(void) {
  size_t it = 0;
  for (tpu_op *op; (op = map_next(&memo, &it));) op->program = NULL, op->learned = false;
}

/* --- copies of the call's structure --- */
typedef struct copier { /* walks the arguments in the order in which prep_call did */
  tpu_op *op;
  const prep *p;
  uint32_t tensor, scalar;
} copier;

static void copy_number(copier *c, const tpu_arg *a, op_arg *out) {
  *out = (op_arg){.tag = a->tag, .u.i = a->u.i};
  out->operand = number_is_operand(a, c->op->row->flags);
  if (out->operand) out->scalar = c->scalar++;
}

static void copy_tensor(copier *c, op_tensor *out) {
  const prep_tensor *pt = &c->p->tensors[c->tensor++];
  arena *m = &c->op->mem;
  if (!pt->t) return;
  const tpu_tensor *t = pt->t;
  size_t bytes = t->rank * sizeof(int64_t);
  *out = (op_tensor){.defined = true,
                     .host = pt->host,
                     .dtype = pt->dtype,
                     .rank = t->rank,
                     .flags = t->flags,
                     .store = pt->store,
                     .scalar = pt->scalar};
  if (pt->host) {
    c->scalar = pt->scalar + 1;
    out->structure = pt->structure;
    if (pt->structure) memcpy(&out->bits, t->host, sizeof out->bits);
    return;
  }
  out->g = pt->g;
  out->sizes = arena_copy(m, t->sizes, bytes);
  out->strides = arena_copy(m, t->strides, bytes);
  if (geom_operands(&pt->g)) c->scalar = pt->scalar + geom_operands(&pt->g);
}

static void copy_arg(copier *c, const tpu_arg *a, op_arg *out, op_tensor *tensors) {
  arena *m = &c->op->mem;
  *out = (op_arg){.tag = a->tag, .n = a->n, .u.i = a->u.i};
  switch ((tpu_tag)a->tag) {
  case TPU_A_TENSOR: out->n = 1; /* fall through */
  case TPU_A_TENSORS:
    out->u.tensor = c->tensor;
    for (uint32_t k = 0; k < out->n; k++) copy_tensor(c, &tensors[c->tensor]);
    return;
  case TPU_A_DOUBLE:
    if (!(c->op->row->flags & ROW_FLOAT_PARAM)) return; /* fall through */
  case TPU_A_SCALAR_I:
  case TPU_A_SCALAR_D:
  case TPU_A_SCALAR_B:
  case TPU_A_SCALAR_C: copy_number(c, a, out); return;
  case TPU_A_SIZES: {
    int64_t *is = arena_copy(m, a->u.is, a->n * sizeof *is);
    for (uint32_t k = 0; k < a->n; k++) /* rung and number of the size, see SIZE_NUMBER_SHIFT */
      for (uint32_t s = 0; size_is_generic(a->u.is[k]) && s < c->p->nsyms; s++)
        if (c->p->syms[s] == (a->u.is[k] & ~SIZE_GENERIC))
          is[k] = SIZE_GENERIC | (int64_t)(s + 1) << SIZE_NUMBER_SHIFT | ladder_rung(c->p->syms[s]);
    out->u.is = is;
    return;
  }
  case TPU_A_INTS:
  case TPU_A_BOOLS:
  case TPU_A_DOUBLES: out->u.is = arena_copy(m, a->u.is, a->n * sizeof(int64_t)); return;
  case TPU_A_SCALARS: {
    op_arg *as = arena_alloc(m, a->n * sizeof *as);
    for (uint32_t k = 0; k < a->n; k++) copy_number(c, &a->u.as[k], &as[k]);
    out->u.as = as;
    return;
  }
  case TPU_A_STRING: {
    char *s = arena_alloc(m, a->n + 1);
    memcpy(s, a->u.s, a->n);
    out->u.s = s;
    return;
  }
  default: return;
  }
}

static void copy_stores(tpu_op *op, const prep *p) {
  op_store *st = arena_alloc(&op->mem, (p->nstores + 1) * sizeof *st);
  for (uint32_t k = 0; k < p->nstores; k++) {
    const tpu_value *v = p->stores[k].v;
    st[k].nbytes = (int64_t)p->stores[k].s->nbytes;
    st[k].empty = !v, st[k].parameter = p->stores[k].s->parameter;
    if (!v) continue;
    st[k].dtype = v->dtype, st[k].rank = v->rank;
    st[k].d = arena_copy(&op->mem, v->d, v->rank * sizeof(vdim));
    st[k].source = v->source;
    for (int i = 0; i < v->rank; i++)
      for (uint32_t s = 0; s < p->nsyms; s++)
        if (v->d[i].sym && v->d[i].logical == p->syms[s]) st[k].d[i].sym = s + 1;
  }
  op->stores = st, op->nstores = p->nstores;
}

tpu_op *op_sketch(const prep *p) {
  const tpu_call *call = p->call;
  tpu_op *op = tpu_xcalloc(1, sizeof *op);
  op->row = call->row, op->variant = (uint8_t)call->variant, op->device = (uint8_t)call->device;
  op->rung = p->rung, op->precision = step_precision();
  op->default_float = (int8_t)step_default_float();
  op->nsyms = p->nsyms, op->nscalars = p->nscalars, op->ntensors = p->ntensors, op->out_first = p->out_first;
  op->nouts_given = (uint32_t)call->nouts;
  text_add(&op->sig, p->sig.p, p->sig.n);
  copy_stores(op, p);
  int8_t *dts = arena_alloc(&op->mem, p->nscalars + 1);
  for (uint32_t k = 0; k < p->nscalars; k++) dts[k] = p->scalars[k].dtype;
  op->scalar_dtypes = dts;
  op_tensor *tensors = arena_alloc(&op->mem, (p->ntensors + 1) * sizeof *tensors);
  op_arg *args = arena_alloc(&op->mem, (size_t)(call->nargs + 1) * sizeof *args);
  copier c = {op, p, 0, 0};
  for (int i = 0; i < call->nargs; i++) copy_arg(&c, &call->args[i], &args[i], tensors);
  while (c.tensor < p->ntensors) copy_tensor(&c, &tensors[c.tensor]);
  op->args = args, op->nargs = call->nargs, op->tensors = tensors;
  return op;
}

void op_discard(tpu_op *op) {
  arena_free(&op->mem);
  text_free(&op->sig);
  free(op->uses);
  free(op->sizes);
  free(op->outs);
  free(op);
}

/* --- results --- */
typedef struct finish {
  L *l;
  bool describe; /* fill op->outs (the first time) */
  Val *outs;     /* program results, in order */
  uint32_t n;
} finish;

/* An expression over the signature's sizes; its length. */
static int code_of_size(L *l, Val size, size_code *code) {
  Val params[64];
  int np = l->op->nsyms < 64 ? (int)l->op->nsyms : 64;
  for (int k = 0; k < np; k++) params[k] = l->syms[k] ? b_symbol_size(l->b, l->syms[k]) : BAD;
  int n = b_size_code(l->b, size, np, params, code, SIZE_CODE_MAX);
  if (n < 0) l_fail(l, TPU_NOT_IMPLEMENTED, "a size that only the device knows");
  return n;
}

/* The number of a size that is computed. */
static uint32_t number_of_size(finish *f, Val size) {
  tpu_op *op = f->l->op;
  size_code code[SIZE_CODE_MAX];
  int n = code_of_size(f->l, size, code);
  if (n < 0) return 1;
  for (uint32_t k = 0; k < op->nsizes; k++)
    if (op->sizes[k].n == n && !memcmp(op->sizes[k].code, code, (size_t)n * sizeof *code))
      return op->nsyms + 1 + k;
  GROW(op->sizes, op->nsizes, op->cap_sizes, 4);
  op->sizes[op->nsizes] = (op_size){arena_copy(&op->mem, code, (size_t)n * sizeof *code), n};
  return op->nsyms + ++op->nsizes;
}

/* The number of a builder symbol. */
static uint32_t number_of(finish *f, int32_t sym) {
  for (uint32_t k = 0; k < f->l->op->nsyms; k++)
    if (f->l->syms[k] == sym) return k + 1;
  return number_of_size(f, b_symbol_size(f->l->b, sym));
}

int64_t op_dim_size(const tpu_op *op, const vdim *d, const int64_t *sizes) {
  if (!d->sym) return d->n;
  if (d->sym <= op->nsyms) return sizes[d->sym - 1];
  const op_size *z = &op->sizes[d->sym - op->nsyms - 1];
  return size_eval(z->code, z->n, sizes);
}

static void describe_value(finish *f, op_out *o, Val v) {
  B *b = f->l->b;
  const shape *s = b_shape(b, v);
  o->dtype = (int8_t)b_dtype(b, v);
  o->rank = (uint8_t)s->rank;
  o->d = arena_alloc(&f->l->op->mem, (size_t)(s->rank + 1) * sizeof(vdim));
  for (int i = 0; i < s->rank; i++) {
    o->d[i] = vdim_static(s->d[i].n);
    if (s->d[i].sym) o->d[i].sym = number_of(f, s->d[i].sym);
  }
  o->bytes = dims_bytes((tpu_dtype)o->dtype, o->rank, o->d);
}

static void keep_requires(L *l) {
  int n = b_num_requires(l->b);
  op_size *r = arena_alloc(&l->op->mem, (size_t)(n + 1) * sizeof *r);
  for (int k = 0; k < n; k++) {
    size_code code[SIZE_CODE_MAX];
    r[k].n = code_of_size(l, b_require_size(l->b, k), code);
    if (r[k].n < 0) return;
    r[k].code = arena_copy(&l->op->mem, code, (size_t)r[k].n * sizeof *code);
  }
  l->op->needs = r, l->op->nneeds = (uint32_t)n;
}

bool op_fits(const tpu_op *op, const int64_t *sizes) {
  for (uint32_t k = 0; k < op->nneeds; k++)
    if (size_eval(op->needs[k].code, op->needs[k].n, sizes) < 0) return false;
  return true;
}

static op_out *add_out(tpu_op *op) {
  GROW(op->outs, op->nouts, op->cap_outs, 4);
  memset(&op->outs[op->nouts], 0, sizeof *op->outs);
  return &op->outs[op->nouts++];
}

static bool like_self(const tpu_op *op, int rank, const int64_t *sizes) {
  const op_tensor *t = op->ntensors ? &op->tensors[0] : NULL;
  bool same = t && t->defined && !t->host && t->rank == rank;
  for (int i = 0; same && i < rank; i++)
    same = (t->g.generic && t->g.phys[i] ? t->g.phys[i] : t->sizes[i]) == sizes[i];
  return same;
}

/* The operand as the rules of layout see it: its sizes physical, as those of results are. */
static strided layout_of(const op_tensor *t, int64_t (*sizes)[TPU_MAX_RANK]) {
  if (!t->g.generic) return (strided){t->rank, t->sizes, t->strides};
  for (int d = 0; d < t->rank; d++) (*sizes)[d] = t->g.phys[d] ? t->g.phys[d] : t->sizes[d];
  return (strided){t->rank, *sizes, t->strides};
}

static void result_strides(const tpu_op *op, int rank, const int64_t *sizes, int64_t *strides) {
  strided ops[64];
  int64_t phys[64][TPU_MAX_RANK];
  int n = 0;
  if (op->row->flags & (ROW_ELEMENTWISE | ROW_CHANNELS))
    for (uint32_t i = 0; i < op->out_first && n < 64; i++) {
      const op_tensor *t = &op->tensors[i];
      if (t->defined && !t->host) ops[n] = layout_of(t, &phys[n]), n++;
    }
  if (n && (op->row->flags & ROW_ELEMENTWISE))
    layout_elementwise(n, ops, rank, sizes, strides);
  else if (op->row->flags & ROW_LIKE_SELF && like_self(op, rank, sizes))
    layout_elementwise(1, &(strided){rank, sizes, op->tensors[0].strides}, rank, sizes, strides);
  else if (n && (op->row->flags & ROW_CHANNELS))
    layout_channels(n, ops, op->args[0].tag == TPU_A_TENSORS, rank, sizes, strides);
  else
    layout_contiguous(rank, sizes, strides);
}

/* A list of results (foreach) keeps each item's own layout: item k of the first list. */
static void list_strides(const tpu_op *op, uint32_t k, int rank, const int64_t *sizes, int64_t *strides) {
  const op_arg *a = &op->args[0];
  const op_tensor *t = k < a->n ? &op->tensors[a->u.tensor + k] : NULL;
  int64_t phys[TPU_MAX_RANK];
  if (t && t->defined && !t->host && (op->row->flags & ROW_ELEMENTWISE))
    layout_elementwise(1, &(strided){t->rank, layout_of(t, &phys).sizes, t->strides}, rank, sizes, strides);
  else
    layout_contiguous(rank, sizes, strides);
}

static void new_result(finish *f, uint32_t k, Val v, bool columns) {
  B *b = f->l->b;
  tpu_op *op = f->l->op;
  const shape *s = b_shape(b, v);
  int64_t sizes[TPU_MAX_RANK], strides[TPU_MAX_RANK];
  int rank = s->rank, order[TPU_MAX_RANK];
  if (rank > TPU_MAX_RANK) {
    l_fail(f->l, TPU_NOT_IMPLEMENTED, "a result of %d dims (at most %d)", rank, TPU_MAX_RANK);
    return;
  }
  for (int i = 0; i < rank; i++) sizes[i] = s->d[i].n;
  if (op->nargs && op->args[0].tag == TPU_A_TENSORS && !(op->row->flags & ROW_CHANNELS))
    list_strides(op, k, rank, sizes, strides);
  else if (columns)
    layout_columns(rank, sizes, strides);
  else
    result_strides(op, rank, sizes, strides);
  bool generic = b_is_generic(b, v);
  view_memory_order(rank, sizes, strides, order);
  v = b_transpose(b, v, order);
  f->outs[f->n++] = v;
  if (!f->describe) return;
  op_out *o = add_out(op);
  o->kind = OUT_NEW;
  describe_value(f, o, v);
  o->trank = (uint8_t)rank;
  o->sizes = arena_copy(&op->mem, sizes, sizeof sizes);
  o->strides = arena_copy(&op->mem, strides, sizeof strides);
  if (!generic) return;
  o->size_dim = arena_alloc(&op->mem, TPU_MAX_RANK);
  for (int i = 0; i < rank; i++) o->size_dim[order[i]] = (int8_t)i;
}

static void shape_text(text *t, int rank, const int64_t *d) {
  text_str(t, "[");
  for (int i = 0; i < rank; i++) text_printf(t, i ? ", %lld" : "%lld", (long long)d[i]);
  text_str(t, "]");
}

tpu_error *op_check_cast(const tpu_row *row, tpu_variant variant, tpu_dtype from, tpu_dtype to) {
  bool exact = variant == TPU_OUT_EXACT || (variant == TPU_OUT && (row->flags & ROW_SAME_DTYPE));
  if (exact && from != to && !(from == DT_BOOL && to == DT_U8)) /* all and any write bytes, too */
    return tpu_err(TPU_RUNTIME, "Expected out tensor to have dtype %s, but got %s instead",
                   tpu_dtype_torch_name(from), tpu_dtype_torch_name(to));
  if (dt_can_cast(from, to)) return NULL;
  return tpu_err(TPU_RUNTIME, "result type %s can't be cast to the desired output type %s",
                 tpu_dtype_torch_name(from), tpu_dtype_torch_name(to));
}

/* Does v fit the written tensor? Fails with torch's words, or asks for a resize of out=. */
static bool check_write(finish *f, const op_tensor *t, Val v) {
  L *l = f->l;
  const shape *s = b_shape(l->b, v);
  bool same = s->rank == t->rank;
  bool generic = t->g.generic;
  for (int i = 0; same && i < s->rank; i++) {
    int sym = t->g.generic ? t->g.sym[i] : 0;
    generic = generic || s->d[i].sym;
    /* a size that only the written tensor has may have no symbol yet */
    same = sym ? s->d[i].sym && s->d[i].sym == l->syms[sym - 1] : !s->d[i].sym && s->d[i].n == t->sizes[i];
  }
  tpu_dtype from = b_dtype(l->b, v);
  if (!b_ok(l->b)) return false;
  tpu_error *bad = op_check_cast(l->op->row, (tpu_variant)l->op->variant, from, (tpu_dtype)t->dtype);
  if (bad) {
    l_fail(l, tpu_error_code(bad), "%s", tpu_error_message(bad));
    tpu_error_free(bad);
    return false;
  }
  if (!same && generic) {
    l_fail(l, TPU_NOT_IMPLEMENTED, "a result of other generic sizes than the written tensor");
    return false;
  }
  if (!same && l->op->variant >= TPU_OUT) {
    l->op->needs_resize = true;
    return false;
  }
  if (!same) {
    text m = {0};
    int64_t have[IR_MAX_RANK];
    for (int i = 0; i < s->rank; i++) have[i] = s->d[i].n;
    text_str(&m, "output with shape ");
    shape_text(&m, t->rank, t->sizes);
    text_str(&m, " doesn't match the broadcast shape ");
    shape_text(&m, s->rank, have);
    l_fail(l, TPU_RUNTIME, "%s", m.p);
    text_free(&m);
    return false;
  }
  return true;
}

/* v for an expanded target, with one element a place: the last that differs from what was there. */
static Val last_change(L *l, uint32_t target, Val v) {
  B *b = l->b;
  const op_tensor *t = &l->op->tensors[target];
  if (!view_overlaps(t->rank, t->sizes, t->strides)) return v;
  for (int i = 0; i < t->rank; i++) {
    if (t->strides[i] || t->sizes[i] <= 1) continue;
    Val x = l_view(l, target), nan = b_and(b, b_isnan(b, v), b_isnan(b, x)),
        at = b_iota(b, DT_I64, b_shape(b, v), i);
    at = b_select(b, b_and(b, b_ne(b, v, x), b_not(b, nan)), at, b_like(b, at, 0));
    v = b_gather_axis(b, v, b_max(b, at, 1u << i, true), i);
  }
  return v;
}

static void write_result(finish *f, uint32_t target, Val v, uint8_t *written) {
  L *l = f->l;
  B *b = l->b;
  const op_tensor *t = &l->op->tensors[target];
  if (!t->defined || t->host) {
    l_fail(l, TPU_RUNTIME, "a result cannot be written into a CPU or undefined tensor");
    return;
  }
  if (!check_write(f, t, v) || t->g.kind == GEOM_EMPTY) return;
  int64_t sizes[TPU_MAX_RANK];
  for (int i = 0; i < t->rank; i++) sizes[i] = t->strides[i] ? t->sizes[i] : 1;
  v = last_change(l, target, b_cast(b, v, (tpu_dtype)t->dtype));
  if (t->flags & TPU_T_CONJ) v = b_conj(b, v);
  if (t->flags & TPU_T_NEG) v = b_neg(b, v);
  view w = {(tpu_dtype)t->dtype, t->rank, sizes, t->strides, 0};
  Val full = BAD;
  if (!t->g.covers) {
    full = l->stores[t->store];
    if (full == BAD && l->op->stores[t->store].empty) {
      int64_t n = l->op->stores[t->store].nbytes / dt_bytes(w.dtype);
      shape s = shape_of(1, &n);
      full = b_zeros(b, w.dtype, &s);
    }
    if (full == BAD) full = l_store(l, t->store);
  }
  Val starts[GEOM_LINKS];
  int32_t syms[TPU_MAX_RANK];
  l_geom_operands(l, t, starts, syms);
  l->stores[t->store] = geom_write(b, &t->g, &w, full, v, starts, syms);
  written[t->store] = 1;
}

/* The argument tensor that receives result k: out k, or self (item k of a self list), then further tensors in
 * order. */
static uint32_t target_of(const finish *f, uint32_t k) {
  const tpu_op *op = f->l->op;
  if (op->variant >= TPU_OUT) return op->out_first + k;
  const op_arg *a = &op->args[0];
  if (a->tag == TPU_A_TENSORS) return a->u.tensor + k; /* foreach: the self list */
  for (int i = 0, seen = 0; i < op->nargs; i++) {      /* self, then any further written tensor in order */
    if (op->args[i].tag != TPU_A_TENSOR) continue;
    if ((uint32_t)seen++ == k) return op->args[i].u.tensor;
  }
  return 0;
}

static void finish_results(finish *f) {
  L *l = f->l;
  tpu_op *op = l->op;
  uint8_t *written = tpu_xcalloc(op->nstores + 1, 1);
  uint32_t k = 0;
  for (uint32_t r = 0; r < l->nresults && b_ok(l->b); r++) {
    const l_result *res = &l->results[r];
    if (res->write) {
      write_result(f, res->target, res->v, written);
    } else if (op->variant != TPU_FUNCTIONAL && k < op->nouts_given) {
      if (res->v != BAD) write_result(f, target_of(f, k), res->v, written);
      k++;
    } else if (res->v == BAD) {
      if (f->describe) add_out(op)->kind = OUT_NONE;
      k++;
    } else {
      new_result(f, k++, res->v, res->columns);
    }
  }
  if (f->describe) op->nresults = op->nouts;
  for (uint32_t s = 0; s < op->nstores; s++) {
    if (!written[s]) continue;
    f->outs[f->n++] = l->stores[s];
    if (!f->describe) continue;
    op_out *o = add_out(op);
    o->kind = OUT_STORE;
    o->store = s;
    describe_value(f, o, l->stores[s]);
  }
  free(written);
}

/* In OUT form with the wrong sizes: the sizes that the outs must get. */
static void describe_resize(finish *f) {
  tpu_op *op = f->l->op;
  op->nouts = op->nresults = 0;
  for (uint32_t r = 0; r < f->l->nresults; r++) {
    op_out *o = add_out(op);
    const shape *s = b_shape(f->l->b, f->l->results[r].v);
    o->kind = OUT_NONE;
    o->trank = (uint8_t)s->rank;
    o->sizes = arena_alloc(&op->mem, (size_t)(s->rank + 1) * sizeof(int64_t));
    for (int i = 0; i < s->rank; i++) o->sizes[i] = s->d[i].n;
  }
}

/* A result that takes over the place of the operand it replaces. */
static void find_donations(tpu_op *op) {
  for (uint32_t k = 0; k < op->nouts; k++) {
    const op_out *o = &op->outs[k];
    if (o->kind != OUT_STORE) continue;
    const op_store *st = &op->stores[o->store];
    bool same = !st->empty && st->dtype == o->dtype && st->rank == o->rank;
    for (int i = 0; same && i < o->rank; i++) same = st->d[i].n == o->d[i].n;
    for (uint32_t u = 0; same && u < op->nuses; u++)
      if (op->uses[u].kind == USE_STORE && op->uses[u].index == o->store) op->uses[u].donate = true;
  }
}

/* A concatenation that stays in the room of its first item. */
static void find_append(tpu_op *op) {
  if (!(op->row->flags & ROW_GROWS) || !op->rung || op->nouts != 1 || !op->ntensors) return;
  const op_tensor *t = &op->tensors[0];
  if (!t->defined || t->host || t->g.kind != GEOM_WHOLE || !t->g.generic) return;
  const op_store *st = &op->stores[t->store];
  const op_out *o = &op->outs[0];
  bool same = o->kind == OUT_NEW && st->dtype == o->dtype && st->rank == o->rank;
  int axis = -1;
  for (int i = 0; same && i < o->rank; i++) {
    same = st->d[i].n == o->d[i].n;
    if (st->d[i].sym != o->d[i].sym) axis = axis < 0 ? i : TPU_MAX_RANK;
  }
  if (!same || axis < 0 || axis >= TPU_MAX_RANK) return;
  for (uint32_t u = 0; u < op->nuses; u++)
    if (op->uses[u].kind == USE_STORE && op->uses[u].index == t->store)
      op->appends = true, op->append_axis = (uint8_t)axis, op->append_use = u;
}

static void keep_checks(tpu_op *op, const B *b) {
  op->nchecks = (uint32_t)b_num_checks(b);
  if (op->nchecks > 8) op->nchecks = 8;
  for (uint32_t k = 0; k < op->nchecks; k++) {
    const char *words;
    b_check_info(b, (int)k, &op->check_code[k], &words);
    op->check_text[k] = arena_copy(&op->mem, words, strlen(words) + 1);
  }
  op->has_check = op->nchecks > 0;
}

/* Sizes that the lowering did not read are no operands: the program is the exact one of the physical sizes.
 */
static void drop_unread_sizes(L *l) {
  tpu_op *op = l->op;
  uint32_t n = 0;
  for (uint32_t i = 0; i < op->nuses; i++) {
    uint32_t k = op->uses[i].index;
    if (op->uses[i].kind == USE_SYM && !b_is_read(l->b, b_symbol_size(l->b, l->syms[k]))) continue;
    op->uses[n++] = op->uses[i];
  }
  op->nuses = n;
}

static tpu_error *op_create(const prep *p, tpu_op **out) {
  tpu_op *op = op_sketch(p);
  if (!scratch) scratch = b_create();
  b_reset(scratch);
  L l;
  lower_begin(&l, op, scratch, true);
  if (p->decline)
    l_decline(&l, p->decline);
  else
    op->row->fn(&l);
  Val *outs = tpu_xmalloc((l.nresults + op->nstores + 1) * sizeof(Val));
  finish f = {.l = &l, .describe = true, .outs = outs};
  if (!l.declined && b_ok(scratch)) finish_results(&f);
  op->nreal = f.n;
  if (!l.declined && b_ok(scratch)) keep_requires(&l);
  if (!l.declined && b_ok(scratch)) drop_unread_sizes(&l);
  op->rng_blocks = l.blocks;
  if (l.sized_blocks != BAD && !l.declined && b_ok(scratch))
    op->rng_size = number_of_size(&f, l.sized_blocks);
  op->reads_rng = l.seed != BAD;
  if (op->needs_resize) describe_resize(&f);
  keep_checks(op, scratch);
  op->masks_left_out = b_masks_left_out(scratch);
  op->declined = l.declined;
  tpu_error *e = b_take_error(scratch);
  lower_end(&l);
  free(outs);
  if (e && !op->declined && p->nsyms) { /* a real error comes again, in logical sizes */
    op->needs_exact = arena_copy(&op->mem, tpu_error_message(e), strlen(tpu_error_message(e)) + 1);
    tpu_error_free(e);
    e = NULL;
  }
  if (e && !op->declined) {
    if (tpu_error_code(e) == TPU_INTERNAL) e = tpu_err_prefix(e, "aten::%s", op->row->name);
    op_discard(op);
    return e;
  }
  tpu_error_free(e);
  find_donations(op);
  find_append(op);
  op->id = ++op_ids;
  op->self = op;
  *out = op;
  return NULL;
}

bool op_pad_sketch(tpu_op *op, const prep *p, int64_t size, uint32_t at) {
  uint32_t number = 0;
  for (uint32_t k = 0; k < p->nsyms; k++)
    if (p->syms[k] == size) number = k + 1;
  if (!number) return false;
  op_store *stores = arena_alloc(&op->mem, (op->nstores + op->ntensors + 1) * sizeof *stores);
  memcpy(stores, op->stores, op->nstores * sizeof *stores);
  for (uint32_t k = 0; k < op->out_first; k++) {
    op_tensor *t = (op_tensor *)&op->tensors[k];
    if (!t->defined || t->host || stores[t->store].parameter) continue;
    vdim *d = arena_alloc(&op->mem, (size_t)(t->rank + 1) * sizeof *d);
    bool any = false;
    for (int i = 0; i < t->rank; i++) {
      bool old = t->g.generic && t->g.phys[i];
      bool here = !old && t->sizes[i] == size && (at >> (t->rank - 1 - i) & 1);
      d[i] = vdim_static(old ? t->g.phys[i] : t->sizes[i]);
      if (old) d[i].sym = t->g.sym[i];
      if (here) d[i] = (vdim){ladder_rung(size), size, number};
      any = any || here;
    }
    if (!any) continue;
    op_store *st = &stores[op->nstores];
    *st = (op_store){.dtype = t->dtype, .rank = t->rank, .d = d};
    memset(&t->g, 0, sizeof t->g);
    t->g.kind = GEOM_WHOLE, t->g.covers = t->g.generic = true;
    for (int i = 0; i < t->rank; i++)
      if (d[i].sym) t->g.phys[i] = d[i].n, t->g.sym[i] = (uint8_t)d[i].sym;
    t->store = op->nstores++;
  }
  op->stores = stores;
  return true;
}

bool op_try(tpu_op *op) {
  if (!scratch) scratch = b_create();
  b_reset(scratch);
  L l;
  lower_begin(&l, op, scratch, true);
  op->row->fn(&l);
  Val *outs = tpu_xmalloc((l.nresults + op->nstores + 1) * sizeof(Val));
  finish f = {.l = &l, .describe = true, .outs = outs};
  if (!l.declined && b_ok(scratch)) finish_results(&f);
  bool good = !l.declined && b_ok(scratch);
  tpu_error_free(b_take_error(scratch));
  lower_end(&l);
  free(outs);
  return good;
}

tpu_op *op_find(const prep *p) { return map_get(&memo, p->sig.p, p->sig.n, hash_bytes(p->sig.p, p->sig.n)); }

tpu_error *op_make(const prep *p, tpu_op **out) {
  TRY(op_create(p, out));
  map_put(&memo, p->sig.p, p->sig.n, hash_bytes(p->sig.p, p->sig.n), *out);
  return NULL;
}

void op_use_type(const tpu_op *op, uint32_t i, B *b, int32_t *syms, tpu_dtype *dt, shape *s) {
  const op_use *u = &op->uses[i];
  *s = shape_of(0, NULL);
  switch ((use_kind)u->kind) {
  case USE_SCALAR: *dt = (tpu_dtype)op->scalar_dtypes[u->index]; return;
  case USE_SEED:
  case USE_OFFSET: *dt = DT_U64; return;
  case USE_SYM: *dt = DT_I32; return;
  case USE_STORE: break;
  }
  const op_store *st = &op->stores[u->index];
  *dt = (tpu_dtype)st->dtype;
  s->rank = st->rank;
  for (int k = 0; k < st->rank; k++) {
    uint32_t number = st->d[k].sym;
    if (number && !syms[number - 1]) syms[number - 1] = b_symbol_unread(b, (int)number);
    s->d[k] = (ir_dim){st->d[k].n, number ? syms[number - 1] : 0};
  }
}

void op_emit(const tpu_op *op, B *b, const Val *in, Val *outs) {
  L l;
  lower_begin(&l, (tpu_op *)op, b, false);
  for (uint32_t i = 0; i < op->nuses; i++) {
    const op_use *u = &op->uses[i];
    if (u->kind == USE_STORE) l.stores[u->index] = in[i];
    if (u->kind == USE_SCALAR) l.scalars[u->index] = in[i];
    if (u->kind == USE_SEED) l.seed = in[i];
    if (u->kind == USE_OFFSET) l.offset = in[i];
    if (u->kind == USE_SYM) l.syms[u->index] = b_symbol(b, in[i]);
  }
  for (uint32_t i = 0; i < op->nuses; i++) { /* an operand of another op's making has that op's sizes */
    tpu_dtype dt;
    shape s;
    if (op->uses[i].kind != USE_STORE) continue;
    op_use_type(op, i, b, l.syms, &dt, &s);
    l.stores[op->uses[i].index] = b_relabel(b, in[i], &s);
  }
  for (uint32_t k = 0; k < op->nsyms; k++)
    if (!l.syms[k]) l.syms[k] = b_symbol_unread(b, (int)k + 1);
  op->row->fn(&l);
  finish f = {.l = &l, .describe = false, .outs = outs};
  if (b_ok(b)) finish_results(&f);
  lower_end(&l);
}
