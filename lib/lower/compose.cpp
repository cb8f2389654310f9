// From the meanings of a body's nodes to one set of expressions.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "lower/inline_functions.h"
#include "lower/loops.h"
#include "reference/complex_parts.h"

namespace atenon::lower {

namespace {

using ir::Value;
using opset::Meaning;
using opset::Scalar;
using opset::ScalarId;

constexpr size_t most_expressions = 20000;
constexpr size_t most_loops = 60;
constexpr int64_t few_terms = 4;

Diagnostic refuse(std::string why) { return error(Status::unsupported, 0, std::move(why)); }

class Composer {
 public:
  Composer(const MeaningOf& meaning_of, const LayoutOf& layout_of, const shape::Facts& facts, Loops& loops)
      : meaning_of_(meaning_of), layout_of_(layout_of), space_(facts), loops_(loops) {}

  Result<void> run(const ir::Graph& body);
  Result<void> run_scatter(const ir::Graph& body, const Meaning& meaning);
  Accesses record(const Meaning& meaning);
  std::optional<Access> read_through(const std::vector<const Meaning*>& views);

 private:
  // One meaning at one index.
  struct Instance {
    const Meaning* meaning;
    std::map<int, SymInt> variables;
    std::map<ScalarId, ExprId> done;
    std::map<int, int> reductions;
    std::map<ScalarId, ExprId> placeholders;
  };

  ExprId intern(Expr expr);
  ExprId integer(const SymInt& value);
  SymInt index_of(ExprId id);
  int add_loop(const SymInt& extent);
  LoopSet loops_of(const SymInt& x) const;

  ExprId element(const Value* value, const std::vector<SymInt>& index);
  ExprId read(const Value* value, const std::vector<SymInt>& index);
  ExprId clamped(ExprId index, const SymInt& size);
  ExprId scalar(Instance& instance, ScalarId id);
  ExprId apply(const Scalar& scalar, std::vector<ExprId> operands);
  ExprId fold_integers(ScalarOp op, const std::vector<ExprId>& operands);
  int reduction(Instance& instance, int number);
  ExprId window(const Instance& instance, const Scalar& reduce);
  bool slides(const Instance& instance, const opset::Reduction& reduction, const std::vector<int64_t>& extents);

  ExprId fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
    return integer(0);
  }

