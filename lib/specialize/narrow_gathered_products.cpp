// Of a product that is read at places which the data of another tensor name, only the columns that these can name are
// computed, as relative positions name those no further apart than the tokens are:
//
//     gather(a @ b, -1, index) = gather(a @ b[.., first:end], -1, index - first)    where first <= index < end
//
// What an integer tensor can hold follows from constants and from the meanings of what makes it of them. Nothing here
// knows the operators.
#include <algorithm>
#include <cstdlib>

#include "ir/readers.h"
#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

using opset::Meaning;
using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

// The least and the greatest of integers.
struct Range {
  int64_t least, greatest;
};
using Ranges = std::map<const ir::Value*, Range>;

constexpr int64_t most_elements = 1 << 20;          // of a constant that is looked through
constexpr int64_t far_off = int64_t{1} << 30;       // further numbers count as unknown: their products stay exact
constexpr int64_t of_columns = 16, least_gain = 2;  // columns come in such parts; fewer by such a factor

std::optional<Range> range_of_constant(const Tensor& tensor) {
  const int64_t count = tensor.numel();
  if (!is_integral(tensor.dtype) || count == 0 || count > most_elements) return std::nullopt;
  Range range{tensor.int_at(0), tensor.int_at(0)};
  for (int64_t i = 1; i < count; ++i) {
    range.least = std::min(range.least, tensor.int_at(i));
    range.greatest = std::max(range.greatest, tensor.int_at(i));
  }
  return range;
}

// What an integer scalar of a meaning can be at any index of its result.
std::optional<Range> range_of(const Meaning& meaning, ScalarId id, const Ranges& known) {
  const Scalar& scalar = at(meaning, id);
  std::vector<Range> sides;
  const auto has_sides = [&](size_t first) {
    for (size_t i = first; i < scalar.operands.size(); ++i) {
      const std::optional<Range> side = range_of(meaning, scalar.operands[i], known);
      if (!side) return false;
      sides.push_back(*side);
    }
    return true;
  };
  const auto if_near = [](int64_t least, int64_t greatest) {
    return std::abs(least) < far_off && std::abs(greatest) < far_off ? std::optional(Range{least, greatest})
                                                                     : std::nullopt;
  };
  if (!is_integral(scalar.dtype)) return std::nullopt;
  switch (scalar.op) {
    case ScalarOp::constant:
      return if_near(scalar.integer, scalar.integer);
    case ScalarOp::size: {
      const std::optional<int64_t> size = scalar.size.constant();
      return size ? if_near(*size, *size) : std::nullopt;
    }
    case ScalarOp::index: {
      const int axis = result_axis(meaning, id);
      const auto extent = axis < 0 ? std::nullopt : meaning.results[0].type.sizes[static_cast<size_t>(axis)].constant();
      return extent && *extent > 0 ? if_near(0, *extent - 1) : std::nullopt;
    }
    case ScalarOp::read: {
      const auto found = known.find(tensor_of(meaning, scalar));
      return found == known.end() ? std::nullopt : std::optional(found->second);
    }
    case ScalarOp::cast:
      return scalar.dtype == ScalarType::i64 && has_sides(0) ? std::optional(sides[0]) : std::nullopt;
    case ScalarOp::add:
      if (!has_sides(0)) return std::nullopt;
      return if_near(sides[0].least + sides[1].least, sides[0].greatest + sides[1].greatest);
    case ScalarOp::sub:
      if (!has_sides(0)) return std::nullopt;
      return if_near(sides[0].least - sides[1].greatest, sides[0].greatest - sides[1].least);
    case ScalarOp::neg:
      return has_sides(0) ? if_near(-sides[0].greatest, -sides[0].least) : std::nullopt;
    case ScalarOp::mul: {
      if (!has_sides(0)) return std::nullopt;
      const auto [least, greatest] =
          std::minmax({sides[0].least * sides[1].least, sides[0].least * sides[1].greatest,
                       sides[0].greatest * sides[1].least, sides[0].greatest * sides[1].greatest});
      return if_near(least, greatest);
    }
    case ScalarOp::minimum:
      if (!has_sides(0)) return std::nullopt;
      return Range{std::min(sides[0].least, sides[1].least), std::min(sides[0].greatest, sides[1].greatest)};
    case ScalarOp::maximum:
      if (!has_sides(0)) return std::nullopt;
      return Range{std::max(sides[0].least, sides[1].least), std::max(sides[0].greatest, sides[1].greatest)};
    case ScalarOp::select:
      if (!has_sides(1)) return std::nullopt;
      return Range{std::min(sides[0].least, sides[1].least), std::max(sides[0].greatest, sides[1].greatest)};
    default:
      return std::nullopt;
  }
}

