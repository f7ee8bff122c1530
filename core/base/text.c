/* Growing bytes: see text.h. */
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `n` more bytes and a NUL. */
static char *room(text *t, size_t n) {
  size_t want = t->n + n + 1;
  if (want < n) want = SIZE_MAX; /* overflow: xrealloc says so */
  if (want > t->cap) {
    size_t cap = t->cap ? t->cap : 64;
    while (cap < want && cap <= SIZE_MAX / 2) cap *= 2;
    if (cap < want) cap = want;
    t->p = tpu_xrealloc(t->p, cap);
    t->cap = cap;
  }
  return t->p + t->n;
}

void text_grow(text *t, size_t n) { room(t, n); }

void text_add(text *t, const void *p, size_t n) {
  char *to = room(t, n);
  if (n) memcpy(to, p, n);
  to[n] = 0;
  t->n += n;
}

void text_str(text *t, const char *s) { text_add(t, s, strlen(s)); }

void text_printf(text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  size_t left = t->cap > t->n ? t->cap - t->n : 0;
  int n = vsnprintf(left ? t->p + t->n : NULL, left, fmt, ap);
  va_end(ap);
  if (n < 0) return;
  if ((size_t)n >= left) {
    char *to = room(t, (size_t)n);
    va_start(ap, fmt);
    vsnprintf(to, (size_t)n + 1, fmt, ap);
    va_end(ap);
  }
  t->n += (size_t)n;
}

void text_json(text *t, const char *s) {
  if (!s) {
    text_str(t, "null");
    return;
  }
  text_str(t, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') text_str(t, "\\");
    if (*s == '\n')
      text_str(t, "\\n");
    else if ((unsigned char)*s >= 32)
      text_add(t, s, 1);
  }
  text_str(t, "\"");
}

void text_i64(text *t, int64_t v) {
  char digits[20];
  size_t n = 0;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do {
    digits[n++] = (char)('0' + u % 10);
    u /= 10;
  } while (u);
  char *to = room(t, n + 1);
  size_t k = 0;
  if (v < 0) to[k++] = '-';
  while (n) to[k++] = digits[--n];
  to[k] = 0;
  t->n += k;
}

void text_clear(text *t) {
  t->n = 0;
  if (t->p) t->p[0] = 0;
}

void text_free(text *t) {
  free(t->p);
  *t = (text){0};
}
