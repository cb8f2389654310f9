#include "run/lowered_call.h"

#include "kernels/body.h"
#include "text/text.h"

namespace atenon::run {

const ir::Argument* item(const ir::Node& node, const char* name, size_t i) {
  const ir::Argument* list = node.annotation(name);
  if (!list || !list->is<ir::ArgumentList>() || i >= list->get<ir::ArgumentList>().size()) return nullptr;
  return &list->get<ir::ArgumentList>()[i];
}

std::optional<int64_t> integer(const ir::Argument& argument, const shape::Bindings& symbols) {
  return argument.is<ir::SymInt>() ? shape::evaluate(argument.get<ir::SymInt>(), symbols) : std::nullopt;
}

std::optional<int64_t> extent(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                              ScalarType dtype) {
  int64_t last = 0;
  if (sizes.size() != strides.size()) return std::nullopt;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    int64_t reach = 0;
    if (sizes[axis] < 0 || strides[axis] < 0) return std::nullopt;
    if (sizes[axis] == 0) return 0;
    if (__builtin_mul_overflow(sizes[axis] - 1, strides[axis], &reach) || __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(last + 1, static_cast<int64_t>(size_of(dtype)), &bytes)) return std::nullopt;
  return bytes;
}

std::optional<Tensor> geometry_of(const ir::Node& node, size_t i, const shape::Bindings& symbols) {
  const std::optional<std::vector<int64_t>> sizes = kernels::concrete(node.result(i)->meta().sizes, symbols);
  if (!sizes) return std::nullopt;
  Tensor tensor{.dtype = node.result(i)->meta().dtype, .sizes = *sizes, .strides = contiguous_strides(*sizes)};
  const ir::Argument* strides = item(node, "strides", i);
  if (!strides || !strides->is<ir::ArgumentList>()) return tensor;
  tensor.strides.clear();
  for (const ir::Argument& stride : strides->get<ir::ArgumentList>()) {
    const std::optional<int64_t> number = integer(stride, symbols);
    if (!number || *number < 0) return std::nullopt;
    tensor.strides.push_back(*number);
  }
  if (tensor.strides.size() != sizes->size()) return std::nullopt;
  return tensor;
}

std::optional<int64_t> offset_of_alias(const ir::Node& node, const Tensor& whole, const Tensor& view,
                                       const shape::Bindings& symbols) {
  const ir::Argument* offset = item(node, "offset", 0);
  const std::optional<int64_t> elements = offset ? integer(*offset, symbols) : 0;
  const std::optional<int64_t> bytes = extent(view.sizes, view.strides, view.dtype),
                               room = extent(whole.sizes, whole.strides, whole.dtype);
  if (!elements || !bytes || !room || view.dtype != whole.dtype || *elements < 0) return std::nullopt;
  if (*bytes == 0) return 0;
  const auto width = static_cast<int64_t>(size_of(view.dtype));
  if (*elements > *room / width || *bytes > *room - *elements * width) return std::nullopt;
  return elements;
}

Result<void> check_call(const kernels::Kernel& kernel, const kernels::CallSite& site, const ir::Node& node) {
  const ir::Graph& body = *site.body;
  if (body.inputs().size() != site.operands.size() || body.outputs().size() != node.results().size())
    return error(Status::bad_input, 617, "a call and its body differ in operands or results: " + text::print(node));
  for (size_t i = 0; i < site.operands.size(); ++i) {
    const ir::Value& input = *body.inputs()[i];
    if (!input.is_tensor() || input.meta().dtype != site.operands[i].dtype ||
        input.meta().sizes.size() != site.operands[i].sizes.size())
      return error(Status::bad_input, 617, "a call and its body differ in the types of operands: " + text::print(node));
  }
  const std::string name = kernel.name();
  if (name == "llvm") return {};
  if (std::string refusal = kernel.refusal(body); !refusal.empty())
    return error(Status::unsupported, 619, "kernel '" + name + "' does not take its call: " + refusal)
        .note("in " + text::print(node));
  return {};
}

}  // namespace atenon::run
