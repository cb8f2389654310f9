// The order of loops, and how they are cut into rows.
#include <algorithm>
#include <map>
#include <set>

#include "lower/loops.h"

namespace atenon::lower {

namespace {

constexpr int64_t elements_a_row = 1024;                   // that a row should have, so that its start costs nothing
constexpr int64_t least_lanes = 16, most_lanes = 64;       // into which more are cut
constexpr int64_t fewest_lanes = 2, fewest_open = 8;       // that are worth it, the latter where only a run knows
constexpr int64_t enough_rows = 8;                         // to occupy some threads
constexpr int64_t most_sharers = 256, least_sharers = 32;  // elements for which values are kept at a time
constexpr int64_t least_turns = 3;                         // that share a value, so that it is worth keeping
constexpr int64_t least_line = 4;     // turns that share one, so that they are worth being brought together
constexpr int64_t crowding = 512;     // elements: of 4 bytes, half the lines at such a distance would share 1 or 2 sets
constexpr int64_t turned_block = 16;  // of a loop through memory that is read line by line across: a line of results

class Arranger {
 public:
  Arranger(Loops& loops, const shape::Facts& facts, const shape::Bindings& hints)
      : loops_(loops), facts_(facts), hints_(hints) {}
  void run();

 private:
  int64_t typical(const SymInt& x) const { return lower::typical(x, hints_); }
  // About how often a loop turns; a part of a loop, at most.
  int64_t turns_of(int loop) const { return std::max<int64_t>(0, typical(loops_.loops[loop].most)); }
  int64_t stride(const SymInt& address, int loop) const;
  bool lies_apart(const SymInt& address, int loop) const;
  bool is_in_domain(int loop) const { return std::ranges::find(loops_.domain, loop) != loops_.domain.end(); }
  void prune();
  void split_joined();
  void split_quotients();
  void simplify(const std::string& symbol);
  void find_needed();
  void order();
  SymInt address_of_most() const;
  bool can_merge(int outer, int inner) const;
  bool merge_linearly(const SymInt& x, int outer, int inner) const;
  void merge(int outer, int inner);
  void merge_all();
  bool is_along(const SymInt& address, int loop) const;
  bool can_be_lanes(int loop) const;
  bool reads_along(ExprId id, int lane, std::set<ExprId>& seen) const;
  bool reads_across(int lane) const;
  void split_lanes(int lane);
  int64_t turns_of_all(LoopSet set) const;
  int64_t part_of(int loop, int64_t rows, int64_t least, int64_t most) const;
  void cut_lanes(int lane);
  void split_prefix();
  void split_scatter();
  size_t line_across(int inner, bool crowded) const;
  void turn_lanes();
  void split_turned();
  LoopSet find_sharing() const;
  bool split_sharing();
  void split_rows();
  void widen_rows();
  bool decides_extents(int loop) const;
  int split(int loop, const SymInt& size);
  void cut(int loop, const SymInt& size, size_t place);
  void refresh();

  Loops& loops_;
  const shape::Facts& facts_;
  const shape::Bindings& hints_;
  // 0: all reductions depend on the loop, so it can be a row; 1: some do, or a scatter; 2: none.
  int level(int loop) const { return shared_ & bit(loop) ? 0 : needed_ & bit(loop) ? 1 : 2; }

