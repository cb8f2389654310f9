#include "specialize/concatenation.h"

#include <algorithm>
#include <cmath>

#include "specialize/channel_affine.h"

namespace atenon::specialize {

using opset::Meaning;
using opset::Scalar;
using opset::ScalarOp;

std::optional<Concatenation> concatenation(const Scope& scope, const ir::Node& node) {
  if (node.results().size() != 1) return std::nullopt;
  const std::optional<Meaning> meaning = loops(scope, node);
  if (!meaning || meaning->results.size() != 1 || meaning->scatter || meaning->results[0].value == opset::no_scalar)
    return std::nullopt;
  const opset::LoopNest& nest = meaning->results[0];
  const auto is_index = [&](opset::ScalarId id, size_t axis) {
    const Scalar& scalar = at(*meaning, id);
    if (scalar.op == ScalarOp::constant) return scalar.integer == 0 && nest.type.sizes[axis] == ir::SymInt(1);
    return scalar.op == ScalarOp::index && scalar.variable == nest.variables[axis];
  };
  const auto constant_of = [&](opset::ScalarId id) -> std::optional<int64_t> {
    const std::optional<ir::SymInt> size = at(*meaning, id).as_size();
    return size ? size->constant() : std::nullopt;
  };
  Concatenation found;
  int64_t start = 0;
  for (opset::ScalarId next = nest.value, read_id;; next = at(*meaning, next).operands[2]) {
    const Scalar& scalar = at(*meaning, next);
    read_id = next;
    if (scalar.op == ScalarOp::select) {
      const Scalar& condition = at(*meaning, scalar.operands[0]);
      if (condition.op != ScalarOp::lt) return std::nullopt;
      read_id = scalar.operands[1];
      for (size_t axis = 0; axis < nest.variables.size() && found.axis < 0; ++axis)
        if (is_index(condition.operands[0], axis)) found.axis = static_cast<int>(axis);
      if (found.axis < 0 || !is_index(condition.operands[0], static_cast<size_t>(found.axis))) return std::nullopt;
    }
    const Scalar& read = at(*meaning, read_id);
    if (read.op != ScalarOp::read || found.axis < 0 || read.operands.size() != nest.variables.size())
      return std::nullopt;
    ir::Value* part = tensor_of(*meaning, read);
    const std::optional<int64_t> size = part->meta().sizes[static_cast<size_t>(found.axis)].constant();
    if (!size || part->meta().dtype != nest.type.dtype) return std::nullopt;
    for (size_t axis = 0; axis < read.operands.size(); ++axis) {
      const Scalar& index = at(*meaning, read.operands[axis]);
      const bool is_moved = static_cast<int>(axis) == found.axis && start > 0;
      if (is_moved ? index.op != ScalarOp::sub || !is_index(index.operands[0], axis) ||
                         constant_of(index.operands[1]) != start
                   : !is_index(read.operands[axis], axis))
        return std::nullopt;
    }
    found.parts.push_back(part);
    start += *size;
    if (scalar.op != ScalarOp::select) return found;
    if (constant_of(at(*meaning, scalar.operands[0]).operands[1]) != start) return std::nullopt;
  }
}

Result<ir::Value*> append_concatenation(Scope& scope, ir::Node& node, ir::ArgumentList parts, int64_t axis) {
  while (parts.size() > 1) {
    const auto root = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(parts.size()))));
    const size_t count = parts.size() <= many_parts ? parts.size() : std::min(root, many_parts);
    ir::ArgumentList joined;
    for (auto begin = parts.begin(); begin != parts.end();) {
      const auto end = begin + std::min(static_cast<std::ptrdiff_t>(count), parts.end() - begin);
      Result<ir::Value*> some = append_before(scope, node, "aten::cat", {ir::ArgumentList(begin, end), axis});
      if (!some) return some.error();
      joined.emplace_back(*some);
      begin = end;
    }
    parts = std::move(joined);
  }
  return parts[0].value();
}

bool has_thin_part(const Concatenation& joined) {
  constexpr int64_t least_channels = 16;
  return std::any_of(joined.parts.begin(), joined.parts.end(), [&](const ir::Value* part) {
    return part->meta().sizes[static_cast<size_t>(joined.axis)].constant() < least_channels;
  });
}

std::optional<int64_t> elements(const Scope& scope, const ir::Value& value) {
  shape::Bindings hints;
  for (const ir::Symbol& symbol : scope.entry.symbols)
    if (symbol.hint) hints[symbol.name] = *symbol.hint;
  return shape::evaluate(value.meta().numel(), hints);
}

}  // namespace atenon::specialize
