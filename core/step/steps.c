/* Steps: from a closed trace to its program, and launching that. See trace_int.h. */
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "step/trace_int.h"
#include "value/memory.h"

static map steps;    /* key -> step */
static map families; /* ops and wiring alone -> the steps of them */

void trace_close_key(trace *t) {
  for (uint32_t i = 0; i < t->nvals; i++) text_add(&t->key, t->vals[i]->refs > 1 ? "L" : "-", 1);
  for (uint32_t i = 0; i < t->nexts; i++) {
    const tpu_value *v = t->exts[i];
    text_add(&t->key, v->refs == 1 && v->cell->refs == 1 ? "D" : "-", 1);
  }
}

static shape value_shape(const tpu_value *v) {
  shape s = {.rank = v->rank};
  for (int i = 0; i < v->rank; i++) s.d[i] = (ir_dim){v->d[i].n, 0};
  return s;
}

bool trace_is_generic(const trace *t) {
  for (uint32_t i = 0; i < t->nexts; i++)
    if (value_is_generic(t->exts[i])) return true;
  return false;
}

typedef struct step_build {
  B *b;
  trace *t;
  Val *ext, *scalar, *slot;
} step_build;

/* Parameters: outside values, then numbers, in order. Symbols of generic outside values are parameters of
 * their own: the USE_SYM operand of the first op that reads the value comes before it in the op's uses, so
 * its scalar is known when the value is declared. */
static void declare(step_build *sb) {
  trace *t = sb->t;
  shape none = shape_of(0, NULL);
  bool generic = trace_is_generic(t);
  if (generic) /* numbers first: sizes must exist before the values that have them */
    for (uint32_t i = 0; i < t->nscalars; i++)
      sb->scalar[i] = b_param(sb->b, (tpu_dtype)t->scalars[i].dtype, &none);
  const char *p = t->key.p;
  int32_t syms[64];
  for (uint32_t o = 0; generic && o < t->nops; o++) {
    const tpu_op *op = t->ops[o];
    uint32_t code;
    memset(syms, 0, sizeof syms);
    p = trace_next_code(p, &code);
    for (uint32_t i = 0; i < op->nuses; i++) {
      p = trace_next_code(p, &code);
      if (op->uses[i].kind == USE_SYM && op->uses[i].index < 64)
        syms[op->uses[i].index] = b_symbol(sb->b, sb->scalar[code & ~CODE_MASK]);
      if ((code & CODE_MASK) != CODE_EXT || sb->ext[code & ~CODE_MASK] != BAD) continue;
      tpu_dtype dt;
      shape s;
      op_use_type(op, i, sb->b, syms, &dt, &s);
      sb->ext[code & ~CODE_MASK] = b_param(sb->b, dt, &s);
    }
  }
  for (uint32_t i = 0; !generic && i < t->nexts; i++) {
    shape s = value_shape(t->exts[i]);
    sb->ext[i] = b_param(sb->b, (tpu_dtype)t->exts[i]->dtype, &s);
  }
  for (uint32_t i = 0; !generic && i < t->nscalars; i++)
    sb->scalar[i] = b_param(sb->b, (tpu_dtype)t->scalars[i].dtype, &none);
}

static void emit_ops(step_build *sb) {
  const char *p = sb->t->key.p;
  uint32_t slot = 0;
  for (uint32_t o = 0; o < sb->t->nops; o++) {
    const tpu_op *op = sb->t->ops[o];
    Val *in = tpu_xmalloc((op->nuses + 1) * sizeof *in);
    uint32_t code;
    p = trace_next_code(p, &code);
    for (uint32_t i = 0; i < op->nuses; i++) {
      p = trace_next_code(p, &code);
      uint32_t k = code & ~CODE_MASK;
      in[i] = (code & CODE_MASK) == CODE_SLOT  ? sb->slot[k]
              : (code & CODE_MASK) == CODE_EXT ? sb->ext[k]
                                               : sb->scalar[k];
    }
    op_emit(op, sb->b, in, sb->slot + slot);
    slot += op->nreal;
    free(in);
  }
}

