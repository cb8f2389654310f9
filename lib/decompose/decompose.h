// Rewrites a program until only operators of a set are left.
//
// A node outside the set is replaced by the operators of its decomposition, one level at a time, until a member of the
// set or an operator without decomposition is reached. What the user asked to keep, stays. The operators that a node
// was made from are kept in its provenance. Running the stage on its own output changes nothing.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::decompose {

// Why a node was kept or rewritten.
struct Decision {
  std::string node;  // name of its first result
  std::string target;
  bool rewritten = false;
  std::string reason;  // "is in lowerable", "its meaning is pointwise: there is nothing smaller"
  std::string line;    // "net.py:12", or "" if unknown
};

struct Report {
  std::vector<Decision> decisions;  // in the order of the graph; what an expansion brought follows what it replaced
};

struct Options {
  std::string to = "lowerable";   // an operator set: a name under opsets/
  std::vector<std::string> keep;  // operators to leave alone: aten::gelu, aten::add.Tensor
  std::vector<std::string> with;  // .ops files whose decompositions are used first
  Report* report = nullptr;       // filled in if given
};

// Adds the blocks of `with` to `opset`. E0117: a set that is not there; E0101: an operator. Custom operators that
// are left in the program travel in it.
Result<ir::ExportedProgram> run(ir::ExportedProgram program, opset::Opset& opset, const Options& options);

std::string to_text(const Report& report);
std::string to_json(const Report& report);  // {"schema": 1, "nodes": [...]}

}  // namespace atenon::decompose
