/* Unit tests of rt/ over the fake plugin, with a failure injected into every call once. */
#include "rt/rt.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_plugin.h"
#include "rt/rt_int.h"
#include "test.h"

#define ADD                                                                                               \
  "module {\n func.func public @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32> {tf.aliasing_output = 0 : " \
  "i32}) -> (tensor<2x2xf32> {x = 1 : i32}, tensor<i1>) {\n return\n }\n}\n"
#define NOTHING "func.func public @main(%a: tensor<2x2xf32>) {\n return\n}\n"

static const int64_t dims[] = {2, 2};

static tpu_error *upload(int device, PJRT_Buffer **out) {
  static const float v[] = {1, 2, 3, 4};
  return rt_upload(v, DT_F32, dims, 2, NULL, device, out);
}

static tpu_error *compile(const char *mlir, rt_exec **out) {
  return rt_compile(mlir, strlen(mlir), "a test", NULL, NULL, out);
}

/* What one scenario holds; freed as a whole, whatever was reached. */
typedef struct all {
  PJRT_Buffer *a, *b, *copy, *outs[2];
  rt_exec *add, *nothing, *loaded;
  rt_event *event;
  text bytes;
} all;

static void free_all(all *s) {
  PJRT_Buffer *buffers[] = {s->a, s->b, s->copy, s->outs[0], s->outs[1]};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) rt_buffer_free(buffers[i]);
  rt_exec_free(s->add);
  rt_exec_free(s->nothing);
  rt_exec_free(s->loaded);
  rt_event_free(s->event);
  text_free(&s->bytes);
}

static tpu_error *transfers(all *s) {
  float back[4];
  const void *p;
  int64_t used, limit;
  TRY(upload(0, &s->a));
  TRY(upload(1, &s->b));
  TRY(rt_copy_to_device(s->b, 0, &s->copy));
  TRY(rt_await(s->a));
  rt_is_ready(s->a);
  rt_memory_stats(0, &used, &limit);
  TRY(rt_download(s->a, back, sizeof back));
  CHECK(back[3] == 4);
  TRY(rt_host_pointer(s->a, &p));
  rt.is_cpu = false;
  tpu_error *e = rt_download(s->copy, back, sizeof back);
  rt.is_cpu = true;
  TRY(e);
  CHECK(back[2] == 3);
  return rt_buffer_check(s->a, DT_F32, dims, 2);
}

static tpu_error *launches(all *s) {
  TRY(compile(ADD, &s->add));
  CHECK_EQ(rt_exec_num_outputs(s->add), 2);
  TRY(compile(NOTHING, &s->nothing));
  TRY(rt_exec_serialize(s->add, &s->bytes));
  TRY(rt_exec_load(s->bytes.p, s->bytes.n, &s->loaded));
  PJRT_Buffer *args[] = {s->a, s->copy};
  int64_t keep[] = {1};
  TRY(rt_execute(s->loaded, 0, args, 2, keep, 1, s->outs, 2));
  TRY(rt_execute(s->nothing, 0, args, 1, NULL, 0, NULL, 0));
  fake_hold(true);
  tpu_error *e = rt_execute(s->nothing, 0, args, 1, NULL, 0, NULL, 0);
  s->event = rt_event_record(0);
  fake_hold(false);
  TRY(e);
  TRY(rt_event_wait(s->event));
  CHECK(rt_event_time_ns(s->event) > 0);
  return rt_sync(-1);
}

static tpu_error *scenario(void) {
  all s = {0};
  tpu_error *e = rt_open();
  if (!e) e = transfers(&s);
  if (!e) e = launches(&s);
  free_all(&s);
  rt_close_for_tests();
  return e;
}

