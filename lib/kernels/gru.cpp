// GRU and plain recurrent layers, as aten::gru.input, rnn_tanh.input and rnn_relu.input keep them whole.
//
// As in lstm.cpp the inputs of all time steps go through the input weights at once; a step is the recurrent product,
// cut into tiles of units. A gate is one panel whose epilogue does the rest: r and z are sigmoid(x + h W), the new
// state's part is tanh(x + r * (h W + b)), and the step ends with h := n + z * (h - n).
#include "kernels/input_product.h"

#include <cstring>

#include "kernels/body.h"
#include "kernels/list.h"
#include "kernels/product.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t tile_units = panel_columns;
constexpr int64_t batch_block = 24;              // rows whose gates a tile holds at once
constexpr int64_t serial_products = 128 * 1024;  // a step with fewer is not worth a second thread

struct Network {
  int x = -1, h = -1;
  std::vector<int> parameters;  // per layer and direction: input weight, recurrent weight, and two biases if any
  bool has_biases = true, bidirectional = false, batch_first = false;
  int64_t layers = 1, gates = 3;
  StepKind activation = StepKind::tanh;  // of a network of one gate
  int results[2] = {-1, -1};             // where the call wants y and h; -1: nobody reads it

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t per_cell() const { return has_biases ? 4 : 2; }
  int parameter(int64_t cell, int64_t which) const { return parameters[cell * per_cell() + which]; }
};

std::string read_network(const ir::Graph& body, const shape::Bindings& symbols, Network& found) {
  if (body.size() != 1) return "needs a body of one node";
  const ir::Node& node = *body.forward().begin();
  const std::string& target = node.target();
  if (target != "aten::gru.input" && target != "aten::rnn_tanh.input" && target != "aten::rnn_relu.input")
    return target + " is no gru";
  found.gates = target == "aten::gru.input" ? 3 : 1;
  found.activation = target == "aten::rnn_relu.input" ? StepKind::relu : StepKind::tanh;
  Arguments arguments(node, symbols);
  auto input_of = [](const ir::Argument& argument) {
    const ir::Value* value = argument.value();
    return value && !value->producer && value->is_tensor() && value->meta().dtype == ScalarType::f32 ? value->index
                                                                                                     : -1;
  };
  const ir::Argument *x = arguments.find(0, "input"), *h = arguments.find(1, "hx"),
                     *parameters = arguments.find(2, "params");
  if (!x || !h || !parameters || !parameters->is<ir::ArgumentList>()) return "an operand is missing";
  found.x = input_of(*x);
  found.h = input_of(*h);
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
    return "a number of parameters that is not known";
  if (found.x < 0 || found.h < 0) return "an operand is not an f32 input";
  for (int parameter : found.parameters)
    if (parameter < 0) return "an operand is not an f32 input";
  if (body.inputs()[found.x]->meta().rank() != 3) return "needs a batch axis";
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const ir::Value* value = body.outputs()[i].value();
    if (!value || value->producer != &node) return "an output is not the network's";
    found.results[value->index] = static_cast<int>(i);
  }
  return "";
}

class RecurrentCall : public PreparedCall {
 public:
  Network network;
  size_t operands = 0;
  int64_t steps = 0, batch = 0, hidden = 0;
  int64_t step_row = 0, batch_row = 0;  // distance of time steps and of batch entries, in rows of x and y
  std::vector<std::unique_ptr<PreparedCall>> products;  // per layer and direction
  std::vector<ir::Graph> bodies;
  std::vector<std::unique_ptr<ir::Weight>> packed;
  std::vector<bool> in_panels;  // the recurrent weight, per layer and direction

