/* Constants: scalars, splats, dense rank-1 arrays, identities. The literal is the node's attribute text. */
#include <math.h>
#include <stdio.h>

#include "ir/graph.h"

/* Limits of the floats narrower than f64; `over` is the first magnitude that rounds to infinity (or NaN). */
typedef struct float_limits {
  double max, over;
  const char *inf, *ninf, *nan; /* NULL: no infinity, the largest number is written */
} float_limits;

static const float_limits *limits(tpu_dtype dt) {
  static const float_limits f64 = {1.7976931348623157e308, INFINITY, "0x7FF0000000000000",
                                   "0xFFF0000000000000", "0x7FF8000000000000"};
  static const float_limits f32 = {3.4028234663852886e38, 3.4028235677973366e38, "0x7F800000", "0xFF800000",
                                   "0x7FC00000"};
  static const float_limits f16 = {65504, 65520, "0x7C00", "0xFC00", "0x7E00"};
  static const float_limits bf16 = {3.3895313892515355e38, 3.3961775292304957e38, "0x7F80", "0xFF80",
                                    "0x7FC0"};
  static const float_limits e5m2 = {57344, 61440, "0x7C", "0xFC", "0x7E"};
  static const float_limits e4m3 = {448, 464, NULL, NULL, "0x7F"};
  static const float_limits e5m2z = {57344, 61440, NULL, NULL, "0x80"};
  static const float_limits e4m3z = {240, 248, NULL, NULL, "0x80"};
  switch (dt) {
  case DT_F64:
  case DT_C128: return &f64;
  case DT_F16: return &f16;
  case DT_BF16: return &bf16;
  case DT_F8E5M2: return &e5m2;
  case DT_F8E4M3FN: return &e4m3;
  case DT_F8E5M2FNUZ: return &e5m2z;
  case DT_F8E4M3FNUZ: return &e4m3z;
  default: return &f32;
  }
}

/* The plugin's parser rounds a decimal to the nearest double and that to the type: 17 digits are exact for
 * both steps. */
static void put_float(text *t, tpu_dtype dt, double v) {
  const float_limits *l = limits(dt);
  if (isnan(v) || (!l->inf && isinf(v))) {
    text_str(t, l->nan);
  } else if (fabs(v) >= l->over) {
    text_str(t, v > 0 ? (l->inf ? l->inf : l->nan) : (l->inf ? l->ninf : l->nan));
  } else {
    char buf[40];
    double back = 0;
    snprintf(buf, sizeof buf - 4, "%.6g", v);
    if (sscanf(buf, "%lf", &back) != 1 || memcmp(&back, &v, sizeof v))
      snprintf(buf, sizeof buf - 4, "%.17g", v);
    if (!strpbrk(buf, ".e")) memcpy(buf + strlen(buf), ".0", 3);
    char *e = strchr(buf, 'e');
    if (e && !memchr(buf, '.', (size_t)(e - buf))) { /* the grammar wants a point */
      memmove(e + 2, e, strlen(e) + 1);
      memcpy(e, ".0", 2);
    }
    text_str(t, buf);
  }
}

static void put_int(text *t, tpu_dtype dt, int64_t v) {
  if (dt == DT_BOOL)
    text_str(t, v ? "true" : "false");
  else if (dt == DT_U64)
    text_printf(t, "%llu", (unsigned long long)v);
  else
    text_i64(t, v);
}

/* Wraps to the width of dt, as a C cast does. */
static int64_t wrap(tpu_dtype dt, int64_t v) {
  switch (dt) {
  case DT_BOOL: return v != 0;
  case DT_U8: return (uint8_t)v;
  case DT_I8: return (int8_t)v;
  case DT_U16: return (uint16_t)v;
  case DT_I16: return (int16_t)v;
  case DT_U32: return (uint32_t)v;
  case DT_I32: return (int32_t)v;
  default: return v;
  }
}

