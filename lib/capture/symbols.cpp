// SymInt, SymFloat and SymBool of Python: sizes that stay symbolic while the user's code computes with them.
//
// Arithmetic makes expressions; a result that has become constant is a number of Python's own. So is a comparison that
// what is known of the symbols decides. Any other stays a truth until Python branches on it: then the example decides,
// and the truth is an assumption of the program, or an error where only data could tell. Where CPython insists on a
// number of its own (range(n), int(n), an index of a list) the value cannot stay symbolic, which is an error that names
// the line.
#include "capture/symbols.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "capture/session.h"
#include "shape/halves.h"

namespace atenon::capture {
namespace {

using Number = std::variant<SymInt, SymFloat>;

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<SymbolObject*>(self)->value;
  type->tp_free(self);
  Py_DECREF(type);
}

// The number that an operand stands for; nullopt if it is none of ours and none of Python's.
std::optional<Number> number_of(PyObject* object) {
  if (SymbolObject* symbol = as_symbol(object)) {
    if (auto* integer = std::get_if<SymInt>(symbol->value)) return *integer;
    if (auto* real = std::get_if<SymFloat>(symbol->value)) return *real;
    // A truth in arithmetic is 0 or 1, as Python's is.
    return SymInt(symbol->session->decide(std::get<SymBool>(*symbol->value), "a truth used as a number") ? 1 : 0);
  }
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return std::nullopt;
    return SymInt(static_cast<int64_t>(value));
  }
  if (PyFloat_Check(object)) return SymFloat(PyFloat_AS_DOUBLE(object));
  return std::nullopt;
}

SymFloat to_float(const Number& number) {
  if (auto* real = std::get_if<SymFloat>(&number)) return *real;
  return SymFloat::from(std::get<SymInt>(number));
}

Session& session_of(PyObject* a, PyObject* b = nullptr) {
  SymbolObject* symbol = as_symbol(a);
  return *(symbol ? symbol : as_symbol(b))->session;
}

// Applies `integers` where both operands are integers, `floats` otherwise.
template <class Integers, class Floats>
PyObject* combine(PyObject* a, PyObject* b, Integers integers, Floats floats) {
  const std::optional<Number> x = number_of(a), y = number_of(b);
  if (PyErr_Occurred()) return nullptr;
  if (!x || !y) Py_RETURN_NOTIMPLEMENTED;
  Session& session = session_of(a, b);
  if (std::holds_alternative<SymInt>(*x) && std::holds_alternative<SymInt>(*y))
    return session.wrap(integers(std::get<SymInt>(*x), std::get<SymInt>(*y))).release();
  return session.wrap(floats(to_float(*x), to_float(*y))).release();
}

SymFloat apply(const char* op, const SymFloat& a, const SymFloat& b) { return SymFloat::apply(op, {a, b}); }

PyObject* add(PyObject* a, PyObject* b) {
  return combine(
      a, b, [](const auto& x, const auto& y) { return shape::close_halves(x + y); },
      [](const auto& x, const auto& y) { return apply("+", x, y); });
}
PyObject* subtract(PyObject* a, PyObject* b) {
  return combine(
      a, b, [](const auto& x, const auto& y) { return x - y; },
      [](const auto& x, const auto& y) { return apply("-", x, y); });
}
PyObject* multiply(PyObject* a, PyObject* b) {
  return combine(
      a, b, [](const auto& x, const auto& y) { return x * y; },
      [](const auto& x, const auto& y) { return apply("*", x, y); });
}
PyObject* true_divide(PyObject* a, PyObject* b) {
  return combine(
      a, b, [](const auto& x, const auto& y) { return apply("/", SymFloat::from(x), SymFloat::from(y)); },
      [](const auto& x, const auto& y) { return apply("/", x, y); });
}

// Python divides by zero with an exception: the divisor is not zero, or it is known to be.
bool refuse_zero(Session& session, PyObject* divisor) {
  const std::optional<Number> number = number_of(divisor);
  if (!number || !std::holds_alternative<SymInt>(*number)) return false;
  if (session.require(shape::not_equal(std::get<SymInt>(*number), 0), "division by a size"))
    return PyErr_Occurred() != nullptr;
  PyErr_SetString(PyExc_ZeroDivisionError, "division of a size by zero");
  return true;
}

