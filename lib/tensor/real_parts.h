// Complex numbers as what lies in memory: pairs of real ones, along a last axis of size 2.
#pragma once

#include "tensor/tensor.h"

namespace atenon {

// The type of the two parts of a complex number, and of the complex number that has such parts.
constexpr ScalarType part_of(ScalarType complex) {
  return complex == ScalarType::c128 ? ScalarType::f64 : ScalarType::f32;
}
constexpr ScalarType pair_of(ScalarType part) { return part == ScalarType::f64 ? ScalarType::c128 : ScalarType::c64; }

// The parts, in the same memory; a real tensor as it is.
inline Tensor as_parts(Tensor tensor) {
  if (!is_complex(tensor.dtype)) return tensor;
  tensor.dtype = part_of(tensor.dtype);
  for (int64_t& stride : tensor.strides) stride *= 2;
  tensor.offset *= 2;
  tensor.sizes.push_back(2);
  tensor.strides.push_back(1);
  return tensor;
}

}  // namespace atenon
