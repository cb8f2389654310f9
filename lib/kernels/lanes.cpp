// Which of the loops this CPU runs.
#include "kernels/lanes.h"

namespace atenon::kernels {

const Lanes& lanes() {
#if defined(__x86_64__)
  static const Lanes& chosen = [&]() -> const Lanes& {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      return lanes_avx512;
    return avx2 ? lanes_avx2 : lanes_portable;
  }();
  return chosen;
#else
  return lanes_portable;
#endif
}

}  // namespace atenon::kernels