PyObject* floor_divide(PyObject* a, PyObject* b) {
  if (refuse_zero(session_of(a, b), b)) return nullptr;
  return combine(
      a, b, [](const auto& x, const auto& y) { return shape::floor_div(x, y); },
      [](const auto& x, const auto& y) { return SymFloat::from(shape::floor(apply("/", x, y))); });
}
PyObject* remainder(PyObject* a, PyObject* b) {
  if (refuse_zero(session_of(a, b), b)) return nullptr;
  return combine(
      a, b, [](const auto& x, const auto& y) { return shape::mod(x, y); },
      [](const auto& x, const auto& y) {
        return apply("-", x, apply("*", y, SymFloat::from(shape::floor(apply("/", x, y)))));
      });
}
PyObject* divide_with_remainder(PyObject* a, PyObject* b) {
  const Ref quotient(floor_divide(a, b));
  if (!quotient || quotient.get() == Py_NotImplemented) return Ref(quotient).release();
  const Ref rest(remainder(a, b));
  return rest ? PyTuple_Pack(2, quotient.get(), rest.get()) : nullptr;
}

// 2**n, for n from 0 to 48: pow() is within a few units of the last place, and so rounds to it. nullopt with an
// exception.
std::optional<SymInt> power_of_two(Session& session, const SymInt& n, const std::string& reason) {
  constexpr int64_t most = 48;
  if (const auto known = n.constant(); known && *known >= 0 && *known <= 62) return SymInt(int64_t{1} << *known);
  if (session.require(shape::less_equal(0, n), reason) && session.require(shape::less_equal(n, most), reason) &&
      !PyErr_Occurred())
    return shape::round(apply("pow", SymFloat(2.0), SymFloat::from(n)));
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, (reason + " is by 0 to " + std::to_string(most)).c_str());
  return std::nullopt;
}

// x << n and x >> n: times, or by, 2**n.
template <bool is_left>
PyObject* shift(PyObject* a, PyObject* b) {
  const std::optional<Number> x = number_of(a), y = number_of(b);
  if (PyErr_Occurred()) return nullptr;
  const SymInt *value = x ? std::get_if<SymInt>(&*x) : nullptr, *by = y ? std::get_if<SymInt>(&*y) : nullptr;
  if (!value || !by) Py_RETURN_NOTIMPLEMENTED;
  Session& session = session_of(a, b);
  const std::optional<SymInt> factor = power_of_two(session, *by, "a shift of sizes");
  if (!factor) return nullptr;
  return session.wrap(is_left ? *value * *factor : shape::floor_div(*value, *factor)).release();
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  static constexpr const char* two_power = "a power of 2 that is a size";
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  const std::optional<Number> x = number_of(a), y = number_of(b);
  const SymInt *base = x ? std::get_if<SymInt>(&*x) : nullptr, *exponent = y ? std::get_if<SymInt>(&*y) : nullptr;
  const auto is_whole = [&](const shape::Range& range) { return 0 <= range.lower && range.upper <= 64; };
  if (base && base->constant() == 2 && exponent && is_whole(session_of(a, b).facts.bounds(*exponent))) {
    const std::optional<SymInt> result = power_of_two(session_of(a, b), *exponent, two_power);
    return result ? session_of(a, b).wrap(*result).release() : nullptr;
  }
  if (PyErr_Occurred()) return nullptr;
  if (exponent && exponent->constant() && *exponent->constant() >= 0 && *exponent->constant() <= 16)
    return combine(
        a, b, [&](const auto& x, const auto&) { return shape::product(std::vector<SymInt>(*exponent->constant(), x)); },
        [](const auto& x, const auto& z) { return apply("pow", x, z); });
  return combine(
      a, b, [](const auto& x, const auto& z) { return apply("pow", SymFloat::from(x), SymFloat::from(z)); },
      [](const auto& x, const auto& z) { return apply("pow", x, z); });
}

PyObject* negative(PyObject* self) {
  const Number number = *number_of(self);
  if (auto* integer = std::get_if<SymInt>(&number)) return session_of(self).wrap(-*integer).release();
  return session_of(self).wrap(apply("*", SymFloat(-1.0), to_float(number))).release();
}
PyObject* positive(PyObject* self) { return Py_NewRef(self); }
PyObject* absolute(PyObject* self) {
  const Number number = *number_of(self);
  if (auto* integer = std::get_if<SymInt>(&number))
    return session_of(self).wrap(shape::max(*integer, -*integer)).release();
  return session_of(self).wrap(SymFloat::apply("abs", {to_float(number)})).release();
}

