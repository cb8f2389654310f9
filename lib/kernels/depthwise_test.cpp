// Depthwise convolutions of sequences, images and volumes against plain loops. Operands are small whole numbers: no
// tolerance is needed.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

TEST_CASE("depthwise convolutions equal plain loops") {
  struct Case {
    size_t axes;
    int64_t batch, channels, depth, height, width;
    int64_t kernel, stride, padding, dilation;
    int64_t filters = 1;  // of each channel
    int64_t outputs() const { return channels * filters; }
  };
  const Case cases[] = {
      {1, 2, 16, 1, 1, 9, 3, 1, 1, 1},     {1, 1, 150, 1, 1, 200, 31, 1, 15, 1}, {1, 1, 70, 1, 1, 40, 5, 2, 4, 3},
      {1, 3, 5, 1, 1, 2, 7, 1, 3, 1},      {1, 1, 64, 1, 1, 50, 4, 1, 3, 1},     {3, 1, 24, 4, 6, 7, 3, 1, 1, 1},
      {3, 2, 67, 5, 5, 9, 3, 2, 1, 1},     {3, 1, 16, 3, 8, 8, 3, 1, 2, 2},      {1, 1, 33, 1, 1, 30, 9, 1, 0, 1},
      {1, 1, 130, 1, 1, 1, 1, 1, 0, 1},    {2, 2, 100, 1, 14, 14, 3, 1, 1, 1},   {2, 1, 72, 1, 28, 70, 3, 2, 1, 1},
      {2, 1, 16, 1, 2, 2, 3, 1, 1, 1},     {2, 1, 48, 1, 9, 9, 3, 1, 0, 1},      {2, 1, 33, 1, 12, 11, 3, 1, 3, 2},
      {2, 1, 600, 1, 7, 7, 3, 1, 1, 1},    {2, 1, 16, 1, 5, 1, 3, 1, 2, 1},      {2, 1, 40, 1, 10, 13, 3, 2, 2, 2},
      {2, 1, 72, 1, 14, 14, 5, 1, 2, 1},   {2, 2, 33, 1, 9, 70, 5, 1, 0, 1},     {2, 1, 20, 1, 3, 2, 5, 1, 5, 1},
      {2, 1, 49, 1, 7, 7, 7, 1, 3, 1},     {2, 1, 16, 1, 12, 8, 7, 1, 6, 1},     {1, 1, 80, 1, 1, 66, 7, 1, 9, 1},
      {2, 2, 48, 1, 9, 12, 7, 2, 3, 1, 2}, {2, 1, 3, 1, 6, 5, 3, 1, 1, 2, 3},    {1, 2, 50, 1, 1, 20, 5, 1, 2, 1, 3},
      {3, 1, 20, 3, 4, 5, 3, 1, 1, 1, 4},  {3, 1, 20, 1, 6, 7, 5, 1, 4, 1},      {2, 1, 130, 1, 40, 75, 7, 1, 3, 1},
      {2, 1, 24, 1, 30, 9, 5, 1, 2, 1, 2}, {1, 2, 100, 1, 1, 150, 5, 1, 2, 1},   {2, 1, 256, 1, 12, 40, 3, 1, 1, 1},
      {2, 1, 256, 1, 13, 31, 3, 2, 1, 1},  {2, 2, 512, 1, 9, 14, 3, 1, 2, 2},    {2, 1, 512, 1, 3, 70, 3, 1, 3, 1},
      {2, 1, 1024, 1, 5, 7, 3, 2, 2, 2},   {1, 1, 512, 1, 1, 90, 3, 1, 1, 1},    {3, 1, 512, 1, 6, 9, 3, 1, 1, 1},
      {2, 1, 512, 1, 4, 5, 3, 1, 1, 1, 2}, {3, 1, 20, 2, 5, 6, 3, 1, 4, 1},      {3, 2, 33, 1, 4, 9, 3, 1, 5, 2},
      {1, 2, 16, 1, 1, 40, 4, 4, 0, 1, 2}, {1, 1, 35, 1, 1, 77, 4, 2, 1, 1, 2},  {2, 2, 21, 1, 8, 31, 4, 4, 1, 1, 4},
      {2, 1, 70, 1, 9, 9, 2, 2, 1, 3, 2},  {3, 1, 9, 4, 5, 6, 2, 2, 0, 1, 4},    {1, 1, 3, 1, 1, 50, 6, 5, 4, 2, 4},
      {2, 2, 97, 1, 7, 7, 3, 1, 1, 1},     {2, 1, 83, 1, 30, 29, 5, 1, 2, 1},    {2, 1, 150, 1, 61, 64, 7, 1, 3, 1},
      {2, 1, 70, 1, 3, 150, 3, 2, 1, 1},   {2, 1, 130, 1, 33, 31, 5, 2, 2, 1},   {2, 1, 18, 1, 5, 65, 5, 1, 2, 1},
      {2, 1, 80, 1, 4, 3, 7, 1, 3, 1},     {3, 1, 65, 3, 5, 17, 3, 1, 1, 1},     {2, 1, 24, 1, 200, 64, 3, 1, 1, 1, 2},
  };
  for (const Case& c : cases) {
    CAPTURE(c.channels);
    CAPTURE(c.kernel);
    const int64_t kd = c.axes > 2 ? c.kernel : 1, kh = c.axes > 1 ? c.kernel : 1;
    auto out = [&](int64_t size) { return (size + 2 * c.padding - c.dilation * (c.kernel - 1) - 1) / c.stride + 1; };
    const int64_t od = c.axes > 2 ? out(c.depth) : 1, oh = c.axes > 1 ? out(c.height) : 1, ow = out(c.width);
    const int64_t step_d = c.axes > 2 ? c.stride : 1, pad_d = c.axes > 2 ? c.padding : 0;
    const int64_t step_h = c.axes > 1 ? c.stride : 1, pad_h = c.axes > 1 ? c.padding : 0;
    auto sizes = [&](int64_t n, int64_t channels, int64_t d, int64_t h, int64_t w) {
      std::vector<int64_t> all = {n, channels, d, h, w};
      all.erase(all.begin() + 2, all.end() - static_cast<int64_t>(c.axes));
      return all;
    };
    const Tensor x = testing::whole_numbers(sizes(c.batch, c.channels, c.depth, c.height, c.width), 1);
    const Tensor weight = testing::whole_numbers(sizes(c.outputs(), 1, kd, kh, c.kernel), 2);
    const Tensor bias = testing::whole_numbers({c.outputs()}, 3);
    Tensor expected = Tensor::zeros(ScalarType::f32, sizes(c.batch, c.outputs(), od, oh, ow));
    const Tensor residual = testing::whole_numbers(expected.sizes, 4);
    for (int64_t i = 0; i < expected.numel(); ++i) {
      const int64_t w = i % ow, h = i / ow % oh, d = i / ow / oh % od, plane = i / ow / oh / od;
      const int64_t channel = plane % c.outputs();
      float sum = bias.as<float>()[channel];
      for (int64_t a = 0; a < kd; ++a)
        for (int64_t b = 0; b < kh; ++b)
          for (int64_t k = 0; k < c.kernel; ++k) {
            const int64_t xd = d * step_d - pad_d + a * c.dilation, xh = h * step_h - pad_h + b * c.dilation,
                          xw = w * c.stride - c.padding + k * c.dilation;
            if (xd < 0 || xh < 0 || xw < 0 || xd >= c.depth || xh >= c.height || xw >= c.width) continue;
            sum += x.as<float>()[((plane / c.filters * c.depth + xd) * c.height + xh) * c.width + xw] *
                   weight.as<float>()[((channel * kd + a) * kh + b) * c.kernel + k];
          }
      expected.mutable_as<float>()[i] = sum;
    }
    std::vector<int> rows(c.axes + 2), channels_last(c.axes + 2, 1);
    std::iota(rows.begin(), rows.end(), 0);
    channels_last[0] = 0;
    std::iota(channels_last.begin() + 1, channels_last.end() - 1, 2);
    std::vector<int> turned = rows;
    std::swap(turned.back(), turned[c.axes]);
    struct Way {
      const std::vector<int>&x, &y, &residual;
      bool is_computed;  // the filters, so that nothing packs them before
      std::vector<int> epilogues;
    };
    // Epilogues: none, relu, relu of a sum, abs, a factor and a summand behind a relu.
    const Way ways[] = {{rows, channels_last, rows, false, {0, 1, 2, 3, 4}},
                        {channels_last, channels_last, rows, false, {0, 1, 2, 3, 4}},
                        {turned, channels_last, rows, false, {0}},
                        {rows, channels_last, rows, true, {0}},
                        {channels_last, channels_last, rows, true, {2}},
                        {channels_last, rows, channels_last, false, {0, 2}},
                        {rows, rows, channels_last, true, {2}},
                        {turned, turned, channels_last, true, {0, 2}}};
    for (const auto& [order, y_order, residual_order, is_computed, epilogues] : ways)
      for (const int epilogue : epilogues) {
        CAPTURE(order[1]);
        CAPTURE(y_order[1]);
        CAPTURE(is_computed);
        CAPTURE(epilogue);
        Call call;
        ir::Value *px = call.input(testing::laid_out(x, order)), *pb = call.input(bias);
        ir::Value* pr = epilogue == 2 ? call.input(testing::laid_out(residual, residual_order)) : nullptr;
        ir::Value* pw = is_computed ? call.input(weight) : call.weight(weight);
        ir::Value* y = call.apply("aten::conv" + std::to_string(c.axes) + "d", {px, pw, pb, c.stride, c.padding},
                                  expected.sizes, {{"dilation", c.dilation}, {"groups", c.channels}});
        if (pr) y = call.apply("aten::add.Tensor", {y, pr}, expected.sizes);
        if (epilogue > 0) y = call.apply(epilogue == 3 ? "aten::abs" : "aten::relu", {y}, expected.sizes);
        if (epilogue == 4) y = call.apply("aten::mul.Tensor", {y, 2.0}, expected.sizes);
        if (epilogue == 4) y = call.apply("aten::add.Tensor", {y, 3.0}, expected.sizes);
        call.body.set_outputs({y});
        Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, expected.sizes), y_order);
        const bool is_in_lines =  // where the filters stay as they are
            y_order == rows && result.strides[1] != 1 && epilogue != 2 &&
            (c.outputs() < 16 || (ow >= 64 && c.stride == 1));
        if (!is_computed) REQUIRE(call.pack_weight(depthwise(), call.operands.size() - 1, result) != is_in_lines);
        REQUIRE(call.run(depthwise(), result) == "");
        CHECK(call.detail == lanes().name);
        Tensor wanted = Tensor::empty(ScalarType::f32, expected.sizes);
        for (int64_t i = 0; i < wanted.numel(); ++i) {
          const float value = expected.as<float>()[i] + (epilogue == 2 ? residual.as<float>()[i] : 0);
          wanted.mutable_as<float>()[i] = epilogue == 0   ? value
                                          : epilogue == 3 ? std::abs(value)
                                          : epilogue == 4 ? 2 * std::max(value, 0.f) + 3
                                                          : std::max(value, 0.f);
        }
        CHECK(testing::difference(result, wanted) == 0);
      }
  }
}

TEST_CASE("a window of more rows than a tile holds is left to others") {
  const auto refusal = [](int64_t rows) {
    Call call;
    ir::Value* x = call.input(testing::whole_numbers({1, 16, 90, 8}, 1));
    ir::Value* weight = call.weight(testing::whole_numbers({16, 1, rows, 5}, 2));
    call.body.set_outputs({call.apply("aten::conv2d", {x, weight, {}, 1, 0}, {1, 16, 91 - rows, 4}, {{"groups", 16}})});
    return depthwise().refusal(call.body);
  };
  CHECK(refusal(64) == "");
  CHECK(refusal(65) == "its window is too large");
}

}  // namespace atenon::kernels
