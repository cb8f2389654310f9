#include "capture/promises.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <ranges>

#include "capture/symbols.h"
#include "opset/rules.h"

namespace atenon::capture {
namespace {

constexpr int64_t most_sizes_tried = 4096;
constexpr size_t most_reasons = 4;  // that a warning gives

class Promises {
 public:
  Promises(Session& session, const Reliance& reliance)
      : session_(session),
        symbols_(reliance.symbols),
        assumptions_(reliance.assumptions),
        provenance_(reliance.provenance),
        is_all_(reliance.is_all) {
    for (const ir::Symbol& symbol : symbols_) facts_.declare(symbol.name, symbol.range);
    for (const ir::Constraint& assumption : assumptions_) facts_.assume(assumption.truth);
  }

  bool keep(const ir::Symbol& symbol) {
    const SymInt size = SymInt::symbol(symbol.name);
    const auto automatic = session_.automatic.find(symbol.name);
    if (automatic != session_.automatic.end() && automatic->second) return true;  // Dim.AUTO is to be found out
    if (symbol.range.lower == symbol.range.upper) return true;
    if (const auto number = facts_.simplify(size).constant())
      return fail(
          symbol, "dynamic, and the program needs it to be " + std::to_string(*number),
          "leave " + symbol.source + " out of dynamic_shapes and --input's names, or give Dim.STATIC or Dim.AUTO",
          [&](const shape::Facts& known) { return known.simplify(size).is_constant(); }, symbol.range);
    if (automatic != session_.automatic.end()) return true;
    for (const ir::Symbol& other : symbols_) {
      if (&other == &symbol) break;
      if (!other.hint || session_.automatic.contains(other.name)) continue;
      const SymBool same = shape::equal(size, SymInt::symbol(other.name));
      if (facts_.decide(same) == shape::Truth::proven)
        return fail(
            symbol, "a dimension of its own, and the program needs it to equal `" + other.name + "`",
            "the same name for " + other.source + " and " + symbol.source,
            [&](const shape::Facts& known) { return known.decide(same) == shape::Truth::proven; }, symbol.range);
    }
    // What relates it to other sizes may bound it, too; that is a relation, which run checks. The ends are open, since
    // what only rounds them (a multiple of 32 up to 1000 is at most 992) breaks no promise.
    const shape::Range open{std::min<int64_t>(symbol.range.lower, 0), shape::Range::highest};
    shape::Facts alone;
    alone.declare(symbol.name, open);
    for (const ir::Constraint& assumption : assumptions_)
      if (assumption.truth.symbols() == std::set<std::string>{symbol.name}) alone.assume(assumption.truth);
    const shape::Range range = symbol.range, bounds = alone.bounds(size);
    if (range.upper != shape::Range::highest && bounds.upper < range.upper)
      return fail(
          symbol,
          "up to " + std::to_string(range.upper) + ", and the program needs at most " + std::to_string(bounds.upper),
          dimension(symbol, range.lower, bounds.upper),
          [&](const shape::Facts& known) { return known.bounds(size).upper < range.upper; }, open);
    const Session::Derived from = derivation(symbol);
    // 0 is the least that Dim takes unasked, so that neither it nor 1 is a promise then; that of 1 may be broken.
    const bool is_asked = range.lower >= 2 * from.factor + from.offset;
    if (is_asked && bounds.lower > range.lower)
      return fail(
          symbol,
          "from " + std::to_string(range.lower) + " on, and the program needs at least " + std::to_string(bounds.lower),
          dimension(symbol, bounds.lower, range.upper),
          [&](const shape::Facts& known) { return known.bounds(size).lower > range.lower; }, open);
    if (is_all_ && range.upper != shape::Range::highest)
      warn_of_gaps(symbol, range, range.lower >= from.factor + from.offset ? 0 : 2 * from.factor + from.offset);
    return true;
  }

 private:
  // Sizes within the range that the program does not take, as 9 for `s % 4 == 0`: the first that each assumption keeps
  // out. Run checks that, and so no program is refused for it.
  void warn_of_gaps(const ir::Symbol& symbol, const shape::Range& range, int64_t least_asked) {
    std::vector<const ir::Constraint*> alone;
    for (const ir::Constraint& assumption : assumptions_)
      if (assumption.truth.symbols() == std::set<std::string>{symbol.name}) alone.push_back(&assumption);
    if (alone.empty()) return;
    const Session::Derived from = derivation(symbol);
    const shape::Range roots{(range.lower - from.offset + from.factor - 1) / from.factor,
                             (range.upper - from.offset) / from.factor};
    const int64_t tried = std::min(roots.upper, roots.lower + most_sizes_tried);
    std::vector<int64_t> taken;
    std::vector<const ir::Constraint*> broken;  // in the order of the first size that each keeps out
    std::set<int64_t> gaps;
    for (int64_t root = roots.lower; root <= tried; ++root) {
      const int64_t size = from.factor * root + from.offset;
      bool is_taken = true;
      for (const ir::Constraint* assumption : alone) {
        if (shape::evaluate(assumption->truth, {{symbol.name, size}}).value_or(true)) continue;
        is_taken = false;
        if (size < least_asked || std::ranges::find(broken, assumption) != broken.end()) continue;
        broken.push_back(assumption);
        gaps.insert(size);
      }
      if (is_taken) taken.push_back(root);
    }
    if (broken.empty()) return;
    std::string sizes;
    for (const int64_t gap : gaps)
      sizes += (sizes.empty() ? "" : gap == *gaps.rbegin() ? " and " : ", ") + std::to_string(gap);
    Diagnostic diagnostic = error(Status::unsupported, 308,
                                  "dimension `" + symbol.name + "` of " + symbol.source + " is promised to be " +
                                      symbol.range.to_string() + ", and the program does not take " + sizes);
    for (const ir::Constraint* assumption : broken | std::views::take(most_reasons))
      name_reason(diagnostic, *assumption);
    if (broken.size() > most_reasons)
      diagnostic.notes.push_back({"and " + std::to_string(broken.size() - most_reasons) + " assumptions more"});
    diagnostic.notes.push_back({"fix: " + dimension_of(symbol, taken, tried, roots.upper)});
    session_.findings.push_back(std::move(diagnostic));
  }

