/* rt/ against a real CPU plugin, whose path is the argument: upload, compile, execute, read, serialise,
 * donate, several devices, errors, interrupts, and what a launch costs. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rt/rt_int.h"
#include "test.h"

TEST_COUNTERS;

#define ADD4                                                                                      \
  "module {\n  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {\n" \
  "    %0 = stablehlo.add %a, %b : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n"
#define ADD4_DONATE                                                                                          \
  "module {\n  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) " \
  "-> tensor<4xf32> {\n"                                                                                     \
  "    %0 = stablehlo.add %a, %b : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n"
#define NOTHING "module {\n  func.func public @main(%a: tensor<4xf32>) {\n    return\n  }\n}\n"
#define MAX4                                                                                    \
  "module {\n  func.func public @main(%a: tensor<4xf32>, %b: tensor<f32>) -> tensor<f32> {\n"   \
  "    %0 = stablehlo.reduce(%a init: %b) applies stablehlo.maximum across dimensions = [0] : " \
  "(tensor<4xf32>, tensor<f32>) -> tensor<f32>\n    return %0 : tensor<f32>\n  }\n}\n"

static const int64_t four[] = {4};

static rt_exec *compile(const char *mlir) {
  rt_exec *e = NULL;
  CHECK_OK(rt_compile(mlir, strlen(mlir), NULL, NULL, &e));
  return e;
}

static PJRT_Buffer *vec(float a, float b, float c, float d, int device) {
  float v[] = {a, b, c, d};
  PJRT_Buffer *buf = NULL;
  CHECK_OK(rt_upload(v, DT_F32, four, 1, NULL, device, &buf));
  return buf;
}

static bool equals(PJRT_Buffer *b, float x, float y, float z, float w) {
  float v[4] = {0};
  CHECK_OK(rt_download(b, v, sizeof v));
  return v[0] == x && v[1] == y && v[2] == z && v[3] == w;
}

static void add_everywhere(rt_exec *e) {
  for (int d = 0; d < rt_device_count(); d++) {
    PJRT_Buffer *args[2] = {vec(1, 2, 3, 4, d), vec(10, 20, 30, (float)d, d)}, *out = NULL;
    CHECK_OK(rt_execute(e, d, args, 2, NULL, 0, &out, 1));
    CHECK(equals(out, 11, 22, 33, 4 + (float)d));
    CHECK_OK(rt_buffer_check(out, DT_F32, four, 1));
    CHECK_ERR(rt_buffer_check(out, DT_I32, four, 1), "Float[4]");
    CHECK_OK(rt_sync(d));
    rt_buffer_free(out);
    rt_buffer_free(args[0]);
    rt_buffer_free(args[1]);
  }
  CHECK_OK(rt_sync(-1));
}

static void test_add(void) {
  rt_exec *e = compile(ADD4);
  if (!e) return;
  CHECK_EQ(rt_exec_num_outputs(e), 1);
  add_everywhere(e);
  text bytes = {0};
  CHECK_OK(rt_exec_serialize(e, &bytes));
  CHECK(bytes.n > 100);
  rt_exec *again = NULL;
  CHECK_OK(rt_exec_load(bytes.p, bytes.n, &again));
  if (again) add_everywhere(again);
  rt_exec *none = NULL;
  CHECK_ERR(rt_exec_load(bytes.p, bytes.n / 2, &none), "");
  rt_exec_free(again);
  rt_exec_free(e);
  text_free(&bytes);
}

static void test_transfers(void) {
  float m[2][3] = {{1, 2, 3}, {4, 5, 6}}, back[6] = {0};
  int64_t dims[] = {3, 2}, strides[] = {4, 12}, zero[] = {0, 3};
  PJRT_Buffer *t = NULL, *copy = NULL, *empty = NULL;
  CHECK_OK(rt_upload(m, DT_F32, dims, 2, strides, 0, &t));
  CHECK_OK(rt_download(t, back, sizeof back));
  CHECK(back[0] == 1 && back[1] == 4 && back[2] == 2 && back[5] == 6);
  for (int d = 0; d < rt_device_count(); d++) {
    CHECK_OK(rt_copy_to_device(t, d, &copy));
    memset(back, 0, sizeof back);
    if (copy) CHECK_OK(rt_download(copy, back, sizeof back));
    CHECK(back[1] == 4);
    rt_buffer_free(copy);
  }
  rt.is_cpu = false; /* the road of a device whose memory we cannot read */
  memset(back, 0, sizeof back);
  CHECK_OK(rt_download(t, back, sizeof back));
  CHECK(back[0] == 1 && back[1] == 4 && back[2] == 2 && back[5] == 6);
  rt.is_cpu = true;
  CHECK_OK(rt_upload(NULL, DT_F32, zero, 2, NULL, 0, &empty));
  CHECK_OK(rt_download(empty, NULL, 0));
  CHECK_ERR(rt_download(t, back, 4), "another size");
  for (int dt = 0; dt < DT_COUNT; dt++) {
    PJRT_Buffer *b = NULL;
    char in[64], out[64] = {0};
    memset(in, 1, sizeof in);
    CHECK_OK(rt_upload(in, dt, four, 1, NULL, 0, &b));
    CHECK_OK(rt_buffer_check(b, dt, four, 1));
    CHECK_OK(rt_download(b, out, 4u * dt_bytes(dt)));
    CHECK(!memcmp(in, out, 4u * dt_bytes(dt)));
    rt_buffer_free(b);
  }
  rt_buffer_free(t);
  rt_buffer_free(empty);
}

