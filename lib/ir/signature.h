// What goes in and out of an entry point: torch.export's ExportGraphSignature, and the pytrees around it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace atenon::ir {

enum class InputKind { user_input, parameter, buffer, constant_tensor, custom_object, token };
// Held by the program as a weight, not passed by the caller.
constexpr bool is_state(InputKind kind) {
  return kind == InputKind::parameter || kind == InputKind::buffer || kind == InputKind::constant_tensor;
}

enum class OutputKind {
  user_output,
  buffer_mutation,
  user_input_mutation,
  loss_output,
  gradient_to_parameter,
  gradient_to_user_input,
  token,
  parameter_mutation
};
// Written to a weight after each call: what the program holds changes.
constexpr bool updates_state(OutputKind kind) {
  return kind == OutputKind::buffer_mutation || kind == OutputKind::parameter_mutation;
}

// One input of the graph, in the graph's order. For a user input that capture specialised (an int, None, a string),
// `constant` holds the value that a caller must pass, and the graph has no Value for it (`value` is "").
struct InputSpec {
  InputKind kind = InputKind::user_input;
  std::string value;       // name of the graph input; "" for a constant user input
  std::string target;      // state: fully qualified name in ExportedProgram::weights; user input: its pytree path
  bool persistent = true;  // buffers
  std::optional<Argument> constant = std::nullopt;
};

// One output of the graph, in the graph's order; mutations come first.
struct OutputSpec {
  OutputKind kind = OutputKind::user_output;
  std::string target;  // mutation: the state or input it is written to; user output: its pytree path
};

// The structure of nested Python containers, leaves in torch.utils._pytree's order. A None counts as a leaf, as it does
// there: its InputSpec has the constant None, its output is the argument None.
struct TreeSpec {
  enum class Kind { leaf, none, tuple, list, dict, named_tuple, custom };
  Kind kind = Kind::leaf;
  std::string type;               // named_tuple, custom: qualified class name
  std::vector<std::string> keys;  // dict, named_tuple, custom: one a child
  std::vector<TreeSpec> children;

  bool is_leaf() const { return kind == Kind::leaf || kind == Kind::none; }
  size_t leaf_count() const;
  // Pytree paths of all leaves (`cache.0.1`, `hidden`), below `prefix`; a lone leaf without prefix is "0". A child
  // without a key is named by its position.
  std::vector<std::string> leaf_paths(const std::string& prefix = "") const;
  bool operator==(const TreeSpec&) const = default;
};

struct GraphSignature {
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  // Positional arguments in order (a tuple whose keys name the parameters of forward), then keywords, as one dict-like
  // tree: the paths of its leaves are the targets of the user inputs.
  TreeSpec input_tree;
  TreeSpec output_tree;

  const InputSpec* input(const std::string& value_name) const;
};

}  // namespace atenon::ir
