// LSTM layers as aten::lstm.input keeps them whole.
//
// For each layer and direction the inputs of all time steps go through the input weights at once, as one product; what
// is left to each step is the recurrent product and the cell, cut into tiles of units that stay in a core's cache.
#include <cstring>

#include "kernels/body.h"
#include "kernels/input_product.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t tile_units = panel_columns;
constexpr int64_t batch_block = 24;              // rows whose gates a tile holds at once
constexpr int64_t dots_rows = 4;                 // rows that lanes().dots takes at once
constexpr int64_t serial_products = 128 * 1024;  // a step with fewer is not worth a second thread

struct Lstm {
  int x = -1, h = -1, c = -1;
  std::vector<int> parameters;  // per layer and direction: input weight, recurrent weight, and two biases if any
  bool has_biases = true, bidirectional = false, batch_first = false;
  int64_t layers = 1;
  int results[3] = {-1, -1, -1};  // where the call wants y, h and c; -1: nobody reads it

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t per_cell() const { return has_biases ? 4 : 2; }
  int parameter(int64_t cell, int64_t which) const { return parameters[cell * per_cell() + which]; }
};

std::string read_lstm(const ir::Graph& body, const shape::Bindings& symbols, Lstm& found) {
  if (body.size() != 1) return "needs a body of one node";
  const ir::Node& node = *body.forward().begin();
  if (node.target() != "aten::lstm.input") return node.target() + " is no lstm";
  Arguments arguments(node, symbols);
  auto input_of = [](const ir::Argument& argument) {
    const ir::Value* value = argument.value();
    return value && !value->producer && value->is_tensor() && value->meta().dtype == ScalarType::f32 ? value->index
                                                                                                     : -1;
  };
  const ir::Argument *x = arguments.find(0, "input"), *hx = arguments.find(1, "hx"),
                     *parameters = arguments.find(2, "params");
  if (!x || !hx || !parameters || !hx->is<ir::ArgumentList>() || !parameters->is<ir::ArgumentList>() ||
      hx->get<ir::ArgumentList>().size() != 2)
    return "an operand is missing";
  found.x = input_of(*x);
  found.h = input_of(hx->get<ir::ArgumentList>()[0]);
  found.c = input_of(hx->get<ir::ArgumentList>()[1]);
  for (const ir::Argument& parameter : parameters->get<ir::ArgumentList>())
    found.parameters.push_back(input_of(parameter));
  auto biases = arguments.boolean(3, "has_biases", true), train = arguments.boolean(6, "train", false);
  auto bidirectional = arguments.boolean(7, "bidirectional", false),
       batch_first = arguments.boolean(8, "batch_first", false);
  auto layers = arguments.integer(4, "num_layers", 1);
  auto dropout = arguments.number(5, "dropout", 0);
  if (!biases || !train || !bidirectional || !batch_first || !layers || !dropout) return "an argument is symbolic";
  if (*train && *dropout != 0) return "dropout";
  found.has_biases = *biases;
  found.bidirectional = *bidirectional;
  found.batch_first = *batch_first;
  found.layers = *layers;
  if (static_cast<int64_t>(found.parameters.size()) != found.layers * found.directions() * found.per_cell())
    return "a projection";
  if (found.x < 0 || found.h < 0 || found.c < 0) return "an operand is not an f32 input";
  for (int parameter : found.parameters)
    if (parameter < 0) return "an operand is not an f32 input";
  if (body.inputs()[found.x]->meta().rank() != 3) return "needs a batch axis";
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const ir::Value* value = body.outputs()[i].value();
    if (!value || value->producer != &node) return "an output is not the lstm's";
    found.results[value->index] = static_cast<int>(i);
  }
  return "";
}

class LstmCall : public PreparedCall {
 public:
  Lstm lstm;
  size_t operands = 0;
  int64_t steps = 0, batch = 0, hidden = 0;
  int64_t step_row = 0, batch_row = 0;  // distance of time steps and of batch entries, in rows of x and y
  std::vector<std::unique_ptr<PreparedCall>> products;  // per layer and direction
  std::vector<ir::Graph> bodies;
  std::vector<std::unique_ptr<ir::Weight>> packed;
  std::vector<bool> in_panels;  // the recurrent weight, per layer and direction

