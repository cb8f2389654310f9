#include "capture/same_computation.h"

#include <algorithm>

#include "capture/tensor_data.h"
#include "opset/call.h"

namespace atenon::capture {
namespace {

using Values = std::map<const ir::Value*, ir::Value*>;

// The nodes of a graph that do something.
struct Work {
  std::vector<const ir::Node*> nodes;
  Values origin;  // of values that are another one unchanged: that one
};

std::optional<Work> work_of(const ir::EntryPoint& entry, const opset::Opset& opset) {
  const ir::Variant& variant = entry.variants[0];
  const shape::Facts facts = entry.facts(variant);
  Work work;
  for (const ir::Node& node : variant.graph.forward()) {
    const Result<ir::Value*> operand = opset::unchanged_operand(opset, node, facts);
    if (!operand) return std::nullopt;
    if (!*operand) {
      work.nodes.push_back(&node);
      continue;
    }
    const auto known = work.origin.find(*operand);
    work.origin[node.result()] = known == work.origin.end() ? *operand : known->second;
  }
  return work;
}

// Joins the inputs of b's graph to those of a's.
bool join_inputs(const ir::ExportedProgram& a, const ir::ExportedProgram& b, Values& twins) {
  const std::vector<ir::InputSpec>&specs = a.entries[0].signature.inputs, &others = b.entries[0].signature.inputs;
  for (const ir::InputSpec& other : others) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const ir::InputSpec& candidate) {
      return candidate.kind == other.kind && candidate.target == other.target;
    });
    if (spec == specs.end() || spec->value.empty() != other.value.empty() || spec->constant != other.constant)
      return false;
    if (other.value.empty()) continue;
    ir::Value* const twin = a.entries[0].variants[0].graph.find(spec->value);
    const ir::Value* const value = b.entries[0].variants[0].graph.find(other.value);
    if (twin->type != value->type) return false;
    const ir::Weight *weight = a.weight(spec->target), *same = b.weight(other.target);
    if (other.kind != ir::InputKind::user_input && !(weight && same && hold_the_same(weight->tensor, same->tensor)))
      return false;
    twins[value] = twin;
  }
  return true;
}

bool give_alike(const ir::GraphSignature& a, const ir::GraphSignature& b) {
  return a.output_tree == b.output_tree &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                    [](const auto& x, const auto& y) { return x.kind == y.kind && x.target == y.target; });
}

}  // namespace

bool compute_the_same(const ir::ExportedProgram& a, const ir::ExportedProgram& b, const opset::Opset& opset) {
  const ir::EntryPoint &entry = a.entries[0], &other = b.entries[0];
  const ir::Variant &ours = entry.variants[0], &theirs = other.variants[0];
  if (!ours.subgraphs.empty() || !theirs.subgraphs.empty() || !ours.guarantees.empty() || !theirs.guarantees.empty())
    return false;
  Values twins;
  if (!give_alike(entry.signature, other.signature) || !join_inputs(a, b, twins)) return false;
  const std::optional<Work> left = work_of(entry, opset), right = work_of(other, opset);
  if (!left || !right || left->nodes.size() != right->nodes.size()) return false;

  const auto origin = [&](ir::Value* value) -> ir::Argument {
    const auto found = left->origin.find(value);
    return found == left->origin.end() ? value : found->second;
  };
  const auto twin = [&](ir::Value* value) -> ir::Argument {
    const auto found = right->origin.find(value);
    const auto same = twins.find(found == right->origin.end() ? value : found->second);
    return same == twins.end() ? ir::Argument(ir::None{}) : same->second;
  };
  for (size_t i = 0; i < left->nodes.size(); ++i) {
    const ir::Node &x = *left->nodes[i], &y = *right->nodes[i];
    if (x.target() != y.target() || x.results().size() != y.results().size() ||
        ir::map_values(x.arguments(), origin) != ir::map_values(y.arguments(), twin) ||
        x.keywords().size() != y.keywords().size())
      return false;
    for (size_t k = 0; k < x.keywords().size(); ++k)
      if (x.keywords()[k].name != y.keywords()[k].name ||
          ir::map_values(x.keywords()[k].argument, origin) != ir::map_values(y.keywords()[k].argument, twin))
        return false;
    for (size_t r = 0; r < x.results().size(); ++r) {
      ir::Value *mine = x.results()[r].get(), *same = y.results()[r].get();
      // The name of a number is a symbol.
      if (mine->type != same->type || (!mine->is_tensor() && mine->name != same->name)) return false;
      twins[same] = mine;
    }
  }
  return ir::map_values(ours.graph.outputs(), origin) == ir::map_values(theirs.graph.outputs(), twin);
}

}  // namespace atenon::capture
