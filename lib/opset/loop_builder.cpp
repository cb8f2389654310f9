#include "opset/loop_builder.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "opset/scalar_values.h"
#include "tensor/real_parts.h"

namespace atenon::opset {
namespace {

bool is_real_float(ScalarType type) { return is_floating(type); }
// The type of a complex number's real and imaginary part.

uint64_t hash_of(const Scalar& s) {
  uint64_t hash = static_cast<uint64_t>(s.op) * 31 + static_cast<uint64_t>(s.dtype);
  const auto mix = [&](uint64_t x) { hash = (hash ^ x) * 0x9e3779b97f4a7c15u + (hash >> 29); };
  for (const ScalarId id : s.operands) mix(static_cast<uint64_t>(id));
  mix(std::bit_cast<uint64_t>(s.number));
  mix(static_cast<uint64_t>(s.integer));
  mix(static_cast<uint64_t>(s.variable) << 32 | static_cast<uint32_t>(s.tensor));
  return hash;
}

bool is_equal(const Scalar& a, const Scalar& b) {
  return a.op == b.op && a.dtype == b.dtype && a.operands == b.operands && a.integer == b.integer &&
         a.variable == b.variable && a.tensor == b.tensor && a.reduction == b.reduction && a.component == b.component &&
         std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number) && a.size == b.size &&
         a.size_float == b.size_float;
}

bool is_known(const Scalar& s) { return s.op == ScalarOp::constant && !s.is_placeholder(); }

bool is_comparison(ScalarOp op) {
  return op == ScalarOp::eq || op == ScalarOp::ne || op == ScalarOp::lt || op == ScalarOp::le;
}

}  // namespace

// --- Single scalars

ScalarId Loops::add(Scalar scalar) {
  const uint64_t hash = hash_of(scalar);
  for (size_t i = 0; i < hashes_.size(); ++i)
    if (hashes_[i] == hash && is_equal(meaning_.scalars[i], scalar)) return static_cast<ScalarId>(i);
  hashes_.push_back(hash);
  meaning_.scalars.push_back(std::move(scalar));
  return static_cast<ScalarId>(meaning_.scalars.size() - 1);
}

int Loops::variable(std::optional<ir::SymInt> extent) {
  extents_.push_back(std::move(extent));
  return meaning_.variable_count++;
}

ScalarId Loops::index(int variable) {
  return add({.op = ScalarOp::index, .dtype = ScalarType::i64, .variable = variable});
}

ScalarId Loops::size(const ir::SymInt& size) {
  const ir::SymInt known = evaluator_.simplified(size);
  if (const std::optional<int64_t> value = known.constant()) return constant(*value, ScalarType::i64);
  return add({.op = ScalarOp::size, .dtype = ScalarType::i64, .size = known});
}

ScalarId Loops::constant(int64_t value, ScalarType dtype) {
  if (is_floating(dtype) || is_complex(dtype)) return constant(static_cast<double>(value), dtype);
  return add({.op = ScalarOp::constant, .dtype = dtype, .integer = wrap(value, dtype)});
}

ScalarId Loops::constant(double value, ScalarType dtype) {
  if (is_complex(dtype))
    return add({.op = ScalarOp::cast, .dtype = dtype, .operands = {constant(value, part_of(dtype))}});
  if (dtype == ScalarType::f32) value = static_cast<float>(value);
  if (is_floating(dtype)) return add({.op = ScalarOp::constant, .dtype = dtype, .number = value});
  if (dtype == ScalarType::boolean) return constant(static_cast<int64_t>(value != 0), dtype);
  const bool fits = value > -9.3e18 && value < 9.2e18;  // what does not is the lowest integer, as on x86
  return constant(fits ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min(), dtype);
}

ScalarId Loops::placeholder(ScalarType dtype) {
  return add({.op = ScalarOp::constant, .dtype = dtype, .variable = static_cast<int>(meaning_.scalars.size())});
}

ScalarId Loops::extreme(Extreme extreme, ScalarType dtype) {
  using Word = std::numeric_limits<int64_t>;
  if (extreme == Extreme::last) return constant(Word::max(), dtype);
  const bool is_lowest = extreme == Extreme::lowest;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (is_floating(dtype)) return constant(is_lowest ? -infinity : infinity, dtype);
  if (dtype == ScalarType::boolean) return constant(int64_t{!is_lowest}, dtype);
  if (dtype == ScalarType::u8) return constant(int64_t{is_lowest ? 0 : 255}, dtype);
  return constant((is_lowest ? Word::min() : Word::max()) >> (64 - 8 * size_of(dtype)), dtype);
}