  const MeaningOf& meaning_of_;
  const LayoutOf& layout_of_;
  IndexSpace space_;
  Loops& loops_;
  std::map<std::string, ExprId> interned_;
  std::map<std::pair<const Value*, std::string>, ExprId> elements_;
  std::map<std::string, int> interned_reductions_;
  std::map<std::string, int> loop_numbers_;
  std::vector<Access>* recorded_ = nullptr;  // reads are noted here instead of composed
  std::string failure_;
};

// --- Expressions

LoopSet Composer::loops_of(const SymInt& x) const {
  LoopSet set = 0;
  if (x.is_constant()) return set;
  for (const std::string& symbol : x.symbols()) {
    if (auto loop = loop_numbers_.find(symbol); loop != loop_numbers_.end()) set |= bit(loop->second);
    if (symbol.front() == '%') set |= loops_.exprs[std::stoi(symbol.substr(1))].loops;
  }
  return set;
}

ExprId Composer::intern(Expr expr) {
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
  expr.loops = loops_of(expr.index) | (expr.placeholder >= 0 ? placeholder_loop : 0);
  for (ExprId operand : expr.operands) {
    expr.loops |= loops_.exprs[operand].loops;
    expr.is_partial |= loops_.exprs[operand].is_partial;
    expr.is_open |= loops_.exprs[operand].is_open;
    expr.is_branching |= loops_.exprs[operand].is_branching;
  }
  if (expr.op == ScalarOp::select || expr.op == ScalarOp::logical_and || expr.op == ScalarOp::logical_or)
    expr.is_lazy = std::any_of(expr.operands.begin() + 1, expr.operands.end(),
                               [&](ExprId operand) { return loops_.exprs[operand].is_open; });
  expr.is_branching |= expr.is_lazy;
  if (!expr.index.is_constant())
    for (const std::string& symbol : expr.index.symbols()) {
      if (symbol.front() != '%') continue;
      expr.is_partial |= loops_.exprs[std::stoi(symbol.substr(1))].is_partial;
      expr.is_open |= loops_.exprs[std::stoi(symbol.substr(1))].is_open;
      expr.is_branching |= loops_.exprs[std::stoi(symbol.substr(1))].is_branching;
    }
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

ExprId Composer::integer(const SymInt& value) {
  return intern({.op = ScalarOp::size, .dtype = ScalarType::i64, .index = value});
}

SymInt Composer::index_of(ExprId id) {
  const Expr& expr = loops_.exprs[id];
  if (expr.op == ScalarOp::size) return expr.index;
  if (expr.op == ScalarOp::constant && expr.placeholder < 0 && is_integral(expr.dtype)) return expr.integer;
  return SymInt::symbol("%" + std::to_string(id));
}

int Composer::add_loop(const SymInt& extent) {
  if (loops_.loops.size() >= most_loops) {
    fail("it has too many loops");
    return 0;
  }
  const int number = static_cast<int>(loops_.loops.size());
  std::string symbol = "$" + std::to_string(number);
  loop_numbers_[symbol] = number;
  space_.declare(symbol, extent);
  loops_.loops.push_back({symbol, extent});
  return number;
}

// --- Reads

ExprId Composer::clamped(ExprId index, const SymInt& size) {
  const ExprId low = intern({.op = ScalarOp::maximum, .dtype = ScalarType::i64, .operands = {index, integer(0)}});
  return intern({.op = ScalarOp::minimum, .dtype = ScalarType::i64, .operands = {low, integer(size - 1)}});
}

ExprId Composer::read(const Value* value, const std::vector<SymInt>& index) {
  if (recorded_) recorded_->push_back({value, index});
  const RealForm form = real_form(value->meta(), layout_of_(*value));
  std::vector<SymInt> inside = index;
  bool partial = false;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    SymInt& at = inside[axis];
    bool depends_on_data = false;
    if (!at.is_constant())
      for (const std::string& symbol : at.symbols()) depends_on_data |= symbol.front() == '%';
    // What the data says must not lead outside the tensor.
    if (depends_on_data) {
      at = index_of(clamped(integer(at), form.sizes[axis]));
    } else if (!space_.is_within(at, form.sizes[axis])) {
      partial = true;
    }
  }
  return intern({.op = ScalarOp::read,
                 .dtype = form.dtype,
                 .index = address_of(form.layout, inside),
                 .buffer = value->index,
                 .is_partial = partial,
                 .is_open = partial});
}

ExprId Composer::element(const Value* value, const std::vector<SymInt>& index) {
  if (!value->is_tensor()) return fail("%" + value->name + " is a number that is computed at run time");
  if (!value->producer || recorded_) return read(value, index);
  std::string key;
  for (const SymInt& at : index) key += at.to_string() + ";";
  const auto memo = std::make_pair(value, key);
  if (auto found = elements_.find(memo); found != elements_.end()) return found->second;
  const Meaning* meaning = meaning_of_(*value->producer);
  if (!meaning) return fail(value->producer->target() + " has no loops");
  if (meaning->scatter) return fail(value->producer->target() + " scatters");
  const opset::LoopNest& nest = meaning->results[value->index];
  assert(nest.variables.size() == index.size());
  Instance instance{.meaning = meaning};
  for (size_t axis = 0; axis < index.size(); ++axis) instance.variables[nest.variables[axis]] = index[axis];
  ExprId result = scalar(instance, nest.value);
  // A 16-bit result is rounded as if it had been stored.
  if (is_half(nest.type.dtype)) result = intern({.op = ScalarOp::cast, .dtype = nest.type.dtype, .operands = {result}});
  elements_[memo] = result;
  return result;
}

// --- Scalars

ExprId Composer::scalar(Instance& instance, ScalarId id) {
  if (auto found = instance.done.find(id); found != instance.done.end()) return found->second;
  if (auto found = instance.placeholders.find(id); found != instance.placeholders.end()) return found->second;
  if (!failure_.empty()) return integer(0);
  const Scalar& scalar_ = instance.meaning->scalars[id];
  ExprId result = no_expr;
  switch (scalar_.op) {
    case ScalarOp::constant:
      result = scalar_.dtype == ScalarType::i64 ? integer(scalar_.integer)
                                                : intern({.op = ScalarOp::constant,
                                                          .dtype = scalar_.dtype,
                                                          .number = scalar_.number,
                                                          .integer = scalar_.integer});
      break;
    case ScalarOp::size:
      result = integer(scalar_.size);
      break;
    case ScalarOp::size_float:
      result =
          scalar_.size_float.constant()
              ? intern({.op = ScalarOp::constant, .dtype = scalar_.dtype, .number = *scalar_.size_float.constant()})
              : intern({.op = ScalarOp::size_float, .dtype = scalar_.dtype, .size_float = scalar_.size_float});
      break;
    case ScalarOp::index: {
      auto variable = instance.variables.find(scalar_.variable);
      if (variable == instance.variables.end()) return fail("a loop variable is used outside its loop");
      result = integer(variable->second);
      break;
    }
    case ScalarOp::read: {
      std::vector<SymInt> index;
      for (ScalarId operand : scalar_.operands) index.push_back(index_of(scalar(instance, operand)));
      result = element(instance.meaning->tensors[scalar_.tensor], index);
      break;
    }
    case ScalarOp::reduce: {
      if (ExprId unrolled = window(instance, scalar_); unrolled != no_expr) {
        result = unrolled;
        break;
      }
      const int number = reduction(instance, scalar_.reduction);
      if (number < 0) return integer(0);
      result =
          intern({.op = ScalarOp::reduce, .dtype = scalar_.dtype, .reduction = number, .component = scalar_.component});
      break;
    }
    default: {
      std::vector<ExprId> operands;
      for (ScalarId operand : scalar_.operands) operands.push_back(scalar(instance, operand));
      result = apply(scalar_, std::move(operands));
    }
  }
  instance.done[id] = result;
  return result;
}

// Integer arithmetic on sizes and loop variables stays symbolic; no_expr where it cannot.
ExprId Composer::fold_integers(ScalarOp op, const std::vector<ExprId>& operands) {
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

ExprId Composer::apply(const Scalar& scalar, std::vector<ExprId> operands) {
  auto known = [&](ExprId id) -> std::optional<bool> {
    const Expr& expr = loops_.exprs[id];
    if (expr.op != ScalarOp::constant || expr.placeholder >= 0 || expr.dtype != ScalarType::boolean)
      return std::nullopt;
    return expr.integer != 0;
  };
  if (scalar.op == ScalarOp::select) {
    if (std::optional<bool> condition = known(operands[0])) return operands[*condition ? 1 : 2];
    if (operands[1] == operands[2]) return operands[1];
  }
  if (scalar.op == ScalarOp::logical_and || scalar.op == ScalarOp::logical_or) {
    const bool decisive = scalar.op == ScalarOp::logical_or;
    for (size_t i : {size_t{0}, size_t{1}})
      if (std::optional<bool> condition = known(operands[i]))
        return *condition == decisive ? operands[i] : operands[1 - i];
  }
  if (scalar.op == ScalarOp::logical_not)
    if (std::optional<bool> condition = known(operands[0]))
      return intern({.op = ScalarOp::constant, .dtype = ScalarType::boolean, .integer = !*condition});
  if (scalar.op == ScalarOp::cast) {
    const Expr& from = loops_.exprs[operands[0]];
    if (from.dtype == scalar.dtype) return operands[0];
    // Constants change type here, so that 2 * x stays one multiplication.
    const std::optional<int64_t> whole = from.op == ScalarOp::size ? from.index.constant() : std::nullopt;
    if (is_floating(scalar.dtype) && whole)
      return intern({.op = ScalarOp::constant, .dtype = scalar.dtype, .number = static_cast<double>(*whole)});
    if (scalar.dtype == ScalarType::f32 && from.op == ScalarOp::constant && from.dtype == ScalarType::f64 &&
        from.placeholder < 0)
      return intern({.op = ScalarOp::constant, .dtype = scalar.dtype, .number = static_cast<float>(from.number)});
  }
  if (ExprId folded = fold_integers(scalar.op, operands); folded != no_expr) return folded;
  return intern({.op = scalar.op, .dtype = scalar.dtype, .operands = std::move(operands)});
}

// --- Reductions

int Composer::reduction(Instance& instance, int number) {
  if (auto found = instance.reductions.find(number); found != instance.reductions.end()) return found->second;
  const opset::Reduction& reduction = instance.meaning->reductions[number];
  auto give_up = [&](const char* why) {
    fail(why);
    return -1;
  };

  // A loop that is free where we stand and has the right extent is shared, the innermost first.
  LoopSet taken = 0;
  for (const auto& [variable, value] : instance.variables) taken |= loops_of(value);
  BoundReduction bound{.monoid = reduction.monoid.name};
  for (size_t i = 0; i < reduction.variables.size(); ++i) {
    const ExprId counted = scalar(instance, reduction.extents[i]);
    if (loops_.exprs[counted].is_partial) return give_up("the extent of a reduction is only defined under a condition");
    const SymInt extent = index_of(counted);
    taken |= loops_of(extent);
    int loop = -1;
    if (reduction.prefix) {
      // It runs along an axis of the result, whose loop it shares.
      const int axis_variable = instance.meaning->results[0].variables[reduction.prefix_axis];
      std::optional<std::string> symbol = instance.variables.at(axis_variable).as_symbol();
      if (reduction.variables.size() != 1 || !symbol || !loop_numbers_.count(*symbol))
        return give_up("it keeps the prefixes of a reduction over several axes");
      loop = loop_numbers_.at(*symbol);
      bound.is_prefix = true;
    }
    for (size_t candidate = loops_.loops.size(); candidate-- > 0 && loop < 0;)
      if (!(taken >> candidate & 1) && loops_.loops[candidate].extent == extent) loop = static_cast<int>(candidate);
    if (loop < 0) loop = add_loop(extent);
    taken |= bit(loop);
    bound.loops.push_back(loop);
    instance.variables[reduction.variables[i]] = SymInt::symbol(loops_.loops[loop].symbol);
  }
  for (ScalarId part : reduction.monoid.identity) bound.identity.push_back(scalar(instance, part));
  for (ScalarId part : reduction.element) bound.element.push_back(scalar(instance, part));
  if (reduction.guard != opset::no_scalar) {
    bound.guard = scalar(instance, reduction.guard);
    const Expr& guard = loops_.exprs[bound.guard];
    if (guard.op == ScalarOp::constant && guard.integer != 0) bound.guard = no_expr;
  }
  for (size_t c = 0; c < reduction.monoid.joined.size(); ++c) {
    const ScalarType dtype = instance.meaning->scalars[reduction.monoid.identity[c]].dtype;
    for (int side : {0, 1})
      instance.placeholders[(side == 0 ? reduction.monoid.left : reduction.monoid.right)[c]] =
          intern({.op = ScalarOp::constant, .dtype = dtype, .component = static_cast<int>(c), .placeholder = side});
  }
  for (ScalarId part : reduction.monoid.joined) bound.joined.push_back(scalar(instance, part));
  for (int variable : reduction.variables) instance.variables.erase(variable);

  LoopSet own = 0;
  std::string key = bound.monoid;
  for (int loop : bound.loops) {
    own |= bit(loop);
    key += "$" + std::to_string(loop);
    bound.outer |= loops_of(loops_.loops[loop].extent);
  }
  for (ExprId part : bound.element) {
    bound.outer |= loops_.exprs[part].loops;
    key += "," + std::to_string(part);
  }
  for (ExprId part : bound.identity) {
    bound.outer |= loops_.exprs[part].loops;
    key += ":" + std::to_string(part);
  }
  for (ExprId part : bound.joined) key += "+" + std::to_string(part);
  if (bound.guard != no_expr) {
    bound.outer |= loops_.exprs[bound.guard].loops;
    key += "?" + std::to_string(bound.guard);
  }
  bound.outer &= ~own;
  if (bound.is_prefix) key += "prefix";
  auto [found, is_new] = interned_reductions_.emplace(key, static_cast<int>(loops_.reductions.size()));
  if (is_new) loops_.reductions.push_back(std::move(bound));
  instance.reductions[number] = found->second;
  return found->second;
}

// A reduction over a small window that slides (pooling) is written out, so that the loop over the result can be wide.
// no_expr where it is none.
ExprId Composer::window(const Instance& instance, const Scalar& reduce) {
  constexpr int64_t most_terms = 64;
  const opset::Reduction& reduction = instance.meaning->reductions[reduce.reduction];
  if (recorded_ || reduction.prefix || reduction.variables.empty()) return no_expr;
  std::vector<int64_t> extents;
  int64_t terms = 1;
  Instance at = instance;
  for (ScalarId extent : reduction.extents) {
    std::optional<int64_t> size = index_of(scalar(at, extent)).constant();
    if (!size) return no_expr;
    extents.push_back(*size);
    terms *= *size;
    if (terms > most_terms) return no_expr;
  }
  if (reduction.guard == opset::no_scalar && terms > 1 && !slides(instance, reduction, extents)) return no_expr;

  // The value of an argmax alone is a maximum, which needs no positions.
  const bool is_extreme =
      reduce.component == 0 && (reduction.monoid.name == "argmax" || reduction.monoid.name == "argmin");
  std::vector<ExprId> identity;
  for (ScalarId part : reduction.monoid.identity) identity.push_back(scalar(at, part));
  // Where the result is asked for inside its shape, the guard is all that an element needs.
  const opset::LoopNest& nest = instance.meaning->results[0];
  bool is_inside = true;
  for (size_t axis = 0; axis < nest.variables.size(); ++axis)
    is_inside = is_inside && space_.is_within(instance.variables.at(nest.variables[axis]), nest.type.sizes[axis]);
  std::vector<ExprId> sum = identity;
  for (int64_t term = 0; term < terms; ++term) {
    Instance here = instance;
    int64_t rest = term;
    for (size_t i = extents.size(); i-- > 0;) {
      here.variables[reduction.variables[i]] = rest % extents[i];
      rest /= extents[i];
    }
    here.done.clear();
    here.reductions.clear();
    const ExprId guard = reduction.guard == opset::no_scalar ? no_expr : scalar(here, reduction.guard);
    if (guard != no_expr && loops_.exprs[guard].op == ScalarOp::constant && loops_.exprs[guard].integer == 0) continue;
    std::vector<ExprId> joined;
    const size_t components = is_extreme ? 1 : sum.size();
    for (size_t c = 0; c < components; ++c) {
      ExprId element = scalar(here, reduction.element[c]);
      if (guard != no_expr) {
        const ScalarType dtype = loops_.exprs[identity[c]].dtype;
        element = apply({.op = ScalarOp::select, .dtype = dtype}, {guard, element, identity[c]});
        if (is_inside && loops_.exprs[element].op == ScalarOp::select) loops_.exprs[element].is_open = false;
      }
      here.placeholders[reduction.monoid.left[c]] = sum[c];
      here.placeholders[reduction.monoid.right[c]] = element;
    }
    for (size_t c = 0; c < components; ++c) {
      const ScalarType dtype = loops_.exprs[sum[c]].dtype;
      if (is_extreme) {
        const ScalarOp op = reduction.monoid.name == "argmax" ? ScalarOp::maximum : ScalarOp::minimum;
        joined.push_back(
            intern({.op = op, .dtype = dtype, .operands = {sum[c], here.placeholders[reduction.monoid.right[c]]}}));
      } else {
        joined.push_back(scalar(here, reduction.monoid.joined[c]));
      }
    }
    for (size_t c = 0; c < components; ++c) sum[c] = joined[c];
    if (!failure_.empty()) return integer(0);
  }
  return sum[reduce.component];
}

// Does a window of several places slide over its operand, and stand across the way that memory runs? Then each place is
// a row that the result's loop follows. What does not slide is written out only where it is tiny: all results along a
// reduced axis share the reduction, which would be computed anew for each.
bool Composer::slides(const Instance& instance, const opset::Reduction& reduction,
                      const std::vector<int64_t>& extents) {
  Instance at = instance;
  at.done.clear();
  at.reductions.clear();
  std::vector<std::string> symbols;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) {
      at.variables[reduction.variables[i]] = 0;
      continue;
    }
    symbols.push_back("$" + std::to_string(most_loops + i));
    space_.declare(symbols.back(), extents[i]);
    at.variables[reduction.variables[i]] = SymInt::symbol(symbols.back());
  }
  const ExprId element = scalar(at, reduction.element[0]);
  const Expr& expr = loops_.exprs[element];
  if (expr.op != ScalarOp::read) return false;
  bool is_window = std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>()) <= few_terms;
  const Scalar& read = instance.meaning->scalars[reduction.element[0]];
  for (size_t axis = 0; axis < read.operands.size() && read.op == ScalarOp::read; ++axis) {
    const SymInt place = index_of(scalar(at, read.operands[axis]));
    if (place.is_constant()) continue;
    const std::set<std::string> loops = place.symbols();
    is_window |= loops.size() > 1 && std::any_of(loops.begin(), loops.end(), [&](const std::string& loop) {
                   return std::find(symbols.begin(), symbols.end(), loop) != symbols.end();
                 });
  }
  if (!is_window) return false;
  return std::all_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
    std::optional<SymInt> stride = coefficient(expr.index, symbol);
    return stride && *stride != SymInt(1);
  });
}

