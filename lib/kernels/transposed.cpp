// Strided transposed convolutions whose windows overlap, as in decoders and generators.
//
//     y[o] = sum of x[i] * w[k] over i * s + k = o + p
//
// where o + p = s * q + r makes k = s * m + r and i = q - m: the outputs of a phase r, which lie s apart, are products
// of neighbouring pixels with every s-th tap of w. So each phase is a sum of plain products, one a tap, of pixels by
// channels. A tile is some lines of an image; what it reads is copied once, with zeros for what lies outside, to where
// it stays in the second-level cache. Where each channel has a filter of its own, a phase of a line is a depthwise
// convolution.
//
// oneDNN plans such a convolution for many threads and copies the image for each of them, and goes through channels of
// their own one by one.
#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/onednn.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t fewest_pixels = 8, most_pixels = 64;  // of a run
constexpr int64_t few_outputs = 32;                     // for which oneDNN is slow on short lines too
constexpr int64_t tile_products = 256 * 1024;           // of a tile, so that copies do not count
constexpr int64_t strip_floats = 64 * 1024;             // of a tile's part of the image
constexpr int64_t most_taps = 64;                       // of a channel
constexpr int64_t tile_floats = 32 * 1024;              // of a tile's outputs, where channels have their own filters

// Panels of 64 outputs, in them tap by tap, there one row an input channel.
ir::BlockedLayout tap_layout(const std::vector<int64_t>& sizes) {
  ir::BlockedLayout layout;
  layout.strides.assign(sizes.size(), 0);
  layout.strides[0] = panel_columns;
  layout.inner_blocks = {{1, panel_columns}};
  int64_t stride = sizes[0] * panel_columns;
  for (size_t axis = sizes.size(); axis-- > 2;) {
    layout.strides[axis] = stride;
    stride *= sizes[axis];
  }
  layout.strides[1] = stride;
  layout.padded_bytes = divide_up(sizes[1], panel_columns) * stride * static_cast<int64_t>(sizeof(float));
  return layout;
}

// Outputs by phases.
class PhasedCall : public ConvolutionCall {
 public:
  // Along an axis: the taps of a phase, and the q of the first and of the last output.
  int64_t taps(size_t axis, int64_t phase) const { return divide_up(filter[axis] - phase, stride[axis]); }
  int64_t lowest(size_t axis) const { return padding[axis] / stride[axis]; }
  int64_t highest(size_t axis) const { return (y_sizes[axis + 2] - 1 + padding[axis]) / stride[axis]; }
  // The same of one phase.
  int64_t first(size_t axis, int64_t phase) const {
    return divide_up(std::max<int64_t>(0, padding[axis] - phase), stride[axis]);
  }
  int64_t last(size_t axis, int64_t phase) const {
    const int64_t reach = y_sizes[axis + 2] - 1 + padding[axis] - phase;
    return reach < 0 ? -1 : reach / stride[axis];
  }
};

class TransposedCall : public PhasedCall {
 public:
  int64_t lines_a_tile = 1, line_tiles = 1, columns_a_tile = 1, column_tiles = 1;

  int64_t places(size_t axis) const { return highest(axis) - lowest(axis) + 1; }
  int64_t line_floats() const { return (columns_a_tile + taps(1, 0) - 1) * x_sizes[1]; }
  int64_t strip_size(int64_t of_lines) const { return (of_lines + taps(0, 0) - 1) * line_floats(); }

