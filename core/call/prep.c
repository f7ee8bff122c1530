/* Signatures of calls. See prep.h. */
#include "call/prep.h"

#include <string.h>

#include "base/grow.h"
#include "step/graph.h"
#include "step/step.h"

static const char NO_DTYPE[] = "a dtype that XLA does not have";

/* Room is made for a whole argument at a time: what is put here is every op's way. */
enum { ARG_ROOM = 64, TENSOR_ROOM = ARG_ROOM + 48 * TPU_MAX_RANK + 28 * GEOM_LINKS };

static void put8(prep *p, int v) {
  char c = (char)v;
  text_push(&p->sig, &c, 1);
}
static void put32(prep *p, uint32_t v) { text_push(&p->sig, &v, sizeof v); }
static void put64(prep *p, int64_t v) { text_push(&p->sig, &v, sizeof v); }

static uint32_t add_scalar(prep *p, tpu_dtype dt, uint64_t lo, uint64_t hi) {
  GROW(p->scalars, p->nscalars, p->cap_scalars, 16);
  p->scalars[p->nscalars] = (prep_scalar){lo, hi, (int8_t)dt};
  return p->nscalars++;
}

static uint32_t add_store(prep *p, tpu_storage *s) {
  if (s->mark_serial == p->serial) return s->mark_index;
  GROW(p->stores, p->nstores, p->cap_stores, 16);
  p->stores[p->nstores] = (prep_store){s, s->value};
  s->mark_serial = p->serial;
  return s->mark_index = p->nstores++;
}

/* Equal sizes get equal numbers: which sizes agree is part of the signature, so that a program runs only
 * where they do. */
static uint32_t sym_number(prep *p, int64_t logical) {
  for (uint32_t k = 0; k < p->nsyms; k++)
    if (p->syms[k] == logical) return k + 1;
  GROW(p->syms, p->nsyms, p->cap_syms, 16);
  step_saw_generic(logical);
  p->syms[p->nsyms] = logical;
  return ++p->nsyms;
}

/* --- numbers --- */
bool number_is_operand(const tpu_arg *a, uint32_t flags) {
  if (a->tag == TPU_A_SCALAR_B) return false;
  if (a->tag == TPU_A_SCALAR_C) return true;
  double v = a->tag == TPU_A_SCALAR_D || a->tag == TPU_A_DOUBLE ? a->u.d : (double)a->u.i;
  if (v == 0) return a->u.i != 0; /* -0.0 */
  if (v == 1) return false;
  return !((flags & ROW_SPECIAL) && (v == -2 || v == -1 || v == -0.5 || v == 0.5 || v == 2 || v == 3));
}

static void put_number(prep *p, const tpu_arg *a, uint32_t flags) {
  text_reserve(&p->sig, ARG_ROOM);
  bool operand = number_is_operand(a, flags);
  put8(p, a->tag);
  put8(p, !operand);
  if (!operand) {
    put64(p, a->u.i);
    return;
  }
  uint64_t parts[2] = {(uint64_t)a->u.i, 0};
  if (a->tag == TPU_A_SCALAR_C) memcpy(parts, a->u.ds, sizeof parts);
  tpu_dtype dt = a->tag == TPU_A_SCALAR_I ? DT_I64 : a->tag == TPU_A_SCALAR_C ? DT_C128 : DT_F64;
  add_scalar(p, dt, parts[0], parts[1]);
}

/* A number in tensor's clothes is structure only where the row asked for special values. */
static bool host_is_structure(const prep_tensor *pt, uint32_t flags) {
  if (!(pt->t->flags & TPU_T_WRAPPED) || !(flags & ROW_SPECIAL)) return false;
  if (pt->dtype != DT_I64 && pt->dtype != DT_F64) return false;
  tpu_arg a = {.tag = pt->dtype == DT_I64 ? TPU_A_SCALAR_I : TPU_A_SCALAR_D};
  memcpy(&a.u.i, pt->t->host, sizeof a.u.i);
  return !number_is_operand(&a, flags);
}

