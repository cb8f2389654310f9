// Decomposes what no kernel takes, level by level, and finds the loops of what is left.
#include "kernels/kernel.h"
#include "lower/lowering.h"
#include "text/text.h"

namespace atenon::lower {

namespace {

// The first library kernel that takes the node alone.
const kernels::Kernel* find_kernel(const ir::Node& node) {
  std::vector<ir::Node*> nodes = {const_cast<ir::Node*>(&node)};
  std::vector<ir::Value*> operands, results;
  find_boundary(nodes, operands, results);
  if (results.empty()) return nullptr;
  const ir::Graph body = make_body(nodes, operands, results);
  for (const kernels::Kernel* kernel : library_kernels())
    if (kernel->refusal(body).empty()) return kernel;
  return nullptr;
}

Diagnostic no_kernel(const Lowering& lowering, const ir::Node& node, const std::string& why) {
  Diagnostic diagnostic = error(Status::unsupported, 501, "nothing runs " + node.target() + ": " + why);
  diagnostic.notes.push_back({text::print(node)});
  for (Note& note : text::provenance_notes(lowering.program, node)) diagnostic.notes.push_back(std::move(note));
  return diagnostic;
}

}  // namespace

std::vector<const kernels::Kernel*> library_kernels() {
  std::vector<const kernels::Kernel*> found;
  for (const kernels::Kernel* kernel : kernels::all()) {
    const std::string name = kernel->name();
    if (name != "llvm" && name != "reference") found.push_back(kernel);
  }
  return found;
}

Result<opset::Meaning> loops_of(const opset::Opset& opset, const ir::Node& node, const shape::Facts& facts) {
  Result<opset::Call> call = opset::bind(opset, node);
  if (!call) return call.error();
  return opset::meaning(opset, *call, facts);
}

Result<void> expand_composites(Lowering& lowering) {
  ir::Graph& graph = lowering.graph();
  std::set<const ir::Node*> settled;
  std::vector<ir::Node*> with_loops;
  for (bool changed = true; changed;) {
    changed = false;
    for (ir::Node& node : graph.forward()) {
      if (settled.count(&node)) continue;
      for (const auto& result : node.results())
        if (!result->is_tensor())
          return no_kernel(lowering, node, "it yields a number, which only the interpreter computes so far");
      if (!node.has_users() && !node.results().empty()) {
        graph.erase(node);
        changed = true;
        continue;
      }
      Result<opset::Call> call = opset::bind(lowering.opset, node);
      if (!call) return call.error();
      Result<opset::MeaningKind> kind = opset::meaning_kind(lowering.opset, *call, lowering.facts);
      if (!kind) return kind.error();
      if (*kind == opset::MeaningKind::decomposition && find_kernel(node)) {
        settled.insert(&node);
        continue;
      }
      if (*kind == opset::MeaningKind::decomposition) {
        Result<opset::Expansion> expansion =
            opset::expand(lowering.opset, *call, lowering.facts, graph, &node,
                          lowering.program.provenance.derive(node.provenance, node.target()));
        if (!expansion) return expansion.error();
        for (size_t i = 0; i < node.results().size(); ++i) graph.replace_uses(node.result(i), expansion->results[i]);
        for (ir::Constraint& assumption : expansion->assumptions)
          if (lowering.facts.decide(assumption.truth) != shape::Truth::proven)
            lowering.variant.assumptions.push_back(assumption);
        graph.erase(node);
        changed = true;
        continue;
      }
      settled.insert(&node);
      if (*kind == opset::MeaningKind::loops) with_loops.push_back(&node);
    }
  }
  // Meanings name the values that they read, so they are taken when no more of these are replaced.
  for (ir::Node* node : with_loops) {
    Result<opset::Call> call = opset::bind(lowering.opset, *node);
    if (!call) return call.error();
    Result<opset::Meaning> meaning = opset::meaning(lowering.opset, *call, lowering.facts);
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
    if (!node.has_users() && !node.results().empty()) graph.erase(node);
  return {};
}

}  // namespace atenon::lower
