// Data of real tensors as Python's own: numbers, nested lists, buffers; and the other way round.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// One element, by row-major position, as int, float, bool or complex.
PyObject* element(const Tensor& tensor, int64_t position);
PyObject* nested_list(const Tensor& contiguous);

// Python's buffer protocol; the buffer keeps the owner alive, not the tensor.
int fill_buffer(PyObject* owner, const Tensor& tensor, bool writable, Py_buffer* view, int flags);
void release_buffer(PyObject* owner, Py_buffer* view);

// Writes `source`, broadcast and converted, over the elements of `target`; shapes must fit.
void assign(Tensor& target, const Tensor& source);

// False, with an exception set, where no memory can hold a tensor of this type, so far as its sizes are known.
bool fits_memory(const ir::TensorMeta& meta);

// Whether both are the same elements of the same memory.
bool same_geometry(const Tensor& a, const Tensor& b);

// Whether both have one type and the same bits, wherever they lie.
bool hold_the_same(const Tensor& a, const Tensor& b);

std::vector<SymInt> row_major(const std::vector<SymInt>& sizes);

}  // namespace atenon::capture
