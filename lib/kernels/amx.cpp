// Whether this CPU has the matrix unit, and its system lets us use it.
#include "kernels/amx.h"

#include <dnnl.h>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace atenon::kernels {

const Amx* amx() {
#if defined(__linux__) && defined(__x86_64__)
  static const bool is_there = [] {
    // Threads keep 8 KB more for it, which Linux grants on demand: arch_prctl(2).
    constexpr int request_permission = 0x1023, tile_data = 18;
    return amx_loops.multiply &&
           (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return is_there ? &amx_loops : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace atenon::kernels