static Val constant(B *b, tpu_dtype dt, const shape *s, bool number, double f, int64_t i) {
  if (b->err) return BAD;
  Val v = ir_make(
      b,
      &(ir_spec){.op = IR_CONST, .dt = dt, .s = ir_intern(b, s), .attr = b->attr.p, .nattr = (int)b->attr.n});
  if (v >= 0 && number) {
    ir_node *n = &b->nodes.p[v];
    n->flags |= NF_NUMBER;
    if (dt_is_float(dt))
      n->num.f = f;
    else
      n->num.i = i;
  }
  return v;
}

static Val int_const(B *b, tpu_dtype dt, const shape *s, int64_t v) {
  v = wrap(dt, v);
  text *t = ir_attr(b);
  text_str(t, "dense<");
  put_int(t, dt, v);
  text_str(t, ">");
  return constant(b, dt, s, true, 0, v);
}

static Val float_const(B *b, tpu_dtype dt, const shape *s, double v) {
  if (dt == DT_F32) v = (double)(float)v;
  if (dt == DT_F8E4M3FN && fabs(v) > 448) v = v > 0 ? 448 : -448; /* as torch */
  text *t = ir_attr(b);
  text_str(t, "dense<");
  put_float(t, dt, v);
  text_str(t, ">");
  return constant(b, dt, s, true, v, 0);
}

Val b_const_c(B *b, tpu_dtype dt, double re, double im) {
  if (!dt_is_complex(dt)) return b_const(b, dt, re);
  text *t = ir_attr(b);
  text_str(t, "dense<(");
  put_float(t, dt, re);
  text_str(t, ", ");
  put_float(t, dt, im);
  text_str(t, ")>");
  return constant(b, dt, &ir_scalar, false, 0, 0);
}

static int64_t to_int(double v) {
  if (isnan(v)) return 0;
  return v >= 9223372036854775807.0 ? INT64_MAX : v <= -9223372036854775808.0 ? INT64_MIN : (int64_t)v;
}

Val b_const(B *b, tpu_dtype dt, double v) {
  if (b->err) return BAD;
  if (dt_is_complex(dt)) return b_const_c(b, dt, v, 0);
  if (dt_is_float(dt)) return float_const(b, dt, &ir_scalar, v);
  if (dt == DT_BOOL) return int_const(b, dt, &ir_scalar, v != 0);
  if (dt == DT_U64 && v >= 9223372036854775808.0)
    return int_const(b, dt, &ir_scalar, v >= 18446744073709551616.0 ? -1 : (int64_t)(uint64_t)v);
  return int_const(b, dt, &ir_scalar, to_int(v));
}

Val b_const_i(B *b, tpu_dtype dt, int64_t v) {
  if (b->err) return BAD;
  return dt_is_integral(dt) ? int_const(b, dt, &ir_scalar, v) : b_const(b, dt, (double)v);
}

Val b_like(B *b, Val x, double v) { return ir_bad(b, x) ? BAD : b_const(b, b_dtype(b, x), v); }

/* A splat of shape s with the value of the constant x. */
Val ir_splat(B *b, Val x, const shape *s) {
  ir_node n = *ir_nd(b, x);
  text *t = ir_attr(b);
  text_add(t, n.attr, (size_t)n.nattr);
  return constant(b, (tpu_dtype)n.dt, s, n.flags & NF_NUMBER, n.num.f, n.num.i);
}

/* The constant x as dtype dt; BAD where the cast is better left to the device. */
Val ir_cast_const(B *b, Val x, tpu_dtype dt) {
  ir_node n = *ir_nd(b, x);
  if (n.op != IR_CONST || !(n.flags & NF_NUMBER)) return BAD;
  bool whole = !dt_is_float((tpu_dtype)n.dt);
  Val v;
  if (dt_is_integral(dt)) {
    if (!whole && dt != DT_BOOL && !(fabs(n.num.f) < 2147483648.0)) return BAD;
    v = whole ? b_const_i(b, dt, n.num.i) : b_const(b, dt, n.num.f);
  } else {
    if (whole && n.dt == DT_U64 && n.num.i < 0) return BAD;
    v = whole ? b_const_i(b, dt, n.num.i) : b_const(b, dt, n.num.f);
  }
  return n.s->rank ? ir_splat(b, v, n.s) : v;
}

