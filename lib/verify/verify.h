// The validator: what every reader and every pass may rely on.
//
// Checks that a program is well formed: names unique, values defined before use, signature and graph in step, symbols
// declared, every node bound to its operator's schema, its result types equal to what the operator infers (under the
// variant's assumptions), subgraphs present, weights of the declared type, sizes and offsets inside their storages.
#pragma once

#include "ir/program.h"
#include "opset/opset.h"
#include "text/text.h"

namespace atenon::verify {

// All that is wrong, the first problem first; empty means valid. Codes E01xx; each names the node, by its place in the
// text that the program was parsed from or as text, and its Python line.
std::vector<Diagnostic> problems(const ir::ExportedProgram& program, const opset::Opset& opset,
                                 const text::NodePlaces& places = {});
// The first problem, as an error.
Result<void> check(const ir::ExportedProgram& program, const opset::Opset& opset, const text::NodePlaces& places = {});

}  // namespace atenon::verify
