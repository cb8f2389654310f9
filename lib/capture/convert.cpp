#include "capture/convert.h"

#include "capture/recursion.h"
#include "capture/scalar_objects.h"
#include "capture/symbols.h"

namespace atenon::capture {
namespace {

bool is_word(PyObject* object) {  // a layout or memory format of our torch package
  const std::string type = Py_TYPE(object)->tp_name;
  return type == "layout" || type == "memory_format" || type == "qscheme";
}

}  // namespace

Argument Arguments::real(const Tensor& tensor) {
  ir::TensorMeta meta{.dtype = tensor.dtype, .sizes = {tensor.sizes.begin(), tensor.sizes.end()}};
  ir::Value& value =
      made_up_.emplace_back(ir::Value{.name = "a" + std::to_string(made_up_.size()), .type = std::move(meta)});
  environment.values.emplace(&value, tensor);
  return &value;
}

bool Arguments::convert(PyObject* object, Argument& argument) {
  const Recursion level(" in an argument of an operator");
  if (!level) return false;
  if (object == Py_None) {
    argument = ir::None{};
  } else if (TensorObject* tensor = as_tensor(object)) {
    if (session_.is_tracing) {
      ir::Value* value = session_.read(*tensor);
      if (!value) return false;
      argument = value;
    } else if (tensor->state->is_traced()) {
      session_.raise(311, "a tensor of forward is used after it", "return it instead");
      return false;
    } else {
      argument = real(tensor->state->real);
    }
    tensors.emplace_back(argument.value(), object);
  } else if (PyBool_Check(object)) {
    argument = SymBool(object == Py_True);
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) {
      PyErr_SetString(PyExc_OverflowError, "int too large for an argument of an operator");
      return false;
    }
    argument = SymInt(static_cast<int64_t>(value));
  } else if (PyFloat_Check(object)) {
    argument = SymFloat(PyFloat_AS_DOUBLE(object));
  } else if (SymbolObject* symbol = as_symbol(object)) {
    std::visit([&](const auto& value) { argument = value; }, *symbol->value);
  } else if (PyUnicode_Check(object)) {
    argument = text_of(object);
  } else if (PyTuple_Check(object) || PyList_Check(object)) {
    ArgumentList list(static_cast<size_t>(PySequence_Fast_GET_SIZE(object)));
    for (size_t i = 0; i < list.size(); ++i)
      if (!convert(PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(i)), list[i])) return false;
    argument = std::move(list);
  } else if (!check_dtype(session_, object)) {
    return false;
  } else if (const auto dtype = dtype_of(object)) {
    argument = *dtype;
  } else if (DeviceObject* device = as_device(object)) {
    argument = ir::Word{text_of(device->type)};
  } else if (PyComplex_Check(object)) {
    argument = std::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
  } else if (is_word(object)) {
    argument = ir::Word{str_of(object)};
  } else if (as_generator(object)) {
    argument = ir::None{};  // draws outside a graph read it themselves (random_fill)
  } else if (const auto integer = integer_of(object)) {
    argument = *integer;
  } else if (PyFloat_Check(object) || (Py_TYPE(object)->tp_as_number && Py_TYPE(object)->tp_as_number->nb_float)) {
    const double value = PyFloat_AsDouble(object);  // NumPy's floats
    if (value == -1 && PyErr_Occurred()) return false;
    argument = SymFloat(value);
  } else if (PySequence_Check(object)) {
    const Ref list(PySequence_List(object));
    return list && convert(list.get(), argument);
  } else {
    PyErr_Format(PyExc_TypeError, "an operator takes no %s", Py_TYPE(object)->tp_name);
    return false;
  }
  return true;
}

bool Arguments::add(PyObject* object) {
  Argument argument;
  if (!convert(object, argument)) return false;
  positional.push_back(std::move(argument));
  return true;
}

bool Arguments::add(const std::string& name, PyObject* object) {
  Argument argument;
  if (name == "device") {
    if (!check_device(session_, object)) return false;
    is_meta = object != Py_None && str_of(object) == "meta";
    return true;  // the CPU: nothing to say
  }
  if (name == "names") return true;
  if (!convert(object, argument)) return false;
  keywords.push_back({name, std::move(argument)});
  return true;
}

}  // namespace atenon::capture
