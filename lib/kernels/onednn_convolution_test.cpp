// Convolutions against seven plain loops, on shapes kept as data. Operands are small whole numbers: no tolerance is
// needed.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "kernels/body.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

using testing::Call;
using testing::list;

struct Case {
  const char* about;
  int64_t batch, inputs, outputs, height, width, kernel, stride, padding, dilation, groups;
  bool transposed = false;
};

const Case cases[] = {
    {"1x1", 1, 16, 32, 7, 7, 1, 1, 0, 1, 1},
    {"3x3", 2, 16, 32, 9, 8, 3, 1, 1, 1, 1},
    {"strided, odd channels", 1, 5, 7, 11, 13, 3, 2, 1, 1, 1},
    {"first of a network", 1, 3, 64, 32, 32, 7, 2, 3, 1, 1},
    {"few outputs", 1, 5, 3, 8, 9, 3, 1, 1, 1, 1},
    {"dilated", 1, 8, 8, 12, 12, 3, 1, 2, 2, 1},
    {"depthwise", 2, 24, 24, 10, 10, 3, 1, 1, 1, 24},
    {"depthwise, strided, odd", 1, 19, 19, 10, 10, 3, 2, 1, 1, 19},
    {"grouped", 1, 16, 32, 6, 6, 3, 1, 1, 1, 4},
    {"grouped, several images", 3, 16, 32, 6, 7, 3, 2, 1, 1, 4},
    {"grouped and dilated, strips of several lines", 2, 32, 32, 37, 9, 3, 2, 2, 2, 2},
    {"grouped, a filter too large for strips", 2, 768, 768, 3, 4, 1, 1, 0, 1, 4},
    {"grouped, whole blocks in each group", 1, 48, 96, 6, 6, 3, 1, 1, 1, 3},
    {"an image and channels of several tiles", 2, 75, 67, 23, 25, 1, 1, 0, 1, 1},
    {"one pixel", 1, 32, 10, 1, 1, 1, 1, 0, 1, 1},
    {"transposed 2x2", 1, 16, 8, 6, 5, 2, 2, 0, 1, 1, true},
    {"transposed 3x3", 1, 4, 6, 5, 5, 3, 2, 1, 1, 1, true},
    {"transposed 4x4, many channels", 1, 512, 64, 4, 4, 4, 2, 1, 1, 1, true},
    {"transposed 4x4, 256 channels", 1, 256, 64, 9, 11, 4, 2, 1, 1, 1, true},
};

int64_t result_size(const Case& c, int64_t size) {
  if (c.transposed) return (size - 1) * c.stride - 2 * c.padding + c.dilation * (c.kernel - 1) + 1;
  return (size + 2 * c.padding - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
}

Tensor plain_loops(const Case& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const int64_t height = result_size(c, c.height), width = result_size(c, c.width);
  Tensor y = Tensor::zeros(ScalarType::f32, {c.batch, c.outputs, height, width});
  const int64_t in_group = c.inputs / c.groups, out_group = c.outputs / c.groups;
  auto at = [](const Tensor& t, int64_t a, int64_t b, int64_t i, int64_t j) -> int64_t {
    return ((a * t.sizes[1] + b) * t.sizes[2] + i) * t.sizes[3] + j;
  };
  float* out = y.mutable_as<float>();
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.outputs; ++o)
      for (int64_t k = 0; k < in_group; ++k)
        for (int64_t h = 0; h < (c.transposed ? c.height : height); ++h)
          for (int64_t w = 0; w < (c.transposed ? c.width : width); ++w)
            for (int64_t i = 0; i < c.kernel; ++i)
              for (int64_t j = 0; j < c.kernel; ++j) {
                const int64_t input = o / out_group * in_group + k;
                const int64_t far_h = h * c.stride - c.padding + i * c.dilation,
                              far_w = w * c.stride - c.padding + j * c.dilation;
                const int64_t yh = c.transposed ? far_h : h, yw = c.transposed ? far_w : w;
                const int64_t xh = c.transposed ? h : far_h, xw = c.transposed ? w : far_w;
                if (yh < 0 || yh >= height || yw < 0 || yw >= width || xh < 0 || xh >= c.height || xw < 0 ||
                    xw >= c.width)
                  continue;
                const int64_t filter = c.transposed ? at(weight, input, o % out_group, i, j) : at(weight, o, k, i, j);
                out[at(y, n, o, yh, yw)] += x.as<float>()[at(x, n, input, xh, xw)] * weight.as<float>()[filter];
              }
  for (int64_t i = 0; i < y.numel(); ++i) out[i] += bias.as<float>()[i / (height * width) % c.outputs];
  return y;
}

}  // namespace

