// The rules of the grammar behind expression_parser.h.
#include "opset/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace atenon::opset {
namespace {

// Beyond these a text is hostile: nesting of brackets, and the height of an expression (a + b + c + ... is a deep tree
// too).
constexpr int deepest = 200;
constexpr int highest = 1000;

constexpr std::array<std::string_view, 11> reserved = {"if",  "else", "for", "in",   "is", "not",
                                                       "and", "or",   "let", "when", "def"};

// Binary operations from the loosest to the tightest level, as in Python; what has none is `not` and comparisons.
using Level = std::initializer_list<Operation>;
constexpr Level levels[] = {{Operation::otherwise},
                            {Operation::logical_or},
                            {Operation::logical_and},
                            {},
                            {Operation::bit_or},
                            {Operation::bit_and},
                            {Operation::shift_left, Operation::shift_right},
                            {Operation::add, Operation::sub},
                            {Operation::mul, Operation::floor_div, Operation::div, Operation::mod}};
constexpr size_t level_of_not = 3;
constexpr Level comparisons = {Operation::eq, Operation::ne, Operation::lt,
                               Operation::le, Operation::gt, Operation::ge};

std::optional<Datum> named_constant(std::string_view name) {
  if (name == "true" || name == "false") return Datum(name == "true");
  if (name == "none") return Datum();
  if (name == "inf") return Datum(std::numeric_limits<double>::infinity());
  if (name == "nan") return Datum(std::numeric_limits<double>::quiet_NaN());
  if (name == "default_dtype") return Datum(ScalarType::f32);
  if (name == "lowest") return Datum(Extreme::lowest);
  if (name == "highest") return Datum(Extreme::highest);
  if (name == "last") return Datum(Extreme::last);
  for (ScalarType type : all_scalar_types)
    if (name == name_of(type)) return Datum(type);
  return std::nullopt;
}

}  // namespace

struct ExpressionParser::Nested {
  explicit Nested(ExpressionParser& parser) : parser(parser) {
    if (++parser.depth_ > deepest) parser.fail("too deeply nested");
  }
  ~Nested() { --parser.depth_; }
  ExpressionParser& parser;
};

void ExpressionParser::start(size_t begin, size_t end) {
  Result<std::vector<Token>> read = tokens(file_, begin, end);
  if (!read) return adopt(read.error());
  tokens_ = std::move(*read);
  at_ = 0;
}

void ExpressionParser::adopt(Diagnostic failure) {
  if (!failure_) failure_ = std::move(failure);
  tokens_ = {Token()};
  at_ = 0;
}

void ExpressionParser::fail_at(const Token& token, const std::string& message) {
  const size_t width = token.text.size() + (token.kind == Token::Kind::text ? 2 : 0);
  const size_t offset = token.offset - (token.kind == Token::Kind::text ? 1 : 0);
  adopt(error(Status::bad_input, 102, message).at(file_.span(offset, width)));
}

bool ExpressionParser::peek(std::string_view text) const {
  return peek().text == text && (peek().kind == Token::Kind::symbol || peek().kind == Token::Kind::name);
}

bool ExpressionParser::peek_name() const {
  return peek().kind == Token::Kind::name && std::find(reserved.begin(), reserved.end(), peek().text) == reserved.end();
}

bool ExpressionParser::take(std::string_view text) {
  if (!peek(text)) return false;
  ++at_;
  return true;
}

void ExpressionParser::expect(std::string_view text) {
  if (!take(text)) fail("expected '" + std::string(text) + "'");
}

std::string ExpressionParser::name(const char* what) {
  if (!peek_name()) return fail(std::string("expected ") + what), "";
  return std::string(tokens_[at_++].text);
}

void ExpressionParser::expect_end() {
  if (peek().kind != Token::Kind::end) fail("'" + std::string(peek().text) + "' does not belong here");
}

int ExpressionParser::declare(std::string_view name) {
  scope_.push_back({name, tree_.slots});
  return tree_.slots++;
}

int ExpressionParser::lookup(std::string_view name) const {
  for (auto entry = scope_.rbegin(); entry != scope_.rend(); ++entry)
    if (entry->first == name) return entry->second;
  return -1;
}

void ExpressionParser::allow_symbols() {
  scope_.clear();
  symbols_allowed_ = true;
}

