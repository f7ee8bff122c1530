/* Geometry: a tensor = storage value + sizes + strides + offset. A plan says how the tensor's elements lie in
 * the value, and turns a read into builder verbs and a write into their inverse.
 *
 * CHAIN: the flat value is reshaped to extents whose strides form a divisor chain c0, c1, ... fitted to the
 * tensor's strides; each tensor dim is then a (strided) slice of one chain dim. Covers transposes, slices
 * with steps, selects, splits and merges of dims, diagonals. GATHER: anything else (overlapping windows):
 * element indices are computed and gathered or scattered. A nonzero offset is an operand of the program (an
 * i64 scalar), so x[i] for any i is one program; the plan holds no start. Pure functions; any thread. */
#ifndef TPU_VALUE_GEOMETRY_H
#define TPU_VALUE_GEOMETRY_H

#include "ir/builder.h"
#include "value/value.h"

typedef enum geom_kind {
  GEOM_WHOLE,   /* sizes are the value's own dims, dense */
  GEOM_RESHAPE, /* the whole value, dense, other dims */
  GEOM_PERMUTE, /* a generic value's dims in another order */
  GEOM_GROUPS,  /* any other view of a generic value: groups.c */
  GEOM_CHAIN,
  GEOM_GATHER,
  GEOM_EMPTY /* no elements */
} geom_kind;

/* GEOM_GROUPS: how a tensor sees one dim of the value after its static runs were split. */
typedef enum geom_link {
  LINK_STATIC, /* static dim: `size` elements from `start` */
  LINK_PART,   /* static dim: a part of varying length, physical size `size`, from `start` */
  LINK_WHOLE,  /* generic dim, all of it */
  LINK_NARROW, /* generic dim, a part of it: physical size `size`, every `step`-th */
  LINK_SELECT, /* generic dim, one index of it */
  LINK_SPLIT,  /* generic dim, all of it, as several dims of the tensor */
  LINK_SPREAD  /* generic dim, a part of it: tensor dims of any strides, which are operands */
} geom_link;
enum { GEOM_LINKS = 2 * TPU_MAX_RANK };

typedef struct geom {
  uint8_t kind;
  bool offset;  /* the program takes the offset as an operand */
  bool retype;  /* value dtype differs from the tensor's: bit cast */
  bool generic; /* some tensor dim is generic: sym and phys say which */
  bool covers;  /* every element of the value is one element of the tensor: a write needs no old value */
  uint8_t n;    /* CHAIN: chain dims; GROUPS: links */
  uint8_t sym[TPU_MAX_RANK]; /* of a generic tensor dim: number of its size in the signature; 0: static */
  int64_t flat;              /* elements of the value in the tensor's dtype (rounded up to fill the chain) */
  int64_t extent[GEOM_LINKS], step[GEOM_LINKS], size[GEOM_LINKS];
  int8_t dim[GEOM_LINKS]; /* tensor dim of a chain dim or link; -1: none, it goes; -2: merged into the next */
  int8_t perm[TPU_MAX_RANK]; /* PERMUTE: tensor dim i is the value's dim perm[i] */
  /* GROUPS only: */
  uint8_t link[GEOM_LINKS];             /* geom_link */
  int8_t start[GEOM_LINKS];             /* index into the start operands (i64 scalars), -1: 0 */
  uint8_t nstart, merge_from, merge_to; /* links merged into one dim; merge_to 0: none */
  int64_t starts[GEOM_LINKS];           /* of this call: starts, then strides */
  uint8_t nspread;                      /* tensor dims of the one SPLIT or SPREAD link, by stride down ... */
  int8_t spread[TPU_MAX_RANK], by[TPU_MAX_RANK]; /* ... and their strides among the operands; -1: 1 */
  int64_t phys[TPU_MAX_RANK];                    /* physical size of a generic tensor dim, 0: static */
} geom;

typedef struct view { /* borrowed */
  tpu_dtype dtype;
  int rank;
  const int64_t *sizes, *strides;
  int64_t offset;
} view;

/* An error where the storage, which may have been made smaller after the view, does not hold all elements. */
tpu_error *view_in_bounds(const view *t, size_t storage_bytes);
/* False: a generic value seen by a view that is no permutation; the value must be cut to exact first. */
bool geom_plan(const view *t, tpu_dtype vdt, int vrank, const vdim *vd, size_t storage_bytes, geom *g);
bool groups_plan(const view *t, int vrank, const vdim *vd, geom *g);
/* Tensor dims of the plan that may be static or generic, as one likes: those of a SPLIT or SPREAD link and,
 * where `expanded`, those without a stride. They are static until groups_vary says which sizes vary. */
uint32_t groups_open(const geom *g, const view *t, bool expanded);
uint32_t groups_parts(const geom *g); /* likewise, of a CHAIN too: parts of static dims */
void groups_vary(geom *g, const view *t, uint32_t dims);
/* Start operands of a plan: the offset, or one a link that begins somewhere, and strides. */
static inline uint32_t geom_operands(const geom *g) { return g->kind == GEOM_GROUPS ? g->nstart : g->offset; }
/* The tensor's elements, logical shape. `starts`: its geom_operands; `syms`: builder symbol of each generic
 * tensor dim (GROUPS). */
Val geom_read(B *b, const geom *g, const view *t, Val full, const Val *starts, const int32_t *syms);
Val groups_read(B *b, const geom *g, const view *t, Val full, const Val *starts, const int32_t *syms);
/* The value after the tensor's elements became `update` (logical shape and dtype of the view). When
 * g->covers, `full` may be BAD and the result lies in the tensor's own memory order and dtype (a new typing
 * of the storage); else the result has full's type. */
Val geom_write(B *b, const geom *g, const view *t, Val full, Val update, const Val *starts,
               const int32_t *syms);
Val groups_write(B *b, const geom *g, const view *t, Val full, Val update, const Val *starts,
                 const int32_t *syms);

bool view_is_contiguous(int rank, const int64_t *sizes, const int64_t *strides);
int64_t view_numel(int rank, const int64_t *sizes);
/* Order of the dims in memory, outermost first; true when the tensor is dense and does not overlap. */
bool view_memory_order(int rank, const int64_t *sizes, const int64_t *strides, int *perm);
/* May two indices of the view be one element (expanded tensors)? torch's rule for written tensors. */
bool view_overlaps(int rank, const int64_t *sizes, const int64_t *strides);

#endif