// --- Results

std::vector<SymInt> without_ones(const std::vector<SymInt>& sizes) {
  std::vector<SymInt> kept;
  for (const SymInt& size : sizes)
    if (size != SymInt(1)) kept.push_back(size);
  return kept;
}

// result := base, then one store after the other. Axes along which every value stays where it is are rows: they do not
// meet.
Result<void> Composer::run_scatter(const ir::Graph& body, const Meaning& meaning) {
  const opset::Scatter& scatter = *meaning.scatter;
  const Value* result = body.outputs()[0].value();
  const RealForm form = real_form(result->meta(), layout_of_(*result));
  std::vector<SymInt> index;
  for (const SymInt& size : form.sizes) {
    loops_.domain.push_back(add_loop(size));
    index.push_back(SymInt::symbol(loops_.loops.back().symbol));
  }
  const SymInt address = address_of(form.layout, index);
  loops_.buffers.push_back(form.dtype);
  const ExprId base = element(meaning.tensors[scatter.base], index);
  loops_.stores.push_back({base, form.dtype, static_cast<int>(loops_.buffers.size()) - 1, address, loops_of(address)});

  Instance instance{.meaning = &meaning};
  ScatterLoops loops;
  for (size_t i = 0; i < scatter.variables.size(); ++i) {
    const SymInt extent = index_of(scalar(instance, scatter.extents[i]));
    if (extent.to_string().find_first_of("%$") != std::string::npos)
      return refuse("the extent of a scatter depends on data");
    size_t row = form.sizes.size();
    for (size_t axis = 0; axis < scatter.at.size(); ++axis) {
      const opset::Scalar& at = meaning.scalars[scatter.at[axis]];
      if (at.op == ScalarOp::index && at.variable == scatter.variables[i] && extent == form.sizes[axis]) row = axis;
    }
    const int loop = row < form.sizes.size() ? loops_.domain[row] : add_loop(extent);
    instance.variables[scatter.variables[i]] = SymInt::symbol(loops_.loops[loop].symbol);
    loops.loops.push_back(loop);
  }
  loops.address = form.layout.offset;
  SymInt places = 1;  // 0 where an axis is empty: no index can be clamped into it
  for (size_t axis = 0; axis < scatter.at.size(); ++axis) {
    ExprId at = scalar(instance, scatter.at[axis]);
    if (!space_.is_within(index_of(at), form.sizes[axis])) {
      at = clamped(at, form.sizes[axis]);
      places = places * shape::min(form.sizes[axis], 1);
    }
    loops.address = loops.address + index_of(at) * form.layout.strides[axis];
  }
  if (!(places == SymInt(1))) loops.loops.push_back(add_loop(places));
  loops.value = scalar(instance, scatter.value);
  if (scatter.join) {
    if (scatter.join->joined.size() != 1) return refuse("a scatter joins several values at once");
    for (int side : {0, 1})
      instance.placeholders[(side == 0 ? scatter.join->left : scatter.join->right)[0]] =
          intern({.op = ScalarOp::constant, .dtype = loops_.exprs[loops.value].dtype, .placeholder = side});
    loops.joined = scalar(instance, scatter.join->joined[0]);
  }
  if (!failure_.empty()) return refuse(failure_);
  loops_.scatter = std::move(loops);
  return {};
}

