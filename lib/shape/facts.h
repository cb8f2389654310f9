// What is known about symbols, and what follows from it.
//
// Facts are ranges of symbols and assumed truths. decide() says proven, refuted or open: the one rule by which
// `capture`, the verifier and `specialize` treat every comparison of sizes. Proofs use interval arithmetic on the
// canonical difference, the assumed equalities (as substitutions) and inequalities, and divisibility; "open" is always
// a sound answer.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "shape/symint.h"

namespace atenon::shape {

enum class Truth { refuted, open, proven };

// Inclusive; the extremes of int64 mean unbounded.
struct Range {
  static constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
  static constexpr int64_t highest = std::numeric_limits<int64_t>::max();
  int64_t lower = lowest;
  int64_t upper = highest;

  bool contains(int64_t x) const { return lower <= x && x <= upper; }
  bool operator==(const Range&) const = default;
};

class Facts {
 public:
  // A symbol that was not declared has the range of a size: 0 and up.
  void declare(const std::string& symbol, Range range);
  // Adds a truth; a conjunction is taken apart. Returns false if it contradicts what is known already.
  bool assume(const SymBool& truth);

  Truth decide(const SymBool& question) const;
  Range bounds(const SymInt& x) const;
  // Rewrites by the assumed equalities and the ranges: min and max that are decided, `(4*s)//4`, symbols pinned to a
  // value.
  SymInt simplify(const SymInt& x) const;

  const std::map<std::string, Range>& ranges() const { return ranges_; }
  const std::vector<SymBool>& assumptions() const { return assumptions_; }

 private:
  std::map<std::string, Range> ranges_;
  std::vector<SymBool> assumptions_;
  Substitution pinned_;  // from equalities that could be solved for a symbol
};

}  // namespace atenon::shape
