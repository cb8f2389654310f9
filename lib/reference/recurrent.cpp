// LSTM, GRU and plain recurrent networks: loops over time, layers and directions.
//
// Parameters come as PyTorch lists them: for each layer and direction w_ih, w_hh and, with biases, b_ih, b_hh, and w_hr
// for an LSTM whose h is a projection, smaller than c; the rows of the gates lie below one another (LSTM: input,
// forget, cell, output; GRU: reset, update, new). Sums are kept in double, what is stored is f32.
#include <algorithm>
#include <functional>

#include "reference/extern_kernels.h"
#include "support/math.h"
#include "support/parallel.h"

namespace atenon::reference {

namespace {

struct Parameters {
  const float* w_ih = nullptr;  // [gates * hidden, features]
  const float* w_hh = nullptr;  // [gates * hidden, states]: as many as hidden unless they are projected
  const float* b_ih = nullptr;  // or null
  const float* b_hh = nullptr;
  const float* w_hr = nullptr;  // [states, hidden], or null
};

// One step of one cell for one sample: from the gates' two products to the new states.
//   x, h: `gates * hidden` numbers each (biases included); state: hidden (h), and for an LSTM c.
using Cell =
    std::function<void(const double* x, const double* h, float* hidden_state, float* cell_state, int64_t hidden)>;

struct Network {
  int gates = 1;
  bool has_cell_state = false;
  Cell cell;
};

float rounded(double x) { return static_cast<float>(x); }

// out[row] = bias[row] + sum over k of weight[row, k] * x[k]
void product(const float* weight, const float* bias, const float* x, int64_t rows, int64_t columns, double* out) {
  for (int64_t row = 0; row < rows; ++row) {
    double sum = bias ? bias[row] : 0;
    for (int64_t k = 0; k < columns; ++k) sum += static_cast<double>(weight[row * columns + k]) * x[k];
    out[row] = sum;
  }
}

// Arguments 0: input, then the states (one list for an LSTM, one tensor else), params, has_biases, num_layers, dropout,
// train, bidirectional, batch_first.
Result<std::vector<Datum>> run_network(const ExternCall& call, const Network& network) {
  std::vector<Tensor> states;
  if (network.has_cell_state)
    states = call.tensors(1);
  else
    states = {call.tensor(1)};
  const std::vector<Tensor> params = call.tensors(2);
  const bool has_biases = call.truth(3), bidirectional = call.truth(7), batch_first = call.truth(8);
  const int64_t layers = call.integer(4);
  if (call.number(5) > 0 && call.truth(6))
    return error(Status::unsupported, 634, "recurrent dropout in training mode is not known");
  const Tensor input = call.tensor(0).contiguous();
  if (input.dtype != ScalarType::f32)
    return error(Status::unsupported, 634, "recurrent networks are known in f32 only");

  const bool batched = input.sizes.size() == 3;
  const bool samples_first = batched && batch_first;
  const int64_t samples = batched ? input.sizes[samples_first ? 0 : 1] : 1;
  const int64_t times = input.sizes[samples_first ? 1 : 0];
  const int64_t ways = bidirectional ? 2 : 1;
  const int64_t outputs = states[0].sizes.back(), hidden = states.back().sizes.back();
  const bool projects = outputs != hidden;
  const int64_t per_cell = (has_biases ? 4 : 2) + (projects ? 1 : 0);
  if (static_cast<int64_t>(params.size()) != layers * ways * per_cell)
    return error(Status::unsupported, 634,
                 std::to_string(params.size()) + " parameters of a recurrent network, where " +
                     std::to_string(layers * ways * per_cell) + " are expected");

  std::vector<Tensor> final_states;
  for (size_t i = 0; i < states.size(); ++i) {
    states[i] = states[i].contiguous();
    final_states.push_back(call.result(i + 1));
  }
  // Layer input and output as [samples, times, features].
  int64_t features = input.sizes.back();
  std::vector<float> layer_input(static_cast<size_t>(samples * times * features));
  const auto place = [&](int64_t n, int64_t t) { return samples_first ? n * times + t : t * samples + n; };
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t t = 0; t < times; ++t)
      std::copy_n(input.as<float>() + place(n, t) * features, features,
                  layer_input.data() + (n * times + t) * features);
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<float> layer_output(static_cast<size_t>(samples * times * ways * outputs));
    for (int64_t way = 0; way < ways; ++way) {
      const auto first = static_cast<size_t>((layer * ways + way) * per_cell);
      std::vector<Tensor> held(
          params.begin() + static_cast<std::ptrdiff_t>(first),
          params.begin() + static_cast<std::ptrdiff_t>(first) + static_cast<std::ptrdiff_t>(per_cell));
      for (Tensor& tensor : held) tensor = tensor.contiguous();
      const Parameters parameters{held[0].as<float>(), held[1].as<float>(), has_biases ? held[2].as<float>() : nullptr,
                                  has_biases ? held[3].as<float>() : nullptr,
                                  projects ? held.back().as<float>() : nullptr};
      const int64_t rows = network.gates * hidden;
      parallel_for(samples, [&](int64_t n) {
        std::vector<double> x(static_cast<size_t>(rows)), h(static_cast<size_t>(rows));
        const int64_t number = (layer * ways + way) * samples + n;
        const float* h_from = states[0].as<float>() + number * outputs;
        std::vector<float> h_state(h_from, h_from + outputs), c_state, unprojected(static_cast<size_t>(hidden));
        std::vector<double> projected(static_cast<size_t>(outputs));
        if (network.has_cell_state)
          c_state.assign(states[1].as<float>() + number * hidden, states[1].as<float>() + (number + 1) * hidden);
        for (int64_t step = 0; step < times; ++step) {
          const int64_t t = way == 0 ? step : times - 1 - step;
          product(parameters.w_ih, parameters.b_ih, layer_input.data() + (n * times + t) * features, rows, features,
                  x.data());
          product(parameters.w_hh, parameters.b_hh, h_state.data(), rows, outputs, h.data());
          network.cell(x.data(), h.data(), projects ? unprojected.data() : h_state.data(), c_state.data(), hidden);
          if (projects) {
            product(parameters.w_hr, nullptr, unprojected.data(), outputs, hidden, projected.data());
            std::transform(projected.begin(), projected.end(), h_state.begin(), rounded);
          }
          std::copy(h_state.begin(), h_state.end(), layer_output.data() + ((n * times + t) * ways + way) * outputs);
        }
        std::copy(h_state.begin(), h_state.end(), final_states[0].mutable_as<float>() + number * outputs);
        if (network.has_cell_state)
          std::copy(c_state.begin(), c_state.end(), final_states[1].mutable_as<float>() + number * hidden);
      });
    }
    layer_input = std::move(layer_output);
    features = ways * outputs;
  }
  Tensor output = call.result(0);
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t t = 0; t < times; ++t)
      std::copy_n(layer_input.data() + (n * times + t) * features, features,
                  output.mutable_as<float>() + place(n, t) * features);
  std::vector<Datum> results{output};
  results.insert(results.end(), final_states.begin(), final_states.end());
  return results;
}

}  // namespace

