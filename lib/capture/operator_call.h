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

// What a call that is recorded gives; nullopt with a Python exception.
std::optional<opset::Inference> infer(Session& session, const opset::Call& call);
// Appends a node of these types: assumptions noted, with the user's stack. Null with a Python exception.
ir::Node* append(Session& session, const opset::Call& call, opset::Inference inference);

// A maker of named tuples for operators whose results have names (max.dim: values, indices); null for all others.
Ref named_results(Session& session, const opset::Operator& op);

}  // namespace atenon::capture
