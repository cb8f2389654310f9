// Filters of lines against oneDNN's convolutions, which are held to plain loops. Operands are small whole numbers: no
// tolerance is needed.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/body.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("filters of lines equal oneDNN's convolutions") {
  struct Case {
    std::vector<int64_t> x, weight;
    int64_t stride, padding, dilation;
  };
  const Case cases[] = {
      {{1, 3, 40, 150}, {3, 1, 11, 11}, 1, 5, 1},
      {{2, 1, 9, 21}, {1, 1, 3, 3}, 1, 1, 1},
      {{1, 1, 33, 65}, {2, 1, 3, 3}, 1, 1, 1},
      {{5, 1, 7, 8}, {1, 1, 4, 4}, 1, 0, 1},
      {{1, 3, 17, 40}, {3, 1, 5, 5}, 2, 2, 1},
      {{1, 2, 30, 30}, {6, 1, 3, 3}, 3, 1, 2},
      {{1, 3, 20, 33}, {4, 3, 3, 3}, 1, 1, 1},
      {{1, 7, 12, 18}, {7, 7, 2, 5}, 2, 1, 1},
      {{1, 3, 6, 300}, {3, 1, 1, 21}, 1, 0, 1},
      {{1, 3, 60, 30}, {3, 1, 21, 1}, 1, 2, 1},
      {{1, 1, 700, 150}, {2, 1, 601, 1}, 1, 2, 1},
      {{1, 1, 3000}, {1, 1, 112}, 1, 56, 1},
      {{2, 4, 50}, {4, 1, 7}, 1, 9, 3},
      {{1, 1, 41}, {5, 1, 8}, 4, 2, 1},
      {{1, 20, 90}, {20, 1, 25}, 1, 12, 1},
      {{1, 1, 9, 12, 20}, {1, 1, 9, 9, 9}, 1, 4, 1},
      {{1, 2, 5, 6, 7}, {4, 1, 3, 3, 3}, 2, 1, 1},
      {{1, 3, 4, 5, 70}, {2, 3, 2, 3, 3}, 1, 1, 2},
      {{1, 1, 2, 2}, {1, 1, 3, 3}, 1, 2, 1},
      {{1, 1, 1, 1100}, {1, 1, 2, 2}, 1, 1, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.x[1]);
    CAPTURE(c.weight.back());
    const size_t rank = c.x.size();
    std::vector<int64_t> sizes = c.x;
    sizes[1] = c.weight[0];
    for (size_t axis = 2; axis < rank; ++axis)
      sizes[axis] = (c.x[axis] + 2 * c.padding - c.dilation * (c.weight[axis] - 1) - 1) / c.stride + 1;
    const Tensor x = testing::whole_numbers(c.x, 1), weight = testing::whole_numbers(c.weight, 2),
                 bias = testing::whole_numbers({c.weight[0]}, 3), residual = testing::whole_numbers(sizes, 4);
    std::vector<int> rows(rank);
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<int64_t> of_channels(rank, 1);
    of_channels[1] = sizes[1];
    const Tensor channel_factors = testing::whole_numbers(of_channels, 5);
    for (const auto& order : {rows, channels_last_order(rank)})
      // Its result takes over the residual's memory where it is one; or a factor for each channel.
      for (const int operand : {0, 1, 2}) {
        const bool has_residual = operand == 1;
        CAPTURE(order[1]);
        CAPTURE(operand);
        Tensor results[2];
        for (const Kernel* kernel : {&onednn_convolution(), &line_filters()}) {
          Call call;
          ir::Value* px = call.input(testing::laid_out(x, order));
          const ir::Argument pb = operand > 0 ? ir::Argument(call.input(bias)) : ir::Argument(ir::None());
          ir::Value* pr = operand > 0 ? call.input(has_residual ? residual : channel_factors) : nullptr;
          ir::Value* pw = call.weight(weight);
          ir::Value* y = call.apply("aten::conv" + std::to_string(rank - 2) + "d",
                                    {px, pw, pb, c.stride, c.padding, c.dilation, c.x[1] / c.weight[1]}, sizes);
          if (pr) y = call.apply(has_residual ? "aten::add.Tensor" : "aten::mul.Tensor", {y, pr}, sizes);
          call.body.set_outputs({call.apply("aten::relu", {y}, sizes)});
          const bool is_ours = kernel == &line_filters();
          Tensor& result = results[is_ours ? 1 : 0];
          result = Tensor::zeros(ScalarType::f32, sizes);
          CHECK(line_filters().refusal(call.body) == "");
          if (!is_ours) call.pack_weight(*kernel, call.operands.size() - 1, result);
          REQUIRE(call.run(*kernel, result, has_residual ? pr->index : -1) == "");
          if (is_ours) CHECK(call.detail == lanes().name);
        }
        CHECK(testing::difference(results[0], results[1]) == 0);
      }
  }
}

TEST_CASE("a NaN reaches the windows that hold it alone") {
  Tensor x = Tensor::zeros(ScalarType::f32, {1, 1, 12, 40});
  x.mutable_as<float>()[5 * 40 + 20] = std::numeric_limits<float>::quiet_NaN();
  Call call;
  ir::Value *px = call.input(x), *pw = call.weight(testing::whole_numbers({1, 1, 3, 3}, 1));
  call.body.set_outputs({call.apply("aten::conv2d", {px, pw, {}, 1, 1}, {1, 1, 12, 40})});
  Tensor result = Tensor::zeros(ScalarType::f32, {1, 1, 12, 40});
  REQUIRE(call.run(line_filters(), result) == "");
  for (int64_t i = 0; i < 12; ++i)
    for (int64_t j = 0; j < 40; ++j)
      CHECK(std::isnan(result.as<float>()[i * 40 + j]) == (std::abs(i - 5) <= 1 && std::abs(j - 20) <= 1));
}

}  // namespace atenon::kernels
