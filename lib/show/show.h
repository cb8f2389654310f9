// Prints a program, or a part of it: as text, binary, JSON, a Graphviz graph or a self-contained HTML page.
//
// The text is the text form (man/atenon-program.5), which every tool reads again. All forms are for any program,
// runnable or not: nothing in it is executed, and weights are read only where they are printed.
#pragma once

#include <string>

#include "ir/program.h"

namespace atenon::show {

// At most one form or part; none is the text of all.
struct Options {
  bool json = false, dot = false, html = false, binary = false;           // forms
  bool signature = false, weights = false, code = false, verify = false;  // parts; verify checks all digests
  std::string nodes;       // an extended regular expression: the nodes whose line of text, or Python line, matches
  std::string extra_file;  // the content of this one, as it is
  std::string why;         // a dimension of an input, as x[1]: the chain that made it static or bounded
  std::string entry;       // only this entry point; "" is all
  std::string output = "-";
  bool unchecked = false;  // the reader has not held the program to the rules of its operators
};

// E0710: no such entry point; E0711: not a regular expression; E0712: options that exclude each other; E0713: no such
// dimension; E0714: no such extra file.
Result<std::string> print(const ir::ExportedProgram& program, const Options& options);
// Prints a program that was read to `output`; a reader's error is passed on.
Result<Status> run(const Result<ir::ExportedProgram>& program, const Options& options);

// One line about a whole program: "1 entry point, 12 nodes, 4 weights (1.2 MB), ...".
std::string summary(const ir::ExportedProgram& program);

}  // namespace atenon::show
