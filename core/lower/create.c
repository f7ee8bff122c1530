/* Tensors from nothing: constants, ranges, triangles. */
#include <math.h>

#include "lower/math.h"
#include "step/compose.h"

/* The shape of an int[] argument; negative sizes are an error in PyTorch's words. */
static shape size_arg(L *l, int i) {
  shape s = l_sizes(l, i);
  for (int k = 0; k < s.rank; k++)
    if (s.d[k].n < 0)
      l_fail(l, TPU_RUNTIME, "Trying to create tensor with negative dimension %lld", (long long)s.d[k].n);
  return b_ok(l_b(l)) ? s : (shape){0};
}

static tpu_dtype default_float(void) { return l_float_type(DT_I64); }

/* The dtype argument i, else that of a factory for a number of Python type t. With out= what counts is the
 * dtype of out: 0 and 1 (t BOOL) go into any. */
static tpu_dtype dtype_or(L *l, int i, tpu_dtype t) {
  tpu_dtype dt = l_dtype(l, i);
  if (dt != DT_NONE) return dt;
  return dt_is_complex(t) ? dt_complex(default_float()) : dt_is_float(t) ? default_float() : t;
}

/* --- constants --- */

/* datum of the fills: where shape, value and dtype come from. */
enum { IS_LIKE = 1, IS_NEW = 2, ZERO = 4, ONE = 8 };

static void full(L *l) { /* zeros, ones, full; *_like; new_* */
  B *b = l_b(l);
  int d = l_datum(l), size = d & IS_NEW ? 1 : 0, next = size + 1;
  bool constant = d & (ZERO | ONE), like = d & (IS_LIKE | IS_NEW);
  int dtype = constant ? next : next + 1;
  tpu_dtype dt = l_dtype(l, dtype);
  if (dt == DT_NONE)
    dt = like ? b_dtype(b, l_tensor(l, 0)) : dtype_or(l, dtype, constant ? DT_F64 : l_scalar_dtype(l, next));
  shape s = d & IS_LIKE ? *b_shape(b, l_tensor(l, 0)) : size_arg(l, size);
  ret(l, b_full(b, &s, constant ? b_const(b, dt, d & ONE ? 1 : 0) : l_scalar(l, next, dt)));
}

static void scalar_tensor(L *l) { ret(l, l_scalar(l, 0, dtype_or(l, 1, DT_F64))); }

/* --- ranges --- */

/* tpu::arange(Scalar start, Scalar step, int[1] n, ScalarType dtype): start + i * step. Whoever calls it has
 * found n and the dtype. Integers are exact; floats are computed in f64 as on the CPU, 16-bit ones rounded
 * once. */
static void arange(L *l) {
  B *b = l_b(l);
  tpu_dtype dt = l_dtype(l, 3), wide = dt_is_float(dt) ? DT_F64 : DT_I64;
  shape s = l_sizes(l, 2);
  if (dt == DT_F32 && !l_on_cpu(l)) wide = DT_F32;
  Val v = b_iota(b, wide, &s, 0);
  if (!l_scalar_is(l, 1, 1)) v = b_mul(b, v, l_scalar(l, 1, wide));
  if (!l_scalar_is(l, 0, 0)) v = b_add(b, v, l_scalar(l, 0, wide));
  ret(l, b_cast(b, v, dt));
}

static double number(const tpu_arg *a) { return a->tag == TPU_A_SCALAR_D ? a->u.d : (double)a->u.i; }
static int64_t whole(const tpu_arg *a) { return a->tag == TPU_A_SCALAR_D ? (int64_t)a->u.d : a->u.i; }

/* How many elements arange (range: `closed`) has; the error when there are none to speak of. */
static tpu_error *range_length(const tpu_arg *start, const tpu_arg *end, const tpu_arg *step, tpu_dtype dt,
                               bool closed, int64_t *n) {
  double from = number(start), to = number(end), by = number(step), count;
  if (!(by > 0 || by < 0)) return tpu_err(TPU_RUNTIME, "step must be nonzero");
  if (!isfinite(from) || !isfinite(to)) return tpu_err(TPU_RUNTIME, "unsupported range: %g -> %g", from, to);
  if (by > 0 ? to < from : to > from)
    return tpu_err(TPU_RUNTIME, "upper bound and lower bound inconsistent with step sign");
  if (closed)
    count = floor((to - from) / by) + 1;
  else if (dt == DT_I64 && whole(step)) /* exact beyond 2^53 */
    count = (double)((whole(end) - whole(start) + whole(step) - (whole(step) > 0 ? 1 : -1)) / whole(step));
  else
    count = ceil((to - from) / by);
  if (!(count >= 0 && count < 0x1p62)) return tpu_err(TPU_RUNTIME, "invalid size, possible overflow?");
  *n = (int64_t)count;
  return NULL;
}

/* arange(end), arange.start(start, end), .start_step(start, end, step) and range: the size depends on numbers
 * that are run-time parameters of the program (a decoding loop asks for another start each time), so it is
 * found here. */
