/* A sequence of recorded calls, and what its key runs: for trace.c (recording and cutting), steps.c (keys to
 * programs), singles.c (op by op), graph.c and record.c (graphs). Core lock held. */
#ifndef TPU_STEP_TRACE_INT_H
#define TPU_STEP_TRACE_INT_H

#include <string.h>

#include "step/trace.h"

/* An operand is one of three kinds; the two top bits of its code say which. */
enum { CODE_SLOT = 0u << 30, CODE_EXT = 1u << 30, CODE_SCALAR = 2u << 30, CODE_MASK = 3u << 30 };

typedef struct trace {
  uint32_t serial;
  int16_t device;
  bool flushing;
  const char
      *due;     /* why a step ends here: it is launched before the next op is recorded; NULL: it does not */
  tpu_op **ops; /* recorded calls */
  tpu_value **vals; /* results, nreal an op, in order; a reference each */
  tpu_value **exts; /* operands from outside; a reference each */
  prep_scalar *scalars;
  uint32_t *sizes; /* which scalars are sizes */
  uint32_t nops, nvals, nexts, nscalars, nsizes, cap_ops, cap_vals, cap_exts, cap_scalars, cap_sizes;
  text key;               /* op ids and operand codes, as recorded */
  uint32_t period, match; /* the last `match` ops equal the ones `period` before them */
  bool checks;
  struct recording *recording; /* of a graph: see graph.c; NULL: a step of the device */
} trace;

typedef struct step { /* what a key runs */
  program *prog;
  const tpu_op **owners; /* ops, for checks */
  uint32_t nops;
  uint32_t *live; /* slots that leave, in result order */
  uint32_t nlive;
  int32_t *gives;            /* by outside operand: the result that takes its buffer over, or -1 */
  int64_t live_bytes, bytes; /* of the live ones; without what is taken over */
  bool has_check, kept;
  bool too_large;    /* the compiler found no room for it: its ops run alone */
  struct step *next; /* of the same ops, other results alive */
} step;

trace *trace_create(int device);
void trace_free(trace *t);
void trace_put_code(trace *t, uint32_t code);
static inline const char *trace_next_code(const char *p, uint32_t *code) {
  memcpy(code, p, sizeof *code);
  return p + sizeof *code;
}
/* v, which is real, as an operand from outside: its index. */
uint32_t trace_external(trace *t, tpu_value *v);
bool trace_is_generic(const trace *t);
/* The device's own trace again, to be launched later: the key cut to what was recorded. False: there is
 * another. */
bool trace_put_back(trace *t, size_t key_length);
/* Whoever waits for the trace's values looks again. */
void trace_settled(trace *t);
/* Frees it; what it did not make carries the error. */
void trace_end(trace *t, const tpu_error *e);
/* Launches the trace, which nobody records into any more, and frees it. */
tpu_error *trace_finish(trace *t, const char *why);
/* Appends to the key what else decides the program, a letter each: 'L' for a result that leaves, 'D' for an
 * outside operand that may be taken over. */
void trace_close_key(trace *t);
/* The step that the closed key runs, or one of the same ops that gives more results; `ops_length`: of the key
 * before it was closed. May pause. */
tpu_error *step_get(trace *t, size_t ops_length, step **out);
/* *ran: all results are there, and an error is that of a check. Not, and no error: there is no memory for
 * them. */
tpu_error *step_launch(trace *t, const step *st, bool *ran);
/* The ops of a closed trace alone, where it failed as a whole: what strict mode would have computed is there
 * afterwards. `why`: what the launch of the whole said, NULL where there was no memory for it. The first
 * error; *whole: Ctrl-C, and the trace is as it was. May pause. */
tpu_error *trace_op_by_op(trace *t, const tpu_error *why, bool *whole);

/* The thread records a graph on this device: where its calls go. NULL: it does not. */
trace *graph_trace(int device);
/* Somebody needs a value of a graph that is being recorded: what there is becomes an ordinary step. */
tpu_error *graph_break(trace *t, const char *why);
/* Where the number comes from that is recorded next: notes for the recording. */
void graph_note_scalar(trace *t, use_kind kind, const prep *p, uint32_t index, uint64_t value);

#endif
