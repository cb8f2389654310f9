// A recursive descent over Python's expression syntax, evaluated as it is read.
#include "pt2/expression.h"

#include <charconv>
#include <limits>
#include <map>

namespace atenon::pt2 {
namespace {

using shape::Scalar;
using shape::SymBool;
using shape::SymFloat;
using shape::SymInt;

constexpr int deepest = 200;
constexpr size_t longest = 1 << 16;
constexpr int64_t highest_power = 16;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(const std::string& text, const Names& names) : text_(text), names_(names) {}

  std::optional<Scalar> parse() {
    if (text_.size() > longest) return std::nullopt;
    std::optional<Scalar> value = disjunction();
    skip_space();
    return next_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Value = std::optional<Scalar>;

  // --- Tokens

  void skip_space() {
    while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\n')) ++next_;
  }
  bool take(std::string_view token) {
    skip_space();
    if (text_.compare(next_, token.size(), token) != 0) return false;
    const size_t end = next_ + token.size();
    if (is_name_start(token.front()) && end < text_.size() && (is_name_start(text_[end]) || is_digit(text_[end])))
      return false;
    next_ = end;
    return true;
  }
  std::string name() {
    skip_space();
    const size_t begin = next_;
    if (next_ < text_.size() && is_name_start(text_[next_]))
      while (next_ < text_.size() && (is_name_start(text_[next_]) || is_digit(text_[next_]))) ++next_;
    return text_.substr(begin, next_ - begin);
  }
  std::optional<std::string> quoted() {
    skip_space();
    if (next_ >= text_.size() || (text_[next_] != '\'' && text_[next_] != '"')) return std::nullopt;
    const char quote = text_[next_];
    const size_t end = text_.find(quote, next_ + 1);
    if (end == std::string::npos) return std::nullopt;
    std::string content = text_.substr(next_ + 1, end - next_ - 1);
    next_ = end + 1;
    return content;
  }

  // --- Operators, loosest first

  Value disjunction() {
    Value left = conjunction();
    while (left && take("or")) left = logical(left, conjunction(), shape::either);
    return left;
  }
  Value conjunction() {
    Value left = negation();
    while (left && take("and")) left = logical(left, negation(), shape::both);
    return left;
  }
  Value negation() {
    if (!take("not")) return comparison();
    const Value inner = deeper([&] { return negation(); });
    return inner && truth(*inner) ? Value(shape::negate(*truth(*inner))) : std::nullopt;
  }
  Value comparison() {
    Value left = sum();
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"})
      if (left && take(op)) return compare(op, left, sum());
    return left;
  }
  Value sum() {
    Value left = term();
    while (left) {
      if (take("+"))
        left = arithmetic("+", left, term());
      else if (take("-"))
        left = arithmetic("-", left, term());
      else
        break;
    }
    return left;
  }
  Value term() {
    Value left = factor();
    while (left) {
      if (take("//"))
        left = arithmetic("//", left, factor());
      else if (take("/"))
        left = arithmetic("/", left, factor());
      else if (take("%"))
        left = arithmetic("%", left, factor());
      else if (!next_is("**") && take("*"))
        left = arithmetic("*", left, factor());
      else
        break;
    }
    return left;
  }
  bool next_is(std::string_view token) {
    skip_space();
    return text_.compare(next_, token.size(), token) == 0;
  }
  Value factor() {
    if (take("-")) return arithmetic("-", Scalar(SymInt(0)), deeper([&] { return factor(); }));
    Value base = atom();
    if (base && take("**")) return power(base, deeper([&] { return factor(); }));
    return base;
  }

  template <class Inner>
  Value deeper(const Inner& inner) {
    if (depth_ >= deepest) return std::nullopt;
    ++depth_;
    Value value = inner();
    --depth_;
    return value;
  }

  // --- Atoms

  Value atom() {
    skip_space();
    if (take("(")) {
      const Value inner = deeper([&] { return disjunction(); });
      return take(")") ? inner : std::nullopt;
    }
    if (next_ < text_.size() && (is_digit(text_[next_]) || text_[next_] == '.')) return number();
    std::string word = name();
    if (word.empty()) return std::nullopt;
    if (word == "L" && next_is("[")) return input();
    while (take(".")) word += "." + name();  // math.trunc
    if (take("(")) return deeper([&] { return call(word); });
    if (word == "True" || word == "true") return SymBool(true);
    if (word == "False" || word == "false") return SymBool(false);
    if (word == "math.inf") return SymFloat(std::numeric_limits<double>::infinity());
    return names_.symbol(word);
  }

  Value number() {
    const char *begin = text_.data() + next_, *end = text_.data() + text_.size();
    int64_t integer = 0;
    const auto whole = std::from_chars(begin, end, integer);
    const bool is_whole = whole.ec == std::errc() && (whole.ptr == end || (*whole.ptr != '.' && *whole.ptr != 'e'));
    double real = 0;
    const auto broken = std::from_chars(begin, end, real);
    if (broken.ec != std::errc()) return std::nullopt;
    next_ = static_cast<size_t>((is_whole ? whole.ptr : broken.ptr) - text_.data());
    return is_whole ? Scalar(SymInt(integer)) : Scalar(SymFloat(real));
  }

  // L['d']['a'].size()[0], or L['n'] of a number
  Value input() {
    std::string path;
    while (true) {
      std::string key;
      if (take("[")) {
        if (const std::optional<std::string> text = quoted()) {
          key = *text;
        } else {
          const Value index = number();
          if (!index || !integer(*index) || !integer(*index)->constant()) return std::nullopt;
          key = std::to_string(*integer(*index)->constant());
        }
        if (!take("]")) return std::nullopt;
      } else if (take(".")) {
        key = name();
        if (key == "size" && take("(") && take(")") && take("[")) {
          const Value dimension = number();
          if (!dimension || !integer(*dimension) || !integer(*dimension)->constant() || !take("]")) return std::nullopt;
          return names_.input(path, *integer(*dimension)->constant());
        }
      } else {
        return names_.input(path, std::nullopt);
      }
      if (key.empty()) return std::nullopt;
      path += (path.empty() ? "" : ".") + key;
    }
  }

  // The arguments of a class or function, after its opening bracket. Keywords say what is assumed of a symbol, or the
  // precision of a number: neither matters here.
  Value call(const std::string& callee) {
    std::vector<Scalar> arguments;
    std::string text;
    while (!take(")")) {
      if (const std::optional<std::string> content = quoted()) {
        text = *content;
      } else {
        const size_t before = next_;
        const std::string keyword = name();
        if (!keyword.empty() && !next_is("==") && take("=")) {
          if (!deeper([&] { return disjunction(); })) return std::nullopt;
        } else {
          next_ = before;
          const Value argument = disjunction();
          if (!argument) return std::nullopt;
          arguments.push_back(*argument);
        }
      }
      if (!take(",") && !next_is(")")) return std::nullopt;
    }
    if (callee == "Symbol") return names_.symbol(text);
    if (callee == "Float" && !text.empty()) {
      double real = 0;
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), real);
      return problem == std::errc() && end == text.data() + text.size() ? Value(SymFloat(real)) : std::nullopt;
    }
    return apply(callee, arguments);
  }

