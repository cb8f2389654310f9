#include "capture/dimensions.h"

#include <algorithm>

#include "capture/symbols.h"
#include "text/limits.h"

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

std::string value_name(const std::string& path) {
  std::string name;
  for (const char c : path)
    if (c != ']') name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  return name;
}

bool Dimensions::declare(const std::string& name, shape::Range range, int64_t hint, const std::string& source) {
  if (const auto fixed = fixed_.find(name); fixed != fixed_.end()) hint = fixed->second;
  const auto known = std::find_if(session_.symbols.begin(), session_.symbols.end(),
                                  [&](const ir::Symbol& s) { return s.name == name; });
  if (known != session_.symbols.end()) {
    if (known->source.empty()) known->source = source;
    if (known->hint == hint) return true;
    const bool is_multiple = *known->hint > 1 && hint > *known->hint && hint % *known->hint == 0;
    session_.raise(306,
                   "dimension `" + name + "` is " + std::to_string(*known->hint) + " in " +
                       (known->source == source ? derived_.at(name).place : known->source) + " but " +
                       std::to_string(hint) + " in " + source,
                   (is_multiple ? std::to_string(hint / *known->hint) + "*" + name + " for " + source + ", or " : "") +
                       "example inputs in which both are equal, or two dimensions of different names");
    return false;
  }
  if (!text::is_symbol_name(name)) {
    session_.raise(306, "no dimension can be called `" + name + "`, which is a word of programs",
                   "another name, such as `" + name + "_size`");
    return false;
  }
  session_.unbacked = std::max(session_.unbacked, ir::unbacked_after(name));
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

bool Dimensions::match(const SymInt& size, int64_t example, const std::string& source) {
  constexpr shape::Range positive{1, shape::Range::highest};
  if (const auto symbol = size.as_symbol()) return declare(*symbol, positive, example, source);
  std::vector<std::string> unknown;
  for (const std::string& symbol : size.symbols())
    if (!session_.hints.contains(symbol)) unknown.push_back(symbol);
  if (!unknown.empty() && size.symbols().size() > 1) {
    session_.raise(306, "dimension `" + unknown[0] + "` appears only inside `" + size.to_string() + "`",
                   "an input one of whose sizes is `" + unknown[0] + "` itself, before it");
    return false;
  }
  if (!unknown.empty() && !derive(size, unknown[0], positive, example, source)) return false;
  if (shape::evaluate(size, session_.hints) == example || !fixed_.empty()) return true;
  session_.raise(306, source + " is " + std::to_string(example) + " in the example, not " + size.to_string(),
                 "an example of that size");
  return false;
}

bool Dimensions::derive(const SymInt& size, const std::string& root, shape::Range range, int64_t example,
                        const std::string& source) {
  const auto at = [&](int64_t value) { return shape::evaluate(size, {{root, value}}).value_or(0); };
  const int64_t offset = at(0), factor = at(1) - offset;
  if (factor <= 0 || size != factor * SymInt::symbol(root) + offset) {
    session_.raise(306, "the derived dimension of " + source + " is not understood",
                   "a plain dimension, or a multiple of one");
    return false;
  }
  if ((example - offset) % factor != 0) {
    session_.raise(306, source + " is " + std::to_string(example) + " in the example, which is no " + size.to_string(),
                   "an example of such a size");
    return false;
  }
  derived_.emplace(root, Derived{size, factor, offset, example, source});
  return declare(root, range, (example - offset) / factor, "");
}

std::optional<SymInt> Dimensions::derived_size(PyObject* dim, PyObject* root, int64_t example,
                                               const std::string& source) {
  const std::string name = text_of(attribute(root, "__name__").get());
  const Ref symbol = session_.wrap(SymInt::symbol(name));
  const Ref function = attribute(dim, "fn");
  const Ref derived(function && symbol ? PyObject_CallOneArg(function.get(), symbol.get()) : nullptr);
  const std::optional<SymInt> size = derived ? integer_of(derived.get()) : std::nullopt;
  if (!size) return std::nullopt;
  const shape::Range range{bound(root, "min").value_or(0), bound(root, "max").value_or(shape::Range::highest)};
  if (!session_.hints.contains(name) && !derive(*size, name, range, example, source)) return std::nullopt;
  return match(*size, example, source) ? size : std::nullopt;
}

void Dimensions::solve_derived() {
  for (ir::Symbol& symbol : session_.symbols) {
    const auto found = derived_.find(symbol.name);
    if (found == derived_.end() || !symbol.source.empty()) continue;
    const auto& [derived, factor, offset, example, place] = found->second;
    std::string name = value_name(place);
    while (session_.hints.contains(name)) name += "_";
    const auto of_root = [&](int64_t end) { return end == shape::Range::highest ? end : factor * end + offset; };
    const SymInt size = SymInt::symbol(name);
    const shape::Substitution solution{{symbol.name, shape::floor_div(size - offset, factor)}};
    session_.hints.erase(symbol.name);
    session_.derived[name] = {symbol.name, factor, offset};
    if (session_.invented.erase(symbol.name)) session_.invented.insert(name);
    symbol = {.name = name,
              .range = {of_root(symbol.range.lower), of_root(symbol.range.upper)},
              .hint = example,
              .source = place};
    session_.hints[name] = example;
    session_.facts.declare(name, symbol.range);
    session_.assume(
        {.truth = shape::equal(shape::mod(size - offset, factor), 0), .reason = place + " is " + derived.to_string()});
    for (const auto& input : session_.graph.inputs())
      if (auto* meta = std::get_if<ir::TensorMeta>(&input->type))
        for (SymInt& axis : meta->sizes)
          axis = axis == derived ? size : session_.facts.simplify(shape::substitute(axis, solution));
  }
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
  if (root && root.get() != Py_None) return derived_size(dim, root.get(), example, source);  // 2 * batch + 1
  std::string text = name ? text_of(name.get()) : "";
  const shape::Range range{bound(dim, "min").value_or(0), bound(dim, "max").value_or(shape::Range::highest)};
  if (const Ref kind = attribute(dim, "type"); text.empty() && kind) {  // Dim.AUTO, DYNAMIC, STATIC
    if (text_of(attribute(kind.get(), "name").get()) == "STATIC") return SymInt(example);
    text = "s" + std::to_string(session_.symbols.size());
    session_.automatic[text] = text_of(attribute(kind.get(), "name").get()) == "AUTO";
  }
  const auto same = std::find_if(session_.symbols.begin(), session_.symbols.end(),
                                 [&](const ir::Symbol& symbol) { return symbol.name == text; });
  if (same != session_.symbols.end() && !(same->range == range) && !ranges_.contains(text)) {
    session_.raise(306,
                   "dimension `" + text + "` is " + same->range.to_string() + " in " + same->source + " but " +
                       range.to_string() + " in " + source,
                   "one torch.export.Dim for both, or another name");
    return std::nullopt;
  }
  if (!declare(text, range, example, source)) return std::nullopt;
  return SymInt::symbol(text);
}

std::optional<SymInt> Dimensions::number(PyObject* dim, int64_t example, const std::string& name,
                                         const std::string& path) {
  if (const Ref kind = attribute(dim, "type"); kind && text_of(attribute(kind.get(), "name").get()) == "STATIC")
    return SymInt(example);
  const Ref spelled = attribute(dim, "__name__");
  if (attribute(dim, "root") || (spelled && session_.hints.contains(text_of(spelled.get())))) {
    session_.raise(306, path + " is an integer whose dimension is one of a size, too",
                   "torch.export.Dim.DYNAMIC, and torch._check in forward for what must hold");
    return std::nullopt;
  }
  const shape::Range range{bound(dim, "min").value_or(shape::Range::lowest),
                           bound(dim, "max").value_or(shape::Range::highest)};
  if (!declare(name, range, example, path)) return std::nullopt;
  return SymInt::symbol(name);
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
  shape::Bindings values = session_.hints;
  for (const std::string& symbol : size.symbols()) {
    if (values.contains(symbol)) continue;
    session_.invented.insert(symbol);
    const auto range = ranges_.find(symbol);
    values[symbol] = range == ranges_.end() ? 2 : std::clamp<int64_t>(2, range->second.lower, range->second.upper);
  }
  return shape::evaluate(size, values).value_or(0);
}

}  // namespace atenon::capture