static tpu_error *step_text(trace *t, step *st, text *out) {
  static B *b;
  if (!b) b = b_create();
  b_reset(b);
  step_build sb = {.b = b, .t = t};
  sb.ext = tpu_xmalloc((t->nexts + 1) * sizeof(Val));
  sb.scalar = tpu_xmalloc((t->nscalars + 1) * sizeof(Val));
  sb.slot = tpu_xmalloc((t->nvals + 1) * sizeof(Val));
  for (uint32_t i = 0; i < t->nexts; i++) sb.ext[i] = BAD;
  declare(&sb);
  emit_ops(&sb);
  for (uint32_t k = 0; k < st->nlive; k++) b_return(b, sb.slot[st->live[k]]);
  Val check = t->checks ? b_check_result(b) : BAD;
  st->has_check = check != BAD;
  if (st->has_check) b_return(b, check);
  for (uint32_t i = 0; i < t->nexts; i++)
    if (st->gives[i] >= 0) b_param_alias(b, sb.ext[i], st->gives[i]);
  free(sb.ext);
  free(sb.scalar);
  free(sb.slot);
  tpu_error *e = b_take_error(b);
  return e ? e : b_print(b, out);
}

/* Each operand that nobody else holds gives its buffer to the first result of its type that has none yet. */
static void find_gifts(const trace *t, step *st) {
  uint8_t *taken = tpu_xcalloc(st->nlive + 1, 1);
  const char *donated = t->key.p + t->key.n - t->nexts;
  for (uint32_t i = 0; i < t->nexts; i++) {
    const tpu_value *v = t->exts[i];
    st->gives[i] = -1;
    for (uint32_t k = 0; k < st->nlive && donated[i] == 'D' && st->gives[i] < 0; k++) {
      const tpu_value *o = t->vals[st->live[k]];
      bool same = !taken[k] && o->dtype == v->dtype && o->rank == v->rank;
      for (int d = 0; same && d < v->rank; d++) same = o->d[d].n == v->d[d].n;
      if (!same) continue;
      taken[k] = 1, st->gives[i] = (int32_t)k;
      st->bytes -= value_bytes(o);
    }
  }
  free(taken);
}

static step *step_new(const trace *t) {
  step *st = tpu_xcalloc(1, sizeof *st);
  st->nops = t->nops;
  st->owners = tpu_xmalloc((t->nops + 1) * sizeof *st->owners);
  for (uint32_t i = 0; i < t->nops; i++) st->owners[i] = t->ops[i];
  const char *leaves = t->key.p + t->key.n - t->nexts - t->nvals;
  st->live = tpu_xmalloc((t->nvals + 1) * sizeof *st->live);
  for (uint32_t i = 0; i < t->nvals; i++)
    if (leaves[i] == 'L') {
      st->live[st->nlive++] = i;
      st->live_bytes += value_bytes(t->vals[i]);
    }
  st->gives = tpu_xmalloc((t->nexts + 1) * sizeof *st->gives);
  st->bytes = st->live_bytes;
  find_gifts(t, st);
  return st;
}

static void step_free(step *st) {
  free(st->owners);
  free(st->live);
  free(st->gives);
  free(st);
}

/* May the trace, for which `own` would be made, run as `st`? It gives more results, which are dropped: the
 * last layer of a model is like the others but that nobody reads its sum. It must not cost memory to speak
 * of, and takes over the operands that own would, and none that somebody holds. */
static bool serves(const step *st, const step *own, const trace *t) {
  const char *donated = t->key.p + t->key.n - t->nexts;
  uint32_t k = 0;
  for (uint32_t i = 0; i < own->nlive; i++, k++) {
    while (k < st->nlive && st->live[k] < own->live[i]) k++;
    if (k == st->nlive || st->live[k] != own->live[i]) return false;
  }
  for (uint32_t i = 0; i < t->nexts; i++)
    if (st->gives[i] >= 0 ? donated[i] != 'D' : own->gives[i] >= 0) return false;
  return st->live_bytes <= 2 * own->live_bytes;
}

