/* Views of generic values. See geometry.h, GEOM_GROUPS.
 *
 * A value's dims fall into groups: each generic dim is one, and so is each run of static dims between them. A
 * tensor dim belongs to the group whose range of logical strides holds its stride; what a tensor says about a
 * group is a view of that group alone. Only logical sizes decide here; physical ones enter when the program
 * is built, so that one plan serves all sizes that have its rungs. */
#include <string.h>

#include "value/geometry.h"

typedef struct group {
  int64_t extent, stride, start; /* logical */
  int64_t phys;
  bool generic;
  int dims[TPU_MAX_RANK], ndims; /* tensor dims, by stride down */
} group;

typedef struct plan {
  const view *t;
  geom *g;
  group groups[GEOM_LINKS];
  int n;
  bool covers;
} plan;

static bool find_groups(plan *p, int vrank, const vdim *vd) {
  bool open = false;
  for (int i = 0; i < vrank; i++) {
    if (vd[i].sym ? vd[i].logical < 2 : vd[i].n < 1) return false;
    if (!vd[i].sym && vd[i].n == 1 && !open) continue;
    if (vd[i].sym || !open) p->groups[p->n++] = (group){.extent = 1, .phys = vd[i].n, .generic = vd[i].sym};
    p->groups[p->n - 1].extent *= vd[i].logical;
    open = !vd[i].sym;
  }
  int64_t stride = 1;
  for (int k = p->n - 1; k >= 0; k--) {
    p->groups[k].stride = stride;
    stride *= p->groups[k].extent;
  }
  return true;
}

static int group_of(const plan *p, int64_t stride) {
  int k = 0;
  while (k < p->n && p->groups[k].stride > stride) k++;
  return k;
}

/* A static run of which a tensor dim takes the outer part and goes on into the group before it. */
static void split_groups(plan *p) {
  const view *t = p->t;
  for (int d = 0; d < t->rank && p->n < GEOM_LINKS; d++) {
    int k = group_of(p, t->strides[d]);
    if (t->sizes[d] <= 1 || !t->strides[d] || k == p->n) continue;
    group *g = &p->groups[k];
    int64_t inner = t->strides[d] / g->stride;
    if (g->generic || inner == 1 || t->strides[d] % g->stride || g->extent % inner) continue;
    if (t->sizes[d] * t->strides[d] <= g->extent * g->stride) continue;
    memmove(g + 1, g, (size_t)(p->n - k) * sizeof *g);
    p->n++;
    g->extent /= inner;
    g->stride *= inner;
    g[1].extent = inner;
  }
}

static bool find_starts(plan *p) {
  int64_t rest = p->t->offset;
  for (int k = 0; k < p->n; k++) {
    p->groups[k].start = rest / p->groups[k].stride;
    rest %= p->groups[k].stride;
    if (p->groups[k].start >= p->groups[k].extent) return false;
  }
  return rest == 0;
}

static bool assign_dims(plan *p) {
  const view *t = p->t;
  for (int d = 0; d < t->rank; d++) {
    if (t->sizes[d] <= 1) continue;
    if (t->strides[d] == 0) {
      p->covers = false;
      continue;
    }
    int k = group_of(p, t->strides[d]);
    if (k == p->n || t->strides[d] % p->groups[k].stride) return false;
    group *g = &p->groups[k];
    int j = g->ndims++;
    for (; j > 0 && t->strides[g->dims[j - 1]] < t->strides[d]; j--) g->dims[j] = g->dims[j - 1];
    g->dims[j] = d;
  }
  return true;
}

static bool add_link(plan *p, int64_t extent, int64_t step, int64_t size, int dim, int64_t start,
                     bool operand, geom_link kind) {
  geom *g = p->g;
  if (g->n == GEOM_LINKS || g->nstart == GEOM_LINKS) return false;
  int i = g->n++;
  g->extent[i] = extent, g->step[i] = step, g->size[i] = size;
  g->dim[i] = (int8_t)dim, g->link[i] = (uint8_t)kind;
  g->start[i] = (int8_t)(operand ? g->nstart : -1);
  if (operand) g->starts[g->nstart++] = start;
  return true;
}

