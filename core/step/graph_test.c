/* Unit tests of compiled graphs over the fake plugin: recording, running, what is not kept, and every call
 * failing. */
#include "step/graph.h"

#include <stdlib.h>
#include <string.h>

#include "fake_plugin.h"
#include "rt/rt_int.h"
#include "test.h"
#include "tpu.h"

static const int64_t sizes[] = {4, 8}, strides[] = {8, 1};

static tpu_tensor tensor(tpu_storage *s) {
  return (tpu_tensor){.storage = s, .sizes = sizes, .strides = strides, .handle = s, .dtype = 6, .rank = 2};
}

static tpu_error *upload(tpu_storage **out) {
  static const float from[32];
  TRY(tpu_storage_new(0, sizeof from, out));
  tpu_tensor x = tensor(*out);
  return tpu_upload(from, 6, strides, &x);
}

static tpu_error *reading(tpu_storage *s) {
  float to[32];
  tpu_tensor x = tensor(s);
  return tpu_download(&x, to);
}

static tpu_error *unary(const char *name, tpu_storage *s, tpu_storage **out) {
  tpu_tensor x = tensor(s);
  tpu_arg arg = {.tag = TPU_A_TENSOR, .n = 1, .u.t = &x};
  tpu_call call = {.row = tpu_row_find(name), .nargs = 1, .args = &arg};
  if (!out) call.variant = TPU_INPLACE, call.outs = &x, call.nouts = 1;
  TRY(tpu_dispatch(&call));
  if (out) *out = call.results[0].storage;
  return NULL;
}

/* exp(a), b.neg_(); `reads`: and a look at the exp in the middle, which no recording survives. */
static tpu_error *calls(tpu_storage *a, tpu_storage *b, bool reads, tpu_storage **out) {
  TRY(unary("exp", a, out));
  if (reads) TRY(reading(*out));
  return unary("neg", b, NULL);
}

static tpu_error *record(tpu_graph *g, const tpu_graph_inputs *in, bool reads, const char **why) {
  tpu_philox philox = {1, 0};
  tpu_storage *exp = NULL;
  TRY(tpu_graph_begin(g, in, &philox));
  tpu_error *e = calls(in->tensors[0].storage, in->tensors[1].storage, reads, &exp);
  tpu_tensor out = tensor(exp);
  const tpu_graph_ending end = {.nouts = 1, .outs = &out, .philox = &philox};
  if (e)
    tpu_graph_abort();
  else
    e = tpu_graph_end(&end, why);
  if (!e) e = reading(exp);
  tpu_storage_free(exp);
  return e;
}

/* *ran: it was known. */
static tpu_error *run(tpu_graph *g, tpu_storage *a, tpu_storage *b, bool *ran) {
  tpu_tensor x[2] = {tensor(a), tensor(b)};
  const tpu_graph_inputs in = {.n = 2, .tensors = x};
  tpu_philox philox = {1, 0};
  tpu_graph_results r = {0};
  const char *why = NULL;
  TRY(tpu_graph_run(g, &in, &philox, ran, &r));
  if (!*ran) return record(g, &in, false, &why);
  CHECK_EQ(r.nouts, 1);
  CHECK_EQ(r.nstorages, 1);
  CHECK(r.outs[0].input < 0 && r.outs[0].view_of < 0 && r.outs[0].rank == 2);
  tpu_error *e = reading(r.storages[0]);
  tpu_storage_free(r.storages[0]);
  return e;
}

static tpu_graph *begin(tpu_storage **a, tpu_storage **b) {
  fake_reset();
  CHECK_OK(tpu_open());
  tpu_clear_programs();
  CHECK_OK(upload(a));
  CHECK_OK(upload(b));
  return tpu_graph_new("graph", 0, false, false, 0, NULL);
}

static void end(tpu_graph *g, tpu_storage *a, tpu_storage *b) {
  tpu_graph_free(g);
  tpu_storage_free(a);
  tpu_storage_free(b);
  tpu_clear_programs();
  rt_close_for_tests();
  CHECK_EQ(fake_live(FAKE_BUFFERS), 0);
}

