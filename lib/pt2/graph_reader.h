// The nodes of an archive's graph, put one by one into a Graph of ours. Private to lib/pt2.
#pragma once

#include <map>
#include <set>
#include <span>

#include "pt2/aliases.h"
#include "pt2/expression.h"
#include "pt2/json_items.h"
#include "pt2/provenance.h"

namespace atenon::pt2 {

// One graph of the archive: the program's, or a region that is called in it. Names are its own.
struct Scope {
  Item graph;
  std::map<std::string, View> tensors;
  std::map<std::string, ir::Argument> scalars;
};

class GraphReader {
 public:
  GraphReader(const opset::Opset& opset, const CallStacks& call_stacks, std::string file_name,
              ir::ExportedProgram& program, ir::EntryPoint& entry, ir::Variant& variant);

  // Makes the inputs of the graph, declares the symbols that their sizes are made of with the ranges given, assumes the
  // guards (Python that the export relied on), and reads all nodes. What is found wrong in the JSON is noted there.
  Result<void> read(const Item& graph, const Item& ranges, const Item& guards);
  // Sets the graph's outputs: what was updated in place first, in the signature, too.
  Result<void> finish();

 private:
  // Inputs and symbols: graph_symbols.cpp.
  Result<void> add_inputs(const Item& ranges);
  Result<void> add_tensor_input(const ir::InputSpec& spec, const Item& ranges);
  Result<void> add_derived(const ir::InputSpec& spec, size_t axis, const std::string& text, const Item& ranges);
  Result<void> assume_guards(const Item& guards);
  void declare(const std::string& name, ir::Symbol symbol, const Item& ranges);
  Result<shape::Scalar> expression(const Item& sym);  // a SymInt, SymFloat or SymBool of the schema
  bool is_known(const Item& sym) const;
  Item symbolic_value(const Scope& scope, const std::string& kind, const std::string& name) const;
  Result<ir::Argument> scalar(Scope& scope, const std::string& kind, const Item& argument);
  Result<void> assume(const shape::SymBool& truth, const std::string& reason);
  Result<void> adopt_sizes(const Scope& scope, const std::string& name, const ir::Value& value);

  Result<void> read_nodes(Scope& scope);
  Result<void> read_node(Scope& scope, const Item& node);
  bool read_symbolic(Scope& scope, const std::vector<Item>& outputs);
  Result<void> read_check(Scope& scope, const std::string& target, const Item& node);
  Result<void> read_region(Scope& scope, const std::string& target, const Item& node);
  // Conditions and loops: read_control_flow.cpp. A body becomes a subgraph, whose name comes back.
  static bool is_control_flow(std::string_view name);
  Result<void> read_control_flow(Scope& scope, const std::string& name, const Item& node);
  Result<std::string> read_body(const Item& named, const std::vector<ir::TensorMeta>& inputs,
                                std::vector<ir::TensorMeta>& outputs);
  Result<std::vector<ir::TensorMeta>> joined(const std::vector<ir::TensorMeta>& a,
                                             const std::vector<ir::TensorMeta>& b);
  Result<void> read_call(Scope& scope, const opset::Operator& op, const Item& node);
  Result<void> read_declared(Scope& scope, const opset::Operator& op, const Item& node);
  Result<void> read_effect(Scope& scope, const Item& node);
  Result<opset::Call> bound(Scope& scope, const opset::Operator& op, const opset::Operator& pure,
                            std::span<const Item> inputs);
  Result<ir::Type> promised_type(const Scope& scope, const Item& output);
  Result<ir::Argument> argument(Scope& scope, const Item& argument);
  Result<ir::Argument> tensor(Scope& scope, const Item& argument);
  Result<void> bind_results(Scope& scope, const std::vector<Item>& outputs, const ir::Node& node,
                            const std::function<View(size_t)>& view_of);
  Result<ir::Node*> append(opset::Call call, const std::vector<std::string>& names = {});
  Names names_with(std::set<std::string>& unknown) const;
  std::optional<std::string> unknown_symbol(const std::string& text) const;  // the only one in it
  Result<void> bind_number(Scope& scope, const Item& output, const ir::Value& value);
  ir::Node* add_node(const opset::Call& call, std::vector<ir::Graph::Result> results);
  Diagnostic at_node(Diagnostic diagnostic, const std::string& name) const;

  const opset::Opset& opset_;
  const CallStacks& call_stacks_;
  std::string file_name_;
  ir::ExportedProgram& program_;
  ir::EntryPoint& entry_;
  ir::Variant& variant_;
  shape::Facts facts_;
  Aliases aliases_;
  std::map<std::string, shape::Scalar> symbols_;  // what the archive's symbols are here
  std::map<std::string, shape::SymInt> derived_;  // dimensions of inputs, as "x[0]", that are symbols of their own
  std::set<std::string> tokens_;                  // what nodes with an effect yield to the next
  Scope scope_{.graph = Item::none()};
  Item ranges_ = Item::none();
  ir::Graph* graph_;  // that nodes are appended to: the variant's, or a body
  int unbacked_ = 0;
  int depth_ = 0;
  ir::CallStack stack_;  // of the node that is being read
};

// The nodes of a graph and of the graphs that they hold.
std::vector<Item> all_nodes(const Item& graph);

// The outputs of a node, lists flattened; what is None has no name. And the name of one.
std::vector<Item> flattened(const Item& outputs);
std::string name_of(const Item& output);

// `aten::add.Tensor` of `torch.ops.aten.add.Tensor`; "" of what is no operator.
std::string target_of(const std::string& text);

constexpr std::string_view higher_order = "torch.ops.higher_order.";
constexpr std::string_view decompose_first = "fix: before torch.export.save, program = program.run_decompositions()";
// A text of a node's metadata; "" where it has none.
std::string text_at(const Item& node, const char* key);

// In a node's inputs: this one is given by name.
constexpr int64_t as_keyword = 2;

// The operator of a target; null if it is in no set.
const opset::Operator* find_operator(const opset::Opset& opset, const std::string& target);

// Numbers: as_sym_int, as_sym_float, as_sym_bool.
bool is_symbolic(const std::string& kind);

// Headers for the operators of others that the graph, and those inside of it, use, as far as the archive tells
// (declare_operators.cpp). Operators of PyTorch's that are not in the sets, and what cannot be declared: one E0824.
Result<std::vector<std::string>> declarations(const Item& graph, const opset::Opset& opset,
                                              const CallStacks& call_stacks, const std::string& file_name);

}  // namespace atenon::pt2
