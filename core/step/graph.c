/* Graphs: keys of inputs, recording, running. See tpu.h and graph.h. */
#include "step/graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/map.h"
#include "step/record.h"
#include "step/step.h"

/* Of a result's or an input's new value: its slot, or that it is input value k (a clone, a copy of all of
 * it). */
enum { NONE = 0xffffffffu, FROM_INPUT = 0x80000000u, MAX_RECORDS = 512 };

typedef struct graph_run { /* what was recorded for one key */
  record *rec;             /* NULL: not kept */
  tpu_graph_out *outs;
  size_t *nbytes;    /* of new storages ... */
  uint32_t *slot;    /* ... and their values: slots or FROM_INPUT | k; NONE: never written */
  uint32_t *rebound; /* input storages that get another value: pairs (storage, slot or FROM_INPUT | k) */
  int64_t *numbers;
  uint32_t *input_of; /* input value -> the first input that has it */
  uint32_t nvalues;
  uint64_t blocks; /* Philox counters that a run takes */
  int nouts, nnew, nrebound, nnumbers;
} graph_run;

struct tpu_graph {
  map runs;
  uint32_t *generic;
  char *name;
  int n, device;
  bool inlined, fixed; /* fixed: no size varies */
};

typedef struct inputs { /* of one call, by first occurrence */
  text key;
  tpu_storage **stores;
  uint32_t *value_of; /* index of each storage's value, or NONE */
  int *input_of;      /* the first input that lies in it */
  tpu_value **values;
  uint32_t nstores, nvalues, cap;
} inputs;

typedef struct recording {
  tpu_graph *graph;
  trace *t;
  inputs in;
  const void **hosts; /* of each input; NULL: not a CPU number */
  void **handles;
  int ninputs;
  bool holds; /* a reference of each of in.values */
  origin *origins;
  uint32_t norigins, cap_origins;
  tpu_philox first;
  const char *broken;
} recording;

static _Thread_local recording *now;
static _Thread_local inputs seen; /* of tpu_graph_run */
static _Thread_local uint32_t slots_cap;
static _Thread_local tpu_value **slot_room;

/* --- inputs --- */
static void put(text *k, int64_t v) { text_put(k, &v, sizeof v); }

static void put_list(text *k, const int64_t *v, size_t n) {
  if (n) text_put(k, v, n * sizeof *v);
}

static void inputs_reserve(inputs *in, int n) {
  if ((uint32_t)n <= in->cap) return;
  in->cap = (uint32_t)n;
  in->stores = tpu_xrealloc(in->stores, in->cap * sizeof *in->stores);
  in->value_of = tpu_xrealloc(in->value_of, in->cap * sizeof *in->value_of);
  in->values = tpu_xrealloc(in->values, in->cap * sizeof *in->values);
  in->input_of = tpu_xrealloc(in->input_of, in->cap * sizeof *in->input_of);
}

static void inputs_free(inputs *in) {
  text_free(&in->key);
  free(in->stores);
  free(in->value_of);
  free(in->values);
  free(in->input_of);
}

static void put_value(inputs *in, tpu_storage *s, uint32_t serial) {
  tpu_value *v = s->value;
  put(&in->key, (int64_t)s->nbytes);
  if (!v) {
    put(&in->key, -1);
    in->value_of[in->nstores] = NONE;
    return;
  }
  bool first = v->mark_serial != serial;
  if (first) {
    v->mark_serial = serial;
    v->mark_index = in->nvalues;
    in->values[in->nvalues++] = v;
  }
  in->value_of[in->nstores] = v->mark_index;
  put(&in->key, v->mark_index);
  if (!first) return;
  put(&in->key, v->dtype | v->rank << 8);
  for (int i = 0; i < v->rank; i++) {
    put(&in->key, v->d[i].n);
    put(&in->key, v->d[i].sym ? ~v->d[i].logical : v->d[i].logical);
  }
}

