// Learning truths, and deciding questions by them.
#include "shape/facts.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "shape/proof.h"
#include "shape/terms.h"

namespace atenon::shape {
namespace {

using Kind = SymBool::Kind;

Truth from_bool(bool value) { return value ? Truth::proven : Truth::refuted; }
Truth opposite(Truth truth) { return truth == Truth::open ? truth : from_bool(truth == Truth::refuted); }

Range intersect(Range a, Range b) { return {std::max(a.lower, b.lower), std::min(a.upper, b.upper)}; }

// Does `a` come after `b`? Numbered names by their number: u10 after u9.
bool is_later(const std::string& a, const std::string& b) {
  const size_t of_a = a.find_last_not_of("0123456789") + 1, of_b = b.find_last_not_of("0123456789") + 1;
  const bool is_same_series = a.compare(0, of_a, b, 0, of_b) == 0;
  return is_same_series && a.size() != b.size() ? a.size() > b.size() : a > b;
}

// The last that a program finds out of what x is made of: u0, u1, ..., in the order in which nodes yield them; "" where
// all of it is known from the start. What is known at one place must not be spelt by what is found out after it.
std::string last_found(const SymInt& x) {
  std::string last;
  for (const std::string& name : x.symbols())
    if (name[0] == 'u' && name.find_last_not_of("0123456789") == 0 && is_later(name, last)) last = name;
  return last;
}

// From the first to the last number in the range that leaves the remainder.
Range aligned(Range range, int64_t modulus, int64_t remainder) {
  const auto beyond = [&](int64_t end) { return mod(mod(end, modulus) - mod(remainder, modulus), modulus); };
  if (range.lower != Range::lowest && range.lower <= Range::highest - modulus && beyond(range.lower) != 0)
    range.lower += modulus - beyond(range.lower);
  if (range.upper != Range::highest && range.upper >= Range::lowest + modulus) range.upper -= beyond(range.upper);
  return range;
}

// A symbol that occurs in x only once, with coefficient 1 or -1: x == 0 can be solved for it. The last by name, so that
// the symbols of earlier dimensions survive.
std::optional<std::string> solvable_symbol(const SymInt& x) {
  std::map<std::string, int> occurrences;
  std::optional<std::string> found;
  const std::string last = last_found(x);
  for (const Term& term : terms_of(x)) {
    for (const std::string& name : from_term(1, term.factors).symbols()) ++occurrences[name];
  }
  for (const Term& term : terms_of(x)) {
    const std::optional<std::string> name = from_term(1, term.factors).as_symbol();
    if (name && std::abs(term.coefficient) == 1 && occurrences[*name] == 1 && (last.empty() || *name == last) &&
        (!found || is_later(*name, *found)))
      found = name;
  }
  return found;
}

// The extremum that x says something of alone: x is atom - value or value - atom.
struct LoneExtremum {
  const Atom* atom;
  bool is_positive;
  SymInt value;
};

std::optional<LoneExtremum> lone_extremum(const SymInt& x) {
  for (const Term& term : terms_of(x)) {
    if (term.factors.size() != 1 || term.factors[0].power != 1 || std::abs(term.coefficient) != 1) continue;
    const Atom& atom = *term.factors[0].atom;
    if (atom.kind != AtomKind::min && atom.kind != AtomKind::max) continue;
    const SymInt self = from_term(1, term.factors);
    return LoneExtremum{&atom, term.coefficient == 1, term.coefficient == 1 ? self - x : self + x};
  }
  return std::nullopt;
}

// The atom, if x is a multiple of one, and perhaps a number; else null.
const Atom* only_atom(const SymInt& x) {
  const Terms terms = terms_of(x);
  if (terms.size() != (constant_term(x) == 0 ? 1 : 2)) return nullptr;
  const std::vector<Factor>& factors = terms[0].factors;
  return factors.size() == 1 && factors[0].power == 1 ? factors[0].atom.get() : nullptr;
}

int64_t coefficient_of(const SymInt& x, const std::string& symbol) {
  for (const Term& term : terms_of(x)) {
    if (from_term(1, term.factors).as_symbol() == symbol) return term.coefficient;
  }
  return 0;
}

// After how many steps of its only symbol x repeats itself, but for a slope; 0 where that is long.
int64_t period_of(const SymInt& x) {
  constexpr int64_t longest = 256;
  const Periods periods = periods_of(x);
  return periods.size() == 1 && periods.begin()->second <= longest ? periods.begin()->second : 0;
}

// x at the i-th step of its symbol's every period, of which the symbol is the number then.
SymInt in_every_period(const SymInt& x, const std::string& symbol, int64_t period, int64_t i) {
  return substitute(x, {{symbol, SymInt(period) * SymInt::symbol(symbol) + SymInt(i)}});
}

struct Remainder {
  int64_t modulus, remainder;
};

// What x == 0 says of its only symbol, given what is known of it: (s + 1)//2 == s//2 that it is even.
std::optional<Remainder> remainder_at_zero(const SymInt& x, const std::string& symbol,
                                           const std::vector<Remainder>& known) {
  const int64_t period = period_of(x);
  if (period <= 1) return std::nullopt;
  Remainder found{0, 0};
  bool is_first = true;
  for (int64_t i = 0; i < period; ++i) {
    const std::optional<int64_t> here = in_every_period(x, symbol, period, i).constant();
    if (!here) return std::nullopt;
    const bool is_refuted = *here != 0 || std::ranges::any_of(known, [&](const Remainder& other) {
      return (i - other.remainder) % std::gcd(other.modulus, period) != 0;
    });
    if (is_refuted) continue;
    found = is_first ? Remainder{period, i} : Remainder{std::gcd(found.modulus, i - found.remainder), found.remainder};
    is_first = false;
  }
  if (found.modulus <= 1) return std::nullopt;
  return Remainder{found.modulus, found.remainder % found.modulus};
}

// From the first to the last value of its only symbol at which x is 0, where x grows or falls with it: n - 1 ==
// (n + 1)//2 says that n is 2 or 3.
std::optional<Range> range_at_zero(const SymInt& x, const std::string& symbol) {
  const int64_t period = period_of(x);
  if (period <= 1) return std::nullopt;
  Range found{Range::highest, Range::lowest};
  for (int64_t i = 0; i < period; ++i) {
    const SymInt here = in_every_period(x, symbol, period, i);
    const int64_t slope = coefficient_of(here, symbol), beside = constant_term(here);
    if (slope == 0 || beside == INT64_MIN || !(here == SymInt(slope) * SymInt::symbol(symbol) + SymInt(beside)))
      return std::nullopt;
    if (beside % slope != 0) continue;
    const std::optional<int64_t> value = (SymInt(period) * SymInt(-(beside / slope)) + SymInt(i)).constant();
    if (!value) return std::nullopt;
    found = {std::min(found.lower, *value), std::max(found.upper, *value)};
  }
  return found.lower <= found.upper ? std::optional(found) : std::nullopt;
}

// The terms for whose atom x == 0 can be solved. The longest is the first: what was spelt by others stays so, and no
// atom is replaced by longer ones.
std::vector<const Term*> solvable_terms(const SymInt& x) {
  std::vector<const Term*> found;
  for (const Term& term : terms_of(x)) {
    if (term.factors.size() == 1 && term.factors[0].power == 1 && std::abs(term.coefficient) == 1)
      found.push_back(&term);
  }
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const Term* term) { return term->factors[0].atom->spelling.size(); });
  return found;
}

