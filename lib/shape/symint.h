// Symbolic scalars: the sizes of a program whose dimensions are dynamic, and what is computed from them.
//
// A SymInt is kept in canonical form, so that two spellings of one polynomial are equal: a sum of terms, each an
// integer coefficient times a sorted product of powers of atoms. An atom is a symbol, or an operation that polynomials
// cannot express (floor division, modulus, minimum, maximum, the integer part of a float) over canonical operands. The
// text spelling (`2*s0 + (s1 + 1)//2`) parses back to the same value. Values are immutable and cheap to copy; a
// constant allocates nothing. Arithmetic that would overflow 64 bits, or grow beyond all reason, gives `overflow()`: an
// expression that absorbs all others and that nothing proves anything about. A conversion of a float that came from a
// size assumes sizes below 2^53.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "support/result.h"

namespace atenon::shape {

struct Polynomial;
struct FloatNode;
struct BoolNode;
class SymFloat;
class SymBool;

// An integer: constant, or an expression over symbols.
class SymInt {
 public:
  SymInt() = default;
  SymInt(int64_t value) : constant_(value) {}
  SymInt(int value) : constant_(value) {}
  static SymInt symbol(const std::string& name);

  bool is_constant() const { return !polynomial_; }
  std::optional<int64_t> constant() const { return polynomial_ ? std::nullopt : std::optional(constant_); }
  // The name, if this is exactly one symbol.
  std::optional<std::string> as_symbol() const;
  const Polynomial* polynomial() const { return polynomial_.get(); }

  std::set<std::string> symbols() const;
  std::string to_string() const;
  // A total order that depends on the value's spelling only, never on addresses.
  std::strong_ordering operator<=>(const SymInt& other) const;
  bool operator==(const SymInt& other) const;

 private:
  friend struct Polynomial;
  explicit SymInt(std::shared_ptr<const Polynomial> polynomial) : polynomial_(std::move(polynomial)) {}

  int64_t constant_ = 0;
  std::shared_ptr<const Polynomial> polynomial_;  // null for a constant
};

SymInt operator+(const SymInt& a, const SymInt& b);
SymInt operator-(const SymInt& a, const SymInt& b);
SymInt operator*(const SymInt& a, const SymInt& b);
SymInt operator-(const SymInt& a);
SymInt floor_div(const SymInt& a, const SymInt& b);  // rounds down, as Python's //; b == 0 stays an atom
SymInt mod(const SymInt& a, const SymInt& b);        // has the sign of b, as Python's %
SymInt min(const SymInt& a, const SymInt& b);
SymInt max(const SymInt& a, const SymInt& b);
SymInt product(const std::vector<SymInt>& factors);  // 1 for none
SymInt overflow();
bool is_overflow(const SymInt& x);

// A double computed from sizes: `/` of two SymInts, sqrt, a float constant times a size.
class SymFloat {
 public:
  SymFloat() = default;
  SymFloat(double value) : constant_(value) {}
  static SymFloat from(const SymInt& value);  // spelled float(s0)
  // A float that a node yields or a caller passes, spelled number(x): the symbol is bound to the bits of the double.
  static SymFloat number(const SymInt& symbol);
  // One of + - * / pow sqrt exp log log2 abs min max, over floats.
  static SymFloat apply(const std::string& op, std::vector<SymFloat> operands);

  std::optional<double> constant() const { return node_ ? std::nullopt : std::optional(constant_); }
  const FloatNode* node() const { return node_.get(); }
  std::set<std::string> symbols() const;
  std::string to_string() const;
  bool operator==(const SymFloat& other) const;

 private:
  double constant_ = 0;
  std::shared_ptr<const FloatNode> node_;
};

SymInt floor(const SymFloat& x);
SymInt ceil(const SymFloat& x);
SymInt trunc(const SymFloat& x);
SymInt round(const SymFloat& x);  // half to even, as Python

// A truth about sizes: a comparison, or and / or of truths. Comparisons of integers are normalised to
// `difference op 0`, with a < b as a - b + 1 <= 0, and their coefficients to no common divisor; negation is taken
// inside.
class SymBool {
 public:
  enum class Kind { eq, ne, le, all, any, opaque };  // eq: p == 0; le: p <= 0; opaque: a float comparison

