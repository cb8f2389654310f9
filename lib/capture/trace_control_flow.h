// Conditions and loops of the user's: functions recorded as subgraphs, and the nodes that run them.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// trace_subgraph(function, examples, whole, given): calls `function` with a new input for each example (a tensor or
// number; behind the first `whole` ones, for a slice of it along axis 0), records what it does, and gives the number of
// the subgraph. The function returns a list of tensors and numbers. `given` holds whenever it runs: a SymBool, the
// number of a loop's condition, or None.
PyObject* trace_subgraph(Session& session, PyObject* function, PyObject* examples, Py_ssize_t whole, PyObject* given);

// control_flow(kind, condition, subgraphs, names, carried, xs): the node over subgraphs that trace_subgraph gave; a
// list of its results. What the subgraphs read from outside becomes its operands.
PyObject* control_flow(Session& session, PyObject* const* args, size_t count);

}  // namespace atenon::capture