static void faults(void) {
  fake_reset();
  CHECK_OK(scenario());
  CHECK_EQ(fake_live_total(), 0);
  int64_t n = 1;
  for (;; n++) {
    fake_fail_at(n);
    tpu_error *e = scenario();
    bool failed = fake_has_failed();
    if (e)
      CHECK_(strstr(tpu_error_message(e), "injected failure"), "call %d: %s", (int)n, tpu_error_message(e));
    tpu_error_free(e);
    CHECK_(fake_live_total() == 0, "call %d leaks %d", (int)n, (int)fake_live_total());
    fake_fail_at(0);
    if (!failed) break;
    CHECK_OK(scenario()); /* nothing is broken for good */
  }
  CHECK(n > 60);
}

static void guards(void) {
  PJRT_Buffer *a = NULL, *out[2], *two[2];
  rt_exec *add = NULL;
  CHECK_OK(rt_open());
  CHECK_OK(rt_open());
  CHECK_EQ(rt_device_count(), 2);
  CHECK_STR(rt_device_kind(0), "fake");
  CHECK_STR(rt_device_kind(7), "");
  CHECK_STR(rt_get_info()->stablehlo_version, "1.20.0");
  CHECK_OK(upload(0, &a));
  CHECK_OK(compile(ADD, &add));
  two[0] = a, two[1] = NULL;
  CHECK_ERR(rt_execute(add, 0, two, 2, NULL, 0, out, 2), "argument 1 of a program is missing");
  CHECK_ERR(rt_execute(add, 2, two, 2, NULL, 0, out, 2), "there is no device tpu:2");
  CHECK_ERR(rt_execute(add, 0, two, 2, NULL, 0, out, 1), "2 outputs");
  CHECK_ERR(rt_execute(add, 0, two, 1, NULL, 0, out, 2), "expected 2");
  CHECK_ERR(rt_execute(add, 1, (PJRT_Buffer *[]){a, a}, 2, NULL, 0, out, 2), "another device");
  int64_t negative[] = {-1}, huge[] = {INT64_MAX, 8}, none[] = {0, 5};
  CHECK_ERR(rt_upload("x", DT_F32, negative, 1, NULL, 0, out), "negative");
  CHECK_ERR(rt_upload("x", DT_F32, huge, 2, NULL, 0, out), "too large");
  CHECK_ERR(rt_upload("x", DT_COUNT, dims, 2, NULL, 0, out), "dtype");
  CHECK_ERR(rt_upload(NULL, DT_F32, dims, 2, NULL, 0, out), "no data");
  CHECK_ERR(rt_upload("x", DT_F32, dims, 2, NULL, -1, out), "tpu:-1");
  CHECK_ERR(rt_download(a, out, 4), "another size");
  CHECK_ERR(rt_buffer_check(a, DT_I32, dims, 2), "is Float[2, 2] where the program expects Int[2, 2]");
  CHECK_ERR(rt_buffer_check(a, DT_F32, dims, 1), "Float[2]");
  CHECK_ERR(rt_sync(5), "tpu:5");
  PJRT_Buffer *empty = NULL;
  CHECK_OK(rt_upload(NULL, DT_F32, none, 2, none, 0, &empty));
  CHECK_OK(rt_download(empty, NULL, 0));
  rt_buffer_free(empty);
  rt_buffer_free(NULL);
  rt_buffer_free(a);
  rt_exec_free(add);
  rt_exec_free(NULL);
  rt_event_free(NULL);
  rt_close_for_tests();
  CHECK_EQ(fake_live_total(), 0);
  CHECK_ERR(rt_await(NULL), "not open");
  CHECK_OK(rt_sync(-1));
}

static void add_kernel(void *ctx, const char *mlir, const fake_array *const *args, size_t nargs,
                       fake_array *const *outs, size_t nouts) {
  (void)mlir;
  CHECK(nargs == 2 && nouts == 2);
  const float *x = args[0]->data, *y = args[1]->data;
  for (int i = 0; i < 4; i++) ((float *)outs[0]->data)[i] = x[i] + y[i];
  ++*(int *)ctx;
}

