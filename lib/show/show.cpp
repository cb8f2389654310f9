// Chooses form and part, and finds nodes by a regular expression.
#include "show/show.h"

#include <regex.h>

#include <memory>

#include "program/program_file.h"
#include "show/forms.h"
#include "support/streams.h"
#include "text/text.h"

namespace atenon::show {
namespace {

bool is_chosen(const ir::EntryPoint& entry, const Options& options) {
  return options.entry.empty() || options.entry == entry.name;
}

// POSIX, not std::regex: no exceptions, and no recursion over long lines.
Result<std::shared_ptr<regex_t>> compile(const std::string& text) {
  auto regex = std::make_unique<regex_t>();
  const int problem = regcomp(regex.get(), text.c_str(), REG_EXTENDED | REG_NOSUB);
  if (problem == 0) {
    return std::shared_ptr<regex_t>(regex.release(), [](regex_t* compiled) {
      regfree(compiled);
      delete compiled;
    });
  }
  char reason[200];
  regerror(problem, regex.get(), reason, sizeof reason);
  return error(Status::usage, 711, "'" + text + "' is no regular expression: " + reason);
}

// The matching nodes under the names of their graphs, each with its Python line.
Result<std::string> find_nodes(const ir::ExportedProgram& program, const Options& options) {
  const Result<std::shared_ptr<regex_t>> pattern = compile(options.nodes);
  if (!pattern) return pattern.failure();
  std::string out;
  for (const NamedGraph& named : graphs_of(program, options)) {
    std::string lines;
    for (const ir::Node& node : named.graph->forward()) {
      const ir::CallStack& stack = program.provenance.at(node.provenance);
      std::string line = text::print(node);
      if (!stack.frames.empty()) line += "  # " + place_of(program, node) + ": " + stack.frames.back()->code;
      if (!stack.module_path.empty()) line += "  in " + stack.module_path;
      if (regexec(pattern->get(), line.c_str(), 0, nullptr, 0) == 0) lines += "  " + line + "\n";
    }
    if (!lines.empty()) out += named.name + "\n" + lines;
  }
  return out;
}

}  // namespace

std::vector<NamedGraph> graphs_of(const ir::ExportedProgram& program, const Options& options) {
  std::vector<NamedGraph> graphs;
  for (const ir::EntryPoint& entry : program.entries) {
    if (!is_chosen(entry, options)) continue;
    for (const ir::Variant& variant : entry.variants) {
      const std::string name = entry.name + (variant.name.empty() ? "" : "/" + variant.name);
      graphs.push_back({name, &variant.graph, &entry});
      for (const auto& [subgraph, graph] : variant.subgraphs) graphs.push_back({name + "@" + subgraph, &graph});
    }
  }
  return graphs;
}

std::string place_of(const ir::ExportedProgram& program, const ir::Node& node) {
  const ir::CallStack& stack = program.provenance.at(node.provenance);
  return stack.frames.empty() ? "" : stack.frames.back()->file + ":" + std::to_string(stack.frames.back()->line);
}

Result<std::string> content_of(const ir::ExportedProgram& program, const std::string& name) {
  const ir::ExtraFile* file = program.extra_file(name);
  if (!file) {
    std::vector<std::string> names;
    for (const ir::ExtraFile& each : program.extra_files) names.push_back(each.name);
    const std::string near = nearest(name, names);
    Diagnostic diagnostic = error(Status::usage, 714, "the program has no extra file '" + name + "'");
    if (!near.empty()) return std::move(diagnostic).note("did you mean '" + near + "'?");
    return diagnostic;
  }
  if (Result<void> whole = program::require_weights(program); !whole) return whole.error();
  return std::string(static_cast<const char*>(file->bytes->data()), file->bytes->size());
}

Result<std::string> print(const ir::ExportedProgram& program, const Options& options) {
  if (!options.entry.empty() && !program.entry(options.entry)) {
    std::vector<std::string> names;
    for (const ir::EntryPoint& entry : program.entries) names.push_back(entry.name);
    const std::string near = nearest(options.entry, names);
    Diagnostic diagnostic = error(Status::usage, 710, "the program has no entry point '" + options.entry + "'");
    if (!near.empty()) return std::move(diagnostic).note("did you mean '" + near + "'?");
    return diagnostic;
  }
  const int forms = options.json + options.dot + options.html + options.binary;
  const int parts = options.signature + options.weights + options.code + options.verify + !options.nodes.empty() +
                    !options.why.empty() + !options.extra_file.empty();
  if (forms + parts > 1) {
    return error(
        Status::usage, 712,
        "one form or one part at a time: --json, --dot, --html and --binary give all of a program, "
        "--nodes, --why, --signature, --weights, --code and --extra-file are parts, and --verify is yes or no");
  }
  if (options.verify) {
    if (Result<void> verified = program::require_weights(program); !verified) return verified.error();
    return "valid: " + summary(program) + "\n";
  }
  if (options.json) return to_json(program, options);
  if (options.dot) return to_dot(program, options);
  if (options.html) return to_html(program, options);
  if (options.weights) return weight_table(program);
  if (options.code) return code_table(program);
  if (!options.nodes.empty()) return find_nodes(program, options);
  if (!options.why.empty()) return explain_dimension(program, options);
  if (!options.extra_file.empty()) return content_of(program, options.extra_file);
  std::string out;
  if (options.signature) {
    for (const ir::EntryPoint& entry : program.entries) {
      if (is_chosen(entry, options)) out += text::print_signature(entry);
    }
    return out;
  }
  if (options.entry.empty()) return program::serialize(program, {.text = !options.binary});
  ir::ExportedProgram chosen = program.clone();
  std::erase_if(chosen.entries, [&](const ir::EntryPoint& entry) { return !is_chosen(entry, options); });
  return program::serialize(chosen, {.text = !options.binary});
}

Result<Status> run(const Result<ir::ExportedProgram>& program, const Options& options) {
  if (!program) return program.failure();
  const Result<std::string> text = print(*program, options);
  if (!text) return text.failure();
  if (Result<void> written = write_contents(options.output, *text); !written) return written.error();
  return Status::ok;
}

}  // namespace atenon::show
