// Convolutions of few channels, by windows, and in groups, against plain loops. Operands are small
// whole numbers: no tolerance is needed.
#include <doctest/doctest.h>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("convolutions of few channels, by windows, and in groups equal plain loops") {
  struct Case {
    int64_t batch, channels, outputs, groups, height, width;  // height 0: a sequence
    int64_t kernel, stride, padding, dilation;
    const Kernel& (*by)() = few_channels;
  };
  const Case cases[] = {
      {2, 3, 24, 1, 17, 19, 3, 2, 1, 1},
      {1, 1, 130, 1, 9, 70, 5, 1, 2, 1},
      {1, 4, 64, 1, 12, 13, 7, 2, 3, 1},
      {1, 2, 9, 1, 5, 4, 3, 1, 4, 2},
      {2, 4, 5, 1, 0, 90, 9, 1, 0, 1},
      {2, 32, 32, 2, 0, 66, 3, 1, 1, 1},
      {1, 96, 48, 4, 0, 9, 3, 2, 1, 1},
      {3, 40, 64, 8, 0, 5, 1, 1, 0, 1},
      {1, 12, 256, 2, 0, 7, 3, 1, 2, 2},
      {2, 1, 32, 1, 0, 500, 10, 5, 0, 1},
      {1, 1, 150, 1, 0, 1500, 1025, 1, 0, 1},
      {1, 48, 48, 4, 0, 130, 8, 1, 4, 1},
      {1, 3, 16, 1, 200, 210, 3, 2, 1, 1},
      {1, 1, 64, 1, 0, 3000, 20, 4, 7, 1},
      {1, 2, 64, 1, 2, 900, 9, 1, 4, 1},
      {1, 1, 40, 1, 0, 500, 410, 4, 150, 1},
      {2, 3, 12, 1, 20, 21, 5, 1, 2, 1},
      {2, 20, 70, 1, 65, 68, 3, 2, 1, 1},
      {1, 50, 40, 1, 9, 11, 3, 1, 2, 2},
      {1, 12, 12, 1, 0, 70, 7, 1, 3, 1},
      {2, 512, 70, 1, 0, 21, 3, 2, 0, 1, overlapping},
      {1, 256, 20, 1, 0, 1100, 5, 4, 1, 3, overlapping},
      {2, 512, 65, 1, 7, 9, 3, 2, 0, 1, overlapping},
      {2, 1024, 3, 1, 20, 21, 3, 1, 1, 1, overlapping},
      {1, 1024, 2, 1, 9, 8, 3, 1, 0, 2, overlapping},
      {2, 1024, 66, 1, 7, 7, 3, 1, 1, 1, overlapping},
      {1, 1024, 5, 1, 3, 130, 3, 1, 1, 1, overlapping},
      {1, 1024, 4, 1, 9, 11, 3, 1, 2, 2, overlapping},
      {1, 512, 9, 1, 10, 8, 5, 2, 2, 1, overlapping},
      {1, 1024, 40, 1, 0, 30, 5, 1, 3, 1, overlapping},
      {2, 48, 48, 6, 13, 15, 3, 1, 1, 1, groups},
      {1, 104, 104, 13, 14, 14, 3, 2, 1, 1, groups},
      {1, 20, 20, 5, 9, 130, 3, 1, 1, 2, groups},
      {2, 64, 64, 4, 7, 7, 3, 1, 1, 1, groups},
      {2, 48, 48, 2, 8, 9, 5, 2, 2, 1, groups},
      {1, 96, 96, 3, 5, 6, 3, 1, 3, 1, groups},
      {1, 128, 128, 2, 6, 5, 3, 1, 1, 1, groups},
      {2, 96, 256, 4, 0, 21, 1, 1, 0, 1, panels},
      {1, 6, 384, 3, 5, 7, 1, 1, 0, 1, panels},
      {1, 3, 192, 3, 5, 7, 1, 1, 0, 1, panels},
      {1, 64, 128, 2, 1, 2, 1, 1, 0, 1, panels},
      {2, 1, 50, 1, 31, 1, 3, 1, 2, 2},
  };
  for (const Case& c : cases) {
    CAPTURE(c.channels);
    CAPTURE(c.outputs);
    CAPTURE(c.kernel);
    const bool is_image = c.height > 0;
    const int64_t height = std::max<int64_t>(c.height, 1), kh = is_image ? c.kernel : 1, inside = c.channels / c.groups;
    auto out = [&](int64_t size) { return (size + 2 * c.padding - c.dilation * (c.kernel - 1) - 1) / c.stride + 1; };
    const int64_t oh = is_image ? out(height) : 1, ow = out(c.width), top = is_image ? c.padding : 0;
    auto sizes = [&](int64_t n, int64_t channels, int64_t h, int64_t w) {
      return is_image ? std::vector<int64_t>{n, channels, h, w} : std::vector<int64_t>{n, channels, w};
    };
    const Tensor x = testing::whole_numbers(sizes(c.batch, c.channels, height, c.width), 1);
    const Tensor weight = testing::whole_numbers(sizes(c.outputs, inside, kh, c.kernel), 2);
    const Tensor bias = testing::whole_numbers({c.outputs}, 3);
    Tensor expected = Tensor::zeros(ScalarType::f32, sizes(c.batch, c.outputs, oh, ow));
    const Tensor residual = testing::whole_numbers(expected.sizes, 4);
    for (int64_t i = 0; i < expected.numel(); ++i) {
      const int64_t w = i % ow, h = i / ow % oh, o = i / ow / oh % c.outputs, n = i / ow / oh / c.outputs;
      float sum = bias.as<float>()[o];
      for (int64_t k = 0; k < inside; ++k)
        for (int64_t a = 0; a < kh; ++a)
          for (int64_t b = 0; b < c.kernel; ++b) {
            const int64_t channel = o / (c.outputs / c.groups) * inside + k, xh = h * c.stride - top + a * c.dilation,
                          xw = w * c.stride - c.padding + b * c.dilation;
            if (xh < 0 || xw < 0 || xh >= height || xw >= c.width) continue;
            sum += x.as<float>()[((n * c.channels + channel) * height + xh) * c.width + xw] *
                   weight.as<float>()[((o * inside + k) * kh + a) * c.kernel + b];
          }
      expected.mutable_as<float>()[i] = sum;
    }
    const std::vector<int> rows = is_image ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 1, 2};
    const std::vector<int> channels_last = is_image ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{0, 2, 1};
    for (const auto& order : {rows, channels_last}) {
      if (c.by != few_channels && inside > 1 && order == rows) continue;  // left to oneDNN
      // None; relu; add a residual, relu; the same with the filter as it is; the same with a factor and a summand.
      for (int epilogue : {0, 1, 2, 3, 4}) {
        if (c.by != panels && epilogue == 3) continue;
        CAPTURE(order[1]);
        CAPTURE(epilogue);
        Call call;
        ir::Value *px = call.input(testing::laid_out(x, order)), *pb = call.input(bias);
        ir::Value* pr =
            epilogue >= 2 ? call.input(testing::laid_out(residual, c.by == panels ? order : rows)) : nullptr;
        ir::Value* pw = call.weight(weight);
        ir::Value* y = call.apply(is_image ? "aten::conv2d" : "aten::conv1d", {px, pw, pb, c.stride, c.padding},
                                  expected.sizes, {{"dilation", c.dilation}, {"groups", c.groups}});
        if (pr) y = call.apply("aten::add.Tensor", {y, pr}, expected.sizes);
        if (epilogue > 0) y = call.apply("aten::relu", {y}, expected.sizes);
        if (epilogue == 4) y = call.apply("aten::mul.Tensor", {y, 2.0}, expected.sizes);
        if (epilogue == 4) y = call.apply("aten::add.Tensor", {y, 3.0}, expected.sizes);
        call.body.set_outputs({y});
        Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, expected.sizes), channels_last);
        if (epilogue != 3) REQUIRE(call.pack_weight(c.by(), call.operands.size() - 1, result));
        REQUIRE(call.run(c.by(), result) == "");
        CHECK(call.detail == lanes().name);
        Tensor wanted = Tensor::empty(ScalarType::f32, expected.sizes);
        for (int64_t i = 0; i < wanted.numel(); ++i) {
          const float value = expected.as<float>()[i] + (epilogue >= 2 ? residual.as<float>()[i] : 0);
          const float bounded = epilogue > 0 ? std::max(value, 0.f) : value;
          wanted.mutable_as<float>()[i] = epilogue == 4 ? 2 * bounded + 3 : bounded;
        }
        CHECK(testing::difference(result, wanted) == 0);
      }
    }
  }
}

}  // namespace atenon::kernels
