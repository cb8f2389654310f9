// Fits arguments to schemas, by the rules of PyTorch's own argument parser (torch/csrc/utils/python_arg_parser.cpp).
//
// Trying an overload allocates no message: resolve() tries many, and only when none fits are the reasons put into
// words.
#include <algorithm>
#include <array>

#include "opset/call.h"
#include "text/text.h"

namespace atenon::opset {
namespace {

// Why arguments do not fit.
struct Misfit {
  enum class Kind { none, too_many, missing, no_such_keyword, twice, wrong_kind };
  Kind kind = Kind::none;
  size_t parameter = 0;                // missing, twice, wrong_kind
  const Argument* argument = nullptr;  // wrong_kind
  const std::string* keyword = nullptr;
};

// NumPy's names for parameters, which PyTorch's binding takes as well.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> other_names = {
    {{"self", "input"}, {"dim", "axis"}, {"keepdim", "keepdims"}, {"other", "x2"}}};

bool is_name_of(const std::string& name, const Parameter& parameter) {
  return name == parameter.name || std::any_of(other_names.begin(), other_names.end(), [&](const auto& pair) {
           return pair.first == parameter.name && pair.second == name;
         });
}

const ir::ScalarKind* scalar_value(const Argument& argument) {
  const ir::Value* value = argument.value();
  return value ? std::get_if<ir::ScalarKind>(&value->type) : nullptr;
}

bool is_number(const Argument& argument) {
  return argument.is<ir::SymInt>() || argument.is<ir::SymFloat>() || argument.is<ir::SymBool>() ||
         argument.is<std::complex<double>>() || scalar_value(argument);
}

// Converts one item (not a list) to a parameter's kind.
bool convert_item(Kind kind, const Argument& from, Numbers numbers, Argument& to) {
  const ir::ScalarKind* scalar = scalar_value(from);
  switch (kind) {
    case Kind::tensor:
      if (!(from.value() && !scalar) && !(numbers == Numbers::as_tensors && is_number(from))) return false;
      break;
    case Kind::integer:
      if (from.is<ir::SymBool>()) {
        const std::optional<bool> truth = from.get<ir::SymBool>().constant();
        if (!truth || numbers == Numbers::strict) return false;
        to = static_cast<int64_t>(*truth);
        return true;
      }
      if (!from.is<ir::SymInt>() && !(scalar && *scalar == ir::ScalarKind::integer)) return false;
      break;
    case Kind::floating:
      if (from.is<ir::SymInt>()) {
        to = ir::SymFloat::from(from.get<ir::SymInt>());
        return true;
      }
      if (from.is<ir::SymBool>() && from.get<ir::SymBool>().constant() && numbers != Numbers::strict) {
        to = *from.get<ir::SymBool>().constant() ? 1. : 0.;
        return true;
      }
      if (!from.is<ir::SymFloat>() && !scalar) return false;
      break;
    case Kind::boolean:
      if (!from.is<ir::SymBool>() && !(scalar && *scalar == ir::ScalarKind::boolean)) return false;
      break;
    case Kind::number:
      if (!is_number(from)) return false;
      break;
    case Kind::text:
      if (!from.is<std::string>()) return false;
      break;
    case Kind::dtype:
      if (!from.is<ScalarType>()) return false;
      break;
    case Kind::word:
      if (!from.is<ir::Word>() && !from.is<std::string>() && !from.is<ir::SymInt>()) return false;
      break;
    case Kind::generator:
      if (is_number(from)) return false;
      break;
    case Kind::custom:
      break;
  }
  to = from;
  return true;
}

bool convert(const ParameterType& type, const Argument& from, Numbers numbers, Argument& to) {
  if (from.is<ir::None>()) {
    to = from;
    return type.optional;
  }
  if (!type.list) return convert_item(type.kind, from, numbers, to);
  if (!from.is<ir::ArgumentList>()) {  // int[2]: one number stands for two
    if (type.list_size == 0 || !convert_item(type.kind, from, numbers, to)) return false;
    to = ir::ArgumentList(static_cast<size_t>(type.list_size), Argument(to));
    return true;
  }
  const ir::ArgumentList& items = from.get<ir::ArgumentList>();
  ir::ArgumentList converted(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    if (!(items[i].is<ir::None>() && type.optional_items) && !convert_item(type.kind, items[i], numbers, converted[i]))
      return false;
  to = std::move(converted);
  return true;
}

// x.view(2, 3): a list of integers that is the last positional parameter takes all that is left.
bool takes_the_rest(const Schema& schema, size_t parameter, const std::vector<Argument>& arguments) {
  const ParameterType& type = schema.parameters[parameter].type;
  const bool last = parameter + 1 == schema.parameters.size() || schema.parameters[parameter + 1].keyword_only;
  return last && type.list && type.kind == Kind::integer &&
         std::all_of(arguments.begin() + static_cast<ptrdiff_t>(parameter), arguments.end(),
                     [](const Argument& a) { return a.is<ir::SymInt>() || scalar_value(a); });
}

// The keyword `out` of an operator with several results is a tuple, one for each of them.
bool bind_out(const Operator& op, const Argument& tuple, Call& call, std::vector<bool>& given) {
  if (op.derivation() != Derivation::out || !tuple.is<ir::ArgumentList>()) return false;
  const ir::ArgumentList& items = tuple.get<ir::ArgumentList>();
  const std::vector<Parameter>& parameters = op.schema().parameters;
  const size_t count = op.schema().returns.size();
  if (items.size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const size_t parameter = parameters.size() - count + i;
    if (!convert(parameters[parameter].type, items[i], Numbers::strict, call.arguments[parameter])) return false;
    given[parameter] = true;
  }
  return true;
}

Misfit fit(const Operator& op, const std::vector<Argument>& arguments, const std::vector<Named>& keywords,
           Numbers numbers, Call& call) {
  const std::vector<Parameter>& parameters = op.schema().parameters;
  if (numbers == Numbers::as_python && op.has_tag("numbers")) numbers = Numbers::as_tensors;
  // A number stands for no tensor that is written to, or that is written into another: these are windows on memory.
  const auto numbers_for = [&](const ParameterType& type) {
    return type.mutated || op.derivation() == Derivation::scatter ? Numbers::strict : numbers;
  };
  // None stands for a list whose default is empty, as in PyTorch: amax(x, dim=None).
  const auto meant = [](const Parameter& parameter, const Argument& argument) -> const Argument& {
    const bool is_default = argument.is<ir::None>() && !parameter.type.optional && parameter.fallback &&
                            parameter.fallback->is<ir::ArgumentList>() &&
                            parameter.fallback->get<ir::ArgumentList>().empty();
    return is_default ? *parameter.fallback : argument;
  };
  call.op = &op;
  call.arguments.assign(parameters.size(), {});
  std::vector<bool> given(parameters.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i >= parameters.size() || parameters[i].keyword_only) return {Misfit::Kind::too_many};
    given[i] = true;
    if (convert(parameters[i].type, meant(parameters[i], arguments[i]), numbers_for(parameters[i].type),
                call.arguments[i]) &&
        !(i + 1 < arguments.size() && arguments[i].is<ir::SymInt>() && takes_the_rest(op.schema(), i, arguments)))
      continue;
    if (!takes_the_rest(op.schema(), i, arguments)) return {Misfit::Kind::wrong_kind, i, &arguments[i]};
    call.arguments[i] = ir::ArgumentList(arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
    break;
  }
  for (const Named& keyword : keywords) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const Parameter& p) { return is_name_of(keyword.name, p); });
    if (found == parameters.end()) {
      if (keyword.name == "out" && bind_out(op, keyword.argument, call, given)) continue;
      return {Misfit::Kind::no_such_keyword, 0, nullptr, &keyword.name};
    }
    const size_t i = static_cast<size_t>(found - parameters.begin());
    if (given[i]) return {Misfit::Kind::twice, i};
    given[i] = true;
    if (!convert(found->type, meant(*found, keyword.argument), numbers_for(found->type), call.arguments[i]))
      return {Misfit::Kind::wrong_kind, i, &keyword.argument, &keyword.name};
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i]) continue;
    if (!parameters[i].fallback) return {Misfit::Kind::missing, i};
    convert(parameters[i].type, *parameters[i].fallback, numbers, call.arguments[i]);
  }
  return {};
}