static void put_tensor(inputs *in, const tpu_tensor *t, int i, uint32_t serial) {
  put(&in->key, t->flags | t->dtype << 8 | (int64_t)t->rank << 32);
  if (!t->storage) return;
  put_list(&in->key, t->sizes, t->rank);
  put_list(&in->key, t->strides, t->rank);
  put(&in->key, t->offset);
  tpu_storage *s = t->storage;
  if (s->mark_serial == serial && s->mark_index < in->nstores && in->stores[s->mark_index] == s) {
    put(&in->key, s->mark_index);
    return;
  }
  s->mark_serial = serial;
  s->mark_index = in->nstores;
  put(&in->key, in->nstores);
  put_value(in, s, serial);
  in->input_of[in->nstores] = i;
  in->stores[in->nstores++] = s;
}

/* Everything that decides what calls on these inputs do, in bytes. */
static void inputs_read(inputs *in, const tpu_graph_inputs *from, uint32_t serial) {
  in->key.n = 0;
  in->nstores = in->nvalues = 0;
  inputs_reserve(in, from->n);
  put(&in->key, step_precision() | step_default_float() << 8 | (int64_t)step_masks_off() << 16 |
                    (int64_t)tpu_sizes_auto() << 17 | (int64_t)from->nnumbers << 32);
  put_list(&in->key, from->numbers, (size_t)from->nnumbers);
  for (int i = 0; i < from->n; i++) put_tensor(in, &from->tensors[i], i, serial);
}

/* Gives dims that vary their padding, where the value does not have it yet. */
static tpu_error *make_generic(const tpu_tensor *t, uint32_t dims) {
  int order[TPU_MAX_RANK];
  tpu_value *v = t->storage->value;
  if (!tpu_sizes_auto() || t->storage->parameter || (v && t->rank != v->rank) || t->offset ||
      !view_memory_order(t->rank, t->sizes, t->strides, order))
    return NULL;
  int64_t items = 1;
  for (int i = 0; i < t->rank; i++) {
    items *= t->sizes[i];
    if (t->sizes[i] < 2) dims &= ~(1u << i);
    if (v && v->d[i].logical != t->sizes[order[i]]) return NULL;
  }
  bool covers = (size_t)items * (size_t)dt_bytes(tpu_dtype_from_torch(t->dtype)) == t->storage->nbytes;
  if (!v) return covers && dims ? step_zeros(t, dims) : NULL;
  for (int i = 0; i < t->rank; i++)
    if ((dims >> order[i] & 1) && !t->storage->value->d[i].sym)
      TRY(step_pad(t->storage, t->sizes[order[i]], 1u << i));
  return NULL;
}

/* Inputs real and padded. May pause; the caller sees to it that nothing was lost meanwhile. */
static tpu_error *inputs_ready(tpu_graph *g, const tpu_graph_inputs *in) {
  uint64_t before;
  do {
    before = core_pauses();
    for (int i = 0; i < in->n; i++) {
      const tpu_tensor *t = &in->tensors[i];
      if (!t->storage) continue;
      if (t->storage->value) TRY(step_materialize(t->storage));
      if (i < g->n && g->generic[i]) TRY(make_generic(t, g->generic[i]));
    }
  } while (before != core_pauses());
  return NULL;
}

static tpu_error *inputs_check(const tpu_graph *g, const tpu_graph_inputs *in) {
  for (int i = 0; i < in->n; i++) {
    const tpu_tensor *t = &in->tensors[i];
    if (t->rank > TPU_MAX_RANK)
      return tpu_err(TPU_RUNTIME, "%s: input %d has %d dims; at most %d", g->name, i, t->rank, TPU_MAX_RANK);
    if (t->storage && t->device != g->device)
      return tpu_err(TPU_RUNTIME, "%s: input %d is on tpu:%d, but the graph was compiled for tpu:%d", g->name,
                     i, t->device, g->device);
  }
  return NULL;
}

/* --- graphs --- */
tpu_graph *tpu_graph_new(const char *name, int device, bool inlined, bool fixed, int n,
                         const uint32_t *generic) {
  tpu_graph *g = tpu_xcalloc(1, sizeof *g);
  g->name = tpu_xstrdup(name);
  g->n = n, g->device = device, g->inlined = inlined, g->fixed = fixed;
  g->generic = tpu_xmalloc(((size_t)n + 1) * sizeof *g->generic);
  if (n) memcpy(g->generic, generic, (size_t)n * sizeof *g->generic);
  return g;
}

