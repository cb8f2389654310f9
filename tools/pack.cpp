// atenon-pack: writes the deployable package.
#include "pack/pack.h"
#include "cli/cli.h"
#include "program/program_file.h"

int main(int argc, char** argv) {
  using namespace atenon;
  cli::Tool tool("atenon-pack", "joins programs into one package: variants, entry points, shared weights",
                 "atenon pack batch1.atn batch8.atn prefill=prefill.atn -o net.atn");
  std::vector<std::string> files, named, kernels;
  std::string format = "atn";
  tool.positional(files, "FILE",
                  "programs; those of one entry point become its variants: the first that fits inputs and machine runs "
                  "(default: -)");
  tool.assignments(named, "ENTRY=FILE", "a program whose entry point gets the name ENTRY");
  tool.option("--format", format, "FORMAT", "atn, or pt2: an archive that torch.export.load of PyTorch reads");
  tool.option("--kernels", kernels, "FILE", "a shared library that computes custom operators, to travel inside");
  tool.offer_segments();
  return tool.produce(argc, argv, [&](cli::Context& context) -> Result<std::optional<ir::ExportedProgram>> {
    context.verifies_weights = true;  // what goes out to other machines is checked once, whole
    if (files.empty() && named.empty()) files.push_back("-");
    Result<std::vector<pack::Part>> parts = pack::read(files, named, [&](const std::string& path) {
      return cli::read_program(path, context, {.leave_in_pipe = true});
    });
    if (!parts) return parts.error();
    Result<ir::ExportedProgram> package = pack::run(std::move(*parts), kernels);
    if (!package) return package.error();
    return pack::in_format(format, std::move(*package), context.opset(), context.output);
  });
}