  int64_t tiles() const override { return y_sizes[0] * line_tiles * column_tiles; }
  size_t worker_bytes() const override {
    return static_cast<size_t>(divide_up(strip_size(lines_a_tile), 16) * 16 + 2 * most_pixels * panel_columns) *
           sizeof(float);
  }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* own) const override {
    const int64_t image = tile / (line_tiles * column_tiles);
    const int64_t top = lowest(0) + tile / column_tiles % line_tiles * lines_a_tile,
                  left = lowest(1) + tile % column_tiles * columns_a_tile;
    const int64_t bottom = std::min(highest(0) + 1, top + lines_a_tile), right = left + columns_a_tile;
    float *sums = static_cast<float*>(own), *scratch = sums + most_pixels * panel_columns,
          *strip = scratch + most_pixels * panel_columns;
    copy_strip(buffers, image, {top, left}, bottom, strip);
    for (int64_t row = 0; row < stride[0]; ++row)
      for (int64_t column = 0; column < stride[1]; ++column)
        for (int64_t channel = 0; channel < y_sizes[1]; channel += panel_columns)
          for (int64_t q = std::max(top, first(0, row)); q < std::min(bottom, last(0, row) + 1); ++q) {
            const int64_t begin = std::max(left, first(1, column)), end = std::min(right, last(1, column) + 1);
            for (int64_t pixel = begin; pixel < end; pixel += most_pixels)
              run_pixels(buffers, strip + (q - top) * line_floats() + (pixel - left) * x_sizes[1], image, {row, column},
                         channel, {q, pixel}, std::min(most_pixels, end - pixel), sums, scratch);
          }
  }

 private:
  // The lines of the image, and of them the columns, that the outputs of a tile read; it begins at `q`.
  void copy_strip(std::span<void* const> buffers, int64_t image, std::array<int64_t, 2> q, int64_t bottom,
                  float* strip) const {
    const auto* x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + image * x_strides[0];
    const int64_t channels = x_sizes[1], begin = q[1] - taps(1, 0) + 1, end = q[1] + columns_a_tile;
    const int64_t from = std::clamp<int64_t>(0, begin, end), to = std::clamp(x_sizes[3], from, end);
    for (int64_t line = q[0] - taps(0, 0) + 1; line < bottom; ++line, strip += line_floats()) {
      if (line < 0 || line >= x_sizes[2]) {
        std::fill_n(strip, line_floats(), 0.f);
        continue;
      }
      float* at = std::fill_n(strip, (from - begin) * channels, 0.f);
      const float* read = x + line * x_strides[2] + from * x_strides[3];
      if (x_strides[3] == channels) {
        at = std::copy_n(read, (to - from) * channels, at);
      } else {
        for (int64_t i = from; i < to; ++i, read += x_strides[3]) at = std::copy_n(read, channels, at);
      }
      std::fill_n(at, (end - to) * channels, 0.f);
    }
  }

  // Some outputs side by side of a phase and of a panel's channels, at q; `strip` is where the first of them reads.
  void run_pixels(std::span<void* const> buffers, const float* strip, int64_t image, std::array<int64_t, 2> phase,
                  int64_t channel, std::array<int64_t, 2> q, int64_t pixels, float* sums, float* scratch) const {
    const std::array<int64_t, 4> at = {image, channel, q[0] * stride[0] + phase[0] - padding[0],
                                       q[1] * stride[1] + phase[1] - padding[1]};
    const int64_t channels = x_sizes[1], tap_floats = channels * panel_columns;
    const auto* weight = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]) +
                         channel / panel_columns * filter[0] * filter[1] * tap_floats;
    // What is summed so far is added to the product with the next tap; behind the last comes the epilogue.
    Step steps[most_steps + 1] = {{StepKind::add, 0, 0, sums, panel_columns, 1}};
    const PanelTile whole = tile_of_result(buffers, at, steps + 1, scratch, stride[1]);
    PanelTile tile = whole;
    tile.a_row = tile.k = channels;
    tile.rows = pixels;
    const int64_t taps_down = taps(0, phase[0]), taps_along = taps(1, phase[1]), all = taps_down * taps_along;
    for (int64_t tap = 0; tap < all; ++tap) {
      const int64_t down = tap / taps_along, along = tap % taps_along;
      tile.a = strip + (taps(0, 0) - 1 - down) * line_floats() + (taps(1, 0) - 1 - along) * channels;
      tile.b = weight + ((down * stride[0] + phase[0]) * filter[1] + along * stride[1] + phase[1]) * tap_floats;
      const bool is_first = tap == 0, is_last = tap + 1 == all;
      tile.bias = is_first ? whole.bias : nullptr;
      tile.steps = is_first ? whole.steps : steps;
      tile.step_count = (is_first ? 0 : 1) + (is_last ? whole.step_count : 0);
      tile.y = is_last ? whole.y : sums;
      tile.y_row = is_last ? whole.y_row : panel_columns;
      lanes().panel(tile);
    }
  }
};

