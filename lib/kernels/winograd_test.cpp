// Winograd's convolutions against direct ones, on shapes kept as data. Operands are small whole numbers: with points 0,
// 1 and -1 nothing is rounded, and the results are equal; with fractions the tolerance is ten times the error that a
// sample shows.
#include "kernels/winograd.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"
#include "support/parallel.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

namespace {

enum class Chain { none, relu, residual, hardswish, scaled };

struct Case {
  int64_t batch, channels, results, height, width, vertical, horizontal;  // padding
};

// The convolution with a chain behind it, by Winograd's algorithm or, where `outputs` is 0, directly.
Tensor convolve(const Case& c, Chain chain, int64_t outputs, const std::vector<int>& order) {
  const std::vector<int64_t> sizes = {c.batch, c.results, c.height + 2 * c.vertical - 2,
                                      c.width + 2 * c.horizontal - 2};
  const Tensor weight = testing::whole_numbers({c.results, c.channels, 3, 3}, 2);
  Call call;
  ir::Value* x =
      call.input(testing::laid_out(testing::whole_numbers({c.batch, c.channels, c.height, c.width}, 1), order));
  ir::Value *w = call.input(weight), *bias = call.input(testing::whole_numbers({c.results}, 3));
  ir::Value* added = nullptr;
  if (chain == Chain::residual) added = call.input(testing::laid_out(testing::whole_numbers(sizes, 4), order));
  if (chain == Chain::scaled) added = call.input(testing::whole_numbers({c.results, 1, 1}, 5));
  if (outputs > 0) call.weight(winograd_weight(weight, outputs));
  ir::Value* y = call.apply("aten::conv2d", {x, w, bias, list({1, 1}), list({c.vertical, c.horizontal})}, sizes);
  if (chain == Chain::residual) y = call.apply("aten::add.Tensor", {y, added}, sizes);
  if (chain == Chain::scaled) y = call.apply("aten::mul.Tensor", {y, added}, sizes);
  if (chain == Chain::hardswish) y = call.apply("aten::hardswish", {y}, sizes);
  if (chain == Chain::relu || chain == Chain::residual) y = call.apply("aten::relu", {y}, sizes);
  call.body.set_outputs({y});
  const Kernel& kernel = outputs > 0 ? winograd() : onednn_convolution();
  if (added) CHECK(kernel.may_overwrite(call.body, 3) == (chain == Chain::residual));
  Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), order);
  REQUIRE(call.run(kernel, result, chain == Chain::residual ? 3 : -1) == "");
  if (outputs > 0 && order.back() == 1) CHECK(call.detail.substr(0, 3) == "F(" + std::to_string(outputs));
  return result;
}

double largest(const Tensor& tensor) { return testing::difference(tensor, Tensor::zeros(tensor.dtype, tensor.sizes)); }

const std::vector<int> rows = {0, 1, 2, 3}, channels_last = {0, 2, 3, 1};

}  // namespace

TEST_CASE("Winograd's convolutions equal direct ones") {
  const Case cases[] = {{1, 16, 64, 8, 8, 1, 1},   {2, 5, 7, 9, 10, 1, 1}, {3, 17, 70, 7, 5, 0, 2},
                        {1, 32, 130, 13, 3, 2, 0}, {1, 1, 1, 3, 3, 0, 0},  {1, 3, 20, 1, 1, 1, 1},
                        {2, 64, 64, 21, 35, 1, 1}, {0, 8, 8, 8, 8, 1, 1},  {1, 40, 96, 66, 50, 1, 1},
                        {1, 64, 32, 60, 75, 3, 1}};
  for (const Case& c : cases)
    for (const Chain chain : {Chain::none, Chain::relu, Chain::residual, Chain::hardswish, Chain::scaled})
      for (const auto& order : {channels_last, rows}) {
        CAPTURE(c.channels);
        CAPTURE(c.height);
        CAPTURE(static_cast<int>(chain));
        if (order == rows && c.batch != 2) continue;
        const Tensor direct = convolve(c, chain, 0, order);
        if (chain == Chain::hardswish)
          CHECK(testing::difference(convolve(c, chain, 2, order), direct) <= 1e-6 * largest(direct));
        else
          CHECK(testing::difference(convolve(c, chain, 2, order), direct) == 0);
        CHECK(testing::difference(convolve(c, chain, 4, order), direct) <= 2e-5 * largest(direct));
      }
}

TEST_CASE("Winograd's convolutions have the same bits for any number of threads") {
  for (const Case& c : {Case{2, 24, 72, 70, 66, 1, 1}, Case{1, 96, 200, 14, 14, 1, 1}})
    for (const int64_t outputs : {2, 4}) {
      set_threads(1);
      const Tensor one = convolve(c, Chain::residual, outputs, channels_last);
      for (const int count : {2, 3, 8}) {
        set_threads(count);
        const Tensor many = convolve(c, Chain::residual, outputs, channels_last);
        CHECK(std::memcmp(one.data(), many.data(), one.nbytes()) == 0);
      }
      set_threads(0);
    }
}

