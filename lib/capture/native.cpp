// What the Python of lib/capture/torch stands on: types, operators as callables, random draws, modes.
#include "capture/native.h"
#include "capture/batching.h"

#include "capture/argument_object.h"
#include "capture/callstack.h"
#include "capture/lazy_fill.h"
#include "capture/literal.h"
#include "capture/program_object.h"
#include "capture/scalar_objects.h"
#include "capture/symbols.h"
#include "capture/tensor_data.h"
#include "capture/tensor_object.h"
#include "capture/trace_control_flow.h"

namespace atenon::capture {
namespace {

// The module keeps the session in its state: native functions find it there.
Session& session_of(PyObject* module) { return **static_cast<Session**>(PyModule_GetState(module)); }

// --- Operators as callables

FunctionObject& function_of(PyObject* self) { return *reinterpret_cast<FunctionObject*>(self); }

void destroy_function(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete function_of(self).name;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* call_function(PyObject* self, PyObject* const* args, size_t flags, PyObject* keyword_names) {
  FunctionObject& function = function_of(self);
  return function.session->call(*function.name, args, static_cast<size_t>(PyVectorcall_NARGS(flags)), keyword_names,
                                self);
}

PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
  return object ? PyMethod_New(self, object) : Py_NewRef(self);
}

std::string short_name(const std::string& name) { return name.substr(name.find("::") + 2); }
PyObject* function_name(PyObject* self, void*) {
  return PyUnicode_FromString(short_name(*function_of(self).name).c_str());
}
PyObject* function_repr(PyObject* self) {
  return PyUnicode_FromFormat("<operator %s>", function_of(self).name->c_str());
}

// A name alone: a copy of an operator, as in a deep copy of a layer that holds one, is the operator itself.
PyObject* reduce_function(PyObject* self, PyObject*) { return function_name(self, nullptr); }

PyMethodDef function_methods[] = {{"__reduce__", reduce_function, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef function_attributes[] = {{"__name__", function_name, nullptr, nullptr, nullptr},
                                     {"__qualname__", function_name, nullptr, nullptr, nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot function_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy_function)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_methods, function_methods},
                                {Py_tp_members, function_members},
                                {Py_tp_getset, function_attributes},
                                {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
                                {0, nullptr}};
PyType_Slot method_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy_function)},
                              {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                              {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
                              {Py_tp_methods, function_methods},
                              {Py_tp_members, function_members},
                              {Py_tp_getset, function_attributes},
                              {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
                              {0, nullptr}};

bool add_function_types(Session& session) {
  const auto flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  PyType_Spec function = {"_atenon.function_type", sizeof(FunctionObject), 0, flags, function_slots};
  PyType_Spec method = {"_atenon.method_type", sizeof(FunctionObject), 0, flags | Py_TPFLAGS_METHOD_DESCRIPTOR,
                        method_slots};
  session.function_type = Ref(PyType_FromSpec(&function));
  session.method_type = Ref(PyType_FromSpec(&method));
  return session.function_type && session.method_type;
}

PyObject* make_function(Session& session, PyObject* argument, const Ref& type) {
  std::string name = text_of(argument);
  if (name.ends_with(".default")) name.resize(name.size() - 8);
  const bool has_overload = name.find('.') != std::string::npos;
  if (has_overload ? !session.opset.find(name) : session.opset.overloads(name).empty())
    return session.raise(session.opset.check(name).error());
  auto* object = PyObject_New(FunctionObject, reinterpret_cast<PyTypeObject*>(type.get()));
  if (!object) return nullptr;
  object->vectorcall = call_function;
  object->session = &session;
  object->name = new std::string(std::move(name));
  return reinterpret_cast<PyObject*>(object);
}

PyObject* function(PyObject* module, PyObject* name) {
  return make_function(session_of(module), name, session_of(module).function_type);
}
PyObject* method(PyObject* module, PyObject* name) {
  return make_function(session_of(module), name, session_of(module).method_type);
}

PyObject* has(PyObject* module, PyObject* argument) {
  const std::string name = text_of(argument);
  const opset::Opset& opset = session_of(module).opset;
  return PyBool_FromLong(name.find('.') == std::string::npos ? !opset.overloads(name).empty()
                                                             : opset.find(name) != nullptr);
}

PyObject* names(PyObject* module, PyObject*) {
  Ref list(PyList_New(0));
  for (const std::string& name : session_of(module).opset.names()) {
    const Ref text(PyUnicode_FromString(name.c_str()));
    if (!list || !text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  return list.release();
}

// declare("op my::f(Tensor x) -> Tensor"): a block of an operator of the user's.
PyObject* declare(PyObject* module, PyObject* block) {
  Session& session = session_of(module);
  Result<void> added = session.opset.add(text_of(block), "torch.library");
  return added ? new_none() : session.raise(added.error());
}

// schema("my::f"): as ATen spells it; null with an exception where there is no such operator.
PyObject* schema(PyObject* module, PyObject* name) {
  Session& session = session_of(module);
  Result<const opset::Operator*> op = session.opset.check(text_of(name));
  return op ? new_text((*op)->schema().to_string()).release() : session.raise(op.error());
}

// A size that data decide.
PyObject* new_symbol(PyObject* module, PyObject* args) {
  Session& session = session_of(module);
  long long lower = 0;
  PyObject* upper = Py_None;
  if (!PyArg_ParseTuple(args, "L|O:new_symbol", &lower, &upper)) return nullptr;
  shape::Range range{lower, shape::Range::highest};
  if (upper != Py_None) range.upper = PyLong_AsLongLong(upper);
  if (PyErr_Occurred()) return nullptr;
  return session.wrap(SymInt::symbol(session.new_symbol(range))).release();
}

PyObject* call(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* keyword_names) {
  if (count < 1 || !PyUnicode_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "call(name, ...) needs the name of an operator");
    return nullptr;
  }
  return session_of(module).call(text_of(args[0]), args + 1, static_cast<size_t>(count) - 1, keyword_names);
}

// --- Classes and tensors

PyObject* register_classes(PyObject* module, PyObject*, PyObject* keywords) {
  Session& session = session_of(module);
  const std::pair<const char*, Ref*> places[] = {
      {"Tensor", &session.tensor_class}, {"Parameter", &session.parameter_class},
      {"Size", &session.size_class},     {"pytree", &session.pytree},
      {"Value", &session.value_class},   {"Subgraph", &session.subgraph_class}};
  for (const auto& [name, place] : places)
    if (PyObject* value = keywords ? PyDict_GetItemString(keywords, name) : nullptr) *place = Ref::borrow(value);
  return new_none();
}

PyObject* make_subclass(PyObject* module, PyObject* args) {
  PyObject* type = nullptr;
  PyObject* data = nullptr;
  int requires_grad = 0;
  if (!PyArg_ParseTuple(args, "OO|p:make_subclass", &type, &data, &requires_grad)) return nullptr;
  TensorObject* tensor = as_tensor(data);
  if (!tensor || !PyType_Check(type) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type),
                        reinterpret_cast<PyTypeObject*>(session_of(module).tensor_type.get()))) {
    PyErr_SetString(PyExc_TypeError, "make_subclass(class, tensor) needs a class of tensors and a tensor");
    return nullptr;
  }
  Session& session = session_of(module);
  return new_tensor(session, reinterpret_cast<PyTypeObject*>(type), session.share(*tensor), requires_grad).release();
}

bool take_dtype(Session& session, PyObject* object, std::optional<ScalarType>& dtype) {
  if (!object || object == Py_None) return true;
  if ((dtype = dtype_of(object))) return true;
  if (!check_dtype(session, object)) return false;
  PyErr_Format(PyExc_TypeError, "dtype must be a torch.dtype, not %s", Py_TYPE(object)->tp_name);
  return false;
}

PyObject* tensor(PyObject* module, PyObject* args, PyObject* keywords) {
  static const char* words[] = {"data", "dtype", "device", "requires_grad", "pin_memory", nullptr};
  PyObject *data = nullptr, *dtype = nullptr, *device = nullptr;
  int requires_grad = 0, pin_memory = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OOpp:tensor", const_cast<char**>(words), &data, &dtype, &device,
                                   &requires_grad, &pin_memory))
    return nullptr;
  std::optional<ScalarType> type;
  if (!take_dtype(session_of(module), dtype, type)) return nullptr;
  if (device && !check_device(session_of(module), device)) return nullptr;
  PyObject* made = tensor_from(session_of(module), data, type);
  if (made) as_tensor(made)->requires_grad = requires_grad;
  return made;
}

PyObject* tensor_over_array(PyObject* module, PyObject* array) { return tensor_over(session_of(module), array); }

PyObject* empty(PyObject* module, PyObject* args, PyObject* keywords) {
  static const char* words[] = {"sizes", "dtype", nullptr};
  PyObject *sizes = nullptr, *dtype = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:empty", const_cast<char**>(words), &sizes, &dtype))
    return nullptr;
  Session& session = session_of(module);
  std::optional<ScalarType> type;
  if (!take_dtype(session, dtype, type)) return nullptr;
  const Ref list(PySequence_Check(sizes) ? PySequence_List(sizes) : Py_BuildValue("[O]", sizes));
  if (!list) return nullptr;
  if (session.is_tracing) {
    const Ref name(PyUnicode_FromString("dtype"));
    const Ref names(PyTuple_Pack(1, name.get()));
    PyObject* const arguments[] = {list.get(), session.dtypes.at(type.value_or(session.default_dtype)).get()};
    return session.call("aten::zeros", arguments, 1, names.get());
  }
  std::vector<int64_t> shape;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    const long long size = PyLong_AsLongLong(PyList_GET_ITEM(list.get(), i));
    if (size == -1 && PyErr_Occurred()) return nullptr;
    if (size < 0) {
      PyErr_Format(PyExc_RuntimeError, "a size cannot be %lld", size);
      return nullptr;
    }
    shape.push_back(size);
  }
  const ScalarType made = type.value_or(session.default_dtype);
  if (!fits_memory({.dtype = made, .sizes = {shape.begin(), shape.end()}})) return nullptr;
  return session.wrap(TensorState{.real = lazy_tensor(made, std::move(shape), 0)}).release();
}

