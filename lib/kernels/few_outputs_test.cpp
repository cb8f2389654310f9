// Convolutions of few outputs against oneDNN's, which are held to plain loops. Operands are small whole numbers: no
// tolerance is needed.
#include <doctest/doctest.h>

#include <numeric>

#include "kernels/body.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("convolutions of few outputs equal oneDNN's") {
  struct Case {
    std::vector<int64_t> x, weight;
    int64_t padding, dilation;
  };
  const Case cases[] = {
      {{1, 32, 19, 37}, {3, 32, 3, 3}, 1, 1}, {{2, 16, 9, 300}, {1, 16, 3, 3}, 0, 1},
      {{1, 64, 40, 20}, {2, 64, 5, 5}, 4, 2}, {{1, 20, 30, 33}, {3, 20, 9, 9}, 4, 1},
      {{1, 48, 5, 7}, {4, 48, 1, 3}, 1, 1},   {{2, 64, 700}, {1, 64, 7}, 3, 1},
      {{1, 70, 21}, {4, 70, 3}, 4, 4},        {{1, 17, 130, 9}, {1, 17, 7, 7}, 3, 1},
      {{1, 16, 2, 2}, {2, 16, 3, 3}, 2, 1},   {{1, 33, 11, 71}, {7, 33, 3, 3}, 1, 1},
      {{1, 16, 9, 41}, {5, 16, 5, 5}, 2, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.x[1]);
    CAPTURE(c.weight[0]);
    const size_t rank = c.x.size();
    std::vector<int64_t> sizes = c.x;
    sizes[1] = c.weight[0];
    for (size_t axis = 2; axis < rank; ++axis) sizes[axis] += 2 * c.padding - c.dilation * (c.weight[axis] - 1);
    const Tensor x = testing::whole_numbers(c.x, 1), weight = testing::whole_numbers(c.weight, 2),
                 bias = testing::whole_numbers({c.weight[0]}, 3), residual = testing::whole_numbers(sizes, 4);
    std::vector<int> rows(rank);
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<int> channels_last = channels_last_order(rank);
    for (const auto& order : {rows, channels_last})
      for (const bool has_residual : {false, true}) {
        CAPTURE(order[1]);
        CAPTURE(has_residual);
        Tensor results[2];
        for (const Kernel* kernel : {&onednn_convolution(), &few_outputs()}) {
          Call call;
          ir::Value* px = call.input(testing::laid_out(x, channels_last));
          const ir::Argument pb = has_residual ? ir::Argument(call.input(bias)) : ir::Argument(ir::None());
          ir::Value* pr = has_residual ? call.input(testing::laid_out(residual, order)) : nullptr;
          ir::Value* pw = call.weight(weight);
          ir::Value* y =
              call.apply("aten::conv" + std::to_string(rank - 2) + "d", {px, pw, pb, 1, c.padding, c.dilation}, sizes);
          if (pr) y = call.apply("aten::add.Tensor", {y, pr}, sizes);
          call.body.set_outputs({call.apply("aten::relu", {y}, sizes)});
          const bool is_ours = kernel == &few_outputs();
          Tensor& result = results[is_ours ? 1 : 0];
          result = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), order);
          const bool is_packed = call.pack_weight(*kernel, call.operands.size() - 1, result);
          REQUIRE(call.run(*kernel, result) == "");
          if (is_ours) CHECK(is_packed);
          if (is_ours) CHECK(call.detail == lanes().name);
        }
        CHECK(testing::difference(results[0], results[1]) == 0);
      }
  }
}

}  // namespace atenon::kernels
