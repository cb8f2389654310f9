// atenon-run: executes any program.
#include <iostream>

#include "cli/cli.h"
#include "run/run.h"

using namespace atenon;

static Result<Status> execute(const std::string& path, run::Options options, cli::Context& context) {
  Result<ir::ExportedProgram> program = cli::read_executable(path, context);
  if (!program) return program.error();
  options.json = context.json;
  auto opset = [&, blocks = program->custom_blocks] { return cli::opset_with(blocks, path, context); };
  Result<run::Outcome> outcome = run::execute(std::move(*program), options, opset);
  if (!outcome) return outcome.error();
  std::cout << outcome->report;
  return outcome->status;
}

int main(int argc, char** argv) {
  cli::Tool tool("atenon-run", "executes any program", "atenon run resnet50.atn --input x=x.npy -o y.npy --threads 2");
  run::Options options;
  std::string path = "-";
  tool.positional(path, "FILE", "program to execute; - is standard input", false);
  tool.option("--input", options.inputs, "NAME=FILE", "an input, by path or position: x=x.npy, x=random[4,64], n=3");
  tool.option("--inputs", options.input_files, "FILE", "inputs by the keys of an .npz or .safetensors file");
  tool.output("-o,--output", options.output, "outputs as .npy, .npz or .safetensors, in place of a summary");
  tool.option("--kernels", options.kernels, "FILE", "a shared library for custom operators (atenon_kernel.h)");
  tool.output("--state", options.state, "state kept from run to run; timed runs only read it");
  tool.option("--seed", options.seed, "N", "numbers for random operators, as after torch.manual_seed(N)");
  tool.option("--entry", options.entry, "NAME", "entry point; the first if not given");
  tool.option("--threads", options.threads, "N", "threads; 0: as many as this process may use");
  tool.flag("--reference", options.reference, "compute by the meanings of the operators, without fast kernels");
  tool.option("--benchmark", options.benchmark, "N", "time N runs after the first");
  tool.flag("--profile", options.profile, "time by call, beside this machine's limits and the line of Python");
  tool.flag("--memory", options.memory, "print what memory is planned; without inputs, nothing is run");
  tool.option("--size", options.sizes, "NAME=N", "with --memory: at this size of the inputs; batch=1..64: at each");
  tool.flag("--nan", options.find_nan, "name the first result with a NaN or infinity");
  tool.output("--dump", options.dump, "write the results of nodes to an .npz or .safetensors file");
  tool.option("--nodes", options.nodes, "REGEX", "with --dump: only nodes whose name matches");
  tool.offer_segments();
  tool.offer_json();
  return tool.run(argc, argv, [&](cli::Context& context) { return execute(path, options, context); });
}
