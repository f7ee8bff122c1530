/* Lowering: ATen ops as rows, each a few builder calls.
 *
 * A row is {schema name, function, datum, flags}. The function reads its arguments by their position in the
 * schema, calls builder verbs (ir/builder.h) and returns its results with ret(); in-place, out= and
 * functional forms are derived from the schema by the glue and the core, so a row is written once, for the
 * functional form (or for the in-place one where no functional one exists). Errors stick in the builder: no
 * checks between verbs. Rows stand at the foot of the file that implements their family, in an array `const
 * tpu_row rows_<family>[]` ended by {0}, named in lower/rows.c.
 *
 * What arrives: every tensor argument as a Val of its LOGICAL shape and own dtype (views, conj, casts of
 * storage already read); 0-dim CPU tensors and Python numbers as rank-0 Vals that are run-time parameters.
 * What leaves: a Val of the logical result shape and exactly the dtype PyTorch gives. Strides of results,
 * broadcasting into out=, casting to self's dtype for in-place forms are the core's.
 *
 * Structure and parameters. int, bool, float, int[], str, dtype arguments are structure: part of the
 * signature, a new value is a new program. Scalar arguments (alpha, value, exponents) are parameters, except
 * the values 0 and 1, which are structure (so `alpha=1` costs nothing), and with ROW_SPECIAL also -2, -1,
 * -0.5, 0.5, 2, 3. With ROW_FLOAT_PARAM the float arguments are parameters as well. */
#ifndef TPU_LOWER_LOWER_H
#define TPU_LOWER_LOWER_H

#include "ir/builder.h"

typedef struct L L;

/* Row flags. */
enum {
  ROW_EXACT = 1, /* generic operands are used without their padding (docs/sizes.md) */
  /* Strides of the results: */
  ROW_ELEMENTWISE = 4, /* TensorIterator's rule over all tensor arguments (keeps permuted dense layouts) */
  ROW_CHANNELS = 8,    /* channels_last when argument 0 (or 1) suggests it; else contiguous */
  ROW_LIKE_SELF =
      512, /* those of argument 0 (dense, permuted or not) for results of its sizes; else contiguous */
  /* Arguments: */
  ROW_RANDOM = 16,  /* draws from the generator: l_random_words */
  ROW_SPECIAL = 32, /* see above */
  ROW_FLOAT_PARAM = 64,
  ROW_GROWS = 128,    /* concatenation: l_rung() says how large a generic result axis is */
  ROW_SIZED = 1024,   /* its int lists are sizes (or how often) and may be generic: l_sizes */
  ROW_COUNT = 2048,   /* ROW_SIZED, and a second number is evidence that it varies (step/sizes.h) */
  ROW_INTERNAL = 256, /* no ATen schema; name starts with "tpu::" */
  /* Memory that a written tensor may not share, where torch's kernel refuses it (tpu_row_overlap): */
  ROW_OVERLAP_SELF = 4096, /* a part of argument 0's */
  ROW_OVERLAP_ALL = 8192,  /* any argument's, the written argument itself aside */
  ROW_SHARED = 16384,      /* none; in place, elements of self may share a place: the last change stays */
  ROW_FITS = 32768,        /* a Scalar that its dtype cannot hold is an error (call/fits.h) */
  ROW_EXTENTS = 65536, /* its first three ints repeat sizes of its operands: no structure where one of those
                          is generic */
  ROW_SAME_DTYPE = 1 << 17, /* out= must have the result's dtype: nothing is cast into it */
  ROW_FAMILY = 1 << 18      /* bits from here on are the family's own */
};

typedef void (*tpu_lower_fn)(L *l);
typedef struct composition composition;
typedef struct tpu_error *(*tpu_compose_fn)(composition *c);
typedef struct tpu_row {
  const char *name; /* "add.Tensor": overload name of the functional form, or of the in-place one where there
                       is no other */
  tpu_lower_fn fn;
  int32_t datum; /* the family's own */
  uint32_t flags;
  tpu_compose_fn
      compose; /* a host-level composition of other rows (step/compose.h): instead of fn, or before it */
} tpu_row;

