// Products of every kernel against three plain loops, on shapes kept as data. Operands are small whole numbers: no
// tolerance is needed.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "kernels/testing.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

using testing::Call;
using testing::list;

// y[..., m, n] by index arithmetic on logical sizes; a and b may lie anyhow.
Tensor plain_loops(const Tensor& a, const Tensor& b, std::vector<int64_t> sizes) {
  Tensor y = Tensor::zeros(ScalarType::f32, sizes);
  const int64_t m = sizes[sizes.size() - 2], n = sizes.back(), k = a.sizes.back();
  const Tensor rows_a = a.contiguous(), rows_b = b.contiguous();
  for (int64_t batch = 0; batch < y.numel() / (m * n); ++batch) {
    auto matrix = [&](const Tensor& t) {
      int64_t rest = batch, position = 0, stride = 1;
      for (int64_t axis = static_cast<int64_t>(sizes.size()) - 3; axis >= 0; --axis) {
        const int64_t own = axis + static_cast<int64_t>(t.sizes.size()) - static_cast<int64_t>(sizes.size());
        const int64_t index = rest % sizes[axis];
        rest /= sizes[axis];
        if (own < 0) continue;
        position += (t.sizes[own] == 1 ? 0 : index) * stride;
        stride *= t.sizes[own];
      }
      return t.as<float>() + position * t.sizes.back() * t.sizes[t.sizes.size() - 2];
    };
    const float *pa = matrix(rows_a), *pb = matrix(rows_b);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l) y.mutable_as<float>()[(batch * m + i) * n + j] += pa[i * k + l] * pb[l * n + j];
  }
  return y;
}

Tensor transposed(Tensor tensor, size_t i, size_t j) {
  std::swap(tensor.sizes[i], tensor.sizes[j]);
  std::swap(tensor.strides[i], tensor.strides[j]);
  return tensor;
}

// A linear layer of `operands` x, weight, bias and residual; with a relu behind it for epilogue 1, the sum with the
// residual from 2 on, for 6 with a relu, a factor and a summand behind that.
void make_linear(Call& call, std::array<ir::Value*, 4> operands, int epilogue, const std::vector<int64_t>& sizes) {
  auto [x, w, bias, residual] = operands;
  ir::Value* y = call.apply("aten::linear", {x, w, bias}, sizes);
  if (epilogue == 1) y = call.apply("aten::relu", {y}, sizes);
  if (epilogue >= 2) y = call.apply("aten::add.Tensor", {residual, y}, sizes);
  if (epilogue == 6) {
    y = call.apply("aten::mul.Tensor", {call.apply("aten::relu", {y}, sizes), 2.0}, sizes);
    y = call.apply("aten::add.Tensor", {y, 3.0}, sizes);
  }
  call.body.set_outputs({y});
}

// What it gives; a residual of one column serves all.
Tensor plain_linear(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& residual, int epilogue,
                    const std::vector<int64_t>& sizes) {
  Tensor expected = plain_loops(x, transposed(w, 0, 1), sizes);
  for (int64_t i = 0; i < expected.numel(); ++i) {
    float& value = expected.mutable_as<float>()[i];
    value += bias.as<float>()[i % bias.numel()];
    if (epilogue == 1) value = std::max(value, 0.f);
    if (epilogue >= 2) value += residual.as<float>()[i * residual.numel() / expected.numel()];
    if (epilogue == 6) value = 2 * std::max(value, 0.f) + 3;
  }
  return expected;
}

}  // namespace

TEST_CASE("linear equals plain loops: flattened, packed, with every epilogue") {
  for (std::vector<int64_t> leading : {std::vector<int64_t>{1}, {5}, {2, 7}, {1, 33}, {2, 1, 3}, {64}})
    for (auto [inner, outer] : {std::pair<int64_t, int64_t>{8, 5}, {64, 48}, {70, 130}})
      for (bool packed : {false, true})
        for (int epilogue : {0, 1, 2, 3, 6}) {
          CAPTURE(leading.size());
          CAPTURE(inner);
          CAPTURE(packed);
          CAPTURE(epilogue);
          std::vector<int64_t> sizes = leading, result_sizes = leading;
          sizes.push_back(inner);
          result_sizes.push_back(outer);
          Call call;
          Tensor x = testing::whole_numbers(sizes, 1), w = testing::whole_numbers({outer, inner}, 2),
                 bias = testing::whole_numbers({outer}, 3);
          Tensor residual = testing::whole_numbers(result_sizes, 4);
          ir::Value *px = call.input(x), *pb = call.input(bias), *pr = call.input(residual), *pw = call.weight(w);
          make_linear(call, {px, pw, pb, pr}, epilogue, result_sizes);
          Tensor result = Tensor::zeros(ScalarType::f32, result_sizes);
          const bool was_packed = packed && call.pack_weight(onednn_matmul(), 3, result);
          REQUIRE(call.run(onednn_matmul(), result, epilogue == 3 ? 2 : -1) == "");
          if (was_packed) CHECK(call.note == "");
          CHECK(testing::difference(result, plain_linear(x, w, bias, residual, epilogue, result_sizes)) == 0);
        }
}

