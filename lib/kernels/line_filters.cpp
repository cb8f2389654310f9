// Convolutions whose image and result lie in rows, for sums over few channels: filters that blur, sharpen or resample
// an image of one to a few channels, each by itself or all at once, and long filters of a signal.
//
// Channels would fill a small part of a vector, but outputs side by side in a line fill it whatever the window. What is
// read of the image is copied before, with zeros around it, so that each tap is a distance from the first one; where
// outputs lie several columns apart, columns that they read with the same tap lie side by side in the copy. What is
// loaded is used for up to four results: outputs of all channels, or else lines of one output.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "kernels/body.h"
#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"

namespace atenon::kernels {

namespace {

constexpr int64_t few_channels = 4, most_channels = 15;  // that leave vectors of them half empty
constexpr int64_t least_taps = 25;                       // of more than a few, which lie channels last elsewhere
constexpr int64_t most_columns = 1024;                   // of a tile
constexpr int64_t most_copied = 48 * 1024;               // floats of the image that a tile reads, unless it is one line
constexpr int64_t least_products = 32 * 1024;            // of a tile, that are worth handing to a thread

class LineFiltersCall : public ConvolutionCall {
 public:
  int64_t channels = 1, outputs = 1;  // of a group
  int64_t lines_at_once = 1;          // of one output; 1 where there are several outputs
  int64_t lines_a_tile = 1, line_tiles = 1, columns_a_tile = 1, column_tiles = 1;
  int64_t bias_step = 1;
  std::vector<int64_t> columns;  // where the taps of a line of the window lie in a line of the copy

  int64_t planes() const { return filter[0] * channels; }  // of a window
  int64_t window() const { return planes() * filter[1] * filter[2]; }
  // A line of the copy: columns in turn for each of `stride`, whole vectors of them read past the end.
  int64_t run_floats() const { return columns_a_tile + beside(); }
  int64_t beside() const { return (filter[2] - 1) * dilation[2] / stride[2] + widest_vector; }
  int64_t line_floats() const { return run_floats() * stride[2]; }
  int64_t copied_lines() const { return reach(1, divide_up(lines_a_tile, lines_at_once) * lines_at_once); }
  int64_t copied() const { return planes() * copied_lines() * line_floats(); }
  int64_t groups() const { return y_sizes[1] / outputs; }
  int64_t tiles() const override { return y_sizes[0] * groups() * y_sizes[2] * line_tiles * column_tiles; }
  size_t worker_bytes() const override {
    return static_cast<size_t>(copied() + most_line_results * panel_columns) * sizeof(float);
  }

  // How many lines of an output are computed at once: two taps of a line that is loaded cost as much as loading it.
  int64_t best_lines() const {
    if (outputs > 1 || stride[1] > 1 || dilation[1] > 1) return 1;
    const auto cost = [&](int64_t lines) { return (filter[1] + lines - 1) * 2 + filter[1] * lines; };
    int64_t best = 1;
    for (int64_t lines = 2; lines <= std::min(most_line_results, filter[1]); ++lines)
      if (lines <= y_sizes[3] && cost(lines) * best < cost(best) * lines) best = lines;
    return best;
  }

  // Cuts the call into tiles for so many threads.
  void cut(int threads) {
    // Of a high window so few columns that the lines that it reads are copied for some lines of results, not for each;
    // but not where much were copied beside them.
    int64_t most = std::clamp<int64_t>(y_sizes[4], 1, most_columns);
    const int64_t fitting = most_copied / (planes() * filter[1]);
    if (fitting < most && fitting >= std::max(panel_columns, 4 * beside()))
      most = fitting / panel_columns * panel_columns;
    column_tiles = divide_up(y_sizes[4], most);
    columns_a_tile = divide_up(y_sizes[4], column_tiles);
    const int64_t line_products = outputs * columns_a_tile * window();
    const int64_t others = std::max<int64_t>(1, tiles());
    const int64_t enough =
        divide_up(std::min(4 * int64_t{threads}, others * y_sizes[3] * line_products / least_products), others);
    const int64_t fewest = std::max(lines_at_once, divide_up(least_products, std::max<int64_t>(1, line_products)));
    lines_a_tile = std::clamp(y_sizes[3] / std::max<int64_t>(1, enough), std::min(fewest, y_sizes[3]), y_sizes[3]);
    while (lines_a_tile > lines_at_once && copied() > most_copied) lines_a_tile = divide_up(lines_a_tile, 2);
    lines_a_tile = std::min(y_sizes[3], divide_up(lines_a_tile, lines_at_once) * lines_at_once);
    line_tiles = divide_up(y_sizes[3], lines_a_tile);
    for (int64_t tap = 0; tap < filter[2]; ++tap) {
      const int64_t column = tap * dilation[2];
      columns.push_back(column % stride[2] * run_floats() + column / stride[2]);
    }
  }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* own) const override {
    const int64_t left = tile % column_tiles * columns_a_tile;
    tile /= column_tiles;
    const int64_t top = tile % line_tiles * lines_a_tile;
    tile /= line_tiles;
    const At at{tile / y_sizes[2] / groups(), tile / y_sizes[2] % groups(), tile % y_sizes[2], top, left};
    auto* copy = static_cast<float*>(own);
    for (int64_t plane = 0; plane < planes(); ++plane) copy_plane(buffers, at, plane, copy + plane * plane_floats());
    for (int64_t output = 0; output < outputs; output += most_line_results)
      for (int64_t line = top; line < std::min(y_sizes[3], top + lines_a_tile); line += lines_at_once)
        compute(buffers, at, output, line, copy);
  }

