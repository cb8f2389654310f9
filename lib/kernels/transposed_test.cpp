// Strided transposed convolutions against plain loops. Operands are small whole numbers: no tolerance is needed.
#include <doctest/doctest.h>

#include <numeric>

#include "kernels/body.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

TEST_CASE("strided transposed convolutions equal plain loops") {
  struct Case {
    int64_t batch, channels, outputs;  // outputs 0: each channel has a filter of its own
    std::vector<int64_t> image, filter, stride, padding, more;
  };
  const Case cases[] = {
      {2, 5, 3, {4, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {1, 32, 16, {9, 130}, {4, 4}, {2, 2}, {1, 1}, {0, 0}},
      {1, 17, 150, {3, 9}, {5, 2}, {2, 1}, {2, 0}, {1, 0}},
      {2, 8, 64, {1, 300}, {1, 8}, {1, 4}, {0, 2}, {0, 0}},
      {1, 6, 16, {3, 70}, {7, 3}, {3, 2}, {4, 0}, {2, 1}},
      {1, 1, 1, {1, 8}, {2, 3}, {2, 2}, {0, 0}, {1, 1}},
      {1, 4, 20, {40, 33}, {3, 5}, {2, 2}, {0, 2}, {0, 0}},
      {3, 120, 2, {2, 8}, {4, 4}, {2, 2}, {1, 1}, {0, 0}},
      {1, 3, 8, {1, 10}, {16, 16}, {8, 8}, {4, 4}, {0, 0}},
      {2, 70, 0, {9, 80}, {4, 4}, {2, 2}, {1, 1}, {0, 0}},
      {1, 16, 0, {5, 3}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {1, 130, 0, {2, 1}, {5, 8}, {2, 3}, {2, 1}, {1, 2}},
      {1, 9, 0, {4, 7}, {2, 1}, {3, 2}, {0, 0}, {2, 1}},
      {2, 3, 0, {1, 30}, {1, 16}, {1, 8}, {0, 4}, {0, 0}},
      {2, 33, 16, {5, 3}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {1, 20, 32, {1, 1}, {4, 5}, {2, 3}, {1, 0}, {0, 0}},
      {2, 24, 0, {3, 4, 9}, {2, 1, 1}, {2, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {1, 70, 0, {2, 5, 6}, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {0, 1, 0}},
      {2, 5, 0, {3, 2, 11}, {4, 2, 3}, {2, 3, 2}, {1, 0, 1}, {1, 0, 0}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.channels);
    CAPTURE(c.outputs);
    const bool is_own = c.outputs == 0;
    const int64_t outputs = is_own ? c.channels : c.outputs, of_channel = is_own ? 1 : outputs;
    const size_t axes = c.image.size();
    std::vector<int64_t> sizes = {c.batch, outputs}, x_sizes = {c.batch, c.channels},
                         w_sizes = {c.channels, of_channel};
    for (size_t i = 0; i < axes; ++i) {
      sizes.push_back((c.image[i] - 1) * c.stride[i] - 2 * c.padding[i] + c.filter[i] + c.more[i]);
      x_sizes.push_back(c.image[i]);
      w_sizes.push_back(c.filter[i]);
    }
    const Tensor x = testing::whole_numbers(x_sizes, 1), weight = testing::whole_numbers(w_sizes, 2),
                 bias = testing::whole_numbers({outputs}, 3), residual = testing::whole_numbers(sizes, 4);
    Tensor expected = Tensor::empty(ScalarType::f32, sizes);
    const int64_t places = expected.numel() / (c.batch * outputs), pixels = x.numel() / (c.batch * c.channels),
                  taps = weight.numel() / (c.channels * of_channel);
    for (int64_t i = 0; i < expected.numel(); ++i) expected.set(i, bias.float_at(i / places % outputs));
    float* y = expected.mutable_as<float>();
    for (int64_t i = 0; i < x.numel(); ++i) {  // what each pixel adds to its window
      const int64_t channel = i / pixels % c.channels, image = i / pixels / c.channels;
      for (int64_t k = 0; k < of_channel * taps; ++k) {
        int64_t pixel = i % pixels, tap = k % taps, place = 0, step = 1;
        bool is_inside = true;
        for (size_t axis = axes; axis-- > 0;) {
          const int64_t at = pixel % c.image[axis] * c.stride[axis] + tap % c.filter[axis] - c.padding[axis];
          is_inside = is_inside && at >= 0 && at < sizes[axis + 2];
          place += at * step;
          step *= sizes[axis + 2];
          pixel /= c.image[axis];
          tap /= c.filter[axis];
        }
        const int64_t output = is_own ? channel : k / taps;
        if (is_inside)
          y[(image * outputs + output) * places + place] +=
              x.as<float>()[i] * weight.as<float>()[channel * of_channel * taps + k];
      }
    }
    const std::vector<int> last = channels_last_order(axes + 2);
    std::vector<int> rows(last.size());
    std::iota(rows.begin(), rows.end(), 0);
    for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const bool adds = variant & 1, x_in_rows = variant & 2, y_in_rows = variant & 4;
      CAPTURE(adds);
      CAPTURE(x_in_rows);
      CAPTURE(y_in_rows);
      Call call;
      ir::Value *px = call.input(testing::laid_out(x, x_in_rows ? rows : last)), *pb = call.input(bias);
      ir::Value* pr = adds ? call.input(testing::laid_out(residual, y_in_rows ? rows : last)) : nullptr;
      ir::Value* pw = call.weight(weight);
      ir::Value* made =
          call.apply("aten::conv_transpose" + std::to_string(axes) + "d",
                     {px, pw, pb, list(c.stride), list(c.padding), list(c.more), is_own ? c.channels : 1}, sizes);
      if (pr) made = call.apply("aten::relu", {call.apply("aten::add.Tensor", {made, pr}, sizes)}, sizes);
      call.body.set_outputs({made});
      Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), y_in_rows ? rows : last);
      REQUIRE(call.pack_weight(transposed(), call.operands.size() - 1, result));
      REQUIRE(call.run(transposed(), result) == "");
      CHECK(call.detail.starts_with(lanes().name));
      Tensor wanted = expected;
      if (adds) {
        wanted = Tensor::empty(ScalarType::f32, sizes);
        for (int64_t i = 0; i < wanted.numel(); ++i)
          wanted.set(i, std::max(expected.float_at(i) + residual.float_at(i), 0.0));
      }
      CHECK(testing::difference(result, wanted) == 0);
    }
  }
}

}  // namespace atenon::kernels