  Value apply(const std::string& callee, const std::vector<Scalar>& arguments) {
    static const std::map<std::string, std::string> folds = {{"Add", "+"},   {"Mul", "*"},   {"Max", "max"},
                                                             {"Min", "min"}, {"max", "max"}, {"min", "min"},
                                                             {"And", "and"}, {"Or", "or"}};
    if (const auto fold = folds.find(callee); fold != folds.end() && !arguments.empty()) {
      Value result = arguments.front();
      for (size_t i = 1; result && i < arguments.size(); ++i) result = binary(fold->second, *result, arguments[i]);
      return result;
    }
    static const std::map<std::string, std::string> pairs = {{"FloorDiv", "//"},
                                                             {"CleanDiv", "//"},
                                                             {"Mod", "%"},
                                                             {"PythonMod", "%"},
                                                             {"IntTrueDiv", "/"},
                                                             {"FloatTrueDiv", "/"},
                                                             {"Rational", "/"},
                                                             {"Pow", "**"},
                                                             {"PowByNatural", "**"},
                                                             {"FloatPow", "**"},
                                                             {"Eq", "=="},
                                                             {"Equality", "=="},
                                                             {"Ne", "!="},
                                                             {"Unequality", "!="},
                                                             {"Le", "<="},
                                                             {"LessThan", "<="},
                                                             {"Lt", "<"},
                                                             {"StrictLessThan", "<"},
                                                             {"Ge", ">="},
                                                             {"GreaterThan", ">="},
                                                             {"Gt", ">"},
                                                             {"StrictGreaterThan", ">"}};
    if (const auto pair = pairs.find(callee); pair != pairs.end() && arguments.size() == 2)
      return binary(pair->second, arguments[0], arguments[1]);
    if (callee == "CeilDiv" && arguments.size() == 2 && integer(arguments[0]) && integer(arguments[1]))
      return -shape::floor_div(-*integer(arguments[0]), *integer(arguments[1]));
    return arguments.size() == 1 ? unary(callee, arguments[0]) : std::nullopt;
  }

