#include "lower/expressions.h"

#include <algorithm>

namespace atenon::lower {

namespace {

constexpr size_t most_expressions = 20000;

// What an operation costs, in additions.
int cost_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::constant:
    case ScalarOp::size:
    case ScalarOp::size_float:
    case ScalarOp::reduce:
      return 0;
    case ScalarOp::div:
    case ScalarOp::sqrt:
    case ScalarOp::rsqrt:
    case ScalarOp::floor_div:
    case ScalarOp::mod:
    case ScalarOp::trunc_div:
      return 8;
    case ScalarOp::pow:
      return 40;
    case ScalarOp::sigmoid:
    case ScalarOp::atan2:
    case ScalarOp::lgamma:
    case ScalarOp::digamma:
      return 20;
    default:
      return op >= ScalarOp::exp && op <= ScalarOp::erfc ? 20 : 1;
  }
}

}  // namespace

ExprId Expressions::intern(Expr expr) {
  std::string key = std::to_string(static_cast<int>(expr.op)) + name_of(expr.dtype);
  for (ExprId operand : expr.operands) key += "," + std::to_string(operand);
  char number[40];
  snprintf(number, sizeof number, "|%a|", expr.number);
  key += number + std::to_string(expr.integer) + "|" + expr.index.to_string() + "|" + std::to_string(expr.buffer) +
         "|" + std::to_string(expr.reduction) + "." + std::to_string(expr.component) + "." +
         std::to_string(expr.placeholder);
  if (expr.op == ScalarOp::size_float) key += expr.size_float.to_string();
  auto [found, is_new] = interned_.emplace(key, static_cast<ExprId>(loops_.exprs.size()));
  if (!is_new) return found->second;
  if (loops_.exprs.size() >= most_expressions) fail("it is too large for one kernel");
  expr.loops = loops_.loops_of(expr.index) | (expr.placeholder >= 0 ? placeholder_loop : 0);
  const auto depend_on = [&](ExprId id) {
    const Expr& other = loops_.exprs[id];
    expr.loops |= other.loops;
    expr.is_partial |= other.is_partial;
    expr.is_open |= other.is_open;
    expr.is_branching |= other.is_branching;
  };
  std::ranges::for_each(expr.operands, depend_on);
  std::ranges::for_each(values_in(expr.index), depend_on);
  if (is_choice(expr.op))
    expr.is_lazy = std::any_of(expr.operands.begin() + 1, expr.operands.end(),
                               [&](ExprId operand) { return loops_.exprs[operand].is_open; });
  expr.is_branching |= expr.is_lazy;
  if (expr.op == ScalarOp::reduce) {
    const BoundReduction& reduction = loops_.reductions[expr.reduction];
    expr.loops = reduction.outer;
    if (reduction.is_prefix) expr.loops |= bit(reduction.loops[0]);
    if (reduction.guard == no_expr)
      for (ExprId part : reduction.element) {
        expr.is_partial |= loops_.exprs[part].is_partial;
        expr.is_open |= loops_.exprs[part].is_open;
      }
  }
  expr.cost = cost_of(expr.op);
  loops_.exprs.push_back(std::move(expr));
  return found->second;
}

ExprId Expressions::integer(const SymInt& value) {
  return intern({.op = ScalarOp::size, .dtype = ScalarType::i64, .index = value});
}

SymInt Expressions::index_of(ExprId id) const {
  const Expr& expr = loops_.exprs[id];
  if (expr.op == ScalarOp::size) return expr.index;
  if (expr.op == ScalarOp::constant && expr.placeholder < 0 && is_integral(expr.dtype)) return expr.integer;
  return SymInt::symbol("%" + std::to_string(id));
}

int Expressions::add_loop(const SymInt& extent) {
  if (loops_.loops.size() >= most_loops) {
    fail("it has too many loops");
    return 0;
  }
  const int number = static_cast<int>(loops_.loops.size());
  std::string symbol = "$" + std::to_string(number);
  space_.declare(symbol, extent);
  loops_.loops.push_back({symbol, extent});
  return number;
}

ExprId Expressions::clamped(ExprId index, const SymInt& size) {
  const ExprId low = intern({.op = ScalarOp::maximum, .dtype = ScalarType::i64, .operands = {index, integer(0)}});
  return intern({.op = ScalarOp::minimum, .dtype = ScalarType::i64, .operands = {low, integer(size - 1)}});
}

