#include "ir/dead_nodes.h"

namespace atenon::ir {

Changed eliminate_dead_nodes(Graph& graph, const std::function<bool(const Node&)>& matters) {
  Changed changed = Changed::no;
  // One backward walk is enough: readers come after producers, so by the time we see a producer every dead reader is
  // already gone.
  for (Node& node : graph.backward()) {  // allows erasing the current node
    if (node.has_users() || matters(node)) continue;
    graph.erase(node);
    changed = Changed::yes;
  }
  return changed;
}

}  // namespace atenon::ir