/* --- arguments; i = position in the schema --- */
B *l_b(L *l);
int32_t l_datum(const L *l);
uint32_t l_flags(const L *l);
const char *l_name(const L *l); /* "add.Tensor" */
bool l_has(const L *l, int i);  /* not None, not an undefined tensor */
Val l_tensor(L *l, int i);      /* error that sticks when absent */
int l_len(const L *l, int i);   /* number of items of a tensor/int/... list; 0 for None */
bool l_has_item(const L *l, int i, int k);
Val l_item(L *l, int i, int k); /* of a tensor list */
bool l_is_tensor(const L *l, int i);
bool l_is_wrapped(const L *l, int i); /* a Python number in tensor's clothes */
bool l_is_host(const L *l, int i);    /* came as a 0-dim CPU tensor */
bool l_is_contiguous(
    const L *l, int i); /* by its strides: for the few results that autograd formulas make depend on it */
int64_t l_int(L *l, int i);
int64_t l_int_or(L *l, int i, int64_t absent);
double l_double(L *l, int i); /* structural */
double l_double_or(L *l, int i, double absent);
bool l_bool(L *l, int i);
int l_ints(L *l, int i, const int64_t **out); /* count; a lone int counts as one; None: 0 */
shape l_sizes(L *l, int i); /* an int list that is a shape, ROW_SIZED: generic sizes among it */
int l_doubles(L *l, int i, const double **out);
bool l_bool_item(L *l, int i, int k); /* of a bool list (output_mask) */
tpu_dtype l_dtype(L *l, int i);       /* DT_NONE for None */
const char *l_string(L *l, int i);    /* "" for None; NUL-terminated, the op's own */
/* A Scalar (or float with ROW_FLOAT_PARAM, or number in tensor's clothes) as a rank-0 Val of dtype dt; exact
 * for 64-bit ints. */
Val l_scalar(L *l, int i, tpu_dtype dt);
Val l_scalar_item(L *l, int i, int k, tpu_dtype dt); /* of a Scalar[] */
tpu_dtype l_scalar_dtype(L *l, int i);   /* BOOL, I64, F64 or C128: the Python type of the number */
bool l_scalar_is(L *l, int i, double v); /* true only when the value is structure and equals v */

/* --- dtypes --- */
/* torch.result_type of the arguments idx[0..n): tensors (by dimensioned / 0-dim / number rules), Scalars,
 * tensor lists. */
tpu_dtype l_result_type(L *l, int n, const int *idx);
tpu_dtype l_result_type2(L *l, int i, int j);
tpu_dtype l_float_type(tpu_dtype dt); /* integers and bool -> the default float dtype, others themselves */
Val l_tensor_as(L *l, int i, tpu_dtype dt); /* l_tensor or l_scalar, cast */
Val l_to_float(L *l, int i);                /* l_tensor cast to l_float_type of its dtype */

/* --- results --- */
void ret(L *l, Val v);         /* the next result, in the schema's order (and list order for Tensor[]) */
void ret_columns(L *l, Val v); /* a matrix column by column in memory, as PyTorch gives those of LAPACK */
void ret_none(L *l);           /* an undefined tensor (output_mask says no) */
void l_write(L *l, int i, int k,
             Val v); /* argument i (item k of a list, else 0) gets a new value: ops that write besides
                        returning, e.g. running_mean of native_batch_norm, _fused_adam_ */
/* --- the rest --- */
void l_fail(L *l, tpu_code code, const char *fmt, ...)
    TPU_PRINTF(3, 4);                  /* sticks; torch's own words where it has them */
void l_decline(L *l, const char *why); /* this case goes to the counted CPU fallback (rank, dtype, option that
                                          we do not have) */
Val l_random_words(L *l,
                   int64_t n); /* u32[n] of the generator's stream; ROW_RANDOM; may be called several times */
Val l_random_words_like(L *l, const shape *s,
                        int per_element); /* u32[per_element, shape...]: counters by logical linear index */
/* The same of a key (seed) and a counter. */
Val l_words_like(B *b, Val key, Val counter, const shape *s, int per_element);
int64_t l_rung(const L *l); /* ROW_GROWS: physical size of the growing axis of the result */
bool l_on_cpu(const L *l);  /* the plugin is XLA's CPU one (lowering per plugin, where measured) */
bool l_in_place(const L *l);
/* Of the tensor that an in-place or out= form writes first, where the op computes in it; else DT_NONE. */
tpu_dtype l_written_dtype(const L *l);
int l_axis(L *l, int i, int rank); /* l_int normalised; IndexError in torch's words */
uint32_t l_axes(L *l, int i,
                int rank); /* int[]? dim argument: None or empty = all; duplicates are an error */

/* Families; each file names its own in rows.c. */
extern const tpu_row *const tpu_row_tables[];

#endif
