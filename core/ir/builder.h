/* The builder: StableHLO graphs from calls that read like algebra.
 *
 * A `B` holds one program. Every verb returns a Val, an index of a node in that program; nodes are
 * hash-consed (equal op, operands, attributes and region give the same Val). The first error sticks: later
 * verbs do nothing and return BAD, and b_error() is looked at once, at the end. Broadcasting (numpy rules,
 * aligned at the last dim), promotion of array dtypes, shape inference, accumulation in f32, NaN-keeping
 * max/min and the masks of generic dims live here and nowhere else.
 *
 * Sizes (design 3). A dim is {n, sym}: sym 0 is a static dim whose size is n; otherwise n is the PHYSICAL
 * size, and the logical size is the value of symbol `sym`, a scalar operand known at run time, 0 <= size <=
 * n. What lies beyond the logical size is padding: any bits, NaN included. Only this folder and value/ look
 * at physical sizes; a lowering asks b_dim_static (an error that sticks when the dim is generic) or b_size (a
 * scalar Val). Elementwise verbs, broadcast, transpose and free or batch dims of dots let padding through;
 * reduce, dot contraction, sort, cumulative verbs and windows put their own identity there first (mask_pad).
 * One symbol = one size, by provenance; two dims of different symbols never broadcast together, whatever
 * their n.
 *
 * Thread-compatible: one builder, one thread. All memory is the builder's arena. */
#ifndef TPU_IR_BUILDER_H
#define TPU_IR_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"

#define IR_MAX_RANK 32

typedef int32_t Val;
#define BAD ((Val) - 1)

typedef struct ir_dim {
  int64_t n;   /* physical size (the size itself where sym == 0) */
  int32_t sym; /* 0 = static */
} ir_dim;

typedef struct shape {
  int rank;
  ir_dim d[IR_MAX_RANK];
} shape;

typedef struct B B;

B *b_create(void);
void b_reset(B *b); /* empty program, error cleared, memory kept */
void b_destroy(B *b);
void b_fail(B *b, tpu_code code, const char *fmt, ...) TPU_PRINTF(3, 4); /* first one sticks */
bool b_ok(const B *b);
tpu_error *b_take_error(B *b); /* NULL when fine; ownership moves */

/* --- program frame -----------------------------------------------------------------------------------------
 */
/* The next parameter of @main. `alias_out` < 0, or the index of the result whose buffer this donated input
 * becomes. */
Val b_param(B *b, tpu_dtype dt, const shape *s);
void b_param_alias(B *b, Val param, int out_index); /* tf.aliasing_output */
void b_return(B *b, Val v);                         /* the next result of @main */
/* A symbol whose size is the i32 scalar `size` (a parameter, or computed from other sizes). Never 0. */
int32_t b_symbol(B *b, Val size);
/* A symbol whose size nobody asks for: the k-th of the program. */
int32_t b_symbol_unread(B *b, int k);
bool b_is_read(const B *b, Val param); /* is it an operand of a node or a result */
/* i32 scalar: the symbol's size. */
Val b_symbol_size(B *b, int32_t sym);
/* Text of the whole module (entry @main, no trailing NUL counted). */
tpu_error *b_print(B *b, text *out);
/* Structural rules of ir/verify.c; called by b_print in debug builds and by tests. */
tpu_error *b_verify(const B *b);
int b_num_nodes(const B *b);
/* Test switch: leave the masks of generic dims out (negative control). */
void b_disable_masks(B *b, bool off);
int b_masks_left_out(const B *b);
/* 0 DEFAULT, 1 HIGH, 2 HIGHEST: precision of dots and convolutions of f32 from here on (default HIGHEST). */
void b_set_precision(B *b, int p);
/* Whether to avoid the slow spots of the CPU plugin (default true); off for other platforms. */
void b_set_cpu_lowering(B *b, bool cpu);

/* --- asking ------------------------------------------------------------------------------------------------
 */
tpu_dtype b_dtype(const B *b, Val v); /* DT_F32 after an error, so that callers need no check */
int b_rank(const B *b, Val v);
const shape *b_shape(const B *b, Val v);     /* valid until the builder is reset */
int64_t b_dim_static(B *b, Val v, int axis); /* error that sticks (returns 1) when the dim is generic */
int64_t b_numel_static(B *b, Val v);
bool b_dim_is_generic(const B *b, Val v, int axis);
bool b_is_generic(const B *b, Val v);            /* any dim */
Val b_size(B *b, Val v, int axis, tpu_dtype dt); /* logical size as a scalar of dt: constant where static */
Val b_numel(B *b, Val v, tpu_dtype dt);          /* product of the logical sizes as a scalar of dt */
bool shape_equal(const shape *a, const shape *b);
shape shape_of(int rank, const int64_t *dims); /* static */
int axis_norm(B *b, int64_t axis,
              int rank); /* negative axes; IndexError that sticks, torch's words; rank 0 counts as 1 */
