// Parts of a call of an operator that others of this folder use; the whole is Session::call.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// A call as it stands in a node: no trailing defaults, no words that have no meaning here (device, layout, memory
// format).
struct Spelling {
  std::vector<Argument> positional;
  std::vector<Named> keywords;
};
Spelling spell(const opset::Call& call);

// Appends a node: types inferred, assumptions noted, with the user's stack. Null with a Python exception.
ir::Node* append(Session& session, const opset::Call& call, std::vector<std::pair<bool, size_t>>* returns);

// A maker of named tuples for operators whose results have names (max.dim: values, indices); null for all others.
Ref named_results(Session& session, const opset::Operator& op);

}  // namespace atenon::capture
