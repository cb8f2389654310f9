// Bounds of expressions: interval arithmetic first, then a bounded search.
//
// The search adds to an expression what is known to be nonpositive so that a term without a bound cancels (as in
// Fourier-Motzkin elimination), and takes min and max apart into cases. Each step keeps an upper bound an upper bound,
// so whatever it finds is sound; what it does not find in its budget stays open.
#include "shape/proof.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "shape/terms.h"

namespace atenon::shape {
namespace {

// Results beyond int64 become infinite on the side where that is sound, and the largest int64 on the other.
Bound clamp_lower(Bound x) { return x < INT64_MIN ? -infinite : std::min<Bound>(x, INT64_MAX); }
Bound clamp_upper(Bound x) { return x > INT64_MAX ? infinite : std::max<Bound>(x, INT64_MIN); }

bool is_infinite(Bound x) { return x >= infinite || x <= -infinite; }

Interval add(Interval a, Interval b) {
  return {is_infinite(a.lower) || is_infinite(b.lower) ? -infinite : clamp_lower(a.lower + b.lower),
          is_infinite(a.upper) || is_infinite(b.upper) ? infinite : clamp_upper(a.upper + b.upper)};
}

Bound multiply(Bound a, Bound b) {
  if (a == 0 || b == 0) return 0;
  if (is_infinite(a) || is_infinite(b)) return (a < 0) == (b < 0) ? infinite : -infinite;
  return a * b;  // 63 bits times 63 bits
}

Interval multiply(Interval a, Interval b) {
  const Bound corners[] = {multiply(a.lower, b.lower), multiply(a.lower, b.upper), multiply(a.upper, b.lower),
                           multiply(a.upper, b.upper)};
  const auto [least, most] = std::minmax_element(std::begin(corners), std::end(corners));
  return {*least <= -infinite ? -infinite : clamp_lower(*least), *most >= infinite ? infinite : clamp_upper(*most)};
}

Interval power(Interval base, int n) {
  Interval out = {1, 1};
  for (int i = 0; i < n; ++i) out = multiply(out, base);
  if (n % 2 == 0) out.lower = std::max<Bound>(out.lower, 0);
  return out;
}

Bound floor_quotient(Bound a, Bound b) {  // b > 0
  if (is_infinite(a)) return a;
  if (is_infinite(b)) return a < 0 ? -1 : 0;
  return a / b - (a % b < 0);
}

Bound magnitude(Interval x) { return std::max(x.lower < 0 ? -x.lower : x.lower, x.upper < 0 ? -x.upper : x.upper); }

Interval negate(Interval x) { return {-x.upper, -x.lower}; }

Interval divide(Interval a, Interval b) {
  if (b.lower >= 0 && b.upper <= 0) return {};
  if (b.upper <= 0) return divide(negate(a), negate(b));
  if (b.lower < 0) return {-magnitude(a), magnitude(a)};
  b.lower = std::max<Bound>(b.lower, 1);  // a divisor is not 0
  return {floor_quotient(a.lower, a.lower < 0 ? b.lower : b.upper),
          floor_quotient(a.upper, a.upper < 0 ? b.upper : b.lower)};
}

Interval modulus(Interval a, Interval b) {
  if (b.lower >= 0 && b.upper <= 0) return {};
  if (b.upper <= 0) return negate(modulus(negate(a), negate(b)));
  if (b.lower < 0) return {-magnitude(b), magnitude(b)};
  Interval out = {0, is_infinite(b.upper) ? infinite : b.upper - 1};
  if (a.lower >= 0) out.upper = std::min(out.upper, a.upper);
  if (a.lower >= 0 && a.upper < b.lower) out.lower = a.lower;
  return out;
}

Bound to_bound(double x) { return !(std::abs(x) < 0x1p62) ? (x < 0 ? -infinite : infinite) : static_cast<Bound>(x); }

// x with `atom` replaced where it is a factor (not inside other atoms).
SymInt replace(const SymInt& x, const Atom& atom, const SymInt& by) {
  SymInt sum = 0;
  for (const Term& term : terms_of(x)) {
    SymInt value = term.coefficient;
    for (const Factor& factor : term.factors) {
      const SymInt base = order(*factor.atom, atom) == 0 ? by : from_term(1, {{factor.atom, 1}});
      for (int i = 0; i < factor.power; ++i) value = value * base;
    }
    sum = sum + value;
  }
  return sum;
}

const Atom* find_extremum(const SymInt& x) {
  for (const Term& term : terms_of(x)) {
    for (const Factor& factor : term.factors) {
      if (factor.atom->kind == AtomKind::min || factor.atom->kind == AtomKind::max) return factor.atom.get();
    }
  }
  return nullptr;
}

// Whether a multiple of the atom is a term of x.
bool has_term(const SymInt& x, const SymInt& atom) {
  const Terms terms = terms_of(x), wanted = terms_of(atom);
  return wanted.size() == 1 &&
         std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return same(t.factors, wanted[0].factors); });
}

}  // namespace