Accesses Composer::record(const Meaning& meaning) {
  Accesses accesses;
  recorded_ = &accesses.reads;
  std::vector<SymInt> first;
  for (const opset::LoopNest& nest : meaning.results) {
    if (nest.type.sizes != meaning.results[0].type.sizes) fail("its results differ in shape");
    if (!failure_.empty()) break;
    Instance instance{.meaning = &meaning};
    for (size_t axis = 0; axis < nest.variables.size(); ++axis) {
      if (first.size() <= axis) first.push_back(SymInt::symbol(loops_.loops[add_loop(nest.type.sizes[axis])].symbol));
      instance.variables[nest.variables[axis]] = nest.type.sizes[axis] == SymInt(1) ? SymInt(0) : first[axis];
    }
    if (nest.value != opset::no_scalar) scalar(instance, nest.value);
  }
  accesses.loops = loops_.loops;
  accesses.refusal = failure_;
  for (const opset::Reduction& reduction : meaning.reductions) accesses.stands_alone |= reduction.prefix;
  return accesses;
}

std::optional<Access> Composer::read_through(const std::vector<const Meaning*>& views) {
  std::vector<Access> reads;
  recorded_ = &reads;
  std::vector<SymInt> index;
  for (const SymInt& size : views.back()->results[0].type.sizes) {
    const int loop = add_loop(size);
    index.push_back(size == SymInt(1) ? SymInt(0) : SymInt::symbol(loops_.loops[loop].symbol));
  }
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const opset::LoopNest& nest = (*view)->results[0];
    Instance instance{.meaning = *view};
    for (size_t axis = 0; axis < index.size(); ++axis) instance.variables[nest.variables[axis]] = index[axis];
    reads.clear();
    scalar(instance, nest.value);
    if (!failure_.empty() || reads.size() != 1) return std::nullopt;
    index = reads[0].index;
  }
  return reads[0];
}