Pattern ExpressionParser::pattern() {
  Pattern pattern;
  const Nested nested(*this);
  if (take("[") || take("(")) {
    while (!failed() && !peek("]") && !peek(")")) {
      pattern.items.push_back(this->pattern());
      if (!take(",")) break;
    }
    if (!take("]")) expect(")");
  } else if (peek_name()) {
    pattern.slot = declare(tokens_[at_++].text);
  } else {
    fail("expected a name or a list of names");
  }
  return pattern;
}

const Expr* ExpressionParser::expression() {
  const Nested nested(*this);
  if (!peek("let")) return choice();
  const size_t scope = scope_.size();
  Expr& expr = make(ExprKind::let);
  while (take("let")) expr.bindings.push_back(binding());
  expr.operands.push_back(expression());
  scope_.resize(scope);
  return close(expr);
}

Binding ExpressionParser::binding() {  // the name is not yet known in its value
  const size_t start = at_;
  skip_to("=");
  expect("=");
  Binding binding;
  binding.value = expression();
  const size_t end = at_;
  at_ = failed() ? 0 : start;
  binding.pattern = pattern();
  at_ = failed() ? 0 : end;
  if (!at_end()) expect(";");
  return binding;
}

const Expr* ExpressionParser::postfix() {
  const Expr* expr = atom();
  while (!failed()) {
    if (take("[")) {
      Expr& index = make(ExprKind::index, expr);
      index.operands.push_back(expr);
      while (!failed() && !peek("]")) {
        index.operands.push_back(index_item());
        if (!take(",")) break;
      }
      expect("]");
      expr = close(index);
    } else if (take(".")) {
      const bool numbered = peek().kind == Token::Kind::number;
      Expr& field = make(numbered ? ExprKind::component : ExprKind::field, expr);
      field.operands.push_back(expr);
      if (numbered) {
        const std::string_view digits = tokens_[at_++].text;
        std::from_chars(digits.data(), digits.data() + digits.size(), field.slot);
      } else {
        field.name = name("a field");
      }
      expr = close(field);
    } else {
      break;
    }
  }
  return expr;
}

Message ExpressionParser::message() {
  Message message;
  const Token text = tokens_[at_++];
  std::vector<Token> outer = std::move(tokens_);
  const size_t resume = at_;
  std::string_view rest = text.text;
  const auto offset = [&] { return text.offset + (text.text.size() - rest.size()); };
  while (!rest.empty() && !failed()) {
    const size_t open = rest.find('{');
    if (open == std::string_view::npos) {
      message.pieces.push_back({std::string(rest)});
      break;
    }
    message.pieces.push_back({std::string(rest.substr(0, open))});
    rest.remove_prefix(open + 1);
    const size_t close = std::min(rest.find('}'), rest.size());
    start(offset(), offset() + close);
    message.pieces.push_back({"", expression()});
    expect_end();
    rest.remove_prefix(std::min(close + 1, rest.size()));
  }
  if (failed()) return message;
  tokens_ = std::move(outer);
  at_ = resume;
  return message;
}

std::vector<const Expr*> ExpressionParser::expressions(std::string_view close) {
  std::vector<const Expr*> result;
  while (!failed() && !peek(close)) {
    result.push_back(expression());
    if (!take(",")) break;
  }
  expect(close);
  return result;
}

Expr& ExpressionParser::make(ExprKind kind) {
  Expr& expr = tree_.exprs.emplace_back();
  expr.kind = kind;
  expr.offset = peek().offset;
  return expr;
}

Expr& ExpressionParser::make(ExprKind kind, const Expr* first) {
  Expr& expr = make(kind);
  expr.offset = first->offset;
  return expr;
}

// Sets the width, up to the token before the current one, and the height.
const Expr* ExpressionParser::close(Expr& expr) {
  if (at_ == 0 || failed()) return &expr;
  const auto raise = [&](const Expr* below) { expr.height = std::max(expr.height, below ? below->height + 1 : 0); };
  std::for_each(expr.operands.begin(), expr.operands.end(), raise);
  for (const Binding& binding : expr.bindings) raise(binding.value);
  raise(expr.guard);
  if (expr.height > highest) fail("this expression is too long");
  const Token& last = tokens_[at_ - 1];
  const size_t end = last.offset + last.text.size() + (last.kind == Token::Kind::text ? 1 : 0);
  expr.width = end > expr.offset ? end - expr.offset : 1;
  return &expr;
}

const Expr* ExpressionParser::binary(Operation operation, const Expr* left, const Expr* right) {
  Expr& expr = make(ExprKind::binary, left);
  expr.operation = operation;
  expr.operands = {left, right};
  return close(expr);
}

