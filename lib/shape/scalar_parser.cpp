// Reads the spelling of symbolic scalars: Python's operators and precedence over integers, floats and truths.
//
// A value is an integer until something makes it a float: a literal with a point, `/`, float(), sqrt(). What the
// printer wrote reads back as the same value; hand-written variants (`-s//2`, `2*(s + 1)`, `0 < s <= 5`) mean what they
// mean in Python.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "shape/terms.h"

namespace atenon::shape {
namespace {

constexpr int deepest = 200;  // nesting of parentheses and calls; recursion must not exhaust the stack

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) { advance(); }

  Result<Scalar> parse() {
    Scalar value = disjunction();
    if (!failed_ && !token_.empty()) fail("there is more after the expression");
    if (failed_) return *failed_;
    return value;
  }

  Diagnostic expected(const char* what) {
    start_ = 0;
    token_ = text_;
    fail(std::string("this is not ") + what);
    return *failed_;
  }

 private:
  // --- Tokens

  void advance() {
    while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\t')) ++next_;
    start_ = next_;
    const std::string_view rest = std::string_view(text_).substr(start_);
    size_t length = rest.empty() ? 0 : 1;
    if (!rest.empty() && starts_name(rest[0])) {
      while (length < rest.size() && (starts_name(rest[length]) || is_digit(rest[length]))) ++length;
    } else if (!rest.empty() && (is_digit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && is_digit(rest[1])))) {
      while (length < rest.size() && number_continues(rest, length)) ++length;
    } else {
      for (const char* op : {"//", "**", "==", "!=", "<=", ">="}) {
        if (rest.starts_with(op)) length = 2;
      }
    }
    token_ = rest.substr(0, length);
    next_ = start_ + length;
  }

  static bool number_continues(std::string_view text, size_t i) {
    const bool sign = (text[i] == '+' || text[i] == '-') && (text[i - 1] == 'e' || text[i - 1] == 'E');
    return is_digit(text[i]) || text[i] == '.' || text[i] == 'e' || text[i] == 'E' || sign;
  }

  bool take(std::string_view token) {
    if (failed_ || token_ != token) return false;
    advance();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail("'" + std::string(token) + "' is missing here");
  }

  void fail(std::string message) {
    if (failed_) return;
    failed_ = std::make_unique<Diagnostic>(
        error(Status::bad_input, 201, std::move(message))
            .at({"", 1, static_cast<int>(start_) + 1, std::max(static_cast<int>(token_.size()), 1), text_}));
    token_ = {};
    next_ = text_.size();
  }

  // --- Values

  static bool is_int(const Scalar& x) { return std::holds_alternative<SymInt>(x); }
  static bool is_bool(const Scalar& x) { return std::holds_alternative<SymBool>(x); }

  SymInt as_int(const Scalar& x) {
    if (const SymInt* value = std::get_if<SymInt>(&x)) return *value;
    fail("an integer is needed here");
    return 0;
  }
  SymFloat as_float(const Scalar& x) {
    if (const SymFloat* value = std::get_if<SymFloat>(&x)) return *value;
    return SymFloat::from(as_int(x));
  }
  SymBool as_bool(const Scalar& x) {
    if (const SymBool* value = std::get_if<SymBool>(&x)) return *value;
    fail("a truth is needed here");
    return false;
  }

  Scalar arithmetic(std::string_view op, const Scalar& a, const Scalar& b) {
    if (is_bool(a) || is_bool(b)) {
      fail("truths cannot be calculated with");
      return SymInt(0);
    }
    if (op == "//") return floor_div(as_int(a), as_int(b));
    if (op == "%") return mod(as_int(a), as_int(b));
    if (!is_int(a) || !is_int(b) || op == "/") return SymFloat::apply(std::string(op), {as_float(a), as_float(b)});
    if (op == "+") return as_int(a) + as_int(b);
    return op == "-" ? as_int(a) - as_int(b) : as_int(a) * as_int(b);
  }

  SymBool comparison(const std::string& op, const Scalar& a, const Scalar& b) {
    if (!is_int(a) || !is_int(b)) return compare(op, as_float(a), as_float(b));
    const SymInt x = as_int(a), y = as_int(b);
    if (op == "==") return equal(x, y);
    if (op == "!=") return not_equal(x, y);
    if (op == "<=") return less_equal(x, y);
    if (op == "<") return less(x, y);
    return op == ">" ? less(y, x) : less_equal(y, x);
  }

  // --- Grammar, loosest first

  Scalar disjunction() {
    Scalar x = conjunction();
    while (take("or")) x = either(as_bool(x), as_bool(conjunction()));
    return x;
  }

  Scalar conjunction() {
    Scalar x = negation();
    while (take("and")) x = both(as_bool(x), as_bool(negation()));
    return x;
  }

  Scalar negation() {
    if (!enter()) return SymInt(0);
    Scalar x = take("not") ? Scalar(negate(as_bool(negation()))) : comparisons();
    --depth_;
    return x;
  }

  Scalar comparisons() {
    Scalar left = sum();
    std::optional<SymBool> truth;
    while (token_ == "==" || token_ == "!=" || token_ == "<=" || token_ == ">=" || token_ == "<" || token_ == ">") {
      const std::string op(token_);
      advance();
      Scalar right = sum();
      const SymBool link = comparison(op, left, right);
      truth = truth ? both(*truth, link) : link;
      left = right;
    }
    return truth ? Scalar(*truth) : left;
  }

  Scalar sum() {
    Scalar x = term();
    while (token_ == "+" || token_ == "-") {
      const std::string op(token_);
      advance();
      x = arithmetic(op, x, term());
    }
    return x;
  }

  Scalar term() {
    Scalar x = unary();
    while (token_ == "*" || token_ == "//" || token_ == "%" || token_ == "/") {
      const std::string op(token_);
      advance();
      x = arithmetic(op, x, unary());
    }
    return x;
  }

  Scalar unary() {
    if (!enter()) return SymInt(0);
    Scalar x;
    if (take("-")) {
      const bool literal = !token_.empty() && is_digit(token_[0]);
      // The lowest int64 has no positive counterpart.
      if (literal && token_ == "9223372036854775808") {
        advance();
        x = SymInt(INT64_MIN);
      } else {
        x = unary();
        const SymFloat* value = std::get_if<SymFloat>(&x);
        if (value != nullptr && value->constant()) {
          x = SymFloat(-*value->constant());
        } else {
          x = value != nullptr ? Scalar(SymFloat::apply("*", {-1.0, *value})) : Scalar(-as_int(x));
        }
      }
    } else {
      x = power();
    }
    --depth_;
    return x;
  }

  Scalar power() {
    Scalar x = primary();
    if (!take("**")) return x;
    const Scalar exponent = unary();
    if (!is_int(x) || !is_int(exponent)) return SymFloat::apply("pow", {as_float(x), as_float(exponent)});
    const std::optional<int64_t> n = as_int(exponent).constant();
    if (!n || *n < 0 || *n > 1000) {
      fail("the exponent of an integer must be a small constant");
      return x;
    }
    return product(std::vector<SymInt>(static_cast<size_t>(*n), as_int(x)));
  }

  Scalar primary() {
    if (take("(")) {
      Scalar x = disjunction();
      expect(")");
      return x;
    }
    if (token_.empty()) {
      fail("an expression is missing here");
      return SymInt(0);
    }
    if (is_digit(token_[0]) || token_[0] == '.') return number();
    if (!starts_name(token_[0])) {
      fail("'" + std::string(token_) + "' does not start an expression");
      return SymInt(0);
    }
    const std::string name(token_);
    if (name == "and" || name == "or" || name == "not") {
      fail("an expression is missing here");
      return SymInt(0);
    }
    const size_t name_start = start_;
    advance();
    if (take("(")) return call(name, name_start);
    if (name == "true" || name == "True") return SymBool(true);
    if (name == "false" || name == "False") return SymBool(false);
    if (name == "inf") return SymFloat(HUGE_VAL);
    if (name == "nan") return SymFloat(std::nan(""));
    return SymInt::symbol(name);
  }

  Scalar number() {
    const char *begin = token_.data(), *end = begin + token_.size();
    if (token_.find_first_of(".eE") == std::string_view::npos) {
      int64_t value = 0;
      const auto [stop, problem] = std::from_chars(begin, end, value);
      if (problem != std::errc() || stop != end) fail("this number does not fit into 64 bits");
      if (!failed_) advance();
      return SymInt(value);
    }
    double value = 0;
    const auto [stop, problem] = std::from_chars(begin, end, value);
    if (problem != std::errc() || stop != end) fail("this is not a number");
    if (!failed_) advance();
    return SymFloat(value);
  }

  Scalar call(const std::string& name, size_t name_start) {
    std::vector<Scalar> of;
    while (!failed_ && token_ != ")") {
      if (!of.empty()) expect(",");
      of.push_back(disjunction());
    }
    expect(")");
    if (failed_) return SymInt(0);
    const bool one = of.size() == 1;
    const bool integers = std::all_of(of.begin(), of.end(), is_int);
    if (name == "overflow" && of.empty()) return overflow();
    if ((name == "min" || name == "max") && of.size() >= 2) {
      Scalar x = of[0];
      for (size_t i = 1; i < of.size(); ++i) {
        if (integers) {
          x = name == "min" ? min(as_int(x), as_int(of[i])) : max(as_int(x), as_int(of[i]));
        } else {
          x = SymFloat::apply(name, {as_float(x), as_float(of[i])});
        }
      }
      return x;
    }
    if (one && name == "float") return as_float(of[0]);
    if (one && integers && name == "number" && as_int(of[0]).as_symbol()) return SymFloat::number(as_int(of[0]));
    if (one && (name == "floor" || name == "ceil" || name == "trunc" || name == "int" || name == "round")) {
      if (integers) return of[0];
      const SymFloat x = as_float(of[0]);
      return name == "floor" ? floor(x) : name == "ceil" ? ceil(x) : name == "round" ? round(x) : trunc(x);
    }
    if (one && (name == "sqrt" || name == "exp" || name == "log" || name == "log2" || name == "abs"))
      return SymFloat::apply(name, {as_float(of[0])});
    if (of.size() == 2 && name == "pow") return SymFloat::apply(name, {as_float(of[0]), as_float(of[1])});
    start_ = name_start;
    token_ = std::string_view(text_).substr(name_start, name.size());
    fail("there is no function '" + name + "' of " + std::to_string(of.size()) + " arguments");
    return SymInt(0);
  }

  bool enter() {
    if (++depth_ <= deepest) return true;
    fail("this is nested too deeply");
    --depth_;
    return false;
  }

  const std::string& text_;
  std::string_view token_;
  size_t start_ = 0;  // of the token
  size_t next_ = 0;
  int depth_ = 0;
  std::unique_ptr<Diagnostic> failed_;
};

template <class T>
Result<T> parse_as(const std::string& text, const char* what) {
  Result<Scalar> value = parse_scalar(text);
  if (!value) return value.error();
  if (T* wanted = std::get_if<T>(&*value)) return std::move(*wanted);
  if constexpr (std::is_same_v<T, SymFloat>) {
    if (const SymInt* integer = std::get_if<SymInt>(&*value)) return SymFloat::from(*integer);
  }
  return Parser(text).expected(what);
}

}  // namespace

Result<Scalar> parse_scalar(const std::string& text) { return Parser(text).parse(); }
Result<SymInt> parse_int(const std::string& text) { return parse_as<SymInt>(text, "an integer"); }
Result<SymFloat> parse_float(const std::string& text) { return parse_as<SymFloat>(text, "a number"); }
Result<SymBool> parse_bool(const std::string& text) { return parse_as<SymBool>(text, "a truth"); }

}  // namespace atenon::shape
