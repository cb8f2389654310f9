// What computes each element by itself, as an activation does, is done to what a product gives, not to a view of that:
//
//     gelu(transpose(flatten(conv(x)))) = transpose(flatten(gelu(conv(x))))
//
// Kernels of products apply it on the way to memory. Nothing here knows the operators: views, and that an element of
// the result is computed from the one in its place, are read off the meanings.
#include "ir/readers.h"
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

// Whether a node shows all elements of its only operand, in some order.
bool shows_all(const Scope& scope, const ir::Node& node) {
  const std::vector<ir::Value*> operands = node.operands();
  if (operands.size() != 1 || !operands[0]->is_tensor() || !has_one_result(node)) return false;
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  return meaning && meaning->is_view && node.result()->meta().numel() == operands[0]->meta().numel();
}

// Whether a product with a weight gives the value, or activations of one do; loops would gain nothing.
bool is_of_product(const Scope& scope, const ir::Value* value) {
  const auto is_matrix = [&](const ir::Value* operand) {
    return operand->is_tensor() && operand->meta().rank() >= 2 && constant_behind(scope, operand);
  };
  while (value->producer && ir::sole_reader(*value)) {
    const std::vector<ir::Value*> operands = value->producer->operands();
    if (std::any_of(operands.begin(), operands.end(), is_matrix)) return true;
    if (operands.size() != 1 || !is_pointwise(scope, *value->producer)) return false;
    value = operands[0];
  }
  return false;
}

}  // namespace

Result<Changed> activate_before_views(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const std::vector<ir::Value*> operands = node.operands();
    if (operands.size() != 1 || !operands[0]->is_tensor() || !has_one_result(node)) continue;
    ir::Value* const shown = operands[0];
    ir::Node* view = nullptr;  // the first
    ir::Value* made = shown;
    while (made->producer && ir::sole_reader(*made) && shows_all(scope, *made->producer)) {
      view = made->producer;
      made = view->operands()[0];
    }
    if (!view || node.result()->returned > 0 || !is_of_product(scope, made) || !is_pointwise(scope, node)) continue;
    Result<ir::Value*> activated =
        append_copy(scope, *view, node, [&](size_t, const ir::Argument& argument) -> ir::Argument {
          return argument.value() == shown ? made : argument;
        });
    if (!activated) return activated.error();
    if ((*activated)->type != made->type) continue;  // a dead node, which is removed at the end
    (*activated)->producer->provenance = node.provenance;
    scope.report("put " + node.target() + " %" + node.result()->name + " in front of the views behind %" + made->name);
    view->replace_operand(made, *activated);
    scope.variant.graph.replace_uses(node.result(), shown);
    scope.variant.graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
