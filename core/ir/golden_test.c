/* The text of small programs, compared with tests/c/golden/NAME.mlir: an edit of the builder that is not
 * meant to change what is emitted leaves these files alone. TORCH_TPU_WRITE_GOLDEN=1 writes them anew;
 * tests/py/test_golden.py has the real plugin compile each of them. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/builder.h"
#include "test.h"

static Val param(B *b, tpu_dtype dt, int rank, const int64_t *dims) {
  shape s = shape_of(rank, dims);
  return b_param(b, dt, &s);
}
#define PARAM(dt, ...) param(b, dt, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define SCALAR(dt)     param(b, dt, 0, NULL)

/* A parameter whose dim `axis` is generic, of symbol `sym`. */
static Val generic(B *b, tpu_dtype dt, shape s, int axis, int32_t sym) {
  s.d[axis].sym = sym;
  return b_param(b, dt, &s);
}

static void elementwise(B *b) {
  Val x = PARAM(DT_F32, 2, 3), y = PARAM(DT_BF16, 3), k = PARAM(DT_I64, 2, 1);
  b_return(b, b_mul(b, b_add(b, x, y), k));
  b_return(b, b_select(b, b_lt(b, x, b_like(b, x, 0)), b_exp(b, x), b_erf(b, x)));
  b_return(b, b_cast(b, x, DT_U8));
  b_return(b, b_floor_mod(b, x, b_like(b, x, 3)));
  b_return(b, b_bitcast(b, b_complex(b, x, x), DT_F32));
}

static void constants(B *b) {
  static const double v[] = {0, -0.0, 1.5, 0.1, 1e30, 1e-45};
  static const tpu_dtype dts[] = {DT_F32, DT_F64, DT_BF16, DT_F8E4M3FN, DT_BOOL, DT_U8, DT_I64, DT_C64};
  for (size_t i = 0; i < sizeof dts / sizeof *dts; i++)
    for (size_t k = 0; k < sizeof v / sizeof *v; k++) b_return(b, b_const(b, dts[i], v[k]));
  b_return(b, b_min_value(b, DT_F32));
  b_return(b, b_max_value(b, DT_U64));
  shape s = shape_of(2, (int64_t[]){2, 0});
  b_return(b, b_zeros(b, DT_F16, &s));
  b_return(b, b_dense_i64(b, DT_I32, (int64_t[]){3, -1}, 2));
  s.d[1].n = 3;
  b_return(b, b_iota(b, DT_BF16, &s, 1));
}

static void shapes(B *b) {
  Val x = PARAM(DT_F32, 2, 3, 4);
  b_return(b, b_transpose(b, x, (int[]){2, 0, 1}));
  b_return(b, b_reshape_to(b, x, 2, (int64_t[]){6, 4}));
  b_return(b, b_slice(b, x, 2, 1, 4, 2));
  b_return(b, b_pad_axis(b, x, 1, 2, -1, b_like(b, x, 7)));
  b_return(b, b_concat(b, (Val[]){x, x}, 2, 1));
  b_return(b, b_reverse(b, x, 0));
  b_return(b, b_tile_dim(b, x, 1, 2));
}

static void reductions(B *b) {
  Val x = PARAM(DT_BF16, 4, 8), value;
  b_return(b, b_sum(b, x, 2, false));
  b_return(b, b_max(b, x, 1, true));
  b_return(b, b_mean(b, x, 3, false));
  b_return(b, b_argreduce(b, true, x, 1, false, &value));
  b_return(b, value);
  b_return(b, b_cumulative(b, RED_SUM, x, 1, true));
}

static void softmax_generic(B *b) {
  int32_t n = b_symbol(b, SCALAR(DT_I32));
  Val x = generic(b, DT_F32, shape_of(2, (int64_t[]){4, 16}), 1, n);
  Val e = b_exp(b, b_sub(b, x, b_max_loose(b, x, 2, true)));
  b_return(b, b_div(b, e, b_sum(b, e, 2, true)));
}

static void attention_generic(B *b) {
  int32_t n = b_symbol(b, SCALAR(DT_I32));
  shape kv = shape_of(3, (int64_t[]){2, 16, 8});
  Val q = PARAM(DT_F32, 2, 1, 8), k = generic(b, DT_F32, kv, 1, n), v = generic(b, DT_F32, kv, 1, n),
      new = PARAM(DT_F32, 2, 1, 8);
  Val k2 = b_append(b, k, new, 1, 16), v2 = b_append(b, v, new, 1, 16);
  Val s = b_matmul(b, q, b_swap(b, k2, 1, 2)), e = b_exp(b, b_sub(b, s, b_max_loose(b, s, 4, true)));
  b_return(b, b_matmul(b, b_div(b, e, b_sum(b, e, 4, true)), v2));
  b_return(b, k2);
  b_return(b, v2);
  b_param_alias(b, k, 1);
  b_param_alias(b, v, 2);
}

static void dots(B *b) {
  Val x = PARAM(DT_BF16, 2, 3, 4), y = PARAM(DT_BF16, 2, 4, 5), i = PARAM(DT_I32, 3, 3);
  b_return(b, b_matmul(b, x, y));
  b_return(b, b_matmul(b, i, i));
  b_set_cpu_lowering(b, false);
  b_return(b, b_matmul_acc(b, x, y, DT_F32));
}

