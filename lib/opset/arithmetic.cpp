// The evaluator's arithmetic: on numbers and sizes, which stay symbolic; what has a tensor in it is an operator's, what
// depends on an index is the loops'.
#include <algorithm>

#include "opset/evaluator.h"
#include "opset/loop_builder.h"
#include "shape/halves.h"

namespace atenon::opset {
namespace {

bool is_order(Operation operation) { return operation >= Operation::lt && operation <= Operation::ge; }

}  // namespace

std::optional<ir::SymInt> Evaluator::as_int(const Datum& datum, const Expr* at) {
  if (datum.is<ir::SymInt>()) return datum.get<ir::SymInt>();
  if (datum.is<ir::SymBool>() && datum.get<ir::SymBool>().constant())
    return ir::SymInt(*datum.get<ir::SymBool>().constant() ? 1 : 0);
  if (!failed()) mistake(at, to_string(datum) + " is not an integer");
  return std::nullopt;
}

std::optional<ir::SymFloat> Evaluator::as_float(const Datum& datum, const Expr* at) {
  if (datum.is<ir::SymFloat>()) return datum.get<ir::SymFloat>();
  const std::optional<ir::SymInt> integer = as_int(datum, at);
  if (!integer) return std::nullopt;
  return ir::SymFloat::from(*integer);
}

std::optional<int64_t> Evaluator::as_static(const Datum& datum, const Expr* at) {
  const std::optional<ir::SymInt> integer = as_int(datum, at);
  if (!integer) return std::nullopt;
  const std::optional<int64_t> constant = integer->is_constant() ? integer->constant() : facts().value_of(*integer);
  if (!constant) fail(at, 112, "undecided", integer->to_string() + " must be known when the operator is applied");
  return constant;
}

std::vector<ir::SymInt> Evaluator::as_shape(const Datum& datum, const Expr* at) {
  std::vector<ir::SymInt> sizes;
  if (failed()) return sizes;
  if (!datum.is_list()) return mistake(at, to_string(datum) + " is not a list of sizes"), sizes;
  for (const Datum& item : datum.items())
    if (const std::optional<ir::SymInt> size = as_int(item, at)) sizes.push_back(simplified(*size));
  return sizes;
}

Datum Evaluator::unary(Operation operation, const Datum& a, const Expr* at) {
  if (operation == Operation::is_none) return a.is_none();
  if (operation == Operation::is_not_none) return !a.is_none();
  if (loops && loops->is_dynamic(a)) return loops->unary(operation, a, at);
  if (has_tensor(a)) return apply_operator(form_of(operation).op, {a}, {}, at);
  if (operation == Operation::logical_not) {
    if (!a.is<ir::SymBool>()) return mistake(at, "`not` is of truths, not of " + to_string(a));
    return shape::negate(a.get<ir::SymBool>());
  }
  if (operation == Operation::bit_not) {
    const std::optional<ir::SymInt> x = as_int(a, at);
    return x ? Datum(-*x - 1) : Datum();
  }
  if (a.is<ir::SymFloat>()) return ir::SymFloat::apply("*", {ir::SymFloat(-1.), a.get<ir::SymFloat>()});
  const std::optional<ir::SymInt> x = as_int(a, at);
  return x ? Datum(-*x) : Datum();
}

Datum Evaluator::binary(Operation operation, const Datum& a, const Datum& b, const Expr* at) {
  if (operation == Operation::contained) {
    if (!b.is_list()) return mistake(at, "`in` looks into a list, not into " + to_string(b));
    Datum found = false;
    for (const Datum& item : b.items()) found = combine(Operation::logical_or, found, equality(a, item, at), at);
    return found;
  }
  if (operation == Operation::add && a.is_list() && b.is_list()) {
    std::vector<Datum> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return list(std::move(items));
  }
  const bool is_equality = operation == Operation::eq || operation == Operation::ne;
  const bool is_about_none = is_equality && (a.is_none() || b.is_none());
  if (loops && !is_about_none && (loops->is_dynamic(a) || loops->is_dynamic(b)))
    return loops->binary(operation, a, b, at);
  if (!is_about_none && (has_tensor(a) || has_tensor(b))) {
    const char* name = form_of(operation).op;
    return name ? apply_operator(name, {a, b}, {}, at) : mistake(at, "tensors have no such operator");
  }
  if (operation == Operation::logical_and || operation == Operation::logical_or) return combine(operation, a, b, at);
  if (operation == Operation::eq) return equality(a, b, at);
  if (operation == Operation::ne) {
    const Datum equal = equality(a, b, at);
    return failed() ? Datum() : unary(Operation::logical_not, equal, at);
  }
  return is_order(operation) ? compare(operation, a, b, at) : compute(operation, a, b, at);
}

Datum Evaluator::combine(Operation operation, const Datum& a, const Datum& b, const Expr* at) {
  if (failed()) return {};
  if (loops && (loops->is_dynamic(a) || loops->is_dynamic(b))) return loops->binary(operation, a, b, at);
  if (!a.is<ir::SymBool>() || !b.is<ir::SymBool>()) return mistake(at, "`and` and `or` join truths");
  const ir::SymBool &x = a.get<ir::SymBool>(), &y = b.get<ir::SymBool>();
  return operation == Operation::logical_and ? shape::both(x, y) : shape::either(x, y);
}

Datum Evaluator::equality(const Datum& a, const Datum& b, const Expr* at) {
  if (failed()) return {};
  if (a.is_number() && b.is_number()) {
    if (a.is<ir::SymInt>() && b.is<ir::SymInt>())
      return settled(shape::equal(a.get<ir::SymInt>(), b.get<ir::SymInt>()));
    if (a.is<ir::SymBool>() && b.is<ir::SymBool>()) {
      const std::optional<bool> x = a.get<ir::SymBool>().constant(), y = b.get<ir::SymBool>().constant();
      if (x) return *x ? b : Datum(shape::negate(b.get<ir::SymBool>()));
      if (y) return *y ? a : Datum(shape::negate(a.get<ir::SymBool>()));
    }
    return compare(Operation::eq, a, b, at);
  }
  if (a.is_list() && b.is_list()) {
    if (a.items().size() != b.items().size()) return false;
    Datum all = true;
    for (size_t i = 0; i < a.items().size(); ++i)
      all = combine(Operation::logical_and, all, equality(a.items()[i], b.items()[i], at), at);
    return all;
  }
  if (loops && (loops->is_dynamic(a) || loops->is_dynamic(b))) return loops->binary(Operation::eq, a, b, at);
  if (a.index() != b.index()) return false;
  if (a.is<ScalarType>()) return a.get<ScalarType>() == b.get<ScalarType>();
  if (a.is<std::string>()) return a.get<std::string>() == b.get<std::string>();
  if (a.is<ir::Word>()) return a.get<ir::Word>() == b.get<ir::Word>();
  if (a.is<std::complex<double>>()) return a.get<std::complex<double>>() == b.get<std::complex<double>>();
  return a.is_none() ? Datum(true) : mistake(at, to_string(a) + " cannot be compared");
}

Datum Evaluator::compare(Operation operation, const Datum& a, const Datum& b, const Expr* at) {
  const bool is_float = a.is<ir::SymFloat>() || b.is<ir::SymFloat>();
  if (is_float) {
    const std::optional<ir::SymFloat> x = as_float(a, at), y = as_float(b, at);
    return x && y ? Datum(shape::compare(form_of(operation).spelled, *x, *y)) : Datum();
  }
  const std::optional<ir::SymInt> x = as_int(a, at), y = as_int(b, at);
  if (!x || !y) return {};
  switch (operation) {
    case Operation::lt:
      return settled(shape::less(*x, *y));
    case Operation::le:
      return settled(shape::less_equal(*x, *y));
    case Operation::gt:
      return settled(shape::less(*y, *x));
    case Operation::ge:
      return settled(shape::less_equal(*y, *x));
    default:
      return settled(shape::equal(*x, *y));
  }
}

// Of which one at least is complex.
Datum Evaluator::compute_complex(Operation operation, const Datum& a, const Datum& b, const Expr* at) {
  std::complex<double> x[2];
  for (int i = 0; i < 2; ++i) {
    const Datum& operand = i == 0 ? a : b;
    if (operand.is<std::complex<double>>()) {
      x[i] = operand.get<std::complex<double>>();
      continue;
    }
    const std::optional<ir::SymFloat> real = as_float(operand, at);
    if (!real) return {};
    if (!real->constant()) return mistake(at, "complex numbers are computed from constants only");
    x[i] = *real->constant();
  }
  switch (operation) {
    case Operation::add:
      return x[0] + x[1];
    case Operation::sub:
      return x[0] - x[1];
    case Operation::mul:
      return x[0] * x[1];
    default:
      return mistake(at, "complex numbers have no such operator");
  }
}

Datum Evaluator::compute(Operation operation, const Datum& a, const Datum& b, const Expr* at) {
  if (a.is<std::complex<double>>() || b.is<std::complex<double>>()) return compute_complex(operation, a, b, at);
  if (a.is<ir::SymFloat>() || b.is<ir::SymFloat>() || operation == Operation::div) {
    const std::optional<ir::SymFloat> x = as_float(a, at), y = as_float(b, at);
    if (!x || !y) return {};
    switch (operation) {
      case Operation::add:
        return ir::SymFloat::apply("+", {*x, *y});
      case Operation::sub:
        return ir::SymFloat::apply("-", {*x, *y});
      case Operation::mul:
        return ir::SymFloat::apply("*", {*x, *y});
      case Operation::div:
        return ir::SymFloat::apply("/", {*x, *y});
      case Operation::floor_div:
        return shape::floor(ir::SymFloat::apply("/", {*x, *y}));
      case Operation::pow:
        return ir::SymFloat::apply("pow", {*x, *y});
      default:
        return mistake(at, "floats have no such operator");
    }
  }
  const std::optional<ir::SymInt> x = as_int(a, at), y = as_int(b, at);
  if (!x || !y) return {};
  const std::optional<int64_t> p = x->constant(), q = y->constant();
  switch (operation) {
    case Operation::add:
      return shape::close_halves(*x + *y);
    case Operation::sub:
      return *x - *y;
    case Operation::mul:
      return *x * *y;
    case Operation::floor_div:
    case Operation::mod:
      if (q && *q == 0) return fail(at, 113, "zero", "division of " + x->to_string() + " by zero");
      return simplified(operation == Operation::mod ? shape::mod(*x, *y) : shape::floor_div(*x, *y));
    case Operation::pow: {
      if (!q || *q < 0 || *q > 16) return mistake(at, "the exponent of a size is a small constant");
      return shape::product(std::vector<ir::SymInt>(static_cast<size_t>(*q), *x));
    }
    default:
      break;
  }
  if (!p || !q) return mistake(at, "bits are of constants, not of symbolic sizes");
  switch (operation) {
    case Operation::bit_and:
      return *p & *q;
    case Operation::bit_or:
      return *p | *q;
    case Operation::shift_left:
      return *q >= 0 && *q < 63 ? Datum(static_cast<int64_t>(static_cast<uint64_t>(*p) << *q)) : Datum(0);
    case Operation::shift_right:
      return *p >> std::clamp<int64_t>(*q, 0, 63);
    default:
      return mistake(at, "integers have no such operator");
  }
}

}  // namespace atenon::opset
