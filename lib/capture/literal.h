// Data as it is written in Python, as tensors.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// torch.tensor(data, dtype): numbers, nested lists of them, buffers (NumPy's arrays), symbolic numbers and tensors
// among them.
PyObject* tensor_from(Session& session, PyObject* data, std::optional<ScalarType> dtype);

}  // namespace atenon::capture
