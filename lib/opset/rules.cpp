// Rules about lists, indices and numbers.
#include "opset/rules.h"

#include <algorithm>
#include <cmath>

#include "opset/loop_builder.h"
#include "opset/scalar_values.h"

namespace atenon::opset {
namespace {

using Data = std::vector<Datum>;

// The first argument as a list; null after a failure.
const Data* list_argument(Evaluator& evaluator, const Expr& call, const Data& arguments, size_t i = 0) {
  if (i < arguments.size() && arguments[i].is_list()) return &arguments[i].items();
  evaluator.mistake(&call,
                    call.name + " is of a list" + (i < arguments.size() ? ", not of " + to_string(arguments[i]) : ""));
  return nullptr;
}

// max(a, b) and max([a, b]) alike.
const Data& spread(const Data& arguments) {
  return arguments.size() == 1 && arguments[0].is_list() ? arguments[0].items() : arguments;
}

// --- Lists

Datum len(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* items = list_argument(evaluator, call, arguments);
  return items ? Datum(static_cast<int64_t>(items->size())) : Datum();
}

Datum range(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const std::optional<int64_t> first = arguments.size() == 2 ? evaluator.as_static(arguments[0], &call) : 0;
  const std::optional<int64_t> end = evaluator.as_static(arguments.back(), &call);
  if (!first || !end) return {};
  int64_t count = 0;
  if (__builtin_sub_overflow(*end, *first, &count) || count > 100000)
    return evaluator.mistake(&call, "this range is too long");
  Data items;
  for (int64_t i = *first; i < *end; ++i) items.emplace_back(i);
  return list(std::move(items));
}

Datum find(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* items = list_argument(evaluator, call, arguments);
  if (!items) return {};
  for (size_t i = 0; i < items->size(); ++i)
    if (evaluator.holds(evaluator.equality((*items)[i], arguments[1], &call), &call)) return static_cast<int64_t>(i);
  return evaluator.mistake(&call, to_string(arguments[1]) + " is not in " + to_string(arguments[0]));
}

Datum unique(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* items = list_argument(evaluator, call, arguments);
  if (!items) return {};
  Data kept;
  for (const Datum& item : *items) {
    const auto equal = [&](const Datum& other) {
      return evaluator.holds(evaluator.equality(item, other, &call), &call);
    };
    if (std::none_of(kept.begin(), kept.end(), equal)) kept.push_back(item);
  }
  return list(std::move(kept));
}

Datum concat(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  Data joined;
  for (const Datum& part : spread(arguments)) {
    if (!part.is_list()) return evaluator.mistake(&call, "concat joins lists");
    joined.insert(joined.end(), part.items().begin(), part.items().end());
  }
  return list(std::move(joined));
}

template <Operation operation>
Datum fold(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* items = list_argument(evaluator, call, arguments);
  if (!items) return {};
  constexpr bool is_truth = operation == Operation::logical_and || operation == Operation::logical_or;
  Datum result = is_truth ? Datum(operation == Operation::logical_and) : Datum(operation == Operation::mul ? 1 : 0);
  for (size_t i = 0; i < items->size(); ++i) {
    if (is_truth && result.is<ir::SymBool>() &&
        result.get<ir::SymBool>().constant() == (operation == Operation::logical_or))
      break;
    result = i == 0 ? (*items)[0] : evaluator.binary(operation, result, (*items)[i], &call);
  }
  return result;
}

// [a, b, c] -> [a, a + b, a + b + c]
Datum prefix_sums(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* items = list_argument(evaluator, call, arguments);
  if (!items) return {};
  Data sums;
  for (const Datum& item : *items)
    sums.push_back(sums.empty() ? item : evaluator.binary(Operation::add, sums.back(), item, &call));
  return list(std::move(sums));
}

Datum dot(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* left = list_argument(evaluator, call, arguments, 0);
  const Data* right = left ? list_argument(evaluator, call, arguments, 1) : nullptr;
  if (!right) return {};
  if (left->size() != right->size()) return evaluator.mistake(&call, "dot is of two lists of one length");
  Datum sum = 0;
  for (size_t i = 0; i < left->size(); ++i)
    sum =
        evaluator.binary(Operation::add, sum, evaluator.binary(Operation::mul, (*left)[i], (*right)[i], &call), &call);
  return sum;
}

// first([(condition, value), ...]): the value behind the first condition that holds; one of them does.
Datum first(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* pairs = list_argument(evaluator, call, arguments);
  if (!pairs || pairs->empty()) return evaluator.mistake(&call, "first is of pairs of a condition and a value");
  for (const Datum& pair : *pairs)
    if (!pair.is_list() || pair.items().size() != 2)
      return evaluator.mistake(&call, "first is of pairs of a condition and a value");
  Datum result = pairs->back().items()[1];
  for (size_t i = pairs->size() - 1; i-- > 0;) {
    const Datum& condition = (*pairs)[i].items()[0];
    const Datum& value = (*pairs)[i].items()[1];
    if (evaluator.loops && evaluator.loops->is_dynamic(condition))
      result = evaluator.loops->select(condition, value, result, &call);
    else if (evaluator.holds(condition, &call))
      result = value;
  }
  return result;
}

// --- Indices

// The row-major position of an index in a shape.
Datum ravel(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* index = list_argument(evaluator, call, arguments, 0);
  const Data* shape = index ? list_argument(evaluator, call, arguments, 1) : nullptr;
  if (!shape) return {};
  if (index->size() != shape->size()) return evaluator.mistake(&call, "the index has another rank than the shape");
  Datum position = 0;
  for (size_t i = 0; i < index->size(); ++i)
    position = i == 0 ? (*index)[0]
                      : evaluator.binary(Operation::add, evaluator.binary(Operation::mul, position, (*shape)[i], &call),
                                         (*index)[i], &call);
  return position;
}

// The index in a shape of a row-major position. Positions in axes of size 1 are 0 without a division.
Datum unravel(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* shape = arguments.size() == 2 ? list_argument(evaluator, call, arguments, 1) : nullptr;
  if (!shape) return evaluator.mistake(&call, "unravel takes a position and a shape");
  Data index(shape->size(), Datum(0));
  Datum rest = arguments[0];
  size_t outermost = 0;  // the first axis that is not 1: what is left of the position is its index
  while (outermost + 1 < shape->size() && (*shape)[outermost].integer() == 1) ++outermost;
  for (size_t i = shape->size(); i-- > outermost;) {
    const Datum& size = (*shape)[i];
    if (size.integer() == 1) continue;
    index[i] = i == outermost ? rest : evaluator.binary(Operation::mod, rest, size, &call);
    if (i > outermost) rest = evaluator.binary(Operation::floor_div, rest, size, &call);
  }
  return list(std::move(index));
}

// The index in the shape `to` of the element at `index` in `from`, row-major in both: unravel(ravel(index, from), to),
// group by group of axes with the same product. Axes that both have need no division then, and a split or a merge only
// its own.
Datum reindex(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* index = list_argument(evaluator, call, arguments, 0);
  if (!index) return {};
  const std::vector<ir::SymInt> from = evaluator.as_shape(arguments[1], &call),
                                to = evaluator.as_shape(arguments[2], &call);
  if (index->size() != from.size()) return evaluator.mistake(&call, "the index has another rank than the shape");
  const auto products = [&](const std::vector<ir::SymInt>& shape) {
    std::vector<ir::SymInt> result = {1};
    for (const ir::SymInt& size : shape) result.push_back(evaluator.simplified(result.back() * size));
    return result;
  };
  const std::vector<ir::SymInt> before = products(from), after = products(to);
  Data result;
  for (size_t i = 0, j = 0; (i < from.size() || j < to.size()) && !evaluator.failed();) {
    size_t next_i = from.size(), next_j = to.size();
    for (size_t step = 1; step < next_i - i + next_j - j; ++step)
      for (size_t di = 0; di <= step; ++di) {
        const size_t a = i + di, b = j + step - di;
        if (a <= next_i && b <= next_j && before[a] == after[b]) next_i = a, next_j = b;
      }
    const auto part = [](const auto& items, size_t first, size_t last) {
      return list(Data(items.begin() + static_cast<ptrdiff_t>(first), items.begin() + static_cast<ptrdiff_t>(last)));
    };
    const Datum position = ravel(evaluator, call, {part(*index, i, next_i), part(from, i, next_i)});
    const Datum group = unravel(evaluator, call, {position, part(to, j, next_j)});
    if (group.is_list()) result.insert(result.end(), group.items().begin(), group.items().end());
    i = next_i;
    j = next_j;
  }
  return list(std::move(result));
}

// Of einsum: the letters of each operand's axes and, where they are written, of the result's.
struct Equation {
  std::vector<std::vector<int>> operands;
  std::optional<std::vector<int>> result;
};
constexpr int ellipsis = -1;
constexpr int last_axis = 1000;  // of an ellipsis, whose axes become letters that are counted from the right

// "" and `found`, or what is wrong.
std::string read_equation(const std::string& text, Equation& found) {
  found.operands.emplace_back();
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::vector<int>& term = found.result ? *found.result : found.operands.back();
    if (c == ' ') continue;
    if (c == '-' && text.compare(i, 2, "->") == 0 && !found.result) {
      found.result.emplace();
      ++i;
    } else if (c == ',' && !found.result) {
      found.operands.emplace_back();
    } else if (text.compare(i, 3, "...") == 0) {
      term.push_back(ellipsis);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(c))) {
      term.push_back(c);
    } else {
      return "has no meaning at '" + std::string(1, c) + "'";
    }
  }
  return "";
}

