/* The front door: tpu_dispatch, modes, rows by name, start and end. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "call/fits.h"
#include "step/compose.h"
#include "step/graph.h"
#include "step/sizes.h"
#include "step/step.h"
#include "step/trace.h"

tpu_error *(*tpu_resize_out)(tpu_tensor *t, int rank, const int64_t *sizes);

static atomic_int mode = -1;
static atomic_bool down;
static int precision = 2;
static tpu_dtype default_float = DT_F32;
static bool masks_off;
static int64_t masks_left_out;

bool step_is_shut_down(void) { return atomic_load_explicit(&down, memory_order_relaxed); }
int step_precision(void) { return precision; }
bool step_masks_off(void) { return masks_off; }
int64_t tpu_debug_disable_masks(bool off) {
  int64_t n = masks_left_out;
  masks_off = off;
  masks_left_out = 0;
  return n;
}
void tpu_set_matmul_precision(int p) { precision = p < 0 ? 0 : p > 2 ? 2 : p; }

tpu_dtype step_default_float(void) { return default_float; }
void tpu_set_default_dtype(int dtype) {
  tpu_dtype dt = tpu_dtype_from_torch(dtype);
  default_float = dt_is_float(dt) ? dt : DT_F32;
}

/* --- rows --- */
int tpu_num_rows(void) {
  int n = 0;
  for (const tpu_row *const *t = tpu_row_tables; *t; t++)
    for (const tpu_row *r = *t; r->name; r++) n++;
  return n;
}

const tpu_row *tpu_row_at(int i) {
  for (const tpu_row *const *t = tpu_row_tables; *t; t++)
    for (const tpu_row *r = *t; r->name; r++)
      if (i-- == 0) return r;
  return NULL;
}

const tpu_row *tpu_row_find(const char *name) {
  for (const tpu_row *const *t = tpu_row_tables; *t; t++)
    for (const tpu_row *r = *t; r->name; r++)
      if (!strcmp(r->name, name)) return r;
  return NULL;
}

const char *tpu_row_name(const tpu_row *r) { return r->name; }
bool tpu_row_is_random(const tpu_row *r) { return r->flags & ROW_RANDOM; }
bool tpu_row_is_internal(const tpu_row *r) { return r->flags & ROW_INTERNAL; }

bool tpu_row_is_shared(const tpu_row *r) { return r->flags & ROW_SHARED; }

tpu_overlap tpu_row_overlap(const tpu_row *r) {
  if (r->flags & ROW_SHARED) return TPU_OVERLAP_FREE;
  if (r->flags & ROW_OVERLAP_ALL) return TPU_OVERLAP_NONE;
  if (r->flags & ROW_OVERLAP_SELF) return TPU_OVERLAP_SELF;
  return r->flags & ROW_ELEMENTWISE ? TPU_OVERLAP_EACH : TPU_OVERLAP_FREE;
}

/* --- modes --- */
static int mode_from_env(void) {
  if (env_is("TORCH_TPU_EAGER_MODE", "fused")) return TPU_MODE_FUSED;
  if (env_is("TORCH_TPU_EAGER_MODE", "debug")) return TPU_MODE_DEBUG;
  if (env_is("TORCH_TPU_EAGER_MODE", "strict")) return TPU_MODE_STRICT;
  if (env_flag("TPU_LAUNCH_BLOCKING", false)) return TPU_MODE_DEBUG;
  if (env_flag("TORCH_TPU_DEFER_AND_FUSE", env_flag("TPU_DEFER_AND_FUSE", false))) return TPU_MODE_FUSED;
  return TPU_MODE_STRICT;
}

tpu_mode tpu_get_mode(void) {
  int m = atomic_load_explicit(&mode, memory_order_relaxed);
  if (m >= 0) return (tpu_mode)m;
  m = mode_from_env();
  atomic_store(&mode, m);
  return (tpu_mode)m;
}

tpu_error *tpu_set_mode(tpu_mode m) {
  TRY(tpu_flush());
  atomic_store(&mode, (int)m);
  return NULL;
}

