#include "decompose/decompose.h"

#include <filesystem>
#include <set>

#include "ir/call_body.h"
#include "ir/control_flow.h"
#include "opset/call.h"
#include "opset/dead_nodes.h"
#include "support/streams.h"
#include "text/text.h"

namespace atenon::decompose {
namespace {

// A file of blocks that the user brought.
struct UserFile {
  std::string name;
  std::string text;
};

class Rewriter {
 public:
  Rewriter(ir::ExportedProgram& program, const opset::Opset& opset, const Options& options, opset::TargetSet set,
           const std::vector<UserFile>& files)
      : program_(program), opset_(opset), options_(options), set_(std::move(set)) {
    for (const UserFile& file : files) user_files_.insert(file.name);
  }

  // New assumptions of the graph, on symbols that `facts` knows, go to `assumptions`.
  Result<void> rewrite(ir::EntryPoint& entry, ir::Graph& graph, shape::Facts facts,
                       std::vector<ir::Constraint>& assumptions) {
    // Each sweep goes one level deeper; what a sweep brought is looked at by the next.
    std::set<const ir::Node*> settled;
    for (bool changed = true; changed;) {
      changed = false;
      for (ir::Node& node : graph.forward()) {
        if (settled.contains(&node)) continue;
        Result<bool> rewritten = visit(node, entry, graph, facts, assumptions);
        if (!rewritten) return rewritten.error();
        if (*rewritten)
          changed = true;
        else
          settled.insert(&node);
      }
    }
    return {};
  }

 private:
  // Replaces `node` by its decomposition if it has to go; says whether it did.
  Result<bool> visit(ir::Node& node, ir::EntryPoint& entry, ir::Graph& graph, shape::Facts& facts,
                     std::vector<ir::Constraint>& assumptions) {
    if (ir::is_call(node)) return decided(node, false, "was lowered already");
    if (ir::is_control_flow(node.target())) return decided(node, false, "its subgraphs are rewritten");
    Result<opset::Call> call = opset::bind(opset_, node);
    if (!call) return explained(call.error(), node);
    const opset::Operator& op = *call->op;
    bool users_own = user_files_.contains(op.place().file);
    if (is_kept(op)) return decided(node, false, "--keep asks for it");
    if (set_.contains(op) && !users_own) return decided(node, false, "is in " + set_.name);
    Result<opset::MeaningKind> kind = opset::meaning_kind(opset_, *call, facts);
    if (!kind) return explained(kind.error(), node);
    if (*kind == opset::MeaningKind::unknown) return decided(node, false, "is only declared");
    if (*kind != opset::MeaningKind::decomposition) {
      std::string reason =
          "is not in " + set_.name + ", but its meaning is " + op.meaning_kind() + ": there is nothing smaller";
      return decided(node, false, reason);
    }
    ir::ProvenanceId provenance = program_.provenance.derive(node.provenance, node.target());
    Result<opset::Expansion> expansion = opset::expand(opset_, *call, facts, graph, &node, provenance);
    if (!expansion) return explained(expansion.error(), node);
    decided(node, true, users_own ? "by the decomposition in " + op.place().file : "is not in " + set_.name);
    for (ir::Constraint& assumption : expansion->assumptions) assume(assumptions, facts, std::move(assumption));
    for (ir::Symbol& symbol : expansion->unbacked) {
      facts.declare(symbol.name, symbol.range);
      entry.symbols.push_back(std::move(symbol));
    }
    graph.replace(node, expansion->results);
    return true;
  }

  bool is_kept(const opset::Operator& op) const {
    for (const std::string& name : options_.keep) {
      if (name == op.target() || name == op.schema().name) return true;
    }
    return false;
  }

  // What a decomposition asks for beyond what its operator did is a fault of the decomposition; still, a program that
  // states it is sound.
  static void assume(std::vector<ir::Constraint>& assumptions, shape::Facts& facts, ir::Constraint assumption) {
    for (const ir::Constraint& known : assumptions) {
      if (known.truth == assumption.truth) return;
    }
    facts.assume(assumption.truth);
    assumptions.push_back(std::move(assumption));
  }

