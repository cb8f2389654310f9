// The validator: what every reader and every pass may rely on.
//
// Checks that a program is well formed: names unique, values defined before use, signature and graph in step, symbols
// declared, every node bound to its operator's schema, its result types equal to what the operator infers (under the
// variant's assumptions), subgraphs present, weights of the declared type, sizes and offsets inside their storages.
#pragma once

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::verify {

// All that is wrong, the first problem first; empty means valid. Codes E01xx; each names the node as text and its
// Python line.
std::vector<Diagnostic> problems(const ir::ExportedProgram& program, const opset::Opset& opset);
// The first problem, as an error.
Result<void> check(const ir::ExportedProgram& program, const opset::Opset& opset);

}  // namespace atenon::verify