int tpu_graph_device(const tpu_graph *g) { return g->device; }

static void run_free(graph_run *r) {
  if (r->rec) record_free(r->rec);
  for (int i = 0; i < r->nouts; i++) free(r->outs[i].sizes);
  free(r->outs);
  free(r->nbytes);
  free(r->slot);
  free(r->rebound);
  free(r->numbers);
  free(r->input_of);
  free(r);
}

static void forget(tpu_graph *g) {
  size_t it = 0;
  for (graph_run *r; (r = map_next(&g->runs, &it));) run_free(r);
  map_free(&g->runs);
  g->runs = (map){0};
}

void tpu_graph_free(tpu_graph *g) {
  if (!g) return;
  core_lock();
  forget(g);
  core_unlock();
  free(g->generic);
  free(g->name);
  free(g);
}

/* --- running --- */
static void set_numbers(record *rec, const tpu_graph_inputs *in, const tpu_philox *philox) {
  for (uint32_t i = 0; i < rec->nscalars; i++) {
    prep_scalar *s = &rec->scalars[i];
    const origin *o = &rec->origins[i];
    if (o->kind == FROM_SEED) s->lo = philox->seed;
    if (o->kind == FROM_OFFSET) s->lo = philox->offset + o->at;
    if (o->kind == FROM_HOST) {
      uint64_t bits[2] = {0, 0};
      memcpy(bits, in->tensors[o->at].host, (size_t)dt_bytes((tpu_dtype)s->dtype));
      s->lo = bits[0], s->hi = bits[1];
    }
  }
}

/* A run that failed: what lost its buffer says so when it is read. */
static bool is_lost(const tpu_value *v) { return !v->cell->buf || rt_is_taken(v->cell->buf); }

static void run_failed(const graph_run *r, const inputs *in, const tpu_error *e) {
  for (int i = 0; i < r->nrebound; i++) {
    tpu_storage *s = in->stores[r->rebound[2 * i]];
    uint32_t was = in->value_of[r->rebound[2 * i]];
    if (was == NONE || !is_lost(in->values[was])) continue;
    tpu_value *v = value_create(DT_U8, 0, NULL, r->rec->device);
    value_set_error(v, e);
    storage_bind(s, v);
  }
}

static tpu_value *another(uint32_t slot, const inputs *in, tpu_value **slots) {
  tpu_value *v = slot & FROM_INPUT ? in->values[slot & ~FROM_INPUT] : slots[slot];
  value_retain(v);
  return v;
}

static tpu_error *hand_out(const graph_run *r, const inputs *in, tpu_value **slots, tpu_graph_results *out) {
  static _Thread_local tpu_storage **storages;
  static _Thread_local int cap;
  if (r->nnew > cap) storages = tpu_xrealloc(storages, (size_t)(cap = r->nnew * 2) * sizeof(tpu_storage *));
  for (int i = 0; i < r->nnew; i++) {
    storages[i] = storage_create(r->rec->device, r->nbytes[i]);
    if (!storages[i]) {
      while (i--) storage_destroy(storages[i]);
      return tpu_err(TPU_OUT_OF_MEMORY, "TPU out of memory: no address space for %zu bytes.",
                     r->nbytes[i + 1]);
    }
    if (r->slot[i] != NONE) storages[i]->value = another(r->slot[i], in, slots);
  }
  /* all are held before the first is bound: inputs may change places */
  static _Thread_local tpu_value **bound;
  static _Thread_local int room;
  if (r->nrebound > room) bound = tpu_xrealloc(bound, (size_t)(room = r->nrebound * 2) * sizeof *bound);
  for (int i = 0; i < r->nrebound; i++) bound[i] = another(r->rebound[2 * i + 1], in, slots);
  for (int i = 0; i < r->nrebound; i++) storage_bind(in->stores[r->rebound[2 * i]], bound[i]);
  *out = (tpu_graph_results){r->nouts, r->nnew, r->nnumbers, r->outs, storages, r->numbers};
  return NULL;
}

