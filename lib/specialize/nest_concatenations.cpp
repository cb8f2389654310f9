// A concatenation of very many parts becomes one of concatenations.
#include "specialize/concatenation.h"

namespace atenon::specialize {

Result<Changed> nest_concatenations(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (node.operands().size() <= many_parts) continue;
    const std::optional<Concatenation> whole = concatenation(scope, node);
    if (!whole || whole->parts.size() <= many_parts) continue;
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
