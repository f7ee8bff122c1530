/* Copies, casts and fills. */
#include "lower/math.h"

/* tpu::copy(self, src): what self becomes: src in self's dtype and shape. The core calls it for every copy on
 * the device. */
static void copy(L *l) {
  B *b = l_b(l);
  Val self = l_tensor(l, 0);
  ret(l, b_broadcast_to(b, b_cast(b, l_tensor(l, 1), b_dtype(b, self)), b_shape(b, self)));
}

/* tpu::cast(self, dtype) */
static void cast(L *l) { ret(l, b_cast(l_b(l), l_tensor(l, 0), l_dtype(l, 1))); }

/* tpu::dense(self, dtype, order): self cast, its dims in the order in which they shall lie in memory. */
static void dense(L *l) {
  B *b = l_b(l);
  Val x = b_cast(b, l_tensor(l, 0), l_dtype(l, 1));
  const int64_t *order;
  int perm[IR_MAX_RANK], n = l_ints(l, 2, &order);
  for (int i = 0; i < n; i++) perm[i] = (int)order[i];
  ret(l, n == b_rank(b, x) ? b_transpose(b, x, perm) : x);
}

/* tpu::padded(self, sizes): self in the room of sizes that are generic there. What is generic in self already
 * has the same size. */
static void padded(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  shape s = l_sizes(l, 1), was = x == BAD ? s : *b_shape(b, x);
  int64_t lo[IR_MAX_RANK] = {0}, hi[IR_MAX_RANK] = {0};
  bool grows = false;
  for (int i = 0; b_ok(b) && i < s.rank; i++) {
    if (was.d[i].sym) s.d[i] = was.d[i];
    hi[i] = s.d[i].n - was.d[i].n;
    grows = grows || hi[i];
  }
  if (grows) x = b_pad(b, x, lo, hi, NULL, b_const(b, b_dtype(b, x), 0));
  ret(l, b_relabel(b, x, &s));
}

/* tpu::exact(self, sizes): self, of these sizes, without its padding. */
static void exact(L *l) {
  B *b = l_b(l);
  const int64_t *sizes;
  int n = l_ints(l, 1, &sizes);
  int64_t zero[IR_MAX_RANK] = {0}, by[IR_MAX_RANK];
  for (int i = 0; i < n; i++) by[i] = 1;
  ret(l, b_slice_nd(b, b_physical(b, l_tensor(l, 0), NULL, 0, BAD), zero, sizes, by));
}

static void clone(L *l) { ret(l, l_tensor(l, 0)); }

static void fill(L *l) { /* self, value: a Scalar or a 0-dim tensor */
  B *b = l_b(l);
  Val self = l_tensor(l, 0);
  if (l_is_tensor(l, 1) && b_rank(b, l_tensor(l, 1)))
    l_fail(l, TPU_RUNTIME, "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.",
           b_rank(b, l_tensor(l, 1)));
  ret(l, b_full(b, b_shape(b, self), l_tensor_as(l, 1, b_dtype(b, self))));
}

static void zero(L *l) {
  B *b = l_b(l);
  Val self = l_tensor(l, 0);
  ret(l, b_zeros(b, b_dtype(b, self), b_shape(b, self)));
}

#define P ROW_ELEMENTWISE
const tpu_row rows_copy[] = {
    {"tpu::copy", copy, 0,
     ROW_ELEMENTWISE | ROW_INTERNAL}, /* self and src may differ in which dims are generic */
    {"tpu::dense", dense, 0, ROW_INTERNAL},
    {"tpu::padded", padded, 0, ROW_SIZED | ROW_INTERNAL},
    {"tpu::exact", exact, 0, ROW_INTERNAL},
    {"tpu::cast", cast, 0, P | ROW_INTERNAL},
    {"clone", clone, 0, P}, /* the core looks at memory_format */
    {"fill_.Scalar", fill, 0, P | ROW_SHARED | ROW_FITS},
    {"fill_.Tensor", fill, 0, P | ROW_SHARED},
    {"zero_", zero, 0, P | ROW_SHARED},
    {0},
};
