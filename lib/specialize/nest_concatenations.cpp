// A concatenation of very many parts becomes one of concatenations, unless what it moves twice then takes longer than
// to find the part of each element.
#include <numeric>

#include "specialize/concatenation.h"

namespace atenon::specialize {
namespace {

constexpr size_t too_many_parts = 4 * many_parts;
constexpr int64_t long_run = 512;  // elements side by side, of which the part is found once

bool pays(const Concatenation& whole) {
  if (whole.parts.size() <= many_parts) return false;
  if (whole.parts.size() > too_many_parts) return true;
  const std::vector<ir::SymInt>& sizes = whole.parts[0]->meta().sizes;
  const auto run =
      std::accumulate(sizes.begin() + whole.axis, sizes.end(), ir::SymInt(1), std::multiplies<>()).constant();
  return !run || *run < long_run;
}

}  // namespace

Result<Changed> nest_concatenations(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (node.operands().size() <= many_parts) continue;
    const std::optional<Concatenation> whole = concatenation(scope, node);
    if (!whole || !pays(*whole)) continue;
    Result<ir::Value*> made =
        append_concatenation(scope, node, {whole->parts.begin(), whole->parts.end()}, whole->axis);
    if (!made) return made.error();
    scope.report("nested " + node.target() + " %" + node.result()->name + " of " + std::to_string(whole->parts.size()) +
                 " parts");
    scope.variant.graph.replace_uses(node.result(), *made);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