// --- Random draws in place

PyObject* draw_in_place(PyObject* module, PyObject* args, const char* format, const char* distribution, double a,
                        double b) {
  PyObject* target = nullptr;
  PyObject* generator = Py_None;
  if (!PyArg_ParseTuple(args, format, &target, &a, &b, &generator)) return nullptr;
  return draw_distribution(session_of(module), target, distribution, a, b, generator) ? Py_NewRef(target) : nullptr;
}
PyObject* uniform(PyObject* module, PyObject* args) {
  return draw_in_place(module, args, "O|ddO:uniform_", "uniform", 0, 1);
}
PyObject* normal(PyObject* module, PyObject* args) {
  return draw_in_place(module, args, "O|ddO:normal_", "normal", 0, 1);
}
PyObject* random(PyObject* module, PyObject* args) {
  PyObject *target = nullptr, *low = nullptr, *high = Py_None, *generator = Py_None;
  if (!PyArg_ParseTuple(args, "O|OOO:random_", &target, &low, &high, &generator)) return nullptr;
  return draw_integers(session_of(module), target, low, high, generator) ? Py_NewRef(target) : nullptr;
}
PyObject* draw_with_one(PyObject* module, PyObject* args, const char* format, const char* distribution, double a) {
  PyObject* target = nullptr;
  PyObject* generator = Py_None;
  if (!PyArg_ParseTuple(args, format, &target, &a, &generator)) return nullptr;
  return draw_distribution(session_of(module), target, distribution, a, 0, generator) ? Py_NewRef(target) : nullptr;
}
PyObject* bernoulli(PyObject* module, PyObject* args) {
  return draw_with_one(module, args, "O|dO:bernoulli_", "bernoulli", 0.5);
}
PyObject* exponential(PyObject* module, PyObject* args) {
  return draw_with_one(module, args, "O|dO:exponential_", "exponential", 1);
}

