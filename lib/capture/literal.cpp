#include "capture/literal.h"

#include "capture/callstack.h"
#include "capture/recursion.h"
#include "capture/symbols.h"
#include "capture/tensor_data.h"
#include "tensor/real_parts.h"

namespace atenon::capture {
namespace {

// Element type of a buffer in Python's struct notation; nullopt where we have none.
std::optional<ScalarType> type_of_format(const char* format, Py_ssize_t width) {
  if (!format) return ScalarType::u8;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  switch (*format) {
    case '?':
      return ScalarType::boolean;
    case 'e':
      return ScalarType::f16;
    case 'f':
      return ScalarType::f32;
    case 'd':
      return ScalarType::f64;
    case 'B':
      return ScalarType::u8;
    case 'b':
      return ScalarType::i8;
    case 'h':
      return ScalarType::i16;
    case 'i':
    case 'l':
    case 'q':
      return width == 4 ? ScalarType::i32 : ScalarType::i64;
    case 'Z':
      return format[1] == 'f' ? ScalarType::c64 : ScalarType::c128;
    default:
      return std::nullopt;
  }
}

// A copy of a buffer's elements.
std::optional<Tensor> from_buffer(PyObject* object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) return std::nullopt;
  std::optional<Tensor> copy;
  if (const auto type = type_of_format(view.format, view.itemsize);
      type && size_of(*type) == static_cast<size_t>(view.itemsize)) {
    copy = Tensor::empty(*type, {view.shape, view.shape + view.ndim});
    if (PyBuffer_ToContiguous(copy->mutable_data(), &view, view.len, 'C') < 0) copy = std::nullopt;
  } else {
    PyErr_Format(PyExc_TypeError, "can't convert an array of type '%s' to a tensor", view.format);
  }
  PyBuffer_Release(&view);
  return copy;
}

// A tensor over the memory of a writable array; nullopt for all others.
std::optional<Tensor> over_buffer(PyObject* object) {
  const auto release = [](Py_buffer* view) {
    PyBuffer_Release(view);
    delete view;
  };
  auto* view = new Py_buffer{};
  if (PyObject_GetBuffer(object, view, PyBUF_FULL) < 0) {
    delete view;
    PyErr_Clear();
    return std::nullopt;
  }
  const std::shared_ptr<Py_buffer> held(view, release);
  const auto type = type_of_format(view->format, view->itemsize);
  if (!type || size_of(*type) != static_cast<size_t>(view->itemsize)) return std::nullopt;
  Tensor tensor{.dtype = *type, .sizes = {view->shape, view->shape + view->ndim}};
  int64_t end = 1;
  for (int axis = 0; axis < view->ndim; ++axis) {
    if (view->strides[axis] < 0 || view->strides[axis] % view->itemsize != 0) return std::nullopt;
    tensor.strides.push_back(view->strides[axis] / view->itemsize);
    end += (tensor.sizes[static_cast<size_t>(axis)] - 1) * tensor.strides.back();
  }
  if (tensor.numel() == 0) return std::nullopt;
  tensor.storage = Storage::view(view->buf, static_cast<size_t>(end * view->itemsize), held, true);
  return tensor;
}

// Whether an array lies in the memory of a constant that forward has as an array.
bool is_of_constant(const Session& session, const Tensor& array) {
  const auto holds_it = [&](const Session::Shared& shared) {
    if (shared.array) return false;
    const auto& own = std::get<Tensor>(session.constants_known.values.at(shared.value));
    const char *begin = static_cast<const char*>(own.data()), *at = static_cast<const char*>(array.data());
    return begin <= at && at < begin + own.nbytes();
  };
  return std::ranges::any_of(session.arrays, holds_it);
}

bool is_array(PyObject* object) { return PyObject_CheckBuffer(object) && attribute(object, "__array_interface__"); }

// The element type of a NumPy scalar, or array of rank 0; nullopt of all else.
std::optional<ScalarType> type_of_scalar(PyObject* object) {
  if (!is_array(object)) return std::nullopt;
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) return PyErr_Clear(), std::nullopt;
  const std::optional<ScalarType> type =
      view.ndim == 0 ? type_of_format(view.format, view.itemsize) : std::optional<ScalarType>();
  PyBuffer_Release(&view);
  return type;
}