TEST_CASE("columns, and filters as wide as the image, equal plain loops") {
  struct Shape {
    const char* about;
    int64_t channels, outputs, height, width, kernel_height, kernel_width, stride, padding;
  };
  const Shape shapes[] = {
      {"a column", 24, 20, 30, 1, 3, 1, 1, 0},
      {"a column, strided and padded", 24, 16, 31, 1, 5, 1, 2, 2},
      {"a column of one channel", 1, 16, 31, 1, 5, 1, 2, 2},
      {"a text", 1, 12, 20, 50, 3, 50, 1, 0},
      {"a padded text", 1, 12, 20, 50, 4, 50, 1, 2},
      {"all frequencies", 1, 10, 40, 25, 40, 3, 1, 0},
      {"the whole image", 1, 10, 9, 8, 9, 8, 1, 0},
      {"a strip", 1, 10, 9, 3, 3, 3, 3, 1},
  };
  for (const Shape& s : shapes)
    for (const Kernel* kernel : {&onednn_convolution(), &few_channels()})
      for (bool channels_last : {false, true})
        for (bool has_residual : {false, true}) {
          CAPTURE(std::string(s.about));
          CAPTURE(kernel->name());
          CAPTURE(channels_last);
          CAPTURE(has_residual);
          const std::vector<int> order = channels_last ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{0, 1, 2, 3};
          // Padding is of the height, but for the strip's, which is of both.
          const int64_t padding_width = s.width == 3 ? s.padding : 0;
          const int64_t height = (s.height + 2 * s.padding - s.kernel_height) / s.stride + 1,
                        width = (s.width + 2 * padding_width - s.kernel_width) / s.stride + 1;
          Tensor x = testing::whole_numbers({2, s.channels, s.height, s.width}, 1),
                 weight = testing::whole_numbers({s.outputs, s.channels, s.kernel_height, s.kernel_width}, 2),
                 residual = testing::whole_numbers({2, s.outputs, height, width}, 3);
          Tensor expected = Tensor::zeros(ScalarType::f32, residual.sizes);
          float* sum = expected.mutable_as<float>();
          for (int64_t n = 0; n < 2; ++n)
            for (int64_t o = 0; o < s.outputs; ++o)
              for (int64_t h = 0; h < height; ++h)
                for (int64_t w = 0; w < width; ++w, ++sum) {
                  for (int64_t c = 0; c < s.channels; ++c)
                    for (int64_t i = 0; i < s.kernel_height; ++i)
                      for (int64_t j = 0; j < s.kernel_width; ++j) {
                        const int64_t y = h * s.stride - s.padding + i, z = w * s.stride - padding_width + j;
                        if (y >= 0 && y < s.height && z >= 0 && z < s.width)
                          *sum += x.as<float>()[((n * s.channels + c) * s.height + y) * s.width + z] *
                                  weight.as<float>()[((o * s.channels + c) * s.kernel_height + i) * s.kernel_width + j];
                      }
                  if (has_residual) *sum += residual.as<float>()[sum - expected.as<float>()];
                }
          Call call;
          ir::Value *px = call.input(testing::laid_out(x, order)), *pr = call.input(testing::laid_out(residual, order)),
                    *pw = call.weight(weight);
          ir::Value* y = call.apply("aten::conv2d",
                                    {px, pw, ir::None(), list({s.stride, s.stride}), list({s.padding, padding_width})},
                                    residual.sizes);
          if (has_residual) y = call.apply("aten::add.Tensor", {y, pr}, residual.sizes);
          call.body.set_outputs({y});
          if (!kernel->refusal(call.body).empty()) continue;
          Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, residual.sizes), order);
          call.pack_weight(*kernel, 2, result);
          REQUIRE(call.run(*kernel, result) == "");
          if (channels_last || kernel == &onednn_convolution()) CHECK(call.note == "");
          CHECK(testing::difference(result, expected) == 0);
        }
}

