// The matcher behind body.h. Operators are told by name, numbers by value; nothing depends on a model.
#include "kernels/body.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/readers.h"

namespace atenon::kernels {

using ir::Argument;
using ir::Value;

std::string name_without_overload(const std::string& target) { return target.substr(0, target.find('.')); }

const Argument* Arguments::find(size_t position, const char* name) const {
  const Argument* found = position < node_.arguments().size() ? &node_.arguments()[position] : node_.keyword(name);
  return found && !found->is<ir::None>() ? found : nullptr;
}

Value* Arguments::tensor(size_t position, const char* name) const {
  const Argument* found = find(position, name);
  return found ? found->value() : nullptr;
}

std::string kernel_of(const ir::Node& call) {
  const ir::Argument* kernel = call.annotation("kernel");
  return kernel && kernel->is<std::string>() ? kernel->get<std::string>() : "";
}

std::optional<double> number_of(const Argument& argument, const shape::Bindings& symbols) {
  if (argument.is<ir::SymInt>()) {
    std::optional<int64_t> integer = shape::evaluate(argument.get<ir::SymInt>(), symbols);
    return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
  }
  if (argument.is<ir::SymFloat>()) return shape::evaluate(argument.get<ir::SymFloat>(), symbols);
  if (argument.is<ir::SymBool>()) {
    std::optional<bool> truth = shape::evaluate(argument.get<ir::SymBool>(), symbols);
    return truth ? std::optional<double>(*truth) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> Arguments::number(size_t position, const char* name, double fallback) const {
  const Argument* found = find(position, name);
  return found ? number_of(*found, symbols_) : fallback;
}

std::optional<int64_t> Arguments::integer(size_t position, const char* name, int64_t fallback) const {
  const Argument* found = find(position, name);
  if (!found) return fallback;
  return found->is<ir::SymInt>() ? shape::evaluate(found->get<ir::SymInt>(), symbols_) : std::nullopt;
}

std::optional<bool> Arguments::boolean(size_t position, const char* name, bool fallback) const {
  const Argument* found = find(position, name);
  if (!found) return fallback;
  return found->is<ir::SymBool>() ? shape::evaluate(found->get<ir::SymBool>(), symbols_) : std::nullopt;
}

std::optional<std::vector<int64_t>> Arguments::integers(size_t position, const char* name, size_t count,
                                                        int64_t fallback) const {
  const Argument* found = find(position, name);
  std::vector<int64_t> values;
  if (found && found->is<ir::ArgumentList>()) {
    for (const Argument& item : found->get<ir::ArgumentList>()) {
      std::optional<int64_t> value =
          item.is<ir::SymInt>() ? shape::evaluate(item.get<ir::SymInt>(), symbols_) : std::nullopt;
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    if (values.empty()) values.assign(count, fallback);
    if (values.size() == 1) values.resize(count, values[0]);
    return values.size() == count ? std::optional(values) : std::nullopt;
  }
  std::optional<int64_t> single = integer(position, name, fallback);
  if (!single) return std::nullopt;
  return std::vector<int64_t>(count, *single);
}

std::string Arguments::text(size_t position, const char* name, const std::string& fallback) const {
  const Argument* found = find(position, name);
  return found && found->is<std::string>() ? found->get<std::string>() : fallback;
}

std::optional<std::vector<int64_t>> concrete(const std::vector<ir::SymInt>& sizes, const shape::Bindings& symbols) {
  std::vector<int64_t> values;
  for (const ir::SymInt& size : sizes) {
    std::optional<int64_t> value = shape::evaluate(size, symbols);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

// --- Epilogues ------------------------------------------------------------------------------------------------------

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::optional<PostOp> clamp_step(std::optional<double> low, std::optional<double> high) {
  if (!low || !high) return std::nullopt;
  if (*low == 0 && *high == infinity) return PostOp{PostOp::Kind::relu};
  return PostOp{PostOp::Kind::clamp, static_cast<float>(*low), static_cast<float>(*high)};
}

// f(x) of one tensor and numbers.
std::optional<PostOp> unary_step(const std::string& name, const Arguments& arguments) {
  using Kind = PostOp::Kind;
  if (name == "aten::relu") return PostOp{Kind::relu};
  if (name == "aten::relu6") return PostOp{Kind::clamp, 0, 6};
  if (name == "aten::hardtanh")
    return clamp_step(arguments.number(1, "min_val", -1), arguments.number(2, "max_val", 1));
  if (name == "aten::clamp")
    return clamp_step(arguments.number(1, "min", -infinity), arguments.number(2, "max", infinity));
  if (name == "aten::clamp_min") return clamp_step(arguments.number(1, "min", -infinity), infinity);
  if (name == "aten::clamp_max") return clamp_step(-infinity, arguments.number(1, "max", infinity));
  if (name == "aten::gelu")
    return PostOp{arguments.text(1, "approximate", "none") == "tanh" ? Kind::gelu_tanh : Kind::gelu_erf};
  if (name == "aten::silu") return PostOp{Kind::silu};
  if (name == "aten::sigmoid") return PostOp{Kind::sigmoid};
  if (name == "aten::tanh") return PostOp{Kind::tanh};
  if (name == "aten::hardswish") return PostOp{Kind::hardswish};
  if (name == "aten::hardsigmoid") return PostOp{Kind::hardsigmoid};
  if (name == "aten::exp") return PostOp{Kind::exp};
  if (name == "aten::abs") return PostOp{Kind::abs};
  if (name == "aten::sqrt") return PostOp{Kind::sqrt};
  if (name == "aten::neg") return PostOp{Kind::affine, -1, 0};
  if (name == "aten::leaky_relu") {
    std::optional<double> slope = arguments.number(1, "negative_slope", 0.01);
    return slope ? std::optional(PostOp{Kind::leaky_relu, static_cast<float>(*slope)}) : std::nullopt;
  }
  if (name == "aten::elu") {
    std::optional<double> alpha = arguments.number(1, "alpha", 1), scale = arguments.number(2, "scale", 1),
                          input_scale = arguments.number(3, "input_scale", 1);
    if (!alpha || scale != 1.0 || input_scale != 1.0) return std::nullopt;
    return PostOp{Kind::elu, static_cast<float>(*alpha)};
  }
  return std::nullopt;
}

// x op y where x is the chain and y an input of the body or a number.
std::optional<PostOp> binary_step(const std::string& name, const ir::Node& node, const Value* chain,
                                  const shape::Bindings& symbols) {
  using Kind = PostOp::Kind;
  const bool add = name == "aten::add", subtract = name == "aten::sub", multiply = name == "aten::mul",
             divide = name == "aten::div";
  if (!(add || subtract || multiply || divide) || node.arguments().size() < 2) return std::nullopt;
  Arguments arguments(node, symbols);
  if ((add || subtract) && arguments.number(2, "alpha", 1) != 1.0) return std::nullopt;
  if (divide && node.keyword("rounding_mode")) return std::nullopt;
  bool is_first = node.arguments()[0].value() == chain;
  if (!is_first && (subtract || divide)) return std::nullopt;
  const Argument& other = node.arguments()[is_first ? 1 : 0];
  if (const Value* value = other.value()) {
    if (value == chain || value->producer || !value->is_tensor() || value->meta().dtype != chain->meta().dtype)
      return std::nullopt;
    return PostOp{add        ? Kind::add
                  : subtract ? Kind::subtract
                  : multiply ? Kind::multiply
                             : Kind::divide,
                  0, 0, value->index};
  }
  std::optional<double> number = number_of(other, symbols);
  if (!number) return std::nullopt;
  if (add) return PostOp{Kind::affine, 1, static_cast<float>(*number)};
  if (subtract) return PostOp{Kind::affine, 1, static_cast<float>(-*number)};
  return PostOp{Kind::affine, static_cast<float>(multiply ? *number : 1 / *number), 0};
}

// x * sigmoid(x), which is how silu looks once decomposed: the value of the product, or null.
const Value* silu_result(const Value* chain) {
  if (chain->users.size() != 2 || chain->returned) return nullptr;
  for (ir::Node* gate : chain->users) {
    if (name_without_overload(gate->target()) != "aten::sigmoid" || gate->result()->users.size() != 1) continue;
    ir::Node* product = gate->result()->users[0];
    if (name_without_overload(product->target()) != "aten::mul") continue;
    const Value *a = product->arguments()[0].value(), *b = product->arguments()[1].value();
    if ((a == chain && b == gate->result()) || (b == chain && a == gate->result())) return product->result();
  }
  return nullptr;
}

// Whether an operand of a step is full, or varies along the channels alone, or along the rows alone.
bool fits(const std::vector<ir::SymInt>& sizes, const std::vector<ir::SymInt>& result, size_t channel,
          bool takes_rows) {
  const size_t rank = std::max(sizes.size(), result.size());
  bool is_full = true, is_of_channels = true, is_of_rows = takes_rows;
  for (size_t i = 0; i < rank; ++i) {  // from the last axis
    const ir::SymInt size = i < sizes.size() ? sizes[sizes.size() - 1 - i] : 1,
                     wanted = i < result.size() ? result[result.size() - 1 - i] : 1;
    is_full &= size == wanted;
    is_of_rows &= i == 0 ? size == ir::SymInt(1) : size == wanted;
    is_of_channels &= size == ir::SymInt(1) || (i + channel + 1 == result.size() && size == wanted);
  }
  return is_full || is_of_channels || is_of_rows;
}

// A factor and the summand behind it are one step.
void add_step(const PostOp& step, std::vector<PostOp>& steps) {
  const bool is_summand = step.kind == PostOp::Kind::affine && step.alpha == 1;
  if (is_summand && !steps.empty() && steps.back().kind == PostOp::Kind::affine && steps.back().beta == 0)
    steps.back().beta = step.beta;
  else
    steps.push_back(step);
}

}  // namespace

std::string read_epilogue(const ir::Graph& body, const Value* start, size_t channel, bool takes_rows,
                          const shape::Bindings& symbols, std::vector<PostOp>& steps) {
  if (body.outputs().size() != 1) return "it has more than one result";
  const Value* chain = start;
  while (chain != body.outputs()[0].value()) {
    if (const Value* product = silu_result(chain)) {
      steps.push_back({PostOp::Kind::silu});
      chain = product;
      continue;
    }
    const ir::Node* reader = ir::sole_reader(*chain);
    if (!reader) return "%" + chain->name + " is used more than once";
    const ir::Node& node = *reader;
    const std::string name = name_without_overload(node.target());
    if (!node.result()->is_tensor() || node.result()->meta().dtype != start->meta().dtype)
      return node.target() + " changes the element type";
    if (node.result()->meta().sizes != start->meta().sizes) return node.target() + " changes the shape";
    std::optional<PostOp> step = binary_step(name, node, chain, symbols);
    if (!step && node.arguments()[0].value() == chain) step = unary_step(name, Arguments(node, symbols));
    if (!step) return node.target() + " is not a post-op";
    if (step->is_binary() &&
        !fits(body.inputs()[step->operand]->meta().sizes, start->meta().sizes, channel, takes_rows))
      return "an operand of " + node.target() + " is broadcast along other axes than the channels";
    add_step(*step, steps);
    chain = node.result();
  }
  return "";
}

// --- Views ----------------------------------------------------------------------------------------------------------

std::vector<int> channels_last_order(size_t rank) {
  std::vector<int> order{0};
  for (size_t axis = 2; axis < rank; ++axis) order.push_back(static_cast<int>(axis));
  order.push_back(1);
  return order;
}

bool is_view_node(const ir::Node& node) {
  const std::string name = name_without_overload(node.target());
  return name == "aten::t" || name == "aten::transpose" || name == "aten::permute" || name == "aten::mT" ||
         name == "aten::numpy_T" || name == "aten::detach" || name == "aten::alias";
}

View view_of(const Value* value, const Value* origin) {
  std::vector<const ir::Node*> nodes;  // from the operand back to the input
  for (; value && value->producer && value != origin; value = value->producer->arguments()[0].value()) {
    if (!is_view_node(*value->producer)) return {};
    nodes.push_back(value->producer);
  }
  if (!value || !value->is_tensor()) return {};
  View view{value->index, {}};
  const int rank = value->meta().rank();
  for (int i = 0; i < rank; ++i) view.axes.push_back(i);
  const shape::Bindings none;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const std::string name = name_without_overload((*node)->target());
    Arguments arguments(**node, none);
    if (name == "aten::t" || name == "aten::numpy_T") {
      std::reverse(view.axes.begin(), view.axes.end());
    } else if (name == "aten::mT") {
      if (rank < 2) return {};
      std::swap(view.axes[rank - 1], view.axes[rank - 2]);
    } else if (name == "aten::transpose") {
      std::optional<int64_t> a = arguments.integer(1, "dim0", 0), b = arguments.integer(2, "dim1", 0);
      if (!a || !b || *a >= rank || *b >= rank || *a < -rank || *b < -rank) return {};
      std::swap(view.axes[(*a + rank) % rank], view.axes[(*b + rank) % rank]);
    } else if (name == "aten::permute") {
      std::optional<std::vector<int64_t>> order = arguments.integers(1, "dims", rank, 0);
      if (!order) return {};
      std::vector<int> axes;
      for (int64_t axis : *order) {
        if (axis >= rank || axis < -rank) return {};
        axes.push_back(view.axes[(axis + rank) % rank]);
      }
      view.axes = axes;
    }
  }
  return view;
}

std::string lanes_refusal(const std::vector<PostOp>& steps) {
  if (steps.size() > most_steps) return "the chain behind it is too long";
  for (const PostOp& step : steps)
    if (!has_lanes(step.kind)) return "a step behind it has no vectors";
  return "";
}

double count(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
}

}  // namespace atenon::kernels
