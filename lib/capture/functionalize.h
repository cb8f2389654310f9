// Views, aliases and updates in place as functions of values; see session.h for how aliases are kept.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// The result of a call that PyTorch answers with the tensor itself (contiguous() of what is contiguous, to(its own
// type), as_strided as it lies, detach): an alias, without a node. Nullopt for all other calls; none with a Python
// exception.
std::optional<Ref> unchanged(Session& session, const opset::Call& call, PyObject* first);

// What no meaning says, since it is about the memory of a real tensor: contiguous() is a copy where that does not lie
// in rows, and as_strided walks it. Nullopt for all other calls, and where it leads outside.
std::optional<Tensor> seen_in_memory(const opset::Call& call, const reference::Environment& environment);

// What the results of `node` are, one a result (nothing for a number): the call's first argument or a view of it (of an
// item each, where that is a list), where `call` gives that, or tensors of their own. Nullopt with a Python exception.
std::optional<std::vector<TensorState>> states_of_results(Session& session, PyObject* argument, const opset::Call& call,
                                                          const ir::Node& node);

}  // namespace atenon::capture
