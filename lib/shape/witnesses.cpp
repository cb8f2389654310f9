// Points at which all that is known holds: what is false at one of them needs no search for a proof.
#include <algorithm>

#include "shape/facts.h"

namespace atenon::shape {
namespace {

constexpr uint64_t most_trials = 64;
constexpr size_t enough_witnesses = 8;

// Any fixed sequence without a pattern: the finaliser of MurmurHash3.
uint64_t scrambled(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

// Of the range, first its least two values, then such as are near, and later ones further off.
int64_t value_in(const Range& range, uint64_t trial, uint64_t symbol) {
  constexpr int64_t far_below = -1000;
  const int64_t lower = std::max(range.lower, std::min(far_below, range.upper));
  const uint64_t width = static_cast<uint64_t>(range.upper) - static_cast<uint64_t>(lower);
  const uint64_t reach = trial < 2 ? trial : trial < 24 ? 9 : trial < 40 ? 80 : 1000;
  const uint64_t distance = trial < 2 ? trial : scrambled(trial << 32 | symbol) % (reach + 1);
  return lower + static_cast<int64_t>(width == UINT64_MAX ? distance : distance % (width + 1));
}

}  // namespace

const std::vector<Bindings>& Facts::witnesses() const {
  if (memory_.witnesses) return *memory_.witnesses;
  std::vector<Bindings>& found = memory_.witnesses.emplace();
  const auto holds = [&](const Bindings& point) {
    return std::all_of(known_ranges_.begin(), known_ranges_.end(),
                       [&](const auto& known) { return known.second.contains(point.at(known.first)); }) &&
           std::all_of(multiples_.begin(), multiples_.end(),
                       [&](const auto& known) { return evaluate(known.second, point) == point.at(known.first); }) &&
           std::all_of(assumptions_.begin(), assumptions_.end(),
                       [&](const SymBool& truth) { return evaluate(truth, point).value_or(false); });
  };
  // Symbols that are free come first, then those that follow from them: a quotient may be pinned by another one.
  const auto complete = [&](Bindings& point) {
    bool is_complete = false;
    for (size_t known = 0; !is_complete && known != point.size();) {
      known = point.size();
      is_complete = true;
      for (const Substitution* dependents : {&multiples_, &pinned_})
        for (const auto& [symbol, value] : *dependents) {
          const std::optional<int64_t> number = evaluate(value, point);
          if (number) point[symbol] = *number;
          is_complete &= number.has_value();
        }
    }
    return is_complete;
  };
  if (std::any_of(known_ranges_.begin(), known_ranges_.end(),
                  [](const auto& known) { return known.second.lower > known.second.upper; }))
    return found;
  for (uint64_t trial = 0; trial < most_trials && found.size() < enough_witnesses; ++trial) {
    Bindings point;
    for (const auto& [symbol, range] : known_ranges_) {
      if (!pinned_.contains(symbol) && !multiples_.contains(symbol))
        point[symbol] = value_in(range, trial, point.size());
    }
    if (complete(point) && holds(point)) found.push_back(std::move(point));
  }
  return found;
}

}  // namespace atenon::shape
