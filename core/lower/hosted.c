/* Results whose size depends on the data: the host's part. A row of dynamic.c computes at full capacity and
 * counts; the count is read here (the host waits) and the result is a prefix of the storage. So no program is
 * made per count; only where the counted dim is not the first one, or meets other indices, is the result made
 * at its exact size. */
#include <string.h>

#include "call/prep.h"
#include "lower/indexing.h"
#include "step/compose.h"

enum {
  SHRINK_FROM = 1 << 16
}; /* elements: a larger result that is mostly empty moves to a smaller storage */

static int64_t numel(const tpu_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->sizes[i];
  return n;
}

/* Returns the first n of t along its first dim. */
static tpu_error *return_prefix(composition *c, const tpu_tensor *t, int64_t n) {
  int64_t room = t->rank ? t->sizes[0] : 1, rung = ladder_rung(n);
  if (numel(t) >= SHRINK_FROM && rung < room / 4 && !(tpu_sizes_auto() && rt_get_info()->is_cpu)) {
    tpu_arg args[4] = {c_tensor(t), c_int(0), c_int(0), c_int(rung)};
    TRY(c_run(c, "narrow_copy", 4, args, 1, &t));
  }
  TRY(c_first(c, t, 0, n));
  c_return(c, t, t->rank, t->sizes);
  return NULL;
}

static const tpu_arg *arg(const composition *c, int i) { return &c->call->args[i]; }
static const tpu_tensor *tensor(const composition *c, int i) { return arg(c, i)->u.t; }
static bool flag(const composition *c, int i) { return arg(c, i)->tag != TPU_A_NONE && arg(c, i)->u.i != 0; }

/* --- nonzero, masked_select --- */

static tpu_error *nonzero(composition *c) {
  const tpu_tensor *out[2];
  int64_t n;
  TRY(c_run(c, "tpu::nonzero", 1, arg(c, 0), 2, out));
  TRY(c_item(c, out[1], &n));
  return return_prefix(c, out[0], n);
}

static tpu_error *masked_select(composition *c) {
  const tpu_tensor *out[2];
  int64_t n;
  TRY(c_run(c, "tpu::masked_select", 2, c->call->args, 2, out));
  TRY(c_item(c, out[1], &n));
  return return_prefix(c, out[0], n);
}

/* --- masks among indices --- */

static bool is_given(const tpu_tensor *t) { return !(t->flags & TPU_T_UNDEFINED); }

static bool is_mask(const tpu_tensor *t) {
  tpu_dtype dt = is_given(t) ? tpu_dtype_from_torch(t->dtype) : DT_F32;
  return dt == DT_BOOL || dt == DT_U8;
}

typedef struct indices {
  int n, given, masks, first; /* first: the place of the first mask */
} indices;

static indices look(const tpu_arg *a) {
  indices r = {.first = -1};
  r.n = (int)a->n;
  for (int k = 0; k < r.n; k++) {
    if (!is_given(&a->u.t[k])) continue;
    r.given++;
    if (!is_mask(&a->u.t[k])) continue;
    if (!r.masks++) r.first = k;
  }
  return r;
}

static tpu_error *check_mask(const tpu_tensor *x, const tpu_tensor *mask, int at, int place) {
  for (int i = 0; i < mask->rank; i++) {
    if (at + i >= x->rank) return tpu_err(TPU_INDEX, "too many indices for tensor of dimension %d", x->rank);
    if (mask->sizes[i] != x->sizes[at + i])
      return tpu_err(TPU_INDEX,
                     "The shape of the mask (size %lld at dimension %d) at index %d does not match the shape "
                     "of the indexed tensor "
                     "(size %lld) at index %d",
                     (long long)mask->sizes[i], i, place, (long long)x->sizes[at + i], at + i);
  }
  return NULL;
}

enum { INDEX_MAX = 32 };

/* The list with every mask replaced by the columns of its trues. room: where sizes are exact the columns may
 * be longer than the count (zeros behind). */
