// Lets nodes with the same operator and arguments be one: common subexpressions, as decompositions leave them.
#include "specialize/passes.h"
#include "text/text.h"

namespace atenon::specialize {
namespace {

// Operator, arguments and result types as text; values by name, which is unique in the graph.
std::string key_of(const ir::Node& node) {
  std::string key = node.target();
  for (const ir::Argument& argument : node.arguments()) key += "," + text::print(argument);
  for (const ir::Named& keyword : node.keywords()) key += "," + keyword.name + "=" + text::print(keyword.argument);
  for (const auto& result : node.results()) key += ":" + ir::to_string(result->type);
  return key;
}

}  // namespace

Changed merge_duplicates(Scope& scope) {
  Changed changed = Changed::no;
  std::map<std::string, ir::Node*> seen;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const opset::Operator* op = scope.opset.find(node.target());
    if (!op || op->has_tag("random") || op->has_tag("keep") || op->is_declared() || !ir::symbols_defined(node).empty())
      continue;
    auto [first, is_new] = seen.try_emplace(key_of(node), &node);
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
