/* The dtypes of the core; rows in dtype.def. */
#ifndef TPU_BASE_DTYPE_H
#define TPU_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tpu_dtype {
#define DTYPE(NAME, torch, mlir, pjrt, bytes, cls) DT_##NAME,
#include "base/dtype.def"
#undef DTYPE
  DT_COUNT,
  DT_NONE = -1
} tpu_dtype;

typedef enum tpu_dtype_class { DTC_B, DTC_U, DTC_I, DTC_F, DTC_C } tpu_dtype_class;

typedef struct tpu_dtype_info {
  const char *name; /* "F32" */
  const char *mlir; /* "f32" */
  int16_t torch;    /* c10::ScalarType */
  int16_t pjrt;     /* PJRT_Buffer_Type */
  uint8_t bytes;    /* of one element */
  uint8_t cls;      /* tpu_dtype_class */
} tpu_dtype_info;

extern const tpu_dtype_info tpu_dtypes[DT_COUNT];

/* DT_NONE for a ScalarType that XLA does not have. */
tpu_dtype tpu_dtype_from_torch(int scalar_type);
/* "Float", "Long", "BFloat16", ...: the word PyTorch uses in its messages. */
const char *tpu_dtype_torch_name(tpu_dtype dt);

static inline uint8_t dt_bytes(tpu_dtype dt) { return tpu_dtypes[dt].bytes; }
static inline bool dt_is_complex(tpu_dtype dt) { return tpu_dtypes[dt].cls == DTC_C; }
static inline bool dt_is_float(tpu_dtype dt) { return tpu_dtypes[dt].cls == DTC_F; }
static inline bool dt_is_int(tpu_dtype dt) { /* bool is not one */
  return tpu_dtypes[dt].cls == DTC_I || tpu_dtypes[dt].cls == DTC_U;
}
static inline bool dt_is_integral(tpu_dtype dt) { return tpu_dtypes[dt].cls <= DTC_I; } /* with bool */
static inline bool dt_is_unsigned(tpu_dtype dt) { return tpu_dtypes[dt].cls == DTC_U; }
static inline bool dt_is_low(tpu_dtype dt) { return dt_is_float(dt) && dt_bytes(dt) < 4; }
/* C64 -> F32, C128 -> F64, others themselves. */
tpu_dtype dt_real(tpu_dtype dt);
/* F64 -> C128, others -> C64. */
tpu_dtype dt_complex(tpu_dtype dt);
/* What sums and dots accumulate in: F16, BF16 and F8 in F32; others themselves. */
tpu_dtype dt_acc(tpu_dtype dt);
/* PyTorch's promotion of two array dtypes of the same category rank (the c10 lattice). DT_NONE where PyTorch
 * has no common type (float8 with anything else, uint16/32/64 with other integers). */
tpu_dtype dt_promote(tpu_dtype a, tpu_dtype b);
/* c10::canCast: may a result of type `from` be written into `to` (no complex -> real, no float -> int)? */
bool dt_can_cast(tpu_dtype from, tpu_dtype to);

#endif