  int64_t rows() const { return steps * batch; }
  size_t product_bytes() const {
    size_t most = 0;
    for (const auto& product : products) most = std::max(most, product->scratch_bytes());
    return (most + 63) / 64 * 64;
  }
  // Gates of all steps, two layers' outputs, bias, two hidden states and the results that nobody reads, then what the
  // products need.
  int64_t own_floats() const {
    const int64_t output = rows() * lstm.directions() * hidden,
                  states = lstm.layers * lstm.directions() * batch * hidden;
    return rows() * 4 * hidden + 2 * output + 4 * hidden + 2 * batch * hidden + output + 2 * states;
  }
  size_t scratch_bytes() const override {
    return (static_cast<size_t>(own_floats()) * 4 + 63) / 64 * 64 + product_bytes();
  }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    const int64_t width = lstm.directions() * hidden;
    auto* gates = static_cast<float*>(scratch);
    float* between[2] = {gates + rows() * 4 * hidden, gates + rows() * 4 * hidden + rows() * width};
    float* bias = between[1] + rows() * width;
    float* states[2] = {bias + 4 * hidden, bias + 4 * hidden + batch * hidden};
    char* product_scratch = static_cast<char*>(scratch) + scratch_bytes() - product_bytes();
    float* unread[3] = {states[1] + batch * hidden, nullptr, nullptr};
    unread[1] = unread[0] + rows() * width;
    unread[2] = unread[1] + lstm.layers * lstm.directions() * batch * hidden;
    auto result = [&](size_t i) {
      return lstm.results[i] < 0 ? unread[i] : static_cast<float*>(buffers[operands + lstm.results[i]]);
    };
    auto operand = [&](int i) { return static_cast<const float*>(buffers[i]); };

    for (int64_t layer = 0; layer < lstm.layers; ++layer) {
      const void* source = layer == 0 ? buffers[lstm.x] : between[(layer - 1) % 2];
      float* target = layer + 1 == lstm.layers ? result(0) : between[layer % 2];
      for (int64_t direction = 0; direction < lstm.directions(); ++direction) {
        const int64_t cell = layer * lstm.directions() + direction;
        for (int64_t i = 0; i < 4 * hidden; ++i)
          bias[i] = lstm.has_biases ? operand(lstm.parameter(cell, 2))[i] + operand(lstm.parameter(cell, 3))[i] : 0;
        const void* weight = packed[cell] ? packed[cell]->tensor.data() : buffers[lstm.parameter(cell, 0)];
        void* const inner[] = {const_cast<void*>(source), const_cast<void*>(weight), bias, gates};
        if (Result<void> ran = products[cell]->run(inner, product_scratch); !ran) return ran;

        const size_t state_bytes = static_cast<size_t>(batch * hidden) * 4;
        float* c = result(2) + cell * batch * hidden;
        std::memcpy(states[0], operand(lstm.h) + cell * batch * hidden, state_bytes);
        std::memcpy(c, operand(lstm.c) + cell * batch * hidden, state_bytes);
        // A member keeps its units through all steps, so that their weights stay in its core's cache.
        const bool alone = 4 * hidden * hidden * batch < serial_products;
        run_team(alone ? 1 : static_cast<int>(tiles()), [&](Team& team, int member) {
          const int64_t first = tiles() * member / team.members(), last = tiles() * (member + 1) / team.members();
          for (int64_t step = 0; step < steps; ++step) {
            const int64_t t = direction == 0 ? step : steps - 1 - step;
            for (int64_t i = first; i < last; ++i)
              run_tile(cell, i, operand(lstm.parameter(cell, 1)), gates, t, states[step % 2], states[(step + 1) % 2], c,
                       target + direction * hidden, width);
            team.wait();
          }
        });
        std::memcpy(result(1) + cell * batch * hidden, states[steps % 2], state_bytes);
      }
    }
    return {};
  }

 private:
  int64_t tiles() const { return (hidden + tile_units - 1) / tile_units; }

  // Units [i * tile_units, (i + 1) * tile_units) of one step.
  void run_tile(int64_t cell, int64_t i, const float* weight, const float* gates, int64_t t, const float* before,
                float* after, float* c, float* y, int64_t y_row) const {
    const int64_t unit = i * tile_units, units = std::min(tile_units, hidden - unit);
    float sums[4][batch_block * tile_units];
    for (int64_t b = 0; b < batch; b += batch_block) {
      const int64_t count = std::min(batch_block, batch - b), row = t * step_row + b * batch_row;
      const float* h = before + b * hidden;
      for (int64_t gate = 0; gate < 4; ++gate) {
        const int64_t column = gate * hidden + unit;
        const Step input{StepKind::add, 0, 0, gates + row * 4 * hidden + column, batch_row * 4 * hidden, 1};
        if (in_panels[cell]) {
          lanes().panel({.a = h,
                         .a_row = hidden,
                         .rows = count,
                         .k = hidden,
                         .b = weight + column * hidden,
                         .columns = units,
                         .steps = &input,
                         .step_count = 1,
                         .y = sums[gate],
                         .y_row = tile_units,
                         .scratch = sums[gate]});
          continue;
        }
        for (int64_t k = 0; k < count; k += dots_rows)
          lanes().dots(h + k * hidden, hidden, std::min(dots_rows, count - k), weight + column * hidden, hidden, units,
                       hidden, sums[gate] + k * tile_units, tile_units);
        for (int64_t k = 0; k < count; ++k)
          for (int64_t u = 0; u < units; ++u) sums[gate][k * tile_units + u] += input.operand[k * input.row + u];
      }
      for (int64_t k = 0; k < count; ++k) {
        const int64_t place = (b + k) * hidden + unit, from = k * tile_units;
        lanes().lstm_cell(sums[0] + from, sums[1] + from, sums[2] + from, sums[3] + from, c + place, after + place,
                          units);
        std::memcpy(y + (row + k * batch_row) * y_row + unit, after + place, static_cast<size_t>(units) * 4);
      }
    }
  }
};

