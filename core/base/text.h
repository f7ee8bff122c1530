/* Growing bytes: program text, signatures, cache entries. Zero-initialise; text_free at the end. */
#ifndef TPU_BASE_TEXT_H
#define TPU_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

typedef struct text {
  char *p; /* NUL-terminated once anything was added (but by text_push); owned */
  size_t n, cap;
} text;

void text_add(text *t, const void *p, size_t n);
void text_grow(text *t, size_t n);
/* Signatures and keys are built of thousands of small pieces: these are inline, and write no NUL. text_push
 * wants room that text_reserve made. */
static inline void text_reserve(text *t, size_t n) {
  if (t->cap - t->n < n) text_grow(t, n);
}
static inline void text_push(text *t, const void *p, size_t n) {
  memcpy(t->p + t->n, p, n);
  t->n += n;
}
static inline void text_put(text *t, const void *p, size_t n) {
  text_reserve(t, n);
  text_push(t, p, n);
}
void text_str(text *t, const char *s);
void text_printf(text *t, const char *fmt, ...) TPU_PRINTF(2, 3);
void text_i64(text *t, int64_t v);      /* decimal, faster than printf */
void text_json(text *t, const char *s); /* as a JSON string; NULL: null */
void text_clear(text *t);               /* keeps the memory */
void text_free(text *t);

#endif
