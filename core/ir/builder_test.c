/* Rules of the builder that need no device: sticking errors, hash-consing, regions, symbols, what is printed.
 */
#include <stdlib.h>

#include "ir/builder.h"
#include "test.h"

static Val vec(B *b, int64_t n) {
  shape s = shape_of(1, &n);
  return b_param(b, DT_F32, &s);
}

static void errors_stick(void) {
  B *b = b_create();
  Val x = vec(b, 3), y = vec(b, 4), z = b_add(b, x, y);
  CHECK(z == BAD && !b_ok(b));
  int before = b_num_nodes(b);
  CHECK(b_exp(b, x) == BAD && b_sum(b, z, 1, false) == BAD && b_num_nodes(b) == before);
  CHECK(b_dtype(b, z) == DT_F32 && b_rank(b, z) == 0 && b_shape(b, z)->rank == 0);
  b_fail(b, TPU_TYPE, "a later one");
  text t = {0};
  CHECK_ERR(b_print(b, &t), "The size of tensor a (3) must match the size of tensor b (4)");
  CHECK_ERR(b_take_error(b), "non-singleton dimension 0");
  CHECK(b_ok(b) && !b_take_error(b));
  CHECK(axis_norm(b, -1, 3) == 2 && axis_norm(b, 0, 0) == 0 && b_ok(b));
  axis_norm(b, 3, 3);
  tpu_error *e = b_take_error(b);
  CHECK(e && tpu_error_code(e) == TPU_INDEX);
  tpu_error_free(e);
  b_destroy(b);
  text_free(&t);
}

static void every_verb_takes_bad(void) {
  B *b = b_create();
  Val o = 0, two[2] = {BAD, BAD}, outs[2];
  b_window w = {0};
  b_conv c = {.spatial = 1};
  shape s = shape_of(1, (int64_t[]){2});
  for (int op = 0; op < OP_ADD; op++) CHECK(b_unary(b, op, BAD) == BAD);
  for (int op = OP_ADD; op < OP_COUNT; op++) CHECK(b_binary(b, op, BAD, BAD) == BAD);
  CHECK(b_cmp(b, CMP_EQ, BAD, BAD) == BAD && b_select(b, BAD, BAD, BAD) == BAD &&
        b_cast(b, BAD, DT_I32) == BAD);
  CHECK(b_broadcast_to(b, BAD, &s) == BAD && b_reshape(b, BAD, &s) == BAD &&
        b_slice(b, BAD, 0, 0, 1, 1) == BAD);
  CHECK(b_concat(b, two, 2, 0) == BAD && b_append(b, BAD, BAD, 0, 4) == BAD && b_reverse(b, BAD, 0) == BAD);
  CHECK(b_mean(b, BAD, 1, false) == BAD && b_argreduce(b, true, BAD, 0, false, &o) == BAD && o == BAD);
  CHECK(b_reduce_window(b, RED_SUM, BAD, &w) == BAD && b_convolution(b, BAD, BAD, &c) == BAD &&
        b_matmul(b, BAD, BAD) == BAD);
  CHECK(b_take(b, BAD, BAD, 0) == BAD && b_gather_axis(b, BAD, BAD, 0) == BAD &&
        b_gather_nd(b, BAD, two, 2) == BAD);
  CHECK(b_scatter_nd(b, SCAT_ADD, BAD, two, 2, BAD) == BAD && b_sort(b, BAD, 0, false, &o) == BAD);
  CHECK(b_philox(b, BAD, BAD, 4) == BAD && b_cholesky(b, BAD, true) == BAD && b_qr(b, BAD, &o) == BAD);
  CHECK(b_eigh(b, BAD, true, &o) == BAD && b_fft(b, FFT_C2C, BAD, 1, (int64_t[]){2}) == BAD &&
        b_mask_pad(b, BAD, 1, BAD) == BAD);
  b_sort_multi(b, two, 2, 1, 0, false, outs);
  b_while(b, 2, two, NULL, NULL, NULL, outs);
  b_if(b, BAD, 1, NULL, NULL, NULL, outs);
  b_check(b, BAD, TPU_INDEX, "x");
  CHECK(outs[0] == BAD && b_ok(b) && b_num_nodes(b) == 0 && b_num_checks(b) == 0 && b_symbol(b, BAD) == 1);
  b_destroy(b);
}

