// Where two programs, or two stages of one, part: in structure, and in numbers on the same inputs.
//
// Nodes are matched through provenance: a lowered call, or the last operator of a decomposition, gives the value of the
// captured node that it was made from. A node departs where its value differs by more than its dtype allows while the
// matched values that it was computed from do not: then the error is its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::diff {

struct Options {
  std::string entry;                // "" is the first
  std::vector<std::string> inputs;  // as for `atenon run`; with neither inputs nor files, structure only
  std::vector<std::string> input_files;
  // Allowed: absolute + relative * |reference|. Neighbouring numbers of 16 bits agree unless `relative` is 0.
  std::string relative = "1e-3";
  std::string absolute = "1e-4";
  bool reference = false;  // run the first program by the meanings of its operators
};

// How two tensors differ.
struct Difference {
  double largest = 0;       // |a - b|
  double excess = 0;        // largest |a - b| / (absolute + relative * |a|); above 1 they differ
  std::vector<int64_t> at;  // index of the largest excess
  double left = 0, right = 0;
};

struct Departure {
  std::string left;  // nodes, as text
  std::string right;
  std::string line;  // of Python
  Difference difference;
};

// A call of either program whose kernel says how large its errors are, as parts of its largest result on a sample.
struct Inexact {
  std::string call, kernel;
  double error = 0, direct_error = 0;
  std::string line;  // of Python
};

struct Report {
  // A line for each way in which inputs, outputs, variants and operators differ; where operators are as many, one for
  // the first node that is another.
  std::vector<std::string> structure;
  bool same_interface = true;
  size_t matched = 0;  // node values that were compared
  size_t nodes = 0;    // in the first program
  std::vector<std::pair<std::string, Difference>> outputs;
  std::optional<Departure> first;
  std::vector<Inexact> inexact;
  bool compared = false;

  bool same() const;
};

// E0701: a tolerance that is no number, E0702: entry points whose inputs differ, so that they cannot be run on the
// same.
Result<Report> run(ir::ExportedProgram left, ir::ExportedProgram right, const opset::Opset& opset,
                   const Options& options);

std::string to_text(const Report& report);
std::string to_json(const Report& report);  // {"schema": 1, ...}

}  // namespace atenon::diff
