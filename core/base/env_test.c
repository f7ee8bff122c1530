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
  CHECK(good("TORCH_TPU_DUMP", "/tmp") && !good("TORCH_TPU_DUMP", "/nowhere/at/all"));
  CHECK(!good("TORCH_TPU_FALLBACK", "cpu") && !good("TORCH_TPU_SIZES", "generic"));
  CHECK(!env_is("TORCH_TPU_SIZES", "auto"));
}
