// The types of values: tensors with symbolic sizes, and symbolic scalars.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shape/symint.h"
#include "tensor/scalar_type.h"

namespace atenon::ir {

using shape::SymBool;
using shape::SymFloat;
using shape::SymInt;

// What is known of a tensor without its data. Strides and offset count elements; strides are absent where the tensor is
// contiguous (row-major, offset 0), which is nearly always: the graph is functional, and physical layout is lower's
// affair.
struct TensorMeta {
  ScalarType dtype = ScalarType::f32;
  std::vector<SymInt> sizes;
  std::optional<std::vector<SymInt>> strides = std::nullopt;
  SymInt offset = 0;

  int rank() const { return static_cast<int>(sizes.size()); }
  SymInt numel() const { return shape::product(sizes); }
  bool operator==(const TensorMeta&) const = default;
};

// A number that a node yields (item(), a size that depends on data) or that the user passes.
enum class ScalarKind : unsigned char { integer, floating, boolean };

using Type = std::variant<TensorMeta, ScalarKind>;

std::string to_string(const TensorMeta& meta);  // f32[b, 64]; f32[b, 64]{strides=[1, b], offset=3} where not contiguous
std::string to_string(const Type& type);        // also int, float, bool

}  // namespace atenon::ir