// The monomial that divides every term.
SymInt common_monomial(const SymInt& x) {
  const Terms terms = terms_of(x);
  std::vector<Factor> shared = terms[0].factors;
  for (const Term& term : terms) {
    std::vector<Factor> both;
    for (const Factor& a : shared) {
      for (const Factor& b : term.factors) {
        if (order(*a.atom, *b.atom) == 0) both.push_back({a.atom, std::min(a.power, b.power)});
      }
    }
    shared = std::move(both);
  }
  return from_term(1, shared);
}

}  // namespace

std::string Range::to_string() const {
  return (lower == lowest ? "" : std::to_string(lower)) + ".." + (upper == highest ? "" : std::to_string(upper));
}

void Facts::declare(const std::string& symbol, Range range) {
  memory_ = {};
  ranges_[symbol] = range;
  known_ranges_[symbol] = range;
  if (range.lower == range.upper) {
    pin(symbol, range.lower);
    memory_ = {};  // as in assume()
  }
}

bool Facts::assume(const SymBool& truth) {
  const Truth known = decide(truth);
  if (known == Truth::refuted) return false;
  if (truth.constant()) return true;
  if (truth.node()->kind == Kind::all) {
    const std::vector<SymBool> parts = truth.node()->operands;
    return std::all_of(parts.begin(), parts.end(), [&](const SymBool& part) { return assume(part); });
  }
  if (std::find(assumptions_.begin(), assumptions_.end(), truth) != assumptions_.end()) return true;
  memory_ = {};
  assumptions_.push_back(truth);
  if (known == Truth::open && truth.node()->kind != Kind::any && truth.node()->kind != Kind::opaque) {
    learn(*truth.node());
    memory_ = {};  // more witnesses are found by what was learned
  }
  return true;
}