SymBool relation(int op, const Number& a, const Number& b) {
  if (std::holds_alternative<SymInt>(a) && std::holds_alternative<SymInt>(b)) {
    const SymInt &x = std::get<SymInt>(a), &y = std::get<SymInt>(b);
    switch (op) {
      case Py_EQ:
        return shape::equal(x, y);
      case Py_NE:
        return shape::not_equal(x, y);
      case Py_LT:
        return shape::less(x, y);
      case Py_LE:
        return shape::less_equal(x, y);
      case Py_GT:
        return shape::less(y, x);
      default:
        return shape::less_equal(y, x);
    }
  }
  static constexpr const char* names[] = {"<", "<=", "==", "!=", ">", ">="};  // Py_LT is 0
  return shape::compare(names[op], to_float(a), to_float(b));
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  const std::optional<Number> x = number_of(a), y = number_of(b);
  if (PyErr_Occurred()) return nullptr;
  if (!x || !y) Py_RETURN_NOTIMPLEMENTED;
  return session_of(a, b).truth(relation(op, *x, *y)).release();
}

// The truth that an operand of &, | and ^ stands for; nullopt if it is none.
std::optional<SymBool> truth_of(PyObject* object) {
  if (PyBool_Check(object)) return SymBool(object == Py_True);
  SymbolObject* symbol = as_symbol(object);
  const SymBool* truth = symbol ? std::get_if<SymBool>(symbol->value) : nullptr;
  return truth ? std::optional(*truth) : std::nullopt;
}

// x & mask, for a mask whose highest bit is below 2**62: a bit of x is between its rests by two powers of two.
SymInt masked(const SymInt& x, int64_t mask) {
  if (mask < 0) return x - masked(x, ~mask);
  SymInt result;
  for (int64_t bit = 1; bit <= mask; bit *= 2)
    if (mask & bit) result = result + shape::mod(x, 2 * bit) - shape::mod(x, bit);
  return result;
}

// Two truths by `truths`; a size and a number, of `x & number`, by `integers(x, number, x & number)`.
template <class Truths, class Integers>
PyObject* join(PyObject* a, PyObject* b, Truths truths, Integers integers) {
  const std::optional<SymBool> p = truth_of(a), q = truth_of(b);
  if (p && q) return session_of(a, b).truth(truths(*p, *q)).release();
  const auto is_integer = [](PyObject* object) { return as_symbol(object) || PyLong_Check(object); };
  if (!is_integer(a) || !is_integer(b)) Py_RETURN_NOTIMPLEMENTED;  // a tensor joins by itself, and decides nothing
  const std::optional<Number> x = number_of(a), y = number_of(b);
  if (PyErr_Occurred()) return nullptr;
  const SymInt *m = x ? std::get_if<SymInt>(&*x) : nullptr, *n = y ? std::get_if<SymInt>(&*y) : nullptr;
  if (!m || !n) Py_RETURN_NOTIMPLEMENTED;
  if (m->constant()) std::swap(m, n);
  const std::optional<int64_t> mask = n->constant();
  if (!mask || std::max(*mask, ~*mask) >= int64_t{1} << 62) Py_RETURN_NOTIMPLEMENTED;
  return session_of(a, b).wrap(integers(*m, *n, masked(*m, *mask))).release();
}

PyObject* bitwise_and(PyObject* a, PyObject* b) {
  return join(a, b, shape::both, [](const auto&, const auto&, const auto& common) { return common; });
}
PyObject* bitwise_or(PyObject* a, PyObject* b) {
  return join(a, b, shape::either, [](const auto& x, const auto& y, const auto& common) { return x + y - common; });
}
PyObject* bitwise_xor(PyObject* a, PyObject* b) {
  return join(
      a, b,
      [](const auto& p, const auto& q) { return shape::both(shape::either(p, q), shape::negate(shape::both(p, q))); },
      [](const auto& x, const auto& y, const auto& common) { return x + y - common - common; });
}

PyObject* inverted(PyObject* self) {
  if (const std::optional<SymBool> truth = truth_of(self))
    return session_of(self).truth(shape::negate(*truth)).release();
  const std::optional<Number> number = number_of(self);
  if (const auto* integer = number ? std::get_if<SymInt>(&*number) : nullptr)
    return session_of(self).wrap(SymInt(-1) - *integer).release();
  PyErr_SetString(PyExc_TypeError, "bad operand type for unary ~: 'SymFloat'");
  return nullptr;
}

int is_nonzero(PyObject* self) {
  SymbolObject* symbol = as_symbol(self);
  Session& session = *symbol->session;
  bool truth;
  if (auto* boolean = std::get_if<SymBool>(symbol->value))
    truth = session.decide(*boolean, "a test in Python, which the example decided");
  else
    truth = session.decide(relation(Py_NE, *number_of(self), SymInt(0)), "a size used as a truth");
  return PyErr_Occurred() ? -1 : truth;
}

