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

// What a capture starts from.
struct Example {
  Ref args;                  // tuple; null where --input alone says what goes in
  Ref keywords;              // dict
  Ref dynamic_shapes;        // as torch.export.export takes it; null or None for none
  std::string misused = {};  // "of type tuple": what the file calls inputs, and is no function
  // Of another capture in the middle of one, for some of the sizes that the first is for:
  size_t depth = 0;                        // how many it is in the middle of
  shape::Bindings sizes = {};              // of dynamic dimensions, in the place of the arguments'
  std::vector<shape::SymBool> known = {};  // of dynamic dimensions
};

// The inputs() and dynamic_shapes() of a model file; nothing with a Python exception.
std::optional<Example> example_of_file(PyObject* file);

// Declares symbols and adds the graph's inputs for a call of `model`, a module or function. Nothing with a Python
// exception.
std::optional<Inputs> make_inputs(Session& session, const Example& example, PyObject* model, const Options& options);

}  // namespace atenon::capture