static void test_donation(void) {
  rt_exec *e = compile(ADD4_DONATE);
  if (!e) return;
  PJRT_Buffer *args[2] = {vec(1, 2, 3, 4, 0), vec(1, 1, 1, 1, 0)}, *out = NULL, *out2 = NULL;
  int64_t keep[] = {0};
  CHECK_OK(rt_execute(e, 0, args, 2, keep, 1, &out, 1));
  CHECK(equals(args[0], 1, 2, 3, 4));
  const void *before = NULL, *after = NULL;
  CHECK_OK(rt_host_pointer(args[0], &before));
  CHECK_OK(rt_execute(e, 0, args, 2, NULL, 0, &out2, 1));
  CHECK(equals(out2, 2, 3, 4, 5));
  CHECK_OK(rt_host_pointer(out2, &after));
  CHECK(before == after);
  CHECK_ERR(rt_await(args[0]), "");
  rt_buffer_free(args[0]);
  rt_buffer_free(args[1]);
  rt_buffer_free(out);
  rt_buffer_free(out2);
  rt_exec_free(e);
}

static void test_errors(void) {
  rt_exec *e = NULL;
  CHECK_ERR(rt_compile("not mlir", 8, NULL, NULL, &e), "");
  CHECK_ERR(rt_compile("", 0, NULL, NULL, &e), "empty");
  e = compile(NOTHING);
  if (!e) return;
  PJRT_Buffer *a = vec(1, 2, 3, 4, 0), *out = NULL, *two[2] = {a, NULL};
  CHECK_EQ(rt_exec_num_outputs(e), 0);
  CHECK_OK(rt_execute(e, 0, &a, 1, NULL, 0, NULL, 0));
  CHECK_OK(rt_sync(0));
  CHECK_ERR(rt_execute(e, 0, &a, 1, NULL, 0, &out, 1), "outputs");
  CHECK_ERR(rt_execute(e, 0, two, 2, NULL, 0, NULL, 0), "missing");
  CHECK_ERR(rt_execute(e, 99, &a, 1, NULL, 0, NULL, 0), "tpu:99");
  CHECK_ERR(rt_execute(e, 0, NULL, 0, NULL, 0, NULL, 0), "");
  rt_buffer_free(a);
  rt_exec_free(e);
  int64_t huge[] = {INT64_MAX, 4};
  CHECK_ERR(rt_upload("", DT_F32, huge, 2, NULL, 0, &out), "too large");
}