// The last `count` of the axes that an ellipsis can stand for.
std::vector<int> ellipsis_of(int count) {
  std::vector<int> letters;
  for (int i = count; i > 0; --i) letters.push_back(last_axis - 1 + i);
  return letters;
}

// Puts them in the ellipsis' place, if there is one.
void spell_out(std::vector<int>& term, const std::vector<int>& axes) {
  const auto dots = std::find(term.begin(), term.end(), ellipsis);
  if (dots != term.end()) term.insert(term.erase(dots), axes.begin(), axes.end());
}

// einsum's equation as numbers: for each operand the number of each axis' letter, letters of the result first; the last
// list holds the result's. An ellipsis stands for the axes that the letters leave, and letters that occur once make an
// implicit result.
Datum einsum_labels(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  if (!arguments[0].is<std::string>() || !arguments[1].is_list())
    return evaluator.mistake(&call, "einsum_labels takes an equation and the operands' ranks");
  const std::string& text = arguments[0].get<std::string>();
  const auto malformed = [&](const std::string& why) {
    return evaluator.fail(&call, 110, "equation", "\"" + text + "\" " + why);
  };
  Equation equation;
  if (const std::string why = read_equation(text, equation); !why.empty()) return malformed(why);
  std::vector<std::vector<int>>& terms = equation.operands;
  const Data& ranks = arguments[1].items();
  if (terms.size() != ranks.size())
    return malformed("is about " + std::to_string(terms.size()) + " operands, not " + std::to_string(ranks.size()));
  int widest = 0;
  for (size_t t = 0; t < terms.size(); ++t) {
    const auto rank = static_cast<int>(evaluator.as_static(ranks[t], &call).value_or(0));
    const bool has_ellipsis = std::find(terms[t].begin(), terms[t].end(), ellipsis) != terms[t].end();
    const int rest = rank - static_cast<int>(terms[t].size()) + (has_ellipsis ? 1 : 0);
    if (rest < 0 || (!has_ellipsis && rest != 0))
      return malformed("does not fit an operand of rank " + std::to_string(rank));
    widest = std::max(widest, rest);
    spell_out(terms[t], ellipsis_of(rest));
  }
  std::vector<int> kept = equation.result ? *equation.result : ellipsis_of(widest);
  if (equation.result) {
    spell_out(kept, ellipsis_of(widest));
  } else {
    std::map<int, int> times;
    for (const std::vector<int>& term : terms)
      for (int letter : term) ++times[letter];
    for (const auto& [letter, count] : times)
      if (count == 1 && letter < last_axis) kept.push_back(letter);
  }
  std::vector<int> order = kept;
  for (const std::vector<int>& term : terms)
    for (int letter : term)
      if (std::find(order.begin(), order.end(), letter) == order.end()) order.push_back(letter);
  const auto numbers = [&](const std::vector<int>& letters) {
    Data items;
    for (int letter : letters)
      items.emplace_back(static_cast<int64_t>(std::find(order.begin(), order.end(), letter) - order.begin()));
    return list(std::move(items));
  };
  Data labels;
  for (const std::vector<int>& term : terms) labels.push_back(numbers(term));
  labels.push_back(numbers(kept));
  return list(std::move(labels));
}

