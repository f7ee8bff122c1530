/* Op by op: a step that failed as a whole still computes what strict mode would have. See trace_int.h. */
#include <stdlib.h>

#include "step/trace_int.h"

typedef struct single { /* launching the ops of a trace alone */
  trace *t;
  uint32_t *codes;     /* of op o: where its codes stand in the key, in words */
  uint32_t *slot;      /* of op o: its first result */
  uint32_t *last_slot; /* of a result: 1 + the last op that reads it and is needed; 0: none */
  uint32_t *last_ext;  /* of an outside value */
  tpu_error *first;    /* of what failed */
} single;

static uint32_t operand(const single *s, uint32_t o, uint32_t i) {
  uint32_t code;
  memcpy(&code, s->t->key.p + (s->codes[o] + i) * sizeof code, sizeof code);
  return code;
}

static uint32_t *last_use(const single *s, uint32_t code) {
  uint32_t k = code & ~CODE_MASK;
  switch (code & CODE_MASK) {
  case CODE_SLOT: return &s->last_slot[k];
  case CODE_EXT: return &s->last_ext[k];
  default: return NULL;
  }
}

static tpu_value **value_of(const single *s, uint32_t code) {
  uint32_t k = code & ~CODE_MASK;
  return (code & CODE_MASK) == CODE_SLOT ? &s->t->vals[k] : &s->t->exts[k];
}

static bool single_needed(const single *s, uint32_t o) {
  const tpu_op *op = s->t->ops[o];
  bool needed = op->has_check;
  for (uint32_t k = s->slot[o]; k < s->slot[o] + op->nreal; k++)
    needed = needed || s->last_slot[k] || s->t->vals[k]->refs > 1;
  return needed;
}

static void single_begin(single *s, trace *t) {
  *s = (single){.t = t};
  s->codes = tpu_xmalloc((t->nops + 1) * sizeof *s->codes);
  s->slot = tpu_xmalloc((t->nops + 1) * sizeof *s->slot);
  s->last_slot = tpu_xcalloc(t->nvals + 1, sizeof *s->last_slot);
  s->last_ext = tpu_xcalloc(t->nexts + 1, sizeof *s->last_ext);
  for (uint32_t o = 0, at = 0, slot = 0; o < t->nops; o++) {
    s->codes[o] = at + 1; /* the op's id comes first */
    s->slot[o] = slot;
    at += 1 + t->ops[o]->nuses;
    slot += t->ops[o]->nreal;
  }
  for (uint32_t o = t->nops; o-- > 0;) {
    if (!single_needed(s, o)) continue;
    for (uint32_t i = 0; i < t->ops[o]->nuses; i++) {
      uint32_t *last = last_use(s, operand(s, o, i));
      if (last && !*last) *last = o + 1;
    }
  }
}

/* A failed launch of the whole may have taken what was donated to it. */
static void single_lost(single *s, const tpu_error *e) {
  trace *t = s->t;
  for (uint32_t i = 0; i < t->nexts; i++)
    if (!t->exts[i]->cell->buf || rt_is_taken(t->exts[i]->cell->buf)) value_set_error(t->exts[i], e);
}

/* Buffers of the operands; whatever the op could take over it must leave: others may read it later. */
static tpu_error *single_operands(const single *s, uint32_t o, PJRT_Buffer **args, int64_t *keep,
                                  size_t *nkeep) {
  const tpu_op *op = s->t->ops[o];
  for (uint32_t i = 0; i < op->nuses; i++) {
    uint32_t code = operand(s, o, i);
    if ((code & CODE_MASK) == CODE_SCALAR) {
      const prep_scalar *n = &s->t->scalars[code & ~CODE_MASK];
      TRY(scalar_buffer(op->device, (tpu_dtype)n->dtype, n->lo, n->hi, &args[i]));
      continue;
    }
    const tpu_value *v = *value_of(s, code);
    if (v->state == V_ERROR) return value_error(v);
    args[i] = v->cell->buf;
    if (op->uses[i].donate || (op->appends && i == op->append_use)) keep[(*nkeep)++] = i;
  }
  return NULL;
}

static tpu_error *single_launch(const single *s, uint32_t o) {
  tpu_op *op = s->t->ops[o];
  size_t nkeep = 0, nouts = op->nreal + op->has_check;
  PJRT_Buffer **args = tpu_xmalloc((op->nuses + 1) * sizeof *args);
  PJRT_Buffer **outs = tpu_xmalloc((nouts + 1) * sizeof *outs);
  int64_t *keep = tpu_xmalloc((op->nuses + 1) * sizeof *keep);
  tpu_error *e = op_load(op); /* may pause; nothing below does */
  if (!e) e = single_operands(s, o, args, keep, &nkeep);
  if (!e) e = op_reserve(op);
  if (!e)
    e = op_says(op, rt_execute(op->program->exec, op->device, args, op->nuses, keep, nkeep, outs, nouts));
  scalar_sweep();
  for (uint32_t k = 0; k < op->nreal; k++) {
    tpu_value *v = s->t->vals[s->slot[o] + k];
    if (e)
      value_set_error(v, e);
    else
      value_set_cell(v, cell_create(outs[k], op->device, value_bytes(v)));
  }
  if (!e && op->has_check) e = checks_add(outs[op->nreal], op->device, (check_owner){&op->self, 1});
  free(args);
  free(outs);
  free(keep);
  return e;
}

/* What nobody reads after op o goes at once, as it would have in strict mode. */
static void single_release(const single *s, uint32_t o) {
  const tpu_op *op = s->t->ops[o];
  for (uint32_t i = 0; i < op->nuses; i++) {
    uint32_t code = operand(s, o, i), *last = last_use(s, code);
    if (!last || *last != o + 1) continue;
    tpu_value **v = value_of(s, code);
    value_release(*v);
    *v = NULL;
    *last = 0; /* an operand that the op reads twice */
  }
  for (uint32_t k = s->slot[o]; k < s->slot[o] + op->nreal; k++) {
    if (s->last_slot[k]) continue;
    value_release(s->t->vals[k]);
    s->t->vals[k] = NULL;
  }
}

/* All programs, so that Ctrl-C finds the trace as it was. Other errors come up again where they belong. */
static tpu_error *single_load(const single *s) {
  for (uint32_t o = 0; o < s->t->nops; o++) {
    tpu_error *e = single_needed(s, o) ? op_load(s->t->ops[o]) : NULL;
    if (e && tpu_error_code(e) == TPU_INTERRUPTED) return e;
    tpu_error_free(e);
  }
  return NULL;
}

static void single_run(single *s, const tpu_error *why) {
  if (why) single_lost(s, why);
  for (uint32_t o = 0; o < s->t->nops; o++) {
    if (!single_needed(s, o)) continue;
    tpu_error *e = single_launch(s, o);
    single_release(s, o);
    if (!s->first)
      s->first = e;
    else
      tpu_error_free(e);
  }
}

tpu_error *trace_op_by_op(trace *t, const tpu_error *why, bool *whole) {
  single s;
  single_begin(&s, t);
  s.first = single_load(&s);
  *whole = s.first;
  if (!*whole) single_run(&s, why);
  free(s.codes);
  free(s.slot);
  free(s.last_slot);
  free(s.last_ext);
  return s.first;
}
