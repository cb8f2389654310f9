// Sums of products of atoms: arithmetic, order and spelling.
//
// Capture does this thousands of times, so a constant never allocates, and terms stay sorted: addition merges, and a
// product with a monomial needs no sorting.
#include "shape/symint.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "shape/terms.h"

namespace atenon::shape {
namespace {

// Beyond these a value is not a size that anybody meant; hostile files must not make us slow.
constexpr size_t most_terms = 2000;
constexpr size_t longest_spelling = size_t{1} << 16;
constexpr int highest_power = 62;

std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}

std::optional<int64_t> checked_multiply(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

// Product of two monomials; nullopt if a power grows beyond all reason.
std::optional<std::vector<Factor>> multiply(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  std::vector<Factor> out;
  out.reserve(a.size() + b.size());
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const std::strong_ordering which = i == a.size()   ? std::strong_ordering::greater
                                       : j == b.size() ? std::strong_ordering::less
                                                       : order(*a[i].atom, *b[j].atom);
    if (which < 0) {
      out.push_back(a[i++]);
    } else if (which > 0) {
      out.push_back(b[j++]);
    } else {
      out.push_back({a[i].atom, a[i].power + b[j].power});
      if (out.back().power > highest_power) return std::nullopt;
      ++i, ++j;
    }
  }
  return out;
}

// a + scale * b, merging sorted terms.
SymInt add_scaled(const SymInt& a, const SymInt& b, int64_t scale) {
  if (is_overflow(a) || is_overflow(b)) return overflow();
  const Terms left = terms_of(a), right = terms_of(b);
  std::vector<Term> sum;
  sum.reserve(left.size() + right.size());
  size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    const std::strong_ordering which = i == left.size()    ? std::strong_ordering::greater
                                       : j == right.size() ? std::strong_ordering::less
                                                           : order(left[i].factors, right[j].factors);
    if (which < 0) {
      sum.push_back(left[i++]);
      continue;
    }
    std::optional<int64_t> coefficient = checked_multiply(scale, right[j].coefficient);
    if (coefficient && which == 0) coefficient = checked_add(left[i++].coefficient, *coefficient);
    if (!coefficient) return overflow();
    if (*coefficient != 0) sum.push_back({*coefficient, right[j].factors});
    ++j;
  }
  if (sum.size() > most_terms) return overflow();
  return Polynomial::from(std::move(sum));
}

std::string factor_text(const Factor& factor, bool alone) {
  const AtomKind kind = factor.atom->kind;
  const bool infix = kind == AtomKind::floor_div || kind == AtomKind::mod;
  std::string text = infix && (!alone || factor.power > 1) ? "(" + factor.atom->spelling + ")" : factor.atom->spelling;
  return factor.power == 1 ? text : text + "**" + std::to_string(factor.power);
}

std::string atom_text(AtomKind kind, const std::vector<SymInt>& operands, const std::vector<SymFloat>& floats) {
  const auto call = [&](std::string name) {
    for (size_t i = 0; i < operands.size(); ++i) name += (i == 0 ? "(" : ", ") + operands[i].to_string();
    for (const SymFloat& x : floats) name += "(" + x.to_string();
    return name + ")";
  };
  switch (kind) {
    case AtomKind::symbol:
      break;
    case AtomKind::floor_div:
      return operand_text(operands[0]) + "//" + operand_text(operands[1]);
    case AtomKind::mod:
      return operand_text(operands[0]) + " % " + operand_text(operands[1]);
    case AtomKind::min:
      return call("min");
    case AtomKind::max:
      return call("max");
    case AtomKind::floor:
      return call("floor");
    case AtomKind::ceil:
      return call("ceil");
    case AtomKind::trunc:
      return call("trunc");
    case AtomKind::round:
      return call("round");
    case AtomKind::overflow:
      return "overflow()";
  }
  assert(false);
  return "";
}

}  // namespace

// --- Parts

std::strong_ordering order(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  const bool a_symbol = a.kind == AtomKind::symbol, b_symbol = b.kind == AtomKind::symbol;
  if (a_symbol != b_symbol) return a_symbol ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.spelling.compare(b.spelling) <=> 0;
}