static void put_host(prep *p, prep_tensor *pt, uint32_t flags) {
  uint64_t bits[2] = {0, 0};
  memcpy(bits, pt->t->host, dt_bytes((tpu_dtype)pt->dtype));
  pt->host = true;
  pt->structure = host_is_structure(pt, flags);
  put8(p, 'H');
  put8(p, pt->dtype);
  put8(p, pt->t->flags);
  put8(p, pt->structure);
  pt->scalar = add_scalar(p, (tpu_dtype)pt->dtype, bits[0], bits[1]);
  if (pt->structure) put64(p, (int64_t)bits[0]);
}

/* --- tensors --- */
static bool stale(const prep *p) { return p->pauses != core_pauses(); }

static void put_value_type(prep *p, const prep_store *ps) {
  if (!ps->v) {
    put8(p, 'E');
    put64(p, (int64_t)ps->s->nbytes);
    return;
  }
  put8(p, ps->v->dtype);
  put8(p, ps->v->rank);
  for (int i = 0; i < ps->v->rank; i++) {
    put64(p, ps->v->d[i].n);
    if (ps->v->d[i].sym) put32(p, 0x80000000u | sym_number(p, ps->v->d[i].logical));
  }
}

static void put_groups(prep *p, const tpu_tensor *t, const geom *g) {
  put8(p, g->n | (g->merge_to ? 128 : 0));
  put8(p, g->merge_from);
  put8(p, g->merge_to);
  for (int i = 0; i < g->n; i++) {
    put8(p, g->link[i] | (g->start[i] >= 0 ? 16 : 0));
    put8(p, g->dim[i]);
    put64(p, g->extent[i]);
    put64(p, g->size[i]);
    put64(p, g->step[i]);
  }
  put8(p, g->nspread);
  text_add(&p->sig, g->spread, g->nspread);
  text_add(&p->sig, g->by, g->nspread);
  for (int d = 0; d < t->rank; d++) {
    put8(p, g->sym[d]);
    put64(p, g->phys[d] ? g->phys[d] : t->sizes[d]);
    if (!g->phys[d] && t->strides[d] == 0) put8(p, 0);
  }
}

static void put_view(prep *p, prep_tensor *pt) {
  const tpu_tensor *t = pt->t;
  geom *g = &pt->g;
  put8(p, g->kind | (g->offset << 4) | (g->covers << 5));
  put8(p, pt->dtype);
  put8(p, t->rank);
  for (int d = 0; g->generic && d < t->rank; d++)
    g->sym[d] = g->phys[d] ? (uint8_t)sym_number(p, t->sizes[d]) : 0;
  if (g->kind == GEOM_PERMUTE) text_add(&p->sig, g->perm, t->rank);
  if (g->kind == GEOM_WHOLE || g->kind == GEOM_PERMUTE) return;
  if (g->kind == GEOM_GROUPS) {
    put_groups(p, t, g);
    return;
  }
  text_add(&p->sig, t->sizes, t->rank * sizeof(int64_t));
  if (g->kind != GEOM_RESHAPE) text_add(&p->sig, t->strides, t->rank * sizeof(int64_t));
}

/* The common case, without a plan: the tensor is its storage's static value, dim by dim. */
static bool plan_whole(prep_tensor *pt, const prep_store *ps) {
  const tpu_tensor *t = pt->t;
  const tpu_value *v = ps->v;
  if (!v || v->dtype != pt->dtype || v->rank != t->rank || t->offset) return false;
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (v->d[i].sym || v->d[i].n != t->sizes[i] || t->sizes[i] == 0) return false;
    if (t->strides[i] != stride && t->sizes[i] != 1) return false;
    stride *= t->sizes[i];
  }
  if ((size_t)stride * dt_bytes((tpu_dtype)v->dtype) != ps->s->nbytes) return false;
  pt->g.kind = GEOM_WHOLE;
  pt->g.covers = true;
  pt->g.offset = pt->g.retype = pt->g.generic = false;
  return true;
}

