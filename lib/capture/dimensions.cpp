#include "capture/dimensions.h"

#include <algorithm>

#include "capture/symbols.h"

namespace atenon::capture {
namespace {

// The attribute of a Dim that holds a bound; nullopt where there is none.
std::optional<int64_t> bound(PyObject* dim, const char* name) {
  const Ref value = attribute(dim, name);
  if (!value || !PyLong_Check(value.get())) return std::nullopt;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.get(), &overflow);
  return overflow ? std::nullopt : std::optional<int64_t>(number);
}

}  // namespace

bool Dimensions::declare(const std::string& name, shape::Range range, int64_t hint, const std::string& source) {
  const auto known = std::find_if(session_.symbols.begin(), session_.symbols.end(),
                                  [&](const ir::Symbol& s) { return s.name == name; });
  if (known != session_.symbols.end()) {
    if (known->hint == hint) return true;
    session_.raise(306,
                   "dimension `" + name + "` is " + std::to_string(*known->hint) + " in " + known->source + " but " +
                       std::to_string(hint) + " in " + source,
                   "example inputs in which both are equal, or two dimensions of different names");
    return false;
  }
  if (const auto given = ranges_.find(name); given != ranges_.end()) range = given->second;
  if (!range.contains(hint)) {
    session_.raise(
        306, "dimension `" + name + "` is " + std::to_string(hint) + " in the example, outside of " + range.to_string(),
        "an example inside the range, or a wider range");
    return false;
  }
  session_.facts.declare(name, range);
  session_.symbols.push_back({.name = name, .range = range, .hint = hint, .source = source});
  session_.hints[name] = hint;
  return true;
}

// A size of an --input in terms of symbols, whose hints follow from the example where the size is one symbol.
bool Dimensions::match(const SymInt& size, int64_t example, const std::string& source) {
  if (const auto symbol = size.as_symbol()) return declare(*symbol, {1, shape::Range::highest}, example, source);
  for (const std::string& symbol : size.symbols())
    if (!session_.hints.contains(symbol)) {
      session_.raise(306, "dimension `" + symbol + "` appears only inside `" + size.to_string() + "`",
                     "an input one of whose sizes is `" + symbol + "` itself, before it");
      return false;
    }
  if (shape::evaluate(size, session_.hints) == example) return true;
  session_.raise(306, source + " is " + std::to_string(example) + " in the example, not " + size.to_string(),
                 "an example of that size");
  return false;
}

std::optional<SymInt> Dimensions::size_from(PyObject* dim, int64_t example, const std::string& source) {
  if (dim == Py_None) return SymInt(example);
  if (const auto number = integer_of(dim)) {
    if (*number == SymInt(example)) return *number;
    session_.raise(306, source + " is " + std::to_string(example) + " in the example, not " + number->to_string(),
                   "an example of that size");
    return std::nullopt;
  }
  if (PyUnicode_Check(dim)) {
    const SymInt size = SymInt::symbol(text_of(dim));
    return match(size, example, source) ? std::optional(size) : std::nullopt;
  }
  const Ref name = attribute(dim, "__name__");
  const Ref root = attribute(dim, "root");
  if (root && root.get() != Py_None) {  // a derived dimension: 2 * batch + 1
    const std::string root_name = text_of(attribute(root.get(), "__name__").get());
    const Ref symbol = session_.wrap(SymInt::symbol(root_name));
    const Ref function = attribute(dim, "fn");
    const Ref derived(function && symbol ? PyObject_CallOneArg(function.get(), symbol.get()) : nullptr);
    const std::optional<SymInt> size = derived ? integer_of(derived.get()) : std::nullopt;
    if (!size || !match(*size, example, source)) {
      if (!PyErr_Occurred())
        session_.raise(306, "the derived dimension of " + source + " is not understood", "a plain torch.export.Dim");
      return std::nullopt;
    }
    return size;
  }
  std::string text = name ? text_of(name.get()) : "";
  const shape::Range range{bound(dim, "min").value_or(0), bound(dim, "max").value_or(shape::Range::highest)};
  if (const Ref kind = attribute(dim, "type"); text.empty() && kind) {  // Dim.AUTO, DYNAMIC, STATIC
    if (text_of(attribute(kind.get(), "name").get()) == "STATIC") return SymInt(example);
    text = "s" + std::to_string(session_.symbols.size());
    if (text_of(attribute(kind.get(), "name").get()) == "AUTO") session_.automatic.insert(text);
  }
  if (!declare(text, range, example, source)) return std::nullopt;
  return SymInt::symbol(text);
}

bool Dimensions::apply(PyObject* spec, std::vector<SymInt>& sizes, const std::string& path) {
  if (!spec || !PyDict_Check(spec)) return true;
  PyObject *key = nullptr, *dim = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(spec, &position, &key, &dim);) {
    const auto axis = static_cast<size_t>(PyLong_AsLong(key));
    const std::optional<SymInt> size = size_from(dim, *sizes[axis].constant(), path + "[" + std::to_string(axis) + "]");
    if (!size) return false;
    sizes[axis] = *size;
  }
  return true;
}

std::optional<int64_t> Dimensions::example_of(const SymInt& size) {
  const auto symbol = size.as_symbol();
  if (!symbol || session_.hints.contains(*symbol)) return shape::evaluate(size, session_.hints).value_or(0);
  const auto range = ranges_.find(*symbol);
  return range == ranges_.end() ? 2 : std::clamp<int64_t>(2, range->second.lower, range->second.upper);
}

}  // namespace atenon::capture
