/* Unit tests of base/text. */
#include "base/text.h"

#include "test.h"

void test_text(void);
void test_text(void) {
  text t = {0};
  text_i64(&t, 0);
  text_str(&t, " ");
  text_i64(&t, INT64_MIN);
  text_str(&t, " ");
  text_i64(&t, INT64_MAX);
  CHECK_STR(t.p, "0 -9223372036854775808 9223372036854775807");
  text_clear(&t);
  CHECK_STR(t.p, "");
  text_printf(&t, "%s", "");
  for (int i = 0; i < 1000; i++) text_printf(&t, "%03d", i);
  CHECK_EQ(t.n, 3000);
  CHECK_EQ(strlen(t.p), 3000);
  CHECK(!memcmp(t.p + 2997, "999", 3));
  text_clear(&t);
  text_add(&t, "a\0b", 3);
  CHECK(t.n == 3 && !memcmp(t.p, "a\0b", 4));
  text_free(&t);
  text_clear(&t);
  text_printf(&t, "%d", 7); /* straight into an empty one */
  CHECK_STR(t.p, "7");
  text_free(&t);
}
