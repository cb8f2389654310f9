// Floor division, modulus, minimum and maximum in canonical form.
//
// With a constant divisor k every coefficient is reduced to [0, k) (what is taken out is exact), common divisors are
// cancelled, and nested divisions join: (h - 1)//2 + 1 becomes (h + 1)//2, and halving five times becomes (h + 31)//32.
#include <algorithm>
#include <numeric>

#include "shape/terms.h"

namespace atenon::shape {
namespace {

const Atom* lone_atom(const Term& term, AtomKind kind) {
  if (term.factors.size() != 1 || term.factors[0].power != 1) return nullptr;
  const Atom* atom = term.factors[0].atom.get();
  return atom->kind == kind ? atom : nullptr;
}

// Takes out what k divides: x == k * exact + rest, with every coefficient of rest in [0, k).
std::pair<SymInt, SymInt> split(const SymInt& x, int64_t k) {
  std::vector<Term> exact, rest;
  for (const Term& term : terms_of(x)) {
    const int64_t quotient = floor_div(term.coefficient, k), remainder = mod(term.coefficient, k);
    if (quotient != 0) exact.push_back({quotient, term.factors});
    if (remainder != 0) rest.push_back({remainder, term.factors});
  }
  return {Polynomial::from(std::move(exact)), Polynomial::from(std::move(rest))};
}

SymInt floor_div_by_constant(const SymInt& a, int64_t k) {
  const auto [exact, rest] = split(a, k);
  if (rest.is_constant()) return exact;
  // (g*p + c)//(g*m) == (p + c//g)//m
  if (const int64_t g = std::gcd(content(rest), k); g > 1) {
    return exact + floor_div(divide_coefficients(rest, g), SymInt(k / g));
  }
  // (p//m + c)//k == (p + m*c)//(m*k), for k > 0 and any m
  const Term& first = rest.polynomial()->terms[0];
  const int64_t c = constant_term(rest);
  if (const Atom* inner = lone_atom(first, AtomKind::floor_div);
      inner != nullptr && first.coefficient == 1 && rest.polynomial()->terms.size() == (c == 0 ? 1 : 2)) {
    const SymInt divisor = inner->operands[1] * SymInt(k);
    const SymInt dividend = inner->operands[0] + inner->operands[1] * SymInt(c);
    if (!is_overflow(divisor) && !is_overflow(dividend)) return exact + floor_div(dividend, divisor);
  }
  return exact + make_atom(AtomKind::floor_div, {rest, k});
}

SymInt mod_by_constant(const SymInt& a, int64_t k) {
  // x % m counts as x where k divides what is dropped.
  SymInt opened = a;
  for (const Term& term : terms_of(a)) {
    const Atom* inner = lone_atom(term, AtomKind::mod);
    if (inner == nullptr || !inner->operands[1].is_constant()) continue;
    int64_t dropped;
    if (__builtin_mul_overflow(term.coefficient, *inner->operands[1].constant(), &dropped) || dropped % k != 0)
      continue;
    opened = opened + SymInt(term.coefficient) * (inner->operands[0] - from_term(1, term.factors));
  }
  if (opened != a && !is_overflow(opened)) return mod(opened, SymInt(k));
  const SymInt rest = split(a, k).second;
  if (rest.is_constant()) return rest;
  // (g*p + c) % (g*m) == g*((p + c//g) % m) + c % g
  if (const int64_t g = std::gcd(content(rest), k); g > 1) {
    return SymInt(g) * mod(divide_coefficients(rest, g), SymInt(k / g)) + SymInt(mod(constant_term(rest), g));
  }
  return make_atom(AtomKind::mod, {rest, k});
}

// What divides every term of both: an integer and a monomial.
SymInt common_divisor(const SymInt& a, const SymInt& b) {
  const Terms left = terms_of(a), right = terms_of(b);
  std::vector<Term> terms(left.begin(), left.end());
  terms.insert(terms.end(), right.begin(), right.end());
  uint64_t divisor = 0;
  std::vector<Factor> shared = terms[0].factors;
  for (const Term& term : terms) {
    divisor = std::gcd(divisor, static_cast<uint64_t>(std::abs(std::max(term.coefficient, -INT64_MAX))));
    std::vector<Factor> both;
    for (const Factor& factor : shared) {
      for (const Factor& other : term.factors) {
        if (order(*factor.atom, *other.atom) == 0) both.push_back({factor.atom, std::min(factor.power, other.power)});
      }
    }
    shared = std::move(both);
  }
  return from_term(static_cast<int64_t>(divisor), shared);
}

// Whole multiples of a monomial that are terms of a, and the rest.
std::pair<SymInt, SymInt> split(const SymInt& a, const Term& divisor) {
  std::vector<Term> exact, rest;
  for (const Term& term : terms_of(a)) {
    const auto factors = divide(term.factors, divisor.factors);
    if (factors && divisor.coefficient > 0 && term.coefficient % divisor.coefficient == 0) {
      exact.push_back({term.coefficient / divisor.coefficient, *factors});
    } else {
      rest.push_back(term);
    }
  }
  return {Polynomial::from(std::move(exact)), Polynomial::from(std::move(rest))};
}

bool leads_negative(const SymInt& x) { return !x.is_constant() && x.polynomial()->terms[0].coefficient < 0; }

SymInt extremum(AtomKind kind, const SymInt& a, const SymInt& b) {
  if (is_overflow(a) || is_overflow(b)) return overflow();
  std::vector<SymInt> operands;
  const int64_t neutral = kind == AtomKind::min ? INT64_MAX : INT64_MIN;  // how slices to the very end are written
  const auto add = [&](const SymInt& x) {
    if (x.constant() == neutral) return;
    // Of two operands whose difference is a constant one is never taken.
    for (SymInt& known : operands) {
      const std::optional<int64_t> difference = (x - known).constant();
      if (!difference) continue;
      if (kind == AtomKind::min ? *difference < 0 : *difference > 0) known = x;
      return;
    }
    operands.push_back(x);
  };
  for (const SymInt* side : {&a, &b}) {
    const Atom* atom = shape::lone_atom(*side);
    if (atom != nullptr && atom->kind == kind) {
      for (const SymInt& operand : atom->operands) add(operand);
    } else {
      add(*side);
    }
  }
  if (operands.empty()) return neutral;
  if (operands.size() == 1) return operands[0];
  std::sort(operands.begin(), operands.end());
  return make_atom(kind, std::move(operands));
}

}  // namespace

SymInt floor_div(const SymInt& a, const SymInt& b) {
  if (is_overflow(a) || is_overflow(b)) return overflow();
  if (b.is_constant()) {
    const int64_t k = *b.constant();
    if (k == 0 || k == INT64_MIN) return make_atom(AtomKind::floor_div, {a, b});
    return k < 0 ? floor_div(-a, SymInt(-k)) : k == 1 ? a : floor_div_by_constant(a, k);
  }
  // From here on, values are those for a divisor other than 0.
  if (a == SymInt(0)) return 0;
  if (leads_negative(b)) return floor_div(-a, -b);
  if (const auto quotient = exact_quotient(a, b)) return *quotient;
  const Terms divisor = terms_of(b);
  if (divisor.size() == 1) {
    const auto [exact, rest] = split(a, divisor[0]);
    if (exact != SymInt(0)) return exact + floor_div(rest, b);
  }
  if (const SymInt shared = common_divisor(a, b); shared != SymInt(1)) {
    return floor_div(*exact_quotient(a, shared), *exact_quotient(b, shared));
  }
  return make_atom(AtomKind::floor_div, {a, b});
}

SymInt mod(const SymInt& a, const SymInt& b) {
  if (is_overflow(a) || is_overflow(b)) return overflow();
  if (b.is_constant()) {
    const int64_t k = *b.constant();
    if (k == 0 || k == INT64_MIN) return make_atom(AtomKind::mod, {a, b});
    return k < 0 ? -mod(-a, SymInt(-k)) : mod_by_constant(a, k);
  }
  if (a == SymInt(0)) return 0;
  if (leads_negative(b)) return -mod(-a, -b);
  if (exact_quotient(a, b)) return 0;
  const Terms divisor = terms_of(b);
  if (divisor.size() == 1) {
    const auto [exact, rest] = split(a, divisor[0]);
    if (exact != SymInt(0)) return mod(rest, b);
  }
  if (const SymInt shared = common_divisor(a, b); shared != SymInt(1)) {
    return shared * mod(*exact_quotient(a, shared), *exact_quotient(b, shared));
  }
  return make_atom(AtomKind::mod, {a, b});
}

SymInt min(const SymInt& a, const SymInt& b) { return extremum(AtomKind::min, a, b); }
SymInt max(const SymInt& a, const SymInt& b) { return extremum(AtomKind::max, a, b); }

}  // namespace atenon::shape
