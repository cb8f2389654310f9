// x[index] and x[index] = value.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

PyObject* get_item(TensorObject& tensor, PyObject* index);
bool set_item(TensorObject& tensor, PyObject* index, PyObject* value);  // false with a Python exception

}  // namespace atenon::capture
