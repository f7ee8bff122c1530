/* Gather and scatter: x[i] along an axis, x[i, j, ...] over the first axes, and their inverses. */
#include "ir/graph.h"

/* Index arrays as one integer dtype that holds every position (indices of 8 or 16 bits cannot). */
static Val as_index(B *b, Val idx) {
  if (ir_bad(b, idx)) return BAD;
  tpu_dtype dt = b_dtype(b, idx);
  if (!dt_is_integral(dt)) {
    b_fail(b, TPU_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
    return BAD;
  }
  return dt_bytes(dt) < 4 ? b_cast(b, idx, DT_I32) : idx;
}

static bool is_empty(const shape *s) { return ir_numel_phys(s) == 0; }

typedef struct numbers {
  int64_t offset[IR_MAX_RANK], collapsed[IR_MAX_RANK], map[IR_MAX_RANK], batch[IR_MAX_RANK],
      sizes[IR_MAX_RANK];
  int noffset, ncollapsed, nmap, nbatch, vector_dim;
} numbers;

static void attr_sep(text *t, const char *name, const int64_t *v, int n) {
  if (!n) return;
  if (t->p[t->n - 1] != '<') text_str(t, ", ");
  ir_attr_list(t, name, v, n);
}

static Val gather_node(B *b, Val x, Val idx, const numbers *g, const shape *s) {
  if (ir_bad(b, x) || ir_bad(b, idx)) return BAD;
  tpu_dtype dt = b_dtype(b, x);
  if (is_empty(s) || is_empty(b_shape(b, x))) return b_zeros(b, dt, s);
  text *t = ir_attr(b);
  text_str(t, "dimension_numbers = #stablehlo.gather<");
  attr_sep(t, "offset_dims", g->offset, g->noffset);
  attr_sep(t, "collapsed_slice_dims", g->collapsed, g->ncollapsed);
  attr_sep(t, "operand_batching_dims", g->batch, g->nbatch);
  attr_sep(t, "start_indices_batching_dims", g->batch, g->nbatch);
  attr_sep(t, "start_index_map", g->map, g->nmap);
  text_printf(t, "%sindex_vector_dim = %d>, indices_are_sorted = false", t->p[t->n - 1] != '<' ? ", " : "",
              g->vector_dim);
  ir_attr_i64s(t, "slice_sizes", g->sizes, b_rank(b, x));
  return ir_opn(b, IR_GATHER, dt, s, (Val[]){x, idx}, 2, t);
}

Val b_take(B *b, Val x, Val idx, int axis) {
  idx = as_index(b, idx);
  if (ir_bad(b, x) || idx < 0) return BAD;
  const shape *xs = b_shape(b, x), *is = b_shape(b, idx);
  axis = axis_norm(b, axis, xs->rank);
  if (b->err || !xs->rank) return b->err ? BAD : b_broadcast_to(b, x, is);
  if (xs->rank - 1 + is->rank > IR_MAX_RANK) {
    b_fail(b, TPU_NOT_IMPLEMENTED, "an indexed result of more than %d dims", IR_MAX_RANK);
    return BAD;
  }
  numbers g = {.collapsed = {axis}, .ncollapsed = 1, .map = {axis}, .nmap = 1, .vector_dim = is->rank};
  shape s = {0};
  for (int i = 0; i < xs->rank; i++) {
    g.sizes[i] = i == axis ? 1 : xs->d[i].n;
    if (i == axis) {
      for (int k = 0; k < is->rank; k++) s.d[s.rank++] = is->d[k];
      continue;
    }
    g.offset[g.noffset++] = s.rank;
    s.d[s.rank++] = xs->d[i];
  }
  return gather_node(b, x, idx, &g, &s);
}

/* Dim i of x, of which idx has a part: what is no element of x is no element of idx. */
static Val cut_generic(B *b, Val x, int i, ir_dim q) {
  Val most = b_size(b, x, i, DT_I32), n = q.sym ? b_symbol_size(b, q.sym) : b_const_i(b, DT_I32, q.n);
  b_check(b, b_le(b, n, most), TPU_RUNTIME,
          "the index is larger than the tensor in a dimension that is not indexed");
  if (b_shape(b, x)->d[i].n != q.n) x = ir_resize_axis(b, x, i, q.n);
  if (b->err) return BAD;
  shape s = *b_shape(b, x);
  s.d[i] = q;
  return b_relabel(b, x, &s);
}

/* x cut so that its dims other than `axis` are those of idx. */
static Val cut_to(B *b, Val x, const shape *is, int axis) {
  const shape *xs = b_shape(b, x);
  if (xs->rank != is->rank) {
    b_fail(b, TPU_RUNTIME, "Index tensor must have the same number of dimensions as input tensor");
    return BAD;
  }
  for (int i = 0; i < is->rank; i++) {
    ir_dim p = b_shape(b, x)->d[i], q = is->d[i];
    if (i == axis || ir_dim_same(p, q)) continue;
    if (p.sym && p.sym == q.sym)
      x = ir_resize_axis(b, x, i, q.n);
    else if (p.sym || q.sym)
      x = cut_generic(b, x, i, q);
    else if (q.n > p.n)
      b_fail(b, TPU_RUNTIME, "Size does not match at dimension %d: expected index of at most %lld, got %lld",
             i, (long long)p.n, (long long)q.n);
    else
      x = b_slice(b, x, i, 0, q.n, 1);
  }
  return b->err ? BAD : x;
}

Val b_gather_axis(B *b, Val x, Val idx, int axis) {
  idx = as_index(b, idx);
  if (ir_bad(b, x) || idx < 0) return BAD;
  axis = axis_norm(b, axis, b_rank(b, x));
  if (!b_rank(b, x)) return b_broadcast_to(b, x, b_shape(b, idx));
  shape is = *b_shape(b, idx);
  x = cut_to(b, x, &is, axis);
  if (x < 0) return BAD;
  numbers g = {.collapsed = {axis}, .ncollapsed = 1, .map = {axis}, .nmap = 1, .vector_dim = is.rank};
  for (int i = 0; i < is.rank; i++) {
    g.sizes[i] = 1;
    if (i != axis) g.batch[g.nbatch++] = i;
  }
  return gather_node(b, x, idx, &g, &is);
}

/* The index arrays as one array [common dims..., n]; *common receives their broadcast shape. */
static Val stack_indices(B *b, const Val *idx, int n, shape *common) {
  Val v[IR_MAX_RANK];
  tpu_dtype dt = DT_I32;
  for (int i = 0; i < n; i++) {
    v[i] = as_index(b, idx[i]);
    if (v[i] < 0) return BAD;
    if (dt_bytes(b_dtype(b, v[i])) > 4 || b_dtype(b, v[i]) == DT_U32) dt = DT_I64;
  }
  for (int i = 0; i < n; i++) v[i] = b_cast(b, v[i], dt);
  if (!ir_match(b, v, n, common)) return BAD;
  for (int i = 0; i < n; i++) v[i] = b_unsqueeze(b, v[i], common->rank);
  return b_concat(b, v, n, common->rank);
}

static bool nd_fits(B *b, Val x, int n) {
  if (n <= b_rank(b, x)) return true;
  b_fail(b, TPU_INDEX, "too many indices for tensor of dimension %d", b_rank(b, x));
  return false;
}

Val b_gather_nd(B *b, Val x, const Val *idx, int n) {
  if (ir_bad(b, x) || !nd_fits(b, x, n)) return BAD;
  if (!n) return x;
  if (n == 1) return b_take(b, x, idx[0], 0);
  shape s;
  Val at = stack_indices(b, idx, n, &s);
  if (at < 0) return BAD;
  const shape *xs = b_shape(b, x);
  numbers g = {.vector_dim = s.rank};
  for (int i = 0; i < n; i++) g.collapsed[g.ncollapsed++] = g.map[g.nmap++] = i;
  for (int i = 0; i < xs->rank; i++) {
    g.sizes[i] = i < n ? 1 : xs->d[i].n;
    if (i < n) continue;
    g.offset[g.noffset++] = s.rank;
    s.d[s.rank++] = xs->d[i];
  }
  return gather_node(b, x, at, &g, &s);
}

/* --- scatter --- */

static const b_red scat_red[] = {
    [SCAT_ADD] = RED_SUM, [SCAT_MUL] = RED_PROD, [SCAT_MAX] = RED_MAX, [SCAT_MIN] = RED_MIN};

static int scatter_region(B *b, b_scat kind, tpu_dtype dt) {
  if (kind != SCAT_SET) return ir_red_region(b, scat_red[kind], dt);
  int r = ir_region_open(b, true);
  ir_arg(b, dt, &ir_scalar);
  Val v = ir_arg(b, dt, &ir_scalar);
  ir_region_close(b, &v, 1);
  return r;
}

/* at = [dims..., n], updates = [dims..., rest of x]; all of the dtype to scatter in. */
static Val scatter_node(B *b, b_scat kind, Val x, Val at, int n, Val updates) {
  const shape *xs = b_shape(b, x);
  tpu_dtype dt = b_dtype(b, x);
  int k = b_rank(b, at) - 1;
  int64_t window[IR_MAX_RANK], first[IR_MAX_RANK];
  for (int i = 0; i < n; i++) first[i] = i;
  for (int i = n; i < xs->rank; i++) window[i - n] = k + i - n;
  text *t = ir_attr(b);
  text_str(t, "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<");
  attr_sep(t, "update_window_dims", window, xs->rank - n);
  attr_sep(t, "inserted_window_dims", first, n);
  attr_sep(t, "scatter_dims_to_operand_dims", first, n);
  text_printf(t, ", index_vector_dim = %d>, unique_indices = false", k);
  ir_spec sp = {.op = IR_SCATTER,
                .dt = dt,
                .s = xs,
                .ops = (Val[]){x, at, updates},
                .nops = 3,
                .tag = 1 + (int)kind,
                .nattr = (int)t->n};
  sp.attr = arena_copy(&b->mem, t->p, t->n);
  Val v = ir_lookup(b, &sp);
  return v >= 0 || b->err ? v : ir_add(b, &sp, scatter_region(b, kind, dt), 0);
}

Val b_scatter_nd(B *b, b_scat kind, Val x, const Val *idx, int n, Val updates) {
  if (ir_bad(b, x) || ir_bad(b, updates) || !nd_fits(b, x, n)) return BAD;
  tpu_dtype dt = b_dtype(b, x), acc = kind == SCAT_SET ? dt : dt_acc(dt);
  shape s, full;
  if (!n) {
    b_fail(b, TPU_INTERNAL, "scatter without an index");
    return BAD;
  }
  Val at = stack_indices(b, idx, n, &s);
  if (at < 0 || (kind != SCAT_SET && !ir_red_ok(b, scat_red[kind], dt))) return BAD;
  const shape *xs = b_shape(b, x);
  full = s;
  for (int i = n; i < xs->rank; i++) full.d[full.rank++] = xs->d[i];
  updates = b_broadcast_to(b, b_cast(b, updates, acc), &full);
  uint32_t dims = axes_all(s.rank);
  at = b_mask_pad(b, at, dims,
                  b_const_i(b, b_dtype(b, at), -1)); /* what is padding is out of range: dropped */
  if (b->err) return BAD;
  if (is_empty(&full) || is_empty(xs)) return x;
  return b_cast(b, scatter_node(b, kind, b_cast(b, x, acc), at, n, updates), dt);
}

Val b_scatter_axis(B *b, b_scat kind, Val x, Val idx, Val src, int axis) {
  idx = as_index(b, idx);
  if (ir_bad(b, x) || ir_bad(b, src) || idx < 0) return BAD;
  int rank = b_rank(b, x);
  axis = axis_norm(b, axis, rank);
  if (!rank) { /* torch lets a scalar be scattered into as if it had one element */
    Val one = b_unsqueeze(b, x, 0), flat = b_reshape_to(b, idx, 1, (int64_t[]){b_numel_static(b, idx)});
    if (b_rank(b, src) == 0 && b_numel_static(b, idx)) src = b_reshape_to(b, src, 1, (int64_t[]){1});
    return b_squeeze(b, b_scatter_axis(b, kind, one, flat, src, 0), 0);
  }
  shape is = *b_shape(b, idx);
  if (is.rank != rank) {
    b_fail(b, TPU_RUNTIME, "Index tensor must have the same number of dimensions as self tensor");
    return BAD;
  }
  if (b_rank(b, src)) src = cut_to(b, src, &is, -1);
  Val at[IR_MAX_RANK];
  for (int i = 0; i < rank; i++) at[i] = i == axis ? idx : b_iota(b, DT_I32, &is, i);
  return b_scatter_nd(b, kind, x, at, rank, src);
}