// The equation of such numbers, the result's last: of a step, when many operands are taken in pairs.
Datum einsum_equation(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* labels = list_argument(evaluator, call, arguments, 0);
  if (!labels) return {};
  std::string equation;
  for (size_t t = 0; t < labels->size(); ++t) {
    if (t > 0) equation += t + 1 == labels->size() ? "->" : ",";
    for (const Datum& label : (*labels)[t].items()) {
      const int64_t letter = label.integer().value_or(0);
      if (letter >= 52) return evaluator.fail(&call, 110, "equation", "needs more letters than there are");
      equation += static_cast<char>(letter < 26 ? 'a' + letter : 'A' + (letter - 26));
    }
  }
  return equation;
}

// The size of each letter; all axes with one letter broadcast.
Datum einsum_sizes(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Data* labels = list_argument(evaluator, call, arguments, 0);
  const Data* shapes = labels ? list_argument(evaluator, call, arguments, 1) : nullptr;
  if (!shapes) return {};
  std::vector<ir::SymInt> sizes;
  for (size_t t = 0; t < shapes->size(); ++t) {
    const std::vector<ir::SymInt> shape = evaluator.as_shape((*shapes)[t], &call);
    for (size_t i = 0; i < shape.size(); ++i) {
      const auto letter = static_cast<size_t>((*labels)[t].items()[i].integer().value_or(0));
      if (letter >= sizes.size()) sizes.resize(letter + 1, ir::SymInt(1));
      sizes[letter] = broadcast(evaluator, {{sizes[letter]}, {shape[i]}}, &call)[0];
    }
  }
  return list(sizes);
}

