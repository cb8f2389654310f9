// The graphs for Graphviz: `atenon show --dot net.atn | dot -Tsvg`. One cluster a graph; state is grey, outputs are
// bold.
#include "show/forms.h"
#include "text/text.h"

namespace atenon::show {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The arguments that are no edges: `[1, 2], alpha=2`.
std::string constants_of(const ir::Node& node) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  const auto has_values = [](const ir::Argument& argument) {
    bool found = false;
    ir::for_each(argument, [&found](const ir::Argument& leaf) { found |= leaf.value() != nullptr; });
    return found;
  };
  for (const ir::Argument& argument : node.arguments()) {
    if (!has_values(argument)) add(text::print(argument));
  }
  for (const ir::Named& keyword : node.keywords()) {
    if (!has_values(keyword.argument)) add(keyword.name + "=" + text::print(keyword.argument));
  }
  return out;
}

}  // namespace

std::string to_dot(const ir::ExportedProgram& program, const Options& options) {
  std::string out =
      "digraph program {\n  rankdir=TB\n  node [shape=box, style=rounded, fontname=\"monospace\", fontsize=10]\n"
      "  edge [fontname=\"monospace\", fontsize=8]\n";
  int number = 0;
  for (const NamedGraph& named : graphs_of(program, options)) {
    const std::string prefix = "g" + std::to_string(number++) + ".";
    const auto id = [&prefix](const ir::Value& value) {
      return quoted(prefix + (value.producer && !value.producer->results().empty() ? value.producer->result()->name
                                                                                   : value.name));
    };
    out += "  subgraph " + quoted("cluster " + named.name) + " {\n    label=" + quoted(named.name) + "\n";
    for (const auto& input : named.graph->inputs()) {
      const ir::InputSpec* spec = named.entry ? named.entry->signature.input(input->name) : nullptr;
      const bool is_state = spec && spec->kind != ir::InputKind::user_input;
      out += "    " + id(*input) + " [shape=ellipse, label=" + quoted(input->name + "\n" + ir::to_string(input->type)) +
             (is_state ? ", color=gray, fontcolor=gray40" : "") + "]\n";
    }
    int effects = 0;
    for (const ir::Node& node : named.graph->forward()) {
      const bool has_results = !node.results().empty();
      const std::string self =
          has_results ? id(*node.result()) : quoted(prefix + "effect " + std::to_string(effects++));
      std::string label = (has_results ? node.result()->name + " = " : "") + node.target();
      if (const std::string constants = constants_of(node); !constants.empty()) label += "\n" + constants;
      for (const auto& result : node.results()) label += "\n" + ir::to_string(result->type);
      bool is_output = false;
      for (const auto& result : node.results()) is_output |= result->returned > 0;
      out += "    " + self + " [label=" + quoted(label) + ", tooltip=" + quoted(place_of(program, node)) +
             (is_output ? ", style=\"rounded,bold\"" : "") + "]\n";
      for (const ir::Value* operand : node.operands()) {
        out += "    " + id(*operand) + " -> " + self;
        if (operand->producer && operand->producer->results().size() > 1)
          out += " [label=" + quoted(operand->name) + "]";
        out += "\n";
      }
    }
    out += "  }\n";
  }
  return out + "}\n";
}

}  // namespace atenon::show
