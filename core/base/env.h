/* The switches of docs/debugging.md that have a set of good values: read without complaint wherever they are
 * needed, and checked once, when the runtime starts. An empty variable is an unset one. */
#ifndef TPU_BASE_ENV_H
#define TPU_BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* NULL when unset or empty. */
const char *env_get(const char *name);
bool env_is(const char *name, const char *word);
/* 1, on, true or 0, off, false; `unset` when it is unset or neither. */
bool env_flag(const char *name, bool unset);
/* "1500000", "1.5G", "512MiB"; `unset` when it is unset or no size. */
int64_t env_bytes(const char *name, int64_t unset);
/* ValueError for the first switch with a value that it does not have. */
tpu_error *env_check(void);

#endif
