// See written_state.h.
#include "ir/written_state.h"

#include <algorithm>

namespace atenon::ir {

std::set<std::string> written_state(const GraphSignature& signature) {
  std::set<std::string> written;
  for (const OutputSpec& output : signature.outputs)
    if (updates_state(output.kind)) written.insert(output.target);
  return written;
}

std::set<std::string> written_state(const ExportedProgram& program) {
  std::set<std::string> written;
  for (const EntryPoint& entry : program.entries) written.merge(written_state(entry.signature));
  return written;
}

const Value* state_before(const GraphSignature& signature, const Graph& graph, size_t output) {
  const OutputSpec& written = signature.outputs[output];
  if (!updates_state(written.kind)) return nullptr;
  const Value* state = nullptr;
  for (const InputSpec& input : signature.inputs) {
    if (input.kind == InputKind::user_input || input.target != written.target || input.value.empty()) continue;
    if (state) return nullptr;
    state = graph.find(input.value);
  }
  return state;
}

bool is_written(const ExportedProgram& program, const std::string& name) {
  const auto writes = [&](const OutputSpec& output) { return updates_state(output.kind) && output.target == name; };
  return std::ranges::any_of(
      program.entries, [&](const EntryPoint& entry) { return std::ranges::any_of(entry.signature.outputs, writes); });
}

}  // namespace atenon::ir
