// Our symbolic scalars in the spelling of sympy's srepr, which torch.export writes and reads.

#include <cmath>
#include <map>

#include "pt2/expression.h"

namespace atenon::pt2 {
namespace {

using shape::Atom;
using shape::AtomKind;
using shape::SymBool;
using shape::SymFloat;
using shape::SymInt;

using Text = std::optional<std::string>;

Text int_text(const SymInt& value, const SymbolTraits& traits);
Text float_text(const SymFloat& value, const SymbolTraits& traits);

std::string integer(int64_t value) { return "Integer(" + std::to_string(value) + ")"; }

std::string joined(const std::vector<std::string>& operands) {
  std::string out;
  for (size_t i = 0; i < operands.size(); ++i) out += (i ? ", " : "") + operands[i];
  return out;
}

// A sum or product, which one operand alone is itself.
std::string folded(const std::string& callee, const std::vector<std::string>& operands) {
  return operands.size() == 1 ? operands[0] : callee + "(" + joined(operands) + ")";
}

// What a call of each operand is, if each can be said.
template <class Operands, class Print>
Text call_text(const std::string& callee, const Operands& operands, const Print& print) {
  std::vector<std::string> texts;
  for (const auto& operand : operands) {
    const Text text = print(operand);
    if (!text) return std::nullopt;
    texts.push_back(*text);
  }
  return callee + "(" + joined(texts) + ")";
}

Text atom_text(const Atom& atom, const SymbolTraits& traits) {
  if (atom.kind == AtomKind::symbol)
    return "Symbol('" + atom.spelling + "', " + (traits.is_positive(atom.spelling) ? "positive=True, " : "") +
           "integer=True)";
  static const std::map<AtomKind, std::string> callees = {{AtomKind::floor_div, "FloorDiv"},
                                                          {AtomKind::mod, "PythonMod"},
                                                          {AtomKind::min, "Min"},
                                                          {AtomKind::max, "Max"},
                                                          {AtomKind::trunc, "TruncToInt"}};
  const auto callee = callees.find(atom.kind);
  if (callee == callees.end()) return std::nullopt;
  if (atom.kind == AtomKind::trunc)
    return call_text(callee->second, atom.floats, [&](const SymFloat& x) { return float_text(x, traits); });
  return call_text(callee->second, atom.operands, [&](const SymInt& x) { return int_text(x, traits); });
}

Text int_text(const SymInt& value, const SymbolTraits& traits) {
  if (const std::optional<int64_t> constant = value.constant()) return integer(*constant);
  std::vector<std::string> terms;
  for (const shape::Term& term : value.polynomial()->terms) {
    std::vector<std::string> factors;
    if (term.coefficient != 1 || term.factors.empty()) factors.push_back(integer(term.coefficient));
    for (const shape::Factor& factor : term.factors) {
      const Text text = atom_text(*factor.atom, traits);
      if (!text) return std::nullopt;
      factors.push_back(factor.power == 1 ? *text : "Pow(" + *text + ", " + integer(factor.power) + ")");
    }
    terms.push_back(folded("Mul", factors));
  }
  return folded("Add", terms);
}

Text float_text(const SymFloat& value, const SymbolTraits& traits) {
  if (const std::optional<double> constant = value.constant()) {
    if (!std::isfinite(*constant)) return std::nullopt;
    return "Float('" + value.to_string() + "', precision=53)";
  }
  const shape::FloatNode& node = *value.node();
  if (node.op == "number") return "Symbol('" + node.integer.to_string() + "')";
  if (node.op == "from")
    return call_text("ToFloat", std::vector{node.integer}, [&](const SymInt& x) { return int_text(x, traits); });
  const auto print = [&](const SymFloat& x) { return float_text(x, traits); };
  if (node.op == "-") {
    const Text left = print(node.operands[0]), right = print(node.operands[1]);
    return left && right ? Text("Add(" + *left + ", Mul(Integer(-1), " + *right + "))") : std::nullopt;
  }
  static const std::map<std::string, std::string> callees = {{"+", "Add"},        {"*", "Mul"},   {"/", "FloatTrueDiv"},
                                                             {"pow", "FloatPow"}, {"min", "Min"}, {"max", "Max"}};
  const auto callee = callees.find(node.op);
  return callee == callees.end() ? std::nullopt : call_text(callee->second, node.operands, print);
}

Text bool_text(const SymBool& value, const SymbolTraits& traits) {
  if (const std::optional<bool> constant = value.constant()) return *constant ? "true" : "false";
  const shape::BoolNode& node = *value.node();
  static const std::map<std::string, std::string> comparisons = {
      {"==", "Equality"}, {"!=", "Unequality"}, {"<", "StrictLessThan"}, {"<=", "LessThan"}};
  switch (node.kind) {
    case SymBool::Kind::all:
    case SymBool::Kind::any:
      return call_text(node.kind == SymBool::Kind::all ? "And" : "Or", node.operands,
                       [&](const SymBool& x) { return bool_text(x, traits); });
    case SymBool::Kind::opaque: {
      const bool is_negated = node.op.starts_with("not ");
      const Text text = call_text(comparisons.at(is_negated ? node.op.substr(4) : node.op), node.floats,
                                  [&](const SymFloat& x) { return float_text(x, traits); });
      return text && is_negated ? Text("Not(" + *text + ")") : text;
    }
    default:
      return call_text(node.kind == SymBool::Kind::eq   ? "Equality"
                       : node.kind == SymBool::Kind::ne ? "Unequality"
                                                        : "LessThan",
                       std::vector{node.difference, SymInt(0)}, [&](const SymInt& x) { return int_text(x, traits); });
  }
}

}  // namespace

std::optional<std::string> print_expression(const shape::Scalar& value, const SymbolTraits& traits) {
  if (const auto* integer = std::get_if<SymInt>(&value)) return int_text(*integer, traits);
  if (const auto* real = std::get_if<SymFloat>(&value)) return float_text(*real, traits);
  return bool_text(std::get<SymBool>(value), traits);
}

}  // namespace atenon::pt2
