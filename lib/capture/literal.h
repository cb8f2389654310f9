// Data as it is written in Python, as tensors.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// torch.tensor(data, dtype): numbers, nested sequences of them, symbolic numbers and tensors of one element among them;
// NumPy's arrays. These and tensors keep their element type (other buffers are sequences, as PyTorch has it).
PyObject* tensor_from(Session& session, PyObject* data, std::optional<ScalarType> dtype);

// A tensor of one element as one of rank 0; null with an exception of Python's.
Ref scalar_of(Session& session, PyObject* tensor);

// torch.from_numpy(): over the memory of an array, as long as nothing is recorded; a tensor of its own otherwise.
PyObject* tensor_over(Session& session, PyObject* data);

}  // namespace atenon::capture
