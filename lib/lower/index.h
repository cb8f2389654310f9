// Index arithmetic: polynomials over loop variables, simplified by the variables' extents.
//
// A view is a chain of ravel and unravel. Written with floor division alone (x % n is x - n * (x // n)), the chain
// telescopes as soon as quotients are taken by polynomial division and what is left over is proven to lie in 0 <= rest
// < n. What remains is usually linear in every loop variable, so the strides of a read are its coefficients.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "shape/facts.h"

namespace atenon::lower {

using shape::SymInt;

class IndexSpace {
 public:
  explicit IndexSpace(const shape::Facts& facts) : facts_(facts) {}

  // Declares 0 <= name < extent. Inside the loop the extent is at least 1.
  void declare(const std::string& name, const SymInt& extent) { extents_[name] = extent; }
  const SymInt* extent(const std::string& name) const;

  // The least and the greatest value; nullopt where unknown. Both are expressions over sizes alone.
  std::optional<SymInt> lowest(const SymInt& x) const { return bound(x, false); }
  std::optional<SymInt> highest(const SymInt& x) const { return bound(x, true); }
  // True only where proven.
  bool is_within(const SymInt& x, const SymInt& size) const;  // 0 <= x < size
  bool is_never_negative(const SymInt& x) const;
  // `a < b` or `a <= b`, where it is the same for all values of the loop variables.
  std::optional<bool> decide_less(const SymInt& a, const SymInt& b, bool or_equal) const;

  SymInt quotient(const SymInt& x, const SymInt& n) const;  // x // n, n > 0
  SymInt remainder(const SymInt& x, const SymInt& n) const { return x - n * quotient(x, n); }
  SymInt simplified(const SymInt& x) const;  // x with its quotients taken anew, now that more is known of variables

  const shape::Facts& facts() const { return facts_; }

 private:
  std::optional<SymInt> bound(const SymInt& x, bool upper) const;
  bool proves(const shape::SymBool& truth) const;

  const shape::Facts& facts_;
  std::map<std::string, SymInt> extents_;
};

// The factor of `variable` in x, where x is linear in it; nullopt where it is not (inside an atom, or squared).
std::optional<SymInt> coefficient(const SymInt& x, const std::string& variable);

// The greatest n for which x has variable // n as a part; nullopt where there is none.
std::optional<int64_t> greatest_divisor(const SymInt& x, const std::string& variable);

}  // namespace atenon::lower
