/* The dtype table and PyTorch's promotion and casting rules: see dtype.h. Pure functions. */
#include "base/dtype.h"

#include <stddef.h>

const tpu_dtype_info tpu_dtypes[DT_COUNT] = {
#define DTYPE(NAME, torch_, mlir_, pjrt_, bytes_, cls_) \
  {.name = #NAME, .mlir = mlir_, .torch = torch_, .pjrt = pjrt_, .bytes = bytes_, .cls = DTC_##cls_},
#include "base/dtype.def"
#undef DTYPE
};

/* The words of PyTorch's messages, in the order of dtype.def. */
static const char *const torch_names[] = {
    "Bool",
    "Byte",
    "Char",
    "Short",
    "Int",
    "Long",
    "Half",
    "BFloat16",
    "Float",
    "Double",
    "ComplexFloat",
    "ComplexDouble",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float8_e5m2",
    "Float8_e4m3fn",
    "Float8_e5m2fnuz",
    "Float8_e4m3fnuz",
};
_Static_assert(sizeof torch_names / sizeof *torch_names == DT_COUNT, "a name a dtype");

tpu_dtype tpu_dtype_from_torch(int scalar_type) {
  static const int8_t known[] = {
#define DTYPE(NAME, torch_, mlir_, pjrt_, bytes_, cls_) [torch_] = DT_##NAME + 1,
#include "base/dtype.def"
#undef DTYPE
  };
  bool in = scalar_type >= 0 && (size_t)scalar_type < sizeof known;
  return in ? (tpu_dtype)(known[scalar_type] - 1) : DT_NONE;
}

const char *tpu_dtype_torch_name(tpu_dtype dt) {
  return dt >= 0 && dt < DT_COUNT ? torch_names[dt] : "Undefined";
}

tpu_dtype dt_real(tpu_dtype dt) { return dt == DT_C64 ? DT_F32 : dt == DT_C128 ? DT_F64 : dt; }

tpu_dtype dt_complex(tpu_dtype dt) { return dt == DT_F64 || dt == DT_C128 ? DT_C128 : DT_C64; }

tpu_dtype dt_acc(tpu_dtype dt) { return dt_is_low(dt) ? DT_F32 : dt; }

static bool is_float8(tpu_dtype dt) { return dt_is_float(dt) && dt_bytes(dt) == 1; }

/* uint16, uint32, uint64: c10 gives them storage, but no place in the lattice. */
static bool is_barebones(tpu_dtype dt) { return dt_is_unsigned(dt) && dt != DT_U8; }

static tpu_dtype promote_ints(tpu_dtype a, tpu_dtype b) {
  if (a == DT_BOOL) return b;
  if (b == DT_BOOL) return a;
  if (a == DT_U8 || b == DT_U8) { /* uint8 with int8 needs 16 bits */
    tpu_dtype other = a == DT_U8 ? b : a;
    return other == DT_I8 ? DT_I16 : other;
  }
  return dt_bytes(a) > dt_bytes(b) ? a : b;
}

tpu_dtype dt_promote(tpu_dtype a, tpu_dtype b) {
  if (a == b) return a;
  if (is_float8(a) || is_float8(b)) return DT_NONE;
  if (is_barebones(a) || is_barebones(b)) {
    return dt_is_float(a) ? a : dt_is_float(b) ? b : DT_NONE;
  }
  if (dt_is_integral(a) && dt_is_integral(b)) return promote_ints(a, b);
  if (dt_is_integral(a)) return b;
  if (dt_is_integral(b)) return a;
  if (dt_is_complex(a) || dt_is_complex(b)) {
    bool wide = dt_bytes(dt_real(a)) == 8 || dt_bytes(dt_real(b)) == 8;
    return wide ? DT_C128 : DT_C64;
  }
  if (dt_bytes(a) == dt_bytes(b)) return DT_F32; /* f16 with bf16 */
  return dt_bytes(a) > dt_bytes(b) ? a : b;
}

bool dt_can_cast(tpu_dtype from, tpu_dtype to) {
  if (dt_is_complex(from) && !dt_is_complex(to)) return false;
  if (dt_is_float(from) && dt_is_int(to)) return false;
  return from == DT_BOOL || to != DT_BOOL;
}
