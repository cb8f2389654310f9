// Floor division, modulus, minimum and maximum in canonical form.
//
// With a constant divisor k every coefficient is reduced to [0, k) (what is taken out is exact), common divisors are
// cancelled, and nested divisions join: (h - 1)//2 + 1 becomes (h + 1)//2, and halving five times becomes (h + 31)//32.
#include <algorithm>
#include <numeric>

#include "shape/halves.h"
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

// A quotient is a number less what is left of its divisor: r*x//k == x - ((k - r)*x + k - 1)//k. The one of the two
// whose first coefficient is the smaller stands for both, so that -(-x//4), (x + 3)//4 and x - 3*x//4 are one.
bool is_turned(const SymInt& rest, int64_t k) {
  for (const Term& term : terms_of(rest)) {
    if (!term.factors.empty() && term.coefficient != k - term.coefficient)
      return term.coefficient > k - term.coefficient;
  }
  return false;
}

// a//k with a quotient in the sum a joined, if there is one to join: (x + p//m)//k == (m*x + p)//(m*k), and
// (x - p//m)//k == (m*x - p + m - 1)//(m*k), for numbers m, k > 0; the first for any m, where x is a number.
std::optional<SymInt> join_quotient(const SymInt& a, int64_t k) {
  for (const Term& term : terms_of(a)) {
    const Atom* inner = lone_atom(term, AtomKind::floor_div);
    if (inner == nullptr || inner->operands[1] == SymInt(0)) continue;
    const SymInt &p = inner->operands[0], &m = inner->operands[1];
    const SymInt x = a - from_term(term.coefficient, term.factors);
    const int64_t modulo = mod(term.coefficient, k);
    const bool added = modulo == 1 && (k > 2 || term.coefficient > 0);
    const bool subtracted = modulo == k - 1 && !added;
    if (m.is_constant() ? !added && !subtracted : !added || !x.is_constant()) continue;
    const SymInt dividend = added ? m * x + p : m * x - p + m - SymInt(1), divisor = m * SymInt(k);
    if (is_overflow(dividend) || is_overflow(divisor)) continue;
    return from_term(floor_div(term.coefficient, k) + (added ? 0 : 1), term.factors) + floor_div(dividend, divisor);
  }
  return std::nullopt;
}

// a with x in place of `term`, a multiple of x % m with a number m: what `holds` says of the coefficient and m.
template <typename Predicate>
std::optional<std::pair<SymInt, const Term*>> open_modulus(const SymInt& a, const Predicate& holds) {
  if (a.is_constant()) return std::nullopt;
  for (const Term& term : a.polynomial()->terms) {
    const Atom* inner = lone_atom(term, AtomKind::mod);
    if (inner == nullptr || !inner->operands[1].is_constant()) continue;
    if (!holds(term.coefficient, *inner->operands[1].constant())) continue;
    SymInt opened = a + SymInt(term.coefficient) * (inner->operands[0] - from_term(1, term.factors));
    if (!is_overflow(opened)) return std::pair(std::move(opened), &term);
  }
  return std::nullopt;
}

SymInt floor_div_by_constant(const SymInt& a, int64_t k) {
  // x % k is x - k*(x//k); x % 2 is 2*((x + 1)//2) - x, too, which makes (x + 1)//2 of (x + x % 2)//2.
  if (const auto opened = open_modulus(a, [&](int64_t, int64_t m) { return m == k; })) {
    const auto& [sum, term] = *opened;
    const SymInt c = term->coefficient, x = term->factors[0].atom->operands[0];
    const SymInt other = sum - SymInt(2) * c * x;
    if (k == 2 && !is_overflow(other) && terms_of(other).size() < terms_of(sum).size())
      return floor_div(other, 2) + c * floor_div(x + SymInt(1), 2);
    return floor_div(sum, SymInt(k)) - c * floor_div(x, SymInt(k));
  }
  // In a, as of halves the rest does not say whether they are added; of symbolic divisors, in the rest below.
  if (const std::optional<SymInt> joined = join_quotient(a, k)) return *joined;
  const auto [exact, rest] = split(a, k);
  if (rest.is_constant()) return exact;
  // (g*p + c)//(g*m) == (p + c//g)//m
  if (const int64_t g = std::gcd(content(rest), k); g > 1) {
    return exact + floor_div(divide_coefficients(rest, g), SymInt(k / g));
  }
  if (const std::optional<SymInt> joined = join_quotient(rest, k)) return exact + *joined;
  if (!is_turned(rest, k)) return exact + make_atom(AtomKind::floor_div, {rest, k});
  SymInt whole = 0;
  for (const Term& term : terms_of(rest)) {
    if (!term.factors.empty()) whole = whole + from_term(1, term.factors);
  }
  return exact + whole - floor_div(SymInt(k) * whole - rest + SymInt(k - 1), SymInt(k));
}

SymInt mod_by_constant(const SymInt& a, int64_t k) {
  // x % m counts as x where k divides what is dropped, a multiple of m.
  const auto is_dropped = [&](int64_t coefficient, int64_t m) {
    return static_cast<__int128>(coefficient) * m % k == 0;
  };
  if (const auto opened = open_modulus(a, is_dropped)) return mod(opened->first, SymInt(k));
  const SymInt rest = split(a, k).second;
  if (rest.is_constant()) return rest;
  // (g*p + c) % (g*m) == g*((p + c//g) % m) + c % g
  if (const int64_t g = std::gcd(content(rest), k); g > 1) {
    return SymInt(g) * mod(divide_coefficients(rest, g), SymInt(k / g)) + SymInt(mod(constant_term(rest), g));
  }
  if (is_turned(rest, k)) return rest - SymInt(k) * floor_div(rest, SymInt(k));
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
    const auto dividend = exact_quotient(a, shared), divisor = exact_quotient(b, shared);
    if (dividend && divisor) return floor_div(*dividend, *divisor);
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
    const auto dividend = exact_quotient(a, shared), divisor = exact_quotient(b, shared);
    if (dividend && divisor) return shared * mod(*dividend, *divisor);
  }
  return make_atom(AtomKind::mod, {a, b});
}

SymInt close_halves(SymInt sum) {
  for (const Term& term : terms_of(sum)) {
    const Atom* atom = lone_atom(term, AtomKind::mod);
    if (!atom || atom->operands[1] != SymInt(2)) continue;
    const SymInt& x = atom->operands[0];
    const SymInt twice = SymInt(2) * floor_div(x + SymInt(1), SymInt(2));
    SymInt closed = sum + SymInt(term.coefficient) * (twice - x - from_term(1, term.factors));
    if (!is_overflow(closed) && terms_of(closed).size() < terms_of(sum).size()) return close_halves(std::move(closed));
  }
  return sum;
}

SymInt min(const SymInt& a, const SymInt& b) { return extremum(AtomKind::min, a, b); }
SymInt max(const SymInt& a, const SymInt& b) { return extremum(AtomKind::max, a, b); }

}  // namespace atenon::shape