std::string spelling(SymbolObject* symbol) {
  return std::visit([](const auto& value) { return value.to_string(); }, *symbol->value);
}

PyObject* represent(PyObject* self) { return PyUnicode_FromString(spelling(as_symbol(self)).c_str()); }
// Numbers of two recordings are never the same key: what the model remembers of a size (functools.lru_cache) was found
// under what that recording assumes.
Py_hash_t hash(PyObject* self) {
  const std::string key = std::to_string(session_of(self).recording_number) + ' ' + spelling(as_symbol(self));
  const Py_hash_t value = static_cast<Py_hash_t>(std::hash<std::string>()(key));
  return value == -1 ? -2 : value;
}

PyObject* refuse_number(PyObject* self, const char* python_type) {
  Session& session = session_of(self);
  const std::string promise = static_specification(
      session, std::visit([](const auto& value) { return value.symbols(); }, *as_symbol(self)->value));
  const std::string is_data = promise.empty() ? "depends on data" : "is dynamic";
  const bool is_size = std::holds_alternative<SymInt>(*as_symbol(self)->value);
  std::string fix = is_size ? "keep it symbolic: write the size where it is used, without range(), np.arange() or a "
                              "list index; torch.arange, "
                            : "keep it symbolic: operators multiply and add it, and so scale what uniform_() and "
                              "normal_() draw by plain numbers; ";
  fix += "int(), float(), len(), math.floor, math.ceil, math.log2, //, <<, min and max stay symbolic";
  if (promise.empty())
    fix += "; torch.while_loop and scan run a loop so often as data decide";
  else if (is_size)
    fix += std::string(". In place of a loop, ") + instead_of_loop;
  if (!promise.empty()) fix += ". Or make " + promise;
  const std::string kind = is_size ? "size" : "number";
  return session.raise(310,
                       "the " + kind + " `" + spelling(as_symbol(self)) + "` " + is_data +
                           " and cannot become Python's own " + python_type,
                       fix);
}

// What a draft goes on with: the example's size, which is then assumed.
PyObject* drafted(PyObject* self) {
  Session& session = session_of(self);
  const Number number = *number_of(self);
  const SymInt* size = std::get_if<SymInt>(&number);
  const std::optional<double> example = shape::evaluate(to_float(number), session.hints);
  if (!example || !session.tolerate()) return nullptr;
  if (!size) return PyFloat_FromDouble(*example);
  session.assume({.truth = shape::equal(*size, static_cast<int64_t>(*example)), .reason = "Python asks for a number"});
  return PyLong_FromDouble(*example);
}

// Of a size that has one value in all its ranges: (n + 511)//512 for n in 1..64.
std::optional<int64_t> only_value(PyObject* self) {
  const std::optional<Number> number = number_of(self);
  const SymInt* integer = number ? std::get_if<SymInt>(&*number) : nullptr;
  if (!integer) return std::nullopt;
  const shape::Facts& facts = session_of(self).facts;
  const shape::Range range = facts.bounds(*integer);
  return range.lower == range.upper ? range.lower : facts.value_of(*integer);
}

PyObject* as_index(PyObject* self) {
  if (const std::optional<int64_t> value = only_value(self)) return PyLong_FromLongLong(*value);
  refuse_number(self, "int");
  return drafted(self);
}
PyObject* as_float(PyObject* self) {
  if (const std::optional<int64_t> value = only_value(self)) return PyFloat_FromDouble(static_cast<double>(*value));
  refuse_number(self, "float");
  return drafted(self);
}

// int(n) and float(n): CPython's insist on numbers of its own. Called by this slot of their types, a symbolic number
// goes around them, and so does the item() of a traced tensor; all others are theirs.
PyObject* convert(PyObject* type, PyObject* const* args, size_t count, PyObject* names) {
  const auto python = [&](PyObject* const* given) {
    return _PyObject_MakeTpCall(PyThreadState_Get(), type, given, PyVectorcall_NARGS(count), names);
  };
  if (names || PyVectorcall_NARGS(count) != 1) return python(args);
  const TensorObject* tensor = as_tensor(args[0]);
  const bool is_traced = tensor && tensor->session->is_tracing && tensor->state->is_traced();
  const Ref number = is_traced ? Ref(PyObject_CallMethod(args[0], "item", nullptr)) : Ref::borrow(args[0]);
  if (!number) return nullptr;
  PyObject* const object = number.get();
  const SymbolObject* symbol = as_symbol(object);
  if (!symbol) return python(&object);
  const bool is_int = type == reinterpret_cast<PyObject*>(&PyLong_Type);
  return symbolic_function(*symbol->session, is_int ? "int" : "float", &object, 1);
}

