// atenon-specialize: chooses shapes, freezes weights, folds.
#include "specialize/specialize.h"
#include "cli/cli.h"

int main(int argc, char** argv) {
  using namespace atenon;
  cli::Tool tool("atenon-specialize", "chooses shapes and folds what became constant",
                 "atenon capture resnet50.py | atenon decompose | atenon specialize batch=1 -o resnet50_b1.atn");
  specialize::Options options;
  std::vector<std::string> report;
  tool.assignments(options.bindings, "NAME=VALUE", "batch=1, batch=1,8 (a variant each), seq=1..128, mask=none");
  tool.flag("--keep-weights", options.keep_weights, "leave parameters and buffers as they are; fold nothing into them");
  return tool.transform(argc, argv, [&](ir::ExportedProgram program, cli::Context& context) {
    options.report = &report;
    Result<ir::ExportedProgram> result = specialize::run(std::move(program), context.opset(), options);
    for (const std::string& line : report) context.say(line);
    return result;
  });
}
