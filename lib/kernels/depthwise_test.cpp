// Depthwise convolutions of sequences and volumes against plain loops. Operands are small whole numbers: no tolerance
// is needed.
#include <doctest/doctest.h>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

TEST_CASE("depthwise convolutions equal plain loops") {
  struct Case {
    int64_t batch, channels, depth, height, width;  // depth 0: a sequence
    int64_t kernel, stride, padding, dilation;
  };
  const Case cases[] = {
      {2, 16, 0, 1, 9, 3, 1, 1, 1},  {1, 150, 0, 1, 200, 31, 1, 15, 1}, {1, 70, 0, 1, 40, 5, 2, 4, 3},
      {3, 5, 0, 1, 2, 7, 1, 3, 1},   {1, 64, 0, 1, 50, 4, 1, 3, 1},     {1, 24, 4, 6, 7, 3, 1, 1, 1},
      {2, 67, 5, 5, 9, 3, 2, 1, 1},  {1, 16, 3, 8, 8, 3, 1, 2, 2},      {1, 33, 0, 1, 30, 9, 1, 0, 1},
      {1, 130, 0, 1, 1, 1, 1, 0, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(c.channels);
    CAPTURE(c.kernel);
    const bool is_volume = c.depth > 0;
    const int64_t kd = is_volume ? c.kernel : 1, depth = std::max<int64_t>(c.depth, 1);
    auto out = [&](int64_t size) { return (size + 2 * c.padding - c.dilation * (c.kernel - 1) - 1) / c.stride + 1; };
    const int64_t od = is_volume ? out(depth) : 1, oh = is_volume ? out(c.height) : 1, ow = out(c.width);
    const int64_t step = is_volume ? c.stride : 1, pad = is_volume ? c.padding : 0;
    auto sizes = [&](int64_t n, int64_t channels, int64_t d, int64_t h, int64_t w) {
      return is_volume ? std::vector<int64_t>{n, channels, d, h, w} : std::vector<int64_t>{n, channels, w};
    };
    const Tensor x = testing::whole_numbers(sizes(c.batch, c.channels, depth, c.height, c.width), 1);
    const Tensor weight = testing::whole_numbers(sizes(c.channels, 1, kd, kd, c.kernel), 2);
    const Tensor bias = testing::whole_numbers({c.channels}, 3);
    Tensor expected = Tensor::zeros(ScalarType::f32, sizes(c.batch, c.channels, od, oh, ow));
    const Tensor residual = testing::whole_numbers(expected.sizes, 4);
    for (int64_t i = 0; i < expected.numel(); ++i) {
      const int64_t w = i % ow, h = i / ow % oh, d = i / ow / oh % od, plane = i / ow / oh / od;
      const int64_t channel = plane % c.channels;
      float sum = bias.as<float>()[channel];
      for (int64_t a = 0; a < kd; ++a)
        for (int64_t b = 0; b < kd; ++b)
          for (int64_t k = 0; k < c.kernel; ++k) {
            const int64_t xd = d * step - pad + a * c.dilation, xh = h * step - pad + b * c.dilation,
                          xw = w * c.stride - c.padding + k * c.dilation;
            if (xd < 0 || xh < 0 || xw < 0 || xd >= depth || xh >= c.height || xw >= c.width) continue;
            sum += x.as<float>()[((plane * depth + xd) * c.height + xh) * c.width + xw] *
                   weight.as<float>()[((channel * kd + a) * kd + b) * c.kernel + k];
          }
      expected.mutable_as<float>()[i] = sum;
    }
    const std::vector<int> rows = is_volume ? std::vector<int>{0, 1, 2, 3, 4} : std::vector<int>{0, 1, 2};
    const std::vector<int> channels_last = is_volume ? std::vector<int>{0, 2, 3, 4, 1} : std::vector<int>{0, 2, 1};
    for (const auto& order : {rows, channels_last})
      for (bool adds : {false, true}) {
        CAPTURE(order[1]);
        CAPTURE(adds);
        Call call;
        ir::Value *px = call.input(testing::laid_out(x, order)), *pb = call.input(bias);
        ir::Value* pr = adds ? call.input(residual) : nullptr;
        ir::Value* pw = call.weight(weight);
        ir::Value* y = call.apply(is_volume ? "aten::conv3d" : "aten::conv1d", {px, pw, pb, c.stride, c.padding},
                                  expected.sizes, {{"dilation", c.dilation}, {"groups", c.channels}});
        if (pr) y = call.apply("aten::add.Tensor", {y, pr}, expected.sizes);
        if (pr) y = call.apply("aten::relu", {y}, expected.sizes);
        call.body.set_outputs({y});
        Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, expected.sizes), channels_last);
        REQUIRE(call.pack_weight(depthwise(), call.operands.size() - 1, result));
        REQUIRE(call.run(depthwise(), result) == "");
        CHECK(call.detail == lanes().name);
        Tensor wanted = Tensor::empty(ScalarType::f32, expected.sizes);
        for (int64_t i = 0; i < wanted.numel(); ++i) {
          const float value = expected.as<float>()[i];
          wanted.mutable_as<float>()[i] = adds ? std::max(value + residual.as<float>()[i], 0.f) : value;
        }
        CHECK(testing::difference(result, wanted) == 0);
      }
  }
}

}  // namespace atenon::kernels
