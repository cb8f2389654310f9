// What the passes over one variant share: the groups of nodes that become calls, and where values lie.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "lower/lower.h"
#include "lower/loops.h"
#include "opset/call.h"

namespace atenon::lower {

// Nodes that become one call.
struct Group {
  enum class Role { kernel, loops, alias };
  Role role = Role::loops;
  const kernels::Kernel* kernel = nullptr;  // role kernel
  std::vector<ir::Node*> nodes;             // in the order of the graph
  std::vector<std::pair<std::string, std::string>> refusals;

  std::vector<ir::Value*> operands;  // set by order_groups: what is read from outside, each once
  std::vector<ir::Value*> results;   // what is read outside
};

struct Lowering {
  const opset::Opset& opset;
  const Options& options;
  ir::ExportedProgram& program;
  ir::EntryPoint& entry;
  ir::Variant& variant;
  shape::Facts facts = {};
  shape::Bindings hints = {};

  std::map<const ir::Node*, opset::Meaning> meanings = {};
  std::map<const ir::Node*, Accesses> accesses = {};  // of nodes that have a meaning in loops
  std::vector<std::unique_ptr<Group>> groups = {};    // in an order in which they can run, once order_groups has run
  std::map<const ir::Node*, Group*> group_of = {};
  std::map<const ir::Value*, Layout> layouts = {};    // of values that lie in memory

  ir::Graph& graph() { return variant.graph; }
  Layout layout(const ir::Value& value) const;
  int64_t typical(const SymInt& x) const;  // at the hints; 64 for a symbol without one
};

// A graph that computes `nodes`: its inputs are `operands`, its outputs `results`, values named as in the program.
ir::Graph make_body(const std::vector<ir::Node*>& nodes, const std::vector<ir::Value*>& operands,
                    const std::vector<ir::Value*>& results);
// The same, with operands and results found from the uses: what comes from outside, and what is used there.
void find_boundary(const std::vector<ir::Node*>& nodes, std::vector<ir::Value*>& operands, std::vector<ir::Value*>& results);

// The meaning of a node of any graph in loops, or an error.
Result<opset::Meaning> loops_of(const opset::Opset& opset, const ir::Node& node, const shape::Facts& facts);

// Passes, in order. After each holds what its comment says.

// Every node is taken by a kernel or has a meaning in loops or in C++; the others were expanded. E0501 where that is not so.
Result<void> expand_composites(Lowering& lowering);
// Every node is in a group: one a node that a kernel wants, with the epilogue that it takes; loops that may share a kernel; views.
Result<void> group_nodes(Lowering& lowering);
// Groups can run in their order, and know their operands and results.
void order_groups(Lowering& lowering);
// Every value that lies in memory has a layout; views are aliases where strides can say them, else loops; a kernel is given nothing
// that it does not take.
Result<void> choose_layouts(Lowering& lowering);
// The graph consists of calls, each with its body.
Result<void> make_calls(Lowering& lowering);
// Weights lie as their kernels want them.
Result<void> prepack_weights(Lowering& lowering);
// Every result has a slot of the arena, or is an output or an alias.
void plan_arena(Lowering& lowering);

// Calls of kernel "llvm" in all variants have code.
Result<void> generate_code(ir::ExportedProgram& program, const opset::Opset& opset, const std::string& target);

// Kernels that take part in the choice before generated code: those that were written for one operator.
std::vector<const kernels::Kernel*> library_kernels();
// An annotation of a call as text, "" if absent.
std::string kernel_of(const ir::Node& call);
// The layout that a call's annotations give to result i.
Layout layout_of_result(const ir::Node& call, size_t i);

}  // namespace atenon::lower
