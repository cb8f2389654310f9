// Removes nodes that give back an operand unchanged: clone, detach, a cast to the same dtype, a view to the same shape,
// and views that take back the one before them, as two permutations may.
#include "specialize/channel_affine.h"
#include "specialize/index_expressions.h"

namespace atenon::specialize {
namespace {

// Where a view reads its only operand, over result_index; nullopt where `node` is none, or that cannot be written so.
std::optional<std::vector<ir::SymInt>> indices_of_view(const Scope& scope, const ir::Node& node) {
  if (node.operands().size() != 1 || !has_one_result(node)) return std::nullopt;
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  if (!meaning || !meaning->is_view) return std::nullopt;
  const opset::LoopNest& nest = meaning->results[0];
  const opset::Scalar& read = at(*meaning, nest.value);
  if (read.op != opset::ScalarOp::read) return std::nullopt;
  const std::map<int, ir::SymInt> variables = result_indices(nest.variables);
  std::vector<ir::SymInt> indices;
  for (const opset::ScalarId operand : read.operands) {
    const std::optional<ir::SymInt> index = IndexExpressions(*meaning, variables).integer(operand);
    if (!index) return std::nullopt;
    indices.push_back(*index);
  }
  return indices;
}

// The value of which `node` and the view before it show every element in its place; null where there is none.
ir::Value* shown_again(const Scope& scope, const ir::Node& node) {
  const std::vector<ir::Value*> operands = node.operands();
  const ir::Node* before = operands.size() == 1 ? operands[0]->producer : nullptr;
  if (!before || before->operands().size() != 1 || node.results().size() != 1 || !node.result()->is_tensor())
    return nullptr;
  ir::Value* const source = before->operands()[0];
  if (!source->is_tensor() || source->meta() != node.result()->meta()) return nullptr;
  const auto outer = indices_of_view(scope, node), inner = outer ? indices_of_view(scope, *before) : std::nullopt;
  if (!inner) return nullptr;
  shape::Substitution places;
  for (size_t i = 0; i < outer->size(); ++i) places[*result_index(i).as_symbol()] = (*outer)[i];
  for (size_t i = 0; i < inner->size(); ++i) {
    const bool is_one = source->meta().sizes[i] == ir::SymInt(1);
    if (!is_one && shape::substitute((*inner)[i], places) != result_index(i)) return nullptr;
  }
  return source;
}

}  // namespace

Result<Changed> remove_identities(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    // A decomposition that returns an argument as it is (dropout in evaluation) is found when it is decomposed.
    Result<ir::Value*> operand = opset::unchanged_operand(scope.opset, node, scope.facts);
    if (!operand) return operand.error();
    ir::Value* const source = *operand ? *operand : shown_again(scope, node);
    if (!source) continue;
    scope.report("removed " + node.target() + " %" + node.result()->name);
    scope.variant.graph.replace_uses(node.result(), source);
    scope.variant.graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
