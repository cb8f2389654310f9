// Which variant takes the inputs. Messages name the leaf, the dimension and the constraint.
#include <algorithm>

#include "run/engine.h"
#include "run/leaves.h"
#include "text/text.h"

namespace atenon::run {

namespace {

Diagnostic violated(int code, std::string message) { return error(Status::violated, code, std::move(message)); }

// "dimension x[0]"; "input n", which is a number.
std::string place_of(const ir::Symbol& symbol) {
  return (symbol.source.ends_with(']') ? "dimension " : "input ") + symbol.source;
}

// Alike where both are numbers of one value, of whatever kinds; a tensor is never a constant.
bool equals_constant(const Datum& value, const ir::Argument& constant) {
  const std::optional<Datum> number = number_of(constant, {});
  if (!number || std::holds_alternative<Tensor>(value)) return false;
  const int64_t *a = std::get_if<int64_t>(&value), *b = std::get_if<int64_t>(&*number);
  if (a && b) return *a == *b;
  return tensor_of(value).float_at(0) == tensor_of(*number).float_at(0);
}

const char* kind_of(const Datum& value) {
  switch (value.index()) {
    case 0:
      return "a tensor";
    case 1:
      return "an int";
    case 2:
      return "a float";
    default:
      return "a bool";
  }
}

}  // namespace

Result<void> Session::bind(const ir::Variant& variant, const std::vector<std::optional<Datum>>& inputs,
                           shape::Bindings& symbols) const {
  struct Dimension {
    std::string name;
    int64_t size;
    ir::SymInt expected;
  };
  std::vector<Dimension> dimensions;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].is_state) continue;
    const Leaf& leaf = inputs_[sources_[i].index];
    const ir::Type& type = variant.graph.inputs()[i]->type;
    const std::optional<Datum>& given = inputs[sources_[i].index];
    if (!given) return error(Status::usage, 602, "input '" + leaf.path + "' is missing: " + ir::to_string(type));
    const Tensor* tensor = std::get_if<Tensor>(&*given);
    if (const ir::TensorMeta* meta = std::get_if<ir::TensorMeta>(&type)) {
      if (!tensor)
        return violated(
            603, "input '" + leaf.path + "' is " + kind_of(*given) + ", and the program takes " + ir::to_string(type));
      if (tensor->dtype != meta->dtype)
        return violated(603, "input '" + leaf.path + "' is " + name_of(tensor->dtype) + ", and the program takes " +
                                 name_of(meta->dtype));
      if (tensor->sizes.size() != meta->sizes.size())
        return violated(603, "input '" + leaf.path + "' has " + std::to_string(tensor->sizes.size()) +
                                 " dimensions, and the program takes " + ir::to_string(type));
      for (size_t axis = 0; axis < meta->sizes.size(); ++axis)
        dimensions.push_back({leaf.path + "[" + std::to_string(axis) + "]", tensor->sizes[axis], meta->sizes[axis]});
    } else {
      if (tensor)
        return violated(603, "input '" + leaf.path + "' is a tensor, and the program takes " + ir::to_string(type));
      for (const ir::Symbol& symbol : entry_->symbols)
        if (const int64_t* integer = std::get_if<int64_t>(&*given); integer && symbol.source == leaf.path)
          symbols[symbol.name] = *integer;
    }
  }
  for (const Dimension& dimension : dimensions)
    if (auto symbol = dimension.expected.as_symbol()) symbols.emplace(*symbol, dimension.size);
  for (const Dimension& dimension : dimensions) {
    std::optional<int64_t> expected = shape::evaluate(dimension.expected, symbols);
    if (!expected || *expected == dimension.size) continue;
    std::string wanted = std::to_string(*expected);
    if (!dimension.expected.is_constant()) wanted = dimension.expected.to_string() + " = " + wanted;
    return violated(
        604, "dimension " + dimension.name + " is " + std::to_string(dimension.size) + ", and must be " + wanted);
  }
  for (const ir::Symbol& symbol : entry_->symbols) {
    auto value = symbols.find(symbol.name);
    if (value == symbols.end() || symbol.range.contains(value->second)) continue;
    const bool below = value->second < symbol.range.lower;
    return violated(604, place_of(symbol) + " is " + std::to_string(value->second) + ", and must be at " +
                             (below ? "least " + std::to_string(symbol.range.lower)
                                    : "most " + std::to_string(symbol.range.upper)));
  }
  return check_assumptions(variant.assumptions, symbols);
}

Result<void> Session::check_assumptions(const std::vector<ir::Constraint>& assumptions,
                                        const shape::Bindings& symbols) const {
  for (const ir::Constraint& assumption : assumptions) {
    const std::optional<bool> holds = shape::evaluate(assumption.truth, symbols);
    if (holds == true) continue;
    const auto names = assumption.truth.symbols();
    // What depends on a number that is not there yet is checked with it; other truths without a value are beyond 64
    // bits.
    if (!holds && std::any_of(names.begin(), names.end(), [&](const auto& name) { return !symbols.contains(name); }))
      continue;
    std::string values;
    for (const std::string& name : names) {
      const ir::Symbol* symbol = entry_->symbol(name);
      auto value = symbols.find(name);
      if (value == symbols.end()) continue;
      values += (values.empty() ? "" : ", ") + name + " is " + std::to_string(value->second);
      if (symbol && !symbol->source.empty()) values += " (" + place_of(*symbol) + ")";
    }
    Diagnostic diagnostic = violated(605, "the inputs violate " + assumption.truth.to_string() + ": " + values);
    if (!assumption.reason.empty()) diagnostic.notes.push_back({assumption.reason});
    if (const std::string place = program_.provenance.at(assumption.provenance).place(); !place.empty())
      diagnostic.notes.push_back({"relied on at " + place});
    return diagnostic;
  }
  return {};
}

Result<const ir::Variant*> Session::choose(const std::vector<std::optional<Datum>>& inputs,
                                           shape::Bindings& symbols) const {
  if (inputs.size() != inputs_.size())
    return error(
        Status::usage, 602,
        "the program takes " + std::to_string(inputs_.size()) + " inputs, not " + std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].constant && inputs[i] && !equals_constant(*inputs[i], *inputs_[i].constant))
      return violated(606, "input '" + inputs_[i].path + "' must be " + text::print(*inputs_[i].constant) +
                               ": the program was captured or specialised for it");
  std::optional<Diagnostic> first;
  for (const ir::Variant& variant : entry_->variants) {
    symbols.clear();
    Result<void> bound = bind(variant, inputs, symbols);
    if (bound) return &variant;
    if (!first)
      first = bound.error();
    else if (!variant.name.empty())
      first->notes.push_back({"variant '" + variant.name + "': " + bound.failure().message});
  }
  return std::move(*first);
}

}  // namespace atenon::run