  Value unary(const std::string& callee, const Scalar& argument) {
    if (callee == "Integer" && integer(argument)) return argument;
    if (callee == "Not" && truth(argument)) return shape::negate(*truth(argument));
    // By the names of sympy's classes, and by those that guards call.
    static const std::map<std::string, std::string> meanings = {{"ToFloat", "float"},
                                                                {"float", "float"},
                                                                {"torch.sym_float", "float"},
                                                                {"sqrt", "sqrt"},
                                                                {"torch._sym_sqrt", "sqrt"},
                                                                {"OpaqueUnaryFn_sqrt", "sqrt"},
                                                                {"exp", "exp"},
                                                                {"math.exp", "exp"},
                                                                {"OpaqueUnaryFn_exp", "exp"},
                                                                {"log", "log"},
                                                                {"math.log", "log"},
                                                                {"OpaqueUnaryFn_log", "log"},
                                                                {"log2", "log2"},
                                                                {"math.log2", "log2"},
                                                                {"OpaqueUnaryFn_log2", "log2"},
                                                                {"Abs", "abs"},
                                                                {"abs", "abs"},
                                                                {"floor", "floor"},
                                                                {"FloorToInt", "floor"},
                                                                {"math.floor", "floor"},
                                                                {"ceiling", "ceil"},
                                                                {"CeilToInt", "ceil"},
                                                                {"math.ceil", "ceil"},
                                                                {"TruncToInt", "trunc"},
                                                                {"math.trunc", "trunc"},
                                                                {"RoundToInt", "round"},
                                                                {"round", "round"}};
    const auto known = meanings.find(callee);
    const std::optional<SymFloat> x = real(argument);
    if (known == meanings.end() || !x) return std::nullopt;
    const std::string& meaning = known->second;
    if (meaning == "float") return *x;
    if (meaning == "abs" && integer(argument)) return shape::max(*integer(argument), -*integer(argument));
    if (meaning == "sqrt" || meaning == "exp" || meaning == "log" || meaning == "log2" || meaning == "abs")
      return SymFloat::apply(meaning, {*x});
    if (integer(argument)) return argument;
    return meaning == "floor"   ? shape::floor(*x)
           : meaning == "ceil"  ? shape::ceil(*x)
           : meaning == "trunc" ? shape::trunc(*x)
                                : shape::round(*x);
  }

  // --- What operators mean