// What the node's result can hold, if that follows from what is known. Decompositions are looked through.
std::optional<Range> range_of(const Scope& scope, const ir::Node& node, const Ranges& known) {
  if (!has_one_result(node) || !is_integral(node.result()->meta().dtype)) return std::nullopt;
  Ranges ranges;
  for (ir::Value* operand : node.operands())
    if (!known.contains(operand)) return std::nullopt;
  std::optional<Alone> steps = alone(scope, node);
  if (!steps) return std::nullopt;
  for (const auto& [input, operand] : steps->operands) ranges.emplace(input, known.at(operand));
  for (ir::Node& step : steps->graph.forward()) {
    const std::optional<Meaning> meaning = loops(scope, step);
    if (!meaning || meaning->scatter || meaning->results[0].value == opset::no_scalar) return std::nullopt;
    const std::optional<Range> range = range_of(*meaning, meaning->results[0].value, ranges);
    if (!range) return std::nullopt;
    ranges.emplace(step.result(), *range);
  }
  const auto found = ranges.find(steps->graph.outputs()[0].value());
  return found == ranges.end() ? std::nullopt : std::optional(found->second);
}

// A read of one tensor at what another one holds, along one axis.
struct GatheredRead {
  ir::Value *gathered, *index;
  int axis;  // of `gathered`
};

std::optional<GatheredRead> gathered_read(const Scope& scope, const ir::Node& node, const Ranges& known) {
  if (!has_one_result(node)) return std::nullopt;
  const std::vector<ir::Value*> operands = node.operands();
  const auto is_known = [&](const ir::Value* operand) { return operand->producer && known.contains(operand); };
  if (std::none_of(operands.begin(), operands.end(), is_known)) return std::nullopt;
  const std::optional<Meaning> meaning = loops(scope, node);
  if (!meaning || meaning->scatter || !meaning->reductions.empty() || meaning->results[0].value == opset::no_scalar)
    return std::nullopt;
  const Scalar& read = at(*meaning, meaning->results[0].value);
  if (read.op != ScalarOp::read) return std::nullopt;
  std::optional<GatheredRead> found;
  for (size_t axis = 0; axis < read.operands.size(); ++axis) {
    if (result_axis(*meaning, read.operands[axis]) == static_cast<int>(axis)) continue;
    const Scalar& place = at(*meaning, read.operands[axis]);
    if (found || place.op != ScalarOp::read || !known.contains(tensor_of(*meaning, place))) return std::nullopt;
    found = {tensor_of(*meaning, read), tensor_of(*meaning, place), static_cast<int>(axis)};
  }
  return found;
}

// The axis of each tensor that a node reads along an axis of its result, in the order of the reads; empty where it does
// more with its place there.
using Axes = std::vector<std::pair<ir::Value*, int>>;
Axes axes_along(const Meaning& meaning, int axis) {
  Axes axes;
  std::vector<ScalarId> places;
  for (const Scalar& scalar : meaning.scalars) {
    if (scalar.op != ScalarOp::read) continue;
    for (size_t i = 0; i < scalar.operands.size(); ++i) {
      if (result_axis(meaning, scalar.operands[i]) != axis) continue;
      ir::Value* tensor = tensor_of(meaning, scalar);
      const auto known = std::find_if(axes.begin(), axes.end(), [&](const auto& one) { return one.first == tensor; });
      if (known != axes.end() && known->second != static_cast<int>(i)) return {};
      if (known == axes.end()) axes.emplace_back(tensor, static_cast<int>(i));
      places.push_back(scalar.operands[i]);
    }
  }
  // Nothing else knows where it is: neither another index, nor a bound, nor the value.
  for (const opset::Reduction& reduction : meaning.reductions)
    for (const ScalarId extent : reduction.extents)
      if (result_axis(meaning, extent) == axis) return {};
  const auto is_place = [&](ScalarId id) { return std::find(places.begin(), places.end(), id) != places.end(); };
  for (size_t id = 0; id < meaning.scalars.size(); ++id) {
    const Scalar& scalar = meaning.scalars[id];
    if (scalar.op == ScalarOp::read || is_place(static_cast<ScalarId>(id))) continue;
    for (const ScalarId operand : scalar.operands)
      if (result_axis(meaning, operand) == axis) return {};
  }
  return axes;
}

