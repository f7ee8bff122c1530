/* Bump arena: many small pieces, one end. The step arena of design 3 is one of these.
 * Thread-compatible: an arena belongs to one thread (or one lock) at a time. */
#ifndef TPU_BASE_ARENA_H
#define TPU_BASE_ARENA_H

#include <stddef.h>

typedef struct arena_block arena_block;
typedef struct arena {
  arena_block *head; /* owned list, newest first */
  size_t used;       /* bytes handed out since the last reset */
} arena;             /* zero-initialise */

/* `n` zeroed bytes, aligned to 16. Lives until arena_reset or arena_free. Never NULL. */
void *arena_alloc(arena *a, size_t n);
void *arena_copy(arena *a, const void *p, size_t n);
void arena_reset(arena *a); /* keeps one block; debug builds poison it */
void arena_free(arena *a);

#endif
