// What vmap needs to know of a function that was recorded on one example. The rules of batching are torch/_batching.py.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// describe_subgraph(number, rules): a subgraph of trace_subgraph as (names of its own inputs, {name: tensor or number
// from outside}, nodes, outputs). A node is (operator, is elementwise, is random, [(name, rank, dtype)], arguments,
// keywords, provenance); a value in arguments and outputs is a tuple of its name. Nodes that depend on the function's
// own inputs and whose operator is not in the frozenset `rules` are replaced by what they decompose into.
PyObject* describe_subgraph(Session& session, PyObject* args);

// record_at(provenance, function): calls it; what it records comes from that call stack.
PyObject* record_at(Session& session, PyObject* args);

}  // namespace atenon::capture
