// atenon-lower: chooses kernels, layouts and memory, and generates machine code.
#include <iostream>

#include "cli/cli.h"
#include "lower/lower.h"

int main(int argc, char** argv) {
  using namespace atenon;
  cli::Tool tool("atenon-lower", "chooses kernels, layouts and memory, and generates machine code",
                 "atenon capture mlp.py | atenon decompose | atenon specialize | atenon lower -o mlp.atn");
  lower::Options options;
  lower::Report report;
  bool explain = false;
  tool.option("--target", options.target, "CPU", "host, x86_64-avx512 or x86_64-avx2");
  tool.flag("--no-fuse", options.fuse, "each operator in a call of its own");
  tool.flag("--no-prepack", options.prepack, "weights as they lie, not in the layouts that kernels want");
  tool.flag("--winograd", options.winograd,
            "3x3 convolutions by Winograd's algorithm where that is faster: larger errors, which are said");
  tool.offer_explain(explain, "say on standard error which kernel was chosen for each call, and why not another");
  return tool.transform(argc, argv, [&](ir::ExportedProgram program, cli::Context& context) {
    if (explain || options.winograd) options.report = &report;
    Result<ir::ExportedProgram> result = lower::run(std::move(program), context.opset(), options);
    if (explain) std::cerr << (context.json ? to_json(report) : to_text(report));
    if (result && options.winograd && !context.json) context.tell(winograd_text(report));
    return result;
  });
}