  int64_t rows() const { return steps * batch; }
  int64_t tiles() const { return (hidden + tile_units - 1) / tile_units; }
  size_t product_bytes() const {
    size_t most = 0;
    for (const auto& product : products) most = std::max(most, product->scratch_bytes());
    return (most + 63) / 64 * 64;
  }
  // Where the parts of scratch begin, in floats: the gates of all steps, two layers' outputs, bias, two hidden states,
  // the results that nobody reads, and the recurrent weight in panels.
  struct Parts {
    int64_t gates, between[2], bias, states[2], unread[2], panels, end;
  };
  Parts parts() const {
    const int64_t output = rows() * network.directions() * hidden, all = network.gates * hidden;
    Parts at{};
    int64_t next = 0;
    auto take = [&](int64_t floats) { return std::exchange(next, next + (floats + 15) / 16 * 16); };
    at.gates = take(rows() * all);
    for (int64_t& place : at.between) place = take(output);
    at.bias = take(all);
    for (int64_t& place : at.states) place = take(batch * hidden);
    at.unread[0] = take(output);
    at.unread[1] = take(network.layers * network.directions() * batch * hidden);
    at.panels = take(network.gates * tiles() * tile_units * hidden);
    at.end = next;
    return at;
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(parts().end) * 4 + product_bytes(); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    const Parts at = parts();
    auto* floats = static_cast<float*>(scratch);
    const int64_t width = network.directions() * hidden, all = network.gates * hidden;
    auto result = [&](size_t i) {
      return network.results[i] < 0 ? floats + at.unread[i]
                                    : static_cast<float*>(buffers[operands + network.results[i]]);
    };
    auto operand = [&](int i) { return static_cast<const float*>(buffers[i]); };
    for (int64_t layer = 0; layer < network.layers; ++layer) {
      const void* source = layer == 0 ? buffers[network.x] : floats + at.between[(layer - 1) % 2];
      float* target = layer + 1 == network.layers ? result(0) : floats + at.between[layer % 2];
      for (int64_t direction = 0; direction < network.directions(); ++direction) {
        const int64_t cell = layer * network.directions() + direction;
        // What a gate adds to h W is added to x W at once, but for the last of a GRU, which r scales.
        const float *of_x = network.has_biases ? operand(network.parameter(cell, 2)) : nullptr,
                    *of_h = network.has_biases ? operand(network.parameter(cell, 3)) : nullptr;
        const int64_t merged = network.gates == 3 ? 2 * hidden : hidden;
        float* bias = floats + at.bias;
        for (int64_t i = 0; i < all; ++i) bias[i] = of_x ? of_x[i] + (i < merged ? of_h[i] : 0) : 0;
        const void* weight = packed[cell] ? packed[cell]->tensor.data() : buffers[network.parameter(cell, 0)];
        void* const inner[] = {const_cast<void*>(source), const_cast<void*>(weight), bias, floats + at.gates};
        if (Result<void> ran = products[cell]->run(inner, floats + at.end); !ran) return ran;

        StepOfCell step{cell, floats + at.gates, nullptr, of_h ? of_h + merged : nullptr, target + direction * hidden,
                        width};
        const float* recurrent = operand(network.parameter(cell, 1));
        step.panels = in_panels[cell] ? recurrent : make_panels(recurrent, floats + at.panels);
        float* states[2] = {floats + at.states[0], floats + at.states[1]};
        const size_t state_bytes = static_cast<size_t>(batch * hidden) * 4;
        std::memcpy(states[0], operand(network.h) + cell * batch * hidden, state_bytes);
        const bool alone = all * hidden * batch < serial_products;
        run_team(alone ? 1 : static_cast<int>(tiles()), [&](Team& team, int member) {
          const int64_t first = tiles() * member / team.members(), last = tiles() * (member + 1) / team.members();
          for (int64_t i = 0; i < steps; ++i) {
            const int64_t t = direction == 0 ? i : steps - 1 - i;
            for (int64_t tile = first; tile < last; ++tile) run_tile(step, tile, t, states[i % 2], states[(i + 1) % 2]);
            team.wait();
          }
        });
        std::memcpy(result(1) + cell * batch * hidden, states[steps % 2], state_bytes);
      }
    }
    return {};
  }