TEST_CASE(
    "convolutions equal plain loops in every layout of their operands, by every kernel that does not refuse them") {
  const Kernel* const kernels[] = {&onednn_convolution(), &few_channels(), &few_outputs(), &depthwise(), &groups(),
                                   &disjoint(),           &transposed(),   &overlapping(), &panels()};
  std::set<const Kernel*> ran;
  const std::vector<int> rows{0, 1, 2, 3}, channels_last{0, 2, 3, 1};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.about));
    Tensor x = testing::whole_numbers({c.batch, c.inputs, c.height, c.width}, 1);
    Tensor weight =
        testing::whole_numbers(c.transposed ? std::vector<int64_t>{c.inputs, c.outputs / c.groups, c.kernel, c.kernel}
                                            : std::vector<int64_t>{c.outputs, c.inputs / c.groups, c.kernel, c.kernel},
                               2);
    Tensor bias = testing::whole_numbers({c.outputs}, 3);
    Tensor expected = plain_loops(c, x, weight, bias);
    Tensor residual = testing::whole_numbers(expected.sizes, 4);
    for (const Kernel* kernel : kernels)
      for (const auto& order : {rows, channels_last})
        for (bool packed : {false, true})
          for (bool core : {false, true})
            for (int epilogue : {0, 1, 2, 3, 4}) {  // 4: without a bias
              CAPTURE(std::string(kernel->name()));
              CAPTURE(order[1]);
              CAPTURE(packed);
              CAPTURE(epilogue);
              Call call;
              ir::Value* px = call.input(testing::laid_out(x, order));
              const ir::Argument pb = epilogue == 4 ? ir::Argument(ir::None()) : ir::Argument(call.input(bias));
              ir::Value* pr = epilogue == 2 || epilogue == 3 ? call.input(testing::laid_out(residual, order)) : nullptr;
              ir::Value* pw = call.weight(weight);
              auto pair = [](int64_t v) { return list({v, v}); };
              ir::Value* y =
                  core ? call.apply("aten::convolution",
                                    {px, pw, pb, pair(c.stride), pair(c.padding), pair(c.dilation), c.transposed,
                                     pair(0), c.groups},
                                    expected.sizes)
                  : c.transposed
                      ? call.apply("aten::conv_transpose2d.input",
                                   {px, pw, pb, pair(c.stride), c.padding, 0, c.groups, c.dilation}, expected.sizes)
                      : call.apply("aten::conv2d", {px, pw, pb, pair(c.stride), pair(c.padding)}, expected.sizes,
                                   {{"dilation", c.dilation}, {"groups", c.groups}});
              if (epilogue == 1) y = call.apply("aten::hardtanh", {y, 0, 6}, expected.sizes);
              if (pr) y = call.apply("aten::add.Tensor", {y, pr}, expected.sizes);
              if (pr) y = call.apply("aten::relu", {y}, expected.sizes);
              call.body.set_outputs({y});
              const bool is_by_onednn = kernel == &onednn_convolution();
              if (!kernel->refusal(call.body).empty()) {
                if (is_by_onednn) CHECK(c.transposed);
                if (is_by_onednn) CHECK(epilogue > 0);
                continue;
              }
              ran.insert(kernel);
              Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, expected.sizes), order);
              const bool was_packed = packed && call.pack_weight(*kernel, call.operands.size() - 1, result);
              REQUIRE(call.run(*kernel, result, epilogue == 3 ? 2 : -1) == "");
              if (was_packed && is_by_onednn) CHECK(call.note == "");
              if (packed && is_by_onednn && c.inputs / c.groups % 16 == 0 && c.outputs / c.groups % 16 == 0)
                CHECK(call.note == "");
              // Without AVX-512, oneDNN has none for groups of so few channels.
              if (is_by_onednn && (lanes().name == lanes_avx512.name || c.groups == 1 || c.groups == c.inputs))
                CHECK(call.detail.find("ref") == std::string::npos);
              Tensor wanted = Tensor::empty(ScalarType::f32, expected.sizes);
              for (int64_t i = 0; i < wanted.numel(); ++i) {
                float value = expected.as<float>()[i];
                if (epilogue == 4) value -= bias.as<float>()[i / (expected.sizes[2] * expected.sizes[3]) % c.outputs];
                if (epilogue == 1) value = std::min(std::max(value, 0.f), 6.f);
                if (pr) value = std::max(value + residual.as<float>()[i], 0.f);
                wanted.mutable_as<float>()[i] = value;
              }
              CHECK(testing::difference(result, wanted) == 0);
            }
  }
  CHECK(ran.size() == std::size(kernels));
}

