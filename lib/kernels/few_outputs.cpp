// Convolutions of up to seven outputs with windows of several taps, over many channels: the end of a network that
// paints an image, or scores its pixels.
//
// A vector of outputs would be half empty or more. But all taps of all outputs fill vectors: each pixel is multiplied
// with the whole filter at once, as rows of a product are, and what its taps give is then added where it belongs. For
// that, the products of a line are turned, so that the sums run along the line.

#include "kernels/convolution.h"
#include "kernels/joined_pixels.h"
#include "kernels/lanes.h"
#include "kernels/list.h"

namespace atenon::kernels {

namespace {

constexpr int64_t most_outputs = 7, least_channels = 16, least_taps = 3, most_taps = 512;
constexpr int64_t most_columns = 256;       // of a tile
constexpr int64_t tile_products = 1 << 20;  // worth handing to a thread, and the lines at its border twice

int64_t lines_of(const std::vector<int64_t>& filter) { return filter.size() > 3 ? filter[2] : 1; }

// The whole filter where it fits into one, else each of its lines.
int64_t panels_of(const std::vector<int64_t>& filter) {
  const int64_t lines = lines_of(filter);
  return filter[0] * filter.back() * lines <= panel_columns ? 1 : lines;
}

// Channel by channel, in panels of 64 columns.
ir::BlockedLayout tap_layout(const std::vector<int64_t>& sizes) {
  const int64_t outputs = sizes[0], width = sizes.back(), panels = panels_of(sizes);
  ir::BlockedLayout layout;
  layout.strides.assign(sizes.size(), 0);
  layout.strides[0] = 1;
  layout.strides[1] = panel_columns;
  if (sizes.size() > 3) layout.strides[2] = panels == 1 ? width * outputs : sizes[1] * panel_columns;
  layout.strides.back() = outputs;
  layout.padded_bytes = panels * sizes[1] * panel_columns * 4;
  return layout;
}

class FewOutputsCall : public ConvolutionCall {
 public:
  int64_t panels = 1, lines_a_tile = 1, line_tiles = 1, columns_a_tile = 1, column_tiles = 1;

  int64_t outputs() const { return y_sizes[1]; }
  int64_t panel_width() const { return filter[0] / panels * filter[1] * outputs(); }
  // Columns of the image that a tile's lines read.
  int64_t line_width() const { return columns_a_tile + (filter[1] - 1) * dilation[1]; }
  int64_t kept_lines() const { return reach(0, 1); }
  int64_t kept_floats() const { return panels * panel_width() * line_width(); }  // of a line
  int64_t tiles() const override { return y_sizes[0] * line_tiles * column_tiles; }
  size_t worker_bytes() const override {
    return in_lines(static_cast<size_t>(kept_lines() * kept_floats()) * sizeof(float)) +
           static_cast<size_t>((line_width() + panel_columns + most_outputs) * panel_columns) * sizeof(float);
  }

  void run_tile(std::span<void* const> buffers, int64_t tile, void* own) const override {
    const int64_t left = tile % column_tiles * columns_a_tile, right = std::min(y_sizes[3], left + columns_a_tile);
    const int64_t top = tile / column_tiles % line_tiles * lines_a_tile,
                  bottom = std::min(y_sizes[2], top + lines_a_tile);
    const At at{tile / column_tiles / line_tiles, top - padding[0], left - padding[1]};
    auto* kept = static_cast<float*>(own);
    auto* products = reinterpret_cast<float*>(
        static_cast<char*>(own) + in_lines(static_cast<size_t>(kept_lines() * kept_floats()) * sizeof(float)));
    int64_t next = at.line;
    for (int64_t line = top; line < bottom; ++line) {
      for (; next < line - padding[0] + kept_lines(); ++next)
        if (next >= 0 && next < x_sizes[2]) multiply(buffers, at, next, kept, products);
      for (int64_t first = left; first < right; first += panel_columns)
        add(buffers, at, line, first, std::min(panel_columns, right - first), kept, products);
    }
  }

 private:
  // Of a tile: its image, and the first line and column that it reads, perhaps outside of the image.
  struct At {
    int64_t image, line, column;
  };
  float* place_of(const At& at, int64_t line, float* kept) const {
    return kept + (line - at.line) % kept_lines() * kept_floats();
  }

