/* Unit tests of base/env. */
#include "base/env.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static bool good(const char *name, const char *value) {
  setenv(name, value, 1);
  tpu_error *e = env_check();
  unsetenv(name);
  bool ok = !e;
  if (e) CHECK(tpu_error_code(e) == TPU_VALUE && strstr(tpu_error_message(e), name));
  tpu_error_free(e);
  return ok;
}

static int64_t bytes(const char *value) {
  setenv("TORCH_TPU_MEMORY_LIMIT", value, 1);
  int64_t n = env_bytes("TORCH_TPU_MEMORY_LIMIT", -1);
  unsetenv("TORCH_TPU_MEMORY_LIMIT");
  CHECK_EQ(n >= 0 || !*value, good("TORCH_TPU_MEMORY_LIMIT", value));
  return n;
}

void test_env(void);
void test_env(void) {
  CHECK_EQ(bytes(""), -1);
  CHECK_EQ(bytes("0"), 0);
  CHECK_EQ(bytes("1500000"), 1500000);
  CHECK_EQ(bytes("2g"), (int64_t)2 << 30);
  CHECK_EQ(bytes("1.5K"), 1536);
  CHECK_EQ(bytes("512MiB"), (int64_t)512 << 20);
  CHECK_EQ(bytes("1TB"), (int64_t)1 << 40);
  const char *bad[] = {"banana", "-1", "5X", "5MB2", "1e30", "nan", "G", "5ii"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK_EQ(bytes(bad[i]), -1);

  CHECK(good("TORCH_TPU_EAGER_MODE", "") && good("TORCH_TPU_EAGER_MODE", "fused"));
  CHECK(!good("TORCH_TPU_EAGER_MODE", "fuse") && !good("TORCH_TPU_EAGER_MODE", "FUSED"));
  CHECK(good("TORCH_TPU_CACHE", "0") && !good("TORCH_TPU_CACHE", "no"));
  const char *flags[] = {"TPU_LAUNCH_BLOCKING", "TORCH_TPU_DEFER_AND_FUSE", "TPU_DEFER_AND_FUSE"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    CHECK(good(flags[i], "1") && good(flags[i], "0") && good(flags[i], "true") && good(flags[i], "False"));
    CHECK(!good(flags[i], "2") && !good(flags[i], "yes") && !good(flags[i], "fused"));
  }
  const char *on[] = {"1", "on", "true", "True"}, *off[] = {"0", "off", "false", "False"};
  for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
    setenv(flags[0], on[i], 1);
    CHECK(env_flag(flags[0], false));
    setenv(flags[0], off[i], 1);
    CHECK(!env_flag(flags[0], true));
  }
  setenv(flags[0], "", 1);
  CHECK(env_flag(flags[0], true) && !env_flag(flags[0], false));
  unsetenv(flags[0]);
  CHECK(good("TORCH_TPU_DUMP", "/tmp") && !good("TORCH_TPU_DUMP", "/nowhere/at/all"));
  CHECK(!good("TORCH_TPU_FALLBACK", "cpu") && !good("TORCH_TPU_SIZES", "generic"));
  CHECK(!env_is("TORCH_TPU_SIZES", "auto"));
}