bool b_const_value(const B *b, Val v,
                   double *out); /* true when v is a scalar/splat constant of a real dtype */

/* --- making values -----------------------------------------------------------------------------------------
 */
Val b_const(B *b, tpu_dtype dt, double v);    /* rank-0 constant */
Val b_const_i(B *b, tpu_dtype dt, int64_t v); /* exact for 64-bit integers */
Val b_const_c(B *b, tpu_dtype dt, double re, double im);
Val b_like(B *b, Val x, double v);            /* rank-0 constant of x's dtype; broadcasts by itself */
Val b_full(B *b, const shape *s, Val scalar); /* scalar broadcast to s */
Val b_zeros(B *b, tpu_dtype dt, const shape *s);
Val b_iota(B *b, tpu_dtype dt, const shape *s, int axis);
Val b_dense_i64(B *b, tpu_dtype dt, const int64_t *v, int n); /* rank-1 integer constant */
Val b_dense_f64(B *b, tpu_dtype dt, const double *v, int n);
Val b_min_value(B *b, tpu_dtype dt); /* -inf / lowest / false: identity of max */
Val b_max_value(B *b, tpu_dtype dt);

/* --- elementwise -------------------------------------------------------------------------------------------
 */
/* Wrappers b_<name> for every UNARY, BINARY row of ops.def come from the list. Binary verbs promote
 * (dt_promote) and broadcast. Integer division truncates; shifts by >= width give 0 (or -1); see ops.def for
 * the exact rule of each. */
typedef enum b_op { /* OP_ABS, ..., OP_ADD, ... */
#define UNARY(NAME, fn, mlir, dts)  OP_##NAME,
#define BINARY(NAME, fn, mlir, dts) OP_##NAME,
#include "ir/ops.def"
                    OP_COUNT
} b_op;
Val b_unary(B *b, int op, Val x);
Val b_binary(B *b, int op, Val x, Val y);
#define UNARY(NAME, fn, mlir, dts)  Val b_##fn(B *b, Val x);
#define BINARY(NAME, fn, mlir, dts) Val b_##fn(B *b, Val x, Val y);
#include "ir/ops.def"
typedef enum b_cmp_dir { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE } b_cmp_dir;
Val b_cmp(B *b, b_cmp_dir dir, Val x, Val y); /* promotes, broadcasts; IEEE for floats; EQ/NE for complex */
Val b_eq(B *b, Val x, Val y);
Val b_ne(B *b, Val x, Val y);
Val b_lt(B *b, Val x, Val y);
Val b_le(B *b, Val x, Val y);
Val b_gt(B *b, Val x, Val y);
Val b_ge(B *b, Val x, Val y);
Val b_select(B *b, Val pred, Val x, Val y); /* all three broadcast; x and y promote */
Val b_clamp(B *b, Val lo, Val x, Val hi);   /* NaN in x stays */
Val b_cast(B *b, Val x, tpu_dtype dt); /* C semantics; to BOOL is != 0; complex -> real takes the real part */
Val b_bitcast(B *b, Val x,
              tpu_dtype dt); /* same width; wider -> adds a minor dim; narrower -> folds the minor dim */
Val b_complex(B *b, Val re, Val im);
Val b_isnan(B *b, Val x);
Val b_isinf(B *b, Val x);
Val b_floor_div(B *b, Val x, Val y); /* Python floor division, ints and floats */
Val b_floor_mod(B *b, Val x, Val y); /* Python remainder: sign of the divisor */
Val b_erf(B *b, Val x);
Val b_erfc(B *b, Val x);
Val b_erf_inv(B *b, Val x);
Val b_lgamma(B *b, Val x);
Val b_digamma(B *b, Val x);
Val b_zeta(B *b, Val x, Val q);
Val b_next_after(B *b, Val x, Val y);

/* --- shapes ------------------------------------------------------------------------------------------------
 */
