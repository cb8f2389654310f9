// Our symbolic scalars in the spelling of sympy's srepr, which torch.export writes and reads.

#include "pt2/expression.h"

namespace atenon::pt2 {
namespace {

using shape::Atom;
using shape::AtomKind;
using shape::SymBool;
using shape::SymFloat;
using shape::SymInt;

std::string integer(int64_t value) { return "Integer(" + std::to_string(value) + ")"; }

std::string joined(const std::string& callee, const std::vector<std::string>& operands) {
  if (operands.size() == 1) return operands[0];
  std::string out = callee + "(";
  for (size_t i = 0; i < operands.size(); ++i) out += (i ? ", " : "") + operands[i];
  return out + ")";
}

std::optional<std::string> atom_text(const Atom& atom, const SymbolTraits& traits) {
  if (atom.kind == AtomKind::symbol)
    return "Symbol('" + atom.spelling + "', " + (traits.is_positive(atom.spelling) ? "positive=True, " : "") +
           "integer=True)";
  const char* callee = atom.kind == AtomKind::floor_div ? "FloorDiv"
                       : atom.kind == AtomKind::mod     ? "PythonMod"
                       : atom.kind == AtomKind::min     ? "Min"
                       : atom.kind == AtomKind::max     ? "Max"
                                                        : nullptr;
  if (!callee) return std::nullopt;
  std::vector<std::string> operands;
  for (const SymInt& operand : atom.operands) {
    const std::optional<std::string> text = print_expression(operand, traits);
    if (!text) return std::nullopt;
    operands.push_back(*text);
  }
  return joined(callee, operands);
}

}  // namespace

std::optional<std::string> print_expression(const SymInt& value, const SymbolTraits& traits) {
  if (const std::optional<int64_t> constant = value.constant()) return integer(*constant);
  std::vector<std::string> terms;
  for (const shape::Term& term : value.polynomial()->terms) {
    std::vector<std::string> factors;
    if (term.coefficient != 1 || term.factors.empty()) factors.push_back(integer(term.coefficient));
    for (const shape::Factor& factor : term.factors) {
      const std::optional<std::string> text = atom_text(*factor.atom, traits);
      if (!text) return std::nullopt;
      factors.push_back(factor.power == 1 ? *text : "Pow(" + *text + ", " + integer(factor.power) + ")");
    }
    terms.push_back(joined("Mul", factors));
  }
  return joined("Add", terms);
}

}  // namespace atenon::pt2
