// The ordered list: the first kernel that does not refuse a call runs it.
#include <cstring>

#include "kernels/list.h"

namespace atenon::kernels {

std::span<const Kernel* const> all() {
  static const Kernel* const kernels[] = {
      &strips(),    &winograd(), &few_channels(),       &depthwise(),
      &few_rows(),  &panels(),   &onednn_convolution(), &onednn_matmul(),
      &attention(), &lstm(),     &recurrent(),          &onednn_pooling(),
      &sorting(),   &fourier(),  &generated(),          &reference_kernel(),
  };
  return kernels;
}

const Kernel* find(const std::string& name) {
  for (const Kernel* kernel : all())
    if (name == kernel->name()) return kernel;
  return nullptr;
}

}  // namespace atenon::kernels
