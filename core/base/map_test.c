/* Unit tests of base/map. */
#include "base/map.h"

#include "test.h"

enum { N = 5000 };
static int values[N];

static void *get(const map *m, int i, uint64_t h) { return map_get(m, &i, sizeof i, h); }

/* All hashes are given, so that every collision can be made to happen. */
static void with_hash(uint64_t (*hash)(int), int n) {
  map m = {0};
  for (int i = 0; i < n; i++) map_put(&m, &i, sizeof i, hash(i), &values[i]);
  CHECK_EQ(m.n, n);
  int right = 0;
  for (int i = 0; i < n; i++) right += get(&m, i, hash(i)) == &values[i];
  CHECK_EQ(right, n);
  int seen = 0;
  for (size_t it = 0; map_next(&m, &it);) seen++;
  CHECK_EQ(seen, m.n);
  map_free(&m);
}

static uint64_t good(int i) { return hash_bytes(&i, sizeof i); }
static uint64_t same(int i) { return (void)i, 42; }
static uint64_t clumped(int i) { return (uint64_t)(i % 5) - 2; } /* around the end of the table */

static void test_hash(void) {
  char buf[64];
  memset(buf, 7, sizeof buf);
  uint64_t seen[64];
  int same_hash = 0;
  for (size_t n = 0; n < 64; n++) {
    seen[n] = hash_bytes(buf, n);
    for (size_t k = 0; k < n; k++) same_hash += seen[k] == seen[n];
  }
  uint64_t whole = hash_bytes(buf, 64);
  for (size_t i = 0; i < 64; i++) { /* every byte counts */
    buf[i] ^= 1;
    same_hash += hash_bytes(buf, 64) == whole;
    buf[i] ^= 1;
  }
  CHECK_EQ(same_hash, 0);
}

void test_map(void);
void test_map(void) {
  with_hash(good, N);
  with_hash(same, 200);
  with_hash(clumped, 500);
  test_hash();
  map m = {0};
  CHECK(!map_get(&m, "a", 1, 1));
  map_put(&m, NULL, 0, 3, &values[1]);
  map_put(&m, "a", 1, 1, &values[0]);
  map_put(&m, "a", 1, 1, &values[2]);
  CHECK(map_get(&m, "a", 1, 1) == &values[2]);
  CHECK(map_get(&m, NULL, 0, 3) == &values[1]);
  CHECK_EQ(m.n, 2);
  map_free(&m);
}
