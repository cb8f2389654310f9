// Pooling against plain loops, rows and channels-last.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

TEST_CASE("pooling equals plain loops") {
  struct Case {
    const char* target;
    int64_t height, window, stride, padding;
    bool ceil_mode, includes_padding;
  };
  const Case cases[] = {
      {"aten::max_pool2d", 8, 2, 2, 0, false, false},          {"aten::max_pool2d", 9, 3, 2, 1, false, false},
      {"aten::max_pool2d", 8, 3, 2, 0, true, false},           {"aten::max_pool2d", 7, 2, 2, 0, false, false},
      {"aten::max_pool2d", 70, 3, 1, 1, false, false},         {"aten::max_pool2d", 71, 5, 4, 2, true, false},
      {"aten::avg_pool2d", 70, 5, 1, 2, false, false},         {"aten::avg_pool2d", 8, 2, 2, 0, false, true},
      {"aten::avg_pool2d", 9, 3, 2, 1, false, true},           {"aten::avg_pool2d", 9, 3, 2, 1, false, false},
      {"aten::adaptive_avg_pool2d", 7, 7, 1, 0, false, false}, {"aten::adaptive_avg_pool2d", 8, 2, 2, 0, false, false},
      {"aten::adaptive_max_pool2d", 9, 3, 3, 0, false, false}, {"aten::mean.dim", 5, 5, 1, 0, false, false},
      {"aten::max_pool2d", 200, 3, 3, 0, false, false},        {"aten::max_pool2d", 149, 2, 3, 0, true, false},
      {"aten::max_pool2d", 260, 4, 4, 0, false, false},        {"aten::avg_pool2d", 141, 4, 3, 1, false, true},
      {"aten::avg_pool2d", 131, 5, 4, 2, false, false},        {"aten::max_pool2d", 90, 7, 5, 0, false, false},
  };
  struct Layout {
    std::vector<int> order;
    int64_t channels;  // some of a vector, or whole ones
  };
  for (const Case& c : cases)
    for (const auto& [order, channels] : {Layout{{0, 1, 2, 3}, 5}, {{0, 2, 3, 1}, 5}, {{0, 2, 3, 1}, 32}}) {
      CAPTURE(c.target);
      CAPTURE(channels);
      CAPTURE(c.height);
      const int64_t span = c.height + 2 * c.padding - c.window;
      const int64_t out = (c.ceil_mode ? (span + c.stride - 1) / c.stride : span / c.stride) + 1;
      const std::string target = c.target;
      const bool is_mean = target == "aten::mean.dim", is_max = target.find("max_pool2d") != std::string::npos;
      const std::vector<int64_t> sizes =
          is_mean ? std::vector<int64_t>{2, channels} : std::vector<int64_t>{2, channels, out, out};
      Call call;
      Tensor x = testing::whole_numbers({2, channels, c.height, c.height}, 1);
      // PyTorch's maximum is NaN where one is.
      x.mutable_as<float>()[c.height + 1] = x.mutable_as<float>()[x.numel() - 1] = is_max ? NAN : 1;
      ir::Value* px = call.input(testing::laid_out(x, order));
      auto pair = [](int64_t v) { return list({v, v}); };
      ir::Value* y =
          is_mean ? call.apply(target, {px, list({-1, -2})}, sizes)
          : target == "aten::max_pool2d"
              ? call.apply(target, {px, pair(c.window), pair(c.stride), c.padding, 1, c.ceil_mode}, sizes)
          : target == "aten::avg_pool2d"
              ? call.apply(target,
                           {px, pair(c.window), pair(c.stride), pair(c.padding), c.ceil_mode, c.includes_padding},
                           sizes)
              : call.apply(target, {px, pair(out)}, sizes);
      call.body.set_outputs({y});
      Tensor result = Tensor::zeros(ScalarType::f32, sizes);
      if (!is_mean) result = testing::laid_out(result, order);
      REQUIRE(call.run(onednn_pooling(), result) == "");
      Tensor expected = Tensor::empty(ScalarType::f32, sizes);
      for (int64_t plane = 0; plane < 2 * channels; ++plane)
        for (int64_t i = 0; i < out; ++i)
          for (int64_t j = 0; j < out; ++j) {
            double best = -INFINITY, sum = 0, count = 0;
            for (int64_t h = i * c.stride - c.padding; h < i * c.stride - c.padding + c.window; ++h)
              for (int64_t w = j * c.stride - c.padding; w < j * c.stride - c.padding + c.window; ++w) {
                if (h < 0 || w < 0 || h >= c.height || w >= c.height) continue;
                const double value = x.as<float>()[(plane * c.height + h) * c.height + w];
                if (!(value <= best) && !std::isnan(best)) best = value;
                sum += value;
                ++count;
              }
            if (c.includes_padding) count = static_cast<double>(c.window * c.window);
            expected.mutable_as<float>()[(plane * out + i) * out + j] = static_cast<float>(is_max ? best : sum / count);
          }
      const auto has_nan = [](const Tensor& tensor, int64_t i) { return std::isnan(tensor.float_at(i)); };
      for (int64_t i = 0; i < expected.numel(); ++i) {
        CHECK(has_nan(result, i) == has_nan(expected, i));
        if (has_nan(expected, i)) result.set(i, 0), expected.set(i, 0);
      }
      // Sums of at most 49 whole numbers are exact; the division rounds once.
      CHECK(testing::difference(result, expected) <= 1e-6);
    }
}

