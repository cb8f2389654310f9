// LSTM layers as aten::lstm.input keeps them whole.
//
// For each layer and direction the inputs of all time steps go through the input weights at once, as one product; what
// is left to each step is the recurrent product and the cell, cut into tiles of units that stay in a core's cache. With
// a projection the cells' outputs are multiplied once more before they are the state.
#include <cassert>
#include <cstring>

#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/recurrent_layers.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t line = 16;        // floats
constexpr int64_t enough_rows = 8;  // products with a recurrent weight that pay for its panels

std::string read_lstm(const ir::Graph& body, const shape::Bindings& symbols, RecurrentNetwork& found) {
  if (body.size() != 1) return "needs a body of one node";
  const std::string& target = (*body.forward().begin()).target();
  if (target != "aten::lstm.input") return target + " is no lstm";
  return read_recurrent_network(body, symbols, 2, found);
}

class LstmCall : public RecurrentLayersCall {
 public:
  RecurrentNetwork lstm;

  // Of both directions the recurrent weight in panels and the gates of all steps; two layers' outputs, bias, the
  // results that nobody reads and what is to be projected, then what the products need.
  int64_t own_floats() const {
    const int64_t output = rows() * directions_ * width_, states = lstm.cells() * batch_ * (width_ + hidden_);
    return directions_ * (made_floats() + gate_floats() + unprojected_floats()) + 3 * output + 4 * hidden_ + states;
  }
  int64_t made_floats() const { return rows() < enough_rows ? 0 : panel_floats(); }
  int64_t gate_floats() const { return rows() * 4 * hidden_; }
  int64_t unprojected_floats() const { return lstm.has_projection ? batch_ * hidden_ : 0; }
  size_t scratch_bytes() const override {
    return in_lines(static_cast<size_t>(own_floats()) * sizeof(float)) + shared_bytes();
  }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    const int64_t width = directions_ * width_;
    auto* panels = static_cast<float*>(scratch);
    float* gates = panels + directions_ * made_floats();
    float* between[2] = {gates + directions_ * gate_floats(), gates + directions_ * gate_floats() + rows() * width};
    float* bias = between[1] + rows() * width;
    char* const shared = static_cast<char*>(scratch) + scratch_bytes() - shared_bytes();
    float* unread[3] = {bias + 4 * hidden_, nullptr, nullptr};
    unread[1] = unread[0] + rows() * width;
    unread[2] = unread[1] + lstm.cells() * batch_ * width_;
    float* const unprojected = unread[2] + lstm.cells() * batch_ * hidden_;
    auto result = [&](size_t i) {
      return lstm.results[i] < 0 ? unread[i] : static_cast<float*>(buffers[operands_ + lstm.results[i]]);
    };
    auto operand = [&](int i) { return static_cast<const float*>(buffers[i]); };