// --- Symbols

// floor(size * factor), rounding the product as double does: 10 * 0.7 is 7, though 0.7 is less than seven tenths.
Datum floor_scaled(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const std::optional<ir::SymInt> size = evaluator.as_int(arguments[0], &call);
  const std::optional<ir::SymFloat> factor = evaluator.as_float(arguments[1], &call);
  if (!size || !factor) return {};
  const std::optional<double> constant = factor->constant();
  if (constant && std::floor(*constant) == *constant && std::abs(*constant) < 1e9)
    return *size * static_cast<int64_t>(*constant);
  return shape::floor(ir::SymFloat::apply("*", {ir::SymFloat::from(*size), *factor}));
}

// A size that must be known now: its value in the example inputs, which becomes an assumption.
Datum static_(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  if (evaluator.hints && arguments[0].is<ir::SymInt>()) {
    const ir::SymInt size = evaluator.simplified(arguments[0].get<ir::SymInt>());
    const std::optional<int64_t> hint = shape::evaluate(size, *evaluator.hints);
    if (hint &&
        evaluator.assume(shape::equal(size, *hint), evaluator.call().op->target() + ": " + std::string(counts_results)))
      return *hint;
  }
  const std::optional<int64_t> value = evaluator.as_static(arguments[0], &call);
  return value ? Datum(*value) : Datum();
}

// Whether a truth is proven; what is open is not.
Datum known(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  if (!arguments[0].is<ir::SymBool>()) return evaluator.mistake(&call, "known is of a truth about sizes");
  return evaluator.settled(arguments[0].get<ir::SymBool>()).constant() == true;
}

// --- Numbers

bool any_dynamic(const Evaluator& evaluator, const Data& arguments) {
  return evaluator.loops && std::any_of(arguments.begin(), arguments.end(),
                                        [&](const Datum& a) { return evaluator.loops->is_dynamic(a); });
}