 private:
  struct StepOfCell {
    int64_t cell;
    const float *gates, *panels, *last_bias;
    float* y;
    int64_t y_row;
  };

  // A panel a tile of each gate.
  const float* make_panels(const float* weight, float* panels) const {
    for (int64_t gate = 0; gate < network.gates; ++gate)
      for (int64_t tile = 0; tile < tiles(); ++tile)
        lanes().make_panel(weight + (gate * hidden + tile * tile_units) * hidden, hidden, hidden,
                           std::min(tile_units, hidden - tile * tile_units),
                           panels + (gate * tiles() + tile) * tile_units * hidden);
    return panels;
  }

  // The units of one tile in one step.
  void run_tile(const StepOfCell& step, int64_t tile, int64_t t, const float* before, float* after) const {
    const int64_t unit = tile * tile_units, units = std::min(tile_units, hidden - unit), all = network.gates * hidden;
    float sums[3][batch_block * tile_units];
    for (int64_t b = 0; b < batch; b += batch_block) {
      const int64_t count = std::min(batch_block, batch - b), row = t * step_row + b * batch_row;
      for (int64_t gate = 0; gate < network.gates; ++gate) {
        const Step input{StepKind::add, 0, 0, step.gates + row * all + gate * hidden + unit, batch_row * all, 1};
        const Step reset{StepKind::multiply, 0, 0, sums[0], tile_units, 1};
        const Step sigmoid{StepKind::sigmoid, 0, 0, nullptr, 0, 0}, last{network.activation, 0, 0, nullptr, 0, 0};
        const bool is_new_state = gate + 1 == network.gates;
        const Step of_gate[] = {input, sigmoid}, of_state[] = {input, last}, of_reset_state[] = {reset, input, last};
        const bool is_reset = is_new_state && network.gates == 3;
        lanes().panel({.a = before + b * hidden,
                       .a_row = hidden,
                       .rows = count,
                       .k = hidden,
                       .b = step.panels + (gate * tiles() + tile) * tile_units * hidden,
                       .columns = units,
                       .bias = is_reset && step.last_bias ? step.last_bias + unit : nullptr,
                       .steps = is_reset       ? of_reset_state
                                : is_new_state ? of_state
                                               : of_gate,
                       .step_count = is_reset ? 3 : 2,
                       .y = sums[gate],
                       .y_row = tile_units,
                       .scratch = sums[gate]});
      }
      for (int64_t k = 0; k < count; ++k) {
        const float *state = sums[network.gates - 1] + k * tile_units, *update = sums[1] + k * tile_units,
                    *h = before + (b + k) * hidden + unit;
        float* next = after + (b + k) * hidden + unit;
        for (int64_t u = 0; u < units; ++u)
          next[u] = network.gates == 3 ? state[u] + update[u] * (h[u] - state[u]) : state[u];
        std::memcpy(step.y + (row + k * batch_row) * step.y_row + unit, next, static_cast<size_t>(units) * 4);
      }
    }
  }
};

class Recurrent : public Kernel {
 public:
  const char* name() const override { return "recurrent"; }

