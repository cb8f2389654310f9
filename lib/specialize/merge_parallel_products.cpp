// A sum of products of one operand is one product whose weight is the sum of theirs:
//
//     conv(x, w3, padding=1) + conv(x, w1) + x * s = conv(x, w3 + w1 and s in the middle, padding=1)
//
// These are the branches of RepVGG, MobileOne, ACNet or DBB as they were trained. What is merged reads x no wider than
// the product that takes it in, so nothing is multiplied that was not before. Nothing here knows the operators: where
// each product reads is taken from its meaning, and places in the two sums are paired where they read the same element
// under the same guard. Weights are added in double precision and rounded once.
#include "ir/readers.h"
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

using ir::SymInt;

// A summand: a product with a constant weight, or scale[c] * x + shift[c].
struct Summand {
  ir::Value* x = nullptr;
  int channel_axis = 0;
  // Of a product.
  ir::Node* node = nullptr;
  std::optional<ChannelProduct> product;
  ProductIndices indices;
  // Of an affine map.
  ChannelAffine map;
};

std::optional<Summand> as_product(const Scope& scope, ir::Value* value) {
  if (!value->producer || !ir::sole_reader(*value) || !has_one_result(*value->producer)) return std::nullopt;
  Summand summand;
  summand.node = value->producer;
  summand.product = channel_product(scope, *summand.node);
  if (!summand.product) return std::nullopt;
  std::optional<ProductIndices> indices = product_indices(scope, *summand.node, summand.product->weight);
  if (!indices) return std::nullopt;
  summand.indices = std::move(*indices);
  summand.x = summand.indices.operand;
  summand.channel_axis = summand.product->channel_axis;
  return summand;
}

// `value` as an affine map of what the product takes.
std::optional<Summand> as_affine(const Scope& scope, const Summand& product, ir::Value* value) {
  Summand summand;
  summand.x = product.x;
  summand.channel_axis = product.channel_axis;
  const std::vector<SymInt>& sizes = value->meta().sizes;
  for (size_t axis = 0; axis < sizes.size(); ++axis) summand.indices.x.push_back(result_index(axis));
  if (value == product.x) {
    const std::optional<int64_t> channels = sizes[static_cast<size_t>(product.channel_axis)].constant();
    if (!channels) return std::nullopt;
    summand.map.scale.assign(static_cast<size_t>(*channels), 1);
    summand.map.shift.assign(static_cast<size_t>(*channels), 0);
    return summand;
  }
  if (!value->producer) return std::nullopt;
  std::optional<ChannelAffine> map = channel_affine(scope, *value->producer, product.x, product.channel_axis);
  if (!map) return std::nullopt;
  summand.map = std::move(*map);
  return summand;
}

// a / divisor, where that is exact: for expressions over one symbol at most, or a divisor of 1.
std::optional<SymInt> exact_quotient(const SymInt& a, int64_t divisor, const SymInt& symbol) {
  if (divisor == 1) return a;
  const auto with = [&](int64_t value) { return shape::substitute(a, {{*symbol.as_symbol(), value}}).constant(); };
  const std::optional<int64_t> start = with(0), next = with(1);
  if (divisor == 0 || !start || !next || *start % divisor != 0 || (*next - *start) % divisor != 0) return std::nullopt;
  const SymInt quotient = SymInt(*start / divisor) + SymInt((*next - *start) / divisor) * symbol;
  return quotient * SymInt(divisor) == a ? std::optional(quotient) : std::nullopt;
}

// For each axis that `wide` sums along, the place in its sum that reads what `narrow` reads at (o, k). nullopt where
// there is none at some o, or more than the place differs.
std::optional<shape::Substitution> places(const ProductIndices& wide, const ProductIndices& narrow) {
  shape::Substitution found;
  for (size_t i = 0; i < wide.is_summed.size(); ++i) {
    if (!wide.is_summed[i]) continue;
    const SymInt place = summed_index(i);
    const std::string name = *place.as_symbol();
    for (size_t axis = 0; axis < wide.x.size(); ++axis) {
      const SymInt start = shape::substitute(wide.x[axis], {{name, 0}});
      const std::optional<int64_t> step = (shape::substitute(wide.x[axis], {{name, 1}}) - start).constant();
      if (!step || *step == 0) continue;
      const std::optional<SymInt> solved = exact_quotient(wide.facts.simplify(narrow.x[axis] - start), *step, place);
      if (!solved || !found.emplace(name, *solved).second) return std::nullopt;
    }
    if (found.contains(name)) continue;
    if (wide.weight[i] == place) return std::nullopt;
    found.emplace(name, 0);  // there is one place only
  }
  const auto follows = [&](const shape::SymBool& claim, const shape::SymBool& from) {
    shape::Facts facts = wide.facts;
    return facts.assume(from) && facts.decide(claim) == shape::Truth::proven;
  };
  for (size_t axis = 0; axis < wide.x.size(); ++axis)
    if (!follows(shape::equal(shape::substitute(wide.x[axis], found), narrow.x[axis]), true)) return std::nullopt;
  const shape::SymBool guard = shape::substitute(wide.guard, found);
  if (!follows(guard, narrow.guard) || !follows(narrow.guard, guard)) return std::nullopt;
  return found;
}

