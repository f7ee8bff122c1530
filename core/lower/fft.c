/* Fourier transforms over any list of dims: these are moved to the end, transformed, and moved back. */
#include <math.h>

#include "lower/lower.h"

typedef struct plan {
  int n; /* dims */
  int perm[IR_MAX_RANK], back[IR_MAX_RANK];
  int64_t length[IR_MAX_RANK];
  double total; /* elements of a transform */
} plan;

/* The dims at argument i, the last of the list last; `last` > 0: the logical length of that one. */
static bool make_plan(L *l, int i, Val x, int64_t last, plan *p) {
  B *b = l_b(l);
  const int64_t *dims;
  int rank = b_rank(b, x), at = 0;
  p->n = l_ints(l, i, &dims);
  uint32_t used = 0;
  int axis[IR_MAX_RANK];
  for (int k = 0; k < p->n && b_ok(b); k++) {
    axis[k] = axis_norm(b, dims[k], rank);
    if (used >> axis[k] & 1) l_fail(l, TPU_RUNTIME, "FFT dims must be unique");
    used |= 1u << axis[k];
  }
  if (!b_ok(b)) return false;
  for (int a = 0; a < rank; a++)
    if (!(used >> a & 1)) p->perm[at++] = a;
  p->total = 1;
  for (int k = 0; k < p->n; k++) {
    p->perm[at++] = axis[k];
    p->length[k] = k == p->n - 1 && last > 0 ? last : b_dim_static(b, x, axis[k]);
    if (p->length[k] < 1)
      l_fail(l, TPU_RUNTIME, "Invalid number of data points (%lld) specified", (long long)p->length[k]);
    p->total *= (double)p->length[k];
  }
  for (int a = 0; a < rank; a++) p->back[p->perm[a]] = a;
  return b_ok(b);
}

static void check_type(L *l, tpu_dtype dt) {
  if (dt_is_low(dt)) l_fail(l, TPU_RUNTIME, "Unsupported dtype %s", tpu_dtype_torch_name(dt));
}

/* mode: 0 no scaling, 1 by 1/sqrt(n), 2 by 1/n; an inverse transform is scaled by 1/n already. */
static Val scaled(B *b, Val v, const plan *p, int64_t mode, bool inverse) {
  double f = (mode == 0 ? 1 : mode == 1 ? 1 / sqrt(p->total) : 1 / p->total) * (inverse ? p->total : 1);
  return f == 1 ? v : b_mul(b, v, b_const(b, dt_real(b_dtype(b, v)), f));
}

static Val transform(B *b, b_fft_kind kind, Val x, const plan *p) {
  return b_transpose(b, b_fft(b, kind, b_transpose(b, x, p->perm), p->n, p->length), p->back);
}

/* (self, dim, normalization, forward) */
static void c2c(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  plan p;
  if (!make_plan(l, 1, x, 0, &p)) return;
  bool forward = l_bool(l, 3);
  if (!p.n) {
    ret(l, x);
    return;
  }
  ret(l, scaled(b, transform(b, forward ? FFT_C2C : FFT_INVERSE, x, &p), &p, l_int(l, 2), !forward));
}

/* (self, dim, normalization, onesided) */
static void r2c(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  tpu_dtype dt = b_dtype(b, x);
  plan p;
  check_type(l, dt);
  if (!make_plan(l, 1, x, 0, &p)) return;
  bool half = l_bool(l, 3);
  Val v = half ? transform(b, FFT_R2C, x, &p) : transform(b, FFT_C2C, b_cast(b, x, dt_complex(dt)), &p);
  ret(l, scaled(b, v, &p, l_int(l, 2), false));
}

/* (self, dim, normalization, last_dim_size) */
static void c2r(L *l) {
  B *b = l_b(l);
  Val x = l_tensor(l, 0);
  int64_t last = l_int(l, 3);
  plan p;
  if (!make_plan(l, 1, x, last, &p)) return;
  /* the other dims first: only the last is read as a half */
  int axis = p.perm[b_rank(b, x) - 1];
  int64_t half = last / 2 + 1, have = b_dim_static(b, x, axis);
  x = have > half ? b_slice(b, x, axis, 0, half, 1) : b_pad_axis(b, x, axis, 0, half - have, b_like(b, x, 0));
  ret(l, scaled(b, transform(b, FFT_C2R, x, &p), &p, l_int(l, 2), true));
}

const tpu_row rows_fft[] = {{"_fft_c2c", c2c, 0, 0}, {"_fft_r2c", r2c, 0, 0}, {"_fft_c2r", c2r, 0, 0}, {0}};
