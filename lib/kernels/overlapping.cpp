// Convolutions of many channels as products of windows by panels of outputs: where channels lie last, rows of the
// product are stretches of the image that overlap, and nothing is copied but an image that needs zeros around it.
//
// oneDNN takes many windows at a time. Where these begin whole pages apart, as those of 1024 channels do, or of 512
// that are read in strides of 2, they push each other out of the nearest cache: it is at 50 to 82 % of the arithmetic's
// speed there, else above 90. Here it is six windows.
#include <algorithm>
#include <array>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_rows = 240;  // of a tile
constexpr int64_t least_channels = 256;
constexpr int64_t page = 4096;       // bytes: lines this far apart share a place in the nearest cache
constexpr double most_zeros = 0.07;  // that windows read around an image, which oneDNN leaves out

class OverlappingCall : public PreparedCall, public ConvolutionSizes {
 public:
  bool is_padded = false;
  std::array<int64_t, 2> image{};  // lines, and pixels in each, that windows read
  int64_t line_floats = 0, pixel_floats = 0;
  int64_t lines_a_tile = 1, parts = 1;  // of a line; one of the two is 1
  std::vector<int64_t> runs;            // where parts of a window begin that lie side by side
  int64_t run_floats = 0;

  int64_t panels() const { return divide_up(y_sizes[1], panel_columns); }
  int64_t panel_tiles() const { return divide_up(y_sizes[2], lines_a_tile) * parts; }
  int64_t images_at_once() const { return is_padded ? 1 : x_sizes[0]; }
  int64_t tiles() const { return images_at_once() * panels() * panel_tiles(); }
  int64_t workers() const { return std::min<int64_t>(tiles(), threads()); }
  int64_t padded_floats() const { return is_padded ? divide_up(image[0] * line_floats, 16) * 16 : 0; }
  int64_t tile_rows() const { return lines_a_tile * divide_up(y_sizes[3], parts); }  // at most
  size_t worker_bytes() const { return static_cast<size_t>(tile_rows() * panel_columns) * sizeof(float); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(padded_floats()) * sizeof(float) + worker_bytes() * static_cast<size_t>(workers());
  }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    auto* padded = static_cast<float*>(scratch);
    const auto* x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]);
    for (int64_t first = 0; first < x_sizes[0]; first += images_at_once()) {
      const float* from = x + first * x_strides[0];
      if (is_padded) parallel_for(image[0], [&](int64_t line) { pad(from, line, padded + line * line_floats); });
      parallel_for(tiles(), workers(), padded + padded_floats(), worker_bytes(), [&](int64_t i, void* own) {
        run_tile(buffers, is_padded ? padded : from, first, i, static_cast<float*>(own));
      });
    }
    return {};
  }

 private:
  void pad(const float* x, int64_t line, float* to) const {
    const int64_t channels = x_sizes[1], read = line - padding[0], left = padding[1];
    const bool is_inside = read >= 0 && read < x_sizes[2];
    const int64_t pixels = is_inside ? std::min(x_sizes[3], image[1] - left) : 0;
    const int64_t before = is_inside ? left : image[1];
    std::fill_n(to, before * channels, 0.f);
    for (int64_t i = 0; i < pixels; ++i)
      std::copy_n(x + read * x_strides[2] + i * x_strides[3], channels, to + (before + i) * channels);
    std::fill(to + (before + pixels) * channels, to + image[1] * channels, 0.f);
  }

  // `x` is the first of the images that are done at once.
  void run_tile(std::span<void* const> buffers, const float* x, int64_t first_image, int64_t i, float* scratch) const {
    const int64_t place = i % panel_tiles(), panel = i / panel_tiles() % panels(),
                  number = i / panel_tiles() / panels();
    const int64_t line = place / parts * lines_a_tile, lines = std::min(lines_a_tile, y_sizes[2] - line);
    const int64_t part = place % parts, column = y_sizes[3] * part / parts;
    const std::array<int64_t, 4> at = {first_image + number, panel * panel_columns, line, column};
    Step steps[most_steps];
    PanelTile tile = tile_of_result(buffers, at, steps, scratch);
    tile.a = x + number * x_strides[0] + line * stride[0] * line_floats + column * stride[1] * pixel_floats;
    tile.a_row = stride[1] * pixel_floats;
    tile.line_rows = y_sizes[3] * (part + 1) / parts - column;
    tile.a_line = stride[0] * line_floats;
    tile.rows = lines * tile.line_rows;
    tile.run = run_floats;
    tile.runs = runs.data();
    tile.k = run_floats * static_cast<int64_t>(runs.size());
    const int64_t panel_floats = tile.k * panel_columns;
    tile.b = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]) + panel * panel_floats;
    tile.next = place + 1 < panel_tiles() ? tile.b : panel + 1 < panels() ? tile.b + panel_floats : nullptr;
    lanes().panel(tile);
  }
};

