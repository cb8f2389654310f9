// _atenon.Tensor: attributes and Python's protocols. Everything that computes goes to the operators
// (operator_call.cpp).
#include "capture/tensor_object.h"

#include "capture/callstack.h"
#include "capture/indexing.h"
#include "capture/literal.h"
#include "capture/strides.h"
#include "capture/symbols.h"
#include "capture/tensor_data.h"

namespace atenon::capture {
namespace {

TensorObject& self_of(PyObject* self) { return *reinterpret_cast<TensorObject*>(self); }

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete self_of(self).state;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* new_instance(PyTypeObject* type, PyObject* args, PyObject*) {
  // torch.Tensor(...) is Python's business; a subclass made by hand (nn.Parameter) comes through make_subclass.
  if (PyTuple_GET_SIZE(args) == 1)
    if (TensorObject* other = as_tensor(PyTuple_GET_ITEM(args, 0)))
      return new_tensor(*other->session, type, other->session->share(*other), false).release();
  PyErr_Format(PyExc_TypeError, "%s is made by torch.tensor and its like", type->tp_name);
  return nullptr;
}

// --- Attributes

std::vector<SymInt> sizes_of(TensorObject& tensor) { return tensor.session->meta(tensor).sizes; }

PyObject* shape(PyObject* self, void*) { return self_of(self).session->wrap_sizes(sizes_of(self_of(self))).release(); }
PyObject* dimensions(PyObject* self, void*) {
  TensorObject& tensor = self_of(self);
  return PyLong_FromSize_t(tensor.state->is_traced() ? tensor.session->meta(tensor).sizes.size()
                                                     : tensor.state->real.sizes.size());
}
PyObject* dim(PyObject* self, PyObject*) { return dimensions(self, nullptr); }

// The axis that a Python int names, or -1 with an IndexError.
int axis_of(TensorObject& tensor, PyObject* object) {
  const long axis = PyLong_AsLong(object);
  if (axis == -1 && PyErr_Occurred()) return -1;
  const long rank = static_cast<long>(sizes_of(tensor).size());
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  PyErr_Format(PyExc_IndexError, "Dimension out of range (expected to be in range of [%ld, %ld], but got %ld)", -rank,
               rank - 1, axis);
  return -1;
}

PyObject* one_of(PyObject* self, PyObject* args, PyObject* keywords, const char* format,
                 std::vector<SymInt> (*list)(TensorObject&), bool as_size) {
  static const char* names[] = {"dim", nullptr};
  PyObject* which = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, format, const_cast<char**>(names), &which)) return nullptr;
  TensorObject& tensor = self_of(self);
  const std::vector<SymInt> values = list(tensor);
  if (which != Py_None) {
    const int axis = axis_of(tensor, which);
    return axis < 0 ? nullptr : tensor.session->wrap(values[static_cast<size_t>(axis)]).release();
  }
  if (as_size) return tensor.session->wrap_sizes(values).release();
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; tuple && i < values.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), tensor.session->wrap(values[i]).release());
  return tuple.release();
}
PyObject* size(PyObject* self, PyObject* args, PyObject* keywords) {
  return one_of(self, args, keywords, "|O:size", sizes_of, true);
}
PyObject* stride(PyObject* self, PyObject* args, PyObject* keywords) {
  return one_of(self, args, keywords, "|O:stride", strides_of, false);
}

