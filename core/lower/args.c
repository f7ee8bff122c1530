/* The lowering context: argument readers, results, random words. The contract is lower.h; families see only
 * that. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "lower/lower_int.h"
#include "lower/promote.h"
#include "rt/rt.h"
#include "step/step.h"

/* Of the op that is being lowered; lowering is under the core lock. */
static tpu_dtype default_float = DT_F32;

void lower_begin(L *l, tpu_op *op, B *b, bool recording) {
  memset(l, 0, sizeof *l);
  l->b = b, l->op = op, l->recording = recording;
  l->stores = tpu_xmalloc((op->nstores + 1) * sizeof(Val));
  l->scalars = tpu_xmalloc((op->nscalars + 1) * sizeof(Val));
  l->syms = tpu_xcalloc(op->nsyms + 1, sizeof(int32_t));
  for (uint32_t k = 0; k < op->nstores; k++) l->stores[k] = BAD;
  for (uint32_t k = 0; k < op->nscalars; k++) l->scalars[k] = BAD;
  l->seed = l->offset = l->sized_blocks = BAD;
  b_set_cpu_lowering(b, l_on_cpu(l));
  b_set_precision(b, op->precision);
  default_float = (tpu_dtype)op->default_float;
  b_disable_masks(b, step_masks_off());
}

void lower_end(L *l) {
  free(l->stores);
  free(l->scalars);
  free(l->syms);
  free(l->results);
}

/* --- operands --- */
static Val new_operand(L *l, use_kind kind, uint32_t index, tpu_dtype dt, const shape *s) {
  tpu_op *op = l->op;
  GROW(op->uses, op->nuses, op->cap_uses, 8);
  op->uses[op->nuses++] = (op_use){.kind = (uint8_t)kind, .index = index};
  return b_param(l->b, dt, s);
}

static Val scalar_operand(L *l, use_kind kind, uint32_t index, tpu_dtype dt) {
  shape s = shape_of(0, NULL);
  return new_operand(l, kind, index, dt, &s);
}

/* Builder symbol of a size of the signature (number from 1). */
static int32_t symbol_of(L *l, uint32_t number) {
  int32_t *known = &l->syms[number - 1];
  if (!*known && l->recording) *known = b_symbol(l->b, scalar_operand(l, USE_SYM, number - 1, DT_I32));
  return *known;
}

Val l_store(L *l, uint32_t k) {
  if (l->stores[k] != BAD) return l->stores[k];
  const op_store *st = &l->op->stores[k];
  if (st->empty) { /* never written: zeros of the dtype that the first reader has */
    int64_t n = st->nbytes;
    shape s = shape_of(1, &n);
    return l->stores[k] = b_zeros(l->b, DT_U8, &s);
  }
  if (!l->recording)
    return BAD; /* an operand that op_get did not see: broken determinism shows as an error */
  shape s = {.rank = st->rank};
  for (int i = 0; i < st->rank; i++) {
    s.d[i] = (ir_dim){st->d[i].n, st->d[i].sym ? symbol_of(l, st->d[i].sym) : 0};
  }
  return l->stores[k] = new_operand(l, USE_STORE, k, (tpu_dtype)st->dtype, &s);
}

Val l_operand(L *l, uint32_t k) {
  if (l->scalars[k] == BAD && l->recording)
    l->scalars[k] = scalar_operand(l, USE_SCALAR, k, (tpu_dtype)l->op->scalar_dtypes[k]);
  return l->scalars[k];
}

void l_geom_operands(L *l, const op_tensor *t, Val *starts, int32_t *syms) {
  for (uint32_t k = 0; k < geom_operands(&t->g); k++) starts[k] = l_operand(l, t->scalar + k);
  for (int d = 0; d < t->rank; d++) syms[d] = t->g.generic && t->g.sym[d] ? symbol_of(l, t->g.sym[d]) : 0;
}

