/* Random words, Fourier transforms, linear algebra, the optimization barrier. */
#include "ir/graph.h"

/* --- Philox --- */

/* High and low word of the product of a constant and the words of y. */
static void mul_wide(B *b, uint32_t m, Val y, Val *hi, Val *lo) {
  Val p = b_mul(b, b_cast(b, y, DT_U64), b_const_i(b, DT_U64, m));
  *hi = b_cast(b, b_shrl(b, p, b_const_i(b, DT_U64, 32)), DT_U32);
  *lo = b_mul(b, y, b_const_i(b, DT_U32, m));
}

/* Philox 4x32-10 (Salmon et al., 2011) in integer ops: the words of counters counter .. counter + ceil(n/4) -
 * 1, the counter being the low 64 bits of the 128-bit counter. Written out rather than rng_bit_generator,
 * whose order of words is the backend's. */
Val b_philox(B *b, Val key, Val counter, int64_t n) {
  if (ir_bad(b, key) || ir_bad(b, counter)) return BAD;
  int64_t groups = (n + 3) / 4;
  shape line = shape_of(1, (int64_t[]){groups});
  Val k64 = b_cast(b, key, DT_U64), c64 = b_add(b, b_iota(b, DT_U64, &line, 0), b_cast(b, counter, DT_U64));
  Val half = b_const_i(b, DT_U64, 32);
  Val k0 = b_cast(b, k64, DT_U32), k1 = b_cast(b, b_shrl(b, k64, half), DT_U32);
  Val c[4] = {b_cast(b, c64, DT_U32), b_cast(b, b_shrl(b, c64, half), DT_U32), b_zeros(b, DT_U32, &line),
              b_zeros(b, DT_U32, &line)};
  for (int round = 0; round < 10; round++) {
    Val hi0, lo0, hi1, lo1;
    mul_wide(b, 0xD2511F53u, c[0], &hi0, &lo0);
    mul_wide(b, 0xCD9E8D57u, c[2], &hi1, &lo1);
    Val d[4] = {b_xor(b, b_xor(b, hi1, c[1]), k0), lo1, b_xor(b, b_xor(b, hi0, c[3]), k1), lo0};
    memcpy(c, d, sizeof c);
    k0 = b_add(b, k0, b_const_i(b, DT_U32, 0x9E3779B9u));
    k1 = b_add(b, k1, b_const_i(b, DT_U32, 0xBB67AE85u));
  }
  for (int i = 0; i < 4; i++) c[i] = b_unsqueeze(b, c[i], 1);
  Val words = b_reshape_to(b, b_concat(b, c, 4, 1), 1, (int64_t[]){4 * groups});
  return b_slice(b, words, 0, 0, n, 1);
}

/* --- Fourier --- */

static Val fft_node(B *b, b_fft_kind kind, Val x, int naxes, const int64_t *lengths) {
  static const char *const words[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  shape s = *b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x), out = kind == FFT_R2C ? dt_complex(dt) : kind == FFT_C2R ? dt_real(dt) : dt;
  int64_t last = lengths[naxes - 1];
  if (kind == FFT_R2C) s.d[s.rank - 1].n = last / 2 + 1;
  if (kind == FFT_C2R) s.d[s.rank - 1].n = last;
  if (ir_numel_phys(&s) == 0 || ir_numel_phys(b_shape(b, x)) == 0) return b_zeros(b, out, &s);
  text *t = ir_attr(b);
  ir_attr_i64s(t, "fft_length", lengths, naxes);
  text_printf(t, ", fft_type = #stablehlo<fft_type %s>", words[kind]);
  return ir_opn(b, IR_FFT, out, &s, &x, 1, t);
}

/* The op takes at most three axes. The real transforms touch the last axis; what is left over are complex
 * ones over the axes before, which are moved to the end and back. */
static Val fft_long(B *b, b_fft_kind kind, Val x, int naxes, const int64_t *lengths) {
  int rank = b_rank(b, x), rest = naxes - 1, perm[IR_MAX_RANK];
  b_fft_kind other = kind == FFT_R2C ? FFT_C2C : kind == FFT_C2R ? FFT_INVERSE : kind;
  for (int i = 0; i < rank; i++) perm[i] = i < rank - naxes ? i : i == rank - naxes ? rank - 1 : i - 1;
  int back[IR_MAX_RANK];
  for (int i = 0; i < rank; i++) back[perm[i]] = i;
  if (kind == FFT_R2C) x = b_fft(b, kind, x, 1, lengths + rest);
  x = b_transpose(b, b_fft(b, other, b_transpose(b, x, perm), rest, lengths), back);
  return kind == FFT_R2C ? x : b_fft(b, kind, x, 1, lengths + rest);
}

