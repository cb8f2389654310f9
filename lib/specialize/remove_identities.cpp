// Removes nodes that give back an operand unchanged.
//
// Which they are follows from their meaning: the result has the operand's type, and its element at every index is the
// operand's element at that index. So clone, detach, a cast to the same dtype and a view to the same shape need no
// list.
#include "ir/call_body.h"
#include "ir/control_flow.h"
#include "specialize/passes.h"

namespace atenon::specialize {
namespace {

bool reads_itself(const opset::Meaning& meaning, const ir::Value* operand) {
  if (meaning.results.size() != 1 || meaning.scatter || !meaning.extern_kernel.empty()) return false;
  const opset::LoopNest& nest = meaning.results[0];
  if (nest.value == opset::no_scalar) return false;
  const opset::Scalar& value = meaning.scalars[static_cast<size_t>(nest.value)];
  if (value.op != opset::ScalarOp::read || meaning.tensors[static_cast<size_t>(value.tensor)] != operand) return false;
  for (size_t axis = 0; axis < value.operands.size(); ++axis) {
    const opset::Scalar& index = meaning.scalars[static_cast<size_t>(value.operands[axis])];
    if (index.op != opset::ScalarOp::index || index.variable != nest.variables[axis]) return false;
  }
  return true;
}

}  // namespace

Result<Changed> remove_identities(Scope& scope) {
  Changed changed = Changed::no;
  shape::Facts facts = scope.entry.facts(scope.variant);
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (ir::is_call(node) || ir::is_control_flow(node.target()) || node.results().size() != 1) continue;
    Result<opset::Call> call = opset::bind(scope.opset, node);
    if (!call) return call.error();
    // A decomposition that returns an argument as it is (dropout in evaluation) is found when it is decomposed.
    for (ir::Value* operand : node.operands()) {
      if (operand->type != node.result()->type) continue;
      Result<opset::MeaningKind> kind = opset::meaning_kind(scope.opset, *call, facts);
      if (!kind || *kind != opset::MeaningKind::loops) break;
      Result<opset::Meaning> meaning = opset::meaning(scope.opset, *call, facts);
      if (!meaning) return meaning.error();
      if (!reads_itself(*meaning, operand)) continue;
      scope.report("removed " + node.target() + " %" + node.result()->name);
      scope.variant.graph.replace_uses(node.result(), operand);
      scope.variant.graph.erase(node);
      changed = Changed::yes;
      break;
    }
  }
  return changed;
}

}  // namespace atenon::specialize
