// atenon-show: prints a program, or a part of it.
#include "show/show.h"
#include "cli/cli.h"
#include "program/program_file.h"

using namespace atenon;

static Result<ir::ExportedProgram> read(const std::string& path, const show::Options& options, cli::Context& context) {
  return options.unchecked ? program::read(path, {.segments = context.segments}) : cli::read_program(path, context);
}

int main(int argc, char** argv) {
  cli::Tool tool("atenon-show", "prints a program, or a part of it", "atenon show --nodes softmax net.atn");
  show::Options options;
  std::string path = "-";
  tool.positional(path, "FILE", "program to show; - is standard input", false);
  tool.flag("--signature", options.signature, "entry points: symbols, inputs, outputs, assumptions");
  tool.option("--nodes", options.nodes, "REGEX", "nodes whose text or Python line matches");
  tool.option("--why", options.why, "DIMENSION", "what made a dimension such as x[1] static or bounded");
  tool.option("--entry", options.entry, "NAME", "only this entry point");
  tool.flag("--weights", options.weights, "the weights as a table");
  tool.flag("--code", options.code, "the machine code segments as a table");
  tool.option("--extra-file", options.extra_file, "NAME", "the content of an extra file, as it is");
  tool.flag("--verify", options.verify, "check every digest, also of the weights, and sum up");
  tool.flag("--json", options.json, "all of it as data, schema 1");
  tool.flag("--dot", options.dot, "graphs for Graphviz");
  tool.flag("--html", options.html, "one self-contained page");
  tool.flag("--binary", options.binary, "the binary form");
  tool.flag("--unchecked", options.unchecked, "show it also where it breaks the rules of its operators");
  tool.offer_segments();
  tool.output("-o,--output", options.output, "write to FILE");
  return tool.run(argc, argv, [&](cli::Context& context) { return show::run(read(path, options, context), options); });
}
