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

}  // namespace
}  // namespace atenon::lower
