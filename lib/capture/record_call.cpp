// A call as a node of the graph that is recorded: how it is spelled, and what it assumes.
#include <algorithm>
#include <functional>

#include "capture/callstack.h"
#include "capture/operator_call.h"

namespace atenon::capture {
namespace {

using opset::Call;
using opset::Kind;
using opset::Parameter;

bool equals_default(const Argument& argument, const Parameter& parameter) {
  if (!parameter.fallback) return false;
  if (argument == *parameter.fallback) return true;
  if (!argument.is<ArgumentList>() || parameter.fallback->is<ArgumentList>()) return false;
  const ArgumentList& list = argument.get<ArgumentList>();  // int[2]=0 is bound as [0, 0]
  return !list.empty() &&
         std::all_of(list.begin(), list.end(), [&](const Argument& item) { return item == *parameter.fallback; });
}

// What an operator must know and data decide (E0112): a promise that tells it, for numbers that the example inputs
// give.
Diagnostic with_promises(Session& session, Diagnostic undecided, const Call& call) {
  std::set<std::string> symbols;
  for (const Argument& argument : call.arguments) symbols.merge(ir::symbols_of(argument));
  for (const std::string& symbol : symbols) {
    if (session.hints.contains(symbol)) continue;
    const std::optional<int64_t> example = session.example_value(SymInt::symbol(symbol));
    PyErr_Clear();
    if (!example) continue;
    undecided.notes.push_back({"fix: torch._check(" + symbol + " == " + std::to_string(*example) +
                               "), or a range that decides it, before this line"});
    const ir::Value* value = session.graph.find(symbol);
    if (const std::string place = session.program.provenance.at(value->producer->provenance).place(); !place.empty())
      undecided.notes.push_back({symbol + " is of " + place});
  }
  return undecided;
}

// Whether the example inputs break what a call assumes. What only a branch assumes, they need not take.
bool is_broken_by_example(const Session& session, const ir::Constraint& assumption) {
  if (shape::evaluate(assumption.truth, session.hints) != false) return false;
  const std::set<std::string> symbols = assumption.truth.symbols();
  return std::none_of(session.scopes.begin(), session.scopes.end(), std::mem_fn(&Scope::is_chosen)) &&
         std::none_of(symbols.begin(), symbols.end(), [&](auto& symbol) { return session.invented.contains(symbol); });
}

Diagnostic broken_by_example(const Session& session, const ir::Constraint& assumption) {
  std::string sizes;
  for (const std::string& symbol : assumption.truth.symbols())
    sizes += (sizes.empty() ? "" : ", ") + symbol + " = " + std::to_string(session.hints.at(symbol));
  return error(Status::bad_input, 110, assumption.reason)
      .note("the example inputs break " + assumption.truth.to_string() + ": they have " + sizes);
}

}  // namespace

Spelling spell(const Call& call) {
  Spelling spelling;
  const auto& parameters = call.op->schema().parameters;
  size_t count = 0;
  std::vector<Argument> arguments = call.arguments;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].type.kind == Kind::word || parameters[i].type.kind == Kind::generator ||
        parameters[i].name == "pin_memory")
      arguments[i] = parameters[i].fallback.value_or(arguments[i]);
    const bool is_default = equals_default(arguments[i], parameters[i]);
    if (parameters[i].keyword_only && !is_default) spelling.keywords.push_back({parameters[i].name, arguments[i]});
    if (!parameters[i].keyword_only && !is_default) count = i + 1;
  }
  spelling.positional.assign(arguments.begin(), arguments.begin() + static_cast<ptrdiff_t>(count));
  return spelling;
}

std::optional<opset::Inference> infer(Session& session, const Call& call) {
  Result<opset::Inference> inference =
      opset::infer(session.opset, call, session.facts, session.unbacked, &session.hints);
  if (inference) return std::move(*inference);
  const Diagnostic problem = inference.error();
  session.raise(problem.code == 112 ? with_promises(session, problem, call) : problem);
  return std::nullopt;
}

ir::Node* append(Session& session, const Call& call, opset::Inference inference) {
  const ir::ProvenanceId provenance = session.call_stacks->current(session.program.provenance);
  for (ir::Constraint& constraint : inference.assumptions) {
    if (is_broken_by_example(session, constraint)) return session.raise(broken_by_example(session, constraint));
    constraint.provenance = provenance;
    session.assume(std::move(constraint));
  }
  for (ir::Symbol& symbol : inference.unbacked) {
    session.facts.declare(symbol.name, symbol.range);
    session.symbols.push_back(symbol);
    ++session.unbacked;
  }
  Spelling spelling = spell(call);
  std::vector<ir::Graph::Result> results;
  for (ir::Type& type : inference.types) results.push_back({"", std::move(type)});
  ir::Node* node = session.graph.add(call.op->target(), std::move(spelling.positional), std::move(spelling.keywords),
                                     std::move(results));
  node->provenance = provenance;
  return node;
}

ir::Node* Session::record(const std::string& target, std::vector<Argument> arguments, std::vector<Named> keywords) {
  Result<Call> call = opset::resolve(opset, target, arguments, keywords, opset::Numbers::as_python);
  if (!call) return raise(call.error());
  std::optional<opset::Inference> inference = infer(*this, *call);
  return inference ? append(*this, *call, std::move(*inference)) : nullptr;
}

}  // namespace atenon::capture
