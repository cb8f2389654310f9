#include "ir/dead_nodes.h"

namespace atenon::ir {

Changed eliminate_dead_nodes(const Variant& variant, Graph& graph, const std::function<bool(const Node&)>& matters) {
  Changed changed = Changed::no;
  // Mentioned outside of this graph's nodes, or by nodes that stay.
  std::set<std::string> mentioned;
  for (const Constraint& constraint : variant.assumptions) mentioned.merge(constraint.truth.symbols());
  for (const Constraint& constraint : graph.assumptions) mentioned.merge(constraint.truth.symbols());
  for (const auto& [name, other] : variant.subgraphs)
    if (&other != &graph) mentioned.merge(other.symbols());
  for (const Argument& output : graph.outputs()) mentioned.merge(symbols_of(output));
  // Of nodes that define one symbol, as gathers by one mask do, the first is enough.
  std::map<std::string, const Node*> defines;
  for (const Node& node : graph.forward())
    for (const std::string& symbol : symbols_defined(node)) defines.try_emplace(symbol, &node);
  const auto is_mentioned = [&](const Node& node) {
    for (const std::string& symbol : symbols_defined(node))
      if (mentioned.contains(symbol) && defines.at(symbol) == &node) return true;
    return false;
  };
  // One backward walk is enough: readers come after producers, so by the time we see a producer every dead reader is
  // already gone.
  for (Node& node : graph.backward()) {  // allows erasing the current node
    if (node.has_users() || matters(node) || is_mentioned(node)) {
      mentioned.merge(symbols_read(node));
      continue;
    }
    graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::ir
