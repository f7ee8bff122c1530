/* The policy of sizes. See sizes.h. */
#include "step/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/grow.h"
#include "base/map.h"
#include "step/step.h"

bool (*tpu_is_parameter)(const void *handle);

typedef struct mark { /* a class with one size left open */
  const char *what;   /* row, or "upload" */
  const char *why;
  int64_t first; /* the size that showed it */
  int64_t exact; /* the size before, which has its programs and stays exact; 0: none */
  int64_t used;  /* times that it gave padding */
} mark;

typedef struct cut {
  const char *row, *why;
  int64_t count;
} cut;

static int auto_sizes = -1; /* -1: TORCH_TPU_SIZES was not read yet */
static map seen;            /* class with its parameters -> the size it was first called with */
static map marks;           /* class -> mark */
static map cuts;            /* row -> cut */

bool tpu_sizes_auto(void) {
  if (auto_sizes < 0) auto_sizes = !env_is("TORCH_TPU_SIZES", "exact");
  return auto_sizes;
}
void tpu_set_sizes_auto(bool on) { auto_sizes = on; }

/* --- classes --- */
enum { OPEN = -1, GENERIC = -2, OTHER = -3 };

static void put_size(text *key, int64_t n, int64_t open) {
  int64_t v = n == open ? OPEN : n;
  text_put(key, &v, sizeof v);
}

static void put_tensor_class(text *key, const op_tensor *t, int64_t open) {
  char head[4] = {(char)t->defined, (char)t->host, t->dtype, (char)t->rank};
  text_add(key, head, sizeof head);
  for (int d = 0; t->defined && !t->host && d < t->rank; d++)
    put_size(key, t->g.generic && t->g.phys[d] ? GENERIC : t->sizes[d], open);
}

static void put_arg_class(text *key, const tpu_op *op, const op_arg *a, int64_t open) {
  text_add(key, &a->tag, 1);
  switch ((tpu_tag)a->tag) {
  case TPU_A_TENSOR:
  case TPU_A_TENSORS:
    for (uint32_t k = 0; k < a->n; k++) put_tensor_class(key, &op->tensors[a->u.tensor + k], open);
    return;
  case TPU_A_INT:
  case TPU_A_BOOL:
  case TPU_A_DTYPE: put_size(key, a->u.i, open); return;
  case TPU_A_INTS:
  case TPU_A_SIZES:
    for (uint32_t k = 0; k < a->n; k++)
      put_size(key, size_is_generic(a->u.is[k]) ? GENERIC : a->u.is[k], open);
    return;
  default: return; /* numbers: whatever they are */
  }
}

static void class_of_op(text *key, const tpu_op *op, int64_t open) {
  text_clear(key);
  text_add(key, &op->row, sizeof op->row);
  text_add(key, &op->variant, 1);
  for (int i = 0; i < op->nargs; i++) put_arg_class(key, op, &op->args[i], open);
}

/* Integers are ids, masks and positions: the length that varies in a batch of one varies in any batch. */
static void class_of_upload(text *key, int dt, int rank, const int64_t *dims, int64_t open) {
  bool ids = !dt_is_float((tpu_dtype)dt);
  char head[2] = {(char)dt, (char)rank};
  text_clear(key);
  text_add(key, "upload", 6);
  text_add(key, head, sizeof head);
  for (int d = 0; d < rank; d++) put_size(key, ids && dims[d] != open ? OTHER : dims[d], open);
}

static mark *find_mark(const text *key) {
  return map_get(&marks, key->p, key->n, hash_bytes(key->p, key->n));
}

/* The evidence: `size` was seen where `before` was (0: not known). */
typedef struct sign {
  const char *why;
  int64_t size, before;
} sign;

static sign latest_sign; /* of those that know the size before: what meets its size has its history */

static bool add_mark(const text *key, const char *what, const sign *g) {
  if (find_mark(key)) return false;
  mark *m = tpu_xcalloc(1, sizeof *m);
  *m = (mark){.what = what, .why = g->why, .first = g->size, .exact = g->before};
  map_put(&marks, key->p, key->n, hash_bytes(key->p, key->n), m);
  return true;
}

/* --- evidence: marks from here back to the sources --- */
enum { MAX_CHAIN = 64 };

static bool has_size(const op_store *st, int64_t size) {
  for (int d = 0; !st->empty && d < st->rank; d++)
    if (!st->d[d].sym && st->d[d].n == size) return true;
  return false;
}