static void test_nan(void) {
  rt_exec *e = compile(MAX4);
  if (!e) return;
  float low = -INFINITY;
  PJRT_Buffer *args[2] = {vec(1, NAN, 3, 4, 0), NULL}, *out = NULL;
  CHECK_OK(rt_upload(&low, DT_F32, NULL, 0, NULL, 0, &args[1]));
  CHECK_OK(rt_execute(e, 0, args, 2, NULL, 0, &out, 1));
  float r = 0;
  CHECK_OK(rt_download(out, &r, 4));
  CHECK(isnan(r));
  rt_buffer_free(args[0]);
  rt_buffer_free(args[1]);
  rt_buffer_free(out);
  rt_exec_free(e);
}

static void test_events(void) {
  text t = {0}; /* a chain of dots: some ms of asynchronous work */
  text_str(&t, "module {\n  func.func public @main(%0: tensor<512x512xf32>) -> tensor<512x512xf32> {\n");
  for (int i = 0; i < 8; i++) {
    text_printf(
        &t,
        "    %%%d = stablehlo.dot_general %%%d, %%0, contracting_dims = [1] x [0] : (tensor<512x512xf32>, "
        "tensor<512x512xf32>) -> tensor<512x512xf32>\n",
        i + 1, i);
  }
  text_str(&t, "    return %8 : tensor<512x512xf32>\n  }\n}\n");
  rt_exec *e = compile(t.p);
  text_free(&t);
  if (!e) return;
  float *m = calloc(512 * 512, sizeof *m);
  int64_t dims[] = {512, 512};
  PJRT_Buffer *a = NULL, *out = NULL;
  CHECK_OK(rt_upload(m, DT_F32, dims, 2, NULL, 0, &a));
  rt_event *start = rt_event_record(0);
  for (int i = 0; i < 4; i++) {
    CHECK_OK(rt_execute(e, 0, &a, 1, NULL, 0, &out, 1));
    rt_buffer_free(out); /* dropped at once: sync must still see it */
  }
  rt_event *end = rt_event_record(0);
  CHECK(rt_event_ready(start));
  CHECK(!rt_event_ready(end));
  CHECK_OK(rt_sync(0));
  CHECK(rt_event_ready(end));
  usleep(50000);
  double ms = (double)(rt_event_time_ns(end) - rt_event_time_ns(start)) / 1e6;
  printf("four chains of eight dots of 512: %.1f ms by events\n", ms);
  CHECK(ms > 1);
  rt_event_free(start);
  rt_event_free(end);
  rt_buffer_free(a);
  rt_exec_free(e);
  free(m);
}

static atomic_int late_calls;
static void take_late(void *ctx, rt_exec *e) {
  (void)ctx;
  rt_exec_free(e);
  atomic_fetch_add(&late_calls, 1);
}
static int give_up(void) { return 1; }

/* A module that takes a second or so. */
static void slow_module(text *t, int n) {
  text_str(t, "module {\n  func.func public @main(%v0: tensor<64xf32>) -> tensor<64xf32> {\n");
  for (int i = 0; i < n; i++) {
    text_printf(
        t,
        "    %%s%d = stablehlo.sine %%v%d : tensor<64xf32>\n    %%r%d = stablehlo.reverse %%s%d, dims = [0] "
        ": tensor<64xf32>\n    %%v%d = stablehlo.add %%r%d, %%v%d : tensor<64xf32>\n",
        i, i, i, i, i + 1, i, i);
  }
  text_printf(t, "    return %%v%d : tensor<64xf32>\n  }\n}\n", n);
}

static void test_interrupt(void) {
  text t = {0};
  slow_module(&t, 150);
  rt_exec *e = NULL;
  rt_interrupt_hook = give_up;
  CHECK_ERR(rt_compile(t.p, t.n, take_late, NULL, &e), "interrupted");
  rt_interrupt_hook = NULL;
  for (int i = 0; i < 600 && !atomic_load(&late_calls); i++) usleep(50000);
  CHECK_EQ(atomic_load(&late_calls), 1);
  text_free(&t);
}