Val b_broadcast_to(B *b, Val x, const shape *s); /* numpy rules */
shape b_broadcast_shape(B *b, Val x,
                        Val y); /* error that sticks: torch's "The size of tensor a (3) must match ..." */
Val b_broadcast_dims(B *b, Val x, const shape *s,
                     const int *where);                       /* dim i of x becomes dim where[i] of s */
Val b_reshape(B *b, Val x, const shape *s);                   /* generic dims must pass through unchanged */
Val b_reshape_to(B *b, Val x, int rank, const int64_t *dims); /* static */
Val b_transpose(B *b, Val x, const int *perm);                /* result dim i is x's dim perm[i] */
Val b_swap(B *b, Val x, int a, int c);                        /* two axes exchanged */
Val b_unsqueeze(B *b, Val x, int axis);
Val b_squeeze(B *b, Val x, int axis);         /* a dim of size 1 goes */
Val b_flatten(B *b, Val x, int from, int to); /* dims from..to (inclusive) become one */
Val b_slice(B *b, Val x, int axis, int64_t start, int64_t limit, int64_t step);
Val b_slice_nd(B *b, Val x, const int64_t *start, const int64_t *limit, const int64_t *step);
Val b_pad(B *b, Val x, const int64_t *lo, const int64_t *hi, const int64_t *interior,
          Val value); /* lo/hi may be negative; interior NULL = 0 */
Val b_pad_axis(B *b, Val x, int axis, int64_t lo, int64_t hi, Val value);
Val b_concat(B *b, const Val *vs, int n, int axis); /* promotes; static concat axis, or see b_append */
/* Concatenation along a generic axis: x (symbol or static), then y at x's logical end, in a result whose axis
 * has physical size `rung` and a new symbol = size(x) + size(y). */
Val b_append(B *b, Val x, Val y, int axis, int64_t rung);
Val b_reverse(B *b, Val x, int axis);
Val b_dynamic_slice(B *b, Val x, const Val *starts,
                    const int64_t *sizes); /* one integer scalar a dim; clamps */
Val b_dynamic_update(B *b, Val x, Val update, const Val *starts);
Val b_tile_dim(B *b, Val x, int axis, int64_t times);          /* [a b] -> [a b a b] */
Val b_repeat_interleave(B *b, Val x, int axis, int64_t times); /* [a b] -> [a a b b] */

/* --- generic dims --- */
/* x under the sizes of s: the same physical dims, other symbols. Whoever calls it knows that the sizes are
 * the same. */
Val b_relabel(B *b, Val x, const shape *s);
/* Elements start, start + step ... of an axis (start BAD: from 0) as a generic dim {n, sym}; what lies beyond
 * x is 0. */
Val b_narrow(B *b, Val x, int axis, Val start, int64_t n, int64_t step, int32_t sym);
/* Dims from..to (inclusive) as one generic dim {n, sym} of their product of logical sizes. */
Val b_merge(B *b, Val x, int from, int to, int64_t n, int32_t sym);
/* The inverse: an axis as several dims, whose logical sizes have the axis' as their product. */
Val b_split(B *b, Val x, int axis, int ndims, const ir_dim *dims);
/* The dim of size (size of d * mul + add) / div, 0 where that is negative. */
ir_dim b_dim_map(B *b, ir_dim d, int64_t mul, int64_t add, int64_t div);
ir_dim b_dim_min(B *b, ir_dim p, ir_dim q);
/* The program is for sizes of at least `least` alone: where the host finds another it uses exact copies, and
 * a row's own words where that is an error. Of a static dim: nothing, whoever asks has looked. */
void b_require(B *b, ir_dim d, int64_t least);
/* Dots and convolutions over several generic dims require by themselves that padding does not more than
 * double their work, where that is much work. */
int b_num_requires(const B *b);
Val b_require_size(const B *b, int k); /* integer scalar that must not be negative */
/* x as a static value: `fill` (a scalar) is put into its padding along `axes`, and its physical sizes become
 * its sizes, those of `like` (NULL: its own), which has the same logical ones. For verbs that know only
 * static sizes; b_relabel gives the result its sizes back. */
Val b_physical(B *b, Val x, const shape *like, uint32_t axes, Val fill);
shape b_shape_physical(const shape *s);
/* A size as an expression over `params` (i32 scalars) that the host can compute; its length, or -1.
 */
