/* Launching of single ops; numbers as buffers; deferred checks. See run.h. */
#include "step/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/map.h"
#include "step/step.h"
#include "value/memory.h"

/* --- numbers as buffers: a direct-mapped cache, since the same few numbers come again and again --- */
enum { SCALAR_SLOTS = 4096 };
typedef struct scalar_slot {
  PJRT_Buffer *buf;
  uint64_t lo, hi;
  int16_t device;
  int8_t dtype;
} scalar_slot;
static scalar_slot scalars[SCALAR_SLOTS];
static PJRT_Buffer **pushed_out; /* may still be an operand of the launch that is being prepared */
static size_t npushed, cap_pushed;

tpu_error *scalar_buffer(int device, tpu_dtype dt, uint64_t lo, uint64_t hi, PJRT_Buffer **out) {
  uint64_t h = (lo ^ (hi * 31) ^ ((uint64_t)dt << 48) ^ ((uint64_t)device << 56)) * 0x9E3779B97F4A7C15ull;
  scalar_slot *s = &scalars[h >> 52];
  if (s->buf && s->lo == lo && s->hi == hi && s->dtype == dt && s->device == device) {
    *out = s->buf;
    return NULL;
  }
  uint64_t bits[2] = {lo, hi};
  TRY(rt_upload(bits, dt, NULL, 0, NULL, device, out));
  if (s->buf) {
    GROW(pushed_out, npushed, cap_pushed, 64);
    pushed_out[npushed++] = s->buf;
  }
  *s = (scalar_slot){*out, lo, hi, (int16_t)device, (int8_t)dt};
  return NULL;
}

void scalar_sweep(void) {
  while (npushed) rt_buffer_free(pushed_out[--npushed]);
}

/* --- deferred checks --- */
enum { MAX_CHECKS = 256 };
typedef struct pending_check {
  PJRT_Buffer *buf;
  check_owner owner;
} pending_check;
static pending_check checks[MAX_CHECKS];
static uint32_t nchecks;

static tpu_error *check_read(pending_check *c) {
  int32_t failed = 0;
  const void *p = NULL;
  tpu_error *e = rt_host_pointer(c->buf, &p);
  if (!e && p) memcpy(&failed, p, sizeof failed);
  if (!e && !p) e = rt_download(c->buf, &failed, sizeof failed);
  rt_buffer_free(c->buf);
  if (e || !failed) return e;
  uint32_t k = (uint32_t)failed - 1;
  for (uint32_t i = 0; i < c->owner.n; i++) {
    const tpu_op *op = c->owner.ops[i];
    if (k < op->nchecks) /* the texts of internal rows name the op that the caller called */
      return op->row->flags & ROW_INTERNAL
                 ? tpu_err(op->check_code[k], "%s", op->check_text[k])
                 : tpu_err(op->check_code[k], "%s (in aten::%s)", op->check_text[k], op->row->name);
    k -= op->nchecks;
  }
  return tpu_err(TPU_INTERNAL, "check %d of a program without such a check", failed);
}

tpu_error *step_checks(bool wait) {
  uint32_t k = 0;
  tpu_error *e = NULL;
  while (k < nchecks && (wait || rt_is_ready(checks[k].buf))) {
    tpu_error *next = check_read(&checks[k++]);
    if (!e)
      e = next;
    else
      tpu_error_free(next);
  }
  memmove(checks, checks + k, (nchecks - k) * sizeof *checks);
  nchecks -= k;
  return e;
}

tpu_error *checks_add(PJRT_Buffer *b, int device, check_owner owner) {
  (void)device;
  tpu_error *e = nchecks == MAX_CHECKS ? step_checks(true) : NULL;
  checks[nchecks++] = (pending_check){b, owner};
  return e;
}

/* --- results --- */
tpu_value *op_new_value(const tpu_op *op, uint32_t k, const prep *p) {
  const op_out *o = &op->outs[k];
  tpu_value *v = value_create((tpu_dtype)o->dtype, o->rank, o->d, op->device);
  v->source = op;
  for (int i = 0; i < o->rank; i++)
    if (o->d[i].sym) v->d[i] = (vdim){o->d[i].n, op_dim_size(op, &o->d[i], p->syms), 1};
  return v;
}