SymInt open_divisions(const SymInt& x) {
  for (const Term& term : terms_of(x)) {
    for (const Factor& factor : term.factors) {
      if (factor.atom->kind != AtomKind::floor_div || factor.power != 1) continue;
      const SymInt &dividend = factor.atom->operands[0], &divisor = factor.atom->operands[1];
      const SymInt rest = from_term(term.coefficient, *divide(term.factors, {factor}));
      const auto multiple = exact_quotient(rest, divisor);
      if (!multiple) continue;
      return open_divisions(x - rest * from_term(1, {factor}) + *multiple * (dividend - mod(dividend, divisor)));
    }
  }
  return x;
}

Periods periods_of(const SymInt& x) {
  constexpr int64_t longest = 1024;
  Periods out;
  for (const Term& term : terms_of(x)) {
    for (const Factor& factor : term.factors) {
      const Atom& atom = *factor.atom;
      if (atom.kind == AtomKind::symbol) out.emplace(atom.spelling, 1);
      const bool divides = atom.kind == AtomKind::floor_div || atom.kind == AtomKind::mod;
      const int64_t divisor = divides ? atom.operands[1].constant().value_or(1) : 1;
      for (const SymInt& operand : atom.operands) {
        for (const auto& [symbol, period] : periods_of(operand)) {
          int64_t& known = out.emplace(symbol, 1).first->second;
          known = divisor <= 0 || divisor > longest ? 0 : std::lcm(known, period * divisor);
          if (known > longest) known = 0;
        }
      }
    }
  }
  return out;
}

bool is_identically_zero(const SymInt& x) {
  constexpr int64_t most_work = 1 << 14;  // terms, of products that are multiplied out, in all cases together
  int64_t work = 0;
  for (const Term& term : terms_of(x)) work += int64_t{1} << std::min<size_t>(term.factors.size(), 20);
  const Periods periods = periods_of(x);
  int64_t cases = 1;
  for (const auto& [symbol, period] : periods) {
    if (period == 0 || (cases *= period) * work > most_work) return false;
  }
  for (int64_t i = 0; i < cases && cases > 1; ++i) {
    Substitution substitution;
    int64_t rest = i;
    for (const auto& [symbol, period] : periods) {
      substitution[symbol] = SymInt(period) * SymInt::symbol(symbol) + SymInt(rest % period);
      rest /= period;
    }
    if (!(substitute(x, substitution) == SymInt(0))) return false;
  }
  return cases > 1;
}

// --- Intervals

Interval Proof::interval(const SymInt& x) {
  if (x.is_constant()) return {*x.constant(), *x.constant()};
  Interval sum = {0, 0};
  for (const Term& term : x.polynomial()->terms) sum = add(sum, interval(term));
  return sum;
}

Interval Proof::interval(const Term& term) {
  Interval out = {term.coefficient, term.coefficient};
  for (const Factor& factor : term.factors) out = multiply(out, power(interval(*factor.atom), factor.power));
  return out;
}

Interval Proof::interval(const Atom& atom) {
  if (atom.kind == AtomKind::symbol) {
    const auto found = facts_.known_ranges_.find(atom.spelling);
    if (found == facts_.known_ranges_.end()) return {0, infinite};
    const Range& range = found->second;
    return {range.lower == Range::lowest ? -infinite : range.lower,
            range.upper == Range::highest ? infinite : range.upper};
  }
  if (const auto known = intervals_.find(atom.spelling); known != intervals_.end()) return known->second;
  return intervals_[atom.spelling] = interval_of_operation(atom);
}

