// The behaviour that all tools share (design.md, 5): options as a table, reading and writing programs, messages, exit
// status.
//
//   int main(int argc, char** argv) {
//     cli::Tool tool("atenon-decompose", "rewrites a program until only operators of a set are left",
//                    "atenon capture mlp.py | atenon decompose --to core | atenon show");
//     decompose::Options options;
//     tool.option("--to", options.to, "SET", "operator set to reach: a name or a file");
//     return tool.transform(argc, argv, [&](ir::ExportedProgram program, cli::Context& context) {
//       return decompose::run(std::move(program), context.opset(), options);
//     });
//   }
//
// One table of options gives parsing, --help, the man page (--man), shell completions (--completions) and what the
// history of a program records.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"
#include "program/program_file.h"

namespace atenon::cli {

class Progress;

// What a running tool has at hand.
class Context {
 public:
  Context();
  ~Context();
  // The operator sets, loaded on first use. They are part of the installation: a failure ends the tool with its
  // message.
  opset::Opset& opset();
  const std::string& tool() const { return tool_; }
  bool verbose = false;
  bool quiet = false;
  bool json = false;
  std::string output = "-";       // where a stage's program goes
  bool output_is_given = false;   // by -o
  std::string segments;           // program with the bytes that text programs name by digest, for all that are read
  bool says_times = false;        // with -v also how long it took to check and to write the program
  bool verifies_weights = false;  // what was read is compared with its digests before it is written
  // A message on standard error, unless -q.
  void warn(const Diagnostic& diagnostic);
  // A line on standard error: unless -q, and with -v only.
  void tell(const std::string& text);
  void say(const std::string& text);
  // `<executable>/../share/atenon`, where operator sets, the Python of `torch` and the texts of errors lie.
  static std::string share_folder();

 private:
  friend class Tool;
  std::string tool_;
  std::unique_ptr<opset::Opset> opset_;
  std::unique_ptr<Progress> progress_;
};

// Whether an option changes what the tool writes (then the program's history records it) or only what it reports.
enum class Effect { result, report };

class Tool {
 public:
  Tool(std::string name, std::string purpose, std::string example);
  ~Tool();

  // `names` as in "--to" or "-o,--output"; "--no-fuse" clears its flag. A default that the variable holds is shown in
  // --help.
  void flag(const std::string& names, bool& target, const std::string& help, Effect effect = Effect::result);
  void option(const std::string& names, std::string& target, const std::string& value_name, const std::string& help,
              Effect effect = Effect::result);
  // A number from 0 on.
  void option(const std::string& names, int& target, const std::string& value_name, const std::string& help,
              Effect effect = Effect::result);
  void option(const std::string& names, std::optional<uint64_t>& target, const std::string& value_name,
              const std::string& help, Effect effect = Effect::result);
  // May be repeated.
  void option(const std::string& names, std::vector<std::string>& target, const std::string& value_name,
              const std::string& help, Effect effect = Effect::result);
  // A file that is written: never one that another option or positional names, too.
  void output(const std::string& names, std::string& target, const std::string& help, Effect effect = Effect::report);
  void positional(std::string& target, const std::string& name, const std::string& help, bool required);
  void positional(std::vector<std::string>& target, const std::string& name, const std::string& help);
  // Positional words with a `=` in them: `specialize batch=1 net.atn`.
  void assignments(std::vector<std::string>& target, const std::string& name, const std::string& help);
  // Offers --json, which sets Context::json.
  void offer_json();
  // Offers --explain, and --json for what it says.
  void offer_explain(bool& explain, const std::string& help);
  // Offers --segments, which sets Context::segments. Stages that transform have it.
  void offer_segments();

  // For stages: reads one program (a positional FILE, or standard input), validates it, calls `stage`, validates what
  // it gives, adds to the history, writes (`-o`, `-t`).
  int transform(int argc, char** argv,
                const std::function<Result<ir::ExportedProgram>(ir::ExportedProgram, Context&)>& stage);
  // For stages that start from something else than a program, or join several: as transform, without the reading. A
  // stage that gives nothing has written what there was to write.
  int produce(int argc, char** argv, const std::function<Result<std::optional<ir::ExportedProgram>>(Context&)>& stage);
  // For all others: parses, answers --help, --version, --explain CODE and the like, then calls `body`. A Diagnostic is
  // printed and decides the exit status.
  int run(int argc, char** argv, const std::function<Result<Status>(Context&)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The context's operator sets, with the blocks of operators that a program from `path` brings.
Result<const opset::Opset*> opset_with(const std::vector<std::string>& blocks, const std::string& path,
                                       Context& context);

// Reads and validates a program, with the operators that it brings. What tools that do not write programs start from.
Result<ir::ExportedProgram> read_program(const std::string& path, Context& context, program::ReadOptions options = {});
// As read_program, but a program that is lowered throughout is not held to the operator sets, which are not loaded for
// it, as that costs more than a small model's run: its calls are checked when they are prepared. Who needs them all the
// same asks opset_with.
Result<ir::ExportedProgram> read_executable(const std::string& path, Context& context);

// `atenon X ...`: executes atenon-X, from beside this executable or from PATH.
int dispatch(int argc, char** argv);

}  // namespace atenon::cli