Val l_view(L *l, uint32_t i) {
  const op_tensor *t = &l->op->tensors[i];
  B *b = l->b;
  Val x;
  if (t->structure) {
    double d;
    memcpy(&d, &t->bits, sizeof d);
    return t->dtype == DT_I64 ? b_const_i(b, DT_I64, t->bits) : b_const(b, DT_F64, d);
  }
  if (t->host) {
    x = l_operand(l, t->scalar);
  } else {
    view w = {(tpu_dtype)t->dtype, t->rank, t->sizes, t->strides, 0};
    if (l->op->stores[t->store].empty) {
      shape s = shape_of(t->rank, t->sizes);
      x = l->stores[t->store] == BAD ? b_zeros(b, w.dtype, &s)
                                     : geom_read(b, &t->g, &w, l->stores[t->store], NULL, NULL);
    } else {
      Val full = l_store(l, t->store), starts[GEOM_LINKS];
      int32_t syms[TPU_MAX_RANK];
      l_geom_operands(l, t, starts, syms);
      x = geom_read(b, &t->g, &w, full, starts, syms);
    }
  }
  if (t->flags & TPU_T_CONJ) x = b_conj(b, x);
  if (t->flags & TPU_T_NEG) x = b_neg(b, x);
  return x;
}

/* --- readers --- */
B *l_b(L *l) { return l->b; }
int32_t l_datum(const L *l) { return l->op->row->datum; }
uint32_t l_flags(const L *l) { return l->op->row->flags; }
const char *l_name(const L *l) { return l->op->row->name; }
int64_t l_rung(const L *l) { return l->op->rung; }

bool l_on_cpu(const L *l) {
  (void)l;
  return !rt_is_open() || rt_get_info()->is_cpu;
}

bool l_in_place(const L *l) { return l->op->variant == TPU_INPLACE; }

tpu_dtype l_written_dtype(const L *l) {
  const tpu_op *op = l->op;
  bool out = op->variant == TPU_OUT;
  if (!out && op->variant != TPU_INPLACE) return DT_NONE;
  uint32_t at = out ? op->out_first : 0;
  return at < op->ntensors && op->tensors[at].defined ? (tpu_dtype)op->tensors[at].dtype : DT_NONE;
}

static const op_arg *arg_at(const L *l, int i) {
  static const op_arg none = {.tag = TPU_A_NONE};
  return i >= 0 && i < l->op->nargs ? &l->op->args[i] : &none;
}

static const op_tensor *tensor_at(const L *l, int i) {
  const op_arg *a = arg_at(l, i);
  return a->tag == TPU_A_TENSOR ? &l->op->tensors[a->u.tensor] : NULL;
}

bool l_is_tensor(const L *l, int i) { return tensor_at(l, i) != NULL; }

bool l_has(const L *l, int i) {
  const op_arg *a = arg_at(l, i);
  if (a->tag == TPU_A_TENSOR) return l->op->tensors[a->u.tensor].defined;
  return a->tag != TPU_A_NONE;
}

Val l_tensor(L *l, int i) {
  const op_tensor *t = tensor_at(l, i);
  if (t && t->defined) return l_view(l, arg_at(l, i)->u.tensor);
  l_fail(l, TPU_RUNTIME, "expected a tensor for argument %d, got none", i);
  return BAD;
}

int l_len(const L *l, int i) { return (int)arg_at(l, i)->n; }

bool l_has_item(const L *l, int i, int k) {
  const op_arg *a = arg_at(l, i);
  return a->tag == TPU_A_TENSORS && k < (int)a->n && l->op->tensors[a->u.tensor + (uint32_t)k].defined;
}

Val l_item(L *l, int i, int k) {
  if (l_has_item(l, i, k)) return l_view(l, arg_at(l, i)->u.tensor + (uint32_t)k);
  l_fail(l, TPU_RUNTIME, "expected a tensor for item %d of argument %d, got none", k, i);
  return BAD;
}

bool l_is_wrapped(const L *l, int i) {
  const op_tensor *t = tensor_at(l, i);
  return t && t->defined && (t->flags & TPU_T_WRAPPED);
}

bool l_is_host(const L *l, int i) {
  const op_tensor *t = tensor_at(l, i);
  return t && t->defined && t->host;
}

bool l_is_contiguous(const L *l, int i) {
  const op_tensor *t = tensor_at(l, i);
  int64_t step = 1;
  for (int k = t ? t->rank - 1 : -1; k >= 0; k--) {
    if (t->sizes[k] == 0) return true;
    if (t->sizes[k] != 1 && t->strides[k] != step) return false;
    step *= t->sizes[k];
  }
  return true;
}

int64_t l_int_or(L *l, int i, int64_t absent) {
  const op_arg *a = arg_at(l, i);
  if (a->tag == TPU_A_NONE) return absent;
  if (a->tag == TPU_A_DOUBLE || a->tag == TPU_A_SCALAR_D) return (int64_t)a->u.d;
  if (a->tag == TPU_A_INTS || a->tag == TPU_A_SIZES) return a->n ? a->u.is[0] : absent;
  return a->u.i;
}
int64_t l_int(L *l, int i) { return l_int_or(l, i, 0); }

