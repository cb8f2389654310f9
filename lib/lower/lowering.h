// What the passes over one graph share, a variant's own or a body of its control flow: the groups of nodes that become
// calls, and where values lie.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "lower/loops.h"
#include "lower/lower.h"
#include "lower/target.h"
#include "opset/call.h"

namespace atenon::lower {

// Nodes that become one call.
struct Group {
  // `node` stays as it is: it yields numbers or sizes that only data decide, or runs subgraphs. The engine runs it by
  // its meaning, and allocates what comes after it when its sizes are known.
  enum class Role { kernel, loops, alias, node };
  Role role = Role::loops;
  const kernels::Kernel* kernel = nullptr;  // role kernel
  std::vector<ir::Node*> nodes;             // in the order of the graph
  std::vector<std::pair<std::string, std::string>> refusals;

  std::string code_key = {};  // set by compose_groups: which generated kernel, equal for equal loops

  std::vector<ir::Value*> operands;  // set by order_groups: what is read from outside, each once
  std::vector<ir::Value*> results;   // what is read outside
};

// The generated kernels of a program, each once.
struct KernelLibrary {
  struct Kernel {
    Loops loops;
    std::string symbol;  // of its code
    SymInt scratch = 0;  // bytes
    SymInt grain = 1;    // rows a tile
  };
  std::map<std::string, Kernel> kernels;  // by a text that says body and layouts
};

struct Lowering {
  const opset::Opset& opset;
  const Options& options;
  KernelLibrary& library;
  ir::ExportedProgram& program;
  ir::EntryPoint& entry;
  ir::Variant& variant;
  // Of a body of control flow, else null: the subgraph; the graph around it; the node that runs it, where no other node
  // runs one of its bodies.
  std::map<std::string, ir::Graph>::value_type* body = nullptr;
  Lowering* around = nullptr;
  ir::Node* runner = nullptr;
  shape::Facts facts = {};
  shape::Bindings hints = {};
  bool may_narrow = false;  // packed weights, to 16 bits that lose nothing

  std::vector<Group> chains = {};  // that a kernel takes as one: their composites were not expanded
  std::map<const ir::Node*, opset::Meaning> meanings = {};
  std::map<const ir::Node*, Accesses> accesses = {};  // of nodes that have a meaning in loops
  std::vector<std::unique_ptr<Group>> groups = {};    // in an order in which they can run, once order_groups has run
  std::map<const ir::Node*, Group*> group_of = {};
  std::map<const ir::Value*, Layout> layouts = {};  // of values that lie in memory

