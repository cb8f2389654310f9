// Generated kernels for groups of loops, and the calls that take the place of groups.
#include <algorithm>

#include "ir/control_flow.h"
#include "lower/link.h"
#include "lower/lowering.h"
#include "text/text.h"

namespace atenon::lower {

namespace {

using ir::Value;
using Role = Group::Role;

constexpr const char* code_name = "code";
// About what a core does in the time that it takes to hand out a tile, times ten.
constexpr int64_t elements_a_tile = 16384;

std::string layout_text(const Layout& layout) {
  std::string text = "{";
  for (const SymInt& stride : layout.strides) text += stride.to_string() + ",";
  for (const auto& [axis, size] : layout.inner_blocks) text += std::to_string(size) + "b" + std::to_string(axis) + ",";
  if (layout.stored) text += name_of(*layout.stored);
  return text + "}";
}

// What a kernel depends on: its body up to names and to where it came from, and where its operands and results lie.
std::string key_of(const Lowering& lowering, ir::Graph& body, const std::vector<Layout>& layouts) {
  int number = 0;
  for (const auto& input : body.inputs()) input->name = "x" + std::to_string(number++);
  for (ir::Node& node : body.forward()) {
    node.provenance = 0;
    for (const auto& result : node.results()) result->name = "y" + std::to_string(number++);
  }
  std::string key = text::print(body);
  for (const Layout& layout : layouts) key += layout_text(layout);
  // Other ranges of the symbols prove other things.
  for (const auto& [symbol, range] : lowering.facts.ranges())
    key += symbol + ":" + std::to_string(range.lower) + ".." + std::to_string(range.upper) + ";";
  for (const shape::SymBool& truth : lowering.facts.assumptions()) key += truth.to_string() + ";";
  return key;
}

// How many rows a tile has, so that it is worth handing out: by what one row costs, the domain inside it or the longest
// reduction. Sizes that are left open are for the run to say; what depends on loops or on values is typical.
SymInt grain_of(const Lowering& lowering, const Loops& loops) {
  const auto turns = [&](int loop) -> SymInt {
    const SymInt& most = loops.loops[loop].most;
    const bool is_free = loops.loops_of(most) == 0 && values_in(most).empty();
    return is_free ? most : SymInt(std::max<int64_t>(1, lowering.typical(most)));
  };
  SymInt inside = 1;
  for (size_t i = loops.rows; i < loops.domain.size(); ++i) inside = inside * turns(loops.domain[i]);
  for (const BoundReduction& reduction : loops.reductions) {
    SymInt extent = loops.lane >= 0 && reduction.outer >> loops.lane & 1 ? turns(loops.lane) : 1;
    for (int loop : reduction.loops)
      if (loops.loops_of(loops.loops[loop].extent) == 0) extent = extent * turns(loop);
    inside = shape::max(inside, extent);
  }
  return shape::max(1, shape::floor_div(elements_a_tile, shape::max(1, inside)));
}

Result<Loops> compose_body(const Lowering& lowering, const ir::Graph& body, const std::vector<Layout>& layouts) {
  std::map<const ir::Node*, opset::Meaning> meanings;
  for (const ir::Node& node : body.forward()) {
    Result<opset::Meaning> meaning = loops_of(lowering.opset, node, lowering.facts);
    if (!meaning) return meaning.error();
    meanings[&node] = std::move(*meaning);
  }
  std::map<const Value*, const Layout*> places;
  const size_t operands = body.inputs().size();
  for (size_t i = 0; i < operands; ++i) places[body.inputs()[i].get()] = &layouts[i];
  for (size_t i = operands; i < layouts.size(); ++i) places[body.outputs()[i - operands].value()] = &layouts[i];
  return compose(
      body, [&](const ir::Node& node) { return &meanings.at(&node); },
      [&](const Value& value) { return *places.at(&value); }, lowering.facts, lowering.hints);
}

}  // namespace

Result<std::string> generated_kernel(Lowering& lowering, ir::Graph body, const std::vector<Layout>& layouts) {
  const std::string key = key_of(lowering, body, layouts);
  std::map<std::string, KernelLibrary::Kernel>& kernels = lowering.library.kernels;
  if (kernels.count(key)) return key;
  Result<Loops> loops = compose_body(lowering, body, layouts);
  if (!loops) return loops.error();
  KernelLibrary::Kernel kernel{.symbol = "k" + std::to_string(kernels.size())};
  kernel.grain = grain_of(lowering, *loops);
  kernel.loops = std::move(*loops);
  kernels.emplace(key, std::move(kernel));
  return key;
}

Result<bool> compose_groups(Lowering& lowering) {
  bool changed = false;
  const size_t count = lowering.groups.size();
  for (size_t i = 0; i < count; ++i) {
    Group& group = *lowering.groups[i];
    if (group.role != Role::loops) continue;
    // Where a value lies, seen from its first element: that is where a kernel's buffer starts.
    std::vector<Layout> layouts;
    for (const auto& values : {group.operands, group.results})
      for (const Value* value : values) layouts.push_back({lowering.layout(*value).strides, 0});
    Result<std::string> key =
        generated_kernel(lowering, make_body(group.nodes, group.operands, group.results), layouts);
    if (key) {
      group.code_key = *key;
      continue;
    }
    changed = true;
    if (group.nodes.size() == 1) {
      group.role = Role::kernel;
      group.kernel = kernels::find("reference");
      group.refusals.emplace_back("llvm", key.failure().message);
      continue;
    }
    for (ir::Node* node : group.nodes) {
      auto single = std::make_unique<Group>();
      single->nodes = {node};
      lowering.group_of[node] = single.get();
      lowering.groups.push_back(std::move(single));
    }
    group.nodes.clear();
  }
  std::erase_if(lowering.groups, [](const auto& group) { return group->nodes.empty(); });
  return changed;
}

Result<void> compile_library(KernelLibrary& library, ir::ExportedProgram& program, const Target& target) {
  std::set<std::string> named;
  for (const ir::Graph* graph : ir::graphs_of(program))
    for (const ir::Node& call : graph->forward())
      if (const ir::Argument* key = call.annotation("code_key")) named.insert(key->get<std::string>());
  std::erase_if(library.kernels, [&](const auto& entry) { return !named.contains(entry.first); });
  std::erase_if(program.code, [](const ir::CodeSegment& segment) { return segment.name == code_name; });
  std::vector<KernelSource> sources;
  std::vector<KernelLibrary::Kernel*> kernels;
  for (auto& [key, kernel] : library.kernels) kernels.push_back(&kernel);
  std::sort(kernels.begin(), kernels.end(), [](const auto* a, const auto* b) {
    return std::stoi(a->symbol.substr(1)) < std::stoi(b->symbol.substr(1));
  });
  for (KernelLibrary::Kernel* kernel : kernels) sources.push_back({kernel->symbol, &kernel->loops});
  if (sources.empty()) return {};
  Result<Compiled> compiled = compile(sources, target);
  if (!compiled) return compiled.error();
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!compiled->refusals[i].empty())
      return error(Status::bug, 503, "a kernel has no code: " + compiled->refusals[i]);
    kernels[i]->scratch = compiled->scratch[i];
  }
  program.code.push_back({code_name, target.name, compiled->code});
  return {};
}