// --- Modes and modules

PyObject* is_grad_enabled(PyObject* module, PyObject*) { return PyBool_FromLong(session_of(module).grad_enabled); }
PyObject* set_grad_enabled(PyObject* module, PyObject* value) {
  const int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  session_of(module).grad_enabled = truth;
  return new_none();
}
// set_autocast(function or None): see Session::autocast.
PyObject* set_autocast(PyObject* module, PyObject* function) {
  session_of(module).autocast = function == Py_None ? Ref() : Ref::borrow(function);
  return new_none();
}
// set_overriding(function or None): see Session::overriding.
PyObject* set_overriding(PyObject* module, PyObject* function) {
  session_of(module).overriding = function == Py_None ? Ref() : Ref::borrow(function);
  return new_none();
}
// set_decompositions({operator: function}): see Session::decompositions.
PyObject* set_decompositions(PyObject* module, PyObject* functions) {
  session_of(module).decompositions = Ref::borrow(functions);
  return new_none();
}
// value_name(tensor): what it is called in the graph that is being recorded.
PyObject* value_name(PyObject* module, PyObject* object) {
  Session& session = session_of(module);
  TensorObject* tensor = as_tensor(object);
  const ir::Value* value = tensor && session.is_tracing ? session.read(*tensor) : nullptr;
  if (value) return new_text(value->name).release();
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "only tensors of a capture have names");
  return nullptr;
}
// assume_example(size): the number that it is for the example inputs, which is assumed from now on.
PyObject* assume_example(PyObject* module, PyObject* object) {
  Session& session = session_of(module);
  SymbolObject* symbol = as_symbol(object);
  const SymInt* size = symbol ? std::get_if<SymInt>(symbol->value) : nullptr;
  if (!size) return Py_NewRef(object);
  const std::optional<int64_t> value = session.example_value(*size);
  if (!value || !session.require(shape::equal(*size, *value), "assume_constant_result promises it")) return nullptr;
  return PyLong_FromLongLong(*value);
}
PyObject* set_default_dtype(PyObject* module, PyObject* value) {
  std::optional<ScalarType> type;
  if (!take_dtype(session_of(module), value, type)) return nullptr;
  session_of(module).default_dtype = type.value_or(ScalarType::f32);
  return new_none();
}
PyObject* check(PyObject* module, PyObject* device) {
  return check_device(session_of(module), device) ? new_none() : nullptr;
}
PyObject* promote_types(PyObject* module, PyObject* args) {
  PyObject *a = nullptr, *b = nullptr;
  std::optional<ScalarType> x, y;
  if (!PyArg_ParseTuple(args, "OO:promote_types", &a, &b) || !take_dtype(session_of(module), a, x) ||
      !take_dtype(session_of(module), b, y))
    return nullptr;
  if (!x || !y) {
    PyErr_SetString(PyExc_TypeError, "promote_types takes two types");
    return nullptr;
  }
  return Py_NewRef(session_of(module).dtypes.at(promote(*x, *y)).get());
}
PyObject* is_tracing(PyObject* module, PyObject*) { return PyBool_FromLong(session_of(module).is_tracing); }
PyObject* push_module(PyObject* module, PyObject* entered) {
  session_of(module).call_stacks->enter_module(entered);
  return new_none();
}
PyObject* pop_module(PyObject* module, PyObject*) {
  session_of(module).call_stacks->leave_module();
  return new_none();
}