static void donation(void) {
  int runs = 0;
  float v[4];
  PJRT_Buffer *a = NULL, *b = NULL, *outs[2] = {0};
  rt_exec *add = NULL;
  fake_set_kernel(add_kernel, &runs);
  CHECK_OK(rt_open());
  CHECK_OK(upload(0, &a));
  CHECK_OK(upload(0, &b));
  CHECK_OK(compile(ADD, &add));
  CHECK_OK(rt_execute(add, 0, (PJRT_Buffer *[]){a, b}, 2, (int64_t[]){1}, 1, outs, 2));
  CHECK_OK(rt_download(outs[0], v, sizeof v));
  CHECK(v[3] == 8 && runs == 1);
  rt_buffer_free(outs[0]);
  rt_buffer_free(outs[1]);
  CHECK_OK(rt_execute(add, 0, (PJRT_Buffer *[]){a, b}, 2, NULL, 0, outs, 2));
  CHECK_ERR(rt_download(b, v, sizeof v), "deleted or donated");
  CHECK_ERR(rt_execute(add, 0, (PJRT_Buffer *[]){a, b}, 2, NULL, 0, outs, 2), "deleted or donated");
  rt_buffer_free(outs[0]);
  rt_buffer_free(outs[1]);
  rt_buffer_free(a);
  rt_buffer_free(b);
  rt_exec_free(add);
  fake_reset();
  rt_close_for_tests();
}

static void *release_soon(void *unused) {
  usleep(30000);
  fake_hold(false);
  return unused;
}

/* More launches than the ring holds, all pending; and failures that only the device sees. */
static void in_flight(void) {
  PJRT_Buffer *a = NULL;
  rt_exec *nothing = NULL;
  CHECK_OK(rt_open());
  CHECK_OK(upload(0, &a));
  CHECK_OK(compile(NOTHING, &nothing));
  for (int round = 0; round < 2; round++) {
    fake_hold(true);
    fake_fail_launches(round ? "the chip is on fire" : NULL);
    for (int i = 0; i < RT_IN_FLIGHT; i++) CHECK_OK(rt_execute(nothing, 0, &a, 1, NULL, 0, NULL, 0));
    rt_event *e = rt_event_record(0), *other = rt_event_record(1);
    CHECK(!rt_event_ready(e) && rt_event_ready(other));
    fake_fail_launches(NULL);
    pthread_t t;
    CHECK(!pthread_create(&t, NULL, release_soon, NULL));
    CHECK_OK(rt_execute(nothing, 0, &a, 1, NULL, 0, NULL, 0)); /* waits for the oldest */
    if (round)
      CHECK_ERR(rt_event_wait(e), "on fire");
    else
      CHECK_OK(rt_event_wait(e));
    if (round) CHECK_ERR(rt_sync(0), "on fire");
    CHECK_OK(rt_sync(0));
    pthread_join(t, NULL);
    rt_event_free(e);
    rt_event_free(other);
  }
  fake_fail_launches("a quick failure");
  CHECK_ERR(rt_execute(nothing, 1, &a, 0, NULL, 0, NULL, 0), "expected 1");
  CHECK_OK(rt_execute(nothing, 0, &a, 1, NULL, 0, NULL, 0));
  CHECK_ERR(rt_sync(-1), "a quick failure");
  fake_reset();
  rt_buffer_free(a);
  rt_exec_free(nothing);
  rt_close_for_tests();
  CHECK_EQ(fake_live_total(), 0);
}

static void *launch_many(void *arg) {
  rt_exec *nothing = arg;
  PJRT_Buffer *a = NULL;
  CHECK_OK(upload(0, &a));
  for (int i = 0; i < 500; i++) {
    CHECK_OK(rt_execute(nothing, 0, &a, 1, NULL, 0, NULL, 0));
    if (i % 50 == 0) CHECK_OK(rt_sync(0));
    if (i % 20 == 0) rt_event_free(rt_event_record(0));
  }
  rt_buffer_free(a);
  return NULL;
}

