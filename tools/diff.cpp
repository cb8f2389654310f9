// atenon-diff: where, and from which line of Python, do two programs part?
#include <iostream>

#include "cli/cli.h"
#include "diff/diff.h"

using namespace atenon;

int main(int argc, char** argv) {
  cli::Tool tool("atenon-diff", "compares two programs: structure, and numbers node by node on the same inputs",
                 "atenon diff captured.atn mlp.atn --input x=random");
  diff::Options options;
  std::string left, right;
  tool.positional(left, "LEFT", "the reference", true);
  tool.positional(right, "RIGHT", "the program that is compared with it", true);
  tool.option("--input", options.inputs, "NAME=FILE",
              "an input, as for atenon run; without any, only structure is compared");
  tool.option("--inputs", options.input_files, "FILE", "inputs by the keys of an .npz or .safetensors file");
  tool.option("--entry", options.entry, "NAME", "entry point; the first if not given");
  tool.option("--absolute", options.absolute, "X", "allowed: absolute + relative * |left|");
  tool.option("--relative", options.relative, "X", "see --absolute; unless 0, neighbouring numbers of 16 bits agree");
  tool.flag("--reference", options.reference, "run LEFT by the meanings of its operators, without fast kernels");
  tool.offer_segments();
  tool.offer_json();
  return tool.run(argc, argv, [&](cli::Context& context) -> Result<Status> {
    Result<ir::ExportedProgram> a = cli::read_program(left, context), b = cli::read_program(right, context);
    if (!a || !b) return a ? b.error() : a.error();
    Result<diff::Report> report = diff::run(std::move(*a), std::move(*b), context.opset(), options);
    if (!report) return report.error();
    std::cout << (context.json ? to_json(*report) : to_text(*report));
    return report->same() ? Status::ok : Status::no;
  });
}
