// Removes nodes that give back an operand unchanged: clone, detach, a cast to the same dtype, a view to the same shape.
#include "specialize/passes.h"

namespace atenon::specialize {

Result<Changed> remove_identities(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    // A decomposition that returns an argument as it is (dropout in evaluation) is found when it is decomposed.
    Result<ir::Value*> operand = opset::unchanged_operand(scope.opset, node, scope.facts);
    if (!operand) return operand.error();
    if (!*operand) continue;
    scope.report("removed " + node.target() + " %" + node.result()->name);
    scope.variant.graph.replace_uses(node.result(), *operand);
    scope.variant.graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