  static std::optional<SymInt> integer(const Scalar& value) {
    return std::holds_alternative<SymInt>(value) ? std::optional(std::get<SymInt>(value)) : std::nullopt;
  }
  static std::optional<SymFloat> real(const Scalar& value) {
    if (std::holds_alternative<SymFloat>(value)) return std::get<SymFloat>(value);
    return std::holds_alternative<SymInt>(value) ? std::optional(SymFloat::from(std::get<SymInt>(value)))
                                                 : std::nullopt;
  }
  static std::optional<SymBool> truth(const Scalar& value) {
    return std::holds_alternative<SymBool>(value) ? std::optional(std::get<SymBool>(value)) : std::nullopt;
  }

  static Value logical(const Value& a, const Value& b, SymBool (*op)(const SymBool&, const SymBool&)) {
    return a && b && truth(*a) && truth(*b) ? Value(op(*truth(*a), *truth(*b))) : std::nullopt;
  }
  Value arithmetic(const std::string& op, const Value& a, const Value& b) {
    return a && b ? binary(op, *a, *b) : std::nullopt;
  }
  Value compare(const std::string& op, const Value& a, const Value& b) {
    return a && b ? binary(op, *a, *b) : std::nullopt;
  }
  Value power(const Value& a, const Value& b) { return a && b ? binary("**", *a, *b) : std::nullopt; }

  static Value binary(const std::string& op, const Scalar& a, const Scalar& b) {
    if (op == "and") return logical(a, b, shape::both);
    if (op == "or") return logical(a, b, shape::either);
    if (integer(a) && integer(b) && op != "/") return integers(op, *integer(a), *integer(b));
    const std::optional<SymFloat> x = real(a), y = real(b);
    if (!x || !y) return std::nullopt;
    if (op == "==" || op == "!=" || op == "<" || op == "<=" || op == ">" || op == ">=")
      return shape::compare(op, *x, *y);
    if (op == "**") return SymFloat::apply("pow", {*x, *y});
    if (op == "//" || op == "%") return std::nullopt;
    return SymFloat::apply(op, {*x, *y});
  }

  static Value integers(const std::string& op, const SymInt& a, const SymInt& b) {
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (op == "//") return shape::floor_div(a, b);
    if (op == "%") return shape::mod(a, b);
    if (op == "max") return shape::max(a, b);
    if (op == "min") return shape::min(a, b);
    if (op == "==") return shape::equal(a, b);
    if (op == "!=") return shape::not_equal(a, b);
    if (op == "<") return shape::less(a, b);
    if (op == "<=") return shape::less_equal(a, b);
    if (op == ">") return shape::less(b, a);
    if (op == ">=") return shape::less_equal(b, a);
    const std::optional<int64_t> exponent = b.constant();
    if (!exponent || *exponent > highest_power) return std::nullopt;
    if (*exponent < 0) return SymFloat::apply("pow", {SymFloat::from(a), SymFloat::from(b)});
    return shape::product(std::vector<SymInt>(static_cast<size_t>(*exponent), a));
  }

  const std::string& text_;
  const Names& names_;
  size_t next_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Scalar> parse_expression(const std::string& text, const Names& names) {
  if (std::optional<Scalar> value = Parser(text, names).parse()) return *value;
  return error(Status::unsupported, 825, "the size '" + text.substr(0, 200) + "' cannot be expressed here");
}

std::optional<std::string> lone_symbol(const std::string& text) {
  std::string name = text;
  if (text.starts_with("Symbol('")) {
    const size_t end = text.find('\'', 8), close = text.find(')');
    if (end == std::string::npos || close + 1 != text.size()) return std::nullopt;
    name = text.substr(8, end - 8);
  }
  if (name.empty() || !is_name_start(name[0])) return std::nullopt;
  for (const char c : name)
    if (!is_name_start(c) && !is_digit(c)) return std::nullopt;
  return name;
}

}  // namespace atenon::pt2
