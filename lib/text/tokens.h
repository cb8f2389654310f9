// The tokens of the text form, and the first error: private to lib/text.
//
// Errors are sticky: after the first one every token is `end`, so that parsing code reads straight on and its loops
// stop. All recursion in the parser is bounded by limits.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "support/result.h"

namespace atenon::text {

enum class TokenKind {
  end,
  word,       // program, aten::add.Tensor, f32
  number,     // 12, 1.5e-07
  string,     // "..." with its marks
  quoted,     // '...' with its marks: a Word
  value,      // %name, text without the mark
  reference,  // @name, text without the mark
  raw_line,   // | text to the end of the line: text after the mark and one space
  sign,       // any other single character, and `..`
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  size_t start = 0;  // in the source
  size_t stop = 0;
};

class Lexer {
 public:
  Lexer(std::string_view source, std::string file_name);

  const Token& token() const { return token_; }
  bool is(std::string_view sign_or_word) const;
  bool at(TokenKind kind) const { return token_.kind == kind; }
  bool at_end() const { return token_.kind == TokenKind::end; }
  void advance();
  // Advances and returns true if the token is this sign or word.
  bool take(std::string_view sign_or_word);
  void expect(std::string_view sign_or_word, std::string_view where);
  // The text of a token of that kind; "" and an error if there is none. `what` names it: "a name".
  std::string_view expect(TokenKind kind, std::string_view what);
  std::string expect_string(std::string_view what);
  int64_t expect_integer(std::string_view what, int64_t lowest, int64_t highest);

  // True if the token is a word that `=` (not `==`) follows.
  bool at_keyword() const;
  // The text from the current token to where an expression must end: a comma, a closing bracket, `@`, a quote, `{`, `#`
  // or the end of the line outside parentheses. Moves past it.
  Token take_expression();
  // A single token up to white space or one of `,]);`: an element of a tensor, a digest.
  Token take_lexeme();

  void fail(int code, std::string message, const Token& where, std::vector<Note> notes = {});
  void unexpected(std::string_view wanted);
  bool failed() const { return error_.has_value(); }
  Diagnostic error() { return std::move(*error_); }
  SourceSpan span(const Token& token) const;

 private:
  void restart(size_t position);

  std::string_view source_;
  std::string file_;
  size_t next_ = 0;
  Token token_;
  std::optional<Diagnostic> error_;
};

}  // namespace atenon::text