Facts Facts::about(const SymBool& truth, const std::vector<SymBool>& more) const {
  std::vector<std::pair<const SymBool*, std::set<std::string>>> others;
  for (const std::vector<SymBool>* truths : {&assumptions_, &more})
    for (const SymBool& other : *truths) others.emplace_back(&other, other.symbols());
  std::set<std::string> symbols = truth.symbols();
  const auto is_tied = [&](const auto& other) {
    return *other.first == truth ||  // which may be of no symbol
           std::ranges::any_of(other.second, [&](const std::string& symbol) { return symbols.contains(symbol); });
  };
  for (size_t known = 0; known != symbols.size();) {
    known = symbols.size();
    for (const auto& other : others)
      if (is_tied(other)) symbols.insert(other.second.begin(), other.second.end());
  }
  Facts facts;
  for (const auto& [symbol, range] : ranges_)
    if (symbols.contains(symbol)) facts.declare(symbol, range);
  for (const auto& other : others)
    if (is_tied(other)) facts.assume(*other.first);
  return facts;
}

void Facts::learn(const BoolNode& comparison) {
  const SymInt x = simplify(comparison.difference);
  if (is_overflow(x) || x.is_constant()) return;
  if (comparison.kind == Kind::eq) return learn_zero(x);
  if (comparison.kind == Kind::le) return learn_nonpositive(x);
  if (const Interval known = Proof(*this).interval(x); known.lower > 0 || known.upper < 0) return;
  if (std::find(nonzeros_.begin(), nonzeros_.end(), x) != nonzeros_.end()) return;
  nonzeros_.push_back(x);
  if (const Terms terms = terms_of(x); terms.size() == 1) {
    // No factor of a product is 0, either.
    for (const Factor& factor : terms[0].factors) {
      const SymInt y = from_term(1, {{factor.atom, 1}});
      if (!(y == x)) learn({.kind = Kind::ne, .difference = y});
    }
  }
  if (Proof(*this).lower(x, 0) >= 0) learn_nonpositive(SymInt(1) - x);
  if (Proof(*this).upper(x, 0) <= 0) learn_nonpositive(x + SymInt(1));
}