// How the panels are stored, and the epilogue.
constexpr std::pair<ScalarType, int> panel_cases[] = {
    {ScalarType::f32, 0}, {ScalarType::f32, 1},  {ScalarType::f32, 2}, {ScalarType::f32, 3},
    {ScalarType::f32, 4}, {ScalarType::f32, 5},  {ScalarType::f16, 0}, {ScalarType::bf16, 0},
    {ScalarType::f16, 1}, {ScalarType::bf16, 4}, {ScalarType::f32, 6}};

TEST_CASE("products with panels equal plain loops: rows, columns and depths of every remainder, every epilogue") {
  for (int64_t rows : {1, 5, 6, 8, 12, 13, 64, 250})
    for (auto [inner, outer] : {std::pair<int64_t, int64_t>{8, 5}, {67, 64}, {1100, 150}, {40, 600}})
      for (auto [stored, epilogue] : panel_cases) {
        CAPTURE(rows);
        CAPTURE(inner);
        CAPTURE(name_of(stored));
        CAPTURE(epilogue);
        Call call;
        Tensor x = testing::whole_numbers({rows, inner}, 1), w = testing::whole_numbers({outer, inner}, 2),
               bias = testing::whole_numbers({outer}, 3);
        Tensor residual =
            testing::whole_numbers(epilogue == 4 ? std::vector<int64_t>{rows, 1} : std::vector{rows, outer}, 4);
        const std::vector<int64_t> sizes = {rows, outer};
        ir::Value *px = call.input(x), *pb = call.input(bias), *pr = call.input(residual), *pw = call.weight(w);
        make_linear(call, {px, pw, pb, pr}, epilogue, sizes);
        Tensor result = Tensor::zeros(ScalarType::f32, sizes);
        if (epilogue != 5) call.store_weight(panel_layout(w.sizes, {1, 0}, stored), stored, 3);  // else made in the run
        REQUIRE(call.run(panels(), result, epilogue == 3 ? 2 : -1) == "");
        CHECK(call.note == "");
        CHECK(testing::difference(result, plain_linear(x, w, bias, residual, epilogue, sizes)) == 0);
      }
}

TEST_CASE("long sums keep their digits") {
  constexpr int64_t k = 3072;
  for (int64_t rows : {1, 13}) {
    Call call;
    Tensor x = testing::numbers({rows, k}, 1), w = testing::numbers({64, k}, 2);
    ir::Value *px = call.input(x), *pw = call.weight(w);
    call.body.set_outputs({call.apply("aten::linear", {px, pw}, {rows, 64})});
    Tensor result = Tensor::zeros(ScalarType::f32, {rows, 64});
    REQUIRE(call.pack_weight(panels(), 1, result));
    REQUIRE(call.run(panels(), result) == "");
    double squares = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < 64; ++j) {
        double exact = 0;
        for (int64_t l = 0; l < k; ++l)
          exact += static_cast<double>(x.as<float>()[i * k + l]) * static_cast<double>(w.as<float>()[j * k + l]);
        squares += std::pow(result.as<float>()[i * 64 + j] - exact, 2);
      }
    CHECK(std::sqrt(squares / static_cast<double>(rows * 64)) < 1e-5);  // in one sum 1.7e-5
  }
}

TEST_CASE("sums do not lose their digits to a large bias") {
  constexpr int64_t rows = 70, k = 384, columns = 80;
  const Tensor x = testing::numbers({rows, k}, 1), w = testing::numbers({columns, k}, 2);
  Tensor bias = Tensor::empty(ScalarType::f32, {columns});
  std::fill_n(bias.mutable_as<float>(), columns, -4096.f);
  Call call;
  ir::Value *px = call.input(x), *pb = call.input(bias), *pw = call.weight(w);
  call.body.set_outputs({call.apply("aten::linear", {px, pw, pb}, {rows, columns})});
  Tensor result = Tensor::zeros(ScalarType::f32, {rows, columns});
  REQUIRE(call.pack_weight(panels(), 2, result));
  REQUIRE(call.run(panels(), result) == "");
  double worst = 0;
  for (int64_t i = 0; i < rows * columns; ++i) {
    double exact = -4096;
    for (int64_t l = 0; l < k; ++l)
      exact += static_cast<double>(x.as<float>()[i / columns * k + l]) *
               static_cast<double>(w.as<float>()[i % columns * k + l]);
    worst = std::max(worst, std::abs(result.as<float>()[i] - exact));
  }
  CHECK(worst < 3e-4);  // half a unit of 4096 is 2.4e-4: it is rounded once, and not at each of 384 steps
}

