// GRU and plain recurrent layers, as aten::gru.input, rnn_tanh.input and rnn_relu.input keep them whole.
//
// As in lstm.cpp the inputs of all time steps go through the input weights at once; a step is the recurrent product,
// cut into tiles of units. A gate is one panel whose epilogue does the rest: r and z are sigmoid(x + h W), the new
// state's part is tanh(x + r * (h W + b)), and the step ends with h := n + z * (h - n).
#include <cassert>
#include <cstring>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/recurrent_layers.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

struct Network : RecurrentNetwork {
  int64_t gates = 3;
  StepKind activation = StepKind::tanh;  // of a network of one gate
};

std::string read_network(const ir::Graph& body, const shape::Bindings& symbols, Network& found) {
  if (body.size() != 1) return "needs a body of one node";
  const std::string& target = (*body.forward().begin()).target();
  if (target != "aten::gru.input" && target != "aten::rnn_tanh.input" && target != "aten::rnn_relu.input")
    return target + " is no gru";
  found.gates = target == "aten::gru.input" ? 3 : 1;
  found.activation = target == "aten::rnn_relu.input" ? StepKind::relu : StepKind::tanh;
  return read_recurrent_network(body, symbols, 1, found);
}

class RecurrentCall : public RecurrentLayersCall {
 public:
  Network network;

  // Where the parts of scratch begin, in floats: the gates of all steps, two layers' outputs, bias, two hidden
  // states, the results that nobody reads, and the recurrent weight in panels. Gates, states and panels are of both
  // directions.
  struct Parts {
    int64_t gates, between[2], bias, states[2], unread[2], panels, end;
  };
  Parts parts() const {
    const int64_t output = rows() * directions_ * hidden_, all = network.gates * hidden_;
    Parts at{};
    int64_t next = 0;
    auto take = [&](int64_t floats) { return std::exchange(next, next + divide_up(floats, 16) * 16); };
    at.gates = take(directions_ * rows() * all);
    for (int64_t& place : at.between) place = take(output);
    at.bias = take(all);
    for (int64_t& place : at.states) place = take(directions_ * batch_ * hidden_);
    at.unread[0] = take(output);
    at.unread[1] = take(network.layers * directions_ * batch_ * hidden_);
    at.panels = take(directions_ * panel_floats());
    at.end = next;
    return at;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(parts().end) * 4 + shared_bytes(); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    const Parts at = parts();
    auto* floats = static_cast<float*>(scratch);
    const int64_t all = network.gates * hidden_, state = batch_ * hidden_;
    auto result = [&](size_t i) {
      return network.results[i] < 0 ? floats + at.unread[i]
                                    : static_cast<float*>(buffers[operands_ + network.results[i]]);
    };
    auto operand = [&](int i) { return static_cast<const float*>(buffers[i]); };
    for (int64_t layer = 0; layer < network.layers; ++layer) {
      const void* source = layer == 0 ? buffers[network.x] : floats + at.between[(layer - 1) % 2];
      float* target = layer + 1 == network.layers ? result(0) : floats + at.between[layer % 2];
      LayerOfDirection of[2];
      for (int64_t direction = 0; direction < directions_; ++direction) {
        const int64_t cell = layer * directions_ + direction;
        // What a gate adds to h W is added to x W at once, but for the last of a GRU, which r scales.
        const float *of_x = network.has_biases ? operand(network.parameter(cell, 2)) : nullptr,
                    *of_h = network.has_biases ? operand(network.parameter(cell, 3)) : nullptr;
        const int64_t merged = network.gates == 3 ? 2 * hidden_ : hidden_;
        float* bias = floats + at.bias;
        for (int64_t i = 0; i < all; ++i) bias[i] = of_x ? of_x[i] + (i < merged ? of_h[i] : 0) : 0;
        float* gates = floats + at.gates + direction * rows() * all;
        if (Result<void> ran = multiply_inputs(network, cell, buffers, source, bias, gates, floats + at.end); !ran)
          return ran;

        const float* recurrent = operand(network.parameter(cell, 1));
        float* panels = floats + at.panels + direction * panel_floats();
        of[direction] = {
            .backward = direction == 1,
            .gates = gates,
            .panels = in_panels_[cell] ? recurrent : make_panels(recurrent, panels),
            .parts = unit_parts(direction, floats + at.end),
            .last_bias = of_h ? of_h + merged : nullptr,
            .y = target + direction * hidden_,
            .states = {floats + at.states[0] + direction * state, floats + at.states[1] + direction * state}};
        std::memcpy(of[direction].states[0], operand(network.h) + cell * state, static_cast<size_t>(state) * 4);
        if (amx_) amx_->begin(of[direction].parts, of[direction].panels, of[direction].states[0]);
      }
      run_shares([&](const Share& share, Team* team) {
        for (int64_t step = 0; step < steps_; ++step) {
          for (int64_t tile = share.tile; tile < share.last_tile; ++tile)
            run_tile(of[share.direction], share, tile, step);
          if (team) team->wait();
        }
      });
      for (int64_t direction = 0; direction < directions_; ++direction)
        std::memcpy(result(1) + (layer * directions_ + direction) * state, of[direction].states[steps_ % 2],
                    static_cast<size_t>(state) * 4);
    }
    return {};
  }