Interval Proof::interval_of_operation(const Atom& atom) {
  const auto of = [&](size_t i) { return interval(open_divisions(atom.operands[i])); };
  switch (atom.kind) {
    case AtomKind::floor_div:
      return divide(of(0), of(1));
    case AtomKind::mod:
      return modulus(of(0), of(1));
    case AtomKind::min:
    case AtomKind::max: {
      Interval out = of(0);
      for (size_t i = 1; i < atom.operands.size(); ++i) {
        const Interval x = of(i);
        out = atom.kind == AtomKind::min ? Interval{std::min(out.lower, x.lower), std::min(out.upper, x.upper)}
                                         : Interval{std::max(out.lower, x.lower), std::max(out.upper, x.upper)};
      }
      return out;
    }
    case AtomKind::floor:
    case AtomKind::ceil:
    case AtomKind::trunc:
    case AtomKind::round: {
      const auto [lower, upper] = interval(atom.floats[0]);
      return {to_bound(std::floor(lower)), to_bound(std::ceil(upper))};
    }
    case AtomKind::symbol:
    case AtomKind::overflow:
      break;
  }
  return {};
}

// Rounding is monotonic, so the rounded ends bound the rounded values.
std::pair<double, double> Proof::interval(const SymFloat& x) {
  if (x.constant()) return {*x.constant(), *x.constant()};
  const FloatNode& node = *x.node();
  if (node.op == "from") {
    const Interval of = interval(open_divisions(node.integer));
    return {is_infinite(of.lower) ? -HUGE_VAL : static_cast<double>(of.lower),
            is_infinite(of.upper) ? HUGE_VAL : static_cast<double>(of.upper)};
  }
  std::pair<double, double> out = {-HUGE_VAL, HUGE_VAL};
  if (node.op == "number") return out;
  const auto [a, b] = interval(node.operands[0]);
  if (node.op == "sqrt" && a >= 0) out = {std::sqrt(a), std::sqrt(b)};
  if (node.op == "log2" && a > 0) out = {std::log2(a), std::log2(b)};
  if (node.op == "abs") out = {a > 0 ? a : b < 0 ? -b : 0, std::max(std::abs(a), std::abs(b))};
  if (node.operands.size() == 2) {
    const auto [c, d] = interval(node.operands[1]);
    if (node.op == "pow" && a == b && a >= 1) out = {std::pow(a, c), std::pow(a, d)};
    if (node.op == "pow" && c == d && c >= 0 && a >= 0) out = {std::pow(a, c), std::pow(b, c)};
    if (node.op == "+") out = {a + c, b + d};
    if (node.op == "-") out = {a - d, b - c};
    if (node.op == "min") out = {std::min(a, c), std::min(b, d)};
    if (node.op == "max") out = {std::max(a, c), std::max(b, d)};
    if (node.op == "*" || (node.op == "/" && c > 0)) {
      const auto apply = [&](double x, double y) {
        if (node.op == "/") return std::isinf(x) && std::isinf(y) ? x : x / y;
        return x == 0 || y == 0 ? 0 : x * y;
      };
      const auto [least, most] = std::minmax({apply(a, c), apply(a, d), apply(b, c), apply(b, d)});
      out = {node.op == "/" && a >= 0 && std::isinf(d) ? 0 : least,
             node.op == "/" && b <= 0 && std::isinf(d) ? 0 : most};
    }
  }
  if (std::isnan(out.first) || std::isnan(out.second)) return {-HUGE_VAL, HUGE_VAL};
  return out;
}

// The interval after every factor f was written as f' + its lower bound (or upper bound - f'), with f' >= 0: how
// products of sizes show their sign, as in s*t - s with t >= 1.
Interval Proof::shifted_interval(const SymInt& x, bool from_above) {
  size_t products = 0;
  for (const Term& term : terms_of(x)) products += size_t{1} << std::min<size_t>(term.factors.size(), 10);
  if (products > most_products) return {};
  std::vector<SymInt> values;
  std::map<std::string, Bound> widths;
  for (const Term& term : terms_of(x)) {
    SymInt value = term.coefficient;
    for (const Factor& factor : term.factors) {
      const Interval of = interval(*factor.atom);
      if (is_infinite(of.lower)) return {};
      const bool flip = from_above && !is_infinite(of.upper);
      const SymInt fresh = from_term(flip ? -1 : 1, {{factor.atom, 1}});
      const SymInt base = fresh + SymInt(static_cast<int64_t>(flip ? of.upper : of.lower));
      widths[factor.atom->spelling] = is_infinite(of.upper) ? infinite : of.upper - of.lower;
      for (int i = 0; i < factor.power; ++i) value = value * base;
    }
    values.push_back(value);
  }
  // By halves: each sum copies its terms.
  for (; values.size() > 1; values.resize((values.size() + 1) / 2))
    for (size_t i = 0, apart = (values.size() + 1) / 2; i + apart < values.size(); ++i)
      values[i] = values[i] + values[i + apart];
  const SymInt shifted = values.empty() ? SymInt(0) : values[0];
  if (is_overflow(shifted)) return {};
  Interval sum = {0, 0};
  for (const Term& term : terms_of(shifted)) {
    Interval out = {term.coefficient, term.coefficient};
    for (const Factor& factor : term.factors)
      out = multiply(out, power({0, widths[factor.atom->spelling]}, factor.power));
    sum = add(sum, out);
  }
  return sum;
}

