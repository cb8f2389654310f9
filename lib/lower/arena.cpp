// Slots of the arena: values that never live at the same time share one. And what is written where it lies: of a call
// that gives an output, `overwrites=[operand, ..]` names the operand that lies there, -1 for none.
//
// The largest choose first, so that each slot is as large as its first value, and what is small goes where there is
// room: a small value that came first would take a large one's slot, and that one another.
#include <algorithm>

#include "ir/call_body.h"
#include "ir/written_state.h"
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
  std::optional<size_t> overwritten(const ir::Node& call, size_t result) const;
  void find_outputs();
  void find_buffers();
  void choose_slots();
  void enlarge(Slot& slot, const Buffer& buffer) const;
  void annotate();

  Lowering& lowering_;
  std::map<const Value*, const Value*> base_;  // of aliases
  std::map<const Value*, size_t> position_;    // of the call that gives each
  std::map<const Value*, size_t> last_;        // the last call that reads each root; behind all, if it is returned
  size_t last_check_ = 0;                      // the last call that may refuse to run
  std::set<const Value*> in_outputs_;          // what lies where an output does, or the state that it becomes
  std::map<const Value*, size_t> overwrites_;  // of those, the operand in whose place each is written
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
      position_[result.get()] = position;
      last_.emplace(root(result.get()), position);
      if (result->returned > 0) returned.insert(root(result.get()));
    }
    if (call.annotation("indices") || kernels::kernel_of(call) == "reference") last_check_ = position;
    ++position;
  }
  for (const auto& input : lowering_.graph().inputs())
    if (input->returned > 0) returned.insert(input.get());
  for (const Value* value : returned) last_[value] = position;
}

// The operand that the result may take the place of, of those that nobody reads any more: a residual is added in place,
// and what is scattered goes into its base.
std::optional<size_t> Planner::overwritten(const ir::Node& call, size_t result) const {
  const kernels::Kernel* kernel = kernels::find(kernels::kernel_of(call));
  if (!kernel || call.results().size() > 1) return std::nullopt;
  const ir::Argument* code = call.annotation("code_key");
  const int base = code ? base_of_scatter(lowering_.library.kernels.at(code->get<std::string>()).loops) : -1;
  const std::vector<Value*> operands = call.operands();
  const ir::Graph& body = *ir::body_of(call, lowering_.variant);
  for (size_t j = 0; j < operands.size(); ++j) {
    const Value* operand = operands[j];
    const auto shows_it = [&](const Value* other) { return root(other) == operand; };
    const bool is_read_once = std::count_if(operands.begin(), operands.end(), shows_it) == 1;
    if (!is_read_once || last_.at(operand) != position_.at(call.result(result))) continue;
    if (static_cast<int>(j) != base && !kernel->may_overwrite(body, j)) continue;
    const Layout lies =
        operand->producer ? layout_of_result(*operand->producer, operand->index) : row_major(operand->meta().sizes);
    const ir::TensorMeta &was = operand->meta(), &becomes = call.result(result)->meta();
    if (was.dtype == becomes.dtype && was.sizes == becomes.sizes && lies == layout_of_result(call, result)) return j;
  }
  return std::nullopt;
}

// What an output is made from in place lies there from the first. State is written where it lies only if no call can
// refuse to run from then on: a run that fails changes no state.
void Planner::find_outputs() {
  for (size_t i = 0; i < lowering_.graph().outputs().size(); ++i) {
    const Value* value = lowering_.graph().outputs()[i].value();
    if (!value || !value->producer || root(value) != value || in_outputs_.contains(value)) continue;
    if (layout_of_result(*value->producer, value->index) != row_major(value->meta().sizes)) continue;
    const Value* const state = ir::state_before(lowering_.entry.signature, lowering_.graph(), i);
    while (value->producer) {
      in_outputs_.insert(value);
      const std::optional<size_t> operand = overwritten(*value->producer, value->index);
      if (!operand) break;
      const Value* const base = value->producer->operands()[*operand];
      if (!base->producer && (base != state || last_check_ > position_.at(value))) break;
      overwrites_[value] = *operand;
      value = base;
    }
  }
}

void Planner::find_buffers() {
  size_t position = 0;
  for (const ir::Node& call : lowering_.graph().forward()) {
    const std::vector<Value*> operands = call.operands();
    for (size_t i = 0; i < call.results().size(); ++i) {
      const Value* result = call.result(i);
      if (kernels::kernel_of(call) == "alias" || result->returned > 0 || in_outputs_.contains(result)) continue;
      const std::optional<size_t> operand = overwritten(call, i);
      const auto found = operand ? buffer_of_.find(operands[*operand]) : buffer_of_.end();
      size_t buffer = buffers_.size();
      if (found != buffer_of_.end()) {
        buffer = found->second;
      } else {
        const SymInt bytes = result->meta().numel() * static_cast<int64_t>(size_of(result->meta().dtype));
        buffers_.push_back({lowering_.facts.simplify(bytes), lowering_.typical(bytes), position, position});
      }
      buffer_of_[result] = buffer;
      buffers_[buffer].last = last_.at(result);
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
    ir::ArgumentList slots, overwrites;
    bool is_in_place = false;
    for (const auto& result : call.results()) {
      const auto found = buffer_of_.find(result.get());
      slots.push_back(found == buffer_of_.end() ? -1 : buffers_[found->second].slot);
      const auto operand = overwrites_.find(result.get());
      overwrites.push_back(operand == overwrites_.end() ? -1 : static_cast<int64_t>(operand->second));
      is_in_place |= operand != overwrites_.end();
    }
    call.annotate("slots", slots);
    if (is_in_place) call.annotate("overwrites", overwrites);
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
  find_outputs();
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
