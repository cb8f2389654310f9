#include "kernels/convolution.h"

#include <algorithm>
#include <numeric>

namespace atenon::kernels {

bool is_convolution(const ir::Node& node) {
  const std::string name = name_without_overload(node.target());
  return name == "aten::convolution" || name == "aten::conv1d" || name == "aten::conv2d" || name == "aten::conv3d" ||
         name == "aten::conv_transpose1d" || name == "aten::conv_transpose2d" || name == "aten::conv_transpose3d";
}

namespace {

// Zeros that a node writes around an image are padding of the convolution behind it: what it adds before and behind
// each spatial axis, and its operand as `x`. "" or why it is none.
std::string read_zeros(const ir::Node& node, int spatial, const shape::Bindings& symbols, const ir::Value*& x,
                       std::vector<int64_t>& before, std::vector<int64_t>& behind) {
  if (name_without_overload(node.target()) != "aten::constant_pad_nd")
    return node.target() + " stands before a convolution";
  const Arguments arguments(node, symbols);
  if (arguments.number(2, "value", 0) != 0.0) return "other numbers than zeros around its image";
  x = arguments.tensor(0, "self");
  const ir::Argument* pad = arguments.find(1, "pad");
  const size_t values = pad && pad->is<ir::ArgumentList>() ? pad->get<ir::ArgumentList>().size() : 0;
  if (!x || values == 0 || values > 2 * static_cast<size_t>(spatial)) return "zeros around other axes than its image's";
  const auto zeros = arguments.integers(1, "pad", values, 0);
  if (!zeros) return "the zeros around its image are symbolic";
  for (size_t i = 0; i < values; i += 2) {  // from the last axis on
    const size_t axis = static_cast<size_t>(spatial) - 1 - i / 2;
    if ((*zeros)[i] < 0 || (*zeros)[i + 1] < 0) return "its image is cut";
    before[axis] = (*zeros)[i];
    behind[axis] = (*zeros)[i + 1];
  }
  return "";
}

// The operator's own padding, numbers or a word. "" or why it cannot be.
std::string read_padding(const Arguments& arguments, const std::vector<int64_t>& filter, Convolution& found) {
  const size_t spatial = filter.size() - 2;
  const std::string word = arguments.text(4, "padding", "");
  if (word == "same") {
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t total = found.dilation[i] * (filter[i + 2] - 1);
      found.padding.push_back(total / 2);
      found.padding_end.push_back(total - total / 2);
    }
    return "";
  }
  auto padding = word == "valid" ? std::vector<int64_t>(spatial, 0) : arguments.integers(4, "padding", spatial, 0);
  if (!padding) return "its padding is symbolic";
  found.padding = found.padding_end = *padding;
  for (size_t i = 0; found.transposed && i < spatial; ++i) {
    found.padding_end[i] -= found.output_padding[i];
    if (found.padding_end[i] + found.stride[i] <= 0)
      return "oneDNN has no lines behind the last one that an input reaches, transposed";
  }
  return "";
}

// Zeros around the image, put there before, are padding, too.
std::string add_zeros(const std::vector<int64_t>& before, const std::vector<int64_t>& behind,
                      const std::vector<int64_t>& filter, Convolution& found) {
  for (size_t i = 0; i < before.size(); ++i) {
    const int64_t window = found.dilation[i] * (filter[i + 2] - 1) + 1;
    if (before[i] == 0 && behind[i] == 0) continue;
    if (found.transposed) return "zeros around its image, transposed, are no padding";
    found.padding[i] += before[i];
    found.padding_end[i] += behind[i];
    if (found.padding[i] >= window || found.padding_end[i] >= window) return "windows of nothing but zeros";
  }
  return "";
}

}  // namespace