static tpu_error *run_locked(graph_run *r, const tpu_graph_inputs *in, tpu_philox *philox,
                             tpu_graph_results *out) {
  record *rec = r->rec;
  if (rec->nslots > slots_cap) {
    slots_cap = rec->nslots * 2;
    slot_room = tpu_xrealloc(slot_room, slots_cap * sizeof *slot_room);
  }
  if (rec->nslots) memset(slot_room, 0, rec->nslots * sizeof *slot_room);
  set_numbers(rec, in, philox);
  philox->offset += r->blocks;
  tpu_error *e = record_launch(rec, seen.values, slot_room, 1);
  if (e)
    run_failed(r, &seen, e);
  else
    e = hand_out(r, &seen, slot_room, out);
  for (uint32_t i = 0; i < rec->ntypes; i++) {
    value_release(slot_room[rec->types[i].slot]);
    slot_room[rec->types[i].slot] = NULL;
  }
  return e;
}

tpu_error *tpu_graph_run(tpu_graph *g, const tpu_graph_inputs *in, tpu_philox *philox, bool *ran,
                         tpu_graph_results *out) {
  *ran = false;
  if (!rt_is_open()) TRY(tpu_open());
  TRY(inputs_check(g, in));
  core_lock();
  tpu_error *e = inputs_ready(g, in);
  if (!e) {
    inputs_read(&seen, in, core_serial());
    graph_run *r = map_get(&g->runs, seen.key.p, seen.key.n, hash_bytes(seen.key.p, seen.key.n));
    *ran = r && r->rec && record_ready(r->rec);
    if (*ran) {
      program_count_hit();
      e = run_locked(r, in, philox, out);
      if (!e && tpu_get_mode() == TPU_MODE_DEBUG) e = step_checks(true);
    }
  }
  core_unlock();
  return tpu_err_prefix(e, "%s", g->name);
}

/* --- recording --- */
bool graph_records(int device) { return now && now->t->device == device; }
bool graph_is_fixed(int device) { return graph_records(device) && now->graph->fixed; }
trace *graph_trace(int device) { return graph_records(device) ? now->t : NULL; }

void graph_note_scalar(trace *t, use_kind kind, const prep *p, uint32_t index, uint64_t value) {
  recording *r = t->recording;
  if (kind != USE_SCALAR && kind != USE_SEED && kind != USE_OFFSET) return;
  origin o = {kind == USE_SEED ? FROM_SEED : kind == USE_OFFSET ? FROM_OFFSET : FROM_RECORD, 0};
  if (kind == USE_OFFSET) o.at = value - r->first.offset;
  for (uint32_t i = 0; kind == USE_SCALAR && i < p->ntensors; i++) {
    const prep_tensor *pt = &p->tensors[i];
    if (!pt->t || !pt->host || pt->scalar != index || (pt->t->flags & TPU_T_WRAPPED)) continue;
    int k = 0;
    while (k < r->ninputs && r->hosts[k] != pt->t->host) k++;
    if (k < r->ninputs)
      o = (origin){FROM_HOST, (uint64_t)k};
    else if (!r->broken)
      r->broken = "a CPU number came from elsewhere";
  }
  while (r->norigins <= t->nscalars) { /* sizes stand between them */
    GROW(r->origins, r->norigins, r->cap_origins, 64);
    r->origins[r->norigins++] = (origin){FROM_RECORD, 0};
  }
  r->origins[t->nscalars] = o;
}

tpu_error *graph_break(trace *t, const char *why) {
  recording *r = t->recording;
  if (!r->broken) r->broken = why;
  t->recording = NULL;
  r->t = trace_create(t->device);
  r->t->recording = r;
  return trace_finish(t, "graph");
}

static void recording_free(recording *r) {
  core_lock();
  for (uint32_t i = 0; r->holds && i < r->in.nvalues; i++) value_release(r->in.values[i]);
  core_unlock();
  free(r->hosts);
  free(r->handles);
  free(r->origins);
  inputs_free(&r->in);
  free(r);
}

