// Slots of the arena: a value takes one that is free while it lives.
#include <algorithm>
#include <array>

#include "kernels/body.h"
#include "lower/lowering.h"

namespace atenon::lower {

namespace {

using ir::Value;

class Planner {
 public:
  explicit Planner(Lowering& lowering) : lowering_(lowering) {}
  void run();

 private:
  const Value* root(const Value* value) const;
  int take_slot(const SymInt& bytes);
  bool fits(const SymInt& bytes, const SymInt& slot) const;

  Lowering& lowering_;
  std::array<shape::Bindings, 3> tried_;       // least, large and typical sizes: what is not so there needs no proof
  std::map<const Value*, const Value*> base_;  // of aliases
  std::vector<SymInt> slots_;                  // bytes
  std::vector<bool> is_free_;
};

const Value* Planner::root(const Value* value) const {
  for (auto found = base_.find(value); found != base_.end(); found = base_.find(value)) value = found->second;
  return value;
}

bool Planner::fits(const SymInt& bytes, const SymInt& slot) const {
  for (const shape::Bindings& sizes : tried_) {
    const std::optional<int64_t> wanted = shape::evaluate(bytes, sizes), there = shape::evaluate(slot, sizes);
    if (wanted && there && *wanted > *there) return false;
  }
  return lowering_.facts.decide(shape::less_equal(bytes, slot)) == shape::Truth::proven;
}

// The free slot that wastes least at the hints; one that must grow is better than a new one if the sizes can be
// compared.
int Planner::take_slot(const SymInt& bytes) {
  int best = -1;
  int64_t least = 0;
  const int64_t wanted = lowering_.typical(bytes);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!is_free_[i] || !(fits(bytes, slots_[i]) || fits(slots_[i], bytes))) continue;
    const int64_t difference = std::abs(lowering_.typical(slots_[i]) - wanted);
    if (best < 0 || difference < least) best = static_cast<int>(i), least = difference;
  }
  if (best < 0) {
    best = static_cast<int>(slots_.size());
    slots_.push_back(bytes);
    is_free_.push_back(true);
  } else if (!fits(bytes, slots_[best])) {
    slots_[best] = bytes;
  }
  is_free_[best] = false;
  return best;
}

void Planner::run() {
  for (const auto& [symbol, range] : lowering_.facts.ranges()) {
    tried_[0][symbol] = std::max<int64_t>(range.lower, 0);
    tried_[1][symbol] = std::clamp<int64_t>(range.upper, 0, 4096);
  }
  tried_[2] = lowering_.hints;
  ir::Graph& graph = lowering_.graph();
  for (ir::Node& call : graph.forward())
    if (kernels::kernel_of(call) == "alias") base_[call.result()] = call.operands()[0];
  // The last call that reads each root, by position.
  std::map<const Value*, size_t> last;
  std::set<const Value*> returned;
  size_t position = 0;
  for (ir::Node& call : graph.forward()) {
    for (const Value* operand : call.operands()) last[root(operand)] = position;
    for (const auto& result : call.results()) {
      last.emplace(root(result.get()), position);
      if (result->returned > 0) returned.insert(root(result.get()));
    }
    ++position;
  }
  std::map<const Value*, int> slot_of;
  position = 0;
  for (ir::Node& call : graph.forward()) {
    const std::string name = kernels::kernel_of(call);
    ir::ArgumentList slots;
    std::set<const Value*> dying;
    for (const Value* operand : call.operands()) {
      const Value* base = root(operand);
      if (slot_of.count(base) && last[base] == position && !returned.count(base)) dying.insert(base);
    }
    for (size_t i = 0; i < call.results().size(); ++i) {
      const Value* result = call.result(i);
      if (name == "alias" || result->returned > 0) {
        slots.push_back(-1);
        continue;
      }
      // A residual is added in place.
      int slot = -1;
      const kernels::Kernel* kernel = kernels::find(name);
      const std::vector<Value*> operands = call.operands();
      const ir::Graph& body = lowering_.variant.subgraphs.at(call.arguments()[0].get<ir::SubgraphRef>().name);
      for (size_t j = 0; j < operands.size() && slot < 0; ++j) {
        const bool is_whole = operands[j] == root(operands[j]) && dying.count(operands[j]) &&
                              std::count(operands.begin(), operands.end(), operands[j]) == 1;
        if (!is_whole || !kernel || !kernel->may_overwrite(body, j)) continue;
        if (layout_of_result(*operands[j]->producer, operands[j]->index) != layout_of_result(call, i)) continue;
        slot = slot_of.at(operands[j]);
        dying.erase(operands[j]);
      }
      if (slot < 0) {
        SymInt bytes = result->meta().numel() * static_cast<int64_t>(size_of(result->meta().dtype));
        slot = take_slot(lowering_.facts.simplify(bytes));
      }
      slot_of[result] = slot;
      slots.push_back(slot);
    }
    call.annotate("slots", slots);
    for (const Value* base : dying) is_free_[slot_of.at(base)] = true;
    for (const auto& result : call.results())
      if (slot_of.count(result.get()) && !result->has_users()) is_free_[slot_of.at(result.get())] = true;
    ++position;
  }
  SymInt total = 0;
  ir::ArgumentList sizes;
  for (const SymInt& bytes : slots_) {
    sizes.push_back(bytes);
    total = total + shape::floor_div(bytes + 63, 64) * 64;
  }
  auto annotate = [&](const std::string& name, ir::Argument value) {
    std::erase_if(lowering_.variant.annotations, [&](const ir::Named& named) { return named.name == name; });
    lowering_.variant.annotations.push_back({name, std::move(value)});
  };
  annotate("slots", sizes);
  annotate("arena", total);
}

}  // namespace

void plan_arena(Lowering& lowering) {
  // Sizes that only data decide are allocated when they are known.
  for (const ir::Node& node : lowering.graph().forward())
    if (stays(node)) return;
  Planner(lowering).run();
}

}  // namespace atenon::lower
