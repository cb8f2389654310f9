// Symbols, and the inputs that they are read from.
#include <algorithm>

#include "pt2/archive.h"
#include "pt2/graph_reader.h"
#include "text/limits.h"

namespace atenon::pt2 {

using shape::Scalar;
using shape::SymBool;
using shape::SymInt;

namespace {

// The text of a SymInt, SymFloat or SymBool that is no constant; "" else.
std::string expression_text(const Item& sym) {
  const Item expression = sym.find("as_expr");
  return expression.is_null() ? "" : expression.at("expr_str").text();
}

constexpr shape::Range any_size = {0, shape::Range::highest}, any_number = {};

shape::Range range_of(const Item& ranges, const std::string& symbol, shape::Range range) {
  const Item given = ranges.find(symbol);
  if (given.is_null()) return range;
  if (const Item lower = given.find("min_val"); !lower.is_null()) range.lower = lower.integer();
  if (const Item upper = given.find("max_val"); !upper.is_null()) range.upper = upper.integer();
  if (range.lower <= range.upper) return range;
  given.fail("is an empty range");
  return any_size;
}

ir::Argument as_argument(const Scalar& number) {
  return std::visit([](const auto& x) { return ir::Argument(x); }, number);
}

}  // namespace

// `symbol.range` is what it is in if the archive does not say.
void GraphReader::declare(const std::string& name, ir::Symbol symbol, const Item& ranges) {
  symbol.range = range_of(ranges, name, symbol.range);
  facts_.declare(symbol.name, symbol.range);
  symbols_.emplace(name, SymInt::symbol(symbol.name));
  entry_.symbols.push_back(std::move(symbol));
}

// A number that a node yields is a symbol by the value's name. Unlike a size it may be any: the range that the export
// relied on is assumed, so that it is checked.
Result<void> GraphReader::bind_number(Scope& scope, const Item& output, const ir::Value& value) {
  const ir::ScalarKind kind = std::get<ir::ScalarKind>(value.type);
  ir::Symbol declared{.name = value.name, .range = kind == ir::ScalarKind::boolean ? shape::Range{0, 1} : any_number};
  facts_.declare(declared.name, declared.range);
  entry_.symbols.push_back(std::move(declared));
  const SymInt symbol = SymInt::symbol(value.name);
  const Scalar number = kind == ir::ScalarKind::integer    ? Scalar(symbol)
                        : kind == ir::ScalarKind::floating ? Scalar(shape::SymFloat::number(symbol))
                                                           : Scalar(shape::not_equal(symbol, 0));
  const std::string name = name_of(output);
  scope.scalars[name] = as_argument(number);
  const Item theirs = symbolic_value(scope, output.alternative().first, name);
  if (theirs.is_null()) return {};
  // A truth is said by comparing its symbol with 1.
  const std::optional<std::string> known =
      kind == ir::ScalarKind::boolean ? unknown_symbol(expression_text(theirs)) : lone_symbol(expression_text(theirs));
  if (!known) return {};
  if (kind == ir::ScalarKind::boolean) {
    symbols_.emplace(*known, symbol);
    return {};
  }
  symbols_.emplace(*known, number);
  if (kind != ir::ScalarKind::integer) return {};
  const shape::Range range = range_of(ranges_, *known, any_number);
  const std::string reason = "torch.export relied on it";
  if (range.lower != any_number.lower)
    if (Result<void> assumed = assume(shape::less_equal(range.lower, symbol), reason); !assumed) return assumed;
  if (range.upper == any_number.upper) return {};
  return assume(shape::less_equal(symbol, range.upper), reason);
}

Result<void> GraphReader::add_inputs(const Item& ranges) {
  // A dimension that is one symbol is where the symbol is read; others are expressions of such symbols.
  for (const ir::InputSpec& spec : entry_.signature.inputs) {
    if (spec.kind != ir::InputKind::user_input || spec.value.empty()) continue;
    const Item meta = scope_.graph.at("tensor_values").find(spec.value);
    if (meta.is_null()) continue;
    const std::vector<Item> sizes = meta.at("sizes").items();
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const std::optional<std::string> name = lone_symbol(expression_text(sizes[axis]));
      if (!name || symbols_.contains(*name)) continue;
      ir::Symbol symbol{.name = *name, .source = spec.target + "[" + std::to_string(axis) + "]"};
      const Item hint = sizes[axis].at("as_expr").find("hint");
      if (!hint.is_null() && !hint.find("as_int").is_null()) symbol.hint = hint.at("as_int").integer();
      declare(*name, std::move(symbol), ranges);
    }
  }
  for (const ir::InputSpec& spec : entry_.signature.inputs) {
    if (spec.kind != ir::InputKind::user_input || spec.value.empty()) continue;
    const Item meta = scope_.graph.at("tensor_values").find(spec.value);
    if (meta.is_null()) continue;
    const std::vector<Item> sizes = meta.at("sizes").items();
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (Result<void> derived = add_derived(spec, axis, expression_text(sizes[axis]), ranges); !derived)
        return derived;
  }
  for (const ir::InputSpec& spec : entry_.signature.inputs) {
    if (spec.value.empty()) continue;
    if (!text::is_name(spec.value)) return damaged(file_name_, "an input is called '" + spec.value + "'");
    if (variant_.graph.find(spec.value)) return damaged(file_name_, "two inputs are called '" + spec.value + "'");
    if (Result<void> added = add_tensor_input(spec, ranges); !added) return added;
  }
  return {};
}

