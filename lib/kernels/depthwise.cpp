// Depthwise convolutions, where each channel has a filter of its own: of sequences and volumes with any window, and of
// images with windows of three columns and up to three rows, for which oneDNN takes up to one and a half times as long,
// or with dilated ones, for which it takes ten times as long.
//
// Channels lie side by side, and 64 of them are computed at once for some outputs along the last axis; the epilogue is
// applied while these lie in the nearest cache. What lies in rows is turned on the way, block by block of channels:
// what some lines of outputs read of an image or a sequence, a volume as a whole, computed filters, and some lines of
// the result. Where each channel has several filters, what is read is copied for all of their outputs, or spread to
// them as it is read, if that is once. Windows of five and seven columns, and those of three whose pixels a number of
// channels leaves in few of a cache's places, read a copy of some lines in which the pixels of a vector of channels lie
// side by side.
#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_rows = 64;                                          // of a window
constexpr int64_t least_products = 32 * 1024, most_products = 512 * 1024;  // of a tile
constexpr int64_t most_copied = 4 * 1024 * 1024;                           // floats of a volume's block of channels
constexpr int64_t most_at_once = 64 * 1024;                                // floats of some lines of it
constexpr int64_t most_turned = 16 * 1024;                                 // floats of some lines of the result

// Of the nearest cache: places for lines, in sets of eight.
constexpr int64_t line_floats = 16, cache_sets = 64, cache_ways = 8;

// Whether lines of so many pixels, `distance` floats apart, drive each other out of the nearest cache, as all lie in
// few of its sets, before the next vector of the same cache lines is read. A wide vector is a whole one.
bool is_crowded(int64_t lines, int64_t pixels, int64_t distance) {
  const int64_t sets = cache_sets * line_floats / std::gcd(distance, cache_sets * line_floats);
  return lanes().width < widest_vector && sets * 8 <= cache_sets && lines * pixels > sets * cache_ways;
}

class DepthwiseCall : public ConvolutionCall {
 public:
  int64_t blocks = 0, block_tiles = 0, line_tiles = 1;  // blocks of channels
  int64_t filters = 1;                                  // of each channel
  bool is_copied = false;                               // what lines read, for all outputs of each channel
  bool is_turned = false;                               // the result lies in rows
  bool packs = false;                                   // the filters lie as they were computed
  std::vector<int64_t> w_strides;                       // of these: outputs and axes
  bool is_apart = false;                                // what lines read is copied vector by vector of channels

  int64_t lines() const { return y_sizes[2] * y_sizes[3]; }
  int64_t tiles() const override { return y_sizes[0] * block_tiles * line_tiles; }
  // A volume's planes are read by the outputs of several; of an image, some lines of outputs read some rows.
  bool copies_whole() const { return is_copied && x_sizes[2] != 1; }
  bool copies_lines() const { return is_apart || (is_copied && x_sizes[2] == 1); }
  int64_t image() const { return x_sizes[2] * x_sizes[3] * x_sizes[4]; }
  int64_t window() const { return filter[0] * filter[1] * filter[2]; }
  // Whether it should be: for windows in runs, and where a line's and those that it reads would lie crowded.
  bool is_better_apart() const {
    if (x_sizes[2] != 1) return false;
    return in_runs(filter[2], stride[2], dilation[2]) ||
           (filter[2] == 3 && filter[1] <= 3 && is_crowded(filter[1] + 1, y_sizes[4], x_strides[4]));
  }
  size_t worker_bytes() const override {
    const int64_t copied = copies_whole() ? image() : copies_lines() ? rows_of(lines_copied()) * columns_copied() : 0;
    const int64_t weights = packs ? window() * panel_columns : 0;
    return static_cast<size_t>(finished_floats() + weights + copied * most_channels()) * sizeof(float);
  }

  void run_tile(std::span<void* const> buffers, int64_t i, void* own) const override {
    const int64_t block = i % block_tiles, line = i / block_tiles % line_tiles, batch = i / block_tiles / line_tiles;
    for (int64_t b = blocks * block / block_tiles; b < blocks * (block + 1) / block_tiles; ++b)
      run_block(buffers, batch, b * panel_columns, lines() * line / line_tiles, lines() * (line + 1) / line_tiles,
                static_cast<float*>(own));
  }

 private:
  // A block of channels of an image, and their filters: its first pixel, and distances.
  struct Image {
    const float* x;
    int64_t plane, row, pixel;
    int64_t vector = 0;  // between vectors of channels, if the pixels of each lie side by side; 0: channels do
    const float* w = nullptr;
  };

