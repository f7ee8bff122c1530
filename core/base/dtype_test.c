/* Unit tests of base/dtype. */
#include "base/dtype.h"

#include "test.h"

/* Some rows of torch.promote_types and torch.can_cast; the whole table is compared from Python. */
void test_dtype(void);
void test_dtype(void) {
  for (int a = 0; a < DT_COUNT; a++) {
    CHECK_EQ(tpu_dtype_from_torch(tpu_dtypes[a].torch), a);
    CHECK_EQ(dt_promote(a, a), a);
    CHECK(dt_can_cast(a, a));
    for (int b = 0; b < DT_COUNT; b++) CHECK_EQ(dt_promote(a, b), dt_promote(b, a));
  }
  CHECK_EQ(dt_promote(DT_U8, DT_I8), DT_I16);
  CHECK_EQ(dt_promote(DT_U8, DT_I64), DT_I64);
  CHECK_EQ(dt_promote(DT_BOOL, DT_U8), DT_U8);
  CHECK_EQ(dt_promote(DT_I64, DT_F16), DT_F16);
  CHECK_EQ(dt_promote(DT_F16, DT_BF16), DT_F32);
  CHECK_EQ(dt_promote(DT_BF16, DT_C64), DT_C64);
  CHECK_EQ(dt_promote(DT_F64, DT_C64), DT_C128);
  CHECK_EQ(dt_promote(DT_U16, DT_F16), DT_F16);
  CHECK_EQ(dt_promote(DT_U16, DT_I32), DT_NONE);
  CHECK_EQ(dt_promote(DT_F8E5M2, DT_F32), DT_NONE);
  CHECK(!dt_can_cast(DT_C64, DT_F32) && !dt_can_cast(DT_F32, DT_I64) && !dt_can_cast(DT_I32, DT_BOOL));
  CHECK(dt_can_cast(DT_F64, DT_F16) && dt_can_cast(DT_I64, DT_U8) && dt_can_cast(DT_BOOL, DT_I8));
  CHECK_EQ(dt_acc(DT_BF16), DT_F32);
  CHECK_EQ(dt_acc(DT_F8E4M3FN), DT_F32);
  CHECK_EQ(dt_acc(DT_F64), DT_F64);
  CHECK_EQ(dt_real(DT_C128), DT_F64);
  CHECK_EQ(dt_complex(DT_BF16), DT_C64);
  CHECK_EQ(tpu_dtype_from_torch(12), DT_NONE); /* quantised */
  CHECK_STR(tpu_dtype_torch_name(DT_I64), "Long");
}
