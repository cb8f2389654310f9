// Elements that a mask names are chosen where they are, not gathered and put back:
//
//     x[mask] = f(y[mask], z[mask])        x = where(mask, f(y, z), x)
//
// How many there are only data say; what is as large has to be prepared anew in each run, and its loops know no sizes.
#include <algorithm>
#include <map>
#include <set>

#include "specialize/channel_affine.h"

namespace atenon::specialize {
namespace {

using ir::SymInt;

constexpr const char *gather = "aten::index.Tensor", *put = "aten::index_put";

// The mask by which alone a node reads or writes its first operand's elements, or null.
ir::Value* mask_of(const ir::Node& node, const char* target) {
  if (node.target() != target || node.arguments().size() < 2 || !node.keywords().empty()) return nullptr;
  const auto& indices = node.arguments()[1];
  if (!indices.is<ir::ArgumentList>() || indices.get<ir::ArgumentList>().size() != 1) return nullptr;
  ir::Value* mask = indices.get<ir::ArgumentList>()[0].value();
  return mask && mask->is_tensor() && mask->meta().dtype == ScalarType::boolean ? mask : nullptr;
}

// The size that a node finds out, if it is one that only data decide.
const ir::Symbol* count_of(const Scope& scope, const ir::Node& node) {
  const std::set<std::string> defined = ir::symbols_defined(node);
  if (defined.size() != 1) return nullptr;
  const auto found = std::ranges::find(scope.entry.symbols, *defined.begin(), &ir::Symbol::name);
  return found == scope.entry.symbols.end() || !found->source.empty() ? nullptr : &*found;
}

// A mask names as many elements of one tensor as of another, and the same of one tensor.
Changed share_counts(Scope& scope) {
  std::map<const ir::Value*, const ir::Symbol*> counts;
  shape::Substitution shared;
  for (const ir::Node& node : scope.variant.graph.forward()) {
    const ir::Value* mask = mask_of(node, gather);
    const ir::Symbol* count = mask ? count_of(scope, node) : nullptr;
    if (!count) continue;
    const ir::Symbol& first = *counts.try_emplace(mask, count).first->second;
    // What follows from a narrower range stays.
    if (first.name != count->name && first.range == count->range) shared[count->name] = SymInt::symbol(first.name);
  }
  Changed changed = Changed::no;
  if (!shared.empty()) {
    scope.variant.substitute(shared);
    scope.facts = scope.entry.facts(scope.variant);
    changed = Changed::yes;
  }
  std::map<std::pair<const ir::Value*, const ir::Value*>, ir::Value*> gathered;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const ir::Value* mask = mask_of(node, gather);
    if (!mask) continue;
    const auto [first, is_new] = gathered.try_emplace({node.operands()[0], mask}, node.result());
    if (is_new || first->second->type != node.result()->type) continue;
    scope.variant.graph.replace_uses(node.result(), first->second);
    changed = Changed::yes;
  }
  return changed;
}

// Values that are computed element by element of what one mask names.
class MaskedValues {
 public:
  explicit MaskedValues(Scope& scope) : scope_(scope) {}

  // Nodes come in the graph's order.
  void add(ir::Node& node) {
    if (!has_one_result(node)) return;
    if (const ir::Value* mask = mask_of(node, gather)) {
      remember(node, mask);
      return;
    }
    const std::vector<ir::Value*> operands = node.operands();
    if (operands.empty() || !masks_.contains(operands[0])) return;
    const ir::Value* mask = masks_.at(operands[0]);
    // Whole numbers are not divided where nobody chose the result.
    const auto is_named = [&](const ir::Value* operand) {
      const auto found = masks_.find(operand);
      return found != masks_.end() && found->second == mask && is_floating(operand->meta().dtype);
    };
    if (is_floating(node.result()->meta().dtype) && std::ranges::all_of(operands, is_named) &&
        !depends_on_data(scope_, ir::symbols_read(node)) && is_pointwise(scope_, node))
      remember(node, mask);
  }

  // What `value` is if it is computed of all elements, of as many as `place` gives; null where it is not of those that
  // `mask` names, or would be something else. It is put before `place`.
  ir::Value* of_all(ir::Node& place, const ir::Value* mask, ir::Value* value) {
    const auto found = masks_.find(value);
    if (found == masks_.end() || found->second != mask) return nullptr;
    const std::vector<SymInt>& sizes = place.result()->meta().sizes;
    std::map<int, ir::Value*> needed = {{orders_.at(value), value}};  // in the graph's order
    for (auto last = needed.rbegin(); last != needed.rend(); ++last) {
      if (mask_of(*last->second->producer, gather) || made_.contains(last->second)) continue;
      for (ir::Value* operand : last->second->producer->operands()) needed.emplace(orders_.at(operand), operand);
    }
    for (const auto& [order, one] : needed) {
      const auto [known, is_new] = made_.try_emplace(one);
      ir::Value*& whole = known->second;
      if (is_new)
        whole = mask_of(*one->producer, gather) ? one->producer->operands()[0] : copy_of(place, *one->producer);
      if (!whole || whole->meta().sizes != sizes) return nullptr;
    }
    return made_.at(value);
  }

 private:
  void remember(const ir::Node& node, const ir::Value* mask) {
    masks_[node.result()] = mask;
    orders_[node.result()] = static_cast<int>(orders_.size());
  }

  // The node of other operands; null where these are none that it takes, or their elements are not each by itself.
  ir::Value* copy_of(ir::Node& place, const ir::Node& node) {
    Result<ir::Value*> copy =
        append_copy(scope_, place, node, [&](size_t, const ir::Argument& argument) -> ir::Argument {
          const auto found = made_.find(argument.value());
          return found == made_.end() ? argument : ir::Argument(found->second);
        });
    return copy && is_pointwise(scope_, *(*copy)->producer) ? *copy : nullptr;
  }

  Scope& scope_;
  std::map<const ir::Value*, const ir::Value*> masks_;
  std::map<const ir::Value*, int> orders_;
  std::map<const ir::Value*, ir::Value*> made_;  // null: it cannot be
};

Result<ir::Value*> chosen(Scope& scope, ir::Node& node, ir::Value* mask, ir::Value* yes, ir::Value* no) {
  while (mask->meta().rank() < no->meta().rank()) {
    Result<ir::Value*> longer = append_before(scope, node, "aten::unsqueeze", {mask, int64_t{-1}});
    if (!longer) return longer;
    mask = *longer;
  }
  return append_before(scope, node, "aten::where.self", {mask, yes, no});
}

}  // namespace

Result<Changed> select_by_masks(Scope& scope) {
  Changed changed = share_counts(scope);
  MaskedValues masked(scope);
  for (ir::Node& node : scope.variant.graph.forward()) {
    masked.add(node);
    ir::Value* const mask = mask_of(node, put);
    if (!mask || node.arguments().size() != 3) continue;  // a fourth one may say that elements are added
    ir::Value *const x = node.arguments()[0].value(), *const values = node.arguments()[2].value();
    ir::Value* const whole = masked.of_all(node, mask, values);
    if (!whole) continue;
    Result<ir::Value*> made = chosen(scope, node, mask, whole, x);
    if (!made) return made.error();
    if ((*made)->type != node.result()->type) continue;
    scope.report("chose elements of %" + node.result()->name + " where they are");
    scope.variant.graph.replace_uses(node.result(), *made);
    scope.variant.graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