  int64_t outputs_of_line() const { return std::clamp<int64_t>(y_sizes[4], 1, most_depthwise_outputs); }  // of a tile's
  // Floats of a pixel of a block, in whole vectors.
  static int64_t whole_vectors(int64_t channels) {
    return divide_up(std::min(panel_columns, channels), widest_vector) * widest_vector;
  }
  int64_t most_channels() const { return whole_vectors(y_sizes[1]); }

  // How many lines of a plane are computed from one copy of what they read, and how much they read at most.
  int64_t lines_copied() const {
    if (!copies_lines()) return std::max<int64_t>(1, y_sizes[3]);
    const int64_t rows = most_at_once / most_channels() / std::max<int64_t>(1, columns_copied());
    return std::clamp<int64_t>((rows - rows_of(1)) / stride[1] + 1, 1, std::max<int64_t>(1, y_sizes[3]));
  }
  int64_t columns_copied() const { return std::min(x_sizes[4], reach(2, outputs_of_line())); }
  int64_t rows_of(int64_t lines) const { return std::min(x_sizes[3], reach(1, lines)); }

  // How many lines of the result are turned at once: several only where they lie one behind the other.
  int64_t lines_turned() const {
    const bool are_dense = y_sizes[4] <= most_depthwise_outputs && y_strides[3] == y_sizes[4] * y_strides[4];
    return are_dense ? std::max<int64_t>(1, most_turned / panel_columns / outputs_of_line()) : 1;
  }
  // Of outputs before they are turned, or where the epilogue needs them.
  int64_t finished_floats() const {
    return (is_turned ? lines_turned() * outputs_of_line() : most_depthwise_outputs) * panel_columns;
  }
  // The first of as few even parts as have at most `most` lines.
  static int64_t part_of(int64_t lines, int64_t most) { return divide_up(lines, divide_up(lines, most)); }

