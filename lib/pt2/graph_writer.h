// A graph of ours as the JSON of torch.export's schema. Private to lib/pt2.
//
// Types become tables beside the nodes. An argument that is an expression of sizes is the result of a node there, so
// such nodes are made where they are first needed: sym_size of an input or of a result, and arithmetic.
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "ir/control_flow.h"
#include "opset/call.h"
#include "pt2/expression.h"

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
  Result<OutputJson> size_argument(const ir::SymInt& size);  // {as_int} or {as_name}
  Result<std::string> name_of_size(const ir::SymInt& size);
  Result<std::string> name_of_atom(const shape::Atom& atom);
  std::string add_arithmetic(const std::string& target, const OutputJson& a, const OutputJson& b,
                             const ir::SymInt& value);
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
  shape::Bindings hints_;        // of renamed symbols of inputs
  SymbolTraits traits_;
  std::map<const ir::Value*, std::string> value_names_;
  // Of the graph that is written: the program's, or a branch or body.
  struct Tables {
    std::map<std::string, std::string> size_names;                       // by spelling of the expression
    std::map<std::string, std::pair<const ir::Value*, size_t>> sources;  // where a symbol is a size of
    std::set<std::string> taken;
    OutputJson nodes = OutputJson::array(), tensors = OutputJson::object(), sizes = OutputJson::object();
  };
  Tables tables_;
};

// The first of each kind of thing that a writer must say in two places.
std::string graph_input_name(const ir::InputSpec& spec);
OutputJson constant_value(const ir::Argument& constant);

}  // namespace atenon::pt2
