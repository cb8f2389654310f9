// Polynomial division, and bounds of polynomials term by term.
#include "lower/index.h"

#include <algorithm>
#include <numeric>

namespace atenon::lower {

namespace {

using shape::Atom;
using shape::AtomKind;
using shape::Factor;
using shape::Term;

std::vector<Term> terms_of(const SymInt& x) {
  if (x.is_constant()) return *x.constant() == 0 ? std::vector<Term>() : std::vector<Term>{Term{*x.constant(), {}}};
  return x.polynomial()->terms;
}

SymInt value_of(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::symbol:
      return SymInt::symbol(atom.spelling);
    case AtomKind::floor_div:
      return shape::floor_div(atom.operands[0], atom.operands[1]);
    case AtomKind::mod:
      return shape::mod(atom.operands[0], atom.operands[1]);
    case AtomKind::min:
    case AtomKind::max: {
      SymInt extreme = atom.operands[0];
      for (const SymInt& operand : atom.operands)
        extreme = atom.kind == AtomKind::min ? shape::min(extreme, operand) : shape::max(extreme, operand);
      return extreme;
    }
    case AtomKind::floor:
      return shape::floor(atom.floats[0]);
    case AtomKind::ceil:
      return shape::ceil(atom.floats[0]);
    case AtomKind::trunc:
      return shape::trunc(atom.floats[0]);
    case AtomKind::round:
      return shape::round(atom.floats[0]);
    case AtomKind::overflow:
      break;
  }
  assert(false && "a saturated size reached code generation");
  return 0;
}

SymInt value_of(const Term& term) {
  SymInt value = term.coefficient;
  for (const Factor& factor : term.factors)
    for (int i = 0; i < factor.power; ++i) value = value * value_of(*factor.atom);
  return value;
}

int degree(const Term& term) {
  int sum = 0;
  for (const Factor& factor : term.factors) sum += factor.power;
  return sum;
}

bool same_atom(const Atom& a, const Atom& b) { return a.kind == b.kind && a.spelling == b.spelling; }

// `term / divisor` where that leaves no fraction.
std::optional<SymInt> divide(const Term& term, const Term& divisor) {
  if (divisor.coefficient == 0 || term.coefficient % divisor.coefficient != 0) return std::nullopt;
  Term quotient{term.coefficient / divisor.coefficient, term.factors};
  for (const Factor& wanted : divisor.factors) {
    auto found = std::find_if(quotient.factors.begin(), quotient.factors.end(),
                              [&](const Factor& factor) { return same_atom(*factor.atom, *wanted.atom); });
    if (found == quotient.factors.end() || found->power < wanted.power) return std::nullopt;
    found->power -= wanted.power;
  }
  return value_of(quotient);
}

}  // namespace

const SymInt* IndexSpace::extent(const std::string& name) const {
  auto found = extents_.find(name);
  return found == extents_.end() ? nullptr : &found->second;
}

bool IndexSpace::proves(const shape::SymBool& truth) const {
  if (truth.constant()) return *truth.constant();
  return facts_.proves(truth);
}

