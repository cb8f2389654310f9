#include "capture/strides.h"

#include <doctest/doctest.h>

#include "capture/tensor_data.h"

using namespace atenon;
using capture::row_major;
using capture::strides_of_reshape;
using shape::SymInt;

TEST_CASE("a reshape is a view exactly where strides can say it") {
  const SymInt b = SymInt::symbol("b");
  const std::vector<SymInt> sizes{b, 6, 4};
  // Row-major: any reshape.
  CHECK(strides_of_reshape(sizes, row_major(sizes), {b * 24}) == std::vector<SymInt>{1});
  CHECK(strides_of_reshape(sizes, row_major(sizes), {b, 2, 3, 4}) == std::vector<SymInt>{24, 12, 4, 1});
  // A slice of the last axis: the axes before it may merge, the last may be cut.
  const std::vector<SymInt> half{b, 6, 2};
  const std::vector<SymInt> strides{24, 4, 1};
  CHECK(strides_of_reshape(half, strides, {b * 6, 2}) == std::vector<SymInt>{4, 1});
  CHECK(strides_of_reshape(half, strides, {b, 6, 2, 1}) == std::vector<SymInt>{24, 4, 1, 1});
  CHECK(!strides_of_reshape(half, strides, {b, 12}));
  // A transposed tensor: axes may be cut, not merged.
  const std::vector<SymInt> transposed{4, b};
  CHECK(strides_of_reshape(transposed, {1, 4}, {2, 2, b}) == std::vector<SymInt>{2, 1, 4});
  CHECK(!strides_of_reshape(transposed, {1, 4}, {4 * b}));
}

TEST_CASE("a reshape that copies is a view for some sizes") {
  const SymInt n = SymInt::symbol("n");
  const auto ways = [](const std::vector<SymInt>& sizes, const std::vector<SymInt>& strides,
                       const std::vector<SymInt>& reshaped) {
    std::string text;
    for (const shape::SymBool& way : capture::ways_to_reshape(sizes, strides, reshaped))
      text += (text.empty() ? "" : ", ") + way.to_string();
    return text;
  };
  CHECK(ways({4, n}, {1, 4}, {2 * n, 2}) == "n == 1, n == 2");
  CHECK(ways({4, n}, {1, 4}, {4 * n}) == "n == 1");
  CHECK(ways({4, n}, {1, 4}, {4, n}) == "n == 1");  // contiguous()
  CHECK(ways({n, 6, 2}, {24, 4, 1}, {n, 12}).empty());
  CHECK(ways({n, 5, 8}, {40, 1, 5}, {n, 5, 8}).empty());
  CHECK(ways({n, 9, 7}, {7, 7 * n, 1}, {n, 9, 7}) == "n == 1");
}

TEST_CASE("a transposition exchanges strides; without axes there is nothing to exchange") {
  const capture::Step step{.target = "aten::transpose.int", .arguments = {SymInt(0), SymInt(-1)}};
  CHECK(capture::strides_of_view(step, {6, 1}, {6, 4}) == std::vector<SymInt>{1, 6});
  CHECK(!capture::strides_of_view(step, {}, {}));
}
