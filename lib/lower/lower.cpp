// The stage: a list of passes over each variant, and one compilation for all.
#include "lower/lower.h"

#include "ir/call_body.h"
#include "ir/control_flow.h"
#include "lower/lowering.h"
#include "program/program_file.h"
#include "support/json.h"
#include "text/text.h"

namespace atenon::lower {

namespace {

void explain(const Lowering& lowering, Report& report) {
  for (const auto& group : lowering.groups) {
    Decision decision{lowering.entry.name, lowering.variant.name, lowering.body_name()};
    decision.call = group->results.empty() ? "" : group->results[0]->name;
    decision.kernel = group->role == Group::Role::alias   ? "alias"
                      : group->role == Group::Role::loops ? "llvm"
                      : group->role == Group::Role::node  ? "reference"
                                                          : group->kernel->name();
    for (const ir::Node* node : group->nodes) decision.operators.push_back(node->target());
    decision.refusals = group->refusals;
    if (group->role == Group::Role::loops) {
      const ir::Graph body = make_body(group->nodes, group->operands, group->results);
      for (const kernels::Kernel* kernel : library_kernels())
        decision.refusals.emplace_back(kernel->name(), kernels::objection(*kernel, body));
    }
    const std::vector<ir::SharedFrame>& frames = lowering.program.provenance.at(group->nodes.back()->provenance).frames;
    if (!frames.empty()) decision.line = frames.back()->file + ":" + std::to_string(frames.back()->line);
    report.decisions.push_back(std::move(decision));
  }
}

// How many nodes run each subgraph; 0 once it is lowered.
using Runners = std::map<std::string, int>;

Runners count_runners(ir::Variant& variant) {
  Runners runners;
  for (const ir::Graph* graph : ir::graphs_of(variant))
    for (const ir::Node& node : graph->forward())
      if (const std::optional<ir::ControlFlow> flow = ir::control_flow(node))
        for (const std::string& name : flow->bodies) ++runners[name];
  return runners;
}

bool is_static(const std::vector<SymInt>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const SymInt& size) { return size.is_constant(); });
}

// Operands that none of the bodies reads any more, such as weights that were packed, are not handed to them. Numbers
// and tensors of open sizes stay: symbols are read without a reader.
void drop_unread_operands(ir::Node& node, ir::Variant& variant) {
  ir::ControlFlow flow = *ir::control_flow(node);
  std::vector<ir::Graph*> bodies;
  for (const std::string& name : flow.bodies) bodies.push_back(&variant.subgraphs.at(name));
  for (size_t i = flow.operands.size(); i-- > 0;) {
    const auto is_needed = [&](const ir::Graph* body) {
      const ir::Value& input = *ir::input_of_operand(flow, *body, i);
      return input.has_users() || !input.is_tensor() || !is_static(input.meta().sizes);
    };
    if (std::any_of(bodies.begin(), bodies.end(), is_needed)) continue;
    for (ir::Graph* body : bodies) body->erase_input(ir::input_of_operand(flow, *body, i));
    flow.operands.erase(flow.operands.begin() + static_cast<ptrdiff_t>(i));
  }
  ir::set_operands(node, std::move(flow.operands));
}

Result<void> lower_graph(Lowering& lowering, Runners& runners);

// What the graph's control flow runs, each body once.
Result<void> lower_bodies(Lowering& lowering, Runners& runners) {
  for (ir::Node& node : lowering.graph().forward()) {
    const std::optional<ir::ControlFlow> flow = ir::control_flow(node);
    if (!flow) continue;
    const bool is_only_runner = std::all_of(flow->bodies.begin(), flow->bodies.end(),
                                            [&](const std::string& name) { return runners.at(name) == 1; });
    for (const std::string& name : flow->bodies) {
      if (std::exchange(runners.at(name), 0) == 0) continue;
      Lowering inner{lowering.opset,
                     lowering.options,
                     lowering.library,
                     lowering.program,
                     lowering.entry,
                     lowering.variant,
                     &*lowering.variant.subgraphs.find(name),
                     &lowering};
      if (is_only_runner) inner.runner = &node;
      if (Result<void> done = lower_graph(inner, runners); !done) return done;
    }
    if (is_only_runner) drop_unread_operands(node, lowering.variant);
  }
  return {};
}