// In up to three dimensions.
class DepthwiseTransposedCall : public PhasedCall {
 public:
  int64_t blocks = 0, lines_a_tile = 1, line_tiles = 1;  // blocks of channels; lines of outputs

  int64_t lines() const { return y_sizes[2] * y_sizes[3]; }

  int64_t tiles() const override { return y_sizes[0] * blocks * line_tiles; }
  size_t worker_bytes() const override { return most_pixels * panel_columns * sizeof(float); }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* own) const override {
    const int64_t image = tile / line_tiles / blocks, channel = tile / line_tiles % blocks * panel_columns;
    const int64_t top = tile % line_tiles * lines_a_tile, bottom = std::min(lines(), top + lines_a_tile);
    for (int64_t line = top; line < bottom; ++line)
      for (int64_t phase = 0; phase < stride[2]; ++phase)
        for (int64_t q = first(2, phase), end = last(2, phase) + 1, pixels; q < end; q += pixels) {
          // Outputs whose windows lie in the image as a whole are computed several at once.
          const bool is_inside = q >= taps(2, phase) - 1 && q < x_sizes[4];
          pixels = is_inside ? std::min({most_pixels, end - q, x_sizes[4] - q}) : 1;
          run_pixels(buffers,
                     {image, channel, line / y_sizes[3], line % y_sizes[3], q * stride[2] + phase - padding[2]}, pixels,
                     static_cast<float*>(own));
        }
  }

 private:
  // Outputs of one phase from `at` on. Each tap counts as a row of the window: all taps see the same outputs.
  void run_pixels(std::span<void* const> buffers, const std::array<int64_t, 5>& at, int64_t pixels, float* own) const {
    int64_t taps_x[most_taps], taps_w[most_taps];
    const int64_t in = at[2] + padding[0], down = at[3] + padding[1], along = at[4] + padding[2];
    DepthwiseTile tile{};
    for (int64_t d = in % stride[0]; d < filter[0]; d += stride[0])
      for (int64_t h = down % stride[1]; h < filter[1]; h += stride[1])
        for (int64_t w = along % stride[2]; w < filter[2]; w += stride[2]) {
          const int64_t plane = (in - d) / stride[0], line = (down - h) / stride[1], column = (along - w) / stride[2];
          if (in < d || down < h || along < w || plane >= x_sizes[2] || line >= x_sizes[3] || column >= x_sizes[4])
            continue;
          taps_x[tile.rows] = plane * x_strides[2] + line * x_strides[3] + column * x_strides[4];
          taps_w[tile.rows++] = ((d * filter[1] + h) * filter[2] + w) * panel_columns;
        }
    tile.x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + at[0] * x_strides[0] + at[1];
    tile.w = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]) +
             at[1] * filter[0] * filter[1] * filter[2];
    tile.rows_x = taps_x;
    tile.rows_w = taps_w;
    tile.x_step = x_strides[4];
    tile.taps = tile.filters = tile.stride = tile.dilation = tile.lines = 1;
    tile.width = pixels;
    Step steps[most_steps];
    tile.out = tile_of_result(buffers, at, steps, own, stride[2]);
    tile.out.rows = pixels;
    lanes().depthwise(tile);
  }
};

bool is_depthwise(const Convolution& convolution, const std::vector<int64_t>& filter) {
  return convolution.groups > 1 && filter[0] == convolution.groups && filter[1] == 1;
}

class Transposed : public ConvolutionKernel {
 public:
  const char* name() const override { return "transposed"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution found;
    if (std::string refusal = read_convolution(body, {}, found); !refusal.empty()) return refusal;
    if (!found.transposed) return "no transposed convolution";
    const std::vector<ir::SymInt>& sizes = body.inputs()[static_cast<size_t>(found.weight)]->meta().sizes;
    std::vector<int64_t> filter;
    for (const ir::SymInt& size : sizes) filter.push_back(*size.constant());
    const bool has_own_filters = is_depthwise(found, filter);
    if (sizes.size() > 4 && !has_own_filters) return "not in 1 or 2 dimensions";
    if (found.groups != 1 && !has_own_filters) return "neither of all channels nor of each by itself";
    bool is_strided = false;
    for (size_t i = 0; i < found.stride.size(); ++i) {
      if (found.dilation[i] != 1 || (!has_own_filters && filter[i + 2] < found.stride[i]))
        return "its windows leave gaps";
      is_strided |= found.stride[i] > 1;
    }
    if (!is_strided) return "it has no stride";
    const int64_t taps = std::accumulate(filter.begin() + 2, filter.end(), int64_t{1}, std::multiplies<>());
    if (has_own_filters && taps > most_taps) return "its window is too large";
    return lanes_refusal(found.epilogue);
  }

