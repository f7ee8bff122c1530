/* Growing bytes: program text, signatures, cache entries. Zero-initialise; text_free at the end. */
#ifndef TPU_BASE_TEXT_H
#define TPU_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct text {
  char *p; /* NUL-terminated once anything was added; owned */
  size_t n, cap;
} text;

void text_add(text *t, const void *p, size_t n);
void text_str(text *t, const char *s);
void text_printf(text *t, const char *fmt, ...) TPU_PRINTF(2, 3);
void text_i64(text *t, int64_t v); /* decimal, faster than printf */
void text_clear(text *t);          /* keeps the memory */
void text_free(text *t);

#endif
