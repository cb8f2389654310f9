#include "ir/control_flow.h"

namespace atenon::ir {
namespace {

// The arguments of an operator in order: c condition, b body, i carried, x xs, o operands.
struct Form {
  const char* target;
  ControlFlow::Kind kind;
  const char* arguments;
};
constexpr Form forms[] = {
    {"higher_order::cond", ControlFlow::Kind::cond, "cbbo"},
    {"higher_order::while_loop", ControlFlow::Kind::while_loop, "bbio"},
    {"higher_order::map", ControlFlow::Kind::map, "bxo"},
    {"higher_order::scan", ControlFlow::Kind::scan, "bixo"},
    {"higher_order::associative_scan", ControlFlow::Kind::associative_scan, "bxo"},
};

const Form* form_of(const std::string& target) {
  for (const Form& form : forms)
    if (target == form.target) return &form;
  return nullptr;
}

}  // namespace

std::optional<ControlFlow::Kind> control_flow_kind(const std::string& target) {
  const Form* form = form_of(target);
  return form ? std::optional(form->kind) : std::nullopt;
}

std::optional<ControlFlow> control_flow(const Node& node) {
  const Form* form = form_of(node.target());
  const std::string_view expected = form ? form->arguments : "";
  if (!form || node.arguments().size() != expected.size() || !node.keywords().empty()) return std::nullopt;
  ControlFlow flow{.kind = form->kind};
  for (size_t i = 0; i < expected.size(); ++i) {
    const Argument& argument = node.arguments()[i];
    if (expected[i] == 'c') {
      if (!argument.value() && !argument.is<SymBool>()) return std::nullopt;
      flow.condition = argument;
    } else if (expected[i] == 'b') {
      if (!argument.is<SubgraphRef>()) return std::nullopt;
      flow.bodies.push_back(argument.get<SubgraphRef>().name);
    } else {
      if (!argument.is<ArgumentList>()) return std::nullopt;
      ArgumentList& list = expected[i] == 'i' ? flow.carried : expected[i] == 'x' ? flow.xs : flow.operands;
      list = argument.get<ArgumentList>();
    }
  }
  flow.results = node.results().size();
  return flow;
}

Value* input_of_operand(const ControlFlow& flow, const Graph& body, size_t i) {
  const size_t from_last = flow.operands.size() - i, count = body.inputs().size();
  return from_last <= count ? body.inputs()[count - from_last].get() : nullptr;
}

void set_operands(Node& node, ArgumentList operands) {
  std::vector<Argument> arguments = node.arguments();
  arguments.back() = std::move(operands);
  node.set_arguments(std::move(arguments));
}

std::vector<Graph*> graphs_of(Variant& variant) {
  std::vector<Graph*> graphs = {&variant.graph};
  for (auto& [name, graph] : variant.subgraphs) graphs.push_back(&graph);
  return graphs;
}

std::vector<Graph*> graphs_of(ExportedProgram& program) {
  std::vector<Graph*> graphs;
  for (EntryPoint& entry : program.entries)
    for (Variant& variant : entry.variants)
      for (Graph* graph : graphs_of(variant)) graphs.push_back(graph);
  return graphs;
}

}  // namespace atenon::ir
