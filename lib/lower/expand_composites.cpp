// Decomposes what no kernel takes, level by level, and finds the loops of what is left.
#include "ir/control_flow.h"
#include "kernels/kernel.h"
#include "lower/lowering.h"

namespace atenon::lower {

namespace {

// Whether a library kernel takes the node alone.
bool has_kernel(const ir::Node& node) {
  std::vector<ir::Node*> nodes = {const_cast<ir::Node*>(&node)};
  std::vector<ir::Value*> operands, results;
  find_boundary(nodes, operands, results);
  return !results.empty() && is_taken(make_body(nodes, operands, results));
}

// Numbers are read by their symbols, so that operands are tensors.
void read_by_symbol(ir::Graph& graph, ir::Value& number) {
  const ir::SymInt symbol = ir::SymInt::symbol(number.name);
  const auto kind = std::get<ir::ScalarKind>(number.type);
  const ir::Argument spelled = kind == ir::ScalarKind::integer    ? ir::Argument(symbol)
                               : kind == ir::ScalarKind::floating ? ir::Argument(ir::SymFloat::number(symbol))
                                                                  : ir::Argument(shape::not_equal(symbol, 0));
  graph.replace_uses(&number, spelled);
}

// The longest chain from `first` on that the kernel takes, and of which only the end is read; empty if none.
std::vector<ir::Node*> find_chain(ir::Node& first, const kernels::Kernel& kernel, const Positions& segments,
                                  const Positions& positions) {
  constexpr size_t longest = 12;
  std::vector<ir::Node*> nodes = {&first}, taken;
  while (nodes.size() < longest) {
    ir::Node* next = next_reader(nodes, positions);
    if (!next || stays(*next) || segments.at(next) != segments.at(&first)) break;
    nodes.push_back(next);
    std::vector<ir::Value*> operands, results;
    find_boundary(nodes, operands, results);
    if (results.size() == 1 && kernels::objection(kernel, make_body(nodes, operands, results)).empty()) taken = nodes;
  }
  return taken;
}

void take_chains(Lowering& lowering) {
  const Positions segments = find_segments(lowering.graph());
  Positions positions;
  for (const ir::Node& node : lowering.graph().forward()) positions.emplace(&node, positions.size());
  std::set<const ir::Node*> taken;
  for (ir::Node& node : lowering.graph().forward())
    for (const kernels::Kernel* kernel : library_kernels()) {
      if (taken.contains(&node) || !kernel->may_begin(node)) continue;
      std::vector<ir::Node*> nodes = find_chain(node, *kernel, segments, positions);
      if (std::any_of(nodes.begin(), nodes.end(), [&](const ir::Node* other) { return taken.contains(other); }))
        continue;
      taken.insert(nodes.begin(), nodes.end());
      if (!nodes.empty())
        lowering.chains.push_back({.role = Group::Role::kernel, .kernel = kernel, .nodes = std::move(nodes)});
    }
}

}  // namespace

ir::Node* next_reader(const std::vector<ir::Node*>& nodes, const Positions& positions) {
  ir::Node* next = nullptr;
  for (const ir::Node* node : nodes)
    for (const auto& result : node->results()) {
      if (result->returned > 0) return nullptr;
      for (ir::Node* user : result->users)
        if (std::find(nodes.begin(), nodes.end(), user) == nodes.end() &&
            (!next || positions.at(user) < positions.at(next)))
          next = user;
    }
  return next;
}

bool stays(const ir::Node& node) { return ir::is_control_flow(node.target()) || !ir::symbols_defined(node).empty(); }

// An unread draw moves the draws behind it.
static bool is_dead(const Lowering& lowering, const ir::Node& node) {
  return !node.has_users() && !node.results().empty() && !stays(node) && !lowering.opset.has_tag(node, "random");
}

std::vector<const kernels::Kernel*> library_kernels() {
  std::vector<const kernels::Kernel*> found;
  for (const kernels::Kernel* kernel : kernels::all()) {
    const std::string name = kernel->name();
    if (name != "llvm" && name != "reference") found.push_back(kernel);
  }
  return found;
}

bool is_taken(const ir::Graph& body) {
  const std::vector<const kernels::Kernel*> known = library_kernels();
  return std::any_of(known.begin(), known.end(),
                     [&](const kernels::Kernel* kernel) { return kernels::objection(*kernel, body).empty(); });
}

Result<opset::Meaning> loops_of(const opset::Opset& opset, const ir::Node& node, const shape::Facts& facts) {
  Result<opset::Call> call = opset::bind(opset, node);
  if (!call) return call.error();
  return opset::meaning(opset, *call, facts);
}

// What an expansion relies on, and the sizes that it makes, are the program's from now on.
static void adopt(Lowering& lowering, opset::Expansion& expansion) {
  std::vector<ir::Constraint>& assumptions =
      lowering.body ? lowering.graph().assumptions : lowering.variant.assumptions;
  for (ir::Constraint& assumption : expansion.assumptions)
    if (lowering.facts.decide(assumption.truth) != shape::Truth::proven) assumptions.push_back(assumption);
  for (ir::Symbol& symbol : expansion.unbacked) {
    lowering.facts.declare(symbol.name, symbol.range);
    lowering.entry.symbols.push_back(std::move(symbol));
  }
}

// Erases the node where nobody reads it, widens it, or puts what it is made of in its place; no where it stays as it
// is. `has_loops`: its meaning is loops.
static Result<bool> expand(Lowering& lowering, ir::Node& node, std::map<ir::Value*, ir::Value*>& wide_copies,
                           bool& has_loops) {
  ir::Graph& graph = lowering.graph();
  if (ir::is_control_flow(node.target())) return false;
  if (is_dead(lowering, node)) {
    graph.erase(node);
    return true;
  }
  Result<bool> is_widened = widen(lowering, node, wide_copies);
  if (!is_widened || *is_widened) return is_widened;
  Result<opset::Call> call = opset::bind(lowering.opset, node);
  if (!call) return call.error();
  Result<opset::MeaningKind> kind = opset::meaning_kind(lowering.opset, *call, lowering.facts);
  if (!kind) return kind.error();
  has_loops = *kind == opset::MeaningKind::loops && !stays(node);
  if (*kind != opset::MeaningKind::decomposition || has_kernel(node)) return false;
  Result<opset::Expansion> expansion =
      opset::expand(lowering.opset, *call, lowering.facts, graph, &node,
                    lowering.program.provenance.derive(node.provenance, node.target()), true);
  if (!expansion) return expansion.error();
  adopt(lowering, *expansion);
  graph.replace(node, expansion->results);
  return true;
}

Result<void> expand_composites(Lowering& lowering) {
  ir::Graph& graph = lowering.graph();
  for (const auto& input : graph.inputs())
    if (!input->is_tensor()) read_by_symbol(graph, *input);
  for (const ir::Node& node : graph.forward())
    for (const auto& result : node.results())
      if (!result->is_tensor()) read_by_symbol(graph, *result);
  if (lowering.options.fuse) take_chains(lowering);
  std::set<const ir::Node*> settled;
  for (const Group& chain : lowering.chains) settled.insert(chain.nodes.begin(), chain.nodes.end());
  std::vector<ir::Node*> with_loops;
  for (bool changed = true; changed;) {
    changed = false;
    std::map<ir::Value*, ir::Value*> wide_copies;
    for (ir::Node& node : graph.forward()) {
      if (settled.count(&node)) continue;
      bool has_loops = false;
      Result<bool> is_expanded = expand(lowering, node, wide_copies, has_loops);
      if (!is_expanded) return is_expanded.error();
      changed |= *is_expanded;
      if (*is_expanded) continue;
      settled.insert(&node);
      if (has_loops) with_loops.push_back(&node);
    }
  }
  // Meanings name the values that they read, so they are taken when no more of these are replaced.
  for (ir::Node* node : with_loops) {
    Result<opset::Meaning> meaning = loops_of(lowering.opset, *node, lowering.facts);
    if (!meaning) return meaning.error();
    Accesses accesses = accesses_of(*meaning, lowering.facts);
    if (accesses.refusal.empty()) {
      lowering.meanings[node] = std::move(*meaning);
      lowering.accesses[node] = std::move(accesses);
    } else {
      lowering.accesses[node].refusal = accesses.refusal;
    }
  }
  // What an expansion has left unused, readers after producers.
  for (ir::Node& node : graph.backward())
    if (is_dead(lowering, node)) graph.erase(node);
  return {};
}

}  // namespace atenon::lower
