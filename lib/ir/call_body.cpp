#include "ir/call_body.h"

namespace atenon::ir {

bool is_call(const Node& node) { return node.target() == "atenon::call"; }

const Graph* body_of(const Node& call, const Variant& variant) {
  if (!is_call(call) || call.arguments().empty() || !call.arguments()[0].is<SubgraphRef>()) return nullptr;
  const auto body = variant.subgraphs.find(call.arguments()[0].get<SubgraphRef>().name);
  return body == variant.subgraphs.end() ? nullptr : &body->second;
}

}  // namespace atenon::ir
