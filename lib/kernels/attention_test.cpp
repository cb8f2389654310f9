// Attention in every width of vectors against plain loops in double.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

namespace {

using testing::Call;
using testing::list;

struct Case {
  const char* about;
  int64_t batch, heads, key_heads, queries, keys, depth;
  bool causal;
  char order;  // of operands and result: ' ' in rows, 'h' heads inside, 'd' depth by depth
  char mask;   // ' ' none, 'b' truths, 'f' added, '2' two are added, 'w' one of them by windows, 'W' softmax by them,
               // too, 'h' none, but a factor for each head, 'm' truths hide, 's' truths show, 't' none, but queries are
               // multiplied first and the result is turned
  bool written_out;
};

constexpr int64_t windows = 3;  // of an image
constexpr double hidden = -1e9;

const Case cases[] = {
    {"small", 1, 1, 1, 3, 5, 4, false, ' ', ' ', false},
    {"odd sizes", 2, 3, 3, 37, 41, 24, false, ' ', ' ', false},
    {"causal", 1, 2, 2, 70, 70, 64, true, ' ', ' ', false},
    {"causal, many queries", 1, 1, 1, 300, 300, 16, true, 'h', ' ', false},
    {"a lone tile", 1, 1, 1, 67, 300, 64, false, ' ', 'b', false},
    {"a lone tile, causal", 1, 1, 1, 128, 128, 64, true, 'h', ' ', false},
    {"heads inside", 2, 4, 4, 33, 33, 64, false, 'h', ' ', false},
    {"truths", 2, 2, 2, 9, 20, 8, false, ' ', 'b', false},
    {"added", 2, 2, 2, 9, 20, 8, false, 'h', 'f', false},
    {"one query", 2, 4, 4, 1, 256, 64, false, ' ', 'b', false},
    {"grouped heads", 1, 4, 2, 6, 7, 32, false, ' ', ' ', false},
    {"written out", 2, 3, 3, 20, 20, 64, false, 'h', 'f', true},
    {"depth 80", 1, 2, 2, 50, 50, 80, false, 'h', ' ', false},
    {"two masks", 2, 3, 3, 20, 20, 10, false, 'h', '2', true},
    {"images and windows", 6, 2, 2, 20, 20, 10, false, 'h', 'w', true},
    {"softmax of images and windows", 6, 2, 2, 20, 20, 10, false, 'h', 'W', true},
    {"hidden", 2, 3, 3, 20, 37, 10, false, 'h', 'm', true},
    {"shown", 2, 3, 3, 20, 37, 10, false, 'h', 's', true},
    {"a factor for each head", 2, 3, 3, 20, 20, 10, false, 'h', 'h', true},
    {"turned", 2, 3, 3, 20, 37, 32, false, ' ', 't', true},
    {"depth by depth", 2, 3, 3, 37, 41, 24, false, 'd', ' ', false},
    {"depth by depth, causal", 2, 3, 3, 70, 70, 32, true, 'd', ' ', false},
    {"turned, heads inside", 2, 3, 3, 20, 37, 10, false, 'h', 't', true},
};

bool is_by_windows(const Case& c) { return c.mask == 'w' || c.mask == 'W'; }

std::vector<double> plain_loops(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                                const Tensor& second, double scale) {
  std::vector<double> y;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        const int64_t hk = h * c.key_heads / c.heads;
        std::vector<double> scores;
        for (int64_t j = 0; j < c.keys; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < c.depth; ++d)
            dot += q.float_at(((b * c.heads + h) * c.queries + i) * c.depth + d) *
                   k.float_at(((b * c.key_heads + hk) * c.keys + j) * c.depth + d);
          dot *= scale;
          if (c.mask == 'h') dot *= mask.float_at(h);
          if (c.mask == 'f') dot += mask.float_at(b * c.keys + j);
          if (c.mask == '2' || is_by_windows(c)) dot += mask.float_at((h * c.queries + i) * c.keys + j);
          if (c.mask == '2') dot += second.float_at((b * c.queries + i) * c.keys + j);
          if (is_by_windows(c)) dot += second.float_at((b % windows * c.queries + i) * c.keys + j);
          if ((c.mask == 'm' && mask.float_at((b * c.queries + i) * c.keys + j) != 0) ||
              (c.mask == 's' && mask.float_at((b * c.queries + i) * c.keys + j) == 0))
            dot = hidden;
          if ((c.mask == 'b' && mask.float_at((b * c.queries + i) * c.keys + j) == 0) || (c.causal && j > i))
            dot = -INFINITY;
          scores.push_back(dot);
        }
        const double most = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& score : scores) sum += score = most == -INFINITY ? 0 : std::exp(score - most);
        for (int64_t d = 0; d < c.depth; ++d) {
          double value = 0;
          for (int64_t j = 0; j < c.keys; ++j)
            value += scores[j] * v.float_at(((b * c.key_heads + hk) * c.keys + j) * c.depth + d);
          y.push_back(sum == 0 ? 0 : value / sum);
        }
      }
  return y;
}

}  // namespace