Val b_fft(B *b, b_fft_kind kind, Val x, int naxes, const int64_t *lengths) {
  if (ir_bad(b, x)) return BAD;
  tpu_dtype dt = b_dtype(b, x);
  const shape *s = b_shape(b, x);
  if (naxes < 1 || naxes > s->rank) {
    b_fail(b, TPU_INTERNAL, "fft over %d axes of rank %d", naxes, s->rank);
    return BAD;
  }
  for (int i = s->rank - naxes; i < s->rank; i++)
    if (s->d[i].sym) b_fail(b, TPU_NOT_IMPLEMENTED, "fft of a generic dim");
  if (kind == FFT_R2C ? dt_is_complex(dt) : !dt_is_complex(dt))
    x = b_cast(b, x, kind == FFT_R2C ? dt_real(dt) : dt_complex(dt));
  if (kind == FFT_R2C && b_dtype(b, x) != DT_F64) x = b_cast(b, x, DT_F32);
  if (b->err) return BAD;
  return naxes <= 3 ? fft_node(b, kind, x, naxes, lengths) : fft_long(b, kind, x, naxes, lengths);
}

/* --- linear algebra --- */

/* A batch of matrices, of a dtype that the solvers have; *low receives the dtype to go back to. */
static bool matrix(B *b, Val *x, tpu_dtype *dt) {
  if (ir_bad(b, *x)) return false;
  const shape *s = b_shape(b, *x);
  *dt = b_dtype(b, *x);
  if (s->rank < 2)
    b_fail(b, TPU_RUNTIME, "linalg: The input tensor must have at least 2 dimensions.");
  else if (s->d[s->rank - 1].sym || s->d[s->rank - 2].sym)
    b_fail(b, TPU_NOT_IMPLEMENTED, "linear algebra of a generic dim");
  else if (dt_is_integral(*dt))
    b_fail(b, TPU_RUNTIME, "linalg: Expected a floating point or complex tensor as input. Got %s",
           tpu_dtype_torch_name(*dt));
  *x = b_cast(b, *x, dt_acc(*dt));
  return b_ok(b);
}

static bool square(B *b, Val x) {
  const shape *s = b_shape(b, x);
  if (s->d[s->rank - 1].n == s->d[s->rank - 2].n) return true;
  b_fail(b, TPU_RUNTIME, "linalg: A must be batches of square matrices, but they are %lld by %lld matrices",
         (long long)s->d[s->rank - 2].n, (long long)s->d[s->rank - 1].n);
  return false;
}

/* x with zeros above (lower) or below the diagonal. */
static Val triangle(B *b, Val x, bool lower) {
  shape s = *b_shape(b, x), m = {.rank = 2};
  memcpy(m.d, s.d + s.rank - 2, 2 * sizeof m.d[0]);
  Val row = b_iota(b, DT_I32, &m, 0), col = b_iota(b, DT_I32, &m, 1);
  return b_select(b, lower ? b_ge(b, row, col) : b_le(b, row, col), x, b_like(b, x, 0));
}

Val b_cholesky(B *b, Val x, bool lower) {
  tpu_dtype dt;
  if (!matrix(b, &x, &dt) || !square(b, x)) return BAD;
  if (ir_numel_phys(b_shape(b, x)) == 0) return b_cast(b, x, dt);
  text *t = ir_attr(b);
  text_str(t, lower ? "lower = true" : "lower = false");
  return b_cast(b, triangle(b, ir_opn(b, IR_CHOLESKY, b_dtype(b, x), b_shape(b, x), &x, 1, t), lower), dt);
}