TEST_CASE("a pointwise convolution of few pixels or large images goes by panels where its filter lies in them") {
  const std::vector<int> channels_last{0, 2, 3, 1};
  for (const int64_t outputs : {64, 56})
    for (const int64_t side : {8, 40, 132}) {
      const std::vector<int64_t> sizes = {1, outputs, side, side};
      const Tensor x = testing::whole_numbers({1, 128, side, side}, 1),
                   weight = testing::whole_numbers({outputs, 128, 1, 1}, 2),
                   residual = testing::whole_numbers(sizes, 3);
      Tensor results[2];
      for (const bool packed : {false, true}) {
        Call call;
        ir::Value* px = call.input(testing::laid_out(x, channels_last));
        ir::Value* pr = call.input(testing::laid_out(residual, channels_last));
        ir::Value* pw = call.weight(weight);
        ir::Value* y = call.apply("aten::conv2d", {px, pw}, sizes);
        y = call.apply("aten::add.Tensor", {y, pr}, sizes);
        call.body.set_outputs({call.apply("aten::hardtanh", {y, -50.0, 50.0}, sizes)});
        results[packed] = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), channels_last);
        if (packed) REQUIRE(call.pack_weight(panels(), 2, results[packed]));
        REQUIRE(call.run(onednn_convolution(), results[packed]) == "");
        if (call.detail == "amx")
          CHECK(packed);
        else
          CHECK((call.detail == lanes().name) == (packed && side != 40));
        CHECK(objection(panels(), call.body).empty() == (side != 40 || outputs == 64));
      }
      CHECK(testing::difference(results[0], results[1]) == 0);
    }
}