/* What was uploaded before its class was marked gets its padding now: what the mark's call began with a
 * mixture of sizes, its next ops end without one. */
typedef struct late {
  const text *key;
  int64_t size;
  tpu_error *error;
} late;
static bool padded_late; /* values of storages were replaced: what was prepared is stale */

static void pad_late(tpu_storage *s, void *ctx) {
  late *a = ctx;
  const tpu_value *v = s->value;
  if (a->error || s->parameter || !v || v->state != V_CELL || v->source || v->rank > TPU_MAX_RANK) return;
  int64_t dims[TPU_MAX_RANK];
  bool has = false;
  for (int d = 0; d < v->rank; d++) {
    if (v->d[d].sym) return;
    dims[d] = v->d[d].n;
    has = has || dims[d] == a->size;
  }
  if (!has) return;
  text key = {0};
  class_of_upload(&key, v->dtype, v->rank, dims, a->size);
  if (key.n == a->key->n && !memcmp(key.p, a->key->p, key.n)) {
    a->error = step_pad(s, a->size, ~0u);
    padded_late = true;
  }
  text_free(&key);
}

static void mark_op(const tpu_op *op, const sign *g, int depth);

static void mark_sources(const tpu_op *op, const sign *g, int depth) {
  for (uint32_t k = 0; k < op->nstores && depth < MAX_CHAIN; k++) {
    const op_store *st = &op->stores[k];
    if (!has_size(st, g->size) || st->parameter) continue;
    if (st->source) {
      mark_op(st->source, g, depth + 1);
      continue;
    }
    text key = {0};
    int64_t dims[TPU_MAX_RANK];
    for (int d = 0; d < st->rank; d++) dims[d] = st->d[d].logical;
    class_of_upload(&key, st->dtype, st->rank, dims, g->size);
    if (add_mark(&key, "upload", g)) {
      late a = {&key, g->size, NULL};
      storage_each(pad_late, &a);
      tpu_error_free(a.error); /* only a chance was lost */
    }
    text_free(&key);
  }
}

static void mark_op(const tpu_op *op, const sign *g, int depth) {
  text key = {0};
  class_of_op(&key, op, g->size);
  bool fresh = add_mark(&key, op->row->name, g);
  text_free(&key);
  if (fresh) mark_sources(op, g, depth);
}

/* --- views --- */
typedef struct view_memory {
  uint32_t vary; /* dims that were of several sizes */
  int64_t last[TPU_MAX_RANK];
  int64_t exact[TPU_MAX_RANK]; /* the first size, of which there are exact programs; 0: none */
} view_memory;

static map memories;
enum { RECENT = 256 };
static struct {
  int64_t size;
  uint64_t when;
} recent[RECENT];
static uint64_t now;

void step_saw_generic(int64_t size) {
  recent[size % RECENT].size = size;
  recent[size % RECENT].when = ++now;
}

static uint32_t latest(const view *t, uint32_t open) {
  uint64_t when = 0;
  int best = -1;
  for (int d = 0; d < t->rank; d++) {
    if (!(open >> d & 1) || !t->strides[d]) continue;
    uint64_t w = recent[t->sizes[d] % RECENT].size == t->sizes[d] ? recent[t->sizes[d] % RECENT].when : 0;
    if (best < 0 || w > when || (!when && !w && t->strides[d] > t->strides[best])) best = d, when = w;
  }
  return best < 0 ? 0 : 1u << best;
}

uint32_t step_open_sizes(const text *key, const view *t, uint32_t open, uint32_t met, bool split,
                         view_memory **memory) {
  uint64_t h = hash_bytes(key->p, key->n);
  view_memory *m = map_get(&memories, key->p, key->n, h);
  bool first = !m;
  if (first) {
    m = tpu_xcalloc(1, sizeof *m);
    m->vary = split ? latest(t, open) : 0;
    map_put(&memories, key->p, key->n, h, m);
  }
  uint32_t exact = 0;
  for (int d = 0; d < t->rank; d++) {
    if (first && !(m->vary >> d & 1)) m->exact[d] = t->sizes[d];
    if (!first && m->last[d] != t->sizes[d]) m->vary |= 1u << d & ~met;
    if (m->exact[d] == t->sizes[d]) exact |= 1u << d;
    m->last[d] = t->sizes[d];
  }
  *memory = m;
  return m->vary & open & ~exact;
}