tpu_error *tpu_graph_begin(tpu_graph *g, const tpu_graph_inputs *in, const tpu_philox *philox) {
  if (now) return tpu_err(TPU_RUNTIME, "%s: this thread records a graph already", g->name);
  if (!rt_is_open()) TRY(tpu_open());
  TRY(inputs_check(g, in));
  recording *r = tpu_xcalloc(1, sizeof *r);
  r->graph = g;
  r->first = *philox;
  r->ninputs = in->n;
  r->hosts = tpu_xcalloc((size_t)in->n + 1, sizeof *r->hosts);
  r->handles = tpu_xcalloc((size_t)in->n + 1, sizeof *r->handles);
  for (int i = 0; i < in->n; i++) {
    r->hosts[i] = in->tensors[i].storage ? NULL : in->tensors[i].host;
    r->handles[i] = in->tensors[i].handle;
  }
  core_lock();
  tpu_error *e = inputs_ready(g, in);
  if (!e) {
    r->t = trace_create(g->device);
    inputs_read(&r->in, in, core_serial());
    for (uint32_t i = 0; i < r->in.nvalues; i++) value_retain(r->in.values[i]);
    r->holds = true;
    r->t->recording = r;
    now = r;
  }
  core_unlock();
  if (e) recording_free(r);
  return e;
}

/* --- the end of a recording --- */
/* Which input value each operand from outside is; the caller frees it. */
static uint32_t *check_externals(recording *r) {
  uint32_t *input_of = tpu_xmalloc((r->t->nexts + 1u) * sizeof *input_of), n = 0;
  for (uint32_t i = 0; i < r->in.nvalues; i++) {
    const tpu_value *v = r->in.values[i];
    if (v->mark_serial != r->t->serial) continue;
    input_of[v->mark_index] = i;
    n++;
  }
  if (n < r->t->nexts && !r->broken) r->broken = "a value came from outside of the graph";
  return input_of;
}

/* The slot of a value at the end of the recording, or which input it is; NONE: it is neither. */
static uint32_t where_from(const recording *r, const tpu_value *v) {
  if (v->state == V_PENDING && v->trace == r->t) return v->slot;
  for (uint32_t k = 0; k < r->in.nvalues; k++)
    if (r->in.values[k] == v) return FROM_INPUT | k;
  return NONE;
}

static void find_rebound(recording *r, graph_run *run) {
  run->rebound = tpu_xmalloc((r->in.nstores + 1u) * 2 * sizeof *run->rebound);
  for (uint32_t i = 0; i < r->in.nstores; i++) {
    const tpu_value *v = r->in.stores[i]->value,
                    *was = r->in.value_of[i] == NONE ? NULL : r->in.values[r->in.value_of[i]];
    if (v == was) continue;
    uint32_t slot = v ? where_from(r, v) : NONE;
    if (slot == NONE) {
      r->broken = "an input became a value from outside of the graph";
      return;
    }
    run->rebound[2 * run->nrebound] = i;
    run->rebound[2 * run->nrebound++ + 1] = slot;
  }
}

static void find_inputs(const recording *r, graph_run *run) {
  run->nvalues = r->in.nvalues;
  run->input_of = tpu_xcalloc(run->nvalues + 1u, sizeof *run->input_of);
  for (uint32_t i = r->in.nstores; i--;)
    if (r->in.value_of[i] != NONE) run->input_of[r->in.value_of[i]] = (uint32_t)r->in.input_of[i];
}

static int new_storage(recording *r, graph_run *run, const tpu_storage **list, const tpu_storage *s) {
  for (int i = 0; i < run->nnew; i++)
    if (list[i] == s) return i;
  const tpu_value *v = s->value;
  run->nbytes[run->nnew] = s->nbytes;
  run->slot[run->nnew] = v ? where_from(r, v) : NONE;
  if (v && run->slot[run->nnew] == NONE) r->broken = "a result came from outside of the graph";
  list[run->nnew] = s;
  return run->nnew++;
}

static int input_storage(const recording *r, const tpu_storage *s) {
  for (uint32_t i = 0; i < r->in.nstores; i++)
    if (r->in.stores[i] == s) return (int)i;
  return -1;
}

static int same_input(const recording *r, const tpu_tensor *t) {
  for (int i = 0; i < r->ninputs; i++)
    if (r->handles[i] == t->handle) return i;
  return -1;
}