void Facts::learn_zero(const SymInt& given) {
  // 4*((s + 3)//4) == s says (s + 3) % 4 == 3.
  const SymInt opened = open_divisions(given);
  const Atom* remainder = only_atom(opened);
  const bool is_shorter = remainder && remainder->kind == AtomKind::mod && remainder->operands[1].is_constant();
  const SymBool truth = equal(is_shorter ? opened : given, 0);  // divides by the common divisor
  if (truth.constant()) return;
  const SymInt x = truth.node()->difference;
  // a//8 == b//8, of multiples of 8, says a == b.
  const size_t pinned = pinned_.size(), residues = residues_.size();
  learn_by_multiples(x);
  if (pinned_.size() != pinned || residues_.size() != residues) return learn({.kind = Kind::eq, .difference = x});
  if (const std::set<std::string> symbols = x.symbols(); symbols.size() == 1) {
    const SymInt symbol = SymInt::symbol(*symbols.begin());
    const std::optional<Range> range = range_at_zero(x, *symbols.begin());
    if (const Range known = bounds(symbol); range && !(intersect(known, *range) == known)) {
      tighten(*symbols.begin(), *range);
      return learn({.kind = Kind::eq, .difference = x});
    }
  }
  // n*n == 5*n*(n//5) says n == 5*(n//5), where n is positive.
  const SymInt shared = common_monomial(x);
  if (!(shared == SymInt(1)) && Proof(*this).lower(shared, 1) >= 1)
    if (const std::optional<SymInt> rest = exact_quotient(x, shared)) return learn_zero(*rest);
  // n**2 == 16*(n//4)**2 says n == 4*(n//4).
  if (const std::optional<SymInt> roots = Proof(*this).difference_of_roots(x))
    return learn({.kind = Kind::eq, .difference = *roots});
  if (const std::optional<std::string> symbol = solvable_symbol(x)) {
    const SymInt self = SymInt::symbol(*symbol);
    pin(*symbol, coefficient_of(x, *symbol) == 1 ? self - x : self + x);
    return;
  }
  if (std::find(zeros_.begin(), zeros_.end(), x) != zeros_.end()) return;
  zeros_.push_back(x);
  learn_extremum(x);
  // Another atom that occurs once, as in s % 4 == 0, is replaced too.
  const std::string last = last_found(x);
  for (const Term* term : solvable_terms(x)) {
    const Atom& atom = *term->factors[0].atom;
    const SymInt self = from_term(1, term->factors);
    const SymInt value = term->coefficient == 1 ? self - x : self + x;
    if (atom.kind == AtomKind::mod && atom.operands[1].is_constant() && value.is_constant()) {
      // (x + c) % m == r says x % m == (r - c) % m.
      const int64_t modulus = *atom.operands[1].constant(), beside = constant_term(atom.operands[0]);
      if (modulus > 0) {
        const int64_t remainder = mod(mod(*value.constant(), modulus) - mod(beside, modulus), modulus);
        residues_.push_back({atom.operands[0] - SymInt(beside), modulus, remainder});
        learn_multiple(residues_.back());
      }
    }
    if (value.to_string().find(atom.spelling) != std::string::npos || last_found(self) != last) continue;
    const std::map<std::string, SymInt> alone = {{atom.spelling, value}};
    std::map<std::string, SymInt> others = std::exchange(replaced_, alone);
    for (auto& [spelling, other] : others)
      if (const SymInt y = simplify(other); y.to_string().find(spelling) == std::string::npos) other = y;
    others.insert(alone.begin(), alone.end());
    replaced_ = std::move(others);
    if (atom.kind == AtomKind::floor_div && atom.operands[1].constant().value_or(0) > 0) {
      // A quotient that is v: the dividend is at least v times the divisor, and less than v + 1 times.
      const SymInt &dividend = atom.operands[0], &divisor = atom.operands[1];
      learn({.kind = Kind::le, .difference = divisor * value - dividend});
      learn({.kind = Kind::le, .difference = dividend - divisor * value - divisor + SymInt(1)});
    }
    // What is known of the atom is known of its value: n * (6*m // n) == 6*m, once 6*m // n is 6, says n == m, and
    // n % 4 == 0, once n//4 is 2*(n//8), says n % 8 == 0. By this atom alone, as each of the others would make nothing
    // of what it comes from; once, as two could go round in turn.
    if (is_rewriting_) return;
    is_rewriting_ = true;
    std::vector<SymInt> rewritten;
    std::map<std::string, SymInt> all = std::exchange(replaced_, alone);
    for (const SymInt& known : zeros_) rewritten.push_back(simplify(known));
    for (const auto& [x, modulus, remainder] : residues_)
      rewritten.push_back(simplify(x - SymInt(remainder) - SymInt(modulus) * floor_div(x, SymInt(modulus))));
    replaced_ = std::move(all);
    for (const SymInt& y : rewritten) {
      if (y.is_constant() || is_overflow(y) || std::find(zeros_.begin(), zeros_.end(), y) != zeros_.end()) continue;
      learn({.kind = Kind::eq, .difference = y});
    }
    is_rewriting_ = false;
    return;
  }
}

