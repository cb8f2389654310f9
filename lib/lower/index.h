// Index arithmetic: polynomials over loop variables, simplified by the variables' extents.
//
// A view is a chain of ravel and unravel. Written with floor division alone (x % n is x - n * (x // n)), the chain
// telescopes as soon as quotients are taken by polynomial division and what is left over is proven to lie in 0 <= rest
// < n. What remains is usually linear in every loop variable, so the strides of a read are its coefficients.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

// Stretches of 0 <= variable < extent in which quotients, rests, least and greatest of it alone are linear, as what is
// read of an image that is rolled, repeated or reflected.
class Stretches {
 public:
  Stretches(std::string variable, int64_t extent) : variable_(std::move(variable)), ends_{extent} {}

  void cut(int64_t at) { ends_.insert(at); }  // 0 < at < extent
  // Cuts where such parts of x bend; those that would make more than `most` stretches stay as they are, and so do those
  // that do not fit 64 bits.
  void cut_at_bends(const SymInt& x, size_t most);

  const std::set<int64_t>& ends() const { return ends_; }
  // What these parts are in a stretch of ends(), by spelling.
  std::map<std::string, SymInt> lines(int64_t first, int64_t end) const;

 private:
  struct Line {
    int64_t start, slope;
  };
  bool cut_at_bends(const shape::Atom& atom, size_t most);
  std::optional<Line> line(const SymInt& x, int64_t first, int64_t end) const;  // of what is linear there

  std::string variable_;
  std::set<int64_t> ends_;
  std::map<std::string, SymInt> parts_;
};

// The same for a loop of which only a run knows how often it turns, or where it bends. A stretch ends at an expression
// over sizes and other loops that lies between its first turn and the end of what was cut, so that it may have no turns
// and is right whatever the sizes are.
class OpenStretches {
 public:
  struct Stretch {
    SymInt first, end;
    std::map<std::string, SymInt> lines = {};  // what parts of indices are there, by spelling
    std::map<int, bool> truths = {};           // of conditions, by number
  };

  OpenStretches(std::string variable, const SymInt& extent)
      : variable_(std::move(variable)), extent_(extent), stretches_{{0, extent}} {}

  // Both leave alone what would make more than `most` stretches, and what is not linear.
  void cut_at_sign(int condition, const SymInt& x, size_t most);  // of a condition that holds where 0 <= x
  void cut_at_bends(const SymInt& x, size_t most);

  const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  struct Line {
    SymInt start;
    int64_t slope;
  };
  using Pieces = std::vector<Stretch>;
  void cut(size_t most, const std::function<Pieces(const Stretch&)>& cut_one);
  void cut_at_bends(const shape::Atom& atom, size_t most);
  Pieces cut_quotient(const Stretch& stretch, const shape::Atom& atom) const;
  Pieces cut_extreme(const Stretch& stretch, const shape::Atom& atom, size_t most) const;
  SymInt inside(const Stretch& stretch, const SymInt& x) const;
  std::optional<Line> line(const Stretch& stretch, const SymInt& x) const;
  std::pair<Stretch, Stretch> halves(const Stretch& stretch, const Line& line) const;

  std::string variable_;
  SymInt extent_;
  std::vector<Stretch> stretches_;
  std::set<std::string> seen_;  // parts
};

// Every n for which x has variable // n as a part.
std::vector<SymInt> divisors_of(const SymInt& x, const std::string& variable);

}  // namespace atenon::lower
