// Convolutions of images in groups of 4 to 64 channels, as ResNeXt and RegNet have them.
//
// A tile is some lines of the outputs of one group, or of as many as fill a vector together (oneDNN leaves the rest of
// it empty). What they read is copied once, with zeros for the padding and the groups' numbers in turn, to where it
// stays in the nearest cache.
#include <algorithm>
#include <array>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_rows = 120;           // of outputs, at once
constexpr int64_t strip_floats = 12 * 1024;  // of the image, for a tile
constexpr int64_t enough_tiles = 16;
constexpr int64_t fewest_channels = 4, most_channels = panel_columns;  // of a group

// Outputs that lie side by side in the filter.
int64_t block_of(int64_t outputs) { return std::max(outputs, widest_vector); }

// Block by block; in it tap by tap, channel by channel.
ir::BlockedLayout group_layout(const std::vector<int64_t>& sizes, int64_t groups) {
  const int64_t block = block_of(sizes[0] / groups);
  ir::BlockedLayout layout = windows_in_blocks(sizes, block);
  layout.padded_bytes += widest_vector * 4;  // behind the last row, what a whole vector reads of it
  return layout;
}

class GroupsCall : public ConvolutionCall {
 public:
  int64_t channels = 0;  // of a group, read and written
  int64_t together = 1;  // groups of a tile
  int64_t lines_a_tile = 1, columns_a_tile = 1;
  int64_t lines_at_once = 1;  // whose outputs lie as those of one
  int64_t tap_channels = 0;   // of a tap, which is a line of the window where that lies side by side
  std::vector<int64_t> taps;

  int64_t line_tiles() const { return divide_up(y_sizes[2], lines_a_tile); }
  int64_t column_tiles() const { return divide_up(y_sizes[3], columns_a_tile); }
  int64_t group_tiles() const { return divide_up(convolution.groups, together); }
  int64_t pixel() const { return together * channels; }
  // Distances in a strip.
  int64_t line_step() const { return reach(1, columns_a_tile) * pixel(); }
  int64_t strip_size() const { return reach(0, lines_a_tile) * line_step(); }
  int64_t filter_size() const { return together == 1 ? 0 : filter[0] * filter[1] * channels * pixel(); }

  int64_t tiles() const override { return y_sizes[0] * line_tiles() * column_tiles() * group_tiles(); }
  size_t worker_bytes() const override {
    return in_lines(static_cast<size_t>(most_rows * panel_columns + filter_size() + strip_size()) * sizeof(float));
  }

  void run_tile(std::span<void* const> buffers, int64_t i, void* own) const override {
    // All groups of some lines in turn: they share cache lines of the image.
    const int64_t group = i % group_tiles() * together;
    i /= group_tiles();
    const int64_t left = i % column_tiles() * columns_a_tile, right = std::min(y_sizes[3], left + columns_a_tile);
    i /= column_tiles();
    const int64_t top = i % line_tiles() * lines_a_tile, bottom = std::min(y_sizes[2], top + lines_a_tile);
    const int64_t image = i / line_tiles(), present = std::min(together, convolution.groups - group);
    auto* scratch = static_cast<float*>(own);
    float *made = scratch + most_rows * panel_columns, *strip = made + filter_size();

    GroupsTile tile{};
    tile.groups = together;
    tile.channels = tap_channels;
    tile.taps = taps.data();
    tile.tap_count = static_cast<int64_t>(taps.size());
    tile.x_step = stride[1] * pixel();
    const int64_t block = block_of(channels), output = group * channels, rows = tile.tap_count * tap_channels;
    tile.w = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]) +
             output / block * rows * block + output % block;
    tile.w_row = block;
    if (together > 1) {
      lanes().in_turn({tile.w, block, 0, rows, 0, together, together, channels, made});
      tile.w = made;
      tile.w_row = pixel();
    }
    copy_strip(static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + image * x_strides[0] + output,
               top * stride[0] - padding[0], left * stride[1] - padding[1], reach(0, bottom - top), present, strip);
    tile.x_line = stride[0] * line_step();
    tile.line_rows = right - left;
    for (int64_t line = top; line < bottom; line += lines_at_once) {
      Step steps[most_steps];
      tile.out = tile_of_result(buffers, std::array{image, output, line, left}, steps, scratch);
      tile.out.rows = std::min(lines_at_once, bottom - line) * tile.line_rows;
      tile.out.columns = present * channels;
      tile.x = strip + (line - top) * tile.x_line;
      lanes().grouped(tile);
    }
  }

 private:
  // `lines` lines of `present` groups from `top` and `start` on, with what stands around the image.
  void copy_strip(const float* x, int64_t top, int64_t start, int64_t lines, int64_t present, float* strip) const {
    const int64_t width = line_step() / pixel(), from = std::max<int64_t>(start, 0);
    const int64_t before = std::min(from - start, width),
                  inside = std::clamp<int64_t>(x_sizes[3] - from, 0, width - before);
    LineInTurn copied{nullptr,  x_strides[3], before,   inside, width - before - inside,
                      together, present,      channels, strip};
    for (int64_t line = top; line < top + lines; ++line, copied.to += line_step()) {
      LineInTurn outside{nullptr, 0, width, 0, 0, together, present, channels, copied.to};
      copied.from = x + line * x_strides[2] + from * x_strides[3];
      lanes().in_turn(line < 0 || line >= x_sizes[2] ? outside : copied);
    }
  }
};

