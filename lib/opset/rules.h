// The rules that blocks may call besides functions in their own language: what needs C++.
//
// Each is a Rule (block.h): it takes evaluated arguments, tensors among them for their types.
#pragma once

#include <map>
#include <string_view>

#include "opset/evaluator.h"

namespace atenon::opset {

using RuleTable = std::map<std::string_view, Rule>;
inline constexpr size_t any_number = SIZE_MAX;  // of arguments
const RuleTable& type_rules();                  // types.cpp: dtypes, result types, broadcasting
const RuleTable& list_rules();                  // rules.cpp: lists, index arithmetic
const RuleTable& number_rules();                // rules.cpp: exp, floor, maximum, ...

// How the reason ends for which a size was taken from the example: unbind, split.
inline constexpr std::string_view counts_results = "the number of results depends on it";

// Collects operands for PyTorch's promotion (at::native::result_type): tensors of rank > 0 decide before tensors of
// rank 0, and those before numbers, within the same category (bool, integer, float, complex).
class Promotion {
 public:
  void add(const Datum& operand);  // none is skipped, lists are gone through
  std::optional<ScalarType> result() const;
  const std::vector<const ir::Value*>& tensors() const { return tensors_; }

 private:
  void join(std::optional<ScalarType>& category, ScalarType type);
  std::optional<ScalarType> ranked_, rank_zero_, numbers_;
  std::vector<const ir::Value*> tensors_;
};

// The shape that shapes broadcast to: 1 gives way, equal sizes stay, open equalities are assumed, anything else fails
// as "broadcast".
std::vector<ir::SymInt> broadcast(Evaluator& evaluator, const std::vector<std::vector<ir::SymInt>>& shapes,
                                  const Expr* at);

}  // namespace atenon::opset