double l_double_or(L *l, int i, double absent) {
  const op_arg *a = arg_at(l, i);
  if (a->tag == TPU_A_NONE) return absent;
  if (a->operand) l_fail(l, TPU_INTERNAL, "argument %d is an operand, not structure", i);
  return a->tag == TPU_A_DOUBLE || a->tag == TPU_A_SCALAR_D ? a->u.d : (double)a->u.i;
}
double l_double(L *l, int i) { return l_double_or(l, i, 0); }
bool l_bool(L *l, int i) { return l_int_or(l, i, 0) != 0; }

int l_ints(L *l, int i, const int64_t **out) {
  const op_arg *a = arg_at(l, i);
  if (a->tag == TPU_A_INT) {
    *out = &a->u.i;
    return 1;
  }
  *out = a->tag == TPU_A_INTS || a->tag == TPU_A_BOOLS ? a->u.is : NULL;
  return *out ? (int)a->n : 0;
}

shape l_sizes(L *l, int i) {
  const op_arg *a = arg_at(l, i);
  shape s = {.rank = a->tag == TPU_A_INT ? 1 : a->tag == TPU_A_NONE ? 0 : (int)a->n};
  if (s.rank > IR_MAX_RANK) l_fail(l, TPU_NOT_IMPLEMENTED, "a result of %d dims", s.rank);
  for (int k = 0; k < s.rank && b_ok(l->b); k++) {
    int64_t v = a->tag == TPU_A_INT ? a->u.i : a->u.is[k], n = v & ~SIZE_GENERIC;
    s.d[k] = (ir_dim){v, 0};
    if (a->tag != TPU_A_SIZES || !size_is_generic(v)) continue;
    s.d[k].n = n & (((int64_t)1 << SIZE_NUMBER_SHIFT) - 1);
    s.d[k].sym = symbol_of(l, (uint32_t)(n >> SIZE_NUMBER_SHIFT));
  }
  return s;
}

int l_doubles(L *l, int i, const double **out) {
  const op_arg *a = arg_at(l, i);
  *out = a->tag == TPU_A_DOUBLES ? a->u.ds : NULL;
  return *out ? (int)a->n : 0;
}

bool l_bool_item(L *l, int i, int k) {
  const int64_t *v;
  return k < l_ints(l, i, &v) && v[k];
}

tpu_dtype l_dtype(L *l, int i) {
  const op_arg *a = arg_at(l, i);
  return a->tag == TPU_A_DTYPE || a->tag == TPU_A_INT ? tpu_dtype_from_torch((int)a->u.i) : DT_NONE;
}

const char *l_string(L *l, int i) {
  const op_arg *a = arg_at(l, i);
  return a->tag == TPU_A_STRING ? a->u.s : "";
}

static tpu_dtype number_dtype(const op_arg *a) {
  switch (a->tag) {
  case TPU_A_SCALAR_B:
  case TPU_A_BOOL: return DT_BOOL;
  case TPU_A_SCALAR_C: return DT_C128;
  case TPU_A_SCALAR_D:
  case TPU_A_DOUBLE: return DT_F64;
  default: return DT_I64;
  }
}

static Val number_val(L *l, const op_arg *a, tpu_dtype dt) {
  if (a->operand) return b_cast(l->b, l_operand(l, a->scalar), dt);
  if (number_dtype(a) == DT_F64) return b_cast(l->b, b_const(l->b, DT_F64, a->u.d), dt);
  return dt == DT_F64 || !dt_is_integral(dt) ? b_const(l->b, dt, (double)a->u.i)
                                             : b_cast(l->b, b_const_i(l->b, DT_I64, a->u.i), dt);
}

Val l_scalar(L *l, int i, tpu_dtype dt) {
  const op_arg *a = arg_at(l, i);
  if (a->tag == TPU_A_TENSOR) return b_cast(l->b, l_tensor(l, i), dt);
  if (a->tag == TPU_A_NONE) {
    l_fail(l, TPU_RUNTIME, "expected a number for argument %d, got None", i);
    return BAD;
  }
  return number_val(l, a, dt);
}

