// Chooses shapes and makes constants of what no longer varies: binds and narrows symbols, freezes weights, folds.
//
// It never needs the model's source: everything follows from the program. Several values for one symbol give several
// variants, each behind the assumption that picks it.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::specialize {

struct Options {
  // "batch=1", "seq=1..2048", "batch=1,8,32" (a variant each), "n=3" for a number among the inputs, "mask=none" for an
  // input that nothing reads.
  std::vector<std::string> bindings;
  bool keep_weights = false;  // leave parameters and buffers as they are: nothing is folded into or over them
  std::vector<std::string>* report = nullptr;  // what was narrowed and folded, a line each
};

// E0410: a binding that cannot be read, or names nothing; E0411: outside of the range, or refuted by an assumption.
Result<ir::ExportedProgram> run(ir::ExportedProgram program, const opset::Opset& opset, const Options& options);

}  // namespace atenon::specialize
