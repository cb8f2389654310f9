// Which of the loops this CPU runs.
#include "kernels/lanes.h"

#include <dnnl.h>

namespace atenon::kernels {

const Lanes& lanes() {
#if defined(__x86_64__)
  static const Lanes& chosen = [&]() -> const Lanes& {
    const auto has = [isa = dnnl_get_effective_cpu_isa()](dnnl_cpu_isa_t wanted) { return (isa & wanted) == wanted; };
    return has(dnnl_cpu_isa_avx512_core) ? lanes_avx512 : has(dnnl_cpu_isa_avx2) ? lanes_avx2 : lanes_portable;
  }();
  return chosen;
#else
  return lanes_portable;
#endif
}

}  // namespace atenon::kernels