typedef enum size_op {
  SIZE_SYM,
  SIZE_CONST,
  SIZE_ADD,
  SIZE_SUB,
  SIZE_MUL,
  SIZE_DIV,
  SIZE_MAX_OF,
  SIZE_MIN_OF
} size_op;
typedef struct size_code { /* postfix */
  uint8_t op;
  int64_t v; /* SYM: which param; CONST: the number */
} size_code;
enum { SIZE_CODE_MAX = 32 };
int b_size_code(const B *b, Val size, int nparams, const Val *params, size_code *out, int cap);
int64_t size_eval(const size_code *code, int n, const int64_t *sizes);

/* --- reductions: axes is a bit mask, bit i = axis i; a reduced axis goes, or stays as 1 with keepdim --- */
typedef enum b_red { RED_SUM, RED_PROD, RED_MAX, RED_MIN, RED_AND, RED_OR, RED_XOR } b_red;
uint32_t axes_all(int rank);
Val b_reduce(B *b, b_red kind, Val x, uint32_t axes,
             bool keepdim); /* low floats accumulate in f32 and come back; max/min keep NaN */
Val b_sum(B *b, Val x, uint32_t axes, bool keepdim);
Val b_max(B *b, Val x, uint32_t axes, bool keepdim);
Val b_min(B *b, Val x, uint32_t axes, bool keepdim);
/* max that may drop NaN, 2-5 times faster on CPU: for softmax and logsumexp, where a NaN of x comes back
 * through exp(x - max). */
Val b_max_loose(B *b, Val x, uint32_t axes, bool keepdim);
Val b_mean(B *b, Val x, uint32_t axes, bool keepdim);  /* by logical count */
Val b_count(B *b, Val x, uint32_t axes, tpu_dtype dt); /* product of the logical sizes of the axes, scalar */
/* First index of the max (or min) along axis, i64; NaN wins, as in torch. *value may be NULL. */
Val b_argreduce(B *b, bool max, Val x, int axis, bool keepdim, Val *value);
/* Inclusive scan along axis. kind SUM, PROD, MAX, MIN. Lowered as log-step of slices or reduce_window (the
 * associative form aborts the CPU compiler). */
Val b_cumulative(B *b, b_red kind, Val x, int axis, bool reverse);
Val b_cum_arg(B *b, bool max, Val x, int axis,
              Val *value); /* cummax / cummin: index i64 of the latest extreme, torch's rule */

/* --- windows, convolution, dots --- */
typedef struct b_window { /* all arrays have x's rank; 0-filled = default of 1 for size/stride/dilation, 0 for
                             pads */
  int64_t size[IR_MAX_RANK], stride[IR_MAX_RANK], lo[IR_MAX_RANK], hi[IR_MAX_RANK];
  int64_t base_dilation[IR_MAX_RANK], window_dilation[IR_MAX_RANK];
} b_window;
Val b_reduce_window(B *b, b_red kind, Val x, const b_window *w); /* SUM, MAX (keeps NaN), MIN, PROD */
typedef struct b_conv {
  int spatial; /* 1, 2, 3; x is [N, C, spatial...], w is [O, C/groups, spatial...], result [N, O, spatial...]
                */
  int64_t stride[3], lo[3], hi[3]; /* pads may be negative */
  int64_t lhs_dilation[3], rhs_dilation[3];
  int64_t feature_groups, batch_groups; /* 0 = 1 */
  bool flip;                            /* window_reversal on every spatial dim */
  const ir_dim *to; /* the spatial dims of the result, or NULL; then `hi` follows from them. */
} b_conv;
Val b_convolution(
    B *b, Val x, Val w,
    const b_conv *c); /* result in x's dtype, low floats accumulate in f32; picks a lowering without cliffs */
/* Contracts xc[i] of x with yc[i] of y, batches xb[i] with yb[i]: result [batch..., free of x..., free of
 * y...]. Promotes; low floats accumulate in f32, result in the promoted dtype; integers and bool work.
 * Generic contracting dims are masked to zero on both sides. */
Val b_dot_general(B *b, Val x, Val y, int nc, const int *xc, const int *yc, int nb, const int *xb,
                  const int *yb);
/* The same, result left in `out` (e.g. F32 of BF16 inputs). */
Val b_dot_general_acc(B *b, Val x, Val y, int nc, const int *xc, const int *yc, int nb, const int *xb,
                      const int *yb, tpu_dtype out);
Val b_matmul(B *b, Val x, Val y); /* torch.matmul's rules for ranks 1, 2, n; batch dims broadcast */
Val b_matmul_acc(B *b, Val x, Val y,
                 tpu_dtype out); /* the same, result left in `out` (e.g. F32 of BF16 inputs) */

