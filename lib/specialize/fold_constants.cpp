// Computes nodes whose operands are all constants, with the reference kernels.
//
// A result much larger than what it is computed from (an expanded or filled tensor) is left to be computed at run time:
// bytes in a file cost more than such loops. But what is small again behind it, such as the sum over a large table, is
// computed here. Random operators stay, for each run draws anew. So do views that repeat what they view, or turn a
// weight which is read as it lies, too: kernels read it through them, and it is held once.
#include <algorithm>
#include <cstring>
#include <ranges>

#include "reference/reference.h"
#include "specialize/passes.h"

namespace atenon::specialize {
namespace {

constexpr size_t small_bytes = 64 * 1024;
constexpr size_t reduced_bytes = 1024 * 1024;    // of what much more is summed up in
constexpr size_t most_bytes = 32 * 1024 * 1024;  // of all large results, which take a tenth of a second for a MB

// A node that could be computed.
struct Candidate {
  ir::Node* node;
  bool is_small;  // so it is replaced
};

bool is_static(const ir::Node& node) {
  for (const auto& result : node.results()) {
    if (!result->is_tensor()) return false;
    for (const shape::SymInt& size : result->meta().sizes) {
      if (!size.is_constant()) return false;
    }
  }
  return ir::symbols_read(node).empty();
}

// Whether a node's result is its operand in another order of axes, and nodes that stay read what it is a view of.
bool turns_shared_weight(const ir::Node& node, const reference::Environment& environment,
                         const std::set<const ir::Node*>& gone) {
  if (node.results().size() != 1 || node.operands().empty()) return false;
  const auto tensor = [&](const ir::Value* value) { return std::get<Tensor>(environment.values.at(value)); };
  const Tensor result = tensor(node.result());
  const ir::Value* base = node.operands()[0];
  if (result.is_contiguous() || result.storage != tensor(base).storage || result.numel() != tensor(base).numel())
    return false;
  while (base->producer && gone.contains(base->producer) && !base->producer->operands().empty() &&
         tensor(base->producer->operands()[0]).storage == result.storage)
    base = base->producer->operands()[0];
  return std::any_of(base->users.begin(), base->users.end(),
                     [&](const ir::Node* user) { return !gone.contains(user); });
}

// Whether a node's result shows elements of its operand again and again: loops that read it through the node see that
// they are the same.
bool repeats_operand(const ir::Node& node, const reference::Environment& environment) {
  if (node.results().size() != 1 || node.operands().empty()) return false;
  const auto tensor = [&](const ir::Value* value) { return std::get<Tensor>(environment.values.at(value)); };
  const Tensor result = tensor(node.result()), operand = tensor(node.operands()[0]);
  return result.storage == operand.storage && result.numel() > operand.numel();
}

// Holds no more bytes than it shows.
Tensor compact(const Tensor& tensor) {
  if (!tensor.is_contiguous() || tensor.storage->size() <= 2 * tensor.nbytes()) return tensor;
  Tensor copy = Tensor::empty(tensor.dtype, tensor.sizes);
  std::memcpy(copy.mutable_data(), tensor.data(), tensor.nbytes());
  return copy;
}

size_t bytes_of(const ir::Value& value) {
  return static_cast<size_t>(*value.meta().numel().constant()) * size_of(value.meta().dtype);
}

// Nodes that could be computed, in order; the weights that they read come into `environment`.
std::vector<Candidate> find_candidates(const Scope& scope, reference::Environment& environment) {
  // Values that are constants, weights and what could be computed from them, with the bytes that they come from.
  std::map<const ir::Value*, size_t> sources;
  auto constant = [&](ir::Value* value) {
    if (sources.contains(value)) return true;
    std::optional<Tensor> tensor = constant_behind(scope, value);
    if (tensor) environment.values.emplace(value, *tensor), sources.emplace(value, tensor->nbytes());
    return tensor.has_value();
  };
  std::vector<Candidate> candidates;
  size_t left = most_bytes;
  for (ir::Node& node : scope.variant.graph.forward()) {
    const opset::Operator* op = scope.opset.find(node.target());
    if (!op || op->has_tag("random") || op->has_tag("keep") || op->is_declared() || !is_static(node)) continue;
    std::vector<ir::Value*> operands = node.operands();
    if (!std::all_of(operands.begin(), operands.end(), constant)) continue;
    size_t small = 0, large = 0, largest = 0, output_bytes = 0;  // a large operand may be read twice
    for (ir::Value* operand : operands) {
      const size_t bytes = sources.at(operand);
      bytes < bytes_of(*operand) ? large = std::max(large, bytes) : small += bytes;
      largest = std::max(largest, bytes_of(*operand));
    }
    for (const auto& result : node.results())
      if (result->returned > 0 || !result->users.empty()) output_bytes += bytes_of(*result);
    const bool is_reduced = output_bytes <= largest / 8 && output_bytes <= reduced_bytes;
    const bool is_small = is_reduced || output_bytes <= small_bytes || output_bytes <= 2 * (small + large);
    if (!is_small && output_bytes > left) continue;
    if (!is_small) left -= output_bytes;
    for (const auto& result : node.results())
      sources.emplace(result.get(), is_small ? bytes_of(*result) : small + large);
    candidates.push_back({&node, is_small});
  }
  return candidates;
}

// Large results are candidates only where a small one needs them.
void keep_needed(std::vector<Candidate>& candidates) {
  std::set<const ir::Node*> needed;
  auto is_needed = [&](const ir::Node* node) { return needed.contains(node); };
  for (const Candidate& candidate : std::views::reverse(candidates)) {
    bool is_read = candidate.is_small;
    for (const auto& result : candidate.node->results())
      is_read = is_read || std::any_of(result->users.begin(), result->users.end(), is_needed);
    if (is_read) needed.insert(candidate.node);
  }
  std::erase_if(candidates, [&](const Candidate& candidate) { return !is_needed(candidate.node); });
}

}  // namespace

Result<Changed> fold_constants(Scope& scope) {
  Changed changed = Changed::no;
  reference::Environment environment;
  std::vector<Candidate> candidates = find_candidates(scope, environment);
  keep_needed(candidates);
  std::set<const ir::Node*> gone;
  for (const Candidate& candidate : candidates) {
    if (Result<void> done = reference::evaluate(scope.opset, *candidate.node, environment); !done) return done.error();
    if (candidate.is_small && !repeats_operand(*candidate.node, environment)) gone.insert(candidate.node);
  }
  auto is_gone = [&](const ir::Node* node) { return gone.contains(node); };
  for (const Candidate& candidate : std::views::reverse(candidates)) {
    const bool is_unread = std::ranges::all_of(candidate.node->results(), [&](const auto& result) {
      return result->returned == 0 && std::all_of(result->users.begin(), result->users.end(), is_gone);
    });
    if (is_unread) gone.insert(candidate.node);
  }
  // Only what is read by a node that stays becomes a weight.
  for (const auto& [node, is_small] : candidates) {
    if (!is_small || repeats_operand(*node, environment)) continue;
    for (const auto& result : node->results()) {
      bool is_read = result->returned > 0;
      for (const ir::Node* user : result->users) is_read = is_read || !is_gone(user);
      if (!is_read || turns_shared_weight(*node, environment, gone)) continue;
      scope.report("folded " + node->target() + " %" + result->name);
      const Tensor tensor = compact(std::get<Tensor>(environment.values.at(result.get())));
      ir::Value* value = add_constant(scope, "folded." + result->name, tensor);
      environment.values.emplace(value, tensor);  // nodes behind read it from now on
      scope.variant.graph.replace_uses(result.get(), value);
      changed = Changed::yes;
    }
  }
  for (const Candidate& candidate : std::views::reverse(candidates)) {
    if (!candidate.node->has_users()) scope.variant.graph.erase(*candidate.node);
  }
  return changed;
}

}  // namespace atenon::specialize