void Facts::learn_multiple(const Residue& residue) {
  const std::optional<std::string> symbol = residue.x.as_symbol();
  if (!symbol || residue.modulus <= 0) return;
  const auto found = multiples_.find(*symbol);
  if (found != multiples_.end() && residue.modulus % found->second.polynomial()->terms[0].coefficient != 0) return;
  const std::string quotient = *symbol + "'";
  const Range range = aligned(known_ranges_.contains(*symbol) ? known_ranges_.at(*symbol) : Range{0, Range::highest},
                              residue.modulus, residue.remainder);
  const auto divided = [&](int64_t end) { return floor_div(end, residue.modulus); };
  known_ranges_[quotient] = {range.lower == Range::lowest ? range.lower : divided(range.lower),
                             range.upper == Range::highest ? range.upper : divided(range.upper)};
  multiples_[*symbol] = SymInt(residue.modulus) * SymInt::symbol(quotient) + SymInt(residue.remainder);
  tighten(*symbol, range);
  for (const SymInt& x : std::vector<SymInt>(zeros_)) learn_by_multiples(x);
}

// a//8 == b//8, of two multiples of 8, says a == b; s//2 == 2*(s//4), of an even s, that s is one of 4. The symbols of
// quotients are not kept in what is learned: what they stand for changes as more is known of what they divide.
void Facts::learn_by_multiples(const SymInt& zero) {
  if (const std::set<std::string> symbols = zero.symbols(); symbols.size() == 1) {
    const SymInt symbol = SymInt::symbol(*symbols.begin());
    std::vector<Remainder> known;
    for (const Residue& residue : residues_)
      if (residue.x == symbol) known.push_back({residue.modulus, residue.remainder});
    const std::optional<Remainder> found = remainder_at_zero(zero, *symbols.begin(), known);
    const auto says_it = [&](const Remainder& other) { return other.modulus % found->modulus == 0; };
    if (found && std::ranges::none_of(known, says_it)) {
      const SymInt remainder = mod(symbol, found->modulus) - SymInt(found->remainder);
      if (!(remainder == zero || -remainder == zero)) return learn({.kind = Kind::eq, .difference = remainder});
    }
  }
  const SymBool truth = equal(simplify(substitute(zero, multiples_)), 0);  // divides by the common divisor
  if (truth.constant()) return;
  const SymInt& difference = truth.node()->difference;
  const auto quotient_of = [](const std::string& symbol) { return symbol + "'"; };
  for (const auto& [a, of_a] : multiples_)
    for (const auto& [b, of_b] : multiples_) {
      if (coefficient_of(of_a, quotient_of(a)) != coefficient_of(of_b, quotient_of(b)) ||
          !(difference == SymInt::symbol(quotient_of(a)) - SymInt::symbol(quotient_of(b))))
        continue;
      const SymInt found = SymInt::symbol(a) - SymInt::symbol(b) - SymInt(constant_term(of_a) - constant_term(of_b));
      if (found == zero || -found == zero) return;
      return learn({.kind = Kind::eq, .difference = found});
    }
}

// A maximum that is v: no operand is more, and where only one can reach v, that one is v. Likewise a minimum.
void Facts::learn_extremum(const SymInt& zero) {
  const std::optional<LoneExtremum> found = lone_extremum(zero);
  if (!found) return;
  const bool is_max = found->atom->kind == AtomKind::max;
  std::vector<SymInt> reaching;
  for (const SymInt& operand : found->atom->operands) {
    const SymInt beyond = is_max ? operand - found->value : found->value - operand;
    if (bounds(beyond).upper >= 0) reaching.push_back(beyond);
  }
  for (const SymInt& beyond : reaching)
    learn({.kind = reaching.size() == 1 ? Kind::eq : Kind::le, .difference = beyond});
}

