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

bool is_half(const ir::Type& type) {
  const auto* meta = std::get_if<ir::TensorMeta>(&type);
  return meta && is_floating(meta->dtype) && size_of(meta->dtype) == 2;
}

// The same operator on what `wide` gives for each operand.
Result<Node*> append_wide(const Lowering& lowering, ir::Graph& graph, const Node& node,
                          const std::function<ir::Argument(Value*)>& wide, Node* before) {
  return opset::append(lowering.opset, graph, node.target(), ir::map_values(node.arguments(), wide),
                       ir::map_values(node.keywords(), wide), lowering.facts, node.provenance, before);
}

// Whether results differ from those of `node` in that those of 16 bits have 32.
bool is_wide_form(const Node& made, const Node& node) {
  for (size_t i = 0; i < node.results().size(); ++i) {
    const ir::Type &have = made.results()[i]->type, &wanted = node.results()[i]->type;
    if (!is_half(wanted) ? have != wanted : std::get<ir::TensorMeta>(have).dtype != ScalarType::f32) return false;
  }
  return true;
}

bool has_wide_kernel(const Lowering& lowering, const Node& node) {
  ir::Graph body;
  std::map<const Value*, Value*> inputs;
  const auto wide = [&](Value* value) -> ir::Argument {
    auto [input, is_new] = inputs.emplace(value, nullptr);
    if (is_new) {
      ir::Type type = value->type;
      if (is_half(type)) std::get<ir::TensorMeta>(type).dtype = ScalarType::f32;
      input->second = body.add_input(value->name, std::move(type));
    }
    return input->second;
  };
  const Result<Node*> made = append_wide(lowering, body, node, wide, nullptr);
  if (!made || !is_wide_form(**made, node)) return false;
  std::vector<ir::Argument> read;
  for (size_t i = 0; i < node.results().size(); ++i)
    if (node.result(i)->has_users()) read.emplace_back((*made)->result(i));
  body.set_outputs(std::move(read));
  return is_taken(body);
}

Result<Value*> cast_to(const Lowering& lowering, ir::Graph& graph, Value* value, ScalarType dtype, const Node& at,
                       Node* before) {
  Result<Node*> cast = opset::append(lowering.opset, graph, "aten::_to_copy", {value}, {{"dtype", dtype}},
                                     lowering.facts, at.provenance, before);
  if (!cast) return cast.error();
  return (*cast)->result();
}

// The f32 copy of an operand that `node` reads.
Result<Value*> widened(Lowering& lowering, Value* value, Node& node) {
  const ir::Weight* weight = constant_weight(lowering, *value);
  if (!weight || weight->tensor.storage->is_absent())
    return cast_to(lowering, lowering.graph(), value, ScalarType::f32, node, &node);
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
  if (std::none_of(operands.begin(), operands.end(), [](const Value* value) { return is_half(value->type); }))
    return false;
  if (!has_wide_kernel(lowering, node)) return false;
  ir::Graph& graph = lowering.graph();
  for (Value* operand : operands) {
    if (!is_half(operand->type) || copies.contains(operand)) continue;
    Result<Value*> copy = widened(lowering, operand, node);
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
    results.push_back((*made)->results()[i].get());
    if (!is_half(node.results()[i]->type)) continue;
    Result<Value*> narrow = cast_to(lowering, graph, results.back(), node.results()[i]->meta().dtype, node, &node);
    if (!narrow) return narrow.error();
    results.back() = *narrow;
  }
  graph.replace(node, results);
  return true;
}

}  // namespace atenon::lower