// --- Search

Bound Proof::attained(const SymInt& x) {
  if (!witnesses_) {
    witnesses_.emplace();
    for (const Bindings& witness : facts_.witnesses()) witnesses_->push_back(&witness);
  }
  Bound most = -infinite;
  for (const Bindings* witness : *witnesses_) {
    if (const std::optional<int64_t> value = evaluate(x, *witness)) most = std::max<Bound>(most, *value);
  }
  return most;
}

Bound Proof::upper(const SymInt& x, Bound enough) {
  const Bound known = interval(open_divisions(x)).upper;
  if (known <= enough) return known;
  is_pruning_ = !is_infinite(enough);
  return upper(x, std::max(enough, attained(x)), search_depth);
}

Bound Proof::upper(const SymInt& given, Bound enough, int depth) {
  if (is_overflow(given)) return infinite;
  const SymInt x = open_divisions(given);
  if (is_overflow(x)) return infinite;
  Bound best = std::min(interval(x).upper, upper_by_operands(given));
  if (best <= enough || (is_pruning_ && attained(x) > enough)) return best;
  const bool products =
      !x.is_constant() && std::any_of(x.polynomial()->terms.begin(), x.polynomial()->terms.end(), [](const Term& t) {
        return t.factors.size() > 1 || (t.factors.size() == 1 && t.factors[0].power > 1);
      });
  if (products) {
    best = std::min({best, shifted_interval(x, false).upper, shifted_interval(x, true).upper});
  }
  if (best <= enough || depth == 0 || x.is_constant() || --budget_ < 0) return best;

  const Terms terms = terms_of(x);
  if (terms.size() > most_terms) return best;
  const bool unbounded =
      std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return is_infinite(interval(t).upper); });
  for (const SymInt& hint : hints_for(x)) {
    for (const Term& known : terms_of(hint)) {
      if (known.factors.empty()) continue;
      for (const Term& term : terms) {
        if (term.factors.empty() || (term.coefficient > 0) != (known.coefficient > 0)) continue;
        if (unbounded && !is_infinite(interval(term).upper)) continue;
        const auto quotient = divide(term.factors, known.factors);
        if (!quotient) continue;
        const SymInt scale = from_term(1, *quotient);  // hint * scale <= 0 if scale >= 0
        if (!quotient->empty() && interval(scale).lower < 0) continue;
        // a*x - b*scale*hint has no such term any more, and a*x is at most that.
        const SymInt a = known.coefficient < 0 ? -SymInt(known.coefficient) : SymInt(known.coefficient);
        const SymInt b = term.coefficient < 0 ? -SymInt(term.coefficient) : SymInt(term.coefficient);
        const SymInt rest = a * x - b * scale * hint;
        if (is_overflow(rest) || is_overflow(a)) continue;
        const Bound factor = *a.constant();
        // floor(r / a) <= enough exactly if r <= a * enough + a - 1
        const Bound wanted = is_infinite(enough) ? enough : factor * enough + factor - 1;
        best = std::min(best, floor_quotient(upper(rest, wanted, depth - 1), factor));
        if (best <= enough || budget_ < 0) return best;
      }
    }
  }
  return std::min(best, upper_by_cases(x, enough, depth));
}

