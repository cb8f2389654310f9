// Operators of others, which stand in no operator set: their headers are put together from the nodes that call them.
//
// An archive has the names and values of the arguments that a call gave, and the types of what came out, but no
// schema: arguments that no node gives stay unknown, and one that some nodes leave out becomes optional. What such an
// operator computes, a block or a kernel of the user's says later. It is taken to update nothing.
#include <algorithm>
#include <map>

#include "pt2/graph_reader.h"

namespace atenon::pt2 {
namespace {

struct Parameter {
  std::string name, type;  // type "": only None was seen
  bool may_be_none = false;
  bool by_name = true;  // in every call
  int calls = 0;        // that give it
};

struct Declaration {
  std::vector<Parameter> parameters;
  std::vector<std::string> returns;
  int calls = 0;
  std::string where;    // the first
  std::string trouble;  // why there is no header
};

// ATen's word for a value of the archive: as_tensor, as_ints, ...; "" of None, nullopt of what a schema cannot say.
std::optional<std::string> type_of(const std::string& kind) {
  static const std::map<std::string, std::string> types = {{"as_none", ""},
                                                           {"as_tensor", "Tensor"},
                                                           {"as_tensors", "Tensor[]"},
                                                           {"as_optional_tensor", "Tensor?"},
                                                           {"as_optional_tensors", "Tensor?[]"},
                                                           {"as_int", "SymInt"},
                                                           {"as_sym_int", "SymInt"},
                                                           {"as_ints", "SymInt[]"},
                                                           {"as_sym_ints", "SymInt[]"},
                                                           {"as_float", "float"},
                                                           {"as_sym_float", "float"},
                                                           {"as_floats", "float[]"},
                                                           {"as_sym_floats", "float[]"},
                                                           {"as_bool", "bool"},
                                                           {"as_sym_bool", "bool"},
                                                           {"as_bools", "bool[]"},
                                                           {"as_sym_bools", "bool[]"},
                                                           {"as_string", "str"},
                                                           {"as_strings", "str[]"},
                                                           {"as_complex", "Scalar"},
                                                           {"as_scalar_type", "ScalarType"},
                                                           {"as_device", "Device"},
                                                           {"as_layout", "Layout"},
                                                           {"as_memory_format", "MemoryFormat"}};
  const auto found = types.find(kind);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

// Untrusted text becomes part of a block.
bool is_name(const std::string& text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

bool is_target(const std::string& target) {
  const size_t colons = target.find("::"), dot = target.find('.', colons == std::string::npos ? 0 : colons);
  return colons != std::string::npos && is_name(target.substr(0, colons)) &&
         is_name(target.substr(colons + 2, dot == std::string::npos ? dot : dot - colons - 2)) &&
         (dot == std::string::npos || is_name(target.substr(dot + 1)));
}

void note_inputs(Declaration& declaration, const Item& node) {
  size_t place = 0;
  for (const Item& input : node.at("inputs").items()) {
    const std::string name = input.at("name").text(), kind = input.at("arg").alternative().first;
    const std::optional<std::string> type = type_of(kind);
    if (!type || !is_name(name)) {
      declaration.trouble = "its argument '" + name + "' is of a kind (" + kind + ") that no schema here can say";
      return;
    }
    std::vector<Parameter>& known = declaration.parameters;
    auto found = std::find_if(known.begin(), known.end(), [&](const Parameter& p) { return p.name == name; });
    if (found == known.end()) found = known.insert(known.begin() + static_cast<ptrdiff_t>(place), {.name = name});
    const bool is_optional = type->empty() || type->ends_with('?');
    const std::string base = type->substr(0, type->size() - (type->ends_with('?') ? 1 : 0));
    if (!found->type.empty() && !base.empty() && found->type != base)
      declaration.trouble = "its argument '" + name + "' is of several types";
    if (found->type.empty()) found->type = base;
    found->may_be_none = found->may_be_none || is_optional;
    const Item given = input.find("kind");
    found->by_name = found->by_name && !given.is_null() && given.integer() == as_keyword;
    ++found->calls;
    place = static_cast<size_t>(found - known.begin()) + 1;
  }
}

void note_outputs(Declaration& declaration, const Item& node) {
  std::vector<std::string> returns;
  for (const Item& output : node.at("outputs").items()) {
    const bool is_named = !output.find("name").is_null();
    const std::optional<std::string> type = is_named ? "Tensor" : type_of(output.alternative().first);
    if (!type || type->empty() || type->ends_with('?') || type->ends_with("?[]"))
      declaration.trouble = "a result of it is of a kind that no schema here can say";
    else
      returns.push_back(*type);
  }
  if (declaration.calls > 0 && returns != declaration.returns) declaration.trouble = "its calls have different results";
  if (returns.empty())
    declaration.trouble = "it yields nothing, so that it must update an argument, and the archive does not say which";
  declaration.returns = std::move(returns);
}

std::string header(const std::string& target, const Declaration& declaration) {
  std::string text = "op " + target + "(";
  bool is_optional = false, is_first = true, only_by_name = false;
  const auto add = [&](const Parameter& parameter) {
    if (!is_first) text += ", ";
    is_first = false;
    if (parameter.by_name && !only_by_name) text += "*, ";
    only_by_name = parameter.by_name;
    is_optional = is_optional || parameter.calls < declaration.calls;
    text += (parameter.type.empty() ? "Tensor" : parameter.type) + (parameter.may_be_none || is_optional ? "? " : " ") +
            parameter.name + (is_optional ? "=None" : "");
  };
  for (const bool by_name : {false, true}) {
    is_optional = false;
    for (const Parameter& parameter : declaration.parameters)
      if (parameter.by_name == by_name) add(parameter);
  }
  text += ") -> ";
  if (declaration.returns.size() == 1) return text + declaration.returns[0] + '\n';
  text += '(';
  for (size_t i = 0; i < declaration.returns.size(); ++i) text += (i > 0 ? ", " : "") + declaration.returns[i];
  return text + ")\n";
}

}  // namespace

Result<std::vector<std::string>> declarations(const Item& graph, const opset::Opset& opset,
                                              const CallStacks& call_stacks, const std::string& file_name) {
  std::map<std::string, Declaration> unknown;  // by target
  for (const Item& node : all_nodes(graph)) {
    const std::string text = node.at("target").text(), target = target_of(text);
    const std::vector<Item> outputs = flattened(node.at("outputs"));
    if (target.empty() || text.starts_with(higher_order) || find_operator(opset, target)) continue;
    const bool is_pytorchs = target.starts_with("aten::") || target.starts_with("prims::");
    const bool has_tensor = std::any_of(outputs.begin(), outputs.end(), [](const Item& output) {
      return !output.find("name").is_null() || !is_symbolic(output.alternative().first);
    });
    if (is_pytorchs && !has_tensor) continue;  // what asserts something of sizes
    Declaration& declaration = unknown[target];
    if (declaration.calls == 0) {
      declaration.where = "node %" + (outputs.empty() ? text : name_of(outputs.front()));
      const ir::CallStack stack = call_stacks.stack(text_at(node, "stack_trace"), text_at(node, "nn_module_stack"));
      if (!stack.frames.empty()) {
        const ir::Frame& frame = *stack.frames.back();
        declaration.where += ", " + frame.file + ":" + std::to_string(frame.line) + ": " + frame.code;
      }
    }
    note_inputs(declaration, node);
    note_outputs(declaration, node);
    if (is_pytorchs) declaration.trouble = "it is PyTorch's, and not known here";
    if (!is_target(target)) declaration.trouble = "that is no name of an operator";
    ++declaration.calls;
  }
  std::vector<std::string> blocks, missing;
  Diagnostic diagnostic = error(Status::unsupported, 824, "");
  bool is_pytorchs = false;
  for (const auto& [target, declaration] : unknown) {
    if (declaration.trouble.empty()) {
      blocks.push_back(header(target, declaration));
      continue;
    }
    missing.push_back(target);
    is_pytorchs = is_pytorchs || target.starts_with("aten::");
    const std::string times = declaration.calls > 1 ? " (" + std::to_string(declaration.calls) + " times)" : "";
    diagnostic.notes.push_back({target + times + ": " + declaration.where + ": " + declaration.trouble});
  }
  if (missing.empty()) return blocks;
  diagnostic.message =
      missing.size() == 1
          ? "the program uses the operator " + missing.front() + ", which is in no operator set"
          : "the program uses " + std::to_string(missing.size()) + " operators that are in no operator set";
  if (is_pytorchs) diagnostic.notes.push_back({std::string(decompose_first)});
  return std::move(diagnostic).at({.file = file_name});
}

}  // namespace atenon::pt2
