/* Unit tests of base/error. */
#include "base/error.h"

#include "test.h"

static tpu_error *fails(void) { return tpu_err(TPU_INDEX, "dim %d of %s", 3, "x"); }
static tpu_error *passes_up(void) {
  TRY(NULL);
  TRY(fails());
  return NULL;
}

void test_error(void);
void test_error(void) {
  tpu_error *e = passes_up();
  CHECK_EQ(tpu_error_code(e), TPU_INDEX);
  CHECK_STR(tpu_error_message(e), "dim 3 of x");
  e = tpu_err_prefix(e, "op %s", "sum");
  CHECK_EQ(tpu_error_code(e), TPU_INDEX);
  CHECK_STR(tpu_error_message(e), "op sum: dim 3 of x");
  tpu_error *copy = tpu_error_copy(e);
  tpu_error_free(e);
  CHECK_STR(tpu_error_message(copy), "op sum: dim 3 of x");
  tpu_error_free(copy);
  CHECK(!tpu_err_prefix(NULL, "nothing"));
  CHECK(!tpu_error_copy(NULL));
  tpu_error_free(NULL);
}