tpu_error *tpu_flush(void) {
  if (!rt_is_open()) return NULL;
  core_lock();
  tpu_error *e = trace_flush(-1, "flush");
  core_unlock();
  return e;
}

/* --- dispatch --- */
enum { MAX_DEPTH = 4 }; /* a signal handler may dispatch while a call of its thread waits for a compile */
static _Thread_local prep preps[MAX_DEPTH];
static _Thread_local int depth;

/* The op of the call, which *call may be replaced for: sizes that vary turn generic on the way, and where the
 * lowering has no form for generic dims the op is used on exact values. */
static tpu_error *find_op(prep *p, sized_call *sc, const tpu_call **call, tpu_op **op) {
  bool changed = false, learns = !graph_is_fixed((*call)->device);
  TRY(prep_call(p, *call, false));
  if (!(*op = op_find(p)) || (learns && !(*op)->learned)) {
    if (learns) TRY(sizes_learn(p, sc, call, &changed));
    if (changed) TRY(prep_call(p, *call, false));
    if (!(*op = op_find(p))) TRY(op_make(p, op));
    (*op)->learned |= learns;
  }
  for (int sizes = 0; sizes < 4 && (*op)->needs_exact; sizes++) {
    TRY(sizes_meet(p, sc, call, &changed));
    if (!changed) break;
    TRY(prep_call(p, *call, false));
    if (!(*op = op_find(p))) TRY(op_make(p, op));
  }
  if (!(*op)->needs_exact && op_fits(*op, p->syms)) return NULL;
  p->cut = (*op)->needs_exact ? (*op)->needs_exact : "a size that the generic program is not for";
  TRY(prep_call(p, *call, true));
  return (*op = op_find(p)) ? NULL : op_make(p, op);
}

/* One try; *resize: the outs do not have the result's sizes, which stand in *op. A pause for a compile or a
 * flush lets other threads write the operands: the call is prepared again, and runs on what they are then. */
static tpu_error *prepare_and_run(prep *p, sized_call *sc, tpu_call *call, const tpu_op **resize) {
  tpu_mode m;
  tpu_op *op;
  bool hit = true;
  const tpu_call *as = call;
  do {
    TRY(find_op(p, sc, &as, &op));
    if (op->needs_exact) return tpu_err(TPU_INTERNAL, "aten::%s: %s", op->row->name, op->needs_exact);
    if (op->declined) {
      call->declined = op->declined;
      return NULL;
    }
    if (op->needs_resize) {
      *resize = op;
      return NULL;
    }
    if (p->cut) sizes_cut(call->row, p->cut);
    masks_left_out += op->masks_left_out;
    m = graph_records(op->device) ? TPU_MODE_FUSED : tpu_get_mode();
    hit = hit && op->program && op->program->exec;
    TRY(m == TPU_MODE_FUSED ? trace_ready(op, p) : op_ready(op, p));
  } while (p->pauses != core_pauses());
  if (m == TPU_MODE_FUSED) return trace_record(op, p, call);
  if (hit) program_count_hit();
  return op_run(op, p, call, m == TPU_MODE_DEBUG);
}

static tpu_error *dispatch_locked(prep *p, tpu_call *call, const tpu_op **resize) {
  sized_call sc = {0};
  tpu_error *e = prepare_and_run(p, &sc, call, resize);
  if (sc.used) sizes_end(&sc);
  return e;
}

static bool same_sizes(const tpu_tensor *t, const op_out *o) {
  return t->rank == o->trank && !memcmp(t->sizes, o->sizes, t->rank * sizeof(int64_t));
}

static tpu_error *resize_outs(tpu_call *call, const tpu_op *op) {
  tpu_tensor *outs = (tpu_tensor *)call->outs; /* the glue refills them through the callback */
  for (uint32_t k = 0; k < op->nouts && (int)k < call->nouts; k++)
    if (!same_sizes(&outs[k], &op->outs[k]))
      TRY(tpu_resize_out(&outs[k], op->outs[k].trank, op->outs[k].sizes));
  return NULL;
}

