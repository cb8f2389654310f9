// Views, aliases and updates in place as functions of values; see session.h for how aliases are kept.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// The result of a call that PyTorch answers with the tensor itself (contiguous() of what is contiguous, to(its own
// type), detach): an alias, without a node. Nullopt for all other calls.
std::optional<Ref> unchanged(Session& session, const opset::Call& call, PyObject* first);

// The state of result `index` of `node`, a view of `viewed`.
TensorState view_of(Session& session, TensorObject& viewed, const opset::Call& call, const ir::Node& node, int index);

}  // namespace atenon::capture
