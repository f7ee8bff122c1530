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

void test_run(void);
void test_run(void) {
  setenv("TORCH_TPU_CACHE", "0", 1);
  rt_use_api(fake_api());
  RUN(platforms);
  CHECK_OK(tpu_set_mode(TPU_MODE_STRICT));
  fake_reset();
  rt_use_api(NULL);
}