/* --- gather, scatter, sort --- */
/* x[..., idx, ...] along axis: idx's dims take axis' place. Index dtype any integer; values must be in range
 * or are clamped (see b_check). */
Val b_take(B *b, Val x, Val idx, int axis);
/* torch.gather: same rank, result has idx's shape. */
Val b_gather_axis(B *b, Val x, Val idx, int axis);
/* x[i0[j], i1[j], ...] for n index arrays (broadcast together) over the FIRST n dims; result [idx dims...,
 * rest of x]. */
Val b_gather_nd(B *b, Val x, const Val *idx, int n);
typedef enum b_scat { SCAT_SET, SCAT_ADD, SCAT_MUL, SCAT_MAX, SCAT_MIN } b_scat;
/* The inverse of gather_nd: updates [idx dims..., rest of x] go to x; out of range indices are dropped. Low
 * floats accumulate in f32. */
Val b_scatter_nd(B *b, b_scat kind, Val x, const Val *idx, int n, Val updates);
/* torch.scatter: idx and src of the same rank as x (src may be rank 0 or larger than idx: cut to idx's
 * shape). */
Val b_scatter_axis(B *b, b_scat kind, Val x, Val idx, Val src, int axis);
/* Stable sort along axis, NaN last (first when descending), -0 == 0; *index (may be NULL) is the i64
 * permutation. */
Val b_sort(B *b, Val x, int axis, bool descending, Val *index);
/* Sorts several values together by keys vs[0..nkeys) in lexicographic order; outs[i] matches vs[i]. */
void b_sort_multi(B *b, const Val *vs, int n, int nkeys, int axis, bool descending, Val *outs);
Val b_topk(B *b, Val x, int64_t k, int axis, bool largest, Val *index); /* sorted; NaN counts as greatest */

/* --- masks, checks --- */
/* x with `identity` (a scalar of x's dtype) in the padding of the generic dims among `axes`; x itself where
 * there are none. */
Val b_mask_pad(B *b, Val x, uint32_t axes, Val identity);
Val b_valid(B *b, const shape *s, uint32_t axes); /* i1 of shape s: inside the logical sizes */
/* A run-time check: `ok` is an i1 of any shape that must be true everywhere; otherwise the op raises `code`
 * with `message` when its result is read. All checks of a program become one extra s32 result (0 = fine, k =
 * k-th check failed). `message` is copied. */
void b_check(B *b, Val ok, tpu_code code, const char *message);
int b_num_checks(const B *b);
void b_check_info(const B *b, int k, tpu_code *code, const char **message); /* k from 0 */
/* The s32 scalar of all checks, or BAD when there are none. Called once by step/ when it closes a program. */
Val b_check_result(B *b);

/* --- control flow: region callbacks build with the same B; args are the region's block arguments --- */
typedef void (*b_region)(B *b, void *ctx, const Val *args, Val *results);
typedef Val (*b_region1)(B *b, void *ctx, const Val *args);
void b_while(B *b, int n, const Val *init, b_region1 cond, b_region body, void *ctx, Val *outs);
void b_if(B *b, Val pred, int nouts, b_region then_fn, b_region else_fn, void *ctx,
          Val *outs); /* args NULL; captures allowed */

/* --- random, fft, linear algebra --- */
/* Philox 4x32-10 words: u32[n] from the u64 scalars key and counter; uses ceil(n/4) counters. */
Val b_philox(B *b, Val key, Val counter, int64_t n);
typedef enum b_fft_kind { FFT_C2C, FFT_INVERSE, FFT_R2C, FFT_C2R } b_fft_kind;
Val b_fft(B *b, b_fft_kind kind, Val x, int naxes,
          const int64_t *lengths); /* over the last naxes dims; inverse scales by 1/n as XLA does */
Val b_cholesky(B *b, Val x, bool lower);
Val b_triangular_solve(B *b, Val a, Val rhs, bool left, bool lower, bool unit,
                       int transpose /* 0 no, 1 T, 2 adjoint */);
Val b_qr(B *b, Val x, Val *taus); /* packed Householder form; custom call Qr */
Val b_householder_product(B *b, Val a, Val taus);
Val b_eigh(B *b, Val x, bool lower, Val *vectors); /* ascending eigenvalues */
Val b_optimization_barrier(B *b, Val x);

#endif
