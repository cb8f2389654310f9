// Cuts the text form into tokens. White space, line ends and comments (`#` to the end of the line) only separate.
#include "text/tokens.h"

#include <algorithm>
#include <charconv>

#include "ir/graph.h"
#include "text/limits.h"
#include "text/numbers.h"

namespace atenon::text {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t skip_names(std::string_view text, size_t i) {
  while (i < text.size() && ir::is_name_character(text[i])) ++i;
  return i;
}

size_t skip_digits(std::string_view text, size_t i) {
  while (i < text.size() && is_digit(text[i])) ++i;
  return i;
}

// `1..64` is a number, two dots and a number: a point belongs to a number only if a digit follows.
size_t skip_number(std::string_view text, size_t i) {
  i = skip_digits(text, i);
  if (i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) i = skip_digits(text, i + 1);
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    size_t digits = i + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    if (digits < text.size() && is_digit(text[digits])) i = skip_digits(text, digits);
  }
  return i;
}

// Behind the closing mark, or npos.
size_t skip_string(std::string_view text, size_t i) {
  const char mark = text[i];
  for (++i; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == mark) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::string describe(const Token& token) {
  if (token.kind == TokenKind::end) return "the text ends";
  return "found '" + std::string(token.text.substr(0, 40)) + "'";
}

}  // namespace

Lexer::Lexer(std::string_view source, std::string file_name) : source_(source), file_(std::move(file_name)) {
  advance();
}

void Lexer::restart(size_t position) {
  if (failed()) return;
  next_ = position;
  advance();
}

void Lexer::advance() {
  if (failed()) return;
  size_t i = next_;
  while (i < source_.size() && (is_space(source_[i]) || source_[i] == '#')) {
    if (source_[i] == '#') {
      i = std::min(source_.find('\n', i), source_.size());
    } else {
      ++i;
    }
  }
  const auto set = [&](TokenKind kind, size_t stop, size_t skip = 0) {
    token_ = {kind, source_.substr(i + skip, stop - i - skip), i, stop};
    next_ = stop;
  };
  if (i >= source_.size()) return set(TokenKind::end, i);
  const char c = source_[i];
  const bool name_follows = i + 1 < source_.size() && ir::is_name_character(source_[i + 1]);
  if (is_digit(c)) return set(TokenKind::number, skip_number(source_, i));
  if ((c == '%' || c == '@') && name_follows) {
    set(c == '%' ? TokenKind::value : TokenKind::reference, skip_names(source_, i + 1), 1);
    if (token_.text.size() > max_name) fail(213, "this name is too long", token_);
    return;
  }
  if (c == '"' || c == '\'') {
    const size_t stop = skip_string(source_, i);
    set(c == '"' ? TokenKind::string : TokenKind::quoted, std::min(stop, source_.size()));
    if (stop == source_.npos) {
      token_.stop = std::min(source_.find('\n', i), source_.size());
      fail(210, "this text has no closing mark on its line", token_);
    }
    return;
  }
  if (c == '|') {
    const size_t stop = std::min(source_.find('\n', i), source_.size());
    return set(TokenKind::raw_line, stop, i + 1 < stop && source_[i + 1] == ' ' ? 2 : 1);
  }
  if (c == '.' && i + 1 < source_.size() && source_[i + 1] == '.') return set(TokenKind::sign, i + 2);
  if (ir::is_name_character(c) && c != '.') {
    size_t stop = skip_names(source_, i);
    if (source_.substr(stop, 2) == "::") stop = skip_names(source_, stop + 2);
    return set(TokenKind::word, stop);
  }
  set(TokenKind::sign, i + 1);
}

bool Lexer::is(std::string_view text) const {
  return (token_.kind == TokenKind::sign || token_.kind == TokenKind::word) && token_.text == text;
}

