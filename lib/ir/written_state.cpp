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

bool is_written(const ExportedProgram& program, const std::string& name) {
  const auto writes = [&](const OutputSpec& output) { return updates_state(output.kind) && output.target == name; };
  return std::ranges::any_of(
      program.entries, [&](const EntryPoint& entry) { return std::ranges::any_of(entry.signature.outputs, writes); });
}

}  // namespace atenon::ir