TEST_CASE("attention equals plain loops") {
  for (const Case& c : cases) {
    CAPTURE(c.about);
    Call call;
    const std::vector<int> order = c.order == 'h'   ? std::vector<int>{0, 2, 1, 3}
                                   : c.order == 'd' ? std::vector<int>{0, 1, 3, 2}
                                                    : std::vector<int>{0, 1, 2, 3};
    Tensor q = testing::numbers({c.batch, c.heads, c.queries, c.depth}, 1, 2);
    Tensor k = testing::numbers({c.batch, c.key_heads, c.keys, c.depth}, 2, 2);
    Tensor v = testing::numbers({c.batch, c.key_heads, c.keys, c.depth}, 3);
    ir::Value *pq = call.input(testing::laid_out(q, order)), *pk = call.input(testing::laid_out(k, order)),
              *pv = call.input(testing::laid_out(v, order));
    Tensor mask;
    ir::Argument pm = ir::None();
    if (c.mask == 'f') mask = testing::numbers({c.batch, 1, 1, c.keys}, 4, 5);
    if (c.mask == 'b' || c.mask == 'm' || c.mask == 's') {
      mask = Tensor::zeros(ScalarType::boolean, {c.batch, 1, c.queries, c.keys});
      for (int64_t i = 0; i < mask.numel(); ++i)
        mask.set(i, i / c.keys != 1 && i % 3 != 0);  // the second query sees nothing
    }
    if (c.mask == 'h') mask = testing::numbers({c.heads, 1, 1}, 4, 5);
    Tensor second;  // of '2' and 'w'; the first lies turned, as a table of biases does
    const bool has_two = c.mask == '2' || is_by_windows(c);
    if (has_two) {
      mask = testing::numbers({1, c.heads, c.queries, c.keys}, 4, 5);
      second = is_by_windows(c) ? testing::numbers({1, windows, 1, c.queries, c.keys}, 5, 5)
                                : testing::numbers({c.batch, 1, c.queries, c.keys}, 5, 5);
    }
    if (has_two) mask = testing::laid_out(mask, {0, 2, 3, 1});
    if (c.mask == 's') mask = testing::laid_out(mask, {0, 1, 3, 2});
    if (c.mask != ' ' && c.mask != 't') pm = call.input(mask);
    const std::vector<int64_t> sizes{c.batch, c.heads, c.queries, c.depth},
        turned_sizes{c.batch, c.heads, c.depth, c.queries}, scores{c.batch, c.heads, c.queries, c.keys},
        parts{c.batch / windows, windows, c.heads, c.queries, c.keys};
    ir::Value* y = nullptr;
    if (c.written_out) {
      ir::Value* turned = call.apply("aten::transpose.int", {pk, -2, -1}, {c.batch, c.heads, c.depth, c.keys});
      if (c.mask == 't') pq = call.apply("aten::mul.Tensor", {pq, 0.5}, sizes);
      y = call.apply("aten::matmul", {pq, turned}, scores);
      y = call.apply("aten::div.Tensor", {y, c.mask == 't' ? 4.0 : 8.0}, scores);
      if (c.mask == 'm')
        y = call.apply("aten::masked_fill.Scalar", {y, pm, hidden}, scores);
      else if (c.mask == 's')
        y = call.apply("aten::where.ScalarOther", {pm, y, hidden}, scores);
      else if (c.mask != 't')
        y = call.apply(c.mask == 'h' ? "aten::mul.Tensor" : "aten::add.Tensor", {y, pm}, scores);
      if (c.mask == '2') y = call.apply("aten::add.Tensor", {y, call.input(second)}, scores);
      if (is_by_windows(c)) {
        y = call.apply("aten::view", {y, list({-1, windows, c.heads, c.queries, c.keys})}, parts);
        y = call.apply("aten::add.Tensor", {y, call.input(second)}, parts);
        if (c.mask == 'W') y = call.apply("aten::softmax.int", {y, -1}, parts);
        y = call.apply("aten::view", {y, list({-1, c.heads, c.queries, c.keys})}, scores);
      }
      if (c.mask != 'W') y = call.apply("aten::softmax.int", {y, -1}, scores);
      if (c.mask == 't')
        y = call.apply("aten::matmul",
                       {call.apply("aten::transpose.int", {pv, -2, -1}, {c.batch, c.heads, c.depth, c.keys}),
                        call.apply("aten::permute", {y, list({0, 1, 3, 2})}, {c.batch, c.heads, c.keys, c.queries})},
                       turned_sizes);
      else
        y = call.apply("aten::matmul", {y, pv}, sizes);
    } else {
      y = call.apply("aten::scaled_dot_product_attention", {pq, pk, pv, pm, 0.0, c.causal}, sizes,
                     {{"enable_gqa", c.heads != c.key_heads}});
    }
    call.body.set_outputs({y});
    const double scale = c.written_out ? 0.125 : 1 / std::sqrt(static_cast<double>(c.depth));
    const std::vector<double> expected = plain_loops(c, q, k, v, mask, second, scale);
    Tensor result = testing::laid_out(Tensor::zeros(ScalarType::f32, c.mask == 't' ? turned_sizes : sizes), order);
    REQUIRE(call.run(attention(), result) == "");
    double apart = 0;
    for (int64_t i = 0; i < result.numel(); ++i) {
      const int64_t matrix = c.queries * c.depth, place = i % matrix;
      const int64_t at = c.mask == 't' ? i - place + place % c.queries * c.depth + place / c.queries : i;
      apart = std::max(apart, std::abs(result.float_at(i) - expected[at]));
    }
    // Sums of at most 300 terms of size 1 in f32, and exp to 2 units in the last place.
    CHECK(apart < 2e-6);
  }
}

