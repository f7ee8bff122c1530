/* Elementwise verbs: unary and binary rows of ops.def, compare, select, casts, and short compositions of
 * them. */
#include <math.h>

#include "ir/graph.h"

typedef struct row {
  const char *name, *classes;
} row;
static const row rows[OP_COUNT] = {
#define UNARY(NAME, fn, mlir, dts)  {#fn, dts},
#define BINARY(NAME, fn, mlir, dts) {#fn, dts},
#include "ir/ops.def"
};

static bool allowed(B *b, int op, tpu_dtype dt) {
  if (strchr(rows[op].classes, "BUIFC"[tpu_dtypes[dt].cls])) return true;
  b_fail(b, TPU_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", rows[op].name, tpu_dtype_torch_name(dt));
  return false;
}

static Val with_type_of(B *b, Val x, double v) { return b_broadcast_to(b, b_like(b, x, v), b_shape(b, x)); }

/* What is not one node: dtypes outside the StableHLO op that have an obvious result. *done tells whether it
 * was. */
static Val unary_special(B *b, int op, Val x, tpu_dtype dt, bool *done) {
  bool real = !dt_is_complex(dt), whole = dt_is_integral(dt), up = dt == DT_BOOL || dt_is_unsigned(dt);
  *done = true;
  switch (op) {
  case OP_ABS:
    if (up) return x;
    break;
  case OP_SIGN:
    if (up) return b_cast(b, b_cast(b, x, DT_BOOL), dt);
    if (dt_is_float(dt))
      return b_sub(b, b_cast(b, b_gt(b, x, b_like(b, x, 0)), dt), b_cast(b, b_lt(b, x, b_like(b, x, 0)), dt));
    break;
  case OP_FLOOR:
  case OP_CEIL:
  case OP_ROUND:
    if (whole) return x;
    break;
  case OP_REAL:
  case OP_CONJ:
    if (real) return x;
    break;
  case OP_IMAG:
    if (real) return with_type_of(b, x, 0);
    break;
  case OP_IS_FINITE:
    if (whole) return b_broadcast_to(b, b_const_i(b, DT_BOOL, 1), b_shape(b, x));
    if (!real) return b_and(b, b_is_finite(b, b_real(b, x)), b_is_finite(b, b_imag(b, x)));
    break;
  default: break;
  }
  *done = false;
  return BAD;
}

Val b_unary(B *b, int op, Val x) {
  if (ir_bad(b, x)) return BAD;
  tpu_dtype dt = b_dtype(b, x), out = dt;
  bool done;
  Val v = unary_special(b, op, x, dt, &done);
  if (done) return v;
  if (!allowed(b, op, dt)) return BAD;
  if (op == OP_ATAN && !b->plain && dt_is_float(dt)) return b_atan2(b, x, b_like(b, x, 1));
  if (op == OP_IS_FINITE) out = DT_BOOL;
  if (op == OP_ABS || op == OP_REAL || op == OP_IMAG) out = dt_real(dt);
  return ir_op1(b, op, out, b_shape(b, x), x);
}

/* Integer powers by squaring; v: base, exponent, product. */
static Val power_more(B *b, void *ctx, const Val *v) {
  (void)ctx;
  Val any = b_gt(b, v[1], b_like(b, v[1], 0));
  return b_reduce(b, RED_OR, any, axes_all(b_rank(b, any)), false);
}

static void power_step(B *b, void *ctx, const Val *v, Val *out) {
  (void)ctx;
  Val one = b_like(b, v[1], 1), odd = b_ne(b, b_and(b, v[1], one), b_like(b, v[1], 0));
  out[0] = b_mul(b, v[0], v[0]);
  out[1] = b_shrl(b, v[1], one);
  out[2] = b_select(b, odd, b_mul(b, v[2], v[0]), v[2]);
}

/* The plugin's own takes the exponent modulo 64 or so. A negative exponent leaves 1 and -1, and makes the
 * rest 0. */
static Val integer_power(B *b, Val x, Val e) {
  Val vs[2] = {x, e};
  shape s;
  if (!ir_match(b, vs, 2, &s)) return BAD;
  x = vs[0], e = vs[1];
  Val zero = b_like(b, x, 0), one = b_like(b, x, 1), minus = b_lt(b, e, zero),
      v[3] = {x, b_select(b, minus, zero, e), with_type_of(b, x, 1)};
  b_while(b, 3, v, power_more, power_step, NULL, v);
  if (dt_is_unsigned(b_dtype(b, x))) return v[2];
  Val odd = b_ne(b, b_and(b, e, one), zero),
      unit = b_select(b, b_eq(b, x, b_like(b, x, -1)), b_select(b, odd, x, one), zero);
  return b_select(b, minus, b_select(b, b_eq(b, x, one), one, unit), v[2]);
}

Val b_binary(B *b, int op, Val x, Val y) {
  Val v[2] = {x, y};
  shape s;
  if (!ir_promote(b, &v[0], &v[1]) || !allowed(b, op, b_dtype(b, v[0])) || !ir_match(b, v, 2, &s)) return BAD;
  if (op == OP_POW && dt_is_integral(b_dtype(b, v[0]))) return integer_power(b, v[0], v[1]);
  /* The CPU plugin vectorises atan2 with a constant wrongly (long rows come out as garbage); a NaN of x may
   * as well be y. */
  if (op == OP_ATAN2 && !b->plain && dt_is_float(b_dtype(b, v[0])))
    v[1] = b_select(b, b_isnan(b, v[0]), v[0], v[1]);
  return ir_op2(b, op, b_dtype(b, v[0]), &s, v[0], v[1]);
}

#define UNARY(NAME, fn, mlir, dts) \
  Val b_##fn(B *b, Val x) { return b_unary(b, OP_##NAME, x); }
#define BINARY(NAME, fn, mlir, dts) \
  Val b_##fn(B *b, Val x, Val y) { return b_binary(b, OP_##NAME, x, y); }
#include "ir/ops.def"

/* --- compare, select --- */

Val b_cmp(B *b, b_cmp_dir dir, Val x, Val y) {
  static const char *const words[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  Val v[2] = {x, y};
  shape s;
  if (!ir_promote(b, &v[0], &v[1]) || !ir_match(b, v, 2, &s)) return BAD;
  if (dir > CMP_NE && dt_is_complex(b_dtype(b, v[0]))) {
    b_fail(b, TPU_RUNTIME, "complex numbers have no order");
    return BAD;
  }
  text *t = ir_attr(b);
  text_printf(t, "comparison_direction = #stablehlo<comparison_direction %s>", words[dir]);
  return ir_opn(b, IR_COMPARE, DT_BOOL, &s, v, 2, t);
}

Val b_eq(B *b, Val x, Val y) { return b_cmp(b, CMP_EQ, x, y); }
Val b_ne(B *b, Val x, Val y) { return b_cmp(b, CMP_NE, x, y); }
Val b_lt(B *b, Val x, Val y) { return b_cmp(b, CMP_LT, x, y); }
Val b_le(B *b, Val x, Val y) { return b_cmp(b, CMP_LE, x, y); }
Val b_gt(B *b, Val x, Val y) { return b_cmp(b, CMP_GT, x, y); }
Val b_ge(B *b, Val x, Val y) { return b_cmp(b, CMP_GE, x, y); }

Val b_select(B *b, Val pred, Val x, Val y) {
  if (ir_bad(b, pred) || !ir_promote(b, &x, &y)) return BAD;
  Val v[3] = {b_cast(b, pred, DT_BOOL), x, y};
  shape s;
  if (!ir_match(b, v, 3, &s)) return BAD;
  if (v[1] == v[2]) return v[1];
  return ir_opn(b, IR_SELECT, b_dtype(b, v[1]), &s, v, 3, NULL);
}

Val b_clamp(B *b, Val lo, Val x, Val hi) { return b_minimum(b, b_maximum(b, x, lo), hi); }

/* --- casts --- */

Val b_cast(B *b, Val x, tpu_dtype dt) {
  if (ir_bad(b, x)) return BAD;
  tpu_dtype from = b_dtype(b, x);
  if (from == dt) return x;
  Val folded = ir_cast_const(b, x, dt);
  if (folded >= 0 || b->err) return folded;
  if (dt == DT_BOOL) return b_ne(b, x, b_like(b, x, 0));
  if (dt_is_complex(from) && !dt_is_complex(dt)) return b_cast(b, b_real(b, x), dt);
  if (dt_is_complex(dt) && !dt_is_complex(from)) {
    Val re = b_cast(b, x, dt_real(dt));
    return b_complex(b, re, b_like(b, re, 0));
  }
  if (dt_is_float(from) && dt_is_int(dt) && dt_bytes(dt) < 8 &&
      dt != DT_I32) { /* wraps, as torch does; XLA would saturate */
    tpu_dtype wide = dt == DT_U32 ? DT_I64 : DT_I32;
    return ir_op1(b, IR_CONVERT, dt, b_shape(b, x), ir_op1(b, IR_CONVERT, wide, b_shape(b, x), x));
  }
  if (dt == DT_F8E4M3FN && dt_is_float(from)) { /* saturates in torch, NaN in XLA */
    tpu_dtype wide = dt_acc(from);
    x = b_clamp(b, b_const(b, wide, -448), b_cast(b, x, wide), b_const(b, wide, 448));
  }
  Val v = ir_op1(b, IR_CONVERT, dt, b_shape(b, x), x);
  if (v >= 0) b->nodes.p[v].zero = b->nodes.p[x].zero;
  return v;
}

/* f32[..., 2] <-> c64[...]: the plugins have no bitcast between complex and real. */
static Val bitcast_complex(B *b, Val x, tpu_dtype from, tpu_dtype dt) {
  shape s = *b_shape(b, x);
  if (dt_is_complex(from)) {
    if (dt != dt_real(from)) return b_bitcast(b, b_bitcast(b, x, dt_real(from)), dt);
    Val parts[2] = {b_unsqueeze(b, b_real(b, x), s.rank), b_unsqueeze(b, b_imag(b, x), s.rank)};
    return b_concat(b, parts, 2, s.rank);
  }
  if (from != dt_real(dt)) return b_bitcast(b, b_bitcast(b, x, dt_real(dt)), dt);
  int last = s.rank - 1;
  if (last < 0 || s.d[last].n != 2) {
    b_fail(b, TPU_RUNTIME, "a view as complex needs a last dim of size 2");
    return BAD;
  }
  return b_complex(b, b_squeeze(b, b_slice(b, x, last, 0, 1, 1), last),
                   b_squeeze(b, b_slice(b, x, last, 1, 2, 1), last));
}

Val b_bitcast(B *b, Val x, tpu_dtype dt) {
  if (ir_bad(b, x)) return BAD;
  tpu_dtype from = b_dtype(b, x);
  if (from == dt) return x;
  if (dt_is_complex(from) && dt_is_complex(dt)) return b_bitcast(b, b_bitcast(b, x, dt_real(from)), dt);
  if (dt_is_complex(from) || dt_is_complex(dt)) return bitcast_complex(b, x, from, dt);
  if (from == DT_BOOL) return b_bitcast(b, b_cast(b, x, DT_U8), dt);
  if (dt == DT_BOOL) return b_cast(b, b_bitcast(b, x, DT_U8), DT_BOOL);
  shape s = *b_shape(b, x);
  int p = dt_bytes(from), q = dt_bytes(dt);
  if (p > q) {
    s.d[s.rank++] = (ir_dim){p / q, 0};
  } else if (p < q) {
    if (!s.rank || s.d[s.rank - 1].sym || s.d[s.rank - 1].n != q / p) {
      b_fail(b, TPU_RUNTIME, "a bitcast to %s needs a last dim of size %d", tpu_dtype_torch_name(dt), q / p);
      return BAD;
    }
    s.rank--;
  }
  return ir_op1(b, IR_BITCAST, dt, &s, x);
}

Val b_complex(B *b, Val re, Val im) {
  Val v[2] = {re, im};
  shape s;
  if (!ir_promote(b, &v[0], &v[1])) return BAD;
  tpu_dtype dt = b_dtype(b, v[0]) == DT_F64 ? DT_C128 : DT_C64;
  for (int i = 0; i < 2; i++) v[i] = b_cast(b, v[i], dt_real(dt));
  if (!ir_match(b, v, 2, &s)) return BAD;
  return ir_op2(b, IR_COMPLEX, dt, &s, v[0], v[1]);
}

/* --- compositions --- */

Val b_isnan(B *b, Val x) {
  if (ir_bad(b, x)) return BAD;
  if (dt_is_complex(b_dtype(b, x))) return b_or(b, b_isnan(b, b_real(b, x)), b_isnan(b, b_imag(b, x)));
  if (!dt_is_float(b_dtype(b, x))) return b_broadcast_to(b, b_const_i(b, DT_BOOL, 0), b_shape(b, x));
  return b_ne(b, x, x);
}

Val b_isinf(B *b, Val x) {
  if (ir_bad(b, x)) return BAD;
  if (dt_is_complex(b_dtype(b, x))) return b_or(b, b_isinf(b, b_real(b, x)), b_isinf(b, b_imag(b, x)));
  if (!dt_is_float(b_dtype(b, x))) return b_broadcast_to(b, b_const_i(b, DT_BOOL, 0), b_shape(b, x));
  Val a = b_abs(b, x);
  return b_eq(b, a, b_like(b, a, INFINITY));
}

/* Whether the remainder r of a division by y must move by one y: it is not 0 and its sign is the other one.
 */
static Val wrong_sign(B *b, Val r, Val y) {
  Val zero = b_like(b, r, 0);
  return b_and(b, b_ne(b, r, zero), b_ne(b, b_lt(b, r, zero), b_lt(b, y, zero)));
}

static Val float_floor_div(B *b, Val x, Val y) {
  Val one = b_like(b, x, 1), mod = b_rem(b, x, y), div = b_div(b, b_sub(b, x, mod), y);
  div = b_select(b, wrong_sign(b, mod, y), b_sub(b, div, one), div);
  Val fl = b_floor(b, div);
  fl = b_select(b, b_gt(b, b_sub(b, div, fl), b_like(b, x, 0.5)), b_add(b, fl, one), fl);
  Val q = b_div(b, x, y); /* y = 0: inf or NaN; quotient 0: its sign */
  Val zero = b_mul(b, b_like(b, x, 0), q);
  Val r = b_select(b, b_eq(b, div, b_like(b, x, 0)), zero, fl);
  return b_select(b, b_eq(b, y, b_like(b, y, 0)), q, r);
}

Val b_floor_div(B *b, Val x, Val y) {
  if (!ir_promote(b, &x, &y)) return BAD;
  tpu_dtype dt = b_dtype(b, x);
  if (dt_is_low(dt)) return b_cast(b, b_floor_div(b, b_cast(b, x, DT_F32), b_cast(b, y, DT_F32)), dt);
  if (dt_is_float(dt)) return float_floor_div(b, x, y);
  Val q = b_div(b, x, y);
  if (dt_is_unsigned(dt)) return q;
  Val r = b_rem(b, x, y);
  return b_select(b, wrong_sign(b, r, y), b_sub(b, q, b_like(b, q, 1)), q);
}

Val b_floor_mod(B *b, Val x, Val y) {
  if (!ir_promote(b, &x, &y)) return BAD;
  tpu_dtype dt = b_dtype(b, x);
  if (dt_is_low(dt)) return b_cast(b, b_floor_mod(b, b_cast(b, x, DT_F32), b_cast(b, y, DT_F32)), dt);
  Val r = b_rem(b, x, y);
  if (dt_is_unsigned(dt)) return r;
  return b_select(b, wrong_sign(b, r, y), b_add(b, r, y), r);
}

/* --- special functions (chlo) --- */

static Val special(B *b, int op, const Val *args, int n) {
  Val v[2] = {args[0], n > 1 ? args[1] : args[0]};
  shape s;
  if (!ir_promote(b, &v[0], &v[1]) || !ir_match(b, v, 2, &s)) return BAD;
  tpu_dtype dt = b_dtype(b, v[0]);
  if (!dt_is_float(dt)) {
    b_fail(b, TPU_NOT_IMPLEMENTED, "%s is not implemented for %s", ir_mnemonic(op), tpu_dtype_torch_name(dt));
    return BAD;
  }
  return ir_opn(b, op, dt, &s, v, n, NULL);
}

Val b_erf(B *b, Val x) { return special(b, IR_ERF, &x, 1); }
Val b_erfc(B *b, Val x) { return special(b, IR_ERFC, &x, 1); }
Val b_erf_inv(B *b, Val x) { return special(b, IR_ERF_INV, &x, 1); }
Val b_lgamma(B *b, Val x) { return special(b, IR_LGAMMA, &x, 1); }
Val b_digamma(B *b, Val x) { return special(b, IR_DIGAMMA, &x, 1); }
Val b_zeta(B *b, Val x, Val q) { return special(b, IR_ZETA, (Val[]){x, q}, 2); }
Val b_next_after(B *b, Val x, Val y) { return special(b, IR_NEXT_AFTER, (Val[]){x, y}, 2); }
