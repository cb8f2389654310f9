// What is known about symbols, and what follows from it.
//
// Facts are ranges of symbols and assumed truths. decide() says proven, refuted or open: the one rule by which
// `capture`, the verifier and `specialize` treat every comparison of sizes. Proofs use interval arithmetic on the
// canonical difference, the assumed equalities (as substitutions) and inequalities, and divisibility; "open" is always
// a sound answer. Divisors are taken to be other than 0: an expression that divides by 0 has no value, and nothing is
// said of it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
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
  // "1..64", as text programs have it: an end that is open is left out.
  std::string to_string() const;
};

// One thread at a time: answers are remembered, by const members, too. A copy is independent.
class Facts {
 public:
  // A symbol that was not declared has the range of a size: 0 and up.
  void declare(const std::string& symbol, Range range);
  // Adds a truth; a conjunction is taken apart. Returns false if it contradicts what is known already.
  bool assume(const SymBool& truth);

  Truth decide(const SymBool& question) const { return decide(question, true); }
  // Whether it is proven, which takes half as long as to tell the other two apart, too.
  bool proves(const SymBool& question) const { return decide(question, false) == Truth::proven; }
  Range bounds(const SymInt& x) const;
  // Rewrites by the assumed equalities and the ranges: min and max that are decided, `(4*s)//4`, symbols pinned to a
  // value.
  SymInt simplify(const SymInt& x) const;
  // The number that x is, if only one is possible: simplified, or for all values of a symbol that has few.
  std::optional<int64_t> value_of(const SymInt& x) const;

  // With some truths more, what bears on one: of its symbols, and of those that assumptions tie to them. Nothing else
  // can prove it, and to learn all of it takes longer with each assumption.
  Facts about(const SymBool& truth, const std::vector<SymBool>& more) const;

  const std::map<std::string, Range>& ranges() const { return ranges_; }  // as declared
  const std::vector<SymBool>& assumptions() const { return assumptions_; }

 private:
  friend class Proof;
  struct Residue {  // x % modulus == remainder
    SymInt x;
    int64_t modulus;
    int64_t remainder;
  };
  Truth decide_zero(const SymInt& x) const;
  Truth decide(const SymBool& question, bool refutes) const;  // else what could be refuted is open
  Truth decide_nonpositive(const SymInt& x, bool refutes = true) const;
  void learn(const BoolNode& comparison);
  void learn_zero(const SymInt& x);
  void learn_nonpositive(const SymInt& x);
  void learn_extremum(const SymInt& zero);
  void tighten(const std::string& symbol, Range range);
  void pin(const std::string& symbol, const SymInt& value);
  void learn_multiple(const Residue& residue);
  void learn_by_multiples(const SymInt& zero);
  Truth decide(SymBool::Kind kind, const SymInt& difference, bool refutes) const;
  Truth search(const SymBool& question, bool refutes) const;
  // Points at which all that is declared and assumed holds; none if none was found. Valid until the facts change.
  const std::vector<Bindings>& witnesses() const;

  std::map<std::string, Range> ranges_;
  std::vector<SymBool> assumptions_;
  // What follows from both, with pinned symbols replaced.
  std::map<std::string, Range> known_ranges_;
  Substitution pinned_;                     // symbols that equalities could be solved for
  std::map<std::string, SymInt> replaced_;  // the same for other atoms, by spelling
  bool is_rewriting_ = false;               // by a new one of these
  std::vector<SymInt> zeros_;
  std::vector<SymInt> nonzeros_;
  std::vector<SymInt> nonpositives_;
  std::vector<Residue> residues_;
  Substitution multiples_;  // symbols with a known remainder, as 32*h' for an h of which 32 is a divisor

  // What was found out already, until the facts change: capture asks the same of a size at every operator. Copies start
  // anew, as they are made to learn more, and perhaps for another thread.
  struct Memory {
    Memory() = default;
    Memory(const Memory&) {}
    Memory& operator=(const Memory&) { return *this = Memory(); }
    Memory& operator=(Memory&&) = default;
    std::unordered_map<std::string, Truth> answers;  // by the text of the question
    std::optional<std::vector<Bindings>> witnesses;
  };
  mutable Memory memory_;
};

}  // namespace atenon::shape
