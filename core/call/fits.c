/* Numbers that a dtype cannot hold. See fits.h. */
#include "call/fits.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "lower/promote.h"
#include "step/step.h"

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

static tpu_error *fits(const tpu_arg *a, tpu_dtype dt) {
  if (number_fits(a, dt)) return NULL;
  return tpu_err(TPU_RUNTIME, "value cannot be converted to type %s without overflow", spelling(dt));
}

/* hardtanh makes its limits whole numbers for integers first. */
static tpu_error *limits_fit(const tpu_call *call, tpu_dtype dt) {
  for (int i = 1; dt != DT_NONE && i < call->nargs; i++) {
    tpu_arg a = call->args[i];
    if (a.tag == TPU_A_SCALAR_C) dt = dt_is_int(dt) ? DT_I64 : DT_F64;
    if (!dt_is_int(dt)) {
      TRY(fits(&a, dt));
      continue;
    }
    TRY(fits(&a, DT_I64));
    if (a.tag == TPU_A_SCALAR_D) a = (tpu_arg){.tag = TPU_A_SCALAR_I, .u.i = (int64_t)a.u.d};
    if (dt == DT_U8 && a.tag == TPU_A_SCALAR_I && a.u.i < 0)
      return tpu_err(TPU_RUNTIME, "cannot do hardtanh on an unsigned type with negative limits");
    TRY(fits(&a, dt));
  }
  return NULL;
}

static double real_of(const tpu_arg *a) {
  return a->tag == TPU_A_SCALAR_D ? a->u.d : a->tag == TPU_A_SCALAR_C ? a->u.ds[0] : (double)a->u.i;
}

static tpu_error *lambda_fits(const tpu_call *call, tpu_dtype dt) {
  const tpu_arg *a = &call->args[1];
  double v = real_of(a);
  TRY(fits(a, DT_F64));
  if (!dt_is_float(dt) || (v >= 0 && v <= greatest(dt))) return NULL;
  return tpu_err(TPU_RUNTIME, "lambda must be in range [0, %g] for input dtype %s, but found %g",
                 greatest(dt), tpu_dtype_torch_name(dt), v);
}

/* The range of histc, which is that of the data where its ends are equal. */
static tpu_error *range_fits(const tpu_call *call, tpu_dtype dt) {
  double min = real_of(&call->args[2]), max = real_of(&call->args[3]);
  TRY(fits(&call->args[2], DT_F64));
  TRY(fits(&call->args[3], DT_F64));
  if (min != max && !(isfinite(min) && isfinite(max)))
    return tpu_err(TPU_RUNTIME, "torch.histc: range of [%g, %g] is not finite", min, max);
  if (min > max) return tpu_err(TPU_RUNTIME, "torch.histc: max must be larger than min");
  if (dt == DT_NONE) return NULL;
  TRY(fits(&call->args[2], dt));
  return fits(&call->args[3], dt);
}

/* --- which numbers of which rows, against which dtype: as the CPU's kernels convert them --- */
enum {
  WIDE = 1,     /* kernels of 16-bit floats compute, and take the number, in float */
  COMMON = 2,   /* the dtype that the tensors, and the numbers that are not asked, promote to ... */
  PROMOTES = 4, /* ... and those that are */
  FLOATS = 8,   /* integers are asked about integers only: the lowering refuses others */
  REALS = 16,   /* nor is a complex number for a real dtype: the lowering has words of its own */
  POWER = 32,   /* only 16-bit floats, and integers for integers */
  DEFAULT = 64, /* the default dtype, whatever the tensors are */
  WHOLE = 128,  /* it becomes an int ... */
  DOUBLE = 256, /* ... a double */
  ALPHA = COMMON | FLOATS | REALS,
  ALL = ~0
};
typedef struct rule {
  const char *name; /* of all overloads */
  int args;         /* bit mask; a row may have several rules */
  int how;
} rule;
static const rule rules[] = {
    {"elu", ALL, WIDE},
    {"elu_backward", ALL, WIDE},
    {"leaky_relu", ALL, WIDE},
    {"leaky_relu_backward", ALL, WIDE},
    {"threshold", 1 << 1, WIDE},
    {"threshold", 1 << 2, 0},
    {"threshold_backward", ALL, WIDE},
    {"hardtanh_backward", ALL, WIDE},
    {"softplus", ALL, WIDE},
    {"softplus_backward", ALL, WIDE},
    {"rrelu_with_noise", ALL, WIDE},
    {"add", 1 << 2, ALPHA},
    {"sub", 1 << 2, ALPHA},
    {"rsub", 1 << 2, ALPHA},
    {"_foreach_add", 1 << 2, ALPHA},
    {"_foreach_sub", 1 << 2, ALPHA},
    {"_add_relu", 1 << 2, COMMON},
    {"pow", 1 << 1, POWER},
    {"_foreach_pow", 1 << 1, POWER},
    {"lerp", 1 << 2, COMMON | WIDE},
    {"_foreach_lerp", 1 << 2, COMMON | WIDE},
    {"addcmul", 1 << 3, COMMON | WIDE},
    {"addcdiv", 1 << 3, COMMON | WIDE},
    {"_foreach_addcmul", 1 << 3, COMMON | WIDE},
    {"_foreach_addcdiv", 1 << 3, COMMON | WIDE},
    {"addmm", ALL, WIDE},
    {"_addmm_activation", ALL, WIDE},
    {"baddbmm", ALL, WIDE},
    {"addbmm", ALL, WIDE},
    {"addr", ALL, COMMON | FLOATS},
    {"clamp", ALL, COMMON | PROMOTES},
    {"clamp_min", ALL, COMMON | PROMOTES},
    {"clamp_max", ALL, COMMON | PROMOTES},
    {"_foreach_maximum", ALL, COMMON | PROMOTES | REALS},
    {"_foreach_minimum", ALL, COMMON | PROMOTES | REALS},
    {"_foreach_clamp_min", ALL, COMMON | PROMOTES | REALS},
    {"_foreach_clamp_max", ALL, COMMON | PROMOTES | REALS},
    {"linspace", ALL, DEFAULT},
    {"logspace", 1 << 0 | 1 << 1, DEFAULT},
    {"multi_margin_loss", 1 << 2, WHOLE},
    {"multi_margin_loss", 1 << 3, 0},
    {"multi_margin_loss_backward", 1 << 3, WHOLE},
    {"multi_margin_loss_backward", 1 << 4, 0},
    {"_foreach_powsum", ALL, DOUBLE},
    {"std", ALL, DOUBLE},
    {"var", ALL, DOUBLE},
    {"std_mean", ALL, DOUBLE},
    {"var_mean", ALL, DOUBLE},
    {NULL, ALL, 0}, /* all others */
};