// For the element [channel, .., index, ..] of the narrow weight, the index along one axis in the wide one.
class MovedIndex {
 public:
  // False in `is_inside` where an index would be none of the wide weight's.
  MovedIndex(const Summand& wide, size_t axis, const Tensor& narrow, const shape::Substitution& places)
      : size_(narrow.sizes[axis]) {
    if (!wide.indices.is_summed[axis]) return;
    const SymInt& place = places.at(*summed_index(axis).as_symbol());
    const std::string index = *summed_index(axis).as_symbol();
    const std::string channel = *result_index(static_cast<size_t>(wide.channel_axis)).as_symbol();
    const int64_t end = *wide.product->weight->meta().sizes[axis].constant();
    depends_on_channel_ = place.symbols().contains(channel);
    const int64_t channels =
        depends_on_channel_ ? narrow.sizes[static_cast<size_t>(wide.product->weight_axis)] : int64_t{1};
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < size_; ++i) {
        const std::optional<int64_t> at = shape::evaluate(place, {{channel, c}, {index, i}});
        if (!at || *at < 0 || *at >= end) is_inside_ = false;
        at_.push_back(at.value_or(0));
      }
    }
  }

  bool is_inside() const { return is_inside_; }
  int64_t operator()(int64_t channel, int64_t index) const {
    if (at_.empty()) return index;
    return at_[static_cast<size_t>((depends_on_channel_ ? channel * size_ : 0) + index)];
  }

 private:
  int64_t size_ = 0;
  std::vector<int64_t> at_;  // empty where indices stay
  bool depends_on_channel_ = false, is_inside_ = true;
};

// The weight of `wide` plus what `narrow` multiplies with, each element in its place. nullopt where one has none.
std::optional<Tensor> sum_of_weights(const Tensor& wide_weight, const Summand& wide, const Tensor& narrow_weight,
                                     const shape::Substitution& places) {
  const Tensor base = wide_weight.contiguous(), added = narrow_weight.contiguous();
  const size_t rank = base.sizes.size();
  std::vector<MovedIndex> moved;
  for (size_t axis = 0; axis < rank; ++axis) {
    moved.emplace_back(wide, axis, added, places);
    if (!moved.back().is_inside()) return std::nullopt;
  }
  std::vector<double> sum(static_cast<size_t>(base.numel()));
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = base.float_at(static_cast<int64_t>(i));
  const std::vector<int64_t> strides = contiguous_strides(base.sizes);
  std::vector<int64_t> at(rank, 0);
  for (int64_t i = 0, n = added.numel(); i < n; ++i) {
    int64_t place = 0;
    for (size_t axis = 0; axis < rank; ++axis)
      place += moved[axis](at[static_cast<size_t>(wide.product->weight_axis)], at[axis]) * strides[axis];
    sum[static_cast<size_t>(place)] += added.float_at(i);
    for (size_t axis = rank; axis-- > 0;) {
      if (++at[axis] < added.sizes[axis]) break;
      at[axis] = 0;
    }
  }
  return as_tensor(sum, base.dtype, base.sizes);
}

// scale[c] as a weight that is read at c along the weight's channel axis and once along all others.
Tensor as_weight(const Summand& wide, const std::vector<double>& scale) {
  std::vector<int64_t> sizes(wide.indices.weight.size(), 1);
  sizes[static_cast<size_t>(wide.product->weight_axis)] = static_cast<int64_t>(scale.size());
  return as_tensor(scale, ScalarType::f64, sizes);
}

// Whether weights are read alike: at the channel along one axis, and along all others at the place in the sum.
bool have_one_form(const Summand& wide, const Summand& narrow) {
  const size_t channel = static_cast<size_t>(wide.product->weight_axis);
  for (size_t axis = 0; axis < wide.indices.weight.size(); ++axis)
    if (wide.indices.is_summed[axis] == (axis == channel)) return false;
  return !narrow.product ||
         (narrow.product->weight_axis == wide.product->weight_axis && narrow.channel_axis == wide.channel_axis &&
          narrow.indices.is_summed == wide.indices.is_summed &&
          narrow.indices.weight[channel] == wide.indices.weight[channel]);
}

