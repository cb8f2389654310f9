// Floats computed from sizes: kept as written, since floating-point arithmetic has no canonical form; only constants
// fold.
#include <bit>
#include <charconv>
#include <cmath>

#include "shape/proof.h"
#include "shape/terms.h"

namespace atenon::shape {
namespace {

bool is_infix(const std::string& op) { return op == "+" || op == "-" || op == "*" || op == "/"; }

std::string operand_text(const SymFloat& x) {
  const bool compound = x.node() != nullptr && is_infix(x.node()->op);
  const bool negative = x.constant() && std::signbit(*x.constant()) && !std::isnan(*x.constant());
  return compound || negative ? "(" + x.to_string() + ")" : x.to_string();
}

// The integer that a float stands for before rounding, where that is exact: float(a), float(a)/k and float(a)*2**-n,
// perhaps with an integer added, as a dividend and a divisor.
std::optional<std::pair<SymInt, int64_t>> ratio(const SymFloat& x) {
  if (x.node() == nullptr) return std::nullopt;
  const FloatNode& node = *x.node();
  if (node.op == "from") return std::pair(node.integer, int64_t{1});
  if (node.op == "+" || node.op == "-") {
    const bool swapped = node.op == "+" && node.operands[0].constant();  // 1.0 + float(a)/k
    auto of = ratio(node.operands[swapped ? 1 : 0]);
    const std::optional<double> added = node.operands[swapped ? 0 : 1].constant();
    // Beside sizes below 2^51 the sum has bits for k-ths left.
    if (!of || !added || *added != std::floor(*added) || !(std::abs(*added) * of->second <= 0x1p51))
      return std::nullopt;
    const SymInt whole = SymInt(static_cast<int64_t>(*added)) * SymInt(of->second);
    of->first = node.op == "+" ? of->first + whole : of->first - whole;
    return of;
  }
  if (node.op != "/" && node.op != "*") return std::nullopt;
  const bool swapped = node.op == "*" && !node.operands[1].constant();  // 0.5*float(a)
  const SymFloat* of = &node.operands[swapped ? 1 : 0];
  std::optional<double> by = node.operands[swapped ? 0 : 1].constant();
  if (!by || of->node() == nullptr || of->node()->op != "from") return std::nullopt;
  if (node.op == "*") {
    int exponent;
    if (std::frexp(*by, &exponent) != 0.5) return std::nullopt;
    by = 1 / *by;
  }
  if (!(*by >= 1 && *by <= 0x1p52) || *by != std::floor(*by)) return std::nullopt;
  return std::pair(of->node()->integer, static_cast<int64_t>(*by));
}

// x as a fraction of integers, where floating-point arithmetic is exact: of integers and their products, scaled by
// powers of two, and of quotients that are whole.
std::optional<Fraction> fraction(const SymFloat& x) {
  if (const std::optional<double> value = x.constant()) {
    const bool is_integer = std::abs(*value) <= 0x1p52 && *value == std::floor(*value);
    return is_integer ? std::optional(Fraction(SymInt(static_cast<int64_t>(*value)), SymInt(1))) : std::nullopt;
  }
  if (x.node()->op == "from") return Fraction(x.node()->integer, SymInt(1));
  if (x.node()->op != "/" && x.node()->op != "*") return std::nullopt;
  auto of = fraction(x.node()->operands[0]);
  if (!of) return std::nullopt;
  if (x.node()->op == "*") {
    const auto by = fraction(x.node()->operands[1]);
    return by ? std::optional(Fraction(of->first * by->first, of->second * by->second)) : std::nullopt;
  }
  const double by = x.node()->operands[1].constant().value_or(0);
  int exponent;
  if (by >= 1 && by <= 0x1p52 && std::frexp(by, &exponent) == 0.5)
    return Fraction(of->first, of->second * SymInt(static_cast<int64_t>(by)));
  const auto quotient = whole(x);
  return quotient ? std::optional(Fraction(*quotient, SymInt(1))) : std::nullopt;
}

// Python's conversions of a float; nullopt for what does not fit (Python would raise or leave 64 bits).
SymInt to_integer(double x) { return x >= -0x1p63 && x < 0x1p63 ? SymInt(static_cast<int64_t>(x)) : overflow(); }

}  // namespace

std::optional<Fraction> exact_fraction(const SymFloat& x) {
  if (x.node() == nullptr) return std::nullopt;
  if (x.node()->op != "/") return fraction(x);
  const auto a = fraction(x.node()->operands[0]), b = fraction(x.node()->operands[1]);
  if (!a || !b || b->first == SymInt(0)) return std::nullopt;
  return Fraction(a->first * b->second, a->second * b->first);
}

// float(8*b*(h//8))/(float(h)/8.0) is 64*b where 8 divides h.
std::optional<SymInt> whole(const SymFloat& x) {
  const auto of = exact_fraction(x);
  if (!of || is_overflow(of->first) || is_overflow(of->second)) return std::nullopt;
  if (const auto quotient = exact_quotient(of->first, of->second)) return quotient;
  return exact_quotient(open_divisions(of->first), open_divisions(of->second));
}

std::string to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  const std::string shortest(text, end);
  return shortest.find_first_of(".e") == std::string::npos ? shortest + ".0" : shortest;
}

