/* Inside of the builder: nodes, regions, hash-consing. Included only by core/ir/ (*.c).
 *
 * A node is an op, a type, operands, an attribute text and regions. The attribute text is what stands between
 * `<{` and `}>` in the printed module; two nodes are one when op, type, operands, attributes and `tag` (which
 * says what the regions do) are equal and the older one is visible: it is in the same region, or in an
 * enclosing one that no closed region (the body of a reduce, a sort, a scatter) separates from here. A node
 * with several results has no type of its own; its results are the RESULT nodes right behind it. Operands
 * always have smaller indices, and the nodes of a region smaller ones than the node that owns the region. */
#ifndef TPU_IR_GRAPH_H
#define TPU_IR_GRAPH_H

#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "ir/builder.h"

typedef enum ir_op {
  IR_FIRST = OP_COUNT - 1, /* elementwise ops come first */
#define NODE(NAME, mlir) IR_##NAME,
#include "ir/nodes.def"
#undef NODE
  IR_COUNT
} ir_op;

enum { IR_RELABEL = 7 }; /* tag of a RESHAPE that renames sizes: never folded */
enum { NF_NUMBER = 1 /* a splat constant; `num` holds it */, NF_ZEROPAD = 2 /* see ir_node.zero */ };

typedef struct ir_node {
  uint16_t op;
  int16_t dt; /* tpu_dtype; DT_NONE for a node with several results */
  uint8_t flags, nregions;
  uint16_t nres;
  int32_t nops, nattr;
  int32_t region;      /* where it is; 0 = @main */
  int32_t own[2];      /* its own regions, the first nregions of them */
  int32_t tag, next;   /* next = hash chain */
  uint32_t hash, zero; /* zero: bit i = the padding of generic dim i is known to be 0 */
  const Val *ops;
  const char *attr;
  const shape *s; /* interned */
  union {
    double f;
    int64_t i;
  } num; /* of a CONST: f where the dtype is a float, i for integers and bool */
} ir_node;

typedef struct ir_region {
  int32_t parent, begin, end; /* its nodes have indices begin .. end - 1 (with those of inner regions) */
  bool closed;
  int nargs, nres;
  Val *args, *res; /* arena */
} ir_region;

typedef struct ir_check {
  Val ok; /* i1 scalar */
  tpu_code code;
  const char *message;
} ir_check;

#define IR_VEC(T) \
  struct {        \
    T *p;         \
    int n, cap;   \
  }
#define IR_PUSH(v, x)                                               \
  do {                                                              \
    if ((v).n == (v).cap) {                                         \
      (v).cap = (v).cap ? 2 * (v).cap : 64;                         \
      (v).p = tpu_xrealloc((v).p, (size_t)(v).cap * sizeof *(v).p); \
    }                                                               \
    (v).p[(v).n++] = (x);                                           \
  } while (0)

struct B {
  arena mem;
  tpu_error *err;
  IR_VEC(ir_node) nodes;
  int32_t *table; /* hash -> node chains */
  int table_cap;  /* power of two */
  IR_VEC(const shape *) shapes;
  IR_VEC(ir_region) regions; /* [0] = @main */
  int cur;                   /* region being built */
  IR_VEC(Val) params;
  IR_VEC(int) alias; /* beside params */
  IR_VEC(Val) results;
  IR_VEC(Val) syms; /* [sym - 1] = i32 scalar */
  IR_VEC(ir_check) checks;
  IR_VEC(Val) needs; /* b_require: integer scalars */
  text attr;         /* scratch, see ir_attr */
  bool masks_off, plain;
  int masks_left_out;
  int precision;
};

/* What ir_make and ir_add need. `attr` is copied when the node is new. */
typedef struct ir_spec {
  int op;
  tpu_dtype dt;
  const shape *s;
  const Val *ops;
  int nops;
  const char *attr;
  int nattr;
  int tag;
  int nres; /* > 1: dts and shapes count, dt and s do not */
  const tpu_dtype *dts;
  const shape *const *shapes;
} ir_spec;

/* --- graph.c */
bool ir_bad(const B *b, Val v);          /* error before, or v is BAD */
const ir_node *ir_nd(const B *b, Val v); /* of BAD: an f32 scalar */
const shape *ir_intern(B *b, const shape *s);
Val ir_lookup(B *b, const ir_spec *sp); /* an equal visible node, or BAD */
Val ir_add(B *b, const ir_spec *sp, int region,
           int region2);              /* a new node, consed from now on; 0: no region */
Val ir_make(B *b, const ir_spec *sp); /* lookup, else add; no regions */
Val ir_op1(B *b, int op, tpu_dtype dt, const shape *s, Val x);
Val ir_op2(B *b, int op, tpu_dtype dt, const shape *s, Val x, Val y);
Val ir_opn(B *b, int op, tpu_dtype dt, const shape *s, const Val *ops, int n, const text *attr);
Val ir_result(Val owner, int nres, int k);
text *ir_attr(B *b); /* the scratch, cleared; valid until the next verb */
void ir_attr_i64s(text *t, const char *name, const int64_t *v, int n); /* name = array<i64: ...> */
void ir_attr_list(text *t, const char *name, const int64_t *v, int n); /* name = [...] */
int ir_region_open(B *b, bool closed);
Val ir_arg(B *b, tpu_dtype dt, const shape *s);
void ir_region_close(B *b, const Val *res, int n);
const char *ir_mnemonic(int op);
extern const shape ir_scalar;

/* --- type.c */
uint32_t ir_zero_axes(const B *b, Val x);                /* axes whose padding is known to be 0 */
bool ir_promote(B *b, Val *x, Val *y);                   /* to one dtype */
bool ir_match(B *b, Val *vs, int n, shape *out);         /* broadcast all together */
void ir_shape_text(const shape *s, char *buf, size_t n); /* "[2, 3]" */
bool ir_dim_same(ir_dim a, ir_dim b);
int64_t ir_numel_phys(const shape *s);
Val ir_resize_axis(B *b, Val x, int axis, int64_t n); /* physical size of a generic axis: slice or zero-pad */

/* --- generic.c */
/* The program requires that padding does not more than double a work of the product of these dims, where
 * several of them are generic and it is much. */
void ir_bound_waste(B *b, const ir_dim *d, int n);

/* --- shape.c: no generic dim is looked at, the result has shape s */
Val ir_slice_raw(B *b, Val x, const int64_t *lo, const int64_t *hi, const int64_t *step, const shape *s);
Val ir_pad_raw(B *b, Val x, const int64_t *lo, const int64_t *hi, const int64_t *in, Val value,
               const shape *s);

/* --- const.c */
Val ir_splat(B *b, Val x, const shape *s);    /* the constant x, spread over s */
Val ir_cast_const(B *b, Val x, tpu_dtype dt); /* the constant x as dt, or BAD */

/* --- reduce.c */
/* A closed region of two scalars of dt: the combiner of `kind`. */
int ir_red_region(B *b, b_red kind, tpu_dtype dt);
Val ir_red_identity(B *b, b_red kind, tpu_dtype dt);
bool ir_red_ok(B *b, b_red kind, tpu_dtype dt);

/* --- window.c */
Val ir_window(B *b, b_red kind, Val x, const b_window *full, const shape *s);

#endif
