// The loops of vector_ops_loops.h for any CPU, and the choice between them.
#include "reference/vector_ops_loops.h"

namespace atenon::reference {

const VectorOps vector_ops_portable = loops;

const VectorOps& vector_ops() {
#if defined(__x86_64__)
  static const VectorOps& chosen = []() -> const VectorOps& {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) return vector_ops_portable;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx512 ? vector_ops_avx512 : vector_ops_avx2;
  }();
  return chosen;
#else
  return vector_ops_portable;
#endif
}

}  // namespace atenon::reference
