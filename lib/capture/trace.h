// One capture: a model is called once with traced inputs, and what it does becomes a program.
#pragma once

#include "capture/capture.h"
#include "capture/inputs.h"
#include "capture/session.h"

namespace atenon::capture {

struct Traced {
  ir::ExportedProgram program;
  Ref result;  // what forward gave: its structure counts, its tensors are no longer of use
};

// `model` is a module, a function or a method. Nothing with a Python exception. The capture before is forgotten.
std::optional<Traced> trace(Session& session, PyObject* model, const Example& example, const Options& options,
                            Report& report);

}  // namespace atenon::capture