Result<void> Composer::run(const ir::Graph& body) {
  if (body.outputs().empty()) return refuse("it has no results");
  for (const auto& input : body.inputs()) {
    if (!input->is_tensor()) return refuse("%" + input->name + " is a number that is computed at run time");
    loops_.buffers.push_back(real_form(input->meta(), {}).dtype);
  }
  if (!body.empty()) {
    const ir::Node& only = *body.forward().begin();
    if (const Meaning* meaning = meaning_of_(only); body.size() == 1 && meaning && meaning->scatter)
      return run_scatter(body, *meaning);
  }
  // The largest result spans the domain.
  std::vector<const Value*> results;
  for (const ir::Argument& output : body.outputs()) {
    if (!output.value() || !output.value()->is_tensor()) return refuse("a result is a number");
    results.push_back(output.value());
  }
  const Value* widest = results[0];
  for (const Value* result : results)
    if (without_ones(result->meta().sizes).size() > without_ones(widest->meta().sizes).size()) widest = result;
  std::vector<SymInt> domain_index;
  SymInt flat = 0;
  const Layout widest_rows = row_major(widest->meta().sizes);
  for (size_t axis = 0; axis < widest->meta().sizes.size(); ++axis) {
    const SymInt& size = widest->meta().sizes[axis];
    if (size == SymInt(1)) {
      domain_index.push_back(0);
      continue;
    }
    loops_.domain.push_back(add_loop(size));
    domain_index.push_back(SymInt::symbol(loops_.loops.back().symbol));
    flat = flat + domain_index.back() * widest_rows.strides[axis];
  }

  for (const Value* result : results) {
    const ir::TensorMeta& meta = result->meta();
    std::vector<SymInt> index;
    if (meta.sizes == widest->meta().sizes) {
      index = domain_index;
    } else if (meta.numel() == widest->meta().numel()) {
      // The same elements in another shape.
      const Layout rows = row_major(meta.sizes);
      for (size_t axis = 0; axis < meta.sizes.size(); ++axis)
        index.push_back(space_.remainder(space_.quotient(flat, rows.strides[axis]), meta.sizes[axis]));
    } else {
      // A result over some of the axes: each is matched with the next axis of the same size, aligned at the front.
      size_t axis = 0;
      for (const SymInt& size : meta.sizes) {
        if (size == SymInt(1)) {
          index.push_back(0);
          continue;
        }
        while (axis < domain_index.size() && widest->meta().sizes[axis] != size) ++axis;
        if (axis == domain_index.size()) return refuse("its results differ in shape");
        index.push_back(domain_index[axis++]);
      }
    }
    const RealForm form = real_form(meta, layout_of_(*result));
    const int buffer = static_cast<int>(loops_.buffers.size());
    loops_.buffers.push_back(form.dtype);
    // A complex result is two stores, of its real and of its imaginary part.
    const bool is_pair = form.sizes.size() > meta.sizes.size();
    for (int64_t part = 0; part < (is_pair ? 2 : 1); ++part) {
      std::vector<SymInt> place = index;
      if (is_pair) place.emplace_back(part);
      const SymInt address = address_of(form.layout, place);
      const ExprId value = element(result, place);
      if (!failure_.empty()) return refuse(failure_);
      loops_.stores.push_back({value, form.dtype, buffer, address, loops_of(address)});
    }
  }
  return {};
}

