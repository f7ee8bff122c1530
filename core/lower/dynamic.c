/* Results whose size depends on the data: the parts that run on the device.
 *
 * A row here computes its result at full capacity, packed to the front, together with how much of it counts.
 * The compositions in hosted.c read that number and return a prefix of the storage, so that no program is
 * made per count. Beyond the count stand zeros. */
#include "lower/indexing.h"

static Val count_of(B *b, Val flat) { return b_sum(b, b_cast(b, flat, DT_I64), 1, false); }

/* tpu::nonzero(x): i64[numel, rank] and their number */
static void nonzero(L *l) {
  B *b = l_b(l);
  Val x = ix_room(b, b_cast(b, l_tensor(l, 0), DT_BOOL), b_const_i(b, DT_BOOL, 0)), flat = ix_flat(b, x),
      col[IR_MAX_RANK];
  int rank = b_rank(b, x);
  int64_t n = b_numel_static(b, flat), stride = n;
  if (!b_ok(b)) return;
  if (rank == 0 || n == 0) {
    ret(l, b_zeros(b, DT_I64, &(shape){.rank = 2, .d = {{n, 0}, {rank, 0}}}));
  } else {
    Val lin = ix_trues(b, flat, n);
    for (int i = 0; i < rank; i++) {
      int64_t d = b_dim_static(b, x, i);
      stride /= d;
      Val c = b_rem(b, b_div(b, lin, b_const_i(b, DT_I32, stride)), b_const_i(b, DT_I32, d));
      col[i] = b_unsqueeze(b, b_cast(b, c, DT_I64), 1);
    }
    ret(l, b_concat(b, col, rank, 1));
  }
  ret(l, count_of(b, flat));
}

/* tpu::masked_select(x, mask): the elements where mask is true, packed, and their number */
static void masked_select(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), mask = l_tensor(l, 1);
  tpu_dtype dt = b_dtype(b, mask);
  if (dt != DT_BOOL) l_fail(l, TPU_RUNTIME, "masked_select: expected BoolTensor for mask");
  shape s = b_broadcast_shape(b, x, mask);
  if (!b_ok(b)) return;
  mask = ix_room(b, b_broadcast_to(b, b_cast(b, mask, DT_BOOL), &s), b_const_i(b, DT_BOOL, 0));
  Val flat = ix_flat(b, mask);
  x = ix_flat(b, ix_room(b, b_broadcast_to(b, x, &s), BAD));
  ret(l, ix_pack(b, ix_rank(b, flat), x, b_numel_static(b, flat)));
  ret(l, count_of(b, flat));
}

/* --- unique --- */

/* Generic dims: everything up to the results runs on static dims with the padding behind the data, since the
 * counted results are static in any case. */
typedef struct groups {
  Val values; /* where `starts` says, a new value begins; their axis is static */
  Val starts; /* i1[n] */
  Val valid;  /* i1[n]: not padding */
  Val order;  /* I64[n]: where the values came from; BAD: as they stand */
  int axis;
} groups;

/* Values, inverse (in the dims of `inverse`), counts, number. */
static void ret_groups(L *l, const groups *g, const shape *inverse) {
  B *b = l_b(l);
  int64_t n = b_dim_static(b, g->starts, 0);
  Val one = b_const_i(b, DT_I32, 1), starts = b_and(b, g->starts, g->valid),
      group = b_sub(b, b_cumulative(b, RED_SUM, b_cast(b, starts, DT_I32), 0, false), one);
  Val place = b_select(b, starts, group, b_neg(b, one)), group64 = b_cast(b, group, DT_I64);
  ret(l, ix_move(b, ix_pack(b, place, ix_move(b, g->values, g->axis, 0), n), 0, g->axis));
  ret(l, ix_unflat(b, g->order < 0 ? group64 : ix_pack(b, g->order, group64, n), inverse));
  group = b_select(b, g->valid, group, b_neg(b, one));
  ret(l,
      b_scatter_nd(b, SCAT_ADD, b_zeros(b, DT_I64, b_shape(b, group)), &group, 1, b_const_i(b, DT_I64, 1)));
  ret(l, count_of(b, starts));
}

