// Versions of the operator sets: a program names those that it uses, and means the operators as they were then.
#pragma once

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::opset {

// Of every set that comes with Atenon. It grows when an operator of a set comes to mean something else.
inline constexpr int newest_version = 1;

// E0120 where the program uses another version of a set than those known here. Sets that the program brings itself, in
// custom blocks that joined `opset`, may be of any version.
Result<void> check_versions(const ir::ExportedProgram& program, const Opset& opset);

}  // namespace atenon::opset