std::string read_convolution(const ir::Graph& body, const shape::Bindings& symbols, Convolution& found,
                             ScalarType dtype, bool in_any_groups) {
  const ir::Node *anchor = nullptr, *first = nullptr;
  for (const ir::Node& node : body.forward()) {
    if (is_convolution(node)) {
      anchor = &node;
      break;
    }
    if (first) break;
    first = &node;
  }
  if (!anchor) return first ? first->target() + " stands before a convolution" : "no convolution in it";
  const std::string name = name_without_overload(anchor->target());
  Arguments arguments(*anchor, symbols);
  const ir::Value *x = arguments.tensor(0, "input"), *weight = arguments.tensor(1, "weight"),
                  *bias = arguments.tensor(2, "bias");
  if (!x || !weight || weight->producer || (bias && bias->producer)) return "an operand is computed in the body";
  if (x->meta().dtype != dtype || weight->meta().dtype != dtype) return "not of " + std::string(name_of(dtype));
  const int spatial = weight->meta().rank() - 2;
  if (spatial < 1 || spatial > 3 || x->meta().rank() != spatial + 2)
    return "needs a batch axis and 1 to 3 spatial axes";
  std::vector<int64_t> before(static_cast<size_t>(spatial), 0), behind = before;
  if (first && x->producer == first)
    if (std::string refusal = read_zeros(*first, spatial, symbols, x, before, behind); !refusal.empty()) return refusal;
  if (x->producer || (first && first->result()->users.size() != 1)) return "an operand is computed in the body";
  found.x = x->index;
  found.weight = weight->index;
  found.bias = bias ? bias->index : -1;

  const bool transpose_operator = name.find("transpose") != std::string::npos;
  const bool general = name == "aten::convolution";
  std::optional<bool> transposed = general ? arguments.boolean(6, "transposed", false) : transpose_operator;
  auto stride = arguments.integers(3, "stride", spatial, 1);
  auto dilation = arguments.integers(transpose_operator ? 7 : 5, "dilation", spatial, 1);
  auto output_padding = general              ? arguments.integers(7, "output_padding", spatial, 0)
                        : transpose_operator ? arguments.integers(5, "output_padding", spatial, 0)
                                             : std::vector<int64_t>(spatial, 0);
  auto groups = arguments.integer(general ? 8 : 6, "groups", 1);
  const bool has_open_groups = !groups && in_any_groups && transposed == false;
  if (has_open_groups) groups = 0;
  if (!stride || !dilation || !output_padding || !groups || !transposed)
    return "its stride, dilation or groups are symbolic";
  found.stride = *stride;
  found.dilation = *dilation;
  found.output_padding = *output_padding;
  found.groups = *groups;
  found.transposed = *transposed;

  std::vector<ir::SymInt> sizes = weight->meta().sizes;
  if (has_open_groups) sizes[0] = 0;
  std::optional<std::vector<int64_t>> filter = concrete(sizes, symbols);
  if (!filter) return "the sizes of its weight are symbolic";
  if (std::string refusal = read_padding(arguments, *filter, found); !refusal.empty()) return refusal;
  if (std::string refusal = add_zeros(before, behind, *filter, found); !refusal.empty()) return refusal;
  if (*transposed) {
    int64_t terms = (*filter)[0] / *groups;
    for (int i = 0; i < spatial; ++i) terms *= (*filter)[i + 2];
    const bool is_strided = std::any_of(stride->begin(), stride->end(), [](int64_t step) { return step > 1; });
    found.is_deep = is_strided && terms > 2048;
  }
  std::string refusal = read_epilogue(body, anchor->result(), 1, false, symbols, found.epilogue);
  if (refusal.empty() && found.is_deep && !found.epilogue.empty())
    refusal = "oneDNN has no epilogue for so many channels, transposed";
  return refusal;
}

bool is_pointwise(const Convolution& convolution, const std::vector<ir::SymInt>& filter) {
  const auto all = [](const std::vector<int64_t>& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [wanted](int64_t value) { return value == wanted; });
  };
  return std::all_of(filter.begin() + 2, filter.end(), [](const ir::SymInt& size) { return size == 1; }) &&
         !convolution.transposed && convolution.groups == 1 && all(convolution.stride, 1) &&
         all(convolution.padding, 0) && all(convolution.padding_end, 0);
}

bool reads_twice(const Convolution& convolution) {
  return std::any_of(convolution.epilogue.begin(), convolution.epilogue.end(), [&](const PostOp& step) {
    return step.is_binary() &&
           (step.operand == convolution.x || step.operand == convolution.weight || step.operand == convolution.bias);
  });
}

std::vector<int> ConvolutionKernel::preferred_order(const ir::Graph& body) const {
  return channels_last_order(body.outputs()[0].value()->meta().rank());
}

bool ConvolutionKernel::may_overwrite(const ir::Graph& body, size_t operand) const {
  Convolution convolution;
  if (!read_convolution(body, {}, convolution).empty()) return false;
  if (static_cast<int>(operand) == convolution.x || static_cast<int>(operand) == convolution.weight) return false;
  int reads = 0;
  for (const PostOp& step : convolution.epilogue)
    if (step.operand == static_cast<int>(operand)) reads += step.kind == PostOp::Kind::add ? 1 : 2;
  return reads == 1 && body.inputs()[operand]->meta().sizes == body.outputs()[0].value()->meta().sizes;
}

std::vector<int64_t> spread(std::vector<int64_t> values, int64_t absent, size_t axes) {
  values.insert(values.begin() + 2, axes + 2 - values.size(), absent);
  return values;
}

std::vector<int64_t> spatial(std::vector<int64_t> values, int64_t absent, size_t axes) {
  values.insert(values.begin(), axes - values.size(), absent);
  return values;
}

bool lies_channels_last(const Operand& image) { return image.strides[1] == 1 || image.sizes[1] == 1; }

bool has_plain_bias(const Convolution& convolution, const CallSite& site) {
  return convolution.bias < 0 || site.results[0].sizes[1] == 1 ||
         site.operands[static_cast<size_t>(convolution.bias)].strides[0] == 1;
}