static void threads(void) {
  rt_exec *nothing = NULL;
  pthread_t t[4];
  CHECK_OK(rt_open());
  CHECK_OK(compile(NOTHING, &nothing));
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&t[i], NULL, launch_many, nothing));
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  rt_exec_free(nothing);
  rt_close_for_tests();
  CHECK_EQ(fake_live_total(), 0);
}

static int hook_calls;
static int never(void) { return hook_calls++, 0; }
static int at_once(void) { return 1; }
static atomic_int came_late, failed_late;
static void late(void *ctx, rt_exec *e) {
  CHECK(ctx == &came_late);
  if (e)
    rt_exec_free(e);
  else
    atomic_fetch_add(&failed_late, 1);
  atomic_fetch_add(&came_late, 1);
}

static tpu_error *compile_late(const char *mlir) {
  rt_exec *e;
  tpu_error *error = rt_compile(mlir, strlen(mlir), "a test", late, &came_late, &e);
  CHECK(!e);
  return error;
}

static void *compile_elsewhere(void *arg) {
  rt_exec *e = NULL;
  *(tpu_error **)arg = compile(NOTHING, &e);
  rt_exec_free(e);
  return NULL;
}

static void interrupts(void) {
  rt_exec *e = NULL;
  CHECK_OK(rt_open());
  rt_interrupt_hook = never;
  fake_compile_ms(180);
  CHECK_OK(compile(NOTHING, &e));
  CHECK(hook_calls >= 2);
  rt_exec_free(e);
  rt_interrupt_hook = at_once;
  tpu_error *error = compile_late(NOTHING);
  CHECK(error && tpu_error_code(error) == TPU_INTERRUPTED);
  tpu_error_free(error);
  CHECK_ERR(compile_late("no program"), "interrupted"); /* fails later */
  CHECK_ERR(compile(NOTHING, &e), "interrupted");       /* freed later */
  CHECK(!rt_finish_compiles(at_once));                  /* leaves them behind */
  CHECK(rt_finish_compiles(NULL));
  CHECK_EQ(atomic_load(&came_late), 2);
  CHECK_EQ(atomic_load(&failed_late), 1);
  CHECK_EQ(fake_live(FAKE_EXECUTABLES), 0);
  rt_interrupt_hook = NULL;
  fake_reset();
  CHECK_ERR(compile("no program", &e), "@main"); /* the thread that leaves may, others not */
  pthread_t other;
  tpu_error *refused = NULL;
  CHECK(!pthread_create(&other, NULL, compile_elsewhere, &refused));
  pthread_join(other, NULL);
  CHECK_ERR(refused, "the process is ending");
  rt_close_for_tests();
  CHECK_EQ(fake_live_total(), 0);
}

/* A compile that another thread waits for is waited for, too. */
static void leaving_under_a_compile(void) {
  CHECK_OK(rt_open());
  fake_compile_ms(200);
  pthread_t other;
  tpu_error *error = NULL;
  CHECK(!pthread_create(&other, NULL, compile_elsewhere, &error));
  usleep(50000);
  CHECK(!rt_finish_compiles(at_once));
  CHECK(rt_finish_compiles(NULL));
  pthread_join(other, NULL);
  CHECK_OK(error);
  fake_reset();
  rt_close_for_tests();
  CHECK_EQ(fake_live_total(), 0);
}