static void recorded_once(void) {
  tpu_storage *a, *b;
  bool ran;
  tpu_graph *g = begin(&a, &b);
  CHECK_OK(run(g, a, b, &ran));
  CHECK(!ran);
  CHECK(!graph_records(0));
  for (int i = 0; i < 3; i++) {
    CHECK_OK(run(g, a, b, &ran));
    CHECK(ran);
  }
  CHECK_OK(run(g, a, a, &ran)); /* one storage twice is another graph */
  CHECK(!ran);
  tpu_clear_programs();
  CHECK_OK(run(g, a, b, &ran));
  CHECK(!ran);
  char *whole = tpu_graph_programs_json(g);
  CHECK(strstr(whole,
               "{\"inputs\": [0, 1], \"outputs\": [{\"slot\": 0}], \"run\": {\"launches\": [{\"program\": 0, "
               "\"operands\": [{\"input\": 0}, {\"input\": 1}], \"results\": [0, 1], \"check\": false}], "
               "\"texts\": [\"module @program"));
  free(whole);
  char *json = tpu_graph_json(g);
  CHECK(strstr(json, "\"ops\": 2") != NULL);
  free(json);
  end(g, a, b);
}

static void not_kept(void) {
  tpu_storage *a, *b;
  const char *why = NULL;
  bool ran;
  tpu_graph *g = begin(&a, &b);
  tpu_tensor x[2] = {tensor(a), tensor(b)};
  const tpu_graph_inputs in = {.n = 2, .tensors = x};
  CHECK_OK(record(g, &in, true, &why));
  CHECK(why && strstr(why, "host"));
  CHECK_OK(reading(b));
  tpu_philox philox = {1, 0};
  CHECK_OK(tpu_graph_begin(g, &in, &philox));
  CHECK_ERR(tpu_graph_begin(g, &in, &philox), "records a graph already");
  CHECK_OK(unary("neg", b, NULL));
  tpu_graph_abort();
  tpu_graph_abort();
  CHECK_OK(reading(b));
  CHECK_OK(run(g, a, b, &ran));
  CHECK(!ran);
  x[1].device = 1;
  tpu_graph_results r;
  CHECK_ERR(tpu_graph_run(g, &in, &philox, &ran, &r), "input 1 is on tpu:1");
  end(g, a, b);
}

/* Whatever call of the plugin fails: an error, nothing leaks, and what was lost says so when it is read. */
static void every_failure(void) {
  for (int64_t n = 1;; n++) {
    tpu_storage *a, *b;
    bool ran;
    tpu_graph *g = begin(&a, &b);
    fake_fail_at(n);
    tpu_error *first = run(g, a, b, &ran), *second = run(g, a, b, &ran), *third = run(g, a, b, &ran);
    bool failed = fake_has_failed();
    fake_fail_at(0);
    tpu_error *kept = reading(a), *written = reading(b);
    CHECK_OK(kept);
    if (!failed) {
      CHECK_OK(first);
      CHECK_OK(second);
      CHECK_OK(third);
      CHECK_OK(written);
    } else if (written) {
      CHECK(first || second || third);
    } else {
      CHECK_OK(run(g, a, b, &ran));
    }
    if (failed) {
      tpu_error_free(first);
      tpu_error_free(second);
      tpu_error_free(third);
      tpu_error_free(written);
    }
    tpu_error_free(tpu_synchronize(-1));
    end(g, a, b);
    if (!failed) break;
  }
}

void test_graph(void);
void test_graph(void) {
  setenv("TORCH_TPU_CACHE", "0", 1);
  rt_use_api(fake_api());
  CHECK_OK(tpu_set_mode(TPU_MODE_STRICT));
  RUN(recorded_once);
  RUN(not_kept);
  RUN(every_failure);
  fake_reset();
  rt_use_api(NULL);
}
