#include "opset/dead_nodes.h"

namespace atenon::opset {

namespace {

Changed eliminate(const ir::Variant& variant, ir::Graph& graph, const std::function<bool(const ir::Node&)>& matters) {
  Changed changed = Changed::no;
  // Mentioned outside of this graph's nodes, or by nodes that stay.
  std::set<std::string> mentioned;
  for (const ir::Constraint& constraint : variant.assumptions) mentioned.merge(constraint.truth.symbols());
  for (const ir::Constraint& constraint : graph.assumptions) mentioned.merge(constraint.truth.symbols());
  for (const auto& [name, other] : variant.subgraphs)
    if (&other != &graph) mentioned.merge(other.symbols());
  for (const ir::Argument& output : graph.outputs()) mentioned.merge(symbols_of(output));
  // Of nodes that define one symbol, as gathers by one mask do, the first is enough.
  std::map<std::string, const ir::Node*> defines;
  for (const ir::Node& node : graph.forward())
    for (const std::string& symbol : symbols_defined(node)) defines.try_emplace(symbol, &node);
  const auto is_mentioned = [&](const ir::Node& node) {
    for (const std::string& symbol : symbols_defined(node))
      if (mentioned.contains(symbol) && defines.at(symbol) == &node) return true;
    return false;
  };
  // One backward walk is enough: readers come after producers, so by the time we see a producer every dead reader is
  // already gone.
  for (ir::Node& node : graph.backward()) {  // allows erasing the current node
    if (node.has_users() || matters(node) || is_mentioned(node)) {
      mentioned.merge(symbols_read(node));
      continue;
    }
    graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace

Changed eliminate_dead_nodes(const Opset& opset, ir::Variant& variant) {
  std::vector<ir::Graph*> graphs;
  for (auto& [name, graph] : variant.subgraphs) graphs.push_back(&graph);
  graphs.push_back(&variant.graph);
  Changed changed = Changed::no;
  const auto eliminate_but = [&](const std::function<bool(const ir::Node&)>& matters) {
    for (ir::Graph* graph : graphs)
      if (eliminate(variant, *graph, matters) == Changed::yes) changed = Changed::yes;
  };
  const auto is_kept = [&](const ir::Node& node) { return opset.has_tag(node, "keep"); };
  const auto is_draw = [&](const ir::Node& node) { return opset.has_tag(node, "random"); };
  eliminate_but([&](const ir::Node& node) { return is_kept(node) || is_draw(node); });
  const bool draws_are_read = std::ranges::any_of(graphs, [&](ir::Graph* graph) {
    for (const ir::Node& node : graph->forward())
      if (node.has_users() && is_draw(node)) return true;
    return false;
  });
  if (!draws_are_read) eliminate_but(is_kept);
  return changed;
}

}  // namespace atenon::opset