  std::string drawback(const ir::Graph& body) const override {
    Convolution found;
    read_convolution(body, {}, found);
    const ir::SymInt& width = body.inputs()[static_cast<size_t>(found.x)]->meta().sizes.back();
    const int64_t outputs = *body.inputs()[static_cast<size_t>(found.weight)]->meta().sizes[1].constant();
    return found.groups == 1 && outputs > few_outputs && width.constant().value_or(fewest_pixels) < fewest_pixels
               ? "its lines are so short that weights are all that is read"
               : "";
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Convolution convolution;
    if (!read_convolution(*site.body, site.symbols, convolution).empty()) return std::nullopt;
    if (static_cast<int>(operand) != convolution.weight) return std::nullopt;
    return layout_of(convolution, site.operands[operand].sizes);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(*site.body, site.symbols, convolution); !refusal.empty())
      return error(Status::unsupported, 0, refusal);
    const Operand& weight = site.operands[static_cast<size_t>(convolution.weight)];
    if (is_packed(weight, layout_of(convolution, weight.sizes)) && has_plain_bias(convolution, site))
      if (std::unique_ptr<PreparedCall> call =
              through_channels_last(site, static_cast<size_t>(convolution.x), [&](const CallSite& inner) {
                std::unique_ptr<PhasedCall> made =
                    is_depthwise(convolution, weight.sizes) ? depthwise_call(inner) : whole_call(inner);
                count_work(*made, convolution, inner);
                made->detail = lanes().name;
                return made;
              }))
        return call;
    return onednn_convolution().prepare(site);
  }

 private:
  static ir::BlockedLayout layout_of(const Convolution& convolution, const std::vector<int64_t>& filter) {
    return is_depthwise(convolution, filter) ? channel_layout(filter) : tap_layout(filter);
  }

  static std::unique_ptr<PhasedCall> whole_call(const CallSite& site) {
    auto call = std::make_unique<TransposedCall>();
    call->read(site, 2);
    const int64_t lines = call->places(0), columns = call->places(1);
    const int64_t products =
        call->x_sizes[3] * call->x_sizes[1] * call->y_sizes[1] * call->filter[0] * call->filter[1];  // of a line
    call->column_tiles = products < 2 * tile_products ? 1 : divide_up(columns, most_pixels);
    call->columns_a_tile = divide_up(columns, call->column_tiles);
    while (call->lines_a_tile < lines && call->strip_size(call->lines_a_tile) < strip_floats &&
           call->lines_a_tile * products < tile_products)
      ++call->lines_a_tile;
    call->line_tiles = divide_up(lines, call->lines_a_tile);
    call->lines_a_tile = divide_up(lines, call->line_tiles);
    return call;
  }

  static std::unique_ptr<PhasedCall> depthwise_call(const CallSite& site) {
    auto call = std::make_unique<DepthwiseTransposedCall>();
    call->read(site, 3);
    call->blocks = divide_up(call->y_sizes[1], panel_columns);
    const int64_t lines = std::max<int64_t>(1, call->lines());
    const int64_t floats = std::max<int64_t>(1, call->y_sizes[4] * panel_columns);  // of a line
    call->line_tiles = divide_up(lines, std::clamp<int64_t>(tile_floats / floats, 1, lines));
    call->lines_a_tile = divide_up(lines, call->line_tiles);
    call->line_tiles = divide_up(lines, call->lines_a_tile);
    return call;
  }
};

}  // namespace

const Kernel& transposed() {
  static const Transposed kernel;
  return kernel;
}

}  // namespace atenon::kernels
