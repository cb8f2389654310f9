// What scales and shifts channels and stands behind no product, as a batch norm before a convolution or behind an
// activation, is one factor and one summand a channel:
//
//     batch_norm(x) = x * scale + shift
//
// It is recognised by its meaning (channel_affine.h). Both are computed in double precision and rounded once.
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

constexpr int channel_axis = 1;
constexpr int least_constants = 2;  // what takes fewer is a product or a sum already

// The only operand that is no constant; null where there are more, or the others are too few.
ir::Value* variable_operand(const Scope& scope, const ir::Node& node) {
  ir::Value* found = nullptr;
  int constants = 0;
  for (ir::Value* operand : node.operands()) {
    if (!operand->is_tensor()) return nullptr;
    if (constant_behind(scope, operand)) {
      ++constants;
    } else if (found && found != operand) {
      return nullptr;
    } else {
      found = operand;
    }
  }
  return constants < least_constants ? nullptr : found;
}

}  // namespace

Result<Changed> shorten_affine_maps(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    ir::Value* const x = variable_operand(scope, node);
    if (!x) continue;
    const ir::TensorMeta& meta = x->meta();
    if ((meta.dtype != ScalarType::f32 && meta.dtype != ScalarType::f64) || meta.rank() <= channel_axis) continue;
    const std::optional<ChannelAffine> map = channel_affine(scope, node, x, channel_axis);
    if (!map) continue;

    const std::string name = node.result()->name;
    std::vector<int64_t> sizes(static_cast<size_t>(meta.rank()), 1);
    sizes[channel_axis] = static_cast<int64_t>(map->scale.size());
    ir::Value* value = x;
    const auto apply = [&](const char* target, const char* what, const std::vector<double>& values,
                           double nothing) -> Result<void> {
      if (std::all_of(values.begin(), values.end(), [&](double one) { return one == nothing; })) return {};
      ir::Value* constant = add_constant(scope, name + what, as_tensor(values, meta.dtype, sizes));
      Result<ir::Value*> made = append_before(scope, node, target, {value, constant});
      if (!made) return made.error();
      value = *made;
      return {};
    };
    if (Result<void> done = apply("aten::mul.Tensor", ".scale", map->scale, 1); !done) return done.error();
    if (Result<void> done = apply("aten::add.Tensor", ".shift", map->shift, 0); !done) return done.error();
    scope.report("shortened " + node.target() + " %" + name);
    scope.variant.graph.replace_uses(node.result(), value);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