// Symbols that nothing has said are `unknown`, and stand for themselves.
Names GraphReader::names_with(std::set<std::string>& unknown) const {
  Names names;
  names.symbol = [&](const std::string& name) -> std::optional<Scalar> {
    if (const auto known = symbols_.find(name); known != symbols_.end()) return known->second;
    unknown.insert(name);
    return SymInt::symbol(name);
  };
  return names;
}

std::optional<std::string> GraphReader::unknown_symbol(const std::string& text) const {
  std::set<std::string> unknown;
  const Result<Scalar> value = parse_expression(text, names_with(unknown));
  return value && unknown.size() == 1 ? std::optional(*unknown.begin()) : std::nullopt;
}

// A dimension such as `4*s0 + 1`, where s0 itself is the size of nothing: the dimension becomes a symbol, and s0 what
// follows from it.
Result<void> GraphReader::add_derived(const ir::InputSpec& spec, size_t axis, const std::string& text,
                                      const Item& ranges) {
  if (text.empty()) return {};
  std::set<std::string> unknown;
  Result<Scalar> size = parse_expression(text, names_with(unknown));
  if (!size) return size.error();
  if (unknown.size() != 1 || !std::holds_alternative<SymInt>(*size)) return {};
  const std::string& base = *unknown.begin();
  const SymInt whole = std::get<SymInt>(*size);
  const std::optional<int64_t> offset = shape::substitute(whole, {{base, 0}}).constant();
  const std::optional<int64_t> factor = offset ? (shape::substitute(whole, {{base, 1}}) - *offset).constant() : offset;
  if (!factor || *factor <= 0 || whole != *factor * SymInt::symbol(base) + *offset) return {};

  const shape::Range inner = range_of(ranges, base, any_size);
  const auto outer = [&](int64_t bound) {
    int64_t result = 0;
    return __builtin_mul_overflow(bound, *factor, &result) || __builtin_add_overflow(result, *offset, &result)
               ? shape::Range::highest
               : result;
  };
  ir::Symbol symbol{.name = spec.value + "_" + std::to_string(axis),
                    .range = {std::max<int64_t>(outer(inner.lower), 0), outer(inner.upper)},
                    .source = spec.target + "[" + std::to_string(axis) + "]"};
  const SymInt dimension = SymInt::symbol(symbol.name);
  facts_.declare(symbol.name, symbol.range);
  entry_.symbols.push_back(std::move(symbol));
  symbols_.emplace(base, shape::floor_div(dimension - *offset, *factor));
  derived_.emplace(spec.value + "[" + std::to_string(axis) + "]", dimension);
  return assume(shape::equal(shape::mod(dimension - *offset, *factor), 0),
                "torch.export was told " + whole.to_string());
}

