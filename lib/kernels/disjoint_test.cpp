// Transposed convolutions of disjoint windows against plain loops. Operands are small whole numbers: no tolerance is
// needed.
#include <doctest/doctest.h>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

TEST_CASE("transposed convolutions of disjoint windows equal plain loops") {
  struct Case {
    int64_t batch, channels, outputs;
    std::vector<int64_t> image, block;
  };
  const Case cases[] = {
      {2, 5, 3, {4, 7}, {2, 2}}, {1, 64, 32, {9, 130}, {2, 2}}, {1, 17, 150, {3, 3}, {3, 1}},
      {2, 8, 64, {5}, {4}},      {1, 6, 16, {3, 70}, {3, 4}},   {1, 3, 70, {2, 3, 4}, {2, 1, 2}},
      {1, 1, 1, {1, 1}, {1, 1}}, {3, 9, 20, {1, 1}, {4, 3}},    {70, 30, 16, {1, 1}, {7, 8}},
      {1, 8, 128, {1}, {5}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.channels);
    CAPTURE(c.outputs);
    const size_t rank = c.image.size();
    std::vector<int64_t> x_sizes = {c.batch, c.channels}, w_sizes = {c.channels, c.outputs},
                         sizes = {c.batch, c.outputs};
    std::vector<int> last = {0};
    for (size_t i = 0; i < rank; ++i) {
      x_sizes.push_back(c.image[i]);
      w_sizes.push_back(c.block[i]);
      sizes.push_back(c.image[i] * c.block[i]);
      last.push_back(static_cast<int>(i) + 2);
    }
    last.push_back(1);
    const Tensor x = testing::whole_numbers(x_sizes, 1), weight = testing::whole_numbers(w_sizes, 2),
                 bias = testing::whole_numbers({c.outputs}, 3), residual = testing::whole_numbers(sizes, 4);
    Tensor expected = Tensor::zeros(ScalarType::f32, sizes);
    int64_t pixels = 1, places = 1;
    for (size_t i = 0; i < rank; ++i) pixels *= c.image[i], places *= c.block[i];
    for (int64_t i = 0; i < expected.numel(); ++i) {
      int64_t rest = i, pixel = 0, place = 0, pixel_step = 1, place_step = 1;
      for (size_t axis = rank; axis-- > 0;) {
        const int64_t at = rest % sizes[axis + 2];
        pixel += at / c.block[axis] * pixel_step;
        place += at % c.block[axis] * place_step;
        rest /= sizes[axis + 2];
        pixel_step *= c.image[axis];
        place_step *= c.block[axis];
      }
      const int64_t output = rest % c.outputs, image = rest / c.outputs;
      float sum = bias.as<float>()[output];
      for (int64_t k = 0; k < c.channels; ++k)
        sum += x.as<float>()[(image * c.channels + k) * pixels + pixel] *
               weight.as<float>()[(k * c.outputs + output) * places + place];
      expected.mutable_as<float>()[i] = sum;
    }
    ir::ArgumentList stride, none;
    for (const int64_t step : c.block) {
      stride.push_back(pixels == 1 ? 1 : step);  // those of one pixel do not overlap
      none.push_back(0);
    }
    for (bool adds : {false, true}) {
      CAPTURE(adds);
      Call call;
      ir::Value *px = call.input(testing::laid_out(x, last)), *pb = call.input(bias);
      ir::Value* pr = adds ? call.input(testing::laid_out(residual, last)) : nullptr;
      ir::Value* pw = call.weight(weight);
      ir::Value* y = call.apply("aten::conv_transpose" + std::to_string(rank) + "d", {px, pw, pb, stride, none}, sizes);
      if (pr) y = call.apply("aten::add.Tensor", {y, pr}, sizes);
      if (pr) y = call.apply("aten::relu", {y}, sizes);
      call.body.set_outputs({y});
      Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), last);
      REQUIRE(call.pack_weight(disjoint(), call.operands.size() - 1, result));
      REQUIRE(call.run(disjoint(), result) == "");
      CHECK(call.detail == lanes().name);
      Tensor wanted = Tensor::empty(ScalarType::f32, sizes);
      for (int64_t i = 0; i < wanted.numel(); ++i) {
        const float value = expected.as<float>()[i];
        wanted.mutable_as<float>()[i] = adds ? std::max(value + residual.as<float>()[i], 0.f) : value;
      }
      CHECK(testing::difference(result, wanted) == 0);
    }
  }
}

}  // namespace atenon::kernels