// Variances are of what is left of numbers behind their mean.
TEST_CASE("means of large images are right to the last digits") {
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2, 3}, {0, 2, 3, 1}})
    for (const int64_t height : {31, 301}) {
      CAPTURE(order[1]);
      CAPTURE(height);
      Call call;
      Tensor x = testing::whole_numbers({2, 3, height, height}, 1);
      for (int64_t i = 0; i < x.numel(); ++i) x.mutable_as<float>()[i] += 1000.3f;
      ir::Value* px = call.input(testing::laid_out(x, order));
      call.body.set_outputs({call.apply("aten::mean.dim", {px, list({-1, -2})}, {2, 3})});
      Tensor result = Tensor::zeros(ScalarType::f32, {2, 3}), expected = Tensor::zeros(ScalarType::f32, {2, 3});
      REQUIRE(call.run(onednn_pooling(), result) == "");
      const int64_t pixels = height * height;
      for (int64_t plane = 0; plane < 6; ++plane) {
        const float* numbers = x.as<float>() + plane * pixels;
        const double sum = std::accumulate(numbers, numbers + pixels, 0.0);
        expected.mutable_as<float>()[plane] = static_cast<float>(sum / static_cast<double>(pixels));
      }
      CHECK(testing::difference(result, expected) <= 6e-4);
    }
}

TEST_CASE("windows several columns apart, by all widths of vectors") {
  std::vector<const Lanes*> widths{&lanes_portable};
  if (lanes().name != lanes_portable.name) widths.push_back(&lanes_avx2);
  if (lanes().name == lanes_avx512.name) widths.push_back(&lanes_avx512);
  const int64_t window = 3;
  const int32_t row = 0, row_count = 1;
  for (const Lanes* width : widths)
    for (int64_t step = 1; step <= 6; ++step)
      for (int64_t outputs = 1; outputs <= 150; ++outputs) {
        const int64_t columns = (outputs - 1) * step + window;
        const Tensor x = testing::whole_numbers({columns}, 1);
        std::vector<int32_t> places;
        for (int64_t i = 0; i < outputs + widest_vector; ++i)
          places.push_back(static_cast<int32_t>(std::min(i, outputs - 1) * step));
        PoolTile tile{};
        tile.line_floats = (columns + widest_vector - 1) / widest_vector * widest_vector + 4 * widest_vector;
        std::vector<float> y(static_cast<size_t>(outputs)), scratch(static_cast<size_t>(tile.line_floats));
        tile.x = x.as<float>();
        tile.planes = tile.lines = tile.dilation = 1;
        tile.width = columns;
        tile.rows = &row, tile.row_counts = &row_count;
        tile.window = window;
        tile.step = step, tile.outputs = outputs;
        tile.places = places.data();
        tile.y = y.data();
        tile.scratch = scratch.data();
        width->pool(tile);
        int64_t wrong = 0;
        for (int64_t i = 0; i < outputs; ++i) {
          const float* from = x.as<float>() + i * step;
          wrong += y[static_cast<size_t>(i)] != *std::max_element(from, from + window);
        }
        CHECK(wrong == 0);
      }
}

}  // namespace atenon::kernels
