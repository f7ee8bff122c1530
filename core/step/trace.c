/* Recording, cutting and launching fused steps. See trace.h. */
#include "step/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/map.h"
#include "step/step.h"
#include "value/memory.h"

/* An operand is one of three kinds; the two top bits of its code say which. */
enum { CODE_SLOT = 0u << 30, CODE_EXT = 1u << 30, CODE_SCALAR = 2u << 30, CODE_MASK = 3u << 30 };

typedef struct trace {
  uint32_t serial;
  bool flushing;
  const char
      *due;     /* why a step ends here: it is launched before the next op is recorded; NULL: it does not */
  tpu_op **ops; /* recorded calls */
  tpu_value **vals; /* results, nreal an op, in order; a reference each */
  tpu_value **exts; /* operands from outside; a reference each */
  prep_scalar *scalars;
  uint32_t *sizes; /* which scalars are sizes */
  uint32_t nops, nvals, nexts, nscalars, nsizes, cap_ops, cap_vals, cap_exts, cap_scalars, cap_sizes;
  text key;               /* op ids and operand codes, as recorded */
  uint32_t period, match; /* the last `match` ops equal the ones `period` before them */
  bool checks;
} trace;

typedef struct step { /* what a key runs */
  program *prog;
  const tpu_op **owners; /* ops, for checks */
  uint32_t nops;
  uint32_t *live; /* slots that leave, in result order */
  uint32_t nlive;
  int64_t bytes; /* of the live ones, without what is taken over */
  bool has_check;
  bool too_large; /* the compiler found no room for it: its ops run alone */
} step;

static trace *traces[TPU_MAX_DEVICES];
static uint32_t serials;
static map steps;
static pthread_cond_t flushed = PTHREAD_COND_INITIALIZER;

/* The sequence that repeats (op ids of one copy) while a device is in periodic state. */
static struct {
  uint32_t *ids;
  uint32_t n, cap;
} periodic[TPU_MAX_DEVICES];

static struct {
  int64_t flushes, ops, by_need, by_size, by_repeat, op_by_op;
  const char *last;
} stat;

#define PUSH(arr, n, cap, v) \
  do {                       \
    GROW(arr, n, cap, 64);   \
    (arr)[(n)++] = (v);      \
  } while (0)

static trace *trace_of(int device) {
  if (!traces[device]) traces[device] = tpu_xcalloc(1, sizeof(trace));
  trace *t = traces[device];
  if (!t->serial) t->serial = ++serials;
  return t;
}

static void trace_free(trace *t) {
  for (uint32_t i = 0; i < t->nvals; i++) value_release(t->vals[i]);
  for (uint32_t i = 0; i < t->nexts; i++) value_release(t->exts[i]);
  free(t->ops);
  free(t->vals);
  free(t->exts);
  free(t->scalars);
  free(t->sizes);
  text_free(&t->key);
  free(t);
}

static void put_code(trace *t, uint32_t code) { text_put(&t->key, &code, sizeof code); }

static void record_scalar(trace *t, tpu_dtype dt, uint64_t lo, uint64_t hi) {
  put_code(t, CODE_SCALAR | t->nscalars);
  prep_scalar s = {lo, hi, (int8_t)dt};
  PUSH(t->scalars, t->nscalars, t->cap_scalars, s);
}

/* One operand a size, whoever asks: the ops of a step agree on sizes by it. */
static void record_size(trace *t, int64_t size) {
  for (uint32_t i = 0; i < t->nsizes; i++)
    if (t->scalars[t->sizes[i]].lo == (uint64_t)size) {
      put_code(t, CODE_SCALAR | t->sizes[i]);
      return;
    }
  PUSH(t->sizes, t->nsizes, t->cap_sizes, t->nscalars);
  record_scalar(t, DT_I32, (uint64_t)size, 0);
}

/* v is real, or pending in t: see trace_ready. */
static void record_value(trace *t, tpu_value *v) {
  if (v->state == V_PENDING) {
    put_code(t, CODE_SLOT | v->slot);
    return;
  }
  if (v->mark_serial != t->serial) {
    v->mark_serial = t->serial;
    v->mark_index = t->nexts;
    value_retain(v);
    PUSH(t->exts, t->nexts, t->cap_exts, v);
  }
  put_code(t, CODE_EXT | v->mark_index);
}

