// Tokens of the operator language.
#pragma once

#include <string_view>
#include <vector>

#include "support/result.h"

namespace atenon::opset {

// A text with operator blocks, as read from a file or as carried by a program.
struct SourceFile {
  std::string name;  // "opsets/aten/pointwise.ops"
  std::string text;

  SourceSpan span(size_t offset, size_t width = 1) const;
};

struct Token {
  enum class Kind { name, number, text, symbol, end };
  Kind kind = Kind::end;
  size_t offset = 0;      // into SourceFile::text
  std::string_view text;  // of a Kind::text without its quotes
};

// Tokens of [begin, end), without blanks, line ends and comments; the last has Kind::end. E0102 for what is no token.
Result<std::vector<Token>> tokens(const SourceFile& file, size_t begin, size_t end);

}  // namespace atenon::opset