// Integer arithmetic on sizes and loop variables stays symbolic; no_expr where it cannot.
ExprId Expressions::fold_integers(ScalarOp op, const std::vector<ExprId>& operands) {
  for (ExprId operand : operands)
    if (loops_.exprs[operand].op != ScalarOp::size) return no_expr;
  auto value = [&](size_t i) -> const SymInt& { return loops_.exprs[operands[i]].index; };
  auto truth = [&](bool is_true) {
    return intern({.op = ScalarOp::constant, .dtype = ScalarType::boolean, .integer = is_true});
  };
  switch (op) {
    case ScalarOp::add:
      return integer(value(0) + value(1));
    case ScalarOp::sub:
      return integer(value(0) - value(1));
    case ScalarOp::mul:
      return integer(value(0) * value(1));
    case ScalarOp::neg:
      return integer(-value(0));
    case ScalarOp::floor_div:
    case ScalarOp::trunc_div:
    case ScalarOp::mod: {
      const std::optional<bool> positive = space_.decide_less(0, value(1), false);
      if (positive != true) return no_expr;
      if (op == ScalarOp::trunc_div && !space_.is_never_negative(value(0))) return no_expr;
      return integer(op == ScalarOp::mod ? space_.remainder(value(0), value(1)) : space_.quotient(value(0), value(1)));
    }
    case ScalarOp::minimum:
    case ScalarOp::maximum:
      if (std::optional<bool> less = space_.decide_less(value(0), value(1), true))
        return operands[*less == (op == ScalarOp::minimum) ? 0 : 1];
      return integer(op == ScalarOp::minimum ? shape::min(value(0), value(1)) : shape::max(value(0), value(1)));
    case ScalarOp::lt:
    case ScalarOp::le:
      if (std::optional<bool> less = space_.decide_less(value(0), value(1), op == ScalarOp::le)) return truth(*less);
      return no_expr;
    case ScalarOp::eq:
    case ScalarOp::ne:
      if (value(0) == value(1)) return truth(op == ScalarOp::eq);
      if (space_.decide_less(value(0), value(1), false) == true ||
          space_.decide_less(value(1), value(0), false) == true)
        return truth(op == ScalarOp::ne);
      return no_expr;
    default:
      return no_expr;
  }
}

ExprId Expressions::apply(ScalarOp op, ScalarType dtype, std::vector<ExprId> operands) {
  auto known = [&](ExprId id) -> std::optional<bool> {
    const Expr& expr = loops_.exprs[id];
    if (expr.op != ScalarOp::constant || expr.placeholder >= 0 || expr.dtype != ScalarType::boolean)
      return std::nullopt;
    return expr.integer != 0;
  };
  if (op == ScalarOp::select) {
    if (std::optional<bool> condition = known(operands[0])) return operands[*condition ? 1 : 2];
    if (operands[1] == operands[2]) return operands[1];
  }
  if (op == ScalarOp::logical_and || op == ScalarOp::logical_or) {
    const bool decisive = op == ScalarOp::logical_or;
    for (size_t i : {size_t{0}, size_t{1}})
      if (std::optional<bool> condition = known(operands[i]))
        return *condition == decisive ? operands[i] : operands[1 - i];
  }
  if (op == ScalarOp::logical_not)
    if (std::optional<bool> condition = known(operands[0]))
      return intern({.op = ScalarOp::constant, .dtype = ScalarType::boolean, .integer = !*condition});
  if (op == ScalarOp::cast) {
    const Expr& from = loops_.exprs[operands[0]];
    if (from.dtype == dtype) return operands[0];
    // Constants change type here, so that 2 * x stays one multiplication.
    const std::optional<int64_t> whole = from.op == ScalarOp::size ? from.index.constant() : std::nullopt;
    if (is_floating(dtype) && whole)
      return intern({.op = ScalarOp::constant, .dtype = dtype, .number = static_cast<double>(*whole)});
    if (dtype == ScalarType::f32 && from.op == ScalarOp::constant && from.dtype == ScalarType::f64 &&
        from.placeholder < 0)
      return intern({.op = ScalarOp::constant, .dtype = dtype, .number = static_cast<float>(from.number)});
  }
  if (ExprId folded = fold_integers(op, operands); folded != no_expr) return folded;
  return intern({.op = op, .dtype = dtype, .operands = std::move(operands)});
}

}  // namespace atenon::lower
