// Sizes as torch.export writes them down: sympy expressions, either built from classes, as
// `Add(FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2)), Integer(1))` since PyTorch 2.7, or infix, as
// `(s0//2) + 1`; and guards, which are Python: `L['x'].size()[0] == L['n']`.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "shape/symint.h"

namespace atenon::pt2 {

struct Names {
  // What a symbol stands for here; nullopt if it is not known.
  std::function<std::optional<shape::Scalar>(const std::string& name)> symbol;
  // The size of an input in a dimension, or the number that an input is: path as in TreeSpec ("d.a"). Of guards only.
  std::function<std::optional<shape::SymInt>(const std::string& path, std::optional<int64_t> dimension)> input =
      [](const std::string&, std::optional<int64_t>) { return std::nullopt; };
};

// E0825 if the text is not understood, or uses what SymInt cannot say.
Result<shape::Scalar> parse_expression(const std::string& text, const Names& names);

// The symbol that the text is, if it is nothing else.
std::optional<std::string> lone_symbol(const std::string& text);

// The spelling that torch.export reads back (built from classes). Of a symbol it says whether it is the size of an
// input (positive) or one that a node finds. Nullopt for what sympy has no counterpart of.
struct SymbolTraits {
  std::function<bool(const std::string& name)> is_positive;
};
std::optional<std::string> print_expression(const shape::Scalar& value, const SymbolTraits& traits);

}  // namespace atenon::pt2
