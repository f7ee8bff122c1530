/* Unit tests of launches over the fake plugin: what a program's text depends on besides its ops. */
#include "step/run.h"

#include <stdlib.h>

#include "fake_plugin.h"
#include "rt/rt_int.h"
#include "test.h"
#include "tpu.h"

/* amax over the last dim of f32[4, 8]: the CPU plugin needs a combiner of its own to keep NaN. */
static tpu_error *amax(tpu_storage *s, tpu_result *out) {
  static const int64_t sizes[] = {4, 8}, strides[] = {8, 1}, dim = 1;
  const tpu_tensor x = {.storage = s, .sizes = sizes, .strides = strides, .dtype = 6, .rank = 2};
  const tpu_arg args[] = {{.tag = TPU_A_TENSOR, .n = 1, .u.t = &x},
                          {.tag = TPU_A_INTS, .n = 1, .u.is = &dim},
                          {.tag = TPU_A_BOOL}};
  tpu_call call = {.row = tpu_row_find("amax"), .nargs = 3, .args = args};
  TRY(tpu_dispatch(&call));
  CHECK_EQ(call.nresults, 1);
  *out = call.results[0];
  return tpu_flush();
}

static tpu_error *scenario(const char *platform, tpu_mode mode, text *mlir) {
  fake_reset();
  fake_platform(platform);
  tpu_storage *s = NULL;
  tpu_result r = {0};
  TRY(tpu_open());
  TRY(tpu_set_mode(mode));
  tpu_clear_programs(); /* a process has one plugin; this one has two */
  TRY(tpu_storage_new(0, 4 * 8 * sizeof(float), &s));
  tpu_error *e = amax(s, &r);
  text_str(mlir, fake_last_program() ? fake_last_program() : "");
  tpu_storage_free(r.storage);
  tpu_storage_free(s);
  if (!e) e = tpu_synchronize(-1);
  rt_close_for_tests();
  return e;
}

/* The lowerings that go round the CPU plugin's slow and wrong spots reach no other plugin. */
static void platforms(void) {
  static const tpu_mode modes[] = {TPU_MODE_STRICT, TPU_MODE_FUSED};
  for (int i = 0; i < 2; i++) {
    text cpu = {0}, tpu = {0};
    CHECK_OK(scenario("cpu", modes[i], &cpu));
    CHECK_OK(scenario("tpu", modes[i], &tpu));
    CHECK(cpu.p && strstr(cpu.p, "stablehlo.reduce") && strstr(cpu.p, "stablehlo.compare"));
    CHECK(tpu.p && strstr(tpu.p, "stablehlo.reduce") && !strstr(tpu.p, "stablehlo.compare"));
    text_free(&cpu);
    text_free(&tpu);
  }
}

/* A unary op on f32[4, 8]; in place where out is NULL. */
static tpu_error *unary(const char *name, tpu_storage *s, tpu_result *out) {
  static const int64_t sizes[] = {4, 8}, strides[] = {8, 1};
  const tpu_tensor x = {.storage = s, .sizes = sizes, .strides = strides, .dtype = 6, .rank = 2};
  const tpu_arg arg = {.tag = TPU_A_TENSOR, .n = 1, .u.t = &x};
  tpu_call call = {.row = tpu_row_find(name), .nargs = 1, .args = &arg};
  if (!out) call.variant = TPU_INPLACE, call.outs = &x, call.nouts = 1;
  TRY(tpu_dispatch(&call));
  if (out) *out = call.results[0];
  return NULL;
}

static tpu_error *reading(tpu_storage *s) {
  static const int64_t sizes[] = {4, 8}, strides[] = {8, 1};
  const tpu_tensor x = {.storage = s, .sizes = sizes, .strides = strides, .dtype = 6, .rank = 2};
  float to[32];
  return tpu_download(&x, to);
}

static tpu_error *upload(tpu_storage **out) {
  static const int64_t sizes[] = {4, 8}, strides[] = {8, 1};
  static const float from[32];
  TRY(tpu_storage_new(0, sizeof from, out));
  const tpu_tensor x = {.storage = *out, .sizes = sizes, .strides = strides, .dtype = 6, .rank = 2};
  return tpu_upload(from, 6, strides, &x);
}

/* The error, or that there is none. */
static void says(tpu_error *e, const char *words) {
  if (words)
    CHECK_ERR(e, words);
  else
    CHECK_OK(e);
}

/* One step of exp(a), b.neg_(), sin of the exp, of which the plugin refuses the first n launches. */
static void refused(int n, bool take, const char *flushing, const char *a_exp, const char *b_neg) {
  tpu_storage *a, *b;
  tpu_result exp, sin;
  CHECK_OK(upload(&a));
  CHECK_OK(upload(&b));
  CHECK_OK(unary("exp", a, &exp));
  CHECK_OK(unary("neg", b, NULL));
  CHECK_OK(unary("sin", exp.storage, &sin));
  fake_refuse_launches(n, take);
  says(tpu_flush(), flushing);
  says(reading(exp.storage), a_exp);
  says(reading(sin.storage), a_exp);
  says(reading(b), b_neg);
  CHECK_OK(reading(a));
  tpu_storage_free(exp.storage);
  tpu_storage_free(sin.storage);
  tpu_storage_free(a);
  tpu_storage_free(b);
}

/* A fused step that fails as a whole loses what strict mode would have lost. */
static void op_by_op(void) {
  static const char named[] = "aten::exp: TPU out of memory. no room";
  fake_reset();
  CHECK_OK(tpu_open());
  CHECK_OK(tpu_set_mode(TPU_MODE_FUSED));
  refused(0, false, NULL, NULL, NULL);
  refused(1, false, NULL, NULL, NULL);
  refused(2, false, named, named, NULL);
  refused(1, true, "a step of 3 ops: TPU out", NULL, "a step of 3 ops: TPU out");
  CHECK_OK(tpu_set_mode(TPU_MODE_STRICT));
  tpu_storage *b; /* strict: the operand that the launch did not take is as it was */
  for (int take = 0; take < 2; take++) {
    CHECK_OK(upload(&b));
    fake_refuse_launches(1, take);
    CHECK_ERR(unary("neg", b, NULL), "aten::neg: TPU out of memory");
    says(reading(b), take ? "aten::neg: TPU out of memory" : NULL);
    tpu_storage_free(b);
  }
  CHECK_OK(tpu_synchronize(-1));
  tpu_clear_programs();
  rt_close_for_tests();
}

void test_run(void);
void test_run(void) {
  setenv("TORCH_TPU_CACHE", "0", 1);
  rt_use_api(fake_api());
  RUN(platforms);
  RUN(op_by_op);
  CHECK_OK(tpu_set_mode(TPU_MODE_STRICT));
  fake_reset();
  rt_use_api(NULL);
}