  // What all taps make of a line of the image, tap by tap along the line.
  void multiply(std::span<void* const> buffers, const At& at, int64_t line, float* kept, float* products) const {
    const int64_t from = std::max<int64_t>(at.column, 0), end = std::min(x_sizes[3], at.column + line_width());
    const int64_t count = std::max<int64_t>(end - from, 0), before = from - at.column;
    PanelTile tile{};
    tile.a = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + at.image * x_strides[0] +
             line * x_strides[2] + from * x_strides[3];
    tile.a_row = x_strides[3];
    tile.rows = count;
    tile.k = x_sizes[1];
    tile.columns = panel_width();
    tile.is_made = true;
    tile.y = tile.scratch = products;
    tile.y_row = panel_columns;
    float* to = place_of(at, line, kept);
    for (int64_t panel = 0; panel < panels; ++panel) {
      tile.b =
          static_cast<const float*>(buffers[static_cast<size_t>(convolution.weight)]) + panel * tile.k * panel_columns;
      if (count > 0) lanes().panel(tile);
      for (int64_t column = 0; column < tile.columns; ++column) {
        float* row = to + column * line_width();
        std::fill(row, row + before, 0.f);
        std::fill(row + before + count, row + line_width(), 0.f);
        for (int64_t i = 0; count < widest_vector && i < count; ++i)
          row[before + i] = products[i * panel_columns + column];
      }
      if (count >= widest_vector) lanes().turn(products, panel_columns, count, tile.columns, to + before, line_width());
      to += tile.columns * line_width();
    }
  }

  // `count` outputs of a line, from column `first` on.
  void add(std::span<void* const> buffers, const At& at, int64_t line, int64_t first, int64_t count, float* kept,
           float* sums) const {
    const float* lines[most_taps];
    float* scratch = sums + most_outputs * panel_columns;
    const auto* bias =
        convolution.bias < 0 ? nullptr : static_cast<const float*>(buffers[static_cast<size_t>(convolution.bias)]);
    const int64_t column = first - padding[1] - at.column;
    for (int64_t output = 0; output < outputs(); ++output) {
      int64_t found = 0;
      for (int64_t i = 0; i < filter[0]; ++i) {
        const int64_t read = line - padding[0] + i * dilation[0];
        if (read < 0 || read >= x_sizes[2]) continue;
        const float* from = place_of(at, read, kept) + column;
        for (int64_t j = 0; j < filter[1]; ++j)
          lines[found++] = from + ((i * filter[1] + j) * outputs() + output) * line_width() + j * dilation[1];
      }
      lanes().add_lines(lines, found, bias ? bias[output] : 0, count, sums + output * panel_columns);
    }
    const bool in_rows = y_strides[3] == 1;
    if (!in_rows)
      for (int64_t i = 0; i < count; ++i)
        for (int64_t output = 0; output < outputs(); ++output)
          scratch[i * panel_columns + output] = sums[output * panel_columns + i];
    const size_t row_axis = in_rows ? 1 : 3, column_axis = in_rows ? 3 : 1;
    const auto place = [&](const std::vector<int64_t>& strides) {
      return at.image * strides[0] + line * strides[2] + first * strides[3];
    };
    Step steps[most_steps];
    for (size_t s = 0; s < convolution.epilogue.size(); ++s)
      steps[s] = make_step(convolution.epilogue[s], buffers, place(operand_strides[s]), operand_strides[s][row_axis],
                           operand_strides[s][column_axis]);
    PanelTile tile{};
    tile.rows = in_rows ? outputs() : count;
    tile.columns = in_rows ? count : outputs();
    tile.steps = steps;
    tile.step_count = static_cast<int64_t>(convolution.epilogue.size());
    tile.y = static_cast<float*>(buffers[result]) + place(y_strides);
    tile.y_row = y_strides[row_axis];
    tile.scratch = in_rows ? sums : scratch;
    lanes().finish(tile);
  }
};

// Whether a call's operands lie as these loops read them, weights aside; else it is left to oneDNN.
bool fits(const Convolution& convolution, const CallSite& site) {
  const Operand& x = site.operands[static_cast<size_t>(convolution.x)];
  const Operand& y = site.results[0];
  const bool in_rows = y.strides.back() == 1;
  if (x.strides[1] != 1 || (!in_rows && y.strides[1] != 1)) return false;
  for (const std::vector<int64_t>& strides : operand_strides(convolution, site))
    if (const int64_t step = in_rows ? strides.back() : strides[1]; step != 0 && step != 1) return false;
  return has_plain_bias(convolution, site);
}

int64_t taps_of(const std::vector<ir::SymInt>& filter) {
  return *filter.back().constant() * (filter.size() > 3 ? *filter[2].constant() : 1);
}

class FewOutputs : public ConvolutionKernel {
 public:
  const char* name() const override { return "few_outputs"; }