Layout layout_of_result(const ir::Node& call, size_t i) {
  Layout layout = row_major(call.result(i)->meta().sizes);
  const ir::Argument* strides = call.annotation("strides");
  if (!strides || !strides->get<ir::ArgumentList>()[i].is<ir::ArgumentList>()) return layout;
  const ir::ArgumentList& list = strides->get<ir::ArgumentList>()[i].get<ir::ArgumentList>();
  for (size_t axis = 0; axis < list.size(); ++axis) layout.strides[axis] = list[axis].get<SymInt>();
  return layout;
}

void make_calls(Lowering& lowering) {
  ir::Graph lowered;
  std::map<const Value*, Value*> mapped;
  for (const auto& input : lowering.graph().inputs()) mapped[input.get()] = lowered.add_input(input->name, input->type);
  const auto map = [&](Value* value) { return ir::Argument(mapped.at(value)); };
  for (const auto& group : lowering.groups) {
    if (group->role == Role::node) {
      const ir::Node& node = *group->nodes[0];
      const ir::Node* copy = lowered.add_copy(node, map);
      for (size_t i = 0; i < node.results().size(); ++i) mapped[node.result(i)] = copy->result(i);
      continue;
    }
    // Bodies are named after what they compute.
    const std::string wish = group->results.empty() ? "body" : group->results[0]->name;
    std::string name = wish;
    for (int number = 1; lowering.variant.subgraphs.count(name); ++number) name = wish + "_" + std::to_string(number);
    std::vector<ir::Argument> arguments = {ir::SubgraphRef{name}};
    for (const Value* operand : group->operands) arguments.push_back(mapped.at(operand));
    std::vector<ir::Graph::Result> results;
    for (const Value* result : group->results) results.push_back({result->name, result->type});
    ir::Node* call = lowered.add("atenon::call", std::move(arguments), {}, std::move(results));
    call->provenance = group->nodes.back()->provenance;
    ir::Graph meaning = make_body(group->nodes, group->operands, group->results);
    if (lowering.body) meaning.assumptions = lowering.graph().assumptions;  // hold whenever it is called
    lowering.variant.subgraphs.emplace(name, std::move(meaning));

    const bool is_alias = group->role == Role::alias;
    call->annotate("kernel", is_alias ? "alias" : group->role == Role::loops ? "llvm" : group->kernel->name());
    ir::ArgumentList strides, offsets;
    bool in_rows = true;
    for (size_t i = 0; i < group->results.size(); ++i) {
      mapped[group->results[i]] = call->result(i);
      const Layout layout = lowering.layout(*group->results[i]);
      if (layout == row_major(group->results[i]->meta().sizes)) {
        strides.push_back(ir::None{});
      } else {
        in_rows = false;
        strides.push_back(ir::ArgumentList(layout.strides.begin(), layout.strides.end()));
      }
      offsets.push_back(layout.offset);
    }
    if (!in_rows) call->annotate("strides", strides);
    if (is_alias && offsets[0] != ir::Argument(0)) {
      // The offset counts from where the operand starts.
      offsets[0] = offsets[0].get<SymInt>() - lowering.layout(*group->operands[0]).offset;
      call->annotate("offset", offsets);
    }
    if (group->role == Role::loops) call->annotate("code_key", group->code_key);
  }
  lowered.set_outputs(ir::map_values(lowering.graph().outputs(), map));
  lowered.assumptions = std::move(lowering.graph().assumptions);
  lowering.graph() = std::move(lowered);
  lowering.groups.clear();
  lowering.group_of.clear();
}

void annotate_kernels(ir::Graph& graph, const KernelLibrary& library) {
  for (ir::Node& call : graph.forward()) {
    const ir::Argument* key = call.annotation("code_key");
    if (!key) continue;
    const KernelLibrary::Kernel& kernel = library.kernels.at(key->get<std::string>());
    std::erase_if(call.annotations, [](const ir::Named& named) { return named.name == "code_key"; });
    call.annotate("code", code_name);
    call.annotate("symbol", kernel.symbol);
    ir::ArgumentList sizes;
    for (const std::string& symbol : kernel.loops.symbols) sizes.push_back(SymInt::symbol(symbol));
    call.annotate("sizes", sizes);
    call.annotate("rows", kernel.loops.row_count());
    call.annotate("grain", kernel.grain);
    call.annotate("scratch", kernel.scratch);
    if (kernel.loops.scatter) call.annotate("scattered", kernel.loops.scatter->count);
  }
}

}  // namespace atenon::lower
