// The loops of Winograd's convolutions over a vector type V, behind lanes_loops.h: transforms of one tile.
//
// The product between them is panel(), a matrix of tiles by channels for each point. The formulas are in
// winograd_transforms.h.

namespace {

template <class F, bool is_whole>
inline void winograd_in_block(const float* const* pixels, int64_t ahead, int64_t channel, int count, int64_t channels,
                              float* v) {
  constexpr int n = F::points;
  V columns[n * n];
#pragma GCC unroll 6
  for (int j = 0; j < n; ++j) {
    V pixel[n];
#pragma GCC unroll 6
    for (int i = 0; i < n; ++i) {
      const float* place = pixels[i * n + j] + channel;
      pixel[i] = is_whole ? V::load(place) : V::load_first(place, count);
      if (j >= n - F::outputs) __builtin_prefetch(place + ahead);
    }
    F::in(pixel, 1, columns + j, n);
  }
#pragma GCC unroll 6
  for (int i = 0; i < n; ++i) {
    V row[n];
    F::in(columns + i * n, 1, row, 1);
#pragma GCC unroll 6
    for (int j = 0; j < n; ++j) {
      float* place = v + (i * n + j) * channels + channel;
      if (is_whole)
        row[j].store(place);
      else
        row[j].store_first(place, count);
    }
  }
}

template <class F>
void winograd_in_of(const float* const* pixels, int64_t ahead, int64_t channels, float* v) {
  int64_t channel = 0;
  for (; channel + V::width <= channels; channel += V::width)
    winograd_in_block<F, true>(pixels, ahead, channel, V::width, channels, v);
  if (channel < channels)
    winograd_in_block<F, false>(pixels, ahead, channel, static_cast<int>(channels - channel), channels, v);
}

void winograd_in(int64_t outputs, const float* const* pixels, int64_t ahead, int64_t channels, float* v) {
  outputs == 2 ? winograd_in_of<Winograd2>(pixels, ahead, channels, v)
               : winograd_in_of<Winograd4>(pixels, ahead, channels, v);
}

template <class F, bool is_whole>
inline void winograd_out_block(const WinogradOutputs& tile, int64_t channel, int count) {
  constexpr int n = F::points, m = F::outputs;
  V columns[m * n];
#pragma GCC unroll 6
  for (int j = 0; j < n; ++j) {
    V point[n];
#pragma GCC unroll 6
    for (int i = 0; i < n; ++i) point[i] = V::load(tile.sums + (i * n + j) * tile.point + channel);
    F::out(point, 1, columns + j, n);
  }
  V bias = V::all(0);
  if (tile.bias) bias = is_whole ? V::load(tile.bias + channel) : V::load_first(tile.bias + channel, count);
#pragma GCC unroll 4
  for (int i = 0; i < m; ++i) {
    if (i >= tile.rows) break;
    V row[m];
    F::out(columns + i * n, 1, row, 1);
    float* place = tile.y + i * tile.y_row + channel;
    const float* added = tile.added ? tile.added + i * tile.added_row + channel : nullptr;
#pragma GCC unroll 4
    for (int j = 0; j < m; ++j, place += tile.y_column) {
      if (j >= tile.columns) break;
      V y = row[j] + bias;
      if (added) {
        y = y + (is_whole ? V::load(added) : V::load_first(added, count));
        added += tile.added_column;
      }
      if (tile.is_rectified) y = max(V::all(0), y);
      if (is_whole)
        y.store(place);
      else
        y.store_first(place, count);
    }
  }
}

template <class F>
void winograd_out_of(const WinogradOutputs& tile) {
  int64_t channel = 0;
  for (; channel + V::width <= tile.channels; channel += V::width) winograd_out_block<F, true>(tile, channel, V::width);
  if (channel < tile.channels) winograd_out_block<F, false>(tile, channel, static_cast<int>(tile.channels - channel));
}

void winograd_out(int64_t outputs, const WinogradOutputs& tile) {
  outputs == 2 ? winograd_out_of<Winograd2>(tile) : winograd_out_of<Winograd4>(tile);
}

}  // namespace
