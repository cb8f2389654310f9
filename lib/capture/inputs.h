// Example inputs and dynamic dimensions: from the file's inputs() and dynamic_shapes(), and from --input.
#pragma once

#include "capture/capture.h"
#include "capture/session.h"

namespace atenon::capture {

// What forward is called with, and how it looks from outside.
struct Inputs {
  Ref args;      // tuple
  Ref keywords;  // dict
  ir::TreeSpec tree;
  std::vector<ir::InputSpec> specs;          // in the order of the tree's leaves
  std::vector<std::shared_ptr<Base>> bases;  // one a spec; null for constants
};

// `file` is the module of the user's file, `forward` what will be called. Declares symbols and adds the graph's inputs.
// Null with a Python exception.
std::optional<Inputs> make_inputs(Session& session, PyObject* file, PyObject* forward, const Options& options);

}  // namespace atenon::capture