// `size` places of a value along an axis, from `first` on: of what it is made of, where nobody else reads it.
Result<ir::Value*> narrowed(Scope& scope, ir::Node& place, ir::Value* value, int axis, int64_t first, int64_t size) {
  if (const std::optional<Tensor> constant = constant_behind(scope, value)) {
    const Tensor part = part_of(*constant, static_cast<size_t>(axis), first, size).contiguous();
    return add_constant(scope, weight_name(scope, *value) + ".part", part);
  }
  const std::optional<Meaning> meaning = value->producer && has_one_result(*value->producer) && ir::sole_reader(*value)
                                             ? loops(scope, *value->producer)
                                             : std::nullopt;
  if (meaning && !meaning->scatter && meaning->results[0].value != opset::no_scalar) {
    std::map<const ir::Value*, ir::Value*> parts;
    for (const auto& [operand, along] : axes_along(*meaning, axis)) {
      Result<ir::Value*> part = narrowed(scope, place, operand, along, first, size);
      if (!part) return part;
      parts.emplace(operand, *part);
    }
    if (!parts.empty()) {
      Result<ir::Value*> made =
          append_copy(scope, place, *value->producer, [&](size_t, const ir::Argument& argument) -> ir::Argument {
            const auto part = parts.find(argument.value());
            return part == parts.end() ? argument : part->second;
          });
      if (!made) return made;
      std::vector<ir::SymInt> sizes = value->meta().sizes;
      sizes[static_cast<size_t>(axis)] = size;
      if ((*made)->meta().sizes == sizes) return made;  // else an argument says the size; a dead node
    }
  }
  return append_before(scope, place, "aten::slice.Tensor", {value, int64_t{axis}, first, first + size});
}

// index - first, taken before it is made larger.
Result<ir::Value*> moved(Scope& scope, ir::Node& place, ir::Value* index, int64_t first) {
  std::vector<ir::Node*> views;
  ir::Value* base = index;
  while (base->producer && base->producer->operands().size() == 1) {
    const std::optional<Meaning> meaning = loops(scope, *base->producer);
    if (!meaning || !meaning->is_view) break;
    views.push_back(base->producer);
    base = base->producer->operands()[0];
  }
  Result<ir::Value*> made = append_before(scope, place, "aten::sub.Scalar", {base, first});
  if (!made) return made;
  return append_views(scope, place, views, *made);
}

}  // namespace

Result<Changed> narrow_gathered_products(Scope& scope) {
  Changed changed = Changed::no;
  Ranges known;
  for (const auto& input : scope.variant.graph.inputs())
    if (input->is_tensor() && is_integral(input->meta().dtype))
      if (const std::optional<Tensor> constant = constant_behind(scope, input.get()))
        if (const std::optional<Range> range = range_of_constant(*constant)) known.emplace(input.get(), *range);
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (const std::optional<Range> range = range_of(scope, node, known)) known.emplace(node.result(), *range);
    const std::optional<GatheredRead> read = gathered_read(scope, node, known);
    if (!read || !read->gathered->producer || !ir::sole_reader(*read->gathered)) continue;
    const auto& [gathered, index, axis] = *read;
    const std::optional<int64_t> columns = gathered->meta().sizes[static_cast<size_t>(axis)].constant();
    const Range range = known.at(index);
    if (!columns || range.least < 0 || range.greatest >= *columns) continue;
    const int64_t wanted = (range.greatest - range.least + of_columns) / of_columns * of_columns;
    if (wanted * least_gain > *columns) continue;
    const int64_t first = std::min(range.least, *columns - wanted);
    const std::optional<Meaning> meaning = loops(scope, *gathered->producer);
    if (!meaning || meaning->reductions.empty() || axes_along(*meaning, axis).empty()) continue;
    Result<ir::Value*> part = narrowed(scope, node, gathered, axis, first, wanted);
    if (!part) return part.error();
    Result<ir::Value*> places = moved(scope, node, index, first);
    if (!places) return places.error();
    scope.report("narrowed %" + gathered->name + " to " + std::to_string(wanted) + " of " + std::to_string(*columns) +
                 " columns");
    node.replace_operand(gathered, *part);
    node.replace_operand(index, *places);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
