#include "capture/lazy_fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "capture/symbols.h"
#include "capture/tensor_data.h"

namespace atenon::capture {
namespace {

using Kind = Distribution::Kind;

// --- Generator

Generator& generator_of(PyObject* self) { return *reinterpret_cast<GeneratorObject*>(self)->generator; }

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<GeneratorObject*>(self)->generator;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* new_generator(PyTypeObject* type, PyObject*, PyObject*) {  // takes a device, which is the CPU
  auto* self = reinterpret_cast<GeneratorObject*>(type->tp_alloc(type, 0));
  if (self) self->generator = new Generator;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* manual_seed(PyObject* self, PyObject* seed) {
  const Ref number(PyNumber_Long(seed));
  if (!number) return nullptr;
  const unsigned long long value = PyLong_AsUnsignedLongLongMask(number.get());
  if (PyErr_Occurred()) return nullptr;
  generator_of(self).manual_seed(value);
  return Py_NewRef(self);
}
PyObject* initial_seed(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator_of(self).initial_seed());
}
// A fresh seed would make two captures of one file differ: it is always the default one.
PyObject* seed(PyObject* self, PyObject*) {
  generator_of(self).manual_seed(Generator::default_seed);
  return initial_seed(self, nullptr);
}
// The state as an opaque object that set_state takes: a copy of the generator.
PyObject* get_state(PyObject* self, PyObject*) {
  PyObject* copy = new_generator(Py_TYPE(self), nullptr, nullptr);
  if (copy) generator_of(copy) = generator_of(self);
  return copy;
}
PyObject* set_state(PyObject* self, PyObject* state) {
  GeneratorObject* other = as_generator(state);
  if (!other) {
    PyErr_SetString(PyExc_TypeError, "set_state takes what get_state gave");
    return nullptr;
  }
  generator_of(self) = *other->generator;
  return Py_NewRef(self);
}
PyObject* device(PyObject*, void*) { return PyUnicode_FromString("cpu"); }

PyMethodDef methods[] = {{"manual_seed", manual_seed, METH_O, nullptr},
                         {"initial_seed", initial_seed, METH_NOARGS, nullptr},
                         {"seed", seed, METH_NOARGS, nullptr},
                         {"get_state", get_state, METH_NOARGS, nullptr},
                         {"set_state", set_state, METH_O, nullptr},
                         {"clone_state", get_state, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {{"device", device, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                       {Py_tp_new, reinterpret_cast<void*>(new_generator)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {0, nullptr}};

// --- Arguments of a call

const Argument* argument(const opset::Call& call, const std::string& name) {
  const auto& parameters = call.op->schema().parameters;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name && !call.arguments[i].is<ir::None>()) return &call.arguments[i];
  return nullptr;
}

std::optional<double> number(const Argument* value) {
  if (!value) return std::nullopt;
  if (value->is<SymInt>())
    if (const auto constant = value->get<SymInt>().constant()) return static_cast<double>(*constant);
  if (value->is<SymFloat>()) return value->get<SymFloat>().constant();
  if (value->is<SymBool>())
    if (const auto constant = value->get<SymBool>().constant()) return *constant ? 1 : 0;
  return std::nullopt;
}

std::optional<int64_t> integer(const Argument* value) {
  return value && value->is<SymInt>() ? value->get<SymInt>().constant() : std::nullopt;
}

std::string base_name(const opset::Call& call) {
  std::string name = call.op->schema().name;
  return name.substr(name.find("::") + 2);
}

// Covers every element of its storage, once and in order.
bool is_whole(const Tensor& tensor) {
  return tensor.offset == 0 && tensor.is_contiguous() && tensor.nbytes() == tensor.storage->size();
}

// Writes the same bytes `count` times.
void repeat_bytes(void* data, const std::vector<std::byte>& element, int64_t count) {
  auto* to = static_cast<std::byte*>(data);
  if (std::all_of(element.begin(), element.end(), [](std::byte b) { return b == std::byte{0}; })) {
    std::memset(to, 0, element.size() * static_cast<size_t>(count));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + static_cast<size_t>(i) * element.size(), element.data(), element.size());
}

std::vector<std::byte> bytes_of(const Tensor& scalar) {
  std::vector<std::byte> bytes(size_of(scalar.dtype));
  std::memcpy(bytes.data(), scalar.data(), bytes.size());
  return bytes;
}

// What lies behind `numbers`: from a 64-bit integer exactly, from a double otherwise.
Tensor scalar_of(const Argument& value, ScalarType dtype) {
  if (const auto exact = integer(&value); exact && !is_floating(dtype) && !is_complex(dtype)) {
    Tensor scalar = Tensor::empty(dtype, {});
    scalar.set_int(0, *exact);
    return scalar;
  }
  return Tensor::scalar(number(&value).value_or(0), dtype);
}

// The axes sorted by their strides: PyTorch draws elements in the order in which they lie.
Tensor in_order_of_memory(const Tensor& tensor) {
  std::vector<size_t> axes(tensor.sizes.size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) { return tensor.strides[a] > tensor.strides[b]; });
  Tensor sorted = tensor;
  for (size_t i = 0; i < axes.size(); ++i) {
    sorted.sizes[i] = tensor.sizes[axes[i]];
    sorted.strides[i] = tensor.strides[axes[i]];
  }
  return sorted;
}

bool draw_into(Generator& generator, Distribution distribution, Tensor& target) {
  const int64_t count = target.numel();
  if (is_whole(target)) {
    const ScalarType dtype = target.dtype;
    target.storage->fill_later([snapshot = generator, distribution, dtype, count](void* data) {
      Generator replay = snapshot;
      fill(replay, distribution, dtype, count, data);
    });
    skip(generator, distribution, dtype, count);
    return true;
  }
  distribution.one_by_one = !target.is_contiguous();
  Tensor lying = in_order_of_memory(target), values = Tensor::empty(target.dtype, lying.sizes);
  fill(generator, distribution, target.dtype, count, values.mutable_data());
  assign(lying, values);
  return true;
}
bool draw_into(Generator& generator, const Distribution& distribution, TensorState& target) {
  return target.is_meta || draw_into(generator, distribution, target.real);
}

// The distribution that a random operator draws from; nullopt where there is none for it.
std::optional<Distribution> distribution_of(const opset::Call& call) {
  const std::string name = base_name(call);
  const auto with = [](Kind kind, double a, double b) { return Distribution{.kind = kind, .a = a, .b = b}; };
  if (name == "rand" || name == "rand_like") return with(Kind::uniform, 0, 1);
  if (name == "randn" || name == "randn_like") return with(Kind::normal, 0, 1);
  if (name == "uniform" || name == "uniform_")
    return with(Kind::uniform, number(argument(call, "from")).value_or(0), number(argument(call, "to")).value_or(1));
  if (name == "normal" || name == "normal_" || name == "normal_functional")
    return with(Kind::normal, number(argument(call, "mean")).value_or(0), number(argument(call, "std")).value_or(1));
  if (name == "exponential" || name == "exponential_")
    return with(Kind::exponential, number(argument(call, "lambd")).value_or(1), 0);
  if ((name == "bernoulli" || name == "bernoulli_") && number(argument(call, "p")))
    return with(Kind::bernoulli, *number(argument(call, "p")), 0);
  if (name == "randint" || name == "randint_like") {
    const int64_t low = integer(argument(call, "low")).value_or(0), high = integer(argument(call, "high")).value_or(0);
    return Distribution{
        .kind = Kind::integers, .low = low, .range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low)};
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> constant_sizes(const ir::TensorMeta& meta) {
  std::vector<int64_t> sizes;
  for (const SymInt& size : meta.sizes) {
    if (!size.constant()) return std::nullopt;
    sizes.push_back(*size.constant());
  }
  return sizes;
}

size_t bytes_for(ScalarType dtype, const std::vector<int64_t>& sizes) {
  size_t bytes = size_of(dtype);
  for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
  return bytes;
}

}  // namespace

bool add_generator_type(Session& session) {
  PyType_Spec spec = {"torch.Generator", sizeof(GeneratorObject), 0, Py_TPFLAGS_DEFAULT, slots};
  session.generator_type = Ref(PyType_FromSpec(&spec));
  if (!session.generator_type) return false;
  session.default_generator = Ref(PyObject_CallNoArgs(session.generator_type.get()));
  return static_cast<bool>(session.default_generator);
}

Generator* chosen(Session& session, PyObject* generator) {
  GeneratorObject* object =
      as_generator(generator && generator != Py_None ? generator : session.default_generator.get());
  if (!object) PyErr_SetString(PyExc_TypeError, "generator must be a torch.Generator");
  return object ? object->generator : nullptr;
}

GeneratorObject* as_generator(PyObject* object) {
  return Py_TYPE(object)->tp_dealloc == destroy ? reinterpret_cast<GeneratorObject*>(object) : nullptr;
}

Tensor lazy_tensor(ScalarType dtype, std::vector<int64_t> sizes, double value) {
  Tensor tensor{.dtype = dtype, .sizes = std::move(sizes)};
  tensor.strides = contiguous_strides(tensor.sizes);
  const int64_t count = tensor.numel();
  tensor.storage = Storage::lazy(
      bytes_for(dtype, tensor.sizes),
      [element = bytes_of(Tensor::scalar(value, dtype)), count](void* data) { repeat_bytes(data, element, count); });
  return tensor;
}

bool draws_with_the_run(Session& session, PyObject* generator) {
  if (!generator || generator == Py_None) return true;
  session.raise(314, "forward draws from a generator of its own",
                "leave `generator` out: the program draws from the generator of `atenon run --seed N`");
  return false;
}

bool draw_distribution(Session& session, PyObject* target, const std::string& distribution, double a, double b,
                       PyObject* generator) {
  TensorObject* tensor = as_tensor(target);
  Generator* source = chosen(session, generator);
  if (!tensor || !source) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "random numbers are drawn into a tensor");
    return false;
  }
  if (session.is_tracing) {
    const Ref first(PyFloat_FromDouble(a)), second(PyFloat_FromDouble(b));
    const std::string name = "aten::" + distribution + "_";
    const bool has_two = distribution == "uniform" || distribution == "normal";
    if (!draws_with_the_run(session, generator)) return false;
    return static_cast<bool>(Ref(has_two ? session.call(name, {target, first.get(), second.get()})
                                         : session.call(name, {target, first.get()})));
  }
  const Kind kind = distribution == "uniform"     ? Kind::uniform
                    : distribution == "normal"    ? Kind::normal
                    : distribution == "bernoulli" ? Kind::bernoulli
                                                  : Kind::exponential;
  return draw_into(*source, {.kind = kind, .a = a, .b = b}, *tensor->state);
}

std::optional<bool> draw_over(Session& session, const opset::Call& call, TensorObject& target, PyObject* generator) {
  const std::optional<Distribution> distribution = distribution_of(call);
  if (!distribution) return std::nullopt;
  Generator* source = chosen(session, generator);
  return source && draw_into(*source, *distribution, *target.state);
}

bool draw_integers(Session& session, PyObject* target, PyObject* low, PyObject* high, PyObject* generator) {
  TensorObject* tensor = as_tensor(target);
  Generator* source = chosen(session, generator);
  if (!tensor || !source) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "random numbers are drawn into a tensor");
    return false;
  }
  if (session.is_tracing)
    return draws_with_the_run(session, generator) &&
           Ref(high && high != Py_None ? session.call("aten::random_", {target, low, high})
                                       : session.call("aten::random_", {target}));
  Distribution distribution{.kind = Kind::all_integers};
  if (high && high != Py_None) {
    const long long from = low && low != Py_None ? PyLong_AsLongLong(low) : 0, to = PyLong_AsLongLong(high);
    if (PyErr_Occurred()) return false;
    distribution = {
        .kind = Kind::integers, .low = from, .range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from)};
  }
  return draw_into(*source, distribution, *tensor->state);
}