/* --- giving padding --- */
static tpu_tensor *own_tensor(sized_call *sc, const tpu_call *from, int arg, uint32_t item) {
  if (!sc->used) {
    sc->call = *from;
    sc->call.args = arena_copy(&sc->mem, from->args, (size_t)(from->nargs + 1) * sizeof *from->args);
    sc->used = true;
  }
  tpu_arg *a = (tpu_arg *)&sc->call.args[arg];
  tpu_tensor *t = arena_copy(&sc->mem, a->u.t, a->n * sizeof *a->u.t);
  a->u.t = t;
  return &t[item];
}

/* The view gets a storage of its own with room for its size. */
static tpu_error *pad_view(sized_call *sc, const tpu_call *from, int arg, uint32_t item, uint32_t dims) {
  const tpu_tensor *t = &from->args[arg].u.t[item];
  tpu_value *v;
  TRY(step_pad_view(t, dims, &v));
  tpu_storage *s =
      storage_create(t->device, (size_t)view_numel(t->rank, t->sizes) * dt_bytes((tpu_dtype)v->dtype));
  if (!s) {
    value_release(v);
    return tpu_err(TPU_OUT_OF_MEMORY, "TPU out of memory: address space.");
  }
  storage_bind(s, v);
  GROW(sc->temps, sc->ntemps, sc->cap_temps, 8);
  sc->temps[sc->ntemps++] = s;
  tpu_tensor *own = own_tensor(sc, from, arg, item);
  int64_t *strides = arena_alloc(&sc->mem, (size_t)(t->rank + 1) * sizeof *strides), step = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    strides[d] = step;
    step *= t->sizes[d] > 1 ? t->sizes[d] : 1;
  }
  own->storage = s, own->strides = strides, own->offset = 0;
  return NULL;
}

typedef struct padder {
  const prep *p;
  sized_call *sc;
  const tpu_call *call; /* as it stands */
  int64_t size;
  uint32_t at; /* positions from the last dim at which dims of the size are padded */
  bool changed;
} padder;

static bool open_dim(const prep_tensor *pt, int d, int64_t size) {
  return pt->t->sizes[d] == size && !(pt->g.generic && pt->g.phys[d]);
}

static bool view_has(const prep_tensor *pt, int64_t size) {
  for (int d = 0; d < pt->t->rank; d++)
    if (open_dim(pt, d, size)) return true;
  return false;
}

/* Sizes that the view leaves open need no padding of the value. */
static bool vary_size(padder *q, const prep_tensor *pt) {
  view w = {(tpu_dtype)pt->dtype, pt->t->rank, pt->t->sizes, pt->t->strides, pt->t->offset};
  view_memory *m = pt->memory;
  uint32_t dims = groups_open(&pt->g, &w, true) | groups_parts(&pt->g);
  for (int d = 0; d < w.rank; d++) {
    bool known = (m->vary >> d & 1) && m->exact[d] != q->size;
    if (w.sizes[d] != q->size || known) dims &= ~(1u << d);
    if (dims >> d & 1) m->exact[d] = 0;
  }
  m->vary |= dims;
  q->changed = q->changed || dims;
  return dims;
}

/* The value's dims that are these dims of the view, 0 where that is not so simple. */
static uint32_t value_dims(const prep_tensor *pt, const tpu_value *v, int64_t size, uint32_t dims,
                           uint32_t all) {
  uint32_t r = 0;
  if (v->dtype != pt->dtype) return 0;
  if (pt->g.kind == GEOM_WHOLE) return dims;
  for (int d = 0; d < v->rank; d++)
    if (!v->d[d].sym && v->d[d].n == size) r |= 1u << d;
  return dims == all || !(r & (r - 1)) ? r : 0;
}

static tpu_error *pad_tensor(padder *q, const prep_tensor *pt, int arg, uint32_t item) {
  if (!pt->t || pt->host || pt->g.kind == GEOM_EMPTY || !view_has(pt, q->size)) return NULL;
  if (pt->memory && vary_size(q, pt)) return NULL;
  uint32_t dims = 0, all = 0;
  for (int d = 0; d < pt->t->rank; d++) {
    if (!open_dim(pt, d, q->size)) continue;
    all |= 1u << d;
    if (q->at >> (pt->t->rank - 1 - d) & 1) dims |= 1u << d;
  }
  tpu_storage *s = q->p->stores[pt->store].s;
  const tpu_value *v = s->value;
  if (!dims || s->parameter) return NULL;
  if (!v) {
    q->changed = pt->g.covers;
    return pt->g.covers ? step_zeros(pt->t, dims) : NULL;
  }
  uint32_t whole = value_dims(pt, v, q->size, dims, all);
  bool written = q->call->variant == TPU_INPLACE && arg == 0;
  if (!whole && written) return NULL;
  q->changed = true;
  if (whole) return step_pad(s, q->size, whole);
  TRY(pad_view(q->sc, q->call, arg, item, dims));
  q->call = &q->sc->call;
  return NULL;
}