PyObject* numel(PyObject* self, PyObject*) {
  return self_of(self).session->wrap(shape::product(sizes_of(self_of(self)))).release();
}
PyObject* storage_offset(PyObject* self, PyObject*) {
  const TensorState& state = *self_of(self).state;
  return self_of(self).session->wrap(state.is_traced() ? state.offset : SymInt(state.real.offset)).release();
}
PyObject* is_contiguous(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"memory_format", nullptr};
  PyObject* format = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:is_contiguous", const_cast<char**>(names), &format))
    return nullptr;
  const std::vector<SymInt> sizes = sizes_of(self_of(self));
  return PyBool_FromLong(lie_alike(strides_of(self_of(self)), strides_of_format(str_of(format), sizes), sizes));
}
PyObject* element_size(PyObject* self, PyObject*) {
  return PyLong_FromSize_t(size_of(self_of(self).session->meta(self_of(self)).dtype));
}
PyObject* dtype(PyObject* self, void*) {
  TensorObject& tensor = self_of(self);
  const ScalarType type = tensor.state->is_traced() ? tensor.session->meta(tensor).dtype : tensor.state->real.dtype;
  return Py_NewRef(tensor.session->dtypes.at(type).get());
}
PyObject* device(PyObject* self, void*) { return PyObject_CallNoArgs(self_of(self).session->device_type.get()); }
PyObject* none(PyObject*, void*) { return new_none(); }
PyObject* yes(PyObject*, void*) { return Py_NewRef(Py_True); }
PyObject* requires_grad(PyObject* self, void*) { return PyBool_FromLong(self_of(self).requires_grad); }
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  const int truth = value ? PyObject_IsTrue(value) : -1;
  if (truth < 0) return -1;
  self_of(self).requires_grad = truth;
  return 0;
}
int ignore_grad(PyObject*, PyObject*, void*) { return 0; }
PyObject* is_traced(PyObject* self, void*) { return PyBool_FromLong(self_of(self).session->is_tracing); }

// Another object for the same memory.
PyObject* alias(PyObject* self, PyObject*) {
  TensorObject& tensor = self_of(self);
  return tensor.session->wrap(tensor.session->share(tensor)).release();
}
PyObject* data(PyObject* self, void*) { return alias(self, nullptr); }
int set_data(PyObject* self, PyObject* value, void*) {
  TensorObject* other = value ? as_tensor(value) : nullptr;
  if (!other) {
    PyErr_SetString(PyExc_TypeError, "data must be a tensor");
    return -1;
  }
  *self_of(self).state = *other->state;
  return 0;
}

// The same number for tensors that share memory, another one otherwise.
PyObject* data_ptr(PyObject* self, PyObject*) {
  const TensorState& state = *self_of(self).state;
  return PyLong_FromVoidPtr(state.is_traced() ? static_cast<void*>(state.base.get())
                                              : static_cast<void*>(state.real.storage.get()));
}

// --- Values as Python's own

// Whether the value is known while capturing: a number that depends on inputs stays symbolic.
bool is_symbolic(TensorObject& tensor) {
  if (!tensor.session->is_tracing) return false;
  ir::Value* value = tensor.session->read(tensor);
  return value && !tensor.session->known_value(value) && !PyErr_Occurred();
}

PyObject* item(PyObject* self, PyObject*) {
  if (is_symbolic(self_of(self))) return self_of(self).session->call("aten::item", {self});
  if (PyErr_Occurred()) return nullptr;
  const std::optional<Tensor> value = data_of(self_of(self), "item()");
  if (!value) return nullptr;
  if (value->numel() == 1) return element(*value, 0);
  PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
               static_cast<long long>(value->numel()));
  return nullptr;
}

// The first of a tensor's sizes, as a number of Python's; -1 with an exception where it is dynamic.
Py_ssize_t first_size(PyObject* self, const char* purpose, std::string fix) {
  TensorObject& tensor = self_of(self);
  const std::vector<SymInt> sizes = sizes_of(tensor);
  if (const auto count = tensor.session->facts.value_of(sizes[0])) return static_cast<Py_ssize_t>(*count);
  if (const std::string promise = static_specification(*tensor.session, sizes[0].symbols()); !promise.empty())
    fix += ". Or make " + promise;
  tensor.session->raise(
      310,
      std::string(purpose) + " must be a number, but dimension 0 has the dynamic size `" + sizes[0].to_string() + "`",
      fix);
  const std::optional<int64_t> example = shape::evaluate(sizes[0], tensor.session->hints);
  if (!example || !tensor.session->tolerate()) return -1;
  tensor.session->assume({.truth = shape::equal(sizes[0], *example), .reason = "Python asks for a number"});
  return static_cast<Py_ssize_t>(*example);
}

// Are there so many rows as bincount has counted kinds?
bool is_counted(TensorObject& tensor) {
  const SymInt count = sizes_of(tensor)[0];
  for (const ir::Node& node : tensor.session->graph.forward())
    if (node.target() == "aten::bincount" && node.result()->meta().sizes[0] == count) return true;
  return false;
}

