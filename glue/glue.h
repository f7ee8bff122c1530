/* What the Python module sees of the glue besides tpu.h. Plain C; any thread may call. */
#ifndef TPU_GLUE_H
#define TPU_GLUE_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Registers device, hooks, kernels with PyTorch, once; starts no runtime. NULL, or the text of what went
 * wrong (static). */
const char *tpu_glue_init(void);

/* The Python type that Ctrl-C during a compile raises; PyTorch's RuntimeError without it. */
void tpu_glue_set_interrupt_type(void *type);

/* What happens when an op has no kernel here: at first from TORCH_TPU_FALLBACK=warn|error|silent. */
enum { TPU_FALLBACK_WARN, TPU_FALLBACK_ERROR, TPU_FALLBACK_SILENT };
void tpu_glue_set_fallback(int policy);
int tpu_glue_get_fallback(void);

/* JSON {"registered": n, "typed": n, "rows": n, "missing": [names], "refused": {name: why}}; the caller frees
 * it. */
char *tpu_glue_report(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
