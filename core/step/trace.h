/* The fused trace: calls recorded, launched as one step. One trace a device; core lock held throughout.
 *
 * Cuts. A step ends when a value is needed, when it holds TRACE_MAX ops, or when its sequence of ops repeats:
 * once a sequence of at least TRACE_MIN ops has been seen twice in a row the step is cut there, and from then
 * on after every further copy of it, until an op differs. Such a step waits for the op after it: only then
 * its caller has dropped what he does not need, which is not computed then. So thirty equal layers are a
 * handful of programs, and a loop that never reads runs in bounded memory. The cuts depend on the ops only.
 */
#ifndef TPU_STEP_TRACE_H
#define TPU_STEP_TRACE_H

#include "step/run.h"

enum { TRACE_MIN = 24, TRACE_MAX = 1024 };

/* Waits for operands that another thread is making; nothing can fail or wait after that, so a call is
 * recorded whole or not at all. May pause, and the call must be prepared again then. */
tpu_error *trace_ready(const tpu_op *op, const prep *p);
/* Appends the call, which is ready; its results are pending values. */
tpu_error *trace_record(tpu_op *op, prep *p, tpu_call *call);
/* Launches what is pending on the device (-1: on all). `why` goes to statistics: a static string. */
tpu_error *trace_flush(int device, const char *why);
/* Launches the step that makes v (and waits for another thread that is just doing so). May pause. */
tpu_error *trace_need(tpu_value *v);
/* Forgets which programs the steps run (tpu_clear_programs). */
void trace_clear_steps(void);

#endif