// A term is a constant times sizes times loop variables: it is extreme where each of its variables is. Several terms
// may share a variable; each is then bounded on its own, which is sound.
std::optional<SymInt> IndexSpace::bound(const SymInt& x, bool upper) const {
  if (x.is_constant()) return x;
  SymInt sum = 0;
  for (const Term& term : terms_of(x)) {
    SymInt greatest = 1;  // of the product of the factors, which are all >= 0
    SymInt least = 1;
    for (const Factor& factor : term.factors) {
      SymInt factor_least, factor_greatest;
      const Atom& atom = *factor.atom;
      if (const SymInt* size = atom.kind == AtomKind::symbol ? extent(atom.spelling) : nullptr) {
        factor_least = 0;
        factor_greatest = *size - 1;
      } else if (atom.kind == AtomKind::floor_div || atom.kind == AtomKind::mod) {
        std::optional<SymInt> low = lowest(atom.operands[0]), high = highest(atom.operands[0]);
        const SymInt& n = atom.operands[1];
        if (!low || !high || !proves(shape::less_equal(0, *low)) || !proves(shape::less(0, n))) return std::nullopt;
        factor_least = atom.kind == AtomKind::mod ? SymInt(0) : shape::floor_div(*low, n);
        factor_greatest = atom.kind == AtomKind::mod ? n - 1 : shape::floor_div(*high, n);
      } else {
        // A size, or an expression over sizes.
        SymInt value = value_of(atom);
        for (const std::string& symbol : value.symbols())
          if (extents_.count(symbol) || symbol.front() == '%') return std::nullopt;
        if (!proves(shape::less_equal(0, value))) return std::nullopt;
        factor_least = factor_greatest = value;
      }
      for (int i = 0; i < factor.power; ++i) {
        least = least * factor_least;
        greatest = greatest * factor_greatest;
      }
    }
    sum = sum + (upper == (term.coefficient > 0) ? greatest : least) * term.coefficient;
  }
  return sum;
}

bool IndexSpace::is_never_negative(const SymInt& x) const {
  std::optional<SymInt> low = lowest(x);
  return low && proves(shape::less_equal(0, *low));
}

bool IndexSpace::is_within(const SymInt& x, const SymInt& size) const {
  if (!is_never_negative(x)) return false;
  std::optional<SymInt> high = highest(x);
  return high && proves(shape::less(*high, size));
}

std::optional<bool> IndexSpace::decide_less(const SymInt& a, const SymInt& b, bool or_equal) const {
  const SymInt difference = b - a;  // a < b where it is >= 1
  if (shape::is_overflow(difference)) return std::nullopt;
  const SymInt least_true = or_equal ? 0 : 1;
  if (std::optional<SymInt> low = lowest(difference); low && proves(shape::less_equal(least_true, *low))) return true;
  if (std::optional<SymInt> high = highest(difference); high && proves(shape::less(*high, least_true))) return false;
  return std::nullopt;
}

SymInt IndexSpace::quotient(const SymInt& x, const SymInt& n) const {
  if (n == SymInt(1)) return x;
  if (x.is_constant() && n.is_constant()) return shape::floor_div(x, n);
  // Multivariate division by the term of n of highest degree; each step removes one term of x.
  std::vector<Term> divisor = terms_of(n);
  if (divisor.empty()) return shape::floor_div(x, n);
  const Term lead = *std::max_element(divisor.begin(), divisor.end(),
                                      [](const Term& a, const Term& b) { return degree(a) < degree(b); });
  SymInt whole = 0, rest = x;
  for (int step = 0; step < 32; ++step) {
    std::optional<SymInt> part;
    for (const Term& term : terms_of(rest))
      if ((part = divide(term, lead))) break;
    if (!part) break;
    whole = whole + *part;
    rest = rest - *part * n;
  }
  if (is_within(rest, n)) return whole;
  // A rest such as 64 i + j with j < 64 and n = 128: only i // 2 counts.
  if (std::optional<int64_t> constant = n.constant()) {
    for (const Term& term : terms_of(rest)) {
      const int64_t common = std::gcd(term.coefficient, *constant);
      if (common <= 1 || common == *constant) continue;
      SymInt large = 0, small = 0;
      for (const Term& other : terms_of(rest)) {
        if (other.coefficient % common == 0) {
          large = large + value_of(Term{other.coefficient / common, other.factors});
        } else {
          small = small + value_of(other);
        }
      }
      if (!is_within(small, common)) continue;
      const SymInt reduced = *constant / common;
      return whole + (is_within(large, reduced) ? SymInt(0) : shape::floor_div(large, reduced));
    }
  }
  return whole + shape::floor_div(rest, n);
}

