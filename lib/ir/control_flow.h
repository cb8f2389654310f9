// Nodes whose operator runs subgraphs of their variant.
//
//   higher_order::cond(condition, @then, @else, [operands])                    both take the operands
//   higher_order::while_loop(@condition, @body, [carried], [operands])        both take the carried values and operands
//   higher_order::map(@body, [xs], [operands])                                takes a slice of each x
//   higher_order::scan(@body, [carried], [xs], [operands])                    gives carried values, then slices
//   higher_order::associative_scan(@body, [xs], [operands])                   takes two slices of each x
//
// Slices are along axis 0. Everything that a subgraph reads from outside is among its operands, except for symbols,
// which have one scope in the whole entry point. Carried values keep their types.
#pragma once

#include <optional>

#include "ir/program.h"

namespace atenon::ir {

struct ControlFlow {
  enum class Kind { cond, while_loop, map, scan, associative_scan };
  Kind kind = Kind::cond;
  Argument condition = None{};      // of cond: a Value or a SymBool
  std::vector<std::string> bodies;  // names of subgraphs: two for cond and while_loop
  ArgumentList carried, xs, operands;
  size_t results = 0;  // of the node
};

// Nullopt for any other node, and for one that is not built as above.
std::optional<ControlFlow> control_flow(const Node& node);
std::optional<ControlFlow::Kind> control_flow_kind(const std::string& target);
// The input of a body that operand i is: operands come last. Null where the body has fewer inputs.
Value* input_of_operand(const ControlFlow& flow, const Graph& body, size_t i);
// The node must be control flow.
void set_operands(Node& node, ArgumentList operands);
inline bool is_control_flow(const std::string& target) { return control_flow_kind(target).has_value(); }

// A variant's own graph, and its subgraphs; those of all variants.
std::vector<Graph*> graphs_of(Variant& variant);
std::vector<Graph*> graphs_of(ExportedProgram& program);

}  // namespace atenon::ir
