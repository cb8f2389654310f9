// A concatenation of very many parts is one of concatenations: code that looks for the part of an element looks through
// few, and those of the same sizes share it.
#include <algorithm>
#include <cmath>

#include "specialize/concatenation.h"

namespace atenon::specialize {
namespace {

constexpr size_t many_parts = 64;

}  // namespace

Result<Changed> nest_concatenations(Scope& scope) {
  Changed changed = Changed::no;
  for (ir::Node& node : scope.variant.graph.forward()) {
    if (node.operands().size() <= many_parts) continue;
    const std::optional<Concatenation> whole = concatenation(scope, node);
    if (!whole || whole->parts.size() <= many_parts) continue;
    const auto count = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(whole->parts.size()))));
    const auto join = [&](ir::ArgumentList parts) {
      return append_before(scope, node, node.target(), {std::move(parts), ir::SymInt(whole->axis)});
    };
    ir::ArgumentList joined;
    for (size_t start = 0; start < whole->parts.size(); start += count) {
      const auto begin = whole->parts.begin() + static_cast<std::ptrdiff_t>(start);
      const auto end = begin + static_cast<std::ptrdiff_t>(std::min(count, whole->parts.size() - start));
      Result<ir::Value*> some = join(ir::ArgumentList(begin, end));
      if (!some) return some.error();
      joined.emplace_back(*some);
    }
    Result<ir::Value*> made = join(std::move(joined));
    if (!made) return made.error();
    scope.report("nested " + node.target() + " %" + node.result()->name + " of " + std::to_string(whole->parts.size()) +
                 " parts");
    scope.variant.graph.replace_uses(node.result(), *made);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::specialize