static void convolutions(B *b) {
  b_conv c = {.spatial = 2, .stride = {2, 2}, .lo = {1, 1}, .hi = {1, 1}},
         d = {.spatial = 1, .feature_groups = 4};
  b_return(b, b_convolution(b, PARAM(DT_F32, 2, 4, 8, 8), PARAM(DT_F32, 6, 4, 3, 3), &c));
  b_return(b, b_convolution(b, PARAM(DT_F32, 2, 4, 8), PARAM(DT_F32, 4, 1, 2), &d));
  b_set_cpu_lowering(b, false);
  c.flip = true;
  b_return(b, b_convolution(b, PARAM(DT_BF16, 2, 4, 8, 8), PARAM(DT_BF16, 6, 4, 3, 3), &c));
}

static void windows(B *b) {
  Val x = PARAM(DT_F32, 1, 6, 6);
  b_window w = {.size = {1, 2, 2}, .stride = {1, 2, 2}, .lo = {0, 1, 0}};
  b_return(b, b_reduce_window(b, RED_SUM, x, &w));
  b_return(b, b_reduce_window(b, RED_MAX, x, &w));
}

static void indexing(B *b) {
  Val x = PARAM(DT_F32, 5, 6), i = PARAM(DT_I64, 3), u = PARAM(DT_F32, 3, 6), j = PARAM(DT_I64, 2, 6);
  b_return(b, b_take(b, x, i, 1));
  b_return(b, b_gather_axis(b, x, j, 0));
  b_return(b, b_gather_nd(b, x, (Val[]){i, i}, 2));
  b_return(b, b_scatter_nd(b, SCAT_ADD, x, &i, 1, u));
  b_return(b, b_scatter_axis(b, SCAT_SET, x, j, b_like(b, x, 1), 0));
}

static void sorts(B *b) {
  Val x = PARAM(DT_F32, 4, 8), at;
  b_return(b, b_sort(b, x, 1, true, &at));
  b_return(b, at);
  b_return(b, b_topk(b, x, 3, 0, true, &at));
  b_return(b, at);
}

static Val below(B *b, void *ctx, const Val *args) { return b_lt(b, args[0], *(Val *)ctx); }

static void step(B *b, void *ctx, const Val *args, Val *res) {
  (void)ctx;
  res[0] = b_add(b, args[0], b_const_i(b, DT_I32, 1));
  res[1] = b_mul(b, args[1], b_like(b, args[1], 2));
}

static void left(B *b, void *ctx, const Val *args, Val *res) {
  (void)args;
  res[0] = b_neg(b, *(Val *)ctx);
}

static void right(B *b, void *ctx, const Val *args, Val *res) {
  (void)b, (void)args;
  res[0] = *(Val *)ctx;
}

static void control(B *b) {
  Val n = SCALAR(DT_I32), x = PARAM(DT_F32, 3), init[2] = {b_const_i(b, DT_I32, 0), x}, out[2];
  b_while(b, 2, init, below, step, &n, out);
  b_return(b, out[1]);
  b_if(b, b_gt(b, n, b_const_i(b, DT_I32, 5)), 1, left, right, &x, out);
  b_return(b, out[0]);
  b_check(b, b_gt(b, x, b_like(b, x, 0)), TPU_INDEX, "first");
  b_check(b, b_lt(b, x, b_like(b, x, 9)), TPU_INDEX, "second");
  b_return(b, b_check_result(b));
}

static void special(B *b) {
  Val a = PARAM(DT_F32, 3, 3), tau, vec, key = SCALAR(DT_U64);
  b_return(b, b_philox(b, key, key, 6));
  b_return(b, b_fft(b, FFT_R2C, a, 1, (int64_t[]){3}));
  b_return(b, b_cholesky(b, a, true));
  b_return(b, b_triangular_solve(b, a, a, true, true, false, 1));
  Val h = b_qr(b, a, &tau);
  b_return(b, b_householder_product(b, h, tau));
  b_return(b, b_eigh(b, a, true, &vec));
  b_return(b, vec);
  b_return(b, b_optimization_barrier(b, a));
}

static const struct {
  const char *name;
  void (*make)(B *b);
} programs[] = {
#define P(name) {#name, name}
    P(elementwise), P(constants),    P(shapes),  P(reductions), P(softmax_generic), P(attention_generic),
    P(dots),        P(convolutions), P(windows), P(indexing),   P(sorts),           P(control),
    P(special),
#undef P
};

static void compare(const char *name, const text *t) {
  char path[256];
  snprintf(path, sizeof path, "tests/c/golden/%s.mlir", name);
  if (getenv("TORCH_TPU_WRITE_GOLDEN")) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(t->p, 1, t->n, f) == t->n);
    if (f) fclose(f);
    return;
  }
  FILE *f = fopen(path, "rb");
  CHECK_(f, "no file %s (tests run in the repository root)", path);
  if (!f) return;
  char *have = tpu_xmalloc(t->n + 2);
  size_t n = fread(have, 1, t->n + 1, f);
  fclose(f);
  size_t at = 0;
  while (at < n && at < t->n && have[at] == t->p[at]) at++;
  CHECK_(n == t->n && at == n, "%s differs at byte %zu: ...%.60s", path, at, t->p + at);
  free(have);
}

void test_golden(void);
void test_golden(void) {
  B *b = b_create();
  text t = {0}, again = {0};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    text_clear(&t);
    text_clear(&again);
    programs[i].make(b);
    CHECK_OK(b_verify(b));
    CHECK_OK(b_print(b, &t));
    compare(programs[i].name, &t);
    b_reset(b);
    programs[i].make(b);
    CHECK_OK(b_print(b, &again));
    CHECK_(t.n == again.n && !memcmp(t.p, again.p, t.n), "%s is not the same after a reset",
           programs[i].name);
    b_reset(b);
  }
  text_free(&t);
  text_free(&again);
  b_destroy(b);
}