std::optional<Tensor> filled(const opset::Call& call, const std::vector<ir::Type>& types, bool is_meta) {
  if (types.size() != 1 || !std::holds_alternative<ir::TensorMeta>(types[0])) return std::nullopt;
  std::string name = base_name(call);
  if (name.starts_with("new_")) name = name.substr(4);
  if (name.ends_with("_like")) name.resize(name.size() - 5);
  std::optional<double> value;
  if (name == "zeros" || name == "empty" || is_meta) value = 0;
  if (name == "ones") value = 1;
  if (name == "full") value = number(argument(call, "fill_value"));
  const ir::TensorMeta& meta = std::get<ir::TensorMeta>(types[0]);
  const std::optional<std::vector<int64_t>> sizes = constant_sizes(meta);
  // Large integers would lose digits in a double: those go to the reference.
  if (!value || !sizes || std::abs(*value) > 9e15) return std::nullopt;
  return lazy_tensor(meta.dtype, *sizes, *value);
}

bool fill_over(TensorObject& target, const opset::Call& call, const reference::Environment& environment) {
  const std::string name = base_name(call);
  Tensor& real = target.state->real;
  if (name == "copy" || name == "copy_") {
    const Tensor& source = std::get<Tensor>(environment.values.at(call.arguments[1].value()));
    if (source.sizes.size() > real.sizes.size()) return false;
    for (size_t i = 0; i < source.sizes.size(); ++i) {
      const int64_t size = source.sizes[source.sizes.size() - 1 - i];
      if (size != 1 && size != real.sizes[real.sizes.size() - 1 - i]) return false;
    }
    assign(real, source);
    return true;
  }
  Argument value = SymInt(0);
  if (name == "fill" || name == "fill_") {
    value = call.arguments[1];
    if (value.value() || value.is<std::complex<double>>()) return false;
  } else if (name != "zero" && name != "zero_") {
    return false;
  }
  std::vector<std::byte> element = bytes_of(scalar_of(value, real.dtype));
  const int64_t count = real.numel();
  if (is_whole(real)) {
    real.storage->fill_later([element, count](void* data) { repeat_bytes(data, element, count); });
  } else if (real.is_contiguous()) {
    const size_t start = static_cast<size_t>(real.offset) * element.size();
    real.storage->change(
        [element, count, start](void* data) { repeat_bytes(static_cast<std::byte*>(data) + start, element, count); });
  } else {
    assign(real, scalar_of(value, real.dtype));
  }
  return true;
}

}  // namespace atenon::capture