// sym("max", a, b): see symbolic_function.
PyObject* sym(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "sym(name, ...) needs a name");
    return nullptr;
  }
  return symbolic_function(session_of(module), text_of(args[0]), args + 1, static_cast<size_t>(count) - 1);
}

// len() in the process of a capture: the first size of a tensor stays symbolic, as CPython's len() could not.
PyObject* length(PyObject*, PyObject* object) {
  if (TensorObject* tensor = as_tensor(object)) {
    const std::vector<SymInt> sizes = tensor->session->meta(*tensor).sizes;
    if (!sizes.empty() && !sizes[0].constant()) return tensor->session->wrap(sizes[0]).release();
  }
  const Py_ssize_t count = PyObject_Size(object);
  return count < 0 ? nullptr : PyLong_FromSsize_t(count);
}

// fail(306, message, fix): an error of ours, raised by the Python of our package.
PyObject* fail(PyObject* module, PyObject* args) {
  int code = 0;
  const char *message = nullptr, *fix = "";
  if (!PyArg_ParseTuple(args, "is|s:fail", &code, &message, &fix)) return nullptr;
  return session_of(module).raise(code, message, fix);
}

PyObject* export_program(PyObject* module, PyObject* args) { return export_model(session_of(module), args); }
PyObject* load(PyObject* module, PyObject* from) { return load_program(session_of(module), from); }