const Expr* ExpressionParser::unary(Operation operation, size_t offset, const Expr* operand) {
  Expr& expr = make(ExprKind::unary);
  expr.offset = offset;
  expr.operation = operation;
  expr.operands = {operand};
  return close(expr);
}

// Moves to the first `text` outside brackets, or to the end.
void ExpressionParser::skip_to(std::string_view text) {
  for (int depth = 0; !at_end(); ++at_) {
    if (depth == 0 && peek(text)) return;
    if (peek("(") || peek("[") || peek("{")) ++depth;
    if ((peek(")") || peek("]") || peek("}")) && --depth < 0) return;
  }
}

const Expr* ExpressionParser::choice() {
  const Expr* chosen = level(0);
  if (!take("if")) return chosen;
  Expr& expr = make(ExprKind::choice, chosen);
  const Expr* condition = level(0);
  expect("else");
  expr.operands = {condition, chosen, expression()};
  return close(expr);
}

const Operation* ExpressionParser::take_one(const Level& operations) {
  return std::find_if(operations.begin(), operations.end(),
                      [&](Operation operation) { return take(form_of(operation).spelled); });
}

const Expr* ExpressionParser::level(size_t i) {
  if (i == std::size(levels)) return signed_power();
  if (i == level_of_not) return negation();
  const Expr* left = level(i + 1);
  for (const Operation* next = nullptr; !failed() && (next = take_one(levels[i])) != levels[i].end();)
    left = binary(*next, left, level(i + 1));
  return left;
}

const Expr* ExpressionParser::negation() {
  const Nested nested(*this);
  const size_t offset = peek().offset;
  return take("not") ? unary(Operation::logical_not, offset, negation()) : comparison();
}

const Expr* ExpressionParser::comparison() {
  const Expr* left = level(level_of_not + 1);
  if (take("in")) return binary(Operation::contained, left, level(level_of_not + 1));
  if (take("is")) {
    const bool negated = take("not");
    expect("none");
    return unary(negated ? Operation::is_not_none : Operation::is_none, left->offset, left);
  }
  const Operation* found = take_one(comparisons);
  return found == comparisons.end() ? left : binary(*found, left, level(level_of_not + 1));
}

const Expr* ExpressionParser::signed_power() {
  const Nested nested(*this);
  const size_t offset = peek().offset;
  if (take("-")) return unary(Operation::neg, offset, signed_power());
  if (take("~")) return unary(Operation::bit_not, offset, signed_power());
  const Expr* left = postfix();
  return take("^") ? binary(Operation::pow, left, signed_power()) : left;
}

const Expr* ExpressionParser::index_item() {
  Expr* slice = nullptr;
  const Expr* lower = peek(":") ? nullptr : expression();
  if (!peek(":")) return lower;
  slice = &make(ExprKind::slice);
  expect(":");
  slice->operands = {lower, peek("]") || peek(",") ? nullptr : expression()};
  return close(*slice);
}

const Expr* ExpressionParser::atom() {
  const Nested nested(*this);
  const Token& token = peek();
  if (failed()) return &make(ExprKind::constant);
  if (token.kind == Token::Kind::number) return number();
  if (token.kind == Token::Kind::text) {
    Expr& text = make(ExprKind::constant);
    text.offset = token.offset - 1;
    text.value = std::string(token.text);
    ++at_;
    return close(text);
  }
  if (peek("(")) return parenthesis();
  if (peek("[")) return bracket();
  if (peek_name()) return named();
  if (token.kind == Token::Kind::end)
    return fail("the line ends where a value was expected"), &make(ExprKind::constant);
  return fail("expected a value, not '" + std::string(token.text) + "'"), &make(ExprKind::constant);
}

const Expr* ExpressionParser::number() {
  Expr& expr = make(ExprKind::constant);
  const std::string digits(tokens_[at_].text);
  int64_t integer = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), integer);
  if (end != digits.data() + digits.size())
    expr.value = std::strtod(digits.c_str(), nullptr);
  else if (problem != std::errc())
    fail("this number is too large");
  else
    expr.value = integer;
  if (!failed()) ++at_;
  return close(expr);
}

const Expr* ExpressionParser::parenthesis() {
  Expr& expr = make(ExprKind::sequence);
  expect("(");
  if (take(")")) {  // no results
    expr.is_tuple = true;
    return close(expr);
  }
  const Expr* first = expression();
  if (take(")")) return first;
  expect(",");
  expr.is_tuple = true;
  expr.operands = expressions(")");
  expr.operands.insert(expr.operands.begin(), first);
  return close(expr);
}

