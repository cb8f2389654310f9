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

template <int rows, class T>
void product_of(const T* weight, const T* bias, const T* x, int64_t columns, double* out) {
  double sums[rows];
  for (int i = 0; i < rows; ++i) sums[i] = bias ? bias[i] : 0;
  for (int64_t k = 0; k < columns; ++k) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) sums[i] += static_cast<double>(weight[i * columns + k]) * x[k];
  }
  std::copy_n(sums, rows, out);
}

// out[row] = bias[row] + sum over k of weight[row, k] * x[k]. Several rows at a time: in one, each sum waits for the
// last.
template <class T>
void product(const T* weight, const T* bias, const T* x, int64_t rows, int64_t columns, double* out) {
  constexpr int at_once = 8;
  int64_t row = 0;
  for (; row + at_once <= rows; row += at_once)
    product_of<at_once>(weight + row * columns, bias ? bias + row : nullptr, x, columns, out + row);
  for (; row < rows; ++row) product_of<1>(weight + row * columns, bias ? bias + row : nullptr, x, columns, out + row);
}

// What a call says of the whole network.
struct Extents {
  int64_t layers, ways;  // one way, or forward and backward
  int64_t samples, times;
  int64_t outputs, hidden;  // of h and of c: the same unless h is projected
  bool has_biases, samples_first;

  bool projects() const { return outputs != hidden; }
  int64_t per_cell() const { return (has_biases ? 4 : 2) + (projects() ? 1 : 0); }
  // Where the caller has a sample's vector at a time.
  int64_t place(int64_t n, int64_t t) const { return samples_first ? n * times + t : t * samples + n; }
};

Extents read_extents(const ExternCall& call, const std::vector<Tensor>& states) {
  const std::vector<int64_t>& input = call.tensor(0).sizes;
  const bool batched = input.size() == 3, samples_first = batched && call.truth(8);
  return {.layers = call.integer(4),
          .ways = call.truth(7) ? 2 : 1,
          .samples = batched ? input[samples_first ? 0 : 1] : 1,
          .times = input[samples_first ? 1 : 0],
          .outputs = states[0].sizes.back(),
          .hidden = states.back().sizes.back(),
          .has_biases = call.truth(3),
          .samples_first = samples_first};
}

// One direction of one layer: input [samples, times, features] to output [samples, times, ways, outputs], whose part
// `way` it writes. States, first and final, hold this cell's at `number`.
template <class T, class Cell>
void run_way(const Network<Cell>& network, const Extents& of, const Parameters<T>& parameters, int64_t way,
             int64_t features, const T* input, T* output, int64_t number, const std::vector<Tensor>& states,
             std::vector<Tensor>& final_states) {
  const int64_t rows = network.gates * of.hidden;
  parallel_for(of.samples, [&](int64_t n) {
    std::vector<double> x(static_cast<size_t>(rows)), h(static_cast<size_t>(rows));
    const int64_t state = number * of.samples + n;
    const T* h_from = states[0].as<T>() + state * of.outputs;
    std::vector<T> h_state(h_from, h_from + of.outputs), c_state, unprojected(static_cast<size_t>(of.hidden));
    std::vector<double> projected(static_cast<size_t>(of.outputs));
    if (network.has_cell_state)
      c_state.assign(states[1].as<T>() + state * of.hidden, states[1].as<T>() + (state + 1) * of.hidden);
    for (int64_t step = 0; step < of.times; ++step) {
      const int64_t t = way == 0 ? step : of.times - 1 - step;
      product(parameters.w_ih, parameters.b_ih, input + (n * of.times + t) * features, rows, features, x.data());
      product(parameters.w_hh, parameters.b_hh, h_state.data(), rows, of.outputs, h.data());
      network.cell(x.data(), h.data(), of.projects() ? unprojected.data() : h_state.data(), c_state.data(), of.hidden);
      if (of.projects()) {
        product<T>(parameters.w_hr, nullptr, unprojected.data(), of.outputs, of.hidden, projected.data());
        std::transform(projected.begin(), projected.end(), h_state.begin(), [](double x) { return static_cast<T>(x); });
      }
      std::copy(h_state.begin(), h_state.end(), output + ((n * of.times + t) * of.ways + way) * of.outputs);
    }
    std::copy(h_state.begin(), h_state.end(), final_states[0].mutable_as<T>() + state * of.outputs);
    if (network.has_cell_state)
      std::copy(c_state.begin(), c_state.end(), final_states[1].mutable_as<T>() + state * of.hidden);
  });
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
  const Extents of = read_extents(call, states);
  if (call.number(5) > 0 && call.truth(6) && of.layers > 1)
    return error(Status::unsupported, 634, "dropout between recurrent layers in training mode is not known")
        .note("fix: model.eval() before the capture");
  if (const int64_t expected = of.layers * of.ways * of.per_cell(); static_cast<int64_t>(params.size()) != expected)
    return error(Status::unsupported, 634,
                 std::to_string(params.size()) + " parameters of a recurrent network, where " +
                     std::to_string(expected) + " are expected");

  std::vector<Tensor> final_states;
  for (Tensor& state : states) {
    state = rows_of(state);
    final_states.push_back(Tensor::empty(dtype, state.sizes));
  }
  // Layer input and output as [samples, times, features].
  const Tensor input = rows_of(call.tensor(0));
  int64_t features = input.sizes.back();
  std::vector<T> layer_input(static_cast<size_t>(of.samples * of.times * features));
  for (int64_t n = 0; n < of.samples; ++n)
    for (int64_t t = 0; t < of.times; ++t)
      std::copy_n(input.as<T>() + of.place(n, t) * features, features,
                  layer_input.data() + (n * of.times + t) * features);
  for (int64_t layer = 0; layer < of.layers; ++layer) {
    std::vector<T> layer_output(static_cast<size_t>(of.samples * of.times * of.ways * of.outputs));
    for (int64_t way = 0; way < of.ways; ++way) {
      const int64_t number = layer * of.ways + way;
      const auto first = params.begin() + static_cast<std::ptrdiff_t>(number * of.per_cell());
      std::vector<Tensor> held(first, first + static_cast<std::ptrdiff_t>(of.per_cell()));
      for (Tensor& tensor : held) tensor = rows_of(tensor);
      const Parameters<T> parameters{held[0].as<T>(), held[1].as<T>(), of.has_biases ? held[2].as<T>() : nullptr,
                                     of.has_biases ? held[3].as<T>() : nullptr,
                                     of.projects() ? held.back().as<T>() : nullptr};
      run_way(network, of, parameters, way, features, layer_input.data(), layer_output.data(), number, states,
              final_states);
    }
    layer_input = std::move(layer_output);
    features = of.ways * of.outputs;
  }
  std::vector<Tensor> results{Tensor::empty(dtype, call.result(0).sizes)};
  for (int64_t n = 0; n < of.samples; ++n)
    for (int64_t t = 0; t < of.times; ++t)
      std::copy_n(layer_input.data() + (n * of.times + t) * features, features,
                  results[0].mutable_as<T>() + of.place(n, t) * features);
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