TEST_CASE("the transforms of all widths of vectors agree") {
  std::vector<const Lanes*> widths{&lanes_portable};
  if (lanes().name != lanes_portable.name) widths.push_back(&lanes_avx2);
  if (lanes().name == lanes_avx512.name) widths.push_back(&lanes_avx512);
  const int64_t channels = 21;
  for (const int64_t outputs : {2, 4}) {
    const int64_t points = (outputs + 2) * (outputs + 2);
    const Tensor image = testing::numbers({points, channels}, 1), sums = testing::numbers({points, panel_columns}, 2);
    const float* pixels[36];
    for (int64_t i = 0; i < points; ++i) pixels[i] = image.as<float>() + i * channels;
    Tensor first_in, first_out;
    for (const Lanes* width : widths) {
      CAPTURE(width->name);
      Tensor in = Tensor::zeros(ScalarType::f32, {points, channels});
      width->winograd_in(outputs, pixels, 0, channels, in.mutable_as<float>());
      Tensor out = Tensor::zeros(ScalarType::f32, {outputs, outputs, channels});
      const WinogradOutputs tile{.sums = sums.as<float>(),
                                 .point = panel_columns,
                                 .bias = image.as<float>(),
                                 .added = nullptr,
                                 .added_row = 0,
                                 .added_column = 0,
                                 .is_rectified = true,
                                 .channels = channels,
                                 .rows = outputs,
                                 .columns = outputs - 1,
                                 .y = out.mutable_as<float>(),
                                 .y_row = outputs * channels,
                                 .y_column = channels};
      width->winograd_out(outputs, tile);
      for (int64_t i = 0; i < outputs * channels; ++i)  // what lies outside of the image is not written
        CHECK(out.float_at((i / channels * outputs + outputs - 1) * channels + i % channels) == 0);
      if (width == widths[0]) first_in = in, first_out = out;
      CHECK(testing::difference(in, first_in) < 5e-6);  // without FMA, products are rounded
      CHECK(testing::difference(out, first_out) < 1e-5);
    }
  }
}

TEST_CASE("the errors that are said are those of the kernel") {
  const Tensor weight = testing::numbers({16, 48, 3, 3}, 1);
  const WinogradError two = winograd_error(weight, 2), four = winograd_error(weight, 4);
  CHECK(two.winograd > 0);
  CHECK(two.winograd < four.winograd);
  CHECK(four.winograd < 1e-5);
  CHECK(winograd_error(Tensor::zeros(ScalarType::f32, {4, 4, 3, 3}), 4).winograd == 0);
  // The kernel, on an image of numbers from the same distribution, against sums in double.
  const int64_t side = 12;
  const Tensor image = testing::laid_out(testing::numbers({1, 48, side, side}, 9), channels_last);
  Call call;
  ir::Value *x = call.input(image), *w = call.input(weight);
  call.weight(winograd_weight(weight, 4));
  ir::Value* y = call.apply("aten::conv2d", {x, w}, {1, 16, side - 2, side - 2});
  call.body.set_outputs({y});
  Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, {1, 16, side - 2, side - 2}), channels_last);
  REQUIRE(call.run(winograd(), result) == "");
  double error = 0, most = 0;
  for (int64_t i = 0; i < result.numel(); ++i) {
    const int64_t column = i % (side - 2), row = i / (side - 2) % (side - 2), k = i / (side - 2) / (side - 2);
    double sum = 0;
    for (int64_t c = 0; c < 48; ++c)
      for (int64_t p = 0; p < 9; ++p)
        sum += image.float_at((c * side + row + p / 3) * side + column + p % 3) *
               static_cast<double>(weight.float_at((k * 48 + c) * 9 + p));
    error = std::max(error, std::abs(result.float_at(i) - sum));
    most = std::max(most, std::abs(sum));
  }
  CHECK(error / most < 2 * four.winograd);
  CHECK(error / most > four.winograd / 3);
}

TEST_CASE("where Winograd's algorithm is not chosen") {
  struct Shape {
    int64_t channels, results, side, outputs;
  };
  // A first layer and a pointwise amount of pixels stay direct; deep and small images have tiles of 2, others of 4.
  for (const Shape& s : {Shape{3, 32, 256, 0}, Shape{512, 512, 1, 0}, Shape{512, 512, 7, 2}, Shape{64, 64, 56, 4},
                         Shape{32, 32, 256, 4}}) {
    CAPTURE(s.channels);
    Call call;
    const std::vector<int64_t> sizes = {1, s.results, s.side, s.side};
    const Tensor image = Tensor::empty(ScalarType::f32, {1, s.channels, s.side, s.side});
    ir::Value* x = call.input(testing::laid_out(image, channels_last));
    ir::Value* w = call.input(Tensor::empty(ScalarType::f32, {s.results, s.channels, 3, 3}));
    call.body.set_outputs({call.apply("aten::conv2d", {x, w, ir::None{}, 1, 1}, sizes)});
    call.site.body = &call.body;
    const int64_t row = s.side * s.results;
    call.site.results = {{ScalarType::f32, sizes, {s.side * row, 1, row, s.results}}};
    CHECK(winograd_refusal(call.body) == "");
    CHECK(winograd_outputs(call.site) == s.outputs);
    call.site.operands[0].strides = contiguous_strides(image.sizes);
    if (s.channels > 1 && s.side > 1) CHECK(winograd_outputs(call.site) == 0);
    CHECK(winograd().refusal(call.body) != "");  // it has no transformed weight
  }
  struct Wrong {
    int64_t kernel, stride, dilation, groups;
  };
  for (const Wrong& wrong : {Wrong{5, 1, 1, 1}, Wrong{3, 2, 1, 1}, Wrong{3, 1, 2, 1}, Wrong{3, 1, 1, 2}}) {
    Call call;
    ir::Value* x = call.input(testing::whole_numbers({1, 8, 9, 9}, 1));
    ir::Value* w = call.input(testing::whole_numbers({8, 8 / wrong.groups, wrong.kernel, wrong.kernel}, 2));
    const int64_t side = (8 - wrong.dilation * (wrong.kernel - 1)) / wrong.stride + 1;
    call.body.set_outputs({call.apply("aten::conv2d", {x, w, ir::None{}, wrong.stride, 0, wrong.dilation, wrong.groups},
                                      {1, 8, side, side})});
    CHECK(winograd_refusal(call.body) != "");
  }
}

}  // namespace atenon::kernels