TEST_CASE("a matrix that lies row by row is read by panels where each row of the result has a number of its own") {
  for (int64_t rows : {1, 3, 70, 500})
    for (auto [inner, columns] : {std::pair<int64_t, int64_t>{3, 70}, {130, 128}, {64, 600}}) {
      CAPTURE(rows);
      CAPTURE(columns);
      Call call;
      const Tensor a = testing::whole_numbers({rows, inner}, 1), b = testing::whole_numbers({inner, columns}, 2),
                   added = testing::whole_numbers({rows, 1}, 3);
      ir::Value *pa = call.input(a), *pb = call.input(b), *pr = call.input(added);
      ir::Value* y = call.apply("aten::mm", {pa, pb}, {rows, columns});
      call.body.set_outputs({call.apply("aten::add.Tensor", {y, pr}, {rows, columns})});
      Tensor result = Tensor::zeros(ScalarType::f32, {rows, columns});
      REQUIRE(call.run(panels(), result) == "");
      CHECK((call.detail == lanes().name || call.detail == "amx"));  // oneDNN's is "ref:any", a hundred times slower
      Tensor expected = plain_loops(a, b, {rows, columns});
      for (int64_t i = 0; i < expected.numel(); ++i) expected.mutable_as<float>()[i] += added.as<float>()[i / columns];
      CHECK(testing::difference(result, expected) == 0);
    }
}

TEST_CASE("behind a factor that lies otherwise, a residual that is overwritten is not added by oneDNN's plain loops") {
  const std::vector<int64_t> sizes = {2, 20, 48};
  const Tensor x = testing::whole_numbers({2, 20, 32}, 1), w = testing::whole_numbers({48, 32}, 2),
               bias = testing::whole_numbers({48}, 3), residual = testing::whole_numbers(sizes, 4);
  Tensor rows_of_longer = testing::whole_numbers({2, 22, 48}, 5);
  rows_of_longer.sizes[1] = 20;
  for (const Tensor& factor : {rows_of_longer, testing::laid_out(testing::whole_numbers(sizes, 5), {0, 2, 1})}) {
    Call call;
    ir::Value *px = call.input(x), *pw = call.input(w), *pb = call.input(bias), *pf = call.input(factor);
    ir::Value* pr = call.input(residual);
    ir::Value* y = call.apply("aten::mul.Tensor", {call.apply("aten::linear", {px, pw, pb}, sizes), pf}, sizes);
    call.body.set_outputs({call.apply("aten::add.Tensor", {y, pr}, sizes)});
    Tensor result = Tensor::zeros(ScalarType::f32, sizes);
    REQUIRE(call.run(panels(), result, 4) == "");
    CHECK(call.detail.find("ref") == std::string::npos);
    Tensor expected = plain_linear(x, w, bias, residual, 0, sizes);
    const Tensor factors = factor.contiguous();
    for (int64_t i = 0; i < expected.numel(); ++i)
      expected.mutable_as<float>()[i] = expected.as<float>()[i] * factors.as<float>()[i] + residual.as<float>()[i];
    CHECK(testing::difference(result, expected) == 0);
  }
}

TEST_CASE("how rows of a product with panels are cut for threads changes no bit") {
  for (int64_t columns : {5, 20, 35, 64, 99})
    for (int64_t rows : {12, 24, 36, 48, 61, 96, 500}) {
      CAPTURE(columns);
      CAPTURE(rows);
      const Tensor x = testing::numbers({rows, 67}, 1), w = testing::numbers({columns, 67}, 2),
                   bias = testing::numbers({columns}, 3);
      auto computed = [&](int threads) {
        Call call;
        call.site.threads = threads;
        ir::Value *px = call.input(x), *pb = call.input(bias), *pw = call.weight(w);
        call.body.set_outputs({call.apply("aten::linear", {px, pw, pb}, {rows, columns})});
        Tensor result = Tensor::zeros(ScalarType::f32, {rows, columns});
        CHECK(call.pack_weight(panels(), 2, result) == (columns != 5));  // few outputs stay in rows
        REQUIRE(call.run(panels(), result) == "");
        return result;
      };
      const Tensor alone = computed(1);
      for (int threads : {2, 3, 8, 40}) CHECK(testing::difference(alone, computed(threads)) == 0);
    }
}