static bool is_rule_of(const rule *r, const char *row) {
  size_t n = strlen(r->name);
  return !strncmp(r->name, row, n) && (!row[n] || row[n] == '.');
}

static bool is_number(const tpu_arg *a) {
  return a->tag == TPU_A_SCALAR_I || a->tag == TPU_A_SCALAR_D || a->tag == TPU_A_SCALAR_B;
}

/* Of item k of tensor lists. */
static tpu_dtype common(const tpu_call *call, const rule *r, uint32_t k) {
  promo_operand ops[16];
  int n = 0;
  for (int i = 0; i < call->nargs && n < 15; i++) {
    const tpu_arg *a = &call->args[i];
    bool list = a->tag == TPU_A_TENSORS || a->tag == TPU_A_SCALARS;
    if (list && k >= a->n) continue;
    if (a->tag == TPU_A_TENSOR || a->tag == TPU_A_TENSORS) {
      const tpu_tensor *t = &a->u.t[list ? k : 0];
      if (t->flags & TPU_T_UNDEFINED) continue;
      bool number = t->flags & TPU_T_WRAPPED;
      ops[n++] = (promo_operand){tpu_dtype_from_torch(t->dtype), number    ? PROMO_NUMBER
                                                                 : t->rank ? PROMO_DIM
                                                                           : PROMO_ZERO_DIM};
      continue;
    }
    if ((r->args >> i & 1) && !(r->how & PROMOTES)) continue;
    if (a->tag == TPU_A_SCALARS) a = &a->u.as[k];
    if (!is_number(a)) continue;
    ops[n++] = (promo_operand){a->tag == TPU_A_SCALAR_D   ? DT_F64
                               : a->tag == TPU_A_SCALAR_I ? DT_I64
                                                          : DT_BOOL,
                               PROMO_NUMBER};
  }
  return promote_types(ops, n, step_default_float());
}

static bool any_complex(const tpu_call *call) {
  for (int i = 0; i < call->nargs; i++)
    if (call->args[i].tag == TPU_A_SCALAR_C) return true;
  return false;
}

static tpu_dtype dtype_for(const tpu_call *call, const rule *r, uint32_t k) {
  const tpu_arg *first = &call->args[0];
  tpu_dtype dt = DT_NONE;
  if (r->how & COMMON) return common(call, r, k);
  if (r->how & DEFAULT)
    dt = any_complex(call) ? dt_complex(step_default_float()) : step_default_float();
  else if (call->nargs && first->tag == TPU_A_TENSOR)
    dt = tpu_dtype_from_torch(first->u.t->dtype);
  else if (call->nargs && first->tag == TPU_A_TENSORS && k < first->n)
    dt = tpu_dtype_from_torch(first->u.t[k].dtype);
  for (int i = 0; i < call->nargs; i++)
    if (call->args[i].tag == TPU_A_DTYPE) dt = tpu_dtype_from_torch((int)call->args[i].u.i);
  return dt;
}