// How often range(start, stop, step) turns, if that is as in the example for all sizes.
std::optional<int64_t> turns(const Session& session, const SymInt& start, const SymInt& stop, const SymInt& step) {
  const bool is_up = session.facts.proves(shape::less(0, step));
  if (!is_up && !session.facts.proves(shape::less(step, 0))) return std::nullopt;
  const SymInt way = is_up ? stop - start : start - stop, length = is_up ? step : -step;
  const std::optional<int64_t> count =
      shape::evaluate(shape::max(0, shape::floor_div(way + length - 1, length)), session.hints);
  if (!count || !session.facts.proves(shape::less_equal(way, length * *count))) return std::nullopt;
  return *count == 0 || session.facts.proves(shape::less(length * (*count - 1), way)) ? count : std::nullopt;
}

// range(0, n, n) and its like: the sizes that it goes through, where their count is known. All else is Python's.
vectorcallfunc python_range = nullptr;
PyObject* range(PyObject* type, PyObject* const* args, size_t flags, PyObject* names) {
  const size_t count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  const auto symbol =
      std::find_if(args, args + count, [](PyObject* arg) { return as_symbol(arg) && !only_value(arg); });
  if (symbol == args + count || names || count > 3) return python_range(type, args, flags, names);
  Session& session = session_of(*symbol);
  std::vector<SymInt> numbers;
  for (size_t i = 0; i < count; ++i)
    if (const std::optional<SymInt> number = integer_of(args[i])) numbers.push_back(*number);
  if (numbers.size() != count) return python_range(type, args, flags, names);
  const SymInt start = count > 1 ? numbers[0] : 0, stop = numbers[count > 1], step = count > 2 ? numbers[2] : 1;
  const std::optional<int64_t> known = turns(session, start, stop, step);
  if (!known) return python_range(type, args, flags, names);
  std::vector<SymInt> sizes;
  for (int64_t i = 0; i < *known; ++i) sizes.push_back(start + step * i);
  return session.wrap_all(sizes).release();
}

template <SymInt (*round)(const SymFloat&)>
PyObject* rounded(PyObject* self, PyObject* args) {
  if (args && PyTuple_GET_SIZE(args) > 0 && PyTuple_GET_ITEM(args, 0) != Py_None) return refuse_number(self, "float");
  const Number number = *number_of(self);
  if (std::holds_alternative<SymInt>(number)) return Py_NewRef(self);
  Session& session = session_of(self);
  return session.wrap(session.facts.simplify(round(std::get<SymFloat>(number)))).release();
}

PyObject* is_integer(PyObject* self, PyObject*) {
  const SymFloat value = to_float(*number_of(self));
  const bool truth =
      session_of(self).decide(shape::compare("==", value, SymFloat::from(shape::floor(value))), "is_integer()");
  if (PyErr_Occurred()) return nullptr;
  return PyBool_FromLong(truth);
}

// In a message (f"{size:>5d}") a size is its spelling, to the width that is asked for.
PyObject* formatted(PyObject* self, PyObject* spec) {
  std::string layout = text_of(spec);
  if (!layout.empty() && std::isalpha(static_cast<unsigned char>(layout.back()))) layout.pop_back();
  layout.resize(std::min(layout.size(), layout.find('.')));
  std::erase_if(layout, [](char c) { return c == ',' || c == '_' || c == '+' || c == '='; });
  const Ref text(represent(self)), fill(PyUnicode_FromString(layout.c_str()));
  return PyObject_Format(text.get(), fill.get());
}

PyObject* sqrt(PyObject* self, PyObject*) {
  return session_of(self).wrap(SymFloat::apply("sqrt", {to_float(*number_of(self))})).release();
}

// np.log(size) calls size.log(), and so on; np.floor and np.ceil call math's.
template <const char* name>
PyObject* by_math(PyObject* self, PyObject*) {
  const Ref math(PyImport_ImportModule("math"));
  return math ? PyObject_CallMethod(math.get(), name, "O", self) : nullptr;
}
constexpr char log_name[] = "log", log2_name[] = "log2", exp_name[] = "exp", sqrt_name[] = "sqrt";

