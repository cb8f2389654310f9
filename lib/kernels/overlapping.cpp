// Convolutions of many channels as products of windows by panels of outputs: where channels lie last, rows of the
// product are stretches of the image that overlap, and nothing is copied. Windows that reach beyond an edge take that
// part of the panel that meets the image.
//
// oneDNN takes many windows at a time. Where these begin whole pages apart, as those of 1024 channels do, or of 512
// that are read in strides of 2, they push each other out of the nearest cache: it is at 50 to 82 % of the arithmetic's
// speed there, else above 90. Here it is six windows. Where vectors have 8 floats oneDNN is at 56 to 75 % anyway, and
// this at 73 to 83 (Zen 3, two threads, a busy host).
#include <algorithm>
#include <array>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t least_rows = 48, most_rows = 240;  // of a tile
constexpr int64_t enough_tiles = 4;                  // of a call, where its images have lines for them
constexpr int64_t least_channels = 256;
constexpr int64_t narrow_vector = 8, least_of_narrow = 16;  // floats, and channels where vectors are so
constexpr int64_t page = 4096;  // bytes: lines this far apart share a place in the nearest cache

// Neighbours along an axis whose windows see the same part of the image: places [first, last) of the filter.
struct Span {
  int64_t begin, end, first, last;
};

std::vector<Span> spans_of(const ConvolutionSizes& sizes, size_t axis) {
  std::vector<Span> spans;
  const int64_t step = sizes.dilation[axis], taps = sizes.filter[axis];
  for (int64_t i = 0; i < sizes.y_sizes[axis + 2]; ++i) {
    const int64_t place = i * sizes.stride[axis] - sizes.padding[axis], behind = sizes.x_sizes[axis + 2] - place;
    const int64_t first = place < 0 ? std::min(taps, divide_up(-place, step)) : 0;
    const int64_t last = std::max(first, std::min(taps, divide_up(std::max<int64_t>(0, behind), step)));
    if (spans.empty() || spans.back().first != first || spans.back().last != last) spans.push_back({i, i, first, last});
    spans.back().end = i + 1;
  }
  return spans;
}

// Some of an image's outputs.
struct Outputs {
  std::vector<Stretch> stretches;
  int64_t count = 0;
};

class OverlappingCall : public PreparedCall, public ConvolutionSizes {
 public:
  std::vector<Outputs> of_tiles;
  std::vector<int64_t> runs;  // where parts of a window begin that lie side by side
  int64_t run_floats = 0;

  int64_t runs_of_line() const { return static_cast<int64_t>(runs.size()) / filter[0]; }
  int64_t panels() const { return divide_up(y_sizes[1], panel_columns); }
  int64_t panel_tiles() const { return static_cast<int64_t>(of_tiles.size()); }
  int64_t tiles() const { return x_sizes[0] * panels() * panel_tiles(); }
  int64_t workers() const { return std::min<int64_t>(tiles(), threads()); }
  size_t worker_bytes() const {
    int64_t most = 0;
    for (const Outputs& outputs : of_tiles) most = std::max(most, outputs.count);
    return static_cast<size_t>(most * panel_columns) * sizeof(float);
  }
  size_t scratch_bytes() const override { return worker_bytes() * static_cast<size_t>(workers()); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    parallel_for(tiles(), workers(), scratch, worker_bytes(),
                 [&](int64_t i, void* own) { run_tile(buffers, i, static_cast<float*>(own)); });
    return {};
  }

  // Cuts an image's outputs into tiles of whole lines, or of parts of one: what lies inside of the image first, and
  // then the edges, of which each is a stretch of its own.
  void cut() {
    const std::vector<Span> lines = spans_of(*this, 0), columns = spans_of(*this, 1);
    const int64_t width = y_sizes[3], height = y_sizes[2];
    const int64_t parts = divide_up(width, most_rows / 4);  // so that a tile has four lines, and edges four rows
    const int64_t columns_a_tile = std::max<int64_t>(1, divide_up(width, std::max<int64_t>(1, parts)));
    const int64_t wanted = divide_up(enough_tiles, std::max<int64_t>(1, x_sizes[0] * panels() * parts));
    const int64_t lines_a_tile = std::min(most_rows / columns_a_tile,
                                          std::max(divide_up(least_rows, columns_a_tile), divide_up(height, wanted)));
    for (int64_t line = 0; line < height; line += lines_a_tile)
      for (int64_t part = 0; part < parts; ++part)
        add_tile(lines, columns, line, std::min(height, line + lines_a_tile), width * part / parts,
                 width * (part + 1) / parts);
  }