TEST_CASE("pixels that are joined give what they give alone") {
  struct Shape {
    std::vector<int64_t> x, weight;
    int64_t padding, pixels, pixels_of_avx2;  // that are joined
    int64_t stride = 1;                       // of all axes but the last
    const Kernel* kernel = &onednn_convolution();
    bool in_rows = false;  // the image
  };
  const Shape shapes[] = {
      {{2, 5, 24}, {8, 5, 3}, 1, 2, 1},
      {{1, 20, 30}, {3, 20, 9}, 4, 5, 2},
      {{2, 8, 9, 12}, {8, 8, 3, 3}, 1, 2, 1},
      {{1, 24, 7, 16}, {4, 24, 5, 5}, 2, 4, 2},
      {{1, 24, 7, 18}, {4, 24, 3, 3}, 0, 4, 2, 2},
      {{2, 1, 9, 16}, {1, 1, 3, 3}, 1, 16, 8},
      {{1, 8, 6, 5, 6}, {7, 8, 3, 3, 3}, 1, 2, 1},
      {{1, 3, 6, 5, 6}, {2, 3, 2, 2, 2}, 0, 5, 1},
      {{1, 8, 6, 6, 6}, {8, 8, 1, 1, 1}, 0, 1, 1},
      {{1, 8, 6, 13}, {8, 8, 3, 3}, 1, 1, 1},
      {{1, 8, 6, 12}, {9, 8, 3, 3}, 1, 1, 1},
      {{2, 1, 300}, {8, 1, 65}, 32, 2, 1, 1, &few_channels()},
      {{2, 3, 301}, {7, 3, 44}, 22, 2, 1, 1, &few_channels()},
      {{2, 4, 300}, {5, 4, 9}, 4, 3, 1, 1, &few_channels(), true},
      {{1, 2, 20, 30}, {4, 2, 5, 5}, 2, 3, 2, 2, &few_channels(), true},
      {{1, 3, 40, 900}, {8, 3, 3, 3}, 1, 2, 1, 1, &few_channels(), true},
      {{1, 1, 9, 31}, {8, 1, 3, 3}, 1, 1, 1, 1, &few_channels(), true},
  };
  for (const Shape& s : shapes)
    for (int residual : {0, 1, 2}) {  // 2: in place
      CAPTURE(s.x);
      CAPTURE(s.weight);
      CAPTURE(residual);
      const size_t rank = s.x.size();
      const std::vector<int> order = channels_last_order(rank);
      std::vector<int64_t> sizes = s.x;
      sizes[1] = s.weight[0];
      ir::ArgumentList stride;
      for (size_t axis = 2; axis < rank; ++axis) {
        const int64_t step = axis + 1 < rank ? s.stride : 1;
        stride.push_back(step);
        sizes[axis] = (s.x[axis] + 2 * s.padding - s.weight[axis]) / step + 1;
      }
      Tensor results[2];
      for (const bool is_joined : {false, true}) {
        Call call;
        const Tensor image = testing::whole_numbers(s.x, 1);
        ir::Value* x = call.input(s.in_rows ? image : testing::laid_out(image, order));
        const Tensor numbers = testing::whole_numbers({sizes[1]}, 2);
        ir::Value* bias =
            is_joined ? call.weight(numbers) : call.input(numbers);  // which is not known, and no pixels joined
        ir::Value* added = call.input(testing::laid_out(testing::whole_numbers(sizes, 3), order));
        ir::Value* weight = call.weight(testing::whole_numbers(s.weight, 4));
        ir::Value* y =
            call.apply("aten::conv" + std::to_string(rank - 2) + "d", {x, weight, bias, stride, s.padding}, sizes);
        if (residual > 0) y = call.apply("aten::add.Tensor", {y, added}, sizes);
        call.body.set_outputs({call.apply("aten::relu", {y}, sizes)});
        results[is_joined] = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), order);
        const bool is_packed = call.pack_weight(*s.kernel, 3, results[is_joined]);
        REQUIRE(call.run(*s.kernel, results[is_joined], residual == 2 ? 2 : -1) == "");
        const int64_t pixels = !is_joined ? 1 : lanes().name == lanes_avx512.name ? s.pixels : s.pixels_of_avx2;
        CHECK((call.detail.find(std::to_string(pixels) + " pixels joined") != std::string::npos) == (pixels > 1));
        if (pixels > 1) CHECK(!is_packed);
        if (s.kernel == &few_channels()) CHECK(call.detail.starts_with(lanes().name));  // by loops of its own
      }
      CHECK(testing::difference(results[0], results[1]) == 0);
    }
}

TEST_CASE("an epilogue may read the image") {
  const std::vector<int> channels_last{0, 2, 3, 1};
  struct Shape {
    int64_t batch, channels, groups, side;
  };
  for (const Shape& s :
       {Shape{2, 1, 1, 8}, {2, 4, 1, 12}, {2, 64, 2, 8}, {4, 32, 4, 24}, {2, 16, 16, 9}, {1, 32, 1, 7}}) {
    CAPTURE(s.channels);
    CAPTURE(s.groups);
    const std::vector<int64_t> sizes{s.batch, s.channels, s.side, s.side};
    const Tensor image = testing::laid_out(testing::whole_numbers(sizes, 1), channels_last);
    Tensor results[2];
    for (const bool is_image : {false, true}) {
      Call call;
      ir::Value* x = call.input(image);
      ir::Value* factor = is_image ? x : call.input(image);
      ir::Value* weight = call.weight(testing::whole_numbers({s.channels, s.channels / s.groups, 3, 3}, 2));
      ir::Value* y = call.apply("aten::conv2d", {x, weight, ir::None(), 1, 1, 1, s.groups}, sizes);
      call.body.set_outputs({call.apply("aten::mul.Tensor", {y, factor}, sizes)});
      results[is_image] = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), channels_last);
      REQUIRE(call.run(onednn_convolution(), results[is_image]) == "");
    }
    CHECK(testing::difference(results[0], results[1]) == 0);
  }
}