/* Element i of the axis differs from the one before it, in any of its other places; i1[n], true at 0. */
static Val differs_from_last(B *b, Val v, int axis) {
  int64_t n = b_dim_static(b, v, axis);
  Val ne = b_ne(b, b_slice(b, v, axis, 1, n, 1), b_slice(b, v, axis, 0, n - 1, 1));
  Val d = b_reduce(b, RED_OR, ne, axes_all(b_rank(b, v)) & ~(1u << axis), false);
  return b_pad_axis(b, d, 0, 1, 0, b_const_i(b, DT_BOOL, 1));
}

static void ret_no_groups(L *l, Val values, const shape *inverse) {
  B *b = l_b(l);
  ret(l, values);
  ret(l, b_zeros(b, DT_I64, inverse));
  ret(l, b_zeros(b, DT_I64, &(shape){.rank = 1}));
  ret(l, b_const_i(b, DT_I64, 0));
}

static bool has_order(L *l, Val x) {
  bool has = !dt_is_complex(b_dtype(l_b(l), x));
  if (!has) l_decline(l, "unique of complex numbers");
  return has && b_ok(l_b(l));
}

/* tpu::unique(x, bool sort, bool inverse): x flat; with sort false only neighbours are compared */
static void unique(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), v = ix_flat(b, x);
  groups g = {.order = BAD};
  if (!has_order(l, x)) return;
  if (ix_is_empty(b_shape(b, v))) {
    ret_no_groups(l, v, b_shape(b, x));
    return;
  }
  g.valid = ix_room(b, b_valid(b, b_shape(b, v), 1), BAD);
  if (l_bool(l, 1)) v = b_sort(b, v, 0, false, l_bool(l, 2) ? &g.order : NULL);
  if (g.order != BAD) g.order = ix_room(b, b_mask_pad(b, g.order, 1, b_const_i(b, DT_I64, -1)), BAD);
  g.values = ix_room(b, v, BAD);
  g.starts = differs_from_last(b, g.values, 0);
  ret_groups(l, &g, b_shape(b, x));
}

enum { UNIQUE_KEYS = 16 };

typedef struct columns {
  Val rows; /* [n, m], sortable */
} columns;

/* One step of a radix sort by columns, the last first: args are the column number and the order so far. */
static void sort_column(B *b, void *ctx, const Val *args, Val *results) {
  Val rows = ((columns *)ctx)->rows, out[2], zero = b_const_i(b, DT_I32, 0);
  int64_t n = b_dim_static(b, rows, 0);
  Val column = b_reshape_to(b, b_dynamic_slice(b, rows, (Val[]){zero, args[0]}, (int64_t[]){n, 1}), 1, &n);
  b_sort_multi(b, (Val[]){b_take(b, column, args[1], 0), args[1]}, 2, 1, 0, false, out);
  results[0] = b_sub(b, args[0], b_const_i(b, DT_I32, 1));
  results[1] = out[1];
}

static Val columns_left(B *b, void *ctx, const Val *args) {
  (void)ctx;
  return b_ge(b, args[0], b_const_i(b, DT_I32, 0));
}

/* The order that sorts the rows of v[n, m], I32[n]. Columns that are last decide last. */
static Val row_order(B *b, Val v) {
  int64_t n = b_dim_static(b, v, 0), m = b_dim_static(b, v, 1);
  shape line = shape_of(1, &n);
  Val at = b_iota(b, DT_I32, &line, 0), in[UNIQUE_KEYS + 1], out[UNIQUE_KEYS + 1];
  if (!b_ok(b) || m == 0) return at;
  if (m <= UNIQUE_KEYS) {
    for (int i = 0; i < m; i++) in[i] = b_reshape(b, b_slice(b, v, 1, i, i + 1, 1), &line);
    in[m] = at;
    b_sort_multi(b, in, (int)m + 1, (int)m, 0, false, out);
    return out[m];
  }
  columns c = {v};
  b_while(b, 2, (Val[]){b_const_i(b, DT_I32, m - 1), at}, columns_left, sort_column, &c, out);
  return out[1];
}

