// What makes less of a concatenation, channel by channel, is done to its parts, and then there is less to concatenate:
//
//     max_pool2d(cat([a, b], 1)) = cat([max_pool2d(a), max_pool2d(b)], 1)
//
// Often the rest goes, too, as the operand of a product (split_concatenations.cpp). Nothing here knows the operators:
// that an element of the result is computed from elements with its own index along the axis, and from no other tensor,
// is read off the meaning.
#include "ir/readers.h"
#include "specialize/channel_affine.h"
#include "specialize/concatenation.h"

namespace atenon::specialize {
namespace {

using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

// Below this, one more call costs more than the bytes that are not moved.
constexpr int64_t least_saved = 16384;

// The axis of the result whose index is the operand's index along `axis` in every read, and nothing else; nullopt where
// there is none, or the node reads more than the operand.
std::optional<int> kept_axis(const Scope& scope, const ir::Node& node, int axis) {
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  if (!meaning || meaning->tensors.size() != 1 || meaning->scatter || meaning->results[0].value == opset::no_scalar)
    return std::nullopt;
  const std::vector<int>& variables = meaning->results[0].variables;
  int kept = -1;
  const auto is_read = [](const Scalar& scalar) { return scalar.op == ScalarOp::read; };
  for (const Scalar& read : meaning->scalars) {
    if (!is_read(read)) continue;
    const Scalar& index = at(*meaning, read.operands[static_cast<size_t>(axis)]);
    const auto found = std::find(variables.begin(), variables.end(), index.variable);
    if (index.op != ScalarOp::index || found == variables.end()) return std::nullopt;
    if (kept >= 0 && *found != variables[static_cast<size_t>(kept)]) return std::nullopt;
    kept = static_cast<int>(found - variables.begin());
  }
  if (kept < 0) return std::nullopt;
  // A slice from the first element on is none of the whole axis.
  if (meaning->results[0].type.sizes[static_cast<size_t>(kept)] !=
      meaning->tensors[0]->meta().sizes[static_cast<size_t>(axis)])
    return std::nullopt;
  const auto is_kept = [&](ScalarId id) {
    const Scalar& scalar = at(*meaning, id);
    return scalar.op == ScalarOp::index && scalar.variable == variables[static_cast<size_t>(kept)];
  };
  for (const Scalar& scalar : meaning->scalars)
    for (size_t i = 0; i < scalar.operands.size(); ++i)
      if (is_kept(scalar.operands[i]) && !(is_read(scalar) && static_cast<int>(i) == axis)) return std::nullopt;
  for (const opset::Reduction& reduction : meaning->reductions)
    if (reduction.prefix || std::any_of(reduction.extents.begin(), reduction.extents.end(), is_kept) ||
        std::any_of(reduction.element.begin(), reduction.element.end(), is_kept))
      return std::nullopt;
  return kept;
}

// What `node` gives for one part of its operand; null where its arguments fit the whole alone.
ir::Value* of_part(Scope& scope, ir::Node& node, const ir::Value* whole, ir::Value* part, int axis, int kept) {
  const Result<ir::Value*> made =
      append_copy(scope, node, node, [&](size_t, const ir::Argument& argument) -> ir::Argument {
        return argument.value() == whole ? part : argument;
      });
  if (!made) return nullptr;
  std::vector<ir::SymInt> expected = node.result()->meta().sizes;
  expected[static_cast<size_t>(kept)] = part->meta().sizes[static_cast<size_t>(axis)];
  return (*made)->meta().sizes == expected ? *made : nullptr;
}

}  // namespace

Result<Changed> postpone_concatenations(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const std::vector<ir::Value*> operands = node.operands();
    if (operands.size() != 1 || !operands[0]->is_tensor() || !has_one_result(node)) continue;
    ir::Value* x = operands[0];
    if (!x->producer || !ir::sole_reader(*x)) continue;
    const std::optional<int64_t> taken = elements(scope, *x), made = elements(scope, *node.result());
    if (!taken || !made || *taken - *made < least_saved) continue;
    const std::optional<Concatenation> joined = concatenation(scope, *x->producer);
    if (!joined || has_thin_part(*joined)) continue;
    const std::optional<int> kept = kept_axis(scope, node, joined->axis);
    if (!kept) continue;
    ir::ArgumentList parts;
    for (ir::Value* part : joined->parts)
      if (ir::Value* result = of_part(scope, node, x, part, joined->axis, *kept)) parts.emplace_back(result);
    if (parts.size() != joined->parts.size()) continue;  // dead nodes are removed at the end
    Result<ir::Value*> cat = append_before(scope, node, x->producer->target(), {std::move(parts), ir::SymInt(*kept)});
    if (!cat) return cat.error();
    scope.report("postponed " + x->producer->target() + " %" + x->name + " until after " + node.target() + " %" +
                 node.result()->name);
    scope.variant.graph.replace_uses(node.result(), *cat);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
