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

constexpr int64_t dots_rows = 4;    // rows that lanes().dots takes at once
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

  // The recurrent weight in panels, gates of all steps, two layers' outputs, bias, the results that nobody reads and
  // what is to be projected, then what the products need.
  int64_t own_floats() const {
    const int64_t output = rows() * lstm.directions() * width_, states = lstm.cells() * batch_ * (width_ + hidden_),
                  unprojected = lstm.has_projection ? batch_ * hidden_ : 0;
    return made_floats() + rows() * 4 * hidden_ + 2 * output + 4 * hidden_ + output + states + unprojected;
  }
  int64_t made_floats() const { return rows() < enough_rows ? 0 : panel_floats(); }
  size_t scratch_bytes() const override {
    return in_lines(static_cast<size_t>(own_floats()) * sizeof(float)) + product_bytes();
  }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    const int64_t width = lstm.directions() * width_;
    auto* panels = static_cast<float*>(scratch);
    float* gates = panels + made_floats();
    float* between[2] = {gates + rows() * 4 * hidden_, gates + rows() * 4 * hidden_ + rows() * width};
    float* bias = between[1] + rows() * width;
    char* product_scratch = static_cast<char*>(scratch) + scratch_bytes() - product_bytes();
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
      for (int64_t direction = 0; direction < lstm.directions(); ++direction) {
        const int64_t cell = layer * lstm.directions() + direction;
        for (int64_t i = 0; i < 4 * hidden_; ++i)
          bias[i] = lstm.has_biases ? operand(lstm.parameter(cell, 2))[i] + operand(lstm.parameter(cell, 3))[i] : 0;
        if (Result<void> ran = multiply_inputs(lstm, cell, buffers, source, bias, gates, product_scratch); !ran)
          return ran;

        const size_t state_bytes = static_cast<size_t>(batch_ * hidden_) * 4;
        float* c = result(2) + cell * batch_ * hidden_;
        std::memcpy(c, operand(lstm.c) + cell * batch_ * hidden_, state_bytes);
        // The state of a step is its row of y.
        float* y = target + direction * width_;
        const auto state_at = [&](int64_t step) {
          const int64_t t = direction == 0 ? step : steps_ - 1 - step;
          return step < 0 ? State{const_cast<float*>(operand(lstm.h)) + cell * batch_ * width_, width_}
                          : State{y + t * step_row_ * width, batch_row_ * width};
        };
        const float* weight = operand(lstm.parameter(cell, 1));
        const bool makes = !in_panels_[cell] && made_floats() > 0;
        const Recurrent recurrent{makes ? make_panels(weight, panels) : weight, makes || in_panels_[cell]};
        const float* projection = lstm.has_projection ? operand(lstm.parameter(cell, lstm.per_cell() - 1)) : nullptr;
        run_shares([&](const Share& share, Team* team) {
          for (int64_t step = 0; step < steps_; ++step) {
            const int64_t t = direction == 0 ? step : steps_ - 1 - step;
            if (step + 1 < steps_) fetch_inputs(gates, direction == 0 ? t + 1 : t - 1, share);
            for (int64_t i = share.tile; i < share.last_tile; ++i)
              run_tile(share, i, recurrent, gates + t * step_row_ * 4 * hidden_, state_at(step - 1),
                       projection ? State{unprojected, hidden_} : state_at(step), c);
            if (team) team->wait();
            if (!projection) continue;
            project(share, unprojected, projection, state_at(step));
            if (team) team->wait();
          }
        });
        float* shown = result(1) + cell * batch_ * width_;
        const State last = state_at(steps_ - 1);
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

  struct Recurrent {
    const float* weight;
    bool in_panels;
  };

  // The share's part of the state: its entries, and as many columns as it has tiles.
  void project(const Share& share, const float* unprojected, const float* weight, State state) const {
    const int64_t first = width_ * share.tile / tiles(), last = width_ * share.last_tile / tiles();
    for (int64_t b = share.entry; b < share.last_entry; b += dots_rows)
      lanes().dots(unprojected + b * hidden_, hidden_, std::min(dots_rows, share.last_entry - b),
                   weight + first * hidden_, hidden_, last - first, hidden_, state.h + b * state.row + first,
                   state.row);
  }

  // Brings what the share reads of the inputs' products at time step t into the cache, a step ahead.
  void fetch_inputs(const float* gates, int64_t t, const Share& share) const {
    constexpr int64_t line = 16;
    for (int64_t b = share.entry; b < share.last_entry; ++b)
      for (int64_t gate = 0; gate < 4; ++gate) {
        const float* row = gates + ((t * step_row_ + b * batch_row_) * 4 + gate) * hidden_;
        for (int64_t unit = share.tile * tile_units; unit < std::min(share.last_tile * tile_units, hidden_);
             unit += line)
          __builtin_prefetch(row + unit);
      }
  }

  // Units [i * tile_units, (i + 1) * tile_units) of one step, whose inputs give `gates`, for the share's entries.
  void run_tile(const Share& share, int64_t i, const Recurrent& recurrent, const float* gates, State before,
                State after, float* c) const {
    const int64_t unit = i * tile_units, units = std::min(tile_units, hidden_ - unit);
    float sums[4][batch_block * tile_units];
    for (int64_t b = share.entry; b < share.last_entry; b += batch_block) {
      const int64_t count = std::min(batch_block, share.last_entry - b);
      const float* h = before.h + b * before.row;
      for (int64_t gate = 0; gate < 4; ++gate) {
        if (recurrent.in_panels) {
          lanes().panel({.a = h,
                         .a_row = before.row,
                         .rows = count,
                         .k = width_,
                         .b = recurrent.weight + panel_of(i, gate),
                         .columns = units,
                         .y = sums[gate],
                         .y_row = tile_units,
                         .scratch = sums[gate]});
          continue;
        }
        for (int64_t k = 0; k < count; k += dots_rows)
          lanes().dots(h + k * before.row, before.row, std::min(dots_rows, count - k),
                       recurrent.weight + (gate * hidden_ + unit) * width_, width_, units, width_,
                       sums[gate] + k * tile_units, tile_units);
      }
      for (int64_t k = 0; k < count; ++k) {
        const float *row = gates + (b + k) * batch_row_ * 4 * hidden_ + unit, *of_input[4], *of_state[4];
        for (int64_t gate = 0; gate < 4; ++gate) {
          of_input[gate] = row + gate * hidden_;
          of_state[gate] = sums[gate] + k * tile_units;
        }
        lanes().lstm_cell(of_input, of_state, c + (b + k) * hidden_ + unit, after.h + (b + k) * after.row + unit,
                          units);
      }
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
