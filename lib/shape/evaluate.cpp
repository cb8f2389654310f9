// Values under bindings, and substitution of symbols by expressions.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "shape/terms.h"

namespace atenon::shape {
namespace {

using Wide = __int128;

std::optional<int64_t> narrow(Wide x) {
  return x >= INT64_MIN && x <= INT64_MAX ? std::optional(static_cast<int64_t>(x)) : std::nullopt;
}

Wide floor_div_wide(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

std::optional<int64_t> rounded(AtomKind kind, double x) {
  const double y = kind == AtomKind::floor   ? std::floor(x)
                   : kind == AtomKind::ceil  ? std::ceil(x)
                   : kind == AtomKind::trunc ? std::trunc(x)
                                             : std::nearbyint(x);
  return y >= -0x1p63 && y < 0x1p63 ? std::optional(static_cast<int64_t>(y)) : std::nullopt;
}

std::optional<int64_t> evaluate(const Atom& atom, const Bindings& bindings) {
  if (atom.kind == AtomKind::symbol) {
    const auto found = bindings.find(atom.spelling);
    return found == bindings.end() ? std::nullopt : std::optional(found->second);
  }
  if (atom.kind == AtomKind::overflow) return std::nullopt;
  if (!atom.floats.empty()) {
    const std::optional<double> x = evaluate(atom.floats[0], bindings);
    return x ? rounded(atom.kind, *x) : std::nullopt;
  }
  std::vector<int64_t> values;
  for (const SymInt& operand : atom.operands) {
    const std::optional<int64_t> value = evaluate(operand, bindings);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  switch (atom.kind) {
    case AtomKind::min:
      return *std::min_element(values.begin(), values.end());
    case AtomKind::max:
      return *std::max_element(values.begin(), values.end());
    case AtomKind::floor_div:
      return values[1] == 0 ? std::nullopt : narrow(floor_div_wide(values[0], values[1]));
    case AtomKind::mod: {
      if (values[1] == 0) return std::nullopt;
      const Wide quotient = floor_div_wide(values[0], values[1]);
      return narrow(values[0] - quotient * values[1]);
    }
    default:
      break;
  }
  assert(false);
  return std::nullopt;
}

SymInt substitute(const Atom& atom, const Substitution& substitution) {
  std::vector<SymInt> of;
  for (const SymInt& operand : atom.operands) of.push_back(substitute(operand, substitution));
  std::vector<SymFloat> floats;
  for (const SymFloat& operand : atom.floats) floats.push_back(substitute(operand, substitution));
  switch (atom.kind) {
    case AtomKind::symbol: {
      const auto found = substitution.find(atom.spelling);
      return found == substitution.end() ? SymInt::symbol(atom.spelling) : found->second;
    }
    case AtomKind::floor_div:
      return floor_div(of[0], of[1]);
    case AtomKind::mod:
      return mod(of[0], of[1]);
    case AtomKind::min:
    case AtomKind::max: {
      SymInt x = of[0];
      for (size_t i = 1; i < of.size(); ++i) x = atom.kind == AtomKind::min ? min(x, of[i]) : max(x, of[i]);
      return x;
    }
    case AtomKind::floor:
      return floor(floats[0]);
    case AtomKind::ceil:
      return ceil(floats[0]);
    case AtomKind::trunc:
      return trunc(floats[0]);
    case AtomKind::round:
      return round(floats[0]);
    case AtomKind::overflow:
      break;
  }
  return overflow();
}

bool mentions(const SymInt& x, const Substitution& substitution) {
  const std::set<std::string> names = x.symbols();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return substitution.contains(name); });
}

}  // namespace

std::optional<int64_t> evaluate(const SymInt& x, const Bindings& bindings) {
  if (x.is_constant()) return x.constant();
  // In 128 bits, so that only the result must fit; every product is checked on the way.
  Wide sum = 0;
  for (const Term& term : x.polynomial()->terms) {
    Wide value = term.coefficient;
    for (const Factor& factor : term.factors) {
      const std::optional<int64_t> base = evaluate(*factor.atom, bindings);
      if (!base) return std::nullopt;
      for (int i = 0; i < factor.power; ++i) {
        if (__builtin_mul_overflow(value, static_cast<Wide>(*base), &value)) return std::nullopt;
      }
    }
    if (__builtin_add_overflow(sum, value, &sum)) return std::nullopt;
  }
  return narrow(sum);
}

std::optional<double> evaluate(const SymFloat& x, const Bindings& bindings) {
  if (x.node() == nullptr) return x.constant();
  const FloatNode& node = *x.node();
  if (node.op == "from") {
    const std::optional<int64_t> value = evaluate(node.integer, bindings);
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  }
  if (node.op == "number") {
    const std::optional<int64_t> bits = evaluate(node.integer, bindings);
    return bits ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt;
  }
  std::vector<double> of;
  for (const SymFloat& operand : node.operands) {
    const std::optional<double> value = evaluate(operand, bindings);
    if (!value) return std::nullopt;
    of.push_back(*value);
  }
  const std::string& op = node.op;
  if (of.size() == 1) {
    if (op == "sqrt") return std::sqrt(of[0]);
    if (op == "exp") return std::exp(of[0]);
    if (op == "log") return std::log(of[0]);
    if (op == "log2") return std::log2(of[0]);
    if (op == "abs") return std::abs(of[0]);
  } else if (of.size() == 2) {
    if (op == "+") return of[0] + of[1];
    if (op == "-") return of[0] - of[1];
    if (op == "*") return of[0] * of[1];
    if (op == "/") return of[1] == 0 ? std::nullopt : std::optional(of[0] / of[1]);
    if (op == "pow") return std::pow(of[0], of[1]);
    if (op == "min") return of[1] < of[0] ? of[1] : of[0];  // as Python: the first of equals
    if (op == "max") return of[1] > of[0] ? of[1] : of[0];
  }
  assert(false);
  return std::nullopt;
}

std::optional<bool> evaluate(const SymBool& x, const Bindings& bindings) {
  if (x.node() == nullptr) return x.constant();
  const BoolNode& node = *x.node();
  switch (node.kind) {
    case SymBool::Kind::eq:
    case SymBool::Kind::ne:
    case SymBool::Kind::le: {
      const std::optional<int64_t> value = evaluate(node.difference, bindings);
      if (!value) return std::nullopt;
      return node.kind == SymBool::Kind::le ? *value <= 0 : (*value == 0) == (node.kind == SymBool::Kind::eq);
    }
    case SymBool::Kind::opaque: {
      const std::optional<double> a = evaluate(node.floats[0], bindings), b = evaluate(node.floats[1], bindings);
      if (!a || !b) return std::nullopt;
      if (node.op == "==") return *a == *b;
      if (node.op == "!=") return *a != *b;
      if (node.op == "<") return *a < *b;
      if (node.op == "<=") return *a <= *b;
      return node.op == "not <" ? !(*a < *b) : !(*a <= *b);
    }
    case SymBool::Kind::all:
    case SymBool::Kind::any:
      break;
  }
  // One operand decides even if others are unknown.
  const bool deciding = node.kind == SymBool::Kind::any;
  bool unknown = false;
  for (const SymBool& operand : node.operands) {
    const std::optional<bool> value = evaluate(operand, bindings);
    if (value == deciding) return deciding;
    unknown |= !value;
  }
  return unknown ? std::nullopt : std::optional(!deciding);
}

SymInt substitute(const SymInt& x, const Substitution& substitution) {
  if (x.is_constant() || substitution.empty() || !mentions(x, substitution)) return x;
  SymInt sum = 0;
  for (const Term& term : x.polynomial()->terms) {
    SymInt value = term.coefficient;
    for (const Factor& factor : term.factors) {
      const SymInt replaced = substitute(*factor.atom, substitution);
      for (int i = 0; i < factor.power; ++i) value = value * replaced;
    }
    sum = sum + value;
  }
  return sum;
}

SymFloat substitute(const SymFloat& x, const Substitution& substitution) {
  if (x.node() == nullptr || substitution.empty()) return x;
  if (x.node()->op == "from") return SymFloat::from(substitute(x.node()->integer, substitution));
  if (x.node()->op == "number") return SymFloat::number(substitute(x.node()->integer, substitution));
  std::vector<SymFloat> operands;
  for (const SymFloat& operand : x.node()->operands) operands.push_back(substitute(operand, substitution));
  return SymFloat::apply(x.node()->op, std::move(operands));
}

SymBool substitute(const SymBool& x, const Substitution& substitution) {
  if (x.node() == nullptr || substitution.empty()) return x;
  const BoolNode& node = *x.node();
  switch (node.kind) {
    case SymBool::Kind::eq:
      return equal(substitute(node.difference, substitution), 0);
    case SymBool::Kind::ne:
      return not_equal(substitute(node.difference, substitution), 0);
    case SymBool::Kind::le:
      return less_equal(substitute(node.difference, substitution), 0);
    case SymBool::Kind::opaque: {
      const SymFloat a = substitute(node.floats[0], substitution), b = substitute(node.floats[1], substitution);
      if (!node.op.starts_with("not ")) return compare(node.op, a, b);
      return negate(compare(node.op.substr(4), a, b));
    }
    case SymBool::Kind::all:
    case SymBool::Kind::any:
      break;
  }
  SymBool out = node.kind == SymBool::Kind::all;
  for (const SymBool& operand : node.operands) {
    const SymBool replaced = substitute(operand, substitution);
    out = node.kind == SymBool::Kind::all ? both(out, replaced) : either(out, replaced);
  }
  return out;
}

}  // namespace atenon::shape