  std::string refusal(const ir::Graph& body) const override {
    Network ignored;
    return read_network(body, {}, ignored);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Network network;
    if (!read_network(*site.body, site.symbols, network).empty()) return std::nullopt;
    const std::vector<int64_t>& sizes = site.operands[operand].sizes;
    for (int64_t cell = 0; cell < network.layers * network.directions(); ++cell) {
      const bool is_input = network.parameter(cell, 0) == static_cast<int>(operand);
      const bool is_recurrent = network.parameter(cell, 1) == static_cast<int>(operand);
      // Panels begin with gates.
      if (is_input || (is_recurrent && sizes[1] % panel_columns == 0)) return panel_layout(sizes, {1, 0});
    }
    return std::nullopt;
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<RecurrentCall>();
    [[maybe_unused]] std::string refusal = read_network(*site.body, site.symbols, call->network);
    assert(refusal.empty());
    const Network& network = call->network;
    for (const auto* list : {&site.operands, &site.results})
      for (const Operand& operand : *list)
        if (operand.strides != contiguous_strides(operand.sizes))
          return error(Status::unsupported, 613, "recurrent: an operand or result does not lie row by row");
    const std::vector<int64_t>& x = site.operands[network.x].sizes;
    call->operands = site.operands.size();
    call->batch = x[network.batch_first ? 0 : 1];
    call->steps = x[network.batch_first ? 1 : 0];
    call->hidden = site.operands[network.h].sizes[2];
    call->step_row = network.batch_first ? 1 : call->batch;
    call->batch_row = network.batch_first ? call->steps : 1;
    const int64_t cells = network.layers * network.directions();
    call->bodies.resize(cells);
    for (int64_t cell = 0; cell < cells; ++cell) {
      const Operand &weight = site.operands[network.parameter(cell, 0)],
                    &recurrent = site.operands[network.parameter(cell, 1)];
      call->in_panels.push_back(recurrent.weight && recurrent.weight->layout);
      if (call->in_panels[cell] && (recurrent.sizes[1] % panel_columns != 0 ||
                                    *recurrent.weight->layout != panel_layout(recurrent.sizes, {1, 0})))
        return error(Status::unsupported, 613, "recurrent: a recurrent weight lies in a layout that is not known");
      InputProduct product = prepare_input_product(weight, call->rows(), site.threads, call->bodies[cell]);
      if (!product.call) return product.call.error();
      if (product.packed) call->note = weight.weight->name + " repacked at load";
      const double products = 2.0 * static_cast<double>(network.gates * call->hidden * call->hidden);
      call->flops += (*product.call)->flops + products * static_cast<double>(call->rows());
      call->bytes += (*product.call)->bytes + 2 * products;
      call->products.push_back(std::move(*product.call));
      call->packed.push_back(std::move(product.packed));
    }
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

// The product of a layer's inputs with its input weights: operands x, weight, bias.
CallSite input_product(ir::Graph& body, int64_t rows, const Operand& weight, const ir::Weight* stored, int threads) {
  auto meta = [](std::vector<int64_t> sizes) { return ir::TensorMeta{ScalarType::f32, {sizes.begin(), sizes.end()}}; };
  const int64_t outputs = weight.sizes[0], width = weight.sizes[1];
  ir::Value *x = body.add_input("x", meta({rows, width})), *w = body.add_input("weight", meta({outputs, width})),
            *b = body.add_input("bias", meta({outputs}));
  body.set_outputs({body.add("aten::linear", {x, w, b}, {}, {{"y", meta({rows, outputs})}})->result()});
  CallSite site;
  site.body = &body;
  site.operands = {{ScalarType::f32, {rows, width}, {width, 1}},
                   {ScalarType::f32, {outputs, width}, {width, 1}, stored},
                   {ScalarType::f32, {outputs}, {1}}};
  site.results = {{ScalarType::f32, {rows, outputs}, {outputs, 1}}};
  site.threads = threads;
  return site;
}

}  // namespace

InputProduct prepare_input_product(const Operand& weight, int64_t rows, int threads, ir::Graph& body) {
  InputProduct product{.call = std::unique_ptr<PreparedCall>()};
  CallSite site = input_product(body, rows, weight, weight.weight, threads);
  if (weight.weight && !weight.weight->layout)
    if (auto layout = panels().weight_layout(site, 1)) {
      product.packed = std::make_unique<ir::Weight>(*weight.weight);
      product.packed->tensor.storage = pack(weight.weight->tensor, *layout).storage;
      product.packed->tensor.offset = 0;
      product.packed->layout = layout;
      body = ir::Graph();
      site = input_product(body, rows, weight, product.packed.get(), threads);
    }
  product.call = panels().prepare(site);
  return product;
}

const Kernel& recurrent() {
  static const Recurrent kernel;
  return kernel;
}

}  // namespace atenon::kernels
