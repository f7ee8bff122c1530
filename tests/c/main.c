/* Runs the unit tests of the core: all modules, or those named on the command line. */
#include "test.h"

TEST_COUNTERS;

#define TEST(name) void test_##name(void);
#include "core_tests.inc"
#undef TEST

static const struct {
  const char *name;
  void (*run)(void);
} modules[] = {
#define TEST(name) {#name, test_##name},
#include "core_tests.inc"
#undef TEST
};

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    int wanted = argc == 1;
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], modules[i].name);
    if (!wanted) continue;
    int before = atomic_load(&test_failed);
    modules[i].run();
    if (atomic_load(&test_failed) != before) printf("FAILED %s\n", modules[i].name);
    fflush(stdout);
  }
  return test_report();
}
