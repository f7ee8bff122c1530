/* Recording, cutting and launching fused steps. See trace.h. */
#include "step/trace_int.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/map.h"
#include "step/step.h"
#include "value/memory.h"

static trace *traces[TPU_MAX_DEVICES];
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

trace *trace_create(int device) {
  trace *t = tpu_xcalloc(1, sizeof *t);
  t->device = (int16_t)device;
  t->serial = core_serial();
  return t;
}

static trace *trace_of(int device) {
  trace *t = graph_trace(device);
  if (t) return t;
  if (!traces[device]) traces[device] = trace_create(device);
  return traces[device];
}

void trace_free(trace *t) {
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

void trace_put_code(trace *t, uint32_t code) { text_put(&t->key, &code, sizeof code); }

static void record_scalar(trace *t, tpu_dtype dt, uint64_t lo, uint64_t hi) {
  trace_put_code(t, CODE_SCALAR | t->nscalars);
  prep_scalar s = {lo, hi, (int8_t)dt};
  PUSH(t->scalars, t->nscalars, t->cap_scalars, s);
}

/* One operand a size, whoever asks: the ops of a step agree on sizes by it. */
static void record_size(trace *t, int64_t size) {
  for (uint32_t i = 0; i < t->nsizes; i++)
    if (t->scalars[t->sizes[i]].lo == (uint64_t)size) {
      trace_put_code(t, CODE_SCALAR | t->sizes[i]);
      return;
    }
  PUSH(t->sizes, t->nsizes, t->cap_sizes, t->nscalars);
  record_scalar(t, DT_I32, (uint64_t)size, 0);
}

uint32_t trace_external(trace *t, tpu_value *v) {
  if (v->mark_serial != t->serial) {
    v->mark_serial = t->serial;
    v->mark_index = t->nexts;
    value_retain(v);
    PUSH(t->exts, t->nexts, t->cap_exts, v);
  }
  return v->mark_index;
}

/* v is real, or pending in t: see trace_ready. */
static void record_value(trace *t, tpu_value *v) {
  if (v->state == V_PENDING) {
    trace_put_code(t, CODE_SLOT | v->slot);
    return;
  }
  trace_put_code(t, CODE_EXT | trace_external(t, v));
}

static void record_operands(trace *t, const tpu_op *op, prep *p, const tpu_philox *rng) {
  for (uint32_t i = 0; i < op->nuses; i++) {
    const op_use *u = &op->uses[i];
    if (t->recording) graph_note_scalar(t, (use_kind)u->kind, p, u->index, rng->offset);
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
  if (t->recording) return; /* graph.c cuts once it has all of it */
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
  trace_put_code(t, op->id);
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

/* --- launching --- */
static bool anything_leaves(const trace *t) {
  if (t->checks) return true;
  for (uint32_t i = 0; i < t->nvals; i++)
    if (t->vals[i]->refs > 1) return true;
  return false;
}

/* Ctrl-C during the compile loses nothing: the trace stands as it was, unless another thread has begun a new
 * one. */
bool trace_put_back(trace *t, size_t key_length) {
  if (traces[t->device] && traces[t->device]->nops) return false;
  if (traces[t->device]) trace_free(traces[t->device]);
  t->key.n = key_length;
  t->recording = NULL;
  traces[t->device] = t;
  return true;
}

void trace_end(trace *t, const tpu_error *e) {
  for (uint32_t i = 0; e && i < t->nvals; i++)
    if (t->vals[i] && t->vals[i]->state == V_PENDING) value_set_error(t->vals[i], e);
  trace_free(t);
}

void trace_settled(trace *t) {
  t->flushing = false;
  pthread_cond_broadcast(&flushed);
}

static tpu_error *finish_closed(trace *t, size_t ops_length, bool *whole) {
  step *st = NULL;
  bool ran = false;
  tpu_error *e = step_get(t, ops_length, &st);
  if (!e) e = step_launch(t, st, &ran);
  if (ran || (e && tpu_error_code(e) == TPU_INTERRUPTED)) return e;
  stat.op_by_op++;
  e = tpu_err_prefix(e, "a step of %u ops", t->nops);
  tpu_error *first = trace_op_by_op(t, e, whole);
  tpu_error_free(e);
  return first;
}

tpu_error *trace_finish(trace *t, const char *why) {
  t->flushing = true;
  stat.flushes++;
  stat.ops += t->nops;
  stat.last = why;
  tpu_error *e = NULL;
  size_t ops_length = t->key.n;
  bool whole = true;
  if (anything_leaves(t)) {
    trace_close_key(t);
    e = finish_closed(t, ops_length, &whole);
  }
  trace_settled(t);
  if (e && whole && tpu_error_code(e) == TPU_INTERRUPTED && trace_put_back(t, ops_length)) return e;
  trace_end(t, e);
  return e;
}

static tpu_error *flush_one(int device, const char *why) {
  trace *t = traces[device];
  if (!t || !t->nops) return NULL;
  traces[device] = NULL;
  return trace_finish(t, why);
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
    if (v->trace->recording) {
      e = graph_break(v->trace, "a value was needed on the host");
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