// assign(target, value): target holds value from now on, as target.copy_(value) but without an operator.
PyObject* assign_tensor(PyObject* module, PyObject* args) {
  Session& session = session_of(module);
  PyObject *first = nullptr, *second = nullptr;
  if (!PyArg_ParseTuple(args, "OO:assign", &first, &second)) return nullptr;
  TensorObject *target = as_tensor(first), *source = as_tensor(second);
  if (!target || !source) {
    PyErr_SetString(PyExc_TypeError, "assign(target, value) takes two tensors");
    return nullptr;
  }
  if (!session.is_tracing) return session.write_real(*target, source->state->real) ? new_none() : nullptr;
  ir::Value* value = session.read(*source);
  return value && session.write(*target, value) ? new_none() : nullptr;
}

// become(tensor, view): tensor is from now on what view is, for unsqueeze_() and its like. A tensor that was there
// before forward keeps its shape: its owner would see another.
PyObject* become(PyObject* module, PyObject* args) {
  Session& session = session_of(module);
  PyObject *first = nullptr, *second = nullptr;
  if (!PyArg_ParseTuple(args, "OO:become", &first, &second)) return nullptr;
  TensorObject *target = as_tensor(first), *view = as_tensor(second);
  if (!target || !view) {
    PyErr_SetString(PyExc_TypeError, "become(tensor, view) takes two tensors");
    return nullptr;
  }
  const bool is_older = session.is_tracing &&
                        (!target->state->is_traced() || (target->state->base->input && target->state->chain.empty()));
  if (is_older)
    return session.raise(312, "forward changes the shape of a tensor that was there before it",
                         "x = x.unsqueeze(0), or another view, in place of x.unsqueeze_(0)");
  *target->state = *view->state;
  return Py_NewRef(first);
}

// What a capture refuses is a RuntimeError; what an exported module refuses is an AssertionError for PyTorch's users.
PyObject* make_capture_error() {
  const Ref bases(PyTuple_Pack(2, PyExc_RuntimeError, PyExc_AssertionError));
  return bases ? PyErr_NewException("_atenon.CaptureError", bases.get(), nullptr) : nullptr;
}

// require(condition, reason): whether a truth of the user's holds; see Session::require.
PyObject* require(PyObject* module, PyObject* args) {
  PyObject* condition = nullptr;
  const char* reason = "";
  if (!PyArg_ParseTuple(args, "Os:require", &condition, &reason)) return nullptr;
  SymbolObject* symbol = as_symbol(condition);
  const SymBool* truth = symbol ? std::get_if<SymBool>(symbol->value) : nullptr;
  if (!truth) return PyBool_FromLong(PyObject_IsTrue(condition));
  const bool holds = session_of(module).require(*truth, reason);
  return PyErr_Occurred() ? nullptr : PyBool_FromLong(holds);
}

PyObject* subgraph(PyObject* module, PyObject* args) {
  PyObject *function = nullptr, *examples = nullptr, *given = nullptr;
  Py_ssize_t whole = 0;
  if (!PyArg_ParseTuple(args, "OO!nO:trace_subgraph", &function, &PyList_Type, &examples, &whole, &given))
    return nullptr;
  return trace_subgraph(session_of(module), function, examples, whole, given);
}
PyObject* control_flow_node(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  return control_flow(session_of(module), args, static_cast<size_t>(count));
}