bool Lexer::take(std::string_view text) {
  if (!is(text)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view text, std::string_view where) {
  if (!take(text)) unexpected("'" + std::string(text) + "' " + std::string(where));
}

std::string_view Lexer::expect(TokenKind kind, std::string_view what) {
  if (!at(kind)) {
    unexpected(what);
    return {};
  }
  const std::string_view text = token_.text;
  advance();
  return text;
}

std::string Lexer::expect_string(std::string_view what) {
  const Token token = token_;
  const std::string_view text = expect(TokenKind::string, std::string(what) + " in double quotes");
  if (failed()) return {};
  std::optional<std::string> content = unquote(text);
  if (!content) fail(210, "this text has an escape that is none of \\\" \\\\ \\n \\t \\r \\xNN", token);
  return content.value_or("");
}

int64_t Lexer::expect_integer(std::string_view what, int64_t lowest, int64_t highest) {
  const Token first = token_;
  const bool is_negative = take("-");
  if (!at(TokenKind::number)) {
    unexpected(what);
    return lowest;
  }
  const std::string text = (is_negative ? "-" : "") + std::string(token_.text);
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < lowest || value > highest) {
    fail(210,
         std::string(what) + " must be an integer from " + std::to_string(lowest) + " to " + std::to_string(highest),
         {TokenKind::number, token_.text, first.start, token_.stop});
    return lowest;
  }
  advance();
  return value;
}

bool Lexer::at_keyword() const {
  if (token_.kind != TokenKind::word) return false;
  size_t i = token_.stop;
  while (i < source_.size() && is_space(source_[i])) ++i;
  return i < source_.size() && source_[i] == '=' && source_.substr(i, 2) != "==";
}

Token Lexer::take_expression() {
  const size_t start = token_.start;
  size_t i = start;
  int depth = 0;
  for (; i < source_.size() && source_[i] != '\n' && source_[i] != '#'; ++i) {
    const char c = source_[i];
    if (c == '(' || c == '[') ++depth;
    if ((c == ')' || c == ']') && depth-- == 0) break;
    if (depth == 0 && std::string_view(",@\"'{}|").find(c) != std::string_view::npos) break;
    if (depth > max_expression_depth || i - start > max_expression) {
      fail(215, "this expression is too long or nested too deeply", token_);
      return {};
    }
  }
  while (i > start && is_space(source_[i - 1])) --i;
  const Token expression{TokenKind::word, source_.substr(start, i - start), start, i};
  restart(i);
  return expression;
}

Token Lexer::take_lexeme() {
  const size_t start = token_.start;
  size_t i = start;
  int depth = 0;
  for (; i < source_.size() && source_[i] != '\n'; ++i) {
    const char c = source_[i];
    if (c == '(') ++depth;
    if (depth == 0 && (is_space(c) || c == ',' || c == ']' || c == '[' || c == '#' || c == '}')) break;
    if (c == ')') --depth;
  }
  const Token lexeme{TokenKind::word, source_.substr(start, i - start), start, i};
  restart(i);
  return lexeme;
}

SourceSpan Lexer::span(const Token& token) const {
  const size_t start = std::min(token.start, source_.size());
  const std::string_view before = source_.substr(0, start);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const size_t line_stop = std::min(source_.find('\n', start), source_.size());
  SourceSpan out;
  out.file = file_;
  out.line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  out.column = static_cast<int>(start - line_start) + 1;
  out.width = static_cast<int>(std::max<size_t>(1, std::min(token.stop, line_stop) - std::min(start, line_stop)));
  out.text = std::string(source_.substr(line_start, line_stop - line_start));
  return out;
}

void Lexer::fail(int code, std::string message, const Token& where, std::vector<Note> notes) {
  if (failed()) return;
  error_ = atenon::error(Status::bad_input, code, std::move(message)).at(span(where));
  error_->notes = std::move(notes);
  token_ = {TokenKind::end, {}, source_.size(), source_.size()};
  next_ = source_.size();
}

void Lexer::unexpected(std::string_view wanted) {
  fail(210, "expected " + std::string(wanted) + ", " + describe(token_), token_);
}

}  // namespace atenon::text
