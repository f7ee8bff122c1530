/* A PJRT plugin for tests, linked statically: buffers in host memory, programs that only know their
 * signature, failures and delays on demand, counts of what lives. Give fake_api() to rt_use_api.
 *
 * A "program" is any text with a line `func.func public @main(...) -> ... {`; its arguments, results and
 * donations (tf.aliasing_output, jax.buffer_donor) are read from there. Running it fills the results with
 * zeros, or calls the registered kernel. Thread-safe. */
#ifndef TPU_TESTS_FAKE_PLUGIN_H
#define TPU_TESTS_FAKE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_MAX_RANK = 16 };

typedef struct fake_array {
  int32_t type; /* PJRT_Buffer_Type */
  size_t rank;
  int64_t dims[FAKE_MAX_RANK];
  size_t bytes;
  void *data; /* dense row-major */
} fake_array;

/* Runs a program: `mlir` is its text, `outs` are zeroed and may be written. */
typedef void (*fake_kernel)(void *ctx, const char *mlir, const fake_array *const *args, size_t nargs,
                            fake_array *const *outs, size_t nouts);

typedef enum fake_kind {
  FAKE_BUFFERS,
  FAKE_EXECUTABLES,
  FAKE_EVENTS,
  FAKE_ERRORS,
  FAKE_CLIENTS,
  FAKE_KINDS
} fake_kind;

const void *fake_api(void);
/* Back to the start: no failure, no delay, no kernel, calls at 0. Live objects stay counted. */
void fake_reset(void);
/* The n-th call from now (1, 2, ...) fails with "injected failure"; 0: none. Calls about errors are not
 * counted. A destroying call that fails still destroys. */
void fake_fail_at(int64_t n);
/* Whether that failure has happened. */
bool fake_has_failed(void);
int64_t fake_calls(void);
int64_t fake_calls_of(int slot);
int64_t fake_live(fake_kind kind);
int64_t fake_live_total(void);
void fake_set_kernel(fake_kernel kernel, void *ctx);
/* While held, launches stay pending; releasing completes them, each with the error text that was set when
 * it was launched (NULL: success). */
void fake_hold(bool hold);
void fake_fail_launches(const char *words);
/* The next n launches are refused for want of memory; `take`: what was donated to them is gone all the same.
 */
void fake_refuse_launches(int n, bool take);
/* Compiles take this long. */
void fake_compile_ms(int ms);
/* The name and the limits that the client reports from its creation on ("cpu" by default). */
void fake_platform(const char *name);
/* Client creation fails with this text and code 9 until NULL. */
void fake_client_error(const char *words);
/* The text of the program compiled or loaded last. */
const char *fake_last_program(void);

#endif
