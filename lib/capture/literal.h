// Data as it is written in Python, as tensors.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// torch.tensor(data, dtype): numbers, nested sequences of them, symbolic numbers and tensors among them; NumPy's
// arrays, which alone keep their element type (other buffers are sequences, as PyTorch has it).
PyObject* tensor_from(Session& session, PyObject* data, std::optional<ScalarType> dtype);

// torch.from_numpy(): over the memory of an array, as long as nothing is recorded; a tensor of its own otherwise.
PyObject* tensor_over(Session& session, PyObject* data);

}  // namespace atenon::capture
