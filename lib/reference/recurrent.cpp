// LSTM, GRU and plain recurrent networks: loops over time, layers and directions.
//
// Parameters come as PyTorch lists them: for each layer and direction w_ih, w_hh and, with biases, b_ih, b_hh, and w_hr
// for an LSTM whose h is a projection, smaller than c; the rows of the gates lie below one another (LSTM: input,
// forget, cell, output; GRU: reset, update, new). Sums are kept in double; what is stored is of the input's type, or
// f32 where that has 16 bits.
#include <algorithm>

#include "reference/extern_kernels.h"
#include "support/math.h"
#include "support/parallel.h"

namespace atenon::reference {

namespace {

template <class T>
struct Parameters {
  const T* w_ih = nullptr;  // [gates * hidden, features]
  const T* w_hh = nullptr;  // [gates * hidden, states]: as many as hidden unless they are projected
  const T* b_ih = nullptr;  // or null
  const T* b_hh = nullptr;
  const T* w_hr = nullptr;  // [states, hidden], or null
};

// One step of a network's cell for one sample: from the gates' two products to the new states, cell(x, h, hidden_state,
// cell_state, hidden).
//   x, h: `gates * hidden` numbers each (biases included); states: hidden (h), and for an LSTM c.
template <class Cell>
struct Network {
  int gates = 1;
  bool has_cell_state = false;
  Cell cell;
};

// out[row] = bias[row] + sum over k of weight[row, k] * x[k]
template <class T>
void product(const T* weight, const T* bias, const T* x, int64_t rows, int64_t columns, double* out) {
  for (int64_t row = 0; row < rows; ++row) {
    double sum = bias ? bias[row] : 0;
    for (int64_t k = 0; k < columns; ++k) sum += static_cast<double>(weight[row * columns + k]) * x[k];
    out[row] = sum;
  }
}

// Arguments 0: input, then the states (one list for an LSTM, one tensor else), params, has_biases, num_layers, dropout,
// train, bidirectional, batch_first.
template <class T, class Cell>
Result<std::vector<Datum>> run_as(const ExternCall& call, const Network<Cell>& network) {
  constexpr ScalarType dtype = sizeof(T) == sizeof(double) ? ScalarType::f64 : ScalarType::f32;
  const auto rows_of = [](const Tensor& tensor) {
    return tensor.dtype == dtype ? tensor.contiguous() : cast(tensor, dtype);
  };
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
  const Tensor input = rows_of(call.tensor(0));

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
    states[i] = rows_of(states[i]);
    final_states.push_back(Tensor::empty(dtype, states[i].sizes));
  }
  // Layer input and output as [samples, times, features].
  int64_t features = input.sizes.back();
  std::vector<T> layer_input(static_cast<size_t>(samples * times * features));
  const auto place = [&](int64_t n, int64_t t) { return samples_first ? n * times + t : t * samples + n; };
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t t = 0; t < times; ++t)
      std::copy_n(input.as<T>() + place(n, t) * features, features, layer_input.data() + (n * times + t) * features);
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<T> layer_output(static_cast<size_t>(samples * times * ways * outputs));
    for (int64_t way = 0; way < ways; ++way) {
      const auto first = static_cast<size_t>((layer * ways + way) * per_cell);
      std::vector<Tensor> held(
          params.begin() + static_cast<std::ptrdiff_t>(first),
          params.begin() + static_cast<std::ptrdiff_t>(first) + static_cast<std::ptrdiff_t>(per_cell));
      for (Tensor& tensor : held) tensor = rows_of(tensor);
      const Parameters<T> parameters{held[0].as<T>(), held[1].as<T>(), has_biases ? held[2].as<T>() : nullptr,
                                     has_biases ? held[3].as<T>() : nullptr, projects ? held.back().as<T>() : nullptr};
      const int64_t rows = network.gates * hidden;
      parallel_for(samples, [&](int64_t n) {
        std::vector<double> x(static_cast<size_t>(rows)), h(static_cast<size_t>(rows));
        const int64_t number = (layer * ways + way) * samples + n;
        const T* h_from = states[0].as<T>() + number * outputs;
        std::vector<T> h_state(h_from, h_from + outputs), c_state, unprojected(static_cast<size_t>(hidden));
        std::vector<double> projected(static_cast<size_t>(outputs));
        if (network.has_cell_state)
          c_state.assign(states[1].as<T>() + number * hidden, states[1].as<T>() + (number + 1) * hidden);
        for (int64_t step = 0; step < times; ++step) {
          const int64_t t = way == 0 ? step : times - 1 - step;
          product(parameters.w_ih, parameters.b_ih, layer_input.data() + (n * times + t) * features, rows, features,
                  x.data());
          product(parameters.w_hh, parameters.b_hh, h_state.data(), rows, outputs, h.data());
          network.cell(x.data(), h.data(), projects ? unprojected.data() : h_state.data(), c_state.data(), hidden);
          if (projects) {
            product<T>(parameters.w_hr, nullptr, unprojected.data(), outputs, hidden, projected.data());
            std::transform(projected.begin(), projected.end(), h_state.begin(),
                           [](double x) { return static_cast<T>(x); });
          }
          std::copy(h_state.begin(), h_state.end(), layer_output.data() + ((n * times + t) * ways + way) * outputs);
        }
        std::copy(h_state.begin(), h_state.end(), final_states[0].mutable_as<T>() + number * outputs);
        if (network.has_cell_state)
          std::copy(c_state.begin(), c_state.end(), final_states[1].mutable_as<T>() + number * hidden);
      });
    }
    layer_input = std::move(layer_output);
    features = ways * outputs;
  }
  std::vector<Tensor> results{Tensor::empty(dtype, call.result(0).sizes)};
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t t = 0; t < times; ++t)
      std::copy_n(layer_input.data() + (n * times + t) * features, features,
                  results[0].mutable_as<T>() + place(n, t) * features);
  results.insert(results.end(), final_states.begin(), final_states.end());
  std::vector<Datum> rounded;
  for (const Tensor& result : results)
    rounded.emplace_back(call.tensor(0).dtype == dtype ? result : cast(result, call.tensor(0).dtype));
  return rounded;
}

