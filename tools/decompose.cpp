// atenon-decompose: chooses the operator set.
#include <iostream>

#include "cli/cli.h"
#include "decompose/decompose.h"

int main(int argc, char** argv) {
  using namespace atenon;
  cli::Tool tool("atenon-decompose", "rewrites a program until only operators of a set are left",
                 "atenon capture mlp.py | atenon decompose --to core | atenon show");
  decompose::Options options;
  decompose::Report report;
  bool explain = false;
  tool.option("--to", options.to, "SET", "operator set to reach: lowerable, core, or another under opsets/");
  tool.option("--keep", options.keep, "OP", "operator to leave alone, such as aten::gelu");
  tool.option("--with", options.with, "FILE.ops", "operators and decompositions of your own");
  tool.offer_explain(explain, "say on standard error why each node was kept or rewritten");
  return tool.transform(argc, argv, [&](ir::ExportedProgram program, cli::Context& context) {
    if (explain) options.report = &report;
    Result<ir::ExportedProgram> result = decompose::run(std::move(program), context.opset(), options);
    if (explain) std::cerr << (context.json ? to_json(report) : to_text(report));
    return result;
  });
}