/* A static group: its dims fit a divisor chain of its extent (geometry.c, plan_chain, says how). */
static bool plan_static(plan *p, const group *g) {
  const view *t = p->t;
  int64_t chain = g->extent, rest = g->start, c = 0;
  for (int i = 0; i < g->ndims; i++) {
    int d = g->dims[i];
    int64_t stride = t->strides[d] / g->stride;
    if (i == 0 ? 0 : c % stride != 0) return false;
    int64_t extent = i ? c / stride : (chain + stride - 1) / stride;
    if (i == 0 && chain % stride) return false;
    int64_t start = rest / stride;
    rest %= stride;
    if (start + t->sizes[d] > extent) return false;
    if (t->sizes[d] != extent) p->covers = false;
    if (!add_link(p, extent, 1, t->sizes[d], d, start, start != 0, LINK_STATIC)) return false;
    c = stride;
  }
  if (g->ndims == 0) c = g->extent;
  if (c == 1) return true;
  p->covers = false;
  return add_link(p, c, 1, 1, -1, rest, rest != 0, LINK_STATIC);
}

/* A step from here on is no number that a program writes down, but a size: an operand. */
enum { STEP_OPERAND = 8 };

static bool plan_spread(plan *p, const group *g) {
  const view *t = p->t;
  geom *r = p->g;
  int64_t last = g->start, product = 1;
  bool whole = g->start == 0;
  if (r->nspread || r->n == GEOM_LINKS || r->nstart + g->ndims >= GEOM_LINKS) return false;
  for (int j = g->ndims - 1; j >= 0; j--) {
    int64_t step = t->strides[g->dims[j]] / g->stride;
    whole = whole && step == product;
    last += (t->sizes[g->dims[j]] - 1) * step;
    product *= t->sizes[g->dims[j]];
  }
  whole = whole && product == g->extent;
  if (last >= g->extent) return false;
  if (!whole) p->covers = false;
  if (!add_link(p, g->phys, 1, 0, g->dims[0], g->start, !whole, whole ? LINK_SPLIT : LINK_SPREAD))
    return false;
  for (int j = 0; j < g->ndims; j++) {
    int64_t step = t->strides[g->dims[j]] / g->stride;
    bool operand = !whole && step != 1;
    r->spread[j] = (int8_t)g->dims[j];
    r->by[j] = (int8_t)(operand ? r->nstart : -1);
    if (operand) r->starts[r->nstart++] = step;
  }
  r->nspread = (uint8_t)g->ndims;
  return true;
}

uint32_t groups_open(const geom *g, const view *t, bool expanded) {
  uint32_t r = 0;
  for (int j = 0; j < g->nspread; j++) r |= 1u << g->spread[j];
  for (int d = 0; expanded && d < t->rank; d++)
    if (!t->strides[d] && t->sizes[d] > 1) r |= 1u << d;
  return r;
}

static bool is_part(const geom *g, int i) {
  bool fixed = g->kind == GEOM_CHAIN || g->link[i] == LINK_STATIC;
  return fixed && g->dim[i] >= 0 && g->step[i] == 1 && g->size[i] > 1 && g->size[i] < g->extent[i];
}

uint32_t groups_parts(const geom *g) {
  uint32_t r = 0;
  for (int i = 0; i < g->n && !g->nspread; i++)
    if (is_part(g, i)) r |= 1u << g->dim[i];
  return r;
}

void groups_vary(geom *g, const view *t, uint32_t dims) {
  int64_t inner = 1, room = 0;
  for (int d = 0; d < t->rank; d++)
    if (dims >> d & 1) g->phys[d] = ladder_rung(t->sizes[d]), g->generic = true;
  for (int i = 0; i < g->n; i++) {
    if (g->link[i] == LINK_SPLIT) room = g->extent[i];
    if (!is_part(g, i) || !(dims >> g->dim[i] & 1)) continue;
    int64_t *n = &g->phys[g->dim[i]];
    if (*n > g->extent[i]) *n = g->extent[i];
    g->link[i] = LINK_PART, g->size[i] = *n;
  }
  for (int j = 1; j < g->nspread; j++) inner *= g->phys[g->spread[j]] ? 0 : t->sizes[g->spread[j]];
  int first = g->nspread ? g->spread[0] : 0; /* without a copy, where the rest is static and fits the room */
  if (room && inner && g->phys[first] && room % inner == 0) g->phys[first] = room / inner;
}

