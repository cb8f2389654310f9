// The forms other than text: private to lib/show.
#pragma once

#include "show/show.h"

namespace atenon::show {

// A graph of a variant with its name in messages and headings: `forward`, `forward/small`, `forward/small@body`.
struct NamedGraph {
  std::string name;
  const ir::Graph* graph = nullptr;
  const ir::EntryPoint* entry = nullptr;  // null: a subgraph
};
// Of the entry points that `options` chooses, in order.
std::vector<NamedGraph> graphs_of(const ir::ExportedProgram& program, const Options& options);

std::string to_json(const ir::ExportedProgram& program, const Options& options);
std::string to_dot(const ir::ExportedProgram& program, const Options& options);
std::string to_html(const ir::ExportedProgram& program, const Options& options);

// Tables in columns.
std::string weight_table(const ir::ExportedProgram& program);
std::string code_table(const ir::ExportedProgram& program);

// What is assumed of a dimension (Options::why), and who relied on it.
Result<std::string> explain_dimension(const ir::ExportedProgram& program, const Options& options);

// "net.py:12", or "" where it is not known.
std::string place_of(const ir::ExportedProgram& program, const ir::Node& node);
std::string human_bytes(size_t bytes);                      // 1.2 MB
size_t distinct_bytes(const ir::ExportedProgram& program);  // of the weights, each storage once

}  // namespace atenon::show
