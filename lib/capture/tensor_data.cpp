#include "capture/tensor_data.h"

#include <cassert>
#include <cstring>

namespace atenon::capture {
namespace {

const char* format_of(ScalarType type) {  // of Python's struct module; null where it has none
  switch (type) {
    case ScalarType::f16:
      return "e";
    case ScalarType::f32:
      return "f";
    case ScalarType::f64:
      return "d";
    case ScalarType::u8:
      return "B";
    case ScalarType::i8:
      return "b";
    case ScalarType::i16:
      return "h";
    case ScalarType::i32:
      return "i";
    case ScalarType::i64:
      return "q";
    case ScalarType::boolean:
      return "?";
    case ScalarType::c64:
      return "Zf";
    case ScalarType::c128:
      return "Zd";
    case ScalarType::bf16:
      return nullptr;
  }
  return nullptr;
}

// Walks the elements in row-major order with the place of each in two tensors of strides `a` and `b`.
template <class Visit>
void walk(const std::vector<int64_t>& sizes, const std::vector<int64_t>& a, const std::vector<int64_t>& b,
          Visit visit) {
  const size_t rank = sizes.size();
  for (const int64_t size : sizes)
    if (size == 0) return;
  std::vector<int64_t> index(rank, 0);
  int64_t at_a = 0, at_b = 0;
  while (true) {
    visit(at_a, at_b);
    size_t axis = rank;
    while (axis > 0) {
      --axis;
      at_a += a[axis];
      at_b += b[axis];
      if (++index[axis] < sizes[axis]) break;
      at_a -= a[axis] * sizes[axis];
      at_b -= b[axis] * sizes[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (rank == 0) return;
  }
}

struct BufferShape {  // what a Py_buffer points into
  std::shared_ptr<Storage> keep_alive;
  std::vector<Py_ssize_t> sizes;
  std::vector<Py_ssize_t> strides;
};

}  // namespace

PyObject* element(const Tensor& tensor, int64_t position) {
  if (tensor.dtype == ScalarType::boolean) return PyBool_FromLong(tensor.int_at(position) != 0);
  if (is_integral(tensor.dtype)) return PyLong_FromLongLong(tensor.int_at(position));
  if (!is_complex(tensor.dtype)) return PyFloat_FromDouble(tensor.float_at(position));
  const Tensor values = cast(tensor.contiguous(), ScalarType::c128);
  const double* parts = values.as<double>() + 2 * position;
  return PyComplex_FromDoubles(parts[0], parts[1]);
}

PyObject* nested_list(const Tensor& contiguous) {
  if (contiguous.sizes.empty()) return element(contiguous, 0);
  // Lists are filled from the innermost: `open[d]` is the list at depth d that is being filled.
  const size_t rank = contiguous.sizes.size();
  std::vector<Ref> open;
  Ref top(PyList_New(0));
  if (!top) return nullptr;
  open.push_back(top);
  const int64_t count = contiguous.numel();
  if (count == 0 && rank > 1) {
    // No elements, but the outer axes may still have lists to hold.
    for (int64_t i = 0; i < contiguous.sizes[0]; ++i) {
      Tensor part = contiguous;
      part.sizes.erase(part.sizes.begin());
      part.strides.erase(part.strides.begin());
      const Ref inner(nested_list(part));
      if (!inner || PyList_Append(top.get(), inner.get()) < 0) return nullptr;
    }
    return top.release();
  }
  for (int64_t position = 0; position < count; ++position) {
    while (open.size() < rank) {
      Ref inner(PyList_New(0));
      if (!inner || PyList_Append(open.back().get(), inner.get()) < 0) return nullptr;
      open.push_back(inner);
    }
    const Ref number(element(contiguous, position));
    if (!number || PyList_Append(open.back().get(), number.get()) < 0) return nullptr;
    for (size_t axis = rank; axis-- > 1 && PyList_GET_SIZE(open.back().get()) == contiguous.sizes[axis];)
      open.pop_back();
  }
  return top.release();
}

int fill_buffer(PyObject* owner, const Tensor& tensor, bool writable, Py_buffer* view, int flags) {
  const char* format = format_of(tensor.dtype);
  view->obj = nullptr;
  if (!format) {
    PyErr_Format(PyExc_TypeError, "Python has no number type for torch.%s", torch_name_of(tensor.dtype));
    return -1;
  }
  if (!writable && (flags & PyBUF_WRITABLE)) {
    PyErr_SetString(PyExc_BufferError, "a tensor cannot be written through a buffer inside of forward");
    return -1;
  }
  if (!(flags & PyBUF_STRIDES) && !tensor.is_contiguous()) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
    return -1;
  }
  auto* shape = new BufferShape;
  shape->keep_alive = tensor.storage;
  const auto width = static_cast<Py_ssize_t>(size_of(tensor.dtype));
  shape->sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  for (const int64_t stride : tensor.strides) shape->strides.push_back(stride * width);
  view->buf = const_cast<void*>(tensor.data());
  view->obj = Py_NewRef(owner);
  view->len = static_cast<Py_ssize_t>(tensor.nbytes());
  view->itemsize = width;
  view->readonly = !writable;
  view->ndim = static_cast<int>(tensor.sizes.size());
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->shape = flags & PyBUF_ND ? shape->sizes.data() : nullptr;
  view->strides = flags & PyBUF_STRIDES ? shape->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = shape;
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<BufferShape*>(view->internal); }

void assign(Tensor& target, const Tensor& source) {
  const Tensor values = source.dtype == target.dtype ? source : cast(source, target.dtype);
  // The axes of `values`, aligned at the right; missing ones and ones of size 1 repeat.
  std::vector<int64_t> strides(target.sizes.size(), 0);
  const size_t missing = target.sizes.size() - values.sizes.size();
  for (size_t axis = missing; axis < target.sizes.size(); ++axis) {
    const bool repeats = values.sizes[axis - missing] == 1 && target.sizes[axis] != 1;
    assert(repeats || values.sizes[axis - missing] == target.sizes[axis]);
    strides[axis] = repeats ? 0 : values.strides[axis - missing];
  }
  const size_t width = size_of(target.dtype);
  if (values.sizes == target.sizes && values.is_contiguous() && target.is_contiguous()) {
    const bool is_overwritten = target.nbytes() == target.storage->size() && values.storage != target.storage;
    if (is_overwritten) target.storage->discard_pending();
    std::memmove(target.mutable_data(), values.data(), target.nbytes());
    return;
  }
  // Both may lie in the same memory: the source is read whole first.
  const Tensor apart = values.storage == target.storage ? [&] {
    Tensor copy = Tensor::empty(values.dtype, values.sizes);
    assign(copy, values);
    return copy;
  }()
                                                        : values;
  if (values.storage == target.storage)
    for (size_t axis = missing; axis < target.sizes.size(); ++axis)
      strides[axis] = strides[axis] == 0 ? 0 : apart.strides[axis - missing];
  auto* to = static_cast<std::byte*>(target.mutable_data());
  const auto* from = static_cast<const std::byte*>(apart.data());
  walk(target.sizes, target.strides, strides, [&](int64_t at, int64_t of) {
    std::memcpy(to + at * static_cast<int64_t>(width), from + of * static_cast<int64_t>(width), width);
  });
}

bool fits_memory(const ir::TensorMeta& meta) {
  constexpr int64_t most = int64_t{1} << 47;  // bytes that a process can address
  int64_t bytes = static_cast<int64_t>(size_of(meta.dtype));
  for (const SymInt& size : meta.sizes)
    if (size == SymInt(0)) return true;
  for (const SymInt& size : meta.sizes) {
    if (!__builtin_mul_overflow(bytes, size.constant().value_or(1), &bytes) && bytes <= most) continue;
    PyErr_Format(PyExc_RuntimeError, "there is not enough memory for a tensor %s", ir::to_string(meta).c_str());
    return false;
  }
  return true;
}

bool same_geometry(const Tensor& a, const Tensor& b) {
  return a.storage == b.storage && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides &&
         a.dtype == b.dtype;
}

bool hold_the_same(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
  if (a.numel() == 0 || same_geometry(a, b)) return true;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.data(), y.data(), x.nbytes()) == 0;
}

std::vector<SymInt> row_major(const std::vector<SymInt>& sizes) {
  std::vector<SymInt> strides(sizes.size());
  SymInt step = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = step;
    step = step * sizes[axis];
  }
  return strides;
}

}  // namespace atenon::capture
