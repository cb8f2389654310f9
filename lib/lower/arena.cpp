// Slots of the arena: values that never live at the same time share one.
//
// The largest choose first, so that each slot is as large as its first value, and what is small goes where there is
// room: a small value that came first would take a large one's slot, and that one another.
#include <algorithm>

#include "ir/call_body.h"
#include "kernels/body.h"
#include "lower/lowering.h"

namespace atenon::lower {

namespace {

using ir::Value;

// Memory that a value lives in, and after it those that are written in its place.
struct Buffer {
  SymInt bytes;
  int64_t typical;
  size_t first, last;  // calls
  int slot = -1;
};

struct Slot {
  std::vector<SymInt> sizes = {};  // bytes: as many as the largest of these, none of which is known to hold another
  int64_t typical = 0;
  std::vector<const Buffer*> buffers = {};

  bool is_free(const Buffer& wanted) const {
    return std::none_of(buffers.begin(), buffers.end(), [&](const Buffer* other) {
      return other->first <= wanted.last && wanted.first <= other->last;
    });
  }
};

class Planner {
 public:
  explicit Planner(Lowering& lowering) : lowering_(lowering) {}
  void run();

 private:
  const Value* root(const Value* value) const;
  void find_lives();
  void find_buffers();
  int overwritten(const ir::Node& call, size_t result, std::set<const Value*>& dying) const;
  void choose_slots();
  void enlarge(Slot& slot, const Buffer& buffer) const;
  void annotate();

  Lowering& lowering_;
  std::map<const Value*, const Value*> base_;  // of aliases
  std::map<const Value*, size_t> last_;        // the last call that reads each root; behind all, if it is returned
  std::vector<Buffer> buffers_;
  std::map<const Value*, size_t> buffer_of_;
  std::vector<Slot> slots_;
};

const Value* Planner::root(const Value* value) const {
  for (auto found = base_.find(value); found != base_.end(); found = base_.find(value)) value = found->second;
  return value;
}

// Pairs of sizes are compared, not their maximum: layers repeat them, and few cases are left to prove.
void Planner::enlarge(Slot& slot, const Buffer& buffer) const {
  const auto fits = [&](const SymInt& part, const SymInt& whole) {
    return lowering_.facts.proves(shape::less_equal(part, whole));
  };
  slot.buffers.push_back(&buffer);
  slot.typical = std::max(slot.typical, buffer.typical);
  for (const SymInt& size : slot.sizes)
    if (fits(buffer.bytes, size)) return;
  std::erase_if(slot.sizes, [&](const SymInt& size) { return fits(size, buffer.bytes); });
  slot.sizes.push_back(buffer.bytes);
}

void Planner::find_lives() {
  std::set<const Value*> returned;
  size_t position = 0;
  for (const ir::Node& call : lowering_.graph().forward()) {
    if (kernels::kernel_of(call) == "alias") base_[call.result()] = call.operands()[0];
    for (const Value* operand : call.operands()) last_[root(operand)] = position;
    for (const auto& result : call.results()) {
      last_.emplace(root(result.get()), position);
      if (result->returned > 0) returned.insert(root(result.get()));
    }
    ++position;
  }
  for (const Value* value : returned) last_[value] = position;
}

// The buffer of an operand that the result may take the place of, or -1: a residual is added in place.
int Planner::overwritten(const ir::Node& call, size_t result, std::set<const Value*>& dying) const {
  const kernels::Kernel* kernel = kernels::find(kernels::kernel_of(call));
  if (!kernel) return -1;
  const std::vector<Value*> operands = call.operands();
  const ir::Graph& body = *ir::body_of(call, lowering_.variant);
  for (size_t j = 0; j < operands.size(); ++j) {
    const bool is_whole = operands[j] == root(operands[j]) && dying.count(operands[j]) &&
                          std::count(operands.begin(), operands.end(), operands[j]) == 1;
    if (!is_whole || !kernel->may_overwrite(body, j)) continue;
    if (layout_of_result(*operands[j]->producer, operands[j]->index) != layout_of_result(call, result)) continue;
    dying.erase(operands[j]);
    return static_cast<int>(buffer_of_.at(operands[j]));
  }
  return -1;
}

void Planner::find_buffers() {
  size_t position = 0;
  for (const ir::Node& call : lowering_.graph().forward()) {
    std::set<const Value*> dying;
    for (const Value* operand : call.operands()) {
      const Value* base = root(operand);
      if (buffer_of_.count(base) && last_[base] == position) dying.insert(base);
    }
    for (size_t i = 0; i < call.results().size(); ++i) {
      const Value* result = call.result(i);
      if (kernels::kernel_of(call) == "alias" || result->returned > 0) continue;
      int buffer = overwritten(call, i, dying);
      if (buffer < 0) {
        buffer = static_cast<int>(buffers_.size());
        const SymInt bytes = result->meta().numel() * static_cast<int64_t>(size_of(result->meta().dtype));
        buffers_.push_back({lowering_.facts.simplify(bytes), lowering_.typical(bytes), position, position});
      }
      buffer_of_[result] = static_cast<size_t>(buffer);
      buffers_[static_cast<size_t>(buffer)].last = last_.at(result);
    }
    ++position;
  }
}

// The free slot that wastes least at the hints; one that must grow is better than a new one.
void Planner::choose_slots() {
  std::vector<Buffer*> order;
  for (Buffer& buffer : buffers_) order.push_back(&buffer);
  std::stable_sort(order.begin(), order.end(),
                   [](const Buffer* a, const Buffer* b) { return a->typical > b->typical; });
  for (Buffer* buffer : order) {
    int64_t least = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const int64_t waste = std::abs(slots_[i].typical - buffer->typical);
      if ((buffer->slot >= 0 && waste >= least) || !slots_[i].is_free(*buffer)) continue;
      buffer->slot = static_cast<int>(i), least = waste;
    }
    if (buffer->slot < 0) {
      buffer->slot = static_cast<int>(slots_.size());
      slots_.emplace_back();
    }
    enlarge(slots_[static_cast<size_t>(buffer->slot)], *buffer);
  }
}

void Planner::annotate() {
  for (ir::Node& call : lowering_.graph().forward()) {
    ir::ArgumentList slots;
    for (const auto& result : call.results()) {
      const auto found = buffer_of_.find(result.get());
      slots.push_back(found == buffer_of_.end() ? -1 : buffers_[found->second].slot);
    }
    call.annotate("slots", slots);
  }
  SymInt total = 0;
  ir::ArgumentList sizes;
  for (const Slot& slot : slots_) {
    SymInt bytes = slot.sizes[0];
    for (const SymInt& size : slot.sizes) bytes = shape::max(bytes, size);
    sizes.push_back(bytes);
    total = total + shape::floor_div(bytes + 63, 64) * 64;
  }
  const auto set = [&](const std::string& name, ir::Argument value) {
    std::erase_if(lowering_.variant.annotations, [&](const ir::Named& named) { return named.name == name; });
    lowering_.variant.annotations.push_back({name, std::move(value)});
  };
  set("slots", sizes);
  set("arena", total);
}

void Planner::run() {
  find_lives();
  find_buffers();
  choose_slots();
  annotate();
}

}  // namespace

void plan_arena(Lowering& lowering) {
  // Sizes that only data decide are allocated when they are known.
  for (const ir::Node& node : lowering.graph().forward())
    if (stays(node)) return;
  Planner(lowering).run();
}

}  // namespace atenon::lower