static bool plan(prep_tensor *pt, const prep_store *ps) {
  const tpu_tensor *t = pt->t;
  view w = {(tpu_dtype)pt->dtype, t->rank, t->sizes, t->strides, t->offset};
  vdim flat;
  if (ps->v) return geom_plan(&w, (tpu_dtype)ps->v->dtype, ps->v->rank, ps->v->d, ps->s->nbytes, &pt->g);
  flat = vdim_static((int64_t)ps->s->nbytes / dt_bytes(w.dtype));
  return geom_plan(&w, w.dtype, 1, &flat, ps->s->nbytes, &pt->g);
}

/* Which sizes of the view are generic, where the plan leaves that open. A static value with an expanded dim
 * or a part that varies is seen as generic values are. */
static void settle_sizes(prep *p, prep_tensor *pt, uint32_t flags, bool written) {
  const prep_store *ps = &p->stores[pt->store];
  const tpu_tensor *t = pt->t;
  geom *g = &pt->g, other = {0};
  bool groups = g->kind == GEOM_GROUPS, chain = g->kind == GEOM_CHAIN && !g->retype;
  if (p->exact || (flags & ROW_EXACT) || !ps->v || !(groups || chain)) return;
  view w = {(tpu_dtype)pt->dtype, t->rank, t->sizes, t->strides, t->offset};
  uint32_t parts = tpu_sizes_auto() ? groups_parts(g) : 0,
           open = groups_open(g, &w, tpu_sizes_auto() && !written) | parts;
  if (!open) return;
  bool inside = parts && !written && t->offset;
  static text key;
  text_clear(&key);
  text_put(&key, &p->call->row, sizeof p->call->row);
  text_put(&key, &p->ntensors, sizeof p->ntensors);
  text_add(&key, inside ? "i" : written ? "w" : "r", 1);
  for (int d = 0; d < t->rank; d++) {
    int64_t n = open >> d & 1 ? -1 : g->phys[d] ? -2 : t->sizes[d];
    text_put(&key, &n, sizeof n);
  }
  uint32_t dims = step_open_sizes(&key, &w, open, inside ? parts : 0, g->nspread != 0, &pt->memory);
  if (!dims) return;
  if (chain) {
    if (!groups_plan(&w, ps->v->rank, ps->v->d, &other)) return;
    *g = other;
    dims &= groups_open(g, &w, true) | groups_parts(g);
  }
  groups_vary(g, &w, dims);
}

/* Values that the row or the view cannot take as they are are seen as they would be: without padding, or in
 * another type. `seen`: the value's type stands in the signature already. */
static tpu_error *settle(prep *p, prep_tensor *pt, uint32_t flags, bool seen) {
  prep_store *ps = &p->stores[pt->store];
  if (plan_whole(pt, ps)) return NULL;
  view w = {(tpu_dtype)pt->dtype, pt->t->rank, pt->t->sizes, pt->t->strides, pt->t->offset};
  TRY(view_in_bounds(&w, ps->s->nbytes));
  bool exact = flags & ROW_EXACT; /* takes a static part of a generic value as it is */
  if (ps->v && value_is_generic(ps->v) && (p->exact || !plan(pt, ps) || (exact && pt->g.generic))) {
    if (!p->exact)
      p->cut = exact ? "the row is for exact sizes" : "a view that is not known of generic values";
    p->mixed = p->mixed || seen;
    TRY(step_exact_twin(ps->s, &ps->v));
  }
  plan(pt, ps);
  bool once = pt->g.retype && pt->g.covers && ps->v && ps->v == ps->s->value && ps->v->state == V_CELL;
  if (once &&
      !graph_records(pt->t->device)) { /* a byte storage is retyped for good; a graph casts its input */
    TRY(step_retype(ps->s, (tpu_dtype)pt->dtype));
    ps->v = ps->s->value;
    plan(pt, ps);
  }
  return NULL;
}

