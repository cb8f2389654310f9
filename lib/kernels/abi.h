/* The C interface of generated and plugged-in kernels, version 1.
 *
 * A kernel computes rows [begin, end) of its outermost loop, so that the caller decides how to spread it over threads;
 * results do not depend on the cut. Buffers are inputs in the order of the call's tensor arguments, then outputs, then
 * one scratch buffer private to this invocation (or null). `sizes` are the values of the expressions in the call's
 * annotation `sizes`, in order. The kernel allocates nothing, calls nothing, and writes only to outputs and scratch. */
#ifndef ATENON_KERNELS_ABI_H
#define ATENON_KERNELS_ABI_H

#include <stdint.h>

#define ATENON_KERNEL_ABI_VERSION 1

typedef void atenon_kernel_v1(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end, void* scratch);

#endif