Result<void> lower_graph(Lowering& lowering, Runners& runners) {
  lowering.facts =
      lowering.body ? lowering.entry.facts(lowering.variant, lowering.graph()) : lowering.entry.facts(lowering.variant);
  for (const ir::Symbol& symbol : lowering.entry.symbols)
    if (symbol.hint) lowering.hints[symbol.name] = *symbol.hint;
  if (Result<void> done = expand_composites(lowering); !done) return done;
  // Every node has a kernel, or a meaning in loops or in C++.
  group_nodes(lowering);
  for (bool changed = true; changed;) {
    order_groups(lowering);
    if (Result<void> done = choose_layouts(lowering); !done) return done;
    Result<bool> composed = compose_groups(lowering);
    if (!composed) return composed.error();
    changed = *composed;
  }
  // Every group is one call, and has a kernel.
  if (lowering.options.report) explain(lowering, *lowering.options.report);
  make_calls(lowering);
  find_indices(lowering);
  lowering.may_narrow = lowering.body ? lowering.around->may_narrow : !fits_caches(lowering);
  if (Result<void> done = lower_bodies(lowering, runners); !done) return done;
  if (lowering.options.winograd) choose_winograd(lowering);
  if (lowering.options.prepack)
    if (Result<void> done = prepack_weights(lowering); !done) return done;
  if (!lowering.body) plan_arena(lowering);  // results of a body are allocated as it runs
  return {};
}

}  // namespace

Result<ir::ExportedProgram> run(ir::ExportedProgram program, const opset::Opset& opset, const Options& options) {
  Result<Target> target = resolve_target(options.target);
  if (!target) return target.error();
  for (const ir::Graph* graph : ir::graphs_of(program))
    for (const ir::Node& node : graph->forward())
      if (ir::is_call(node))
        return error(Status::usage, 505, "the program is lowered already")
            .note("lower the program that this one was made from");
  if (Result<void> whole = program::verify_digests(program); !whole) return whole.error();
  KernelLibrary library;
  for (ir::EntryPoint& entry : program.entries)
    for (ir::Variant& variant : entry.variants) {
      Lowering lowering{opset, options, library, program, entry, variant};
      Runners runners = count_runners(variant);
      if (Result<void> done = lower_graph(lowering, runners); !done) return done.error();
    }
  if (Result<void> done = compile_library(library, program, *target); !done) return done.error();
  for (ir::Graph* graph : ir::graphs_of(program)) annotate_kernels(*graph, library);
  drop_unread_weights(program);
  store_in_rows(program);
  return program;
}

std::string to_text(const Report& report) {
  std::string text;
  for (const Decision& decision : report.decisions) {
    text +=
        "%" + decision.call + (decision.body.empty() ? "" : " in @" + decision.body) + ": " + decision.kernel + " for";
    for (const std::string& target : decision.operators) text += " " + target;
    if (!decision.line.empty()) text += "  # " + decision.line;
    text += "\n";
    if (!decision.note.empty()) text += "  " + decision.note + "\n";
    for (const auto& [kernel, reason] : decision.refusals) text += "  not " + kernel + ": " + reason + "\n";
  }
  return text;
}

std::string to_json(const Report& report) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const Decision& decision : report.decisions) {
    nlohmann::ordered_json refusals = nlohmann::ordered_json::array();
    for (const auto& [kernel, reason] : decision.refusals) refusals.push_back({{"kernel", kernel}, {"reason", reason}});
    calls.push_back({{"entry", decision.entry},
                     {"variant", decision.variant},
                     {"body", decision.body},
                     {"call", decision.call},
                     {"kernel", decision.kernel},
                     {"operators", decision.operators},
                     {"note", decision.note},
                     {"refusals", refusals},
                     {"line", decision.line}});
  }
  nlohmann::ordered_json json = {{"schema", 1}, {"calls", calls}};
  if (report.convolutions > 0)
    json["winograd"] = {{"convolutions", report.convolutions},
                        {"by_winograd", report.by_winograd},
                        {"error", report.winograd_error},
                        {"direct_error", report.direct_error}};
  return json_text(json, 1) + "\n";
}

}  // namespace atenon::lower