/* Every static dim of this size in operands that are no parameters, and in the lists of sizes of factories.
 */
static tpu_error *pad_size(padder *q) {
  uint32_t at = 0;
  for (int i = 0; i < q->call->nargs; i++) {
    const tpu_arg *a = &q->call->args[i];
    if (a->tag == TPU_A_TENSOR || a->tag == TPU_A_TENSORS) {
      uint32_t n = a->n;
      for (uint32_t k = 0; k < n; k++) TRY(pad_tensor(q, &q->p->tensors[at + k], i, k));
      at += n;
      continue;
    }
    bool list = a->tag == TPU_A_INTS || a->tag == TPU_A_SIZES;
    if (!list || !(q->call->row->flags & ROW_SIZED)) continue;
    int64_t *own = NULL;
    for (uint32_t k = 0; k < a->n; k++) {
      if (a->u.is[k] != q->size) continue;
      if (!own) {
        if (!q->sc->used) {
          q->sc->call = *q->call, q->sc->used = true;
          q->sc->call.args = arena_copy(&q->sc->mem, q->call->args, (size_t)(q->call->nargs + 1) * sizeof *a);
        }
        q->call = &q->sc->call;
        a = &q->call->args[i];
        own = arena_copy(&q->sc->mem, a->u.is, a->n * sizeof *own);
      }
      own[k] |= SIZE_GENERIC;
      q->changed = true;
    }
    if (!own) continue;
    tpu_arg *b = (tpu_arg *)&q->sc->call.args[i];
    b->tag = TPU_A_SIZES, b->u.is = own;
  }
  return NULL;
}

void sizes_end(sized_call *sc) {
  for (uint32_t k = 0; k < sc->ntemps; k++) storage_destroy(sc->temps[k]);
  free(sc->temps);
  arena_free(&sc->mem);
}

/* --- looking for evidence --- */
enum { MAX_SIZES = 32 };

static void note_size(int64_t *list, int *n, int64_t size) {
  if (size < 2) return;
  for (int k = 0; k < *n; k++)
    if (list[k] == size) return;
  if (*n < MAX_SIZES) list[(*n)++] = size;
}

/* The static sizes of the call that might vary. */
static int open_sizes(const prep *p, int64_t *list) {
  int n = 0;
  for (uint32_t k = 0; k < p->out_first; k++) {
    const prep_tensor *pt = &p->tensors[k];
    if (!pt->t || pt->host || p->stores[pt->store].s->parameter) continue;
    for (int d = 0; d < pt->t->rank; d++)
      if (!(pt->g.generic && pt->g.phys[d])) note_size(list, &n, pt->t->sizes[d]);
  }
  for (int i = 0; i < p->call->nargs && (p->call->row->flags & ROW_SIZED); i++) {
    const tpu_arg *a = &p->call->args[i];
    if (a->tag != TPU_A_INTS && a->tag != TPU_A_SIZES) continue;
    for (uint32_t k = 0; k < a->n; k++)
      if (!size_is_generic(a->u.is[k])) note_size(list, &n, a->u.is[k]);
  }
  return n;
}

/* Sizes that parameters have. A length that happens to be one of them says nothing: which dim is the length?
 */
static map parameter_sizes;

static bool is_parameter_size(int64_t n) {
  return map_get(&parameter_sizes, &n, sizeof n, hash_bytes(&n, sizeof n)) != NULL;
}

static void note_parameters(const prep *p) {
  for (uint32_t k = 0; tpu_is_parameter && k < p->ntensors; k++) {
    const prep_tensor *pt = &p->tensors[k];
    if (!pt->t || pt->host || !pt->t->handle || pt->t->storage->parameter) continue;
    if (!tpu_is_parameter(pt->t->handle)) continue;
    pt->t->storage->parameter = true;
    for (int d = 0; d < pt->t->rank; d++) {
      int64_t n = pt->t->sizes[d];
      if (!is_parameter_size(n))
        map_put(&parameter_sizes, &n, sizeof n, hash_bytes(&n, sizeof n), &parameter_sizes);
    }
  }
}

