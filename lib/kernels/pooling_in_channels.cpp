// Pooling of images that lie channels last: the largest of windows, of which PyTorch's is NaN where a window has one
// and oneDNN's is not.
//
// What of a window lies in the image is counted once for each line and each column of outputs.
#include <algorithm>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/pooling.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t tile_terms = 32 * 1024;  // of windows

class LargestCall : public TiledCall {
 public:
  WindowsTile shape{};  // of all lines; they differ in where they lie
  std::vector<int64_t> rows, row_ends, columns;
  std::vector<int32_t> column_counts;
  int64_t images = 0, image = 0, lines = 0, lines_a_tile = 1;

  int64_t tiles() const override { return divide_up(images * lines, lines_a_tile); }
  size_t worker_bytes() const override { return 0; }

  void run_tile(std::span<void* const> buffers, int64_t i, void*) const override {
    WindowsTile tile = shape;
    tile.columns = columns.data(), tile.column_counts = column_counts.data();
    const int64_t end = std::min((i + 1) * lines_a_tile, images * lines);
    for (int64_t at = i * lines_a_tile; at < end; ++at) {
      const int64_t line = at % lines, begin = line == 0 ? 0 : row_ends[line - 1];
      tile.rows = rows.data() + begin, tile.row_count = row_ends[line] - begin;
      tile.x = static_cast<const float*>(buffers[0]) + at / lines * image;
      tile.y = static_cast<float*>(buffers[1]) + at * tile.outputs * tile.channels;
      lanes().largest_of_windows(tile);
    }
  }
};

}  // namespace

std::unique_ptr<PreparedCall> largest_of_windows(const Pooling& pooling, const std::vector<int64_t>& x,
                                                 const std::vector<int64_t>& y) {
  auto call = std::make_unique<LargestCall>();
  const std::vector<int64_t> x_sizes = spread(x, 1, 3), y_sizes = spread(y, 1, 3);
  const std::vector<int64_t> window = spatial(pooling.window, 1, 3), stride = spatial(pooling.stride, 1, 3),
                             padding = spatial(pooling.padding, 0, 3), dilation = spatial(pooling.dilation, 1, 3);
  const auto inside = [&](size_t axis, int64_t output) {
    return Inside(output * stride[axis] - padding[axis], window[axis], dilation[axis], x_sizes[axis + 2]);
  };
  WindowsTile& shape = call->shape;
  shape.channels = x_sizes[1], shape.outputs = y_sizes[4], shape.x_tap = dilation[2] * shape.channels;
  const int64_t row = x_sizes[4] * shape.channels;
  call->images = y_sizes[0], call->image = x_sizes[2] * x_sizes[3] * x_sizes[4] * shape.channels;
  call->lines = y_sizes[2] * y_sizes[3];
  for (int64_t i = 0; i < call->lines; ++i) {
    const Inside planes = inside(0, i / y_sizes[3]), lines = inside(1, i % y_sizes[3]);
    for (int64_t j = 0; j < planes.count * lines.count; ++j)
      call->rows.push_back(
          ((planes.first + j / lines.count * dilation[0]) * x_sizes[3] + lines.first + j % lines.count * dilation[1]) *
          row);
    call->row_ends.push_back(static_cast<int64_t>(call->rows.size()));
  }
  for (int64_t i = 0; i < shape.outputs; ++i) {
    const Inside columns = inside(2, i);
    call->columns.push_back(columns.first * shape.channels);
    call->column_counts.push_back(static_cast<int32_t>(columns.count));
  }
  const int64_t terms = shape.outputs * shape.channels * window[0] * window[1] * window[2];
  // Even ones: threads that share the lines evenly find much of what they wrote before in their own caches.
  const int64_t all = call->images * call->lines, tiles = std::max<int64_t>(divide_up(all * terms, tile_terms), 1);
  call->lines_a_tile = std::max<int64_t>(divide_up(all, tiles), 1);
  call->detail = lanes().name;
  return call;
}

}  // namespace atenon::kernels