/* The step of a key that was never seen: one of the same ops that serves, or a new one. */
static step *step_find(const trace *t, size_t ops_length) {
  step *own = step_new(t),
       *first = map_get(&families, t->key.p, ops_length, hash_bytes(t->key.p, ops_length));
  for (step *st = first; st; st = st->next)
    if (serves(st, own, t)) {
      step_free(own);
      return st;
    }
  return own;
}

static void step_keep(const trace *t, size_t ops_length, step *st) {
  map_put(&steps, t->key.p, t->key.n, hash_bytes(t->key.p, t->key.n), st);
  if (st->kept) return;
  uint64_t h = hash_bytes(t->key.p, ops_length);
  st->kept = true;
  st->next = map_get(&families, t->key.p, ops_length, h);
  map_put(&families, t->key.p, ops_length, h, st);
}

tpu_error *step_get(trace *t, size_t ops_length, step **out) {
  uint64_t h = hash_bytes(t->key.p, t->key.n);
  *out = map_get(&steps, t->key.p, t->key.n, h);
  bool known = *out;
  step *st = known ? *out : step_find(t, ops_length);
  if (st->too_large) {
    *out = st;
    return NULL;
  }
  if (program_ready(st->prog)) {
    program_count_hit();
    if (!known) step_keep(t, ops_length, st);
    *out = st;
    return NULL;
  } /* a known one may have lost its program: cleared, or unloaded */
  text mlir = {0};
  char name[64];
  snprintf(name, sizeof name, "step of %u ops", t->nops);
  tpu_error *e = step_text(t, st, &mlir);
  if (!e) e = program_get(&mlir, name, (int)t->nops, &st->prog);
  text_free(&mlir);
  if (e && tpu_error_code(e) == TPU_OUT_OF_MEMORY) {
    st->too_large = true;
    tpu_error_free(e);
    e = NULL;
  }
  if (!e && !known) step_keep(t, ops_length, st);
  if (e && !st->kept) step_free(st);
  *out = e ? NULL : st;
  return e;
}

tpu_error *step_launch(trace *t, const step *st, bool *ran) {
  int device = t->device;
  if (st->too_large || !memory_fits(device, st->bytes, true)) return NULL;
  uint32_t nargs = t->nexts + t->nscalars, nouts = st->nlive + st->has_check;
  PJRT_Buffer **args = tpu_xmalloc((nargs + 1) * sizeof *args),
              **outs = tpu_xmalloc((nouts + 1) * sizeof *outs);
  bool generic = trace_is_generic(t);
  uint32_t ext0 = generic ? t->nscalars : 0, sc0 = generic ? 0 : t->nexts;
  tpu_error *e = NULL;
  for (uint32_t i = 0; i < t->nexts; i++) args[ext0 + i] = t->exts[i]->cell->buf;
  for (uint32_t i = 0; i < t->nscalars && !e; i++) {
    const prep_scalar *s = &t->scalars[i];
    e = scalar_buffer(device, (tpu_dtype)s->dtype, s->lo, s->hi, &args[sc0 + i]);
  }
  if (!e) e = rt_execute(st->prog->exec, device, args, nargs, NULL, 0, outs, nouts);
  scalar_sweep();
  *ran = !e;
  for (uint32_t i = 0; i < t->nexts && !e; i++) { /* what only this trace held, as close_key saw it */
    if (t->key.p[t->key.n - t->nexts + i] != 'D') continue;
    value_release(t->exts[i]);
    t->exts[i] = NULL;
  }
  for (uint32_t k = 0; k < st->nlive && !e; k++) {
    tpu_value *v = t->vals[st->live[k]];
    value_set_cell(v, cell_create(outs[k], device, value_bytes(v)));
  }
  if (!e && st->has_check) e = checks_add(outs[st->nlive], device, (check_owner){st->owners, st->nops});
  free(args);
  free(outs);
  return e;
}

void trace_clear_steps(void) {
  size_t it = 0;
  for (step *st; (st = map_next(&steps, &it));) st->prog = NULL, st->too_large = false;
}