// Numbers of nested lists, in row-major order.
struct Elements {
  std::vector<int64_t> sizes;
  std::vector<PyObject*> numbers;  // borrowed from `alive`
  std::vector<Ref> alive;
  bool has_complex = false, has_float = false, has_integer = false, has_tensor = false, has_symbol = false;
  size_t of_own_type = 0;              // numbers that have one: NumPy's and tensors
  std::optional<ScalarType> own_type;  // of these, promoted
};

bool collect(PyObject* data, size_t depth, Elements& elements) {
  const Recursion level(" in the data of a tensor");
  if (!level) return false;
  // A tensor is one number, whatever its rank.
  if (TensorObject* tensor = as_tensor(data); tensor && !tensor->session->meta(*tensor).sizes.empty()) {
    if (shape::product(tensor->session->meta(*tensor).sizes).constant().value_or(1) != 1) {
      PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
      return false;
    }
    const Ref number = scalar_of(*tensor->session, data);
    return number && collect(number.get(), depth, elements);
  }
  const std::optional<ScalarType> scalar = type_of_scalar(data);
  if (!scalar && !as_tensor(data) && !as_symbol(data) && PySequence_Check(data) && !PyUnicode_Check(data)) {
    Ref list(PySequence_Fast(data, "a sequence of numbers"));
    if (!list) return false;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(list.get());
    if (elements.sizes.size() == depth && elements.numbers.empty()) elements.sizes.push_back(count);
    if (depth >= elements.sizes.size() || elements.sizes[depth] != count) {
      PyErr_SetString(PyExc_ValueError, "the lists of a tensor's data are not all of one length");
      return false;
    }
    elements.alive.push_back(list);
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!collect(PySequence_Fast_GET_ITEM(list.get(), i), depth + 1, elements)) return false;
    return true;
  }
  if (depth != elements.sizes.size()) {
    PyErr_SetString(PyExc_ValueError, "the lists of a tensor's data are not all of one depth");
    return false;
  }
  TensorObject* tensor = as_tensor(data);
  if (scalar || tensor) {
    const ScalarType type = tensor ? tensor->session->meta(*tensor).dtype : *scalar;
    ++elements.of_own_type;
    elements.own_type = elements.own_type ? promote(*elements.own_type, type) : type;
    elements.has_tensor |= tensor != nullptr;
  } else if (SymbolObject* symbol = as_symbol(data)) {
    elements.has_symbol = true;
    elements.has_float |= std::holds_alternative<SymFloat>(*symbol->value);
    elements.has_integer |= std::holds_alternative<SymInt>(*symbol->value);
  } else if (PyComplex_Check(data)) {
    elements.has_complex = true;
  } else if (PyFloat_Check(data)) {
    elements.has_float = true;
  } else if (!PyBool_Check(data)) {
    elements.has_integer = true;
  }
  elements.alive.push_back(Ref::borrow(data));
  elements.numbers.push_back(data);
  return true;
}

bool store(Tensor& tensor, int64_t position, PyObject* number) {
  if (as_tensor(number)) {
    const Ref value(PyObject_CallMethod(number, "item", nullptr));
    return value && store(tensor, position, value.get());
  }
  if (is_complex(tensor.dtype)) {
    const Py_complex value = PyComplex_AsCComplex(number);
    if (PyErr_Occurred()) return false;
    if (tensor.dtype == ScalarType::c128) {
      tensor.mutable_as<double>()[2 * position] = value.real;
      tensor.mutable_as<double>()[2 * position + 1] = value.imag;
    } else {
      tensor.mutable_as<float>()[2 * position] = static_cast<float>(value.real);
      tensor.mutable_as<float>()[2 * position + 1] = static_cast<float>(value.imag);
    }
    return true;
  }
  if (!is_floating(tensor.dtype) && PyIndex_Check(number)) {
    const Ref index(PyNumber_Index(number));
    const long long value = index ? PyLong_AsLongLong(index.get()) : -1;
    if (value == -1 && PyErr_Occurred()) return false;
    tensor.set_int(position, value);
    return true;
  }
  const double value = PyFloat_AsDouble(number);
  if (value == -1 && PyErr_Occurred()) return false;
  tensor.set(position, value);
  return true;
}

