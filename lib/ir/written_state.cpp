// See written_state.h.
#include "ir/written_state.h"

namespace atenon::ir {

std::set<std::string> written_state(const EntryPoint& entry) {
  std::set<std::string> written;
  for (const OutputSpec& output : entry.signature.outputs)
    if (updates_state(output.kind)) written.insert(output.target);
  return written;
}

std::set<std::string> written_state(const ExportedProgram& program) {
  std::set<std::string> written;
  for (const EntryPoint& entry : program.entries) written.merge(written_state(entry));
  return written;
}

}  // namespace atenon::ir
