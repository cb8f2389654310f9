// Which names programs may use, and whether weights stay inside their storages.
#include "text/limits.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "ir/graph.h"

namespace atenon::text {

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= max_name && std::all_of(text.begin(), text.end(), ir::is_name_character);
}

bool is_word(std::string_view text) {
  return is_name(text) && text[0] != '.' && !std::isdigit(static_cast<unsigned char>(text[0]));
}

bool is_symbol_name(std::string_view text) {
  static constexpr std::array<std::string_view, 26> words = {
      "None",  "true",    "false", "True", "False", "inf",  "nan",   "and",   "or",   "not", "if",  "else", "int",
      "float", "complex", "min",   "max",  "floor", "ceil", "trunc", "round", "sqrt", "exp", "log", "log2", "abs"};
  if (!is_word(text) || text.find('.') != text.npos) return false;
  return std::find(words.begin(), words.end(), text) == words.end() && !scalar_type_named(std::string(text));
}

bool is_target(std::string_view text) {
  const size_t colons = text.find("::");
  return colons != text.npos && is_word(text.substr(0, colons)) && is_name(text.substr(colons + 2));
}

bool is_digest(std::string_view text) {
  return text.size() == 32 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

namespace {

// a * b + c, or nullopt where it leaves the cap; all are at least 0.
std::optional<int64_t> multiply_add(int64_t a, int64_t b, int64_t c) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out) || __builtin_add_overflow(out, c, &out) || out > max_bytes)
    return std::nullopt;
  return out;
}

// Elements from the first one to behind the last one of a blocked layout. No index needs more of a block's places than
// its axis has: other blocks may lie there.
std::optional<int64_t> extent_of(const ir::BlockedLayout& layout, const std::vector<int64_t>& sizes) {
  if (layout.strides.size() != sizes.size()) return std::nullopt;
  std::vector<int64_t> blocks(sizes.size(), 1);  // of the axis, as far as they have been seen
  std::optional<int64_t> extent = 1, stride = 1;
  for (auto inner = layout.inner_blocks.rbegin(); inner != layout.inner_blocks.rend(); ++inner) {
    const auto [axis, size] = *inner;
    if (axis < 0 || static_cast<size_t>(axis) >= sizes.size() || size < 1) return std::nullopt;
    int64_t& block = blocks[static_cast<size_t>(axis)];
    const int64_t last = std::max<int64_t>(sizes[static_cast<size_t>(axis)], 1) - 1;
    extent = multiply_add(std::min(size - 1, last / block), *stride, *extent);
    const std::optional<int64_t> whole = multiply_add(block, size, 0);
    stride = multiply_add(*stride, size, 0);
    if (!extent || !whole || !stride) return std::nullopt;
    block = *whole;
  }
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (layout.strides[axis] < 0) return std::nullopt;
    const int64_t last = (std::max<int64_t>(sizes[axis], 1) - 1) / blocks[axis];
    extent = multiply_add(last, layout.strides[axis], *extent);
    if (!extent) return std::nullopt;
  }
  return extent;
}

}  // namespace

std::optional<std::string> weight_problem(const ir::Weight& weight) {
  const Tensor& tensor = weight.tensor;
  const int64_t element = static_cast<int64_t>(size_of(tensor.dtype));
  if (tensor.sizes.size() > max_rank || tensor.strides.size() != tensor.sizes.size())
    return "its sizes and strides do not fit";
  std::optional<int64_t> count = 1, extent = multiply_add(tensor.offset, 1, 1);
  if (tensor.offset < 0 || !extent) return "its offset is not inside its storage";
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    if (tensor.sizes[axis] < 0 || tensor.strides[axis] < 0) return "its sizes and strides must not be negative";
    count = multiply_add(*count, tensor.sizes[axis], 0);
    extent = multiply_add(std::max<int64_t>(tensor.sizes[axis], 1) - 1, tensor.strides[axis], *extent);
    if (!count || !extent) return "it is too large";
  }
  if (weight.layout) {
    extent = extent_of(*weight.layout, tensor.sizes);
    if (!extent || tensor.offset != 0 || tensor.strides != contiguous_strides(tensor.sizes) ||
        static_cast<size_t>(weight.layout->padded_bytes) != tensor.storage->size()) {
      return "its layout does not fit its sizes and its storage";
    }
  }
  if (!multiply_add(*count, element, 0)) return "it is too large";
  const std::optional<int64_t> bytes = multiply_add(*extent, element, 0);
  if (*count > 0 && (!bytes || static_cast<size_t>(*bytes) > tensor.storage->size())) {
    return "it needs " + (bytes ? std::to_string(*bytes) : "more") + " bytes, and its storage has " +
           std::to_string(tensor.storage->size());
  }
  return std::nullopt;
}

}  // namespace atenon::text
