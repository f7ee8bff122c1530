/* Unit tests of finding equal blocks. */
#include "step/repeat.h"

#include <string.h>

#include "test.h"

enum { N = 200 };

static uint32_t cuts_of(uint32_t n, const uint32_t *ids, const uint32_t *crossing, uint32_t *cuts) {
  uint32_t k = repeat_cuts(n, ids, crossing, cuts);
  for (uint32_t i = 0; i < k; i++) CHECK(cuts[i] > (i ? cuts[i - 1] : 0) && cuts[i] < n);
  return k;
}

/* 5 calls, then `copies` blocks of `period` calls, then 7. */
static uint32_t model(uint32_t *ids, uint32_t copies, uint32_t period) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < 5; i++) ids[n++] = 1000 + i;
  for (uint32_t c = 0; c < copies; c++)
    for (uint32_t i = 0; i < period; i++)
      ids[n++] = i % 3 ? i : 0; /* ops that come more than once in a block */
  for (uint32_t i = 0; i < 7; i++) ids[n++] = 2000 + i;
  return n;
}

static void blocks(void) {
  uint32_t ids[N] = {0}, cross[N + 1] = {0}, cuts[N], n = model(ids, 6, 14);
  CHECK_EQ(cuts_of(n, ids, cross, cuts), 7);
  for (uint32_t i = 0; i < 7; i++) CHECK_EQ(cuts[i], 5 + 14 * i);
}

/* Blocks begin where the fewest values cross. */
static void phases(void) {
  uint32_t ids[N] = {0}, cross[N + 1], cuts[N], n = model(ids, 6, 14);
  for (uint32_t i = 0; i <= N; i++) cross[i] = (i + 14 - 5) % 14 == 4 ? 1 : 5;
  CHECK_EQ(cuts_of(n, ids, cross, cuts), 6); /* one copy less */
  for (uint32_t i = 0; i < 6; i++) CHECK_EQ(cuts[i], 9 + 14 * i);
}

static void small(void) {
  uint32_t ids[N] = {0}, cross[N + 1] = {0}, cuts[N];
  CHECK_EQ(repeat_cuts(0, ids, cross, cuts), 0);
  CHECK_EQ(cuts_of(model(ids, 2, 20), ids, cross, cuts), 0); /* too few copies */
  CHECK_EQ(cuts_of(model(ids, 9, 3), ids, cross, cuts), 0);  /* too few ops in one */
  for (uint32_t i = 0; i < N; i++) ids[i] = i;
  CHECK_EQ(cuts_of(N, ids, cross, cuts), 0);
}

/* An encoder and a decoder. */
static void two_regions(void) {
  uint32_t ids[2 * N] = {0}, cross[2 * N + 1] = {0}, cuts[2 * N], n = model(ids, 6, 14),
                   m = model(ids + n, 5, 11);
  for (uint32_t i = n; i < n + m; i++) ids[i] += 100;
  CHECK_EQ(cuts_of(n + m, ids, cross, cuts), 7 + 6);
}

void test_repeat(void);
void test_repeat(void) {
  blocks();
  phases();
  small();
  two_regions();
}
