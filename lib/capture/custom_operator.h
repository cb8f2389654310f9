// Operators that the user declares by torch.library: one node each, of the types that their fake function gives.
#pragma once

#include "capture/convert.h"
#include "opset/call.h"

namespace atenon::capture {

// Where what an operator updates in place goes.
enum class Updates {
  to_arguments,  // as Python calls it
  to_results,    // as a node of a graph: arguments stay, and what they would hold are further results
};

// A call of an operator that is only declared. Before forward the user's kernel runs; while forward runs, its fake
// function, aside, and a node is recorded. `arguments` are those that `call` was bound from. Null with a Python
// exception.
PyObject* call_declared(Session& session, const opset::Call& call, const Arguments& arguments, Updates updates);

}  // namespace atenon::capture