Result<void> GraphReader::add_tensor_input(const ir::InputSpec& spec, const Item& ranges) {
  const Item meta = scope_.graph.at("tensor_values").find(spec.value);
  if (meta.is_null()) {  // a number that the caller passes: its symbol has the input's name
    const Item whole = scope_.graph.find("sym_int_values").find(spec.value);
    const std::optional<std::string> symbol = lone_symbol(expression_text(whole));
    if (whole.is_null() || !symbol || symbols_.contains(*symbol))
      return error(Status::unsupported, 823, "the input '" + spec.target + "' is of a kind that is not supported")
          .at({.file = file_name_});
    ir::Value* value = variant_.graph.add_input(spec.value, ir::ScalarKind::integer);
    declare(*symbol, {.name = value->name, .range = any_number, .source = spec.target}, ranges);
    scope_.scalars[spec.value] = SymInt::symbol(value->name);
    return {};
  }
  const std::optional<ScalarType> dtype = dtype_of(meta.at("dtype").integer());
  if (!dtype)
    return error(Status::unsupported, 823, "'" + spec.target + "' has an element type that is not supported")
        .at({.file = file_name_});
  ir::TensorMeta type{.dtype = *dtype};
  for (const Item& size : meta.at("sizes").items()) {
    const auto derived = derived_.find(spec.value + "[" + std::to_string(type.sizes.size()) + "]");
    if (derived != derived_.end()) {
      type.sizes.push_back(derived->second);
      continue;
    }
    Result<Scalar> value = expression(size);
    if (!value || !std::holds_alternative<SymInt>(*value))
      return error(Status::unsupported, 825, "a size of the input '" + spec.target + "' is not understood")
          .at({.file = file_name_})
          .note("fix: give each dynamic dimension a torch.export.Dim of its own");
    type.sizes.push_back(std::get<SymInt>(*value));
  }
  if (const ir::Weight* weight = program_.weight(spec.target); weight && spec.kind != ir::InputKind::user_input) {
    const std::vector<SymInt> sizes(weight->tensor.sizes.begin(), weight->tensor.sizes.end());
    if (weight->tensor.dtype != type.dtype || sizes != type.sizes)
      return damaged(file_name_, "the graph takes '" + spec.target + "' as " + ir::to_string(ir::Type(type)) +
                                     ", and the tensor is " +
                                     ir::to_string(ir::Type(ir::TensorMeta{weight->tensor.dtype, sizes})));
  }
  scope_.tensors[spec.value] = View::fresh(variant_.graph.add_input(spec.value, std::move(type)));
  return {};
}

Result<Scalar> GraphReader::expression(const Item& sym) {
  const auto [kind, value] = sym.alternative();
  if (kind == "as_int") return Scalar(SymInt(value.integer()));
  if (kind == "as_float") return Scalar(shape::SymFloat(value.real()));
  if (kind == "as_bool") return Scalar(SymBool(value.truth()));
  Names names;
  names.symbol = [this](const std::string& name) -> std::optional<Scalar> {
    const auto known = symbols_.find(name);
    return known == symbols_.end() ? std::nullopt : std::optional(known->second);
  };
  return parse_expression(value.at("expr_str").text(), names);
}

// Do nodes before this one, and inputs, say what it is?
bool GraphReader::is_known(const Item& sym) const {
  const std::string text = expression_text(sym);
  std::set<std::string> unknown;
  (void)parse_expression(text, names_with(unknown));
  return unknown.empty();
}

Item GraphReader::symbolic_value(const Scope& scope, const std::string& kind, const std::string& name) const {
  if (!is_symbolic(kind)) return Item::none();
  return scope.graph.find(kind.substr(3) + "_values").find(name);  // as_sym_int: sym_int_values
}

Result<ir::Argument> GraphReader::scalar(Scope& scope, const std::string& kind, const Item& argument) {
  const auto [sort, value] = argument.alternative();
  if (sort == "as_int") return ir::Argument(value.integer());
  if (sort == "as_float") return ir::Argument(value.real());
  if (sort == "as_bool") return ir::Argument(value.truth());
  const std::string name = value.text();
  if (const auto known = scope.scalars.find(name); known != scope.scalars.end()) return known->second;
  const Item symbolic = symbolic_value(scope, kind, name);
  if (symbolic.is_null()) return damaged(file_name_, "the graph uses '" + name + "' before it is defined");
  Result<Scalar> known = expression(symbolic);
  if (!known) return known.error();
  return as_argument(*known);
}

Result<void> GraphReader::assume(const SymBool& truth, const std::string& reason) {
  if (facts_.decide(truth) == shape::Truth::proven) return {};
  if (!facts_.assume(truth))
    return error(Status::unsupported, 825, "nothing can satisfy " + truth.to_string() + ": " + reason);
  std::vector<ir::Constraint>& assumptions = depth_ > 0 ? graph_->assumptions : variant_.assumptions;
  assumptions.push_back({truth, program_.provenance.intern(stack_), reason});
  return {};
}