ScalarId Loops::cast(ScalarId id, ScalarType dtype) {
  const Scalar from = at(id);
  if (from.dtype == dtype) return id;
  if (is_known(from) && !is_half(dtype))
    return is_floating(from.dtype) ? constant(from.number, dtype) : constant(from.integer, dtype);
  // Widening and narrowing again gives what was there before.
  if (from.op == ScalarOp::cast && from.dtype == ScalarType::f32 && at(from.operands[0]).dtype == dtype &&
      is_half(dtype))
    return from.operands[0];
  if (dtype == ScalarType::boolean && !is_complex(from.dtype))
    return make(ScalarOp::ne, ScalarType::boolean, {widened(id), constant(int64_t{0}, dtype_of_widened(id))});
  return add({.op = ScalarOp::cast, .dtype = dtype, .operands = {id}});
}

ScalarType Loops::dtype_of_widened(ScalarId id) const { return atenon::widened(dtype(id)); }
ScalarId Loops::widened(ScalarId id) { return cast(id, dtype_of_widened(id)); }

int Loops::tensor_number(ir::Value* tensor) {
  const auto found = std::find(meaning_.tensors.begin(), meaning_.tensors.end(), tensor);
  if (found == meaning_.tensors.end())
    return meaning_.tensors.push_back(tensor), static_cast<int>(meaning_.tensors.size()) - 1;
  return static_cast<int>(found - meaning_.tensors.begin());
}

ScalarId Loops::read(ir::Value* tensor, std::vector<ScalarId> index) {
  const auto* kind = std::get_if<ir::ScalarKind>(&tensor->type);
  const ScalarType dtype = !kind                              ? tensor->meta().dtype
                           : *kind == ir::ScalarKind::boolean ? ScalarType::boolean
                           : *kind == ir::ScalarKind::integer ? ScalarType::i64
                                                              : ScalarType::f64;
  return add({.op = ScalarOp::read, .dtype = dtype, .operands = std::move(index), .tensor = tensor_number(tensor)});
}

// --- From data

ScalarId Loops::scalar(const Datum& datum, const Expr* expr, std::optional<ScalarType> dtype) {
  if (evaluator_.failed()) return constant(int64_t{0}, dtype.value_or(ScalarType::i64));
  ScalarId id = no_scalar;
  if (datum.is<Element>()) {
    id = datum.get<Element>().id;
  } else if (datum.is<ir::SymInt>()) {
    const std::optional<int64_t> value = datum.get<ir::SymInt>().constant();
    id = value ? constant(*value, dtype.value_or(ScalarType::i64)) : size(datum.get<ir::SymInt>());
  } else if (datum.is<ir::SymFloat>()) {
    const ir::SymFloat& value = datum.get<ir::SymFloat>();
    id = value.constant() ? constant(*value.constant(), dtype && is_real_float(*dtype) ? *dtype : ScalarType::f64)
                          : add({.op = ScalarOp::size_float, .dtype = ScalarType::f64, .size_float = value});
  } else if (datum.is<std::complex<double>>()) {
    const std::complex<double> value = datum.get<std::complex<double>>();
    id = add({.op = ScalarOp::complex,
              .dtype = ScalarType::c128,
              .operands = {constant(value.real(), ScalarType::f64), constant(value.imag(), ScalarType::f64)}});
  } else if (datum.is<ir::SymBool>()) {
    id = truth(evaluator_.settled(datum.get<ir::SymBool>()), expr);
  } else if (datum.is<ir::Value*>()) {
    ir::Value* tensor = datum.get<ir::Value*>();
    const size_t rank = tensor->is_tensor() ? tensor->meta().sizes.size() : 0;
    std::vector<ScalarId> place(rank);
    if (rank > 0 && (!broadcast_index || broadcast_index->size() < rank)) {
      evaluator_.mistake(expr, "a tensor of rank " + std::to_string(rank) + " needs an index here");
      return constant(int64_t{0}, dtype.value_or(ScalarType::i64));
    }
    for (size_t i = 0; i < rank; ++i)
      place[i] = tensor->meta().sizes[i].constant() == 1 ? constant(int64_t{0}, ScalarType::i64)
                                                         : (*broadcast_index)[broadcast_index->size() - rank + i];
    id = read(tensor, std::move(place));
    if (type && type->computed_in &&
        std::find(type->operands.begin(), type->operands.end(), tensor) != type->operands.end())
      id = cast(id, *type->computed_in);
  } else {
    evaluator_.mistake(expr, to_string(datum) + " is no scalar");
    id = constant(int64_t{0}, ScalarType::i64);
  }
  return dtype ? cast(id, *dtype) : id;
}