static tpu_error *expand_masks(composition *c, const tpu_tensor *x, const tpu_arg *a, bool room,
                               tpu_tensor *list, int *len, int64_t *count) {
  int at = 0;
  for (int k = 0; k < (int)a->n; k++) {
    const tpu_tensor *t = &a->u.t[k], *out[2];
    int width = is_mask(t) ? t->rank : 1;
    if (at + width > INDEX_MAX)
      return tpu_err(TPU_INDEX, "too many indices for tensor of dimension %d", x->rank);
    if (!is_mask(t)) {
      list[at++] = *t;
      continue;
    }
    TRY(check_mask(x, t, at, k));
    tpu_arg mask = c_tensor(t);
    TRY(c_run(c, "tpu::nonzero", 1, &mask, 2, out));
    TRY(c_item(c, out[1], count));
    int64_t most = out[0]->sizes[0], n = *count, rung = ladder_rung(n);
    if (tpu_sizes_auto())
      TRY(c_first(c, out[0], 0, n));
    else if (room && n)
      n = rung < most ? rung : most;
    for (int j = 0; j < width; j++) {
      int64_t stride = width;
      list[at++] = *c_view(c, out[0], 1, &n, &stride, j);
    }
  }
  *len = at;
  return NULL;
}

tpu_error *hosted_index(composition *c) {
  const tpu_tensor *x = tensor(c, 0), *out;
  const tpu_arg *a = arg(c, 1);
  indices in = look(a);
  if (!in.masks) return c_plain(c);
  bool whole = in.given == 1 && in.first == 0; /* the counted dim is the first of the result */
  for (int i = 0; i < x->rank; i++) whole = whole && x->sizes[i] > 0;
  tpu_tensor list[INDEX_MAX];
  int n;
  int64_t count;
  TRY(expand_masks(c, x, a, whole, list, &n, &count));
  tpu_arg args[2] = {c_tensor(x), {.tag = TPU_A_TENSORS, .n = (uint32_t)n, .u.t = list}};
  TRY(c_run(c, c->call->row->name, 2, args, 1, &out));
  if (whole) TRY(c_first(c, out, 0, count));
  c_return(c, out, out->rank, out->sizes);
  return NULL;
}

/* One mask alone is written by a select in the row itself. */
tpu_error *hosted_index_put(composition *c) {
  const tpu_tensor *x = tensor(c, 0), *out;
  indices in = look(arg(c, 1));
  if (!in.masks || in.given == 1) return c_plain(c);
  tpu_tensor list[INDEX_MAX];
  int n;
  int64_t count;
  TRY(expand_masks(c, x, arg(c, 1), false, list, &n, &count));
  tpu_arg args[4] = {
      c_tensor(x), {.tag = TPU_A_TENSORS, .n = (uint32_t)n, .u.t = list}, *arg(c, 2), c_bool(flag(c, 3))};
  TRY(c_run(c, "index_put", 4, args, 1, &out));
  c_return(c, out, out->rank, out->sizes);
  return NULL;
}

/* --- unique --- */

static void return_nothing(composition *c, const tpu_tensor *t) {
  int64_t zero = 0;
  c_return(c, t, 1, &zero);
}

/* out: values, inverse, counts, n of a row; dim: where the values are packed. */
static tpu_error *return_groups(composition *c, const tpu_tensor **out, int dim, bool inverse, bool counts,
                                int nresults) {
  int64_t n;
  TRY(c_item(c, out[3], &n));
  if (dim == 0) {
    TRY(return_prefix(c, out[0], n));
  } else if (tpu_sizes_auto() && n > 1) {
    TRY(c_first(c, out[0], dim, n));
    c_return(c, out[0], out[0]->rank, out[0]->sizes);
  } else {
    tpu_arg args[4] = {c_tensor(out[0]), c_int(dim), c_int(0), c_int(n)};
    const tpu_tensor *cut;
    TRY(c_run(c, "narrow_copy", 4, args, 1, &cut));
    c_return(c, cut, cut->rank, cut->sizes);
  }
  if (inverse)
    c_return(c, out[1], out[1]->rank, out[1]->sizes);
  else
    return_nothing(c, out[1]);
  if (nresults < 3) return NULL;
  if (counts) return return_prefix(c, out[2], n);
  return_nothing(c, out[2]);
  return NULL;
}

static tpu_error *run_unique(composition *c, bool sort, bool inverse, bool counts, int nresults) {
  const tpu_tensor *out[4];
  tpu_arg args[3] = {*arg(c, 0), c_bool(sort), c_bool(inverse)};
  TRY(c_run(c, "tpu::unique", 3, args, 4, out));
  return return_groups(c, out, 0, inverse, counts, nresults);
}

static tpu_error *run_unique_dim(composition *c, int64_t dim, bool sort, bool inverse, bool counts) {
  const tpu_tensor *out[4];
  int rank = tensor(c, 0)->rank;
  tpu_arg args[3] = {*arg(c, 0), c_int(dim), c_bool(sort)};
  TRY(c_run(c, "tpu::unique_dim", 3, args, 4, out));
  return return_groups(c, out, (int)(dim < 0 ? dim + rank : dim), inverse, counts, 3);
}

