/* Helpers of the index families; see indexing.h. */
#include "lower/indexing.h"

#include <stdio.h>

Val ix_move(B *b, Val x, int from, int to) {
  int rank = b_rank(b, x), perm[IR_MAX_RANK];
  if (rank < 2 || from == to) return x;
  for (int i = 0, j = 0; i < rank; i++) {
    if (j == from) j++;
    perm[i] = i == to ? from : j++;
  }
  return b_transpose(b, x, perm);
}

Val ix_raise(B *b, Val x, int rank) {
  while (b_ok(b) && b_rank(b, x) < rank) x = b_unsqueeze(b, x, 0);
  return x;
}

Val ix_merge(B *b, Val x, int from, int to) {
  if (!b_ok(b)) return BAD;
  const shape s = *b_shape(b, x);
  int64_t n = 1;
  bool generic = false;
  for (int i = from; i <= to; i++) n *= s.d[i].n, generic = generic || s.d[i].sym;
  if (from == to || !generic) return b_flatten(b, x, from, to);
  if (n > INT32_MAX) b_fail(b, TPU_NOT_IMPLEMENTED, "a generic value of more than 2^31 elements made flat");
  Val size = b_size(b, x, from, DT_I32);
  for (int i = from + 1; i <= to; i++) size = b_mul(b, size, b_size(b, x, i, DT_I32));
  return b_merge(b, x, from, to, n, b_symbol(b, size));
}

Val ix_flat(B *b, Val x) {
  if (!b_is_generic(b, x)) return b_reshape_to(b, x, 1, (int64_t[]){b_numel_static(b, x)});
  return ix_merge(b, x, 0, b_rank(b, x) - 1);
}

Val ix_unflat(B *b, Val v, const shape *s) {
  bool generic = false;
  for (int i = 0; i < s->rank; i++) generic = generic || s->d[i].sym;
  if (!b_ok(b)) return BAD;
  return !generic ? b_reshape(b, v, s) : s->rank == 1 ? b_relabel(b, v, s) : b_split(b, v, 0, s->rank, s->d);
}

Val ix_room(B *b, Val x, Val fill) {
  if (fill != BAD) x = b_mask_pad(b, x, axes_all(b_rank(b, x)), fill);
  if (!b_ok(b)) return BAD;
  shape s = *b_shape(b, x);
  for (int i = 0; i < s.rank; i++) s.d[i].sym = 0;
  return b_relabel(b, x, &s);
}

bool ix_is_empty(const shape *s) {
  for (int i = 0; i < s->rank; i++)
    if (!s->d[i].sym && s->d[i].n == 0) return true;
  return false;
}

/* Whether all positions of the axis (of x as a whole when axis is -1) fit in 32 bits. */
static bool fits_i32(const B *b, Val x, int axis) {
  const shape *s = b_shape(b, x);
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++)
    if (axis < 0 || i == axis) n *= s->d[i].n;
  return n <= INT32_MAX;
}

void ix_expect(L *l, Val idx, int kinds, const char *op) {
  tpu_dtype dt = b_dtype(l_b(l), idx);
  if (dt == DT_I64 || (dt == DT_I32 && kinds == IX_INT)) return;
  l_fail(l, TPU_RUNTIME,
         kinds == IX_INT ? "%s: Expected dtype int32/int64 for index but got: %s"
                         : "%s: Expected a long tensor for index, but got %s",
         op, tpu_dtype_torch_name(dt));
}

void ix_expect_argument(L *l, tpu_dtype dt, int place, const char *op) {
  if (dt == DT_I64 || dt == DT_I32) return;
  l_fail(l, TPU_RUNTIME,
         "Expected tensor for argument #%d 'indices' to have one of the following scalar types: Long, Int; "
         "but got %s instead (while checking arguments for %s)",
         place, tpu_dtype_torch_name(dt), op);
}

Val ix_ready(L *l, Val idx, Val x, int axis, int wrap, tpu_code code, const char *message) {
  B *b = l_b(l);
  tpu_dtype dt = b_dtype(b, idx);
  if (!b_ok(b)) return BAD;
  if (dt != DT_I32 && dt != DT_I64) dt = DT_I64;
  idx = b_mask_pad(b, b_cast(b, idx, dt), axes_all(b_rank(b, idx)), b_const_i(b, dt, 0));
  bool one = b_rank(b, x) == 0;
  Val n = one        ? b_const_i(b, dt, 1)
          : axis < 0 ? b_numel(b, x, dt)
                     : b_size(b, x, axis, dt),
      zero = b_const_i(b, dt, 0);
  if (!b_ok(b) || ix_is_empty(b_shape(b, idx))) return idx;
  Val low = wrap & IX_WRAP ? b_neg(b, n) : zero;
  char words[160];
  if (!message) {
    double size = 0;
    bool known = b_const_value(b, n, &size);
    snprintf(words, sizeof words,
             known ? "index out of range: it is out of bounds for dimension %d with size %lld"
                   : "index out of range: it is out of bounds for dimension %d",
             axis < 0 ? 0 : axis, (long long)size);
    message = words;
  }
  if (!(wrap & IX_UNCHECKED)) b_check(b, b_and(b, b_ge(b, idx, low), b_lt(b, idx, n)), code, message);
  if (wrap & IX_WRAP) idx = b_select(b, b_lt(b, idx, zero), b_add(b, idx, n), idx);
  return fits_i32(b, x, axis) ? b_cast(b, idx, DT_I32) : idx; /* several times faster on CPU */
}