ir::BlockedLayout outputs_in_blocks(const std::vector<int64_t>& sizes, int64_t columns, size_t first_axis) {
  ir::BlockedLayout layout;
  layout.strides.assign(sizes.size(), 0);
  int64_t stride = columns;
  for (size_t axis = sizes.size(); axis-- > first_axis;) {
    layout.strides[axis] = stride;
    stride *= sizes[axis];
  }
  layout.strides[0] = stride;
  layout.inner_blocks = {{0, columns}};
  layout.padded_bytes = divide_up(sizes[0], columns) * stride * 4;
  return layout;
}

ir::BlockedLayout windows_in_blocks(const std::vector<int64_t>& sizes, int64_t columns) {
  ir::BlockedLayout layout = outputs_in_blocks(sizes, columns, 1);
  int64_t stride = columns;
  layout.strides[1] = stride;
  stride *= sizes[1];
  for (size_t axis = sizes.size(); axis-- > 2; stride *= sizes[axis]) layout.strides[axis] = stride;
  return layout;
}

bool is_packed(const Operand& weight, const ir::BlockedLayout& layout) {
  return weight.weight && weight.weight->layout && *weight.weight->layout == layout;
}

void count_work(PreparedCall& call, const Convolution& convolution, const CallSite& site) {
  const std::vector<int64_t>&x = site.operands[static_cast<size_t>(convolution.x)].sizes,
        &filter = site.operands[static_cast<size_t>(convolution.weight)].sizes, &y = site.results[0].sizes;
  call.flops = 2 * count(convolution.transposed ? x : y) * count(filter) / static_cast<double>(filter[0]);
  call.bytes = 4 * (count(x) + count(filter) + count(y));
}

ir::BlockedLayout channel_layout(const std::vector<int64_t>& sizes) {
  return outputs_in_blocks(sizes, panel_columns, 2);
}

std::vector<std::vector<int64_t>> operand_strides(const std::vector<PostOp>& epilogue, const CallSite& site) {
  std::vector<std::vector<int64_t>> all;
  const size_t rank = site.results[0].sizes.size();
  for (const PostOp& step : epilogue) {
    std::vector<int64_t>& strides = all.emplace_back(rank, 0);
    if (!step.is_binary()) continue;
    const Operand& operand = site.operands[static_cast<size_t>(step.operand)];
    const size_t missing = rank - operand.sizes.size();
    for (size_t axis = missing; axis < rank; ++axis)
      if (operand.sizes[axis - missing] > 1) strides[axis] = operand.strides[axis - missing];
  }
  return all;
}

void ConvolutionSizes::read(const CallSite& site, size_t axes, ScalarType dtype) {
  [[maybe_unused]] const std::string refusal = read_convolution(*site.body, site.symbols, convolution, dtype);
  assert(refusal.empty());
  const Operand &x = site.operands[static_cast<size_t>(convolution.x)],
                &weight = site.operands[static_cast<size_t>(convolution.weight)], &y = site.results[0];
  x_sizes = spread(x.sizes, 1, axes);
  x_strides = spread(x.strides, 0, axes);
  y_sizes = spread(y.sizes, 1, axes);
  y_strides = spread(y.strides, 0, axes);
  filter = spatial({weight.sizes.begin() + 2, weight.sizes.end()}, 1, axes);
  stride = spatial(convolution.stride, 1, axes);
  padding = spatial(convolution.padding, 0, axes);
  dilation = spatial(convolution.dilation, 1, axes);
  for (std::vector<int64_t>& strides : kernels::operand_strides(convolution, site))
    operand_strides.push_back(spread(std::move(strides), 0, axes));
  result = site.operands.size();
}

PanelTile ConvolutionSizes::tile_of_result(std::span<void* const> buffers, std::span<const int64_t> at, Step* steps,
                                           float* scratch, int64_t step) const {
  const auto place = [&](const std::vector<int64_t>& strides) {
    return std::inner_product(at.begin(), at.end(), strides.begin(), int64_t{0});
  };
  for (size_t s = 0; s < convolution.epilogue.size(); ++s) {
    const std::vector<int64_t>& strides = operand_strides[s];
    steps[s] = make_step(convolution.epilogue[s], buffers, place(strides), step * strides.back(), strides[1]);
  }
  PanelTile tile{};
  tile.columns = std::min(panel_columns, y_sizes[1] - at[1]);
  if (convolution.bias >= 0)
    tile.bias = static_cast<const float*>(buffers[static_cast<size_t>(convolution.bias)]) + at[1];
  tile.steps = steps;
  tile.step_count = static_cast<int64_t>(convolution.epilogue.size());
  if (auto* y = static_cast<float*>(buffers[result])) tile.y = y + place(y_strides);
  tile.y_row = step * y_strides.back();
  tile.scratch = scratch;
  return tile;
}

}  // namespace atenon::kernels
