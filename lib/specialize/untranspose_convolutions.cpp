// A strided transposed convolution is an ordinary one that makes all phases of its result side by side:
//
//     y[o] = sum of x[i] * w[k] over i * s + k = o + p
//
// where o + p = s * q + r makes k = s * m + r and i = q - m: each phase r is an ordinary convolution along q with every
// s-th tap of w, and what all phases give is one convolution with s times the channels, its result interleaved.
// Few outputs then fill vectors. Nothing here knows the operator: what is written above is compared with the meaning.
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

using ir::SymInt;

struct Axis {
  int64_t stride = 1, padding = 0, kernel = 1;
  int64_t taps() const { return (kernel + stride - 1) / stride; }  // of the widest phase
  int64_t first() const { return padding / stride; }               // the q at which the result starts
};

// Stride and padding of i = (o + padding - k) // stride, read off its values at the start: it rises every `stride`,
// which mostly is no more than the kernel.
std::optional<Axis> as_transposed(const ProductIndices& indices, size_t axis, int64_t kernel) {
  const std::string o = *result_index(axis).as_symbol(), k = *summed_index(axis).as_symbol();
  const auto value = [&](int64_t at) { return shape::evaluate(indices.x[axis], {{o, at}, {k, 0}}); };
  const int64_t most = std::max<int64_t>(kernel, 64);
  std::vector<int64_t> rises;
  for (int64_t at = 1; at <= 2 * most && rises.size() < 2; ++at) {
    const std::optional<int64_t> before = value(at - 1), after = value(at);
    if (!before || !after) return std::nullopt;
    if (*after == *before + 1) rises.push_back(at);
  }
  if (rises.size() < 2) return std::nullopt;
  Axis found;
  found.stride = rises[1] - rises[0];
  found.padding = (*value(0) + 1) * found.stride - rises[0];
  found.kernel = kernel;
  return found.padding >= 0 ? std::optional(found) : std::nullopt;
}

// The axes of the plane, if the node is a transposed convolution in one group: its weight is [inputs, outputs, ..].
std::optional<std::vector<Axis>> read_axes(const ChannelProduct& product, const ProductIndices& indices) {
  const std::vector<SymInt>& weight = product.weight->meta().sizes;
  const size_t rank = weight.size();
  if (rank < 3 || indices.x.size() != rank || product.channel_axis != 1 ||
      (product.weight_axis != 1 && weight[1] != SymInt(1)))
    return std::nullopt;
  const auto is = [&](const SymInt& index, const SymInt& wanted) {
    return indices.facts.decide(shape::equal(index, wanted)) == shape::Truth::proven;
  };
  const SymInt input = weight[0] == SymInt(1) ? SymInt(0) : summed_index(0);
  const SymInt output = weight[1] == SymInt(1) ? SymInt(0) : result_index(1);
  if (!is(indices.x[0], result_index(0)) || !is(indices.x[1], input) || !is(indices.weight[0], input) ||
      !is(indices.weight[1], output))
    return std::nullopt;
  std::vector<Axis> axes;
  shape::SymBool guard = true;
  for (size_t axis = 2; axis < rank; ++axis) {
    const std::optional<Axis> found = as_transposed(indices, axis, *weight[axis].constant());
    if (!found || !indices.is_summed[axis]) return std::nullopt;
    const SymInt place = found->kernel == 1 ? SymInt(0) : summed_index(axis);
    const SymInt reach = result_index(axis) + found->padding - place, at = shape::floor_div(reach, found->stride);
    const SymInt& size = indices.operand->meta().sizes[axis];
    if (indices.x[axis] != at) return std::nullopt;
    guard = shape::both(guard, shape::both(shape::both(shape::less_equal(0, at), shape::less(at, size)),
                                           shape::equal(shape::mod(reach, found->stride), 0)));
    axes.push_back(*found);
  }
  return indices.guard == guard ? std::optional(axes) : std::nullopt;
}

