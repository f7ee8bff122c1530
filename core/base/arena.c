/* Bump arena: see arena.h. Blocks double up to 256 KiB; a piece larger than that has its own block. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { FIRST = 4096, LARGEST = 256 * 1024, ALIGN = 16 };

struct arena_block {
  arena_block *next;
  size_t cap, used;
  size_t pad_; /* keeps `data` aligned to 16 */
  unsigned char data[];
};
_Static_assert(offsetof(arena_block, data) % ALIGN == 0, "pieces are aligned to 16");

static arena_block *grow(arena *a, size_t n) {
  size_t cap = a->head ? a->head->cap * 2 : FIRST;
  if (cap > LARGEST) cap = LARGEST;
  if (cap < n) cap = n;
  arena_block *b = tpu_xmalloc(sizeof *b + cap);
  *b = (arena_block){.next = a->head, .cap = cap};
  a->head = b;
  return b;
}

void *arena_alloc(arena *a, size_t n) {
  if (n > SIZE_MAX - sizeof(arena_block) - ALIGN) tpu_xmalloc(n); /* says why, and aborts */
  n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (!n) n = ALIGN;
  arena_block *b = a->head;
  if (!b || b->cap - b->used < n) b = grow(a, n);
  void *p = b->data + b->used;
  b->used += n;
  a->used += n;
  return memset(p, 0, n);
}

void *arena_copy(arena *a, const void *p, size_t n) {
  void *q = arena_alloc(a, n);
  if (n) memcpy(q, p, n);
  return q;
}

void arena_reset(arena *a) {
  arena_block *keep = NULL;
  for (arena_block *b = a->head, *next; b; b = next) {
    next = b->next;
    bool better = !keep || b->cap > keep->cap;
    if (better && b->cap <= LARGEST) {
      free(keep);
      keep = b;
    } else {
      free(b);
    }
  }
  if (keep) {
#ifndef NDEBUG
    memset(keep->data, 0xa5, keep->used);
#endif
    keep->next = NULL;
    keep->used = 0;
  }
  *a = (arena){.head = keep};
}

void arena_free(arena *a) {
  for (arena_block *b = a->head, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  *a = (arena){0};
}