  // What the user writes for the sizes that come of `taken`, which are in order and go on from `tried` to `highest`.
  std::string dimension_of(const ir::Symbol& symbol, const std::vector<int64_t>& taken, int64_t tried,
                           int64_t highest) const {
    const auto& [root, factor, offset] = derivation(symbol);
    int64_t step = 0;
    for (size_t i = 1; i < taken.size(); ++i) step = std::gcd(step, taken[i] - taken[i - 1]);
    if (step == 0 || taken.back() - taken.front() != step * static_cast<int64_t>(taken.size() - 1))
      return "leave " + symbol.source + " out of dynamic_shapes and --input's names, or run with sizes that it takes";
    const int64_t last = taken.back() + step > tried ? highest : taken.back();
    if (step == 1) return dimension(symbol, factor * taken.front() + offset, factor * last + offset);
    const int64_t rest = taken.front() % step, shift = factor * rest + offset;
    const shape::Range range{taken.front() / step, (last - rest) / step};
    const std::string multiple = std::to_string(factor * step) + "*", more = shift ? "+" + std::to_string(shift) : "";
    return multiple + "torch.export.Dim(\"" + root + "\", min=" + std::to_string(range.lower) +
           ", max=" + std::to_string(range.upper) + ")" + more + ", or the size " + multiple + root + more +
           " in --input and --dynamic " + root + "=" + range.to_string();
  }

  void name_reason(Diagnostic& diagnostic, const ir::Constraint& assumption) const {
    diagnostic.notes.push_back(
        {assumption.truth.to_string() + (assumption.reason.empty() ? "" : ": " + assumption.reason)});
    if (const std::string place = provenance_.at(assumption.provenance).place(); !place.empty())
      diagnostic.notes.push_back({"relied on at " + place});
  }

  Session::Derived derivation(const ir::Symbol& symbol) const {
    const auto found = session_.derived.find(symbol.name);
    return found == session_.derived.end() ? Session::Derived{symbol.name, 1, 0} : found->second;
  }

  // What the user writes for a size within [lower, upper].
  std::string dimension(const ir::Symbol& symbol, int64_t lower, int64_t upper) const {
    const auto& [root, factor, offset] = derivation(symbol);
    const bool is_open = upper == shape::Range::highest;
    const shape::Range range{(lower - offset + factor - 1) / factor, is_open ? upper : (upper - offset) / factor};
    return "torch.export.Dim(\"" + root + "\", min=" + std::to_string(range.lower) +
           (is_open ? "" : ", max=" + std::to_string(range.upper)) + "), or --dynamic " + root + "=" +
           range.to_string();
  }

  // `is_broken` says whether what is known breaks the promise, of a size in `range`; the first assumption that makes it
  // so is named.
  bool fail(const ir::Symbol& symbol, const std::string& promise, std::string fix,
            const std::function<bool(const shape::Facts&)>& is_broken, const shape::Range& range) {
    Diagnostic diagnostic =
        error(Status::unsupported, 308,
              "dimension `" + symbol.name + "` of " + symbol.source + " is promised to be " + promise);
    shape::Facts known;
    for (const ir::Symbol& each : symbols_) known.declare(each.name, &each == &symbol ? range : each.range);
    for (const ir::Constraint& assumption : assumptions_) {
      known.assume(assumption.truth);
      if (!is_broken(known)) continue;
      name_reason(diagnostic, assumption);
      if (assumption.reason.ends_with(opset::counts_results))
        fix += std::string(". In place of a loop, ") + instead_of_loop;
      break;
    }
    diagnostic.notes.push_back({"fix: " + fix});
    session_.raise(std::move(diagnostic));
    return session_.tolerate();
  }

  Session& session_;
  const std::vector<ir::Symbol>& symbols_;
  const std::vector<ir::Constraint>& assumptions_;
  const ir::Provenance& provenance_;
  const bool is_all_;
  shape::Facts facts_;
};

}  // namespace

bool keeps_promises(Session& session, const Reliance& reliance) {
  Promises promises(session, reliance);
  for (const ir::Symbol& symbol : reliance.symbols)
    if (symbol.hint && !symbol.source.empty() && !promises.keep(symbol)) return false;
  return true;
}

}  // namespace atenon::capture
