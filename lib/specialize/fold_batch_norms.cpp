// Folds what scales and shifts channels into the weights and bias of the product before it.
//
// convolution -> batch norm in inference is the usual case, but nothing here knows either: products and affine maps are
// recognised by their meanings (channel_affine.h). Factors are gathered in double precision over a whole chain of such
// nodes and applied to the weights once.
#include "ir/readers.h"
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

// weight[.., c, ..] * scale[c], rounded once.
Tensor scaled(const Tensor& weight, int axis, const std::vector<double>& scale) {
  Tensor rows = weight.contiguous();
  Tensor result = Tensor::empty(rows.dtype, rows.sizes);
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < rows.sizes.size(); ++i) inner *= rows.sizes[i];
  int64_t channels = rows.sizes[static_cast<size_t>(axis)];
  auto apply = [&]<class T>(const T* from, T* to) {
    for (int64_t i = 0, n = rows.numel() / inner; i < n; ++i) {
      double factor = scale[static_cast<size_t>(i % channels)];
      for (int64_t j = 0; j < inner; ++j) to[i * inner + j] = static_cast<T>(from[i * inner + j] * factor);
    }
  };
  if (rows.dtype == ScalarType::f64)
    apply(rows.as<double>(), result.mutable_as<double>());
  else
    apply(rows.as<float>(), result.mutable_as<float>());
  return result;
}

Tensor shifted(const std::optional<Tensor>& bias, ScalarType dtype, const ChannelAffine& map) {
  std::vector<double> after = map.shift;
  if (bias) {
    const Tensor rows = bias->contiguous();
    for (size_t c = 0; c < after.size(); ++c) after[c] += rows.float_at(static_cast<int64_t>(c)) * map.scale[c];
  }
  return as_tensor(after, dtype, {static_cast<int64_t>(after.size())});
}

// The nodes after `product` that are affine by channel, each the only reader of the one before, and their composition.
std::vector<ir::Node*> affine_chain(const Scope& scope, const ir::Node& node, int channel_axis, ChannelAffine& map) {
  std::vector<ir::Node*> chain;
  const ir::Value* value = node.result();
  while (ir::Node* user = ir::sole_reader(*value)) {
    std::optional<ChannelAffine> step = channel_affine(scope, *user, value, channel_axis);
    if (!step) break;
    if (chain.empty()) {
      map = std::move(*step);
    } else {
      for (size_t c = 0; c < map.scale.size(); ++c) {
        map.shift[c] = map.shift[c] * step->scale[c] + step->shift[c];
        map.scale[c] *= step->scale[c];
      }
    }
    chain.push_back(user);
    value = user->result();
  }
  return chain;
}

}  // namespace

Result<Changed> fold_batch_norms(Scope& scope) {
  Changed changed = Changed::no;
  // Backward, because a product takes away nodes that come after it.
  for (ir::Node& node : scope.variant.graph.backward()) {
    if (!has_one_result(node)) continue;
    ScalarType dtype = node.result()->meta().dtype;
    if (dtype != ScalarType::f32 && dtype != ScalarType::f64) continue;
    std::optional<ChannelProduct> product = channel_product(scope, node);
    if (!product) continue;
    ChannelAffine map;
    std::vector<ir::Node*> chain = affine_chain(scope, node, product->channel_axis, map);
    if (chain.empty()) continue;

    const std::string name = weight_name(scope, *product->weight);
    std::optional<Tensor> bias = product->bias ? constant_behind(scope, product->bias) : std::nullopt;
    ir::Value* weight = add_constant(scope, name + ".folded",
                                     scaled(*constant_behind(scope, product->weight), product->weight_axis, map.scale));
    ir::Value* shift = add_constant(scope, name + ".folded_bias", shifted(bias, dtype, map));
    Result<opset::Call> call = opset::bind(scope.opset, node);
    if (!call) return call.error();
    NodeArguments arguments = with_replaced(*call, [&](size_t i, const ir::Argument& argument) -> ir::Argument {
      if (i == product->bias_argument) return shift;
      return argument.value() == product->weight ? weight : argument;
    });
    node.set_arguments(std::move(arguments.positional), std::move(arguments.keywords));
    scope.report("folded " + chain.front()->target() + " %" + chain.front()->result()->name + " into %" +
                 node.result()->name);
    // The product now gives what the last of the chain gave, so it stands for that node.
    node.provenance = scope.program.provenance.derive(chain.back()->provenance, node.target());
    scope.variant.graph.replace_uses(chain.back()->result(), node.result());
    for (auto step = chain.rbegin(); step != chain.rend(); ++step) scope.variant.graph.erase(**step);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