static void record_operands(trace *t, const tpu_op *op, prep *p, const tpu_philox *rng) {
  for (uint32_t i = 0; i < op->nuses; i++) {
    const op_use *u = &op->uses[i];
    switch ((use_kind)u->kind) {
    case USE_STORE: record_value(t, p->stores[u->index].v); break;
    case USE_SCALAR: {
      const prep_scalar *s = &p->scalars[u->index];
      record_scalar(t, (tpu_dtype)s->dtype, s->lo, s->hi);
      break;
    }
    case USE_SEED: record_scalar(t, DT_U64, rng->seed, 0); break;
    case USE_OFFSET: record_scalar(t, DT_U64, rng->offset, 0); break;
    case USE_SYM: record_size(t, p->syms[u->index]); break;
    }
  }
}

static tpu_error *flush_one(int device, const char *why);

tpu_error *trace_ready(const tpu_op *op, const prep *p) {
  trace *t = trace_of(op->device);
  if (t->due) {
    TRY(flush_one(op->device, t->due));
    t = trace_of(op->device);
  }
  for (uint32_t i = 0; i < op->nuses && p->pauses == core_pauses(); i++) {
    if (op->uses[i].kind != USE_STORE) continue;
    tpu_value *v = p->stores[op->uses[i].index].v;
    if (v->state == V_ERROR) return value_error(v);
    if (v->state == V_PENDING && v->trace != t) TRY(trace_need(v));
    if (v->state == V_CELL && !v->cell->buf) TRY(step_materialize(p->stores[op->uses[i].index].s));
  }
  return NULL;
}

/* --- cuts --- */
static bool in_period(trace *t, int device) {
  uint32_t i = t->nops - 1;
  if (!periodic[device].n) return false;
  if (i < periodic[device].n && periodic[device].ids[i] == t->ops[i]->id) return true;
  periodic[device].n = 0;
  return false;
}

/* After op i was appended: has a sequence of at least TRACE_MIN ops just come twice in a row? */
static bool repeats(trace *t, int device) {
  uint32_t i = t->nops - 1;
  tpu_op *op = t->ops[i];
  uint32_t gap = op->last_serial == t->serial ? i - op->last_pos : 0;
  op->last_serial = t->serial;
  op->last_pos = i;
  if (t->period && i >= t->period && t->ops[i - t->period] == op)
    t->match++;
  else
    t->period = gap, t->match = gap ? 1 : 0;
  if (!t->period) return false;
  uint32_t chunk = (TRACE_MIN + t->period - 1) / t->period * t->period;
  if (t->match < chunk) return false;
  periodic[device].n = 0;
  for (uint32_t k = t->nops - chunk; k < t->nops; k++)
    PUSH(periodic[device].ids, periodic[device].n, periodic[device].cap, t->ops[k]->id);
  return true;
}

static void cut(trace *t, int device) {
  /* both always look: where a step is cut must not depend on what came before it */
  bool inside = in_period(t, device), twice = repeats(t, device);
  if (inside ? t->nops == periodic[device].n : twice) {
    stat.by_repeat++;
    t->due = "repeat";
  } else if (t->nops == TRACE_MAX) {
    stat.by_size++;
    t->due = "size";
  }
}

tpu_error *trace_record(tpu_op *op, prep *p, tpu_call *call) {
  trace *t = trace_of(op->device);
  tpu_philox rng = {0, 0};
  TRY(op_draw(op, p, call, &rng));
  PUSH(t->ops, t->nops, t->cap_ops, op);
  put_code(t, op->id);
  record_operands(t, op, p, &rng);
  tpu_value *stack[64], **vals = op->nouts <= 64 ? stack : tpu_xmalloc(op->nouts * sizeof *vals);
  for (uint32_t k = 0; k < op->nouts; k++) {
    vals[k] = NULL;
    if (op->outs[k].kind == OUT_NONE) continue;
    tpu_value *v = vals[k] = op_new_value(op, k, p);
    v->refs = 2; /* the trace's and the storage's */
    v->trace = t;
    v->slot = t->nvals;
    PUSH(t->vals, t->nvals, t->cap_vals, v);
  }
  t->checks = t->checks || op->has_check;
  tpu_error *e = op_bind(op, p, call, vals);
  if (vals != stack) free(vals);
  cut(t, op->device);
  return e;
}

/* --- steps --- */
/* Appends what else decides the program: which results leave and which operands may be taken over. */
static void close_key(trace *t) {
  for (uint32_t i = 0; i < t->nvals; i++) text_add(&t->key, t->vals[i]->refs > 1 ? "L" : "-", 1);
  for (uint32_t i = 0; i < t->nexts; i++) {
    const tpu_value *v = t->exts[i];
    text_add(&t->key, v->refs == 1 && v->cell->refs == 1 ? "D" : "-", 1);
  }
}

