/* The test harness: CHECK counts, a failure prints its place and goes on. One thread at a time, except
 * that CHECK may be used from several (the counters are atomic). */
#ifndef TPU_TESTS_TEST_H
#define TPU_TESTS_TEST_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

extern atomic_int test_passed, test_failed;

#define CHECK_(ok, ...)                                       \
  do {                                                        \
    if (ok) {                                                 \
      atomic_fetch_add(&test_passed, 1);                      \
    } else {                                                  \
      atomic_fetch_add(&test_failed, 1);                      \
      printf("%s:%d: in %s: ", __FILE__, __LINE__, __func__); \
      printf(__VA_ARGS__);                                    \
      printf("\n");                                           \
    }                                                         \
  } while (0)

#define CHECK(cond) CHECK_((cond), "%s", #cond)

/* Integers. */
#define CHECK_EQ(a, b)                                                             \
  do {                                                                             \
    intmax_t a_ = (intmax_t)(a), b_ = (intmax_t)(b);                               \
    CHECK_(a_ == b_, "%s is %" PRIdMAX ", not %" PRIdMAX " (%s)", #a, a_, b_, #b); \
  } while (0)

#define CHECK_STR(a, b)                                                                     \
  do {                                                                                      \
    const char *a_ = (a), *b_ = (b);                                                        \
    CHECK_(a_ && b_ && !strcmp(a_, b_), "%s is \"%s\", not \"%s\"", #a, a_ ? a_ : "(null)", \
           b_ ? b_ : "(null)");                                                             \
  } while (0)

/* A call that must succeed; its error is printed and freed. */
#define CHECK_OK(call)                                   \
  do {                                                   \
    tpu_error *e_ = (call);                              \
    CHECK_(!e_, "%s: %s", #call, tpu_error_message(e_)); \
    tpu_error_free(e_);                                  \
  } while (0)

/* A call that must fail with these words in its text. */
#define CHECK_ERR(call, words)                                                                  \
  do {                                                                                          \
    tpu_error *e_ = (call);                                                                     \
    CHECK_(e_ && strstr(tpu_error_message(e_), words), "%s: \"%s\" does not say \"%s\"", #call, \
           e_ ? tpu_error_message(e_) : "(no error)", words);                                   \
    tpu_error_free(e_);                                                                         \
  } while (0)

/* Runs a function of tests; names it when something in it failed. */
#define RUN(f)                                                           \
  do {                                                                   \
    int before_ = atomic_load(&test_failed);                             \
    f();                                                                 \
    if (atomic_load(&test_failed) != before_) printf("FAILED %s\n", #f); \
  } while (0)

/* To be expanded once, in the file with main. */
#define TEST_COUNTERS atomic_int test_passed, test_failed

/* Prints the last line; what main returns. */
static inline int test_report(void) {
  printf("%d passed, %d failed\n", atomic_load(&test_passed), atomic_load(&test_failed));
  return atomic_load(&test_failed) != 0;
}

#endif