TEST_CASE("a convolution has the same bits for any number of threads") {
  struct Shape {
    const char* target;
    std::vector<int64_t> x, weight, stride, padding, dilation, y;
    int64_t groups = 1;
  };
  std::vector<Shape> shapes = {
      {"aten::conv2d", {1, 100, 1, 7}, {2, 100, 7, 7}, {2, 1}, {4, 2}, {1, 1}, {1, 2, 2, 5}},
      {"aten::conv2d", {2, 32, 1, 56}, {64, 32, 1, 5}, {1, 1}, {0, 0}, {1, 1}, {2, 64, 1, 52}},
      {"aten::conv2d", {1, 512, 16, 32}, {192, 512, 1, 3}, {1, 2}, {0, 0}, {1, 3}, {1, 192, 16, 13}},
      {"aten::conv_transpose2d.input", {2, 40, 7, 9}, {40, 48, 3, 3}, {2, 2}, {1, 1}, {}, {2, 48, 13, 17}},
      {"aten::conv3d", {1, 8, 6, 20, 16}, {8, 8, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 8, 6, 20, 16}},
  };
  // Of random ones, a tenth has sums that oneDNN cuts by the number of threads.
  std::mt19937 random(1);
  const auto any = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  while (shapes.size() < 150) {
    Shape shape{
        "aten::conv2d", {any({1, 1, 2}), any({3, 16, 20, 32, 40, 48, 64, 96, 100, 128, 256})}, {}, {}, {}, {}, {}};
    const bool is_depthwise = random() % 4 == 0;
    const int64_t outputs = is_depthwise ? shape.x[1] : any({2, 8, 16, 24, 32, 48, 64, 96, 144, 160});
    shape.groups = is_depthwise ? shape.x[1] : 1;
    shape.weight = {outputs, shape.x[1] / shape.groups};
    shape.y = {shape.x[0], outputs};
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t taps = any({1, 2, 3, 3, 3, 3, 5, 7}), dilation = any({1, 1, 1, 2, 3}), stride = any({1, 1, 1, 2});
      const int64_t size = any({1, 2, 3, 4, 7, 8, 10, 14, 16, 20, 28}), window = (taps - 1) * dilation + 1;
      const int64_t padding = any({window / 2, std::min<int64_t>(1, window / 2), window - 1});
      shape.x.push_back(size), shape.weight.push_back(taps);
      shape.stride.push_back(stride), shape.padding.push_back(padding), shape.dilation.push_back(dilation);
      if (size + 2 * padding < window) {
        shape.y.clear();
        break;
      }
      shape.y.push_back((size + 2 * padding - window) / stride + 1);
    }
    if (!shape.y.empty()) shapes.push_back(shape);
  }
  for (const Shape& shape : shapes) {
    const Tensor x = testing::numbers(shape.x, 1), weight = testing::numbers(shape.weight, 2);
    std::optional<Tensor> first;
    for (const int count : {1, 2, 3, 4, 8, 20}) {
      CAPTURE(std::string(shape.target));
      CAPTURE(::doctest::toString(shape.x));
      CAPTURE(count);
      set_threads(count);
      Call call;
      const auto list_of = [](const std::vector<int64_t>& values) {
        return ir::ArgumentList(values.begin(), values.end());
      };
      std::vector<ir::Argument> given{call.input(x), call.weight(weight), ir::None(), list_of(shape.stride),
                                      list_of(shape.padding)};
      if (!shape.dilation.empty()) given.insert(given.end(), {list_of(shape.dilation), shape.groups});
      call.body.set_outputs({call.apply(shape.target, given, shape.y)});
      Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, shape.y), channels_last_order(shape.y.size()));
      REQUIRE(call.run(onednn_convolution(), result) == "");
      if (!first) first = result;
      CHECK(std::memcmp(result.data(), first->data(), result.nbytes()) == 0);
    }
  }
  set_threads(0);
}

