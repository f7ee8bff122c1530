/* struct L: one op being lowered. For lower/args.c and step/op.c only. */
#ifndef TPU_LOWER_LOWER_INT_H
#define TPU_LOWER_LOWER_INT_H

#include "lower/lower.h"
#include "step/op.h"

typedef struct l_result {
  Val v;        /* BAD: an undefined tensor */
  bool columns; /* the last two dims lie column by column */
  bool write;   /* l_write: goes to argument tensor `target` */
  uint32_t target;
} l_result;

struct L {
  B *b;
  tpu_op *op;
  bool recording; /* first time: operands become parameters as they are read, and are noted in op->uses */
  Val *stores, *scalars; /* BAD until read */
  int32_t *syms;         /* builder symbols, 0 until made */
  Val seed, offset;
  uint64_t blocks;  /* counters drawn so far ... */
  Val sized_blocks; /* ... and those that depend on generic sizes: an i32 scalar, or BAD */
  l_result *results;
  uint32_t nresults, cap_results;
  const char *declined;
};

void lower_begin(L *l, tpu_op *op, B *b, bool recording);
void lower_end(L *l);
/* The whole value of storage k of the call (zeros where it was never written). */
Val l_store(L *l, uint32_t k);
Val l_view(L *l, uint32_t tensor); /* tensor by flat index: read, conj and neg resolved */
Val l_operand(L *l, uint32_t scalar);
/* Start operands and symbols of a tensor's geometry, as geom_read and geom_write take them. */
void l_geom_operands(L *l, const op_tensor *t, Val *starts, int32_t *syms);

#endif
