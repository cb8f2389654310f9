// LSTM layers against plain loops in double.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("lstm equals plain loops") {
  struct Case {
    int64_t steps, batch, width, hidden, layers;
    bool biases, bidirectional, batch_first;
    int64_t projected = 0;  // 0: no projection
    float first = 0;        // if not 0, of the first state
  };
  for (const Case& c : {Case{5, 1, 6, 8, 1, true, false, false}, Case{7, 3, 10, 33, 2, true, false, true},
                        Case{4, 6, 5, 19, 2, false, true, true}, Case{3, 2, 16, 128, 1, true, true, false},
                        Case{3, 30, 4, 64, 2, true, false, true}, Case{9, 17, 12, 70, 2, true, true, true},
                        Case{6, 5, 3, 40, 1, true, false, false}, Case{5, 1, 6, 40, 2, true, false, true, 24},
                        Case{4, 9, 5, 70, 1, true, true, false, 33}, Case{6, 30, 8, 200, 2, false, true, true, 128},
                        Case{3, 2, 4, 128, 1, true, false, false, 64}, Case{2, 1, 12, 640, 1, true, true, true},
                        Case{9, 1, 5, 70, 1, true, false, false}, Case{3, 3, 4, 400, 1, true, false, false, 101},
                        Case{10, 16, 4, 192, 1, true, false, false}, Case{10, 32, 4, 200, 1, true, true, true},
                        Case{10, 32, 4, 192, 1, true, false, false, 0, 1e30f}}) {
    CAPTURE(c.hidden);
    CAPTURE(c.projected);
    const int64_t width = c.projected > 0 ? c.projected : c.hidden;  // of a state
    Call call;
    const int64_t directions = c.bidirectional ? 2 : 1, cells = c.layers * directions;
    const std::vector<int64_t> sizes = c.batch_first ? std::vector<int64_t>{c.batch, c.steps, c.width}
                                                     : std::vector<int64_t>{c.steps, c.batch, c.width};
    Tensor x = testing::numbers(sizes, 1), h0 = testing::numbers({cells, c.batch, width}, 2),
           c0 = testing::numbers({cells, c.batch, c.hidden}, 3);
    if (c.first != 0) h0.mutable_as<float>()[0] = c.first;
    ir::Value *px = call.input(x), *ph = call.input(h0), *pc = call.input(c0);
    ir::ArgumentList parameters;
    std::vector<Tensor> weights;
    for (int64_t cell = 0; cell < cells; ++cell) {
      const int64_t inputs = cell < directions ? c.width : directions * width;
      std::vector<std::vector<int64_t>> shapes{{4 * c.hidden, inputs}, {4 * c.hidden, width}};
      if (c.biases) shapes.insert(shapes.end(), {{4 * c.hidden}, {4 * c.hidden}});
      if (c.projected > 0) shapes.push_back({width, c.hidden});
      for (const auto& shape : shapes) {
        // A projection adds many units: a state should not grow by it, or it would amplify errors.
        const bool is_projection = c.projected > 0 && &shape == &shapes.back();
        weights.push_back(
            testing::numbers(shape, static_cast<uint32_t>(10 + weights.size()), is_projection ? 0.1f : 0.5f));
        parameters.push_back(call.weight(weights.back()));
      }
    }
    std::vector<int64_t> y_sizes = sizes;
    y_sizes[2] = directions * width;
    auto meta = [](std::vector<int64_t> s) { return ir::TensorMeta{ScalarType::f32, {s.begin(), s.end()}}; };
    const bool train = c.layers == 1;  // dropout is between layers
    ir::Node* node = call.body.add("aten::lstm.input",
                                   {px, ir::ArgumentList{ph, pc}, parameters, c.biases, c.layers, train ? 0.5 : 0.0,
                                    train, c.bidirectional, c.batch_first},
                                   {}, {{"y", meta(y_sizes)}, {"h", meta(h0.sizes)}, {"c", meta(c0.sizes)}});
    // What nobody reads is not computed into a result.
    if (c.batch == 6)
      call.body.set_outputs({node->result(0)});
    else
      call.body.set_outputs({node->result(0), node->result(1), node->result(2)});
    Tensor y = Tensor::zeros(ScalarType::f32, y_sizes), h = Tensor::zeros(ScalarType::f32, h0.sizes),
           state = Tensor::zeros(ScalarType::f32, c0.sizes);
    std::vector<Tensor*> results{&y, &h, &state};
    results.resize(call.body.outputs().size());
    int packed = 0;
    REQUIRE(call.run_packed(lstm(), results, packed) == "");
    CHECK(packed == cells * (c.hidden % 64 == 0 && c.projected == 0 ? 2 : 1));

    auto row = [&](int64_t t, int64_t b) { return c.batch_first ? b * c.steps + t : t * c.batch + b; };
    auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    std::vector<double> layer(x.numel());
    for (int64_t i = 0; i < x.numel(); ++i) layer[i] = x.float_at(i);
    double apart = 0;
    for (int64_t l = 0, parameter = 0; l < c.layers; ++l) {
      const int64_t inputs = l == 0 ? c.width : directions * width;
      const int64_t per_cell = (c.biases ? 4 : 2) + (c.projected > 0 ? 1 : 0);
      std::vector<double> next(c.steps * c.batch * directions * width);
      for (int64_t d = 0; d < directions; ++d, parameter += per_cell)
        for (int64_t b = 0; b < c.batch; ++b) {
          const int64_t entry = (l * directions + d) * c.batch + b;
          std::vector<double> hs(width), cs(c.hidden), out(c.hidden);
          for (int64_t u = 0; u < width; ++u) hs[u] = h0.float_at(entry * width + u);
          for (int64_t u = 0; u < c.hidden; ++u) cs[u] = c0.float_at(entry * c.hidden + u);
          for (int64_t step = 0; step < c.steps; ++step) {
            const int64_t t = d == 0 ? step : c.steps - 1 - step;
            std::vector<double> gates(4 * c.hidden);
            for (int64_t g = 0; g < 4 * c.hidden; ++g) {
              if (c.biases) gates[g] = weights[parameter + 2].float_at(g) + weights[parameter + 3].float_at(g);
              for (int64_t i = 0; i < inputs; ++i)
                gates[g] += layer[row(t, b) * inputs + i] * weights[parameter].as<float>()[g * inputs + i];
              for (int64_t i = 0; i < width; ++i) gates[g] += hs[i] * weights[parameter + 1].as<float>()[g * width + i];
            }
            for (int64_t u = 0; u < c.hidden; ++u) {
              cs[u] = sigmoid(gates[c.hidden + u]) * cs[u] + sigmoid(gates[u]) * std::tanh(gates[2 * c.hidden + u]);
              out[u] = sigmoid(gates[3 * c.hidden + u]) * std::tanh(cs[u]);
            }
            for (int64_t u = 0; u < width; ++u) {
              if (c.projected == 0) hs[u] = out[u];
              if (c.projected > 0) hs[u] = 0;
              for (int64_t i = 0; c.projected > 0 && i < c.hidden; ++i)
                hs[u] += out[i] * weights[parameter + per_cell - 1].as<float>()[u * c.hidden + i];
              next[(row(t, b) * directions + d) * width + u] = hs[u];
            }
          }
          for (int64_t u = 0; results.size() == 3 && u < width; ++u)
            apart = std::max(apart, std::abs(h.float_at(entry * width + u) - hs[u]));
          for (int64_t u = 0; results.size() == 3 && u < c.hidden; ++u)
            apart = std::max(apart, std::abs(state.float_at(entry * c.hidden + u) - cs[u]));
        }
      layer = next;
    }
    for (int64_t i = 0; i < y.numel(); ++i) apart = std::max(apart, std::abs(y.float_at(i) - layer[i]));
    // Gates are sums of some 150 products of size 1 in f32; a cell does not amplify their error.
    CHECK(apart < 1e-5);
  }
}

}  // namespace atenon::kernels
