// Joining two programs, and two entry points of one name. Private to lib/pack.
#pragma once

#include "pack/pack.h"

namespace atenon::pack {

// Moves everything of `from` into `into`: call stacks, code, weights (one where name and content agree, else renamed),
// extra files and entry points.
Result<void> join(ir::ExportedProgram& into, Part from);

// Makes the variants of `from` further variants of `into`, which has the same inputs and outputs. `source` is for
// messages.
Result<void> join_variants(ir::EntryPoint& into, ir::EntryPoint from, const std::string& source);

}  // namespace atenon::pack
