/* Strides of results. See layout.h. */
#include "value/layout.h"

#include "value/geometry.h"

void layout_contiguous(int rank, const int64_t *sizes, int64_t *strides) {
  int64_t s = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = s;
    s *= sizes[i] > 1 ? sizes[i] : 1;
  }
}

void layout_columns(int rank, const int64_t *sizes, int64_t *strides) {
  layout_contiguous(rank, sizes, strides);
  if (rank < 2) return;
  strides[rank - 2] = 1;
  strides[rank - 1] = sizes[rank - 2] > 1 ? sizes[rank - 2] : 1;
}

static bool same_sizes(const strided *o, int rank, const int64_t *sizes) {
  if (o->rank != rank) return false;
  for (int i = 0; i < rank; i++)
    if (o->sizes[i] != sizes[i]) return false;
  return true;
}

/* Stride of an operand along a result dim; 0 where it broadcasts. */
static int64_t stride_at(const strided *o, int rank, int d) {
  int i = d - (rank - o->rank);
  return i < 0 || o->sizes[i] == 1 ? 0 : o->strides[i];
}

/* > 0: dim a must lie outside dim c, < 0: inside, 0: no operand tells. */
static int order_of(int n, const strided *ops, int rank, const int64_t *sizes, int a, int c) {
  for (int k = 0; k < n; k++) {
    int64_t sa = stride_at(&ops[k], rank, a), sc = stride_at(&ops[k], rank, c);
    if (sa == 0 || sc == 0) continue;
    if (sa != sc) return sa < sc ? -1 : 1;
    if (sizes[a] > sizes[c]) return 1;
  }
  return 0;
}

void layout_elementwise(int n, const strided *ops, int rank, const int64_t *sizes, int64_t *strides) {
  bool plain = true;
  for (int k = 0; k < n; k++)
    plain = plain &&
            (!same_sizes(&ops[k], rank, sizes) || view_is_contiguous(rank, ops[k].sizes, ops[k].strides));
  if (plain) {
    layout_contiguous(rank, sizes, strides);
    return;
  }
  int perm[TPU_MAX_RANK]; /* fastest first */
  for (int i = 0; i < rank; i++) perm[i] = rank - 1 - i;
  for (int i = 1; i < rank; i++)
    for (int at = i, j = i - 1; j >= 0; j--) {
      int cmp = order_of(n, ops, rank, sizes, perm[j], perm[at]);
      if (cmp < 0) break;
      if (cmp > 0) {
        int t = perm[j];
        perm[j] = perm[at];
        perm[at] = t;
        at = j;
      }
    }
  int64_t s = 1;
  for (int i = 0; i < rank; i++) {
    strides[perm[i]] = s;
    s *= sizes[perm[i]] > 1 ? sizes[perm[i]] : 1;
  }
}

static void channels_strides(int rank, const int64_t *sizes, int64_t *strides) {
  int64_t s = 1;
  for (int k = 0; k < rank; k++) { /* order inside out: C, then spatial from the last, then N */
    int d = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
    strides[d] = s;
    s *= sizes[d] > 1 ? sizes[d] : 1;
  }
}

static bool is_channels_last(const strided *o) {
  int64_t want[TPU_MAX_RANK];
  if ((o->rank != 4 && o->rank != 5) || view_is_contiguous(o->rank, o->sizes, o->strides)) return false;
  channels_strides(o->rank, o->sizes, want);
  for (int i = 0; i < o->rank; i++)
    if (o->sizes[i] != 1 && o->strides[i] != want[i]) return false;
  return true;
}

void layout_channels(int n, const strided *ops, bool all, int rank, const int64_t *sizes, int64_t *strides) {
  int so = 0;
  for (int k = 0; k < n && (all || k < 2); k++) so += ops[k].rank == rank && is_channels_last(&ops[k]);
  if ((rank == 4 || rank == 5) && (all ? n && so == n : so))
    channels_strides(rank, sizes, strides);
  else
    layout_contiguous(rank, sizes, strides);
}