// Where kernels of transposed convolutions are slower, as measured: outputs that fill no vector, which phases side by
// side do (1.4 to 3 times), a result that is no multiple of the stride, sums so long that weights are all that is read,
// volumes and many taps to a phase where none is wasted (1.2). Elsewhere what interleaving moves, and taps that are
// none, cost more. Small planes would mostly read padding.
bool pays(const std::vector<Axis>& axes, const ChannelProduct& product, const ProductIndices& indices,
          const std::vector<SymInt>& result) {
  const std::vector<SymInt>& weight = product.weight->meta().sizes;
  const int64_t inputs = *weight[0].constant(), outputs = *weight[1].constant();
  int64_t kernel = 1, phases = 1, taps = 1;
  bool has_many_taps = false, is_uneven = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    kernel *= axes[i].kernel;
    phases *= axes[i].stride;
    taps *= axes[i].taps();
    has_many_taps |= axes[i].stride > 1 && axes[i].taps() > 2;
    is_uneven |= result[i + 2].constant().value_or(0) % axes[i].stride != 0;
    const std::optional<int64_t> size = indices.operand->meta().sizes[i + 2].constant();
    if (size && *size < axes[i].taps()) return false;
  }
  constexpr int64_t lanes = 16;
  const auto in_vectors = [](int64_t channels) { return static_cast<double>((channels + lanes - 1) / lanes * lanes); };
  const double gain =
      in_vectors(outputs) * static_cast<double>(kernel) / (in_vectors(outputs * phases) * static_cast<double>(taps));
  const bool is_full = kernel == phases * taps;
  return phases > 1 &&
         (gain > 1.4 || is_uneven || inputs * kernel > 4096 || (is_full && (has_many_taps || axes.size() > 2)));
}

// [phases and outputs, inputs, taps], each tap in the order in which x is read.
Tensor weight_of_phases(const Tensor& weight, const std::vector<Axis>& axes) {
  const Tensor from = weight.contiguous();
  const size_t plane = axes.size();
  const int64_t inputs = from.sizes[0], outputs = from.sizes[1];
  std::vector<int64_t> sizes = {outputs, inputs};
  int64_t phases = 1, taps = 1, kernel = 1;
  for (const Axis& axis : axes) {
    sizes.push_back(axis.taps());
    phases *= axis.stride;
    taps *= axis.taps();
    kernel *= axis.kernel;
  }
  sizes[0] *= phases;
  Tensor result = Tensor::empty(from.dtype, sizes);
  for (int64_t phase = 0; phase < phases; ++phase) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      // Along each axis, last first: the phase, the tap and so the place in the kernel.
      int64_t place = 0, step = 1, phase_left = phase, tap_left = tap;
      bool is_tap = true;
      for (size_t i = plane; i-- > 0;) {
        const Axis& axis = axes[i];
        const int64_t k = phase_left % axis.stride + axis.stride * (axis.taps() - 1 - tap_left % axis.taps());
        is_tap &= k < axis.kernel;
        place += k * step;
        step *= axis.kernel;
        phase_left /= axis.stride;
        tap_left /= axis.taps();
      }
      for (int64_t output = 0; output < outputs; ++output)
        for (int64_t input = 0; input < inputs; ++input)
          result.set(((phase * outputs + output) * inputs + input) * taps + tap,
                     is_tap ? from.float_at((input * outputs + output) * kernel + place) : 0.0);
    }
  }
  return result;
}

Tensor repeated(const Tensor& bias, int64_t times) {
  const Tensor from = bias.contiguous();
  Tensor result = Tensor::empty(from.dtype, {from.numel() * times});
  for (int64_t i = 0; i < result.numel(); ++i) result.set(i, from.float_at(i % from.numel()));
  return result;
}

