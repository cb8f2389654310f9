// The behaviour that all tools share (design.md, 5): options as a table, reading and writing programs, messages, exit status.
//
//   int main(int argc, char** argv) {
//     cli::Tool tool("atenon-decompose", "rewrites a program until only operators of a set are left",
//                    "atenon capture mlp.py | atenon decompose --to core | atenon show");
//     decompose::Options options;
//     tool.option("--to", options.to, "SET", "operator set to reach: a name or a file");
//     return tool.transform(argc, argv, [&](ir::ExportedProgram p, cli::Context& c) { return decompose::run(std::move(p), c.opset(), options); });
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::cli {

// What a running tool has at hand.
class Context {
 public:
  const opset::Opset& opset();                 // loaded on first use; a failure ends the tool with its message
  const std::string& tool() const { return tool_; }
  bool verbose = false;
  bool quiet = false;
  bool json = false;
  void warn(const Diagnostic& diagnostic);
  void say(const std::string& text);           // -v only, to standard error
  // `<executable>/../share/atenon`.
  static std::string share_folder();

 private:
  friend class Tool;
  std::string tool_;
  std::unique_ptr<opset::Opset> opset_;
};

class Tool {
 public:
  Tool(std::string name, std::string purpose, std::string example);
  ~Tool();

  void flag(const std::string& names, bool& target, const std::string& help);
  void option(const std::string& names, std::string& target, const std::string& value_name, const std::string& help);
  void option(const std::string& names, int& target, const std::string& value_name, const std::string& help);
  void option(const std::string& names, std::vector<std::string>& target, const std::string& value_name, const std::string& help);
  void positional(std::string& target, const std::string& name, const std::string& help, bool required);
  void positional(std::vector<std::string>& target, const std::string& name, const std::string& help);

  // For stages: reads one program (a positional FILE, default "-"), validates it, runs, validates in debug builds, adds to the
  // history, writes (`-o`, `-t`).
  int transform(int argc, char** argv,
                const std::function<Result<ir::ExportedProgram>(ir::ExportedProgram, Context&)>& stage);
  // For all other tools: parses options, handles --help, --version, --explain CODE, --completions SHELL, then calls `body`; a Diagnostic
  // is rendered and decides the exit status.
  int run(int argc, char** argv, const std::function<Result<Status>(Context&)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atenon::cli