TEST_CASE("a product behind a written out attention is no part of it") {
  for (bool followed : {false, true}) {
    Call call;
    const std::vector<int64_t> sizes = {2, 6, 8};
    Tensor x = testing::numbers(sizes, 1), matrix = testing::numbers({8, 8}, 2);
    ir::Value *q = call.input(x), *k = call.input(testing::laid_out(x, {0, 1, 2})), *v = call.input(x),
              *w = call.input(matrix);
    ir::Value* turned = call.apply("aten::transpose.int", {k, 1, 2}, {2, 8, 6});
    ir::Value* scores = call.apply("aten::matmul", {q, turned}, {2, 6, 6});
    ir::Value* y = call.apply("aten::matmul", {call.apply("aten::softmax.int", {scores, -1}, {2, 6, 6}), v}, sizes);
    if (followed) y = call.apply("aten::matmul", {y, w}, sizes);
    call.body.set_outputs({y});
    CHECK(attention().refusal(call.body) == (followed ? "something follows the attention" : ""));
  }
}

TEST_CASE("all widths of vectors agree") {
  const int64_t n = 37, k = 50, m = 14;
  Tensor x = testing::whole_numbers({m, k}, 1), w = testing::whole_numbers({n, k}, 2);
  std::vector<const Lanes*> widths{&lanes_portable};
  if (lanes().name != lanes_portable.name) widths.push_back(&lanes_avx2);
  if (lanes().name == lanes_avx512.name) widths.push_back(&lanes_avx512);
  for (const Lanes* width : widths) {
    CAPTURE(width->name);
    for (int64_t rows = 0; rows <= m; ++rows) {
      std::vector<float> y(rows * n);
      width->dots(x.as<float>(), k, rows, w.as<float>(), k, n, k, y.data(), n, rows % 2 == 0);
      for (int64_t i = 0; i < rows * n; ++i) {
        float sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += x.as<float>()[i / n * k + l] * w.as<float>()[i % n * k + l];
        CHECK(y[i] == sum);
      }
    }
    // The same bits whatever rows and columns are computed beside an element: threads may cut them anywhere.
    const Tensor a = testing::numbers({m, k}, 3), b = testing::numbers({n, k}, 4);
    std::vector<float> all(m * n), one(1);
    for (int64_t rows = 1; rows <= m; ++rows) {
      width->dots(a.as<float>(), k, rows, b.as<float>(), k, n, k, all.data(), n, false);
      for (int64_t i = 0; i < rows * n; ++i) {
        width->dots(a.as<float>() + i / n * k, k, 1, b.as<float>() + i % n * k, k, 1, k, one.data(), 1, false);
        REQUIRE(all[i] == one[0]);
      }
    }
    for (int64_t units : {1, 5, 16, 19}) {
      std::vector<float> gates(4 * units), c(units), h(units);
      for (int64_t i = 0; i < 4 * units; ++i) gates[i] = static_cast<float>(i % 23 - 11) * 0.7f;
      const std::vector<float> halves(4 * units, 0.5f);
      const float *of_state[4], *of_input[4];
      for (int64_t i = 0; i < 4; ++i) of_state[i] = &gates[i * units], of_input[i] = &halves[i * units];
      for (int64_t u = 0; u < units; ++u) c[u] = static_cast<float>(u) * 0.1f - 1;
      width->lstm_cell(of_input, of_state, c.data(), h.data(), units);
      for (int64_t u = 0; u < units; ++u) {
        auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
        const double state = sigmoid(gates[units + u] + 0.5) * (static_cast<float>(u) * 0.1f - 1) +
                             sigmoid(gates[u] + 0.5) * std::tanh(gates[2 * units + u] + 0.5);
        CHECK(c[u] == doctest::Approx(state).epsilon(1e-6));
        CHECK(h[u] == doctest::Approx(sigmoid(gates[3 * units + u] + 0.5) * std::tanh(state)).epsilon(1e-6));
      }
    }
  }
}

}  // namespace atenon::kernels