  std::string refusal(const ir::Graph& body) const override {
    Convolution convolution;
    if (std::string refusal = read_convolution(body, {}, convolution); !refusal.empty()) return refusal;
    const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    if (convolution.transposed || convolution.groups != 1 || filter.size() > 4)
      return "not forward, of all channels, in 1 or 2 dimensions";
    if (*filter[0].constant() > most_outputs) return "its outputs fill vectors";
    if (*filter[0].constant() * *filter.back().constant() > panel_columns || taps_of(filter) > most_taps)
      return "its window is too large";
    for (int64_t step : convolution.stride)
      if (step != 1) return "its stride is not 1";
    return lanes_refusal(convolution.epilogue);
  }

  std::string drawback(const ir::Graph& body) const override {
    Convolution convolution;
    read_convolution(body, {}, convolution);
    const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(convolution.weight)]->meta().sizes;
    const int64_t outputs = *filter[0].constant(), channels = *filter[1].constant(), taps = taps_of(filter);
    if (channels < least_channels || taps < least_taps) return "its sums have few terms";
    // Adding up what the taps of an output give takes as long as to multiply so many more channels: measured for 16 to
    // 64 channels and windows of 3 to 7.
    const int64_t added = taps <= 9 ? 10 : 20;
    const bool fills_vectors = lanes().width < widest_vector && outputs * (channels + added) > 5 * channels;
    return fills_vectors ? "oneDNN multiplies eight outputs at once in less time" : "";
  }

  std::optional<ir::BlockedLayout> weight_layout(const CallSite& site, size_t operand) const override {
    Convolution convolution;
    if (!read_convolution(*site.body, site.symbols, convolution).empty()) return std::nullopt;
    if (static_cast<int>(operand) != convolution.weight) return std::nullopt;
    // oneDNN is faster then; without a layout of ours, the call is left to it.
    if (site.operands[operand].sizes[0] > 3 && joined_pixels(site, convolution) > 1) return std::nullopt;
    if (!fits(convolution, site)) return onednn_convolution().weight_layout(site, operand);
    return tap_layout(site.operands[operand].sizes);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<FewOutputsCall>();
    call->read(site, 2);
    const Convolution& convolution = call->convolution;
    const Operand& weight = site.operands[static_cast<size_t>(convolution.weight)];
    if (!is_packed(weight, tap_layout(weight.sizes)) || !fits(convolution, site))
      return onednn_convolution().prepare(site);
    const std::vector<int64_t>&filter = call->filter, &y = call->y_sizes;
    call->panels = panels_of(weight.sizes);
    const int64_t lines = std::max<int64_t>(1, y[2]), columns = std::max<int64_t>(1, y[3]);
    call->column_tiles = divide_up(columns, most_columns);
    call->columns_a_tile = divide_up(columns, call->column_tiles);
    const int64_t line_products = call->columns_a_tile * call->x_sizes[1] * filter[0] * filter[1] * y[1];
    // The lines between two tiles are multiplied for both.
    const int64_t worth = std::max(divide_up(tile_products, line_products), 4 * (call->kept_lines() - 1));
    call->line_tiles = divide_up(lines, std::clamp<int64_t>(worth, 1, lines));
    call->lines_a_tile = divide_up(lines, call->line_tiles);
    call->line_tiles = divide_up(lines, call->lines_a_tile);
    count_work(*call, convolution, site);
    call->detail = lanes().name;
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

const Kernel& few_outputs() {
  static const FewOutputs kernel;
  return kernel;
}

}  // namespace atenon::kernels