static tpu_error *compose_range(composition *c) {
  static const tpu_arg zero = {.tag = TPU_A_SCALAR_I}, one = {.tag = TPU_A_SCALAR_I, .u.i = 1};
  const tpu_call *call = c->call;
  const tpu_arg *a = call->args;
  int n = 0;
  while (n < 3 && n < call->nargs && a[n].tag >= TPU_A_SCALAR_I && a[n].tag <= TPU_A_SCALAR_C) n++;
  const tpu_arg *start = n > 1 ? &a[0] : &zero, *end = n > 1 ? &a[1] : &a[0], *step = n > 2 ? &a[2] : &one;
  bool closed = call->row->name[0] == 'r', ints = true;
  for (int i = 0; i < n; i++) {
    if (a[i].tag == TPU_A_SCALAR_C) return c_decline(c, "complex bounds");
    if (a[i].tag == TPU_A_SCALAR_D) ints = false;
  }
  bool asked = n < call->nargs && a[n].tag == TPU_A_DTYPE;
  tpu_dtype dt = asked ? tpu_dtype_from_torch((int)a[n].u.i) : DT_NONE;
  if (asked && dt == DT_NONE) return c_decline(c, "a dtype that XLA does not have");
  if (dt == DT_NONE) dt = ints && !closed ? DT_I64 : DT_F32;
  if (dt_is_complex(dt) || dt == DT_BOOL)
    return tpu_err(TPU_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", closed ? "range" : "arange",
                   tpu_dtype_torch_name(dt));
  int64_t count = 0;
  TRY(range_length(start, end, step, dt, closed, &count));
  const tpu_arg args[] = {*start,
                          *step,
                          {.tag = TPU_A_INTS, .n = 1, .u.is = &count},
                          {.tag = TPU_A_DTYPE, .u.i = tpu_dtypes[dt].torch}};
  const tpu_tensor *out;
  TRY(c_run(c, "tpu::arange", 4, args, 1, &out));
  c_return(c, out, 1, &count);
  return NULL;
}

/* start + i step in the first half, end - (n - 1 - i) step in the second, as PyTorch does. */
static Val linear(L *l, tpu_dtype dt, tpu_dtype wide, int64_t n) {
  B *b = l_b(l);
  shape s = shape_of(1, &n);
  Val start = b_cast(b, l_tensor_as(l, 0, dt), wide), end = b_cast(b, l_tensor_as(l, 1, dt), wide);
  if (n == 1) return b_broadcast_to(b, start, &s);
  Val i = b_cast(b, b_iota(b, DT_I64, &s, 0), wide), last = m_k(b, start, (double)(n - 1));
  tpu_dtype round = dt_is_low(dt) ? dt : wide; /* 16-bit steps are 16-bit numbers on the CPU as well */
  Val span = b_cast(b, b_cast(b, b_sub(b, end, start), round), wide);
  Val step = b_cast(b, b_cast(b, b_div(b, span, last), round), wide), half = b_const_i(b, DT_I64, n / 2);
  Val far = b_cast(b, b_cast(b, b_mul(b, step, i), round), wide),
      near = b_cast(b, b_cast(b, b_mul(b, step, b_sub(b, last, i)), round), wide);
  Val up = b_add(b, start, far), down = b_sub(b, end, near);
  return b_select(b, b_lt(b, b_iota(b, DT_I64, &s, 0), half), up, down);
}

/* linspace(start, end, steps, dtype), logspace(start, end, steps, base, dtype): datum 0, 1. */
static void linspace(L *l) {
  B *b = l_b(l);
  int64_t n = l_int(l, 2);
  tpu_dtype a = m_arg_dtype(l, 0), z = m_arg_dtype(l, 1);
  tpu_dtype dt = dtype_or(l, l_datum(l) ? 4 : 3, dt_is_complex(a) || dt_is_complex(z) ? DT_C128 : DT_F64);
  if (n < 0) l_fail(l, TPU_RUNTIME, "number of steps must be non-negative");
  m_dtype(l, dt, n > 1 ? M_NO_BOOL : 0);
  for (int i = 0; i < 2; i++)
    if (l_is_tensor(l, i) && b_rank(b, l_tensor(l, i)))
      l_fail(l, TPU_RUNTIME,
             "linspace only supports 0-dimensional start and end tensors, but got %s with %d dimension(s).",
             i ? "end" : "start", b_rank(b, l_tensor(l, i)));
  tpu_dtype wide = dt_is_integral(dt) ? DT_F64 : dt_acc(dt);
  if (n <= 0) {
    ret(l, b_zeros(b, dt, &(shape){.rank = 1}));
    return;
  }
  if (!l_datum(l)) {
    ret(l, b_cast(b, linear(l, dt, wide, n), dt));
    return;
  }
  if (wide == DT_F32) wide = DT_F64; /* a power doubles the error of its exponent many times */
  Val e = linear(l, dt, wide, n), base = b_const(b, wide, l_double_or(l, 3, 10));
  ret(l, b_cast(b, b_pow(b, base, e), dt));
}

/* --- matrices --- */

