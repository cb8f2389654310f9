// State that a program changes: parameters and buffers that an entry point writes, by name. What one entry point writes
// is no constant in another one either.
#pragma once

#include <set>
#include <string>

#include "ir/program.h"

namespace atenon::ir {

std::set<std::string> written_state(const GraphSignature& signature);
std::set<std::string> written_state(const ExportedProgram& program);
// The input of the graph that is the state which output `output` of it is written to; null where there is none, or that
// state is several inputs.
const Value* state_before(const GraphSignature& signature, const Graph& graph, size_t output);
bool is_written(const ExportedProgram& program, const std::string& name);  // for one, without a set of all

}  // namespace atenon::ir