  SymBool() = default;
  SymBool(bool value) : constant_(value) {}
  std::optional<bool> constant() const { return node_ ? std::nullopt : std::optional(constant_); }
  const BoolNode* node() const { return node_.get(); }

  std::set<std::string> symbols() const;
  std::string to_string() const;  // `s0 <= 512`, `a != b and c % 4 == 0`
  bool operator==(const SymBool& other) const;

 private:
  friend struct BoolNode;
  bool constant_ = false;
  std::shared_ptr<const BoolNode> node_;  // null for a constant
};

SymBool equal(const SymInt& a, const SymInt& b);
SymBool not_equal(const SymInt& a, const SymInt& b);
SymBool less(const SymInt& a, const SymInt& b);
SymBool less_equal(const SymInt& a, const SymInt& b);
SymBool compare(const std::string& op, const SymFloat& a, const SymFloat& b);  // == != < <= > >=
SymBool both(const SymBool& a, const SymBool& b);
SymBool either(const SymBool& a, const SymBool& b);
SymBool negate(const SymBool& a);

// --- The nodes behind the values, for the few that take them apart (printing, serialization, code generation)

enum class AtomKind { symbol, floor_div, mod, min, max, floor, ceil, trunc, round, overflow };

struct Atom {
  AtomKind kind = AtomKind::symbol;
  std::string spelling;  // the name of a symbol; of others the text, which is also the key of order and equality
  std::vector<SymInt> operands;  // of floor_div, mod (two), min, max (two or more)
  std::vector<SymFloat> floats;  // of floor, ceil, trunc, round (one)
};

struct Factor {
  std::shared_ptr<const Atom> atom;
  int power = 1;
};

struct Term {
  int64_t coefficient = 0;
  std::vector<Factor> factors;  // sorted: symbols by name, then other atoms; empty for the constant term
};

struct Polynomial {
  // Sorted lexicographically, highest power first, constant last; no zeros, never a lone constant.
  std::vector<Term> terms;
  // The value of terms that are sorted and have no zeros.
  static SymInt from(std::vector<Term> terms);
};

struct FloatNode {
  std::string op;  // "from", "number", or what SymFloat::apply lists
  std::vector<SymFloat> operands;
  SymInt integer;  // of "from" and "number"
};

struct BoolNode {
  SymBool::Kind kind = SymBool::Kind::eq;
  SymInt difference;              // eq, ne, le: compared with 0
  std::vector<SymBool> operands;  // all, any
  std::string op;                 // opaque: == != < <= or "not <", "not <=" (NaN) of `floats`
  std::vector<SymFloat> floats;
  static SymBool from(BoolNode node);
};

// Values for symbols, at one call.
using Bindings = std::map<std::string, int64_t>;
// Each gives nullopt where a symbol is unbound or a division is by zero.
std::optional<int64_t> evaluate(const SymInt& x, const Bindings& bindings);
std::optional<double> evaluate(const SymFloat& x, const Bindings& bindings);
std::optional<bool> evaluate(const SymBool& x, const Bindings& bindings);

// Replaces symbols by expressions; symbols that are not in the map stay.
using Substitution = std::map<std::string, SymInt>;
SymInt substitute(const SymInt& x, const Substitution& substitution);
SymFloat substitute(const SymFloat& x, const Substitution& substitution);
SymBool substitute(const SymBool& x, const Substitution& substitution);

// Parses what to_string printed (and reasonable hand spellings of it). Errors point into `text` by column.
Result<SymInt> parse_int(const std::string& text);
Result<SymFloat> parse_float(const std::string& text);
Result<SymBool> parse_bool(const std::string& text);
// Whichever of the three the text spells. `2` is an integer, `2.0` and `float(s)` are floats.
using Scalar = std::variant<SymInt, SymFloat, SymBool>;
Result<Scalar> parse_scalar(const std::string& text);

}  // namespace atenon::shape