 private:
  void add_tile(const std::vector<Span>& lines, const std::vector<Span>& columns, int64_t top, int64_t bottom,
                int64_t left, int64_t right) {
    Outputs& outputs = of_tiles.emplace_back();
    std::vector<Stretch>& stretches = outputs.stretches;
    for (const Span& line : lines)
      for (const Span& column : columns) {
        const int64_t y0 = std::max(top, line.begin), y1 = std::min(bottom, line.end),
                      x0 = std::max(left, column.begin), x1 = std::min(right, column.end);
        if (y0 >= y1 || x0 >= x1) continue;
        // Along the longer side.
        const bool is_upright = y1 - y0 > x1 - x0;
        for (int64_t i = is_upright ? x0 : y0; i < (is_upright ? x1 : y1); ++i)
          stretches.push_back(stretch(line, column, is_upright ? y0 : i, is_upright ? i : x0,
                                      is_upright ? y1 - y0 : x1 - x0, is_upright));
      }
    std::stable_sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) {
      return (a.last_run - a.first_run) * (a.last - a.first) > (b.last_run - b.first_run) * (b.last - b.first);
    });
    outputs.count = (bottom - top) * (right - left);
  }

  Stretch stretch(const Span& line, const Span& column, int64_t y, int64_t x, int64_t rows, bool is_upright) const {
    const int64_t channels = x_sizes[1];
    Stretch made{.rows = rows};
    made.a = (y * stride[0] - padding[0]) * x_strides[2] + (x * stride[1] - padding[1]) * x_strides[3];
    made.a_row = is_upright ? stride[0] * x_strides[2] : stride[1] * x_strides[3];
    made.place = y * y_sizes[3] + x;
    made.step = is_upright ? y_sizes[3] : 1;
    const bool is_dense = runs_of_line() == 1;
    made.first_run = line.first * runs_of_line() + (is_dense ? 0 : column.first);
    made.last_run = (line.last - 1) * runs_of_line() + (is_dense ? 1 : column.last);
    made.first = is_dense ? column.first * channels : 0;
    made.last = is_dense ? column.last * channels : channels;
    return made;
  }

  void run_tile(std::span<void* const> buffers, int64_t i, float* scratch) const {
    const int64_t place = i % panel_tiles(), panel = i / panel_tiles() % panels(), image = i / panel_tiles() / panels();
    const Outputs& outputs = of_tiles[static_cast<size_t>(place)];
    const std::array<int64_t, 4> at = {image, panel * panel_columns, 0, 0};
    Step steps[most_steps];
    PanelTile tile = tile_of_result(buffers, at, steps, scratch);
    tile.a = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + image * x_strides[0];
    tile.rows = outputs.count;
    tile.stretches = outputs.stretches.data();
    tile.stretch_count = static_cast<int64_t>(outputs.stretches.size());
    tile.run = run_floats;
    tile.runs = runs.data();
    tile.runs_of_line = runs_of_line();
    tile.k = run_floats * static_cast<int64_t>(runs.size());
    const int64_t panel_floats = tile.k * panel_columns;
    tile.b = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]) + panel * panel_floats;
    tile.next = place + 1 < panel_tiles() ? tile.b : panel + 1 < panels() ? tile.b + panel_floats : nullptr;
    lanes().panel(tile);
  }
};

// Whether operands lie as these loops read them, weights aside: pixels of the result as of one long line.
bool fits(const ConvolutionSizes& sizes, const CallSite& site) {
  const auto is_one_line = [&](const std::vector<int64_t>& strides) {
    return sizes.y_sizes[2] == 1 || strides[2] == strides[3] * sizes.y_sizes[3];
  };
  const auto meets_image = [&](size_t axis) {
    const std::vector<Span> spans = spans_of(sizes, axis);
    return std::all_of(spans.begin(), spans.end(), [](const Span& span) { return span.first < span.last; });
  };
  return meets_image(0) && meets_image(1) &&
         lies_channels_last(site.operands[static_cast<size_t>(sizes.convolution.x)]) &&
         lies_channels_last(site.results[0]) && has_plain_bias(sizes.convolution, site) &&
         is_one_line(sizes.y_strides) &&
         std::all_of(sizes.operand_strides.begin(), sizes.operand_strides.end(), is_one_line);
}

