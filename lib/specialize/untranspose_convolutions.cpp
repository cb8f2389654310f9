// A transposed convolution is an ordinary one that makes all phases of its result side by side:
//
//     y[o] = sum of x[i] * w[k] over i * s + k = o + p
//
// where o + p = s * q + r makes k = s * m + r and i = q - m: each phase r is an ordinary convolution along q with every
// s-th tap of w, and what all phases give is one convolution with s times the channels, its result interleaved.
// Few outputs then fill vectors. Without a stride there is one phase, whose taps may lie apart. Where the kernel is no
// multiple of the stride, some phases have taps that are zeros, which make NaN of an infinite x. Nothing here knows the
// operator: what is written above is compared with the meaning.
#include <algorithm>

#include "specialize/channel_affine.h"
#include "specialize/index_expressions.h"

namespace atenon::specialize {
namespace {

using ir::SymInt;

struct Axis {
  int64_t stride = 1, padding = 0, kernel = 1, dilation = 1;
  int64_t taps() const { return (kernel + stride - 1) / stride; }  // of the widest phase
  int64_t first() const { return padding / stride; }               // the q at which the result starts
};

struct Transposed {
  ir::Value *x = nullptr, *weight = nullptr, *bias = nullptr;  // bias: null where there is none
  SymInt groups = 1;
  int64_t inputs = 0, outputs = 0;  // of a group
  bool is_constant = true;          // weight and bias
  std::vector<Axis> axes;           // of the plane
};

// Stride and padding of i = (o + padding - k) // stride, read off its values at the start: it rises every `stride`,
// which mostly is no more than the kernel. Where that is 1, i = o + padding - dilation * k.
std::optional<Axis> as_transposed(const ProductIndices& indices, size_t axis, int64_t kernel) {
  if (kernel == 1 && indices.x[axis] == SymInt(0)) return Axis();  // one place by one tap
  const std::string o = *result_index(axis).as_symbol(), k = *summed_index(axis).as_symbol();
  const auto value = [&](int64_t at, int64_t tap) { return shape::evaluate(indices.x[axis], {{o, at}, {k, tap}}); };
  const int64_t most = std::max<int64_t>(kernel, 64);
  std::vector<int64_t> rises;
  for (int64_t at = 1; at <= 2 * most && rises.size() < 2; ++at) {
    const std::optional<int64_t> before = value(at - 1, 0), after = value(at, 0);
    if (!before || !after) return std::nullopt;
    if (*after == *before + 1) rises.push_back(at);
  }
  if (rises.size() < 2) return std::nullopt;
  Axis found;
  found.stride = rises[1] - rises[0];
  found.padding = (*value(0, 0) + 1) * found.stride - rises[0];
  found.kernel = kernel;
  if (found.stride == 1 && kernel > 1) found.dilation = *value(0, 0) - *value(0, 1);
  return found.padding >= 0 && found.dilation > 0 ? std::optional(found) : std::nullopt;
}

bool implies(shape::Facts facts, const shape::SymBool& a, const shape::SymBool& b) {
  facts.assume(a);
  return facts.proves(b);
}

// The axes of the plane, if that is how the product reads them.
std::optional<std::vector<Axis>> read_axes(const ProductIndices& indices, const std::vector<SymInt>& weight) {
  std::vector<Axis> axes;
  shape::Facts facts = indices.facts;
  shape::SymBool guard = true;
  for (size_t axis = 2; axis < weight.size(); ++axis) {
    const std::optional<Axis> found = as_transposed(indices, axis, *weight[axis].constant());
    if (!found || !indices.is_summed[axis]) return std::nullopt;
    const SymInt place = found->kernel == 1 ? SymInt(0) : summed_index(axis);
    if (found->kernel > 1) facts.declare(*place.as_symbol(), {0, found->kernel - 1});
    const SymInt reach = result_index(axis) + found->padding - place * found->dilation,
                 at = shape::floor_div(reach, found->stride);
    const SymInt& size = indices.operand->meta().sizes[axis];
    if (facts.decide(shape::equal(indices.x[axis], at)) != shape::Truth::proven) return std::nullopt;
    guard = shape::both(guard, shape::both(shape::both(shape::less_equal(0, at), shape::less(at, size)),
                                           shape::equal(shape::mod(reach, found->stride), 0)));
    axes.push_back(*found);
  }
  // The meaning leaves out what is always so.
  return implies(facts, guard, indices.guard) && implies(facts, indices.guard, guard) ? std::optional(axes)
                                                                                      : std::nullopt;
}

// The node, if it is a transposed convolution by `weight`, [inputs of all groups, outputs of one, ..].
std::optional<Transposed> read_transposed(const Scope& scope, const opset::Meaning& meaning, ir::Value* weight) {
  const std::vector<SymInt>&result = meaning.results[0].type.sizes, &sizes = weight->meta().sizes;
  if (sizes.size() < 3 || result.size() != sizes.size() ||
      !std::all_of(sizes.begin() + 1, sizes.end(), [](const SymInt& size) { return size.is_constant(); }))
    return std::nullopt;
  const std::optional<ProductIndices> indices = product_indices(scope, meaning, weight);
  if (!indices || indices->x.size() != sizes.size()) return std::nullopt;
  const auto is = [&](const SymInt& index, const SymInt& wanted) {
    return indices->facts.decide(shape::equal(index, wanted)) == shape::Truth::proven;
  };

  Transposed found{.x = indices->operand, .weight = weight, .outputs = *sizes[1].constant()};
  if (found.outputs == 0) return std::nullopt;
  found.groups = indices->facts.simplify(shape::floor_div(result[1], found.outputs));
  const std::optional<int64_t> inputs = indices->facts.simplify(shape::floor_div(sizes[0], found.groups)).constant();
  if (!inputs || *inputs == 0 || !is(found.groups * found.outputs, result[1]) || !is(found.groups * *inputs, sizes[0]))
    return std::nullopt;
  found.inputs = *inputs;
  const bool is_one = found.groups == SymInt(1);
  const SymInt channel = result[1] == SymInt(1) ? SymInt(0) : result_index(1),
               first = is_one ? SymInt(0) : shape::floor_div(channel, found.outputs) * found.inputs,
               input = first + (found.inputs == 1 ? SymInt(0) : summed_index(0)),
               output = is_one ? channel : shape::mod(channel, found.outputs);
  if (indices->extents[0] != SymInt(found.inputs) || !is(indices->x[0], result_index(0)) || !is(indices->x[1], input) ||
      !is(indices->weight[0], input) || !is(indices->weight[1], output))
    return std::nullopt;
  const std::optional<std::vector<Axis>> axes = read_axes(*indices, sizes);
  if (!axes) return std::nullopt;
  found.axes = *axes;
  return found;
}

std::optional<Transposed> read_transposed(const Scope& scope, const ir::Node& node) {
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  const std::optional<SumOfProducts> sum = meaning ? sum_of_products(*meaning) : std::nullopt;
  if (!sum) return std::nullopt;
  std::optional<Transposed> found;
  for (const opset::Scalar* read : {sum->right, sum->left})
    if (!found) found = read_transposed(scope, *meaning, tensor_of(*meaning, *read));
  if (!found) return std::nullopt;
  found->is_constant = constant_behind(scope, found->weight).has_value();
  if (sum->bias) {
    found->bias = tensor_of(*meaning, *sum->bias);
    const bool is_of_channel =
        result_axis(*meaning, sum->bias->operands[0]) == 1 || node.result()->meta().sizes[1] == SymInt(1);
    if (found->bias->meta().rank() != 1 || !is_of_channel) return std::nullopt;
    found->is_constant = found->is_constant && constant_behind(scope, found->bias);
  }
  return found;
}

// Where kernels of transposed convolutions are slower, as measured: all without a stride, all in groups but those of
// one channel each with constant weights (oneDNN has plain loops: 10 to 50 times); of computed weights no others; else
// outputs that fill no vector, which phases side by side do (1.4 to 3 times), a result that is no multiple of the
// stride, sums so long that weights are all that is read, volumes and many taps to a phase where none is wasted (1.2).
// Elsewhere what interleaving moves, and taps that are none, cost more. Small planes would mostly read padding.
bool pays(const Transposed& product, const std::vector<SymInt>& result) {
  int64_t kernel = 1, phases = 1, taps = 1;
  bool has_many_taps = false, is_uneven = false, is_small = false;
  for (size_t i = 0; i < product.axes.size(); ++i) {
    const Axis& axis = product.axes[i];
    kernel *= axis.kernel;
    phases *= axis.stride;
    taps *= axis.taps();
    has_many_taps |= axis.stride > 1 && axis.taps() > 2;
    is_uneven |= result[i + 2].constant().value_or(0) % axis.stride != 0;
    const std::optional<int64_t> size = product.x->meta().sizes[i + 2].constant();
    is_small |= size && *size < axis.taps();
  }
  constexpr int64_t most_taps = 64;  // of the kernel for channels of their own
  if (!product.is_constant && product.groups == SymInt(1)) return false;
  if (phases == 1)
    return kernel > 1 || product.inputs > 1 || product.outputs > 1;  // else it is an ordinary one as well
  if (product.groups != SymInt(1))
    return !product.is_constant || product.inputs > 1 || product.outputs > 1 || kernel > most_taps;
  constexpr int64_t lanes = 16;
  const auto in_vectors = [](int64_t channels) { return static_cast<double>((channels + lanes - 1) / lanes * lanes); };
  const double gain = in_vectors(product.outputs) * static_cast<double>(kernel) /
                      (in_vectors(product.outputs * phases) * static_cast<double>(taps));
  const bool is_full = kernel == phases * taps;
  return !is_small && (gain > 1.4 || is_uneven || product.inputs * kernel > 4096 ||
                       (is_full && (has_many_taps || product.axes.size() > 2)));
}

// A call with one list of sizes, axes or paddings.
struct Step {
  const char* target;
  std::vector<SymInt> list;
};

// What the steps make of a value, one after another, put before `node`.
Result<ir::Value*> append_steps(Scope& scope, ir::Node& node, ir::Value* value, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    Result<ir::Value*> made = append_before(scope, node, step.target, {value, list_of(step.list)});
    if (!made) return made;
    value = *made;
  }
  return value;
}

// [groups, phases and outputs; inputs, taps], each tap in the order in which x is read.
Result<ir::Value*> weight_of_phases(Scope& scope, ir::Node& node, const Transposed& product) {
  std::vector<SymInt> in_groups = {product.groups, product.inputs, product.outputs}, zeros, split = in_groups,
                      taps_axes, order = {0}, result = {product.outputs * product.groups, product.inputs};
  bool is_whole = true;  // no phase lacks a tap
  for (size_t i = 0; i < product.axes.size(); ++i) {
    const Axis& axis = product.axes[i];
    const auto tap_axis = static_cast<int64_t>(3 + 2 * i);
    const int64_t missing = axis.taps() * axis.stride - axis.kernel;
    is_whole &= missing == 0;
    in_groups.emplace_back(axis.kernel);
    zeros.insert(zeros.begin(), {0, missing});  // from the last axis on
    split.insert(split.end(), {axis.taps(), axis.stride});
    taps_axes.emplace_back(tap_axis);
    order.emplace_back(tap_axis + 1);
    result[0] = result[0] * axis.stride;
    result.emplace_back(axis.taps());
  }
  order.insert(order.end(), {2, 1});
  order.insert(order.end(), taps_axes.begin(), taps_axes.end());
  std::vector<Step> steps = {{"aten::reshape", in_groups}};
  if (!is_whole) steps.push_back({"aten::constant_pad_nd", zeros});
  steps.push_back({"aten::view", split});
  if (std::ranges::any_of(product.axes, [](const Axis& axis) { return axis.taps() > 1; }))
    steps.push_back({"aten::flip", taps_axes});
  steps.insert(steps.end(), {{"aten::permute", order}, {"aten::reshape", result}});
  return append_steps(scope, node, product.weight, steps);
}

// Of each group, as many times as there are phases.
Result<ir::Value*> bias_of_phases(Scope& scope, ir::Node& node, const Transposed& product, int64_t phases) {
  return append_steps(scope, node, product.bias,
                      {{"aten::reshape", {product.groups, 1, product.outputs}},
                       {"aten::expand", {product.groups, phases, product.outputs}},
                       {"aten::reshape", {product.groups * product.outputs * phases}}});
}

// What the phases of a result give, interleaved: [n, groups, phases.., c, q..] -> [n, groups and c, (q, phase)..].
Result<ir::Value*> interleaved(Scope& scope, ir::Node& node, const Transposed& product, ir::Value* made) {
  const size_t plane = product.axes.size(), first = product.groups == SymInt(1) ? 1 : 2;  // axis of the first phase
  const std::vector<SymInt> sizes = made->meta().sizes;
  std::vector<SymInt> split = {sizes[0]}, order = {0}, joined = {sizes[0], product.groups * product.outputs};
  if (first == 2) {
    split.push_back(product.groups);
    order.emplace_back(1);
  }
  order.emplace_back(static_cast<int64_t>(first + plane));
  for (const Axis& axis : product.axes) split.emplace_back(axis.stride);
  split.emplace_back(product.outputs);
  for (size_t i = 0; i < plane; ++i) {
    split.push_back(sizes[i + 2]);
    order.emplace_back(static_cast<int64_t>(first + plane + 1 + i));
    order.emplace_back(static_cast<int64_t>(first + i));
    joined.push_back(sizes[i + 2] * product.axes[i].stride);
  }
  return append_steps(scope, node, made, {{"aten::view", split}, {"aten::permute", order}, {"aten::reshape", joined}});
}

// What the node gives, made of an ordinary convolution; null where sizes do not fit.
Result<ir::Value*> untransposed(Scope& scope, ir::Node& node, const Transposed& product) {
  const size_t plane = product.axes.size();
  const std::vector<SymInt>& wanted = node.result()->meta().sizes;
  std::vector<SymInt> ones(plane, 1), zeros(plane, 0), padding, dilation;
  std::vector<int64_t> firsts;  // the q at which the ordinary one's result starts
  int64_t phases = 1;
  for (size_t i = 0; i < plane; ++i) {
    const Axis& axis = product.axes[i];
    const int64_t reach = axis.dilation * (axis.taps() - 1);
    // Its result ends at q = size - 1 + reach - first; the wanted one, with its own padding at the end, perhaps later.
    const SymInt last = shape::floor_div(wanted[i + 2] - 1 + axis.padding, axis.stride),
                 ends = product.x->meta().sizes[i + 2] + (reach - 1 - axis.first());
    const std::optional<int64_t> missing = (last - ends).constant();
    if (!missing) return nullptr;
    firsts.push_back(axis.first() - std::max<int64_t>(0, *missing));
    if (reach < firsts.back()) return nullptr;
    padding.emplace_back(reach - firsts.back());
    dilation.emplace_back(axis.dilation);
    phases *= axis.stride;
  }
  Result<ir::Value*> weight = weight_of_phases(scope, node, product), bias = nullptr;
  if (weight && product.bias) bias = bias_of_phases(scope, node, product, phases);
  if (weight && bias && product.is_constant) {
    const std::string name = weight_name(scope, *product.weight);
    weight = computed_constant(scope, name + ".phases", *weight);
    if (weight && product.bias) bias = computed_constant(scope, name + ".phases_bias", *bias);
  }
  if (!weight) return weight;
  if (!bias) return bias;
  Result<ir::Value*> made =
      append_before(scope, node, "aten::convolution",
                    {product.x, *weight, *bias ? ir::Argument(*bias) : ir::Argument(ir::None()), list_of(ones),
                     list_of(padding), list_of(dilation), false, list_of(zeros), product.groups});
  if (made && phases > 1) made = interleaved(scope, node, product, *made);
  if (!made) return made;

  // From the first of the result on.
  for (size_t i = 0; i < plane; ++i) {
    const SymInt start = product.axes[i].padding - firsts[i] * product.axes[i].stride, end = start + wanted[i + 2],
                 size = (*made)->meta().sizes[i + 2];
    if (scope.facts.decide(shape::less_equal(end, size)) != shape::Truth::proven) return nullptr;
    if (start == SymInt(0) && end == size) continue;
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
    const std::optional<Transposed> product = read_transposed(scope, node);
    if (!product || !pays(*product, node.result()->meta().sizes)) continue;
    Result<ir::Value*> made = untransposed(scope, node, *product);
    if (!made) return made.error();
    if (!*made) continue;
    scope.report("untransposed " + node.target() + " %" + node.result()->name);
    scope.variant.graph.replace_uses(node.result(), *made);
    scope.variant.graph.erase(node);  // others look for sole readers
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