ScalarId Loops::truth(const ir::SymBool& truth_, const Expr* expr) {
  if (const std::optional<bool> known = truth_.constant())
    return constant(static_cast<int64_t>(*known), ScalarType::boolean);
  using SymKind = ir::SymBool::Kind;
  const shape::BoolNode& node = *truth_.node();
  const auto comparison = [&](ScalarOp op) {
    return make(op, ScalarType::boolean, {size(node.difference), constant(int64_t{0}, ScalarType::i64)});
  };
  switch (node.kind) {
    case SymKind::eq:
      return comparison(ScalarOp::eq);
    case SymKind::ne:
      return comparison(ScalarOp::ne);
    case SymKind::le:
      return comparison(ScalarOp::le);
    case SymKind::all:
    case SymKind::any: {
      ScalarId result = truth(node.operands[0], expr);
      for (size_t i = 1; i < node.operands.size(); ++i)
        result = make(node.kind == SymKind::all ? ScalarOp::logical_and : ScalarOp::logical_or, ScalarType::boolean,
                      {result, truth(node.operands[i], expr)});
      return result;
    }
    case SymKind::opaque:
      break;
  }
  const bool is_negated = node.op.starts_with("not ");
  const std::string op = is_negated ? node.op.substr(4) : node.op;
  const ScalarId result =
      make(op == "=="   ? ScalarOp::eq
           : op == "!=" ? ScalarOp::ne
           : op == "<"  ? ScalarOp::lt
                        : ScalarOp::le,
           ScalarType::boolean,
           {scalar(node.floats[0], expr, ScalarType::f64), scalar(node.floats[1], expr, ScalarType::f64)});
  return is_negated ? make(ScalarOp::logical_not, ScalarType::boolean, {result}) : result;
}

std::vector<ScalarId> Loops::indices(const std::vector<Datum>& items, const Expr* expr) {
  std::vector<ScalarId> result;
  for (const Datum& item : items) {
    if (item.is_list()) {
      const std::vector<ScalarId> inner = indices(item.items(), expr);
      result.insert(result.end(), inner.begin(), inner.end());
    } else {
      result.push_back(scalar(item, expr, ScalarType::i64));
    }
  }
  return result;
}

Datum Loops::element(const Datum& owner, const std::vector<Datum>& index, const Expr* expr) {
  std::vector<ScalarId> place = indices(index, expr);
  if (evaluator_.failed()) return {};
  ir::Value* tensor = owner.is<ir::Value*>() ? owner.get<ir::Value*>() : nullptr;
  const size_t rank = tensor && tensor->is_tensor() ? tensor->meta().sizes.size() : 0;
  if (place.size() != rank)
    return evaluator_.mistake(expr,
                              "an index of " + std::to_string(place.size()) + " for rank " + std::to_string(rank));
  return tensor ? Datum(Element{read(tensor, std::move(place))}) : owner;  // a number stands for a tensor of rank 0
}

// --- Arithmetic

bool Loops::is_nonnegative(ScalarId id) const {
  const Scalar& s = at(id);
  const auto all = [&] {
    return std::all_of(s.operands.begin(), s.operands.end(), [&](ScalarId o) { return is_nonnegative(o); });
  };
  switch (s.op) {
    case ScalarOp::constant:
      return is_known(s) && !is_floating(s.dtype) && s.integer >= 0;
    case ScalarOp::index:
      return true;
    case ScalarOp::size:
      return evaluator_.facts().bounds(s.size).lower >= 0;
    case ScalarOp::add:
    case ScalarOp::mul:
    case ScalarOp::floor_div:
      return s.dtype == ScalarType::i64 && all();
    case ScalarOp::mod:
      return is_nonnegative(s.operands[1]);
    default:
      return false;
  }
}