const Expr* ExpressionParser::bracket() {
  const size_t open = at_;
  Expr& expr = make(ExprKind::sequence);
  expect("[");
  const size_t inside = at_;
  skip_to("for");
  if (!take("for")) {
    at_ = failed() ? 0 : inside;
    expr.operands = expressions("]");
    return close(expr);
  }
  // What stands before `for` uses the names that are bound behind it.
  expr.kind = ExprKind::each;
  const size_t scope = scope_.size();
  const size_t names = at_;
  skip_to("in");
  expect("in");
  Binding binding;
  binding.value = level(0);
  const size_t after = at_;
  at_ = failed() ? 0 : names;
  binding.pattern = pattern();
  expect("in");
  at_ = failed() ? 0 : after;
  if (take("if")) expr.guard = level(0);
  expect("]");
  const size_t end = at_;
  expr.bindings.push_back(std::move(binding));
  at_ = failed() ? 0 : inside;
  expr.operands.push_back(expression());
  if (!failed() && !peek("for")) fail_at(tokens_[open], "this comprehension is malformed");
  at_ = failed() ? 0 : end;
  scope_.resize(scope);
  return close(expr);
}

const Expr* ExpressionParser::named() {
  const Token token = tokens_[at_++];
  if (peek("{")) return monoid(token);
  if (peek("(")) return call(token, std::string(token.text));
  Expr& expr = make(ExprKind::variable);
  expr.offset = token.offset;
  expr.slot = lookup(token.text);
  if (expr.slot >= 0) return close(expr);
  // where.self(...): an operator with its overload.
  if (peek(".") && at_ + 2 < tokens_.size() && tokens_[at_ + 1].kind == Token::Kind::name &&
      tokens_[at_ + 2].text == "(") {
    const std::string overload(tokens_[at_ + 1].text);
    at_ += 2;
    return call(token, std::string(token.text) + '.' + overload);
  }
  expr.kind = ExprKind::constant;
  if (const std::optional<Datum> constant = named_constant(token.text))
    expr.value = *constant;
  else if (token.text == "count")
    expr.kind = ExprKind::count;
  else if (symbols_allowed_)
    expr.value = ir::SymInt::symbol(std::string(token.text));
  else
    unknown(token);
  return close(expr);
}

void ExpressionParser::unknown(const Token& token) {
  std::vector<std::string> names;
  for (const auto& [name, slot] : scope_) names.emplace_back(name);
  const std::string near = nearest(std::string(token.text), names);
  Diagnostic failure = error(Status::bad_input, 102, "nothing is called '" + std::string(token.text) + "' here")
                           .at(file_.span(token.offset, token.text.size()));
  if (!near.empty()) failure.notes.push_back({"did you mean '" + near + "'?"});
  adopt(std::move(failure));
}

const Expr* ExpressionParser::call(const Token& token, std::string name) {
  Expr& expr = make(ExprKind::call);
  expr.offset = token.offset;
  expr.rule = find_rule(name);
  const auto function = library_.functions.find(name);
  if (function != library_.functions.end()) expr.function = &function->second;
  expr.name = std::move(name);
  expect("(");
  while (!failed() && !peek(")")) {
    const bool keyword = peek_name() && tokens_[at_ + 1].text == "=" && tokens_[at_ + 1].kind == Token::Kind::symbol;
    expr.names.push_back(keyword ? this->name("a name") : "");
    if (keyword) expect("=");
    expr.operands.push_back(expression());
    if (!take(",")) break;
  }
  expect(")");
  return close(expr);
}

const Expr* ExpressionParser::monoid(const Token& token) {
  Expr& expr = make(ExprKind::monoid);
  expr.offset = token.offset;
  expr.name = std::string(token.text);
  const auto known = library_.monoids.find(expr.name);
  if (known == library_.monoids.end())
    fail_at(token, "there is no monoid '" + expr.name + "'");
  else
    expr.monoid = &known->second;
  const size_t scope = scope_.size();
  expect("{");
  while (take("let")) expr.bindings.push_back(binding());
  do expr.operands.push_back(expression());
  while (take(","));
  if (take("when")) expr.guard = expression();
  expect("}");
  scope_.resize(scope);
  return close(expr);
}

}  // namespace atenon::opset
