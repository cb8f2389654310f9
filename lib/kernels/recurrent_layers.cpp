#include "kernels/recurrent_layers.h"

#include "kernels/amx_run.h"
#include "kernels/body.h"
#include "kernels/list.h"
#include "kernels/product.h"

namespace atenon::kernels {

namespace {

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

// Panels of panel_columns units, those of all gates of the same units one after the other: what a core reads in a step
// is one run of memory, which some read twice as fast as several. A block of the second axis is as long as the panels
// of all gates, and those of the other gates lie behind its own.
ir::BlockedLayout gate_panels(const std::vector<int64_t>& sizes) {
  const int64_t hidden = sizes[1], panel = hidden * panel_columns;
  ir::BlockedLayout layout;
  layout.strides = {panel, 0};
  layout.inner_blocks = {{0, hidden / panel_columns}, {1, sizes[0]}, {0, panel_columns}};
  layout.padded_bytes = sizes[0] * hidden * 4;
  return layout;
}

}  // namespace

std::string read_recurrent_network(const ir::Graph& body, const shape::Bindings& symbols, int states,
                                   RecurrentNetwork& found) {
  const ir::Node& node = *body.forward().begin();
  Arguments arguments(node, symbols);
  auto input_of = [](const ir::Argument& argument) {
    const ir::Value* value = argument.value();
    return value && !value->producer && value->is_tensor() && value->meta().dtype == ScalarType::f32 ? value->index
                                                                                                     : -1;
  };
  const ir::Argument *x = arguments.find(0, "input"), *hx = arguments.find(1, "hx"),
                     *parameters = arguments.find(2, "params");
  if (!x || !hx || !parameters || !parameters->is<ir::ArgumentList>()) return "an operand is missing";
  if (states == 2 && (!hx->is<ir::ArgumentList>() || hx->get<ir::ArgumentList>().size() != 2))
    return "an operand is missing";
  found.x = input_of(*x);
  found.h = input_of(states == 2 ? hx->get<ir::ArgumentList>()[0] : *hx);
  found.c = states == 2 ? input_of(hx->get<ir::ArgumentList>()[1]) : -1;
  for (const ir::Argument& parameter : parameters->get<ir::ArgumentList>())
    found.parameters.push_back(input_of(parameter));
  auto biases = arguments.boolean(3, "has_biases", true), train = arguments.boolean(6, "train", false);
  auto bidirectional = arguments.boolean(7, "bidirectional", false),
       batch_first = arguments.boolean(8, "batch_first", false);
  auto layers = arguments.integer(4, "num_layers", 1);
  auto dropout = arguments.number(5, "dropout", 0);
  if (!biases || !train || !bidirectional || !batch_first || !layers || !dropout) return "an argument is symbolic";
  if (*train && *dropout != 0 && *layers > 1) return "dropout";
  found.has_biases = *biases;
  found.bidirectional = *bidirectional;
  found.batch_first = *batch_first;
  found.layers = *layers;
  const auto count = static_cast<int64_t>(found.parameters.size());
  found.has_projection = states == 2 && count == found.cells() * (found.per_cell() + 1);
  if (count != found.cells() * found.per_cell()) return "a number of parameters that is not known";
  if (found.x < 0 || found.h < 0 || (states == 2 && found.c < 0)) return "an operand is not an f32 input";
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

std::optional<ir::BlockedLayout> recurrent_weight_layout(const RecurrentNetwork& network, const CallSite& site,
                                                         size_t operand) {
  const std::vector<int64_t>& sizes = site.operands[operand].sizes;
  for (int64_t cell = 0; cell < network.cells(); ++cell) {
    const bool is_input = network.parameter(cell, 0) == static_cast<int>(operand);
    const bool is_recurrent = network.parameter(cell, 1) == static_cast<int>(operand);
    if (is_input) return panel_layout(sizes, {1, 0});
    if (is_recurrent && sizes[1] % panel_columns == 0 && !network.has_projection) return gate_panels(sizes);
  }
  return std::nullopt;
}

Result<void> RecurrentLayersCall::set_up(const RecurrentNetwork& network, int64_t gates, const CallSite& site,
                                         const char* name) {
  const auto refuse = [&](const char* why) { return error(Status::unsupported, 613, name + std::string(": ") + why); };
  for (const auto* list : {&site.operands, &site.results})
    for (const Operand& operand : *list)
      if (operand.strides != contiguous_strides(operand.sizes))
        return refuse("an operand or result does not lie row by row");
  const std::vector<int64_t>& x = site.operands[network.x].sizes;
  gates_ = gates;
  directions_ = network.directions();
  operands_ = site.operands.size();
  batch_ = x[network.batch_first ? 0 : 1];
  steps_ = x[network.batch_first ? 1 : 0];
  width_ = site.operands[network.h].sizes[2];
  hidden_ = network.c < 0 ? width_ : site.operands[network.c].sizes[2];
  step_row_ = network.batch_first ? 1 : batch_;
  batch_row_ = network.batch_first ? steps_ : 1;
  bodies_.resize(network.cells());
  for (int64_t cell = 0; cell < network.cells(); ++cell) {
    const Operand &weight = site.operands[network.parameter(cell, 0)],
                  &recurrent = site.operands[network.parameter(cell, 1)];
    in_panels_.push_back(recurrent.weight && recurrent.weight->layout);
    if (in_panels_[cell] && (network.has_projection || recurrent.sizes[1] % panel_columns != 0 ||
                             *recurrent.weight->layout != gate_panels(recurrent.sizes)))
      return refuse("a recurrent weight lies in a layout that is not known");
    ir::Graph& body = bodies_[cell];
    CallSite inner = input_product(body, rows(), weight, weight.weight, site.threads);
    packed_.emplace_back();
    if (weight.weight && !weight.weight->layout)
      if (auto layout = panels().weight_layout(inner, 1)) {
        packed_[cell] = std::make_unique<ir::Weight>(*weight.weight);
        packed_[cell]->tensor.storage = pack(weight.weight->tensor, *layout).storage;
        packed_[cell]->tensor.offset = 0;
        packed_[cell]->layout = layout;
        body = ir::Graph();
        inner = input_product(body, rows(), weight, packed_[cell].get(), site.threads);
        repacked += packed_[cell]->tensor.storage->size();
        note = weight.weight->name + " repacked at load";
      }
    Result<std::unique_ptr<PreparedCall>> product = panels().prepare(inner);
    if (!product) return product.error();
    const double products = 2.0 * static_cast<double>(hidden_ * width_ * (gates + (network.has_projection ? 1 : 0)));
    flops += (*product)->flops + products * static_cast<double>(rows());
    bytes += (*product)->bytes + 2 * products;
    products_.push_back(std::move(*product));
  }
  cut_batch(!network.has_projection);
  detail = amx_ ? "amx" : lanes().name;
  return {};
}

// Directions and entries of the batch never meet, so where there are enough of them, and the recurrent weight stays in
// the cache of every core, a share goes through all steps alone.
void RecurrentLayersCall::cut_batch(bool by_unit) {
  constexpr int64_t resident_floats = 128 * 1024, vector_block = 24;
  const int64_t weight = gates_ * hidden_ * width_;
  // Fewer than four entries at once read the weight too often, but a single tile of units has nothing else to share.
  const int64_t entries = tiles() > 1 ? 4 : std::min<int64_t>(4, (batch_ + 1) / 2);
  const auto fits_alone = [&](int64_t share) {
    return weight <= resident_floats && (directions_ == 2 || batch_ >= 2 * share);
  };
  alone_ = fits_alone(entries) ? entries : 0;
  block_ = alone_ > 0 ? alone_ : vector_block;
  const int64_t alone = batch_ >= amx_rows && fits_alone(amx_rows) ? amx_rows : 0;
  // Shares that go alone do not become a team for the unit.
  if (!by_unit || (alone == 0 && alone_ > 0)) return;
  const int64_t block = alone > 0 ? alone : divide_up(batch_, divide_up(batch_, most_block));
  const AmxRecurrent amx{.gates = gates_, .width = width_, .steps = steps_, .batch = batch_, .block = block};
  if (!amx.is_worth_it(alone > 0 ? weight : divide_up(tiles(), decided_threads) * weight / tiles())) return;
  alone_ = alone;
  block_ = block;
  amx_ = amx;
}

void RecurrentLayersCall::run_shares(FunctionRef<const Share&, Team*> run) const {
  constexpr int64_t serial_step = 128 * 1024, serial_layer = 256 * 1024;  // products not worth a second thread
  const int64_t weight = gates_ * hidden_ * width_;
  if (alone_ > 0) {
    const int64_t shares = directions_ * divide_up(batch_, alone_);
    // Both directions of an entry side by side: whoever computed its inputs' products has them in its cache.
    auto share = [&](int64_t i) {
      const int64_t entry = i / directions_ * alone_;
      run({i % directions_, entry, std::min(batch_, entry + alone_), 0, tiles()}, nullptr);
    };
    if (weight * rows() * directions_ >= serial_layer) return parallel_for(shares, share);
    for (int64_t i = 0; i < shares; ++i) share(i);
    return;
  }
  // A member keeps its units through all steps, so that their weights stay in its core's cache.
  run_team(weight * batch_ < serial_step ? 1 : static_cast<int>(tiles()), [&](Team& team, int member) {
    const int64_t tile = tiles() * member / team.members(), last_tile = tiles() * (member + 1) / team.members();
    for (int64_t direction = 0; direction < directions_; ++direction)
      run({direction, 0, batch_, tile, last_tile}, &team);
  });
}

const float* RecurrentLayersCall::make_panels(const float* weight, float* panels) const {
  for (int64_t gate = 0; gate < gates_; ++gate)
    for (int64_t tile = 0; tile < tiles(); ++tile)
      lanes().make_panel(weight + (gate * hidden_ + tile * tile_units) * width_, width_, width_,
                         std::min(tile_units, hidden_ - tile * tile_units), panels + panel_of(tile, gate),
                         panel_columns);
  return panels;
}

size_t RecurrentLayersCall::product_bytes() const {
  size_t most = 0;
  for (const auto& product : products_) most = std::max(most, product->scratch_bytes());
  return in_lines(most);
}

Result<void> RecurrentLayersCall::multiply_inputs(const RecurrentNetwork& network, int64_t cell,
                                                  std::span<void* const> buffers, const void* x, float* bias,
                                                  float* gates, void* shared) const {
  const void* weight = packed_[cell] ? packed_[cell]->tensor.data() : buffers[network.parameter(cell, 0)];
  void* const inner[] = {const_cast<void*>(x), const_cast<void*>(weight), bias, gates};
  return products_[cell]->run(inner, shared);
}

}  // namespace atenon::kernels
