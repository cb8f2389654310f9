// GRU and plain recurrent layers against plain loops in double.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/list.h"
#include "kernels/testing.h"

namespace atenon::kernels {

using testing::Call;

TEST_CASE("gru and rnn equal plain loops") {
  struct Case {
    const char* target;
    int64_t steps, batch, width, hidden, layers;
    bool biases, bidirectional, batch_first;
  };
  for (const Case& c : {Case{"aten::gru.input", 5, 1, 6, 8, 1, true, false, false},
                        Case{"aten::gru.input", 4, 3, 10, 70, 2, true, true, true},
                        Case{"aten::gru.input", 3, 30, 5, 64, 2, false, false, true},
                        Case{"aten::gru.input", 9, 17, 10, 70, 2, true, true, false},
                        Case{"aten::gru.input", 6, 5, 3, 40, 1, true, false, true},
                        Case{"aten::gru.input", 4, 1, 7, 640, 1, true, true, false},
                        Case{"aten::gru.input", 5, 1, 7, 70, 1, false, false, true},
                        Case{"aten::rnn_tanh.input", 5, 1, 7, 128, 1, true, false, true},
                        Case{"aten::rnn_tanh.input", 6, 2, 5, 128, 1, true, true, false},
                        Case{"aten::rnn_relu.input", 3, 2, 9, 19, 2, true, false, true},
                        Case{"aten::gru.input", 8, 16, 4, 224, 1, true, false, true}}) {
    CAPTURE(std::string(c.target));
    CAPTURE(c.hidden);
    Call call;
    const int64_t directions = c.bidirectional ? 2 : 1, cells = c.layers * directions;
    const int64_t gates = std::string(c.target) == "aten::gru.input" ? 3 : 1;
    const std::vector<int64_t> sizes = c.batch_first ? std::vector<int64_t>{c.batch, c.steps, c.width}
                                                     : std::vector<int64_t>{c.steps, c.batch, c.width};
    Tensor x = testing::numbers(sizes, 1), h0 = testing::numbers({cells, c.batch, c.hidden}, 2);
    ir::Value *px = call.input(x), *ph = call.input(h0);
    ir::ArgumentList parameters;
    std::vector<Tensor> weights;
    for (int64_t cell = 0; cell < cells; ++cell) {
      const int64_t inputs = cell < directions ? c.width : directions * c.hidden;
      std::vector<std::vector<int64_t>> shapes{{gates * c.hidden, inputs}, {gates * c.hidden, c.hidden}};
      if (c.biases) shapes.insert(shapes.end(), {{gates * c.hidden}, {gates * c.hidden}});
      for (const auto& shape : shapes) {
        weights.push_back(testing::numbers(shape, static_cast<uint32_t>(10 + weights.size()), 0.1f));
        parameters.push_back(call.weight(weights.back()));
      }
    }
    std::vector<int64_t> y_sizes = sizes;
    y_sizes[2] = directions * c.hidden;
    auto meta = [](std::vector<int64_t> s) { return ir::TensorMeta{ScalarType::f32, {s.begin(), s.end()}}; };
    ir::Node* node =
        call.body.add(c.target, {px, ph, parameters, c.biases, c.layers, 0.0, false, c.bidirectional, c.batch_first},
                      {}, {{"y", meta(y_sizes)}, {"h", meta(h0.sizes)}});
    call.body.set_outputs({node->result(0), node->result(1)});
    Tensor y = Tensor::zeros(ScalarType::f32, y_sizes), h = Tensor::zeros(ScalarType::f32, h0.sizes);
    int packed = 0;
    REQUIRE(call.run_packed(recurrent(), {&y, &h}, packed) == "");

    auto row = [&](int64_t t, int64_t b) { return c.batch_first ? b * c.steps + t : t * c.batch + b; };
    auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    std::vector<double> layer(x.numel());
    for (int64_t i = 0; i < x.numel(); ++i) layer[i] = x.float_at(i);
    double apart = 0;
    for (int64_t l = 0, parameter = 0; l < c.layers; ++l) {
      const int64_t inputs = l == 0 ? c.width : directions * c.hidden;
      std::vector<double> next(c.steps * c.batch * directions * c.hidden);
      for (int64_t d = 0; d < directions; ++d, parameter += c.biases ? 4 : 2)
        for (int64_t b = 0; b < c.batch; ++b) {
          const int64_t place = ((l * directions + d) * c.batch + b) * c.hidden;
          std::vector<double> hs(c.hidden);
          for (int64_t u = 0; u < c.hidden; ++u) hs[u] = h0.float_at(place + u);
          for (int64_t step = 0; step < c.steps; ++step) {
            const int64_t t = d == 0 ? step : c.steps - 1 - step;
            std::vector<double> of_x(gates * c.hidden), of_h(gates * c.hidden);
            for (int64_t g = 0; g < gates * c.hidden; ++g) {
              if (c.biases) of_x[g] = weights[parameter + 2].float_at(g), of_h[g] = weights[parameter + 3].float_at(g);
              for (int64_t i = 0; i < inputs; ++i)
                of_x[g] += layer[row(t, b) * inputs + i] * weights[parameter].as<float>()[g * inputs + i];
              for (int64_t i = 0; i < c.hidden; ++i)
                of_h[g] += hs[i] * weights[parameter + 1].as<float>()[g * c.hidden + i];
            }
            for (int64_t u = 0; u < c.hidden; ++u) {
              const int64_t z = c.hidden + u, n = 2 * c.hidden + u;
              if (gates == 1) {
                const double sum = of_x[u] + of_h[u];
                hs[u] = std::string(c.target) == "aten::rnn_relu.input" ? std::max(0.0, sum) : std::tanh(sum);
              } else {
                const double fresh = std::tanh(of_x[n] + sigmoid(of_x[u] + of_h[u]) * of_h[n]);
                hs[u] = fresh + sigmoid(of_x[z] + of_h[z]) * (hs[u] - fresh);
              }
              next[row(t, b) * directions * c.hidden + d * c.hidden + u] = hs[u];
            }
          }
          for (int64_t u = 0; u < c.hidden; ++u) apart = std::max(apart, std::abs(h.float_at(place + u) - hs[u]));
        }
      layer = next;
    }
    for (int64_t i = 0; i < y.numel(); ++i) apart = std::max(apart, std::abs(y.float_at(i) - layer[i]));
    CHECK(apart < 1e-5);  // as for the lstm
  }
}

}  // namespace atenon::kernels
