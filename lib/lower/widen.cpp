// Operators on 16-bit floats by the kernels for f32.
//
// Such an operator is computed in f32 and its results are rounded once, in whatever way it is run; so it may as well be
// the operator on f32 between two casts, where a kernel takes that. Of weights, f32 copies are stored.
#include <algorithm>

#include "lower/lowering.h"

namespace atenon::lower {

namespace {

using ir::Node;
using ir::Value;

bool is_half(const ir::Value& value) { return value.is_tensor() && atenon::is_half(value.meta().dtype); }

// The same operator on what `wide` gives for each operand.
Result<Node*> append_wide(const Lowering& lowering, ir::Graph& graph, const Node& node,
                          const std::function<ir::Argument(Value*)>& wide, Node* before) {
  return opset::append(lowering.opset, graph, node.target(), ir::map_values(node.arguments(), wide),
                       ir::map_values(node.keywords(), wide), lowering.facts, node.provenance, before);
}

// A type in which 16 bits are 32.
ir::Type wide_type(const Value& value) {
  ir::Type type = value.type;
  if (auto* meta = std::get_if<ir::TensorMeta>(&type)) meta->dtype = widened(meta->dtype);
  return type;
}

bool has_wide_kernel(const Lowering& lowering, const Node& node) {
  ir::Graph body;
  std::map<const Value*, Value*> inputs;
  const auto wide = [&](Value* value) -> ir::Argument {
    auto [input, is_new] = inputs.emplace(value, nullptr);
    if (is_new) input->second = body.add_input(value->name, wide_type(*value));
    return input->second;
  };
  const Result<Node*> made = append_wide(lowering, body, node, wide, nullptr);
  if (!made) return false;
  std::vector<ir::Argument> read;
  for (size_t i = 0; i < node.results().size(); ++i) {
    if ((*made)->result(i)->type != wide_type(*node.result(i))) return false;
    if (node.result(i)->has_users()) read.emplace_back((*made)->result(i));
  }
  body.set_outputs(std::move(read));
  return is_taken(body);
}

// A cast in front of `node`.
Result<Value*> cast_to(Lowering& lowering, Value* value, ScalarType dtype, Node& node) {
  Result<Node*> cast = opset::append(lowering.opset, lowering.graph(), "aten::_to_copy", {value}, {{"dtype", dtype}},
                                     lowering.facts, node.provenance, &node);
  if (!cast) return cast.error();
  return (*cast)->result();
}

// The f32 copy of an operand that `node` reads.
Result<Value*> wide_copy(Lowering& lowering, Value* value, Node& node) {
  const ir::Weight* weight = constant_weight(lowering, *value);
  if (!weight || weight->tensor.storage->is_absent()) return cast_to(lowering, value, ScalarType::f32, node);
  const std::string name = weight->name + "::f32";
  if (!lowering.program.weight(name)) {
    ir::Weight made{name, cast(weight->tensor, ScalarType::f32)};
    lowering.program.weights.push_back(std::move(made));
  }
  return input_made_from(lowering, *value, *lowering.program.weight(name), "_wide");
}

}  // namespace

Result<bool> widen(Lowering& lowering, Node& node, std::map<Value*, Value*>& copies) {
  const std::vector<Value*> operands = node.operands();
  if (std::none_of(operands.begin(), operands.end(), [](const Value* value) { return is_half(*value); })) return false;
  if (!has_wide_kernel(lowering, node)) return false;
  ir::Graph& graph = lowering.graph();
  for (Value* operand : operands) {
    if (!is_half(*operand) || copies.contains(operand)) continue;
    Result<Value*> copy = wide_copy(lowering, operand, node);
    if (!copy) return copy.error();
    copies[operand] = *copy;
  }
  const auto wide = [&](Value* value) -> ir::Argument {
    const auto copy = copies.find(value);
    return copy == copies.end() ? value : copy->second;
  };
  Result<Node*> made = append_wide(lowering, graph, node, wide, &node);
  if (!made) return made.error();
  std::vector<Value*> results;
  for (size_t i = 0; i < node.results().size(); ++i) {
    results.push_back((*made)->result(i));
    if (!is_half(*node.result(i))) continue;
    Result<Value*> narrow = cast_to(lowering, results.back(), node.result(i)->meta().dtype, node);
    if (!narrow) return narrow.error();
    results.back() = *narrow;
  }
  graph.replace(node, results);
  return true;
}

}  // namespace atenon::lower
