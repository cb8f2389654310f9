// Puts the branch that runs in the place of a condition whose truth is known: by a size that was bound, or by a
// constant.
//
// A size in which the branches differed was a symbol that the condition defined; it becomes the branch's own size.
#include "ir/control_flow.h"
#include "specialize/passes.h"

namespace atenon::specialize {
namespace {

std::optional<bool> known_truth(const Scope& scope, const ir::Argument& condition) {
  if (condition.is<ir::SymBool>()) {
    const shape::Truth truth = scope.facts.decide(condition.get<ir::SymBool>());
    return truth == shape::Truth::open ? std::nullopt : std::optional(truth == shape::Truth::proven);
  }
  const std::optional<Tensor> tensor = condition.value() ? constant_behind(scope, condition.value()) : std::nullopt;
  if (!tensor || tensor->dtype != ScalarType::boolean || tensor->numel() != 1) return std::nullopt;
  return tensor->int_at(0) != 0;
}

// The branch's nodes before the condition; what stands for its outputs.
std::vector<ir::Value*> copy_body(ir::Graph& graph, ir::Node& node, const ir::Graph& body,
                                  const ir::ArgumentList& operands) {
  std::map<const ir::Value*, ir::Argument> outside;
  for (size_t i = 0; i < operands.size(); ++i) outside.emplace(body.inputs()[i].get(), operands[i]);
  const auto map = [&](ir::Value* value) { return outside.at(value); };
  for (const ir::Node& inner : body.forward()) {
    ir::Node* copy = graph.add_copy(inner, map, &node);
    for (size_t i = 0; i < inner.results().size(); ++i) outside.emplace(inner.result(i), copy->result(i));
  }
  std::vector<ir::Value*> outputs;
  for (const ir::Argument& output : body.outputs()) outputs.push_back(outside.at(output.value()).value());
  return outputs;
}

bool gives_tensors(const ir::Graph& body) {
  return std::all_of(body.outputs().begin(), body.outputs().end(),
                     [](const ir::Argument& output) { return output.value() && output.value()->is_tensor(); });
}

// Symbols of the condition's own, by what they turn out to be.
shape::Substitution sizes_of(const ir::Node& node, const ir::Graph& body) {
  shape::Substitution sizes;
  const std::set<std::string> own = ir::symbols_defined(node);
  for (size_t i = 0; i < node.results().size(); ++i)
    for (size_t axis = 0; axis < node.result(i)->meta().sizes.size(); ++axis)
      if (const auto symbol = node.result(i)->meta().sizes[axis].as_symbol(); symbol && own.contains(*symbol))
        sizes.emplace(*symbol, body.outputs()[i].value()->meta().sizes[axis]);
  return sizes;
}

// Subgraphs that no node names any more.
void drop_unread_subgraphs(ir::Variant& variant) {
  std::set<std::string> named;
  std::vector<const ir::Graph*> open{&variant.graph};
  while (!open.empty()) {
    const ir::Graph* graph = open.back();
    open.pop_back();
    for (const ir::Node& node : graph->forward())
      for (const ir::Argument& argument : node.arguments())
        if (argument.is<ir::SubgraphRef>() && named.insert(argument.get<ir::SubgraphRef>().name).second)
          open.push_back(&variant.subgraphs.at(argument.get<ir::SubgraphRef>().name));
  }
  std::erase_if(variant.subgraphs, [&](const auto& subgraph) { return !named.contains(subgraph.first); });
}

// Symbols that had no input dimension behind them, and now have no node.
void drop_symbols(ir::EntryPoint& entry, const shape::Substitution& gone) {
  std::set<std::string> mentioned;
  for (const ir::Variant& variant : entry.variants) {
    mentioned.merge(variant.graph.symbols());
    for (const auto& [name, graph] : variant.subgraphs) mentioned.merge(graph.symbols());
  }
  std::erase_if(entry.symbols, [&](const ir::Symbol& symbol) {
    return gone.contains(symbol.name) && !mentioned.contains(symbol.name);
  });
}

}  // namespace

Changed inline_conditions(Scope& scope) {
  Changed changed = Changed::no;
  ir::Graph& graph = scope.variant.graph;
  // Conditions inside of a branch that was inlined stand before it: each round goes one deeper.
  for (bool found = true; found;) {
    found = false;
    for (ir::Node& node : graph.forward()) {
      const std::optional<ir::ControlFlow> flow = ir::control_flow(node);
      if (!flow || flow->kind != ir::ControlFlow::Kind::cond) continue;
      const std::optional<bool> truth = known_truth(scope, flow->condition);
      const auto body =
          truth ? scope.variant.subgraphs.find(flow->bodies[*truth ? 0 : 1]) : scope.variant.subgraphs.end();
      if (body == scope.variant.subgraphs.end() || !gives_tensors(body->second)) continue;
      const shape::Substitution sizes = sizes_of(node, body->second);
      std::vector<ir::Constraint>& assumptions = scope.variant.assumptions;
      assumptions.insert(assumptions.end(), body->second.assumptions.begin(), body->second.assumptions.end());
      scope.report("took @" + body->first + " for " + node.target() +
                   (node.results().empty() ? "" : " %" + node.result()->name));
      graph.replace(node, copy_body(graph, node, body->second, flow->operands));
      scope.variant.substitute(sizes);
      drop_unread_subgraphs(scope.variant);
      drop_symbols(scope.entry, sizes);
      changed = Changed::yes;
      found = true;
    }
  }
  return changed;
}

}  // namespace atenon::specialize
