/* Growing bytes: program text, signatures, cache entries. Zero-initialise; text_free at the end. */
#ifndef TPU_BASE_TEXT_H
#define TPU_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

typedef struct text {
  char *p; /* NUL-terminated once anything was added; owned */
  size_t n, cap;
} text;

void text_add(text *t, const void *p, size_t n);
/* text_add for a few bytes, inline: signatures and keys are built of thousands of these. */
static inline void text_put(text *t, const void *p, size_t n) {
  if (t->n + n + 1 > t->cap) {
    text_add(t, p, n);
    return;
  }
  memcpy(t->p + t->n, p, n);
  t->n += n;
  t->p[t->n] = 0;
}
void text_str(text *t, const char *s);
void text_printf(text *t, const char *fmt, ...) TPU_PRINTF(2, 3);
void text_i64(text *t, int64_t v); /* decimal, faster than printf */
void text_clear(text *t);          /* keeps the memory */
void text_free(text *t);

#endif
