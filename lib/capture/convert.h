// Python values as arguments of operators.
#pragma once

#include <deque>

#include "capture/session.h"
#include "reference/reference.h"

namespace atenon::capture {

// Arguments of one call. While tracing, tensors become Values of the graph; otherwise Values made up for this call,
// whose data is in `environment`.
class Arguments {
 public:
  explicit Arguments(Session& session) : session_(session) {}

  std::vector<Argument> positional;
  std::vector<Named> keywords;
  reference::Environment environment;
  std::vector<std::pair<const ir::Value*, PyObject*>> tensors;  // what was passed, borrowed, and what stands for it
  bool is_meta = false;                                         // device="meta" was among them

  // Appends one; false with a Python exception.
  bool add(PyObject* object);
  bool add(const std::string& name, PyObject* object);
  // What an object says as an argument; false with a Python exception.
  bool convert(PyObject* object, Argument& argument);
  // A real tensor as an argument.
  Argument real(const Tensor& tensor);

 private:
  Session& session_;
  std::deque<ir::Value> made_up_;
};

}  // namespace atenon::capture
