// pack and unpack: weights between rows and blocks.
//
// The place of an element is a sum of one term an axis (its block times the stride, plus its digits in the inner
// blocks), so a table for each axis replaces all division, and both directions are one loop over the last axis.

#include "kernels/kernel.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

using Table = std::vector<int64_t>;

std::vector<Table> places(const std::vector<int64_t>& sizes, const ir::BlockedLayout& layout) {
  std::vector<Table> tables;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    int64_t block = 1;
    for (auto [inner_axis, size] : layout.inner_blocks)
      if (inner_axis == static_cast<int>(axis)) block *= size;
    Table table(sizes[axis]);
    for (int64_t i = 0; i < sizes[axis]; ++i) {
      int64_t place = i / block * layout.strides[axis], rest = i % block, inner_stride = 1;
      // Innermost block first: its digit of the index varies fastest.
      for (auto inner = layout.inner_blocks.rbegin(); inner != layout.inner_blocks.rend(); ++inner) {
        if (inner->first == static_cast<int>(axis)) {
          place += rest % inner->second * inner_stride;
          rest /= inner->second;
        }
        inner_stride *= inner->second;
      }
      table[i] = place;
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

std::vector<Table> places(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<Table> tables;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    Table table(sizes[axis]);
    for (int64_t i = 0; i < sizes[axis]; ++i) table[i] = i * strides[axis];
    tables.push_back(std::move(table));
  }
  return tables;
}

template <class Element>
void copy_elements(const std::vector<int64_t>& sizes, const std::vector<Table>& from, const Element* source,
                   const std::vector<Table>& to, Element* target) {
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < sizes.size(); ++axis) rows *= sizes[axis];
  const int64_t columns = sizes.back(), grain = 1 + 65536 / (columns + 1);
  parallel_for(divide_up(rows, grain), [&](int64_t tile) {
    for (int64_t row = tile * grain; row < std::min(rows, (tile + 1) * grain); ++row) {
      int64_t rest = row, read = 0, write = 0;
      for (size_t axis = sizes.size() - 1; axis-- > 0; rest /= sizes[axis]) {
        read += from[axis][rest % sizes[axis]];
        write += to[axis][rest % sizes[axis]];
      }
      const int64_t *from_column = from.back().data(), *to_column = to.back().data();
      for (int64_t column = 0; column < columns; ++column)
        target[write + to_column[column]] = source[read + from_column[column]];
    }
  });
}

void copy_elements(ScalarType dtype, std::vector<int64_t> sizes, std::vector<Table> from, const void* source,
                   std::vector<Table> to, void* target) {
  for (int64_t size : sizes)
    if (size == 0) return;
  if (sizes.empty()) {
    sizes = {1};
    from = to = {{0}};
  }
  auto copy = [&]<class Element>(Element) {
    copy_elements(sizes, from, static_cast<const Element*>(source), to, static_cast<Element*>(target));
  };
  switch (size_of(dtype)) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    case 8:
      return copy(uint64_t{});
    default:
      return copy(std::pair<uint64_t, uint64_t>{});
  }
}

}  // namespace

Tensor pack(const Tensor& tensor, const ir::BlockedLayout& layout) {
  Tensor packed = Tensor::zeros(ScalarType::u8, {layout.padded_bytes});
  copy_elements(tensor.dtype, tensor.sizes, places(tensor.sizes, tensor.strides), tensor.data(),
                places(tensor.sizes, layout), packed.mutable_data());
  return packed;
}

Tensor unpack(const ir::Weight& weight) {
  if (!weight.layout) return weight.tensor.contiguous();
  const Tensor& tensor = weight.tensor;
  Tensor rows = Tensor::empty(tensor.dtype, tensor.sizes);
  copy_elements(tensor.dtype, tensor.sizes, places(tensor.sizes, *weight.layout), tensor.data(),
                places(rows.sizes, rows.strides), rows.mutable_data());
  return rows.dtype == weight.dtype() ? rows : cast(rows, weight.dtype());
}

}  // namespace atenon::kernels