// Makes an operation whose operands have one dtype, unless its value is known or one of them.
ScalarId Loops::make(ScalarOp op, ScalarType dtype, std::vector<ScalarId> operands) {
  const Scalar* a = operands.empty() ? nullptr : &at(operands[0]);
  const Scalar* b = operands.size() < 2 ? nullptr : &at(operands[1]);
  const bool is_int = a && b && !is_floating(a->dtype) && !is_complex(a->dtype);
  const auto is_constant = [](const Scalar* s, int64_t value) { return s && is_known(*s) && s->integer == value; };
  const bool divides = op == ScalarOp::div || op == ScalarOp::floor_div || op == ScalarOp::mod ||
                       op == ScalarOp::trunc_div;  // by zero is found where it is computed
  if (is_int && is_known(*a) && is_known(*b) && !divides && !is_floating(dtype))
    return constant(evaluate_integer(op, a->integer, b->integer), dtype);
  if (is_int) {
    if ((op == ScalarOp::add || op == ScalarOp::sub) && is_constant(b, 0)) return operands[0];
    if (op == ScalarOp::add && is_constant(a, 0)) return operands[1];
    if (op == ScalarOp::mul && is_constant(a, 1)) return operands[1];
    if ((op == ScalarOp::mul || op == ScalarOp::floor_div) && is_constant(b, 1)) return operands[0];
    if (op == ScalarOp::mul && (is_constant(a, 0) || is_constant(b, 0))) return constant(int64_t{0}, dtype);
    if (op == ScalarOp::mod && is_constant(b, 1)) return constant(int64_t{0}, dtype);
    if (op == ScalarOp::logical_and && (is_constant(a, 1) || is_constant(b, 1)))
      return operands[is_constant(a, 1) ? 1 : 0];
    if (op == ScalarOp::logical_and && is_constant(a, 0)) return operands[0];
    if (op == ScalarOp::logical_or && (is_constant(a, 0) || is_constant(b, 0)))
      return operands[is_constant(a, 0) ? 1 : 0];
    if (op == ScalarOp::logical_or && is_constant(a, 1)) return operands[0];
    if (op == ScalarOp::le && is_constant(a, 0) && is_nonnegative(operands[1])) return constant(int64_t{1}, dtype);
    if (op == ScalarOp::lt && is_constant(b, 0) && is_nonnegative(operands[0])) return constant(int64_t{0}, dtype);
  }
  return add({.op = op, .dtype = dtype, .operands = std::move(operands)});
}

// Elements first: a number takes the dtype of what it meets, unless it is of a higher category.
ScalarType Loops::common(const Datum& a, const Datum& b, const Expr* expr) {
  const auto dtype_of = [&](const Datum& datum) {
    return datum.is<ir::SymInt>()             ? ScalarType::i64
           : datum.is<ir::SymFloat>()         ? ScalarType::f64
           : datum.is<ir::SymBool>()          ? ScalarType::boolean
           : datum.is<std::complex<double>>() ? ScalarType::c128
                                              : dtype_of_widened(scalar(datum, expr));
  };
  const bool a_moves = is_dynamic(a), b_moves = is_dynamic(b);
  const ScalarType x = dtype_of(a), y = dtype_of(b);
  if (a_moves == b_moves) {
    const ScalarType joined = promote(x, y);
    return atenon::widened(joined);
  }
  const ScalarType element = a_moves ? x : y, number = a_moves ? y : x;
  if (is_complex(element)) return element;
  if (is_complex(number)) return element == ScalarType::f64 ? number : ScalarType::c64;
  if (is_floating(element)) return element;
  if (is_floating(number)) return ScalarType::f64;
  return element == ScalarType::boolean ? number : element;
}

Datum Loops::binary(Operation operation, const Datum& a, const Datum& b, const Expr* expr) {
  ScalarOp op = form_of(operation).scalar;
  const bool is_swapped = operation == Operation::gt || operation == Operation::ge;
  const bool is_logical = op == ScalarOp::logical_and || op == ScalarOp::logical_or;
  ScalarType type = is_logical ? ScalarType::boolean : common(a, b, expr);
  if (op == ScalarOp::div && !is_floating(type) && !is_complex(type)) type = ScalarType::f64;
  std::vector<ScalarId> operands = {scalar(a, expr, type), scalar(b, expr, type)};
  if (evaluator_.failed()) return {};
  if (is_swapped) std::swap(operands[0], operands[1]);
  if (type == ScalarType::boolean) {  // bools add as `or` and multiply as `and`
    if (op == ScalarOp::add) op = ScalarOp::logical_or;
    if (op == ScalarOp::mul) op = ScalarOp::logical_and;
  }
  return Element{make(op, is_comparison(op) ? ScalarType::boolean : type, std::move(operands))};
}

