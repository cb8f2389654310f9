#include "opset/versions.h"

#include <algorithm>

namespace atenon::opset {
namespace {

bool is_brought(const std::string& set, const Opset& opset) {
  const std::vector<std::string> names = opset.names();
  const auto first = std::lower_bound(names.begin(), names.end(), set + "::");
  if (first == names.end() || !first->starts_with(set + "::")) return false;
  const std::vector<const Operator*> operators = opset.overloads(*first);
  return !operators.empty() && operators[0]->brought_by() != nullptr;
}

}  // namespace

Result<void> check_versions(const ir::ExportedProgram& program, const Opset& opset) {
  for (const ir::OpsetUse& set : program.opsets) {
    if (set.version == newest_version || is_brought(set.name, opset)) continue;
    const std::string known = std::to_string(newest_version);
    Diagnostic unknown = error(Status::bad_input, 120,
                               "the program uses version " + std::to_string(set.version) + " of the operator set '" +
                                   set.name + "', and this atenon knows version " + known);
    if (set.version > newest_version) unknown.notes.push_back({"a newer atenon wrote it: install that one"});
    return unknown;
  }
  return {};
}

}  // namespace atenon::opset
