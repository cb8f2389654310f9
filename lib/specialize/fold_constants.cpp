// Computes nodes whose operands are all constants, with the reference kernels.
//
// A result much larger than what it is computed from (an expanded or filled tensor) is left to be computed at run time:
// bytes in a file cost more than such loops. Random operators stay, for each run draws anew. So do views that turn a
// weight which is read as it lies, too: kernels read it through them, and it is held once.
#include "reference/reference.h"
#include "specialize/passes.h"

namespace atenon::specialize {
namespace {

constexpr size_t small_bytes = 64 * 1024;

bool is_static(const ir::Node& node) {
  for (const auto& result : node.results()) {
    if (!result->is_tensor()) return false;
    for (const shape::SymInt& size : result->meta().sizes) {
      if (!size.is_constant()) return false;
    }
  }
  return ir::symbols_read(node).empty();
}

// Whether a node's result is its operand in another order of axes, and nodes that stay read what it is a view of.
bool turns_shared_weight(const ir::Node& node, const reference::Environment& environment,
                         const std::set<const ir::Node*>& gone) {
  if (node.results().size() != 1 || node.operands().empty()) return false;
  const auto tensor = [&](const ir::Value* value) { return std::get<Tensor>(environment.values.at(value)); };
  const Tensor result = tensor(node.result());
  const ir::Value* base = node.operands()[0];
  if (result.is_contiguous() || result.storage != tensor(base).storage || result.numel() != tensor(base).numel())
    return false;
  while (base->producer && gone.contains(base->producer) && !base->producer->operands().empty() &&
         tensor(base->producer->operands()[0]).storage == result.storage)
    base = base->producer->operands()[0];
  return std::any_of(base->users.begin(), base->users.end(),
                     [&](const ir::Node* user) { return !gone.contains(user); });
}

}  // namespace

Result<Changed> fold_constants(Scope& scope) {
  Changed changed = Changed::no;
  shape::Facts facts = scope.entry.facts(scope.variant);
  reference::Environment environment;
  // Values that are constants: weights, and what was computed from them in this walk.
  auto constant = [&](ir::Value* value) {
    if (environment.values.contains(value)) return true;
    std::optional<Tensor> tensor = constant_behind(scope, value);
    if (tensor) environment.values.emplace(value, *tensor);
    return tensor.has_value();
  };
  std::vector<ir::Node*> folded;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const opset::Operator* op = scope.opset.find(node.target());
    if (!op || op->has_tag("random") || op->has_tag("keep") || op->is_declared() || !is_static(node)) continue;
    std::vector<ir::Value*> operands = node.operands();
    if (!std::all_of(operands.begin(), operands.end(), constant)) continue;
    size_t input_bytes = 0, output_bytes = 0;
    for (ir::Value* operand : operands) input_bytes += std::get<Tensor>(environment.values.at(operand)).nbytes();
    for (const auto& result : node.results()) {
      output_bytes += static_cast<size_t>(*result->meta().numel().constant()) * size_of(result->meta().dtype);
    }
    if (output_bytes > small_bytes && output_bytes > 2 * input_bytes) continue;
    if (Result<void> done = reference::evaluate(scope.opset, node, facts, environment); !done) return done.error();
    folded.push_back(&node);
  }
  // Only what is read by a node that stays becomes a weight.
  std::set<const ir::Node*> gone(folded.begin(), folded.end());
  for (ir::Node* node : folded) {
    for (const auto& result : node->results()) {
      bool is_read = result->returned > 0;
      for (const ir::Node* user : result->users) is_read = is_read || !gone.contains(user);
      if (!is_read || turns_shared_weight(*node, environment, gone)) continue;
      scope.report("folded " + node->target() + " %" + result->name);
      const Tensor tensor = std::get<Tensor>(environment.values.at(result.get()));
      ir::Value* value = add_constant(scope, "folded." + result->name, tensor);
      environment.values.emplace(value, tensor);  // nodes behind read it from now on
      scope.variant.graph.replace_uses(result.get(), value);
      changed = Changed::yes;
    }
  }
  for (auto node = folded.rbegin(); node != folded.rend(); ++node) {
    if (!(*node)->has_users()) scope.variant.graph.erase(**node);
  }
  return changed;
}

}  // namespace atenon::specialize
