// capture: from a Python file with a model in it to a program.
//
// Embeds CPython, runs the user's own file with our `torch` package in place of PyTorch, and records what the model
// does with tensors that depend on its inputs. What is promised is soundness: the program computes what the Python
// would have computed for every input that satisfies the program's assumptions, or capture fails and says why.
//
// How the files of this folder share the work:
// - embed: an interpreter that behaves the same everywhere
// - session: what is known during one capture; the native objects below all point to it
// - native: the Python module `_atenon`, what the Python of lib/capture/torch stands on
// - tensor_object, symbols, scalar_objects: the Python types Tensor; SymInt and its like; dtype, device, Generator
// - convert: Python values to arguments of operators and back
// - operator_call: one call of an operator; real tensors are computed, traced ones append a node
// - functionalize: views, aliases and updates in place become functions of values
// - indexing: x[...] and x[...] = y in terms of operators
// - lazy_fill: random numbers that are not drawn before somebody reads them
// - callstack: where in the user's Python a node comes from
// - inputs, dimensions, state: example inputs and dynamic dimensions; parameters and buffers
// - trace, discharge: one capture; assumptions of it that do not matter
// - driver: the whole run
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::capture {

struct Options {
  std::string file;                           // FILE.py
  std::string name = "model";                 // callable or class in it that gives an nn.Module or a function
  std::vector<std::string> inputs;            // "x=f32[batch,3,224,224]", "x=@file.npy"
  std::vector<std::string> dynamic;           // "batch=1..64": ranges of symbols
  std::string weights;                        // .pt, .safetensors or .npz; "" for what the file's own Python makes
  bool is_draft = false;                      // go on after what is refused, and report all of it
  std::string depfile;                        // Make rule that lists the Python files read; "" for none
  std::string output = "-";                   // where the program goes, which that rule makes; "-" is standard output
  std::string python_folder;                  // share/atenon/python: where our torch lies
  std::string virtual_environment;            // whose packages the file may import; "" for the system's
  bool is_script = false;                     // the file exports by torch.export itself; what it saves is the program
  std::vector<std::string> script_arguments;  // its sys.argv[1:]
  bool takes_saved = false;                   // what the script saves is what run() gives, and is not written

  // Takes `FILE.py:NAME` apart, and fills in what follows from where we are installed and where the output goes;
  // `virtual_environment` may be null.
  void complete(const std::string& share_folder, const char* virtual_environment, const std::string& output,
                bool output_is_given);
};

// What capture says beside the program.
struct Report {
  std::vector<std::string> said;  // of each stage (start, import, construct, trace, initialise), and what is assumed
  std::vector<Diagnostic> warnings;
};

// E03xx; the user's line is in the Diagnostic. An exception of the user's own Python is E0301, with its traceback as
// notes. One call a process: CPython cannot be started twice.
// E0005, with an argument that nobody takes, or where -o or --depfile would replace a file that the model's Python has
// read. A script gives a program where `takes_saved` says so (E0332 unless it saves just one), else nothing.
Result<std::optional<ir::ExportedProgram>> run(const Options& options, opset::Opset& opset, Report& report);

}  // namespace atenon::capture