static void eye(L *l) { /* eye(n), eye.m(n, m): datum 0, 1 */
  B *b = l_b(l);
  int64_t n = l_int(l, 0), m = l_datum(l) ? l_int(l, 1) : n;
  if (n < 0) l_fail(l, TPU_RUNTIME, "n must be greater or equal to 0, got %lld", (long long)n);
  if (m < 0) l_fail(l, TPU_RUNTIME, "m must be greater or equal to 0, got %lld", (long long)m);
  if (!b_ok(b)) return;
  shape s = shape_of(2, (int64_t[]){n, m});
  Val on = b_eq(b, b_iota(b, DT_I64, &s, 0), b_iota(b, DT_I64, &s, 1));
  ret(l, b_cast(b, on, dtype_or(l, l_datum(l) + 1, DT_F64)));
}

static void triangle(L *l) { /* tril, triu (self, diagonal): datum 0, 1 */
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int rank = b_rank(b, x);
  if (rank < 2) {
    l_fail(l, TPU_RUNTIME, "%s: input tensor must have at least 2 dimensions", l_name(l));
    return;
  }
  const shape *s = b_shape(b, x);
  shape m = {.rank = 2, .d = {s->d[rank - 2], s->d[rank - 1]}};
  Val row = b_add(b, b_iota(b, DT_I64, &m, 0), b_const_i(b, DT_I64, l_int_or(l, 1, 0))),
      col = b_iota(b, DT_I64, &m, 1);
  ret(l, m_zero_mask(b, l_datum(l) ? b_ge(b, col, row) : b_le(b, col, row), x));
}

/* tril_indices, triu_indices (row, col, offset, dtype): a constant, as long as that is no burden. */
static void triangle_indices(L *l) {
  B *b = l_b(l);
  int64_t rows = l_int(l, 0), cols = l_int(l, 1), offset = l_int(l, 2), n = 0;
  bool upper = l_datum(l);
  tpu_dtype dt = dtype_or(l, 3, DT_I64);
  if (dt != DT_I64 && dt != DT_I32)
    l_fail(l, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", l_name(l), tpu_dtype_torch_name(dt));
  enum { LIMIT = 1 << 13 };
  int64_t buf[2 * LIMIT];
  if (rows < 0) l_fail(l, TPU_RUNTIME, "row must be non-negative, got %lld", (long long)rows);
  if (cols < 0) l_fail(l, TPU_RUNTIME, "col must be non-negative, got %lld", (long long)cols);
  if (!b_ok(b)) return;
  for (int pass = 0; pass < 2; pass++) { /* the rows of all elements, then their columns */
    for (int64_t i = 0; i < rows; i++) {
      int64_t from = upper ? i + offset : 0, to = upper ? cols : i + offset + 1;
      for (int64_t j = from < 0 ? 0 : from; j < (to < cols ? to : cols); j++) {
        if (n == 2 * LIMIT) {
          l_decline(l, "more than 8192 indices");
          return;
        }
        buf[n++] = pass ? j : i;
      }
    }
  }
  ret(l, b_reshape_to(b, b_dense_i64(b, dt, buf, (int)n), 2, (int64_t[]){2, n / 2}));
}

#define LINSPACE(name, datum)                                                     \
  {name, linspace, datum, ROW_FITS}, {name ".Tensor_Tensor", linspace, datum, 0}, \
      {name ".Tensor_Scalar", linspace, datum, ROW_FITS}, {                       \
    name ".Scalar_Tensor", linspace, datum, ROW_FITS                              \
  }
const tpu_row rows_create[] = {
    {"full", full, 0, ROW_SIZED | ROW_FITS},
    {"zeros", full, ZERO, ROW_SIZED},
    {"ones", full, ONE, ROW_SIZED},
    {"new_full", full, IS_NEW, ROW_SIZED | ROW_FITS},
    {"new_zeros", full, IS_NEW | ZERO, ROW_SIZED},
    {"new_ones", full, IS_NEW | ONE, ROW_SIZED},
    {"full_like", full, IS_LIKE, ROW_ELEMENTWISE | ROW_FITS}, /* the core looks at memory_format */
    {"zeros_like", full, IS_LIKE | ZERO, ROW_ELEMENTWISE},
    {"ones_like", full, IS_LIKE | ONE, ROW_ELEMENTWISE},
    {"scalar_tensor", scalar_tensor, 0, ROW_FITS},
    {"tpu::arange", arange, 0, ROW_SIZED | ROW_COUNT | ROW_INTERNAL},
    {"arange", .compose = compose_range},
    {"arange.start", .compose = compose_range},
    {"arange.start_step", .compose = compose_range},
    {"range", .compose = compose_range},
    {"range.step", .compose = compose_range},
    LINSPACE("linspace", 0),
    LINSPACE("logspace", 1),
    {"eye", eye, 0, 0},
    {"eye.m", eye, 1, 0},
    {"tril", triangle, 0, ROW_SHARED | ROW_SAME_DTYPE},
    {"triu", triangle, 1, ROW_SHARED | ROW_SAME_DTYPE},
    {"tril_indices", triangle_indices, 0, 0},
    {"triu_indices", triangle_indices, 1, 0},
    {0},
};