TEST_CASE("every step of an epilogue with panels agrees with the C library") {
  struct Case {
    const char* target;
    std::vector<ir::Argument> more;
    double (*f)(double);
  };
  const Case cases[] = {
      {"aten::gelu", {}, [](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }},
      {"aten::silu", {}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"aten::sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"aten::tanh", {}, [](double x) { return std::tanh(x); }},
      {"aten::hardswish", {}, [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
      {"aten::hardsigmoid", {}, [](double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
      {"aten::leaky_relu", {}, [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"aten::elu", {}, [](double x) { return x < 0 ? std::expm1(x) : x; }},
      {"aten::abs", {}, [](double x) { return std::fabs(x); }},
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const Case& c : cases) {
    CAPTURE(c.target);
    Call call;
    Tensor x = testing::numbers({300, 1}, 1, 12), w = Tensor::zeros(ScalarType::f32, {2, 1});
    w.mutable_as<float>()[0] = w.mutable_as<float>()[1] = 1;
    x.mutable_as<float>()[0] = nan, x.mutable_as<float>()[1] = infinity, x.mutable_as<float>()[2] = -3e38f;
    ir::Value *px = call.input(x), *pw = call.weight(w);
    std::vector<ir::Argument> arguments = {call.apply("aten::linear", {px, pw}, {300, 2})};
    arguments.insert(arguments.end(), c.more.begin(), c.more.end());
    call.body.set_outputs({call.apply(c.target, arguments, {300, 2})});
    Tensor result = Tensor::zeros(ScalarType::f32, {300, 2});
    REQUIRE(call.run(panels(), result) == "");
    CHECK(std::isnan(result.as<float>()[0]));
    for (int64_t i = 1; i < 300; ++i) {
      const double expected = c.f(x.as<float>()[i]);
      if (std::isinf(expected))
        CHECK(result.as<float>()[2 * i] == expected);
      else
        CHECK(std::fabs(result.as<float>()[2 * i] - expected) <= 2e-6 * (1 + std::fabs(expected)));
    }
  }
}

TEST_CASE("products of few rows, with every epilogue, in place too") {
  for (int64_t rows : {1, 3, 4, 7, 13, 16, 17})
    for (int64_t outer : {7, 56, 70, 1500})
      for (int i = 0; i < 8; ++i) {
        const int epilogue = i % 4;
        const bool packed = i >= 4;
        CAPTURE(rows);
        CAPTURE(outer);
        CAPTURE(epilogue);
        CAPTURE(packed);
        Call call;
        Tensor x = testing::whole_numbers({rows, 1, 72}, 1), w = testing::whole_numbers({outer, 72}, 2),
               bias = testing::whole_numbers({outer}, 3);
        Tensor residual = testing::whole_numbers({rows, 1, outer}, 4);
        ir::Value *px = call.input(x), *pb = call.input(bias), *pr = call.input(residual), *pw = call.weight(w);
        make_linear(call, {px, pw, pb, pr}, epilogue, residual.sizes);
        Tensor result = Tensor::zeros(ScalarType::f32, residual.sizes);
        if (packed)
          CHECK(call.pack_weight(few_rows(), 3, result) == (outer == 56 || (outer == 1500 && lanes().has_streams)));
        // Of several rows it is the panels' choice where the matrix is not packed.
        REQUIRE(call.run(rows > 1 ? panels() : few_rows(), result, epilogue == 3 ? 2 : -1) == "");
        CHECK(testing::difference(result, plain_linear(x, w, bias, residual, epilogue, residual.sizes)) == 0);
      }
}

TEST_CASE("products with few outputs, with every epilogue, in place too") {
  for (int64_t rows : {1, 5, 17, 300, 2500})
    for (int64_t outer : {2, 3, 4, 7, 8})
      for (int64_t depth : {5, 72, 200})
        for (int epilogue : {0, 1, 2, 3}) {
          CAPTURE(rows);
          CAPTURE(outer);
          CAPTURE(depth);
          CAPTURE(epilogue);
          Call call;
          Tensor x = testing::whole_numbers({rows, 1, depth}, 1), w = testing::whole_numbers({outer, depth}, 2),
                 bias = testing::whole_numbers({outer}, 3), residual = testing::whole_numbers({rows, 1, outer}, 4);
          ir::Value *px = call.input(x), *pb = call.input(bias), *pr = call.input(residual), *pw = call.weight(w);
          make_linear(call, {px, pw, pb, pr}, epilogue, residual.sizes);
          Tensor result = Tensor::zeros(ScalarType::f32, residual.sizes);
          CHECK(call.pack_weight(panels(), 3, result) == (depth < 48));  // short rows read panels
          REQUIRE(call.run(panels(), result, epilogue == 3 ? 2 : -1) == "");
          CHECK(testing::difference(result, plain_linear(x, w, bias, residual, epilogue, residual.sizes)) == 0);
        }
}

TEST_CASE(
    "pointwise convolutions with few outputs, which lie channels last or are lines, of several images, in place too") {
  const std::vector<int> channels_last{0, 2, 3, 1};
  for (int64_t images : {1, 3})
    for (int64_t outputs : {1, 2, 5, 8})
      for (int64_t depth : {16, 72})
        for (int lines : {0, 1, 2})         // 1: outputs, 2: inputs, too
          for (int residual : {0, 1, 2}) {  // 2: in place
            CAPTURE(images);
            CAPTURE(outputs);
            CAPTURE(depth);
            CAPTURE(lines);
            CAPTURE(residual);
            const std::vector<int64_t> sizes = {images, outputs, 9, 13};
            const Tensor x = testing::whole_numbers({images, depth, 9, 13}, 1),
                         w = testing::whole_numbers({outputs, depth, 1, 1}, 2),
                         bias = testing::whole_numbers({outputs}, 3), added = testing::whole_numbers(sizes, 4);
            const auto placed = [&](const Tensor& tensor) {
              return lines > 0 ? tensor : testing::laid_out(tensor, channels_last);
            };
            Call call;
            ir::Value *px = call.input(lines > 1 ? x : testing::laid_out(x, channels_last)), *pb = call.input(bias),
                      *pr = call.input(placed(added)), *pw = call.weight(w);
            ir::Value* y = call.apply("aten::conv2d", {px, pw, pb}, sizes);
            if (residual > 0) y = call.apply("aten::add.Tensor", {pr, y}, sizes);
            call.body.set_outputs({call.apply("aten::relu", {y}, sizes)});
            Tensor result = placed(Tensor::zeros(ScalarType::f32, sizes));
            CHECK(objection(panels(), call.body).empty());
            CHECK(!call.pack_weight(panels(), 3, result));
            REQUIRE(call.run(panels(), result, residual == 2 ? 2 : -1) == "");
            CHECK(call.detail == lanes().name);
            Tensor expected = Tensor::zeros(ScalarType::f32, sizes);
            for (int64_t i = 0; i < expected.numel(); ++i) {
              const int64_t image = i / (outputs * 117), output = i / 117 % outputs, pixel = i % 117;
              float sum = bias.as<float>()[output] + (residual > 0 ? added.as<float>()[i] : 0);
              for (int64_t k = 0; k < depth; ++k)
                sum += x.as<float>()[(image * depth + k) * 117 + pixel] * w.as<float>()[output * depth + k];
              expected.mutable_as<float>()[i] = std::max(sum, 0.f);
            }
            CHECK(testing::difference(result, expected) == 0);
          }
}

TEST_CASE("a pointwise convolution with few outputs whose computed filter lies input by input") {
  const Tensor x = testing::whole_numbers({2, 24, 7, 11}, 1), turned = testing::whole_numbers({24, 3}, 2);
  Tensor results[2];
  for (const bool is_turned : {false, true}) {
    Tensor w = testing::laid_out(Tensor::zeros(ScalarType::f32, {3, 24, 1, 1}),
                                 is_turned ? std::vector<int>{1, 0, 2, 3} : std::vector<int>{0, 1, 2, 3});
    for (int64_t i = 0; i < w.numel(); ++i) w.set(i, turned.float_at(i % 24 * 3 + i / 24));
    Call call;
    ir::Value *px = call.input(testing::laid_out(x, {0, 2, 3, 1})), *pw = call.input(w);
    call.body.set_outputs({call.apply("aten::conv2d", {px, pw}, {2, 3, 7, 11})});
    results[is_turned] = Tensor::zeros(ScalarType::f32, {2, 3, 7, 11});
    REQUIRE(call.run(panels(), results[is_turned]) == "");
  }
  CHECK(testing::difference(results[0], results[1]) == 0);
}

TEST_CASE("one row by a deep matrix in panels, in pieces and what is left of them") {
  for (int64_t depth : {513, 2304, 2307, 5001})
    for (int epilogue : {0, 2, 3}) {
      CAPTURE(depth);
      CAPTURE(epilogue);
      Call call;
      Tensor x = testing::whole_numbers({1, 1, depth}, 1), w = testing::whole_numbers({130, depth}, 2),
             bias = testing::whole_numbers({130}, 3), residual = testing::whole_numbers({1, 1, 130}, 4);
      ir::Value *px = call.input(x), *pb = call.input(bias), *pr = call.input(residual), *pw = call.weight(w);
      make_linear(call, {px, pw, pb, pr}, epilogue, residual.sizes);
      Tensor result = Tensor::zeros(ScalarType::f32, residual.sizes);
      REQUIRE(call.pack_weight(panels(), 3, result));
      REQUIRE(call.run(few_rows(), result, epilogue == 3 ? 2 : -1) == "");
      CHECK(testing::difference(result, plain_linear(x, w, bias, residual, epilogue, residual.sizes)) == 0);
    }
}

TEST_CASE("a large matrix may be stored in 16 bits; where its rows are no matrix, it is widened at load") {
  for (ScalarType stored : {ScalarType::f16, ScalarType::bf16})
    for (bool is_turned : {false, true}) {
      Call call;
      const Tensor x = testing::whole_numbers(is_turned ? std::vector<int64_t>{256, 6} : std::vector<int64_t>{1, 256},
                                              1),
                   w = testing::whole_numbers({300, 256}, 2);
      const std::vector<int64_t> sizes = {is_turned ? 6 : 1, 300};
      ir::Value *px = call.input(x), *pw = call.weight(w);
      if (is_turned) px = call.apply("aten::t", {px}, {6, 256});
      call.body.set_outputs({call.apply("aten::linear", {px, pw}, sizes)});
      Tensor result = Tensor::zeros(ScalarType::f32, sizes);
      call.site.body = &call.body;
      const Kernel& kernel = is_turned ? panels() : few_rows();
      REQUIRE(kernel.half_layout(call.site, 1));
      CHECK(!onednn_matmul().half_layout(call.site, 1));
      call.store_weight(*kernel.half_layout(call.site, 1), stored, 1);
      REQUIRE(call.run(kernel, result) == "");
      CHECK(call.note.empty() == !is_turned);
      CHECK(testing::difference(result, plain_loops(is_turned ? transposed(x, 0, 1) : x, transposed(w, 0, 1), sizes)) ==
            0);
    }
}

TEST_CASE("a weight packed for one number of rows serves any other") {
  Tensor w = testing::whole_numbers({192, 64}, 2);
  for (int64_t rows : {1, 2, 9, 100, 300}) {
    Call call;
    Tensor x = testing::whole_numbers({rows, 64}, 1);
    ir::Value *px = call.input(x), *pw = call.weight(w);
    call.body.set_outputs({call.apply("aten::linear", {px, pw}, {rows, 192})});
    // Packed as for 128 rows.
    call.site.operands[0].sizes = {128, 64};
    call.pack_weight(onednn_matmul(), 1, Tensor::zeros(ScalarType::f32, {128, 192}));
    call.site.operands[0].sizes = {rows, 64};
    Tensor result = Tensor::zeros(ScalarType::f32, {rows, 192});
    REQUIRE(call.run(onednn_matmul(), result) == "");
    CHECK(call.note == "");
    CHECK(testing::difference(result, plain_loops(x, transposed(w, 0, 1), {rows, 192})) == 0);
  }
}

TEST_CASE("batched products take transposed and broadcast operands as they lie, and leave their result so") {
  struct Case {
    const char* about;
    std::vector<int64_t> a, b, y;
    bool heads_inside;  // operands are [batch, sequence, heads, width], transposed to [batch, heads, sequence, width]
    bool is_small = true;    // each matrix
    bool is_turned = false;  // a lies column by column
  };
  const Case cases[] = {
      {"mm", {4, 6}, {6, 3}, {4, 3}, false, false},
      {"bmm", {5, 4, 6}, {5, 6, 3}, {5, 4, 3}, false},
      {"heads", {2, 3, 10, 16}, {2, 3, 16, 12}, {2, 3, 10, 12}, true},
      {"heads, batch 1", {1, 12, 33, 30}, {1, 12, 30, 33}, {1, 12, 33, 33}, true},
      {"right broadcast", {2, 3, 4, 8}, {8, 5}, {2, 3, 4, 5}, false, false},
      {"left broadcast", {4, 8}, {3, 8, 5}, {3, 4, 5}, false},
      {"two rows", {2, 4, 2, 8}, {2, 4, 8, 7}, {2, 4, 2, 7}, true},
      {"two matrices, cut along rows", {2, 192, 48}, {2, 48, 160}, {2, 192, 160}, false, false},
      {"three matrices, cut along columns", {3, 20, 100}, {3, 100, 512}, {3, 20, 512}, false, false},
      {"six heads", {1, 6, 130, 64}, {1, 6, 64, 192}, {1, 6, 130, 192}, true, false},
      {"several tiles", {60, 20, 16}, {60, 16, 24}, {60, 20, 24}, false},
      {"two panels, broadcast inside", {3, 1, 9, 33}, {3, 4, 33, 70}, {3, 4, 9, 70}, false},
      {"columns by columns", {7, 13, 40}, {7, 40, 21}, {7, 13, 21}, false, true, true},
      {"few columns by rows", {7, 17, 1}, {7, 1, 19}, {7, 17, 19}, false, true, true},
      {"long columns", {3, 5, 100}, {3, 100, 7}, {3, 5, 7}, false, true, true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.about);
    Call call;
    Tensor a = testing::whole_numbers(c.a, 1), b = testing::whole_numbers(c.b, 2);
    if (c.heads_inside) {
      a = testing::laid_out(a, {0, 2, 1, 3});
      b = testing::laid_out(b, {0, 3, 1, 2});
    }
    if (c.is_turned) {
      a = testing::laid_out(a, {0, 2, 1});
      if (c.a[2] < c.b[2] * 2) b = testing::laid_out(b, {0, 2, 1});
    }
    Tensor scale = testing::whole_numbers({c.y.back()}, 3);
    ir::Value *pa = call.input(a), *pb = call.input(b), *ps = call.input(scale);
    ir::Value* y = call.apply(c.y.size() == 2 ? "aten::mm" : "aten::matmul", {pa, pb}, c.y);
    y = call.apply("aten::div.Tensor", {y, 4}, c.y);
    y = call.apply("aten::add.Tensor", {y, ps}, c.y);
    call.body.set_outputs({y});
    Tensor expected = plain_loops(a, b, c.y);
    for (int64_t i = 0; i < expected.numel(); ++i) {
      float& value = expected.mutable_as<float>()[i];
      value = value / 4 + scale.as<float>()[i % c.y.back()];
    }
    Tensor result = Tensor::zeros(ScalarType::f32, c.y);
    CHECK((objection(small_matrices(), call.body) == "") == c.is_small);
    for (const Kernel* kernel : {&onednn_matmul(), &small_matrices()}) {
      if (kernel == &small_matrices() && !c.is_small) continue;
      REQUIRE(call.run(*kernel, result) == "");
      CHECK(testing::difference(result, expected) == 0);
      const int64_t places = expected.numel() / (c.y.back() * c.y[c.y.size() - 2]);
      const bool is_left_to_onednn =
          (std::string_view(lanes().name) == "avx512" && places > 4) || (c.is_turned && c.a[2] > panel_columns);
      if (kernel == &small_matrices()) CHECK((call.detail == lanes().name) == !is_left_to_onednn);
      if (!c.heads_inside) continue;
      result = testing::laid_out(result, {0, 2, 1, 3});  // oneDNN's gemm would read the scale at address 0
      REQUIRE(call.run(*kernel, result) == "");
      CHECK(testing::difference(result, expected) == 0);
    }
  }
}

TEST_CASE("products with vectors, and of tiny matrices in a batch, are left to plain loops") {
  struct Case {
    std::vector<int64_t> a, b, y;
    bool is_taken;
  };
  const Case cases[] = {{{50, 40}, {40, 1}, {50, 1}, false},          {{3, 50, 40}, {3, 40, 1}, {3, 50, 1}, false},
                        {{3, 1, 40}, {3, 40, 50}, {3, 1, 50}, false}, {{90, 4, 4}, {90, 4, 4}, {90, 4, 4}, false},
                        {{50, 1}, {1, 40}, {50, 40}, true},           {{90, 8, 8}, {90, 8, 8}, {90, 8, 8}, true},
                        {{1, 40}, {40, 50}, {1, 50}, true},           {{4, 4}, {4, 4}, {4, 4}, true}};
  for (const Case& c : cases) {
    Call call;
    ir::Value *a = call.input(testing::numbers(c.a, 1)), *b = call.input(testing::numbers(c.b, 2));
    call.body.set_outputs({call.apply("aten::matmul", {a, b}, c.y)});
    CHECK((onednn_matmul().refusal(call.body) == "") == c.is_taken);
    if (!c.is_taken) CHECK(panels().refusal(call.body) != "");
    if (!c.is_taken) CHECK(small_matrices().refusal(call.body) != "");
  }
}

TEST_CASE("batched products of many terms have the same bits for any number of threads") {
  const Tensor a = testing::numbers({3, 2048, 40}, 1), b = testing::numbers({3, 2048, 17}, 2);
  const Tensor expected = plain_loops(transposed(a, 1, 2), b, {3, 40, 17});
  std::optional<Tensor> first;
  for (const int count : {1, 2, 3, 8, 16}) {
    CAPTURE(count);
    set_threads(count);
    Call call;
    ir::Value *pa = call.input(a), *pb = call.input(b);
    pa = call.apply("aten::transpose.int", {pa, 1, 2}, {3, 40, 2048});
    call.body.set_outputs({call.apply("aten::matmul", {pa, pb}, {3, 40, 17})});
    Tensor result = Tensor::zeros(ScalarType::f32, {3, 40, 17});
    REQUIRE(call.run(onednn_matmul(), result) == "");
    if (!first) first = result;
    CHECK(testing::difference(result, expected) < 1e-3);
    CHECK(std::memcmp(result.data(), first->data(), result.nbytes()) == 0);
  }
  set_threads(0);
}

TEST_CASE("a weight whose batch axes are of size 1 is a matrix, packed or not") {
  for (std::vector<int64_t> leading : {std::vector<int64_t>{1}, {1, 1}})
    for (const Kernel* kernel : {&onednn_matmul(), &panels(), &few_rows()})
      for (int64_t rows : {1, 50})
        for (bool packed : {false, true}) {
          CAPTURE(leading.size());
          CAPTURE(kernel->name());
          CAPTURE(rows);
          CAPTURE(packed);
          std::vector<int64_t> a = leading, b = leading, sizes = leading;
          a.insert(a.end(), {rows, 54});
          b.insert(b.end(), {70, 54});
          sizes.insert(sizes.end(), {rows, 70});
          const size_t last = b.size() - 1;
          Call call;
          Tensor x = testing::whole_numbers(a, 1), w = testing::whole_numbers(b, 2);
          const Tensor columns = transposed(w, last - 1, last);
          ir::Value *px = call.input(x), *pw = call.weight(w);
          ir::Value* view = call.apply("aten::mT", {pw}, columns.sizes);
          call.body.set_outputs({call.apply("aten::matmul", {px, view}, sizes)});
          Tensor result = Tensor::zeros(ScalarType::f32, sizes);
          if (rows == 50) CHECK(kernel->refusal(call.body).empty() == (kernel != &few_rows()));
          if (!kernel->refusal(call.body).empty()) continue;
          if (packed && call.pack_weight(*kernel, 1, result))
            CHECK(call.site.operands[1].weight->layout->strides.size() == b.size());
          REQUIRE(call.run(*kernel, result) == "");
          CHECK(call.note == "");
          CHECK(testing::difference(result, plain_loops(x, columns, sizes)) == 0);
        }
}

TEST_CASE("a product that adds nothing up is its bias") {
  for (const Kernel* kernel : {&onednn_matmul(), &panels(), &few_rows()})
    for (int64_t rows : {1, 50}) {
      CAPTURE(kernel->name());
      CAPTURE(rows);
      Call call;
      Tensor x = Tensor::zeros(ScalarType::f32, {rows, 0}), w = Tensor::zeros(ScalarType::f32, {70, 0}),
             bias = testing::whole_numbers({70}, 3);
      ir::Value *px = call.input(x), *pw = call.input(w), *pb = call.input(bias);
      call.body.set_outputs({call.apply("aten::linear", {px, pw, pb}, {rows, 70})});
      if (!kernel->refusal(call.body).empty()) continue;
      Tensor result = testing::whole_numbers({rows, 70}, 4);
      REQUIRE(call.run(*kernel, result) == "");
      for (int64_t i = 0; i < result.numel(); ++i) CHECK(result.as<float>()[i] == bias.as<float>()[i % 70]);
    }
}

TEST_CASE("addmm with a view of its weight") {
  Call call;
  Tensor x = testing::whole_numbers({6, 16}, 1), w = testing::whole_numbers({20, 16}, 2),
         bias = testing::whole_numbers({20}, 3);
  ir::Value *pb = call.input(bias), *px = call.input(x), *pw = call.weight(w);
  ir::Value* view = call.apply("aten::permute", {pw, list({1, 0})}, {16, 20});
  call.body.set_outputs({call.apply("aten::addmm", {pb, px, view}, {6, 20})});
  Tensor result = Tensor::zeros(ScalarType::f32, {6, 20});
  call.pack_weight(onednn_matmul(), 2, result);
  REQUIRE(call.run(onednn_matmul(), result) == "");
  Tensor expected = plain_loops(x, transposed(w, 0, 1), {6, 20});
  for (int64_t i = 0; i < expected.numel(); ++i) expected.mutable_as<float>()[i] += bias.as<float>()[i % 20];
  CHECK(testing::difference(result, expected) == 0);
}

}  // namespace atenon::kernels