// A reduction is computed before its level's conditions are known: not one that is only defined under such a condition.
bool has_conditional_reduction(const Loops& loops, ExprId id, bool under_condition,
                               std::set<std::pair<ExprId, bool>>& seen) {
  if (!seen.insert({id, under_condition}).second) return false;
  const Expr& expr = loops.exprs[id];
  bool found = false;
  const auto look_at = [&](ExprId part, bool conditional) {
    found = found || has_conditional_reduction(loops, part, conditional, seen);
  };
  if (expr.op == ScalarOp::reduce) {
    if (under_condition && expr.is_partial) return true;
    const BoundReduction& reduction = loops.reductions[expr.reduction];
    for (ExprId part : reduction.element) look_at(part, false);
    for (ExprId part : reduction.identity) look_at(part, false);
    if (reduction.guard != no_expr) look_at(reduction.guard, false);
    return found;
  }
  const bool is_lazy =
      expr.op == ScalarOp::select || expr.op == ScalarOp::logical_and || expr.op == ScalarOp::logical_or;
  bool is_first = true;
  each_operand(loops, id, [&](ExprId operand) {
    look_at(operand, under_condition || (is_lazy && !is_first));
    is_first = false;
  });
  return found;
}

}  // namespace

Accesses accesses_of(const opset::Meaning& meaning, const shape::Facts& facts) {
  Loops loops;
  const MeaningOf no_meaning;
  const LayoutOf rows = [](const Value& value) { return row_major(value.meta().sizes); };
  if (meaning.scatter) return {.stands_alone = true};
  if (!meaning.extern_kernel.empty()) return {.refusal = "it is the C++ kernel '" + meaning.extern_kernel + "'"};
  if (reference::has_complex(meaning))
    if (Result<Meaning> real = reference::in_real_parts(meaning); !real) return {.refusal = real.failure().message};
  return Composer(no_meaning, rows, facts, loops).record(meaning);
}