template <class Cell>
Result<std::vector<Datum>> run_network(const ExternCall& call, const Network<Cell>& network) {
  return call.tensor(0).dtype == ScalarType::f64 ? run_as<double>(call, network) : run_as<float>(call, network);
}

}  // namespace

Result<std::vector<Datum>> lstm(const ExternCall& call) {
  return run_network(
      call,
      Network{4, true, []<class T>(const double* x, const double* h, T* hidden_state, T* cell_state, int64_t hidden) {
                for (int64_t j = 0; j < hidden; ++j) {
                  const auto gate = [&](int64_t g) { return static_cast<T>(x[g * hidden + j] + h[g * hidden + j]); };
                  const T in = static_cast<T>(math::sigmoid(gate(0))), keep = static_cast<T>(math::sigmoid(gate(1)));
                  const T fresh = static_cast<T>(math::tanh(gate(2))), out = static_cast<T>(math::sigmoid(gate(3)));
                  cell_state[j] = static_cast<T>(double(keep) * cell_state[j] + double(in) * fresh);
                  hidden_state[j] = static_cast<T>(out * math::tanh(cell_state[j]));
                }
              }});
}

Result<std::vector<Datum>> gru(const ExternCall& call) {
  return run_network(
      call, Network{3, false, []<class T>(const double* x, const double* h, T* hidden_state, T*, int64_t hidden) {
                      for (int64_t j = 0; j < hidden; ++j) {
                        const T reset = static_cast<T>(math::sigmoid(x[j] + h[j])),
                                update = static_cast<T>(math::sigmoid(x[hidden + j] + h[hidden + j]));
                        const T fresh = static_cast<T>(math::tanh(x[2 * hidden + j] + reset * h[2 * hidden + j]));
                        hidden_state[j] = static_cast<T>(fresh + double(update) * (double(hidden_state[j]) - fresh));
                      }
                    }});
}

Result<std::vector<Datum>> rnn_tanh(const ExternCall& call) {
  return run_network(
      call, Network{1, false, []<class T>(const double* x, const double* h, T* hidden_state, T*, int64_t hidden) {
                      for (int64_t j = 0; j < hidden; ++j) hidden_state[j] = static_cast<T>(math::tanh(x[j] + h[j]));
                    }});
}

Result<std::vector<Datum>> rnn_relu(const ExternCall& call) {
  return run_network(
      call, Network{1, false, []<class T>(const double* x, const double* h, T* hidden_state, T*, int64_t hidden) {
                      for (int64_t j = 0; j < hidden; ++j) hidden_state[j] = static_cast<T>(std::max(0.0, x[j] + h[j]));
                    }});
}

}  // namespace atenon::reference
