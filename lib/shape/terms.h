// Order of atoms and monomials, and the parts of a polynomial: private to lib/shape.
#pragma once

#include <utility>

#include "shape/symint.h"

namespace atenon::shape {

std::strong_ordering order(const Atom& a, const Atom& b);
// Lexicographic, higher powers first, so that multiplying by a monomial keeps the order; the constant comes last.
std::strong_ordering order(const std::vector<Factor>& a, const std::vector<Factor>& b);
bool same(const std::vector<Factor>& a, const std::vector<Factor>& b);

// The terms of any value; a constant has one, zero none. A view of a value that must outlive it.
class Terms {
 public:
  explicit Terms(const SymInt& x);
  Terms(const Terms&) = delete;  // may point into itself
  const Term* begin() const { return begin_; }
  const Term* end() const { return begin_ + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Term& operator[](size_t i) const { return begin_[i]; }

 private:
  Term constant_;
  const Term* begin_;
  size_t size_;
};
inline Terms terms_of(const SymInt& x) { return Terms(x); }
Terms terms_of(SymInt&&) = delete;
SymInt from_term(int64_t coefficient, std::vector<Factor> factors);
// The constant term.
int64_t constant_term(const SymInt& x);
// The atom, if x is exactly one with coefficient 1; else null.
const Atom* lone_atom(const SymInt& x);
// a / b where b divides a.
std::optional<std::vector<Factor>> divide(const std::vector<Factor>& a, const std::vector<Factor>& b);
// The quotient, if a is exactly b times a polynomial.
std::optional<SymInt> exact_quotient(const SymInt& a, const SymInt& b);
// The polynomial whose square x is, with a positive leading coefficient: the root of s**2 + 2*s + 1 is s + 1.
std::optional<SymInt> square_root(const SymInt& x);
// Greatest common divisor of all coefficients but the constant term's; 0 for a constant.
int64_t content(const SymInt& x);
// x with every coefficient, and the constant, divided by d, rounding down.
SymInt divide_coefficients(const SymInt& x, int64_t d);

int64_t floor_div(int64_t a, int64_t b);  // b > 0
int64_t mod(int64_t a, int64_t b);        // b > 0; in [0, b)

// A fresh atom with its spelling, as a value.
SymInt make_atom(AtomKind kind, std::vector<SymInt> operands, std::vector<SymFloat> floats = {});
// Spellings of a value where it is an operand of // or %.
std::string operand_text(const SymInt& x);
// The dividend and the divisor whose quotient x is, rounded at most once: floating-point arithmetic below it is exact.
// A quotient that is an integer is not rounded.
using Fraction = std::pair<SymInt, SymInt>;
std::optional<Fraction> exact_fraction(const SymFloat& x);
// The integer that x is, by what divides what.
std::optional<SymInt> whole(const SymFloat& x);
// The shortest decimal that reads back as the same double, with a point or exponent.
std::string to_string(double value);

void collect_symbols(const SymInt& x, std::set<std::string>& names);
void collect_symbols(const SymFloat& x, std::set<std::string>& names);
void collect_symbols(const SymBool& x, std::set<std::string>& names);

}  // namespace atenon::shape
