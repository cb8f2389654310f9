// Removes nodes whose results nobody reads.
//
// Buffer and input mutations are outputs in the GraphSignature, so they have a reader and survive. What needs
// protection are operators that matter without a reader (asserts, random draws): `matters` names them.
#pragma once

#include "ir/graph.h"

namespace atenon::ir {

enum class Changed { no, yes };

Changed eliminate_dead_nodes(Graph& graph, const std::function<bool(const Node&)>& matters);

}  // namespace atenon::ir