SymFloat SymFloat::from(const SymInt& value) {
  if (value.is_constant()) return static_cast<double>(*value.constant());
  SymFloat x;
  x.node_ = std::make_shared<const FloatNode>(FloatNode{"from", {}, value});
  return x;
}

SymFloat SymFloat::number(const SymInt& symbol) {
  if (symbol.is_constant()) return std::bit_cast<double>(*symbol.constant());
  SymFloat x;
  x.node_ = std::make_shared<const FloatNode>(FloatNode{"number", {}, symbol});
  return x;
}

SymFloat SymFloat::apply(const std::string& op, std::vector<SymFloat> operands) {
  SymFloat x;
  x.node_ = std::make_shared<const FloatNode>(FloatNode{op, std::move(operands), 0});
  if (const std::optional<double> value = evaluate(x, {})) return *value;
  // Exact identities only.
  const std::vector<SymFloat>& of = x.node_->operands;
  if ((op == "*" || op == "/") && of[1].constant() == 1.0) return of[0];
  if (op == "*" && of[0].constant() == 1.0) return of[1];
  return x;
}

std::set<std::string> SymFloat::symbols() const {
  std::set<std::string> names;
  collect_symbols(*this, names);
  return names;
}

void collect_symbols(const SymFloat& x, std::set<std::string>& names) {
  if (x.node() == nullptr) return;
  collect_symbols(x.node()->integer, names);
  for (const SymFloat& operand : x.node()->operands) collect_symbols(operand, names);
}

std::string SymFloat::to_string() const {
  if (!node_) return shape::to_string(constant_);
  if (node_->op == "from") return "float(" + node_->integer.to_string() + ")";
  if (node_->op == "number") return "number(" + node_->integer.to_string() + ")";
  const std::vector<SymFloat>& of = node_->operands;
  if (is_infix(node_->op)) {
    const std::string space = node_->op == "+" || node_->op == "-" ? " " : "";
    return operand_text(of[0]) + space + node_->op + space + operand_text(of[1]);
  }
  std::string text = node_->op + "(";
  for (const SymFloat& operand : of) text += (&operand == &of.front() ? "" : ", ") + operand.to_string();
  return text + ")";
}

bool SymFloat::operator==(const SymFloat& other) const {
  return node_ == other.node_ ? node_ || shape::to_string(constant_) == shape::to_string(other.constant_)
                              : to_string() == other.to_string();
}

SymInt floor(const SymFloat& x) {
  if (x.constant()) return to_integer(std::floor(*x.constant()));
  if (const auto r = ratio(x)) return floor_div(r->first, r->second);
  if (const auto quotient = whole(x)) return *quotient;
  return make_atom(AtomKind::floor, {}, {x});
}

SymInt ceil(const SymFloat& x) {
  if (x.constant()) return to_integer(std::ceil(*x.constant()));
  if (const auto r = ratio(x)) return -floor_div(-r->first, r->second);
  if (const auto quotient = whole(x)) return *quotient;
  return make_atom(AtomKind::ceil, {}, {x});
}

SymInt trunc(const SymFloat& x) {
  if (x.constant()) return to_integer(std::trunc(*x.constant()));
  if (const auto r = ratio(x); r && r->second == 1) return r->first;
  if (const auto quotient = whole(x)) return *quotient;
  return make_atom(AtomKind::trunc, {}, {x});
}

SymInt round(const SymFloat& x) {
  if (x.constant()) return to_integer(std::nearbyint(*x.constant()));
  if (const auto r = ratio(x); r && r->second == 1) return r->first;
  if (const auto quotient = whole(x)) return *quotient;
  return make_atom(AtomKind::round, {}, {x});
}

}  // namespace atenon::shape