/* On CPU a gather of slices behind other axes is slow (f32[1000,1000] by 4,096 columns 25 ms, element by
 * element 3; f32[64,1000,64] by 1,000 rows 9.5 and 3.8). */
Val ix_take(L *l, Val x, Val idx, int axis) {
  B *b = l_b(l);
  const shape *xs = b_shape(b, x), *is = b_shape(b, idx);
  if (!b_ok(b) || !l_on_cpu(l) || axis == 0 || (is->rank != 1 && b_is_generic(b, idx)))
    return b_take(b, x, idx, axis);
  shape s = *xs, out = {0};
  Val line = is->rank == 1 ? idx : ix_flat(b, idx);
  s.d[axis] = b_shape(b, line)->d[0];
  Val v = b_gather_axis(b, x, b_broadcast_dims(b, line, &s, &axis), axis);
  for (int i = 0; i < xs->rank; i++) {
    if (i != axis) out.d[out.rank++] = xs->d[i];
    for (int k = 0; k < is->rank && i == axis; k++) out.d[out.rank++] = is->d[k];
  }
  return b_reshape(b, v, &out);
}

/* Few bounds: count them. */
static Val count_before(B *b, Val sorted, Val v, bool right) {
  Val e = ix_raise(b, sorted, b_rank(b, v) + 1), w = b_unsqueeze(b, v, b_rank(b, v));
  Val before = b_not(b, right ? b_gt(b, e, w) : b_ge(b, e, w));
  return b_sum(b, b_cast(b, before, DT_I32), 1u << b_rank(b, v), false);
}

Val ix_search(B *b, Val sorted, Val v, bool right) {
  int last = b_rank(b, sorted) - 1;
  if (!b_ok(b)) return BAD;
  int64_t m = b_shape(b, sorted)->d[last].n, step = 1;
  if (last == 0 && m <= 32) return count_before(b, sorted, v, right);
  Val at = b_zeros(b, DT_I32, b_shape(b, v)), bound = b_size(b, sorted, last, DT_I32),
      one = b_const_i(b, DT_I32, 1);
  if (m == 0) return at;
  while (step * 2 <= m) step *= 2;
  for (; step > 0 && b_ok(b); step /= 2) {
    Val next = b_add(b, at, b_const_i(b, DT_I32, step)), probe = b_sub(b, b_minimum(b, next, bound), one);
    Val e = last == 0 ? b_take(b, sorted, probe, 0) : b_gather_axis(b, sorted, probe, last);
    Val before = b_not(b, right ? b_gt(b, e, v) : b_ge(b, e, v));
    at = b_select(b, b_and(b, before, b_le(b, next, bound)), next, at);
  }
  return at;
}

Val ix_rank(B *b, Val mask) {
  mask = b_mask_pad(b, mask, 1, b_const_i(b, DT_BOOL, 0));
  Val count = b_cumulative(b, RED_SUM, b_cast(b, mask, DT_I32), 0, false), one = b_const_i(b, DT_I32, 1);
  return b_select(b, mask, b_sub(b, count, one), b_neg(b, one));
}

Val ix_mask_place(B *b, Val mask) {
  Val room = ix_room(b, mask, b_const_i(b, DT_BOOL, 0));
  Val place = b_maximum(b, ix_rank(b, ix_flat(b, room)), b_const_i(b, DT_I32, 0));
  return b_ok(b) ? b_relabel(b, b_reshape(b, place, b_shape(b, room)), b_shape(b, mask)) : BAD;
}

Val ix_pack(B *b, Val place, Val values, int64_t n) {
  shape s = *b_shape(b, values);
  if (!b_ok(b) || s.rank < 1) return BAD;
  s.d[0] = (ir_dim){n, 0};
  return b_scatter_nd(b, SCAT_SET, b_zeros(b, b_dtype(b, values), &s), &place, 1, values);
}

Val ix_trues(B *b, Val mask, int64_t n) {
  return ix_pack(b, ix_rank(b, mask), b_iota(b, DT_I32, b_shape(b, mask), 0), n);
}

Val ix_scatter_slices(B *b, b_scat kind, Val x, Val idx, Val source, int axis) {
  bool scalar = b_rank(b, x) == 0;
  if (scalar) {
    x = b_unsqueeze(b, x, 0);
    source = ix_flat(b, source);
    axis = 0;
  }
  if (b_rank(b, idx) == 0) idx = b_unsqueeze(b, idx, 0);
  if (b_rank(b, source) == 0) source = b_unsqueeze(b, source, 0);
  Val v = b_scatter_nd(b, kind, ix_move(b, x, axis, 0), &idx, 1, ix_move(b, source, axis, 0));
  v = ix_move(b, v, 0, axis);
  return scalar ? b_squeeze(b, v, 0) : v;
}

