/* Compositions: ops that need a number from the device before the size of their result is known (nonzero,
 * unique, masks among indices ...), as host functions that run other rows. No lock is held; a composition
 * runs on the calling thread. Temporaries belong to the composition and go with it. */
#ifndef TPU_STEP_COMPOSE_H
#define TPU_STEP_COMPOSE_H

#include "lower/lower.h"
#include "tpu.h"

enum { COMPOSE_MAX = 96 }; /* temporaries and results of one composition */

typedef struct compose_tensor {
  tpu_tensor t;
  int64_t sizes[16], strides[16];
  bool owned; /* t.storage is ours to free */
} compose_tensor;

struct composition {
  const tpu_call *call;
  compose_tensor made[COMPOSE_MAX];
  int nmade;
  int result[16]; /* indices into made, in result order; -1: undefined */
  int nresults;
  bool plain; /* the row's own fn is to do it */
};

/* *plain: nothing was done, the call is one for the row's fn. */
tpu_error *compose_run(tpu_call *call, bool *plain);

/* Runs a row (functional) on the device of the call; outs[k] are temporaries, k < nouts. */
tpu_error *c_run(composition *c, const char *row, int nargs, const tpu_arg *args, int nouts,
                 const tpu_tensor **outs);
/* The value of a one-element integer or bool tensor; waits. */
tpu_error *c_item(composition *c, const tpu_tensor *t, int64_t *out);
/* A view of t (shares its storage). offset in elements, added to t's. */
const tpu_tensor *c_view(composition *c, const tpu_tensor *t, int rank, const int64_t *sizes,
                         const int64_t *strides, int64_t offset);
/* A temporary becomes its first n elements along an axis, n having been read from the device. Where sizes may
 * be generic its value gets a generic dim, so that what uses it runs one program for all n of a rung; where
 * not, the axis must be the first: it is a prefix of the storage. */
tpu_error *c_first(composition *c, const tpu_tensor *t, int axis, int64_t n);
/* The next result: t's storage seen contiguously from its start as these sizes. */
void c_return(composition *c, const tpu_tensor *t, int rank, const int64_t *sizes);
tpu_error *c_decline(composition *c, const char *why); /* to the CPU fallback; before anything was returned */

tpu_error *c_plain(
    composition *c); /* this call needs no composition: the row's fn does it; before anything was returned */

/* Argument builders. */
tpu_arg c_tensor(const tpu_tensor *t);
tpu_arg c_int(int64_t v);
tpu_arg c_bool(bool v);
tpu_arg c_none(void);

#endif
