// Transposed convolutions whose windows do not overlap, as in decoders that double an image: each pixel becomes a block
// of its own, and each place in the blocks is a plain product of pixels by channels. Where images are one pixel each,
// as where a generator starts, theirs do not overlap whatever the stride: then the pixels of a product are the images.
//
// oneDNN takes them as it takes others, with a copy of the image for each thread.
#include <algorithm>
#include <array>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_pixels = 64;           // of a run
constexpr int64_t tile_products = 64 * 1024;  // worth handing to a thread

// Places of a block, side by side, whose few outputs are one panel of 64.
int64_t places_a_panel(const std::vector<int64_t>& sizes) {
  const int64_t places = panel_columns / std::max<int64_t>(1, sizes[1]);
  return places > 1 && places * sizes[1] == panel_columns && sizes.back() % places == 0 ? places : 1;
}

// Place in the block by place; there panels of 64 outputs, in them one row an input channel.
ir::BlockedLayout place_layout(const std::vector<int64_t>& sizes) {
  const int64_t places = places_a_panel(sizes);
  ir::BlockedLayout layout;
  layout.strides.assign(sizes.size(), 0);
  layout.strides[0] = panel_columns;
  layout.strides[1] = sizes[0] * panel_columns;
  layout.inner_blocks = {{1, panel_columns / places}};
  const int last = static_cast<int>(sizes.size()) - 1;
  if (places > 1) layout.inner_blocks.insert(layout.inner_blocks.begin(), {last, places});
  int64_t stride = divide_up(sizes[1], panel_columns) * layout.strides[1];
  for (int axis = last; axis >= 2; --axis) {
    layout.strides[axis] = stride;
    stride *= axis == last ? sizes[axis] / places : sizes[axis];
  }
  layout.padded_bytes = stride * static_cast<int64_t>(sizeof(float));
  return layout;
}

template <typename Size>
bool is_pixel(const std::vector<Size>& image) {
  return std::all_of(image.begin() + 2, image.end(), [](const Size& size) { return size == Size(1); });
}

class DisjointCall : public ConvolutionCall {
 public:
  int64_t lines_a_tile = 1, places = 1;  // of a panel
  bool of_images = false;                // pixels; axes 0 and 4 have changed places

  int64_t panels() const { return divide_up(y_sizes[1], panel_columns); }
  // Of pixels side by side, each for one row of the blocks, or of images, each for the places of a panel.
  int64_t lines() const { return (of_images ? y_sizes[0] / places : y_sizes[0]) * y_sizes[2] * y_sizes[3]; }
  int64_t tiles() const override { return divide_up(lines(), lines_a_tile); }

  void take_images_as_pixels() {
    of_images = true;
    stride = {filter[0], filter[1], 1};
    for (std::vector<int64_t>* axes : {&x_sizes, &x_strides, &y_sizes, &y_strides}) std::swap((*axes)[0], (*axes)[4]);
    for (std::vector<int64_t>& strides : operand_strides) std::swap(strides[0], strides[4]);
    x_strides[0] = 0;
  }