/* Appends the parameters that do not have the size; how many. */
static int put_parameters(text *key, const prep *p, int64_t size) {
  int n = 0;
  for (uint32_t k = 0; k < p->ntensors; k++) {
    const prep_tensor *pt = &p->tensors[k];
    if (!pt->t || pt->host || !pt->t->storage->parameter || view_has(pt, size)) continue;
    text_put(key, &pt->t->storage, sizeof pt->t->storage);
    n++;
  }
  return n;
}

static bool grows(const prep *p, const tpu_op *op, int64_t size) {
  if (!(op->row->flags & ROW_GROWS) || op->nargs < 2 || !op->ntensors) return false;
  const op_tensor *t = &op->tensors[0];
  if (!t->defined || t->host || p->stores[t->store].s->parameter) return false;
  const tpu_op *from = op->stores[t->store].source;
  int64_t axis = op->args[1].u.i < 0 ? op->args[1].u.i + t->rank : op->args[1].u.i;
  if (axis < 0 || axis >= t->rank || t->sizes[axis] != size || !from || from->row != op->row) return false;
  if (t->g.generic && t->g.phys[axis]) return false;
  return from->args[1].u.i == op->args[1].u.i;
}

/* Is the size one of the numbers alone? */
static bool only_a_number(const prep *p, int64_t size) {
  for (uint32_t k = 0; k < p->ntensors; k++)
    if (p->tensors[k].t && !p->tensors[k].host && view_has(&p->tensors[k], size)) return false;
  return true;
}

/* Is the size to turn generic in this call? `key` is the call's class. */
static bool evidence(const prep *p, const tpu_op *op, int64_t size, text *key, sign *g) {
  *g = (sign){"growth", size, 0};
  if (grows(p, op, size)) return true;
  bool count = (op->row->flags & ROW_COUNT) && only_a_number(p, size);
  if (!put_parameters(key, p, size) && !count) return false;
  uint64_t h = hash_bytes(key->p, key->n);
  g->why = count ? "count" : "parameter";
  g->before = (int64_t)(intptr_t)map_get(&seen, key->p, key->n, h);
  if (!g->before) map_put(&seen, key->p, key->n, h, (void *)(intptr_t)size);
  if (g->before && g->before != size) latest_sign = *g;
  return g->before && g->before != size;
}

tpu_error *sizes_learn(const prep *p, sized_call *sc, const tpu_call **call, bool *changed) {
  *changed = padded_late = false;
  if (!tpu_sizes_auto() || (p->call->row->flags & ROW_EXACT)) return NULL;
  note_parameters(p);
  tpu_op *op = op_sketch(p);
  int64_t list[MAX_SIZES];
  int n = open_sizes(p, list);
  text key = {0};
  padder q = {p, sc, *call, 0, ~0u, false};
  tpu_error *e = NULL;
  for (int k = 0; k < n && !e; k++) {
    class_of_op(&key, op, list[k]);
    mark *m = find_mark(&key);
    if (m ? m->exact == list[k] : is_parameter_size(list[k])) continue;
    if (!m) {
      sign g;
      if (!evidence(p, op, list[k], &key, &g)) continue;
      mark_op(op, &g, 0);
      class_of_op(&key, op, list[k]);
      m = find_mark(&key);
    }
    m->used++;
    q.size = list[k];
    e = pad_size(&q);
  }
  text_free(&key);
  op_discard(op);
  *call = q.call;
  *changed = q.changed || padded_late;
  return e;
}

/* Positions from the last dim (bit mask) at which operands that may be padded have this size, static. */
static uint32_t positions(const prep *p, int64_t size) {
  uint32_t r = 0;
  for (uint32_t k = 0; k < p->out_first; k++) {
    const prep_tensor *pt = &p->tensors[k];
    if (!pt->t || pt->host || p->stores[pt->store].s->parameter) continue;
    for (int d = 0; d < pt->t->rank; d++)
      if (pt->t->sizes[d] == size && !(pt->g.generic && pt->g.phys[d])) r |= 1u << (pt->t->rank - 1 - d);
  }
  return r;
}

/* Does the op have a form when the dims at these positions are padded? Tried on its structure alone. */
static bool would_fit(const prep *p, int64_t size, uint32_t at) {
  tpu_op *op = op_sketch(p);
  bool fits = op_pad_sketch(op, p, size, at) && op_try(op);
  op_discard(op);
  return fits;
}

