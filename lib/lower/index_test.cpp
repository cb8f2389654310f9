#include "lower/index.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace atenon::lower {
namespace {

TEST_CASE("a loop is cut where what is read bends, and between the cuts it is linear") {
  const SymInt v = SymInt::symbol("i"), other = SymInt::symbol("j");
  struct Case {
    std::string what;
    SymInt index;
    std::vector<int64_t> ends;
  };
  const Case cases[] = {
      {"linear", v * 3 + 2, {100}},
      {"a roll", shape::mod(v - 5, 100), {5, 100}},
      {"a repetition", shape::mod(v, 40), {40, 80, 100}},
      {"backwards, twice around", shape::mod(-(v * 2) + 60, 100), {31, 81, 100}},
      {"quotients", shape::floor_div(v * 2 + 10, 70), {30, 65, 100}},
      {"repeated edges", shape::min(shape::max(v - 3, 0), 93), {4, 97, 100}},
      {"reflected edges", shape::min(shape::max(v - 3, -v + 3), -shape::max(v - 3, -v + 3) + 186), {4, 97, 100}},
      {"the middle of three", shape::min(v, shape::max(20, -v + 90)), {46, 71, 100}},
      {"in what other loops decide, too", shape::floor_div(shape::mod(v + 10, 100) + other, 7), {90, 100}},
      {"too many", shape::floor_div(v, 5), {100}},
      {"beside too many", shape::floor_div(v, 5) + shape::mod(v + 1, 100), {99, 100}},
      {"a product", shape::mod(v * v, 7), {100}},
      {"by another loop", shape::mod(v + 1, other), {100}},
  };
  for (const Case& item : cases) {
    CAPTURE(item.what);
    Stretches stretches("i", 100);
    stretches.cut_at_bends(item.index, 8);
    const std::vector<int64_t> ends(stretches.ends().begin(), stretches.ends().end());
    CAPTURE(ends);
    CHECK(ends == item.ends);
    int64_t first = 0;
    for (int64_t end : stretches.ends()) {
      for (const auto& [spelling, line] : stretches.lines(first, end)) {
        CAPTURE(spelling);
        CHECK(coefficient(line, "i").has_value());
        const SymInt part = *shape::parse_int(spelling);
        for (int64_t turn = first; turn < end; ++turn)
          CHECK(shape::evaluate(line, {{"i", turn}}) == shape::evaluate(part, {{"i", turn}}));
      }
      first = end;
    }
  }
}

TEST_CASE("a loop is cut at what sizes decide, and is right in each stretch whatever they are") {
  const SymInt v = SymInt::symbol("i"), n = SymInt::symbol("n"), k = SymInt::symbol("k");
  struct Case {
    std::string what;
    SymInt index, extent;
    size_t stretches;
    bool is_linear = true;  // in all stretches but the last, at least
  };
  const SymInt up = shape::max(v - 2, -v + 2);
  const Case cases[] = {
      {"linear", v * 3 + n, n, 1},
      {"a roll", shape::mod(v - 5, n), n, 2},
      {"a roll by a size, backwards", shape::floor_div(-v + k, n), n, 2},
      {"a border that comes back", shape::mod(v - k, n), n + 2 * k, 4},
      {"two by two", shape::mod(v * 2 + 1, n), n, 4},
      {"two by two, backwards", shape::floor_div(-(v * 2) + k, n - k), n, 4},
      {"repeated edges", shape::min(shape::max(v - k, 0), n - 1), n + 2 * k, 3},
      {"reflected edges", shape::min(up, -up + 2 * n - 2), n + 5, 4},
      {"of three", shape::min(shape::min(v, k), -v + n), n, 4},
      {"level beside each other", shape::max(v + k, v + n), n, 1},
      {"by what other loops decide", shape::max(v - SymInt::symbol("j"), 0), n, 2},
      {"of another part", shape::floor_div(shape::mod(v + k, n) + 1, n), n, 4},
      {"a constant divisor", shape::floor_div(v, 2), 2 * n, 1, false},
      {"a product", shape::mod(v * k, n), n, 1, false},
      {"by data", shape::max(v - SymInt::symbol("%1"), 0), n, 1, false},
  };
  for (const Case& item : cases) {
    CAPTURE(item.what);
    OpenStretches stretches("i", item.extent);
    stretches.cut_at_sign(7, v - 3, 2);
    CHECK(stretches.stretches().size() == 2);
    stretches = OpenStretches("i", item.extent);
    stretches.cut_at_bends(item.index, 8);
    CHECK(stretches.stretches().size() == item.stretches);
    CHECK(stretches.stretches()[0].lines.empty() == (!item.is_linear || item.what == "linear"));
    OpenStretches few("i", item.extent);
    few.cut_at_bends(item.index, 1);
    CHECK(few.stretches().size() == 1);
    stretches.cut_at_sign(7, k - 2 * v, 16);
    for (int64_t size = 0; size < 12; ++size) {
      for (int64_t other = 0; other < 12; ++other) {
        shape::Bindings bindings = {{"n", size}, {"k", other}, {"j", other - 3}, {"%1", 4}};
        CAPTURE(bindings);
        const int64_t turns = std::max<int64_t>(0, *shape::evaluate(item.extent, bindings));
        int64_t turn = 0;
        for (const OpenStretches::Stretch& stretch : stretches.stretches()) {
          const std::optional<int64_t> first = shape::evaluate(stretch.first, bindings),
                                       end = shape::evaluate(stretch.end, bindings);
          const bool divides_by_zero = size == 0 || size == other;
          CHECK(((first && end) || divides_by_zero));
          if (!first || !end) break;
          for (int64_t at = *first; at < *end; ++at, ++turn) {
            CHECK(turn == at);
            bindings["i"] = at;
            for (const auto& [spelling, line] : stretch.lines) {
              CHECK(coefficient(line, "i").has_value());
              const std::optional<int64_t> part = shape::evaluate(*shape::parse_int(spelling), bindings);
              if (part) CHECK(shape::evaluate(line, bindings) == part);
            }
            for (const auto& [condition, truth] : stretch.truths) CHECK(truth == (other - 2 * at >= 0));
          }
          if (&stretch == &stretches.stretches().back()) CHECK(turn == turns);
        }
      }
    }
  }
}

}  // namespace
}  // namespace atenon::lower