// A minimum is at most each of its operands, of which one may cancel the rest as it stands: min(a, b) <= b.
Bound Proof::upper_by_operands(const SymInt& x) {
  Bound least = infinite;
  for (const Term& term : terms_of(x)) {
    if (term.factors.size() != 1 || term.factors[0].power != 1) continue;
    const Atom& atom = *term.factors[0].atom;
    if (atom.kind != (term.coefficient > 0 ? AtomKind::min : AtomKind::max)) continue;
    for (const SymInt& operand : atom.operands) {
      const SymInt rest = x + SymInt(term.coefficient) * (operand - from_term(1, {{term.factors[0].atom, 1}}));
      if (!is_overflow(rest)) least = std::min(least, interval(open_divisions(rest)).upper);
    }
  }
  return least;
}

// A minimum or maximum equals one of its operands: the largest bound among the cases holds.
Bound Proof::upper_by_cases(const SymInt& x, Bound enough, int depth) {
  const Atom* atom = find_extremum(x);
  if (atom == nullptr) return infinite;
  const bool least = atom->kind == AtomKind::min;
  Bound most = -infinite;
  for (const SymInt& chosen : atom->operands) {
    const size_t before = cases_.size();
    const std::optional<std::vector<const Bindings*>> all = witnesses_;
    for (const SymInt& other : atom->operands) {
      if (other == chosen) continue;
      cases_.push_back(least ? chosen - other : other - chosen);
      if (witnesses_) std::erase_if(*witnesses_, [&](auto* w) { return evaluate(cases_.back(), *w).value_or(1) > 0; });
    }
    most = std::max(most, upper(replace(x, *atom, chosen), enough, depth - 1));
    cases_.resize(before);
    witnesses_ = all;
    if (most > enough) return infinite;
  }
  return most;
}

// Expressions that are at most 0 and may cancel something: assumptions, and what operations say of their operands.
std::vector<SymInt> Proof::hints_for(const SymInt& x) {
  std::vector<SymInt> hints = cases_;
  hints.insert(hints.end(), facts_.nonpositives_.begin(), facts_.nonpositives_.end());
  for (const SymInt& zero : facts_.zeros_) {
    hints.push_back(zero);
    hints.push_back(-zero);
  }
  for (const Term& term : terms_of(x)) {
    for (const Factor& factor : term.factors) {
      const Atom& atom = *factor.atom;
      const SymInt self = from_term(1, {{factor.atom, 1}});
      const auto positive = [&](const SymInt& y) { return interval(y).lower >= 0; };  // a divisor is not 0
      if (atom.kind == AtomKind::floor_div && positive(atom.operands[1])) {
        hints.push_back(atom.operands[1] * self - atom.operands[0]);
        hints.push_back(atom.operands[0] - atom.operands[1] * self - atom.operands[1] + SymInt(1));
      }
      if (atom.kind == AtomKind::mod && positive(atom.operands[1])) {
        hints.push_back(self - atom.operands[1] + SymInt(1));
        if (positive(atom.operands[0])) hints.push_back(self - atom.operands[0]);
        // Beside its quotient, t%3 + 2*(t//3) is t - t//3.
        const SymInt quotient = floor_div(atom.operands[0], atom.operands[1]);
        if (has_term(x, quotient)) {
          const SymInt zero = atom.operands[1] * quotient + self - atom.operands[0];
          hints.push_back(zero);
          hints.push_back(-zero);
        }
      }
      if (atom.kind == AtomKind::min) {
        for (const SymInt& operand : atom.operands) hints.push_back(self - operand);
      }
      if (atom.kind == AtomKind::max) {
        for (const SymInt& operand : atom.operands) hints.push_back(operand - self);
      }
    }
  }
  return hints;
}

// --- Divisibility