static void find_outs(recording *r, graph_run *run, int nouts, const tpu_tensor *outs) {
  const tpu_storage **list = tpu_xmalloc(((size_t)nouts + 1) * sizeof *list);
  run->outs = tpu_xcalloc((size_t)nouts + 1, sizeof *run->outs);
  run->nbytes = tpu_xmalloc(((size_t)nouts + 1) * sizeof *run->nbytes);
  run->slot = tpu_xmalloc(((size_t)nouts + 1) * sizeof *run->slot);
  for (int i = 0; i < nouts && !r->broken; i++) {
    const tpu_tensor *t = &outs[i];
    tpu_graph_out *o = &run->outs[run->nouts++];
    size_t bytes = t->rank * sizeof(int64_t);
    *o = (tpu_graph_out){.input = same_input(r, t),
                         .view_of = -1,
                         .dtype = t->dtype,
                         .rank = t->rank,
                         .flags = t->flags,
                         .offset = t->offset};
    o->sizes = tpu_xmalloc(2 * bytes + 1);
    o->strides = o->sizes + t->rank;
    if (bytes) memcpy(o->sizes, t->sizes, bytes), memcpy(o->strides, t->strides, bytes);
    if (o->input >= 0) continue;
    if (!t->storage) {
      r->broken = "a result is not on the device";
      continue;
    }
    int k = input_storage(r, t->storage);
    if (k >= 0)
      o->view_of = r->in.input_of[k];
    else
      o->storage = new_storage(r, run, list, t->storage);
  }
  free(list);
}

/* An input value that a result or another input has afterwards is not lost. */
static void keeps_input(uint8_t *loses, uint32_t slot) {
  if (slot != NONE && slot & FROM_INPUT) loses[slot & ~FROM_INPUT] = 0;
}

static tpu_error *build(recording *r, const uint32_t *input_of, graph_run *run) {
  trace *t = r->t;
  uint8_t *keeps = tpu_xcalloc(t->nvals + 1u, 1), *loses = tpu_xcalloc(r->in.nvalues + 1u, 1);
  for (uint32_t i = 0; i < t->nvals; i++) keeps[i] = t->vals[i]->refs > 1;
  for (int i = 0; i < run->nrebound; i++)
    if (r->in.value_of[run->rebound[2 * i]] != NONE) loses[r->in.value_of[run->rebound[2 * i]]] = 1;
  /* a value that another input storage still has is not lost */
  for (uint32_t i = 0; i < r->in.nstores; i++)
    if (r->in.value_of[i] != NONE && r->in.stores[i]->value == r->in.values[r->in.value_of[i]])
      loses[r->in.value_of[i]] = 0;
  for (int i = 0; i < run->nnew; i++) keeps_input(loses, run->slot[i]);
  for (int i = 0; i < run->nrebound; i++) keeps_input(loses, run->rebound[2 * i + 1]);
  t->flushing = true;
  tpu_error *e = record_build(t, r->graph->inlined, input_of, keeps, loses, &run->rec);
  free(keeps);
  free(loses);
  return e;
}

/* The recording's own run: its results exist already, pending. On an error inputs have what they had, where
 * that is still there. */
static tpu_error *run_recording(recording *r, const uint32_t *input_of, graph_run *run) {
  trace *t = r->t;
  tpu_error *e = build(r, input_of, run);
  if (!e) {
    run->rec->origins = tpu_xcalloc(run->rec->nscalars + 1u, sizeof *run->rec->origins);
    if (r->norigins) memcpy(run->rec->origins, r->origins, r->norigins * sizeof *r->origins);
    e = record_launch(run->rec, r->in.values, t->vals, 2);
  }
  for (int i = 0; e && i < run->nrebound; i++) {
    uint32_t k = run->rebound[2 * i], was = r->in.value_of[k];
    if (was == NONE || is_lost(r->in.values[was])) continue;
    value_retain(r->in.values[was]);
    storage_bind(r->in.stores[k], r->in.values[was]);
  }
  trace_settled(t);
  return e;
}

static tpu_error *end_locked(recording *r, int nouts, const tpu_tensor *outs, graph_run *run) {
  uint32_t *input_of = check_externals(r);
  if (!r->broken) find_inputs(r, run), find_rebound(r, run);
  if (!r->broken) find_outs(r, run, nouts, outs);
  if (r->broken) { /* as any step */
    trace *t = r->t;
    t->recording = NULL;
    free(input_of);
    return trace_finish(t, "graph");
  }
  tpu_error *e = run_recording(r, input_of, run);
  free(input_of);
  trace_end(r->t, e);
  return e;
}

