// A graph of ours as the JSON of torch.export's schema. Private to lib/pt2.
//
// Types become tables beside the nodes. An argument that is an expression of sizes is the result of a node there, so
// such nodes are made where they are first needed: sym_size of an input or of a result, and arithmetic.
#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/control_flow.h"
#include "opset/call.h"
#include "pt2/expression.h"
#include "shape/facts.h"

namespace atenon::pt2 {

using OutputJson = nlohmann::ordered_json;

class GraphWriter {
 public:
  GraphWriter(const ir::ExportedProgram& program, const ir::EntryPoint& entry, const opset::Opset& opset);

  // E0826 for what the schema, or PyTorch, cannot say.
  Result<OutputJson> graph();
  OutputJson range_constraints() const;
  OutputJson signature() const;
  OutputJson guards() const;  // the assumptions, as Python over the inputs

 private:
  Result<OutputJson> nodes_and_outputs(const ir::Graph& graph, const OutputJson& inputs);
  Result<void> write_node(const ir::Node& node);
  Result<void> write_control_flow(const ir::Node& node, const ir::ControlFlow& flow);
  Result<OutputJson> body(const std::string& name, bool is_predicate);
  Result<void> write_result(const ir::Value& result, OutputJson& outputs);
  void note_sizes(const ir::Value& value);
  Result<OutputJson> argument(const ir::Argument& argument, const opset::Parameter& parameter);
  Result<OutputJson> list(const ir::ArgumentList& items, const opset::Parameter& parameter);
  // Numbers as nodes: number_nodes.cpp. An argument is {as_sym_int: {as_name}}, or a constant: {as_int}.
  Result<OutputJson> number_argument(const shape::Scalar& number);
  Result<std::string> name_of_number(const shape::Scalar& number);
  Result<std::string> name_of_sum(const ir::SymInt& size);
  Result<std::string> name_of_atom(const shape::Atom& atom);
  Result<std::string> name_of_float(const shape::SymFloat& value);
  Result<std::string> name_of_truth(const shape::SymBool& value);
  Result<std::string> add_number(const std::string& target, const std::vector<shape::Scalar>& operands,
                                 const shape::Scalar& value);
  Result<std::string> add_number_node(const std::string& target, const OutputJson& inputs, const shape::Scalar& value);
  Result<OutputJson> sym_number(const shape::Scalar& number) const;
  OutputJson found_number(const ir::Value& result);
  Result<void> write_asserts(std::vector<ir::Constraint>& open);  // those whose numbers are known now
  bool is_of_found(const shape::SymBool& truth) const;
  void add_node(const std::string& target, OutputJson inputs, OutputJson outputs, OutputJson metadata,
                const std::string& name);
  Result<OutputJson> tensor_meta(const ir::TensorMeta& meta) const;
  Result<OutputJson> sym_int(const ir::SymInt& value) const;
  OutputJson metadata(ir::ProvenanceId provenance) const;
  std::string name_of(const ir::Value& value);
  std::string fresh_name(const std::string& stem);

  const ir::ExportedProgram& program_;
  const ir::EntryPoint& entry_;
  const ir::Variant& variant_;
  const opset::Opset& opset_;
  shape::Substitution renamed_;  // our symbols, as PyTorch calls them: s0 of inputs, u0 of nodes
  shape::Facts facts_;           // of our symbols
  shape::Bindings hints_;        // of renamed symbols of inputs
  SymbolTraits traits_;
  std::map<const ir::Value*, std::string> value_names_;
  // Of the graph that is written: the program's, or a branch or body.
  struct Tables {
    std::map<std::string, std::string> number_names;                     // by spelling of the expression
    std::map<std::string, std::pair<const ir::Value*, size_t>> sources;  // where a symbol is a size of
    std::set<std::string> taken;
    OutputJson nodes = OutputJson::array(), tensors = OutputJson::object();
    std::array<OutputJson, 3> numbers = {OutputJson::object(), OutputJson::object(),
                                         OutputJson::object()};  // int, float, bool
  };
  Tables tables_;
  OutputJson outputs_;  // of the program, as written
};

constexpr int positional = 1;                     // a kind of argument
Diagnostic unsupported(const std::string& what);  // E0826
OutputJson tensor_argument(const std::string& name);

// The first of each kind of thing that a writer must say in two places.
std::string graph_input_name(const ir::InputSpec& spec);
OutputJson constant_value(const ir::Argument& constant);

}  // namespace atenon::pt2
