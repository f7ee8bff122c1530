/* Values and cells: what a storage names (design 3).
 *
 * value -> cell -> device buffer. A value is immutable: an in-place write makes a new value and rebinds the
 * storage. A cell owns one PJRT buffer; a donated launch swaps the buffer under every value that shares the
 * cell's memory, which is why ownership questions
 * ("may this be donated?") count references to the cell and to the value, never to the buffer.
 *
 * Dims. Each dim is {n, logical, sym}: sym 0 is static (n == logical); otherwise n is the physical size (a
 * rung of the ladder) and the logical size is what the user sees. Values are dense row-major over the
 * physical dims. Sizes get names only inside of a call (docs/decisions/0004): a signature numbers the logical
 * sizes of its generic dims, equal numbers for equal sizes. Whether padding is known to be zero is derived
 * from (cell, claimed mark) where it is asked, never stored here.
 *
 * Everything in this folder is guarded by the core lock (core_lock); reference counts are plain ints. */
#ifndef TPU_VALUE_VALUE_H
#define TPU_VALUE_VALUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "rt/rt.h"

#define TPU_MAX_RANK 16 /* of a tensor; the IR goes to IR_MAX_RANK since views split dims */

void core_lock(void);
void core_unlock(void);
/* Gives the lock up in the middle of something (core_lock takes it back), or until c is signalled. Other
 * threads write meanwhile: whoever calls what may pause compares core_pauses() before and after, and where it
 * differs reads anew what it had read. */
void core_pause(void);
void core_wait(pthread_cond_t *c);
uint64_t core_pauses(void);
uint32_t core_serial(void); /* a new one: marks what a call, a trace or a graph has seen (mark_serial) */

typedef struct tpu_cell {
  int32_t refs;
  int16_t device;
  PJRT_Buffer *buf; /* owned; NULL: lost by a launch that failed while it had it */
  int64_t bytes;    /* accounted in memory statistics; -1: no more */
  /* Appends in place: rows of axis claim_axis below `claimed` belong to some value of this cell; 0: nobody
   * appended yet. A value of fewer rows sees its own part, whatever comes after it. */
  int64_t claimed;
  int8_t claim_axis;
} tpu_cell;

typedef struct vdim {
  int64_t n, logical;
  uint32_t sym; /* of a value: 0 static, 1 generic; of an operand or result of an op: see step/op.h */
} vdim;

typedef enum value_state { V_CELL, V_PENDING, V_ERROR } value_state;

typedef struct tpu_value {
  int32_t refs;
  uint8_t state; /* value_state */
  uint8_t rank;
  int8_t dtype; /* tpu_dtype */
  int16_t device;
  uint32_t mark_serial, mark_index; /* scratch of the trace or call that is being built */
  tpu_cell *cell;                   /* V_CELL; owned reference */
  struct trace *trace;              /* V_PENDING: where it will be made (not owned) */
  uint32_t slot;
  tpu_error *error;            /* V_ERROR; owned */
  struct tpu_value *twin;      /* of a generic value: the same without padding, once somebody asked; owned */
  const struct tpu_op *source; /* what made it; NULL: the host */
  vdim d[];
} tpu_value;

/* A cell takes over the buffer; one reference for the caller. */
tpu_cell *cell_create(PJRT_Buffer *buf, int device, int64_t bytes);
void cell_retain(tpu_cell *c);
/* A launch that was given the cell's buffer wrote rows up to `claimed` and gave it back as `buf`; one more
 * reference, for the new value. */
void cell_append(tpu_cell *c, PJRT_Buffer *buf, int axis, int64_t claimed);
void cell_lose(tpu_cell *c); /* such a launch failed */
/* A launch took its buffer over; the one reference is about to go. */
void cell_give(tpu_cell *c);

/* A pending value without a trace yet; one reference for the caller. */
tpu_value *value_create(tpu_dtype dt, int rank, const vdim *d, int device);
void value_retain(tpu_value *v);
void value_release(tpu_value *v);                       /* NULL is fine */
void value_set_cell(tpu_value *v, tpu_cell *c);         /* takes the caller's reference of c */
void value_set_error(tpu_value *v, const tpu_error *e); /* copies e */
int64_t value_bytes(const tpu_value *v);                /* physical */
int64_t dims_bytes(tpu_dtype dt, int rank, const vdim *d);
bool value_is_generic(const tpu_value *v);
/* Waits for nothing: the error a poisoned value carries (a copy), or NULL. */
tpu_error *value_error(const tpu_value *v);
vdim vdim_static(int64_t n);
/* The smallest rung of the ladder >= n: 2, 3, 4, 6, 8, 12, 16, 24, 32, 48 ... */
int64_t ladder_rung(int64_t n);

#endif