PyObject* describe(PyObject* module, PyObject* args) { return describe_subgraph(session_of(module), args); }
PyObject* at(PyObject* module, PyObject* args) { return record_at(session_of(module), args); }

template <class Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef functions[] = {
    {"function", function, METH_O, nullptr},
    {"method", method, METH_O, nullptr},
    {"has", has, METH_O, nullptr},
    {"names", names, METH_NOARGS, nullptr},
    {"declare", declare, METH_O, nullptr},
    {"schema", schema, METH_O, nullptr},
    {"new_symbol", new_symbol, METH_VARARGS, nullptr},
    {"call", as_method(call), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"register", as_method(register_classes), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"make_subclass", make_subclass, METH_VARARGS, nullptr},
    {"tensor", as_method(tensor), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"tensor_over", tensor_over_array, METH_O, nullptr},
    {"empty", as_method(empty), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"uniform_", uniform, METH_VARARGS, nullptr},
    {"normal_", normal, METH_VARARGS, nullptr},
    {"random_", random, METH_VARARGS, nullptr},
    {"bernoulli_", bernoulli, METH_VARARGS, nullptr},
    {"exponential_", exponential, METH_VARARGS, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, nullptr},
    {"set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"assume_example", assume_example, METH_O, nullptr},
    {"set_decompositions", set_decompositions, METH_O, nullptr},
    {"value_name", value_name, METH_O, nullptr},
    {"set_autocast", set_autocast, METH_O, nullptr},
    {"set_overriding", set_overriding, METH_O, nullptr},
    {"set_default_dtype", set_default_dtype, METH_O, nullptr},
    {"check_device", check, METH_O, nullptr},
    {"promote_types", promote_types, METH_VARARGS, nullptr},
    {"is_tracing", is_tracing, METH_NOARGS, nullptr},
    {"push_module", push_module, METH_O, nullptr},
    {"pop_module", pop_module, METH_NOARGS, nullptr},
    {"fail", fail, METH_VARARGS, nullptr},
    {"assign", assign_tensor, METH_VARARGS, nullptr},
    {"become", become, METH_VARARGS, nullptr},
    {"export", export_program, METH_VARARGS, nullptr},
    {"load", load, METH_O, nullptr},
    {"sym", as_method(sym), METH_FASTCALL, nullptr},
    {"len", length, METH_O, "Return the number of items in a container."},
    {"require", require, METH_VARARGS, nullptr},
    {"trace_subgraph", subgraph, METH_VARARGS, nullptr},
    {"describe_subgraph", describe, METH_VARARGS, nullptr},
    {"record_at", at, METH_VARARGS, nullptr},
    {"control_flow", as_method(control_flow_node), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_atenon", nullptr, sizeof(Session*), functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyObject* make_native_module() { return PyModule_Create(&definition); }

bool fill_native_module(PyObject* module, Session& session) {
  *static_cast<Session**>(PyModule_GetState(module)) = &session;
  session.capture_error = Ref(make_capture_error());
  if (!session.capture_error || !add_symbol_types(session) || !add_scalar_types(session) || !add_tensor_type(session) ||
      !add_function_types(session) || !add_generator_type(session) || !add_program_type(session))
    return false;
  const Ref dtypes = all_dtypes(session);
  if (!dtypes) return false;
  const std::pair<const char*, const Ref*> members[] = {{"CaptureError", &session.capture_error},
                                                        {"Tensor", &session.tensor_type},
                                                        {"SymInt", &session.symint_type},
                                                        {"SymFloat", &session.symfloat_type},
                                                        {"SymBool", &session.symbool_type},
                                                        {"dtype", &session.dtype_type},
                                                        {"device", &session.device_type},
                                                        {"Generator", &session.generator_type},
                                                        {"default_generator", &session.default_generator},
                                                        {"dtypes", &dtypes}};
  for (const auto& [name, value] : members)
    if (PyModule_AddObjectRef(module, name, value->get()) < 0) return false;
  return true;
}

}  // namespace atenon::capture
