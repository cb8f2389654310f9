// A concatenation that another one along the same axis alone reads is part of that one, as in a loop of
//
//     y = torch.cat([y, x], 1)
//
// of which each step copied what those before it gave.
#include <algorithm>

#include "ir/readers.h"
#include "specialize/concatenation.h"

namespace atenon::specialize {
namespace {

using Concatenations = std::map<const ir::Node*, Concatenation>;

// Those that one follows, or that follow one.
Concatenations neighbours(const Scope& scope) {
  Concatenations found;
  for (const ir::Node& node : scope.variant.graph.forward()) {
    if (node.results().size() != 1) continue;
    const auto is_alike = [&](const ir::Node* other) { return other && other->target() == node.target(); };
    const bool follows =
        std::ranges::any_of(node.operands(), [&](const ir::Value* operand) { return is_alike(operand->producer); });
    if (!follows && !is_alike(ir::sole_reader(*node.result()))) continue;
    if (std::optional<Concatenation> joined = concatenation(scope, node)) found.emplace(&node, std::move(*joined));
  }
  return found;
}

// The concatenation whose result is `value` where another one takes it in; null where there is none.
const Concatenation* taken_in(const Concatenations& all, const ir::Value& value) {
  const auto found = all.find(value.producer), next = all.find(ir::sole_reader(value));
  const bool is_taken_in = found != all.end() && next != all.end() && found->second.axis == next->second.axis;
  return is_taken_in ? &found->second : nullptr;
}

std::vector<ir::Value*> all_parts(const Concatenations& all, const Concatenation& last) {
  std::vector<ir::Value*> parts, pending(last.parts.rbegin(), last.parts.rend());
  while (!pending.empty()) {
    ir::Value* const part = pending.back();
    pending.pop_back();
    if (const Concatenation* inner = taken_in(all, *part))
      pending.insert(pending.end(), inner->parts.rbegin(), inner->parts.rend());
    else
      parts.push_back(part);
  }
  return parts;
}

}  // namespace

Result<Changed> flatten_concatenations(Scope& scope) {
  Changed changed = Changed::no;
  const Concatenations all = neighbours(scope);
  for (ir::Node& node : scope.variant.graph.backward()) {  // their parts may be replaced in turn
    const auto last = all.find(&node);
    if (last == all.end() || taken_in(all, *node.result())) continue;
    const std::vector<ir::Value*> parts = all_parts(all, last->second);
    if (parts.size() == last->second.parts.size()) continue;
    Result<ir::Value*> made = append_before(scope, node, "aten::cat",
                                            {ir::ArgumentList(parts.begin(), parts.end()), int64_t(last->second.axis)});
    if (!made) return made.error();
    scope.report("flattened " + node.target() + " %" + node.result()->name + " to " + std::to_string(parts.size()) +
                 " parts");
    scope.variant.graph.replace_uses(node.result(), *made);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
