// Whether two captures of one model compute the same.
#pragma once

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::capture {

// Node by node, but for nodes that give back an operand unchanged, from the same inputs and state to the same outputs.
// Only the first variants of the first entries are looked at, for sizes of which holds what `a` assumes; nothing is
// said of what `b` does. False where that is not seen at once, as with subgraphs.
bool compute_the_same(const ir::ExportedProgram& a, const ir::ExportedProgram& b, const opset::Opset& opset);

}  // namespace atenon::capture
