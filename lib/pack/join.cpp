#include "pack/join.h"
#include "ir/control_flow.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace atenon::pack {
namespace {

void join_provenance(ir::ExportedProgram& into, ir::ExportedProgram& from) {
  std::vector<ir::ProvenanceId> moved;
  for (size_t id = 0; id < from.provenance.size(); ++id) {
    moved.push_back(into.provenance.intern(from.provenance.at(static_cast<ir::ProvenanceId>(id))));
  }
  for (ir::Graph* graph : ir::graphs_of(from)) {
    for (ir::Constraint& constraint : graph->assumptions) constraint.provenance = moved[constraint.provenance];
    for (ir::Node& node : graph->forward()) node.provenance = moved[node.provenance];
  }
  for (ir::EntryPoint& entry : from.entries) {
    for (ir::Variant& variant : entry.variants) {
      for (auto* constraints : {&variant.assumptions, &variant.guarantees}) {
        for (ir::Constraint& constraint : *constraints) constraint.provenance = moved[constraint.provenance];
      }
    }
  }
}

bool same_bytes(Storage& a, Storage& b) {
  return &a == &b || (a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0);
}

void join_code(ir::ExportedProgram& into, ir::ExportedProgram& from) {
  std::map<std::string, std::string> renamed;
  for (ir::CodeSegment& segment : from.code) {
    std::string name = segment.name;
    auto taken = [&] {
      return std::find_if(into.code.begin(), into.code.end(),
                          [&](const ir::CodeSegment& other) { return other.name == name; });
    };
    bool same = false;
    for (int suffix = 1; taken() != into.code.end(); ++suffix) {
      same = taken()->target == segment.target && same_bytes(*taken()->bytes, *segment.bytes);
      if (same) break;
      name = segment.name + "_" + std::to_string(suffix);
    }
    renamed[segment.name] = name;
    if (!same) into.code.push_back({name, segment.target, segment.bytes, segment.is_library});
  }
  for (ir::Graph* graph : ir::graphs_of(from))
    for (ir::Node& node : graph->forward()) {
      const ir::Argument* code = node.annotation("code");
      const auto found = code && code->is<std::string>() ? renamed.find(code->get<std::string>()) : renamed.end();
      if (found != renamed.end()) node.annotate("code", found->second);
    }
}

bool same_weight(const ir::Weight& a, const ir::Weight& b) {
  const Tensor &x = a.tensor, &y = b.tensor;
  return x.dtype == y.dtype && x.sizes == y.sizes && x.strides == y.strides && x.offset == y.offset &&
         a.layout == b.layout && same_bytes(*x.storage, *y.storage);
}

void join_weights(ir::ExportedProgram& into, ir::ExportedProgram& from) {
  std::map<std::string, std::string> renamed;
  std::map<const Storage*, std::shared_ptr<Storage>> shared;  // a storage of `from` -> the equal one of `into`
  std::vector<ir::Weight> added;
  std::set<std::string> taken;  // by weights that are not `into`'s: a package may hold `w` and `w_1` already
  for (const ir::Weight& weight : from.weights) taken.insert(weight.name);
  for (ir::Weight& weight : from.weights) {
    std::string name = weight.name;
    const ir::Weight* twin = into.weight(name);
    for (int suffix = 1; twin ? !same_weight(*twin, weight) : name != weight.name && taken.contains(name); ++suffix) {
      name = weight.name + "_" + std::to_string(suffix);
      twin = into.weight(name);
    }
    taken.insert(name);
    renamed[weight.name] = name;
    if (twin)
      shared[weight.tensor.storage.get()] = twin->tensor.storage;
    else
      added.push_back({name, weight.tensor, weight.layout});
  }
  // What was tied to a weight that is shared now, stays tied to it.
  for (ir::Weight& weight : added) {
    auto twin = shared.find(weight.tensor.storage.get());
    if (twin != shared.end()) weight.tensor.storage = twin->second;
    into.weights.push_back(std::move(weight));
  }
  for (ir::EntryPoint& entry : from.entries) {
    for (ir::InputSpec& spec : entry.signature.inputs) {
      if (ir::is_state(spec.kind)) spec.target = renamed.at(spec.target);
    }
    for (ir::OutputSpec& spec : entry.signature.outputs) {
      if (ir::updates_state(spec.kind)) spec.target = renamed.at(spec.target);
    }
  }
}

Result<void> join_extra_files(ir::ExportedProgram& into, Part& from) {
  for (ir::ExtraFile& file : from.program.extra_files) {
    const ir::ExtraFile* twin = into.extra_file(file.name);
    if (!twin)
      into.extra_files.push_back(std::move(file));
    else if (!same_bytes(*twin->bytes, *file.bytes))
      return error(Status::bad_input, 553,
                   "the extra file '" + file.name + "' of " + from.source +
                       " has another content than that of a program before it")
          .note("save one of them under another name");
  }
  return {};
}

}  // namespace

Result<void> join(ir::ExportedProgram& into, Part from) {
  join_provenance(into, from.program);
  join_code(into, from.program);
  join_weights(into, from.program);
  if (Result<void> joined = join_extra_files(into, from); !joined) return joined;
  for (ir::EntryPoint& entry : from.program.entries) {
    // entry("") would be the first, so the name is compared here.
    auto same = std::find_if(into.entries.begin(), into.entries.end(),
                             [&](const ir::EntryPoint& other) { return other.name == entry.name; });
    if (same == into.entries.end())
      into.entries.push_back(std::move(entry));
    else if (Result<void> joined = join_variants(*same, std::move(entry), from.source); !joined)
      return joined;
  }
  for (const ir::OpsetUse& use : from.program.opsets) {
    bool known = std::any_of(into.opsets.begin(), into.opsets.end(),
                             [&](const ir::OpsetUse& other) { return other.name == use.name; });
    if (!known) into.opsets.push_back(use);
  }
  for (std::string& block : from.program.custom_blocks) {
    bool known = std::find(into.custom_blocks.begin(), into.custom_blocks.end(), block) != into.custom_blocks.end();
    if (!known) into.custom_blocks.push_back(std::move(block));
  }
  for (ir::HistoryEntry& entry : from.program.history) into.history.push_back(std::move(entry));
  return {};
}

}  // namespace atenon::pack