    for (int64_t layer = 0; layer < lstm.layers; ++layer) {
      const void* source = layer == 0 ? buffers[lstm.x] : between[(layer - 1) % 2];
      float* target = layer + 1 == lstm.layers ? result(0) : between[layer % 2];
      LayerOfDirection of[2];
      for (int64_t direction = 0; direction < directions_; ++direction) {
        const int64_t cell = layer * directions_ + direction;
        for (int64_t i = 0; i < 4 * hidden_; ++i)
          bias[i] = lstm.has_biases ? operand(lstm.parameter(cell, 2))[i] + operand(lstm.parameter(cell, 3))[i] : 0;
        float* own_gates = gates + direction * gate_floats();
        if (Result<void> ran = multiply_inputs(lstm, cell, buffers, source, bias, own_gates, shared); !ran) return ran;
        const float* weight = operand(lstm.parameter(cell, 1));
        const bool makes = !in_panels_[cell] && made_floats() > 0;
        of[direction] = {
            .backward = direction == 1,
            .in_panels = makes || in_panels_[cell],
            .recurrent = makes ? make_panels(weight, panels + direction * made_floats()) : weight,
            .gates = own_gates,
            .parts = unit_parts(direction, shared),
            .projection = lstm.has_projection ? operand(lstm.parameter(cell, lstm.per_cell() - 1)) : nullptr,
            .unprojected = {unprojected + direction * unprojected_floats(), hidden_},
            .first = {const_cast<float*>(operand(lstm.h)) + cell * batch_ * width_, width_},
            .y = target + direction * width_,
            .c = result(2) + cell * batch_ * hidden_};
        std::memcpy(of[direction].c, operand(lstm.c) + cell * batch_ * hidden_,
                    static_cast<size_t>(batch_ * hidden_) * 4);
        if (amx_) amx_->begin(of[direction].parts, of[direction].recurrent, of[direction].first.h);
      }
      run_shares([&](const Share& share, Team* team) { run_steps(of[share.direction], share, team); });
      for (int64_t direction = 0; direction < directions_; ++direction) {
        float* shown = result(1) + (layer * directions_ + direction) * batch_ * width_;
        const State last = state_at(of[direction], steps_ - 1);
        for (int64_t b = 0; b < batch_; ++b)
          std::memcpy(shown + b * width_, last.h + b * last.row, static_cast<size_t>(width_) * 4);
      }
    }
    return {};
  }

 private:
  // Hidden state: an entry of the batch every `row` floats.
  struct State {
    float* h;
    int64_t row;
  };

  struct LayerOfDirection {
    bool backward, in_panels;
    const float *recurrent, *gates;
    AmxRecurrent::Parts parts;
    const float* projection;  // null if there is none
    State unprojected, first;
    float *y, *c;
  };

  // The state after a step is its row of y.
  State state_at(const LayerOfDirection& of, int64_t step) const {
    const int64_t row = directions_ * width_;
    return step < 0 ? of.first : State{of.y + time(of, step) * step_row_ * row, batch_row_ * row};
  }
  int64_t time(const LayerOfDirection& of, int64_t step) const { return of.backward ? steps_ - 1 - step : step; }

  // Steps go over the weights forward and backward in turn: where they fill a core's cache, what was read last is still
  // there.
  void run_steps(const LayerOfDirection& of, const Share& share, Team* team) const {
    for (int64_t step = 0; step < steps_; ++step) {
      const State after = of.projection ? of.unprojected : state_at(of, step);
      for (int64_t i = share.tile; i < share.last_tile; ++i)
        run_tile(of, share, step % 2 == 0 ? i : share.tile + share.last_tile - 1 - i, step, after);
      if (team) team->wait();
      if (!of.projection) continue;
      project(share, of.unprojected.h, of.projection, state_at(of, step));
      if (team) team->wait();
    }
  }

  // The share's part of the state: its entries, and as many columns as it has tiles.
  void project(const Share& share, const float* unprojected, const float* weight, State state) const {
    const int64_t first = width_ * share.tile / tiles(), last = width_ * share.last_tile / tiles();
    lanes().dots(unprojected + share.entry * hidden_, hidden_, share.last_entry - share.entry, weight + first * hidden_,
                 hidden_, last - first, hidden_, state.h + share.entry * state.row + first, state.row, false);
  }

  // Units [i * tile_units, (i + 1) * tile_units) of one step for the share's entries.
  void run_tile(const LayerOfDirection& of, const Share& share, int64_t i, int64_t step, State after) const {
    const State before = state_at(of, step - 1);
    const float* gates = of.gates + time(of, step) * step_row_ * 4 * hidden_;
    const int64_t unit = i * tile_units, units = std::min(tile_units, hidden_ - unit);
    float sums[4 * most_block * tile_units];
    for (int64_t b = share.entry; b < share.last_entry; b += block_) {
      const int64_t count = std::min(block_, share.last_entry - b);
      const int64_t gate_sums = (amx_ ? AmxRecurrent::sum_rows(count) : count) * tile_units;
      const float* h = before.h + b * before.row;
      // What the cells read of the inputs' products comes meanwhile.
      for (int64_t k = 0; k < count; ++k)
        for (int64_t gate = 0; gate < 4; ++gate) {
          const float* row = gates + ((b + k) * batch_row_ * 4 + gate) * hidden_ + unit;
          for (int64_t u = 0; u < units; u += line) __builtin_prefetch(row + u);
        }
      const bool by_unit = amx_ && amx_->multiply(of.parts, step, b, count, i, sums);
      if (!by_unit && of.in_panels && count == 1) {
        lanes().row_by_panels(h, width_, of.recurrent + panel_of(i, 0), 4, sums);
      } else if (!by_unit) {
        for (int64_t g = 0; g < 4; ++g) {
          const int64_t gate = step % 2 == 0 ? g : 3 - g;
          float* y = sums + gate * gate_sums;
          if (of.in_panels)
            lanes().panel({.a = h,
                           .a_row = before.row,
                           .rows = count,
                           .k = width_,
                           .b = of.recurrent + panel_of(i, gate),
                           .columns = units,
                           .y = y,
                           .y_row = tile_units,
                           .scratch = y});
          else
            lanes().dots(h, before.row, count, of.recurrent + (gate * hidden_ + unit) * width_, width_, units, width_,
                         y, tile_units, false);
        }
      }
      for (int64_t k = 0; k < count; ++k) {
        const float *row = gates + (b + k) * batch_row_ * 4 * hidden_ + unit, *of_input[4], *of_state[4];
        for (int64_t gate = 0; gate < 4; ++gate) {
          of_input[gate] = row + gate * hidden_;
          of_state[gate] = sums + gate * gate_sums + k * tile_units;
        }
        lanes().lstm_cell(of_input, of_state, of.c + (b + k) * hidden_ + unit, after.h + (b + k) * after.row + unit,
                          units);
      }
      if (amx_) amx_->split(of.parts, step, b, count, unit, units, after.h + b * after.row + unit, after.row);
    }
  }
};

class LstmKernel : public Kernel {
 public:
  const char* name() const override { return "lstm"; }

  bool needs_rows() const override { return true; }

  std::string refusal(const ir::Graph& body) const override {
    RecurrentNetwork ignored;
    return read_lstm(body, {}, ignored);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    RecurrentNetwork lstm;
    if (!read_lstm(*site.body, site.symbols, lstm).empty()) return std::nullopt;
    return recurrent_weight_layout(lstm, site, operand);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<LstmCall>();
    [[maybe_unused]] std::string refusal = read_lstm(*site.body, site.symbols, call->lstm);
    assert(refusal.empty());
    if (Result<void> ready = call->set_up(call->lstm, 4, site, name()); !ready) return ready.error();
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& lstm() {
  static const LstmKernel kernel;
  return kernel;
}

}  // namespace atenon::kernels
