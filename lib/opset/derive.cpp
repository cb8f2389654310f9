// Variants that nobody writes: `add_`, `add.out`, `slice_copy`, `slice_scatter` follow from `add` and `slice`.
#include <algorithm>

#include "opset/library.h"

namespace atenon::opset {
namespace {

bool strip(std::string& text, std::string_view suffix) {
  if (text.size() <= suffix.size() || !std::string_view(text).ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

}  // namespace

std::vector<DerivedName> possible_origins(const std::string& target) {
  const size_t dot = target.find('.');
  const std::string name = target.substr(0, dot);
  std::string overload = dot == std::string::npos ? "" : target.substr(dot + 1);
  const auto with_overload = [&](const std::string& base) { return overload.empty() ? base : base + '.' + overload; };
  std::vector<DerivedName> result;
  std::string base = name;
  if (strip(base, "_copy")) result.push_back({Derivation::copy, {with_overload(base)}, ""});
  base = name;
  if (strip(base, "_scatter"))
    result.push_back({Derivation::scatter, {with_overload(base)}, overload.empty() ? base : ""});
  base = name;
  if (strip(base, "_")) {
    result.push_back({Derivation::inplace, {with_overload(base)}, ""});
    // ATen drops from an in-place form's overload what it says of `self`, or names what the function does not.
    if (!overload.empty()) result.back().origins.push_back(base + ".Tensor_" + overload);  // pow_.Scalar
    if (overload == "Tensor") result.back().origins.push_back(base);                       // floor_divide_.Tensor
  }
  if (overload == "out") {
    result.push_back({Derivation::out, {name, name + ".Tensor"}, ""});
  } else if (strip(overload, "_out")) {
    result.push_back({Derivation::out, {name + '.' + overload}, ""});
  }
  return result;
}

bool can_derive(const Operator& origin, Derivation derivation) {
  if (origin.is_declared()) return false;
  const std::vector<Return>& returns = origin.schema().returns;
  const auto is_tensor = [](const Return& r) { return r.type.kind == Kind::tensor && !r.type.list; };
  switch (derivation) {
    case Derivation::inplace:
      return origin.has_tag("inplace") && origin.schema().parameters.front().type.kind == Kind::tensor;
    case Derivation::out:
      return !returns.empty() && std::all_of(returns.begin(), returns.end(), is_tensor) && !origin.is_view();
    case Derivation::copy:
      return origin.schema().returns.size() == 1 && !returns[0].type.alias.empty();
    case Derivation::scatter:
      return origin.is_view() && origin.meaning_kind() == "view";
    case Derivation::none:
      return false;
  }
  return false;
}

Schema derive_schema(const Schema& origin, Derivation derivation) {
  Schema schema = origin;
  const ParameterType written = {.kind = Kind::tensor, .alias = "a", .mutated = true};
  if (derivation == Derivation::inplace) {
    schema.name += '_';
    schema.parameters.front().type = written;
    schema.returns = {{written, ""}};
  } else if (derivation == Derivation::out) {
    schema.overload = origin.overload.empty() ? "out" : origin.overload + "_out";
    for (size_t i = 0; i < origin.returns.size(); ++i) {
      ParameterType type = written;
      type.alias = std::string(1, static_cast<char>('a' + i));
      const std::string& name = origin.returns[i].name;
      const bool taken = origin.parameter(name) != nullptr;
      const std::string numbered = "out" + std::to_string(i);
      schema.parameters.push_back({.name = origin.returns.size() == 1 ? "out"
                                           : name.empty() || taken    ? numbered
                                                                      : name,
                                   .type = type,
                                   .keyword_only = true});
      schema.returns[i].type = type;
    }
  } else {
    for (Parameter& parameter : schema.parameters) parameter.type.alias.clear();
    for (Return& result : schema.returns) result.type.alias.clear();
    schema.name += derivation == Derivation::copy ? "_copy" : "_scatter";
    if (derivation == Derivation::scatter) {
      schema.overload.clear();
      schema.parameters.insert(schema.parameters.begin() + 1, {.name = "src", .type = {}});
    }
  }
  return schema;
}

}  // namespace atenon::opset