static bool is_written(const prep *p, const tpu_tensor *t) {
  const tpu_call *call = p->call;
  const tpu_arg *self = call->nargs ? &call->args[0] : NULL;
  bool out = call->variant == TPU_OUT && t >= call->outs && t < call->outs + call->nouts;
  return out || (call->variant == TPU_INPLACE && self && t >= self->u.t && t < self->u.t + self->n);
}

static tpu_error *put_tensor(prep *p, const tpu_tensor *t, uint32_t flags) {
  GROW(p->tensors, p->ntensors, p->cap_tensors, 16);
  prep_tensor *pt = &p->tensors[p->ntensors++];
  text_reserve(&p->sig, TENSOR_ROOM);
  pt->t = NULL;
  if (t->flags & TPU_T_UNDEFINED) {
    put8(p, 'U');
    return NULL;
  }
  pt->t = t;
  pt->host = pt->structure = false;
  pt->memory = NULL;
  tpu_dtype dt = tpu_dtype_from_torch(t->dtype);
  if (dt == DT_NONE || t->rank > TPU_MAX_RANK) {
    p->decline = dt == DT_NONE ? NO_DTYPE : "a tensor of more than 16 dims";
    put8(p, 'U');
    return NULL;
  }
  pt->dtype = (int8_t)dt;
  if (stale(p)) return NULL;
  if (t->flags & TPU_T_HOST) {
    put_host(p, pt, flags);
    return NULL;
  }
  bool seen = t->storage->mark_serial == p->serial;
  pt->store = add_store(p, t->storage);
  TRY(settle(p, pt, flags, seen));
  settle_sizes(p, pt, flags, is_written(p, t));
  if (stale(p)) return NULL;
  put8(p, 'T');
  put8(p, t->flags);
  put32(p, pt->store);
  if (!seen) put_value_type(p, &p->stores[pt->store]);
  put_view(p, pt);
  if (pt->g.offset) pt->scalar = add_scalar(p, DT_I64, (uint64_t)t->offset, 0);
  for (uint32_t k = 0; pt->g.kind == GEOM_GROUPS && k < pt->g.nstart; k++) {
    uint32_t at = add_scalar(p, DT_I64, (uint64_t)pt->g.starts[k], 0);
    if (k == 0) pt->scalar = at;
  }
  return NULL;
}

static tpu_error *put_arg(prep *p, const tpu_arg *a, uint32_t flags) {
  text_reserve(&p->sig, ARG_ROOM);
  switch ((tpu_tag)a->tag) {
  case TPU_A_NONE: put8(p, a->tag); return NULL;
  case TPU_A_TENSOR: return put_tensor(p, a->u.t, flags);
  case TPU_A_TENSORS:
    put8(p, a->tag);
    put32(p, a->n);
    for (uint32_t k = 0; k < a->n; k++) TRY(put_tensor(p, &a->u.t[k], flags));
    return NULL;
  case TPU_A_DOUBLE:
    if (flags & ROW_FLOAT_PARAM) {
      put_number(p, a, flags);
      return NULL;
    } /* fall through */
  case TPU_A_INT:
    if ((flags & ROW_EXTENTS) && p->nsyms && p->extents++ < 3) {
      put8(p, a->tag);
      return NULL;
    } /* fall through */
  case TPU_A_BOOL:
  case TPU_A_DTYPE:
    if (a->tag == TPU_A_DTYPE && tpu_dtype_from_torch((int)a->u.i) == DT_NONE) p->decline = NO_DTYPE;
    put8(p, a->tag);
    put64(p, a->u.i);
    return NULL;
  case TPU_A_SCALAR_I:
  case TPU_A_SCALAR_D:
  case TPU_A_SCALAR_B:
  case TPU_A_SCALAR_C: put_number(p, a, flags); return NULL;
  case TPU_A_SIZES:
    text_reserve(&p->sig, ARG_ROOM + a->n * 9);
    put8(p, a->tag);
    put32(p, a->n);
    for (uint32_t k = 0; k < a->n; k++) {
      int64_t v = a->u.is[k], n = v & ~SIZE_GENERIC;
      put8(p, size_is_generic(v) ? (int)sym_number(p, n) : 0);
      put64(p, size_is_generic(v) ? ladder_rung(n) : v);
    }
    return NULL;
  case TPU_A_INTS:
  case TPU_A_BOOLS:
  case TPU_A_DOUBLES:
    put8(p, a->tag);
    put32(p, a->n);
    text_add(&p->sig, a->u.is, a->n * sizeof(int64_t));
    return NULL;
  case TPU_A_SCALARS:
    put8(p, a->tag);
    put32(p, a->n);
    for (uint32_t k = 0; k < a->n; k++) put_number(p, &a->u.as[k], flags);
    return NULL;
  case TPU_A_STRING:
    put8(p, a->tag);
    put32(p, a->n);
    text_add(&p->sig, a->u.s, a->n);
    return NULL;
  }
  return tpu_err(TPU_INTERNAL, "argument tag %d", a->tag);
}

