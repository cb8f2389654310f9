// A batch of matrices, of which a product reads each several times in a row of batches, is not written out so often:
//
//     bmm(a, repeat(b, [n, 1, 1])) = view(matmul(view(a, [n, batch, ..]), b), [n * batch, ..])
//
// Kernels of products read b anew. Nothing here knows how matrices are repeated or turned: the meanings say it.
#include "ir/readers.h"
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

using opset::Meaning;
using opset::Scalar;
using opset::ScalarOp;

// Matrices [batch, rows, columns] as something else holds them: fewer of them, from the first on again and again, then
// turned by `views`, the last first.
struct Repeated {
  ir::Value* matrices = nullptr;
  std::vector<ir::Node*> views;
};

// Whether the node reads its operand at each index plainly, but for the first, which begins anew.
bool repeats_batch(const Meaning& meaning) {
  const Scalar& read = at(meaning, meaning.results[0].value);
  if (read.op != ScalarOp::read || read.operands.size() != 3 || meaning.results[0].variables.size() != 3) return false;
  const Scalar& batch = at(meaning, read.operands[0]);
  if (batch.op != ScalarOp::mod || result_axis(meaning, batch.operands[0]) != 0) return false;
  return result_axis(meaning, read.operands[1]) == 1 && result_axis(meaning, read.operands[2]) == 2;
}

// Whether a view leaves the batch in its place.
bool keeps_batch(const Meaning& meaning) {
  const Scalar& read = at(meaning, meaning.results[0].value);
  return meaning.is_view && read.operands.size() == 3 && meaning.results[0].variables.size() == 3 &&
         result_axis(meaning, read.operands[0]) == 0;
}

std::optional<Repeated> repeated(const Scope& scope, ir::Value* value) {
  Repeated found;
  while (value->producer && ir::sole_reader(*value)) {
    ir::Node* node = value->producer;
    if (node->operands().size() != 1 || !has_one_result(*node)) return std::nullopt;
    const std::optional<Meaning> meaning = loops(scope, *node);
    if (!meaning || meaning->scatter || meaning->results[0].value == opset::no_scalar) return std::nullopt;
    value = node->operands()[0];
    if (repeats_batch(*meaning)) {
      found.matrices = value;
      return found;
    }
    if (!keeps_batch(*meaning)) return std::nullopt;
    found.views.push_back(node);
  }
  return std::nullopt;
}

// result[n, r, c] = sum over k of left[n, r, k] * right[n, k, c]
bool is_product_of_batches(const Scope& scope, const ir::Node& node) {
  const std::vector<ir::Value*> operands = node.operands();
  if (operands.size() != 2 || !has_one_result(node) || node.result()->meta().rank() != 3) return false;
  const std::optional<Meaning> meaning = loops(scope, node);
  if (!meaning || meaning->reductions.size() != 1 || meaning->tensors.size() != 2) return false;
  const Scalar& sum = at(*meaning, meaning->results[0].value);
  if (sum.op != ScalarOp::reduce || meaning->reductions[0].monoid.name != "sum") return false;
  const Scalar& product = at(*meaning, meaning->reductions[0].element[0]);
  if (product.op != ScalarOp::mul) return false;
  for (const int side : {0, 1}) {
    const Scalar& read = at(*meaning, product.operands[static_cast<size_t>(side)]);
    if (read.op != ScalarOp::read || tensor_of(*meaning, read) != operands[static_cast<size_t>(side)] ||
        read.operands.size() != 3 || result_axis(*meaning, read.operands[0]) != 0 ||
        result_axis(*meaning, read.operands[side == 0 ? 1 : 2]) != (side == 0 ? 1 : 2))
      return false;
    const Scalar& place = at(*meaning, read.operands[side == 0 ? 2 : 1]);
    if (place.op != ScalarOp::index || place.variable != meaning->reductions[0].variables[0]) return false;
  }
  return true;
}

// The product of what is repeated on one side, in the shape of `node`.
Result<ir::Value*> product_of(Scope& scope, ir::Node& node, const Repeated& once, size_t side) {
  Result<ir::Value*> turned = append_views(scope, node, once.views, once.matrices);
  if (!turned) return turned;
  ir::Value* matrices = *turned;
  ir::Value* other = node.operands()[1 - side];
  const std::vector<ir::SymInt>& sizes = other->meta().sizes;
  const ir::SymInt batch = matrices->meta().sizes[0];
  Result<ir::Value*> apart = append_before(
      scope, node, "aten::view", {other, list_of({shape::floor_div(sizes[0], batch), batch, sizes[1], sizes[2]})});
  if (!apart) return apart;
  Result<ir::Value*> product = append_before(
      scope, node, "aten::matmul",
      side == 0 ? std::vector<ir::Argument>{matrices, *apart} : std::vector<ir::Argument>{*apart, matrices});
  if (!product) return product;
  return append_before(scope, node, "aten::view", {*product, list_of(node.result()->meta().sizes)});
}

}  // namespace

Result<Changed> multiply_before_repeating(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (!node.has_users() || !is_product_of_batches(scope, node)) continue;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const std::optional<Repeated> once = repeated(scope, node.operands()[side]);
      if (!once) continue;
      Result<ir::Value*> made = product_of(scope, node, *once, side);
      if (!made) return made.error();
      if ((*made)->type != node.result()->type) continue;  // dead nodes
      scope.report("let %" + node.result()->name + " read %" + once->matrices->name + " as it is");
      scope.variant.graph.replace_uses(node.result(), *made);
      changed = Changed::yes;
      break;
    }
  }
  return changed;
}

}  // namespace atenon::specialize