Datum fold_numbers(Evaluator& evaluator, const Expr& call, const Data& numbers, bool is_max) {
  if (numbers.empty()) return evaluator.mistake(&call, call.name + " of nothing");
  Datum result = numbers[0];
  for (size_t i = 1; i < numbers.size() && !evaluator.failed(); ++i) {
    const Datum& next = numbers[i];
    if (any_dynamic(evaluator, {result, next})) {
      result = evaluator.loops->function(is_max ? ScalarOp::maximum : ScalarOp::minimum, {result, next}, &call);
    } else if (result.is<ir::SymInt>() && next.is<ir::SymInt>()) {
      const ir::SymInt &a = result.get<ir::SymInt>(), &b = next.get<ir::SymInt>();
      const std::optional<bool> less = evaluator.settled(shape::less_equal(a, b)).constant();
      const std::optional<bool> more =
          less == true ? std::nullopt : evaluator.settled(shape::less_equal(b, a)).constant();
      if (less == true || more == true)
        result = (less == true) == is_max ? Datum(b) : Datum(a);
      else
        result = is_max ? shape::max(a, b) : shape::min(a, b);
    } else {
      const std::optional<ir::SymFloat> a = evaluator.as_float(result, &call), b = evaluator.as_float(next, &call);
      if (!a || !b) return {};
      result = ir::SymFloat::apply(is_max ? "max" : "min", {*a, *b});
    }
  }
  return result;
}

Datum maximum(Evaluator& e, const Expr& call, const Data& arguments) {
  return fold_numbers(e, call, spread(arguments), true);
}
Datum minimum(Evaluator& e, const Expr& call, const Data& arguments) {
  return fold_numbers(e, call, spread(arguments), false);
}

// The functions of one number have the names of what they are on elements.
std::vector<ScalarOp> functions() {
  std::vector<ScalarOp> found = {ScalarOp::real, ScalarOp::imag};
  for (auto op = ScalarOp::constant; op < ScalarOp::reduce; op = static_cast<ScalarOp>(static_cast<int>(op) + 1))
    if (function_of(op)) found.push_back(op);
  return found;
}

Datum function1(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  static const std::vector<ScalarOp> known = functions();
  const ScalarOp op = *std::find_if(known.begin(), known.end(), [&](ScalarOp f) { return call.name == name_of(f); });
  if (any_dynamic(evaluator, arguments)) return evaluator.loops->function(op, arguments, &call);
  if (op == ScalarOp::abs && arguments[0].is<ir::SymInt>()) {
    const ir::SymInt& x = arguments[0].get<ir::SymInt>();
    return fold_numbers(evaluator, call, {x, -x}, true);
  }
  const std::optional<ir::SymFloat> x = evaluator.as_float(arguments[0], &call);
  if (!x) return {};
  if (x->constant() && function_of(op)) return function_of(op)(*x->constant());
  if (op == ScalarOp::exp || op == ScalarOp::log || op == ScalarOp::sqrt || op == ScalarOp::abs)
    return ir::SymFloat::apply(call.name, {*x});
  return evaluator.mistake(&call, call.name + " of a symbolic size has no meaning");
}

struct Rounding {
  std::string_view name;
  ScalarOp op;
  ir::SymInt (*apply)(const ir::SymFloat&);
};
constexpr Rounding roundings[] = {{"floor", ScalarOp::floor, shape::floor},
                                  {"ceil", ScalarOp::ceil, shape::ceil},
                                  {"trunc", ScalarOp::trunc, shape::trunc},
                                  {"round", ScalarOp::round, shape::round}};

Datum rounding(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  const Rounding& rule =
      *std::find_if(std::begin(roundings), std::end(roundings), [&](const Rounding& r) { return r.name == call.name; });
  if (any_dynamic(evaluator, arguments)) return evaluator.loops->function(rule.op, arguments, &call);
  if (arguments[0].is<ir::SymInt>()) return arguments[0];
  const std::optional<ir::SymFloat> x = evaluator.as_float(arguments[0], &call);
  return x ? Datum(rule.apply(*x)) : Datum();
}

Datum isnan(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  if (any_dynamic(evaluator, arguments)) return evaluator.loops->function(ScalarOp::isnan, arguments, &call);
  return arguments[0].is<ir::SymFloat>() && std::isnan(arguments[0].get<ir::SymFloat>().constant().value_or(0));
}