class LstmKernel : public Kernel {
 public:
  const char* name() const override { return "lstm"; }

  std::string refusal(const ir::Graph& body) const override {
    Lstm ignored;
    return read_lstm(body, {}, ignored);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Lstm lstm;
    if (!read_lstm(*site.body, site.symbols, lstm).empty()) return std::nullopt;
    const std::vector<int64_t>& sizes = site.operands[operand].sizes;
    for (int64_t cell = 0; cell < lstm.layers * lstm.directions(); ++cell) {
      const bool is_input = lstm.parameter(cell, 0) == static_cast<int>(operand);
      const bool is_recurrent = lstm.parameter(cell, 1) == static_cast<int>(operand);
      // A gate of a tile is one panel, where panels begin with gates.
      if (is_input || (is_recurrent && sizes[1] % panel_columns == 0)) return panel_layout(sizes, {1, 0});
    }
    return std::nullopt;
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<LstmCall>();
    [[maybe_unused]] std::string refusal = read_lstm(*site.body, site.symbols, call->lstm);
    assert(refusal.empty());
    const Lstm& lstm = call->lstm;
    for (const auto* list : {&site.operands, &site.results})
      for (const Operand& operand : *list)
        if (operand.strides != contiguous_strides(operand.sizes))
          return error(Status::unsupported, 613, "lstm: an operand or result does not lie row by row");
    const std::vector<int64_t>& x = site.operands[lstm.x].sizes;
    call->operands = site.operands.size();
    call->batch = x[lstm.batch_first ? 0 : 1];
    call->steps = x[lstm.batch_first ? 1 : 0];
    call->hidden = site.operands[lstm.h].sizes[2];
    call->step_row = lstm.batch_first ? 1 : call->batch;
    call->batch_row = lstm.batch_first ? call->steps : 1;
    const int64_t cells = lstm.layers * lstm.directions();
    call->bodies.resize(cells);
    for (int64_t cell = 0; cell < cells; ++cell) {
      const Operand &weight = site.operands[lstm.parameter(cell, 0)],
                    &recurrent = site.operands[lstm.parameter(cell, 1)];
      call->in_panels.push_back(recurrent.weight && recurrent.weight->layout);
      if (call->in_panels[cell] && (recurrent.sizes[1] % panel_columns != 0 ||
                                    *recurrent.weight->layout != panel_layout(recurrent.sizes, {1, 0})))
        return error(Status::unsupported, 613, "lstm: a recurrent weight lies in a layout that is not known");
      InputProduct product = prepare_input_product(weight, call->rows(), site.threads, call->bodies[cell]);
      if (!product.call) return product.call.error();
      if (product.packed) call->note = weight.weight->name + " repacked at load";
      call->flops += (*product.call)->flops + 8.0 * static_cast<double>(call->rows() * call->hidden * call->hidden);
      call->bytes += (*product.call)->bytes + 16.0 * static_cast<double>(call->hidden * call->hidden);
      call->products.push_back(std::move(*product.call));
      call->packed.push_back(std::move(product.packed));
    }
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& lstm() {
  static const LstmKernel kernel;
  return kernel;
}

}  // namespace atenon::kernels
