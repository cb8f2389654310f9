#include "capture/scalar_objects.h"

namespace atenon::capture {

// An element type that PyTorch has and programs do not: libraries put it into tables.
struct ForeignType {
  std::string_view name;
  size_t size;
  std::string_view instead;  // the nearest that there is

  bool is_floating() const { return name.starts_with("float"); }
  bool is_complex() const { return name.starts_with("complex"); }
  bool is_signed() const {
    return is_complex() || (is_floating() && name != "float8_e8m0fnu") || name.starts_with("int");
  }
};

namespace {

constexpr ForeignType foreign_types[] = {{"uint16", 2, "int32"},
                                         {"uint32", 4, "int64"},
                                         {"uint64", 8, "int64"},
                                         {"float8_e4m3fn", 1, "float16"},
                                         {"float8_e5m2", 1, "float16"},
                                         {"float8_e4m3fnuz", 1, "float16"},
                                         {"float8_e5m2fnuz", 1, "float16"},
                                         {"float8_e8m0fnu", 1, "float32"},
                                         {"float4_e2m1fn_x2", 1, "float16"},
                                         {"complex32", 4, "complex64"},
                                         {"qint8", 1, "float32"},
                                         {"quint8", 1, "float32"},
                                         {"qint32", 4, "float32"},
                                         {"quint4x2", 1, "float32"},
                                         {"quint2x4", 1, "float32"},
                                         {"bits8", 1, "uint8"},
                                         {"bits16", 2, "int16"},
                                         {"bits1x8", 1, "uint8"},
                                         {"bits2x4", 1, "uint8"},
                                         {"bits4x2", 1, "uint8"},
                                         {"int1", 1, "int8"},
                                         {"int2", 1, "int8"},
                                         {"int3", 1, "int8"},
                                         {"int4", 1, "int8"},
                                         {"int5", 1, "int8"},
                                         {"int6", 1, "int8"},
                                         {"int7", 1, "int8"},
                                         {"uint1", 1, "uint8"},
                                         {"uint2", 1, "uint8"},
                                         {"uint3", 1, "uint8"},
                                         {"uint4", 1, "uint8"},
                                         {"uint5", 1, "uint8"},
                                         {"uint6", 1, "uint8"},
                                         {"uint7", 1, "uint8"}};

// --- dtype: one object a type, so that `is` works as in PyTorch

void destroy_dtype(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

const DtypeObject& dtype(PyObject* self) { return *reinterpret_cast<DtypeObject*>(self); }
ScalarType type_of(PyObject* self) { return dtype(self).type; }
const ForeignType* foreign(PyObject* self) { return dtype(self).foreign; }
std::string name_of(PyObject* self) {
  return foreign(self) ? std::string(foreign(self)->name) : torch_name_of(type_of(self));
}

PyObject* dtype_text(PyObject* self) { return PyUnicode_FromFormat("torch.%s", name_of(self).c_str()); }
PyObject* dtype_reduce(PyObject* self, PyObject*) {  // copies and pickles find it again as torch.<name>
  return PyUnicode_FromString(name_of(self).c_str());
}
PyObject* dtype_copy(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* is_floating_point(PyObject* self, void*) {
  return PyBool_FromLong(foreign(self) ? foreign(self)->is_floating() : is_floating(type_of(self)));
}
PyObject* is_complex_type(PyObject* self, void*) {
  return PyBool_FromLong(foreign(self) ? foreign(self)->is_complex() : is_complex(type_of(self)));
}
PyObject* is_signed(PyObject* self, void*) {
  return PyBool_FromLong(foreign(self) ? foreign(self)->is_signed()
                                       : type_of(self) != ScalarType::u8 && type_of(self) != ScalarType::boolean);
}
PyObject* itemsize(PyObject* self, void*) {
  return PyLong_FromSize_t(foreign(self) ? foreign(self)->size : size_of(type_of(self)));
}

PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
                               {"__copy__", dtype_copy, METH_NOARGS, nullptr},
                               {"__deepcopy__", dtype_copy, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};
PyGetSetDef dtype_attributes[] = {{"is_floating_point", is_floating_point, nullptr, nullptr, nullptr},
                                  {"is_complex", is_complex_type, nullptr, nullptr, nullptr},
                                  {"is_signed", is_signed, nullptr, nullptr, nullptr},
                                  {"itemsize", itemsize, nullptr, nullptr, nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot dtype_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy_dtype)},
                             {Py_tp_repr, reinterpret_cast<void*>(dtype_text)},
                             {Py_tp_methods, dtype_methods},
                             {Py_tp_getset, dtype_attributes},
                             {0, nullptr}};

// --- device

void destroy_device(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<DeviceObject*>(self)->type);
  Py_XDECREF(reinterpret_cast<DeviceObject*>(self)->index);
  type->tp_free(self);
  Py_DECREF(type);
}

// Any device may be named and compared, as libraries do; using one is refused by check_device.
PyObject* new_device(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"type", "index", nullptr};
  PyObject* name = nullptr;
  PyObject* index = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO:device", const_cast<char**>(names), &name, &index))
    return nullptr;
  if (name && as_device(name)) return Py_NewRef(name);
  std::string text = name && PyUnicode_Check(name) ? text_of(name) : name && PyLong_Check(name) ? "cuda" : "cpu";
  Ref number = Ref::borrow(name && PyLong_Check(name) ? name : index);
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    number = Ref(PyLong_FromString(text.c_str() + colon + 1, nullptr, 10));
    if (!number) return nullptr;
    text.resize(colon);
  }
  auto* self = reinterpret_cast<DeviceObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->type = PyUnicode_FromString(text.c_str());
  self->index = number.release();
  return reinterpret_cast<PyObject*>(self);
}

