// Pairs of convolutions in strips against the two convolutions in turn. Operands are small whole numbers: no tolerance
// is needed.
#include <doctest/doctest.h>

#include "kernels/list.h"
#include "kernels/product.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;
using testing::list;

namespace {

// One convolution by oneDNN, clamped to [-limit, limit].
Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride, int64_t padding,
                int64_t groups, std::vector<int64_t> sizes, double limit) {
  Call call;
  ir::Value *px = call.input(x), *pw = call.input(weight), *pb = call.input(bias);
  ir::Value* y = call.apply("aten::conv2d", {px, pw, pb, stride, padding, 1, groups}, sizes);
  y = call.apply("aten::hardtanh", {y, -limit, limit}, sizes);
  call.body.set_outputs({y});
  Tensor result = Tensor::zeros(ScalarType::f32, sizes);
  REQUIRE(call.run(onednn_convolution(), result) == "");
  return result;
}

}  // namespace

TEST_CASE("a pair of convolutions in strips equals the two in turn") {
  struct Case {
    int64_t batch, inputs, channels, height, width, kernel, stride, padding;
    int64_t window = 1, step = 1;  // of the first convolution
  };
  const Case cases[] = {{1, 8, 96, 112, 112, 3, 2, 1},     {2, 5, 72, 61, 67, 3, 1, 1},
                        {1, 4, 40, 90, 80, 5, 1, 2},       {1, 3, 33, 100, 96, 3, 1, 0},
                        {2, 6, 64, 75, 64, 5, 2, 2},       {0, 6, 64, 75, 64, 3, 1, 1},
                        {2, 3, 70, 75, 64, 3, 1, 1, 3, 2}, {1, 1, 48, 90, 80, 3, 2, 1, 5, 1}};
  const std::vector<int> rows = {0, 1, 2, 3}, channels_last = {0, 2, 3, 1};
  // Without the convolution that narrows, with it, and with one or many tensors added to its result.
  for (const Case& c : cases)
    for (const int variant : {0, 1, 2, 3, 4, 5, 6}) {
      const auto& order = variant % 2 == 0 ? channels_last : rows;
      const bool narrows = variant >= 2;
      const int adds = variant == 6 ? 9 : variant >= 4;
      CAPTURE(c.channels);
      CAPTURE(variant);
      const auto out = [&](int64_t size) { return (size + 2 * c.padding - c.kernel) / c.stride + 1; };
      const std::vector<int64_t> between = {c.batch, c.channels, c.height, c.width},
                                 sizes = {c.batch, c.channels, out(c.height), out(c.width)},
                                 narrow = {c.batch, 7, out(c.height), out(c.width)};
      const auto in = [&](int64_t size) { return (size - 1) * c.step + 1; };
      const Tensor x = testing::whole_numbers({c.batch, c.inputs, in(c.height), in(c.width)}, 1),
                   wide = testing::whole_numbers({c.channels, c.inputs, c.window, c.window}, 2),
                   bias = testing::whole_numbers({c.channels}, 3),
                   filter = testing::whole_numbers({c.channels, 1, c.kernel, c.kernel}, 4),
                   mixer = testing::whole_numbers({7, c.channels, 1, 1}, 5), shift = testing::whole_numbers({7}, 6),
                   residual = testing::whole_numbers(narrow, 7);
      Call call;
      std::vector<ir::Value*> added;
      for (int i = 0; i < adds; ++i) added.push_back(call.input(testing::laid_out(residual, order)));
      ir::Value *pm = narrows ? call.weight(mixer) : nullptr, *ps = narrows ? call.input(shift) : nullptr;
      ir::Value *px = call.input(testing::laid_out(x, order)), *pb = call.input(bias);
      ir::Value* pw = c.window == 1 ? call.weight(wide) : nullptr;
      ir::Value* pf = call.weight(filter);
      if (!pw) pw = call.weight(wide);  // the last weight is packed: a network's first needs it
      ir::Value* y = call.apply("aten::conv2d", {px, pw, pb, c.step, c.window / 2}, between);
      y = call.apply("aten::hardtanh", {y, -20.0, 20.0}, between);
      y = call.apply("aten::convolution",
                     {y, pf, pb, list({c.stride, c.stride}), list({c.padding, c.padding}), list({1, 1}), false,
                      list({0, 0}), c.channels},
                     sizes);
      y = call.apply("aten::hardtanh", {y, -20.0, 20.0}, sizes);
      if (narrows) y = call.apply("aten::conv2d", {y, pm, ps}, narrow);
      for (ir::Value* operand : added) y = call.apply("aten::add.Tensor", {y, operand}, narrow);
      call.body.set_outputs({y});
      Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, narrows ? narrow : sizes), order);
      if (order == channels_last && c.batch > 0) REQUIRE(call.pack_weight(strips(), call.operands.size() - 1, result));
      REQUIRE(call.run(strips(), result) == "");
      if (c.batch == 0) continue;
      CHECK((call.detail == "in turn") == (order == rows));
      Tensor wanted = convolve(x, wide, bias, c.step, c.window / 2, 1, between, 20);
      wanted = convolve(wanted, filter, bias, c.stride, c.padding, c.channels, sizes, 20);
      if (narrows) wanted = convolve(wanted, mixer, shift, 1, 0, 1, narrow, 1e9);
      for (int64_t i = 0; adds && i < wanted.numel(); ++i)
        wanted.set(i, wanted.float_at(i) + adds * residual.float_at(i));
      CHECK(testing::difference(result, wanted) == 0);
    }
}