/* The order of the slices of v along the axis, what is not valid behind; I32[n]. */
static Val slice_order(B *b, Val v, int axis, Val valid, bool padded) {
  tpu_dtype dt = b_dtype(b, v);
  int64_t n = b_dim_static(b, v, axis), total = b_numel_static(b, v);
  Val rows = b_reshape_to(b, ix_move(b, v, axis, 0), 2, (int64_t[]){n, n ? total / n : 0});
  rows = b_cast(b, rows, dt == DT_BOOL ? DT_U8 : dt_acc(dt));
  if (padded) {
    Val first = b_cast(b, b_unsqueeze(b, b_not(b, valid), 1), b_dtype(b, rows));
    rows = b_concat(b, (Val[]){first, rows}, 2, 1);
  }
  return row_order(b, rows);
}

/* tpu::unique_dim(x, int dim, bool sort): the slices along dim as wholes */
static void unique_dim(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0), v = x;
  groups g = {.order = BAD, .axis = l_axis(l, 1, b_rank(b, x))};
  if (!has_order(l, x)) return;
  if (b_rank(b, x) == 0) v = b_unsqueeze(b, x, 0);
  shape s = *b_shape(b, v), line = {.rank = 1, .d = {s.d[g.axis]}};
  if (ix_is_empty(&s)) {
    if (line.d[0].n)
      l_fail(l, TPU_RUNTIME,
             "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    ret_no_groups(l, x, &line);
    return;
  }
  g.valid = ix_room(b, b_valid(b, &line, 1), BAD);
  v = ix_room(b, v, b_like(b, v, 0)); /* so that slices do not differ in their padding */
  if (l_bool(l, 2)) {
    g.order = slice_order(b, v, g.axis, g.valid, line.d[0].sym);
    v = b_take(b, v, g.order, g.axis);
  }
  g.starts = differs_from_last(b, v, g.axis);
  s.d[g.axis].sym = 0;
  g.values = b_relabel(b, v, &s);
  ret_groups(l, &g, &line);
}

/* --- sizes, bincount --- */

/* tpu::total(x): the sum as an i64 scalar */
static void total(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  if (b_rank(b, x) != 1) l_fail(l, TPU_RUNTIME, "repeat_interleave only accept 1D vector as repeat");
  if (b_dtype(b, x) != DT_I32 && b_dtype(b, x) != DT_I64)
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"repeat_interleave_cpu\" not implemented for '%s'",
           tpu_dtype_torch_name(b_dtype(b, x)));
  if (!b_ok(b)) return;
  b_check(b, b_ge(b, x, b_like(b, x, 0)), TPU_RUNTIME, "repeat_interleave: repeats can not be negative");
  ret(l, b_sum(b, b_cast(b, x, DT_I64), 1, false));
}

static bool bincount_takes(L *l, Val x) {
  B *b = l_b(l);
  if (!dt_is_int(b_dtype(b, x)))
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"bincount_cpu\" not implemented for '%s'",
           tpu_dtype_torch_name(b_dtype(b, x)));
  if (b_rank(b, x) != 1 && !(b_rank(b, x) == 0))
    l_fail(l, TPU_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  return b_ok(b);
}

/* tpu::extent(x): 1 + the largest element as an i64 scalar, 0 of nothing; elements must not be negative.
 * datum: 1 for one_hot, else for bincount */
static void extent(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  if (!l_datum(l) && !bincount_takes(l, x)) return;
  x = b_cast(b, ix_flat(b, x), DT_I64);
  b_check(b, b_ge(b, x, b_const_i(b, DT_I64, 0)), TPU_RUNTIME,
          l_datum(l) ? "one_hot: Class values must be non-negative."
                     : "bincount only supports 1-d non-negative integral inputs.");
  x = ix_room(b, x, b_const_i(b, DT_I64, -1));
  ret(l, b_add(b, b_reduce(b, RED_MAX, b_pad_axis(b, x, 0, 1, 0, b_const_i(b, DT_I64, -1)), 1, false),
               b_const_i(b, DT_I64, 1)));
}

