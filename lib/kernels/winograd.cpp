// Convolutions of 3 x 3 by Winograd's algorithm (winograd.h): tiles of the image become points, each point is a matrix
// product of tiles by channels, and the sums become tiles of the result.
//
// Where there are many tiles, a thread takes a block of them through all three steps, so that points and sums stay in
// its cache. Where there are few, the weight is what has to be read: the threads first share out the tiles, then the
// panels of the weight, each of which is read once.
#include "kernels/winograd.h"

#include <algorithm>
#include <cassert>
#include <cstdio>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/list.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

constexpr int64_t least_tiles = 6, most_tiles = 24;  // of a block; multiples of the rows that panel() takes at once
constexpr int64_t shared_tiles = 4;                  // handed to a thread at once where threads share out the tiles
constexpr int64_t padding_floats = 16;               // behind tiles and points, so that they do not share cache sets
constexpr int64_t most_points = 36;                  // of a tile
constexpr int64_t serial_products = 1 << 20;         // less than this is done before a second thread has woken up

std::string read_filter(const ir::Graph& body, const shape::Bindings& symbols, Convolution& found) {
  if (std::string refusal = read_convolution(body, symbols, found); !refusal.empty()) return refusal;
  auto are = [](const std::vector<int64_t>& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == wanted; });
  };
  const std::vector<ir::SymInt>& filter = body.inputs()[static_cast<size_t>(found.weight)]->meta().sizes;
  if (found.transposed || filter.size() != 4 || filter[2] != ir::SymInt(3) || filter[3] != ir::SymInt(3))
    return "no filter of 3 x 3";
  if (!are(found.stride, 1) || !are(found.dilation, 1)) return "its stride or dilation is not 1";
  if (found.groups != 1) return "it has groups";
  return lanes_refusal(found.epilogue);
}

class WinogradCall : public PreparedCall {
 public:
  Convolution convolution;
  std::vector<int64_t> x_sizes, x_strides, y_sizes, y_strides;
  std::vector<std::vector<int64_t>> operand_strides;  // of the epilogue's steps
  int64_t outputs = 0;                                // a side of a tile
  size_t weight = 0, result = 0;                      // buffers
  std::vector<float> zeros;                           // a pixel outside of the image
  // An addition and relu, where the epilogue begins with them, are done on the way to the image; then come the steps
  // from `left_step` on.
  bool adds = false, rectifies = false;
  size_t left_step = 0;

