// Removes nodes whose results nobody reads.
//
// Buffer and input mutations are outputs in the GraphSignature, so they have a reader and survive. So do numbers and
// sizes that a node defines while something mentions them by their symbol, and what is tagged `keep` (asserts). A
// random draw that nobody reads decides what the draws behind it give: such draws stay while any draw of the variant is
// read.
#pragma once

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::opset {

enum class Changed { no, yes };

// In the variant's own graph and in its subgraphs.
Changed eliminate_dead_nodes(const Opset& opset, ir::Variant& variant);

}  // namespace atenon::opset