typedef struct result_space { /* of a thread: what call->results points at until its next call */
  tpu_result *r;
  int64_t (*dims)[2][TPU_MAX_RANK];
  uint32_t cap;
} result_space;
static _Thread_local result_space space;

static result_space *room(uint32_t n) {
  result_space *s = &space;
  if (n <= s->cap) return s;
  s->cap = n * 2;
  s->r = tpu_xrealloc(s->r, s->cap * sizeof *s->r);
  s->dims = tpu_xrealloc(s->dims, s->cap * sizeof *s->dims);
  return s;
}

/* Sizes and strides of a result with generic dims: of this call. */
static void generic_sizes(const op_out *o, const tpu_value *v, int64_t (*d)[TPU_MAX_RANK]) {
  for (int i = 0; i < o->trank; i++) d[0][i] = v->d[o->size_dim[i]].logical;
  int64_t s = 1;
  for (int k = v->rank - 1; k >= 0; k--)
    for (int i = 0; i < o->trank; i++)
      if (o->size_dim[i] == k) {
        d[1][i] = s;
        s *= d[0][i] > 1 ? d[0][i] : 1;
      }
}

tpu_error *op_bind(const tpu_op *op, const prep *p, tpu_call *call, tpu_value **vals) {
  result_space *to = room(op->nresults);
  for (uint32_t k = 0; k < op->nouts; k++) {
    const op_out *o = &op->outs[k];
    if (o->kind == OUT_STORE) {
      storage_bind(p->stores[o->store].s, vals[k]);
      continue;
    }
    tpu_result *r = &to->r[k];
    *r = (tpu_result){.device = op->device};
    if (o->kind == OUT_NONE) continue;
    r->dtype = tpu_dtypes[o->dtype].torch;
    r->rank = o->trank;
    r->sizes = o->sizes, r->strides = o->strides;
    if (o->size_dim) {
      generic_sizes(o, vals[k], to->dims[k]);
      r->sizes = to->dims[k][0], r->strides = to->dims[k][1];
    }
    size_t bytes = dt_bytes((tpu_dtype)o->dtype);
    for (int i = 0; i < o->trank; i++) bytes *= (size_t)r->sizes[i];
    r->storage = storage_create(op->device, bytes);
    if (!r->storage)
      return tpu_err(TPU_OUT_OF_MEMORY, "TPU out of memory. Tried to allocate %zu bytes of address space.",
                     bytes);
    r->storage->value = vals[k];
  }
  call->nresults = (int)op->nresults;
  call->results = to->r;
  return NULL;
}

tpu_error *op_draw(const tpu_op *op, const prep *p, tpu_call *call, tpu_philox *out) {
  if (!op->reads_rng) return NULL;
  if (!call->philox) return tpu_err(TPU_INTERNAL, "aten::%s draws, but got no generator", op->row->name);
  *out = *call->philox;
  call->philox->offset += op->rng_blocks;
  if (op->rng_size) call->philox->offset += (uint64_t)op_dim_size(op, &(vdim){.sym = op->rng_size}, p->syms);
  return NULL;
}