static bool plan_generic_dim(plan *p, const group *g) {
  const view *t = p->t;
  if (g->ndims == 0) {
    p->covers = false;
    return add_link(p, g->phys, 1, 1, -1, g->start, true, LINK_SELECT);
  }
  int d = g->dims[0];
  int64_t step = t->strides[d] / g->stride, size = t->sizes[d];
  if (g->ndims > 1 || step >= STEP_OPERAND) return plan_spread(p, g);
  if (g->start + (size - 1) * step >= g->extent) return false;
  if (step == 1 && size == g->extent) {
    p->g->phys[d] = g->phys;
    return add_link(p, g->phys, 1, g->phys, d, 0, false, LINK_WHOLE);
  }
  p->covers = false;
  int64_t n = ladder_rung(size), most = (g->phys + step - 1) / step;
  p->g->phys[d] = n < most ? n : most;
  return add_link(p, g->phys, step, p->g->phys[d], d, g->start, g->start != 0, LINK_NARROW);
}

/* A dim that runs over several whole groups: they are merged. Returns the first group of the merge, or -1. */
static int merge_first(const plan *p, int k) {
  const group *g = &p->groups[k];
  const view *t = p->t;
  if (g->ndims != 1 || t->strides[g->dims[0]] != g->stride) return -1;
  int64_t size = t->sizes[g->dims[0]], n = g->extent;
  int a = k;
  while (n < size && a > 0 && p->groups[a - 1].ndims == 0) n *= p->groups[--a].extent;
  if (n != size || a == k) return -1;
  for (int i = a; i <= k; i++)
    if (p->groups[i].start) return -1;
  return a;
}

static bool plan_merge(plan *p, int a, int k) {
  geom *g = p->g;
  int d = p->groups[k].dims[0];
  int64_t phys = 1;
  bool inner = false, any = false;
  if (g->merge_to || g->nspread) return false; /* one merge is enough for what programs do */
  g->merge_from = g->n;
  for (int i = a; i <= k; i++) {
    const group *r = &p->groups[i];
    int64_t e = r->generic ? r->phys : r->extent;
    if (!add_link(p, e, 1, e, i == k ? d : -2, 0, false, r->generic ? LINK_WHOLE : LINK_STATIC)) return false;
    phys *= e;
    inner = inner || (i > a && r->generic);
    any = any || r->generic;
  }
  g->merge_to = (uint8_t)(g->n - 1);
  g->phys[d] = !any ? 0 : inner ? ladder_rung(p->t->sizes[d]) : phys;
  return any;
}

bool groups_plan(const view *t, int vrank, const vdim *vd, geom *g) {
  plan p = {.t = t, .g = g, .covers = true};
  g->kind = GEOM_GROUPS;
  if (!find_groups(&p, vrank, vd)) return false;
  split_groups(&p);
  if (!find_starts(&p) || !assign_dims(&p)) return false;
  for (int k = p.n - 1, a; k >= 0; k--) /* merged dims are looked for from the inner end */
    if ((a = merge_first(&p, k)) >= 0) {
      for (int i = a; i < k; i++) p.groups[i].ndims = -1;
      p.groups[k].ndims = -2 - a;
      k = a;
    }
  for (int k = 0; k < p.n; k++) {
    group *r = &p.groups[k];
    if (r->ndims == -1) continue;
    if (r->ndims <= -2) {
      if (!plan_merge(&p, -2 - r->ndims, k)) return false;
    } else if (!(r->generic ? plan_generic_dim(&p, r) : plan_static(&p, r))) {
      return false;
    }
  }
  g->covers = p.covers;
  return true;
}

/* --- builder side --- */

/* The value with one dim a link: static runs split as the links say. */
static Val split_links(B *b, const geom *g, Val full) {
  const shape *fs = b_shape(b, full);
  shape s = {.rank = g->n};
  int v = 0;
  for (int i = 0; i < g->n; i++) {
    s.d[i] = (ir_dim){g->extent[i], 0};
    if (g->link[i] == LINK_STATIC || g->link[i] == LINK_PART) continue;
    while (v < fs->rank && !fs->d[v].sym) v++;
    if (v < fs->rank) s.d[i] = fs->d[v++];
  }
  return b_reshape(b, full, &s);
}