static bool is_complex(const composition *c) {
  return dt_is_complex(tpu_dtype_from_torch(tensor(c, 0)->dtype));
}

/* (self, sorted, return_inverse) and (self, sorted, return_inverse, return_counts) */
static tpu_error *unique(composition *c) {
  if (is_complex(c)) return c_decline(c, "unique of complex numbers");
  bool two = c->call->nargs == 3;
  return run_unique(c, true, flag(c, 2), !two && flag(c, 3), two ? 2 : 3);
}

/* (self, return_inverse, return_counts, dim) */
static tpu_error *unique_consecutive(composition *c) {
  if (is_complex(c)) return c_decline(c, "unique of complex numbers");
  if (arg(c, 3)->tag == TPU_A_NONE || tensor(c, 0)->rank == 0)
    return run_unique(c, false, flag(c, 1), flag(c, 2), 3);
  return run_unique_dim(c, arg(c, 3)->u.i, false, flag(c, 1), flag(c, 2));
}

/* (self, dim, sorted, return_inverse, return_counts) */
static tpu_error *unique_dim(composition *c) {
  if (is_complex(c)) return c_decline(c, "unique of complex numbers");
  return run_unique_dim(c, arg(c, 1)->u.i, true, flag(c, 3), flag(c, 4));
}

/* (self, dim, return_inverse, return_counts) */
static tpu_error *unique_dim_consecutive(composition *c) {
  if (is_complex(c)) return c_decline(c, "unique of complex numbers");
  return run_unique_dim(c, arg(c, 1)->u.i, false, flag(c, 2), flag(c, 3));
}

/* --- repeat_interleave, bincount --- */

/* (repeats, output_size) */
tpu_error *hosted_repeat_interleave(composition *c) {
  const tpu_tensor *sum, *out;
  int64_t n;
  if (arg(c, 1)->tag != TPU_A_NONE) return c_plain(c);
  TRY(c_run(c, "tpu::total", 1, arg(c, 0), 1, &sum));
  TRY(c_item(c, sum, &n));
  tpu_arg args[2] = {*arg(c, 0), c_int(n ? ladder_rung(n) : 0)};
  TRY(c_run(c, "repeat_interleave.Tensor", 2, args, 1, &out));
  return return_prefix(c, out, n);
}

/* (self, weights, minlength) */
static tpu_error *bincount(composition *c) {
  const tpu_tensor *most, *out, *x = tensor(c, 0);
  int64_t n, least = arg(c, 2)->u.i;
  bool empty = x->rank == 1 && x->sizes[0] == 0;
  if (least < 0 && dt_is_int(tpu_dtype_from_torch(x->dtype)))
    return tpu_err(TPU_RUNTIME, "bincount: minlength should be >= 0");
  TRY(c_run(c, "tpu::extent", 1, arg(c, 0), 1, &most));
  TRY(c_item(c, most, &n));
  if (n < least) n = least;
  tpu_arg args[3] = {*arg(c, 0), empty ? c_none() : *arg(c, 1), c_int(n ? ladder_rung(n) : 0)};
  TRY(c_run(c, "tpu::bincount", 3, args, 1, &out));
  return return_prefix(c, out, n);
}

/* (self, num_classes): -1 for one more than the largest */
tpu_error *hosted_one_hot(composition *c) {
  const tpu_tensor *most, *out, *x = tensor(c, 0);
  int64_t n;
  if (arg(c, 1)->u.i != -1 || !numel(x)) return c_plain(c);
  TRY(c_run(c, "tpu::classes", 1, arg(c, 0), 1, &most));
  TRY(c_item(c, most, &n));
  tpu_arg args[2] = {*arg(c, 0), c_int(n)};
  TRY(c_run(c, "one_hot", 2, args, 1, &out));
  c_return(c, out, out->rank, out->sizes);
  return NULL;
}

const tpu_row rows_hosted[] = {{"nonzero", NULL, 0, ROW_SAME_DTYPE, nonzero},
                               {"masked_select", NULL, 0, ROW_OVERLAP_ALL | ROW_SAME_DTYPE, masked_select},
                               {"_unique", NULL, 0, 0, unique},
                               {"_unique2", NULL, 0, 0, unique},
                               {"unique_consecutive", NULL, 0, 0, unique_consecutive},
                               {"unique_dim", NULL, 0, 0, unique_dim},
                               {"unique_dim_consecutive", NULL, 0, 0, unique_dim_consecutive},
                               {"bincount", NULL, 0, 0, bincount},
                               {0}};
