/* Programs: from StableHLO text to a loaded executable, through the tiers memory -> host disk -> compile, and
 * the statistics of that.
 *
 * The key of every tier is the program's own text (and, on disk, the plugin's fingerprint): whole bytes
 * stored and compared, so a hit is the same program by construction. What runs without text is the memo above
 * (op -> program, step key -> program). Core lock held. */
#ifndef TPU_STEP_PROGRAM_H
#define TPU_STEP_PROGRAM_H

#include "base/text.h"
#include "rt/rt.h"
#include "step/cache.h"

typedef struct program {
  rt_exec *exec;         /* NULL: unloaded to make room; program_get loads it again */
  uint64_t used;         /* when, on the clock of program_ready */
  const char *mlir;      /* its text, not NUL-terminated */
  size_t length;         /* of the text */
  char file[CACHE_NAME]; /* of its entry on disk, if there is one */
} program;

/* May it be launched as it is? NULL: no. Asked right before a launch: what was used last is unloaded last. */
bool program_ready(program *p);

/* Drops the core lock while it reads, compiles or waits (Ctrl-C: TPU_INTERRUPTED); what the caller needs
 * afterwards it must have pinned. `name` says what it is ("aten::add.Tensor", "step of 37 ops"). */
tpu_error *program_get(const text *mlir, const char *name, int nops, program **out);
void program_count_hit(void); /* a memo hit: a launch that needed no text */
void program_clear(void);     /* the memory tier */

#endif