PyObject* tolist(PyObject* self, PyObject*) {
  if (is_symbolic(self_of(self))) {
    TensorObject& tensor = self_of(self);
    if (sizes_of(tensor).empty()) return item(self, nullptr);
    const std::string fix =
        is_counted(tensor)
            ? "make it known: one_hot(x, n).sum(0) counts as bincount does"
            : std::string("operators take all rows of the tensor at once; in place of a loop, ") + instead_of_loop;
    if (first_size(self, "the length of tolist()", fix) < 0) return nullptr;
    const Ref parts(tensor.session->call("aten::unbind", {self}));
    Ref list(parts ? PySequence_List(parts.get()) : nullptr);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
      const Ref part = Ref::borrow(PyList_GET_ITEM(list.get(), i));
      PyObject* values = tolist(part.get(), nullptr);
      if (!values) return nullptr;
      PyList_SetItem(list.get(), i, values);
    }
    return list.release();
  }
  if (PyErr_Occurred()) return nullptr;
  const std::optional<Tensor> value = data_of(self_of(self), "tolist()");
  return value ? nested_list(value->contiguous()) : nullptr;
}

// The only element; symbolic where it is made of sizes alone.
Ref single(PyObject* self, const char* purpose) {
  TensorObject& tensor = self_of(self);
  if (is_symbolic(tensor))
    if (Ref number = tensor.session->number_of_sizes(tensor.session->read(tensor))) return number;
  if (PyErr_Occurred()) return {};
  const std::optional<Tensor> value = data_of(tensor, purpose);
  if (!value) return {};
  if (value->numel() == 1) return Ref(element(*value, 0));
  PyErr_Format(PyExc_RuntimeError, "%s of a tensor with %lld elements", purpose,
               static_cast<long long>(value->numel()));
  return {};
}

int truth(PyObject* self) {
  Session& session = *self_of(self).session;
  const bool is_promise = session.is_tracing && self_of(self).state->is_traced() && session.call_stacks->asserted();
  const Ref number = is_promise ? Ref(session.call("aten::item", {self})) : single(self, "bool()");
  return number ? PyObject_IsTrue(number.get()) : -1;
}
PyObject* as_int(PyObject* self) {
  const Ref number = single(self, "int()");
  return number ? PyNumber_Long(number.get()) : nullptr;
}
PyObject* as_index(PyObject* self) {
  const ScalarType type = self_of(self).session->meta(self_of(self)).dtype;
  if (is_floating(type) || is_complex(type)) {
    PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
    return nullptr;
  }
  return as_int(self);
}
PyObject* as_float(PyObject* self) {
  const Ref number = single(self, "float()");
  return number ? PyNumber_Float(number.get()) : nullptr;
}

// Is the tensor a constant that forward itself has made, and that no node has read?
bool is_unread_constant(TensorObject& tensor) {
  const Session& session = *tensor.session;
  const TensorState& state = *tensor.state;
  if (!state.is_traced() || !state.chain.empty() || !session.scopes.empty()) return false;
  ir::Value* value = state.base->value;
  return session.constants_known.values.contains(value) && !value->has_users() &&
         (value->producer || session.literal_inputs.contains(value));
}

// What forward may write as an array: memory of its own, which item() of the whole tensor reads as well.
Tensor shared_with_array(Session& session, ir::Value* value, const Tensor& content) {
  Tensor& own = std::get<Tensor>(session.constants_known.values.at(value));
  if (std::ranges::find(session.arrays, value, &Session::Shared::value) == session.arrays.end()) {
    session.arrays.push_back({value, content, session.call_stacks->user_line()});
    own = Tensor::empty(content.dtype, content.sizes);
    assign(own, content);
  }
  return own;
}

// The memory of the tensor itself. While forward runs most can only be read: what Python writes there, no graph would
// have.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  std::optional<Tensor> value = data_of(
      self_of(self), "an array of its data",
      "give the tensor itself, and not what .numpy() or np.array() makes of it: pack_padded_sequence takes one, "
      "and torch has most of NumPy's functions");
  if (!value) return -1;
  Session& session = *self_of(self).session;
  const bool is_shared = session.is_tracing && is_unread_constant(self_of(self)),
             writable = is_shared || !session.is_tracing;
  if (is_shared) value = shared_with_array(session, self_of(self).state->base->value, *value);
  if (writable) value->mutable_data();
  return fill_buffer(self, *value, writable, view, flags);
}
PyObject* numpy(PyObject* self, PyObject*, PyObject*) {
  const Ref memory(PyMemoryView_FromObject(self));
  const Ref module(memory ? PyImport_ImportModule("numpy") : nullptr);
  const Ref function(module ? PyObject_GetAttrString(module.get(), "asarray") : nullptr);
  return function ? PyObject_CallOneArg(function.get(), memory.get()) : nullptr;
}