std::optional<int64_t> Proof::residue(const SymInt& x, int64_t modulus) {
  if (modulus <= 0 || is_overflow(x)) return std::nullopt;
  Bound sum = 0;
  SymInt unknown = 0;
  for (const Term& term : terms_of(x)) {
    if (term.coefficient % modulus == 0) continue;
    if (term.factors.empty()) {
      sum += term.coefficient;
      continue;
    }
    // A factor that is a multiple of m makes the term one; a lone one with a known remainder contributes that.
    Bound divisor = term.coefficient;
    std::optional<Bound> alone;
    for (const Factor& factor : term.factors) {
      int64_t multiple = 1;  // of what divides the modulus: of 2 and of 6 is of 6, not of 12
      for (const Facts::Residue& known : facts_.residues_) {
        const Atom* atom = lone_atom(known.x);
        if (atom == nullptr || order(*atom, *factor.atom) != 0) continue;
        if (known.remainder == 0) multiple = std::lcm(multiple, std::gcd(known.modulus, modulus));
        const bool lone = term.factors.size() == 1 && factor.power == 1;
        if (lone && Bound(term.coefficient) * known.modulus % modulus == 0)
          alone = Bound(term.coefficient) * known.remainder;
      }
      for (int i = 0; i < factor.power; ++i) divisor = divisor % modulus * multiple;
    }
    if (divisor % modulus == 0) continue;
    if (alone) {
      sum += *alone;
    } else {
      unknown = unknown + from_term(term.coefficient, term.factors);
    }
  }
  if (!(unknown == SymInt(0))) {
    const auto combined =
        std::find_if(facts_.residues_.begin(), facts_.residues_.end(), [&](const Facts::Residue& known) {
          const std::optional<int64_t> rest = (unknown - known.x).constant();
          return rest && *rest == -constant_term(known.x) && known.modulus % modulus == 0;
        });
    if (combined == facts_.residues_.end()) return std::nullopt;
    sum += combined->remainder - constant_term(combined->x);
  }
  const Bound remainder = sum % modulus;
  return static_cast<int64_t>(remainder < 0 ? remainder + modulus : remainder);
}

// --- Simplification

SymInt Proof::simplify(const SymInt& x) {
  if (x.is_constant() || is_overflow(x)) return x;
  const std::vector<Term>& terms = x.polynomial()->terms;
  const bool plain = std::all_of(terms.begin(), terms.end(), [&](const Term& term) {
    return std::all_of(term.factors.begin(), term.factors.end(), [&](const Factor& factor) {
      return factor.atom->kind == AtomKind::symbol && !facts_.pinned_.contains(factor.atom->spelling);
    });
  });
  if (plain) return x;
  SymInt sum = 0;
  for (const Term& term : terms) {
    SymInt value = term.coefficient;
    for (const Factor& factor : term.factors) {
      const SymInt base = factor.atom->kind == AtomKind::symbol && !facts_.pinned_.contains(factor.atom->spelling)
                              ? from_term(1, {{factor.atom, 1}})
                              : simplify(*factor.atom);
      for (int i = 0; i < factor.power; ++i) value = value * base;
    }
    sum = sum + value;
  }
  return sum;
}

SymInt Proof::simplify(const Atom& atom) {
  if (atom.kind == AtomKind::symbol) {
    const auto found = facts_.pinned_.find(atom.spelling);
    return found == facts_.pinned_.end() ? SymInt::symbol(atom.spelling) : found->second;
  }
  if (atom.kind == AtomKind::overflow) return overflow();
  if (const auto found = facts_.replaced_.find(atom.spelling); found != facts_.replaced_.end()) return found->second;
  if (atom.kind == AtomKind::floor_div || atom.kind == AtomKind::mod) return simplify_division(atom);
  if (atom.kind == AtomKind::min || atom.kind == AtomKind::max) {
    const bool least = atom.kind == AtomKind::min;
    std::vector<SymInt> kept;
    for (const SymInt& operand : atom.operands) {
      const SymInt x = simplify(operand);
      const auto never = [&](const SymInt& a, const SymInt& b) {  // a is never taken, given b
        return upper(least ? b - a : a - b, 0, simplify_search_) <= 0;
      };
      if (std::any_of(kept.begin(), kept.end(), [&](const SymInt& other) { return never(x, other); })) continue;
      std::erase_if(kept, [&](const SymInt& other) { return never(other, x); });
      kept.push_back(x);
    }
    SymInt out = kept[0];
    for (size_t i = 1; i < kept.size(); ++i) out = least ? min(out, kept[i]) : max(out, kept[i]);
    return out;
  }
  const SymFloat x = simplify(atom.floats[0]);
  const auto [lower, upper] = interval(x);
  const SymInt out = atom.kind == AtomKind::floor || (atom.kind == AtomKind::trunc && lower >= 0)  ? floor(x)
                     : atom.kind == AtomKind::ceil || (atom.kind == AtomKind::trunc && upper <= 0) ? ceil(x)
                     : atom.kind == AtomKind::trunc                                                ? trunc(x)
                                                                                                   : round(x);
  const Atom* rounded = lone_atom(out);
  return rounded && !rounded->floats.empty() ? whole(x).value_or(out) : out;
}