Val b_triangular_solve(B *b, Val a, Val rhs, bool left, bool lower, bool unit, int transpose) {
  static const char *const words[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  tpu_dtype dt, rdt;
  if (!ir_promote(b, &a, &rhs) || !matrix(b, &a, &dt) || !square(b, a) || !matrix(b, &rhs, &rdt)) return BAD;
  shape as = *b_shape(b, a), rs = *b_shape(b, rhs), batch;
  Val probe[2]; /* the batch dims broadcast */
  shape ab = as, rb = rs;
  ab.rank -= 2;
  rb.rank -= 2;
  probe[0] = b_zeros(b, DT_BOOL, &ab);
  probe[1] = b_zeros(b, DT_BOOL, &rb);
  batch = b_broadcast_shape(b, probe[0], probe[1]);
  int k = batch.rank;
  for (int i = 0; i < 2; i++) batch.d[k + i] = as.d[as.rank - 2 + i];
  batch.rank = k + 2;
  a = b_broadcast_to(b, a, &batch);
  for (int i = 0; i < 2; i++) batch.d[k + i] = rs.d[rs.rank - 2 + i];
  rhs = b_broadcast_to(b, rhs, &batch);
  if (b->err) return BAD;
  if (as.d[as.rank - 1].n != batch.d[k + !left].n) {
    b_fail(b, TPU_RUNTIME, "linalg: Incompatible shapes of A and B for the equation %s",
           left ? "AX = B" : "XA = B");
    return BAD;
  }
  if (ir_numel_phys(&batch) == 0) return b_cast(b, rhs, rdt);
  text *t = ir_attr(b);
  text_printf(t, "left_side = %s, lower = %s, transpose_a = #stablehlo<transpose %s>, unit_diagonal = %s",
              left ? "true" : "false", lower ? "true" : "false", words[transpose], unit ? "true" : "false");
  return b_cast(b, ir_opn(b, IR_TRIANGULAR_SOLVE, b_dtype(b, a), &batch, (Val[]){a, rhs}, 2, t), rdt);
}

/* A custom call of `n` results. */
static Val custom(B *b, const char *target, const char *config, const Val *ops, int nops, int n,
                  const tpu_dtype *dts, const shape *const *shapes) {
  text *t = ir_attr(b);
  text_printf(
      t, "api_version = 1 : i32, backend_config = \"%s\", call_target_name = \"%s\", has_side_effect = false",
      config, target);
  ir_spec sp = {.op = IR_CUSTOM_CALL,
                .dt = dts[0],
                .s = shapes[0],
                .ops = ops,
                .nops = nops,
                .attr = t->p,
                .nattr = (int)t->n,
                .nres = n,
                .dts = dts,
                .shapes = shapes};
  return ir_make(b, &sp);
}

Val b_qr(B *b, Val x, Val *taus) {
  tpu_dtype dt;
  *taus = BAD;
  if (!matrix(b, &x, &dt)) return BAD;
  shape s = *b_shape(b, x), ts = s;
  int64_t m = s.d[s.rank - 2].n, n = s.d[s.rank - 1].n;
  ts.rank--;
  ts.d[ts.rank - 1] = (ir_dim){m < n ? m : n, 0};
  tpu_dtype acc = b_dtype(b, x);
  if (ir_numel_phys(&s) == 0) {
    *taus = b_zeros(b, dt, &ts);
    return b_cast(b, x, dt);
  }
  const shape *shapes[] = {ir_intern(b, &s), ir_intern(b, &ts)};
  Val o = custom(b, "Qr", "", &x, 1, 2, (tpu_dtype[]){acc, acc}, shapes);
  *taus = b_cast(b, ir_result(o, 2, 1), dt);
  return b_cast(b, ir_result(o, 2, 0), dt);
}

Val b_householder_product(B *b, Val a, Val taus) {
  tpu_dtype dt;
  if (!matrix(b, &a, &dt) || ir_bad(b, taus)) return BAD;
  const shape *s = b_shape(b, a);
  tpu_dtype acc = b_dtype(b, a);
  taus = b_cast(b, taus, acc);
  if (ir_numel_phys(s) == 0 || ir_numel_phys(b_shape(b, taus)) == 0) { /* no reflectors: the identity */
    shape m = {.rank = 2};
    memcpy(m.d, s->d + s->rank - 2, 2 * sizeof m.d[0]);
    Val eye = b_eq(b, b_iota(b, DT_I32, &m, 0), b_iota(b, DT_I32, &m, 1));
    return b_broadcast_to(b, b_cast(b, eye, dt), s);
  }
  Val o = custom(b, "ProductOfElementaryHouseholderReflectors", "", (Val[]){a, taus}, 2, 1, &acc, &s);
  return b_cast(b, o, dt);
}

Val b_eigh(B *b, Val x, bool lower, Val *vectors) {
  tpu_dtype dt;
  *vectors = BAD;
  if (!matrix(b, &x, &dt) || !square(b, x)) return BAD;
  tpu_dtype acc = b_dtype(b, x), real = dt_real(acc);
  shape s = *b_shape(b, x), ws = s;
  ws.rank--;
  if (ir_numel_phys(&s) == 0) {
    *vectors = b_cast(b, x, dt);
    return b_zeros(b, dt_real(dt), &ws);
  }
  const shape *shapes[] = {ir_intern(b, &s), ir_intern(b, &ws)};
  bool wide = real == DT_F64;
  const char *config =
      lower ? (wide ? "1,1,100,1e-14" : "1,1,100,1e-6") : (wide ? "0,1,100,1e-14" : "0,1,100,1e-6");
  Val o = custom(b, "Eigh", config, &x, 1, 2, (tpu_dtype[]){acc, real}, shapes);
  *vectors = b_cast(b, ir_result(o, 2, 0), dt);
  return b_cast(b, ir_result(o, 2, 1), dt_real(dt));
}

Val b_optimization_barrier(B *b, Val x) {
  return ir_bad(b, x) ? BAD : ir_op1(b, IR_BARRIER, b_dtype(b, x), b_shape(b, x), x);
}