Datum Loops::unary(Operation operation, const Datum& a, const Expr* expr) {
  const bool is_truth = operation == Operation::bit_not && dtype(scalar(a, expr)) == ScalarType::boolean;
  if (operation == Operation::logical_not || is_truth) {
    const ScalarId truth_ = scalar(a, expr, ScalarType::boolean);
    if (is_known(at(truth_))) return Element{constant(int64_t{at(truth_).integer == 0}, ScalarType::boolean)};
    return Element{make(ScalarOp::logical_not, ScalarType::boolean, {truth_})};
  }
  const ScalarId x = widened(scalar(a, expr));
  return Element{make(operation == Operation::bit_not ? ScalarOp::bit_not : ScalarOp::neg, dtype(x), {x})};
}

Datum Loops::function(ScalarOp op, const std::vector<Datum>& arguments, const Expr* expr) {
  const bool is_binary = arguments.size() == 2;
  ScalarType type = is_binary ? common(arguments[0], arguments[1], expr) : dtype_of_widened(scalar(arguments[0], expr));
  const bool keeps_integers = op == ScalarOp::abs || op == ScalarOp::minimum || op == ScalarOp::maximum ||
                              op == ScalarOp::trunc_div || op == ScalarOp::bit_xor;
  if (op == ScalarOp::complex) type = is_floating(type) ? type : ScalarType::f64;
  if (op == ScalarOp::real && !is_complex(type)) return Element{scalar(arguments[0], expr)};
  if (op == ScalarOp::imag && !is_complex(type)) return Element{constant(int64_t{0}, type)};
  if (!is_floating(type) && !is_complex(type)) {
    if (op == ScalarOp::floor || op == ScalarOp::ceil || op == ScalarOp::trunc || op == ScalarOp::round)
      return Element{scalar(arguments[0], expr)};
    if (op == ScalarOp::isnan) return Element{constant(int64_t{0}, ScalarType::boolean)};
    if (type == ScalarType::boolean && op == ScalarOp::maximum) op = ScalarOp::logical_or;
    if (type == ScalarType::boolean && op == ScalarOp::minimum) op = ScalarOp::logical_and;
    if (!keeps_integers) type = ScalarType::f64;
  }
  std::vector<ScalarId> operands;
  for (const Datum& argument : arguments) operands.push_back(scalar(argument, expr, type));
  if (evaluator_.failed()) return {};
  if (op == ScalarOp::isnan) return Element{make(op, ScalarType::boolean, std::move(operands))};
  if (op == ScalarOp::complex) return Element{make(op, pair_of(type), std::move(operands))};
  const bool is_part = op == ScalarOp::abs || op == ScalarOp::real || op == ScalarOp::imag;
  return Element{make(op, is_part && is_complex(type) ? part_of(type) : type, std::move(operands))};
}

// `0 if n == 1 else i`, where i runs below n, is i: what broadcasting by an open size comes to when nothing is
// broadcast.
bool Loops::is_index_below(const Datum& condition, const Datum& then, const Datum& otherwise) const {
  if (!condition.is<ir::SymBool>() || then.integer() != 0 || !otherwise.is<Element>()) return false;
  const Scalar& scalar = at(otherwise.get<Element>().id);
  if (scalar.op != ScalarOp::index || !extents_[static_cast<size_t>(scalar.variable)]) return false;
  return shape::equal(*extents_[static_cast<size_t>(scalar.variable)], 1) == condition.get<ir::SymBool>();
}

Datum Loops::select(const Datum& condition, const Datum& then, const Datum& otherwise, const Expr* expr) {
  if (is_index_below(condition, then, otherwise)) return otherwise;
  if (then.is_list() && otherwise.is_list() && then.items().size() == otherwise.items().size()) {
    std::vector<Datum> items;
    for (size_t i = 0; i < then.items().size(); ++i)
      items.push_back(select(condition, then.items()[i], otherwise.items()[i], expr));
    return then.get<List>()->is_tuple ? tuple(std::move(items)) : list(std::move(items));
  }
  const ScalarId truth_ = scalar(condition, expr, ScalarType::boolean);
  if (evaluator_.failed()) return {};
  if (is_known(at(truth_))) return at(truth_).integer ? then : otherwise;
  const bool is_move = then.is<Element>() && otherwise.is<Element>() &&
                       dtype(then.get<Element>().id) == dtype(otherwise.get<Element>().id);
  const ScalarType type_ = is_move ? dtype(then.get<Element>().id) : common(then, otherwise, expr);
  const ScalarId x = scalar(then, expr, type_), y = scalar(otherwise, expr, type_);
  if (evaluator_.failed()) return {};
  return x == y ? Datum(Element{x})
                : Datum(Element{add({.op = ScalarOp::select, .dtype = dtype(x), .operands = {truth_, x, y}})});
}