Datum trunc_div(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  if (any_dynamic(evaluator, arguments)) return evaluator.loops->function(ScalarOp::trunc_div, arguments, &call);
  const std::optional<ir::SymInt> a = evaluator.as_int(arguments[0], &call), b = evaluator.as_int(arguments[1], &call);
  if (!a || !b) return {};
  if (*b == ir::SymInt(0)) return evaluator.fail(&call, 113, "zero", "division by zero");
  // Of the quotient and its opposite, each rounded down, the one that is not negative.
  return shape::max(0, shape::floor_div(*a, *b)) - shape::max(0, shape::floor_div(-*a, *b));
}

template <ScalarOp op>
Datum of_elements(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  if (!evaluator.loops) return evaluator.mistake(&call, call.name + " is of elements");
  return evaluator.loops->function(op, arguments, &call);
}

// as(x, dtype): converted as C casts do.
Datum as(Evaluator& evaluator, const Expr& call, const Data& arguments) {
  if (!arguments[1].is<ScalarType>()) return evaluator.mistake(&call, to_string(arguments[1]) + " is not a dtype");
  const ScalarType dtype = arguments[1].get<ScalarType>();
  const Datum& x = arguments[0];
  const bool is_rounded = is_floating(dtype) && x.is<ir::SymFloat>() && !x.get<ir::SymFloat>().constant();
  if (evaluator.loops && (evaluator.loops->is_dynamic(x) || !x.is_number() || is_rounded))
    return Element{evaluator.loops->cast(evaluator.loops->scalar(x, &call), dtype)};
  if (is_floating(dtype)) {
    const std::optional<ir::SymFloat> value = evaluator.as_float(x, &call);
    if (value && value->constant()) return narrow(*value->constant(), dtype);
    return value ? Datum(*value) : Datum();
  }
  if (dtype == ScalarType::boolean) {
    if (x.is<ir::SymBool>()) return x;
    const Datum zero = evaluator.equality(x, 0, &call);
    return evaluator.failed() ? Datum() : evaluator.unary(Operation::logical_not, zero, &call);
  }
  if (x.is<ir::SymFloat>()) return shape::trunc(x.get<ir::SymFloat>());
  const std::optional<ir::SymInt> value = evaluator.as_int(x, &call);
  return value ? Datum(*value) : Datum();
}

}  // namespace

const RuleTable& list_rules() {
  static const RuleTable rules = {
      {"len", {len}},
      {"range", {range, 1, 2}},
      {"find", {find, 2}},
      {"unique", {unique}},
      {"concat", {concat, 0, any_number}},
      {"sum", {fold<Operation::add>}},
      {"prod", {fold<Operation::mul>}},
      {"prefix_sums", {prefix_sums}},
      {"all", {fold<Operation::logical_and>}},
      {"any", {fold<Operation::logical_or>}},
      {"dot", {dot, 2}},
      {"first", {first}},
      {"ravel", {ravel, 2}},
      {"unravel", {unravel, 2}},
      {"reindex", {reindex, 3}},
      {"einsum_labels", {einsum_labels, 2}},
      {"einsum_equation", {einsum_equation}},
      {"einsum_sizes", {einsum_sizes, 2}},
      {"floor_scaled", {floor_scaled, 2}},
      {"static", {static_}},
      {"known", {known}},
  };
  return rules;
}

const RuleTable& number_rules() {
  static const RuleTable rules = [] {
    RuleTable table = {{"max", {maximum, 0, any_number}},
                       {"min", {minimum, 0, any_number}},
                       {"maximum", {maximum, 0, any_number}},
                       {"minimum", {minimum, 0, any_number}},
                       {"isnan", {isnan}},
                       {"trunc_div", {trunc_div, 2}},
                       {"atan2", {of_elements<ScalarOp::atan2>, 2}},
                       {"complex", {of_elements<ScalarOp::complex>, 2}},
                       {"bit_xor", {of_elements<ScalarOp::bit_xor>, 2}},
                       {"as", {as, 2}}};
    for (const ScalarOp op : functions()) table[name_of(op)] = {function1};  // floor and its kin are roundings
    for (const Rounding& rule : roundings) table[rule.name] = {rounding};
    return table;
  }();
  return rules;
}

const Rule* find_rule(std::string_view name) {
  for (const RuleTable* table : {&list_rules(), &type_rules(), &number_rules()}) {
    const auto found = table->find(name);
    if (found != table->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace atenon::opset