std::strong_ordering order(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (const auto atoms = order(*a[i].atom, *b[i].atom); atoms != 0) return atoms;
    if (a[i].power != b[i].power) return b[i].power <=> a[i].power;
  }
  return b.size() <=> a.size();
}

bool same(const std::vector<Factor>& a, const std::vector<Factor>& b) { return order(a, b) == 0; }

Terms::Terms(const SymInt& x) {
  if (const Polynomial* polynomial = x.polynomial()) {
    begin_ = polynomial->terms.data();
    size_ = polynomial->terms.size();
  } else {
    constant_.coefficient = *x.constant();
    begin_ = &constant_;
    size_ = constant_.coefficient != 0 ? 1 : 0;
  }
}

SymInt Polynomial::from(std::vector<Term> terms) {
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].factors.empty()) return terms[0].coefficient;
  return SymInt(std::make_shared<const Polynomial>(Polynomial{std::move(terms)}));
}

SymInt from_term(int64_t coefficient, std::vector<Factor> factors) {
  if (coefficient == 0) return 0;
  std::vector<Term> terms;
  terms.push_back({coefficient, std::move(factors)});
  return Polynomial::from(std::move(terms));
}

int64_t constant_term(const SymInt& x) {
  if (x.is_constant()) return *x.constant();
  const Term& last = x.polynomial()->terms.back();
  return last.factors.empty() ? last.coefficient : 0;
}

const Atom* lone_atom(const SymInt& x) {
  const Polynomial* polynomial = x.polynomial();
  if (polynomial == nullptr || polynomial->terms.size() != 1) return nullptr;
  const Term& term = polynomial->terms[0];
  const bool lone = term.coefficient == 1 && term.factors.size() == 1 && term.factors[0].power == 1;
  return lone ? term.factors[0].atom.get() : nullptr;
}

std::optional<std::vector<Factor>> divide(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  std::vector<Factor> out;
  size_t j = 0;
  for (const Factor& factor : a) {
    if (j < b.size() && order(*factor.atom, *b[j].atom) == 0) {
      if (factor.power < b[j].power) return std::nullopt;
      if (factor.power > b[j].power) out.push_back({factor.atom, factor.power - b[j].power});
      ++j;
    } else {
      out.push_back(factor);
    }
  }
  if (j < b.size()) return std::nullopt;
  return out;
}