  LoopSet needed_ = 0, shared_ = 0;
  bool has_reductions_ = false;
  bool is_ordered_ = false;  // a scatter, or a reduction that keeps its partial results
};

int64_t Arranger::stride(const SymInt& address, int loop) const {
  std::optional<SymInt> factor = coefficient(address, loops_.loops[loop].symbol);
  return factor ? std::abs(typical(*factor)) : 1;
}

// Neighbours along the loop; a loop that only data in the address depend on tells places that lie anywhere.
bool Arranger::lies_apart(const SymInt& address, int loop) const {
  return !address.symbols().count(loops_.loops[loop].symbol) || stride(address, loop) > 1;
}

// Expressions that composing met on the way but that no result needs must not stand in the way of a merge.
void Arranger::prune() {
  std::vector<bool> is_live(loops_.exprs.size(), false);
  std::vector<ExprId> pending;
  auto need = [&](ExprId id) {
    if (id == no_expr || is_live[id]) return;
    is_live[id] = true;
    pending.push_back(id);
  };
  auto need_symbols = [&](const SymInt& x) { std::ranges::for_each(values_in(x), need); };
  for (const Store& store : loops_.stores) {
    need(store.value);
    need_symbols(store.address);
  }
  if (loops_.scatter) {
    need(loops_.scatter->value);
    need(loops_.scatter->joined);
    need_symbols(loops_.scatter->address);
  }
  while (!pending.empty()) {
    const Expr& expr = loops_.exprs[pending.back()];
    pending.pop_back();
    for (ExprId operand : expr.operands) need(operand);
    need_symbols(expr.index);
    if (expr.op != ScalarOp::reduce) continue;
    const BoundReduction& reduction = loops_.reductions[expr.reduction];
    for (const auto& parts : {reduction.identity, reduction.joined, reduction.element})
      for (ExprId part : parts) need(part);
    need(reduction.guard);
    for (int loop : reduction.loops) need_symbols(loops_.loops[loop].extent);
  }
  std::vector<bool> is_reduced(loops_.reductions.size(), false);
  for (size_t id = 0; id < loops_.exprs.size(); ++id) {
    if (!is_live[id]) loops_.exprs[id] = {};
    if (loops_.exprs[id].op == ScalarOp::reduce) is_reduced[loops_.exprs[id].reduction] = true;
  }
  for (size_t number = 0; number < is_reduced.size(); ++number)
    if (!is_reduced[number]) loops_.reductions[number] = {};
}

// A reduction over axes that a view has joined reads them at quotients and rests of its loop: each gets a loop of its
// own, so that what is read has strides.
void Arranger::split_joined() {
  if (loops_.scatter) return;  // which may share its loops
  for (BoundReduction& reduction : loops_.reductions) {
    for (size_t i = 0; i < reduction.loops.size() && loops_.loops.size() < most_loops; ++i) {
      const int inner = reduction.loops[i];
      const std::string symbol = loops_.loops[inner].symbol;
      const std::optional<int64_t> extent = loops_.loops[inner].extent.constant();
      std::optional<int64_t> divisor;
      for (const Expr& expr : loops_.exprs)
        for (const SymInt& found : divisors_of(expr.index, symbol)) divisor = std::max(divisor, found.constant());
      if (!extent || !divisor || *extent % *divisor != 0 || is_in_domain(inner) || decides_extents(inner)) continue;
      const int outer = split(inner, *divisor);
      simplify(symbol);
      for (BoundReduction& other : loops_.reductions) {
        const auto place = std::find(other.loops.begin(), other.loops.end(), inner);
        if (place != other.loops.end()) other.loops.insert(place, outer);
      }
      refresh();
    }
  }
}

// The same of a loop of the domain, where its divisor leaves no rest, as where pixels are shuffled: what is read is
// then computed without a division. Quotients by the greatest one are taken apart first.
void Arranger::split_quotients() {
  const IndexSpace space(facts_);
  const auto divides = [&](const SymInt& n, const SymInt& x) { return space.quotient(x, n) * n == x; };
  for (size_t i = 0; i < loops_.domain.size() && loops_.loops.size() < most_loops;) {
    const int inner = loops_.domain[i];
    const std::string symbol = loops_.loops[inner].symbol;
    const SymInt extent = loops_.loops[inner].extent;
    std::optional<SymInt> divisor;
    if (!decides_extents(inner))
      for (const Expr& expr : loops_.exprs)
        for (const SymInt& found : divisors_of(expr.index, symbol))
          if (divides(found, extent) && facts_.proves(shape::less_equal(0, found)) &&
              (!divisor || divides(*divisor, found)))
            divisor = found;
    if (!divisor) {
      ++i;
      continue;
    }
    cut(inner, *divisor, i);
    simplify(symbol);
    refresh();
  }
}

void Arranger::simplify(const std::string& symbol) {
  IndexSpace space(facts_);
  for (const Loop& loop : loops_.loops) space.declare(loop.symbol, loop.extent);
  for (Expr& expr : loops_.exprs)
    if (expr.index.symbols().count(symbol)) expr.index = space.simplified(expr.index);
}

SymInt Arranger::address_of_most() const {
  const auto neighbours = [&](const SymInt& address) {
    int64_t found = 0;
    for (int loop : loops_.domain) {
      if (stride(address, loop) != 1) continue;
      for (const Store& store : loops_.stores) found += stride(store.address, loop) == 1;
      for (const Expr& expr : loops_.exprs)
        found += expr.op == ScalarOp::read && expr.loops & bit(loop) && stride(expr.index, loop) == 1;
    }
    return found;
  };
  const Store* best = &loops_.stores[0];
  for (const Store& store : loops_.stores)
    if (neighbours(store.address) > neighbours(best->address)) best = &store;
  return best->address;
}

void Arranger::order() {
  // Rows first, then what other reductions depend on, then as a result lies in memory: a copy that transposes writes in
  // order. Of several results, the one along which most is read and written side by side.
  const SymInt address = address_of_most();
  std::stable_sort(loops_.domain.begin(), loops_.domain.end(), [&](int a, int b) {
    if (level(a) != level(b)) return level(a) < level(b);
    return stride(address, a) > stride(address, b);
  });
  // Monoids are commutative, so a reduction may run through memory in order.
  for (BoundReduction& reduction : loops_.reductions) {
    auto widest = [&](int loop) {
      int64_t widest = 0;
      for (const Expr& expr : loops_.exprs)
        if (expr.op == ScalarOp::read && expr.loops & bit(loop)) widest = std::max(widest, stride(expr.index, loop));
      return widest;
    };
    std::stable_sort(reduction.loops.begin(), reduction.loops.end(),
                     [&](int a, int b) { return widest(a) > widest(b); });
  }
}

// Does x see the two loops only as outer * extent(inner) + inner?
bool Arranger::merge_linearly(const SymInt& x, int outer, int inner) const {
  if (x.is_constant()) return true;
  std::optional<SymInt> outer_factor = coefficient(x, loops_.loops[outer].symbol);
  std::optional<SymInt> inner_factor = coefficient(x, loops_.loops[inner].symbol);
  return outer_factor && inner_factor && *outer_factor == *inner_factor * loops_.loops[inner].extent;
}

bool Arranger::can_merge(int outer, int inner) const {
  for (const Expr& expr : loops_.exprs)
    if (!merge_linearly(expr.index, outer, inner)) return false;
  for (const Store& store : loops_.stores)
    if (!merge_linearly(store.address, outer, inner)) return false;
  for (const Loop& loop : loops_.loops)
    if (!merge_linearly(loop.extent, outer, inner)) return false;
  if (loops_.scatter) {
    if (!merge_linearly(loops_.scatter->address, outer, inner)) return false;
    const std::vector<int>& all = loops_.scatter->loops;
    auto is_scattered = [&](int loop) { return std::find(all.begin(), all.end(), loop) != all.end(); };
    if (is_scattered(outer) != is_scattered(inner)) return false;
  }
  for (const BoundReduction& reduction : loops_.reductions) {
    auto at = std::find(reduction.loops.begin(), reduction.loops.end(), outer);
    const bool has_inner = std::find(reduction.loops.begin(), reduction.loops.end(), inner) != reduction.loops.end();
    if ((at != reduction.loops.end()) != has_inner) return false;
    if (at != reduction.loops.end() && (at + 1 == reduction.loops.end() || at[1] != inner)) return false;
  }
  // Rows and the loops inside them stay apart.
  return is_in_domain(outer) == is_in_domain(inner) && level(outer) == level(inner);
}

void Arranger::merge(int outer, int inner) {
  const shape::Substitution gone = {{loops_.loops[outer].symbol, SymInt(0)}};
  loops_.loops[inner].extent = loops_.loops[inner].most = loops_.loops[outer].extent * loops_.loops[inner].extent;
  for (Expr& expr : loops_.exprs) expr.index = shape::substitute(expr.index, gone);
  for (Store& store : loops_.stores) store.address = shape::substitute(store.address, gone);
  if (loops_.scatter) {
    loops_.scatter->address = shape::substitute(loops_.scatter->address, gone);
    std::erase(loops_.scatter->loops, outer);
  }
  std::erase(loops_.domain, outer);
  for (BoundReduction& reduction : loops_.reductions) std::erase(reduction.loops, outer);
  refresh();
}

// Recomputes what depends on which loops; operands come before their users, and a reduction's parts before its results.
void Arranger::refresh() {
  std::vector<bool> done(loops_.reductions.size(), false);
  for (Expr& expr : loops_.exprs) {
    if (expr.op == ScalarOp::reduce) {
      BoundReduction& reduction = loops_.reductions[expr.reduction];
      if (!done[expr.reduction]) {
        done[expr.reduction] = true;
        reduction.outer = 0;
        LoopSet own = 0;
        for (int loop : reduction.loops) {
          own |= bit(loop);
          reduction.outer |= loops_.loops_of(loops_.loops[loop].extent);
        }
        for (ExprId part : reduction.element) reduction.outer |= loops_.exprs[part].loops;
        for (ExprId part : reduction.identity) reduction.outer |= loops_.exprs[part].loops;
        if (reduction.guard != no_expr) reduction.outer |= loops_.exprs[reduction.guard].loops;
        reduction.outer &= ~own;
      }
      expr.loops = reduction.outer | (reduction.is_prefix ? bit(reduction.loops[0]) : 0);
      continue;
    }
    expr.loops = loops_.loops_of(expr.index) | (expr.placeholder >= 0 ? placeholder_loop : 0);
    for (ExprId operand : expr.operands) expr.loops |= loops_.exprs[operand].loops;
  }
  for (Store& store : loops_.stores) store.loops = loops_.loops_of(store.address);
  find_needed();
}

void Arranger::find_needed() {
  needed_ = 0;
  shared_ = ~LoopSet(0);
  has_reductions_ = false;
  for (const BoundReduction& reduction : loops_.reductions) {
    if (reduction.element.empty()) continue;  // pruned
    has_reductions_ = true;
    needed_ |= reduction.outer;
    shared_ &= reduction.outer;
  }
  shared_ &= needed_;
  if (loops_.scatter)
    for (int loop : loops_.scatter->loops) needed_ |= bit(loop);
}

void Arranger::merge_all() {
  auto merge_neighbours = [&](const auto& list) {
    for (size_t i = 0; i + 1 < list().size();) {
      const int outer = list()[i], inner = list()[i + 1];
      if (can_merge(outer, inner)) {
        merge(outer, inner);
      } else {
        ++i;
      }
    }
  };
  merge_neighbours([&]() -> const std::vector<int>& { return loops_.domain; });
  for (size_t r = 0; r < loops_.reductions.size(); ++r)
    merge_neighbours([&]() -> const std::vector<int>& { return loops_.reductions[r].loops; });
}

// Neighbours along the loop lie side by side.
bool Arranger::is_along(const SymInt& address, int loop) const {
  return stride(address, loop) == 1 && coefficient(address, loops_.loops[loop].symbol);
}

// A few are written out, where their number is known.
bool Arranger::can_be_lanes(int loop) const {
  return turns_of(loop) >= (loops_.loops[loop].extent.is_constant() ? fewest_lanes : fewest_open);
}

// Whether an expression is computed from a read of the lane's neighbours, side by side.
bool Arranger::reads_along(ExprId id, int lane, std::set<ExprId>& seen) const {
  const Expr& expr = loops_.exprs[id];
  if (!(expr.loops & bit(lane)) || !seen.insert(id).second) return false;
  if (expr.op == ScalarOp::read) return is_along(expr.index, lane);
  bool found = false;
  each_operand(loops_, id, [&](ExprId operand) { found = found || reads_along(operand, lane, seen); });
  return found;
}

// Whether the reductions that depend on this loop read its neighbours side by side, and their own elements apart. Or,
// where results lie side by side as well, whether short ones read neighbours that are the same for all their elements:
// of a long one, which reads its own in order, enough is gained without lanes.
bool Arranger::reads_across(int lane) const {
  if (!can_be_lanes(lane) || decides_extents(lane)) return false;
  const bool puts_along = is_along(address_of_most(), lane);
  bool is_across = false;
  for (const BoundReduction& reduction : loops_.reductions) {
    if (!(reduction.outer & bit(lane))) continue;
    LoopSet own = 0;
    for (int loop : reduction.loops) own |= bit(loop);
    for (const Expr& expr : loops_.exprs) {
      if (expr.op != ScalarOp::read || !(expr.loops & own)) continue;
      if (!(expr.loops & bit(lane))) continue;  // one element for all lanes
      for (int loop : reduction.loops)
        if (expr.loops & bit(loop) && !lies_apart(expr.index, loop)) return false;
      if (!is_along(expr.index, lane)) return false;
      is_across = true;
    }
    if (!puts_along || terms_of(loops_, reduction) >= long_sum) continue;
    std::set<ExprId> seen;
    for (ExprId element : reduction.element) is_across = is_across || reads_along(element, lane, seen);
  }
  return is_across;
}

// About so many lanes, without a rest and of whole vectors where that can be; one block where there would be two.
int64_t even_lanes(int64_t count, int64_t lanes) {
  const int64_t most = lanes + lanes / 2;
  if (count <= most) return count;
  if (count % lanes == 0) return lanes;
  for (int64_t vector = least_lanes; vector >= 4; vector /= 2)
    for (int64_t even = most / vector * vector; even >= lanes / 2; even -= vector)
      if (count % even == 0) return even;
  return count <= 2 * lanes ? count : lanes;
}

// The turns of the domain's loops of the set together.
int64_t Arranger::turns_of_all(LoopSet set) const {
  int64_t turns = 1;
  for (int loop : loops_.domain)
    if (set & bit(loop)) turns *= turns_of(loop);
  return turns;
}

// How many turns parts of a loop have, from `least` to about `most`, that leave some threads rows enough: each part
// goes with `rows` others.
int64_t Arranger::part_of(int loop, int64_t rows, int64_t least, int64_t most) const {
  const int64_t count = turns_of(loop);
  int64_t part = most;
  while (part > least && rows * ((count + part - 1) / part) < enough_rows) part /= 2;
  return loops_.loops[loop].extent.constant() ? even_lanes(count, part) : part;
}

// Cuts the loop into blocks, which are rows, and lanes, which come last.
void Arranger::cut_lanes(int lane) {
  LoopSet rows = 0;
  for (int loop : loops_.domain)
    if (loop != lane && level(loop) <= (is_ordered_ ? 1 : 0)) rows |= bit(loop);
  const int64_t lanes = part_of(lane, turns_of_all(rows), least_lanes, most_lanes);
  std::erase(loops_.domain, lane);
  if (loops_.loops[lane].extent != SymInt(lanes)) {
    auto last_row =
        std::find_if(loops_.domain.begin(), loops_.domain.end(), [&](int loop) { return !(needed_ & bit(loop)); });
    cut(lane, lanes, static_cast<size_t>(last_row - loops_.domain.begin()));
  }
  loops_.domain.push_back(lane);
}

void Arranger::split_lanes(int lane) {
  cut_lanes(lane);
  loops_.lane = lane;
  refresh();
  turn_lanes();
}

// The place in the domain of the outermost loop whose turns share lines of memory that the turns of `inner` meet one by
// one; the domain's size if there is none. If `crowded`, only lines at distances for which caches have few places.
size_t Arranger::line_across(int inner, bool crowded) const {
  const size_t count = loops_.domain.size();
  const auto is_crowded = [&](const SymInt& address) {
    const std::optional<SymInt> apart = coefficient(address, loops_.loops[inner].symbol);
    return apart && apart->constant().value_or(1) % crowding == 0;
  };
  const auto shares_line = [&](const SymInt& address, int loop) {
    return stride(address, inner) >= least_lanes / 2 && !lies_apart(address, loop) && (!crowded || is_crowded(address));
  };
  for (size_t i = 0; i < count; ++i) {
    const int loop = loops_.domain[i];
    if (loop == inner || turns_of(loop) < least_line) continue;
    for (const Expr& expr : loops_.exprs)
      if (expr.op == ScalarOp::read && expr.loops & bit(inner) && shares_line(expr.index, loop)) return i;
    for (const Store& store : loops_.stores)
      if (shares_line(store.address, loop)) return i;
  }
  return count;
}

// Lanes that read or write a line of memory each, of which few stay in the caches: rows that share these follow each
// other, before it is the next lanes' turn. Other lines stay there until the next row, which reads on where the last
// one ended.
void Arranger::turn_lanes() {
  const size_t place = line_across(loops_.lane, true);
  const auto is_row = [&](int loop) { return loop != loops_.lane && level(loop) == 0; };
  const auto rows = static_cast<size_t>(std::ranges::find_if_not(loops_.domain, is_row) - loops_.domain.begin());
  if (place + 1 >= rows) return;
  const int along = loops_.domain[place];
  loops_.domain.erase(loops_.domain.begin() + static_cast<std::ptrdiff_t>(place));
  loops_.domain.insert(loops_.domain.begin() + static_cast<std::ptrdiff_t>(rows - 1), along);
  if (turns_of(along) >= 2 * turned_block) cut(along, turned_block, place);
  refresh();
}

// Partial results of neighbours that lie side by side, while those of one lie apart: all lanes take a step together.
void Arranger::split_prefix() {
  const int along = loops_.domain.back();
  const SymInt& address = loops_.stores[0].address;
  for (const BoundReduction& reduction : loops_.reductions) {
    if (reduction.element.empty()) continue;  // pruned
    if (!reduction.is_prefix || reduction.loops[0] != along) return;
  }
  if (stride(address, along) <= 1) return;
  const auto is_lane = [&](int loop) {
    return loop != along && is_along(address, loop) && can_be_lanes(loop) && !decides_extents(loop);
  };
  const auto lane = std::find_if(loops_.domain.begin(), loops_.domain.end(), is_lane);
  if (lane != loops_.domain.end()) split_lanes(*lane);
}

// Rows of a scatter that lie side by side go together, innermost: a place is found once for all of them. They do not
// meet, so each element still gets its values in order.
void Arranger::split_scatter() {
  std::vector<int>& loops = loops_.scatter->loops;
  auto is_lane = [&](int loop) {
    return std::find(loops.begin(), loops.end(), loop) != loops.end() && stride(loops_.stores[0].address, loop) == 1 &&
           can_be_lanes(loop) && loops_.loops_of(loops_.loops[loop].extent) == 0;
  };
  auto lane = std::find_if(loops_.domain.begin(), loops_.domain.end(), is_lane);
  if (lane == loops_.domain.end()) return;
  const int found = *lane;
  const size_t count = loops_.loops.size();
  cut_lanes(found);
  std::erase(loops, found);
  if (loops_.loops.size() > count) loops.push_back(static_cast<int>(count));
  loops.push_back(found);
  refresh();
}

// A copy that turns writes in order, and reads a line of memory for each element, or writes one of a further result: a
// block of them stays in the nearest cache until its neighbours are wanted, which is when the loop along the line comes
// round.
void Arranger::split_turned() {
  if (loops_.domain.size() < 2) return;
  const int inner = loops_.domain.back();
  if (turns_of(inner) < 2 * turned_block) return;
  if (decides_extents(inner)) return;
  const size_t along = line_across(inner, false);
  if (along == loops_.domain.size()) return;
  cut(inner, turned_block, along);
  refresh();
}

// The loops of which most turns would compute the same again: what does not depend on them, and on the domain's last
// loop does, costs most of all that is worth keeping.
LoopSet Arranger::find_sharing() const {
  LoopSet domain = 0;
  for (int loop : loops_.domain) domain |= bit(loop);
  const int last = loops_.domain.back();
  std::map<LoopSet, std::set<ExprId>> shared;  // by the loops that they do not depend on, though what reads them does
  const auto read_by = [&](LoopSet user, ExprId id) {
    const Expr& expr = loops_.exprs[id];
    const LoopSet others = user & ~expr.loops & domain;
    std::set<ExprId> seen;
    if (others && expr.loops & bit(last) && expr.op != ScalarOp::size && !expr.is_partial &&
        cost_of(loops_, id, bit(last), seen) >= worth_keeping)
      shared[others].insert(id);
  };
  for (size_t id = 0; id < loops_.exprs.size(); ++id)
    each_operand(loops_, static_cast<ExprId>(id), [&](ExprId operand) { read_by(loops_.exprs[id].loops, operand); });
  for (const Store& store : loops_.stores) read_by(store.loops, store.value);
  LoopSet best = 0;
  int64_t saved = 0;
  for (const auto& [others, ids] : shared) {
    int64_t cost = 0;
    std::set<ExprId> seen;
    for (ExprId id : ids) cost += cost_of(loops_, id, bit(last), seen);
    if (turns_of_all(others) < least_turns || cost <= saved) continue;
    saved = cost;
    best = others;
  }
  return best;
}

// Turns that share values go inside the rows, around a part of the last loop: so many of each value are kept. Where
// that leaves few rows, some of these turns are rows, too, which compute the values for themselves.
bool Arranger::split_sharing() {
  const auto is_fixed = [&](const Loop& loop) { return loops_.loops_of(loop.extent) == 0 && typical(loop.extent) > 0; };
  if (!std::ranges::all_of(loops_.loops, is_fixed)) return false;
  const LoopSet sharing = find_sharing();
  if (!sharing) return false;
  const int last = loops_.domain.back();
  const auto is_row = [&](int loop) { return loop != last && !(sharing & bit(loop)); };
  const auto first = std::stable_partition(loops_.domain.begin(), loops_.domain.end(), is_row);
  loops_.rows = static_cast<size_t>(first - loops_.domain.begin());
  loops_.sharing = loops_.domain.size() - 1 - loops_.rows;
  int64_t rows = turns_of_all(~(sharing | bit(last)));
  const std::optional<int64_t> count = loops_.loops[last].extent.constant();
  const int64_t part = part_of(last, rows, least_sharers, most_sharers);
  rows *= (turns_of(last) + part - 1) / part;
  if (!count || part < *count || loops_.rows == 0) cut(last, part, loops_.rows++);
  const int outer = loops_.domain[loops_.rows];
  const int64_t turns = turns_of(outer);
  if (rows < enough_rows && turns > 1) cut(outer, (turns * rows + enough_rows - 1) / enough_rows, loops_.rows++);
  refresh();
  return true;
}

// Whether the number of another loop's turns depends on this one.
bool Arranger::decides_extents(int loop) const {
  return std::any_of(loops_.loops.begin(), loops_.loops.end(),
                     [&](const Loop& other) { return loops_.loops_of(other.extent) & bit(loop); });
}

// Without reductions, as many loops are rows as leave each row worth its start. A loop of which a part is enough for
// that is cut, so that rows stay many: those outside it may have one turn. How often an open loop turns is for the run
// to say.
void Arranger::split_rows() {
  loops_.rows = loops_.domain.size() - 1;
  int64_t inside = turns_of(loops_.domain.back());
  while (loops_.rows > 1 && inside < elements_a_row) {
    const int loop = loops_.domain[loops_.rows - 1];
    const int64_t enough = (elements_a_row + inside - 1) / std::max<int64_t>(inside, 1);
    const std::optional<int64_t> extent = loops_.loops[loop].extent.constant();
    if ((!extent || *extent >= 2 * enough) && !decides_extents(loop)) {
      int64_t size = enough;  // one that leaves no rest, if there is one
      while (extent && size < 2 * enough && *extent % size != 0) ++size;
      cut(loop, extent && *extent % size == 0 ? size : enough, loops_.rows - 1);
      refresh();
      return;
    }
    --loops_.rows;
    inside *= turns_of(loop);
  }
}

// Splits a loop into blocks of `size` turns, which it runs over from then on, and returns the loop over these.
int Arranger::split(int loop, const SymInt& size) {
  const SymInt extent = loops_.loops[loop].extent;
  const int block = static_cast<int>(loops_.loops.size());
  const SymInt first = SymInt::symbol("$" + std::to_string(block)) * size;
  const shape::Substitution apart = {{loops_.loops[loop].symbol, first + loops_.loops[loop].variable()}};
  const SymInt whole = IndexSpace(facts_).quotient(extent, size);
  const bool is_even = whole * size == extent;
  loops_.loops.push_back(
      {"$" + std::to_string(block), is_even ? whole : shape::floor_div(extent + (size - SymInt(1)), size)});
  loops_.loops[loop].extent = is_even ? size : shape::min(size, extent - first);
  loops_.loops[loop].most = size;
  for (Expr& expr : loops_.exprs) expr.index = shape::substitute(expr.index, apart);
  for (Store& store : loops_.stores) store.address = shape::substitute(store.address, apart);
  if (loops_.scatter) loops_.scatter->address = shape::substitute(loops_.scatter->address, apart);
  return block;
}

// Cuts a loop into blocks; the loop over these comes at `place` of the domain.
void Arranger::cut(int loop, const SymInt& size, size_t place) {
  const int block = split(loop, size);
  loops_.domain.insert(loops_.domain.begin() + static_cast<std::ptrdiff_t>(place), block);
}

// Reductions of a few terms are written out by LLVM, so that a loop around them can be wide: turns of the last loop are
// no rows then, if enough others are.
void Arranger::widen_rows() {
  constexpr int64_t few_terms = 8, least_turns = 3;
  if (loops_.domain.size() < 2) return;
  const size_t last = loops_.domain.size() - 1;
  const int64_t turns = turns_of(loops_.domain[last]);
  if (turns < least_turns) return;
  for (const BoundReduction& reduction : loops_.reductions)
    if (terms_of(loops_, reduction) > few_terms) return;
  int64_t rows = std::max<int64_t>(1, turns / elements_a_row);
  for (size_t i = 0; i < last; ++i) rows *= turns_of(loops_.domain[i]);
  if (rows < enough_rows) return;
  if (turns >= 2 * elements_a_row) {
    cut(loops_.domain[last], elements_a_row, last);
    refresh();
  } else {
    --loops_.rows;
  }
}

void Arranger::run() {
  prune();
  split_joined();
  is_ordered_ = loops_.scatter || std::any_of(loops_.reductions.begin(), loops_.reductions.end(),
                                              [](const BoundReduction& reduction) { return reduction.is_prefix; });
  find_needed();
  if (!is_ordered_ && !has_reductions_) split_quotients();
  order();
  merge_all();
  for (size_t i = loops_.domain.size(); i-- > 0 && !is_ordered_ && loops_.lane < 0;)
    if (needed_ & bit(loops_.domain[i]) && reads_across(loops_.domain[i])) split_lanes(loops_.domain[i]);
  if (is_ordered_ && !loops_.scatter) split_prefix();
  const bool is_pointwise = !is_ordered_ && !has_reductions_;
  if (is_pointwise && loops_.domain.size() > 1 && split_sharing()) return;
  if (is_pointwise) split_turned();
  if (loops_.scatter && !has_reductions_) split_scatter();
  // A reduction stands inside the rows, so that one that does not depend on a loop would be computed anew in its every
  // turn.
  const size_t count = loops_.domain.size();
  if (!is_pointwise) {
    const int most = is_ordered_ ? 1 : 0;
    const auto is_row = [&](int loop) {  // rows are counted before the first begins
      return loop != loops_.lane && level(loop) <= most && loops_.loops_of(loops_.loops[loop].extent) == 0;
    };
    while (loops_.rows < count && is_row(loops_.domain[loops_.rows])) ++loops_.rows;
    if (loops_.rows == count && !is_ordered_) widen_rows();
    return;
  }
  if (count <= 1) {
    loops_.rows = count;
    return;
  }
  split_rows();
}

}  // namespace

void arrange(Loops& loops, const shape::Facts& facts, const shape::Bindings& hints) {
  Arranger(loops, facts, hints).run();
}

}  // namespace atenon::lower