  size_t worker_bytes() const override { return most_pixels * panel_columns * sizeof(float); }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* own) const override {
    for (int64_t i = tile * lines_a_tile; i < std::min(lines(), (tile + 1) * lines_a_tile); ++i)
      run_line(buffers, {i / (y_sizes[2] * y_sizes[3]), i / y_sizes[3] % y_sizes[2], i % y_sizes[3]},
               static_cast<float*>(own));
  }

 private:
  // `line` is the place of a line of the result: image, depth, height.
  void run_line(std::span<void* const> buffers, const std::array<int64_t, 3>& line, float* scratch) const {
    const auto* x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + line[0] * x_strides[0] +
                    line[1] / stride[0] * x_strides[2] + line[2] / stride[1] * x_strides[3];
    const auto* weight = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]);
    const int64_t row =
        (line[1] % stride[0] * stride[1] + line[2] % stride[1]) * (filter[2] / places) + (of_images ? line[0] : 0);
    const int64_t panel_floats = x_sizes[1] * panel_columns;
    const float* bias =
        convolution.bias < 0 ? nullptr : static_cast<const float*>(buffers[static_cast<size_t>(convolution.bias)]);
    float repeated[panel_columns];
    if (bias && places > 1) {
      for (int64_t i = 0; i < panel_columns; ++i) repeated[i] = bias[i % y_sizes[1]];
      bias = repeated;
    }
    Step steps[most_steps];
    for (int64_t first = 0; first < x_sizes[4]; first += most_pixels)
      for (int64_t column = 0; column < stride[2]; column += places)
        for (int64_t panel = 0; panel < panels(); ++panel) {
          const int64_t channel = panel * panel_columns;
          const std::array<int64_t, 5> at = {of_images ? line[0] * places : line[0], channel, line[1], line[2],
                                             first * stride[2] + column};
          PanelTile tile = tile_of_result(buffers, at, steps, scratch, stride[2]);
          tile.a = x + first * x_strides[4];
          tile.a_row = x_strides[4];
          tile.k = x_sizes[1];
          tile.rows = std::min(most_pixels, x_sizes[4] - first);
          tile.b = weight + ((row + column / places) * panels() + panel) * panel_floats;
          tile.columns = std::min(panel_columns, places * y_sizes[1] - channel);
          tile.bias = bias ? bias + channel : nullptr;
          lanes().panel(tile);
        }
  }
};

class Disjoint : public ConvolutionKernel {
 public:
  const char* name() const override { return "disjoint"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution found;
    if (std::string refusal = read_convolution(body, {}, found); !refusal.empty()) return refusal;
    if (!found.transposed || found.groups != 1) return "no transposed convolution of all channels";
    const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(found.weight)]->meta().sizes;
    const bool is_one_pixel = is_pixel(body.inputs()[static_cast<size_t>(found.x)]->meta().sizes);
    for (size_t i = 0; i < found.stride.size(); ++i)
      if ((!is_one_pixel && filter[i + 2] != ir::SymInt(found.stride[i])) || found.padding[i] != 0 ||
          found.padding_end[i] != 0 || found.dilation[i] != 1)
        return "its windows overlap, or leave gaps";
    return lanes_refusal(found.epilogue);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Convolution convolution;
    if (!read_convolution(*site.body, site.symbols, convolution).empty()) return std::nullopt;
    if (static_cast<int>(operand) != convolution.weight) return std::nullopt;
    return place_layout(site.operands[operand].sizes);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<DisjointCall>();
    call->read(site, 3);
    const Convolution& convolution = call->convolution;
    const Operand &x = site.operands[static_cast<size_t>(convolution.x)],
                  &weight = site.operands[static_cast<size_t>(convolution.weight)], &y = site.results[0];
    if (!is_packed(weight, place_layout(weight.sizes)) || !has_plain_bias(convolution, site) ||
        !lies_channels_last(x) || !lies_channels_last(y))
      return onednn_convolution().prepare(site);
    call->places = places_a_panel(weight.sizes);
    // Outputs of places side by side must follow each other, in the result and in what is added to it.
    const auto is_even = [&](const std::vector<int64_t>& strides) { return strides[4] == strides[1] * y.sizes[1]; };
    if (call->places > 1 &&
        !(is_even(call->y_strides) && std::all_of(call->operand_strides.begin(), call->operand_strides.end(), is_even)))
      return onednn_convolution().prepare(site);
    if (is_pixel(x.sizes)) call->take_images_as_pixels();
    const int64_t products = call->y_sizes[4] * call->x_sizes[1] * call->y_sizes[1];  // of a line
    call->lines_a_tile = std::max<int64_t>(1, tile_products / std::max<int64_t>(1, products));
    call->lines_a_tile = std::max<int64_t>(1, divide_up(call->lines(), std::max<int64_t>(1, call->tiles())));
    count_work(*call, convolution, site);
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& disjoint() {
  static const Disjoint kernel;
  return kernel;
}

}  // namespace atenon::kernels
