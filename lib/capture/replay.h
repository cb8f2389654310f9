// Runs a program inside Python by calling its operators one by one: on real tensors it computes, on traced ones it
// records the same nodes again, with the call stacks that they had.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// `leaves` are the user inputs in the signature's order, `state` a dict of everything else by name. Gives all outputs
// in the signature's order, mutations first. Inputs that the program does not take are E0330; null with a Python
// exception. `program` has one entry point with one variant.
Ref replay(Session& session, const ir::ExportedProgram& program, PyObject* leaves, PyObject* state);

// Whether it can run on these: false with an exception where their types or sizes are not the program's.
bool takes(Session& session, const ir::ExportedProgram& program, PyObject* leaves, PyObject* state);

}  // namespace atenon::capture
