/* Recorded calls to launches, and launching them. See record.h. */
#include "step/record.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "step/repeat.h"
#include "value/memory.h"

/* --- who makes and who reads what --- */
typedef struct flow {
  trace *t;
  const uint32_t *input_of; /* an outside operand: which input value it is */
  const char **codes;       /* of each op in the key */
  uint32_t *first;          /* first slot of each op; [nops]: all */
  uint32_t *last;           /* last op that reads a slot; nops: asked for after the graph; maker: nobody */
  uint32_t *last_ext;
} flow;

static void flow_read(flow *f, trace *t, const uint32_t *input_of, const uint8_t *keeps) {
  *f = (flow){.t = t, .input_of = input_of};
  f->codes = tpu_xmalloc((t->nops + 1u) * sizeof *f->codes);
  f->first = tpu_xmalloc((t->nops + 1u) * sizeof *f->first);
  f->last = tpu_xmalloc((t->nvals + 1u) * sizeof *f->last);
  f->last_ext = tpu_xcalloc(t->nexts + 1u, sizeof *f->last_ext);
  const char *p = t->key.p;
  uint32_t slot = 0, code;
  for (uint32_t o = 0; o < t->nops; o++) {
    f->first[o] = slot;
    p = trace_next_code(p, &code);
    f->codes[o] = p;
    for (uint32_t i = 0; i < t->ops[o]->nuses; i++) {
      p = trace_next_code(p, &code);
      if ((code & CODE_MASK) == CODE_SLOT) f->last[code] = o;
      if ((code & CODE_MASK) == CODE_EXT) f->last_ext[code & ~CODE_MASK] = o;
    }
    for (uint32_t k = 0; k < t->ops[o]->nreal; k++) f->last[slot++] = o;
  }
  f->first[t->nops] = slot;
  for (uint32_t k = 0; k < slot; k++)
    if (keeps[k]) f->last[k] = t->nops;
}

static void flow_free(flow *f) {
  free(f->codes);
  free(f->first);
  free(f->last);
  free(f->last_ext);
}

/* How many values are made before each op and read at it or later. */
static uint32_t *crossing(const flow *f) {
  uint32_t n = f->t->nops, *at = tpu_xcalloc(n + 2u, sizeof *at);
  for (uint32_t o = 0; o < n; o++)
    for (uint32_t k = f->first[o]; k < f->first[o + 1]; k++)
      if (f->last[k] > o) at[o + 1]++, at[(f->last[k] < n ? f->last[k] : n) + 1u]--;
  for (uint32_t o = 1; o <= n; o++) at[o] += at[o - 1];
  return at;
}

/* --- parts --- */
typedef struct numbering {       /* of what a part takes from outside */
  uint32_t *ext, *slot, *scalar; /* place + 1; 0: not yet */
} numbering;

static uint32_t outside(trace *sub, part *p, uint32_t *place, uint32_t code, tpu_value *v) {
  if (!*place) {
    GROW(sub->exts, sub->nexts, sub->cap_exts, 64);
    value_retain(v);
    sub->exts[sub->nexts++] = v;
    *place = sub->nexts;
    p->exts[p->nexts++] = code;
  }
  return CODE_EXT | (*place - 1);
}

static void put_operand(const flow *f, trace *sub, part *p, numbering *nb, uint32_t a, uint32_t code) {
  uint32_t k = code & ~CODE_MASK;
  if ((code & CODE_MASK) == CODE_EXT) {
    code = outside(sub, p, &nb->ext[k], code, f->t->exts[k]);
  } else if ((code & CODE_MASK) == CODE_SCALAR) {
    if (!nb->scalar[k]) {
      GROW(sub->scalars, sub->nscalars, sub->cap_scalars, 64);
      sub->scalars[sub->nscalars++] = f->t->scalars[k];
      nb->scalar[k] = sub->nscalars;
      p->scalars[p->nscalars++] = k;
    }
    code = CODE_SCALAR | (nb->scalar[k] - 1);
  } else if (k >= f->first[a]) {
    code = CODE_SLOT | (k - f->first[a]);
  } else {
    code = outside(sub, p, &nb->slot[k], code, f->t->vals[k]);
  }
  trace_put_code(sub, code);
}

