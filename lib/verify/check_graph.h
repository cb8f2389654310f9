// The checks of one graph: definitions before uses, schemas, inferred types. Private to lib/verify.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"
#include "text/text.h"

namespace atenon::verify {

// Where the problems of a program are gathered, and what every check may look at.
struct Findings {
  const ir::ExportedProgram& program;
  const opset::Opset& opset;
  const text::NodePlaces& places;
  std::vector<Diagnostic> problems = {};

  void add(int code, std::string message);
  void add(int code, std::string message, const ir::Node& node);  // with the node and its Python line
  void add(Diagnostic diagnostic, const ir::Node& node);
};

// Checks `graph`, one of `variant`, of which so much is known; `symbols` are those that the entry point declares. Gives
// these and those that the graph's numbers define.
std::set<std::string> check_graph(const ir::Graph& graph, const ir::Variant& variant, const shape::Facts& known,
                                  const std::set<std::string>& symbols, Findings& findings);

// E0123 for each that is not known.
void check_symbols(const std::set<std::string>& used, const std::set<std::string>& known, const std::string& where,
                   Findings& findings);

}  // namespace atenon::verify
