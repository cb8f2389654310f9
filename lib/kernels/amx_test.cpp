// The matrix unit against other kernels, at sizes at which it is chosen. Operands are small whole numbers, unless it is
// about others: no tolerance is needed. Where the CPU has no such unit, vectors are compared.
#include "kernels/amx.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/convolution.h"
#include "kernels/list.h"
#include "kernels/testing.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

using testing::Call;
using testing::list;

constexpr float infinity = std::numeric_limits<float>::infinity();

// Whether elements are the same, NaN included, or as near as sums in f32 of terms of these sizes are.
bool agree(const Tensor& result, const Tensor& expected, const Tensor& sizes) {
  for (int64_t i = 0; i < result.numel(); ++i) {
    const double x = result.float_at(i), y = expected.float_at(i);
    if (std::isnan(x) != std::isnan(y) || std::isinf(x) != std::isinf(y)) return false;
    if (std::isinf(x) ? x != y : std::abs(x - y) > 1e-6 * std::abs(sizes.float_at(i))) return false;
  }
  return true;
}

// Whole numbers of so many bits, about one in `every` of them not 0.
Tensor whole_numbers(const std::vector<int64_t>& sizes, uint32_t seed, int bits, int64_t every = 1) {
  Tensor tensor = Tensor::zeros(ScalarType::f32, sizes);
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    const auto number = static_cast<int>(state >> (31 - bits)) - (1 << bits);
    if (i % every == seed % every) tensor.mutable_as<float>()[i] = static_cast<float>(number | 1);
  }
  return tensor;
}
// In each row of so many numbers one that is not 0: a power of two.
Tensor powers(const std::vector<int64_t>& sizes, int64_t row) {
  Tensor tensor = Tensor::zeros(ScalarType::f32, sizes);
  for (int64_t i = 0; i < tensor.numel() / row; ++i)
    tensor.mutable_as<float>()[i * row + i * 37 % row] = std::ldexp(1.0f, static_cast<int>(i % 5));
  return tensor;
}

// Operands whose products have exact sums in f32: of one part each, of two, and of three on one side. Rows of `b` are
// `row` numbers long; `sparse_a` has few numbers that are not 0.
struct Operands {
  int parts, parts_of_b;
  Tensor a, b;
};
std::vector<Operands> exact_operands(const std::vector<int64_t>& a, const std::vector<int64_t>& b, int64_t row,
                                     const Tensor& sparse_a) {
  return {{1, 1, testing::whole_numbers(a, 1), testing::whole_numbers(b, 2)},
          {2, 2, whole_numbers(a, 1, 9), whole_numbers(b, 2, 9, std::max<int64_t>(1, row / 8) | 1)},
          {3, 1, whole_numbers(a, 1, 23), powers(b, row)},
          {3, 3, sparse_a, whole_numbers(b, 2, 23)}};
}

struct Linear {
  Tensor x, weight, bias;
  bool is_packed = true;
  ScalarType stored = ScalarType::f32;
  std::string detail;

  Tensor run() {
    Call call;
    call.site.threads = threads();
    const int64_t rows = x.sizes[0], columns = weight.sizes[0];
    ir::Value *px = call.input(x), *pb = call.input(bias), *pw = call.weight(weight);
    ir::Value* y = call.apply("aten::linear", {px, pw, pb}, {rows, columns});
    call.body.set_outputs({call.apply("aten::relu", {y}, {rows, columns})});
    Tensor result = Tensor::zeros(ScalarType::f32, {rows, columns});
    call.site.body = &call.body;
    if (stored != ScalarType::f32)
      call.store_weight(*panels().half_layout(call.site, 2), stored, 2);
    else if (is_packed)
      REQUIRE(call.pack_weight(panels(), 2, result));
    REQUIRE(call.run(panels(), result) == "");
    detail = call.detail;
    return result;
  }
};