// x as a fraction, whose dividend has x/k in place of x//k where k is known to divide x: 16*b*(h//4)**2 is b*h**2.
Fraction Proof::without_floors(const SymInt& x) {
  constexpr int most = 16;
  Fraction out(x, 1);
  for (int step = 0; step < most; ++step) {
    const auto is_exact = [&](const Atom& atom) {
      return atom.kind == AtomKind::floor_div &&
             residue(atom.operands[0], atom.operands[1].constant().value_or(0)) == 0;
    };
    const Atom* quotient = nullptr;
    int highest = 0;
    const Terms terms = terms_of(out.first);
    for (const Term& term : terms)
      for (const Factor& factor : term.factors) {
        if (!quotient && is_exact(*factor.atom)) quotient = factor.atom.get();
        if (quotient && order(*quotient, *factor.atom) == 0) highest = std::max(highest, factor.power);
      }
    if (!quotient) return out;
    const SymInt &dividend = quotient->operands[0], &divisor = quotient->operands[1];
    const SymInt scale = product(std::vector<SymInt>(static_cast<size_t>(highest), divisor));
    SymInt sum = 0;
    for (const Term& term : terms) {
      std::vector<SymInt> factors = {term.coefficient};
      int power = 0;
      for (const Factor& factor : term.factors) {
        const bool is_quotient = order(*quotient, *factor.atom) == 0;
        if (is_quotient) power = factor.power;
        factors.insert(factors.end(), static_cast<size_t>(factor.power),
                       is_quotient ? dividend : from_term(1, {{factor.atom, 1}}));
      }
      factors.insert(factors.end(), static_cast<size_t>(highest - power), divisor);
      sum = sum + product(factors);
    }
    out = {sum, out.second * scale};
    if (is_overflow(out.first) || is_overflow(out.second)) break;
  }
  return {overflow(), 1};
}

// a/b, if b is known to divide a.
std::optional<SymInt> Proof::exact_quotient(const SymInt& a, const SymInt& b) {
  if (is_overflow(a) || is_overflow(b)) return std::nullopt;
  if (const std::optional<SymInt> found = shape::exact_quotient(a, b)) return found;
  return simplify(mod(a, b)) == SymInt(0) ? std::optional(simplify(floor_div(a, b))) : std::nullopt;
}

// The integer that x is, if it is a quotient of which one is known to divide the other.
std::optional<SymInt> Proof::whole(const SymFloat& x) {
  if (const std::optional<SymInt> found = shape::whole(x)) return found;
  const std::optional<Fraction> of = exact_fraction(x);
  if (!of) return std::nullopt;
  if (const std::optional<SymInt> found = exact_quotient(of->first, of->second)) return found;
  const Fraction a = without_floors(of->first), b = without_floors(of->second);
  return exact_quotient(a.first * b.second, a.second * b.first);
}

// The root of the square of p is |p|, even where p**2 is rounded as a float: half as much is then left of the error.
// That of a square that is a quotient of floats is, as what `whole` finds, up to 2^53.
std::optional<SymInt> Proof::root(const SymFloat& x) {
  const std::optional<SymInt> square = whole(x);
  if (!square) return std::nullopt;
  std::optional<SymInt> found = square_root(*square);
  if (!found) {
    const Fraction of = without_floors(*square);
    const std::optional<SymInt> dividend = square_root(of.first * of.second);
    if (dividend) found = exact_quotient(*dividend, of.second);
  }
  return found ? std::optional(simplify(max(*found, -*found))) : std::nullopt;
}

std::optional<SymInt> Proof::difference_of_roots(const SymInt& x) {
  const Terms terms = terms_of(x);
  if (terms.size() != 2 || terms[1].coefficient == INT64_MIN) return std::nullopt;
  const std::optional<SymInt> p = square_root(from_term(terms[0].coefficient, terms[0].factors)),
                              q = square_root(from_term(-terms[1].coefficient, terms[1].factors));
  return p && q && lower(*p, 0) >= 0 && lower(*q, 0) >= 0 ? std::optional(*p - *q) : std::nullopt;
}