TEST_CASE("a pointwise part with an exponential function behind it goes through panels, packed or not") {
  const std::vector<int64_t> between = {2, 72, 60, 75}, sizes = {2, 72, 30, 38};
  const Tensor x = testing::whole_numbers({2, 16, 60, 75}, 1), wide = testing::whole_numbers({72, 16, 1, 1}, 2),
               bias = testing::whole_numbers({72}, 3), filter = testing::whole_numbers({72, 1, 3, 3}, 4);
  // So far from 0 silu is relu.
  Tensor wanted = convolve(x, wide, bias, 1, 0, 1, between, 1e9);
  for (int64_t i = 0; i < wanted.numel(); ++i) wanted.set(i, std::max(0.0, 64 * wanted.float_at(i)));
  wanted = convolve(wanted, filter, bias, 2, 1, 72, sizes, 1e9);
  for (const bool is_packed : {false, true}) {
    CAPTURE(is_packed);
    const std::vector<int> channels_last = {0, 2, 3, 1};
    Call call;
    ir::Value *px = call.input(testing::laid_out(x, channels_last)), *pb = call.input(bias);
    ir::Value *pf = call.weight(filter), *pw = call.weight(wide);
    ir::Value* y = call.apply("aten::conv2d", {px, pw, pb}, between);
    y = call.apply("aten::mul.Tensor", {y, 64.0}, between);
    y = call.apply("aten::silu", {y}, between);
    y = call.apply("aten::conv2d", {y, pf, pb, 2, 1, 1, 72}, sizes);
    call.body.set_outputs({y});
    Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), channels_last);
    if (is_packed) {
      REQUIRE(call.pack_weight(strips(), call.operands.size() - 1, result));
      CHECK(call.site.operands.back().weight->layout == panel_layout(wide.sizes, {1, 0}));
    }
    REQUIRE(call.run(strips(), result) == "");
    CHECK(testing::difference(result, wanted) < 1e-9);
  }
}

TEST_CASE("what is no pair is refused") {
  for (const int wrong : {0, 1, 2, 3, 4}) {
    Call call;
    const int64_t side = wrong == 1 ? 8 : 96, groups = wrong == 2 ? 1 : 32, inputs = wrong == 4 ? 400 : 4;
    const std::vector<int64_t> sizes = {1, 32, side, side};
    ir::Value* x = call.input(testing::whole_numbers({1, inputs, side, side}, 1));
    ir::Value* wide = call.weight(testing::whole_numbers({32, inputs, 1, 1}, 2));
    ir::Value* filter = call.weight(testing::whole_numbers({32, 32 / groups, 3, 3}, 3));
    ir::Value* between = call.apply("aten::conv2d", {x, wide}, sizes);
    ir::Value* y = call.apply("aten::conv2d", {between, filter, ir::None(), 1, 1, 1, groups}, sizes);
    if (wrong == 3) y = call.apply("aten::add.Tensor", {y, between}, sizes);
    call.body.set_outputs({y});
    const char* const reasons[] = {"", "what lies between fits into the cache",
                                   "the second convolution is not depthwise", "something else is read outside",
                                   "rows that two strips compute take longer than they spare"};
    CHECK(objection(strips(), call.body) == reasons[wrong]);
  }
}

}  // namespace atenon::kernels