// --- Reductions

Monoid Loops::make_monoid(const MonoidDefinition& definition, const std::vector<ScalarType>& dtypes, const Expr* expr) {
  Monoid monoid{.name = definition.name};
  Result<const MonoidDefinition::Body*> body = body_of(definition, evaluator_.library());
  if (!body) return evaluator_.adopt(body.error()), monoid;
  std::vector<Datum> left, right;
  for (const ScalarType type_ : dtypes) {
    monoid.left.push_back(placeholder(type_));
    monoid.right.push_back(placeholder(type_));
    left.push_back(Element{monoid.left.back()});
    right.push_back(Element{monoid.right.back()});
  }
  const auto components = [&](const Datum& datum) {
    return datum.is_list() ? datum.items() : std::vector<Datum>{datum};
  };
  const auto argument = [](std::vector<Datum>& items) { return items.size() == 1 ? items[0] : tuple(items); };
  evaluator_.in_frame(*definition.file, (*body)->tree.slots, {argument(left), argument(right)}, [&]() -> Datum {
    const std::vector<Datum> identity = components(evaluator_.evaluate((*body)->identity));
    const std::vector<Datum> joined = components(evaluator_.evaluate((*body)->joined));
    if (evaluator_.failed()) return {};
    if (identity.size() != dtypes.size() || joined.size() != dtypes.size())
      return evaluator_.mistake(expr, definition.name + " joins " + std::to_string(joined.size()) + " values, not " +
                                          std::to_string(dtypes.size()));
    for (size_t i = 0; i < dtypes.size(); ++i) {
      monoid.identity.push_back(identity[i].is<Extreme>() ? extreme(identity[i].get<Extreme>(), dtypes[i])
                                                          : scalar(identity[i], expr, dtypes[i]));
      monoid.joined.push_back(scalar(joined[i], expr, dtypes[i]));
    }
    return {};
  });
  return monoid;
}

Datum Loops::monoid(const Expr& expr) {
  for (const Binding& binding : expr.bindings)
    evaluator_.bind(binding.pattern, evaluator_.evaluate(binding.value), binding.value);
  std::vector<Datum> parts;
  for (const Expr* operand : expr.operands) parts.push_back(evaluator_.evaluate(operand));
  if (parts.size() == 1 && parts[0].is_list()) parts = std::vector<Datum>(parts[0].items());
  Reduction reduction;
  std::vector<ScalarType> dtypes;
  for (const Datum& part : parts) {
    reduction.element.push_back(widened(scalar(part, &expr)));
    dtypes.push_back(dtype(reduction.element.back()));
  }
  if (expr.guard) reduction.guard = scalar(evaluator_.evaluate(expr.guard), &expr, ScalarType::boolean);
  if (evaluator_.failed()) return {};
  if (reduction.guard != no_scalar && is_known(at(reduction.guard)) && at(reduction.guard).integer)
    reduction.guard = no_scalar;
  reduction.variables = scope->variables;
  reduction.extents = scope->extents;
  reduction.prefix = scope->prefix_axis >= 0;
  reduction.prefix_axis = scope->prefix_axis;
  // `any` and `all` join truths.
  if (expr.name == "any" || expr.name == "all")
    for (size_t i = 0; i < dtypes.size(); ++i)
      reduction.element[i] = cast(reduction.element[i], dtypes[i] = ScalarType::boolean);
  reduction.monoid = make_monoid(*expr.monoid, dtypes, &expr);
  if (evaluator_.failed()) return {};
  const auto number = static_cast<int>(meaning_.reductions.size());
  meaning_.reductions.push_back(std::move(reduction));
  std::vector<Datum> results;
  for (size_t i = 0; i < dtypes.size(); ++i)
    results.push_back(Element{
        add({.op = ScalarOp::reduce, .dtype = dtypes[i], .reduction = number, .component = static_cast<int>(i)})});
  return results.size() == 1 ? results[0] : tuple(std::move(results));
}

}  // namespace atenon::opset