TEST_CASE("a convolution gives the same while another caller has the workers") {
  struct Shape {
    const char* target;
    std::vector<int64_t> x, weight, stride, dilation;
    int64_t groups;
    std::vector<int64_t> y;
  };
  const Shape shapes[] = {
      {"aten::conv_transpose2d.input", {1, 512, 7, 5}, {512, 3, 3, 3}, {3, 3}, {1, 2}, 1, {1, 3, 21, 17}},
      // Its gemm runs on several threads, which wait for each other.
      {"aten::conv_transpose3d.input",
       {1, 2, 8, 12, 16},
       {2, 256, 3, 3, 3},
       {1, 2, 2},
       {1, 2, 5},
       2,
       {1, 512, 10, 27, 41}},
  };
  for (const Shape& shape : shapes) {
    const Tensor x = testing::whole_numbers(shape.x, 1), weight = testing::whole_numbers(shape.weight, 2);
    const auto computed = [&] {
      Call call;
      ir::Value *px = call.input(x), *pw = call.weight(weight);
      const auto list = [](const std::vector<int64_t>& values) {
        return ir::ArgumentList(values.begin(), values.end());
      };
      const ir::ArgumentList zeros(shape.stride.size(), 0);
      call.body.set_outputs({call.apply(
          shape.target, {px, pw, ir::None(), list(shape.stride), zeros, zeros, shape.groups, list(shape.dilation)},
          shape.y)});
      Tensor result = Tensor::zeros(ScalarType::f32, shape.y);
      const std::string failure = call.run(onednn_convolution(), result);
      return std::pair(failure, result);
    };
    set_threads(2);
    const auto [failure, alone] = computed();
    REQUIRE(failure == "");
    std::atomic<bool> has_begun = false, is_done = false;
    std::thread other([&] {
      parallel_for(2, [&](int64_t) {
        has_begun = true;
        while (!is_done) std::this_thread::yield();
      });
    });
    while (!has_begun) std::this_thread::yield();
    CHECK(testing::difference(computed().second, alone) == 0);
    is_done = true;
    other.join();
  }
  set_threads(0);
}

