#include "run/lowered_call.h"

#include "kernels/body.h"
#include "run/engine.h"
#include "tensor/real_parts.h"
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

Tensor outline(ScalarType dtype, std::vector<int64_t> sizes) {
  Tensor tensor{.dtype = dtype, .sizes = std::move(sizes)};
  tensor.strides = contiguous_strides(tensor.sizes);
  tensor.storage = Storage::absent(tensor.nbytes(), "");
  return tensor;
}

// Complex numbers may be seen as their parts, and parts as such numbers.
static bool is_seen_as(ScalarType whole, ScalarType view) {
  return whole == view || (is_complex(whole) && part_of(whole) == view) || (is_complex(view) && part_of(view) == whole);
}

std::optional<int64_t> offset_of_alias(const ir::Node& node, const Tensor& whole, const Tensor& view,
                                       const shape::Bindings& symbols) {
  const ir::Argument* offset = item(node, "offset", 0);
  const std::optional<int64_t> elements = offset ? integer(*offset, symbols) : 0;
  const std::optional<int64_t> bytes = extent(view.sizes, view.strides, view.dtype),
                               room = extent(whole.sizes, whole.strides, whole.dtype);
  if (!elements || !bytes || !room || !is_seen_as(whole.dtype, view.dtype) || *elements < 0) return std::nullopt;
  if (*bytes == 0) return 0;
  const auto width = static_cast<int64_t>(size_of(view.dtype));
  const auto width_of_whole = static_cast<int64_t>(size_of(whole.dtype));
  if (whole.offset * width_of_whole % width != 0) return std::nullopt;  // between two elements
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

// Where the element at a position of an operand lies, and how many there are there: none in an empty one. Nullopt where
// there is no such element.
static std::optional<Tensor> element_at(const kernels::Operand& lies, const ir::ArgumentList& position,
                                        const shape::Bindings& symbols) {
  if (position.size() != lies.sizes.size()) return std::nullopt;
  Tensor element{.dtype = lies.dtype};
  for (size_t axis = 0; axis < position.size(); ++axis) {
    const std::optional<int64_t> at = integer(position[axis], symbols);
    if (lies.sizes[axis] == 0) return Tensor{.dtype = lies.dtype, .sizes = {0}, .strides = {1}};
    if (!at || *at < 0 || *at >= lies.sizes[axis]) return std::nullopt;
    element.offset += *at * lies.strides[axis];
  }
  return element;
}

Result<std::vector<Indices>> indices_of(const ir::ExportedProgram& program, const ir::Node& call,
                                        const kernels::CallSite& site) {
  std::vector<Indices> all;
  for (size_t i = 0; const ir::Argument* said = item(call, "indices", i); ++i) {
    const auto* entry = std::get_if<ir::ArgumentList>(said);
    const auto number = [&](size_t at) {
      return entry && at < entry->size() ? integer((*entry)[at], site.symbols) : std::nullopt;
    };
    const std::optional<int64_t> operand = number(0), lowest = number(1), end = number(2);
    if (!operand || !lowest || !end || *operand < 0 || *operand >= static_cast<int64_t>(site.operands.size()))
      return error(Status::bad_input, 617, "a call does not say what its indices are: " + text::print(call));
    const kernels::Operand& lies = site.operands[static_cast<size_t>(*operand)];
    const bool is_packed = lies.weight && lies.weight->layout;
    if ((lies.dtype != ScalarType::i64 && lies.dtype != ScalarType::i32) || is_packed)
      return error(Status::bad_input, 617, "indices of a call are no integers in rows: " + text::print(call));
    Indices indices{static_cast<size_t>(*operand), *lowest, *end, {lies.dtype, lies.sizes, lies.strides}};
    indices.program = &program;
    for (size_t axis = 0; axis < lies.sizes.size(); ++axis)  // what is repeated is looked at once
      if (lies.strides[axis] == 0 && lies.sizes[axis] > 0) indices.geometry.sizes[axis] = 1;
    if (const auto* position = entry->size() > 4 ? std::get_if<ir::ArgumentList>(&(*entry)[4]) : nullptr) {
      const std::optional<Tensor> element = element_at(lies, *position, site.symbols);
      if (!element)
        return error(Status::bad_input, 617, "an index of a call is at no place of its operand: " + text::print(call));
      indices.geometry = *element;
    }
    if (const auto* name = entry->size() > 3 ? std::get_if<std::string>(&(*entry)[3]) : nullptr)
      if (const ir::Value* read = site.body->find(*name)) indices.reader = read->producer;
    all.push_back(std::move(indices));
  }
  return all;
}

namespace {

// The first of `count` elements that lie `stride` apart and that are not in range; null if there is none.
template <class T>
const T* find_beyond(const T* x, int64_t count, int64_t stride, const Indices& range) {
  constexpr int64_t block = 1024;
  const auto is_beyond = [&](T index) { return index < range.lowest || index >= range.end; };
  // Of what is beyond, the distance from one of the ends is negative; the signs of a block are looked at together.
  const auto lowest = static_cast<uint64_t>(range.lowest), highest = static_cast<uint64_t>(range.end) - 1;
  const auto distances = [&](T index) {
    const auto at = static_cast<uint64_t>(static_cast<int64_t>(index));
    return (at - lowest) | (highest - at);
  };
  for (int64_t first = 0; first < count; first += block) {
    const int64_t last = std::min(count, first + block);
    uint64_t joined = 0;
    if (stride == 1 && last - first == block) {  // as many as the compiler knows become vectors
      for (int64_t i = 0; i < block; ++i) joined |= distances(x[first + i]);
    } else {
      for (int64_t i = first; i < last; ++i) joined |= distances(x[i * stride]);
    }
    for (int64_t i = first; joined >> 63 != 0 && i < last; ++i)
      if (is_beyond(x[i * stride])) return x + i * stride;
  }
  return nullptr;
}

template <class T>
std::optional<int64_t> find_beyond(const T* x, const Indices& range) {
  const Tensor& lies = range.geometry;
  const int64_t count = lies.numel();
  if (count == 0) return std::nullopt;
  const bool is_dense = lies.is_contiguous() || lies.sizes.empty();
  const int64_t columns = is_dense ? count : lies.sizes.back(), stride = is_dense ? 1 : lies.strides.back();
  for (int64_t first = 0; first < count; first += columns)
    if (const T* beyond = find_beyond(x + lies.offset + lies.index_of(first), columns, stride, range)) return *beyond;
  return std::nullopt;
}

}  // namespace

Result<void> check_indices(const std::vector<Indices>& all, std::span<void* const> buffers) {
  for (const Indices& indices : all) {
    const void* data = buffers[indices.operand];
    const std::optional<int64_t> beyond = indices.geometry.dtype == ScalarType::i64
                                              ? find_beyond(static_cast<const int64_t*>(data), indices)
                                              : find_beyond(static_cast<const int32_t*>(data), indices);
    if (!beyond) continue;
    Diagnostic failure = error(
        Status::violated, 611,
        "index " + std::to_string(*beyond) + " is out of range for an axis of size " + std::to_string(indices.end));
    if (!indices.reader) return failure;
    failure.notes.push_back({"in " + text::print(*indices.reader)});
    if (std::string line = python_line(*indices.program, *indices.reader); !line.empty())
      failure.notes.push_back({"captured from " + line});
    return failure;
  }
  return {};
}

}  // namespace atenon::run
