/* Kernels of yours for custom operators, version 1 of the interface.
 *
 * A program holds of a custom operator (torch.library) its schema alone. A shared library computes it: for my::squash
 * it exports the function my__squash, for an overload my::squash.Tensor my__squash__Tensor. A whole one:
 *
 *   #include <atenon_kernel.h>
 *   ATENON_KERNEL_LIBRARY
 *
 *   // my::squash(Tensor x, float by=2.0) -> Tensor
 *   ATENON_EXPORT const char* my__squash(atenon_kernel_call* call) {
 *     const atenon_tensor x = call->arguments[0].tensor, y = call->results[0];
 *     if (x.dtype != ATENON_F32) return "x must be float32";
 *     int64_t count = 1;
 *     for (int axis = 0; axis < x.rank; ++axis) count *= x.sizes[axis];
 *     for (int64_t i = 0; i < count; ++i)
 *       ((float*)y.data)[i] = ((float*)x.data)[i] / (float)call->arguments[1].number;
 *     return NULL;
 *   }
 *
 *   cc -shared -fPIC -O2 squash.c -o squash.so
 *   atenon run net.atn --kernels squash.so --input x=x.npy
 *   atenon pack net.atn --kernels squash.so -o package.atn    # the library travels inside
 *
 * Tensors are dense and row-major (atenon.h). A kernel returns NULL, or why it cannot: a text that stays valid until
 * the next call. It may be called from several threads at the same time. */
#ifndef ATENON_KERNEL_H
#define ATENON_KERNEL_H

#include "atenon.h"

#define ATENON_KERNEL_VERSION 1

#ifdef __cplusplus
#define ATENON_KERNEL_LIBRARY                           \
  extern "C" {                                          \
  ATENON_EXPORT extern const int atenon_kernel_version; \
  }                                                     \
  const int atenon_kernel_version = ATENON_KERNEL_VERSION;
extern "C" {
#else
#define ATENON_KERNEL_LIBRARY ATENON_EXPORT const int atenon_kernel_version = ATENON_KERNEL_VERSION;
#endif

typedef enum {
  ATENON_NONE,
  ATENON_TENSOR, /* tensor; where the schema says that it is updated, write to it in place */
  ATENON_INT,    /* integer: also a bool, 0 or 1, and a dtype, an atenon_dtype */
  ATENON_FLOAT,  /* number */
  ATENON_TEXT,   /* text */
  ATENON_LIST    /* `count` items */
} atenon_kind;

typedef struct atenon_argument {
  atenon_kind kind;
  atenon_tensor tensor;
  int64_t integer;
  double number;
  const char* text;
  const struct atenon_argument* items;
  size_t count;
} atenon_argument;

typedef struct atenon_kernel_call {
  const atenon_argument* arguments; /* all of the schema's, in order, defaults filled in */
  size_t argument_count;
  /* The schema's returns; a list is several, a number (int, float, bool) a tensor of rank 0 of I64, F64 or BOOL. A
   * return that is an updated argument is that argument's tensor. A size that data decide is -1, and data NULL:
   * allocate() it. */
  const atenon_tensor* results;
  size_t result_count;
  /* Makes room for results[i], of these sizes, and returns it (in results[i], too); NULL if they contradict its type.
   */
  void* (*allocate)(struct atenon_kernel_call* call, size_t i, const int64_t* sizes);
} atenon_kernel_call;

#ifdef __cplusplus
}
#endif

#endif