static Val take_link(B *b, const geom *g, Val x, int i, const Val *starts, const int32_t *syms) {
  Val start = g->start[i] < 0 ? BAD : starts[g->start[i]];
  switch ((geom_link)g->link[i]) {
  case LINK_WHOLE:
  case LINK_SPLIT:
  case LINK_SPREAD: return x;
  case LINK_PART:
  case LINK_NARROW: return b_narrow(b, x, i, start, g->size[i], g->step[i], syms[g->dim[i]]);
  default: break;
  }
  if (start == BAD) return b_slice(b, x, i, 0, g->size[i], 1);
  Val at[IR_MAX_RANK];
  int64_t sizes[IR_MAX_RANK];
  for (int k = 0; k < b_rank(b, x); k++) {
    at[k] = k == i ? b_cast(b, start, DT_I32) : b_const_i(b, DT_I32, 0);
    sizes[k] = k == i ? g->size[i] : b_shape(b, x)->d[k].n;
  }
  return b_dynamic_slice(b, x, at, sizes);
}

/* Axis `at` of x as the tensor dims of the SPLIT or SPREAD link. */
static Val spread_link(B *b, const geom *g, const view *t, Val x, int at, const Val *starts,
                       const int32_t *syms) {
  shape s = {.rank = g->nspread};
  int i = 0;
  while (g->link[i] != LINK_SPLIT && g->link[i] != LINK_SPREAD) i++;
  for (int j = 0; j < s.rank; j++) {
    int d = g->spread[j];
    s.d[j] = g->phys[d] ? (ir_dim){g->phys[d], syms[d]} : (ir_dim){t->sizes[d], 0};
  }
  if (g->link[i] == LINK_SPLIT) return b_split(b, x, at, s.rank, s.d);
  Val index = b_full(b, &s, b_cast(b, starts[g->start[i]], DT_I32));
  for (int j = 0; j < s.rank; j++) {
    Val part = b_iota(b, DT_I32, &s, j);
    index = b_add(b, index, g->by[j] < 0 ? part : b_mul(b, part, b_cast(b, starts[g->by[j]], DT_I32)));
  }
  return b_take(b, x, index, at);
}

Val groups_read(B *b, const geom *g, const view *t, Val full, const Val *starts, const int32_t *syms) {
  Val x = split_links(b, g, full);
  for (int i = 0; i < g->n && b_ok(b); i++) x = take_link(b, g, x, i, starts, syms);
  if (!b_ok(b)) return BAD;
  int of[IR_MAX_RANK], n = 0; /* tensor dim of each dim that stays */
  shape kept = {0};
  for (int i = 0; i < g->n; i++) {
    if (g->dim[i] == -1) continue;
    of[kept.rank] = g->dim[i];
    kept.d[kept.rank++] = b_shape(b, x)->d[i];
  }
  x = b_reshape(b, x, &kept);
  if (g->merge_to) {
    int from = 0, d = g->dim[g->merge_to];
    for (int i = 0; i < g->merge_from; i++) from += g->dim[i] != -1;
    int to = from + g->merge_to - g->merge_from;
    x = b_merge(b, x, from, to, g->phys[d], syms[d]);
    memmove(of + from, of + to, (size_t)(kept.rank - to) * sizeof *of);
    kept.rank -= to - from;
  }
  if (g->nspread) {
    int at = 0, more = g->nspread - 1;
    while (of[at] != g->spread[0]) at++;
    x = spread_link(b, g, t, x, at, starts, syms);
    memmove(of + at + more, of + at, (size_t)(kept.rank - at) * sizeof *of);
    for (int j = 0; j <= more; j++) of[at + j] = g->spread[j];
    kept.rank += more;
  }
  int perm[IR_MAX_RANK], where[IR_MAX_RANK];
  shape s = {.rank = t->rank};
  for (int d = 0; d < t->rank; d++) {
    s.d[d] = g->phys[d] ? (ir_dim){g->phys[d], syms[d]} : (ir_dim){t->sizes[d], 0};
    for (int k = 0; k < kept.rank; k++)
      if (of[k] == d) {
        where[n] = d;
        perm[n++] = k;
      }
  }
  x = b_transpose(b, x, perm);
  for (int k = 0; k < n && b_ok(b); k++) s.d[where[k]] = b_shape(b, x)->d[k];
  return b_broadcast_dims(b, x, &s, where);
}