std::optional<SymInt> exact_quotient(const SymInt& a, const SymInt& b) {
  SymInt rest = a, quotient = 0;
  const Terms divisor = terms_of(b);
  if (divisor.empty() || is_overflow(a) || is_overflow(b)) return std::nullopt;
  // Long division by leading terms; each step removes the leading monomial for good.
  for (size_t steps = 0; steps < 64; ++steps) {
    const Terms terms = terms_of(rest);
    if (terms.empty()) return quotient;
    const auto factors = divide(terms[0].factors, divisor[0].factors);
    if (!factors || terms[0].coefficient == INT64_MIN) return std::nullopt;
    if (terms[0].coefficient % divisor[0].coefficient != 0) return std::nullopt;
    const SymInt part = from_term(terms[0].coefficient / divisor[0].coefficient, *factors);
    quotient = quotient + part;
    rest = rest - part * b;
    if (is_overflow(rest)) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<SymInt> square_root(const SymInt& x) {
  if (x == SymInt(0)) return x;
  const Terms terms = terms_of(x);
  std::vector<Factor> factors = terms[0].factors;
  for (Factor& factor : factors) {
    if (factor.power % 2 != 0) return std::nullopt;
    factor.power /= 2;
  }
  const int64_t square = std::max<int64_t>(terms[0].coefficient, 0);
  const int64_t side = static_cast<int64_t>(std::sqrt(static_cast<double>(square)));
  if (side * side != terms[0].coefficient) return std::nullopt;
  const SymInt leading = from_term(side, std::move(factors));
  // As by hand: x is root**2 + rest, and each step removes the leading monomial of the rest for good.
  SymInt root = leading, rest = x - leading * leading;
  for (size_t steps = 0; steps < 64 && !is_overflow(rest); ++steps) {
    const Terms left = terms_of(rest);
    if (left.empty()) return root;
    const auto next = exact_quotient(from_term(left[0].coefficient, left[0].factors), SymInt(2) * leading);
    if (!next) return std::nullopt;
    rest = rest - *next * (root + root + *next);
    root = root + *next;
  }
  return std::nullopt;
}

int64_t content(const SymInt& x) {
  uint64_t divisor = 0;
  if (const Polynomial* polynomial = x.polynomial()) {
    for (const Term& term : polynomial->terms) {
      const uint64_t size =
          term.coefficient < 0 ? 0 - static_cast<uint64_t>(term.coefficient) : static_cast<uint64_t>(term.coefficient);
      if (!term.factors.empty()) divisor = std::gcd(divisor, size);
    }
  }
  return divisor > INT64_MAX ? 1 : static_cast<int64_t>(divisor);
}

SymInt divide_coefficients(const SymInt& x, int64_t d) {
  if (x.is_constant()) return floor_div(*x.constant(), d);
  std::vector<Term> terms;
  for (const Term& term : x.polynomial()->terms) {
    if (const int64_t c = floor_div(term.coefficient, d); c != 0) terms.push_back({c, term.factors});
  }
  return Polynomial::from(std::move(terms));
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
int64_t mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

SymInt make_atom(AtomKind kind, std::vector<SymInt> operands, std::vector<SymFloat> floats) {
  if (std::any_of(operands.begin(), operands.end(), is_overflow)) return overflow();
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->spelling = atom_text(kind, operands, floats);
  if (atom->spelling.size() > longest_spelling) return overflow();
  atom->operands = std::move(operands);
  atom->floats = std::move(floats);
  return from_term(1, {{std::move(atom), 1}});
}

SymInt overflow() {
  static const SymInt value = make_atom(AtomKind::overflow, {});
  return value;
}

bool is_overflow(const SymInt& x) {
  const Atom* atom = x.is_constant() ? nullptr : lone_atom(x);
  return atom != nullptr && atom->kind == AtomKind::overflow;
}

// --- SymInt

SymInt SymInt::symbol(const std::string& name) {
  auto atom = std::make_shared<Atom>();
  atom->spelling = name;
  return from_term(1, {{std::move(atom), 1}});
}

std::optional<std::string> SymInt::as_symbol() const {
  const Atom* atom = lone_atom(*this);
  return atom != nullptr && atom->kind == AtomKind::symbol ? std::optional(atom->spelling) : std::nullopt;
}

std::set<std::string> SymInt::symbols() const {
  std::set<std::string> names;
  collect_symbols(*this, names);
  return names;
}

void collect_symbols(const SymInt& x, std::set<std::string>& names) {
  if (x.is_constant()) return;
  for (const Term& term : x.polynomial()->terms) {
    for (const Factor& factor : term.factors) {
      if (factor.atom->kind == AtomKind::symbol) names.insert(factor.atom->spelling);
      for (const SymInt& operand : factor.atom->operands) collect_symbols(operand, names);
      for (const SymFloat& operand : factor.atom->floats) collect_symbols(operand, names);
    }
  }
}

std::string SymInt::to_string() const {
  if (is_constant()) return std::to_string(constant_);
  std::string out;
  for (const Term& term : polynomial_->terms) {
    const bool first = &term == &polynomial_->terms.front();
    const bool negative = term.coefficient < 0;
    if (first) {
      out += negative ? "-" : "";
    } else {
      out += negative ? " - " : " + ";
    }
    const uint64_t size =
        negative ? 0 - static_cast<uint64_t>(term.coefficient) : static_cast<uint64_t>(term.coefficient);
    const bool counted = size != 1 || term.factors.empty();
    if (counted) out += std::to_string(size);
    // A lone `a//b` needs parentheses after a coefficient, and after a leading minus, which binds tighter.
    const bool alone = !counted && term.factors.size() == 1 && !(first && negative);
    for (const Factor& factor : term.factors) {
      if (counted || &factor != &term.factors.front()) out += "*";
      out += factor_text(factor, alone);
    }
  }
  return out;
}

std::string operand_text(const SymInt& x) {
  const Atom* atom = lone_atom(x);
  const bool infix = atom != nullptr && (atom->kind == AtomKind::floor_div || atom->kind == AtomKind::mod);
  const bool plain = x.is_constant() ? *x.constant() >= 0 : atom != nullptr && !infix;
  return plain ? x.to_string() : "(" + x.to_string() + ")";
}

std::strong_ordering SymInt::operator<=>(const SymInt& other) const {
  if (!polynomial_ || !other.polynomial_) {
    if (polynomial_) return std::strong_ordering::greater;
    if (other.polynomial_) return std::strong_ordering::less;
    return constant_ <=> other.constant_;
  }
  if (polynomial_ == other.polynomial_) return std::strong_ordering::equal;
  const std::vector<Term>&a = polynomial_->terms, &b = other.polynomial_->terms;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (const auto monomials = order(a[i].factors, b[i].factors); monomials != 0) return monomials;
    if (a[i].coefficient != b[i].coefficient) return a[i].coefficient <=> b[i].coefficient;
  }
  return a.size() <=> b.size();
}

bool SymInt::operator==(const SymInt& other) const { return (*this <=> other) == 0; }

SymInt operator+(const SymInt& a, const SymInt& b) {
  if (a.is_constant() && b.is_constant()) {
    const std::optional<int64_t> sum = checked_add(*a.constant(), *b.constant());
    return sum ? SymInt(*sum) : overflow();
  }
  if (a.is_constant() && *a.constant() == 0) return b;
  if (b.is_constant() && *b.constant() == 0) return a;
  return add_scaled(a, b, 1);
}

SymInt operator-(const SymInt& a, const SymInt& b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t difference;
    return __builtin_sub_overflow(*a.constant(), *b.constant(), &difference) ? overflow() : SymInt(difference);
  }
  if (b.is_constant() && *b.constant() == 0) return a;
  return add_scaled(a, b, -1);
}

SymInt operator-(const SymInt& a) { return SymInt(0) - a; }

SymInt operator*(const SymInt& a, const SymInt& b) {
  if (a.is_constant() && b.is_constant()) {
    const std::optional<int64_t> result = checked_multiply(*a.constant(), *b.constant());
    return result ? SymInt(*result) : overflow();
  }
  if (is_overflow(a) || is_overflow(b)) return overflow();
  if (a.is_constant() && *a.constant() == 1) return b;
  if (b.is_constant() && *b.constant() == 1) return a;
  const Terms left = terms_of(a), right = terms_of(b);
  if (left.size() * right.size() > most_terms) return overflow();
  std::vector<Term> terms;
  terms.reserve(left.size() * right.size());
  for (const Term& x : left) {
    for (const Term& y : right) {
      const std::optional<int64_t> coefficient = checked_multiply(x.coefficient, y.coefficient);
      auto factors = multiply(x.factors, y.factors);
      if (!coefficient || !factors) return overflow();
      terms.push_back({*coefficient, std::move(*factors)});
    }
  }
  if (left.size() > 1 && right.size() > 1) {
    std::sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) { return order(x.factors, y.factors) < 0; });
    size_t kept = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (kept > 0 && same(terms[kept - 1].factors, terms[i].factors)) {
        const std::optional<int64_t> sum = checked_add(terms[kept - 1].coefficient, terms[i].coefficient);
        if (!sum) return overflow();
        terms[kept - 1].coefficient = *sum;
      } else {
        if (kept > 0 && terms[kept - 1].coefficient == 0) --kept;
        if (kept != i) terms[kept] = std::move(terms[i]);
        ++kept;
      }
    }
    if (kept > 0 && terms[kept - 1].coefficient == 0) --kept;
    terms.resize(kept);
  }
  return Polynomial::from(std::move(terms));
}

SymInt product(const std::vector<SymInt>& factors) {
  // Constants and monomials first: they keep the intermediate results small.
  SymInt monomials = 1, sums = 1;
  for (const SymInt& factor : factors) {
    SymInt& part = factor.is_constant() || factor.polynomial()->terms.size() == 1 ? monomials : sums;
    part = part * factor;
  }
  return monomials * sums;
}

}  // namespace atenon::shape