/* The operand codes of the key, op by op. */
static const char *next_code(const char *p, uint32_t *code) {
  memcpy(code, p, sizeof *code);
  return p + sizeof *code;
}

static shape value_shape(const tpu_value *v) {
  shape s = {.rank = v->rank};
  for (int i = 0; i < v->rank; i++) s.d[i] = (ir_dim){v->d[i].n, 0};
  return s;
}

static bool generic_trace(const trace *t) {
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
  bool generic = generic_trace(t);
  if (generic) /* numbers first: sizes must exist before the values that have them */
    for (uint32_t i = 0; i < t->nscalars; i++)
      sb->scalar[i] = b_param(sb->b, (tpu_dtype)t->scalars[i].dtype, &none);
  const char *p = t->key.p;
  int32_t syms[64];
  for (uint32_t o = 0; generic && o < t->nops; o++) {
    const tpu_op *op = t->ops[o];
    uint32_t code;
    memset(syms, 0, sizeof syms);
    p = next_code(p, &code);
    for (uint32_t i = 0; i < op->nuses; i++) {
      p = next_code(p, &code);
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
    p = next_code(p, &code);
    for (uint32_t i = 0; i < op->nuses; i++) {
      p = next_code(p, &code);
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

/* Each operand that nobody else holds gives its buffer to the first result of its type that has none yet. */
static void alias_donated(step_build *sb, step *st) {
  trace *t = sb->t;
  uint8_t *taken = tpu_xcalloc(st->nlive + 1, 1);
  const char *donated = t->key.p + t->key.n - t->nexts;
  for (uint32_t i = 0; i < t->nexts; i++) {
    const tpu_value *v = t->exts[i];
    if (donated[i] != 'D') continue;
    for (uint32_t k = 0; k < st->nlive; k++) {
      const tpu_value *o = t->vals[st->live[k]];
      bool same = !taken[k] && o->dtype == v->dtype && o->rank == v->rank;
      for (int d = 0; same && d < v->rank; d++) same = o->d[d].n == v->d[d].n;
      if (!same) continue;
      taken[k] = 1;
      st->bytes -= value_bytes(o);
      b_param_alias(sb->b, sb->ext[i], (int)k);
      break;
    }
  }
  free(taken);
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
  st->bytes = 0;
  for (uint32_t k = 0; k < st->nlive; k++) {
    b_return(b, sb.slot[st->live[k]]);
    st->bytes += value_bytes(t->vals[st->live[k]]);
  }
  Val check = t->checks ? b_check_result(b) : BAD;
  st->has_check = check != BAD;
  if (st->has_check) b_return(b, check);
  alias_donated(&sb, st);
  free(sb.ext);
  free(sb.scalar);
  free(sb.slot);
  tpu_error *e = b_take_error(b);
  return e ? e : b_print(b, out);
}

static step *step_new(trace *t) {
  step *st = tpu_xcalloc(1, sizeof *st);
  st->nops = t->nops;
  st->owners = tpu_xmalloc((t->nops + 1) * sizeof *st->owners);
  for (uint32_t i = 0; i < t->nops; i++) st->owners[i] = t->ops[i];
  st->live = tpu_xmalloc((t->nvals + 1) * sizeof *st->live);
  for (uint32_t i = 0; i < t->nvals; i++)
    if (t->vals[i]->refs > 1) st->live[st->nlive++] = i;
  return st;
}

static void step_free(step *st) {
  free(st->owners);
  free(st->live);
  free(st);
}

static tpu_error *step_get(trace *t, step **out) {
  uint64_t h = hash_bytes(t->key.p, t->key.n);
  *out = map_get(&steps, t->key.p, t->key.n, h);
  if (*out && (*out)->too_large) return NULL;
  if (*out && program_ready((*out)->prog)) {
    program_count_hit();
    return NULL;
  }
  step *st = *out ? *out : step_new(t); /* a known one lost its program: cleared, or unloaded */
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
  if (!e && !*out) map_put(&steps, t->key.p, t->key.n, h, st);
  if (e && !*out) step_free(st);
  *out = e ? NULL : st;
  return e;
}

/* *ran: all results are there, and an error is that of a check. Not, and no error: there is no memory for
 * them. */
static tpu_error *step_launch(trace *t, const step *st, int device, bool *ran) {
  if (st->too_large || !memory_fits(device, st->bytes, true)) return NULL;
  uint32_t nargs = t->nexts + t->nscalars, nouts = st->nlive + st->has_check;
  PJRT_Buffer **args = tpu_xmalloc((nargs + 1) * sizeof *args),
              **outs = tpu_xmalloc((nouts + 1) * sizeof *outs);
  bool generic = generic_trace(t);
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

static bool anything_leaves(const trace *t) {
  if (t->checks) return true;
  for (uint32_t i = 0; i < t->nvals; i++)
    if (t->vals[i]->refs > 1) return true;
  return false;
}

/* --- op by op: a step that failed as a whole still computes what strict mode would have --- */
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

/* `why`: what the launch of the whole said, NULL where there was no memory for it. The first error; *whole:
 * Ctrl-C, and the trace is as it was. */
static tpu_error *op_by_op(trace *t, const tpu_error *why, bool *whole) {
  single s;
  single_begin(&s, t);
  stat.op_by_op++;
  s.first = single_load(&s);
  *whole = s.first;
  if (!*whole) single_run(&s, why);
  free(s.codes);
  free(s.slot);
  free(s.last_slot);
  free(s.last_ext);
  return s.first;
}

/* Ctrl-C during the compile loses nothing: the trace stands as it was, unless another thread has begun a new
 * one. */
static bool put_back(trace *t, int device, size_t key_length) {
  if (traces[device] && traces[device]->nops) return false;
  if (traces[device]) trace_free(traces[device]);
  t->key.n = key_length;
  traces[device] = t;
  return true;
}

static tpu_error *flush_one(int device, const char *why) {
  trace *t = traces[device];
  if (!t || !t->nops) return NULL;
  traces[device] = NULL;
  t->flushing = true;
  stat.flushes++;
  stat.ops += t->nops;
  stat.last = why;
  tpu_error *e = NULL;
  step *st = NULL;
  size_t key_length = t->key.n;
  bool whole = true;
  if (anything_leaves(t)) {
    close_key(t);
    bool ran = false;
    e = step_get(t, &st);
    if (!e) e = step_launch(t, st, device, &ran);
    if (!ran && !(e && tpu_error_code(e) == TPU_INTERRUPTED)) {
      e = tpu_err_prefix(e, "a step of %u ops", t->nops);
      tpu_error *first = op_by_op(t, e, &whole);
      tpu_error_free(e);
      e = first;
    }
  }
  t->flushing = false;
  pthread_cond_broadcast(&flushed);
  if (e && whole && tpu_error_code(e) == TPU_INTERRUPTED && put_back(t, device, key_length)) return e;
  if (e)
    for (uint32_t i = 0; i < t->nvals; i++)
      if (t->vals[i] && t->vals[i]->state == V_PENDING) value_set_error(t->vals[i], e);
  trace_free(t);
  return e;
}

tpu_error *trace_flush(int device, const char *why) {
  if (device >= 0) return flush_one(device, why);
  tpu_error *e = NULL;
  for (int d = 0; d < TPU_MAX_DEVICES; d++) {
    tpu_error *e2 = flush_one(d, why);
    if (!e)
      e = e2;
    else
      tpu_error_free(e2);
  }
  return e;
}

tpu_error *trace_need(tpu_value *v) {
  tpu_error *e = NULL;
  value_retain(v); /* the storage that held it may get another value meanwhile */
  while (v->state == V_PENDING && !e) {
    if (v->trace->flushing) {
      core_wait(&flushed);
      continue;
    }
    const char *due = v->trace->due;
    if (!due) {
      stat.by_need++;
      periodic[v->device].n = 0;
    }
    e = flush_one(v->device, due ? due : "need");
  }
  if (!e) e = value_error(v);
  value_release(v);
  return e;
}

void trace_clear_steps(void) {
  size_t it = 0;
  for (step *st; (st = map_next(&steps, &it));) st->prog = NULL, st->too_large = false;
}

char *tpu_trace_json(void) {
  text j = {0};
  core_lock();
  uint32_t pending = 0;
  for (int d = 0; d < TPU_MAX_DEVICES; d++) pending += traces[d] ? traces[d]->nops : 0;
  text_printf(&j,
              "{\"pending_ops\": %u, \"flushes\": %lld, \"ops\": %lld, \"by_need\": %lld, \"by_size\": %lld, "
              "\"by_repeat\": %lld, \"op_by_op\": %lld, "
              "\"last\": \"%s\"}",
              pending, (long long)stat.flushes, (long long)stat.ops, (long long)stat.by_need,
              (long long)stat.by_size, (long long)stat.by_repeat, (long long)stat.op_by_op,
              stat.last ? stat.last : "");
  core_unlock();
  return j.p;
}
