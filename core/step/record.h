/* A recorded sequence of calls as launches: cut where blocks repeat, each part compiled, wired to each other.
 * Core lock held throughout. */
#ifndef TPU_STEP_RECORD_H
#define TPU_STEP_RECORD_H

#include "step/trace_int.h"

/* Where a number comes from at each run. */
typedef enum origin_kind { FROM_RECORD, FROM_SEED, FROM_OFFSET, FROM_HOST } origin_kind;
typedef struct origin {
  uint8_t kind;
  uint64_t at; /* OFFSET: blocks after the first draw; HOST: which input */
} origin;

typedef struct part { /* one launch */
  step *st;
  uint32_t *exts, *scalars, *outs,
      *dead;        /* operand codes; numbers; slots that leave; slots nobody reads after it */
  uint8_t *donated; /* of exts */
  uint32_t nexts, nscalars, nouts, ndead;
  bool numbers_first;
} part;

typedef struct slot_type { /* a value that leaves its part */
  uint32_t slot;
  tpu_value *model; /* type and source alone */
} slot_type;

typedef struct record {
  part *parts;
  slot_type *types;
  prep_scalar *scalars;
  origin *origins;
  uint32_t nparts, nscalars, ntypes, nslots, nops, ndonated;
  int16_t device;
  uint32_t most; /* operands or results of a part */
} record;

/* Compiles t. `input_of[i]`: which input value the outside operand i is. `keeps[slot]`: the value is asked
 * for after the graph; `loses[k]`: input value k is not. May pause. */
tpu_error *record_build(trace *t, bool inlined, const uint32_t *input_of, const uint8_t *keeps,
                        const uint8_t *loses, record **out);
/* Are all programs loaded? Else it is to be recorded again. */
bool record_ready(const record *r);
/* Launches. in[k]: input values. slots: room for r->nslots, NULL where a value is to be made; a reference in
 * each that is kept afterwards. `free_refs`: how many references an input value that may be taken over has.
 * On an error the input values that were taken over have no buffer, or one that is gone (rt_is_taken). Pauses
 * never. */
tpu_error *record_launch(const record *r, tpu_value *const *in, tpu_value **slots, int free_refs);
uint32_t record_programs(const record *r);      /* different ones */
void record_files(const record *r, text *json); /* where those lie on disk */
/* A JSON object of what is launched: {"launches": [{"program": which text, "operands": [...], "results":
 * [...]}], "texts": [StableHLO]}. An operand is {"input": value} or {"slot": n} or {"number": [low bits, high
 * bits], "from": "record" | "seed" | "offset" | "host"}; results are slots, and "check" where one more counts
 * what went wrong. */
void record_programs_json(const record *r, text *json);
void record_free(record *r);

#endif
