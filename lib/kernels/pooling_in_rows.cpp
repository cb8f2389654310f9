// Pooling of images that lie in rows: oneDNN turns these into channels last and back.
//
// The lines of a window become one line, which stands between what pads it, and then each output is made of its
// neighbours there.
#include <algorithm>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/pooling.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t tile_terms = 32 * 1024;  // of windows
constexpr int64_t most_held = 4 * 1024;    // floats of lines that are held at once: they stay in the first-level cache

class PoolingInRowsCall : public TiledCall {
 public:
  PoolTile shape{};  // of all tiles; they differ in where they lie
  std::vector<int32_t> rows, row_counts, places;
  std::vector<float> row_shares, shares;  // of an average
  int64_t planes = 0, lines = 0, planes_a_tile = 1, lines_a_tile = 1;
  size_t x = 0, result = 0;

  int64_t line_tiles() const { return divide_up(lines, lines_a_tile); }
  int64_t tiles() const override { return divide_up(planes, planes_a_tile) * line_tiles(); }
  size_t worker_bytes() const override { return static_cast<size_t>(lines_a_tile * shape.line_floats) * sizeof(float); }

  void run_tile(std::span<void* const> buffers, int64_t i, void* own) const override {
    const int64_t plane = i / line_tiles() * planes_a_tile, line = i % line_tiles() * lines_a_tile;
    PoolTile tile = shape;
    tile.planes = std::min(planes_a_tile, planes - plane);
    tile.lines = std::min(lines_a_tile, lines - line);
    tile.x = static_cast<const float*>(buffers[x]) + plane * tile.x_plane;
    tile.y = static_cast<float*>(buffers[result]) + plane * tile.y_plane + line * tile.outputs;
    tile.rows = rows.data() + line;
    tile.row_counts = row_counts.data() + line;
    tile.places = places.data();
    if (!shares.empty()) tile.row_shares = row_shares.data() + line, tile.shares = shares.data();
    tile.scratch = static_cast<float*>(own);
    lanes().pool(tile);
  }
};

}  // namespace

std::unique_ptr<PreparedCall> prepare_pooling_in_rows(const Pooling& pooling, const CallSite& site) {
  const Operand &x = site.operands[static_cast<size_t>(pooling.x)], &y = site.results[0];
  if (pooling.global || x.sizes.size() > 4 || count(x.sizes) == 0 || x.strides != contiguous_strides(x.sizes) ||
      y.strides != contiguous_strides(y.sizes))
    return nullptr;
  auto call = std::make_unique<PoolingInRowsCall>();
  PoolTile& shape = call->shape;
  const std::vector<int64_t> x_sizes = spread(x.sizes, 1, 2), y_sizes = spread(y.sizes, 1, 2);
  const std::vector<int64_t> window = spatial(pooling.window, 1, 2), stride = spatial(pooling.stride, 1, 2),
                             padding = spatial(pooling.padding, 0, 2), dilation = spatial(pooling.dilation, 1, 2);
  call->planes = y_sizes[0] * y_sizes[1];
  call->lines = y_sizes[2];
  call->x = static_cast<size_t>(pooling.x);
  call->result = site.operands.size();
  shape.width = x_sizes[3];
  shape.x_plane = x_sizes[2] * shape.width;
  shape.x_row = dilation[0] * shape.width;
  shape.padding = padding[1], shape.dilation = dilation[1], shape.window = window[1];
  shape.step = stride[1], shape.outputs = y_sizes[3];
  shape.y_plane = call->lines * shape.outputs;
  const auto share = [&](int64_t window, int64_t inside) {
    return 1.f / static_cast<float>(pooling.kind == Pooling::Kind::average_with_padding ? window : inside);
  };
  for (int64_t i = 0; i < call->lines; ++i) {
    const Inside inside(i * stride[0] - padding[0], window[0], dilation[0], x_sizes[2]);
    call->rows.push_back(static_cast<int32_t>(inside.first));
    call->row_counts.push_back(static_cast<int32_t>(inside.count));
    if (pooling.kind != Pooling::Kind::max) call->row_shares.push_back(share(window[0], inside.count));
  }
  for (int64_t i = 0; i < shape.outputs; ++i) {
    const Inside inside(i * shape.step - padding[1], window[1], dilation[1], shape.width);
    call->places.push_back(static_cast<int32_t>(i * shape.step));
    if (pooling.kind != Pooling::Kind::max) call->shares.push_back(share(window[1], inside.count));
  }
  const int64_t reach = call->places.back() + (window[1] - 1) * dilation[1] + 1;
  call->places.insert(call->places.end(), widest_vector, call->places.back());
  if (!call->shares.empty()) call->shares.insert(call->shares.end(), widest_vector, 0.f);
  // Behind them there are as many as the last output's vector reads from the vectors between its windows.
  shape.line_floats = divide_up(std::max(reach, padding[1] + shape.width), widest_vector) * widest_vector +
                      std::clamp<int64_t>(shape.step, 2, 4) * widest_vector;
  call->lines_a_tile = std::clamp<int64_t>(most_held / shape.line_floats, 1, call->lines);
  if (call->lines_a_tile == call->lines) {
    const int64_t terms = call->planes * shape.y_plane * window[0] * window[1];
    const int64_t tiles = (terms / tile_terms + 3) / 4 * 4;  // so that threads finish together
    call->planes_a_tile = tiles == 0 ? call->planes : divide_up(call->planes, tiles);
  }
  call->bytes = 4 * (count(x.sizes) + count(y.sizes));
  call->flops = count(y.sizes) * static_cast<double>(window[0] * window[1]);
  call->detail = lanes().name;
  return call;
}

}  // namespace atenon::kernels
