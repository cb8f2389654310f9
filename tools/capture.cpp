// atenon-capture: from a Python file with a model in it, or an archive of torch.export, to a program.
#include "capture/capture.h"

#include <cstdlib>

#include "cli/cli.h"

using namespace atenon;

int main(int argc, char** argv) {
  cli::Tool tool("atenon-capture", "runs a model's own Python file, without PyTorch, and writes down what it computes",
                 "atenon capture resnet50.py | atenon decompose | atenon specialize batch=1 | atenon lower | atenon "
                 "pack -o resnet50.atn");
  capture::Options options;
  tool.positional(options.file, "FILE.py[:NAME]", "a model's file, NAME in it (`model`); or an archive .pt2", true);
  tool.option("--input", options.inputs, "NAME=TYPE",
              "an input such as x=f32[batch,3,224,224]: a name among the sizes is a dynamic dimension, from 1 on");
  tool.option("--dynamic", options.dynamic, "NAME=A..B", "the range of a dynamic dimension: 0.. lets it be empty");
  tool.option("--weights", options.weights, "FILE", "state to load into the model: .pt, .safetensors or .npz");
  tool.flag("--draft", options.is_draft, "report all that is refused at once, and write a program anyway");
  tool.flag("--script", options.is_script, "FILE.py exports and saves by itself; -o takes what it saves");
  tool.positional(options.script_arguments, "ARGUMENT", "of a --script; after -- if it begins with -");
  tool.output("--depfile", options.depfile, "write a Make rule that lists the Python files read");
  return tool.produce(argc, argv, [&](cli::Context& context) -> Result<std::optional<ir::ExportedProgram>> {
    options.complete(context.share_folder(), std::getenv("VIRTUAL_ENV"), context.output, context.output_is_given);
    context.says_times = true;
    capture::Report report;
    auto program = capture::run(options, context.opset(), report);
    for (const std::string& line : report.said) context.say(line);
    for (const Diagnostic& warning : report.warnings) context.warn(warning);
    return program;
  });
}
