/* Unit tests of base/arena. */
#include "base/arena.h"

#include <stdint.h>

#include "test.h"

static int all_zero(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (p[i]) return 0;
  }
  return 1;
}

void test_arena(void);
void test_arena(void) {
  arena a = {0};
  for (int round = 0; round < 3; round++) {
    for (size_t n = 0; n < 3000; n += 7) {
      unsigned char *p = arena_alloc(&a, n);
      CHECK((uintptr_t)p % 16 == 0 && all_zero(p, n));
      memset(p, 0xff, n);
    }
    unsigned char *big = arena_alloc(&a, 1 << 20);
    CHECK(all_zero(big, 1 << 20));
    CHECK_STR(arena_copy(&a, "abc", 4), "abc");
    CHECK(a.used > 1 << 20);
    arena_reset(&a);
    CHECK_EQ(a.used, 0);
  }
  arena_free(&a);
  arena_reset(&a);
  arena_free(&a);
}