/* tpu::bincount(x, Tensor? weights, int size): counts (or sums of weights) by value; weights of f32 stay f32,
 * others become f64 */
static void bincount(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  if (!bincount_takes(l, x)) return;
  x = b_cast(b, ix_flat(b, x), DT_I64);
  shape s = shape_of(1, (int64_t[]){l_int(l, 2)});
  Val w = b_const_i(b, DT_I64, 1);
  if (l_has(l, 1)) {
    w = ix_flat(b, l_tensor(l, 1));
    if (b_rank(b, l_tensor(l, 1)) != 1)
      l_fail(l, TPU_RUNTIME, "bincount: weights should be 1-d and have the same length as input");
    if (!b_ok(b)) return;
    const shape *ws = b_shape(b, w), *xs = b_shape(b, x);
    if (ws->d[0].sym != xs->d[0].sym)
      l_fail(l, TPU_NOT_IMPLEMENTED, "bincount: weights of another generic size");
    else if (!ws->d[0].sym && ws->d[0].n != xs->d[0].n)
      l_fail(l, TPU_RUNTIME, "bincount: weights should be 1-d and have the same length as input");
    if (b_dtype(b, w) != DT_F32) w = b_cast(b, w, DT_F64);
  }
  ret(l, b_scatter_nd(b, SCAT_ADD, b_zeros(b, b_dtype(b, w), &s), &x, 1, w));
}

/* (self, num_classes): a row, not torch's composition, whose error would be one of scatter */
static void one_hot(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int64_t n = l_int(l, 1);
  if (b_dtype(b, x) != DT_I64)
    l_fail(l, TPU_RUNTIME, "one_hot is only applicable to index tensor of type LongTensor.");
  if (!b_ok(b)) return;
  shape s = *b_shape(b, x);
  bool empty = ix_is_empty(&s);
  if (n <= 0)
    l_fail(l, TPU_RUNTIME,
           empty ? "Can not infer total number of classes from empty tensor."
                 : "Class values must be smaller than num_classes.");
  if (s.rank == IR_MAX_RANK) l_fail(l, TPU_NOT_IMPLEMENTED, "one_hot of %d dims", s.rank);
  if (!b_ok(b)) return;
  s.d[s.rank++] = (ir_dim){n, 0};
  b_check(b, b_ge(b, x, b_const_i(b, DT_I64, 0)), TPU_RUNTIME, "Class values must be non-negative.");
  b_check(b, b_lt(b, x, b_const_i(b, DT_I64, n)), TPU_RUNTIME,
          "Class values must be smaller than num_classes.");
  ret(l, b_cast(b, b_eq(b, b_unsqueeze(b, x, s.rank - 1), b_iota(b, DT_I64, &s, s.rank - 1)), DT_I64));
}

/* --- assertions --- */

/* (self, message) */
static void assert_async(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  const char *message = l_string(l, 1);
  if (b_ok(b) && b_numel_static(b, x) != 1)
    l_fail(l, TPU_RUNTIME, "Boolean value of Tensor with more than one value is ambiguous");
  b_check(b, b_cast(b, x, DT_BOOL), TPU_RUNTIME,
          *message ? message : "Expected Tensor with single nonzero value, but got zero");
}

const tpu_row rows_dynamic[] = {
    {"_assert_async", assert_async, 0, 0},        {"_assert_async.msg", assert_async, 0, 0},
    {"tpu::nonzero", nonzero, 0, ROW_INTERNAL},   {"tpu::masked_select", masked_select, 0, ROW_INTERNAL},
    {"tpu::unique", unique, 0, ROW_INTERNAL},     {"tpu::unique_dim", unique_dim, 0, ROW_INTERNAL},
    {"tpu::total", total, 0, ROW_INTERNAL},       {"tpu::extent", extent, 0, ROW_INTERNAL},
    {"tpu::classes", extent, 1, ROW_INTERNAL},    {"one_hot", one_hot, 0, 0, hosted_one_hot},
    {"tpu::bincount", bincount, 0, ROW_INTERNAL}, {0}};