// Of what windows read, the part that lies around the image.
double zeros_of(const ConvolutionSizes& sizes) {
  double inside = 1;
  for (size_t axis = 0; axis < 2; ++axis) {
    int64_t found = 0;
    const int64_t outputs = sizes.y_sizes[axis + 2], taps = sizes.filter[axis];
    for (int64_t i = 0; i < outputs; ++i)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t place = i * sizes.stride[axis] + tap * sizes.dilation[axis] - sizes.padding[axis];
        found += place >= 0 && place < sizes.x_sizes[axis + 2];
      }
    inside *= static_cast<double>(found) / static_cast<double>(std::max<int64_t>(1, outputs * taps));
  }
  return 1 - inside;
}

// Whether operands lie as these loops read them, weights aside: pixels of the result as of one long line.
bool fits(const ConvolutionSizes& sizes, const CallSite& site) {
  const auto is_one_line = [&](const std::vector<int64_t>& strides) {
    return sizes.y_sizes[2] == 1 || strides[2] == strides[3] * sizes.y_sizes[3];
  };
  return lies_channels_last(site.operands[static_cast<size_t>(sizes.convolution.x)]) &&
         lies_channels_last(site.results[0]) && has_plain_bias(sizes.convolution, site) &&
         is_one_line(sizes.y_strides) &&
         std::all_of(sizes.operand_strides.begin(), sizes.operand_strides.end(), is_one_line);
}

class Overlapping : public ConvolutionKernel {
 public:
  const char* name() const override { return "overlapping"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution); !refusal.empty()) return refusal;
    const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    if (convolution.transposed || convolution.groups != 1 || filter.size() > 4)
      return "not forward, of all channels, in 1 or 2 dimensions";
    const int64_t channels = *filter[1].constant();
    if (channels < least_channels || channels * convolution.stride.back() * 4 % page != 0)
      return "oneDNN is as fast where windows are not whole pages apart";
    if (is_pointwise(convolution, filter)) return "it is pointwise";
    return lanes_refusal(convolution.epilogue);
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    ConvolutionSizes sizes;
    sizes.read(site, 2);
    if (static_cast<int>(operand) != sizes.convolution.weight) return std::nullopt;
    if (!fits(sizes, site) || zeros_of(sizes) > most_zeros) return onednn_convolution().weight_layout(site, operand);
    return windows_in_blocks(site.operands[operand].sizes, panel_columns);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    if (std::unique_ptr<PreparedCall> made = prepare_amx_convolution(site)) return made;
    auto call = std::make_unique<OverlappingCall>();
    call->read(site, 2);
    const Convolution& convolution = call->convolution;
    const Operand &x = site.operands[static_cast<size_t>(convolution.x)],
                  &weight = site.operands[static_cast<size_t>(convolution.weight)];
    if (!is_packed(weight, windows_in_blocks(weight.sizes, panel_columns)) || !fits(*call, site))
      return onednn_convolution().prepare(site);
    const int64_t channels = x.sizes[1];
    for (size_t axis = 0; axis < 2; ++axis) {
      const int64_t window = (call->filter[axis] - 1) * call->dilation[axis] + 1;
      call->image[axis] = (call->y_sizes[axis + 2] - 1) * call->stride[axis] + window;
      if (call->padding[axis] > 0 || call->image[axis] > call->x_sizes[axis + 2]) call->is_padded = true;
    }
    call->pixel_floats = call->is_padded ? channels : call->x_strides[3];
    call->line_floats = call->is_padded ? call->image[1] * channels : call->x_strides[2];
    const bool is_dense = call->pixel_floats == channels && call->dilation[1] == 1;
    call->run_floats = is_dense ? channels * call->filter[1] : channels;
    for (int64_t i = 0; i < call->filter[0]; ++i)
      for (int64_t j = 0; j < (is_dense ? 1 : call->filter[1]); ++j)
        call->runs.push_back(i * call->dilation[0] * call->line_floats + j * call->dilation[1] * call->pixel_floats);
    const int64_t width = std::max<int64_t>(1, call->y_sizes[3]);
    call->parts = divide_up(width, most_rows);
    call->lines_a_tile = std::clamp<int64_t>(most_rows / width, 1, std::max<int64_t>(1, call->y_sizes[2]));
    count_work(*call, convolution, site);
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& overlapping() {
  static const Overlapping kernel;
  return kernel;
}

}  // namespace atenon::kernels
