// The parser of expressions: recursive descent over tokens, one function a grammar rule (opsets/README.md has the
// grammar). block.cpp reads the lines that expressions stand in.
//
// The first failure sticks: what follows it returns without effect, so that no rule needs to check the ones it calls.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opset/block.h"

namespace atenon::opset {

class ExpressionParser {
 public:
  // Expressions are appended to `tree`. All three outlive the parser.
  ExpressionParser(const SourceFile& file, const Library& library, Tree& tree)
      : file_(file), library_(library), tree_(tree) {}

  // Goes on with the text between two offsets of the file; names that were declared stay known.
  void start(size_t begin, size_t end);

  // --- Failures

  void fail(const std::string& message) { fail_at(peek(), message); }
  void fail_at(const Token& token, const std::string& message);
  bool failed() const { return failure_.has_value(); }
  Result<void> outcome() { return failure_ ? Result<void>(std::move(*failure_)) : Result<void>(); }

  // --- Tokens

  const Token& peek() const { return tokens_[at_]; }
  bool peek(std::string_view text) const;  // a symbol or a word
  bool at_text() const { return peek().kind == Token::Kind::text; }
  bool at_end() const { return peek().kind == Token::Kind::end; }
  bool take(std::string_view text);
  void expect(std::string_view text);
  void expect_end();
  std::string name(const char* what);  // fails with "expected `what`"

  // --- Names

  // A slot for the name, which hides others of that name from now on.
  int declare(std::string_view name);
  int lookup(std::string_view name) const;  // the slot; -1 where there is none
  // For examples: no name is known any more, and one that nothing claims is a symbol.
  void allow_symbols();

  // --- Rules

  Pattern pattern();
  const Expr* expression();
  Binding binding();
  const Expr* postfix();
  Message message();  // `"text {expr} text"`
  std::vector<const Expr*> expressions(std::string_view close);

 private:
  struct Nested;  // counts how deep rules are nested

  void adopt(Diagnostic failure);
  bool peek_name() const;
  void skip_to(std::string_view text);

  Expr& make(ExprKind kind);
  Expr& make(ExprKind kind, const Expr* first);
  const Expr* close(Expr& expr);
  const Expr* binary(Operation operation, const Expr* left, const Expr* right);
  const Expr* unary(Operation operation, size_t offset, const Expr* operand);

  const Expr* choice();
  const Expr* level(size_t i);
  const Operation* take_one(const std::initializer_list<Operation>& operations);
  const Expr* negation();
  const Expr* comparison();
  const Expr* signed_power();
  const Expr* index_item();
  const Expr* atom();
  const Expr* number();
  const Expr* parenthesis();
  const Expr* bracket();
  const Expr* named();
  void unknown(const Token& token);
  const Expr* call(const Token& token, std::string name);
  const Expr* monoid(const Token& token);

  const SourceFile& file_;
  const Library& library_;
  Tree& tree_;
  std::vector<Token> tokens_ = {Token()};
  size_t at_ = 0;
  std::vector<std::pair<std::string_view, int>> scope_;
  bool symbols_allowed_ = false;
  int depth_ = 0;
  std::optional<Diagnostic> failure_;
};

}  // namespace atenon::opset