/* The fewest positions that do: one, two, or all. */
static uint32_t choose(const prep *p, int64_t size) {
  uint32_t all = positions(p, size);
  for (int i = 0; i < TPU_MAX_RANK; i++)
    if ((all >> i & 1) && would_fit(p, size, 1u << i)) return 1u << i;
  for (int i = 0; i < TPU_MAX_RANK; i++)
    for (int k = i + 1; k < TPU_MAX_RANK; k++)
      if ((all >> i & 1) && (all >> k & 1) && would_fit(p, size, 1u << i | 1u << k)) return 1u << i | 1u << k;
  return all;
}
tpu_error *sizes_meet(const prep *p, sized_call *sc, const tpu_call **call, bool *changed) {
  *changed = padded_late = false;
  if (!tpu_sizes_auto()) return NULL;
  note_parameters(p);
  tpu_op *op = op_sketch(p);
  int64_t list[MAX_SIZES];
  int n = open_sizes(p, list);
  padder q = {p, sc, *call, 0, ~0u, false};
  tpu_error *e = NULL;
  for (int k = 0; k < n && !e && !q.changed && !padded_late; k++) /* what is prepared is stale after one */
    for (uint32_t s = 0; s < p->nsyms; s++)
      if (p->syms[s] == list[k]) {
        q.size = list[k], q.at = choose(p, list[k]);
        sign g = {"meeting", list[k], list[k] == latest_sign.size ? latest_sign.before : 0};
        if (!is_parameter_size(list[k])) mark_sources(op, &g, 0);
        e = pad_size(&q);
        break;
      }
  op_discard(op);
  *call = q.call;
  *changed = q.changed || padded_late;
  return e;
}

uint32_t sizes_of_upload(tpu_dtype dt, int rank, const int64_t *dims) {
  uint32_t r = 0;
  if (!marks.n || !tpu_sizes_auto()) return 0;
  text key = {0};
  for (int d = 0; d < rank; d++) {
    if (dims[d] < 2 || (r >> d & 1)) continue;
    class_of_upload(&key, dt, rank, dims, dims[d]);
    mark *m = find_mark(&key);
    if (!m || m->exact == dims[d]) continue;
    m->used++;
    for (int i = 0; i < rank; i++)
      if (dims[i] == dims[d]) r |= 1u << i;
  }
  text_free(&key);
  return r;
}

static void forget(map *m, bool owned) {
  size_t it = 0;
  for (void *v; owned && (v = map_next(m, &it));) free(v);
  map_free(m);
}

static void forget_parameter(tpu_storage *s, void *ctx) {
  (void)ctx;
  s->parameter = false;
}

void sizes_forget(void) {
  forget(&marks, true);
  forget(&cuts, true);
  forget(&memories, true);
  forget(&seen, false);
  forget(&parameter_sizes, false);
  storage_each(forget_parameter, NULL);
  memset(recent, 0, sizeof recent);
  latest_sign = (sign){0};
}

/* --- the report --- */
void sizes_cut(const tpu_row *row, const char *why) {
  const char *name = row->name;
  uint64_t h = hash_bytes(name, strlen(name));
  cut *c = map_get(&cuts, name, strlen(name), h);
  if (!c) {
    c = tpu_xcalloc(1, sizeof *c);
    c->row = name;
    map_put(&cuts, name, strlen(name), h, c);
  }
  c->why = why;
  c->count++;
}

char *tpu_sizes_json(void) {
  text j = {0};
  size_t it = 0;
  core_lock();
  text_str(&j, "{\"marks\": [");
  bool first = true;
  for (const mark *m; (m = map_next(&marks, &it)); first = false)
    text_printf(&j, "%s{\"op\": \"%s\", \"why\": \"%s\", \"size\": %lld, \"exact\": %lld, \"padded\": %lld}",
                first ? "" : ", ", m->what, m->why, (long long)m->first, (long long)m->exact,
                (long long)m->used);
  text_str(&j, "], \"exact\": {");
  first = true, it = 0;
  for (const cut *c; (c = map_next(&cuts, &it)); first = false)
    text_printf(&j, "%s\"%s\": {\"count\": %lld, \"why\": \"%s\"}", first ? "" : ", ", c->row,
                (long long)c->count, c->why);
  text_str(&j, "}}");
  core_unlock();
  return j.p;
}