TEST_CASE("zeros that are written around an image are padding of the convolution behind it") {
  struct Case {
    const Kernel* kernel;
    std::vector<int64_t> x, weight, zeros;  // from the last axis on: before, behind
    int64_t stride, padding, dilation, groups;
  };
  const Case cases[] = {
      {&onednn_convolution(), {2, 20, 30}, {24, 20, 3}, {8, 0}, 1, 0, 4, 1},  // causal
      {&onednn_convolution(), {1, 16, 9, 8}, {20, 16, 3, 3}, {0, 1, 0, 1}, 2, 0, 1, 1},
      {&onednn_convolution(), {1, 16, 9, 8}, {20, 16, 3, 3}, {1, 0}, 1, 1, 1, 1},
      {&onednn_convolution(), {2, 16, 5, 6}, {24, 8, 3, 3}, {2, 1, 1, 2}, 1, 0, 1, 2},
      {&few_channels(), {1, 3, 15, 16}, {32, 3, 3, 3}, {0, 1, 0, 1}, 2, 0, 1, 1},
      {&few_channels(), {2, 2, 40}, {16, 2, 5}, {4, 0}, 1, 0, 1, 1},
      {&depthwise(), {1, 20, 30}, {20, 1, 4}, {3, 0}, 1, 0, 1, 20},
      {&depthwise(), {2, 32, 9, 10}, {32, 1, 3, 3}, {0, 1, 1, 2}, 2, 0, 1, 32},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.kernel->name()));
    CAPTURE(c.x[1]);
    const Tensor x = testing::whole_numbers(c.x, 1), weight = testing::whole_numbers(c.weight, 2);
    std::vector<int64_t> around = c.x, sizes = c.x;  // with the zeros; of the result
    sizes[1] = c.weight[0];
    const size_t rank = sizes.size();
    for (size_t axis = 2; axis < rank; ++axis) {
      const size_t at = 2 * (rank - 1 - axis);
      if (at < c.zeros.size()) around[axis] += c.zeros[at] + c.zeros[at + 1];
      sizes[axis] = (around[axis] + 2 * c.padding - c.dilation * (c.weight[axis] - 1) - 1) / c.stride + 1;
    }
    Tensor wide = Tensor::zeros(ScalarType::f32, around);
    for (int64_t i = 0; i < x.numel(); ++i) {
      int64_t rest = i, place = 0, step = 1;
      for (size_t axis = rank; axis-- > 0; step *= around[axis], rest /= c.x[axis]) {
        const size_t at = 2 * (rank - 1 - axis);
        place += (rest % c.x[axis] + (axis > 1 && at < c.zeros.size() ? c.zeros[at] : 0)) * step;
      }
      wide.mutable_as<float>()[place] = x.as<float>()[i];
    }
    const std::vector<int> order = channels_last_order(rank);
    Tensor results[2];
    for (const bool is_written : {false, true}) {
      Call call;
      ir::Value* image = call.input(testing::laid_out(is_written ? wide : x, order));
      ir::Value* filter = call.weight(weight);
      if (!is_written)
        image =
            call.apply("aten::constant_pad_nd", {image, ir::ArgumentList(c.zeros.begin(), c.zeros.end()), 0}, around);
      call.body.set_outputs(
          {call.apply("aten::conv" + std::to_string(rank - 2) + "d",
                      {image, filter, ir::None(), c.stride, c.padding, c.dilation, c.groups}, sizes)});
      Tensor& result = results[is_written ? 1 : 0];
      result = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), order);
      call.pack_weight(*c.kernel, 1, result);
      REQUIRE(call.run(*c.kernel, result) == "");
    }
    CHECK(testing::difference(results[0], results[1]) == 0);
  }
  const auto refusal = [](const ir::ArgumentList& zeros, double value, std::vector<int64_t> sizes) {
    Call call;
    ir::Value *x = call.input(testing::whole_numbers({1, 4, 6}, 1)),
              *w = call.weight(testing::whole_numbers({4, 4, 3}, 2));
    ir::Value* around = call.apply("aten::constant_pad_nd", {x, zeros, value}, sizes);
    call.body.set_outputs({call.apply("aten::conv1d", {around, w}, {1, 4, sizes[2] - 2})});
    return onednn_convolution().refusal(call.body);
  };
  CHECK(refusal(list({2, 0}), 1, {1, 4, 8}) == "other numbers than zeros around its image");
  CHECK(refusal(list({3, 0}), 0, {1, 4, 9}) == "windows of nothing but zeros");
  CHECK(refusal(list({-1, 0}), 0, {1, 4, 5}) == "its image is cut");
}

TEST_CASE("what is no convolution is refused with the reason") {
  Call call;
  ir::Value* x = call.input(Tensor::zeros(ScalarType::f32, {2, 3}));
  call.body.set_outputs({call.apply("aten::relu", {x}, {2, 3})});
  CHECK(onednn_convolution().refusal(call.body) == "aten::relu stands before a convolution");
}

TEST_CASE("a transposed convolution is refused whose output padding reaches a stride beyond its inputs") {
  for (int64_t output_padding : {0, 1, 2}) {
    Call call;
    const int64_t width = 12 + output_padding;  // of 5 inputs, two apart, by 2 taps, three apart
    ir::Value *x = call.input(testing::whole_numbers({1, 2, 5}, 1)),
              *weight = call.weight(testing::whole_numbers({2, 4, 2}, 2));
    call.body.set_outputs({call.apply(
        "aten::conv_transpose1d", {x, weight, ir::None(), list({2}), list({0}), list({output_padding}), 1, list({3})},
        {1, 4, width})});
    Tensor result = Tensor::zeros(ScalarType::f32, {1, 4, width});
    CHECK((call.run(onednn_convolution(), result) == "") == (output_padding < 2));
    CHECK(onednn_convolution().refusal(call.body).empty() == (output_padding < 2));
  }
}

}  // namespace atenon::kernels
