/* The memo: one `tpu_op` per signature, with all that a second equal call needs: result types, how operands
 * are laid out, the program. Ops live as long as the process (op_forget leaves them without programs).
 * Guarded by the core lock. */
#ifndef TPU_STEP_OP_H
#define TPU_STEP_OP_H

#include "base/arena.h"
#include "call/prep.h"

typedef enum use_kind { USE_STORE, USE_SCALAR, USE_SEED, USE_OFFSET, USE_SYM } use_kind;
typedef struct op_use { /* one operand of the program, in parameter order */
  uint8_t kind;
  bool donate;    /* the result out_alias may take this buffer over when nobody else holds it */
  uint32_t index; /* into prep.stores, scalars, syms */
} op_use;

/* A generic size among the INTs of an op: SIZE_GENERIC | number in the signature << this | rung. */
enum { SIZE_NUMBER_SHIFT = 44 };
typedef struct op_arg {
  uint8_t tag;  /* tpu_tag */
  bool operand; /* a number that is an operand: `scalar` */
  uint32_t n, scalar;
  union {
    int64_t i;
    double d;
    const int64_t *is;
    const double *ds;
    const struct op_arg *as;
    const char *s;
    uint32_t tensor; /* TENSOR(S): first index into tensors */
  } u;
} op_arg;

typedef struct op_tensor {
  bool defined, host,
      structure; /* structure: a number in tensor's clothes whose value is part of the signature */
  int8_t dtype;
  uint8_t rank, flags;
  uint32_t store, scalar;
  int64_t bits; /* structure */
  geom g;
  int64_t *sizes, *strides;
} op_tensor;

typedef struct op_store {
  bool empty, parameter;
  int8_t dtype;
  uint8_t rank;
  vdim *d; /* sym: the number of the size in the signature; logical: of the first such call */
  const struct tpu_op *source; /* what made the value in the first such call; NULL: the host */
  int64_t nbytes;
} op_store;

typedef enum out_kind { OUT_NEW, OUT_STORE, OUT_NONE } out_kind;
typedef struct op_out { /* one result of the program (none for OUT_NONE), in result order */
  uint8_t kind;
  int8_t dtype;   /* of the value */
  uint8_t rank;   /* of the value */
  vdim *d;        /* of the value; sym: see op_size */
  uint32_t store; /* OUT_STORE: which storage is rebound */
  uint8_t trank;  /* OUT_NEW: the tensor */
  int64_t *sizes, *strides;
  int8_t *size_dim; /* OUT_NEW: where the value is generic: value dim of tensor dim i, else NULL */
  int64_t bytes;
} op_out;

typedef struct op_size { /* a size that results have and operands do not: sym = nsyms + 1 + its index */
  const size_code *code; /* over the signature's sizes */
  int n;
} op_size;

typedef struct tpu_op {
  const tpu_row *row;
  uint32_t id;
  uint8_t variant, device;
  text sig;
  arena mem;
  const op_arg *args;
  int nargs;
  const op_tensor *tensors;
  uint32_t ntensors, out_first, nouts_given;
  const op_store *stores;
  uint32_t nstores, nscalars, nsyms;
  const int8_t *scalar_dtypes;
  op_use *uses;
  uint32_t nuses, cap_uses;
  op_size *sizes;
  uint32_t nsizes, cap_sizes;
  op_out *outs;
  uint32_t nouts, cap_outs, nreal; /* nreal: results of the program without the check */
  uint32_t nresults;               /* results that go back to the caller (OUT_NEW, OUT_NONE) */
  int64_t rung;
  bool appends; /* uses[append_use] may keep its buffer for result 0, which adds to it along append_axis */
  uint8_t append_axis;
  uint32_t append_use;
  uint64_t rng_blocks; /* Philox counters that a call takes ... */
  uint32_t rng_size;   /* ... and the number of the size that says how many more; 0: none */
  bool reads_rng, has_check;
  int precision;
  int8_t default_float; /* tpu_dtype */
  const char *declined; /* the core does not do this case */
  const op_size *needs; /* sizes that must not be negative: else the call is for exact values */
  uint32_t nneeds;
  const char *needs_exact; /* its lowering has no form for these generic dims: why */
  bool learned;            /* its call was looked at for sizes that vary (step/sizes.h) */
  int masks_left_out;      /* with masks disabled */
  bool needs_resize;       /* OUT: the out tensors do not have the result's sizes, which stand in outs */
  struct program *program; /* strict: the op alone; NULL until first run */
  tpu_code check_code[8];  /* of the op's checks */
  const char *check_text[8];
  uint32_t nchecks;
  const struct tpu_op *self;      /* = this: the owner list of its own checks */
  uint32_t last_serial, last_pos; /* scratch of the trace: where it stood last */
} tpu_op;

/* The structure of a prepared call alone, not lowered, not kept; op_discard frees it. */
tpu_op *op_sketch(const prep *p);
void op_discard(tpu_op *op);
/* On such a structure: operands that are no parameters get their static dims of this size, at these positions
 * from the last one (bit mask), padded; false when the signature has no such size. */
bool op_pad_sketch(tpu_op *op, const prep *p, int64_t size, uint32_t at);
bool op_try(tpu_op *op); /* does it lower? */
/* The op of a prepared call, or NULL. */
tpu_op *op_find(const prep *p);
/* Makes it. Errors (bad arguments) are not kept. */
tpu_error *op_make(const prep *p, tpu_op **out);
/* Emits the op into b: `in[i]` is the Val of uses[i]; writes nreal results. Deterministic: what op_get saw is
 * what this emits. */
void op_emit(const tpu_op *op, B *b, const Val *in, Val *outs);
/* Whether a result may be written to a tensor of another dtype; torch's words. */
tpu_error *op_check_cast(const tpu_row *row, tpu_variant variant, tpu_dtype from, tpu_dtype to);
/* Type of operand i as a parameter; syms[k] = builder symbol of signature symbol k + 1, 0: nobody reads it
 * (one is made). */
void op_use_type(const tpu_op *op, uint32_t i, B *b, int32_t *syms, tpu_dtype *dt, shape *s);
/* Logical size of a result's dim in a call with these sizes. */
int64_t op_dim_size(const tpu_op *op, const vdim *d, const int64_t *sizes);
/* Is the program for these sizes? */
bool op_fits(const tpu_op *op, const int64_t *sizes);
int op_count(void);
void op_forget(void); /* no op has a program or is `learned`; drops no program itself: program_clear does */

#endif
