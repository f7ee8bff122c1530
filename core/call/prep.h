/* A call prepared for the memo: its signature bytes, the storages it touches, the numbers it carries.
 *
 * The signature holds everything a lowering may look at: row, variant, and per argument its tag and
 * structure. Tensors say their view (plan, sizes, strides), the type of the value they lie in and which of
 * the call's storages that is; numbers that may change from call to call (design 4) say only their dtype. Two
 * calls with equal bytes run the same program. A prep belongs to one thread; what it points at is borrowed
 * from the call and valid under the core lock. */
#ifndef TPU_CALL_PREP_H
#define TPU_CALL_PREP_H

#include "base/text.h"
#include "lower/lower.h"
#include "tpu.h"
#include "value/geometry.h"
#include "value/storage.h"

typedef struct prep_store {
  tpu_storage *s;
  tpu_value *v; /* NULL: never written, reads as zeros of `nbytes` */
} prep_store;

typedef struct prep_scalar {
  uint64_t lo, hi; /* the bits in dtype (hi: second half of a C128) */
  int8_t dtype;
} prep_scalar;

typedef struct prep_tensor {
  const tpu_tensor *t;  /* borrowed; NULL: undefined */
  int8_t dtype;         /* tpu_dtype */
  bool host, structure; /* structure: a number whose value is part of the signature */
  uint32_t store;       /* !host: index into stores */
  uint32_t scalar;      /* host: its value; else the offset operand where geom.offset */
  geom g;
  struct view_memory *memory; /* of a view with sizes that may be generic: step/sizes.h; else NULL */
} prep_tensor;

typedef struct prep {
  const tpu_call *call;
  text sig;
  prep_store *stores;
  prep_scalar *scalars;
  prep_tensor *tensors; /* of all arguments in order, lists expanded; then the outs of OUT */
  int64_t *syms; /* the logical sizes of generic dims, in order of first occurrence: k + 1 in the signature */
  uint32_t nstores, nscalars, ntensors, nsyms, out_first, extents;
  uint32_t serial; /* storages marked with it are in stores */
  uint64_t pauses; /* core_pauses() at the start: another number makes what is here stale */
  uint32_t cap_stores, cap_scalars, cap_tensors, cap_syms;
  int64_t rung;        /* ROW_GROWS: physical size of the growing axis, 0 = exact */
  bool exact;          /* all generic values are used without their padding */
  const char *cut;     /* why a value is used without its padding, or NULL */
  bool mixed;          /* a value was taken as generic before a view of it that needs it exact was met */
  const char *decline; /* a dtype or rank that the core does not have */
} prep;

/* Fills p (reusing its memory). `exact`, a row of class NONE, and a view that the planner does not know take
 * the exact twins of generic values; a byte storage is retyped; both may launch and pause, but p is not stale
 * at the end. Core lock held. */
tpu_error *prep_call(prep *p, const tpu_call *call, bool exact);

/* Is this number (Scalar tags, or DOUBLE with ROW_FLOAT_PARAM) an operand of the program, or structure
 * (lower.h)? */
bool number_is_operand(const tpu_arg *a, uint32_t flags);
#endif