static void keep(recording *r, graph_run *run) {
  tpu_graph *g = r->graph;
  uint64_t h = hash_bytes(r->in.key.p, r->in.key.n);
  graph_run *old = map_get(&g->runs, r->in.key.p, r->in.key.n, h);
  if (!old && g->runs.n >= MAX_RECORDS) forget(g);
  map_put(&g->runs, r->in.key.p, r->in.key.n, h, run);
  if (old) run_free(old);
}

tpu_error *tpu_graph_end(const tpu_graph_ending *end, const char **why) {
  recording *r = now;
  if (!r) return tpu_err(TPU_INTERNAL, "tpu_graph_end without tpu_graph_begin");
  now = NULL;
  graph_run *run = tpu_xcalloc(1, sizeof *run);
  run->nnumbers = end->nnumbers;
  run->numbers = tpu_xmalloc(((size_t)end->nnumbers + 1) * sizeof *run->numbers);
  if (end->nnumbers) memcpy(run->numbers, end->numbers, (size_t)end->nnumbers * sizeof *run->numbers);
  run->blocks = end->philox->offset - r->first.offset;
  core_lock();
  if (end->philox->seed != r->first.seed && !r->broken) r->broken = "the generator was seeded meanwhile";
  tpu_error *e = end_locked(r, end->nouts, end->outs, run);
  *why = r->broken;
  if (!e && !r->broken)
    keep(r, run);
  else
    run_free(run);
  core_unlock();
  recording_free(r);
  return e;
}

const char *tpu_graph_broken(void) {
  if (!now) return NULL;
  core_lock();
  free(check_externals(now));
  const char *why = now->broken;
  core_unlock();
  return why;
}

void tpu_graph_abort(void) {
  recording *r = now;
  if (!r) return;
  now = NULL;
  core_lock();
  trace *t = r->t;
  t->recording = NULL;
  tpu_error_free(trace_finish(t, "graph"));
  core_unlock();
  recording_free(r);
}

static void run_json(const graph_run *r, text *j) {
  text_str(j, "{\"inputs\": [");
  for (uint32_t i = 0; i < r->nvalues; i++) text_printf(j, "%s%u", i ? ", " : "", r->input_of[i]);
  text_str(j, "], \"outputs\": [");
  for (int i = 0; i < r->nouts; i++) {
    const tpu_graph_out *o = &r->outs[i];
    const char *sep = i ? ", " : "";
    if (o->input >= 0)
      text_printf(j, "%s{\"input\": %d}", sep, o->input);
    else if (o->view_of >= 0)
      text_printf(j, "%s{\"view_of\": %d}", sep, o->view_of);
    else if (r->slot[o->storage] == NONE)
      text_printf(j, "%s{\"slot\": -1}", sep);
    else if (r->slot[o->storage] & FROM_INPUT)
      text_printf(j, "%s{\"copy_of\": %u}", sep, r->input_of[r->slot[o->storage] & ~FROM_INPUT]);
    else
      text_printf(j, "%s{\"slot\": %u}", sep, r->slot[o->storage]);
  }
  text_str(j, "], \"run\": ");
  record_programs_json(r->rec, j);
  text_str(j, "}");
}

static void summary_json(const graph_run *r, text *j) {
  text_printf(j, "{\"ops\": %u, \"launches\": %u, \"programs\": %u, \"files\": ", r->rec->nops,
              r->rec->nparts, record_programs(r->rec));
  record_files(r->rec, j);
  text_str(j, "}");
}

static char *runs_json(tpu_graph *g, void (*one)(const graph_run *r, text *j)) {
  text j = {0};
  size_t it = 0;
  const char *sep = "";
  core_lock();
  text_str(&j, "[");
  for (graph_run *r; (r = map_next(&g->runs, &it)); sep = ", ") {
    text_str(&j, sep);
    one(r, &j);
  }
  core_unlock();
  text_str(&j, "]");
  return j.p;
}

char *tpu_graph_json(tpu_graph *g) { return runs_json(g, summary_json); }
char *tpu_graph_programs_json(tpu_graph *g) { return runs_json(g, run_json); }
