/* Which sizes turn generic, and when: the policy of design 3 ("Sizes"), all of it.
 *
 * A size that varies costs a compile each time it is new. A generic dim costs padding, masks, and an operand.
 * So a size turns generic on evidence that it varies, and only then:
 *  - PARAMETER: the same op was called with the same parameters (leaf tensors that require gradients) and one
 *    size of its other operands differed. Weights of many shapes meet one activation as well; that is no
 *    evidence, since the parameter is what stays. Parameters themselves never turn generic.
 *  - GROWTH: a concatenation whose first item came out of a concatenation along the same axis.
 *  - COUNT: the number of elements of arange differed, or how often something is repeated. No parameter is
 *    one of these.
 *  - MEETING: an op has a generic operand of this size and another, static one, and no form for the two.
 *  - VIEWS: where a view splits or expands, nothing says which of its sizes vary; that is what was different
 * the last time that the same operand of the same row was such a view. Of a split seen for the first time, it
 * is the dim whose size a generic dim had latest, else the outermost. A part of a static dim (a static cache)
 * counts where it is written and where it begins at the front: fixed parts begin anywhere. Evidence marks the
 * op's class (its structure with that size left open) and the classes of the ops that made the operand, back
 * to the host's uploads, so that from the next size on the value is born generic. All of this happens on memo
 * misses and uploads: a call that was seen before pays nothing.
 *
 * Waste: two dims that are padded by nearly half each more than double the work. Where that is much, the
 * program is not for such sizes (ir_bound_waste) and the op runs on exact copies.
 *
 * The size before the evidence stays exact: it has its programs, and they are at least as good.
 * Sizes 0 and 1 never turn generic: 1 broadcasts. Which size a dim "has" is compared as a number here; that
 * is sound since a mark never changes a result, only how it is computed. Core lock held throughout. */
#ifndef TPU_STEP_SIZES_H
#define TPU_STEP_SIZES_H

#include "step/op.h"

/* A call whose operands were replaced: views that got padding of their own, sizes that became operands. */
typedef struct sized_call {
  tpu_call call; /* what to run instead */
  arena mem;
  tpu_storage **temps;
  uint32_t ntemps, cap_temps;
  bool used;
} sized_call;

/* Before lowering, when the op is new or not `learned`: gives operands padding where there is evidence.
 * *changed: prepare again, from *call. */
tpu_error *sizes_learn(const prep *p, sized_call *sc, const tpu_call **call, bool *changed);
/* After a lowering that has no form for the call's mixture of static and generic dims. */
tpu_error *sizes_meet(const prep *p, sized_call *sc, const tpu_call **call, bool *changed);
void sizes_end(sized_call *sc);
/* Forgets the evidence, with op_forget: a size has no programs any more for which it would stay exact. */
void sizes_forget(void);
/* A row was used on exact twins: for the report. */
void sizes_cut(const tpu_row *row, const char *why);
/* Dims (bit mask) of a value from the host that are born generic. */
uint32_t sizes_of_upload(tpu_dtype dt, int rank, const int64_t *dims);

#endif
