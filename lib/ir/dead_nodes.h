// Removes nodes whose results nobody reads.
//
// Buffer and input mutations are outputs in the GraphSignature, so they have a reader and survive. So do numbers and
// sizes that a node defines while something mentions them by their symbol. What needs protection are operators that
// matter without a reader (asserts, random draws): `matters` names them.
#pragma once

#include "ir/program.h"

namespace atenon::ir {

enum class Changed { no, yes };

// `graph` is the variant's own or one of its subgraphs.
Changed eliminate_dead_nodes(const Variant& variant, Graph& graph, const std::function<bool(const Node&)>& matters);

}  // namespace atenon::ir