static trace *part_trace(const flow *f, part *p, uint32_t a, uint32_t b) {
  const trace *t = f->t;
  trace *sub = trace_create(t->device);
  numbering nb = {tpu_xcalloc(t->nexts + 1u, 4), tpu_xcalloc(t->nvals + 1u, 4),
                  tpu_xcalloc(t->nscalars + 1u, 4)};
  p->exts = tpu_xmalloc((t->nexts + t->nvals + 1u) * sizeof *p->exts);
  p->scalars = tpu_xmalloc((t->nscalars + 1u) * sizeof *p->scalars);
  sub->ops = tpu_xmalloc((b - a + 1u) * sizeof(tpu_op *));
  sub->vals = tpu_xmalloc((f->first[b] - f->first[a] + 1u) * sizeof(tpu_value *));
  for (uint32_t o = a; o < b; o++) {
    const char *c = f->codes[o];
    uint32_t code;
    sub->ops[sub->nops++] = t->ops[o];
    sub->checks = sub->checks || t->ops[o]->has_check;
    trace_put_code(sub, t->ops[o]->id);
    for (uint32_t i = 0; i < t->ops[o]->nuses; i++) {
      c = trace_next_code(c, &code);
      put_operand(f, sub, p, &nb, a, code);
    }
  }
  for (uint32_t k = f->first[a]; k < f->first[b]; k++) {
    value_retain(t->vals[k]);
    sub->vals[sub->nvals++] = t->vals[k];
  }
  free(nb.ext);
  free(nb.slot);
  free(nb.scalar);
  return sub;
}

/* What leaves the part, and what it may take over. */
static void part_close(const flow *f, trace *sub, part *p, uint32_t a, uint32_t b, const uint8_t *loses) {
  p->donated = tpu_xcalloc(p->nexts + 1u, 1);
  p->dead = tpu_xmalloc((p->nexts + sub->nvals + 1u) * sizeof *p->dead);
  for (uint32_t k = f->first[a]; k < f->first[b]; k++) text_add(&sub->key, f->last[k] >= b ? "L" : "-", 1);
  for (uint32_t i = 0; i < p->nexts; i++) {
    uint32_t k = p->exts[i] & ~CODE_MASK;
    bool slot = (p->exts[i] & CODE_MASK) == CODE_SLOT;
    p->donated[i] = slot ? f->last[k] < b : loses[f->input_of[k]] && f->last_ext[k] < b;
    if (!slot) p->exts[i] = CODE_EXT | f->input_of[k];
    if (slot && p->donated[i]) p->dead[p->ndead++] = k;
    text_add(&sub->key, p->donated[i] ? "D" : "-", 1);
  }
}

/* The results of its step: those that leave, and others that nobody reads. */
static void part_outs(const flow *f, part *p, uint32_t a, uint32_t b) {
  p->outs = tpu_xmalloc((p->st->nlive + 1u) * sizeof *p->outs);
  for (uint32_t i = 0; i < p->st->nlive; i++) {
    uint32_t k = p->outs[p->nouts++] = f->first[a] + p->st->live[i];
    if (f->last[k] < b) p->dead[p->ndead++] = k;
  }
}

static tpu_error *part_make(const flow *f, part *p, uint32_t a, uint32_t b, const uint8_t *loses) {
  trace *sub = part_trace(f, p, a, b);
  size_t ops_length = sub->key.n;
  part_close(f, sub, p, a, b, loses);
  p->numbers_first = trace_is_generic(sub);
  bool used = sub->checks || memchr(sub->key.p + ops_length, 'L', sub->nvals);
  tpu_error *e = used ? step_get(sub, ops_length, &p->st) : NULL;
  if (!e && used && p->st->too_large)
    e = tpu_err(TPU_OUT_OF_MEMORY, "TPU out of memory. The compiler found no room for %u ops of it.", b - a);
  if (!e && used) part_outs(f, p, a, b);
  trace_free(sub);
  return e;
}

static void add_types(record *r, const trace *t, const part *p) {
  for (uint32_t i = 0; i < p->nouts; i++) {
    const tpu_value *v = t->vals[p->outs[i]];
    tpu_value *model = value_create((tpu_dtype)v->dtype, v->rank, v->d, v->device);
    model->source = v->source;
    r->types[r->ntypes++] = (slot_type){p->outs[i], model};
  }
  uint32_t n = p->nexts + p->nscalars > p->nouts ? p->nexts + p->nscalars : p->nouts + 1;
  if (n > r->most) r->most = n;
}