std::optional<Access> access_of(const std::vector<const opset::Meaning*>& views, const shape::Facts& facts) {
  Loops loops;
  const MeaningOf no_meaning;
  const LayoutOf rows = [](const Value& value) { return row_major(value.meta().sizes); };
  return Composer(no_meaning, rows, facts, loops).read_through(views);
}

Result<Loops> compose(const ir::Graph& body, const MeaningOf& meaning_of, const LayoutOf& layout_of,
                      const shape::Facts& facts, const shape::Bindings& hints) {
  Loops loops;
  std::map<const Meaning*, Meaning> in_parts;
  const MeaningOf real_meaning_of = [&](const ir::Node& node) -> const Meaning* {
    const Meaning* meaning = meaning_of(node);
    if (!meaning || !reference::has_complex(*meaning)) return meaning;
    auto [found, is_new] = in_parts.try_emplace(meaning);
    if (!is_new) return &found->second;
    Result<Meaning> parts = reference::in_real_parts(*meaning);
    if (!parts) return nullptr;
    found->second = std::move(*parts);
    return &found->second;
  };
  if (Result<void> done = Composer(real_meaning_of, layout_of, facts, loops).run(body); !done) return done.error();
  std::vector<ExprId> roots;
  for (const Store& store : loops.stores) roots.push_back(store.value);
  if (loops.scatter) roots.push_back(loops.scatter->value);
  std::set<std::pair<ExprId, bool>> seen;
  for (ExprId root : roots)
    if (has_conditional_reduction(loops, root, false, seen))
      return refuse("a reduction is only defined under a condition");
  arrange(loops, hints);
  for (const Store& store : loops.stores)
    for (size_t i = 0; i < loops.rows; ++i)
      if (!(store.loops >> loops.domain[i] & 1)) return refuse("a result is the same for several rows");
  loops.symbols = symbols_of(loops);
  return loops;
}

}  // namespace atenon::lower