std::string describe(const Argument& argument) {
  if (argument.is<std::string>()) return '"' + argument.get<std::string>() + '"';
  if (const ir::Value* value = argument.value()) return ir::to_string(value->type);
  return text::print(argument);
}

// One line: what keeps the arguments from fitting.
std::string reason(const Operator& op, const Misfit& misfit) {
  const Schema& schema = op.schema();
  switch (misfit.kind) {
    case Misfit::Kind::none:
      return "fits";
    case Misfit::Kind::too_many:
      return schema.target() + " is given too many arguments";
    case Misfit::Kind::missing:
      return schema.target() + " needs the argument '" + schema.parameters[misfit.parameter].name + "'";
    case Misfit::Kind::no_such_keyword:
      return schema.target() + " has no argument '" + *misfit.keyword + "'";
    case Misfit::Kind::twice:
      return schema.target() + " is given '" + schema.parameters[misfit.parameter].name + "' twice";
    case Misfit::Kind::wrong_kind: {
      const Parameter& parameter = schema.parameters[misfit.parameter];
      return schema.target() + " takes " + parameter.type.to_string() + " for '" + parameter.name + "', not " +
             describe(*misfit.argument);
    }
  }
  return "";
}

std::string defined_at(const Operator& op) {
  const SourceSpan place = op.place();
  return op.target() + " is defined in " + place.file + ':' + std::to_string(place.line);
}

