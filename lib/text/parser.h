// The parser of the text form: private to lib/text. Recursive descent over Lexer, whose first error ends everything.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"
#include "text/text.h"
#include "text/tokens.h"

namespace atenon::text {

class Parser {
 public:
  Parser(std::string_view source, const std::string& file_name, NodePlaces* places)
      : lexer_(source, file_name), places_(places) {}

  Result<ir::ExportedProgram> parse_program();

 private:
  // parse_program.cpp: everything around graphs.
  void parse_header();
  void parse_custom_block();
  void parse_entry();
  void parse_symbol(ir::EntryPoint& entry);
  void parse_input_spec(ir::GraphSignature& signature);
  void parse_output_spec(ir::GraphSignature& signature);
  ir::TreeSpec parse_tree(int depth);
  ir::Variant& open_variant(ir::EntryPoint& entry);
  ir::Constraint parse_constraint();
  void parse_subgraph(ir::Variant& variant);
  void parse_stack();
  void parse_code(bool is_library);
  void parse_extra_file();
  void parse_history();
  void check_provenance();

  // parse_graph.cpp: graphs, types and arguments.
  ir::Graph parse_graph(bool is_subgraph);
  void parse_node(ir::Graph& graph);
  std::vector<ir::Graph::Result> parse_typed_values(const ir::Graph& graph, std::string_view stop);
  ir::Type parse_type();
  ScalarType parse_scalar_type();
  std::vector<ir::SymInt> parse_sizes();
  ir::SymInt parse_size();
  // `graph` gives the values; null where values are not allowed.
  ir::Argument parse_argument(const ir::Graph* graph, int depth);
  ir::Argument parse_expression();
  std::vector<ir::Argument> parse_arguments(const ir::Graph* graph, std::vector<ir::Named>* keywords);
  std::vector<ir::Named> parse_annotations();
  ir::ProvenanceId parse_provenance();

  // parse_weights.cpp: weights and their bytes.
  void parse_weight();
  void parse_storage();
  std::shared_ptr<Storage> parse_bytes(const ScalarType* dtype, const Token& where);
  std::shared_ptr<Storage> parse_elements(ScalarType dtype);
  std::shared_ptr<Storage> parse_digest();
  std::optional<ir::BlockedLayout> parse_layout();

  void check_unique(bool is_new, const std::string& what, const Token& where);

  Lexer lexer_;
  NodePlaces* places_;  // null where nobody asks
  ir::ExportedProgram program_;
  std::map<std::string, std::shared_ptr<Storage>, std::less<>> storages_;  // by number
  std::map<ir::ProvenanceId, Token> provenance_uses_;                      // the first use of each
};

}  // namespace atenon::text