tpu_error *record_build(trace *t, bool inlined, const uint32_t *input_of, const uint8_t *keeps,
                        const uint8_t *loses, record **out) {
  flow f;
  flow_read(&f, t, input_of, keeps);
  uint32_t *cuts = tpu_xmalloc((t->nops + 2u) * sizeof *cuts), n = 0,
           *ids = tpu_xmalloc((t->nops + 1u) * sizeof *ids);
  for (uint32_t i = 0; i < t->nops; i++) ids[i] = t->ops[i]->id;
  if (!inlined) {
    uint32_t *cross = crossing(&f);
    n = repeat_cuts(t->nops, ids, cross, cuts);
    free(cross);
  }
  free(ids);
  cuts[n++] = t->nops;
  record *r = tpu_xcalloc(1, sizeof *r);
  r->device = t->device, r->nslots = t->nvals, r->nops = t->nops;
  r->parts = tpu_xcalloc(n, sizeof *r->parts);
  r->types = tpu_xmalloc((t->nvals + 1u) * sizeof *r->types);
  r->nscalars = t->nscalars;
  r->scalars = tpu_xmalloc((t->nscalars + 1u) * sizeof *r->scalars);
  if (t->nscalars) memcpy(r->scalars, t->scalars, t->nscalars * sizeof *r->scalars);
  tpu_error *e = NULL;
  for (uint32_t i = 0, a = 0; i < n && !e; a = cuts[i++]) {
    part *p = &r->parts[r->nparts++];
    e = part_make(&f, p, a, cuts[i], loses);
    if (!e) add_types(r, t, p);
  }
  flow_free(&f);
  free(cuts);
  if (e) {
    record_free(r);
    r = NULL;
  }
  *out = r;
  return e;
}

bool record_ready(const record *r) {
  for (uint32_t i = 0; i < r->nparts; i++)
    if (r->parts[i].st && !program_ready(r->parts[i].st->prog)) return false;
  return true;
}

/* --- launching --- */
typedef struct launch_space { /* under the core lock, which nothing here gives up */
  PJRT_Buffer **args, **outs;
  int64_t *keep;
  uint32_t cap;
} launch_space;
static launch_space ls;

static void reserve(uint32_t n) {
  if (n <= ls.cap) return;
  ls.cap = n * 2;
  ls.args = tpu_xrealloc(ls.args, ls.cap * sizeof *ls.args);
  ls.outs = tpu_xrealloc(ls.outs, ls.cap * sizeof *ls.outs);
  ls.keep = tpu_xrealloc(ls.keep, ls.cap * sizeof *ls.keep);
}

static tpu_value *operand(const part *p, uint32_t i, tpu_value *const *in, tpu_value *const *slots) {
  uint32_t k = p->exts[i] & ~CODE_MASK;
  return (p->exts[i] & CODE_MASK) == CODE_SLOT ? slots[k] : in[k];
}

/* May the launch take the operand's buffer? Between parts nobody else has it. */
static bool is_free(const part *p, uint32_t i, const tpu_value *v, int free_refs) {
  bool slot = (p->exts[i] & CODE_MASK) == CODE_SLOT;
  return p->donated[i] && v->cell->refs == 1 && (slot || v->refs <= free_refs);
}

static tpu_error *part_launch(const record *r, const part *p, tpu_value *const *in, tpu_value **slots,
                              int free_refs) {
  uint32_t nkeep = 0, e0 = p->numbers_first ? p->nscalars : 0, s0 = p->numbers_first ? 0 : p->nexts,
           nouts = p->nouts + p->st->has_check;
  int64_t given = 0;
  for (uint32_t i = 0; i < p->nexts; i++) {
    const tpu_value *v = operand(p, i, in, slots);
    ls.args[e0 + i] = v->cell->buf;
    if (is_free(p, i, v, free_refs))
      given += v->cell->bytes;
    else if (p->donated[i])
      ls.keep[nkeep++] = e0 + i;
  }
  TRY(memory_reserve(r->device, p->st->live_bytes > given ? p->st->live_bytes - given : 0));
  for (uint32_t i = 0; i < p->nscalars; i++) {
    const prep_scalar *s = &r->scalars[p->scalars[i]];
    TRY(scalar_buffer(r->device, (tpu_dtype)s->dtype, s->lo, s->hi, &ls.args[s0 + i]));
  }
  TRY(rt_execute(p->st->prog->exec, r->device, ls.args, p->nexts + p->nscalars, ls.keep, nkeep, ls.outs,
                 nouts));
  for (uint32_t i = 0; i < p->nexts; i++) {
    const tpu_value *v = operand(p, i, in, slots);
    if (is_free(p, i, v, free_refs)) cell_give(v->cell);
  }
  return p->st->has_check
             ? checks_add(ls.outs[p->nouts], r->device, (check_owner){p->st->owners, p->st->nops})
             : NULL;
}

