// `atenon X ...` finds and executes atenon-X, as git does; the prefix keeps us from shadowing `diff`.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "cli/cli.h"
#include "cli/message.h"
#include "cli/option_table.h"

namespace atenon::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> search_path() {
  std::error_code ignored;
  std::vector<fs::path> folders = {fs::read_symlink("/proc/self/exe", ignored).parent_path()};
  const char* path = getenv("PATH");
  std::istringstream rest(path ? path : "");
  for (std::string folder; std::getline(rest, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

// The tool's file, without a look at all others: most calls need just one. Empty if there is none.
fs::path find_tool(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return {};
  for (const fs::path& folder : search_path()) {
    const fs::path file = folder / ("atenon-" + name);
    if (access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) return file;
  }
  return {};
}

// Tools by name ("lower"), each where it is found first.
std::map<std::string, fs::path> find_tools() {
  std::map<std::string, fs::path> tools;
  for (const fs::path& folder : search_path()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      std::string name = entry.path().filename().string();
      if (name.starts_with("atenon-") && access(entry.path().c_str(), X_OK) == 0)
        tools.emplace(name.substr(7), entry.path());
    }
  }
  return tools;
}

std::string purpose_of(const fs::path& tool) {
  std::string line;
  FILE* pipe = popen(("'" + tool.string() + "' --purpose 2>/dev/null").c_str(), "r");
  if (!pipe) return line;
  for (int c; (c = fgetc(pipe)) != EOF && c != '\n';) line += static_cast<char>(c);
  pclose(pipe);
  return line;
}

std::string help() {
  std::string text =
      "atenon: from a PyTorch model file to a small native CPU program, without PyTorch\n\n"
      "usage: atenon TOOL [OPTIONS] ...      atenon TOOL --help\n\n"
      "  model.py -> capture -> decompose -> specialize -> lower -> pack -> run\n"
      "              (each reads and writes one program file; show and diff look at any of them)\n\n";
  for (const auto& [name, path] : find_tools()) {
    text += "  " + name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') + purpose_of(path) + "\n";
  }
  return text +
         "\nexample:\n"
         "  atenon capture resnet50.py | atenon decompose | atenon specialize batch=1 | atenon lower | atenon "
         "pack -o resnet50.atn\n"
         "  atenon run resnet50.atn --input x=x.npy -o y.npy\n";
}

// Names of tools, and after one of them whatever that tool completes.
Result<std::string> dispatch_completions(const std::string& shell) {
  std::string names, described;
  for (const auto& [name, path] : find_tools()) {
    names += name + " ";
    described += "complete -c atenon -n __fish_use_subcommand -f -a " + name + " -d '" + purpose_of(path) + "'\n";
  }
  if (shell == "bash") {
    return "_atenon() {\n  if [[ $COMP_CWORD -eq 1 ]]; then\n    COMPREPLY=($(compgen -W \"" + names +
           "help\" -- \"${COMP_WORDS[1]}\"))\n    return\n  fi\n"
           "  local tool=\"_atenon_${COMP_WORDS[1]}\"\n"
           "  declare -F \"$tool\" > /dev/null || source <(atenon \"${COMP_WORDS[1]}\" --completions bash 2> "
           "/dev/null)\n"
           "  declare -F \"$tool\" > /dev/null && \"$tool\"\n}\ncomplete -o filenames -F _atenon atenon\n";
  }
  if (shell == "zsh") {
    return "#compdef atenon\nlocal state\n_arguments -C '1: :(" + names +
           "help)' '*::argument:->rest'\n"
           "[[ $state == rest ]] && _call_function ret _atenon-$words[1]\n";
  }
  if (shell == "fish") return described;
  return error(Status::usage, 6, "no completions for the shell '" + shell + "'").note("there are: bash, zsh, fish");
}

std::string dispatch_man_page() {
  std::string tools;
  for (const auto& [name, path] : find_tools())
    tools += ".TP\n.BR atenon\\-" + name + " (1)\n" + purpose_of(path) + "\n";
  return ".TH atenon 1 \"\" \"atenon " ATENON_VERSION
         "\" \"Atenon\"\n.SH NAME\natenon \\- from a PyTorch model file to a small native CPU program, without "
         "PyTorch\n"
         ".SH SYNOPSIS\natenon TOOL [OPTIONS] ...\n.SH DESCRIPTION\nExecutes the program atenon\\-TOOL, from beside "
         "itself or "
         "from PATH. Each tool reads and writes one program file, so that they can be joined by pipes.\n.SH TOOLS\n" +
         tools + ".SH SEE ALSO\n.BR atenon\\-program (5),\n.BR atenon\\-opset (5)\n";
}

// For commands that print a text.
int print(const Result<std::string>& text) {
  if (text) {
    std::cout << *text;
    return finish_output(Status::ok, "atenon");
  }
  print_message(text.failure(), "atenon");
  return static_cast<int>(text.failure().status);
}

}  // namespace

int dispatch(int argc, char** argv) {
  std::string name = argc > 1 ? argv[1] : "";
  if (name == "--completions") return print(dispatch_completions(argc > 2 ? argv[2] : ""));
  if (name == "--man") return print(dispatch_man_page());
  if (name == "--explain") return print(explanation(argc > 2 ? argv[2] : "", Context::share_folder() + "/errors"));
  if (name == "--version") return print(std::string("atenon " ATENON_VERSION "\n"));
  bool wants_help = name == "--help" || name == "-h" || name == "help";
  if (wants_help && argc < 3) return print(help());
  if (name.empty()) {
    return print(error(Status::usage, 4, "which tool?").note("atenon --help lists them"));
  }
  std::vector<char*> arguments(argv + 1, argv + argc + 1);
  static char help_flag[] = "--help";
  if (wants_help) {  // atenon help lower = atenon lower --help
    name = argv[2];
    arguments = {argv[2], help_flag, nullptr};
  }
  const fs::path tool = find_tool(name);
  if (tool.empty()) {
    std::vector<std::string> names;
    for (const auto& [known, path] : find_tools()) names.push_back(known);
    Diagnostic unknown = error(Status::usage, 4, "there is no tool '" + name + "'");
    std::string near = nearest(name, names);
    if (!near.empty()) unknown.notes.push_back({"did you mean '" + near + "'?"});
    unknown.notes.push_back({"atenon --help lists all tools"});
    return print(unknown);
  }
  std::string path = tool.string();
  arguments[0] = path.data();
  execv(path.c_str(), arguments.data());
  return print(error(Status::usage, 1, "cannot execute " + path));
}

}  // namespace atenon::cli
