// Puts calls into graphs: one node, or the nodes that a decomposition makes of it.
#include <algorithm>

#include "opset/evaluator.h"

namespace atenon::opset {
namespace {

// Names of fresh sizes from this one on are no symbol's of the graph, nor of one that is declared and not used any
// more.
int first_unbacked(const ir::Graph& graph, const shape::Facts& facts) {
  int next = 0;
  for (const std::string& name : graph.symbols()) next = std::max(next, ir::unbacked_after(name));
  for (const auto& [name, range] : facts.ranges()) next = std::max(next, ir::unbacked_after(name));
  return next;
}

// A node as people write it: arguments that equal their defaults are left out.
ir::Node* add_node(ir::Graph& graph, const Call& call, Inference inference, ir::Node* before,
                   ir::ProvenanceId provenance) {
  const Schema& schema = call.op->schema();
  std::vector<Argument> positional;
  std::vector<Named> keywords;
  size_t given = 0;  // positional arguments up to the last that is not the default
  for (size_t i = 0; i < schema.parameters.size(); ++i) {
    const Parameter& parameter = schema.parameters[i];
    const bool is_default = parameter.fallback && *parameter.fallback == call.arguments[i];
    if (parameter.keyword_only) {
      if (!is_default) keywords.push_back({parameter.name, call.arguments[i]});
    } else {
      positional.push_back(call.arguments[i]);
      if (!is_default) given = i + 1;
    }
  }
  positional.resize(given);
  std::vector<ir::Graph::Result> results;
  const bool is_named = schema.returns.size() == inference.types.size();
  for (size_t i = 0; i < inference.types.size(); ++i)
    results.push_back({is_named ? schema.returns[i].name : "", std::move(inference.types[i])});
  ir::Node* node = graph.add(call.op->target(), std::move(positional), std::move(keywords), std::move(results), before);
  node->provenance = provenance;
  return node;
}

std::vector<ir::Value*> results_of(const ir::Node& node) {
  std::vector<ir::Value*> values;
  for (const auto& value : node.results()) values.push_back(value.get());
  return values;
}

// Sizes that the decomposition found fresh names for are those that the node at hand yields already.
// Says which are left.
std::vector<ir::Symbol> adopt_symbols(ir::Graph& graph, const Evaluator& evaluator,
                                      const std::vector<ir::Value*>& results, const ir::Node& node) {
  shape::Substitution names;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]->is_tensor() || !node.result(i)->is_tensor()) continue;
    const std::vector<ir::SymInt>&fresh = results[i]->meta().sizes, &known = node.result(i)->meta().sizes;
    for (size_t axis = 0; axis < std::min(fresh.size(), known.size()); ++axis) {
      const std::optional<std::string> name = fresh[axis].as_symbol();
      const auto is_it = [&](const ir::Symbol& symbol) { return symbol.name == name; };
      if (name && std::any_of(evaluator.unbacked.begin(), evaluator.unbacked.end(), is_it))
        names.emplace(*name, known[axis]);
    }
  }
  if (!names.empty()) graph.substitute(names);
  std::vector<ir::Symbol> left;
  for (const ir::Symbol& symbol : evaluator.unbacked)
    if (!names.contains(symbol.name)) left.push_back(symbol);
  return left;
}

}  // namespace

Result<Expansion> expand(const Opset& opset, const Call& call, const shape::Facts& facts, ir::Graph& graph,
                         ir::Node* before, ir::ProvenanceId provenance, bool is_lowering) {
  const Call written = origin_call(call);
  Evaluator evaluator(opset, written, facts);
  evaluator.is_lowering = is_lowering;
  evaluator.first_free_unbacked = [&] { return first_unbacked(graph, facts); };
  std::vector<ir::Node*> made;
  evaluator.apply = [&](const Call& inner, Inference inference) {
    made.push_back(add_node(graph, inner, std::move(inference), before, provenance));
    return results_of(*made.back());
  };
  const Step* step = evaluator.walk(false);
  Datum result;
  if (step && step->kind == StepKind::decompose)
    result = evaluator.decomposed(*step);
  else if (!evaluator.failed())
    evaluator.adopt(error(Status::bad_input, 118, call.op->target() + " has no decomposition for these arguments"));

  Expansion expansion;
  const auto collect = [&](const auto& self, const Datum& datum) -> void {
    if (evaluator.failed()) return;
    if (datum.is_list()) {
      for (const Datum& item : datum.items()) self(self, item);
    } else if (datum.is<ir::Value*>()) {
      expansion.results.push_back(datum.get<ir::Value*>());
    } else {  // a number where the operator yields a tensor
      const Datum tensor = evaluator.apply_operator("full", {list(std::vector<Datum>()), datum}, {}, step->value);
      if (tensor.is<ir::Value*>()) expansion.results.push_back(tensor.get<ir::Value*>());
    }
  };
  if (call.op->derivation() == Derivation::inplace && result.tensor() && !evaluator.failed()) {
    const ScalarType written = call.arguments[0].value()->meta().dtype;
    if (result.tensor()->meta().dtype != written)
      result = evaluator.apply_operator("_to_copy", {result, written}, {"", "dtype"}, step->value);
  }
  collect(collect, result);
  if (evaluator.failed()) {
    for (auto node = made.rbegin(); node != made.rend(); ++node) graph.erase(**node);
    return evaluator.take_failure();
  }
  // A size that only the operator's own type names is no node's: what it decomposes into finds names of its own.
  std::erase_if(evaluator.unbacked, [&](const ir::Symbol& symbol) {
    return std::none_of(made.begin(), made.end(), [&](const ir::Node* node) {
      return std::any_of(node->results().begin(), node->results().end(), [&](const auto& result) {
        if (!result->is_tensor()) return result->name == symbol.name;
        const auto& sizes = result->meta().sizes;
        return std::any_of(sizes.begin(), sizes.end(),
                           [&](const ir::SymInt& size) { return size.symbols().contains(symbol.name); });
      });
    });
  });
  expansion.unbacked = evaluator.unbacked;
  if (!evaluator.unbacked.empty() && before && before->target() == call.op->target() &&
      before->results().size() == expansion.results.size())
    expansion.unbacked = adopt_symbols(graph, evaluator, expansion.results, *before);
  expansion.assumptions = std::move(evaluator.assumptions);
  for (ir::Constraint& assumption : expansion.assumptions) assumption.provenance = provenance;
  return expansion;
}

Result<ir::Node*> append(const Opset& opset, ir::Graph& graph, const std::string& target,
                         std::vector<Argument> arguments, std::vector<Named> keywords, const shape::Facts& facts,
                         ir::ProvenanceId provenance, ir::Node* before, std::vector<ir::Constraint>* assumptions,
                         const shape::Bindings* hints) {
  Result<Call> call = resolve(opset, target, arguments, keywords);
  if (!call) return call.error();
  Result<Inference> inference = infer(opset, *call, facts, 0, hints);
  if (inference && !inference->unbacked.empty())
    inference = infer(opset, *call, facts, first_unbacked(graph, facts), hints);
  if (!inference) return inference.error();
  if (assumptions)
    for (ir::Constraint& assumption : inference->assumptions) {
      assumption.provenance = provenance;
      assumptions->push_back(std::move(assumption));
    }
  return add_node(graph, *call, std::move(*inference), before, provenance);
}

}  // namespace atenon::opset