Val l_scalar_item(L *l, int i, int k, tpu_dtype dt) {
  const op_arg *a = arg_at(l, i);
  if (a->tag == TPU_A_SCALARS && k < (int)a->n) return number_val(l, &a->u.as[k], dt);
  if (a->tag == TPU_A_DOUBLES && k < (int)a->n) return b_cast(l->b, b_const(l->b, DT_F64, a->u.ds[k]), dt);
  l_fail(l, TPU_RUNTIME, "number %d of argument %d is missing", k, i);
  return BAD;
}

tpu_dtype l_scalar_dtype(L *l, int i) {
  const op_arg *a = arg_at(l, i);
  const op_tensor *t = tensor_at(l, i);
  if (a->tag == TPU_A_SCALARS) return a->n ? number_dtype(&a->u.as[0]) : DT_I64;
  return t ? (tpu_dtype)t->dtype : number_dtype(a);
}

bool l_scalar_is(L *l, int i, double v) {
  const op_arg *a = arg_at(l, i);
  const op_tensor *t = tensor_at(l, i);
  if (t) {
    double d;
    memcpy(&d, &t->bits, sizeof d);
    return t->structure && (t->dtype == DT_I64 ? (double)t->bits : d) == v;
  }
  if (a->operand || a->tag == TPU_A_NONE || a->tag == TPU_A_SCALAR_C) return false;
  return (number_dtype(a) == DT_F64 ? a->u.d : (double)a->u.i) == v;
}

/* --- dtypes --- */
static promo_operand promo_of(const op_tensor *t) {
  uint8_t cat = t->flags & TPU_T_WRAPPED ? PROMO_NUMBER : t->rank == 0 ? PROMO_ZERO_DIM : PROMO_DIM;
  return (promo_operand){(tpu_dtype)t->dtype, cat};
}

tpu_dtype l_result_type(L *l, int n, const int *idx) {
  promo_operand ops[512] = {{DT_I64, PROMO_NUMBER}};
  int m = 0;
  for (int k = 0; k < n; k++) {
    const op_arg *a = arg_at(l, idx[k]);
    if (a->tag == TPU_A_TENSORS || a->tag == TPU_A_TENSOR) {
      uint32_t items = a->tag == TPU_A_TENSOR ? 1 : a->n;
      for (uint32_t j = 0; j < items && m < 512; j++) {
        const op_tensor *t = &l->op->tensors[a->u.tensor + j];
        if (t->defined) ops[m++] = promo_of(t);
      }
    } else if (a->tag != TPU_A_NONE && m < 512) {
      ops[m++] = (promo_operand){number_dtype(a), PROMO_NUMBER};
    }
  }
  tpu_dtype dt = promote_types(ops, m, default_float);
  if (dt != DT_NONE) return dt;
  l_fail(l, TPU_RUNTIME, "Promotion for %s and %s types is not supported",
         m > 0 ? tpu_dtype_torch_name(ops[0].dt) : "no", m > 1 ? tpu_dtype_torch_name(ops[1].dt) : "no");
  return DT_F32;
}

tpu_dtype l_result_type2(L *l, int i, int j) { return l_result_type(l, 2, (const int[]){i, j}); }
tpu_dtype l_float_type(tpu_dtype dt) { return dt_is_integral(dt) ? default_float : dt; }

Val l_tensor_as(L *l, int i, tpu_dtype dt) {
  return l_is_tensor(l, i) ? b_cast(l->b, l_tensor(l, i), dt) : l_scalar(l, i, dt);
}

Val l_to_float(L *l, int i) {
  Val x = l_tensor(l, i);
  return b_cast(l->b, x, l_float_type(b_dtype(l->b, x)));
}

int l_axis(L *l, int i, int rank) { return axis_norm(l->b, l_int(l, i), rank); }

uint32_t l_axes(L *l, int i, int rank) {
  const int64_t *d;
  int n = l_ints(l, i, &d);
  if (n == 0) return axes_all(rank);
  uint32_t axes = 0;
  for (int k = 0; k < n; k++) {
    uint32_t bit = 1u << axis_norm(l->b, d[k], rank);
    if (axes & bit)
      l_fail(l, TPU_RUNTIME, "dim %d appears multiple times in the list of dims",
             axis_norm(l->b, d[k], rank));
    axes |= bit;
  }
  return rank ? axes : 0;
}

/* --- results, errors, random words --- */
static void add_result(L *l, l_result r) {
  GROW(l->results, l->nresults, l->cap_results, 8);
  l->results[l->nresults++] = r;
}