  bool decided(const ir::Node& node, bool rewritten, std::string reason) {
    if (options_.report && !node.results().empty()) {
      const ir::CallStack& stack = program_.provenance.at(node.provenance);
      std::string line;
      if (!stack.frames.empty()) line = stack.frames.back()->file + ":" + std::to_string(stack.frames.back()->line);
      options_.report->decisions.push_back(
          {node.result()->name, node.target(), rewritten, std::move(reason), std::move(line)});
    }
    return rewritten;
  }

  Diagnostic explained(Diagnostic diagnostic, const ir::Node& node) const {
    diagnostic.notes.push_back({"in " + text::print(node)});
    for (Note& note : text::provenance_notes(program_, node)) diagnostic.notes.push_back(std::move(note));
    return diagnostic;
  }

  ir::ExportedProgram& program_;
  const opset::Opset& opset_;
  const Options& options_;
  opset::TargetSet set_;
  std::set<std::string> user_files_;
};

Result<std::vector<UserFile>> read_user_files(opset::Opset& opset, const Options& options) {
  std::vector<UserFile> files;
  for (const std::string& path : options.with) {
    Result<Contents> contents = read_contents(path);
    if (!contents) return contents.error();
    files.push_back({std::filesystem::path(path).filename().string(), std::string(contents->text())});
    if (Result<void> added = opset.add(files.back().text, files.back().name); !added) return added.error();
  }
  return files;
}

// Blocks of operators that are left in the program and not built in go with it.
void carry_blocks(ir::ExportedProgram& program, const opset::Opset& opset, const std::vector<UserFile>& files) {
  std::set<std::string> used;
  auto look = [&](const ir::Graph& graph) {
    for (ir::Node& node : graph.forward()) {
      if (const opset::Operator* op = opset.find(node.target())) used.insert(op->place().file);
    }
  };
  for (const ir::EntryPoint& entry : program.entries) {
    for (const ir::Variant& variant : entry.variants) {
      look(variant.graph);
      for (const auto& [name, graph] : variant.subgraphs) look(graph);
    }
  }
  for (const UserFile& file : files) {
    bool carried =
        std::find(program.custom_blocks.begin(), program.custom_blocks.end(), file.text) != program.custom_blocks.end();
    if (used.contains(file.name) && !carried) program.custom_blocks.push_back(file.text);
  }
}

}  // namespace

Result<ir::ExportedProgram> run(ir::ExportedProgram program, opset::Opset& opset, const Options& options) {
  Result<std::vector<UserFile>> files = read_user_files(opset, options);
  if (!files) return files.error();
  Result<opset::TargetSet> set = opset.target_set(options.to);
  if (!set) return set.error();
  Options spelled = options;
  for (std::string& name : spelled.keep) {
    if (const opset::Operator* op = opset.find(name))
      name = op->target();
    else if (opset.overloads(name).empty()) {
      Diagnostic unknown = opset.check(name).error();
      unknown.status = Status::usage;
      return unknown;
    }
  }
  Rewriter rewriter(program, opset, spelled, std::move(*set), *files);
  for (ir::EntryPoint& entry : program.entries) {
    for (ir::Variant& variant : entry.variants) {
      if (Result<void> done = rewriter.rewrite(entry, variant.graph, entry.facts(variant), variant.assumptions); !done)
        return done.error();
      for (auto& [name, graph] : variant.subgraphs) {
        if (Result<void> done = rewriter.rewrite(entry, graph, entry.facts(variant, graph), graph.assumptions); !done)
          return done.error();
      }
      opset::eliminate_dead_nodes(opset, variant);
    }
  }
  carry_blocks(program, opset, *files);
  return program;
}

}  // namespace atenon::decompose