// Numbers that are only known when the program runs: each becomes a tensor of rank 0, and they are stacked.
PyObject* stacked(Session& session, const Elements& elements, ScalarType type) {
  const Ref word(PyUnicode_FromString("dtype"));
  const Ref words(PyTuple_Pack(1, word.get()));
  PyObject* dtype = session.dtypes.at(type).get();
  Ref parts(PyList_New(0));
  for (PyObject* number : elements.numbers) {
    PyObject* const args[] = {number, dtype};
    const Ref part(as_tensor(number) ? session.call("aten::to", {number, dtype})
                                     : session.call("aten::scalar_tensor", args, 1, words.get()));
    if (!part || PyList_Append(parts.get(), part.get()) < 0) return nullptr;
    if (elements.sizes.empty()) return Py_NewRef(part.get());
  }
  Ref flat(session.call("aten::stack", {parts.get()}));
  if (!flat || elements.sizes.size() == 1) return flat.release();
  const Ref sizes = session.wrap_sizes({elements.sizes.begin(), elements.sizes.end()});
  return sizes ? session.call("aten::view", {flat.get(), sizes.get()}) : nullptr;
}

PyObject* give(Session& session, Tensor tensor) {
  if (!session.is_tracing) return session.wrap(TensorState{.real = std::move(tensor)}).release();
  return session.wrap(session.literal(tensor)).release();
}

}  // namespace

Ref scalar_of(Session& session, PyObject* tensor) {
  const Ref no_axes(PyTuple_New(0));
  return Ref(no_axes ? session.call("aten::view", {tensor, no_axes.get()}) : nullptr);
}

PyObject* tensor_over(Session& session, PyObject* data) {
  if (!session.is_tracing && is_array(data))
    if (std::optional<Tensor> shared = over_buffer(data))
      return session.wrap(TensorState{.real = std::move(*shared)}).release();
  PyObject* const made = tensor_from(session, data, std::nullopt);
  if (!made || !session.is_tracing || !is_array(data)) return made;
  // What forward writes into it from now on, the graph would not have.
  if (std::optional<Tensor> array = over_buffer(data); array && is_of_constant(session, *array)) {
    Tensor before = Tensor::empty(array->dtype, array->sizes);
    assign(before, *array);
    session.arrays.push_back({nullptr, std::move(before), session.call_stacks->user_line(), std::move(array)});
  }
  return made;
}

PyObject* tensor_from(Session& session, PyObject* data, std::optional<ScalarType> dtype) {
  if (TensorObject* tensor = as_tensor(data)) {
    if (!dtype || *dtype == session.meta(*tensor).dtype) return session.call("aten::clone", {data});
    return session.call("aten::to", {data, session.dtypes.at(*dtype).get()});
  }
  if (is_array(data)) {
    std::optional<Tensor> copy = from_buffer(data);
    if (!copy) return nullptr;
    return give(session, dtype && *dtype != copy->dtype ? cast(*copy, *dtype) : std::move(*copy));
  }
  Elements elements;
  if (!collect(data, 0, elements)) return nullptr;
  const ScalarType found = elements.has_complex       ? pair_of(session.default_dtype)
                           : elements.has_float       ? session.default_dtype
                           : elements.has_integer     ? ScalarType::i64
                           : elements.numbers.empty() ? session.default_dtype
                                                      : ScalarType::boolean;
  const bool all_have_own = elements.of_own_type > 0 && elements.of_own_type == elements.numbers.size();
  const ScalarType joined = all_have_own        ? *elements.own_type
                            : elements.own_type ? promote(*elements.own_type, found)
                                                : found;
  const ScalarType type = dtype.value_or(joined);
  if (session.is_tracing && (elements.has_tensor || elements.has_symbol)) return stacked(session, elements, type);
  Tensor tensor = Tensor::empty(type, elements.sizes);
  for (size_t i = 0; i < elements.numbers.size(); ++i)
    if (!store(tensor, static_cast<int64_t>(i), elements.numbers[i])) return nullptr;
  return give(session, std::move(tensor));
}

}  // namespace atenon::capture
