// Which value of one program is which value of another. Private to lib/diff.
#pragma once

#include <map>

#include "ir/program.h"

namespace atenon::diff {

// Pairs of values (of nodes of the variants' main graphs) that stand for the same result, by the left value.
using Matches = std::map<const ir::Value*, const ir::Value*>;

Matches match(const ir::ExportedProgram& left_program, const ir::Variant& left,
              const ir::ExportedProgram& right_program, const ir::Variant& right);

}  // namespace atenon::diff