  ir::Graph& graph() { return body ? body->second : variant.graph; }
  std::string body_name() const { return body ? body->first : ""; }
  // What the runner hands the body for this input in every round: one of its operands; null for any other input.
  const ir::Value* handed(const ir::Value& input) const;
  Layout layout(const ir::Value& value) const;
  int64_t typical(const SymInt& x) const { return lower::typical(x, hints); }
};

// A graph that computes `nodes`: its inputs are `operands`, its outputs `results`, values named as in the program.
ir::Graph make_body(const std::vector<ir::Node*>& nodes, const std::vector<ir::Value*>& operands,
                    const std::vector<ir::Value*>& results);
// The same, with operands and results found from the uses: what comes from outside, and what is used there.
void find_boundary(const std::vector<ir::Node*>& nodes, std::vector<ir::Value*>& operands,
                   std::vector<ir::Value*>& results);

// The meaning of a node of any graph in loops, or an error.
Result<opset::Meaning> loops_of(const opset::Opset& opset, const ir::Node& node, const shape::Facts& facts);

// Whether the node is no call, but stays itself.
bool stays(const ir::Node& node);
using Positions = std::map<const ir::Node*, size_t>;
// The number of nodes before this one that stay: symbols have no edges, so no group reaches across such a node.
Positions find_segments(ir::Graph& graph);
// Whether the meaning is the operand in another type: complex numbers as pairs of parts, or such pairs as complex
// numbers.
bool reinterprets(const Lowering& lowering, const ir::Node& node);
// The next node that reads what `nodes` give; null where there is none, or the graph returns one of their results.
ir::Node* next_reader(const std::vector<ir::Node*>& nodes, const Positions& positions);
// Each random operator with the one that draws next: what takes numbers of one generator keeps its order, whatever it
// reads.
std::map<const ir::Node*, const ir::Node*> find_next_draws(const opset::Opset& opset, ir::Graph& graph);

// Passes, in order. After each holds what its comment says.

// Every node is taken by a kernel or has a meaning in loops or in C++; the others were expanded.
Result<void> expand_composites(Lowering& lowering);
// Lets operators on 16-bit floats be f32 ones between casts where a kernel takes those; yes: the node was replaced.
// `copies` are the f32 copies of operands that nodes behind this one may read, too.
Result<bool> widen(Lowering& lowering, ir::Node& node, std::map<ir::Value*, ir::Value*>& copies);
// Every node is in a group: one a node that a kernel wants, with the epilogue that it takes; loops that may share a
// kernel; views.
void group_nodes(Lowering& lowering);
// Groups can run in their order, and know their operands and results.
void order_groups(Lowering& lowering);
// Every value that lies in memory has a layout; views are aliases where strides can say them, else loops; a kernel is
// given nothing that it does not take.
Result<void> choose_layouts(Lowering& lowering);
// Every group of loops has its kernel in the library, not yet compiled; groups that cannot be one kernel were taken
// apart. Yes: some were, so that order and layouts must be found again.
Result<bool> compose_groups(Lowering& lowering);
// The kernels of the library that calls name have code, which the program carries as one segment; the others are gone.
Result<void> compile_library(KernelLibrary& library, ir::ExportedProgram& program, const Target& target);
// The graph consists of calls, each with its body.
void make_calls(Lowering& lowering);
// Calls of generated code say which operands are indices, and how far these reach.
void find_indices(Lowering& lowering);
// Convolutions that are expected to be faster by Winograd's algorithm are computed by it, and say their errors.
void choose_winograd(Lowering& lowering);
// Whether a run reads so few bytes of weights that they stay in the caches, where 16 bits take longer.
bool fits_caches(const Lowering& lowering);
// Weights lie as their kernels want them.
Result<void> prepack_weights(Lowering& lowering);
// No weight is left that nobody reads, and no bytes of one that only the meanings of calls read.
void drop_unread_weights(ir::ExportedProgram& program);
// Weights that lie otherwise than in rows or in a kernel's layout, such as folded permutations, are stored in rows: a
// run would copy them at each start, and keep both. Those that rows make larger (expanded ones) stay.
void store_in_rows(ir::ExportedProgram& program);
// Calls of generated kernels say where their code is; compile_library has run.
void annotate_kernels(ir::Graph& graph, const KernelLibrary& library);
// Every result has a slot of the arena, or is an output or an alias.
void plan_arena(Lowering& lowering);

// Kernels that take part in the choice before generated code: those that were written for one operator.
std::vector<const kernels::Kernel*> library_kernels();
// Whether one of them takes this body.
bool is_taken(const ir::Graph& body);
// The key of the generated kernel for a body whose operands, then results, lie so; added to the library where it is
// new. Refuses as compose() does.
Result<std::string> generated_kernel(Lowering& lowering, ir::Graph body, const std::vector<Layout>& layouts);
// A call at the sizes of the hints; operands that are weights of the program say so.
kernels::CallSite site_of(const Lowering& lowering, const ir::Node& call);
// The weight that an input of the graph is, if no call changes it; else null.
const ir::Weight* constant_weight(const Lowering& lowering, const ir::Value& value);
// The graph's input that is the weight `made`, which was made from the weight that `from` is; added where there is
// none, and handed to a body by what is around it.
ir::Value* input_made_from(Lowering& lowering, const ir::Value& from, const ir::Weight& made,
                           const std::string& suffix);
// The layout that a call's annotations give to result i.
Layout layout_of_result(const ir::Node& call, size_t i);

}  // namespace atenon::lower