static void test_fork(void) {
  fflush(stdout);
  pid_t pid = fork();
  if (!pid) {
    tpu_error *e = rt_open();
    bool ok = e && strstr(tpu_error_message(e), "'spawn' start method") && !rt_is_open();
    rt_buffer_free((PJRT_Buffer *)8); /* must not be looked at */
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* rt_execute beside the bare plugin call, the medians of many batches. */
static void bench_execute(void) {
  enum { BATCHES = 400, EACH = 100 };
  rt_exec *e = compile(ADD4);
  if (!e) return;
  PJRT_Buffer *args[2] = {vec(1, 2, 3, 4, 0), vec(1, 2, 3, 4, 0)}, *out, **outs = &out;
  PJRT_Buffer *const *list = args;
  static int64_t ours[BATCHES], bare[BATCHES], freed[BATCHES];
  struct {
    PJRT_LoadedExecutable *loaded;
  } *inside = (void *)e;
  for (int b = 0; b < BATCHES; b++) {
    int64_t t0 = now();
    for (int i = 0; i < EACH; i++) {
      tpu_error_free(rt_execute(e, 0, args, 2, NULL, 0, &out, 1));
      rt_buffer_free(out);
    }
    int64_t t1 = now();
    for (int i = 0; i < EACH; i++) {
      PJRT_ARGS(pjrt_execute_options, options);
      PJRT_ARGS(pjrt_execute, a, .executable = inside->loaded, .options = options, .argument_lists = &list,
                .num_devices = 1, .num_args = 2, .output_lists = &outs, .device = rt.devices[0].device);
      tpu_error_free(rt_call(PJRT_LOADED_EXECUTE, a));
      rt_destroy(PJRT_BUFFER_DESTROY, out);
    }
    int64_t t2 = now();
    for (int i = 0; i < EACH; i++) CHECK(rt_is_ready(args[0]));
    ours[b] = (t1 - t0) / EACH, bare[b] = (t2 - t1) / EACH, freed[b] = (now() - t2) / EACH;
  }
  qsort(ours, BATCHES, sizeof *ours, by_size);
  qsort(bare, BATCHES, sizeof *bare, by_size);
  qsort(freed, BATCHES, sizeof *freed, by_size);
  printf("execute + free of add f32[4]: rt %lld ns (min %lld), bare plugin %lld ns (min %lld); is_ready %lld "
         "ns\n",
         (long long)ours[BATCHES / 2], (long long)ours[0], (long long)bare[BATCHES / 2], (long long)bare[0],
         (long long)freed[BATCHES / 2]);
  CHECK_OK(rt_sync(-1));
  rt_buffer_free(args[0]);
  rt_buffer_free(args[1]);
  rt_exec_free(e);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: real_smoke PLUGIN\n");
    return 2;
  }
  setenv("TORCH_TPU_PJRT_PLUGIN", argv[1], 1);
  setenv("TORCH_TPU_NUM_DEVICES", "3", 1);
  setenv("XLA_FLAGS", "--no_such_flag=1", 1);
  CHECK_ERR(rt_open(), "XLA_FLAGS");
  unsetenv("XLA_FLAGS");
  CHECK_OK(rt_open());
  if (!rt_is_open()) return test_report();
  const rt_info *info = rt_get_info();
  printf("%s, %s, api 0.%d, stablehlo %s, %d devices of kind %s\n", info->platform, info->platform_version,
         info->api_minor, info->stablehlo_version, info->device_count, rt_device_kind(0));
  printf("fingerprint %s\n", info->fingerprint);
  CHECK_EQ(rt_device_count(), 3);
  CHECK(info->is_cpu);
  RUN(test_add);
  RUN(test_transfers);
  RUN(test_donation);
  RUN(test_errors);
  RUN(test_nan);
  RUN(test_events);
  RUN(test_interrupt);
  RUN(test_fork);
  RUN(bench_execute);
  return test_report();
}