Diagnostic explain(const Operator& op, const Misfit& misfit) {
  static constexpr int codes[] = {0, 106, 105, 107, 109, 108};
  Diagnostic failure = error(Status::bad_input, codes[static_cast<int>(misfit.kind)], reason(op, misfit));
  if (misfit.kind == Misfit::Kind::no_such_keyword) {
    std::vector<std::string> names;
    for (const Parameter& parameter : op.schema().parameters) names.push_back(parameter.name);
    const std::string near = nearest(*misfit.keyword, names);
    if (!near.empty()) failure.notes.push_back({"did you mean '" + near + "'?"});
  }
  failure.notes.push_back({defined_at(op)});
  return failure;
}

}  // namespace

Result<Call> bind(const Operator& op, const std::vector<Argument>& arguments, const std::vector<Named>& keywords,
                  Numbers numbers) {
  Call call;
  const Misfit misfit = fit(op, arguments, keywords, numbers, call);
  if (misfit.kind != Misfit::Kind::none) return explain(op, misfit);
  return call;
}

std::optional<Call> bind_exactly(const Operator& op, const std::vector<Argument>& arguments,
                                 const std::vector<Named>& keywords) {
  Call call;
  const Misfit misfit = fit(op, arguments, keywords, Numbers::strict, call);
  return misfit.kind == Misfit::Kind::none ? std::optional(std::move(call)) : std::nullopt;
}

Result<Call> bind(const Opset& opset, const ir::Node& node) {
  Result<const Operator*> op = opset.check(node.target());
  if (!op) return op.error();
  return bind(**op, node.arguments(), node.keywords());
}

Result<Call> resolve(const Opset& opset, const std::string& name, const std::vector<Argument>& arguments,
                     const std::vector<Named>& keywords, Numbers numbers) {
  const std::vector<const Operator*> overloads =
      name.find('.') == std::string::npos ? opset.overloads(name) : std::vector<const Operator*>();
  if (overloads.empty()) {
    Result<const Operator*> op = opset.check(name);
    if (!op) return op.error();
    return bind(**op, arguments, keywords, numbers);
  }
  Call call;
  Misfit misfit;
  for (const Numbers tried : {Numbers::strict, numbers})
    for (const Operator* op : overloads) {
      misfit = fit(*op, arguments, keywords, tried, call);
      if (misfit.kind == Misfit::Kind::none) return call;
    }
  std::vector<const Operator*> shown;  // out= variants only where the call has an `out`
  const bool has_out = std::any_of(keywords.begin(), keywords.end(), [](const Named& k) { return k.name == "out"; });
  for (const Operator* op : overloads)
    if (has_out || op->derivation() != Derivation::out) shown.push_back(op);
  if (shown.size() == 1) return explain(*shown[0], fit(*shown[0], arguments, keywords, numbers, call));
  Diagnostic failure = error(Status::bad_input, 104, "no overload of " + name + " takes these arguments");
  for (const Operator* op : shown)
    failure.notes.push_back(
        {reason(*op, fit(*op, arguments, keywords, numbers, call)) + ": " + op->schema().to_string()});
  return failure;
}

}  // namespace atenon::opset