bool fits(const Convolution& convolution, const CallSite& site) {
  return lies_channels_last(site.operands[static_cast<size_t>(convolution.x)]) && lies_channels_last(site.results[0]) &&
         has_plain_bias(convolution, site);
}

class Groups : public ConvolutionKernel {
 public:
  const char* name() const override { return "groups"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution); !refusal.empty()) return refusal;
    const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    if (convolution.transposed || convolution.groups == 1 || filter.size() != 4)
      return "not forward, in groups, in 2 dimensions";
    const int64_t channels = *filter[1].constant(), outputs = *filter[0].constant() / convolution.groups;
    if (channels != outputs) return "its groups have other numbers of outputs than of inputs";
    if (channels < fewest_channels || channels > most_channels || (channels % 8 != 0 && channels != 4))
      return "its groups do not fill vectors";
    if (*filter[2].constant() * *filter[3].constant() == 1) return "it has one tap";
    return lanes_refusal(convolution.epilogue);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Convolution convolution;
    if (!read_convolution(*site.body, site.symbols, convolution).empty()) return std::nullopt;
    if (static_cast<int>(operand) != convolution.weight) return std::nullopt;
    if (!fits(convolution, site)) return onednn_convolution().weight_layout(site, operand);
    return group_layout(site.operands[operand].sizes, convolution.groups);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<GroupsCall>();
    call->read(site, 2);
    const Convolution& convolution = call->convolution;
    const Operand& weight = site.operands[static_cast<size_t>(convolution.weight)];
    if (!is_packed(weight, group_layout(weight.sizes, convolution.groups)) || !fits(convolution, site))
      return onednn_convolution().prepare(site);
    call->channels = weight.sizes[1];
    call->together = std::max<int64_t>(1, lanes().width / call->channels);
    const int64_t lines = std::max<int64_t>(1, call->y_sizes[2]);
    call->columns_a_tile = std::max<int64_t>(1, call->y_sizes[3]);
    call->columns_a_tile = divide_up(call->columns_a_tile, divide_up(call->columns_a_tile, most_rows));
    while (call->lines_a_tile < lines && call->strip_size() < strip_floats &&
           call->y_sizes[0] * call->group_tiles() * divide_up(lines, call->lines_a_tile + 1) >= enough_tiles)
      ++call->lines_a_tile;
    call->lines_a_tile = divide_up(lines, call->line_tiles());
    const auto is_one_line = [&](const std::vector<int64_t>& strides) {
      return strides[2] == strides[3] * call->y_sizes[3];
    };
    if (call->column_tiles() == 1 && is_one_line(call->y_strides) &&
        std::all_of(call->operand_strides.begin(), call->operand_strides.end(), is_one_line))
      call->lines_at_once = std::max<int64_t>(1, most_rows / call->columns_a_tile);
    const bool is_dense = call->together == 1 && call->dilation[1] == 1;
    call->tap_channels = is_dense ? call->channels * call->filter[1] : call->channels;
    for (int64_t h = 0; h < call->filter[0]; ++h)
      for (int64_t w = 0; w < (is_dense ? 1 : call->filter[1]); ++w)
        call->taps.push_back(h * call->dilation[0] * call->line_step() + w * call->dilation[1] * call->pixel());
    count_work(*call, convolution, site);
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& groups() {
  static const Groups kernel;
  return kernel;
}

}  // namespace atenon::kernels