  // Lines [begin, end) of outputs of one block of channels.
  void run_block(std::span<void* const> buffers, int64_t batch, int64_t channel, int64_t begin, int64_t end,
                 float* scratch) const {
    const auto* x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + batch * x_strides[0];
    Image whole{x + channel / filters * x_strides[1], x_strides[2], x_strides[3], x_strides[4]};
    float* copy = scratch + finished_floats();
    if (copies_whole()) {
      const int64_t pixel = whole_vectors(y_sizes[1] - channel);
      whole = {copy, x_sizes[3] * x_sizes[4] * pixel, x_sizes[4] * pixel, pixel};
      copy = copy_block(x, std::span(x_sizes).subspan(2), std::span(x_strides).subspan(1), channel, panel_columns,
                        filters, copy, pixel);
    }
    const auto* w = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]);
    whole.w = packs ? copy : w + channel * window();
    if (packs) copy = copy_block(w, filter, w_strides, channel, panel_columns, 1, copy, panel_columns);
    const int64_t most = lines_copied();
    for (int64_t first = 0; first < y_sizes[4]; first += most_depthwise_outputs)
      for (int64_t line = begin; line < end;) {
        const int64_t plane = line / y_sizes[3], row = line % y_sizes[3];
        const int64_t lines = part_of(std::min(end - line, y_sizes[3] - row), most);
        const std::array at{batch, channel, plane, row, first};
        const Image image = copies_lines() ? copy_lines(whole, x, at, lines, copy) : whole;
        is_turned ? run_turned(buffers, image, at, lines, scratch) : run_lines(buffers, image, at, lines, scratch);
        line += lines;
      }
  }

  // What some lines of outputs read of an image, whose first pixel is x.
  Image copy_lines(const Image& image, const float* x, const std::array<int64_t, 5>& at, int64_t lines,
                   float* copy) const {
    const int64_t row = at[3] * stride[1] - padding[1], column = at[4] * stride[2] - padding[2];
    const int64_t top = std::max<int64_t>(0, row), left = std::max<int64_t>(0, column);
    const int64_t rows = std::max<int64_t>(0, std::min(x_sizes[3], row + reach(1, lines)) - top);
    const int64_t outputs = std::min(most_depthwise_outputs, y_sizes[4] - at[4]);
    const int64_t columns = std::max<int64_t>(0, std::min(x_sizes[4], column + reach(2, outputs)) - left);
    const int64_t channels = std::min(panel_columns, y_sizes[1] - at[1]);
    const int64_t pixel = is_apart ? lanes().width : whole_vectors(y_sizes[1] - at[1]);
    const Image part{copy - (top * columns + left) * pixel,
                     0,
                     columns * pixel,
                     pixel,
                     is_apart ? std::max<int64_t>(1, rows * columns * pixel) : 0,
                     image.w};
    if (is_copied) {
      const int64_t sizes[] = {1, rows, columns}, together = is_apart ? pixel : panel_columns;
      for (int64_t channel = 0; channel < channels; channel += together, copy += part.vector)
        copy_block(x + top * x_strides[3] + left * x_strides[4], sizes, std::span(x_strides).subspan(1),
                   at[1] + channel, together, filters, copy, pixel);
    } else {
      for (int64_t i = 0; i < rows; ++i)
        lanes().set_apart(image.x + (top + i) * image.row + left * image.pixel, image.pixel, columns, channels,
                          copy + i * part.row, part.vector);
    }
    return part;
  }

  // Copies what up to `most` outputs read of an image or of filters, `row` floats a pixel, of three `sizes`; the first
  // of the `strides` is between channels, of which each has some outputs. Gives where the copy ends.
  float* copy_block(const float* from, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t output,
                    int64_t most, int64_t outputs_of_channel, float* to, int64_t row) const {
    const int64_t columns = std::min(most, y_sizes[1] - output), pixels = sizes[0] * sizes[1] * sizes[2];
    int64_t channels[panel_columns];
    for (int64_t i = 0; i < columns; ++i) channels[i] = (output + i) / outputs_of_channel * strides[0];
    const bool is_dense = strides[3] == 1 && (sizes[1] == 1 || strides[2] == sizes[2]) &&
                          (sizes[0] == 1 || strides[1] == sizes[1] * sizes[2]);
    const int64_t line = is_dense ? pixels : sizes[2];
    for (int64_t at = 0; at < pixels; at += line, to += line * row) {
      const int64_t i = at / sizes[2];
      const float* pixel = from + i / sizes[1] * strides[1] + i % sizes[1] * strides[2];
      if (outputs_of_channel == 1 && strides[3] == 1) {
        lanes().make_panel(pixel + channels[0], strides[0], line, columns, to, row);
        continue;
      }
      for (int64_t j = 0; j < line; ++j, pixel += strides[3])
        for (int64_t c = 0; c < columns; ++c) to[j * row + c] = pixel[channels[c]];
    }
    return to;
  }

  // Lines of a plane, by way of scratch to where they lie in the result.
  void run_turned(std::span<void* const> buffers, const Image& image, std::array<int64_t, 5> at, int64_t lines,
                  float* scratch) const {
    const int64_t columns = std::min(panel_columns, y_sizes[1] - at[1]), most = lines_turned();
    for (int64_t part = 0; lines > 0; lines -= part, at[3] += part) {
      part = part_of(lines, most);
      run_lines(buffers, image, at, part, scratch);
      const int64_t outputs = part * std::min(most_depthwise_outputs, y_sizes[4] - at[4]);
      float* y = static_cast<float*>(buffers[result]) +
                 std::inner_product(at.begin(), at.end(), y_strides.begin(), int64_t{0});
      if (y_strides[4] == 1 && outputs >= widest_vector) {
        lanes().turn(scratch, panel_columns, outputs, columns, y, y_strides[1]);
        continue;
      }
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t i = 0; i < outputs; ++i) y[i * y_strides[4] + c * y_strides[1]] = scratch[i * panel_columns + c];
    }
  }

  // Outputs side by side in lines of a plane, from the place `at` on.
  void run_lines(std::span<void* const> buffers, const Image& image, std::array<int64_t, 5> at, int64_t lines,
                 float* scratch) const {
    for (int64_t count = 0; lines > 0; lines -= count, at[3] += count) {
      count = alike(at[3], lines);
      run_alike(buffers, image, at, count, scratch);
      if (is_turned) scratch += count * outputs_of_line() * panel_columns;
    }
  }

  // How many of `lines` lines of a plane are computed at once: those whose windows lie in the image, all rows.
  int64_t alike(int64_t line, int64_t lines) const {
    const int64_t top = line * stride[1] - padding[1], room = x_sizes[3] - top - reach(1, 1);
    const bool has_operands = std::any_of(convolution.epilogue.begin(), convolution.epilogue.end(),
                                          [](const PostOp& step) { return step.is_binary(); });
    if (has_operands || top < 0 || room < 0) return 1;
    return std::min(lines, room / stride[1] + 1);
  }

  void run_alike(std::span<void* const> buffers, const Image& image, const std::array<int64_t, 5>& at, int64_t lines,
                 float* scratch) const {
    int64_t rows_x[most_rows], rows_w[most_rows], rows = 0;
    const int64_t top = at[3] * stride[1] - padding[1], front = at[2] * stride[0] - padding[0];
    for (int64_t d = 0; d < filter[0]; ++d)
      for (int64_t h = 0; h < filter[1]; ++h) {
        const int64_t z = front + d * dilation[0], y = top + h * dilation[1];
        if (z < 0 || y < 0 || z >= x_sizes[2] || y >= x_sizes[3]) continue;
        rows_x[rows] = z * image.plane + y * image.row;
        rows_w[rows++] = (d * filter[1] + h) * filter[2] * panel_columns;
      }
    DepthwiseTile tile{};
    tile.first = at[4] * stride[2] - padding[2];
    tile.x = image.x + tile.first * image.pixel;
    tile.w = image.w;
    tile.x_step = stride[2] * image.pixel;
    tile.x_tap = dilation[2] * image.pixel;
    tile.x_vector = image.vector;
    tile.taps = filter[2];
    tile.filters = is_copied ? 1 : filters;
    tile.rows_x = rows_x;
    tile.rows_w = rows_w;
    tile.rows = rows;
    tile.stride = stride[2];
    tile.dilation = dilation[2];
    tile.width = x_sizes[4];
    tile.lines = lines;
    tile.x_line = stride[1] * image.row;
    tile.y_line = y_strides[3];
    Step steps[most_steps];
    tile.out = tile_of_result(buffers, at, steps, scratch);
    tile.out.rows = std::min(most_depthwise_outputs, y_sizes[4] - at[4]);
    if (is_turned) {
      tile.out.y = scratch;
      tile.out.y_row = panel_columns;
      tile.y_line = tile.out.rows * panel_columns;
    }
    lanes().depthwise(tile);
  }
};