 private:
  struct LayerOfDirection {
    bool backward;
    const float *gates, *panels;
    AmxRecurrent::Parts parts;
    const float* last_bias;
    float* y;
    float* states[2];  // a step reads one and writes the other
  };

  // The units of one tile in one step, for the share's entries.
  void run_tile(const LayerOfDirection& of, const Share& share, int64_t tile, int64_t step) const {
    const int64_t t = of.backward ? steps_ - 1 - step : step;
    const float* before = of.states[step % 2];
    float* after = of.states[(step + 1) % 2];
    const int64_t unit = tile * tile_units, units = std::min(tile_units, hidden_ - unit), all = network.gates * hidden_;
    float sums[3 * most_block * tile_units];
    for (int64_t b = share.entry; b < share.last_entry; b += block_) {
      const int64_t count = std::min(block_, share.last_entry - b), row = t * step_row_ + b * batch_row_;
      const int64_t gate_sums = (amx_ ? AmxRecurrent::sum_rows(count) : count) * tile_units;
      const bool by_unit = amx_ && amx_->multiply(of.parts, step, b, count, tile, sums);
      if (!by_unit && count == 1)
        lanes().row_by_panels(before + b * hidden_, hidden_, of.panels + panel_of(tile, 0), network.gates, sums);
      for (int64_t gate = 0; gate < network.gates; ++gate) {
        const Step input{StepKind::add, 0, 0, of.gates + row * all + gate * hidden_ + unit, batch_row_ * all, 1};
        const Step reset{StepKind::multiply, 0, 0, sums, tile_units, 1};
        const Step sigmoid{StepKind::sigmoid, 0, 0, nullptr, 0, 0}, last{network.activation, 0, 0, nullptr, 0, 0};
        const bool is_new_state = gate + 1 == network.gates;
        const Step of_gate[] = {input, sigmoid}, of_state[] = {input, last}, of_reset_state[] = {reset, input, last};
        const bool is_reset = is_new_state && network.gates == 3;
        float* y = sums + gate * gate_sums;
        const PanelTile product = {.a = before + b * hidden_,
                                   .a_row = hidden_,
                                   .rows = count,
                                   .k = hidden_,
                                   .b = of.panels + panel_of(tile, gate),
                                   .columns = units,
                                   .bias = is_reset && of.last_bias ? of.last_bias + unit : nullptr,
                                   .steps = is_reset       ? of_reset_state
                                            : is_new_state ? of_state
                                                           : of_gate,
                                   .step_count = is_reset ? 3 : 2,
                                   .y = y,
                                   .y_row = tile_units,
                                   .scratch = y};
        by_unit || count == 1 ? lanes().finish(product) : lanes().panel(product);
      }
      for (int64_t k = 0; k < count; ++k) {
        const float *state = sums + (network.gates - 1) * gate_sums + k * tile_units,
                    *update = sums + gate_sums + k * tile_units, *h = before + (b + k) * hidden_ + unit;
        float* next = after + (b + k) * hidden_ + unit;
        for (int64_t u = 0; u < units; ++u)
          next[u] = network.gates == 3 ? state[u] + update[u] * (h[u] - state[u]) : state[u];
        std::memcpy(of.y + (row + k * batch_row_) * directions_ * hidden_ + unit, next, static_cast<size_t>(units) * 4);
      }
      if (amx_) amx_->split(of.parts, step, b, count, unit, units, after + b * hidden_ + unit, hidden_);
    }
  }
};

class Recurrent : public Kernel {
 public:
  const char* name() const override { return "recurrent"; }

  bool needs_rows() const override { return true; }

  std::string refusal(const ir::Graph& body) const override {
    Network ignored;
    return read_network(body, {}, ignored);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Network network;
    if (!read_network(*site.body, site.symbols, network).empty()) return std::nullopt;
    return recurrent_weight_layout(network, site, operand);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<RecurrentCall>();
    [[maybe_unused]] std::string refusal = read_network(*site.body, site.symbols, call->network);
    assert(refusal.empty());
    if (Result<void> ready = call->set_up(call->network, call->network.gates, site, name()); !ready)
      return ready.error();
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& recurrent() {
  static const Recurrent kernel;
  return kernel;
}

}  // namespace atenon::kernels
