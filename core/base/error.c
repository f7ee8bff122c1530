/* Errors and host memory of the core: see error.h. Touches only the heap and stderr. */
#include "base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tpu_error {
  tpu_code code;
  char text[]; /* NUL-terminated */
};

/* Never returns: there is no sensible way on when the host has no memory left. */
static void die(size_t n) {
  fprintf(stderr, "torch_tpu: out of host memory (%zu bytes wanted)\n", n);
  abort();
}

void *tpu_xmalloc(size_t n) {
  void *p = malloc(n ? n : 1);
  if (!p) die(n);
  return p;
}

void *tpu_xcalloc(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size ? size : 1);
  if (!p) die(size && n > SIZE_MAX / size ? SIZE_MAX : n * size);
  return p;
}

void *tpu_xrealloc(void *p, size_t n) {
  void *q = realloc(p, n ? n : 1);
  if (!q) die(n);
  return q;
}

char *tpu_xstrdup(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(tpu_xmalloc(n), s, n);
}

tpu_error *tpu_verr(tpu_code code, const char *fmt, va_list ap) {
  if (!fmt) fmt = ""; /* says to the compiler what TPU_PRINTF says to callers */
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  if (n < 0) n = 0;
  tpu_error *e = tpu_xmalloc(sizeof *e + (size_t)n + 1);
  e->code = code;
  e->text[0] = 0;
  vsnprintf(e->text, (size_t)n + 1, fmt, again);
  va_end(again);
  return e;
}

tpu_error *tpu_err(tpu_code code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tpu_error *e = tpu_verr(code, fmt, ap);
  va_end(ap);
  return e;
}

tpu_error *tpu_err_prefix(tpu_error *e, const char *fmt, ...) {
  if (!e) return NULL;
  va_list ap;
  va_start(ap, fmt);
  tpu_error *prefix = tpu_verr(e->code, fmt, ap);
  va_end(ap);
  tpu_error *both = tpu_err(e->code, "%s: %s", prefix->text, e->text);
  free(prefix);
  free(e);
  return both;
}

tpu_error *tpu_error_copy(const tpu_error *e) {
  if (!e) return NULL;
  size_t n = sizeof *e + strlen(e->text) + 1;
  return memcpy(tpu_xmalloc(n), e, n);
}

tpu_code tpu_error_code(const tpu_error *e) { return e->code; }

const char *tpu_error_message(const tpu_error *e) { return e->text; }

void tpu_error_free(tpu_error *e) { free(e); }