/* Places i of an axis that the link takes (*taken, i1), and which of the link's elements each one is. */
static Val link_index(B *b, const geom *g, int i, ir_dim axis, Val size, Val start, Val *taken) {
  shape line = {.rank = 1, .d = {axis}};
  Val at = b_iota(b, DT_I32, &line, 0), step = b_const_i(b, DT_I32, g->step[i]),
      zero = b_const_i(b, DT_I32, 0);
  if (start != BAD) at = b_sub(b, at, start);
  Val k = b_div(b, at, step);
  *taken = b_and(b, b_ge(b, at, zero), b_and(b, b_lt(b, k, size), b_eq(b, b_rem(b, at, step), zero)));
  return b_clamp(b, zero, k, b_const_i(b, DT_I32, g->size[i] - 1));
}

typedef struct window { /* of the old value, that a write replaces */
  Val at[IR_MAX_RANK];
  int64_t sizes[IR_MAX_RANK];
  Val taken[IR_MAX_RANK]; /* which places of an axis are written, BAD: all */
  Val update, mask;
} window;

/* One axis of the window, and the update as it lies there. A window of physical size that would reach over
 * the end begins earlier. */
static void put_link(B *b, const geom *g, int i, ir_dim axis, const Val *starts, const int32_t *syms,
                     window *w) {
  bool fixed = g->link[i] == LINK_STATIC || g->link[i] == LINK_SELECT;
  Val zero = b_const_i(b, DT_I32, 0), start = g->start[i] < 0 ? BAD : b_cast(b, starts[g->start[i]], DT_I32);
  w->at[i] = zero, w->sizes[i] = axis.n, w->taken[i] = BAD;
  if (g->link[i] == LINK_WHOLE || (g->link[i] == LINK_STATIC && g->size[i] == axis.n)) return;
  if (g->step[i] == 1) {
    w->sizes[i] = g->size[i];
    if (start != BAD)
      w->at[i] = fixed ? start : b_clamp(b, zero, start, b_const_i(b, DT_I32, axis.n - g->size[i]));
    if (fixed) return;
    if (start != BAD) start = b_sub(b, start, w->at[i]);
    axis = (ir_dim){g->size[i], 0};
  }
  Val index = link_index(b, g, i, axis, b_symbol_size(b, syms[g->dim[i]]), start, &w->taken[i]);
  w->update = b_take(b, w->update, index, i);
}

Val groups_write(B *b, const geom *g, const view *t, Val full, Val update, const Val *starts,
                 const int32_t *syms) {
  if (g->merge_to || g->nspread) {
    b_fail(b, TPU_NOT_IMPLEMENTED, "a write to merged or split generic dims");
    return BAD;
  }
  Val old = split_links(b, g, full);
  int perm[IR_MAX_RANK], k = 0;
  for (int i = 0; i < g->n; i++)
    if (g->dim[i] >= 0) perm[k++] = g->dim[i];
  for (int d = 0; d < t->rank; d++) { /* dims of one element go last and vanish in the reshape */
    bool linked = false;
    for (int i = 0; i < g->n; i++) linked = linked || g->dim[i] == d;
    if (!linked) perm[k++] = d;
  }
  update = b_transpose(b, update, perm);
  shape s = {.rank = g->n};
  k = 0;
  for (int i = 0; i < g->n && b_ok(b); i++)
    s.d[i] = g->dim[i] >= 0 ? b_shape(b, update)->d[k++] : (ir_dim){1, 0};
  update = b_reshape(b, update, &s);
  window w = {.update = update, .mask = BAD};
  for (int i = 0; i < g->n && b_ok(b); i++) put_link(b, g, i, b_shape(b, old)->d[i], starts, syms, &w);
  if (!b_ok(b)) return BAD;
  Val part = b_dynamic_slice(b, old, w.at, w.sizes);
  for (int i = 0; i < g->n && b_ok(b); i++) {
    if (w.taken[i] == BAD) continue;
    Val taken = b_broadcast_dims(b, w.taken[i], b_shape(b, part), &i);
    w.mask = w.mask == BAD ? taken : b_and(b, w.mask, taken);
  }
  if (w.mask != BAD) w.update = b_select(b, w.mask, w.update, part);
  old = b_dynamic_update(b, old, w.update, w.at);
  return b_ok(b) ? b_reshape(b, old, b_shape(b, full)) : BAD;
}
