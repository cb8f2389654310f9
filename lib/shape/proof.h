// The search behind Facts::decide: upper and lower bounds of expressions. Private to lib/shape.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shape/facts.h"

namespace atenon::shape {

// A bound in 128 bits; beyond int64 it is infinite.
using Bound = __int128;
inline constexpr Bound infinite = Bound(1) << 64;

struct Interval {
  Bound lower = -infinite;
  Bound upper = infinite;
};

// k*(x//k) is x - x % k, which says more to interval arithmetic. The search sees expressions so.
SymInt open_divisions(const SymInt& x);

// A period of every symbol with which quotients by numbers, and what they divide, are linear in how often it passed: at
// least 1, or 0 where it is too long.
using Periods = std::map<std::string, int64_t>;
Periods periods_of(const SymInt& x);

// Whether x is 0 whatever its symbols are: told for quotients by numbers, by what the symbols leave when divided by
// them, as s//2 + (s + 1)//2 is s both where s is 2*t and where it is 2*t + 1. False where there are too many such
// cases.
bool is_identically_zero(const SymInt& x);

// One question's worth of work: its budget of steps keeps decide() fast whatever was assumed.
class Proof {
 public:
  explicit Proof(const Facts& facts) : facts_(facts) {}

  // The tightest upper bound found; the search stops at the first one that is `enough` or less, or the least possible.
  // Lower bounds are those of -x.
  Bound upper(const SymInt& x, Bound enough);
  Bound lower(const SymInt& x, Bound enough) { return -upper(-x, -enough); }
  // By interval arithmetic alone: cheap.
  Interval interval(const SymInt& x);
  // x % modulus, where that is known.
  std::optional<int64_t> residue(const SymInt& x, int64_t modulus);
  // x by what is assumed and known; equal to x for all values of the symbols that the facts allow.
  SymInt simplify(const SymInt& x);
  // The same, where a minimum or maximum may take as long a search as a question.
  SymInt simplify_thoroughly(const SymInt& x) {
    simplify_search_ = search_depth;
    return simplify(x);
  }
  // Whether x is proven to be at most `limit`: what a witness contradicts is not searched for.
  bool is_at_most(const SymInt& x, Bound limit) { return upper(x, limit, search_depth) <= limit; }
  // p - q, if x is p**2 - q**2, of two terms, and neither p nor q is negative: they are 0 together.
  std::optional<SymInt> difference_of_roots(const SymInt& x);
  // The largest value of x at the witnesses, which an upper bound cannot be below; that of -x says as much of the
  // least.
  Bound attained(const SymInt& x);

 private:
  static constexpr int search_depth = 4;
  // A step's work grows with the square of these; what is longer is left to intervals.
  static constexpr size_t most_terms = 40;
  static constexpr size_t most_products = 100;

  Bound upper(const SymInt& x, Bound enough, int depth);
  Bound upper_by_operands(const SymInt& x);
  Bound upper_by_cases(const SymInt& x, Bound enough, int depth);
  std::vector<SymInt> hints_for(const SymInt& x);
  Interval interval(const Atom& atom);
  Interval interval_of_operation(const Atom& atom);
  Interval interval(const Term& term);
  Interval shifted_interval(const SymInt& x, bool from_above);
  std::pair<double, double> interval(const SymFloat& x);
  SymInt simplify(const Atom& atom);
  SymFloat simplify(const SymFloat& x);
  SymInt simplify_division(const Atom& atom);
  std::pair<SymInt, SymInt> without_floors(const SymInt& x);
  std::optional<SymInt> exact_quotient(const SymInt& a, const SymInt& b);
  std::optional<SymInt> whole(const SymFloat& x);
  std::optional<SymInt> root(const SymFloat& x);
  std::optional<int64_t> only_quotient(const SymInt& a, const SymInt& b);

  const Facts& facts_;
  std::unordered_map<std::string, Interval> intervals_;  // of operations, by spelling: the search meets each many times
  std::vector<SymInt> cases_;                            // nonpositive in the case that is being looked at
  std::optional<std::vector<const Bindings*>> witnesses_;  // of the facts and that case, once they are asked for
  bool is_pruning_ = true;  // where a witness is above what is enough: not in search of the tightest bound
  int budget_ = 100;
  int simplify_depth_ = 0;
  int simplify_search_ = 2;
};

}  // namespace atenon::shape