// How a call reads its image; `other` is left to oneDNN.
enum class Order { channels_last, copied, other };

// Places along the axes behind the channels.
int64_t places(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin() + 2, sizes.end(), int64_t{1}, std::multiplies<>());
}

// Whether the several filters of each channel read its numbers once or twice, in windows that spread them.
bool spreads(const Convolution& convolution, const Operand& x, const Operand& weight, const Operand& y) {
  const int64_t filters = y.sizes[1] / x.sizes[1], taps = weight.sizes.back();
  const bool has_other_loops = taps == 3 || in_runs(taps, convolution.stride.back(), convolution.dilation.back());
  return (filters == 2 || filters == 4) && !has_other_loops &&
         places(y.sizes) * places(weight.sizes) <= 2 * places(x.sizes);
}

Order order_of(const Convolution& convolution, const CallSite& site) {
  if (!has_plain_bias(convolution, site)) return Order::other;
  const Operand &x = site.operands[static_cast<size_t>(convolution.x)], &y = site.results[0];
  const bool has_one_filter = x.sizes[1] == y.sizes[1];
  if ((has_one_filter || spreads(convolution, x, site.operands[static_cast<size_t>(convolution.weight)], y)) &&
      lies_channels_last(x))
    return Order::channels_last;
  const bool is_volume = x.sizes.size() > 4;
  return !is_volume || places(x.sizes) * panel_columns <= most_copied ? Order::copied : Order::other;
}

// Whether loops over lines are faster, of a result in rows: of few channels, or where lines are long and read without
// gaps.
bool prefers_lines(const Convolution& convolution, const CallSite& site) {
  const Operand& y = site.results[0];
  if (lies_channels_last(y) || !line_filters_fit(convolution, site)) return false;
  return y.sizes[1] < widest_vector || (y.sizes.back() >= most_depthwise_outputs && convolution.stride.back() == 1);
}