Result<std::vector<Datum>> lstm(const ExternCall& call) {
  return run_network(
      call, {4, true, [](const double* x, const double* h, float* hidden_state, float* cell_state, int64_t hidden) {
               for (int64_t j = 0; j < hidden; ++j) {
                 const auto gate = [&](int64_t g) { return rounded(x[g * hidden + j] + h[g * hidden + j]); };
                 const float in = rounded(math::sigmoid(gate(0))), keep = rounded(math::sigmoid(gate(1)));
                 const float fresh = rounded(math::tanh(gate(2))), out = rounded(math::sigmoid(gate(3)));
                 cell_state[j] = rounded(double(keep) * cell_state[j] + double(in) * fresh);
                 hidden_state[j] = rounded(out * math::tanh(cell_state[j]));
               }
             }});
}

Result<std::vector<Datum>> gru(const ExternCall& call) {
  return run_network(call,
                     {3, false, [](const double* x, const double* h, float* hidden_state, float*, int64_t hidden) {
                        for (int64_t j = 0; j < hidden; ++j) {
                          const float reset = rounded(math::sigmoid(x[j] + h[j])),
                                      update = rounded(math::sigmoid(x[hidden + j] + h[hidden + j]));
                          const float fresh = rounded(math::tanh(x[2 * hidden + j] + reset * h[2 * hidden + j]));
                          hidden_state[j] = rounded(fresh + double(update) * (double(hidden_state[j]) - fresh));
                        }
                      }});
}

Result<std::vector<Datum>> rnn_tanh(const ExternCall& call) {
  return run_network(call,
                     {1, false, [](const double* x, const double* h, float* hidden_state, float*, int64_t hidden) {
                        for (int64_t j = 0; j < hidden; ++j) hidden_state[j] = rounded(math::tanh(x[j] + h[j]));
                      }});
}

Result<std::vector<Datum>> rnn_relu(const ExternCall& call) {
  return run_network(call,
                     {1, false, [](const double* x, const double* h, float* hidden_state, float*, int64_t hidden) {
                        for (int64_t j = 0; j < hidden; ++j) hidden_state[j] = rounded(std::max(0.0, x[j] + h[j]));
                      }});
}

}  // namespace atenon::reference
