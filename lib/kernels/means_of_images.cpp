// Means of whole images. Sums of thousands of numbers lose digits if each is added to the last: those of rows are added
// up in blocks (`add_rows`), those of columns and parts in double.
#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/convolution.h"
#include "kernels/lanes.h"
#include "kernels/pooling.h"
#include "kernels/tiled_call.h"

namespace atenon::kernels {

namespace {

constexpr int64_t part_floats = 8 * 1024;      // of an image's part or of a tile of planes, at least
constexpr int64_t most_parts = 8;              // of an image: their sums are added up by one thread
constexpr int64_t enough_images = most_parts;  // for all threads, without parts

// Channels last: an image is cut into parts of lines, as the call that wrote it most likely was.
class MeansInChannelsCall : public PreparedCall {
 public:
  int64_t images = 0, lines = 0, line_pixels = 0, channels = 0, parts = 1;

  size_t scratch_bytes() const override {
    return parts == 1 ? 0 : static_cast<size_t>(images * parts * channels) * sizeof(float);
  }

  Result<void> run(std::span<void* const> buffers, void* scratch) override {
    const auto* x = static_cast<const float*>(buffers[0]);
    auto *y = static_cast<float*>(buffers[1]), *sums = parts == 1 ? y : static_cast<float*>(scratch);
    parallel_for(images * parts, [&](int64_t i) {
      const int64_t part = i % parts, first = lines * part / parts, end = lines * (part + 1) / parts;
      lanes().add_rows(x + (i / parts * lines + first) * line_pixels * channels, channels, (end - first) * line_pixels,
                       channels, sums + i * channels);
    });
    const auto pixels = static_cast<float>(lines * line_pixels);
    for (int64_t image = 0; image < images; ++image, y += channels, sums += parts * channels) {
      if (parts > 1) lanes().add_rows(sums, channels, parts, channels, y);
      for (int64_t j = 0; j < channels; ++j) y[j] /= pixels;
    }
    return {};
  }
};

// In rows: the pixels of a plane, taken as lines of `columns` floats and a rest.
class MeansInRowsCall : public TiledCall {
 public:
  int64_t planes = 0, pixels = 0, columns = 0, planes_a_tile = 1;

  int64_t tiles() const override { return divide_up(planes, planes_a_tile); }
  size_t worker_bytes() const override { return 0; }

  void run_tile(std::span<void* const> buffers, int64_t i, void*) const override {
    const int64_t end = std::min((i + 1) * planes_a_tile, planes);
    for (int64_t plane = i * planes_a_tile; plane < end; ++plane)
      static_cast<float*>(buffers[1])[plane] = mean(static_cast<const float*>(buffers[0]) + plane * pixels);
  }

  static constexpr int64_t most_columns = 64;

 private:
  float mean(const float* x) const {
    std::array<float, most_columns> sums;
    const int64_t lines = pixels / columns;
    lanes().add_rows(x, columns, lines, columns, sums.data());
    double sum = std::accumulate(sums.begin(), sums.begin() + columns, 0.0);
    sum = std::accumulate(x + lines * columns, x + pixels, sum);
    return static_cast<float>(sum / static_cast<double>(pixels));
  }
};

std::unique_ptr<PreparedCall> means_in_channels(const std::vector<int64_t>& x) {
  auto call = std::make_unique<MeansInChannelsCall>();
  const std::vector<int64_t> sizes = spread(x, 1, 3);
  call->images = sizes[0], call->channels = sizes[1];
  call->lines = sizes[2] * sizes[3], call->line_pixels = sizes[4];
  const int64_t floats = call->channels * call->lines * call->line_pixels;
  if (call->images < enough_images)
    call->parts = std::clamp<int64_t>(floats / part_floats, 1, std::clamp<int64_t>(call->lines, 1, most_parts));
  return call;
}

std::unique_ptr<PreparedCall> means_in_rows(const std::vector<int64_t>& x) {
  auto call = std::make_unique<MeansInRowsCall>();
  call->planes = x[0] * x[1];
  call->pixels = std::accumulate(x.begin() + 2, x.end(), int64_t{1}, std::multiplies<>());
  call->columns = call->pixels < 16 * MeansInRowsCall::most_columns ? widest_vector : MeansInRowsCall::most_columns;
  call->planes_a_tile = std::max<int64_t>(part_floats / std::max<int64_t>(call->pixels, 1), 1);
  return call;
}

}  // namespace

std::unique_ptr<PreparedCall> means_of_images(const std::vector<int64_t>& x, bool in_rows) {
  std::unique_ptr<PreparedCall> call = in_rows ? means_in_rows(x) : means_in_channels(x);
  call->bytes = 4.0 * static_cast<double>(count(x) + x[0] * x[1]);
  call->detail = lanes().name;
  return call;
}

}  // namespace atenon::kernels