void Facts::learn_nonpositive(const SymInt& x) {
  if (const Atom* atom = only_atom(x)) {
    const int64_t c = x.polynomial()->terms[0].coefficient, d = constant_term(x);  // c*atom + d <= 0
    if (d == INT64_MIN || c == INT64_MIN) return;
    const int64_t end = c > 0 ? floor_div(-d, c) : -floor_div(-d, -c);
    // A lone symbol has a range, and a lone quotient a dividend.
    if (atom->kind == AtomKind::symbol)
      return tighten(atom->spelling, c > 0 ? Range{Range::lowest, end} : Range{end, Range::highest});
    if (atom->kind == AtomKind::floor_div && atom->operands[1].constant().value_or(0) > 0) {
      const SymInt beyond = atom->operands[0] - atom->operands[1] * SymInt(end);
      learn({.kind = Kind::le, .difference = c > 0 ? beyond - atom->operands[1] + SymInt(1) : -beyond});
    }
  }
  if (std::find(nonpositives_.begin(), nonpositives_.end(), x) != nonpositives_.end()) return;
  nonpositives_.push_back(x);
  if (const SymInt opened = open_divisions(x); !(opened == x)) nonpositives_.push_back(opened);
  // A maximum that is at most v has no operand above v; a minimum that is at least v has none below.
  const std::optional<LoneExtremum> extremum = lone_extremum(x);
  if (!extremum || extremum->is_positive != (extremum->atom->kind == AtomKind::max)) return;
  for (const SymInt& operand : extremum->atom->operands)
    learn({.kind = Kind::le,
           .difference = extremum->is_positive ? operand - extremum->value : extremum->value - operand});
}

void Facts::tighten(const std::string& symbol, Range range) {
  const auto found = known_ranges_.find(symbol);
  Range known = intersect(found == known_ranges_.end() ? Range{0, Range::highest} : found->second, range);
  if (const auto multiple = multiples_.find(symbol); multiple != multiples_.end())
    known = aligned(known, multiple->second.polynomial()->terms[0].coefficient, constant_term(multiple->second));
  if (found != known_ranges_.end() && found->second == known) return;
  known_ranges_[symbol] = known;
  if (known.lower == known.upper) return pin(symbol, known.lower);
  // What is assumed of max(1, s) // 2 is asked of s // 2 once s is known to be positive.
  std::map<std::string, SymInt> replaced;
  replaced.swap(replaced_);
  std::vector<BoolNode> simpler;
  for (const SymInt& x : zeros_) simpler.push_back({.kind = Kind::eq, .difference = simplify(x)});
  for (const SymInt& x : nonpositives_) simpler.push_back({.kind = Kind::le, .difference = simplify(x)});
  replaced.swap(replaced_);
  for (const BoolNode& relation : simpler) {
    const std::vector<SymInt>& known = relation.kind == Kind::eq ? zeros_ : nonpositives_;
    if (std::find(known.begin(), known.end(), relation.difference) == known.end()) learn(relation);
  }
}

