/* Numbers that a dtype cannot hold. See fits.h. */
#include "call/fits.h"

#include <float.h>
#include <math.h>
#include <string.h>

static double greatest(tpu_dtype dt) {
  switch (dt) {
  case DT_F16: return 65504;
  case DT_BF16: return 0x1.fep127;
  case DT_F32: return FLT_MAX;
  case DT_F8E4M3FN: return 448;
  case DT_F8E5M2:
  case DT_F8E5M2FNUZ: return 57344;
  case DT_F8E4M3FNUZ: return 240;
  default: return DBL_MAX;
  }
}

static double greatest_int(tpu_dtype dt) {
  return ldexp(1, 8 * dt_bytes(dt) - !dt_is_unsigned(dt));
} /* + 1 */

static bool double_fits(double v, tpu_dtype dt) {
  if (dt == DT_BOOL) return true;
  if (dt_is_int(dt)) {
    double end = greatest_int(dt);
    return v < end && v >= (dt_is_unsigned(dt) ? 0 : -end);
  }
  return !isfinite(v) || fabs(v) <= greatest(dt);
}

static bool int_fits(int64_t v, tpu_dtype dt) {
  if (!dt_is_int(dt)) return double_fits((double)v, dt);
  if (dt_bytes(dt) == 8) return true;
  int64_t end =
      (int64_t)greatest_int(dt); /* a negative one wraps in an unsigned type, unless it wraps twice */
  return v < end && (dt_is_unsigned(dt) ? v > -end : v >= -end);
}

bool number_fits(const tpu_arg *a, tpu_dtype dt) {
  switch ((tpu_tag)a->tag) {
  case TPU_A_SCALAR_I: return int_fits(a->u.i, dt_real(dt));
  case TPU_A_SCALAR_D: return double_fits(a->u.d, dt_real(dt));
  case TPU_A_SCALAR_C:
    if (dt == DT_BOOL) return true;
    if (!double_fits(a->u.ds[0], dt_real(dt))) return false;
    return dt_is_complex(dt) ? double_fits(a->u.ds[1], dt_real(dt)) : a->u.ds[1] == 0;
  default: return true;
  }
}

/* The name that a C++ compiler gives the type, which is what torch says. */
static const char *spelling(tpu_dtype dt) {
  static const char *const names[DT_COUNT] = {[DT_BOOL] = "bool",
                                              [DT_U8] = "uint8_t",
                                              [DT_I8] = "int8_t",
                                              [DT_I16] = "int16_t",
                                              [DT_I32] = "int",
                                              [DT_I64] = "int64_t",
                                              [DT_F16] = "c10::Half",
                                              [DT_BF16] = "c10::BFloat16",
                                              [DT_F32] = "float",
                                              [DT_F64] = "double",
                                              [DT_C64] = "c10::complex<float>",
                                              [DT_C128] = "c10::complex<double>",
                                              [DT_U16] = "uint16_t",
                                              [DT_U32] = "uint32_t",
                                              [DT_U64] = "uint64_t",
                                              [DT_F8E5M2] = "c10::Float8_e5m2",
                                              [DT_F8E4M3FN] = "c10::Float8_e4m3fn",
                                              [DT_F8E5M2FNUZ] = "c10::Float8_e5m2fnuz",
                                              [DT_F8E4M3FNUZ] = "c10::Float8_e4m3fnuz"};
  return names[dt];
}

/* hardtanh makes its limits whole numbers for integers, and refuses only negative ones. */
static tpu_error *limits_fit(const tpu_call *call, tpu_dtype dt) {
  for (int i = 1; dt == DT_U8 && i < call->nargs; i++) {
    const tpu_arg *a = &call->args[i];
    if ((a->tag == TPU_A_SCALAR_D && a->u.d <= -1) || (a->tag == TPU_A_SCALAR_I && a->u.i < 0))
      return tpu_err(TPU_RUNTIME, "cannot do hardtanh on an unsigned type with negative limits");
  }
  return NULL;
}

static tpu_error *lambda_fits(const tpu_call *call, tpu_dtype dt) {
  const tpu_arg *a = &call->args[1];
  double v = a->tag == TPU_A_SCALAR_D ? a->u.d : (double)a->u.i;
  if (!dt_is_float(dt) || (v >= 0 && v <= greatest(dt))) return NULL;
  return tpu_err(TPU_RUNTIME, "lambda must be in range [0, %g] for input dtype %s, but found %g",
                 greatest(dt), tpu_dtype_torch_name(dt), v);
}

tpu_error *call_numbers_fit(const tpu_call *call) {
  tpu_dtype dt = DT_NONE;
  if (call->nargs && call->args[0].tag == TPU_A_TENSOR) dt = tpu_dtype_from_torch(call->args[0].u.t->dtype);
  if (!strcmp(tpu_row_name(call->row), "hardtanh")) return limits_fit(call, dt);
  if (!strcmp(tpu_row_name(call->row), "softshrink")) return lambda_fits(call, dt);
  for (int i = 0; i < call->nargs; i++)
    if (call->args[i].tag == TPU_A_DTYPE) dt = tpu_dtype_from_torch((int)call->args[i].u.i);
  if (dt != DT_NONE && dt_is_integral(dt) && !strncmp(tpu_row_name(call->row), "clamp", 5))
    for (int i = 1; i < call->nargs; i++)
      if (call->args[i].tag > TPU_A_SCALAR_I) return NULL;        /* promotes */
  bool alone = !strcmp(tpu_row_name(call->row), "scalar_tensor"); /* makes 16-bit floats of doubles */
  if (alone && dt != DT_NONE && dt_is_low(dt)) dt = DT_F64;
  for (int i = 0; dt != DT_NONE && i < call->nargs; i++)
    if (!number_fits(&call->args[i], dt))
      return tpu_err(TPU_RUNTIME, "value cannot be converted to type %s without overflow", spelling(dt));
  return NULL;
}
