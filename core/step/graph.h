/* Compiled graphs: recordings of calls, launched as a whole. The functions are in tpu.h; see there. */
#ifndef TPU_STEP_GRAPH_H
#define TPU_STEP_GRAPH_H

#include <stdbool.h>

/* Does this thread record a graph on the device? Then calls are recorded, whatever the mode. Any thread. */
bool graph_records(int device);
bool graph_is_fixed(
    int device); /* it does, and no size of the graph varies: none turns generic by evidence */

#endif
