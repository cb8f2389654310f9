/* Kernels of custom operators, for kernels.py.test. VERSION is what a library of another version would say. */
#include <math.h>
#include <stddef.h>

#include "atenon_kernel.h"

#ifdef VERSION
#undef ATENON_KERNEL_VERSION
#define ATENON_KERNEL_VERSION VERSION
#endif
#ifndef NO_VERSION
ATENON_KERNEL_LIBRARY
#endif

static int64_t count_of(atenon_tensor tensor) {
  int64_t count = 1;
  for (int axis = 0; axis < tensor.rank; ++axis) count *= tensor.sizes[axis];
  return count;
}

/* mine::squash(Tensor x, float by=2.0) -> Tensor */
ATENON_EXPORT const char* mine__squash(atenon_kernel_call* call) {
  const atenon_tensor x = call->arguments[0].tensor, y = call->results[0];
  if (x.dtype != ATENON_F32) return "x must be float32";
  for (int64_t i = 0; i < count_of(x); ++i) {
    const float value = ((const float*)x.data)[i];
    ((float*)y.data)[i] = value / ((float)call->arguments[1].number + fabsf(value));
  }
  return NULL;
}

#ifndef FEW
/* mine::accumulate(Tensor x, Tensor(a1!)[] totals, str how) -> int */
ATENON_EXPORT const char* mine__accumulate(atenon_kernel_call* call) {
  const atenon_tensor x = call->arguments[0].tensor;
  const atenon_argument totals = call->arguments[1];
  const float factor = call->arguments[2].text[0] == 'd' ? 2 : 1; /* "double" */
  for (size_t t = 0; t < totals.count; ++t)
    for (int64_t i = 0; i < count_of(x); ++i)
      *(float*)totals.items[t].tensor.data += factor * ((const float*)x.data)[i];
  *(int64_t*)call->results[0].data = count_of(x);
  return NULL;
}

/* mine::positive(Tensor x) -> (Tensor, Tensor): values above zero, of which only data know how many there are */
ATENON_EXPORT const char* mine__positive(atenon_kernel_call* call) {
  const atenon_tensor x = call->arguments[0].tensor;
  const float* values = (const float*)x.data;
  int64_t count = 0;
  for (int64_t i = 0; i < count_of(x); ++i) count += values[i] > 0;
#ifdef NO_ROOM
  return NULL;
#endif
  float* out = (float*)call->allocate(call, 0, &count);
  if (!out) return "no room";
  for (int64_t i = 0; i < count_of(x); ++i)
    if (values[i] > 0) *out++ = values[i];
  *(float*)call->results[1].data = (float)count;
  return NULL;
}
#endif