static void forks(void) {
  PJRT_Buffer *a = NULL;
  CHECK_OK(rt_open());
  CHECK_OK(upload(0, &a));
  int64_t before = fake_live_total();
  fflush(stdout);
  pid_t pid = fork();
  if (!pid) {
    rt_buffer_free(a);
    tpu_error *e = rt_open();
    bool quiet = fake_live_total() == before && !rt_is_open() && e;
    _exit(quiet && !strncmp(tpu_error_message(e), "Cannot re-initialize the TPU runtime in forked", 46) ? 0
                                                                                                        : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK_EQ(status, 0);
  rt_buffer_free(a);
  rt_close_for_tests();
}

static void tables(void) {
  static PJRT_Api api;
  memcpy(&api, fake_api(), sizeof api);
  rt_use_api(&api);
  api.major = 1;
  CHECK_ERR(rt_open(), "speaks PJRT API 1.115");
  api.major = 0;
  api.struct_size = offsetof(PJRT_Api, fn[PJRT_BUFFER_UNSAFE_POINTER]);
  CHECK_ERR(rt_open(), "too old (PJRT API 0.115 without BUFFER_UNSAFE_POINTER)");
  api.struct_size = 3;
  CHECK_ERR(rt_open(), "needs 0.x");
  api.struct_size = sizeof api;
  api.fn[PJRT_LOADED_EXECUTE] = NULL;
  CHECK_ERR(rt_open(), "LOADED_EXECUTE");
  rt_use_api(fake_api());
  fake_client_error("The TPU is already in use by process with pid 7");
  CHECK_ERR(rt_open(), "another process holds the TPU");
  fake_client_error(NULL);
  const char *wrong[] = {"0", "x", "3x", "257", "-1"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    setenv("TORCH_TPU_NUM_DEVICES", wrong[i], 1);
    CHECK_ERR(rt_open(), "set it to a number from 1 to 256");
    CHECK_EQ(rt_device_count(), 1);
  }
  setenv("TORCH_TPU_NUM_DEVICES", "2", 1);
}

static void write_file(const char *path, const char *from, size_t n) {
  FILE *f = fopen(path, "w");
  CHECK(f && fwrite(from, 1, n, f) == n);
  fclose(f);
}

/* A library without its end, of each length; one whose header says something else. */
static void damaged(const char *library, const char *path) {
  FILE *f = fopen(library, "r");
  fseek(f, 0, SEEK_END);
  size_t n = (size_t)ftell(f);
  char *bytes = malloc(n);
  rewind(f);
  CHECK(fread(bytes, 1, n, f) == n);
  fclose(f);
  write_file(path, bytes, 0);
  CHECK_ERR(rt_open(), "the file is empty");
  for (size_t cut = 4; cut < n; cut += cut < 2000 ? 60 : n / 20) {
    write_file(path, bytes, cut);
    CHECK_ERR(rt_open(), "the file is cut short");
  }
  write_file(path, bytes, n - 1);
  CHECK_ERR(rt_open(), "the file is cut short");
  const struct {
    size_t at;
    const char *words;
  } wrong[] = {{4, "another kind of processor"}, /* class, byte order, type, machine, segment size */
               {5, "another kind of processor"},
               {16, "no library"},
               {18, "another kind of processor"},
               {54, "headers are of no known size"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    bytes[wrong[i].at] ^= 7;
    write_file(path, bytes, n);
    CHECK_ERR(rt_open(), wrong[i].words);
    bytes[wrong[i].at] ^= 7;
  }
  write_file(path, bytes, n);
  CHECK_ERR(rt_open(), "it has no GetPjrtApi");
  free(bytes);
}

static void files(void) {
  char dir[] = "/tmp/rt_test_XXXXXX", path[64];
  CHECK(mkdtemp(dir) != NULL);
  snprintf(path, sizeof path, "%s/plugin.so", dir);
  rt_use_api(NULL);
  unsetenv("TORCH_TPU_PJRT_PLUGIN");
  rt_forget_candidates();
  if (!rt_tpu_chips()) {
    CHECK(!rt_find_plugin().path);
    CHECK_EQ(rt_device_count(), 0);
    CHECK_ERR(rt_open(), "pip install lammps-jax-pjrt-cpu");
    rt_add_candidate("/usr/lib/libtpu.so", "package libtpu", false); /* no TPU here: passed over */
    rt_add_candidate(path, "package gone", true);                    /* does not exist: passed over */
    CHECK(!rt_find_plugin().path);
  }
  setenv("TORCH_TPU_PJRT_PLUGIN", path, 1);
  CHECK_ERR(rt_open(), "correct TORCH_TPU_PJRT_PLUGIN, or unset it");
  FILE *f = fopen(path, "w");
  fputs("not a shared object", f);
  fclose(f);
  CHECK_ERR(rt_open(), "the file is not in ELF format; correct TORCH_TPU_PJRT_PLUGIN");
  CHECK_EQ(rt_device_count(), 2);
  unsetenv("TORCH_TPU_PJRT_PLUGIN");
  if (!rt_tpu_chips()) CHECK_STR(rt_find_plugin().why, "package gone");
  setenv("TORCH_TPU_PJRT_PLUGIN", dir, 1);
  CHECK_ERR(rt_open(), "is not a file");
  Dl_info libm;
  double (*volatile function)(double) = cos;
  double (*address)(double) = function;
  void *p;
  memcpy(&p, &address, sizeof p);
  if (dladdr(p, &libm) && strstr(libm.dli_fname, "libm")) {
    setenv("TORCH_TPU_PJRT_PLUGIN", libm.dli_fname, 1);
    CHECK_ERR(rt_open(), "it has no GetPjrtApi");
    setenv("TORCH_TPU_PJRT_PLUGIN", path, 1);
    damaged(libm.dli_fname, path);
  }
  unsetenv("TORCH_TPU_PJRT_PLUGIN");
  unlink(path);
  rmdir(dir);
  rt_forget_candidates();
  rt_use_api(fake_api());
}

static void fingerprints(void) {
  CHECK_OK(rt_open());
  char *one = tpu_xstrdup(rt_get_info()->fingerprint);
  rt_close_for_tests();
  CHECK_OK(rt_open());
  CHECK_STR(rt_get_info()->fingerprint, one);
  rt_close_for_tests();
  setenv("XLA_FLAGS", "--x", 1);
  CHECK_OK(rt_open());
  CHECK(strcmp(rt_get_info()->fingerprint, one) != 0);
  rt_close_for_tests();
  unsetenv("XLA_FLAGS");
  char *file =
      rt_make_fingerprint("/proc/self/exe", fake_api(),
                          &(rt_info){.platform = "cpu", .platform_version = "1", .is_cpu = true}, "");
  CHECK(!strncmp(file, "size=", 5) && strstr(file, ";build=") && !strstr(file, ";build=;"));
  free(file);
  free(one);
}

/* Launches name no device where there is but one; programs of the two kinds do not mix. */
static void one_device(void) {
  CHECK_OK(rt_open());
  char *of_two = tpu_xstrdup(rt_get_info()->fingerprint);
  rt_close_for_tests();
  setenv("TORCH_TPU_NUM_DEVICES", "1", 1);
  CHECK_OK(rt_open());
  CHECK(strcmp(rt_get_info()->fingerprint, of_two) != 0);
  rt_exec *add;
  text bytes = {0};
  CHECK_OK(compile(ADD, &add));
  CHECK_OK(rt_exec_serialize(add, &bytes));
  CHECK(bytes.n > 4 && !memcmp(bytes.p, "BIND", 4));
  text_free(&bytes);
  rt_exec_free(add);
  rt_close_for_tests();
  free(of_two);
  donation();
  setenv("TORCH_TPU_NUM_DEVICES", "2", 1);
}

void test_rt(void);
void test_rt(void) {
  setenv("TORCH_TPU_NUM_DEVICES", "2", 1);
  rt_use_api(fake_api());
  RUN(faults);
  RUN(guards);
  RUN(donation);
  RUN(in_flight);
  RUN(threads);
  RUN(interrupts);
  RUN(leaving_under_a_compile);
  RUN(tables);
  RUN(files);
  RUN(fingerprints);
  RUN(one_device);
  RUN(forks);
  unsetenv("TORCH_TPU_NUM_DEVICES");
}
