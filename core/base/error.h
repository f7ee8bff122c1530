/* Errors of the core: a pointer, NULL is success, passed up in a word.
 *
 * A fallible function returns `tpu_error *`; the caller owns it and either passes it up (TRY) or
 * frees it (tpu_error_free). The glue turns it into the Python exception named in error.def.
 * Host memory that cannot be had aborts with size and place (tpu_xmalloc); device memory that
 * cannot be had is an ordinary TPU_OUT_OF_MEMORY. Thread-safe: an error is a plain heap object. */
#ifndef TPU_BASE_ERROR_H
#define TPU_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

typedef enum tpu_code {
#define CODE(NAME, python) TPU_##NAME,
#include "base/error.def"
#undef CODE
} tpu_code;

typedef struct tpu_error tpu_error;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* part of tpu.h */

#define TPU_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* A new error; the text is formatted at once. Never NULL. */
tpu_error *tpu_err(tpu_code code, const char *fmt, ...) TPU_PRINTF(2, 3);
tpu_error *tpu_verr(tpu_code code, const char *fmt, va_list ap);
/* Puts "prefix: " in front of the text of `e` and returns `e`; NULL stays NULL. */
tpu_error *tpu_err_prefix(tpu_error *e, const char *fmt, ...) TPU_PRINTF(2, 3);
tpu_error *tpu_error_copy(const tpu_error *e);
tpu_code tpu_error_code(const tpu_error *e);
const char *tpu_error_message(const tpu_error *e);
void tpu_error_free(tpu_error *e); /* NULL is fine */

#define TRY(expr)             \
  do {                        \
    tpu_error *try_ = (expr); \
    if (try_) return try_;    \
  } while (0)

/* Host memory; abort with a sentence when there is none. */
void *tpu_xmalloc(size_t n);
void *tpu_xcalloc(size_t n, size_t size);
void *tpu_xrealloc(void *p, size_t n);
char *tpu_xstrdup(const char *s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