// Everything that is known is rewritten without the symbol; its range becomes one of its value.
void Facts::pin(const std::string& symbol, const SymInt& value) {
  if (pinned_.contains(symbol)) return;
  const auto found = known_ranges_.find(symbol);
  const Range range = found == known_ranges_.end() ? Range{0, Range::highest} : found->second;
  const Substitution replacement = {{symbol, value}};
  for (auto& [name, x] : pinned_) x = substitute(x, replacement);
  pinned_.emplace(symbol, value);

  std::vector<SymInt> relearned[3];
  relearned[0].swap(zeros_);
  relearned[1].swap(nonpositives_);
  relearned[2].swap(nonzeros_);
  std::vector<Residue> residues;
  residues.swap(residues_);
  replaced_.clear();
  const auto relearn = [&](Kind kind, const SymInt& x) {
    const SymInt y = simplify(substitute(x, replacement));
    if (!y.is_constant() && !is_overflow(y)) learn({.kind = kind, .difference = y});
  };
  for (const SymInt& x : relearned[0]) relearn(Kind::eq, x);
  // After the equalities, of which some would else look known already, and be lost.
  for (const Residue& residue : residues) {
    const SymInt x = substitute(residue.x, replacement);
    if (!x.is_constant()) residues_.push_back({x, residue.modulus, residue.remainder});
  }
  for (const SymInt& x : relearned[1]) relearn(Kind::le, x);
  for (const SymInt& x : relearned[2]) relearn(Kind::ne, x);
  if (range.lower != Range::lowest) relearn(Kind::le, SymInt(range.lower) - value);
  if (range.upper != Range::highest) relearn(Kind::le, value - SymInt(range.upper));
}

Range Facts::bounds(const SymInt& x) const {
  Proof proof(*this);
  const SymInt simple = proof.simplify(x);
  // A symbol is a size: negative values end the search below, none ends it above.
  const Bound upper = Proof(*this).upper(simple, -infinite), lower = Proof(*this).lower(simple, infinite);
  return {lower <= -infinite ? Range::lowest : static_cast<int64_t>(std::min<Bound>(lower, Range::highest)),
          upper >= infinite ? Range::highest : static_cast<int64_t>(std::max<Bound>(upper, Range::lowest))};
}

SymInt Facts::simplify(const SymInt& x) const { return Proof(*this).simplify(x); }

std::optional<int64_t> Facts::value_of(const SymInt& x) const {
  constexpr int64_t few = 64;
  const SymInt simple = simplify(x);
  if (simple.is_constant()) return simple.constant();
  const std::set<std::string> symbols = simple.symbols();
  const auto range = symbols.size() == 1 ? known_ranges_.find(*symbols.begin()) : known_ranges_.end();
  if (range == known_ranges_.end() || range->second.upper >= few || range->second.lower < -few) return std::nullopt;
  std::optional<int64_t> only;
  for (int64_t value = range->second.lower; value <= range->second.upper; ++value) {
    const std::optional<int64_t> here = evaluate(simple, {{*symbols.begin(), value}});
    if (!here || (only && *only != *here)) return std::nullopt;
    only = here;
  }
  return only;
}

Truth Facts::decide(const SymBool& question, bool refutes) const {
  if (const std::optional<bool> value = question.constant()) return from_bool(*value);
  const std::string key = (refutes ? "" : "proves ") + question.to_string();
  if (const auto known = memory_.answers.find(key); known != memory_.answers.end()) return known->second;
  return memory_.answers[key] = search(question, refutes);
}

Truth Facts::search(const SymBool& question, bool refutes) const {
  for (const SymBool& truth : assumptions_) {
    if (truth == question) return Truth::proven;
  }
  const BoolNode& node = *question.node();
  if (node.kind == Kind::opaque || node.kind == Kind::any || node.kind == Kind::all) {
    const SymBool contrary = negate(question);
    for (const SymBool& truth : assumptions_) {
      if (truth == contrary) return Truth::refuted;
    }
    if (node.kind == Kind::opaque) return Truth::open;
  }
  if (node.kind == Kind::all || node.kind == Kind::any) {
    const Truth deciding = from_bool(node.kind == Kind::any);
    Truth out = opposite(deciding);
    for (const SymBool& operand : node.operands) {
      const Truth truth = decide(operand, refutes);
      if (truth == deciding) return deciding;
      if (truth == Truth::open) out = Truth::open;
    }
    return out;
  }
  const SymInt simple = simplify(node.difference);
  const SymInt by_multiples = multiples_.empty() ? simple : simplify(substitute(simple, multiples_));
  if (!(by_multiples == simple)) {
    const Truth truth = decide(node.kind, by_multiples, refutes);
    if (truth != Truth::open) return truth;
  }
  if (const Truth truth = decide(node.kind, simple, refutes); truth != Truth::open) return truth;
  // What holds whatever is known may be hard to see where a part of it is replaced: n % 2 + n == 2*((n + 1)//2).
  if (node.kind != Kind::le && is_identically_zero(node.difference)) return from_bool(node.kind == Kind::eq);
  const SymInt shorter = Proof(*this).simplify_thoroughly(simple);
  return shorter == simple ? Truth::open : decide(node.kind, shorter, refutes);
}