/* A concatenation with a generic axis: the rung of the result is part of the signature. A result that fits
 * into the first item's room stays there. */
static void put_growth(prep *p, const tpu_call *call) {
  p->rung = 0;
  if (!(call->row->flags & ROW_GROWS) || call->variant != TPU_FUNCTIONAL || call->nargs < 2 || p->exact)
    return;
  const tpu_arg *list = &call->args[0];
  if (list->tag != TPU_A_TENSORS) return;
  int64_t total = 0, room = 0, axis = 0;
  bool generic = false;
  for (uint32_t k = 0; k < list->n; k++) {
    const tpu_tensor *t = &list->u.t[k];
    if (!p->tensors[k].t || p->tensors[k].host || (t->rank == 1 && t->sizes[0] == 0)) continue;
    axis = call->args[1].u.i < 0 ? call->args[1].u.i + t->rank : call->args[1].u.i;
    if (axis < 0 || axis >= t->rank) return;
    int64_t phys = p->tensors[k].g.generic ? p->tensors[k].g.phys[axis] : 0;
    if (k == 0) room = phys;
    generic = generic || phys;
    total += t->sizes[axis];
  }
  if (!generic) return;
  p->rung = room >= total ? room : ladder_rung(total);
  text_reserve(&p->sig, ARG_ROOM);
  put64(p, p->rung);
}

static tpu_error *prepare(prep *p, const tpu_call *call, bool exact) {
  uint32_t flags = call->row->flags;
  p->call = call;
  p->exact = exact, p->mixed = false;
  if (!exact) p->cut = NULL;
  p->decline = NULL;
  p->nstores = p->nscalars = p->ntensors = p->nsyms = p->extents = 0;
  text_clear(&p->sig);
  p->serial = core_serial();
  p->pauses = core_pauses();
  text_reserve(&p->sig, ARG_ROOM);
  put64(p, (int64_t)(uintptr_t)call->row);
  put8(p, call->variant | (step_precision() << 4) | (step_masks_off() << 7));
  put8(p, call->device);
  put8(p, step_default_float());
  for (int i = 0; i < call->nargs; i++) TRY(put_arg(p, &call->args[i], flags));
  p->out_first = p->ntensors;
  text_reserve(&p->sig, ARG_ROOM);
  put32(p, (uint32_t)call->nouts);
  if (call->variant >= TPU_OUT)
    for (int i = 0; i < call->nouts; i++) TRY(put_tensor(p, &call->outs[i], flags));
  if (!stale(p)) put_growth(p, call);
  return NULL;
}

tpu_error *prep_call(prep *p, const tpu_call *call, bool exact) {
  do {
    TRY(prepare(p, call, exact || (p->mixed && p->call == call)));
  } while (stale(p) || (p->mixed && !p->exact));
  return NULL;
}