SymInt IndexSpace::simplified(const SymInt& x) const {
  SymInt sum = 0;
  for (const Term& term : terms_of(x)) {
    SymInt product = term.coefficient;
    for (const Factor& factor : term.factors) {
      const Atom& atom = *factor.atom;
      const SymInt value =
          atom.kind == AtomKind::floor_div ? quotient(simplified(atom.operands[0]), atom.operands[1]) : value_of(atom);
      for (int i = 0; i < factor.power; ++i) product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

std::optional<SymInt> coefficient(const SymInt& x, const std::string& variable) {
  if (x.is_constant()) return SymInt(0);
  SymInt sum = 0;
  for (const Term& term : terms_of(x)) {
    SymInt rest = term.coefficient;
    bool found = false;
    for (const Factor& factor : term.factors) {
      if (factor.atom->kind == AtomKind::symbol && factor.atom->spelling == variable) {
        if (factor.power != 1) return std::nullopt;
        found = true;
        continue;
      }
      SymInt value = value_of(*factor.atom);
      if (factor.atom->kind != AtomKind::symbol && value.symbols().count(variable)) return std::nullopt;
      for (int i = 0; i < factor.power; ++i) rest = rest * value;
    }
    if (found) sum = sum + rest;
  }
  return sum;
}

std::optional<Stretches::Line> Stretches::line(const SymInt& x, int64_t first, int64_t end) const {
  const auto at = [&](int64_t turn) { return shape::evaluate(x, shape::Bindings{{variable_, turn}}); };
  const std::optional<int64_t> start = at(first), next = end - first > 1 ? at(first + 1) : start, last = at(end - 1);
  int64_t slope;
  if (!start || !next || !last || __builtin_sub_overflow(*next, *start, &slope)) return std::nullopt;
  return Line{*start, slope};
}

void Stretches::cut_at_bends(const SymInt& x, size_t most) {
  for (const Term& term : terms_of(x)) {
    for (const Factor& factor : term.factors) {
      const Atom& atom = *factor.atom;
      if (atom.operands.empty() || parts_.count(atom.spelling)) continue;
      const SymInt value = value_of(atom);
      const std::set<int64_t> before = ends_;
      if (value.symbols() == std::set<std::string>{variable_} && cut_at_bends(atom, most)) {
        parts_.emplace(atom.spelling, value);
        continue;
      }
      ends_ = before;
      for (const SymInt& operand : atom.operands) cut_at_bends(operand, most);
    }
  }
}

bool Stretches::cut_at_bends(const Atom& atom, size_t most) {
  for (const SymInt& operand : atom.operands)
    for (const Term& term : terms_of(operand))
      for (const Factor& factor : term.factors)
        if (factor.power != 1 || term.factors.size() != 1 ||
            (factor.atom->kind != AtomKind::symbol && !cut_at_bends(*factor.atom, most)))
          return false;
  const bool is_extreme = atom.kind == AtomKind::min || atom.kind == AtomKind::max;
  if (!is_extreme && (atom.operands.size() != 2 || atom.operands[1].constant().value_or(0) <= 0)) return false;
  std::set<int64_t> bends;
  int64_t first = 0;
  for (int64_t end : ends_) {
    if (is_extreme) {
      for (size_t i = 0; i < atom.operands.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          const std::optional<Line> difference = line(atom.operands[i] - atom.operands[j], first, end);
          if (!difference) return false;
          const auto [start, slope] = *difference;
          const bool is_closing = (start < 0 && slope > 0) || (start > 0 && slope < 0);
          if (is_closing && first + start / -slope + 1 < end) bends.insert(first + start / -slope + 1);
        }
      }
    } else {
      const int64_t n = *atom.operands[1].constant();
      const std::optional<Line> divided = line(atom.operands[0], first, end);
      if (!divided) return false;
      int64_t slope = divided->slope, rest = divided->start % n;
      if (rest < 0) rest += n;
      if (atom.kind == AtomKind::mod) {  // the least of those that leave the same rests
        slope %= n;
        if (slope > n / 2) slope -= n;
        if (slope < -(n / 2)) slope += n;
      }
      for (int64_t turn = first; slope != 0 && bends.size() <= most;) {
        const int64_t turns = slope > 0 ? (n - rest - 1) / slope + 1 : rest / -slope + 1;
        if (turns >= end - turn) break;
        turn += turns;
        bends.insert(turn);
        rest += turns * slope;  // into the next one
        rest += slope > 0 ? -(rest / n) * n : ((n - 1 - rest) / n) * n;
      }
    }
    first = end;
  }
  if (!bends.empty() && bends.size() + ends_.size() > most) return false;
  ends_.merge(bends);
  return true;
}

std::map<std::string, SymInt> Stretches::lines(int64_t first, int64_t end) const {
  std::map<std::string, SymInt> lines;
  for (const auto& [spelling, part] : parts_) {
    const std::optional<Line> found = line(part, first, end);
    if (found) lines.emplace(spelling, (SymInt::symbol(variable_) - first) * found->slope + found->start);
  }
  return lines;
}

// x with the parts that are linear in a stretch.
SymInt OpenStretches::inside(const Stretch& stretch, const SymInt& x) const {
  SymInt sum = 0;
  for (const Term& term : terms_of(x)) {
    SymInt product = term.coefficient;
    for (const Factor& factor : term.factors) {
      const auto found = stretch.lines.find(factor.atom->spelling);
      const SymInt value = found == stretch.lines.end() ? value_of(*factor.atom) : found->second;
      for (int i = 0; i < factor.power; ++i) product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

// Values that are computed from data may be of this loop, or defined only under a condition.
std::optional<OpenStretches::Line> OpenStretches::line(const Stretch& stretch, const SymInt& x) const {
  const SymInt here = inside(stretch, x);
  if (shape::is_overflow(here)) return std::nullopt;
  for (const std::string& symbol : here.symbols())
    if (symbol.front() == '%') return std::nullopt;
  const std::optional<SymInt> slope = coefficient(here, variable_);
  if (!slope || !slope->is_constant()) return std::nullopt;
  return Line{here - *slope * SymInt::symbol(variable_), *slope->constant()};
}

// Before and from the turn at which a line, which is not level, comes to 0 from below, or falls below 0.
std::pair<OpenStretches::Stretch, OpenStretches::Stretch> OpenStretches::halves(const Stretch& stretch,
                                                                                const Line& line) const {
  const auto [start, slope] = line;
  const SymInt turn =
      slope > 0 ? shape::floor_div(SymInt(slope - 1) - start, slope) : shape::floor_div(start, -slope) + 1;
  std::pair<Stretch, Stretch> halves = {stretch, stretch};
  halves.first.end = halves.second.first = shape::max(stretch.first, shape::min(turn, stretch.end));
  return halves;
}

void OpenStretches::cut(size_t most, const std::function<Pieces(const Stretch&)>& cut_one) {
  std::vector<Stretch> pieces;
  for (const Stretch& stretch : stretches_) {
    const Pieces found = cut_one(stretch);
    pieces.insert(pieces.end(), found.begin(), found.end());
  }
  const bool is_known = std::ranges::none_of(
      pieces, [](const Stretch& piece) { return shape::is_overflow(piece.first) || shape::is_overflow(piece.end); });
  if (is_known && pieces.size() <= most) stretches_ = std::move(pieces);
}

void OpenStretches::cut_at_sign(int condition, const SymInt& x, size_t most) {
  cut(most, [&](const Stretch& stretch) -> Pieces {
    const std::optional<Line> found = line(stretch, x);
    if (!found || found->slope == 0) return {stretch};
    auto [before, after] = halves(stretch, *found);
    before.truths[condition] = found->slope < 0;
    after.truths[condition] = found->slope > 0;
    return {before, after};
  });
}

void OpenStretches::cut_at_bends(const SymInt& x, size_t most) {
  for (const Term& term : terms_of(x))
    for (const Factor& factor : term.factors)
      if (!factor.atom->operands.empty() && seen_.insert(factor.atom->spelling).second)
        cut_at_bends(*factor.atom, most);
}

void OpenStretches::cut_at_bends(const Atom& atom, size_t most) {
  bool is_bent = false;
  for (const SymInt& operand : atom.operands) {
    is_bent |= operand.symbols().count(variable_) > 0;
    cut_at_bends(operand, most);
  }
  if (!is_bent) return;
  const bool is_extreme = atom.kind == AtomKind::min || atom.kind == AtomKind::max;
  cut(most, [&](const Stretch& stretch) {
    return is_extreme ? cut_extreme(stretch, atom, most) : cut_quotient(stretch, atom);
  });
}

// Operand by operand: which one is greater changes at most once.
OpenStretches::Pieces OpenStretches::cut_extreme(const Stretch& stretch, const Atom& atom, size_t most) const {
  const bool is_max = atom.kind == AtomKind::max;
  Pieces pieces = {stretch};
  pieces[0].lines[atom.spelling] = inside(stretch, atom.operands[0]);
  for (const SymInt& operand : atom.operands) {
    Pieces finer;
    const SymInt other = inside(stretch, operand);
    for (Stretch& piece : pieces) {
      SymInt& so_far = piece.lines[atom.spelling];
      const std::optional<Line> difference = line(piece, other - so_far);
      if (!difference || !line(piece, other)) return {stretch};
      if (difference->slope == 0) {
        so_far = so_far + (is_max ? shape::max(difference->start, 0) : shape::min(difference->start, 0));
        finer.push_back(piece);
        continue;
      }
      auto [before, after] = halves(piece, *difference);
      (is_max == (difference->slope > 0) ? after : before).lines[atom.spelling] = other;
      finer.push_back(std::move(before));
      finer.push_back(std::move(after));
    }
    if (finer.size() > most) return {stretch};
    pieces = std::move(finer);
  }
  return pieces;
}

// Each piece has one quotient. The last one has what there may be beyond the first few, or of a divisor that turns out
// to be negative, of which the pieces before it have no turns.
OpenStretches::Pieces OpenStretches::cut_quotient(const Stretch& stretch, const Atom& atom) const {
  constexpr int few = 3;
  const SymInt& n = atom.operands[1];
  const std::optional<Line> divided = line(stretch, atom.operands[0]), divisor = line(stretch, n);
  if (!divided || !divisor || divisor->slope != 0 || n.is_constant()) return {stretch};
  const auto [start, slope] = *divided;
  const int64_t step = slope > 0 ? 1 : slope < 0 ? -1 : 0;
  SymInt quotient = shape::floor_div(start + slope * stretch.first, n);
  const auto line_of = [&](const SymInt& quotient) {
    return atom.kind == AtomKind::mod ? start + slope * SymInt::symbol(variable_) - quotient * n : quotient;
  };
  Pieces pieces = {stretch};
  const bool wraps_once = std::abs(slope) == 1 && n == extent_;
  for (int i = 0; i < (wraps_once ? 1 : few) && slope != 0; ++i, quotient = quotient + step) {
    auto [before, after] = halves(pieces.back(), {start - (slope > 0 ? quotient + 1 : quotient) * n, slope});
    before.lines[atom.spelling] = line_of(quotient);
    pieces.back() = std::move(before);
    pieces.push_back(std::move(after));
  }
  if (wraps_once || slope == 0) pieces.back().lines[atom.spelling] = line_of(quotient);
  return pieces;
}

std::vector<SymInt> divisors_of(const SymInt& x, const std::string& variable) {
  std::vector<SymInt> divisors;
  for (const Term& term : terms_of(x))
    for (const Factor& factor : term.factors)
      if (factor.atom->kind == AtomKind::floor_div && factor.atom->operands[0].as_symbol() == variable)
        divisors.push_back(factor.atom->operands[1]);
  return divisors;
}

}  // namespace atenon::lower