 private:
  struct At {  // of a tile's first result
    int64_t image, group, depth, line, column;
  };

  int64_t plane_floats() const { return copied_lines() * line_floats(); }
  // What a tile reads of a plane of the window: of a channel and a depth.
  void copy_plane(std::span<void* const> buffers, const At& at, int64_t plane, float* to) const {
    const int64_t channel = at.group * channels + plane / filter[0],
                  depth = at.depth * stride[0] - padding[0] + plane % filter[0] * dilation[0];
    const auto* x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + at.image * x_strides[0] +
                    channel * x_strides[1] + depth * x_strides[2];
    const int64_t top = at.line * stride[1] - padding[1], left = at.column * stride[2] - padding[2];
    const bool is_inside = depth >= 0 && depth < x_sizes[2];
    const int64_t lines = copied_lines(), first = is_inside ? std::clamp<int64_t>(-top, 0, lines) : lines,
                  end = std::clamp(x_sizes[3] - top, first, lines);
    std::fill(to, to + first * line_floats(), 0.f);
    std::fill(to + end * line_floats(), to + lines * line_floats(), 0.f);
    for (int64_t turn = 0; turn < stride[2]; ++turn)
      copy_columns(x + (top + first) * x_strides[3], end - first, left + turn,
                   to + first * line_floats() + turn * run_floats());
  }

  // Every stride-th column of some lines from one on, and zeros where they have none.
  void copy_columns(const float* x, int64_t lines, int64_t column, float* to) const {
    const int64_t step = stride[2], count = run_floats(), line = line_floats(), behind = x_sizes[4] - column;
    const int64_t first = std::clamp<int64_t>(divide_up(-column, step), 0, count),
                  end = std::clamp(divide_up(std::max<int64_t>(behind, 0), step), first, count);
    const int64_t distance = step * x_strides[4];
    const float* from = x + column * x_strides[4];
    for (int64_t i = 0; i < lines; ++i, from += x_strides[3], to += line) {
      for (int64_t j = 0; j < first; ++j) to[j] = 0;
      if (distance == 1)
        std::memcpy(to + first, from + first, static_cast<size_t>(end - first) * sizeof(float));
      else
        for (int64_t j = first; j < end; ++j) to[j] = from[j * distance];
      for (int64_t j = end; j < count; ++j) to[j] = 0;
    }
  }

  // A tile's columns of some lines of one output, or of some outputs in one line.
  void compute(std::span<void* const> buffers, const At& at, int64_t output, int64_t line, float* copy) const {
    const bool of_outputs = outputs > 1;
    const int64_t result_output = at.group * outputs + output;
    LineFilterTile tile{};
    tile.x = copy + (line - at.line) * stride[1] * line_floats();
    tile.x_plane = plane_floats();
    tile.x_row = dilation[1] * line_floats();
    tile.planes = planes();
    tile.rows = filter[1];
    tile.columns = columns.data();
    tile.taps = filter[2];
    tile.w = static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]) + result_output * window();
    tile.w_result = of_outputs ? window() : 0;
    tile.results = of_outputs ? std::min(most_line_results, outputs - output) : lines_at_once;
    float start[most_line_results] = {};
    if (convolution.bias >= 0) {
      const auto* bias = static_cast<const float*>(buffers[static_cast<size_t>(convolution.bias)]);
      for (int64_t r = 0; r < tile.results; ++r) start[r] = bias[(result_output + (of_outputs ? r : 0)) * bias_step];
    }
    tile.start = start;
    tile.y = copy + copied();

