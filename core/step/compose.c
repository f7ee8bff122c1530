/* Running compositions. See compose.h; the compositions themselves are rows whose `compose` is set. */
#include "step/compose.h"

#include <stdlib.h>
#include <string.h>

#include "step/op.h"
#include "step/step.h"
#include "value/layout.h"

tpu_arg c_tensor(const tpu_tensor *t) {
  return (tpu_arg){.tag = t ? TPU_A_TENSOR : TPU_A_NONE, .n = 1, .u.t = t};
}
tpu_arg c_int(int64_t v) { return (tpu_arg){.tag = TPU_A_INT, .u.i = v}; }
tpu_arg c_bool(bool v) { return (tpu_arg){.tag = TPU_A_BOOL, .u.i = v}; }
tpu_arg c_none(void) { return (tpu_arg){.tag = TPU_A_NONE}; }

static compose_tensor *add(composition *c, tpu_storage *s, bool owned, int dtype, int rank,
                           const int64_t *sizes, const int64_t *strides) {
  compose_tensor *m = &c->made[c->nmade++];
  memcpy(m->sizes, sizes, (size_t)rank * sizeof *sizes);
  memcpy(m->strides, strides, (size_t)rank * sizeof *strides);
  m->t = (tpu_tensor){.storage = s,
                      .sizes = m->sizes,
                      .strides = m->strides,
                      .dtype = (int16_t)dtype,
                      .device = (int16_t)c->call->device,
                      .rank = (uint8_t)rank};
  m->owned = owned;
  return m;
}

tpu_error *c_run(composition *c, const char *name, int nargs, const tpu_arg *args, int nouts,
                 const tpu_tensor **outs) {
  tpu_call call = {.row = tpu_row_find(name),
                   .nargs = nargs,
                   .args = args,
                   .device = c->call->device,
                   .philox = c->call->philox};
  if (!call.row) return tpu_err(TPU_INTERNAL, "no row %s", name);
  TRY(tpu_dispatch(&call));
  if (call.declined) return tpu_err(TPU_NOT_IMPLEMENTED, "%s: %s", name, call.declined);
  for (int k = 0; k < call.nresults; k++) {
    const tpu_result *r = &call.results[k];
    if (k >= nouts || c->nmade == COMPOSE_MAX) {
      tpu_storage_free(r->storage);
      continue;
    }
    outs[k] = r->storage ? &add(c, r->storage, true, r->dtype, r->rank, r->sizes, r->strides)->t : NULL;
  }
  return call.nresults < nouts
             ? tpu_err(TPU_INTERNAL, "%s gave %d results, not %d", name, call.nresults, nouts)
             : NULL;
}

tpu_error *c_item(composition *c, const tpu_tensor *t, int64_t *out) {
  (void)c;
  tpu_dtype dt = tpu_dtype_from_torch(t->dtype);
  uint64_t bits = 0;
  TRY(tpu_download(t, &bits));
  *out = dt == DT_I64 ? (int64_t)bits : dt == DT_I32 ? (int32_t)bits : (int64_t)(bits & 0xff);
  return NULL;
}

const tpu_tensor *c_view(composition *c, const tpu_tensor *t, int rank, const int64_t *sizes,
                         const int64_t *strides, int64_t offset) {
  compose_tensor *m = add(c, t->storage, false, t->dtype, rank, sizes, strides);
  m->t.offset = t->offset + offset;
  return &m->t;
}

static int place_of(const composition *c, const tpu_tensor *t) {
  int i = 0;
  while (i < c->nmade && &c->made[i].t != t) i++;
  return i;
}

tpu_error *c_first(composition *c, const tpu_tensor *t, int axis, int64_t n) {
  compose_tensor *m = &c->made[place_of(c, t)];
  m->sizes[axis] = n;
  layout_contiguous(m->t.rank, m->sizes, m->strides);
  if (!tpu_sizes_auto() || n < 2) return NULL;
  core_lock();
  tpu_error *e = step_first(t->storage, axis, n);
  core_unlock();
  return e;
}

void c_return(composition *c, const tpu_tensor *t, int rank, const int64_t *sizes) {
  int i = c->result[c->nresults++] = place_of(c, t);
  compose_tensor *m = &c->made[i];
  memmove(m->sizes, sizes, (size_t)rank * sizeof *sizes);
  layout_contiguous(rank, m->sizes, m->strides);
  m->t.rank = (uint8_t)rank;
}

tpu_error *c_decline(composition *c, const char *why) {
  ((tpu_call *)c->call)->declined = why;
  return NULL;
}

tpu_error *c_plain(composition *c) {
  c->plain = true;
  return NULL;
}

/* Results into the tensors of in-place and out= forms. */
static tpu_error *write_outs(composition *c, tpu_call *call) {
  tpu_tensor *outs = (tpu_tensor *)call->outs;
  for (int k = 0; k < c->nresults && k < call->nouts; k++) {
    const tpu_tensor *r = c->result[k] < 0 ? NULL : &c->made[c->result[k]].t;
    if (!r) continue;
    bool same = outs[k].rank == r->rank && !memcmp(outs[k].sizes, r->sizes, r->rank * sizeof(int64_t));
    TRY(op_check_cast(call->row, call->variant, tpu_dtype_from_torch(r->dtype),
                      tpu_dtype_from_torch(outs[k].dtype)));
    if (!same && call->variant >= TPU_OUT) TRY(tpu_resize_out(&outs[k], r->rank, r->sizes));
    TRY(tpu_copy(r, &outs[k]));
  }
  return NULL;
}

typedef struct result_room {
  tpu_result r[16];
  int64_t sizes[16][16], strides[16][16];
} result_room;
static _Thread_local result_room room;

static void hand_over(composition *c, tpu_call *call) {
  for (int k = 0; k < c->nresults; k++) {
    tpu_result *r = &room.r[k];
    *r = (tpu_result){.device = (int16_t)call->device};
    if (c->result[k] < 0) continue;
    compose_tensor *m = &c->made[c->result[k]];
    memcpy(room.sizes[k], m->sizes, sizeof m->sizes);
    memcpy(room.strides[k], m->strides, sizeof m->strides);
    r->storage = m->t.storage, r->sizes = room.sizes[k], r->strides = room.strides[k];
    r->dtype = m->t.dtype, r->rank = m->t.rank;
    m->owned = false;
  }
  call->results = room.r;
  call->nresults = c->nresults;
}

tpu_error *compose_run(tpu_call *call, bool *plain) {
  composition *c = tpu_xmalloc(sizeof *c);
  c->call = call;
  c->nmade = c->nresults = 0;
  c->plain = false;
  tpu_error *e = call->row->compose(c);
  *plain = c->plain;
  if (!e && !call->declined && !c->plain) {
    if (call->variant == TPU_FUNCTIONAL)
      hand_over(c, call);
    else
      e = write_outs(c, call);
  }
  for (int i = 0; i < c->nmade; i++)
    if (c->made[i].owned) tpu_storage_free(c->made[i].t.storage);
  free(c);
  return e;
}
