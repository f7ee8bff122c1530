/* Padding as recorded calls. See derive.h. */
#include "step/derive.h"

#include "step/trace_int.h"
#include "value/layout.h"

enum { MAX_DEPTH = 3 }; /* what is derived may need its operand exact, which is derived */
static _Thread_local prep preps[MAX_DEPTH];
static _Thread_local int depth;

static tpu_error *record(prep *p, tpu_call *call) {
  tpu_op *op;
  do {
    TRY(prep_call(p, call, false));
    if (!(op = op_find(p))) TRY(op_make(p, &op));
    const char *why = op->declined ? op->declined : op->needs_exact;
    if (why || !op_fits(op, p->syms))
      return tpu_err(TPU_INTERNAL, "%s: %s", op->row->name, why ? why : "a size");
    TRY(trace_ready(op, p));
  } while (p->pauses != core_pauses());
  return trace_record(op, p, call);
}

/* A call of an internal row of one tensor and one list of sizes. Whoever prepares a call just now goes on
 * after it: the storage keeps its marks. */
static tpu_error *derive(const char *row, const tpu_tensor *t, tpu_tag tag, const int64_t *sizes,
                         tpu_value **out) {
  tpu_arg args[2] = {{.tag = TPU_A_TENSOR, .n = 1, .u.t = t},
                     {.tag = (uint8_t)tag, .n = t->rank, .u.is = sizes}};
  tpu_call call = {.row = tpu_row_find(row), .nargs = 2, .args = args, .device = t->device};
  uint32_t serial = t->storage->mark_serial, index = t->storage->mark_index;
  if (depth == MAX_DEPTH) return tpu_err(TPU_INTERNAL, "%s: too deep", row);
  tpu_error *e = record(&preps[depth++], &call);
  depth--;
  t->storage->mark_serial = serial, t->storage->mark_index = index;
  if (e) return e;
  *out = call.results[0].storage->value;
  value_retain(*out);
  storage_destroy(call.results[0].storage);
  return NULL;
}

tpu_tensor derive_whole(tpu_storage *s, int64_t *sizes, int64_t *strides) {
  const tpu_value *v = s->value;
  for (int i = 0; i < v->rank; i++) sizes[i] = v->d[i].logical;
  layout_contiguous(v->rank, sizes, strides);
  return (tpu_tensor){.storage = s,
                      .sizes = sizes,
                      .strides = strides,
                      .dtype = tpu_dtypes[v->dtype].torch,
                      .device = v->device,
                      .rank = v->rank};
}

tpu_error *derive_padded(const tpu_tensor *t, uint32_t dims, tpu_value **out) {
  int64_t sizes[TPU_MAX_RANK];
  tpu_tensor plain = *t;
  plain.flags = 0; /* conj and neg stay with the tensor */
  for (int i = 0; i < t->rank; i++) sizes[i] = t->sizes[i] | (dims >> i & 1 ? SIZE_GENERIC : 0);
  return derive("tpu::padded", &plain, TPU_A_SIZES, sizes, out);
}

tpu_error *derive_exact(tpu_storage *s, tpu_value **out) {
  int64_t sizes[TPU_MAX_RANK], strides[TPU_MAX_RANK];
  tpu_tensor t = derive_whole(s, sizes, strides);
  TRY(derive("tpu::exact", &t, TPU_A_INTS, sizes, out));
  value_release(*out);
  return NULL;
}