void ret(L *l, Val v) {
  if (v == BAD && b_ok(l->b) && !l->declined) l_fail(l, TPU_INTERNAL, "the lowering gave no value");
  add_result(l, (l_result){.v = v});
}
void ret_columns(L *l, Val v) {
  ret(l, v);
  l->results[l->nresults - 1].columns = true;
}
void ret_none(L *l) { add_result(l, (l_result){.v = BAD}); }

void l_write(L *l, int i, int k, Val v) {
  const op_arg *a = arg_at(l, i);
  if ((a->tag != TPU_A_TENSOR && a->tag != TPU_A_TENSORS) || k > (int)a->n) {
    l_fail(l, TPU_INTERNAL, "write to argument %d, which is no tensor", i);
    return;
  }
  add_result(l, (l_result){.v = v, .write = true, .target = a->u.tensor + (uint32_t)k});
}

void l_fail(L *l, tpu_code code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char msg[1024];
  vsnprintf(msg, sizeof msg, fmt, ap);
  va_end(ap);
  b_fail(l->b, code, "%s", msg);
}

void l_decline(L *l, const char *why) {
  if (!l->declined) l->declined = why;
}

static Val rng_scalar(L *l, Val *slot, use_kind kind) {
  if (*slot == BAD && l->recording) *slot = scalar_operand(l, kind, 0, DT_U64);
  return *slot;
}

/* Where the op's next draw begins. */
static Val next_counter(L *l) {
  Val at = rng_scalar(l, &l->offset, USE_OFFSET);
  if (l->blocks) at = b_add(l->b, at, b_const_i(l->b, DT_U64, (int64_t)l->blocks));
  return l->sized_blocks == BAD ? at : b_add(l->b, at, b_cast(l->b, l->sized_blocks, DT_U64));
}

Val l_random_words(L *l, int64_t n) {
  Val seed = rng_scalar(l, &l->seed, USE_SEED), at = next_counter(l);
  l->blocks += (uint64_t)(n + 3) / 4;
  return b_philox(l->b, seed, at, n);
}

Val l_words_like(B *b, Val key, Val counter, const shape *s, int per_element) {
  shape r = {.rank = s->rank + 1, .d = {{per_element, 0}}}, phys;
  int64_t n = per_element;
  int last = 0; /* the innermost generic dim */
  bool prefix = per_element == 1;
  for (int i = 0; i < s->rank; i++) {
    r.d[i + 1] = s->d[i];
    if (s->d[i].sym) {
      prefix = prefix && n == 1;
      last = i + 1;
    }
    n *= s->d[i].n;
  }
  Val words = b_philox(b, key, counter, n);
  phys = r;
  for (int i = 0; i < r.rank; i++) phys.d[i].sym = 0;
  if (!last || prefix) return b_relabel(b, b_reshape(b, words, &phys), &r);
  Val at = BAD, step = b_const_i(b, DT_I64, 1); /* the word of an element is the one of its logical place */
  for (int i = r.rank - 1; i >= 0; i--) {
    Val part = b_mul(b, b_iota(b, DT_I64, &r, i), step);
    at = at == BAD ? part : b_add(b, at, part);
    step =
        b_mul(b, step,
              r.d[i].sym ? b_cast(b, b_symbol_size(b, r.d[i].sym), DT_I64) : b_const_i(b, DT_I64, r.d[i].n));
  }
  return b_take(b, words, at, 0);
}

Val l_random_words_like(L *l, const shape *s, int per_element) {
  B *b = l->b;
  Val words = l_words_like(b, rng_scalar(l, &l->seed, USE_SEED), next_counter(l), s, per_element);
  Val n = BAD;
  int64_t fixed = per_element;
  for (int i = 0; i < s->rank; i++) {
    if (!s->d[i].sym) fixed *= s->d[i].n;
    if (s->d[i].sym)
      n = n == BAD ? b_symbol_size(b, s->d[i].sym) : b_mul(b, n, b_symbol_size(b, s->d[i].sym));
  }
  if (n == BAD) {
    l->blocks += (uint64_t)(fixed + 3) / 4;
    return words;
  }
  n = b_mul(b, n, b_const_i(b, DT_I32, fixed));
  n = b_div(b, b_add(b, n, b_const_i(b, DT_I32, 3)), b_const_i(b, DT_I32, 4));
  l->sized_blocks = l->sized_blocks == BAD ? n : b_add(b, l->sized_blocks, n);
  return words;
}