// With `is_absolute`, of absolute values.
Tensor plain(const Linear& linear, bool is_absolute = false) {
  const auto take = [&](double x) { return is_absolute ? std::abs(x) : x; };
  const int64_t rows = linear.x.sizes[0], k = linear.x.sizes[1], columns = linear.weight.sizes[0];
  Tensor y = Tensor::zeros(ScalarType::f32, {rows, columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = take(linear.bias.as<float>()[j]);
      for (int64_t l = 0; l < k; ++l)
        sum += take(static_cast<double>(linear.x.as<float>()[i * k + l]) * linear.weight.as<float>()[j * k + l]);
      y.mutable_as<float>()[i * columns + j] = static_cast<float>(sum < 0 ? 0 : sum);
    }
  return y;
}

struct Convolution2d {
  std::vector<int64_t> x, weight;  // weight: outputs, channels, lines, columns
  std::vector<int64_t> stride, padding, dilation;
};

// The filter lies in blocks of so many outputs; 0: as it came.
Tensor convolve(const Convolution2d& c, const Tensor& x, const Tensor& weight, int64_t block, std::string& detail) {
  const std::vector<int> channels_last{0, 2, 3, 1};
  std::vector<int64_t> sizes = {c.x[0], c.weight[0]};
  for (size_t i = 0; i < 2; ++i)
    sizes.push_back((c.x[i + 2] + 2 * c.padding[i] - (c.weight[i + 2] - 1) * c.dilation[i] - 1) / c.stride[i] + 1);
  Call call;
  call.site.threads = threads();
  ir::Value* px = call.input(testing::laid_out(x, channels_last));
  ir::Value* pr = call.input(testing::laid_out(testing::whole_numbers(sizes, 3), channels_last));
  ir::Value* pw = call.weight(weight);
  ir::Value* y = call.apply("aten::conv2d",
                            {px, pw, ir::Argument(), list({c.stride[0], c.stride[1]}),
                             list({c.padding[0], c.padding[1]}), list({c.dilation[0], c.dilation[1]})},
                            sizes);
  call.body.set_outputs({call.apply("aten::add.Tensor", {y, pr}, sizes)});
  Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, sizes), channels_last);
  if (block > 0) call.store_weight(windows_in_blocks(weight.sizes, block), ScalarType::f32, 2);
  REQUIRE(call.run(onednn_convolution(), result) == "");
  detail = call.detail;
  return result;
}

}  // namespace

TEST_CASE("products by the matrix unit equal plain loops") {
  struct Stored {
    bool is_packed;
    ScalarType type;
    int parts;  // that it holds
  };
  for (auto [rows, k, columns] :
       {std::array<int64_t, 3>{197, 490, 400}, {64, 1000, 640}, {250, 288, 512}, {500, 520, 180}, {150, 3000, 320}})
    for (const Operands& operands : exact_operands({rows, k}, {columns, k}, k, powers({rows, k}, k))) {
      CAPTURE(rows);
      CAPTURE(operands.parts);
      Linear linear{operands.a, operands.b, testing::whole_numbers({columns}, 3)};
      const Tensor expected = plain(linear);
      for (const Stored& stored : {Stored{true, ScalarType::f32, 3},
                                   {false, ScalarType::f32, 3},
                                   {true, ScalarType::f16, 2},
                                   {true, ScalarType::bf16, 1}}) {
        if (stored.parts < operands.parts_of_b) continue;
        linear.is_packed = stored.is_packed;
        linear.stored = stored.type;
        for (const int count : {1, 5}) {
          set_threads(count);
          CHECK(testing::difference(linear.run(), expected) == 0);
          if (amx()) CHECK(linear.detail == "amx");
        }
        set_threads(0);
      }
    }
}

TEST_CASE("the matrix unit gives the same bits for any number of threads, whatever the numbers") {
  for (const float number : {1.0f, infinity, 0x1p63f}) {
    Linear linear{testing::numbers({333, 320}, 1), testing::numbers({512, 320}, 2), testing::numbers({512}, 3)};
    linear.x.mutable_as<float>()[170 * 320 + 9] = number;
    const Convolution2d c{{3, 64, 40, 40}, {256, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}};
    Tensor x = testing::numbers(c.x, 1), weight = testing::numbers(c.weight, 2);
    x.mutable_as<float>()[64 * 1600 + 20 * 40 + 3] = number;
    std::string detail;
    set_threads(1);
    const Tensor product = linear.run(), image = convolve(c, x, weight, 64, detail);
    for (const int count : {2, 5}) {
      set_threads(count);
      CHECK(std::memcmp(linear.run().data(), product.data(), product.nbytes()) == 0);
      CHECK(std::memcmp(convolve(c, x, weight, 64, detail).data(), image.data(), image.nbytes()) == 0);
    }
    set_threads(0);
  }
}

