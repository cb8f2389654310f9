// The last kernel: evaluates the body by the meanings of its operators. Slow, and right for everything.
#include <cstring>

#include "kernels/list.h"
#include "reference/compiled_graph.h"
#include "reference/reference.h"

namespace atenon::kernels {

namespace {

class ReferenceCall : public PreparedCall {
 public:
  explicit ReferenceCall(const CallSite& site) : site_(site) {}

  Result<void> run(std::span<void* const> buffers, void*) override {
    std::vector<reference::Datum> inputs;
    for (size_t i = 0; i < site_.operands.size(); ++i) {
      const Operand& operand = site_.operands[i];
      if (operand.weight) {
        inputs.push_back(unpack(*operand.weight));
        continue;
      }
      int64_t reach = 1;
      for (size_t axis = 0; axis < operand.sizes.size(); ++axis)
        reach += (operand.sizes[axis] - 1) * operand.strides[axis];
      inputs.push_back(
          Tensor{operand.dtype, operand.sizes, operand.strides, 0,
                 Storage::view(buffers[i], static_cast<size_t>(reach) * size_of(operand.dtype), nullptr, false)});
    }
    auto results = reference::run(*site_.opset, *site_.body, *site_.subgraphs, std::move(inputs), site_.symbols,
                                  site_.generator, site_.declared);
    if (!results) return results.error();
    for (size_t i = 0; i < site_.results.size(); ++i) {
      const Operand& result = site_.results[i];
      const Tensor* value = std::get_if<Tensor>(&(*results)[i]);
      if (!value) continue;
      copy(*value, result, static_cast<char*>(buffers[site_.operands.size() + i]));
    }
    return {};
  }

 private:
  static void copy(const Tensor& from, const Operand& to, char* target) {
    const Tensor rows = from.contiguous();
    const size_t width = size_of(to.dtype);
    const char* source = static_cast<const char*>(rows.data());
    if (to.strides == contiguous_strides(to.sizes)) {
      std::memcpy(target, source, rows.nbytes());
      return;
    }
    std::vector<int64_t> index(to.sizes.size(), 0);
    for (int64_t i = 0; i < rows.numel(); ++i) {
      int64_t place = 0;
      for (size_t axis = 0; axis < index.size(); ++axis) place += index[axis] * to.strides[axis];
      std::memcpy(target + static_cast<size_t>(place) * width, source + static_cast<size_t>(i) * width, width);
      for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == to.sizes[axis];) index[axis] = 0;
    }
  }

  CallSite site_;
};

class LoopsCall : public PreparedCall {
 public:
  explicit LoopsCall(std::unique_ptr<reference::CompiledGraph> loops) : loops_(std::move(loops)) { detail = "loops"; }
  size_t scratch_bytes() const override { return loops_->scratch_bytes(); }
  Result<void> run(std::span<void* const> buffers, void* scratch) override { return loops_->run(buffers, scratch); }

 private:
  std::unique_ptr<reference::CompiledGraph> loops_;
};

class Reference : public Kernel {
 public:
  const char* name() const override { return "reference"; }
  std::string refusal(const ir::Graph&) const override { return ""; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    if (!site.opset || !site.subgraphs)
      return error(Status::unsupported, 615,
                   "this call runs by the meanings of its operators, and no operator set was found");
    if (auto loops = prepare_loops(site)) return loops;
    return std::unique_ptr<PreparedCall>(std::make_unique<ReferenceCall>(site));
  }
};

}  // namespace

Result<std::unique_ptr<PreparedCall>> prepare_loops(const CallSite& site) {
  std::vector<Tensor> operands;
  for (const Operand& operand : site.operands) {
    if (operand.weight && operand.weight->layout) return error(Status::unsupported, 0, "a weight is packed");
    operands.push_back({operand.dtype, operand.sizes, operand.strides, 0, nullptr});
  }
  std::vector<reference::Lying> results;
  for (const Operand& result : site.results) results.push_back({result.sizes, result.strides});
  auto loops = reference::CompiledGraph::compile(*site.opset, *site.body, operands, results, site.symbols);
  if (!loops) return loops.error();
  return std::unique_ptr<PreparedCall>(std::make_unique<LoopsCall>(std::move(*loops)));
}

const Kernel& reference_kernel() {
  static const Reference kernel;
  return kernel;
}

}  // namespace atenon::kernels