// --- As a sequence

bool has_rows(PyObject* self, const char* purpose) {
  if (!sizes_of(self_of(self)).empty()) return true;
  PyErr_Format(PyExc_TypeError, "%s a 0-d tensor", purpose);
  return false;
}
Py_ssize_t length(PyObject* self) {
  return has_rows(self, "len() of") ? first_size(self, "len()", "x.shape[0] stays symbolic") : -1;
}
PyObject* iterate(PyObject* self) {
  if (!has_rows(self, "iteration over")) return nullptr;
  if (first_size(self, "the count of rows that Python goes through",
                 std::string("in place of a loop, ") + instead_of_loop) < 0)
    return nullptr;
  const Ref parts(self_of(self).session->call("aten::unbind", {self}));
  return parts ? PyObject_GetIter(parts.get()) : nullptr;
}
PyObject* subscript(PyObject* self, PyObject* index) {
  Session& session = *self_of(self).session;
  return session.overriding ? session.call_overriding("__getitem__", {self, index}) : get_item(self_of(self), index);
}
int store(PyObject* self, PyObject* index, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "a tensor does not support deleting items");
    return -1;
  }
  Session& session = *self_of(self).session;
  if (session.overriding) return Ref(session.call_overriding("__setitem__", {self, index, value})) ? 0 : -1;
  return set_item(self_of(self), index, value) ? 0 : -1;
}

// --- Operators

bool is_array(PyObject* object) {  // of NumPy, and not one of its numbers
  return !as_tensor(object) && PySequence_Check(object) && PyObject_HasAttrString(object, "__array_interface__");
}

// Beside an array it is NumPy that computes, as in PyTorch (__array_wrap__).
bool is_operand(PyObject* object) {
  if (is_array(object)) return false;
  return as_tensor(object) || as_symbol(object) || PyLong_Check(object) || PyFloat_Check(object) ||
         PyComplex_Check(object) || (PyIndex_Check(object) && !PyType_Check(object)) ||
         PyObject_HasAttrString(object, "__float__");
}

Session& session_of(PyObject* a, PyObject* b) {
  TensorObject* tensor = as_tensor(a);
  return *(tensor ? tensor : as_tensor(b))->session;
}

struct Name {  // of an operator, as a template argument
  char text[32] = {};
  consteval Name(const char* name) {
    for (int i = 0; name[i]; ++i) text[i] = name[i];
  }
};

// The operator, unless classes or modes are asked, who know it by `method`; "" is the operator's own name.
PyObject* call(Session& session, const char* name, const char* method, std::initializer_list<PyObject*> args) {
  return *method && session.overriding ? session.call_overriding(method, args) : session.call(name, args);
}

template <Name name, Name method = "">
PyObject* unary(PyObject* self) {
  return call(*self_of(self).session, name.text, method.text, {self});
}

// `self op other`, where either may be the tensor: `number op tensor` swaps the operands.
template <Name name, Name method = "">
PyObject* binary(PyObject* a, PyObject* b) {
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  Session& session = session_of(a, b);
  return as_tensor(a) ? call(session, name.text, method.text, {a, b}) : session.call(name.text, {b, a});
}

PyObject* subtract(PyObject* a, PyObject* b) {
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  Session& session = session_of(a, b);
  return as_tensor(a) ? session.call("aten::sub", {a, b}) : call(session, "aten::rsub", "__rsub__", {b, a});
}