  int64_t side() const { return outputs + 2; }
  int64_t points() const { return side() * side(); }
  int64_t channels() const { return x_sizes[1]; }
  int64_t panels() const { return divide_up(y_sizes[1], panel_columns); }
  int64_t tile_rows() const { return divide_up(y_sizes[2], outputs); }
  int64_t tile_columns() const { return divide_up(y_sizes[3], outputs); }
  int64_t tiles() const { return y_sizes[0] * tile_rows() * tile_columns(); }
  // Blocks are even, and those of a few tiles are lower, so that there is work for several threads.
  int64_t blocks() const {
    const int64_t most = std::clamp(divide_up(tiles() * panels(), 4), least_tiles, most_tiles);
    return divide_up(tiles(), most);
  }
  int64_t block_tiles() const { return blocks() == 0 ? 0 : divide_up(tiles(), blocks()); }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    const bool is_shared = shares_tiles();
    auto* points = static_cast<float*>(scratch);
    Tiles groups(divide_up(tiles(), shared_tiles), workers());
    Tiles units(is_shared ? blocks() * panels() : blocks(), workers());
    run_team(static_cast<int>(workers()), [&](Team& team, int member) {
      float* sums = points + point_floats() + member * sum_floats();
      // A team may be smaller than was asked for.
      const auto share = [&](Tiles& all, const auto& one) {
        for (int64_t part = member; part < workers(); part += team.members()) all.for_each(part, one);
      };
      if (is_shared) {
        share(groups, [&](int64_t group) {
          for (int64_t i = group * shared_tiles; i < std::min(tiles(), (group + 1) * shared_tiles); ++i)
            transform(buffers, i, points + i * tile_floats());
        });
        team.wait();
        share(units, [&](int64_t unit) {
          const int64_t first = unit % blocks() * block_tiles();
          multiply(buffers, first, unit / blocks(), points + first * tile_floats(), sums);
        });
        return;
      }
      float* own = points + member * block_tiles() * tile_floats();
      share(units, [&](int64_t block) {
        const int64_t first = block * block_tiles(), last = std::min(tiles(), first + block_tiles());
        for (int64_t tile = first; tile < last; ++tile) transform(buffers, tile, own + (tile - first) * tile_floats());
        for (int64_t panel = 0; panel < panels(); ++panel) multiply(buffers, first, panel, own, sums);
      });
    });
    return {};
  }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(point_floats() + workers() * sum_floats()) * sizeof(float);
  }

 private:
  bool shares_tiles() const { return blocks() < 4 * threads(); }
  int64_t workers() const {
    if (tiles() * points() * channels() * y_sizes[1] < serial_products) return 1;
    return std::min<int64_t>(shares_tiles() ? blocks() * panels() : blocks(), threads());
  }
  int64_t tile_floats() const { return points() * channels() + padding_floats; }
  int64_t point_floats() const {
    return (shares_tiles() ? tiles() : workers() * block_tiles()) * tile_floats() / 16 * 16 + 16;
  }
  int64_t point_sums() const { return block_tiles() * panel_columns + padding_floats; }
  int64_t sum_floats() const { return points() * point_sums() + outputs * outputs * panel_columns; }

  // Where a tile lies: image, and row and column of its first result.
  struct At {
    int64_t image, row, column;
  };
  At at(int64_t tile) const {
    const int64_t row = tile / tile_columns();
    return {row / tile_rows(), row % tile_rows() * outputs, tile % tile_columns() * outputs};
  }

  void transform(std::span<void* const> buffers, int64_t tile, float* to) const {
    const At here = at(tile);
    const auto* x = static_cast<const float*>(buffers[static_cast<size_t>(convolution.x)]) + here.image * x_strides[0];
    const int64_t top = here.row - convolution.padding[0], left = here.column - convolution.padding[1];
    const float* pixels[most_points];
    for (int64_t i = 0; i < side(); ++i)
      for (int64_t j = 0; j < side(); ++j) {
        const int64_t row = top + i, column = left + j;
        const bool is_inside = row >= 0 && row < x_sizes[2] && column >= 0 && column < x_sizes[3];
        pixels[i * side() + j] = is_inside ? x + row * x_strides[2] + column * x_strides[3] : zeros.data();
      }
    lanes().winograd_in(outputs, pixels, 2 * outputs * x_strides[3], channels(), to);
  }

  // One block of tiles by one panel of the weight.
  void multiply(std::span<void* const> buffers, int64_t first, int64_t panel, const float* from, float* sums) const {
    const int64_t count = std::min(block_tiles(), tiles() - first), channel = panel * panel_columns;
    const int64_t width = std::min(panel_columns, y_sizes[1] - channel);
    PanelTile tile{};
    tile.rows = count;
    tile.k = channels();
    tile.a = from;
    tile.a_row = tile_floats();
    tile.columns = width;
    const auto* u = static_cast<const float*>(buffers[weight]);
    const int64_t matrices = panels() * points(), matrix = channels() * panel_columns;
    tile.y_row = panel_columns;
    for (int64_t point = 0; point < points(); ++point) {
      const int64_t number = panel * points() + point;
      tile.b = u + number * matrix;
      if (width == panel_columns) tile.next = u + (number + 1) % matrices * matrix;
      tile.scratch = tile.y = sums + point * point_sums();
      lanes().panel(tile);
      tile.a += channels();
    }
    WinogradOutputs out{};
    out.point = point_sums();
    if (convolution.bias >= 0)
      out.bias = static_cast<const float*>(buffers[static_cast<size_t>(convolution.bias)]) + channel;
    if (adds) {
      out.added_row = operand_strides[0][2];
      out.added_column = operand_strides[0][3];
    }
    out.is_rectified = rectifies;
    out.channels = width;
    const bool is_finished = left_step == convolution.epilogue.size();
    float* finished = sums + points() * point_sums();
    out.y_row = is_finished ? y_strides[2] : outputs * panel_columns;
    out.y_column = is_finished ? y_strides[3] : panel_columns;
    for (int64_t i = 0; i < count; ++i) {
      const At here = at(first + i);
      out.sums = sums + i * panel_columns;
      out.rows = std::min(outputs, y_sizes[2] - here.row);
      out.columns = std::min(outputs, y_sizes[3] - here.column);
      float* y = static_cast<float*>(buffers[result]) + place(here, channel, y_strides);
      if (adds)
        out.added = static_cast<const float*>(buffers[static_cast<size_t>(convolution.epilogue[0].operand)]) +
                    place(here, channel, operand_strides[0]);
      out.y = is_finished ? y : finished;
      lanes().winograd_out(outputs, out);
      if (!is_finished) finish(buffers, here, channel, out, y);
    }
  }

  static int64_t place(const At& here, int64_t channel, const std::vector<int64_t>& strides) {
    return here.image * strides[0] + channel * strides[1] + here.row * strides[2] + here.column * strides[3];
  }

  // The steps that are left, from `sums.y` to the image.
  void finish(std::span<void* const> buffers, At here, int64_t channel, const WinogradOutputs& sums, float* y) const {
    Step steps[most_steps];
    PanelTile tile{};
    tile.rows = sums.columns;
    tile.columns = sums.channels;
    tile.steps = steps;
    tile.step_count = static_cast<int64_t>(convolution.epilogue.size() - left_step);
    tile.y_row = y_strides[3];
    for (int64_t row = 0; row < sums.rows; ++row, ++here.row) {
      for (int64_t i = 0; i < tile.step_count; ++i) {
        const size_t number = left_step + static_cast<size_t>(i);
        const std::vector<int64_t>& strides = operand_strides[number];
        steps[i] =
            make_step(convolution.epilogue[number], buffers, place(here, channel, strides), strides[3], strides[1]);
      }
      tile.y = y + row * y_strides[2];
      tile.scratch = sums.y + row * sums.y_row;
      lanes().finish(tile);
    }
  }
};