    const std::array<int64_t, 5> place{at.image, result_output, at.depth, line, at.column};
    const size_t row_axis = of_outputs ? 1 : 3;
    const auto offset = [&](const std::vector<int64_t>& strides) {
      return std::inner_product(place.begin(), place.end(), strides.begin(), int64_t{0});
    };
    Step steps[most_steps];
    for (size_t s = 0; s < convolution.epilogue.size(); ++s)
      steps[s] = make_step(convolution.epilogue[s], buffers, offset(operand_strides[s]), operand_strides[s][row_axis],
                           operand_strides[s][4]);
    PanelTile out{};
    out.rows = of_outputs ? tile.results : std::min(lines_at_once, y_sizes[3] - line);
    out.steps = steps;
    out.step_count = static_cast<int64_t>(convolution.epilogue.size());
    out.y = static_cast<float*>(buffers[result]) + offset(y_strides);
    out.y_row = y_strides[row_axis];
    out.scratch = tile.y;

    const int64_t end = std::min(columns_a_tile, y_sizes[4] - at.column);
    for (int64_t column = 0; column < end; column += panel_columns) {
      tile.count = out.columns = std::min(panel_columns, end - column);
      lanes().filter_lines(tile);
      lanes().finish(out);
      tile.x += panel_columns;
      out.y += panel_columns;
      for (int64_t s = 0; s < out.step_count; ++s)
        if (steps[s].operand) steps[s].operand += panel_columns * steps[s].column;
    }
  }
};

}  // namespace

bool line_filters_fit(const Convolution& convolution, const CallSite& site) {
  const Operand& weight = site.operands[static_cast<size_t>(convolution.weight)];
  if (weight.strides != contiguous_strides(weight.sizes) || (weight.weight && weight.weight->layout)) return false;
  if (site.results[0].strides.back() != 1) return false;
  const auto strides = operand_strides(convolution, site);
  return std::ranges::all_of(strides, [](const auto& of_step) { return of_step.back() == 0 || of_step.back() == 1; });
}

namespace {

class LineFilters : public ConvolutionKernel {
 public:
  const char* name() const override { return "line_filters"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution); !refusal.empty()) return refusal;
    if (convolution.transposed) return "it is transposed";
    return lanes_refusal(convolution.epilogue);
  }

  std::string drawback(const ir::Graph& body) const override {
    Convolution convolution;
    read_convolution(body, {}, convolution);
    const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    const int64_t channels = *filter[1].constant(), all_outputs = *filter[0].constant();
    if (convolution.groups > 1 && channels > 1) return "its groups have several channels";
    const int64_t all = std::max(channels * convolution.groups, all_outputs);
    const ir::SymInt taps = std::accumulate(filter.begin() + 2, filter.end(), ir::SymInt(1), std::multiplies<>());
    if (all > (taps.constant().value_or(0) < least_taps ? few_channels : most_channels))
      return "its channels fill vectors";
    if (convolution.groups == 1 && all_outputs > few_channels) return "its outputs fill vectors";
    if (body.outputs()[0].value()->meta().sizes.back() == 1) return "its lines have one output";
    return "";
  }

  std::vector<int> preferred_order(const ir::Graph&) const override { return {}; }
  bool writes_along(size_t axis, size_t rank) const override { return axis + 1 == rank; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    if (std::unique_ptr<PreparedCall> call = prepare_line_filters(site)) return call;
    return onednn_convolution().prepare(site);
  }
};

}  // namespace

std::unique_ptr<PreparedCall> prepare_line_filters(const CallSite& site) {
  auto call = std::make_unique<LineFiltersCall>();
  call->read(site, 3);
  const Convolution& convolution = call->convolution;
  if (!line_filters_fit(convolution, site)) return nullptr;
  const std::vector<int64_t>& filter = site.operands[static_cast<size_t>(convolution.weight)].sizes;
  call->channels = filter[1];
  call->outputs = filter[0] / convolution.groups;
  if (convolution.bias >= 0) call->bias_step = site.operands[static_cast<size_t>(convolution.bias)].strides[0];
  call->lines_at_once = call->best_lines();
  call->cut(site.threads);
  count_work(*call, convolution, site);
  call->detail = lanes().name;
  return call;
}

const Kernel& line_filters() {
  static const LineFilters kernel;
  return kernel;
}

}  // namespace atenon::kernels
