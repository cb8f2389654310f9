// A product of concatenated tensors is the sum of their products with parts of the weight:
//
//     convolution(cat([a, b]), w) = convolution(a, w[:, :m]) + convolution(b, w[:, m:])
//
// A concatenation is written and read once more, a sum is read and written once more for each further part, in the
// epilogue of a product. So this pays where the product makes fewer values than it takes, as on the way up in a U-Net.
// Nothing here knows the operators: both are recognised by their meanings.
#include "ir/readers.h"
#include "specialize/channel_affine.h"
#include "specialize/concatenation.h"

namespace atenon::specialize {
namespace {

bool pays(const Scope& scope, const Concatenation& joined, const ir::Value& x, const ir::Value& result) {
  if (has_thin_part(joined)) return false;
  const std::optional<int64_t> taken = elements(scope, x), made = elements(scope, result);
  return taken && made && (static_cast<int64_t>(joined.parts.size()) - 1) * *made < *taken;
}

// The sum of the products of all parts, in the place of `node`.
Result<ir::Value*> sum_of_parts(Scope& scope, ir::Node& node, const Concatenation& joined, const ir::Value* x,
                                const ChannelProduct& product, int weight_axis) {
  const Tensor weight = *constant_behind(scope, product.weight);
  const std::string name = weight_name(scope, *product.weight);
  ir::Value* sum = nullptr;
  int64_t start = 0;
  for (ir::Value* part : joined.parts) {
    const int64_t size = *part->meta().sizes[static_cast<size_t>(joined.axis)].constant();
    ir::Value* of_weight =
        add_constant(scope, name + ".part", part_of(weight, static_cast<size_t>(weight_axis), start, size));
    Result<ir::Value*> made =
        append_copy(scope, node, node, [&](size_t i, const ir::Argument& argument) -> ir::Argument {
          if (i == product.bias_argument && start > 0) return {};
          return argument.value() == x ? part : argument.value() == product.weight ? of_weight : argument;
        });
    if (made && sum) made = append_before(scope, node, "aten::add.Tensor", {sum, *made});
    if (!made) return made;
    start += size;
    sum = *made;
  }
  return sum;
}

}  // namespace

Result<Changed> split_concatenations(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.backward()) {
    if (!has_one_result(node)) continue;
    for (ir::Value* x : node.operands()) {
      ir::Node* producer = x->producer;
      if (!producer || !x->is_tensor() || !ir::sole_reader(*x)) continue;
      const std::optional<Concatenation> joined = concatenation(scope, *producer);
      if (!joined || !pays(scope, *joined, *x, *node.result())) continue;
      const std::optional<ChannelProduct> product = channel_product(scope, node);
      if (!product || product->weight->users.size() != 1) continue;
      const std::optional<SummedAxes> axes = summed_axes(scope, node, x, product->weight);
      if (!axes || axes->x != joined->axis) continue;
      Result<ir::Value*> sum = sum_of_parts(scope, node, *joined, x, *product, axes->weight);
      if (!sum) return sum.error();
      scope.report("split " + node.target() + " %" + node.result()->name + " of " + producer->target() + " %" +
                   x->name);
      scope.variant.graph.replace_uses(node.result(), *sum);  // node and producer go with what nobody reads
      changed = Changed::yes;
      break;
    }
  }
  return changed;
}

}  // namespace atenon::specialize
