// Loops, level by level: reductions grouped, values kept, results stored.
#include "lower/generate.h"

#include <algorithm>
#include <cassert>

#include "lower/generator.h"
#include "lower/index.h"

namespace atenon::lower {

using llvm::BasicBlock;
using llvm::Value;

namespace {

constexpr int64_t least_stretch = 8;    // turns; of shorter ones there are few, or what they compute is cheap
constexpr int64_t most_unrolled = 512;  // turns of short stretches, which are unrolled
constexpr int cheap = 16, cheap_enough_to_repeat = 64;
constexpr size_t most_stretches = 128, most_with_bends = 8;

// What a comparison of places compares.
std::optional<SymInt> place_of(const Expr& expr) {
  if (expr.op == ScalarOp::size) return expr.index;
  return expr.op == ScalarOp::constant ? std::optional<SymInt>(expr.integer) : std::nullopt;
}

}  // namespace

// Every reduction that `id` needs, inner ones included, each after those that it needs.
void Generator::find_reductions(ExprId id, std::set<ExprId>& seen, std::vector<int>& found) {
  if (!seen.insert(id).second) return;
  const Expr& expr = loops_.exprs[id];
  if (expr.op == ScalarOp::reduce) {
    const BoundReduction& reduction = loops_.reductions[expr.reduction];
    for (ExprId part : reduction.element) find_reductions(part, seen, found);
    for (ExprId part : reduction.identity) find_reductions(part, seen, found);
    if (reduction.guard != no_expr) find_reductions(reduction.guard, seen, found);
    if (std::find(found.begin(), found.end(), expr.reduction) == found.end()) found.push_back(expr.reduction);
    return;
  }
  each_operand(loops_, id, [&](ExprId operand) { find_reductions(operand, seen, found); });
}

int Generator::group_of(int number, std::map<int, int>& groups, const std::vector<int>& here) {
  if (auto found = groups.find(number); found != groups.end()) return found->second;
  const BoundReduction& reduction = loops_.reductions[number];
  std::vector<int> needs;
  std::set<ExprId> seen;
  for (ExprId part : reduction.element) find_reductions(part, seen, needs);
  for (ExprId part : reduction.identity) find_reductions(part, seen, needs);
  if (reduction.guard != no_expr) find_reductions(reduction.guard, seen, needs);
  int group = 0;
  for (int need : needs)
    if (std::find(here.begin(), here.end(), need) != here.end())
      group = std::max(group, group_of(need, groups, here) + 1);
  groups[number] = group;
  return group;
}

// Walks what a phase computes for each element, down to what an earlier phase could have kept.
void Generator::visit_phase(ExprId id, Phase& phase, size_t number, std::vector<Phase>& phases) {
  const Expr& expr = loops_.exprs[id];
  const LoopSet inner = set_of(phase.loops);
  if (!(expr.loops & inner) || expr.op == ScalarOp::reduce || phase.visited.count(id) || kept_.count(id)) return;
  const LoopSet own = expr.loops & inner;
  std::set<ExprId> seen;
  if (expr.op != ScalarOp::size && !expr.is_partial && cost_of(loops_, id, inner, seen) >= worth_keeping) {
    for (size_t earlier = 0; earlier < number; ++earlier) {
      Phase& other = phases[earlier];
      if (set_of(other.loops) != own || !has_fixed_size(other.loops)) continue;
      if (!other.reductions.empty() && (own != inner || !other.visited.count(id))) continue;
      if (std::find(other.keep.begin(), other.keep.end(), id) == other.keep.end()) other.keep.push_back(id);
      return;
    }
  }
  phase.visited.insert(id);
  each_operand(loops_, id, [&](ExprId operand) { visit_phase(operand, phase, number, phases); });
}

// The reductions that can be computed here, grouped, and after them the loops that are left.
std::vector<Generator::Phase> Generator::plan(const std::vector<ExprId>& roots, const std::vector<int>& inner) {
  // What depends on the lanes is computed for all of them before their loop is opened for good.
  const bool has_lanes = lanes_are_closed();
  const LoopSet lane = has_lanes ? lane_loop() : 0, open = open_loops() | lane;
  std::vector<int> found, here;
  std::set<ExprId> seen;
  for (ExprId root : roots) find_reductions(root, seen, found);
  for (int number : found) {
    const BoundReduction& reduction = loops_.reductions[number];
    const size_t first = valid_from(reduction.outer), first_in_lanes = valid_from(reduction.outer & ~lane_loop());
    bool is_done = false;
    for (size_t i = first_in_lanes; i < scopes_.size(); ++i)
      is_done |= scopes_[i].in_lanes.count(number) || (i >= first && scopes_[i].reduced.count(number));
    if (!is_done && !reduction.is_prefix && !(reduction.outer & ~open)) here.push_back(number);
  }
  std::map<int, int> groups;
  std::vector<std::pair<int, Phase>> phases;
  for (int number : here) {
    const BoundReduction& reduction = loops_.reductions[number];
    const int group = group_of(number, groups, here);
    std::vector<int> loops = reduction.loops;
    const bool is_in_lanes = reduction.outer & lane;
    if (is_in_lanes) loops.push_back(loops_.lane);
    auto same = std::find_if(phases.begin(), phases.end(),
                             [&](const auto& phase) { return phase.first == group && phase.second.loops == loops; });
    if (same == phases.end())
      same = phases.insert(phases.end(), {group, Phase{.loops = loops, .is_in_lanes = is_in_lanes}});
    same->second.reductions.push_back(number);
    for (ExprId part : reduction.element) same->second.roots.push_back(part);
    if (reduction.guard != no_expr) same->second.roots.push_back(reduction.guard);
  }
  std::stable_sort(phases.begin(), phases.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Phase> result;
  for (auto& [group, phase] : phases) result.push_back(std::move(phase));
  if (loops_.sharing > 0 && inner.size() == loops_.sharing + 1) result.push_back(Phase{.loops = {inner.back()}});
  result.push_back(Phase{.loops = inner, .roots = roots});
  for (size_t number = 0; number < result.size(); ++number)
    for (ExprId root : result[number].roots) visit_phase(root, result[number], number, result);
  return result;
}

// A long sum of lanes, or one whose prefixes are kept, has its terms added one after the other: in double, so that
// their rounding does not show.
ScalarType Generator::accumulator_type(int number, size_t component) const {
  const BoundReduction& reduction = loops_.reductions[number];
  const ScalarType dtype = loops_.exprs[reduction.identity[component]].dtype;
  const bool is_in_turn = reduction.is_prefix || reduction.outer & lane_loop();
  if (reduction.monoid != "sum" || !is_floating(dtype) || !is_in_turn) return dtype;
  const bool is_short = terms_of(loops_, reduction) < long_sum || (sums_are_short_ && open_terms(reduction));
  return is_short ? dtype : ScalarType::f64;
}

void Generator::accumulate(int number, std::span<Value* const> accumulators) {
  const BoundReduction& reduction = loops_.reductions[number];
  std::vector<Value*> element, before;
  for (ExprId part : reduction.element) element.push_back(value(part));
  const size_t scope = scopes_.size() - 1;
  for (size_t s = scope; s > 0 && !reduction.is_prefix; --s) {  // of its innermost loop, perhaps around a condition
    if (!scopes_[s].counter) continue;
    for (int loop : reduction.loops) scopes_[s].accumulates |= (scopes_[s].loops & bit(loop)) != 0;
    break;
  }
  enter(scope);
  for (size_t c = 0; c < element.size(); ++c) before.push_back(read_slot(accumulators[c], accumulator_type(number, c)));
  const ScalarType dtype = loops_.exprs[reduction.identity[0]].dtype;
  const bool is_float = is_floating(dtype);
  if (element.size() == 1 && is_float && (reduction.monoid == "sum" || reduction.monoid == "prod")) {
    // Only here may the order change: the loop is wide because its partial sums are.
    llvm::FastMathFlags flags;
    if (!reduction.is_prefix) flags.setAllowReassoc();
    flags.setAllowContract();
    Value* term = as_type(element[0], before[0]->getType());
    Value* joined = reduction.monoid == "sum" ? b_.CreateFAdd(before[0], term) : b_.CreateFMul(before[0], term);
    if (auto* operation = llvm::dyn_cast<llvm::Instruction>(joined)) operation->setFastMathFlags(flags);
    b_.CreateStore(joined, accumulators[0]);
    return;
  }
  std::vector<Value*> joined;
  for (size_t c = 0; c < element.size(); ++c) {
    placeholders_[{0, static_cast<int>(c)}] = before[c];
    placeholders_[{1, static_cast<int>(c)}] = element[c];
  }
  // What the monoid computes is of these placeholders alone.
  scopes_.push_back({.loops = placeholder_loop, .block = scopes_[scope].block});
  for (ExprId part : reduction.joined) joined.push_back(value(part));
  scopes_[scope].block = scopes_.back().block;
  scopes_.pop_back();
  enter(scope);
  for (size_t c = 0; c < joined.size(); ++c) write_slot(joined[c], accumulators[c], accumulator_type(number, c));
}

Value* Generator::as_type(Value* x, llvm::Type* type) { return x->getType() == type ? x : b_.CreateFPCast(x, type); }

llvm::Type* Generator::slot_type(ScalarType accumulator) {
  return accumulator == ScalarType::boolean ? memory_type(accumulator) : register_type(accumulator);
}

Value* Generator::read_slot(Value* slot, ScalarType accumulator) {
  Value* held = b_.CreateLoad(slot_type(accumulator), slot);
  return accumulator == ScalarType::boolean ? b_.CreateTrunc(held, register_type(accumulator)) : held;
}

void Generator::write_slot(Value* value, Value* slot, ScalarType accumulator) {
  if (accumulator == ScalarType::boolean) value = b_.CreateZExt(value, slot_type(accumulator));
  b_.CreateStore(value, slot);
}

// Accumulators are stack slots, which LLVM turns into registers.
std::vector<Value*> Generator::start_accumulating(int number) {
  std::vector<Value*> accumulators;
  for (ExprId part : loops_.reductions[number].identity) {
    Value* first = value(part);
    const ScalarType type = accumulator_type(number, accumulators.size());
    b_.SetInsertPoint(entry_, entry_->begin());
    accumulators.push_back(b_.CreateAlloca(slot_type(type)));
    enter(scopes_.size() - 1);
    write_slot(as_type(first, register_type(type)), accumulators.back(), type);
  }
  return accumulators;
}

void Generator::read_accumulators(int number, std::span<Value* const> accumulators) {
  enter(scopes_.size() - 1);
  std::vector<Value*>& results = scopes_.back().reduced[number];
  for (size_t c = 0; c < accumulators.size(); ++c) {
    Value* last = read_slot(accumulators[c], accumulator_type(number, c));
    results.push_back(as_type(last, register_type(loops_.exprs[loops_.reductions[number].identity[c]].dtype)));
  }
}

// An array of accumulators, one a lane. Its own stack slot, so that LLVM knows that nothing else writes there.
std::vector<Value*> Generator::start_lanes(int number) {
  std::vector<Value*> arrays;
  for (ExprId part : loops_.reductions[number].identity) {
    const ScalarType type = accumulator_type(number, arrays.size());
    b_.SetInsertPoint(entry_, entry_->begin());
    const auto lanes = static_cast<uint64_t>(*room(loops_.lane).constant());
    llvm::AllocaInst* array = b_.CreateAlloca(llvm::ArrayType::get(slot_type(type), lanes));
    array->setAlignment(llvm::Align(64));
    arrays.push_back(array);
    open_loop(loops_.lane);
    Value* first = value(part);
    Value* place = lane_of(array, type);
    enter(scopes_.size() - 1);
    write_slot(as_type(first, register_type(type)), place, type);
    close_loop();
  }
  return arrays;
}

Value* Generator::lane_of(Value* array, ScalarType type) {
  const SymInt lane = loops_.loops[loops_.lane].variable();
  Value* offset = index(lane);
  enter(scope_of({.loops = bit(loops_.lane)}));
  return b_.CreateGEP(slot_type(type), array, offset);
}

// Reductions that keep their partial results along this loop.
std::vector<int> Generator::prefixes_over(int loop) const {
  std::vector<int> found;
  for (size_t number = 0; number < loops_.reductions.size(); ++number)
    if (loops_.reductions[number].is_prefix && loops_.reductions[number].loops[0] == loop)
      found.push_back(static_cast<int>(number));
  return found;
}

void Generator::run_phase(const Phase& phase) {
  std::vector<std::vector<Value*>> accumulators;
  for (int number : phase.reductions)
    accumulators.push_back(phase.is_in_lanes ? start_lanes(number) : start_accumulating(number));
  level(0, phase.roots, phase.loops, [&] {
    for (size_t i = 0; i < phase.reductions.size(); ++i) {
      const BoundReduction& reduction = loops_.reductions[phase.reductions[i]];
      std::vector<Value*> places = accumulators[i];
      for (size_t c = 0; c < places.size() && phase.is_in_lanes; ++c)
        places[c] = lane_of(places[c], accumulator_type(phase.reductions[i], c));
      if (reduction.guard == no_expr) {
        accumulate(phase.reductions[i], places);
        continue;
      }
      Value* truth = value(reduction.guard);
      const size_t outer = scopes_.size() - 1;
      enter(outer);
      BasicBlock* then = BasicBlock::Create(context_, "then", function_);
      BasicBlock* merge = BasicBlock::Create(context_, "merge", function_);
      b_.CreateCondBr(truth, then, merge);
      scopes_.push_back({.is_conditional = true, .block = then});
      accumulate(phase.reductions[i], places);
      BasicBlock* end = scopes_.back().block;
      scopes_.pop_back();
      b_.SetInsertPoint(end);
      b_.CreateBr(merge);
      scopes_[outer].block = merge;
    }
    for (ExprId id : phase.keep) {
      Value* computed = value(id);
      const Kept& kept = kept_.at(id);
      store(computed, kept_address(kept, loops_.exprs[id].dtype, scopes_.size() - 1), loops_.exprs[id].dtype,
            kept.aliases);
    }
  });
  for (size_t i = 0; i < phase.reductions.size(); ++i) {
    if (phase.is_in_lanes)
      scopes_.back().in_lanes[phase.reductions[i]] = accumulators[i];
    else
      read_accumulators(phase.reductions[i], accumulators[i]);
  }
}

// The turns at the end of a loop that fill no vector: a loop of their own is a vector under a mask, or two of numbers
// of 64 bits. 0 where they are done one by one. Few and cheap turns do better in narrower vectors.
int64_t Generator::masked_rest(int64_t extent, int cost) const {
  const int64_t rest = extent % vector_width_, least = cost > cheap ? vector_width_ + 1 : 4 * vector_width_;
  return extent >= least && rest > 1 ? rest : 0;
}

// The same of a loop of which only a run knows how often it turns, if what it computes is worth it.
void Generator::in_vectors(int loop, const std::function<void()>& body) {
  const SymInt all = loops_.loops[loop].extent, step = vectors_at_once * vector_width_;
  const SymInt filling = shape::floor_div(all, step) * step;
  const SymInt over = all - shape::floor_div(all, vector_width_) * vector_width_;
  const SymInt masked = all - shape::max(0, shape::min(over, SymInt(2) - over));  // one turn is better done by itself
  const auto run = [&](Part part, const SymInt& first, const SymInt& last) {
    open_loop(loop, first, last);
    scopes_.back().part = part;
    body();
    close_loop();
  };
  run(Part::vectors, 0, filling);
  run(Part::rest, filling, masked);
  run(Part::single, masked, all);
}

// Does no reduction stand inside the loop, which is not that of lanes?
bool Generator::is_innermost(int loop) const {
  return loop != loops_.lane && std::ranges::none_of(loops_.reductions, [&](const BoundReduction& reduction) {
           return (reduction.outer & bit(loop)) != 0;
         });
}

// Values with their places are joined one by one, and so is what is scattered.
bool Generator::can_be_wide(int loop) const {
  return !loops_.scatter && std::ranges::none_of(loops_.reductions, [&](const BoundReduction& reduction) {
    return reduction.element.size() > 1 && std::ranges::find(reduction.loops, loop) != reduction.loops.end();
  });
}

bool Generator::has_fixed_size(const std::vector<int>& loops) const {
  return std::all_of(loops.begin(), loops.end(), [&](int loop) { return placement(room(loop)).loops == 0; });
}

// Computes the reductions of the innermost open level. Returns what it keeps in scratch until the level ends.
std::vector<ExprId> Generator::run_phases(const std::vector<ExprId>& roots, const std::vector<int>& inner) {
  std::vector<Phase> phases = plan(roots, inner);
  std::vector<ExprId> keeps;
  for (size_t i = 0; i + 1 < phases.size(); ++i) {
    for (ExprId id : phases[i].keep) {
      keep(id, phases[i].loops);
      keeps.push_back(id);
    }
    run_phase(phases[i]);
    for (ExprId id : phases[i].keep) kept_[id].is_readable = true;
  }
  return keeps;
}

// Opens loops inner[depth..] one in the other; at each level, the reductions that depend on nothing deeper come first.
void Generator::level(size_t depth, const std::vector<ExprId>& roots, const std::vector<int>& inner,
                      const std::function<void()>& innermost) {
  std::vector<ExprId> keeps;
  if (depth > 0) keeps = run_phases(roots, {inner.begin() + depth, inner.end()});
  if (depth == inner.size()) {
    innermost();
  } else {
    const int loop = inner[depth];
    const std::optional<int64_t> extent = loops_.loops[loop].extent.constant();
    // A sum waits for each term that is added alone.
    int64_t rest = 0;
    int cost = 0;
    if (depth + 1 == inner.size() && is_innermost(loop) && can_be_wide(loop)) {
      std::set<ExprId> seen;
      for (ExprId root : roots) cost += cost_of(loops_, root, bit(loop), seen);
      if (extent) rest = masked_rest(*extent, cost);
    }
    if (!extent && cost > cheap) {
      in_vectors(loop, [&] { level(depth + 1, roots, inner, innermost); });
    } else {
      if (rest > 0) {
        open_loop(loop, 0, *extent - rest);
        level(depth + 1, roots, inner, innermost);
        close_loop();
      }
      open_loop(loop, rest > 0 ? *extent - rest : 0, this->extent(loop));
      level(depth + 1, roots, inner, innermost);
      close_loop();
    }
  }
  for (ExprId id : keeps) kept_.erase(id);
}

// Runs a loop, where its index is compared with constants, as behind a concatenation, or read as by a roll, stretch by
// stretch: in each the comparisons have one truth, so that it reads one operand and needs no masks, and reads lie a
// stride apart.
void Generator::in_stretches(int loop, const std::vector<Store>& stores, const std::function<void()>& body) {
  const std::optional<int64_t> extent = loops_.loops[loop].extent.constant();
  const auto whole = [&] {
    open_loop(loop);
    body();
    close_loop();
  };
  if (!extent) return in_open_stretches(loop, stores, body);
  const SymInt variable = loops_.loops[loop].variable();
  Stretches stretches(loops_.loops[loop].symbol, *extent);
  std::map<ExprId, int64_t> bounds;  // of comparisons: index < bound
  for (size_t id = 0; id < loops_.exprs.size(); ++id) {
    const Expr& expr = loops_.exprs[id];
    if (expr.op != ScalarOp::lt || expr.loops != bit(loop)) continue;
    const Expr& left = loops_.exprs[expr.operands[0]];
    const std::optional<SymInt> right = place_of(loops_.exprs[expr.operands[1]]);
    if (left.op != ScalarOp::size || left.index != variable || !right || !right->is_constant()) continue;
    const int64_t bound = *right->constant();
    bounds[static_cast<ExprId>(id)] = bound;
    if (bound > 0 && bound < *extent) stretches.cut(bound);
  }
  const auto truths_from = [&](int64_t first) {
    std::map<ExprId, bool> truths;
    for (const auto& [id, bound] : bounds) truths[id] = first < bound;
    return truths;
  };
  const auto cost_where = [&](const std::map<ExprId, bool>& truths) {
    std::set<ExprId> seen;
    int sum = 0;
    for (const Store& store : stores) sum += cost_of(loops_, store.value, bit(loop), seen, truths);
    return sum;
  };
  const int cost = cost_where({});
  const auto pays = [&](const Stretches& cut) {
    int64_t first = 0, in_short = 0;
    int most_in_turn = 0;  // of what short stretches cost, turn by turn
    for (int64_t end : cut.ends()) {
      if (end - first < least_stretch) {
        in_short += end - first;
        most_in_turn = std::max(most_in_turn, cost_where(truths_from(first)));
      }
      first = end;
    }
    const bool may_be_short =
        in_short * least_stretch <= *extent ? cost <= cheap : most_in_turn <= cheap / 2 && in_short <= most_unrolled;
    return cut.ends().size() <= most_stretches && (in_short == 0 || may_be_short);
  };
  if (cost <= cheap_enough_to_repeat) {
    Stretches bent = stretches;
    const size_t most = std::min<size_t>(most_with_bends, 2 + *extent / 16);
    for (const Expr& expr : loops_.exprs)
      if (expr.loops & bit(loop)) bent.cut_at_bends(expr.index, most);
    if (pays(bent)) stretches = std::move(bent);
  }
  if (!pays(stretches)) return whole();
  if (const int64_t rest = masked_rest(*extent, cost); stretches.ends().size() == 1 && rest > 0 && cost > cheap)
    stretches.cut(*extent - rest);
  if (stretches.ends().size() == 1) return whole();
  int64_t first = 0;
  for (int64_t end : stretches.ends()) {
    open_loop(loop, first, end);
    for (const auto& [id, truth] : truths_from(first)) scopes_.back().values[id] = b_.getInt1(truth);
    scopes_.back().lines = stretches.lines(first, end);
    body();
    close_loop();
    first = end;
  }
}

// The same where only a run knows how often the loop turns. Any stretch may be short, so what is computed is cheap.
void Generator::in_open_stretches(int loop, const std::vector<Store>& stores, const std::function<void()>& body) {
  std::set<ExprId> computed;
  int cost = 0;
  for (const Store& store : stores) cost += cost_of(loops_, store.value, bit(loop), computed);
  OpenStretches stretches(loops_.loops[loop].symbol, loops_.loops[loop].extent);
  if (cost > cheap_enough_to_repeat) computed.clear();
  for (ExprId id : computed) {
    const Expr& expr = loops_.exprs[id];
    stretches.cut_at_bends(expr.index, most_with_bends);
    if (expr.op != ScalarOp::lt && expr.op != ScalarOp::le) continue;
    const std::optional<SymInt> left = place_of(loops_.exprs[expr.operands[0]]),
                                right = place_of(loops_.exprs[expr.operands[1]]);
    if (left && right) stretches.cut_at_sign(id, *right - *left - (expr.op == ScalarOp::lt ? 1 : 0), most_with_bends);
  }
  if (cost > cheap && stretches.stretches().size() == 1) return in_vectors(loop, body);
  for (const OpenStretches::Stretch& stretch : stretches.stretches()) {
    open_loop(loop, stretch.first, stretch.end);
    for (const auto& [id, truth] : stretch.truths) scopes_.back().values[id] = b_.getInt1(truth);
    scopes_.back().lines = stretch.lines;
    body();
    close_loop();
  }
}

// Stores what depends on the open loops alone, and opens the next loop of the domain for the others.
void Generator::domain(size_t depth, const std::vector<Store>& stores) {
  std::vector<ExprId> roots;
  for (const Store& store : stores) roots.push_back(store.value);
  const std::vector<ExprId> keeps = run_phases(roots, {loops_.domain.begin() + depth, loops_.domain.end()});
  std::vector<Store> deeper;
  const LoopSet open = open_loops();
  for (const Store& store : stores) {
    if ((store.loops | loops_.exprs[store.value].loops) & ~open) {
      deeper.push_back(store);
      continue;
    }
    Value* computed = value(store.value);
    Value* pointer = address(store.buffer, store.dtype, store.address);
    enter(scopes_.size() - 1);
    this->store(computed, pointer, store.dtype);
  }
  if (!deeper.empty()) {
    assert(depth < loops_.domain.size());
    const int loop = loops_.domain[depth];
    const auto needs_loop = [&](const Store& store) {
      return ((store.loops | loops_.exprs[store.value].loops) & bit(loop)) != 0;
    };
    // What does not depend on this loop is stored once, also where the loop has no turns.
    const auto others = std::stable_partition(deeper.begin(), deeper.end(), needs_loop);
    if (others != deeper.end()) domain(depth + 1, {others, deeper.end()});
    deeper.erase(others, deeper.end());
  }
  if (!deeper.empty()) {
    const int loop = loops_.domain[depth];
    const std::vector<int> prefixes = prefixes_over(loop);
    std::vector<std::vector<Value*>> accumulators;
    const bool is_in_lanes = !prefixes.empty() && lanes_are_closed();  // which are the domain's next loop then
    for (int number : prefixes) accumulators.push_back(is_in_lanes ? start_lanes(number) : start_accumulating(number));
    const bool is_last = depth + 1 == loops_.domain.size();
    if (is_last && prefixes.empty() && is_innermost(loop)) {
      in_stretches(loop, deeper, [&] { domain(depth + 1, deeper); });
    } else {
      open_loop(loop);
      if (is_in_lanes) open_loop(loops_.lane);
      for (size_t i = 0; i < prefixes.size(); ++i) {
        std::vector<Value*> places = accumulators[i];
        for (size_t c = 0; c < places.size() && is_in_lanes; ++c)
          places[c] = lane_of(places[c], accumulator_type(prefixes[i], c));
        accumulate(prefixes[i], places);
        read_accumulators(prefixes[i], places);
      }
      domain(is_in_lanes ? depth + 2 : depth + 1, deeper);
      if (is_in_lanes) close_loop();
      close_loop();
    }
  }
  for (ExprId id : keeps) kept_.erase(id);
}

// What a row is scattered into, unless it lies there.
void Generator::copy_base(Value* is_absent) {
  const size_t row = scopes_.size() - 1;
  BasicBlock* copy = BasicBlock::Create(context_, "copy", function_);
  BasicBlock* copied = BasicBlock::Create(context_, "copied", function_);
  enter(row);
  b_.CreateCondBr(is_absent, copy, copied);
  scopes_.push_back({.is_conditional = true, .block = copy});
  domain(loops_.rows, loops_.stores);
  b_.SetInsertPoint(scopes_.back().block);
  b_.CreateBr(copied);
  scopes_.pop_back();
  scopes_[row].block = copied;
}

// The ordered stores after those of a row.
void Generator::scatter() {
  const ScatterLoops& loops = *loops_.scatter;
  const Store& target = loops_.stores[0];
  std::vector<int> inner;
  const LoopSet open = open_loops();
  for (int loop : loops.loops)
    if (!(open & bit(loop))) inner.push_back(loop);
  std::vector<ExprId> roots = {loops.value};
  const std::vector<ExprId> keeps = run_phases(roots, inner);
  level(0, roots, inner, [&] {
    Value* result = value(loops.value);
    Value* pointer = address(target.buffer, target.dtype, loops.address);
    if (loops.joined != no_expr) {
      enter(scopes_.size() - 1);
      placeholders_[{0, 0}] = load(pointer, target.dtype);
      placeholders_[{1, 0}] = result;
      scopes_.push_back({.loops = placeholder_loop, .block = scopes_.back().block});
      result = value(loops.joined);
      BasicBlock* block = scopes_.back().block;
      scopes_.pop_back();
      scopes_.back().block = block;
    }
    enter(scopes_.size() - 1);
    store(result, pointer, target.dtype);
  });
  for (ExprId id : keeps) kept_.erase(id);
}

// How many terms a sum has that only a run knows, and the sizes alone.
std::optional<SymInt> Generator::open_terms(const BoundReduction& reduction) const {
  SymInt terms = 1;
  for (int loop : reduction.loops) terms = terms * loops_.loops[loop].extent;
  return terms.is_constant() || loops_.loops_of(terms) != 0 ? std::nullopt : std::optional(terms);
}

// The terms of the sums that are added up in another type only since nobody knows how many there are.
std::vector<SymInt> Generator::terms_of_open_sums() const {
  std::vector<SymInt> found;
  for (size_t number = 0; number < loops_.reductions.size(); ++number) {
    const BoundReduction& reduction = loops_.reductions[number];
    if (reduction.element.empty()) continue;  // pruned
    const ScalarType dtype = loops_.exprs[reduction.identity[0]].dtype;
    if (accumulator_type(static_cast<int>(number), 0) == dtype) continue;
    if (std::optional<SymInt> terms = open_terms(reduction)) found.push_back(std::move(*terms));
  }
  return found;
}

// Lanes of which only a run knows how many there are mostly are as many as can be: code of their own, in which
// accumulators stay in registers.
void Generator::row() {
  if (loops_.lane < 0 || extent(loops_.lane).is_constant()) return domain(loops_.rows, loops_.stores);
  const size_t outer = scopes_.size() - 1;
  Value* lanes = index(extent(loops_.lane));
  enter(outer);
  BasicBlock* full = BasicBlock::Create(context_, "full", function_);
  BasicBlock* partial = BasicBlock::Create(context_, "partial", function_);
  BasicBlock* end = BasicBlock::Create(context_, "end", function_);
  b_.CreateCondBr(b_.CreateICmpEQ(lanes, index(room(loops_.lane))), full, partial);
  const SymInt scratch = scratch_bytes_;
  for (BasicBlock* block : {full, partial}) {
    lanes_are_full_ = block == full;
    scratch_bytes_ = scratch;
    scopes_.push_back({.is_conditional = true, .block = block});
    domain(loops_.rows, loops_.stores);
    b_.SetInsertPoint(scopes_.back().block);
    b_.CreateBr(end);
    scopes_.pop_back();
  }
  scopes_[outer].block = end;
}

// The inner function: buffers that do not alias, sizes, begin, end, scratch; and for a scatter, whether its base is
// another buffer than its result. Where all sums are short in a run, it leaves all to `of_short_sums`, if that is
// there.
void Generator::generate_loops(const std::string& symbol, llvm::Function* of_short_sums) {
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* word = b_.getInt64Ty();
  std::vector<llvm::Type*> parameters(loops_.buffers.size(), pointer);
  parameters.insert(parameters.end(), loops_.symbols.size() + 2, word);
  parameters.push_back(pointer);
  if (loops_.scatter) parameters.push_back(b_.getInt1Ty());
  function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), parameters, false),
                                     llvm::Function::InternalLinkage, symbol, module_);
  function_->addFnAttr(llvm::Attribute::NoInline);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->isPointerTy()) continue;
    function_->addParamAttr(i, llvm::Attribute::NoAlias);
    function_->addParamAttr(i, llvm::Attribute::NoCapture);
  }
  for (size_t i = 0; i < loops_.buffers.size(); ++i) buffers_.push_back(function_->getArg(i));
  size_t argument = loops_.buffers.size();
  for (const std::string& name : loops_.symbols) symbols_[name] = function_->getArg(argument++);
  Value* begin = function_->getArg(argument++);
  Value* end = function_->getArg(argument++);
  scratch_ = function_->getArg(argument++);

  // Stack slots stand in `entry`, which then goes on to the code outside all loops.
  entry_ = BasicBlock::Create(context_, "entry", function_);
  BasicBlock* start = BasicBlock::Create(context_, "start", function_);
  BasicBlock* rows = BasicBlock::Create(context_, "rows", function_);
  BasicBlock* done = BasicBlock::Create(context_, "done", function_);
  b_.SetInsertPoint(entry_);
  b_.CreateBr(start);
  scopes_.push_back({.block = start});
  std::vector<Value*> extents;
  for (size_t i = 0; i < loops_.rows; ++i) extents.push_back(index(loops_.loops[loops_.domain[i]].extent));
  if (of_short_sums) {
    Value* are_short = b_.getTrue();
    for (const SymInt& terms : terms_of_open_sums()) {
      Value* count = index(terms);
      enter(0);
      are_short = b_.CreateAnd(are_short, b_.CreateICmpSLT(count, constant(long_sum)));
    }
    BasicBlock* leave = BasicBlock::Create(context_, "short_sums", function_);
    BasicBlock* stay = BasicBlock::Create(context_, "long_sums", function_);
    b_.CreateCondBr(are_short, leave, stay);
    b_.SetInsertPoint(leave);
    std::vector<Value*> arguments;
    for (llvm::Argument& given : function_->args()) arguments.push_back(&given);
    b_.CreateCall(of_short_sums, arguments);
    b_.CreateRetVoid();
    scopes_[0].block = stay;
  }
  enter(0);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), rows, done);
  b_.SetInsertPoint(rows);
  Scope scope{.block = rows, .body = rows, .exit = done};
  scope.counter = b_.CreatePHI(word, 2);
  scope.counter->addIncoming(begin, scopes_[0].block);
  scope.end = end;
  Value* rest = scope.counter;
  for (size_t i = loops_.rows; i-- > 0;) {
    const int loop = loops_.domain[i];
    scope.loops |= bit(loop);
    scope.variables[loop] = i == 0 ? rest : b_.CreateURem(rest, extents[i]);
    if (i > 0) rest = b_.CreateUDiv(rest, extents[i]);
  }
  scopes_.push_back(std::move(scope));
  if (loops_.scatter) {
    copy_base(function_->getArg(argument));
    scatter();
  } else {
    row();
  }
  close_loop();
  b_.SetInsertPoint(done);
  b_.CreateRetVoid();
}

