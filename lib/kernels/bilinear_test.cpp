// Bilinear resizing against plain loops in double.
#include <doctest/doctest.h>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"
#include "support/parallel.h"

namespace atenon::kernels {

using testing::Call;

namespace {

struct Case {
  int64_t batch, channels, from[2], to[2];
  bool corners;
  double scale;  // 0: by the sizes
};

// Where element i of the result lies, as torch.nn.functional.interpolate has it.
double place(const Case& c, size_t axis, int64_t i) {
  const auto from = static_cast<double>(c.from[axis]), to = static_cast<double>(c.to[axis]),
             at = static_cast<double>(i);
  if (c.corners) return to == 1 ? 0 : at * (from - 1) / (to - 1);
  return std::max(0., (at + 0.5) * (c.scale > 0 ? 1 / c.scale : from / to) - 0.5);
}

double pixel(const Tensor& x, const Case& c, int64_t plane, int64_t h, int64_t w) {
  return x.as<float>()[(plane * c.from[0] + std::min(h, c.from[0] - 1)) * c.from[1] + std::min(w, c.from[1] - 1)];
}

Tensor resized(const Tensor& x, const Case& c) {
  Tensor y = Tensor::empty(ScalarType::f32, {c.batch, c.channels, c.to[0], c.to[1]});
  for (int64_t i = 0; i < y.numel(); ++i) {
    const int64_t w = i % c.to[1], h = i / c.to[1] % c.to[0], plane = i / c.to[1] / c.to[0];
    const double v = place(c, 0, h), u = place(c, 1, w);
    const auto top = std::min(static_cast<int64_t>(v), c.from[0] - 1),
               left = std::min(static_cast<int64_t>(u), c.from[1] - 1);
    const double down = v - static_cast<double>(top), right = u - static_cast<double>(left);
    y.mutable_as<float>()[i] = static_cast<float>(
        (1 - down) * ((1 - right) * pixel(x, c, plane, top, left) + right * pixel(x, c, plane, top, left + 1)) +
        down * ((1 - right) * pixel(x, c, plane, top + 1, left) + right * pixel(x, c, plane, top + 1, left + 1)));
  }
  return y;
}

const std::vector<int> rows{0, 1, 2, 3}, channels_last{0, 2, 3, 1}, lines_last{0, 1, 3, 2};

}  // namespace

TEST_CASE("bilinear resizing equals plain loops, with the same bits for any number of threads") {
  const Case cases[] = {
      {1, 3, {5, 7}, {10, 14}, false, 2},    {2, 19, {6, 6}, {48, 41}, false, 0},
      {1, 70, {4, 9}, {9, 20}, true, 0},     {3, 16, {1, 1}, {5, 3}, false, 0},
      {1, 1, {40, 50}, {13, 7}, false, 0},   {2, 130, {3, 17}, {1, 33}, true, 0},
      {1, 5, {8, 8}, {8, 8}, false, 0},      {1, 33, {2, 100}, {3, 250}, false, 0},
      {1, 4, {9, 11}, {13, 16}, false, 1.5}, {1, 21, {32, 32}, {96, 1}, false, 0},
  };
  for (const Case& c : cases)
    for (const auto& [x_order, y_order] :
         {std::pair(rows, rows), std::pair(channels_last, channels_last), std::pair(channels_last, rows),
          std::pair(rows, channels_last), std::pair(lines_last, rows), std::pair(lines_last, channels_last)})
      for (bool adds : {false, true}) {
        CAPTURE(c.channels);
        CAPTURE(c.to[1]);
        CAPTURE(x_order[1]);
        CAPTURE(y_order[1]);
        CAPTURE(adds);
        const Tensor x = testing::numbers({c.batch, c.channels, c.from[0], c.from[1]}, 1);
        Tensor expected = resized(x, c);
        const Tensor residual = testing::numbers(expected.sizes, 2);
        Call call;
        ir::Value *px = call.input(testing::laid_out(x, x_order)),
                  *pr = adds ? call.input(testing::laid_out(residual, channels_last)) : nullptr;
        const ir::Argument size = c.scale > 0 ? ir::Argument(ir::None{}) : testing::list({c.to[0], c.to[1]}),
                           scales = c.scale > 0 ? ir::Argument(ir::ArgumentList{c.scale, c.scale}) : ir::None{};
        ir::Value* y = call.apply("aten::upsample_bilinear2d.vec", {px, size, c.corners, scales}, expected.sizes);
        if (pr) y = call.apply("aten::add.Tensor", {y, pr}, expected.sizes);
        if (pr) y = call.apply("aten::relu", {y}, expected.sizes);
        call.body.set_outputs({y});
        for (int64_t i = 0; adds && i < expected.numel(); ++i)
          expected.mutable_as<float>()[i] = std::max(0.f, expected.as<float>()[i] + residual.as<float>()[i]);
        Tensor first;
        for (int count : {1, 2, 3, 8}) {
          set_threads(count);
          Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, expected.sizes), y_order);
          REQUIRE(call.run(bilinear(), result) == "");
          CHECK(call.detail == lanes().name);
          // A place is a number up to 100 in f32, so a weight is within 1e-5, as it is in PyTorch.
          CHECK(testing::difference(result, expected) < 5e-5);
          if (count == 1) first = result;
          CHECK(std::memcmp(first.data(), result.data(), first.nbytes()) == 0);
        }
        set_threads(0);
      }
}

TEST_CASE("bilinear resizing of an empty batch is nothing") {
  Call call;
  ir::Value* x = call.input(Tensor::zeros(ScalarType::f32, {0, 3, 4, 4}));
  ir::Value* y =
      call.apply("aten::upsample_bilinear2d.vec", {x, testing::list({8, 8}), false, ir::None{}}, {0, 3, 8, 8});
  call.body.set_outputs({y});
  Tensor result = Tensor::zeros(ScalarType::f32, {0, 3, 8, 8});
  call.site.body = &call.body;
  call.site.results = {{result.dtype, result.sizes, result.strides}};
  CHECK(prepare(bilinear(), call.site));
}

TEST_CASE("bilinear resizing says what it does not take") {
  Call call;
  ir::Value* x = call.input(Tensor::zeros(ScalarType::f32, {1, 3, 4, 4}));
  ir::Value* y =
      call.apply("aten::upsample_bilinear2d.vec", {x, testing::list({8, 8}), false, ir::None{}}, {1, 3, 8, 8});
  ir::Value* z = call.apply("aten::exp", {y}, {1, 3, 8, 8});
  call.body.set_outputs({z});
  CHECK(bilinear().refusal(call.body) == "a step behind it has no vectors");
}

}  // namespace atenon::kernels