// What the node gives, made of an ordinary convolution; null where sizes do not fit.
Result<ir::Value*> untransposed(Scope& scope, ir::Node& node, const ChannelProduct& product, ir::Value* x,
                                const std::vector<Axis>& axes) {
  const size_t plane = axes.size();
  const std::vector<SymInt>& wanted = node.result()->meta().sizes;
  std::vector<SymInt> ones(plane, 1), zeros(plane, 0), padding;
  std::vector<int64_t> firsts;  // the q at which the ordinary one's result starts
  int64_t phases = 1;
  for (size_t i = 0; i < plane; ++i) {
    const Axis& axis = axes[i];
    // Its result ends at q = size - 2 + taps - first; the wanted one, with its own padding at the end, perhaps later.
    const SymInt last = shape::floor_div(wanted[i + 2] - 1 + axis.padding, axis.stride),
                 ends = x->meta().sizes[i + 2] + (axis.taps() - 2 - axis.first());
    const std::optional<int64_t> missing = (last - ends).constant();
    if (!missing) return nullptr;
    firsts.push_back(axis.first() - std::max<int64_t>(0, *missing));
    if (axis.taps() - 1 < firsts.back()) return nullptr;
    padding.emplace_back(axis.taps() - 1 - firsts.back());
    phases *= axis.stride;
  }
  const std::string name = weight_name(scope, *product.weight);
  ir::Value* const weight =
      add_constant(scope, name + ".phases", weight_of_phases(*constant_behind(scope, product.weight), axes));
  ir::Argument bias;
  if (product.bias)
    bias = add_constant(scope, name + ".phases_bias", repeated(*constant_behind(scope, product.bias), phases));
  Result<ir::Value*> made = append_before(
      scope, node, "aten::convolution",
      {x, weight, bias, list_of(ones), list_of(padding), list_of(ones), false, list_of(zeros), SymInt(1)});
  if (!made) return made;

  // [n, phases.., c, q..] -> [n, c, (q, phase)..] -> from the first of the result on
  const std::vector<SymInt> sizes = (*made)->meta().sizes;
  std::vector<SymInt> split = {sizes[0]}, order = {0, SymInt(static_cast<int64_t>(plane) + 1)},
                      joined = {sizes[0], wanted[1]};
  for (size_t i = 0; i < plane; ++i) split.emplace_back(axes[i].stride);
  split.push_back(wanted[1]);
  for (size_t i = 0; i < plane; ++i) {
    split.push_back(sizes[i + 2]);
    order.emplace_back(static_cast<int64_t>(plane + 2 + i));
    order.emplace_back(static_cast<int64_t>(1 + i));
    joined.push_back(sizes[i + 2] * axes[i].stride);
  }
  for (const auto& [target, to] :
       {std::pair("aten::view", &split), {"aten::permute", &order}, {"aten::reshape", &joined}}) {
    made = append_before(scope, node, target, {*made, list_of(*to)});
    if (!made) return made;
  }
  for (size_t i = 0; i < plane; ++i) {
    const SymInt start = axes[i].padding - firsts[i] * axes[i].stride, end = start + wanted[i + 2];
    if (scope.facts.decide(shape::less_equal(end, joined[i + 2])) != shape::Truth::proven) return nullptr;
    if (start == SymInt(0) && end == joined[i + 2]) continue;
    made = append_before(scope, node, "aten::slice.Tensor", {*made, SymInt(static_cast<int64_t>(i + 2)), start, end});
    if (!made) return made;
  }
  return (*made)->type == node.result()->type ? *made : nullptr;
}

}  // namespace

Result<Changed> untranspose_convolutions(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (!has_one_result(node)) continue;
    const ScalarType dtype = node.result()->meta().dtype;
    if (dtype != ScalarType::f32 && dtype != ScalarType::f64) continue;
    const std::optional<ChannelProduct> product = channel_product(scope, node);
    if (!product) continue;
    const std::optional<ProductIndices> indices = product_indices(scope, node, product->weight);
    if (!indices) continue;
    const std::optional<std::vector<Axis>> axes = read_axes(*product, *indices);
    if (!axes || !pays(*axes, *product, *indices, node.result()->meta().sizes)) continue;
    Result<ir::Value*> made = untransposed(scope, node, *product, indices->operand, *axes);
    if (!made) return made.error();
    if (!*made) continue;
    scope.report("untransposed " + node.target() + " %" + node.result()->name);
    scope.variant.graph.replace_uses(node.result(), *made);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