/* --- strict --- */
static tpu_error *op_text(const tpu_op *op, text *out) {
  static B *b;
  if (!b) b = b_create();
  b_reset(b);
  Val *in = tpu_xmalloc((op->nuses + 1) * sizeof *in), *outs = tpu_xmalloc((op->nreal + 1) * sizeof *outs);
  int32_t *syms = tpu_xcalloc(op->nsyms + 1, sizeof *syms);
  for (uint32_t i = 0; i < op->nuses; i++) {
    tpu_dtype dt;
    shape s;
    op_use_type(op, i, b, syms, &dt, &s);
    in[i] = b_param(b, dt, &s);
    if (op->uses[i].kind == USE_SYM) syms[op->uses[i].index] = b_symbol(b, in[i]);
  }
  op_emit(op, b, in, outs);
  for (uint32_t k = 0; k < op->nreal; k++) b_return(b, outs[k]);
  if (op->has_check) b_return(b, b_check_result(b));
  for (uint32_t i = 0; i < op->nuses; i++) {
    if (!op->uses[i].donate) continue;
    for (uint32_t k = 0, r = 0; k < op->nouts; k++) {
      if (op->outs[k].kind == OUT_NONE) continue;
      if (op->outs[k].kind == OUT_STORE && op->outs[k].store == op->uses[i].index)
        b_param_alias(b, in[i], (int)r);
      r++;
    }
  }
  if (op->appends) b_param_alias(b, in[op->append_use], 0);
  free(in);
  free(outs);
  free(syms);
  tpu_error *e = b_take_error(b);
  return e ? e : b_print(b, out);
}

tpu_error *op_load(tpu_op *op) {
  if (program_ready(op->program)) return NULL;
  text mlir = {0};
  char name[160];
  snprintf(name, sizeof name, "%s%s", op->row->flags & ROW_INTERNAL ? "" : "aten::", op->row->name);
  tpu_error *e = op_text(op, &mlir);
  program *prog = NULL;
  if (!e) e = program_get(&mlir, name, 1, &prog);
  text_free(&mlir);
  if (!e) op->program = prog;
  return e;
}

tpu_error *op_ready(tpu_op *op, const prep *p) {
  uint64_t before = core_pauses();
  for (uint32_t i = 0; i < op->nuses && before == core_pauses(); i++)
    if (op->uses[i].kind == USE_STORE) TRY(step_materialize(p->stores[op->uses[i].index].s));
  return before != core_pauses() ? NULL : op_load(op);
}

enum { MAX_STACK = 64 };

typedef struct launch_room {
  PJRT_Buffer **args, **outs;
  int64_t *keep;
  uint32_t cap;
} launch_room;
static launch_room lr; /* under the core lock, not used while it is dropped */

static void launch_reserve(uint32_t n) {
  if (n <= lr.cap) return;
  lr.cap = n * 2 + MAX_STACK;
  lr.args = tpu_xrealloc(lr.args, lr.cap * sizeof *lr.args);
  lr.outs = tpu_xrealloc(lr.outs, lr.cap * sizeof *lr.outs);
  lr.keep = tpu_xrealloc(lr.keep, lr.cap * sizeof *lr.keep);
}

/* May the op write behind the end of its first operand? Only where nobody else has. The cell then holds both
 * values. */
static tpu_cell *append_cell(const tpu_op *op, const prep *p) {
  if (!op->appends) return NULL;
  const tpu_value *v = p->stores[op->uses[op->append_use].index].v;
  tpu_cell *c = v->cell;
  if (c->claimed && (c->claimed != v->d[op->append_axis].logical || c->claim_axis != op->append_axis))
    return NULL;
  for (uint32_t i = 0; i < op->nuses; i++) /* nothing else of this launch may read it */
    if (i != op->append_use && op->uses[i].kind == USE_STORE && p->stores[op->uses[i].index].v->cell == c)
      return NULL;
  return c;
}

/* Does nothing but the storage hold what the launch reads of it? A twin is held by the whole value, and that
 * by every storage that shares it. */
static bool held_once(const prep_store *ps) {
  const tpu_value *v = ps->v, *whole = ps->s->value;
  return v->refs == 1 && v->cell->refs == 1 && (whole == v || whole->refs == 1);
}