tpu_error *record_launch(const record *r, tpu_value *const *in, tpu_value **slots, int free_refs) {
  tpu_error *e = NULL;
  const slot_type *type = r->types;
  reserve(r->most + 1);
  for (uint32_t i = 0; i < r->nparts && !e; i++) {
    const part *p = &r->parts[i];
    if (!p->st) continue;
    e = part_launch(r, p, in, slots, free_refs);
    scalar_sweep();
    for (uint32_t k = 0; k < p->nouts && !e; k++, type++) {
      tpu_value **v = &slots[type->slot];
      const tpu_value *m = type->model;
      if (!*v) {
        *v = value_create((tpu_dtype)m->dtype, m->rank, m->d, r->device);
        (*v)->source = m->source;
      }
      value_set_cell(*v, cell_create(ls.outs[k], r->device, value_bytes(*v)));
    }
    for (uint32_t k = 0; k < p->ndead && !e; k++) {
      value_release(slots[p->dead[k]]);
      slots[p->dead[k]] = NULL;
    }
  }
  return e;
}

/* The first part that launches the same step. */
static uint32_t first_like(const record *r, uint32_t i) {
  uint32_t k = 0;
  while (r->parts[k].st != r->parts[i].st) k++;
  return k;
}

static bool is_first(const record *r, uint32_t i) { return r->parts[i].st && first_like(r, i) == i; }

uint32_t record_programs(const record *r) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->nparts; i++) n += is_first(r, i);
  return n;
}

void record_files(const record *r, text *json) {
  const char *sep = "";
  text_str(json, "[");
  for (uint32_t i = 0; i < r->nparts; i++) {
    if (!is_first(r, i) || !r->parts[i].st->prog) continue;
    text_printf(json, "%s\"%s\"", sep, r->parts[i].st->prog->file);
    sep = ", ";
  }
  text_str(json, "]");
}

static void operands_json(const record *r, const part *p, text *json) {
  static const char *const from[] = {"record", "seed", "offset", "host"};
  uint32_t n = p->nexts + p->nscalars, e0 = p->numbers_first ? p->nscalars : 0;
  for (uint32_t i = 0; i < n; i++) {
    text_str(json, i ? ", " : "");
    if (i >= e0 && i < e0 + p->nexts) {
      uint32_t code = p->exts[i - e0];
      text_printf(json, "{\"%s\": %u}", (code & CODE_MASK) == CODE_SLOT ? "slot" : "input",
                  code & ~CODE_MASK);
      continue;
    }
    uint32_t k = p->scalars[p->numbers_first ? i : i - p->nexts];
    const prep_scalar *s = &r->scalars[k];
    text_printf(json, "{\"number\": [%llu, %llu], \"from\": \"%s\"}", (unsigned long long)s->lo,
                (unsigned long long)s->hi, from[r->origins[k].kind]);
  }
}

void record_programs_json(const record *r, text *json) {
  uint32_t *number = tpu_xcalloc(r->nparts + 1u, sizeof *number), n = 0;
  text texts = {0}, copy = {0};
  const char *sep = "";
  text_str(json, "{\"launches\": [");
  for (uint32_t i = 0; i < r->nparts; i++) {
    const part *p = &r->parts[i];
    if (!p->st || !p->st->prog) continue;
    bool first = is_first(r, i);
    number[i] = first ? n++ : number[first_like(r, i)];
    text_printf(json, "%s{\"program\": %u, \"operands\": [", sep, number[i]);
    operands_json(r, p, json);
    text_str(json, "], \"results\": [");
    for (uint32_t k = 0; k < p->nouts; k++) text_printf(json, "%s%u", k ? ", " : "", p->outs[k]);
    text_printf(json, "], \"check\": %s}", p->st->has_check ? "true" : "false");
    sep = ", ";
    if (!first) continue;
    text_clear(&copy);
    text_add(&copy, p->st->prog->mlir, p->st->prog->length);
    text_str(&texts, n > 1 ? ", " : "");
    text_json(&texts, copy.p);
  }
  text_printf(json, "], \"texts\": [%s]}", texts.p ? texts.p : "");
  text_free(&texts);
  text_free(&copy);
  free(number);
}

void record_free(record *r) {
  for (uint32_t i = 0; i < r->nparts; i++) {
    part *p = &r->parts[i];
    free(p->exts);
    free(p->scalars);
    free(p->outs);
    free(p->dead);
    free(p->donated);
  }
  for (uint32_t i = 0; i < r->ntypes; i++) value_release(r->types[i].model);
  free(r->parts);
  free(r->types);
  free(r->scalars);
  free(r->origins);
  free(r);
}