TEST_CASE("numbers that the matrix unit cannot split go by vectors") {
  const auto product = [](const std::string& of, auto change) {
    CAPTURE(of);
    Linear linear{testing::numbers({200, 320}, 1), testing::numbers({512, 320}, 2), testing::numbers({512}, 3)};
    change(linear.x.mutable_as<float>(), linear.weight.mutable_as<float>());
    CHECK(agree(linear.run(), plain(linear), plain(linear, true)));
    if (amx()) CHECK(linear.detail == "amx");
  };
  product("ordinary numbers", [](float*, float*) {});
  product("infinity", [](float* x, float*) { x[3 * 320 + 7] = infinity; });
  product("NaN", [](float* x, float*) { x[3 * 320 + 7] = std::nanf(""), x[99 * 320] = 0x1p100f; });
  product("a denormal", [](float* x, float* w) { x[5] = 0x1p-130f, w[70 * 320 + 5] = 0x1p127f; });
  product("an infinite weight", [](float*, float* w) { w[70 * 320 + 5] = -infinity, w[319] = 3e38f; });
  // What it does split is as near as vectors come, however different the numbers.
  product("numbers far apart", [](float* x, float* w) {
    for (int i = 0; i < 320; ++i) x[i] *= 0x1p40f, w[i] *= 0x1p-60f, x[320 + i] *= 0x1p-60f, w[320 + i] *= 0x1p60f;
  });
}

TEST_CASE("convolutions by the matrix unit equal oneDNN's") {
  const Convolution2d shapes[] = {
      {{1, 64, 30, 56}, {192, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}},    // lines of blocks
      {{6, 128, 7, 7}, {256, 128, 3, 3}, {1, 1}, {1, 1}, {1, 1}},    // lines as one, several images a tile
      {{2, 96, 59, 61}, {260, 96, 3, 5}, {2, 2}, {1, 2}, {1, 1}},    // strides; columns that fill no panel
      {{1, 152, 20, 20}, {256, 152, 3, 3}, {1, 1}, {2, 2}, {2, 2}},  // channels that fill no step; dilation
      {{1, 64, 3, 600}, {256, 64, 1, 9}, {1, 1}, {0, 4}, {1, 1}},    // parts of lines
      {{1, 512, 15, 15}, {256, 512, 3, 3}, {1, 1}, {0, 0}, {1, 1}},  // k in stretches
      {{1, 64, 40, 260}, {32, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}},    // half a panel
      {{1, 256, 56, 56}, {512, 256, 2, 2}, {2, 2}, {0, 0}, {1, 1}},
  };
  int64_t block = 0;
  for (const Convolution2d& c : shapes) {
    block = block % 64 + 16;
    CAPTURE(c.x[3]);
    Tensor pixels = Tensor::zeros(ScalarType::f32, c.x);
    for (int64_t line = 0; line < c.x[2]; line += 16)
      for (int64_t column = line % 5; column < c.x[3]; column += 16)
        pixels.mutable_as<float>()[(line % c.x[1] * c.x[2] + line) * c.x[3] + column] = 4;
    const int64_t filter = c.weight[1] * c.weight[2] * c.weight[3];
    for (const Operands& operands : exact_operands(c.x, c.weight, filter, pixels)) {
      CAPTURE(operands.parts);
      std::string detail;
      const Tensor expected = convolve(c, operands.a, operands.b, 0, detail);
      for (const int count : {1, 5}) {
        set_threads(count);
        CHECK(testing::difference(convolve(c, operands.a, operands.b, block, detail), expected) == 0);
        if (amx()) CHECK(detail == "amx");
      }
      set_threads(0);
    }
  }
}

TEST_CASE("convolutions of numbers that the matrix unit cannot split go by vectors") {
  const Convolution2d c{{2, 64, 24, 40}, {256, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}};
  const auto convolution = [&](auto change) {
    Tensor x = testing::whole_numbers(c.x, 1), weight = testing::whole_numbers(c.weight, 2);
    change(x.mutable_as<float>(), weight.mutable_as<float>());
    std::string detail;
    const Tensor expected = convolve(c, x, weight, 0, detail);
    for (const int64_t block : {16, 48, 64}) {
      CHECK(agree(convolve(c, x, weight, block, detail), expected, expected));
      if (amx()) CHECK(detail == "amx");
    }
  };
  convolution([](float* x, float*) { x[5000] = infinity; });
  convolution([](float*, float* w) { w[70 * 576 + 5] = 0x1p90f; });
}

}  // namespace atenon::kernels
