// Truths about sizes in canonical form.
//
// The difference of an integer comparison is divided by the common divisor of its coefficients (which decides `2*s ==
// 3`), and an equality's leading coefficient is positive, so that two spellings of one truth are equal.
#include <algorithm>

#include "shape/terms.h"

namespace atenon::shape {
namespace {

using Kind = SymBool::Kind;

// max(0, p) >= 1 is p >= 1: the other operands of an extremum that is compared with a constant may not matter. The only
// one that does, with the rest of `difference`; nullopt where there are several, or none.
std::optional<SymInt> with_only_operand(const SymInt& difference) {
  const Terms terms = terms_of(difference);
  const int64_t c = constant_term(difference);
  if (terms.size() != (c == 0 ? 1 : 2) || terms[0].factors.size() != 1 || terms[0].factors[0].power != 1) return {};
  const Atom& atom = *terms[0].factors[0].atom;
  const int64_t sign = terms[0].coefficient;
  if ((atom.kind != AtomKind::min && atom.kind != AtomKind::max) || (sign != 1 && sign != -1)) return {};
  const bool is_any = (atom.kind == AtomKind::min) == (sign > 0);  // one operand is enough
  std::optional<SymInt> only;
  for (const SymInt& operand : atom.operands) {
    const SymInt value = SymInt(sign) * operand + SymInt(c);
    if (const std::optional<int64_t> known = value.constant(); known && (*known <= 0) != is_any) continue;
    if (only || is_overflow(value)) return {};
    only = value;
  }
  return only;
}

SymBool compare_with_zero(Kind kind, SymInt difference) {
  if (const std::optional<int64_t> value = difference.constant()) {
    return kind == Kind::le ? *value <= 0 : (*value == 0) == (kind == Kind::eq);
  }
  if (is_overflow(difference)) return BoolNode::from({.kind = kind, .difference = difference});
  const int64_t divisor = content(difference);
  if (divisor > 1) {
    // g*p + c <= 0 means p <= floor(-c / g), that is p + ceil(c / g) <= 0; quotients here are floors.
    const bool has_rest = constant_term(difference) % divisor != 0;
    if (has_rest && kind != Kind::le) return kind == Kind::ne;
    difference = divide_coefficients(difference, divisor) + SymInt(has_rest);
  }
  if (kind == Kind::le)
    if (const std::optional<SymInt> only = with_only_operand(difference)) return compare_with_zero(kind, *only);
  if (kind != Kind::le && difference.polynomial()->terms[0].coefficient < 0) difference = -difference;
  return BoolNode::from({.kind = kind, .difference = difference});
}

// And (all) or or (any): flat, sorted by spelling, without repetitions.
SymBool combine(Kind kind, const SymBool& a, const SymBool& b) {
  const bool neutral = kind == Kind::all;
  for (const SymBool* x : {&a, &b}) {
    if (const std::optional<bool> value = x->constant())
      return *value == neutral ? (x == &a ? b : a) : SymBool(!neutral);
  }
  std::vector<SymBool> operands;
  for (const SymBool* x : {&a, &b}) {
    if (x->node()->kind == kind) {
      operands.insert(operands.end(), x->node()->operands.begin(), x->node()->operands.end());
    } else {
      operands.push_back(*x);
    }
  }
  std::stable_sort(operands.begin(), operands.end(),
                   [](const SymBool& x, const SymBool& y) { return x.to_string() < y.to_string(); });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  if (operands.size() == 1) return operands[0];
  return BoolNode::from({.kind = kind, .operands = std::move(operands)});
}

// p == 0 as `left == right` with positive coefficients on both sides.
std::pair<SymInt, SymInt> sides(const SymInt& difference) {
  std::vector<Term> left, right;
  for (const Term& term : terms_of(difference)) {
    if (term.coefficient > 0 || term.coefficient == INT64_MIN) {
      left.push_back(term);
    } else {
      right.push_back({-term.coefficient, term.factors});
    }
  }
  return {Polynomial::from(std::move(left)), Polynomial::from(std::move(right))};
}

std::string comparison_text(Kind kind, const SymInt& difference) {
  auto [left, right] = sides(difference);
  if (kind != Kind::le) return left.to_string() + (kind == Kind::eq ? " == " : " != ") + right.to_string();
  if (left.is_constant()) return right.to_string() + " >= " + left.to_string();
  if (constant_term(left) == 1) return (left - SymInt(1)).to_string() + " < " + right.to_string();
  return left.to_string() + " <= " + right.to_string();
}

SymBool compare_floats(const std::string& op, const SymFloat& a, const SymFloat& b) {
  const SymBool x = BoolNode::from({.kind = Kind::opaque, .op = op, .floats = {a, b}});
  if (const std::optional<bool> value = evaluate(x, {})) return *value;
  return x;
}

}  // namespace

SymBool BoolNode::from(BoolNode node) {
  SymBool x;
  x.node_ = std::make_shared<const BoolNode>(std::move(node));
  return x;
}

std::set<std::string> SymBool::symbols() const {
  std::set<std::string> names;
  collect_symbols(*this, names);
  return names;
}

void collect_symbols(const SymBool& x, std::set<std::string>& names) {
  if (x.node() == nullptr) return;
  collect_symbols(x.node()->difference, names);
  for (const SymBool& operand : x.node()->operands) collect_symbols(operand, names);
  for (const SymFloat& operand : x.node()->floats) collect_symbols(operand, names);
}

std::string SymBool::to_string() const {
  if (!node_) return constant_ ? "true" : "false";
  switch (node_->kind) {
    case Kind::eq:
    case Kind::ne:
    case Kind::le:
      return comparison_text(node_->kind, node_->difference);
    case Kind::opaque: {
      const bool negated = node_->op.starts_with("not ");
      const std::string text = node_->floats[0].to_string() + " " + (negated ? node_->op.substr(4) : node_->op) + " " +
                               node_->floats[1].to_string();
      return negated ? "not (" + text + ")" : text;
    }
    case Kind::all:
    case Kind::any:
      break;
  }
  std::string text;
  for (const SymBool& operand : node_->operands) {
    if (!text.empty()) text += node_->kind == Kind::all ? " and " : " or ";
    const bool nested = operand.node_->kind == Kind::any;  // `or` inside `and`
    text += nested ? "(" + operand.to_string() + ")" : operand.to_string();
  }
  return text;
}

bool SymBool::operator==(const SymBool& other) const {
  if (node_ == other.node_) return node_ || constant_ == other.constant_;
  if (!node_ || !other.node_ || node_->kind != other.node_->kind) return false;
  return node_->difference == other.node_->difference && node_->operands == other.node_->operands &&
         node_->op == other.node_->op && node_->floats == other.node_->floats;
}

SymBool equal(const SymInt& a, const SymInt& b) { return compare_with_zero(Kind::eq, a - b); }
SymBool not_equal(const SymInt& a, const SymInt& b) { return compare_with_zero(Kind::ne, a - b); }
SymBool less_equal(const SymInt& a, const SymInt& b) { return compare_with_zero(Kind::le, a - b); }
SymBool less(const SymInt& a, const SymInt& b) {
  if (a.is_constant() && b.is_constant()) return *a.constant() < *b.constant();
  return compare_with_zero(Kind::le, a - b + SymInt(1));
}

SymBool compare(const std::string& op, const SymFloat& a, const SymFloat& b) {
  if (op == ">") return compare_floats("<", b, a);
  if (op == ">=") return compare_floats("<=", b, a);
  return compare_floats(op, a, b);
}

SymBool both(const SymBool& a, const SymBool& b) { return combine(Kind::all, a, b); }
SymBool either(const SymBool& a, const SymBool& b) { return combine(Kind::any, a, b); }

SymBool negate(const SymBool& a) {
  if (const std::optional<bool> value = a.constant()) return !*value;
  const BoolNode& node = *a.node();
  switch (node.kind) {
    case Kind::eq:
      return compare_with_zero(Kind::ne, node.difference);
    case Kind::ne:
      return compare_with_zero(Kind::eq, node.difference);
    case Kind::le:
      return compare_with_zero(Kind::le, SymInt(1) - node.difference);
    case Kind::opaque: {
      const std::string& op = node.op;
      const std::string opposite = op == "=="               ? "!="
                                   : op == "!="             ? "=="
                                   : op.starts_with("not ") ? op.substr(4)
                                                            : "not " + op;
      return compare_floats(opposite, node.floats[0], node.floats[1]);
    }
    case Kind::all:
    case Kind::any:
      break;
  }
  SymBool out = node.kind == Kind::any;
  for (const SymBool& operand : node.operands) {
    out = node.kind == Kind::all ? either(out, negate(operand)) : both(out, negate(operand));
  }
  return out;
}

}  // namespace atenon::shape