static void equal_nodes_are_one(void) {
  B *b = b_create();
  Val x = vec(b, 3), y = vec(b, 3);
  CHECK(x != y && b_add(b, x, y) == b_add(b, x, y) && b_add(b, x, y) != b_add(b, y, x));
  CHECK(b_sum(b, x, 1, false) == b_sum(b, x, 1, false) &&
        b_sum(b, x, 1, false) != b_reduce(b, RED_PROD, x, 1, false));
  CHECK(b_const(b, DT_F32, 0.0) != b_const(b, DT_F32, -0.0));
  CHECK(b_cast(b, b_const(b, DT_F32, 2), DT_I64) == b_const_i(b, DT_I64, 2));
  Val i, j;
  CHECK(b_sort(b, x, 0, false, &i) == b_sort(b, x, 0, false, &j) && i == j);
  for (int k = 0; k < 5000; k++) b_add(b, x, b_const(b, DT_F32, k)); /* through several sizes of the table */
  CHECK(b_add(b, x, b_const(b, DT_F32, 17)) == b_add(b, x, b_const(b, DT_F32, 17)));
  int n = b_num_nodes(b);
  for (int k = 0; k < 5000; k++) b_add(b, x, b_const(b, DT_F32, k));
  CHECK_EQ(b_num_nodes(b), n);
  CHECK_OK(b_verify(b));
  b_destroy(b);
}

typedef struct inside {
  Val x, seen;
} inside;

static void region(B *b, void *ctx, const Val *args, Val *res) {
  (void)args;
  inside *in = ctx;
  in->seen = b_exp(b, in->x);
  res[0] = b_mul(b, in->seen, b_const(b, DT_F32, 3));
}

static void nodes_stay_in_their_region(void) {
  B *b = b_create();
  inside in = {vec(b, 3), BAD};
  shape s = {0};
  Val p = b_param(b, DT_BOOL, &s), out;
  b_if(b, p, 1, region, region, &in, &out);
  CHECK(out >= 0 && b_exp(b, in.x) != in.seen); /* what was made in a branch is not seen outside */
  Val outer = b_exp(b, in.x);
  b_if(b, p, 1, region, region, &in, &out);
  CHECK(in.seen == outer); /* what is outside is seen in a branch */
  b_return(b, out);
  CHECK_OK(b_verify(b));
  b_return(b, in.seen);
  CHECK_OK(b_verify(b));
  b_destroy(b);
}

static void symbols(void) {
  B *b = b_create();
  shape s = {0};
  Val n = b_param(b, DT_I32, &s), m = b_param(b, DT_I32, &s);
  int32_t p = b_symbol(b, n), q = b_symbol(b, m);
  CHECK(p > 0 && q > 0 && p != q && b_symbol(b, n) == p && b_symbol_size(b, q) == m);
  shape g = shape_of(2, (int64_t[]){4, 8});
  g.d[1].sym = p;
  Val x = b_param(b, DT_F32, &g);
  CHECK(b_is_generic(b, x) && b_dim_is_generic(b, x, 1) && !b_dim_is_generic(b, x, 0));
  CHECK(b_size(b, x, 1, DT_I32) == n && b_dim_static(b, x, 0) == 4 && b_ok(b));
  CHECK(b_dim_static(b, x, 1) == 1 && !b_ok(b));
  tpu_error *e = b_take_error(b);
  CHECK(tpu_error_code(e) == TPU_NOT_IMPLEMENTED);
  tpu_error_free(e);
  b_disable_masks(b, true);
  int before = b_num_nodes(b);
  CHECK(b_mask_pad(b, x, 3, b_const(b, DT_F32, 0)) == x && b_num_nodes(b) == before + 1);
  b_reset(b);
  CHECK(b_num_nodes(b) == 0 && b_ok(b) && b_symbol(b, b_const_i(b, DT_I32, 3)) == 1);
  b_destroy(b);
}

static void unused_nodes_are_not_printed(void) {
  B *b = b_create();
  Val x = vec(b, 3);
  b_sort(b, x, 0, true, NULL);
  b_sum(b, x, 1, false);
  b_return(b, b_exp(b, x));
  text t = {0};
  CHECK_OK(b_print(b, &t));
  CHECK(!strstr(t.p, "sort") && !strstr(t.p, "reduce") &&
        strstr(t.p, "stablehlo.exponential %arg0 : tensor<3xf32>"));
  text_free(&t);
  b_destroy(b);
}

static void const_values(void) {
  B *b = b_create();
  double v = 0;
  shape s = shape_of(2, (int64_t[]){2, 3});
  CHECK(b_const_value(b, b_full(b, &s, b_const(b, DT_F32, 0.5)), &v) && v == 0.5);
  CHECK(b_const_value(b, b_max_value(b, DT_U64), &v) && v == 18446744073709551615.0);
  CHECK(b_const_value(b, b_const_i(b, DT_BOOL, 5), &v) && v == 1);
  CHECK(!b_const_value(b, vec(b, 3), &v) && !b_const_value(b, b_const_c(b, DT_C64, 1, 2), &v) &&
        !b_const_value(b, BAD, &v));
  b_destroy(b);
}

void test_builder(void);
void test_builder(void) {
  RUN(errors_stick);
  RUN(every_verb_takes_bad);
  RUN(equal_nodes_are_one);
  RUN(nodes_stay_in_their_region);
  RUN(symbols);
  RUN(unused_nodes_are_not_printed);
  RUN(const_values);
}