// How the filter is to lie for these loops; nullopt if other operands do not lie for them.
std::optional<ir::BlockedLayout> layout_here(const CallSite& site, size_t operand) {
  ConvolutionSizes sizes;
  sizes.read(site, 2);
  if (static_cast<int>(operand) != sizes.convolution.weight || !fits(sizes, site)) return std::nullopt;
  return windows_in_blocks(site.operands[operand].sizes, panel_columns);
}

// Null if an operand does not lie for these loops.
std::unique_ptr<PreparedCall> prepare_here(const CallSite& site) {
  auto call = std::make_unique<OverlappingCall>();
  call->read(site, 2);
  const Operand& weight = site.operands[static_cast<size_t>(call->convolution.weight)];
  if (!is_packed(weight, windows_in_blocks(weight.sizes, panel_columns)) || !fits(*call, site)) return nullptr;
  const int64_t channels = call->x_sizes[1], line = call->x_strides[2], pixel = call->x_strides[3];
  // Of a line of the window, all pixels, if they lie side by side.
  const bool is_dense = pixel == channels && call->dilation[1] == 1;
  call->run_floats = is_dense ? channels * call->filter[1] : channels;
  for (int64_t i = 0; i < call->filter[0]; ++i)
    for (int64_t j = 0; j < (is_dense ? 1 : call->filter[1]); ++j)
      call->runs.push_back(i * call->dilation[0] * line + j * call->dilation[1] * pixel);
  call->cut();
  count_work(*call, call->convolution, site);
  call->detail = lanes().name;
  return call;
}

// "", or why these loops do not run it, however wide vectors are.
std::string general_refusal(const Convolution& convolution, const std::vector<ir::SymInt>& filter) {
  if (convolution.transposed || convolution.groups != 1 || filter.size() > 4)
    return "not forward, of all channels, in 1 or 2 dimensions";
  if (is_pointwise(convolution, filter)) return "it is pointwise";
  return lanes_refusal(convolution.epilogue);
}

// Whether it is faster so than by oneDNN where vectors are narrow.
bool is_for_narrow(const CallSite& site) {
  Convolution convolution;
  if (lanes().width != narrow_vector || !read_convolution(*site.body, site.symbols, convolution).empty()) return false;
  const std::vector<ir::SymInt>& filter = site.body->inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
  return general_refusal(convolution, filter).empty() && *filter[1].constant() >= least_of_narrow &&
         *filter[0].constant() > narrow_vector;  // else pixels are joined
}

class Overlapping : public ConvolutionKernel {
 public:
  const char* name() const override { return "overlapping"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution); !refusal.empty()) return refusal;
    const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    return general_refusal(convolution, filter);
  }

  std::string drawback(const ir::Graph& body) const override {
    Convolution convolution;
    read_convolution(body, {}, convolution);
    const int64_t channels = *body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes[1].constant();
    return channels < least_channels || channels * convolution.stride.back() * 4 % page != 0
               ? "oneDNN is as fast where windows are not whole pages apart"
               : "";
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    if (const std::optional<ir::BlockedLayout> layout = layout_here(site, operand)) return layout;
    return onednn_convolution().weight_layout(site, operand);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    if (std::unique_ptr<PreparedCall> made = prepare_amx_convolution(site)) return made;
    if (std::unique_ptr<PreparedCall> made = prepare_here(site)) return made;
    return onednn_convolution().prepare(site);
  }
};

}  // namespace

std::optional<ir::BlockedLayout> overlapping_layout(const CallSite& site, size_t operand) {
  return is_for_narrow(site) ? layout_here(site, operand) : std::nullopt;
}

std::unique_ptr<PreparedCall> prepare_overlapping(const CallSite& site) {
  return is_for_narrow(site) ? prepare_here(site) : nullptr;
}

const Kernel& overlapping() {
  static const Overlapping kernel;
  return kernel;
}

}  // namespace atenon::kernels