// number / tensor is Python's business.
PyObject* true_divide(PyObject* a, PyObject* b) {
  if (!as_tensor(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  return self_of(a).session->call("aten::div", {a, b});
}

template <Name name, Name method = "">
PyObject* in_place(PyObject* self, PyObject* other) {
  if (!is_operand(other)) Py_RETURN_NOTIMPLEMENTED;
  return call(*self_of(self).session, name.text, method.text, {self, other});
}

// Operators that take a number on the left, too.
template <Name name, Name method, Name reflected>
PyObject* in_order(PyObject* a, PyObject* b) {
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  Session& session = session_of(a, b);
  if (!session.overriding) return session.call(name.text, {a, b});
  return as_tensor(a) ? session.call_overriding(method.text, {a, b}) : session.call_overriding(reflected.text, {b, a});
}

PyObject* power(PyObject* a, PyObject* b, PyObject*) { return in_order<"aten::pow", "pow", "__rpow__">(a, b); }
PyObject* power_in_place(PyObject* self, PyObject* other, PyObject*) {
  return self_of(self).session->call("aten::pow_", {self, other});
}

PyObject* matmul(PyObject* a, PyObject* b) {
  if (!as_tensor(a) || !as_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  return session_of(a, b).call("aten::matmul", {a, b});
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  static constexpr const char* names[] = {"aten::lt", "aten::le", "aten::eq",
                                          "aten::ne", "aten::gt", "aten::ge"};  // Py_LT is 0
  Session& session = *self_of(a).session;
  if (is_array(b) && (op == Py_EQ || op == Py_NE)) {
    const Ref other(tensor_from(session, b, std::nullopt));
    return other ? session.call(names[op], {a, other.get()}) : nullptr;
  }
  if (!is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  if (op == Py_EQ && session.overriding) return session.call_overriding("__eq__", {a, b});
  return session.call(names[op], {a, b});
}

Py_hash_t hash(PyObject* self) { return _Py_HashPointer(self); }
PyObject* positive(PyObject* self) {
  Session& session = *self_of(self).session;
  return session.overriding ? session.call_overriding("positive", {self}) : Py_NewRef(self);
}

// --- The type

template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"dim", dim, METH_NOARGS, nullptr},
    {"size", method(size), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"stride", method(stride), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"numel", numel, METH_NOARGS, nullptr},
    {"storage_offset", storage_offset, METH_NOARGS, nullptr},
    {"is_contiguous", method(is_contiguous), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"element_size", element_size, METH_NOARGS, nullptr},
    {"detach", alias, METH_NOARGS, nullptr},
    {"detach_", [](PyObject* self, PyObject*) { return Py_NewRef(self); }, METH_NOARGS, nullptr},
    {"data_ptr", data_ptr, METH_NOARGS, nullptr},
    {"untyped_storage", data_ptr, METH_NOARGS, nullptr},
    {"item", item, METH_NOARGS, nullptr},
    {"tolist", tolist, METH_NOARGS, nullptr},
    {"numpy", method(numpy), METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"shape", shape, nullptr, nullptr, nullptr},
    {"ndim", dimensions, nullptr, nullptr, nullptr},
    {"dtype", dtype, nullptr, nullptr, nullptr},
    {"device", device, nullptr, nullptr, nullptr},
    {"data", data, set_data, nullptr, nullptr},
    {"grad", none, ignore_grad, nullptr, nullptr},
    {"is_leaf", yes, nullptr, nullptr, nullptr},
    {"requires_grad", requires_grad, set_requires_grad, nullptr, nullptr},
    {"_is_traced", is_traced, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

template <class Function>
PyType_Slot slot(int id, Function function) {
  return {id, reinterpret_cast<void*>(function)};
}

PyType_Slot slots[] = {
    slot(Py_tp_dealloc, destroy),
    slot(Py_tp_new, new_instance),
    slot(Py_tp_hash, hash),
    slot(Py_tp_richcompare, compare),
    slot(Py_tp_iter, iterate),
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    slot(Py_mp_length, length),
    slot(Py_mp_subscript, subscript),
    slot(Py_mp_ass_subscript, store),
    slot(Py_bf_getbuffer, get_buffer),
    slot(Py_bf_releasebuffer, release_buffer),
    slot(Py_nb_bool, truth),
    slot(Py_nb_int, as_int),
    slot(Py_nb_index, as_index),
    slot(Py_nb_float, as_float),
    slot(Py_nb_negative, unary<"aten::neg">),
    slot(Py_nb_positive, positive),
    slot(Py_nb_absolute, unary<"aten::abs">),
    slot(Py_nb_invert, unary<"aten::bitwise_not", "__invert__">),
    slot(Py_nb_add, binary<"aten::add">),
    slot(Py_nb_subtract, subtract),
    slot(Py_nb_multiply, binary<"aten::mul">),
    slot(Py_nb_true_divide, true_divide),
    slot(Py_nb_floor_divide, in_order<"aten::floor_divide", "__floordiv__", "__rfloordiv__">),
    slot(Py_nb_remainder, in_order<"aten::remainder", "remainder", "__rmod__">),
    slot(Py_nb_power, power),
    slot(Py_nb_matrix_multiply, matmul),
    slot(Py_nb_and, binary<"aten::bitwise_and", "__and__">),
    slot(Py_nb_or, binary<"aten::bitwise_or", "__or__">),
    slot(Py_nb_xor, binary<"aten::bitwise_xor", "__xor__">),
    slot(Py_nb_lshift, in_order<"aten::bitwise_left_shift", "__lshift__", "__rlshift__">),
    slot(Py_nb_rshift, in_order<"aten::bitwise_right_shift", "__rshift__", "__rrshift__">),
    slot(Py_nb_inplace_add, in_place<"aten::add_">),
    slot(Py_nb_inplace_subtract, in_place<"aten::sub_">),
    slot(Py_nb_inplace_multiply, in_place<"aten::mul_">),
    slot(Py_nb_inplace_true_divide, in_place<"aten::div_">),
    slot(Py_nb_inplace_floor_divide, in_place<"aten::floor_divide_">),
    slot(Py_nb_inplace_remainder, in_place<"aten::remainder_">),
    slot(Py_nb_inplace_power, power_in_place),
    slot(Py_nb_inplace_lshift, in_place<"aten::bitwise_left_shift_", "__ilshift__">),
    slot(Py_nb_inplace_rshift, in_place<"aten::bitwise_right_shift_", "__irshift__">),
    slot(Py_nb_inplace_and, in_place<"aten::bitwise_and_", "__iand__">),
    slot(Py_nb_inplace_or, in_place<"aten::bitwise_or_", "__ior__">),
    slot(Py_nb_inplace_xor, in_place<"aten::bitwise_xor_", "__ixor__">),
    {0, nullptr},
};

}  // namespace

bool add_tensor_type(Session& session) {
  PyType_Spec spec = {"_atenon.Tensor", sizeof(TensorObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  session.tensor_type = Ref(PyType_FromSpec(&spec));
  session.tensor_class = session.tensor_type;
  return static_cast<bool>(session.tensor_type);
}

TensorObject* as_tensor(PyObject* object) {
  for (PyTypeObject* type = Py_TYPE(object); type; type = type->tp_base)
    if (type->tp_dealloc == destroy) return reinterpret_cast<TensorObject*>(object);
  return nullptr;
}

Ref new_tensor(Session& session, PyTypeObject* type, TensorState state, bool requires_grad) {
  Ref object(type->tp_alloc(type, 0));
  if (!object) return {};
  TensorObject& tensor = self_of(object.get());
  tensor.session = &session;
  tensor.state = new TensorState(std::move(state));
  tensor.requires_grad = requires_grad;
  return object;
}

std::vector<SymInt> strides_of(TensorObject& tensor) {
  if (!tensor.state->is_traced()) return {tensor.state->real.strides.begin(), tensor.state->real.strides.end()};
  if (tensor.state->strides) return *tensor.state->strides;
  return row_major(sizes_of(tensor));
}

Ref Session::wrap(TensorState state) {
  return new_tensor(*this, reinterpret_cast<PyTypeObject*>(tensor_class.get()), std::move(state), false);
}

std::optional<Tensor> data_of(TensorObject& tensor, const char* purpose, const char* fix) {
  Session& session = *tensor.session;
  if (!session.is_tracing) {
    if (!tensor.state->is_traced()) return tensor.state->real;
    session.raise(311, std::string(purpose) + " of a tensor that depends on the model's inputs",
                  "keep such tensors inside forward");
    return std::nullopt;
  }
  ir::Value* value = session.read(tensor);
  std::optional<reference::Datum> datum = value ? session.constant_value(value, purpose, fix) : std::nullopt;
  if (!datum && value && session.tolerate()) datum = session.example_value(value);
  return datum ? std::optional(std::get<Tensor>(*datum)) : std::nullopt;
}

}  // namespace atenon::capture