Truth Facts::decide(Kind kind, const SymInt& difference, bool refutes) const {
  if (kind == Kind::ne) return opposite(decide_zero(difference));
  return kind == Kind::eq ? decide_zero(difference) : decide_nonpositive(difference, refutes);
}

Truth Facts::decide_nonpositive(const SymInt& given, bool refutes) const {
  const SymBool question = less_equal(given, 0);
  if (const std::optional<bool> value = question.constant()) return from_bool(*value);
  SymInt x = question.node()->difference;
  const SymInt shared = common_monomial(x);
  if (!(shared == SymInt(1))) {
    const Bound least = Proof(*this).lower(shared, 1);
    const std::optional<SymInt> rest = exact_quotient(x, shared);
    // x is shared * rest: its sign is that of rest, or 0.
    if (least >= 0 && rest) {
      const Truth truth = decide_nonpositive(*rest, refutes);
      if (truth == Truth::proven || least >= 1) return truth;
    }
  }
  if (Proof(*this).is_at_most(x, 0)) return Truth::proven;
  return refutes && Proof(*this).is_at_most(-x, -1) ? Truth::refuted : Truth::open;
}

Truth Facts::decide_zero(const SymInt& given) const {
  const SymBool question = equal(given, 0);
  if (const std::optional<bool> value = question.constant()) return from_bool(*value);
  SymInt x = question.node()->difference;
  if (is_overflow(x)) return Truth::open;
  const SymInt shared = common_monomial(x);
  if (!(shared == SymInt(1))) {
    const std::optional<SymInt> rest = exact_quotient(x, shared);
    if (rest && Proof(*this).lower(shared, 1) >= 1) return decide_zero(*rest);
  }
  if (const std::optional<SymInt> roots = Proof(*this).difference_of_roots(x)) return decide_zero(simplify(*roots));
  const auto is_known = [&](const SymInt& y) { return y == x || y == -x; };
  if (std::any_of(nonzeros_.begin(), nonzeros_.end(), is_known)) return Truth::refuted;
  if (std::any_of(zeros_.begin(), zeros_.end(), is_known)) return Truth::proven;
  // Remainders: x cannot be 0 if it is not 0 modulo something.
  for (const Residue& residue : residues_) {
    if (Proof(*this).residue(x, residue.modulus).value_or(0) != 0) return Truth::refuted;
  }
  if (const Interval known = Proof(*this).interval(open_divisions(x)); known.lower > 0 || known.upper < 0)
    return Truth::refuted;
  const bool is_once_zero = std::any_of(witnesses().begin(), witnesses().end(),
                                        [&](const Bindings& witness) { return evaluate(x, witness) == 0; });
  if (is_once_zero && (Proof(*this).attained(x) > 0 || Proof(*this).attained(-x) > 0)) return Truth::open;
  if (is_identically_zero(x) || value_of(x) == 0) return Truth::proven;
  const Bound upper = Proof(*this).upper(x, 0);
  if (upper < 0) return Truth::refuted;
  const Bound lower = Proof(*this).lower(x, 0);
  if (lower > 0) return Truth::refuted;
  if (upper == 0 && lower == 0) return Truth::proven;
  // Those searches stopped at 0: one of them may get further.
  if (upper == 0 && Proof(*this).upper(x, -1) < 0) return Truth::refuted;
  if (lower == 0 && Proof(*this).lower(x, 1) > 0) return Truth::refuted;
  return Truth::open;
}

}  // namespace atenon::shape
