// Assumptions that a capture made because Python asked, and that do not matter: what is done where they fail is the
// same.
#pragma once

#include "capture/capture.h"
#include "capture/inputs.h"
#include "capture/session.h"

namespace atenon::capture {

// `if batch != 1: positions = positions.expand(batch, -1)` keeps out one size of a batch for which the program is right
// as well. For each size of a dimension that an assumption keeps out, where they are but one or two, the model is
// captured again with that size; where that computes what the program computes there, the assumption lets it in. Of a
// test that keeps out more, there is one capture for all of them, of which the other answer is known: the program lets
// the sizes that it cut off a padded tensor be all of them. So it is done with the first few tests of a program.
//
// `program` is what trace() gave for the other arguments. No exception is left, nor what forward prints.
void discharge(Session& session, PyObject* model, const Example& example, const Options& options,
               ir::ExportedProgram& program);

// Whether it may be one of those. All others of a capture stay.
bool may_discharge(const Session& session, const ir::Constraint& assumption, const std::vector<ir::Symbol>& symbols,
                   const Example& example, const Options& options);

}  // namespace atenon::capture