/* --- advanced indexing --- */

/* The common shape of the index tensors. */
static bool plan_common(L *l, ix_plan *p) {
  B *b = l_b(l);
  shape c = {0};
  for (int k = 0; k < p->n; k++) {
    const shape *s = b_shape(b, p->idx[k]);
    int rank = c.rank > s->rank ? c.rank : s->rank;
    for (int i = 0; i < rank; i++) {
      int at = rank - 1 - i, ci = c.rank - 1 - i, si = s->rank - 1 - i;
      ir_dim one = {1, 0}, d = ci >= 0 ? c.d[ci] : one, e = si >= 0 ? s->d[si] : one;
      bool done = d.n == 1 && !d.sym, same = d.n == e.n && d.sym == e.sym;
      if (!done && !same && (e.n != 1 || e.sym)) {
        l_fail(l, d.sym || e.sym ? TPU_NOT_IMPLEMENTED : TPU_INDEX,
               "shape mismatch: indexing tensors could not be broadcast together (sizes %lld and %lld)",
               (long long)d.n, (long long)e.n);
        return false;
      }
      c.d[at] = done ? e : d;
      if (rank > c.rank && ci < 0) c.d[at] = e;
    }
    c.rank = rank;
  }
  p->common = c;
  return true;
}

bool ix_plan_make(L *l, int i, Val x, int wrap, ix_plan *p) {
  B *b = l_b(l);
  int n = l_len(l, i), rank = b_rank(b, x), rest = 0;
  p->n = 0;
  if (n > rank) {
    l_fail(l, TPU_INDEX, "too many indices for tensor of dimension %d (got %d)", rank, n);
    return false;
  }
  for (int k = 0; k < n; k++) {
    if (!l_has_item(l, i, k)) continue;
    tpu_dtype dt = b_dtype(b, l_item(l, i, k));
    if (dt != DT_I32 && dt != DT_I64) {
      if (wrap & IX_UNCHECKED)
        l_fail(l, TPU_RUNTIME, "%s found unexpected index type %s", l_name(l), tpu_dtype_torch_name(dt));
      l_fail(l, TPU_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
    }
    p->axis[p->n] = k;
    p->idx[p->n++] = ix_ready(l, l_item(l, i, k), x, k, wrap, TPU_INDEX, NULL);
  }
  if (!b_ok(b) || !plan_common(l, p)) return false;
  bool adjacent = p->n && p->axis[p->n - 1] - p->axis[0] == p->n - 1;
  p->front = adjacent ? p->axis[0] : 0;
  if (rank - p->n + p->common.rank > IR_MAX_RANK) {
    l_fail(l, TPU_NOT_IMPLEMENTED, "an indexed result of more than %d dims", IR_MAX_RANK);
    return false;
  }
  const shape *s = b_shape(b, x);
  p->result.rank = 0;
  for (int k = 0, at = 0; k <= rank; k++) {
    if (rest == p->front && at == 0)
      for (at = 1; at <= p->common.rank; at++) p->result.d[p->result.rank++] = p->common.d[at - 1];
    bool indexed = k == rank;
    for (int j = 0; j < p->n; j++) indexed = indexed || p->axis[j] == k;
    if (indexed) continue;
    p->result.d[p->result.rank++] = s->d[k];
    rest++;
  }
  return true;
}

static int plan_perm(const ix_plan *p, int rank, int *perm) {
  int n = 0;
  for (int j = 0; j < p->n; j++) perm[n++] = p->axis[j];
  for (int k = 0; k < rank; k++) {
    bool indexed = false;
    for (int j = 0; j < p->n; j++) indexed = indexed || p->axis[j] == k;
    if (!indexed) perm[n++] = k;
  }
  return n;
}

Val ix_plan_front(B *b, const ix_plan *p, Val x) {
  int perm[IR_MAX_RANK];
  if (!b_ok(b)) return BAD;
  plan_perm(p, b_rank(b, x), perm);
  return b_transpose(b, x, perm);
}

Val ix_plan_back(B *b, const ix_plan *p, Val x) {
  int perm[IR_MAX_RANK], inverse[IR_MAX_RANK];
  if (!b_ok(b)) return BAD;
  int n = plan_perm(p, b_rank(b, x), perm);
  for (int i = 0; i < n; i++) inverse[perm[i]] = i;
  return b_transpose(b, x, inverse);
}

/* Moves a block of `count` axes from place `from` to place `to`. */
static Val move_block(B *b, Val v, int from, int count, int to) {
  int rank = b_rank(b, v), perm[IR_MAX_RANK];
  if (!b_ok(b) || from == to) return v;
  for (int i = 0, j = 0; i < rank; i++) {
    if (j == from) j += count;
    perm[i] = i >= to && i < to + count ? from + i - to : j++;
  }
  return b_transpose(b, v, perm);
}

Val ix_plan_in(B *b, const ix_plan *p, Val v) { return move_block(b, v, p->front, p->common.rank, 0); }
Val ix_plan_out(B *b, const ix_plan *p, Val v) { return move_block(b, v, 0, p->common.rank, p->front); }
