#include "specialize/index_expressions.h"

namespace atenon::specialize {

using opset::Meaning;
using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

namespace {

// Through casts, which do not change what a scalar depends on.
const Scalar& bare(const Meaning& meaning, ScalarId id) {
  while (at(meaning, id).op == ScalarOp::cast) id = at(meaning, id).operands[0];
  return at(meaning, id);
}

}  // namespace

std::optional<SumOfProducts> sum_of_products(const Meaning& meaning) {
  if (meaning.results.size() != 1 || meaning.scatter || meaning.results[0].value == opset::no_scalar)
    return std::nullopt;
  const Scalar* root = &bare(meaning, meaning.results[0].value);
  SumOfProducts found;
  if (root->op == ScalarOp::add) {
    const Scalar* left = &bare(meaning, root->operands[0]);
    const Scalar* right = &bare(meaning, root->operands[1]);
    if (right->op == ScalarOp::reduce) std::swap(left, right);
    bool nothing = right->op == ScalarOp::constant && right->number == 0 && right->integer == 0;
    if (right->op != ScalarOp::read && !nothing) return std::nullopt;
    if (!nothing) found.bias = right;
    root = left;
  }
  if (root->op != ScalarOp::reduce) return std::nullopt;
  found.reduction = &meaning.reductions[static_cast<size_t>(root->reduction)];
  if (found.reduction->monoid.name != "sum" || found.reduction->prefix) return std::nullopt;
  const Scalar& element = bare(meaning, found.reduction->element[0]);
  if (element.op != ScalarOp::mul) return std::nullopt;
  found.left = &bare(meaning, element.operands[0]);
  found.right = &bare(meaning, element.operands[1]);
  if (found.left->op != ScalarOp::read || found.right->op != ScalarOp::read) return std::nullopt;
  return found;
}

std::map<int, ir::SymInt> result_indices(const std::vector<int>& variables) {
  std::map<int, ir::SymInt> indices;
  for (size_t axis = 0; axis < variables.size(); ++axis) indices[variables[axis]] = result_index(axis);
  return indices;
}

bool depends_on(const Meaning& meaning, ScalarId id, int variable) {
  const Scalar& scalar = at(meaning, id);
  if (scalar.op == ScalarOp::index) return scalar.variable == variable;
  return std::any_of(scalar.operands.begin(), scalar.operands.end(),
                     [&](ScalarId operand) { return depends_on(meaning, operand, variable); });
}

std::optional<ir::SymInt> IndexExpressions::integer(ScalarId id) const {
  const Scalar& scalar = at(meaning_, id);
  switch (scalar.op) {
    case ScalarOp::constant:
      return ir::SymInt(scalar.integer);
    case ScalarOp::size:
      return scalar.size;
    case ScalarOp::index: {
      const auto found = variables_.find(scalar.variable);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    }
    case ScalarOp::add:
      return of_two(scalar, [](const ir::SymInt& a, const ir::SymInt& b) { return a + b; });
    case ScalarOp::sub:
      return of_two(scalar, [](const ir::SymInt& a, const ir::SymInt& b) { return a - b; });
    case ScalarOp::mul:
      return of_two(scalar, [](const ir::SymInt& a, const ir::SymInt& b) { return a * b; });
    case ScalarOp::floor_div:
      return of_two(scalar, shape::floor_div);
    case ScalarOp::mod:
      return of_two(scalar, shape::mod);
    default:
      return std::nullopt;
  }
}

std::optional<shape::SymBool> IndexExpressions::truth(ScalarId id) const {
  const Scalar& scalar = at(meaning_, id);
  switch (scalar.op) {
    case ScalarOp::constant:
      return shape::SymBool(scalar.integer != 0);
    case ScalarOp::lt:
      return of_two(scalar, shape::less);
    case ScalarOp::le:
      return of_two(scalar, shape::less_equal);
    case ScalarOp::eq:
      return of_two(scalar, shape::equal);
    case ScalarOp::logical_and: {
      const std::optional<shape::SymBool> a = truth(scalar.operands[0]), b = truth(scalar.operands[1]);
      return a && b ? std::optional(shape::both(*a, *b)) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace atenon::specialize
