/* Launching: operands to buffers, results to values, checks, and the strict and debug modes. Core lock held
 * throughout. */
#ifndef TPU_STEP_RUN_H
#define TPU_STEP_RUN_H

#include "step/op.h"
#include "step/program.h"

typedef struct check_owner { /* whose checks an s32 check result holds: ops in order, kept by the caller for
                                ever */
  const tpu_op *const *ops;
  uint32_t n;
} check_owner;

/* A device buffer of one number; borrowed until the next launch. */
tpu_error *scalar_buffer(int device, tpu_dtype dt, uint64_t lo, uint64_t hi, PJRT_Buffer **out);
/* Frees the scalar buffers that were pushed out of the cache; after each launch. */
void scalar_sweep(void);
/* A new value for result k of an op in this call, pending. */
tpu_value *op_new_value(const tpu_op *op, uint32_t k, const prep *p);
/* Binds the values of results (vals[k] for every out but OUT_NONE; references are taken over) to new and
 * written storages, and fills call->results. */
tpu_error *op_bind(const tpu_op *op, const prep *p, tpu_call *call, tpu_value **vals);
/* Operands real, program compiled. May pause, and the call must be prepared again then. */
tpu_error *op_ready(tpu_op *op, const prep *p);
/* Its program, compiled or loaded where it is not there. May pause. */
tpu_error *op_load(tpu_op *op);
/* The error with the op's name before it; NULL stays NULL. */
tpu_error *op_says(const tpu_op *op, tpu_error *e);
/* Memory for the results of the op; the error names it. */
tpu_error *op_reserve(const tpu_op *op);
/* The op, which is ready, alone and now. */
tpu_error *op_run(tpu_op *op, prep *p, tpu_call *call, bool wait);
/* A launch left an s32 check result: remember it. Takes the buffer. */
tpu_error *checks_add(PJRT_Buffer *b, int device, check_owner owner);
/* Seed and offset that the call draws from; advances the stream. */
tpu_error *op_draw(const tpu_op *op, const prep *p, tpu_call *call, tpu_philox *out);

#endif