// A size that depends on data has a symbol of ours by now: the archive's is the same. All else that the archive says of
// the type must not contradict what we infer, or one of us is wrong about the operator.
Result<void> GraphReader::adopt_sizes(const Scope& scope, const std::string& name, const ir::Value& value) {
  const Item meta = scope.graph.at("tensor_values").find(name);
  if (meta.is_null()) return {};
  const std::vector<Item> sizes = meta.at("sizes").items();
  bool fits = sizes.size() == value.meta().sizes.size() && dtype_of(meta.at("dtype").integer()) == value.meta().dtype;
  for (size_t axis = 0; fits && axis < sizes.size(); ++axis) {
    const SymInt& ours = value.meta().sizes[axis];
    if (const std::optional<std::string> symbol = lone_symbol(expression_text(sizes[axis])))
      symbols_.emplace(*symbol, ours);
    const Result<Scalar> theirs = expression(sizes[axis]);
    if (theirs && std::holds_alternative<SymInt>(*theirs))
      fits = facts_.decide(shape::equal(std::get<SymInt>(*theirs), ours)) != shape::Truth::refuted;
  }
  if (fits) return {};
  return error(Status::unsupported, 825,
               (value.producer ? value.producer->target() : "what %" + value.name + " stands for") + " gives " +
                   ir::to_string(value.type) + ", and the archive has another type");
}

// The type of an output as the archive has it. A size that nothing before says is a symbol that this node defines.
Result<ir::Type> GraphReader::promised_type(const Scope& scope, const Item& output) {
  const std::string name = name_of(output);
  const Item meta = scope.graph.at("tensor_values").find(name);
  if (meta.is_null()) {
    const std::string kind = output.alternative().first;
    return ir::Type(kind == "as_sym_int"    ? ir::ScalarKind::integer
                    : kind == "as_sym_bool" ? ir::ScalarKind::boolean
                                            : ir::ScalarKind::floating);
  }
  const std::optional<ScalarType> dtype = dtype_of(meta.at("dtype").integer());
  if (!dtype) return error(Status::unsupported, 823, "'" + name + "' has an element type that is not supported");
  ir::TensorMeta type{.dtype = *dtype};
  for (const Item& size : meta.at("sizes").items()) {
    const std::optional<std::string> symbol = lone_symbol(expression_text(size));
    if (symbol && !symbols_.contains(*symbol)) declare(*symbol, {.name = ir::unbacked_name(unbacked_++)}, ranges_);
    Result<Scalar> value = expression(size);
    if (!value || !std::holds_alternative<SymInt>(*value))
      return error(Status::unsupported, 825, "a size of '" + name + "' is not understood");
    type.sizes.push_back(std::get<SymInt>(*value));
  }
  return ir::Type(std::move(type));
}

// What the inputs call one of forward's `*args`, which guards call args.1: args_1.
static std::string as_parameter(std::string path) {
  const size_t dot = path.find('.');
  if (dot != std::string::npos) path[dot] = '_';
  return path;
}

Result<void> GraphReader::assume_guards(const Item& guards) {
  if (guards.is_null()) return {};
  Names names;
  names.symbol = [](const std::string&) { return std::nullopt; };
  const auto integer_of = [&](const std::string& path, std::optional<int64_t> dimension) -> std::optional<SymInt> {
    for (const ir::InputSpec& spec : entry_.signature.inputs) {
      if (spec.kind != ir::InputKind::user_input || spec.target != path || spec.value.empty()) continue;
      const ir::Value* value = variant_.graph.find(spec.value);
      if (!value || value->is_tensor() != dimension.has_value()) continue;
      if (!dimension) return SymInt::symbol(value->name);
      if (*dimension >= 0 && *dimension < value->meta().rank())
        return value->meta().sizes[static_cast<size_t>(*dimension)];
    }
    return std::nullopt;
  };
  names.input = [&](const std::string& path, std::optional<int64_t> dimension) {
    const std::optional<SymInt> integer = integer_of(path, dimension);
    return integer ? integer : integer_of(as_parameter(path), dimension);
  };
  for (const Item& guard : guards.items()) {
    Result<Scalar> truth = parse_expression(guard.text(), names);
    if (!truth || !std::holds_alternative<SymBool>(*truth))
      return error(Status::unsupported, 825, "the export relied on what cannot be expressed here: " + guard.text())
          .at({.file = file_name_})
          .note(
              "fix: export with a torch.export.Dim for each dynamic dimension, Dim(\"h\", min=2) in place of Dim.AUTO");
    if (Result<void> assumed = assume(std::get<SymBool>(*truth), "torch.export relied on it"); !assumed) return assumed;
  }
  return {};
}

}  // namespace atenon::pt2
