#include "capture/promises.h"

#include <algorithm>
#include <functional>

#include "capture/symbols.h"
#include "opset/rules.h"

namespace atenon::capture {
namespace {

class Promises {
 public:
  explicit Promises(Session& session) : session_(session) {}

  bool keep(const ir::Symbol& symbol) {
    const SymInt size = SymInt::symbol(symbol.name);
    const auto automatic = session_.automatic.find(symbol.name);
    if (automatic != session_.automatic.end() && automatic->second) return true;  // Dim.AUTO is to be found out
    if (symbol.range.lower == symbol.range.upper) return true;
    const shape::Facts& facts = session_.facts;
    if (const auto number = facts.simplify(size).constant())
      return fail(
          symbol, "dynamic, and the program needs it to be " + std::to_string(*number),
          "leave " + symbol.source + " out of dynamic_shapes and --input's names, or give Dim.STATIC or Dim.AUTO",
          [&](const shape::Facts& known) { return known.simplify(size).is_constant(); }, symbol.range);
    if (automatic != session_.automatic.end()) return true;
    for (const ir::Symbol& other : session_.symbols) {
      if (&other == &symbol) break;
      if (!other.hint || session_.automatic.contains(other.name)) continue;
      const SymBool same = shape::equal(size, SymInt::symbol(other.name));
      if (facts.decide(same) == shape::Truth::proven)
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
    for (const ir::Constraint& assumption : session_.assumptions)
      if (assumption.truth.symbols() == std::set<std::string>{symbol.name}) alone.assume(assumption.truth);
    const shape::Range range = symbol.range, bounds = alone.bounds(size);
    if (range.upper != shape::Range::highest && bounds.upper < range.upper)
      return fail(
          symbol,
          "up to " + std::to_string(range.upper) + ", and the program needs at most " + std::to_string(bounds.upper),
          dimension(symbol, range.lower, bounds.upper),
          [&](const shape::Facts& known) { return known.bounds(size).upper < range.upper; }, open);
    const Session::Derived from = derivation(symbol);
    // 0 and 1 are what Dim and --input allow unasked.
    const bool is_asked = range.lower >= 2 * from.factor + from.offset;
    if (is_asked && bounds.lower > range.lower)
      return fail(
          symbol,
          "from " + std::to_string(range.lower) + " on, and the program needs at least " + std::to_string(bounds.lower),
          dimension(symbol, bounds.lower, range.upper),
          [&](const shape::Facts& known) { return known.bounds(size).lower > range.lower; }, open);
    return true;
  }

 private:
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
    for (const ir::Symbol& each : session_.symbols) known.declare(each.name, &each == &symbol ? range : each.range);
    for (const ir::Constraint& assumption : session_.assumptions) {
      known.assume(assumption.truth);
      if (!is_broken(known)) continue;
      diagnostic.notes.push_back(
          {assumption.truth.to_string() + (assumption.reason.empty() ? "" : ": " + assumption.reason)});
      if (const std::string place = session_.program.provenance.at(assumption.provenance).place(); !place.empty())
        diagnostic.notes.push_back({"relied on at " + place});
      if (assumption.reason.ends_with(opset::counts_results))
        fix += std::string(". In place of a loop, ") + instead_of_loop;
      break;
    }
    diagnostic.notes.push_back({"fix: " + fix});
    session_.raise(std::move(diagnostic));
    return session_.tolerate();
  }

  Session& session_;
};

}  // namespace

bool keeps_promises(Session& session) {
  Promises promises(session);
  for (const ir::Symbol& symbol : session.symbols)
    if (symbol.hint && !symbol.source.empty() && !promises.keep(symbol)) return false;
  return true;
}

}  // namespace atenon::capture