PyObject* device_type(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<DeviceObject*>(self)->type); }
PyObject* device_index(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<DeviceObject*>(self)->index); }
PyObject* device_text(PyObject* self) {
  auto* device = reinterpret_cast<DeviceObject*>(self);
  return device->index == Py_None ? Py_NewRef(device->type)
                                  : PyUnicode_FromFormat("%S:%S", device->type, device->index);
}
PyObject* device_repr(PyObject* self) {
  auto* device = reinterpret_cast<DeviceObject*>(self);
  return device->index == Py_None ? PyUnicode_FromFormat("device(type=%R)", device->type)
                                  : PyUnicode_FromFormat("device(type=%R, index=%R)", device->type, device->index);
}
Py_hash_t device_hash(PyObject* self) { return PyObject_Hash(reinterpret_cast<DeviceObject*>(self)->type); }
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  DeviceObject *x = as_device(a), *y = as_device(b);
  if (!x || !y || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  const bool same = PyObject_RichCompareBool(x->type, y->type, Py_EQ) == 1 &&
                    PyObject_RichCompareBool(x->index, y->index, Py_EQ) == 1;
  return PyBool_FromLong(same == (op == Py_EQ));
}
// `with torch.device(...)` decides where tensors are made.
PyObject* device_enter(PyObject* self, PyObject*) {
  const Ref modes(PyImport_ImportModule("torch._modes"));
  return modes && Ref(PyObject_CallMethod(modes.get(), "enter_device", "O", self)) ? Py_NewRef(self) : nullptr;
}
PyObject* device_exit(PyObject*, PyObject*) {
  const Ref modes(PyImport_ImportModule("torch._modes"));
  return modes && Ref(PyObject_CallMethod(modes.get(), "exit_device", nullptr)) ? Py_NewRef(Py_False) : nullptr;
}

PyMethodDef device_methods[] = {{"__enter__", device_enter, METH_NOARGS, nullptr},
                                {"__exit__", device_exit, METH_VARARGS, nullptr},
                                {"__deepcopy__", dtype_copy, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyGetSetDef device_attributes[] = {{"type", device_type, nullptr, nullptr, nullptr},
                                   {"index", device_index, nullptr, nullptr, nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot device_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy_device)},
                              {Py_tp_new, reinterpret_cast<void*>(new_device)},
                              {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
                              {Py_tp_str, reinterpret_cast<void*>(device_text)},
                              {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
                              {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
                              {Py_tp_methods, device_methods},
                              {Py_tp_getset, device_attributes},
                              {0, nullptr}};

}  // namespace

static Ref new_dtype(const Session& session, ScalarType type, const ForeignType* foreign = nullptr) {
  auto* object = PyObject_New(DtypeObject, reinterpret_cast<PyTypeObject*>(session.dtype_type.get()));
  if (object) object->type = type, object->foreign = foreign;
  return Ref(reinterpret_cast<PyObject*>(object));
}

bool add_scalar_types(Session& session) {
  PyType_Spec dtype_spec = {"torch.dtype", sizeof(DtypeObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};
  session.dtype_type = Ref(PyType_FromSpec(&dtype_spec));
  PyType_Spec device_spec = {"torch.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT, device_slots};
  session.device_type = Ref(PyType_FromSpec(&device_spec));
  if (!session.dtype_type || !session.device_type) return false;
  for (const ScalarType type : all_scalar_types)
    if (!(session.dtypes[type] = new_dtype(session, type))) return false;
  return true;
}

Ref all_dtypes(const Session& session) {
  Ref dtypes(PyDict_New());
  const auto add = [&](const Ref& object) {
    return object && PyDict_SetItemString(dtypes.get(), name_of(object.get()).c_str(), object.get()) == 0;
  };
  bool is_well = static_cast<bool>(dtypes);
  for (const auto& [type, object] : session.dtypes) is_well = is_well && add(object);
  for (const ForeignType& type : foreign_types) is_well = is_well && add(new_dtype(session, {}, &type));
  return is_well ? dtypes : Ref();
}

static bool is_dtype(PyObject* object) { return Py_TYPE(object)->tp_dealloc == destroy_dtype; }

std::optional<ScalarType> dtype_of(PyObject* object) {
  if (is_dtype(object)) return foreign(object) ? std::nullopt : std::optional(type_of(object));
  if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) return ScalarType::boolean;
  if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) return ScalarType::i64;
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) return ScalarType::f64;
  if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) return ScalarType::c128;
  return std::nullopt;
}

bool check_dtype(Session& session, PyObject* object) {
  if (!is_dtype(object) || !foreign(object)) return true;
  std::string names;
  for (const ScalarType type : all_scalar_types)
    names += (names.empty() ? "" : ", ") + std::string(torch_name_of(type));
  const ForeignType& type = *foreign(object);
  session.raise(320, "there is no " + str_of(object) + ": elements of tensors are " + names,
                "torch." + std::string(type.instead) + " instead" +
                    (type.is_floating() ? ", which holds the same numbers, but does not round to them" : ""));
  return false;
}

DeviceObject* as_device(PyObject* object) {
  return Py_TYPE(object)->tp_dealloc == destroy_device ? reinterpret_cast<DeviceObject*>(object) : nullptr;
}

bool check_device(Session& session, PyObject* object) {
  if (object == Py_None) return true;
  const Ref device(PyObject_CallOneArg(session.device_type.get(), object));
  if (!device) return false;
  const std::string type = text_of(as_device(device.get())->type);
  if (type == "cpu" || type == "meta") return true;
  session.raise(304, "there is no device '" + str_of(device.get()) + "': programs run on the CPU",
                "device=\"cpu\", or no device at all");
  return false;
}

}  // namespace atenon::capture
