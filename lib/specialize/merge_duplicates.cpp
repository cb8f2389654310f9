// Lets nodes with the same operator and arguments be one: common subexpressions, as decompositions leave them, and
// heads copied with their weights.
#include <tuple>

#include "specialize/passes.h"
#include "text/text.h"

namespace atenon::specialize {
namespace {

// What stands for each value: the first of the constants with the same content, as the digests that were read tell.
class Representatives {
 public:
  explicit Representatives(const Scope& scope) {
    if (scope.options.keep_weights) return;
    using Sizes = std::vector<int64_t>;
    std::map<std::tuple<std::string, ScalarType, Sizes, Sizes, int64_t>, ir::Value*> first;
    for (const auto& input : scope.variant.graph.inputs()) {
      const std::optional<Tensor> constant = constant_behind(scope, input.get());
      if (!constant || constant->storage->digest().empty()) continue;
      const auto& [dtype, sizes, strides, offset, storage] = *constant;
      const auto [found, is_new] = first.try_emplace({storage->digest(), dtype, sizes, strides, offset}, input.get());
      if (!is_new) representative_[input.get()] = found->second;
    }
  }

  ir::Value* of(ir::Value* value) const {
    const auto found = representative_.find(value);
    return found == representative_.end() ? value : found->second;
  }

 private:
  std::map<const ir::Value*, ir::Value*> representative_;
};

// Operator, arguments and result types as text; values by name, which is unique in the graph.
std::string key_of(const ir::Node& node, const Representatives& representatives) {
  const auto stand_in = [&](ir::Value* value) { return ir::Argument{representatives.of(value)}; };
  std::string key = node.target();
  for (const ir::Argument& argument : ir::map_values(node.arguments(), stand_in)) key += "," + text::print(argument);
  for (const ir::Named& keyword : ir::map_values(node.keywords(), stand_in))
    key += "," + keyword.name + "=" + text::print(keyword.argument);
  for (const auto& result : node.results()) key += ":" + ir::to_string(result->type);
  return key;
}

}  // namespace

Changed merge_duplicates(Scope& scope) {
  Changed changed = Changed::no;
  const Representatives representatives(scope);
  std::map<std::string, ir::Node*> seen;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const opset::Operator* op = scope.opset.find(node.target());
    if (!op || op->has_tag("random") || op->has_tag("keep") || op->is_declared() || !ir::symbols_defined(node).empty())
      continue;
    auto [first, is_new] = seen.try_emplace(key_of(node, representatives), &node);
    if (is_new) continue;
    scope.report("merged %" + node.result()->name + " into %" + first->second->result()->name);
    for (size_t i = 0; i < node.results().size(); ++i)
      scope.variant.graph.replace_uses(node.result(i), first->second->result(i));
    scope.variant.graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
