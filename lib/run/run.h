// What `atenon run` does around the engine: inputs from files and options, outputs to files or a summary, and looking
// closer: benchmark, profile, intermediates, the first NaN, memory.
#pragma once

#include <string>
#include <vector>

#include "run/engine.h"

namespace atenon::run {

struct Options {
  std::string entry;                     // "" is the first
  std::vector<std::string> inputs;       // "x=x.npy", "x=random", "x=random[4,64]", "x=zeros", "n=3"
  std::vector<std::string> input_files;  // .npz or .safetensors whose keys name inputs
  std::vector<std::string> kernels;      // shared libraries that compute custom operators (atenon_kernel.h)
  std::string output;                    // .npy, .npz, .safetensors, or "-"; "" prints a summary
  std::string state = {};                // file that keeps the buffers that the program writes, from call to call
  std::optional<uint64_t> seed = {};     // of random operators, which are an error without it
  int threads = 0;                       // 0: what affinity and cgroup allow
  bool reference = false;                // by the meanings of the operators alone
  int benchmark = 0;                     // timed runs after a warm-up
  bool profile = false;                  // time by call, with the Python line
  bool memory = false;                   // what is planned, instead of a run where no inputs are given
  std::vector<std::string> sizes = {};   // "batch=8", "batch=1..64": for which it is printed then
  bool find_nan = false;                 // stop at the first result with a NaN or infinity
  std::string dump;                      // .npz or .safetensors for the results of nodes
  std::string nodes;                     // only nodes whose name matches this regular expression are dumped
  bool json = false;
};

struct Outcome {
  Status status = Status::ok;
  std::string report;  // for standard output
};

// E062x: an input that is missing, unknown or cannot be read.
Result<Outcome> execute(ir::ExportedProgram program, const Options& options,
                        const std::function<Result<const opset::Opset*>()>& opset);

// One value a leaf, from options of the form above.
Result<std::vector<std::optional<Datum>>> read_inputs(const Session& session, const std::vector<std::string>& inputs,
                                                      const std::vector<std::string>& files);

}  // namespace atenon::run
