// Operands as lines along an axis: kernels that work line by line count them over the other axes.
#pragma once

#include "kernels/kernel.h"

namespace atenon::kernels {

// All axes but this one; none where there are no axes.
inline std::vector<size_t> axes_but(size_t rank, size_t axis) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < rank; ++i)
    if (i != axis) axes.push_back(i);
  return axes;
}

// Where a line begins, in elements, of those that are counted over `axes`, along the last of these first.
inline int64_t begin_of_line(const Operand& operand, std::span<const size_t> axes, int64_t line) {
  int64_t begin = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    begin += line % operand.sizes[axes[i]] * operand.strides[axes[i]];
    line /= operand.sizes[axes[i]];
  }
  return begin;
}

}  // namespace atenon::kernels