Result<SymInt> Generator::run(const std::string& symbol) {
  Generator of_short_sums(module_, loops_, vector_width_);
  if (!terms_of_open_sums().empty()) {
    of_short_sums.sums_are_short_ = true;
    of_short_sums.generate_loops(symbol + ".short_sums", nullptr);
  }
  generate_loops(symbol + ".loops", of_short_sums.function_);
  if (!failure_.empty()) {
    function_->eraseFromParent();
    if (of_short_sums.function_) of_short_sums.function_->eraseFromParent();
    return error(Status::unsupported, 0, failure_);
  }

  // The function that is seen from outside unpacks its arguments.
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* word = b_.getInt64Ty();
  llvm::Function* outer =
      llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, word, word, pointer}, false),
                             llvm::Function::ExternalLinkage, symbol, module_);
  outer->addFnAttr(llvm::Attribute::NoUnwind);
  b_.SetInsertPoint(BasicBlock::Create(context_, "entry", outer));
  std::vector<Value*> arguments;
  for (size_t i = 0; i < loops_.buffers.size(); ++i)
    arguments.push_back(b_.CreateLoad(pointer, b_.CreateConstGEP1_64(pointer, outer->getArg(0), i)));
  for (size_t i = 0; i < loops_.symbols.size(); ++i)
    arguments.push_back(b_.CreateLoad(word, b_.CreateConstGEP1_64(word, outer->getArg(1), i)));
  for (unsigned i : {2u, 3u, 4u}) arguments.push_back(outer->getArg(i));
  if (loops_.scatter) {
    const int base = base_of_scatter(loops_);
    arguments.push_back(base < 0 ? b_.getTrue() : b_.CreateICmpNE(arguments[base], arguments[loops_.stores[0].buffer]));
  }
  b_.CreateCall(function_, arguments);
  b_.CreateRetVoid();
  return scratch_bytes_;
}

Result<SymInt> generate(llvm::Module& module, const Loops& loops, const std::string& symbol, int vector_width) {
  return Generator(module, loops, vector_width).run(symbol);
}

}  // namespace atenon::lower
