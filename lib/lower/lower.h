// Chooses kernels, layouts and memory for a program, and generates the machine code that no library has.
//
// Each node of the result is a call whose meaning is a named subgraph in the operators that it came from; kernel,
// strides, slots and code are annotations on it (lib/kernels has the readers). What yields a number or runs subgraphs
// stays as it is.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::lower {

// What became of one call, for --explain.
struct Decision {
  std::string entry, variant;
  std::string body;                                           // of control flow, which the call stands in, or ""
  std::string call;                                           // name of its first result
  std::string kernel;                                         // "onednn.matmul", "llvm", "alias"
  std::vector<std::string> operators;                         // of the body
  std::string note;                                           // what is to be known about the kernel, or ""
  std::vector<std::pair<std::string, std::string>> refusals;  // kernel, why not
  std::string line;                                           // "net.py:12", or "" if unknown
};

struct Report {
  std::vector<Decision> decisions;
  // Convolutions, those by Winograd's algorithm among them, and the largest errors of one of these, by its largest
  // result on a sample: by that algorithm and by direct convolution.
  size_t convolutions = 0, by_winograd = 0;
  double winograd_error = 0, direct_error = 0;
};

struct Options {
  std::string target = "host";
  bool fuse = true;          // several operators in one call
  bool prepack = true;       // weights in the layouts that kernels want
  bool winograd = false;     // convolutions of 3 x 3 by Winograd's algorithm where that is faster: larger errors
  Report* report = nullptr;  // filled in if given
};

// E0502: the target. E0503: LLVM or lld failed. E0504: a weight's bytes are absent, so that it cannot be packed. E0505:
// the program is lowered already.
Result<ir::ExportedProgram> run(ir::ExportedProgram program, const opset::Opset& opset, const Options& options);

std::string to_text(const Report& report);
std::string winograd_text(const Report& report);  // one line
std::string to_json(const Report& report);        // {"schema": 1, "calls": [...], "winograd": {...}}

}  // namespace atenon::lower