// The last operand, where the body reads it nowhere.
bool has_points(const ir::Graph& body) {
  if (body.inputs().empty()) return false;
  const ir::Value& last = *body.inputs().back();
  return last.is_tensor() && last.meta().rank() == 4 && !last.has_users();
}

class Winograd : public ConvolutionKernel {
 public:
  const char* name() const override { return "winograd"; }

  std::string refusal(const ir::Graph& body) const override {
    if (std::string refusal = winograd_refusal(body); !refusal.empty()) return refusal;
    return has_points(body) ? "" : "`lower --winograd` did not choose it";
  }

  bool reads(const ir::Graph& body, size_t operand) const override {
    return !winograd_refusal(body).empty() || operand != winograd_filter(body);
  }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto call = std::make_unique<WinogradCall>();
    Convolution& convolution = call->convolution;
    [[maybe_unused]] const std::string refusal = read_filter(*site.body, site.symbols, convolution);
    assert(refusal.empty());
    const Operand &x = site.operands[static_cast<size_t>(convolution.x)], &y = site.results[0];
    const Operand& points = site.operands.back();
    call->outputs = points.sizes[1] == 16 ? 2 : 4;
    const std::vector<int64_t> wanted = {divide_up(y.sizes[1], panel_columns),
                                         (call->outputs + 2) * (call->outputs + 2), x.sizes[1], panel_columns};
    if (points.sizes != wanted || points.strides != contiguous_strides(wanted) || !lies_channels_last(x) ||
        !lies_channels_last(y) || !has_plain_bias(convolution, site)) {
      const ir::Weight* direct = site.operands[static_cast<size_t>(convolution.weight)].weight;
      if (!direct || !direct->tensor.storage->is_absent()) return onednn_convolution().prepare(site);
      return error(Status::unsupported, 613,
                   "winograd: its operands lie as no Winograd convolution's, and the bytes of '" + direct->name +
                       "' are absent");
    }
    call->x_sizes = x.sizes;
    call->x_strides = x.strides;
    call->y_sizes = y.sizes;
    call->y_strides = y.strides;
    call->operand_strides = operand_strides(convolution, site);
    const std::vector<PostOp>& steps = convolution.epilogue;
    auto begins_with = [&](StepKind kind) {
      return call->left_step < steps.size() && steps[call->left_step].kind == kind;
    };
    call->adds = begins_with(StepKind::add) && call->operand_strides[0][1] == 1;
    call->left_step += call->adds ? 1 : 0;
    call->rectifies = begins_with(StepKind::relu);
    call->left_step += call->rectifies ? 1 : 0;
    call->weight = site.operands.size() - 1;
    call->result = site.operands.size();
    call->zeros.assign(static_cast<size_t>(x.sizes[1]), 0);
    const auto products = static_cast<double>(call->tiles() * call->points() * call->channels());
    call->flops = 2 * products * static_cast<double>(y.sizes[1]);
    call->bytes = 4 * (count(x.sizes) + count(wanted) + count(y.sizes));
    const std::string side = std::to_string(call->outputs);
    call->detail = "F(" + side + "x" + side + ", 3x3)";
    for (const ir::Named& named : site.annotations ? *site.annotations : std::vector<ir::Named>()) {
      if (named.name != "error") continue;
      char text[32];
      std::snprintf(text, sizeof text, ", error %.1e", number_of(named.argument, site.symbols).value_or(0));
      call->detail += text;
    }
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

std::string winograd_refusal(const ir::Graph& body) {
  Convolution ignored;
  return read_filter(body, {}, ignored);
}

size_t winograd_filter(const ir::Graph& body) {
  Convolution convolution;
  [[maybe_unused]] const std::string refusal = read_filter(body, {}, convolution);
  assert(refusal.empty());
  return static_cast<size_t>(convolution.weight);
}

int64_t winograd_outputs(const CallSite& site) {
  Convolution convolution;
  if (!read_filter(*site.body, site.symbols, convolution).empty()) return 0;
  const Operand& x = site.operands[static_cast<size_t>(convolution.x)];
  if (!lies_channels_last(x) || !lies_channels_last(site.results[0])) return 0;
  const std::vector<int64_t>& y = site.results[0].sizes;
  const auto channels = static_cast<double>(x.sizes[1]);
  const auto results = static_cast<double>(y[1]);
  // In multiplications of a number at the speed of a good matrix product. Measured on two cores of AVX-512: what it
  // costs to read a number of a weight from memory, to transform one of a point or of a sum, and to begin.
  constexpr double read = 24, transformed = 28, summed = 17, begun = 1e6, small_product = 1.25, worth = 0.95;
  const double pixels = static_cast<double>(y[0] * y[2] * y[3]);
  const double direct = channels * results * 9 * std::max(pixels, read);
  double least = worth * direct;
  int64_t best = 0;
  for (int64_t outputs : {2, 4}) {
    const auto points = static_cast<double>((outputs + 2) * (outputs + 2));
    const auto tiles = static_cast<double>(y[0] * divide_up(y[2], outputs) * divide_up(y[3], outputs));
    const double cost = begun + points * (channels * results * std::max(small_product * tiles, read) +
                                          tiles * (transformed * channels + summed * results));
    if (cost >= least) continue;
    least = cost;
    best = outputs;
  }
  return best;
}

const Kernel& winograd() {
  static const Winograd kernel;
  return kernel;
}

}  // namespace atenon::kernels
