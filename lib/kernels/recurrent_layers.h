// What the kernels of recurrent layers share: how a call is read, where its weights lie, and the product of a layer's
// inputs of all steps with its input weights.
#pragma once

#include "kernels/amx_recurrent.h"
#include "kernels/kernel.h"
#include "kernels/lanes.h"
#include "support/parallel.h"

namespace atenon::kernels {

constexpr int64_t tile_units = panel_columns;
constexpr int64_t most_block = 32;  // entries of the batch whose gates a tile holds at once

// A network as aten::lstm.input, gru.input, rnn_tanh.input and rnn_relu.input keep it whole; inputs of the body by
// position.
struct RecurrentNetwork {
  int x = -1, h = -1, c = -1;  // c: of an lstm
  // Per layer and direction: input weight, recurrent weight, two biases if any, and an lstm's projection if any.
  std::vector<int> parameters;
  bool has_biases = true, has_projection = false, bidirectional = false, batch_first = false;
  int64_t layers = 1;
  int results[3] = {-1, -1, -1};  // where the call wants y, h and c; -1: nobody reads it

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t cells() const { return layers * directions(); }
  int64_t per_cell() const { return (has_biases ? 4 : 2) + (has_projection ? 1 : 0); }
  int parameter(int64_t cell, int64_t which) const { return parameters[cell * per_cell() + which]; }
};

// Reads the one node of `body`; "" or the reason why these kernels do not take it. Two states: hx is a list of h and c.
std::string read_recurrent_network(const ir::Graph& body, const shape::Bindings& symbols, int states,
                                   RecurrentNetwork& found);

// Panels for the input weights, and for recurrent weights whose gates consist of whole panels.
std::optional<ir::BlockedLayout> recurrent_weight_layout(const RecurrentNetwork& network, const CallSite& site,
                                                         size_t operand);

class RecurrentLayersCall : public PreparedCall {
 public:
  // Prepares the product of each layer and direction for a network of `gates` gates; `name` is the kernel's, for E0613.
  Result<void> set_up(const RecurrentNetwork& network, int64_t gates, const CallSite& site, const char* name);

 protected:
  // What one member of a team does of a layer's direction: some entries of the batch, and some tiles of units.
  struct Share {
    int64_t direction, entry, last_entry, tile, last_tile;
  };

  int64_t rows() const { return steps_ * batch_; }
  int64_t tiles() const { return divide_up(hidden_, tile_units); }
  // Calls `run` for each share of a layer: alone, where `team` is null, or all of them wait for their team after each
  // step, one direction after the other.
  void run_shares(FunctionRef<const Share&, Team*> run) const;
  // The recurrent weight of one cell in panels, made anew in `panels`, which has room for whole ones.
  const float* make_panels(const float* weight, float* panels) const;
  int64_t panel_floats() const { return gates_ * tiles() * tile_units * width_; }
  // Where the panel of a gate for the units of a tile begins in a recurrent weight that lies in panels.
  int64_t panel_of(int64_t tile, int64_t gate) const { return (tile * gates_ + gate) * panel_columns * width_; }
  // What the input products and the matrix unit need, in whole lines.
  size_t shared_bytes() const { return product_bytes() + static_cast<size_t>(directions_) * unit_bytes(); }
  AmxRecurrent::Parts unit_parts(int64_t direction, void* shared) const {
    return amx_ ? amx_->parts(static_cast<char*>(shared) + product_bytes() + direction * unit_bytes())
                : AmxRecurrent::Parts{};
  }
  // gates of all steps := x * input weight + bias; `shared` has shared_bytes().
  Result<void> multiply_inputs(const RecurrentNetwork& network, int64_t cell, std::span<void* const> buffers,
                               const void* x, float* bias, float* gates, void* shared) const;

  size_t operands_ = 0;
  int64_t gates_ = 0, directions_ = 0;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0;
  int64_t width_ = 0;                     // of a state h: as many as hidden units, or what they are projected to
  int64_t step_row_ = 0, batch_row_ = 0;  // distance of time steps and of batch entries, in rows of x and y
  int64_t block_ = 0;                     // entries of the batch that a tile has at once
  std::vector<bool> in_panels_;           // the recurrent weight, per layer and direction
  std::optional<AmxRecurrent> amx_;       // if the recurrent products go through the matrix unit

 private:
  void cut_batch(bool by_unit);
  size_t product_bytes() const;
  size_t unit_bytes() const { return amx_ ? amx_->bytes() : 0; }

  int64_t alone_ = 0;  // entries of a share that goes through all steps alone; 0: there is none
  std::vector<std::unique_ptr<PreparedCall>> products_;  // per layer and direction
  std::vector<ir::Graph> bodies_;                        // of the products, which read them
  std::vector<std::unique_ptr<ir::Weight>> packed_;      // weights in the layout of the product, if they lay otherwise
};

}  // namespace atenon::kernels