// The product that gives wide + narrow, in the place of `sum`; null where there is none.
Result<ir::Value*> merged(Scope& scope, ir::Node& sum, const Summand& wide, const Summand& narrow) {
  if (narrow.x != wide.x || !have_one_form(wide, narrow)) return nullptr;
  const std::optional<shape::Substitution> found = places(wide.indices, narrow.indices);
  if (!found) return nullptr;
  const Tensor added =
      narrow.product ? *constant_behind(scope, narrow.product->weight) : as_weight(wide, narrow.map.scale);
  const std::optional<Tensor> weight =
      sum_of_weights(*constant_behind(scope, wide.product->weight), wide, added, *found);
  if (!weight) return nullptr;

  std::vector<double> shift(static_cast<size_t>(weight->sizes[static_cast<size_t>(wide.product->weight_axis)]), 0);
  const auto shift_by = [&](const auto& value) {
    for (size_t c = 0; c < shift.size(); ++c) shift[c] += value(c);
  };
  for (const Summand* summand : {&wide, &narrow}) {
    if (!summand->product) {
      shift_by([&](size_t c) { return summand->map.shift[c]; });
    } else if (summand->product->bias) {
      const Tensor bias = constant_behind(scope, summand->product->bias)->contiguous();
      shift_by([&](size_t c) { return bias.float_at(static_cast<int64_t>(c)); });
    }
  }
  const std::string name = weight_name(scope, *wide.product->weight);
  ir::Value* const new_weight = add_constant(scope, name + ".merged", *weight);
  ir::Value* const new_bias =
      add_constant(scope, name + ".merged_bias", as_tensor(shift, weight->dtype, {static_cast<int64_t>(shift.size())}));
  return append_copy(scope, sum, *wide.node, [&](size_t i, const ir::Argument& argument) -> ir::Argument {
    if (i == wide.product->bias_argument) return new_bias;
    return argument.value() == wide.product->weight ? new_weight : argument;
  });
}

// The operands of a sum of two tensors of its own type, element by element.
std::optional<std::pair<ir::Value*, ir::Value*>> summands(const Scope& scope, const ir::Node& node) {
  if (node.operands().size() != 2 || !has_one_result(node)) return std::nullopt;
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  if (!meaning || meaning->scatter || meaning->results[0].value == opset::no_scalar) return std::nullopt;
  const opset::Scalar& root = at(*meaning, meaning->results[0].value);
  if (root.op != opset::ScalarOp::add) return std::nullopt;
  const auto once = [&](opset::ScalarId id) -> const opset::Scalar& {  // 1 * x is x: alpha that nobody gave
    const opset::Scalar& scalar = at(*meaning, id);
    if (scalar.op != opset::ScalarOp::mul) return scalar;
    const opset::Scalar& factor = at(*meaning, scalar.operands[0]);
    return factor.op == opset::ScalarOp::constant && factor.number == 1 ? at(*meaning, scalar.operands[1]) : scalar;
  };
  ir::Value* found[2];
  for (size_t i : {0, 1}) {
    const opset::Scalar& read = once(root.operands[i]);
    if (read.op != opset::ScalarOp::read) return std::nullopt;
    found[i] = tensor_of(*meaning, read);
    if (found[i]->type != node.result()->type) return std::nullopt;  // so both are read at the result's index
  }
  return std::pair(found[0], found[1]);
}

}  // namespace

Result<Changed> merge_parallel_products(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const auto both = summands(scope, node);
    if (!both) continue;
    const ScalarType dtype = node.result()->meta().dtype;
    if (dtype != ScalarType::f32 && dtype != ScalarType::f64) continue;
    ir::Value* result = nullptr;
    for (auto [wide_value, narrow_value] : {*both, std::pair(both->second, both->first)}) {
      const std::optional<Summand> wide = as_product(scope, wide_value);
      if (!wide) continue;
      std::optional<Summand> narrow = as_product(scope, narrow_value);
      if (!narrow) narrow = as_affine(scope, *wide, narrow_value);
      if (!narrow) continue;
      Result<ir::Value*> made = merged(scope, node, *wide, *narrow);
      if (!made) return made.error();
      if (!*made) continue;
      result = *made;
      scope.report("merged %" + narrow_value->name + " into " + wide->node->target() + " %" + wide_value->name);
      break;
    }
    if (!result) continue;
    scope.variant.graph.replace_uses(node.result(), result);  // the summands go with what nobody reads
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
