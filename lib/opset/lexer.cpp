#include "opset/lexer.h"

#include <algorithm>
#include <array>

namespace atenon::opset {
namespace {

constexpr std::array<std::string_view, 10> long_symbols = {"==", "!=", "<=", ">=", "<<", ">>", "//", "??", ":=", "->"};
constexpr std::string_view short_symbols = "()[]{}.,;:=<>+-*/%^&|~";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The end of a name at `at`; names may be qualified: aten::add.
size_t end_of_name(std::string_view text, size_t at) {
  for (;;) {
    while (at < text.size() && (is_letter(text[at]) || is_digit(text[at]))) ++at;
    if (at + 2 >= text.size() || text.substr(at, 2) != "::" || !is_letter(text[at + 2])) return at;
    at += 2;
  }
}

// `12`, `1.`, `0.5`, `1e-05`. After a dot only digits count: in `pair.0.1` there is no 0.1.
size_t end_of_number(std::string_view text, size_t at, bool digits_only) {
  const auto digits = [&] {
    while (at < text.size() && is_digit(text[at])) ++at;
  };
  digits();
  if (digits_only) return at;
  if (at < text.size() && text[at] == '.') ++at, digits();
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const size_t sign = at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+') ? 1 : 0;
    if (at + 1 + sign < text.size() && is_digit(text[at + 1 + sign])) at += 1 + sign, digits();
  }
  return at;
}

}  // namespace

SourceSpan SourceFile::span(size_t offset, size_t width) const {
  offset = std::min(offset, text.size());
  const size_t start = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;  // npos + 1 is 0
  const size_t end = std::min(text.find('\n', offset), text.size());
  return {.file = name,
          .line = static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(start), '\n')) + 1,
          .column = static_cast<int>(offset - start) + 1,
          .width = static_cast<int>(std::clamp<size_t>(width, 1, std::max<size_t>(end - offset, 1))),
          .text = text.substr(start, end - start)};
}

Result<std::vector<Token>> tokens(const SourceFile& file, size_t begin, size_t end) {
  const std::string_view text = std::string_view(file.text).substr(0, end);
  std::vector<Token> result;
  result.reserve((end - begin) / 4);
  const auto add = [&](Token::Kind kind, size_t from, size_t to) {
    result.push_back({kind, from, text.substr(from, to - from)});
  };
  for (size_t at = begin; at < end;) {
    const char c = text[at];
    size_t next = at + 1;
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
    } else if (c == '#') {
      next = std::min(text.find('\n', at), end);
    } else if (is_letter(c)) {
      next = end_of_name(text, at);
      add(Token::Kind::name, at, next);
    } else if (is_digit(c)) {
      next = end_of_number(text, at,
                           !result.empty() && result.back().text == "." && result.back().kind == Token::Kind::symbol);
      add(Token::Kind::number, at, next);
    } else if (c == '"') {
      next = std::min(text.find_first_of("\"\n", at + 1), end);
      if (next == end || text[next] == '\n')
        return error(Status::bad_input, 102, "this text is not closed").at(file.span(at, next - at));
      add(Token::Kind::text, at + 1, next++);
    } else {
      const std::string_view two = text.substr(at, 2);
      if (std::find(long_symbols.begin(), long_symbols.end(), two) != long_symbols.end())
        next = at + 2;
      else if (short_symbols.find(c) == std::string_view::npos)
        return error(Status::bad_input, 102, std::string("'") + c + "' has no meaning in an operator's block")
            .at(file.span(at));
      add(Token::Kind::symbol, at, next);
    }
    at = next;
  }
  const size_t last = result.empty() ? begin : result.back().offset + result.back().text.size();
  result.push_back({Token::Kind::end, last, {}});
  return result;
}

}  // namespace atenon::opset