/* Rows with words of their own for a complex number. */
static tpu_error *refuse_complex(const tpu_call *call, const rule *r, tpu_dtype dt) {
  const char *row = tpu_row_name(call->row);
  if ((r->how & PROMOTES) && (dt_is_integral(dt) || strcmp(row, "clamp")))
    return tpu_err(TPU_NOT_IMPLEMENTED, "clamp is not supported for complex types");
  if (!strncmp(row, "index_fill", 10) && !dt_is_complex(dt))
    return tpu_err(TPU_RUNTIME,
                   "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  return NULL;
}

static tpu_error *check(const tpu_call *call, const rule *r, const tpu_arg *a, uint32_t k) {
  tpu_dtype dt = dtype_for(call, r, k);
  if (dt == DT_NONE || ((r->how & FLOATS) && dt_is_integral(dt) && a->tag != TPU_A_SCALAR_I)) return NULL;
  if ((r->how & REALS) && a->tag == TPU_A_SCALAR_C && !dt_is_complex(dt)) return NULL;
  if ((r->how & POWER) && !dt_is_low(dt) && !(dt_is_int(dt) && a->tag == TPU_A_SCALAR_I)) return NULL;
  if ((r->how & POWER) && a->tag == TPU_A_SCALAR_C) return NULL;
  if (a->tag == TPU_A_SCALAR_C) TRY(refuse_complex(call, r, dt));
  if ((r->how & PROMOTES) && a->tag == TPU_A_SCALAR_C) dt = DT_F64;
  if ((r->how & WIDE) && dt_is_low(dt)) dt = DT_F32;
  if (r->how & (WHOLE | DOUBLE)) dt = r->how & WHOLE ? DT_I32 : DT_F64;
  /* makes 16-bit floats of doubles */
  if (dt_is_low(dt) && !strcmp(tpu_row_name(call->row), "scalar_tensor")) dt = DT_F64;
  return fits(a, dt);
}

/* Numbers that fit everywhere, as most do: nobody is asked about those. */
static bool is_small(const tpu_call *call, const tpu_arg *a) {
  const tpu_arg *first = &call->args[0];
  bool tensors = first->tag == TPU_A_TENSOR || first->tag == TPU_A_TENSORS, floats = tensors && first->n;
  for (uint32_t k = 0; k < first->n && floats; k++) {
    tpu_dtype dt = tpu_dtype_from_torch(first->u.t[k].dtype);
    floats = dt != DT_NONE && dt_is_float(dt);
  }
  double low = floats ? -127 : 0;
  if (a->tag == TPU_A_SCALAR_I) return (double)a->u.i >= low && a->u.i <= 127;
  return a->tag == TPU_A_SCALAR_B || (a->tag == TPU_A_SCALAR_D && a->u.d >= low && a->u.d <= 127);
}

static bool all_small(const tpu_call *call) {
  for (int i = 0; i < call->nargs; i++) {
    const tpu_arg *a = &call->args[i];
    if (a->tag == TPU_A_SCALARS)
      for (uint32_t k = 0; k < a->n; k++)
        if (!is_small(call, &a->u.as[k])) return false;
    bool number = is_number(a) || a->tag == TPU_A_SCALAR_C;
    if (number && !is_small(call, a)) return false;
  }
  return true;
}

static tpu_error *check_all(const tpu_call *call, const rule *r) {
  uint32_t items = call->nargs && call->args[0].tag == TPU_A_TENSORS ? call->args[0].n : 1;
  for (int i = 0; i < call->nargs; i++) {
    const tpu_arg *a = &call->args[i];
    bool number = is_number(a) || a->tag == TPU_A_SCALAR_C;
    if (!(r->args >> i & 1)) continue;
    for (uint32_t k = 0; k < items && number; k++) TRY(check(call, r, a, k));
    for (uint32_t k = 0; k < items && a->tag == TPU_A_SCALARS && k < a->n; k++)
      TRY(check(call, r, &a->u.as[k], k));
  }
  return NULL;
}

tpu_error *call_numbers_fit(const tpu_call *call) {
  const char *row = tpu_row_name(call->row);
  if (all_small(call) && strcmp(row, "softshrink") && strcmp(row, "histc")) return NULL;
  tpu_dtype dt = DT_NONE;
  if (call->nargs && call->args[0].tag == TPU_A_TENSOR) dt = tpu_dtype_from_torch(call->args[0].u.t->dtype);
  if (!strcmp(row, "hardtanh")) return limits_fit(call, dt);
  if (!strcmp(row, "softshrink")) return lambda_fits(call, dt);
  if (!strcmp(row, "histc")) return range_fits(call, dt);
  bool any = false;
  for (const rule *r = rules; r->name || !any; r++) {
    if (r->name && !is_rule_of(r, row)) continue;
    TRY(check_all(call, r));
    if (!r->name) break;
    any = true;
  }
  return NULL;
}
