/* Inside of convolution: its sizes, and the lowerings that conv.c chooses from. */
#ifndef TPU_IR_CONV_H
#define TPU_IR_CONV_H

#include "ir/graph.h"

/* Everything of b_conv with its defaults filled in, and the sizes that follow. */
typedef struct conv {
  b_conv c;
  int n; /* spatial dims */
  shape xs, ws, out;
} conv;

Val conv_depthwise(B *b, Val x, Val w,
                   const conv *v); /* feature groups; no batch groups; flip not set, here and below */
Val conv_by_patches(B *b, Val x, Val w, const conv *v); /* no batch groups */
Val conv_by_outputs(B *b, Val x, Val w, const conv *v); /* no feature groups */
Val conv_by_blocks(B *b, Val x, Val w,
                   const conv *v); /* no groups, lhs_dilation >= kernel, stride and rhs_dilation 1 */
Val conv_by_planes(
    B *b, Val x, Val w,
    const conv *v); /* three spatial dims; kernel or result of at most 64 planes; static batch */

#endif