class Depthwise : public ConvolutionKernel {
 public:
  const char* name() const override { return "depthwise"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution); !refusal.empty()) return refusal;
    const std::vector<ir::SymInt>& filter = body.inputs()[convolution.weight]->meta().sizes;
    const bool has_one_filter = filter[0] == ir::SymInt(convolution.groups);
    if (convolution.transposed || filter[1] != ir::SymInt(1) || (convolution.groups == 1 && !has_one_filter))
      return "not a filter for each channel";
    const int64_t rows = std::accumulate(filter.begin() + 2, filter.end() - 1, ir::SymInt(1), std::multiplies<>())
                             .constant()
                             .value_or(most_rows + 1);
    if (rows > most_rows) return "its window is too large";
    return lanes_refusal(convolution.epilogue);
  }

  std::string drawback(const ir::Graph& body) const override {
    Convolution convolution;
    read_convolution(body, {}, convolution);
    const std::vector<ir::SymInt>& filter = body.inputs()[convolution.weight]->meta().sizes;
    if (filter.size() != 4 || filter[0] != ir::SymInt(convolution.groups)) return "";
    const int64_t width = *filter[3].constant(), rows = *filter[2].constant();
    const bool is_dilated = (convolution.dilation[0] > 1 && rows > 1) || (convolution.dilation[1] > 1 && width > 1);
    const bool is_fast = (width == 3 && rows <= 3) || is_dilated ||
                         in_runs(width, convolution.stride.back(), convolution.dilation.back());
    if (!is_fast) return "oneDNN is as fast for images and this window";
    // Of dilated ones, oneDNN 3 has plain loops alone.
    return convolution.groups < 16 && !is_dilated ? "so few channels leave vectors half empty" : "";
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Convolution convolution;
    if (!read_convolution(*site.body, site.symbols, convolution).empty()) return std::nullopt;
    if (static_cast<int>(operand) != convolution.weight) return std::nullopt;
    if (prefers_lines(convolution, site)) return std::nullopt;
    if (order_of(convolution, site) == Order::other) return onednn_convolution().weight_layout(site, operand);
    return channel_layout(site.operands[operand].sizes);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<DepthwiseCall>();
    call->read(site, 3);
    const Convolution& convolution = call->convolution;
    const Operand& weight = site.operands[static_cast<size_t>(convolution.weight)];
    const Order order = order_of(convolution, site);
    call->is_turned = !lies_channels_last(site.results[0]);
    if (prefers_lines(convolution, site)) {
      if (std::unique_ptr<PreparedCall> in_rows = prepare_line_filters(site)) return in_rows;
    }
    call->packs = !is_packed(weight, channel_layout(weight.sizes));
    if (order == Order::other || (call->packs && weight.weight && weight.weight->layout))
      return onednn_convolution().prepare(site);
    call->is_copied = order == Order::copied;
    call->w_strides = spatial({weight.strides.begin() + 2, weight.strides.end()}, 0, 3);
    call->w_strides.insert(call->w_strides.begin(), weight.strides[0]);
    call->is_apart = call->is_better_apart();
    call->filters = weight.sizes[0] / convolution.groups;
    call->blocks = divide_up(call->y_sizes[1], panel_columns);
    const int64_t taps = call->filter[0] * call->filter[1] * call->filter[2];
    // Tiles are lines of all channels, so that what a thread reads it has mostly written in the call before; blocks of
    // channels, too, where lines are few or copied for all of them at once, or would be copied for two tiles: that
    // costs less than a thread without work.
    const int64_t work = call->lines() * call->y_sizes[4] * call->blocks * panel_columns * taps;
    const int64_t tiles = std::max(work / most_products, std::min<int64_t>(2 * site.threads, work / least_products));
    int64_t least_lines = 1, most_line_tiles = tiles;
    if (call->is_apart) {
      const bool leaves_threads = call->blocks < site.threads;
      least_lines = std::max<int64_t>(1, (call->filter[1] - 1) * (leaves_threads ? 1 : 4));
      if (leaves_threads) most_line_tiles = std::min<int64_t>(tiles, site.threads);
    }
    if (call->is_copied) {
      const int64_t others = call->y_sizes[0] * call->blocks;
      const bool is_even =
          others >= 4 * site.threads || (others % site.threads == 0 && call->y_sizes[1] % panel_columns == 0);
      most_line_tiles = is_even || call->copies_whole() ? 1 : std::min<int64_t>(tiles, site.threads);
    }
    if (call->is_turned)
      least_lines = std::max(least_lines, divide_up(widest_vector, std::max<int64_t>(1, call->y_sizes[4])));
    call->line_tiles = std::clamp<int64_t>(most_line_tiles, 1, std::max<int64_t>(1, call->lines() / least_lines));
    if (call->line_tiles > site.threads) call->line_tiles -= call->line_tiles % std::max(1, site.threads);
    call->block_tiles = std::clamp<int64_t>(tiles / call->line_tiles, 1, std::max<int64_t>(1, call->blocks));
    count_work(*call, convolution, site);
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& depthwise() {
  static const Depthwise kernel;
  return kernel;
}

}  // namespace atenon::kernels