static tpu_error *op_operands(const tpu_op *op, prep *p, const tpu_philox *rng, uint32_t *nkeep) {
  *nkeep = 0;
  for (uint32_t i = 0; i < op->nuses; i++) {
    const op_use *u = &op->uses[i];
    PJRT_Buffer **a = &lr.args[i];
    switch ((use_kind)u->kind) {
    case USE_STORE: {
      *a = p->stores[u->index].v->cell->buf;
      if (u->donate && !held_once(&p->stores[u->index])) lr.keep[(*nkeep)++] = i;
      break;
    }
    case USE_SCALAR: {
      const prep_scalar *s = &p->scalars[u->index];
      TRY(scalar_buffer(op->device, (tpu_dtype)s->dtype, s->lo, s->hi, a));
      break;
    }
    case USE_SEED: TRY(scalar_buffer(op->device, DT_U64, rng->seed, 0, a)); break;
    case USE_OFFSET: TRY(scalar_buffer(op->device, DT_U64, rng->offset, 0, a)); break;
    case USE_SYM: TRY(scalar_buffer(op->device, DT_I32, (uint64_t)p->syms[u->index], 0, a)); break;
    }
  }
  return NULL;
}

/* Storages whose buffer a failed launch has taken are poisoned. */
static void poison_donated(const tpu_op *op, prep *p, const tpu_error *e) {
  for (uint32_t i = 0; i < op->nuses; i++)
    if (op->uses[i].kind == USE_STORE && op->uses[i].donate && rt_is_taken(lr.args[i])) {
      tpu_storage *s = p->stores[op->uses[i].index].s;
      tpu_value *v = value_create(DT_U8, 0, NULL, op->device);
      value_set_error(v, e);
      storage_bind(s, v);
    }
}

tpu_error *op_says(const tpu_op *op, tpu_error *e) {
  return tpu_err_prefix(e, "%s%s", op->row->flags & ROW_INTERNAL ? "" : "aten::", op->row->name);
}

tpu_error *op_reserve(const tpu_op *op) {
  int64_t n = 0;
  for (uint32_t k = 0; k < op->nouts; k++) n += op->outs[k].bytes;
  return op_says(op, memory_reserve(op->device, n));
}

static tpu_error *op_wait(tpu_value **vals, const tpu_op *op) {
  for (uint32_t k = 0; k < op->nouts; k++)
    if (vals[k]) TRY(op_says(op, rt_await(vals[k]->cell->buf)));
  return step_checks(true);
}

tpu_error *op_run(tpu_op *op, prep *p, tpu_call *call, bool wait) {
  tpu_philox rng = {0, 0};
  uint32_t nkeep, nout = op->nreal + op->has_check, r = 0;
  tpu_cell *grown;
  TRY(op_reserve(op));
  TRY(op_draw(op, p, call, &rng));
  launch_reserve(op->nuses > nout ? op->nuses : nout);
  TRY(op_operands(op, p, &rng, &nkeep));
  grown = append_cell(op, p);
  if (op->appends && !grown) lr.keep[nkeep++] = op->append_use;
  tpu_error *e = rt_execute(op->program->exec, op->device, lr.args, op->nuses, lr.keep, nkeep, lr.outs, nout);
  scalar_sweep();
  if (e) {
    e = op_says(op, e);
    poison_donated(op, p, e);
    if (grown && rt_is_taken(grown->buf)) cell_lose(grown);
    return e;
  }
  tpu_value *stack[MAX_STACK],
      **vals = op->nouts <= MAX_STACK ? stack : tpu_xmalloc(op->nouts * sizeof *vals);
  for (uint32_t k = 0; k < op->nouts; k++) {
    vals[k] = NULL;
    if (op->outs[k].kind == OUT_NONE) continue;
    vals[k] = op_new_value(op, k, p);
    if (grown) cell_append(grown, lr.outs[r++], op->append_axis, vals[k]->d[op->append_axis].logical);
    value_set_cell(vals[k], grown ? grown : cell_create(lr.outs[r++], op->device, op->outs[k].bytes));
  }
  if (op->has_check) e = checks_add(lr.outs[r], op->device, (check_owner){&op->self, 1});
  tpu_error *e2 = op_bind(op, p, call, vals);
  if (!e)
    e = e2;
  else
    tpu_error_free(e2);
  if (!e && wait) e = op_wait(vals, op);
  if (vals != stack) free(vals);
  return e;
}