tpu_error *tpu_dispatch(tpu_call *call) {
  call->declined = NULL;
  call->nresults = 0;
  if (!rt_is_open()) TRY(tpu_open());
  if (call->row->flags & ROW_FITS) TRY(call_numbers_fit(call));
  if (call->row->compose) {
    bool plain;
    tpu_error *e = compose_run(call, &plain);
    if (e || !plain) return e;
  }
  if (depth == MAX_DEPTH)
    return tpu_err(TPU_RUNTIME, "aten::%s: too many nested calls from signal handlers", call->row->name);
  prep *p = &preps[depth++];
  tpu_error *e = NULL;
  for (int tries = 0; tries < 2 && !e; tries++) {
    const tpu_op *resize = NULL;
    core_lock();
    e = dispatch_locked(p, call, &resize);
    core_unlock();
    if (!resize) break;
    if (!e)
      e = tries ? tpu_err(TPU_INTERNAL, "aten::%s: out= still has the wrong sizes", call->row->name)
                : resize_outs(call, resize);
  }
  depth--;
  return e;
}

/* --- start, end --- */
tpu_error *tpu_open(void) {
  if (!rt_is_open()) TRY(env_check());
  return rt_open();
}
bool tpu_is_open(void) { return rt_is_open(); }
int tpu_device_count(void) { return rt_device_count(); }

tpu_error *tpu_device_check(int index) {
  int n = rt_device_count();
  if (index >= 0 && index < n) return NULL;
  if (n == 0) return tpu_err(TPU_RUNTIME, "No TPU device is available: %s", rt_find_plugin().why);
  return tpu_err(TPU_RUNTIME,
                 "TPU error: invalid device ordinal %d: this process has %d (0 to %d); TORCH_TPU_NUM_DEVICES "
                 "sets the number on a CPU "
                 "plugin.",
                 index, n, n - 1);
}

tpu_error *tpu_synchronize(int device) {
  if (!rt_is_open()) return NULL;
  core_lock();
  tpu_error *e = trace_flush(device, "synchronize");
  core_unlock();
  tpu_error *e2 = rt_sync(device);
  if (!e)
    e = e2;
  else
    tpu_error_free(e2);
  core_lock();
  e2 = step_checks(true);
  core_unlock();
  if (!e)
    e = e2;
  else
    tpu_error_free(e2);
  return e;
}

void tpu_clear_programs(void) {
  core_lock();
  tpu_error_free(trace_flush(-1, "clear"));
  op_forget();
  trace_clear_steps();
  program_clear();
  sizes_forget();
  core_unlock();
}

bool tpu_shutdown(void) {
  atomic_store(&down, true);
  return rt_finish_compiles(rt_interrupt_hook);
}

/* --- streams, events --- */
struct tpu_event {
  rt_event *e;
};

tpu_error *tpu_event_record(int device, tpu_event **out) {
  TRY(tpu_open());
  core_lock();
  tpu_error *e = trace_flush(device, "event");
  core_unlock();
  if (e) return e;
  *out = tpu_xmalloc(sizeof **out);
  (*out)->e = rt_event_record(device);
  return NULL;
}

bool tpu_event_query(tpu_event *e) { return rt_event_ready(e->e); }
tpu_error *tpu_event_wait(tpu_event *e) { return rt_event_wait(e->e); }
double tpu_event_elapsed_ms(tpu_event *a, tpu_event *b) {
  return 1e-6 * (double)(rt_event_time_ns(b->e) - rt_event_time_ns(a->e));
}
void tpu_event_free(tpu_event *e) {
  if (!e) return;
  rt_event_free(e->e);
  free(e);
}

void tpu_set_interrupt_hook(int (*hook)(void)) { rt_interrupt_hook = hook; }
void tpu_add_plugin_candidate(const char *path, const char *why, bool is_cpu) {
  rt_add_candidate(path, why, is_cpu);
}