// A quotient that is the same everywhere, though its operands are not: (-n)//(n - n//2) is -2 for n >= 2. What it is
// where the symbols are least is tried.
std::optional<int64_t> Proof::only_quotient(const SymInt& a, const SymInt& b) {
  if (a.is_constant() || b.is_constant() || upper(SymInt(1) - b, 0, 2) > 0) return std::nullopt;
  Bindings least;
  for (const std::string& symbol : floor_div(a, b).symbols()) {
    const auto range = facts_.known_ranges_.find(symbol);
    least[symbol] = range == facts_.known_ranges_.end() ? 0 : range->second.lower;
    if (least[symbol] == Range::lowest) return std::nullopt;
  }
  const std::optional<int64_t> found = evaluate(floor_div(a, b), least);
  if (!found) return std::nullopt;
  const SymInt product = b * SymInt(*found);
  if (upper(product - a, 0, 2) > 0 || upper(a - product - b + SymInt(1), 0, 2) > 0) return std::nullopt;
  return found;
}

// A quotient that can have only one value gives that value, and the modulus what is left.
SymInt Proof::simplify_division(const Atom& atom) {
  const SymInt a = simplify(atom.operands[0]), b = simplify(atom.operands[1]);
  const bool quotient_wanted = atom.kind == AtomKind::floor_div;
  const SymInt plain = quotient_wanted ? floor_div(a, b) : mod(a, b);
  const Atom* again = lone_atom(plain);
  if (again == nullptr || again->spelling != atom.spelling) {
    // It took another form: look at that, once. One that keeps changing ends the search, and is the last that is looked
    // at.
    if (++simplify_depth_ > 20) return plain;
    const SymInt out = simplify(plain);
    --simplify_depth_;
    return out;
  }
  const Interval divisor = interval(open_divisions(b));
  Interval quotient = divide(interval(open_divisions(a)), divisor);
  const bool is_positive = quotient.lower == 0 && quotient.upper > 0 && divisor.lower >= 0;  // a divisor is not 0
  if (is_positive && !b.is_constant() && upper(a - b + SymInt(1), 0, 2) <= 0) quotient.upper = 0;
  if (quotient.lower == quotient.upper && !is_infinite(quotient.lower)) {
    const SymInt value = static_cast<int64_t>(quotient.lower);
    return quotient_wanted ? value : a - b * value;
  }
  if (!b.is_constant()) {
    const Fraction of = without_floors(a), by = without_floors(b);
    const bool is_changed = !(of.second == SymInt(1) && by.second == SymInt(1));
    const auto exact = is_changed ? shape::exact_quotient(of.first * by.second, of.second * by.first) : std::nullopt;
    if (exact) return quotient_wanted ? *exact : 0;
  }
  if (const std::optional<int64_t> same = only_quotient(a, b))
    return quotient_wanted ? SymInt(*same) : a - b * SymInt(*same);
  if (const int64_t number = b.constant().value_or(0); number > 0) {
    const std::optional<int64_t> remainder = residue(a, number);
    if (remainder && !quotient_wanted) return *remainder;
    // (s + 1)//2 is s//2 for an even s, and (s + 1)//4 is s//4.
    std::set<int64_t> divisors = {number};
    for (const Facts::Residue& known : facts_.residues_) divisors.insert(std::gcd(known.modulus, number));
    for (const int64_t divisor : divisors) {
      const int64_t rest = residue(a, divisor).value_or(0);
      if (quotient_wanted && rest != 0 && constant_term(a) >= rest) return floor_div(a - SymInt(rest), b);
    }
  }
  return plain;
}

SymFloat Proof::simplify(const SymFloat& x) {
  if (x.node() == nullptr) return x;
  if (x.node()->op == "from") return SymFloat::from(simplify(x.node()->integer));
  if (x.node()->op == "number") return x;
  std::vector<SymFloat> operands;
  for (const SymFloat& operand : x.node()->operands) operands.push_back(simplify(operand));
  if (x.node()->op == "sqrt" || (x.node()->op == "pow" && operands[1].constant() == 0.5))
    if (const std::optional<SymInt> side = root(operands[0])) return SymFloat::from(*side);
  const SymFloat out = SymFloat::apply(x.node()->op, std::move(operands));
  // What is divided again is exact only if it is whole; divided by a power of two it is exact as it stands.
  int exponent;
  if (out.node() == nullptr || out.node()->op != "/") return out;
  const std::optional<double> by = out.node()->operands[1].constant();
  const std::optional<SymInt> quotient = by && std::frexp(*by, &exponent) != 0.5 ? whole(out) : std::nullopt;
  return quotient ? SymFloat::from(*quotient) : out;
}

}  // namespace atenon::shape
