// The ordered list: the first kernel that has no objection to a call runs it.
#include <algorithm>
#include <cstring>

#include "kernels/list.h"

namespace atenon::kernels {

namespace {

class EmptyCall : public PreparedCall {
 public:
  Result<void> run(std::span<void* const>, void*) override { return {}; }
};

}  // namespace

Result<std::unique_ptr<PreparedCall>> prepare(const Kernel& kernel, const CallSite& site) {
  const auto is_empty = [](const Operand& result) {
    return std::find(result.sizes.begin(), result.sizes.end(), 0) != result.sizes.end();
  };
  if (!site.results.empty() && std::all_of(site.results.begin(), site.results.end(), is_empty))
    return std::unique_ptr<PreparedCall>(std::make_unique<EmptyCall>());
  return kernel.prepare(site);
}

std::string objection(const Kernel& kernel, const ir::Graph& body) {
  std::string reason = kernel.refusal(body);
  return reason.empty() ? kernel.drawback(body) : reason;
}

std::span<const Kernel* const> all() {
  static const Kernel* const kernels[] = {
      &strips(),
      &winograd(),
      &few_channels(),
      &few_outputs(),
      &line_filters(),
      &depthwise(),
      &groups(),
      &disjoint(),
      &transposed(),
      &overlapping(),
      &few_rows(),
      &panels(),
      &onednn_convolution(),
      &small_matrices(),
      &onednn_matmul(),
      &chosen_matrices(),
      &double_products(),
      &double_convolutions(),
      &attention(),
      &lstm(),
      &recurrent(),
      &onednn_pooling(),
      &bilinear(),
      &sorting(),
      &searching(),
      &fourier(),
      &generated(),
      &reference_kernel(),
  };
  return kernels;
}

const Kernel* find(const std::string& name) {
  for (const Kernel* kernel : all())
    if (name == kernel->name()) return kernel;
  return nullptr;
}

}  // namespace atenon::kernels
