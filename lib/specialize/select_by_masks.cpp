// Elements that a mask names are chosen where they are, not gathered and put back:
//
//     x[mask] = f(y[mask], z[mask])        x = where(mask, f(y, z), x)
//
// How many there are only data say; what is as large has to be prepared anew in each run, and its loops know no sizes.
#include <algorithm>

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

// A mask names as many elements of one tensor as of another.
void share_counts(Scope& scope) {
  std::map<const ir::Value*, std::string> counts;
  for (const ir::Node& node : scope.variant.graph.forward()) {
    const ir::Value* mask = mask_of(node, gather);
    if (!mask) continue;
    const auto defined = ir::symbols_defined(node);
    if (defined.size() != 1) continue;
    const auto [first, is_new] = counts.try_emplace(mask, *defined.begin());
    if (!is_new) scope.variant.substitute({{*defined.begin(), SymInt::symbol(first->second)}});
  }
}

bool has_symbols(const std::vector<ir::Argument>& arguments) {
  return std::ranges::any_of(arguments, [](const ir::Argument& argument) {
    if (argument.is<ir::ArgumentList>()) return has_symbols(argument.get<ir::ArgumentList>());
    return argument.is<SymInt>() && !argument.get<SymInt>().constant();
  });
}

// What `value`, computed of elements that `mask` names, is if it is computed of all elements, of as many as `place`
// gives; null where it depends on others' or on how many the mask names. It is put before `place`.
Result<ir::Value*> computed_of_all(Scope& scope, ir::Node& place, const ir::Value* mask, const ir::Value& value) {
  const ir::Node* node = value.producer;
  const std::vector<SymInt>& sizes = place.result()->meta().sizes;
  if (!node || !has_one_result(*node)) return nullptr;
  if (mask_of(*node, gather) == mask) {
    ir::Value* all = node->operands()[0];
    return all->meta().sizes == sizes ? all : nullptr;
  }
  // Whole numbers are not divided where nobody chose the result.
  if (!is_floating(value.meta().dtype) || has_symbols(node->arguments())) return nullptr;
  std::map<const ir::Value*, ir::Value*> made;
  for (const ir::Value* operand : node->operands()) {
    if (!operand->is_tensor() || !is_floating(operand->meta().dtype)) return nullptr;
    Result<ir::Value*> of_all = computed_of_all(scope, place, mask, *operand);
    if (!of_all || !*of_all) return of_all;
    made[operand] = *of_all;
  }
  if (made.empty()) return nullptr;
  Result<ir::Value*> copy = append_copy(scope, place, *node, [&](size_t, const ir::Argument& argument) -> ir::Argument {
    const auto found = made.find(argument.value());
    return found == made.end() ? argument : ir::Argument(found->second);
  });
  if (!copy) return copy;
  return is_pointwise(scope, *(*copy)->producer) && (*copy)->meta().sizes == sizes ? *copy : nullptr;
}

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
  share_counts(scope);
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    ir::Value* const mask = mask_of(node, put);
    if (!mask || node.arguments().size() != 3) continue;  // a fourth one may say that elements are added
    ir::Value *const x = node.arguments()[0].value(), *const values = node.arguments()[2].value();
    Result<ir::Value*> of_all = computed_of_all(scope, node, mask, *values);
    if (!of_all) return of_all.error();
    if (!*of_all) continue;  // dead nodes, which are removed at the end
    Result<ir::Value*> made = chosen(scope, node, mask, *of_all, x);
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