// What NumPy's functions give is used as a number of NumPy's: np.ceil(np.log(n)).astype(int).item(). Of the types as
// wide as a size and what is computed from it.
PyObject* astype(PyObject* self, PyObject* type) {
  const std::string name = str_of(type);
  const auto is_one_of = [&](const std::string& kind) {
    return name == kind || name == kind + "64" || name == "<class '" + kind + "'>" ||
           name == "<class 'numpy." + kind + "64'>";
  };
  const bool is_int = is_one_of("int");
  if (!is_int && !is_one_of("float")) return refuse_number(self, name.c_str());
  return symbolic_function(session_of(self), is_int ? "int" : "float", &self, 1);
}
PyObject* itself(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* bit_length(PyObject* self, PyObject*) {
  constexpr int64_t most = (int64_t{1} << 44) - 1;  // the logarithm of more may round up to that of a power of two
  Session& session = session_of(self);
  const Number number = *number_of(self);
  const SymInt* value = std::get_if<SymInt>(&number);
  if (!value) return refuse_number(self, "int");
  const SymInt size = session.facts.simplify(shape::max(*value, -*value));
  if (!session.require(shape::less_equal(size, most), "bit_length() of a size")) return refuse_number(self, "int");
  const SymInt highest = shape::floor(SymFloat::apply("log2", {SymFloat::from(shape::max(size, 1))}));
  return session.wrap(session.facts.simplify(highest + shape::min(size, 1))).release();
}

// What NumPy's functions call of a number, and what only Python's own has.
PyObject* refused(PyObject* self, PyObject*) { return refuse_number(self, "number"); }

PyMethodDef methods[] = {
    {"__floor__", rounded<shape::floor>, METH_VARARGS, nullptr},
    {"__ceil__", rounded<shape::ceil>, METH_VARARGS, nullptr},
    {"__trunc__", rounded<shape::trunc>, METH_VARARGS, nullptr},
    {"__round__", rounded<shape::round>, METH_VARARGS, nullptr},
    {"__format__", formatted, METH_O, nullptr},
    {"is_integer", is_integer, METH_NOARGS, nullptr},
    {"__sym_sqrt__", sqrt, METH_NOARGS, nullptr},
    {"log", by_math<log_name>, METH_NOARGS, nullptr},
    {"log2", by_math<log2_name>, METH_NOARGS, nullptr},
    {"exp", by_math<exp_name>, METH_NOARGS, nullptr},
    {"sqrt", by_math<sqrt_name>, METH_NOARGS, nullptr},
    {"astype", astype, METH_O, nullptr},
    {"item", itself, METH_NOARGS, nullptr},
    {"bit_length", bit_length, METH_NOARGS, nullptr},
    {"bit_count", refused, METH_VARARGS, nullptr},
    {"as_integer_ratio", refused, METH_VARARGS, nullptr},
    {"log10", refused, METH_VARARGS, nullptr},
    {"log1p", refused, METH_VARARGS, nullptr},
    {"exp2", refused, METH_VARARGS, nullptr},
    {"expm1", refused, METH_VARARGS, nullptr},
    {"cbrt", refused, METH_VARARGS, nullptr},
    {"hypot", refused, METH_VARARGS, nullptr},
    {"sin", refused, METH_VARARGS, nullptr},
    {"cos", refused, METH_VARARGS, nullptr},
    {"tan", refused, METH_VARARGS, nullptr},
    {"arctan", refused, METH_VARARGS, nullptr},
    {"tanh", refused, METH_VARARGS, nullptr},
    {"rint", refused, METH_VARARGS, nullptr},
    {"conjugate", itself, METH_NOARGS, nullptr},
    {"__copy__", itself, METH_NOARGS, nullptr},
    {"__deepcopy__", itself, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// isinstance(x.shape[0], int) holds, as where sizes are plain numbers. type() tells a symbolic number from a plain one.
PyObject* python_type(PyObject* self, void*) {
  PyTypeObject* const types[] = {&PyLong_Type, &PyFloat_Type, &PyBool_Type};  // in the order of SymbolObject's kinds
  return Py_NewRef(reinterpret_cast<PyObject*>(types[as_symbol(self)->value->index()]));
}

// The parts of a number that is not complex, as Python's own has them.
PyObject* real_part(PyObject* self, void*) { return positive(self); }
PyObject* imaginary_part(PyObject* self, void*) {
  return std::holds_alternative<SymFloat>(*number_of(self)) ? PyFloat_FromDouble(0) : PyLong_FromLong(0);
}

PyGetSetDef properties[] = {
    {"__class__", python_type, nullptr, nullptr, nullptr},
    {"real", real_part, nullptr, nullptr, nullptr},
    {"imag", imaginary_part, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_hash, reinterpret_cast<void*>(hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_nb_add, reinterpret_cast<void*>(add)},
    {Py_nb_subtract, reinterpret_cast<void*>(subtract)},
    {Py_nb_multiply, reinterpret_cast<void*>(multiply)},
    {Py_nb_true_divide, reinterpret_cast<void*>(true_divide)},
    {Py_nb_floor_divide, reinterpret_cast<void*>(floor_divide)},
    {Py_nb_remainder, reinterpret_cast<void*>(remainder)},
    {Py_nb_divmod, reinterpret_cast<void*>(divide_with_remainder)},
    {Py_nb_power, reinterpret_cast<void*>(power)},
    {Py_nb_lshift, reinterpret_cast<void*>(shift<true>)},
    {Py_nb_rshift, reinterpret_cast<void*>(shift<false>)},
    {Py_nb_negative, reinterpret_cast<void*>(negative)},
    {Py_nb_positive, reinterpret_cast<void*>(positive)},
    {Py_nb_absolute, reinterpret_cast<void*>(absolute)},
    {Py_nb_and, reinterpret_cast<void*>(bitwise_and)},
    {Py_nb_or, reinterpret_cast<void*>(bitwise_or)},
    {Py_nb_xor, reinterpret_cast<void*>(bitwise_xor)},
    {Py_nb_invert, reinterpret_cast<void*>(inverted)},
    {Py_nb_bool, reinterpret_cast<void*>(is_nonzero)},
    {Py_nb_index, reinterpret_cast<void*>(as_index)},
    {Py_nb_int, reinterpret_cast<void*>(as_index)},
    {Py_nb_float, reinterpret_cast<void*>(as_float)},
    {0, nullptr},
};

PyObject* symbol_object(Session& session, const Ref& type, std::variant<SymInt, SymFloat, SymBool> value) {
  auto* object = PyObject_New(SymbolObject, reinterpret_cast<PyTypeObject*>(type.get()));
  if (!object) return nullptr;
  object->session = &session;
  object->value = new std::variant<SymInt, SymFloat, SymBool>(std::move(value));
  return reinterpret_cast<PyObject*>(object);
}

Ref make_type(const char* name) {
  PyType_Spec spec = {name, sizeof(SymbolObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return Ref(PyType_FromSpec(&spec));
}

}  // namespace

std::string static_specification(const Session& session, const std::set<std::string>& symbols) {
  std::string text;
  for (const ir::Symbol& known : session.symbols)
    if (symbols.contains(known.name) && !known.source.empty() && known.hint)
      text += (text.empty() ? "" : ", and ") + known.source + " static, which is " + std::to_string(*known.hint) +
              " in the example (no name for it in dynamic_shapes or --input)";
  return text;
}

bool add_symbol_types(Session& session) {
  PyLong_Type.tp_vectorcall = PyFloat_Type.tp_vectorcall = convert;
  if (PyRange_Type.tp_vectorcall != range) python_range = std::exchange(PyRange_Type.tp_vectorcall, range);
  session.symint_type = make_type("_atenon.SymInt");
  session.symfloat_type = make_type("_atenon.SymFloat");
  session.symbool_type = make_type("_atenon.SymBool");
  return session.symint_type && session.symfloat_type && session.symbool_type;
}

SymbolObject* as_symbol(PyObject* object) {
  return Py_TYPE(object)->tp_dealloc == destroy ? reinterpret_cast<SymbolObject*>(object) : nullptr;
}

std::optional<SymInt> integer_of(PyObject* object) {
  const std::optional<Number> number = number_of(object);
  if (number && std::holds_alternative<SymInt>(*number)) return std::get<SymInt>(*number);
  if (number || PyLong_Check(object) || !PyIndex_Check(object) || as_tensor(object)) return std::nullopt;
  const Ref index(PyNumber_Index(object));  // numpy's integers
  if (!index) {
    PyErr_Clear();
    return std::nullopt;
  }
  return integer_of(index.get());
}

std::optional<SymFloat> float_of(PyObject* object) {
  const std::optional<Number> number = number_of(object);
  return number ? std::optional(to_float(*number)) : std::nullopt;
}

PyObject* symbolic_function(Session& session, const std::string& name, PyObject* const* args, size_t count) {
  std::vector<Number> numbers;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Number> number = number_of(args[i]);
    if (PyErr_Occurred()) return nullptr;
    if (!number) {
      PyErr_Format(PyExc_TypeError, "sym_%s: %R is not a number", name.c_str(), args[i]);
      return nullptr;
    }
    numbers.push_back(*number);
  }
  if ((name == "min" || name == "max") && count == 2) {
    const bool is_min = name == "min";
    if (std::holds_alternative<SymInt>(numbers[0]) && std::holds_alternative<SymInt>(numbers[1])) {
      const SymInt &a = std::get<SymInt>(numbers[0]), &b = std::get<SymInt>(numbers[1]);
      return session.wrap(session.facts.simplify(is_min ? shape::min(a, b) : shape::max(a, b))).release();
    }
    return session.wrap(SymFloat::apply(name, {to_float(numbers[0]), to_float(numbers[1])})).release();
  }
  if (count == 1 && name == "float") return session.wrap(to_float(numbers[0])).release();
  if (count == 1 && name == "int") {
    if (auto* integer = std::get_if<SymInt>(&numbers[0])) return session.wrap(*integer).release();
    return session.wrap(session.facts.simplify(shape::trunc(to_float(numbers[0])))).release();
  }
  if (count == 1 && (name == "sqrt" || name == "exp" || name == "log" || name == "log2"))
    return session.wrap(SymFloat::apply(name, {to_float(numbers[0])})).release();
  PyErr_Format(PyExc_TypeError, "there is no symbolic function '%s' of %zu arguments", name.c_str(), count);
  return nullptr;
}

Ref number_object(const reference::Datum& number) {
  if (auto* integer = std::get_if<int64_t>(&number)) return Ref(PyLong_FromLongLong(*integer));
  if (auto* real = std::get_if<double>(&number)) return Ref(PyFloat_FromDouble(*real));
  return Ref(PyBool_FromLong(std::get<bool>(number)));
}

std::string Session::new_symbol(shape::Range range) {
  std::string name;
  do name = ir::unbacked_name(unbacked++);
  while (facts.ranges().contains(name) || graph.find(name));
  facts.declare(name, range);
  symbols.push_back({.name = name, .range = range, .source = ""});
  return name;
}

shape::Range range_of(ScalarType type) {
  if (type == ScalarType::i64) return {};
  const int64_t bits = static_cast<int64_t>(8 * size_of(type));
  if (type == ScalarType::u8) return {0, 255};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

Ref Session::number(ir::Value* value, shape::Range range) {
  const std::optional<reference::Datum> known = known_value(value);
  if (known) return number_object(*known);
  if (PyErr_Occurred()) return {};
  const std::vector<ir::Value*> operands = value->producer ? value->producer->operands() : std::vector<ir::Value*>();
  if (value->producer &&
      (value->producer->target() == "aten::item" || value->producer->target() == "aten::_local_scalar_dense"))
    if (Ref number = number_of_sizes(operands[0])) return number;
  switch (std::get<ir::ScalarKind>(value->type)) {
    case ir::ScalarKind::integer: {
      const bool is_read = operands.size() == 1 && operands[0]->is_tensor() && is_integral(operands[0]->meta().dtype);
      graph.rename(value, new_symbol(is_read ? range_of(operands[0]->meta().dtype) : range));
      return wrap(SymInt::symbol(value->name));
    }
    case ir::ScalarKind::floating:
      graph.rename(value, new_symbol({}));
      return wrap(SymFloat::number(SymInt::symbol(value->name)));
    case ir::ScalarKind::boolean:
      graph.rename(value, new_symbol({0, 1}));
      return wrap(shape::not_equal(SymInt::symbol(value->name), 0));
  }
  return {};
}

Ref Session::wrap(const SymInt& value) {
  if (const auto constant = value.constant()) return Ref(PyLong_FromLongLong(*constant));
  return Ref(symbol_object(*this, symint_type, value));
}

Ref Session::wrap(const SymFloat& value) {
  if (const auto constant = value.constant()) return Ref(PyFloat_FromDouble(*constant));
  return Ref(symbol_object(*this, symfloat_type, value));
}

Ref Session::wrap(const SymBool& value) {
  if (const auto constant = value.constant()) return Ref(PyBool_FromLong(*constant));
  return Ref(symbol_object(*this, symbool_type, value));
}

Ref Session::truth(const SymBool& value) {
  const shape::Truth known = facts.decide(value);
  return known == shape::Truth::open ? wrap(value) : Ref(PyBool_FromLong(known == shape::Truth::proven));
}

Ref Session::wrap_all(const std::vector<SymInt>& sizes) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
  if (!tuple) return {};
  for (size_t i = 0; i < sizes.size(); ++i) {
    Ref size = wrap(sizes[i]);
    if (!size) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), size.release());
  }
  return tuple;
}

Ref Session::wrap_sizes(const std::vector<SymInt>& sizes) {
  // torch.Size is a tuple whose slices stay Size: a plain tuple is made first, then the class is called with it.
  Ref tuple = wrap_all(sizes);
  if (!tuple || !size_class) return tuple;
  return Ref(PyObject_CallOneArg(size_class.get(), tuple.get()));
}

}  // namespace atenon::capture