bool b_const_value(const B *b, Val v, double *out) {
  const ir_node *n = ir_nd(b, v);
  while (n->op == IR_BROADCAST || n->op == IR_RESHAPE) n = ir_nd(b, n->ops[0]);
  if (v < 0 || n->op != IR_CONST || !(n->flags & NF_NUMBER)) return false;
  *out = dt_is_float((tpu_dtype)n->dt) ? n->num.f
         : n->dt == DT_U64             ? (double)(uint64_t)n->num.i
                                       : (double)n->num.i;
  return true;
}

static Val dense(B *b, tpu_dtype dt, const int64_t *vi, const double *vf, int n) {
  if (b->err) return BAD;
  text *t = ir_attr(b);
  text_str(t, n ? "dense<[" : "dense<");
  for (int i = 0; i < n; i++) {
    if (i) text_str(t, ", ");
    if (dt_is_float(dt))
      put_float(t, dt, vi ? (double)vi[i] : vf[i]);
    else
      put_int(t, dt, wrap(dt, vi ? vi[i] : to_int(vf[i])));
  }
  text_str(t, n ? "]>" : ">");
  shape s = shape_of(1, (int64_t[]){n});
  return constant(b, dt, &s, false, 0, 0);
}

Val b_dense_i64(B *b, tpu_dtype dt, const int64_t *v, int n) { return dense(b, dt, v, NULL, n); }
Val b_dense_f64(B *b, tpu_dtype dt, const double *v, int n) { return dense(b, dt, NULL, v, n); }

Val b_full(B *b, const shape *s, Val scalar) { return b_broadcast_to(b, scalar, s); }
Val b_zeros(B *b, tpu_dtype dt, const shape *s) { return b_full(b, s, b_const(b, dt, 0)); }

static Val extreme(B *b, tpu_dtype dt, bool low) {
  switch (tpu_dtypes[dt].cls) {
  case DTC_B: return b_const_i(b, dt, !low);
  case DTC_U: return b_const_i(b, dt, low ? 0 : -1);
  case DTC_I: {
    int64_t top = (int64_t)(UINT64_MAX >> (65 - 8 * dt_bytes(dt)));
    return b_const_i(b, dt, low ? -top - 1 : top);
  }
  case DTC_F: {
    const float_limits *l = limits(dt);
    double v = l->inf ? INFINITY : l->max;
    return b_const(b, dt, low ? -v : v);
  }
  default: b_fail(b, TPU_RUNTIME, "complex numbers have no order"); return BAD;
  }
}

Val b_min_value(B *b, tpu_dtype dt) { return extreme(b, dt, true); }
Val b_max_value(B *b, tpu_dtype dt) { return extreme(b, dt, false); }

Val b_iota(B *b, tpu_dtype dt, const shape *s, int axis) {
  if (b->err) return BAD;
  if (axis < 0 || axis >= s->rank) {
    b_fail(b, TPU_INTERNAL, "iota along axis %d of rank %d", axis, s->rank);
    return BAD;
  }
  tpu_dtype as = dt == DT_BOOL || dt_is_low(dt) ? DT_I32 : dt_is_complex(dt) ? dt_real(dt) : dt;
  shape line = {.rank = 1};
  line.d[0] = s->d[axis];
  text *t = ir_attr(b);
  text_str(t, "iota_dimension = 0 : i64");
  Val v = b_cast(b, ir_opn(b, IR_IOTA, as, &line, NULL, 0, t), dt);
  return s->rank == 1 ? v : b_broadcast_dims(b, v, s, &axis);
}
