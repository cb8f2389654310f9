#include "specialize/channel_affine.h"

#include "reference/reference.h"
#include "specialize/index_expressions.h"

namespace atenon::specialize {
namespace {

using opset::Meaning;
using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

// Lets the factor that reads `tensor` be the right one. False where neither does.
bool put_on_right(const Meaning& meaning, const ir::Value* tensor, SumOfProducts& sum) {
  if (tensor_of(meaning, *sum.right) != tensor) std::swap(sum.left, sum.right);
  return tensor_of(meaning, *sum.right) == tensor;
}

// The only value that an integer scalar has at all indices of the result, if that can be seen.
std::optional<int64_t> only_value(const Meaning& meaning, ScalarId id) {
  const Scalar& scalar = at(meaning, id);
  const auto side = [&](size_t i) { return only_value(meaning, scalar.operands[i]); };
  switch (scalar.op) {
    case ScalarOp::constant:
      return scalar.integer;
    case ScalarOp::size:
      return scalar.size.constant();
    case ScalarOp::mul:
      if (side(0) == 0 || side(1) == 0) return 0;
      return std::nullopt;
    case ScalarOp::floor_div: {  // of an index by no less than its extent: the group of a channel where there is one
      const int axis = result_axis(meaning, scalar.operands[0]);
      if (side(0) == 0) return 0;
      if (axis < 0 || !side(1)) return std::nullopt;
      const std::optional<int64_t> extent = meaning.results[0].type.sizes[static_cast<size_t>(axis)].constant();
      return extent && *extent <= *side(1) ? std::optional<int64_t>(0) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

// Whether an index is the loop variable, plus nothing.
bool is_variable(const Meaning& meaning, ScalarId id, int variable) {
  const Scalar& scalar = at(meaning, id);
  if (scalar.op == ScalarOp::index) return scalar.variable == variable;
  if (scalar.op != ScalarOp::add) return false;
  for (const int i : {0, 1})
    if (only_value(meaning, scalar.operands[i]) == 0) return is_variable(meaning, scalar.operands[1 - i], variable);
  return false;
}

// The one axis of a read whose index depends on the variable, if the index `fits`; -1 if there is none, or more.
template <class Fits>
int only_axis(const Meaning& meaning, const Scalar& read, int variable, const Fits& fits) {
  int found = -1;
  for (size_t axis = 0; axis < read.operands.size(); ++axis) {
    if (!depends_on(meaning, read.operands[axis], variable)) continue;
    if (found >= 0 || !fits(read.operands[axis])) return -1;
    found = static_cast<int>(axis);
  }
  return found;
}

// Where the index is the variable.
int axis_of(const Meaning& meaning, const Scalar& read, int variable) {
  return only_axis(meaning, read, variable, [&](ScalarId index) { return is_variable(meaning, index, variable); });
}

// Where the index is the variable plus what does not depend on it, such as the first of a group.
int shifted_axis_of(const Meaning& meaning, const Scalar& read, int variable) {
  return only_axis(meaning, read, variable, [&](ScalarId id) {
    const Scalar& index = at(meaning, id);
    const auto is_shifted = [&](size_t i) {
      return is_variable(meaning, index.operands[i], variable) && !depends_on(meaning, index.operands[1 - i], variable);
    };
    return is_variable(meaning, id, variable) || (index.op == ScalarOp::add && (is_shifted(0) || is_shifted(1)));
  });
}

// Per channel: a constant, or scale * x + shift. A vector of length 1 stands for all channels.
struct Part {
  bool depends = false;
  std::vector<double> scale = {0};
  std::vector<double> shift = {0};
};

std::vector<double> combine(const std::vector<double>& a, const std::vector<double>& b,
                            const std::function<double(double, double)>& f) {
  std::vector<double> result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  return result;
}

// Evaluates one node of the scratch graph by channel.
class ChannelEvaluator {
 public:
  ChannelEvaluator(const Meaning& meaning, int channel_axis, int64_t channels,
                   const std::map<const ir::Value*, Part>& parts, const reference::Environment& constants)
      : meaning_(meaning), channel_axis_(channel_axis), channels_(channels), parts_(parts), constants_(constants) {}

  std::optional<Part> evaluate(ScalarId id) const {
    const Scalar& scalar = at(meaning_, id);
    switch (scalar.op) {
      case ScalarOp::constant:
        return Part{false, {0}, {is_floating(scalar.dtype) ? scalar.number : static_cast<double>(scalar.integer)}};
      case ScalarOp::read:
        return read(scalar);
      case ScalarOp::cast:
        return is_floating(scalar.dtype) ? evaluate(scalar.operands[0]) : std::nullopt;
      case ScalarOp::neg:
        return times(evaluate(scalar.operands[0]), Part{false, {0}, {-1}});
      case ScalarOp::add:
        return plus(evaluate(scalar.operands[0]), evaluate(scalar.operands[1]));
      case ScalarOp::sub:
        return plus(evaluate(scalar.operands[0]), times(evaluate(scalar.operands[1]), Part{false, {0}, {-1}}));
      case ScalarOp::mul:
        return times(evaluate(scalar.operands[0]), evaluate(scalar.operands[1]));
      case ScalarOp::div: {
        std::optional<Part> divisor = evaluate(scalar.operands[1]);
        if (!divisor || divisor->depends) return std::nullopt;
        for (double& x : divisor->shift) x = 1 / x;
        return times(evaluate(scalar.operands[0]), divisor);
      }
      default:
        return std::nullopt;
    }
  }

 private:
  static std::optional<Part> plus(const std::optional<Part>& a, const std::optional<Part>& b) {
    if (!a || !b) return std::nullopt;
    return Part{a->depends || b->depends, combine(a->scale, b->scale, std::plus<>()),
                combine(a->shift, b->shift, std::plus<>())};
  }

  static std::optional<Part> times(const std::optional<Part>& a, const std::optional<Part>& b) {
    if (!a || !b || (a->depends && b->depends)) return std::nullopt;
    const Part& x = a->depends ? *a : *b;
    const Part& c = a->depends ? *b : *a;
    return Part{x.depends, combine(x.scale, c.shift, std::multiplies<>()),
                combine(x.shift, c.shift, std::multiplies<>())};
  }

  std::optional<Part> read(const Scalar& scalar) const {
    const ir::Value* tensor = tensor_of(meaning_, scalar);
    if (auto part = parts_.find(tensor); part != parts_.end()) {  // x, at the same index as the result
      for (size_t axis = 0; axis < scalar.operands.size(); ++axis) {
        // An axis of size 1 is read at 0 (a batch of one).
        const Scalar& index = at(meaning_, scalar.operands[axis]);
        if (tensor->meta().sizes[axis] == ir::SymInt(1) && index.op == ScalarOp::constant && index.integer == 0)
          continue;
        if (result_axis(meaning_, scalar.operands[axis]) != static_cast<int>(axis)) return std::nullopt;
      }
      return part->second;
    }
    auto found = constants_.values.find(tensor);
    if (found == constants_.values.end()) return std::nullopt;
    const Tensor& values = std::get<Tensor>(found->second);
    std::vector<int64_t> strides = contiguous_strides(values.sizes);
    Tensor rows = values.contiguous();
    int64_t stride = 0;
    for (size_t axis = 0; axis < scalar.operands.size(); ++axis) {
      const Scalar& index = at(meaning_, scalar.operands[axis]);
      if (index.op == ScalarOp::constant && index.integer == 0) continue;
      if (result_axis(meaning_, scalar.operands[axis]) != channel_axis_ || values.sizes[axis] != channels_)
        return std::nullopt;
      stride += strides[axis];
    }
    Part part;
    part.shift.assign(static_cast<size_t>(stride ? channels_ : 1), 0);
    for (size_t c = 0; c < part.shift.size(); ++c) part.shift[c] = rows.float_at(static_cast<int64_t>(c) * stride);
    return part;
  }

  const Meaning& meaning_;
  int channel_axis_;
  int64_t channels_;
  const std::map<const ir::Value*, Part>& parts_;
  const reference::Environment& constants_;
};

}  // namespace

int result_axis(const Meaning& meaning, ScalarId id) {
  const Scalar& scalar = at(meaning, id);
  if (scalar.op == ScalarOp::mod) {  // by no less than there are: the place in a group where there is one group
    const int axis = result_axis(meaning, scalar.operands[0]);
    const Scalar& divisor = at(meaning, scalar.operands[1]);
    const auto extent = axis < 0 ? std::nullopt : meaning.results[0].type.sizes[static_cast<size_t>(axis)].constant();
    return extent && divisor.op == ScalarOp::constant && *extent <= divisor.integer ? axis : -1;
  }
  if (scalar.op != ScalarOp::index) return -1;
  const std::vector<int>& variables = meaning.results[0].variables;
  for (size_t axis = 0; axis < variables.size(); ++axis) {
    if (variables[axis] == scalar.variable) return static_cast<int>(axis);
  }
  return -1;
}

std::optional<Meaning> loops(const Scope& scope, const opset::Call& call) {
  Result<opset::MeaningKind> kind = opset::meaning_kind(scope.opset, call, scope.facts);
  if (!kind || *kind != opset::MeaningKind::loops) return std::nullopt;
  Result<Meaning> meaning = opset::meaning(scope.opset, call, scope.facts);
  if (!meaning) return std::nullopt;
  return std::move(*meaning);
}

std::optional<Meaning> loops(const Scope& scope, const ir::Node& node) {
  const Result<opset::Call> call = opset::bind(scope.opset, node);
  return call ? loops(scope, *call) : std::nullopt;
}

bool expand_all(const Scope& scope, ir::Graph& graph) {
  for (bool changed = true; changed;) {
    changed = false;
    for (ir::Node& node : graph.forward()) {
      Result<opset::Call> call = opset::bind(scope.opset, node);
      if (!call) return false;
      Result<opset::MeaningKind> kind = opset::meaning_kind(scope.opset, *call, scope.facts);
      if (!kind) return false;
      if (*kind != opset::MeaningKind::decomposition) continue;
      Result<opset::Expansion> expansion = opset::expand(scope.opset, *call, scope.facts, graph, &node, 0);
      if (!expansion) return false;
      for (size_t i = 0; i < expansion->results.size(); ++i) graph.replace_uses(node.result(i), expansion->results[i]);
      graph.erase(node);
      changed = true;
    }
  }
  return true;
}

std::optional<Alone> alone(const Scope& scope, const ir::Node& node) {
  Alone made;
  std::map<ir::Value*, ir::Value*> inputs;
  for (ir::Value* operand : node.operands()) {
    ir::Value*& input = inputs[operand];
    if (!input) input = made.graph.add_input(operand->name, operand->type);
    made.operands[input] = operand;
  }
  made.graph.set_outputs({made.graph.add_copy(node, [&](ir::Value* value) { return inputs.at(value); })->result()});
  if (!expand_all(scope, made.graph)) return std::nullopt;
  return made;
}

bool is_pointwise(const Scope& scope, const ir::Node& node) {
  const std::optional<opset::Meaning> meaning = loops(scope, node);
  if (!meaning || meaning->is_view || meaning->scatter || !meaning->reductions.empty()) return false;
  const opset::LoopNest& nest = meaning->results[0];
  const auto is_index = [&](opset::ScalarId id) { return at(*meaning, id).op == ScalarOp::index; };
  const auto is_own_place = [&](const Scalar& read) {
    for (size_t axis = 0; axis < read.operands.size(); ++axis) {
      const Scalar& index = at(*meaning, read.operands[axis]);
      const bool is_own = index.op == ScalarOp::index && index.variable == nest.variables[axis];
      if (!is_own && nest.type.sizes[axis] != ir::SymInt(1)) return false;
    }
    return true;
  };
  return std::all_of(meaning->scalars.begin(), meaning->scalars.end(), [&](const Scalar& scalar) {
    if (scalar.op != ScalarOp::read) return std::none_of(scalar.operands.begin(), scalar.operands.end(), is_index);
    return tensor_of(*meaning, scalar)->meta().sizes == nest.type.sizes && is_own_place(scalar);
  });
}

NodeArguments with_replaced(const opset::Call& call, const Replace& replace) {
  NodeArguments made;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const opset::Parameter& parameter = call.op->schema().parameters[i];
    ir::Argument argument = replace(i, call.arguments[i]);
    if (parameter.keyword_only)
      made.keywords.push_back({parameter.name, std::move(argument)});
    else
      made.positional.push_back(std::move(argument));
  }
  return made;
}

Result<ir::Value*> append_copy(Scope& scope, ir::Node& place, const ir::Node& node, const Replace& replace) {
  Result<opset::Call> call = opset::bind(scope.opset, node);
  if (!call) return call.error();
  NodeArguments arguments = with_replaced(*call, replace);
  return append_before(scope, place, node.target(), std::move(arguments.positional), std::move(arguments.keywords));
}

Result<ir::Value*> append_views(Scope& scope, ir::Node& place, const std::vector<ir::Node*>& views, ir::Value* value) {
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    Result<ir::Value*> made = append_copy(scope, place, **view, [&](size_t, const ir::Argument& argument) {
      return argument.value() == (*view)->operands()[0] ? ir::Argument(value) : argument;
    });
    if (!made) return made;
    value = *made;
  }
  return value;
}

// The axis of the result along which a product reads its weight or its bias at an index, or -1. A single channel is
// read at zero, so that every axis of one is right: the second, where images have theirs, before others.
static int channel_of(const Meaning& meaning, const ir::SymInt& size, ScalarId index) {
  const int channel = result_axis(meaning, index);
  if (channel >= 0 || size != ir::SymInt(1) || only_value(meaning, index) != 0) return channel;
  const std::vector<ir::SymInt>& sizes = meaning.results[0].type.sizes;
  const auto first = std::find(sizes.begin(), sizes.end(), size);
  if (sizes.size() > 1 && sizes[1] == size) return 1;
  return first == sizes.end() ? -1 : static_cast<int>(first - sizes.begin());
}

std::optional<ChannelProduct> channel_product(const Scope& scope, const ir::Node& node) {
  Result<opset::Call> call = opset::bind(scope.opset, node);
  if (!call) return std::nullopt;
  ChannelProduct product;
  const std::vector<opset::Parameter>& parameters = call->op->schema().parameters;
  auto bias = std::find_if(parameters.begin(), parameters.end(),
                           [](const opset::Parameter& p) { return p.name == "bias" && p.type.optional; });
  if (bias == parameters.end()) return std::nullopt;
  product.bias_argument = static_cast<size_t>(bias - parameters.begin());
  product.bias = call->arguments[product.bias_argument].value();

  std::optional<Meaning> meaning = loops(scope, *call);
  if (!meaning) return std::nullopt;
  std::optional<SumOfProducts> sum = sum_of_products(*meaning);
  if (!sum) return std::nullopt;
  for (const Scalar* read : {sum->left, sum->right}) {
    ir::Value* tensor = tensor_of(*meaning, *read);
    if (product.weight || !constant_behind(scope, tensor)) continue;
    // Axes of one, of which each is right, after all others.
    for (const bool is_one : {false, true})
      for (size_t axis = 0; axis < read->operands.size() && !product.weight; ++axis) {
        const ir::SymInt& size = tensor->meta().sizes[axis];
        const int channel = (size == ir::SymInt(1)) == is_one ? channel_of(*meaning, size, read->operands[axis]) : -1;
        if (channel < 0) continue;
        product.weight = tensor;
        product.weight_axis = static_cast<int>(axis);
        product.channel_axis = channel;
      }
  }
  if (!product.weight) return std::nullopt;
  if (product.bias && !constant_behind(scope, product.bias)) return std::nullopt;

  // Where there is no bias yet, see what the operator would do with one.
  ir::Graph scratch;
  if (!product.bias) {
    ir::TensorMeta type{node.result()->meta().dtype,
                        {node.result()->meta().sizes[static_cast<size_t>(product.channel_axis)]}};
    call->arguments[product.bias_argument] = scratch.add_input("bias", type);
    meaning = loops(scope, *call);
    sum = meaning ? sum_of_products(*meaning) : std::nullopt;
  }
  if (!sum || !sum->bias || sum->bias->operands.size() != 1) return std::nullopt;
  const ir::SymInt& channels = tensor_of(*meaning, *sum->bias)->meta().sizes[0];
  if (channel_of(*meaning, channels, sum->bias->operands[0]) != product.channel_axis) return std::nullopt;
  return product;
}

std::optional<SummedAxes> summed_axes(const Scope& scope, const ir::Node& node, const ir::Value* x,
                                      const ir::Value* weight) {
  const std::optional<Meaning> meaning = loops(scope, node);
  std::optional<SumOfProducts> sum = meaning ? sum_of_products(*meaning) : std::nullopt;
  if (!sum || !put_on_right(*meaning, weight, *sum) || tensor_of(*meaning, *sum->left) != x) return std::nullopt;
  const opset::Reduction& reduction = *sum->reduction;
  for (size_t i = 0; i < reduction.variables.size(); ++i) {
    const int variable = reduction.variables[i];
    const auto depends = [&](ScalarId id) { return id != opset::no_scalar && depends_on(*meaning, id, variable); };
    if (depends(reduction.guard) || std::any_of(reduction.extents.begin(), reduction.extents.end(), depends)) continue;
    const SummedAxes axes{axis_of(*meaning, *sum->left, variable), axis_of(*meaning, *sum->right, variable)};
    if (axes.x < 0 || axes.weight < 0) continue;
    const ir::SymInt& size = x->meta().sizes[static_cast<size_t>(axes.x)];
    const bool is_whole = at(*meaning, reduction.extents[i]).as_size() == size;
    if (is_whole && weight->meta().sizes[static_cast<size_t>(axes.weight)] == size) return axes;
  }
  return std::nullopt;
}

ir::SymInt result_index(size_t axis) { return ir::SymInt::symbol("result." + std::to_string(axis)); }
ir::SymInt summed_index(size_t weight_axis) { return ir::SymInt::symbol("summed." + std::to_string(weight_axis)); }

std::optional<ProductIndices> product_indices(const Scope& scope, const ir::Node& node, const ir::Value* weight) {
  const std::optional<Meaning> meaning = loops(scope, node);
  return meaning ? product_indices(scope, *meaning, weight) : std::nullopt;
}

std::optional<ProductIndices> product_indices(const Scope& scope, const Meaning& meaning, const ir::Value* weight) {
  std::optional<SumOfProducts> sum = sum_of_products(meaning);
  if (!sum || !put_on_right(meaning, weight, *sum)) return std::nullopt;
  const opset::Reduction& reduction = *sum->reduction;

  ProductIndices found;
  found.operand = tensor_of(meaning, *sum->left);
  found.facts = scope.facts;
  const opset::LoopNest& nest = meaning.results[0];
  std::map<int, ir::SymInt> variables = result_indices(nest.variables);
  for (size_t axis = 0; axis < nest.variables.size(); ++axis) {
    const ir::SymInt index = result_index(axis);
    found.facts.declare(*index.as_symbol(), {0, nest.type.sizes[axis].constant().value_or(shape::Range::highest) - 1});
    found.facts.assume(shape::less(index, nest.type.sizes[axis]));
  }
  found.extents.assign(weight->meta().sizes.size(), 1);
  for (size_t i = 0; i < reduction.variables.size(); ++i) {
    const std::optional<ir::SymInt> extent = IndexExpressions(meaning, {}).integer(reduction.extents[i]);
    if (extent == ir::SymInt(1)) {
      variables.emplace(reduction.variables[i], 0);
      continue;
    }
    const int axis = shifted_axis_of(meaning, *sum->right, reduction.variables[i]);
    if (axis < 0 || !extent) return std::nullopt;
    ir::SymInt& of_axis = found.extents[static_cast<size_t>(axis)];
    if (of_axis != ir::SymInt(1)) return std::nullopt;
    of_axis = *extent;
    variables.emplace(reduction.variables[i], summed_index(static_cast<size_t>(axis)));
  }
  const IndexExpressions expressions(meaning, variables);
  const auto collect = [&](const Scalar& read, std::vector<ir::SymInt>& into) {
    for (ScalarId operand : read.operands)
      if (const std::optional<ir::SymInt> index = expressions.integer(operand))
        into.push_back(found.facts.simplify(*index));
    return into.size() == read.operands.size();
  };
  if (!collect(*sum->left, found.x) || !collect(*sum->right, found.weight)) return std::nullopt;
  for (size_t axis = 0; axis < found.weight.size(); ++axis)
    found.is_summed.push_back(found.extents[axis] == weight->meta().sizes[axis] &&
                              (found.weight[axis] == summed_index(axis) ||  // of one place: it is read at 0
                               (found.weight[axis] == ir::SymInt(0) && weight->meta().sizes[axis] == ir::SymInt(1))));
  if (reduction.guard != opset::no_scalar) {
    const std::optional<shape::SymBool> guard = expressions.truth(reduction.guard);
    if (!guard) return std::nullopt;
    found.guard = *guard;
  }
  return found;
}

bool has_one_result(const ir::Node& node) {
  for (size_t i = 1; i < node.results().size(); ++i)
    if (node.result(i)->has_users()) return false;
  return !node.results().empty() && node.result()->is_tensor();
}

std::optional<ChannelAffine> channel_affine(const Scope& scope, const ir::Node& node, const ir::Value* x,
                                            int channel_axis) {
  if (!has_one_result(node) || node.result()->type != x->type) return std::nullopt;
  std::optional<int64_t> channels = x->meta().sizes[static_cast<size_t>(channel_axis)].constant();
  if (!channels) return std::nullopt;

  // The node alone in a graph of its own, decomposed as far as it goes.
  ir::Graph scratch;
  reference::Environment constants;
  std::map<const ir::Value*, Part> parts;
  std::map<ir::Value*, ir::Value*> inputs;
  for (ir::Value* operand : node.operands()) {
    if (inputs.contains(operand)) continue;
    ir::Value* input = scratch.add_input(operand->name, operand->type);
    inputs[operand] = input;
    if (operand == x) {
      parts[input] = {true, {1}, {0}};
      continue;
    }
    std::optional<Tensor> constant = constant_behind(scope, operand);
    if (!constant) return std::nullopt;
    constants.values.emplace(input, std::move(*constant));
  }
  auto moved = [&](ir::Value* value) { return ir::Argument(inputs.at(value)); };
  ir::Node* copy = scratch.add_copy(node, moved);
  scratch.set_outputs({copy->result()});
  if (!expand_all(scope, scratch)) return std::nullopt;

  for (ir::Node& step : scratch.forward()) {
    bool depends = false;
    for (ir::Value* operand : step.operands()) depends = depends || parts.contains(operand);
    if (!depends) {
      if (Result<void> done = reference::evaluate(scope.opset, step, constants); !done) return std::nullopt;
      continue;
    }
    std::optional<Meaning> meaning = loops(scope, step);
    if (!meaning || meaning->results.size() != 1 || meaning->scatter) return std::nullopt;
    std::optional<Part> part =
        ChannelEvaluator(*meaning, channel_axis, *channels, parts, constants).evaluate(meaning->results[0].value);
    if (!part) return std::nullopt;
    parts[step.result()] = std::move(*part);
  }
  auto result = parts.find(scratch.outputs()[0].value());
  if (result == parts.end() || !result->second.depends) return std::nullopt;
  std::vector<double> each(static_cast<size_t>(*channels), 0);
  return ChannelAffine{combine(result->second.scale, each, std::plus<>()),
                       combine(result->second.shift, each, std::plus<>())};
}

}  // namespace atenon::specialize
