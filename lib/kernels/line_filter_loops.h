// The loops of kernel `line_filters` over a vector type V, behind lanes_loops.h.

namespace {

// One result's sums wait for each other: it has two in turn.
template <int results, int vectors>
struct LineSums {
  static constexpr int chains = results == 1 ? 2 : 1;
  V values[chains][results][vectors];
};

// What one row of x gives to results [first, last): `w` is the row of the first one's filter that meets it.
template <int first, int last, int results, int vectors>
inline __attribute__((always_inline)) void add_row_of_line(const LineFilterTile& tile, const float* x, const float* w,
                                                           int64_t w_result, LineSums<results, vectors>& sums) {
  auto step = [&](int64_t tap, int chain) __attribute__((always_inline)) {
    V right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) right[j] = V::load(x + tile.columns[tap] + j * V::width);
#pragma GCC unroll 4
    for (int i = first; i < last; ++i) {
      const V left = V::all(w[(i - first) * w_result + tap]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums.values[chain][i][j].add_product(left, right[j]);
    }
  };
  constexpr int other = LineSums<results, vectors>::chains - 1;
  int64_t tap = 0;
  for (; tap + 2 <= tile.taps; tap += 2) step(tap, 0), step(tap + 1, other);
  if (tap < tile.taps) step(tap, 0);
}

// Rows of x that only the first of the results, which are lines, read: before all of them do.
template <int row, int results, int vectors>
inline __attribute__((always_inline)) void add_first_rows(const LineFilterTile& tile, const float* x, const float* w,
                                                          LineSums<results, vectors>& sums) {
  if constexpr (row < results - 1) {
    add_row_of_line<0, row + 1>(tile, x + row * tile.x_row, w + row * tile.taps, -tile.taps, sums);
    add_first_rows<row + 1>(tile, x, w, sums);
  }
}

// And that only the last of them read.
template <int row, int results, int vectors>
inline __attribute__((always_inline)) void add_last_rows(const LineFilterTile& tile, const float* x, const float* w,
                                                         LineSums<results, vectors>& sums) {
  if constexpr (row < results) {
    add_row_of_line<row, results>(tile, x + (row - 1) * tile.x_row, w, -tile.taps, sums);
    add_last_rows<row + 1>(tile, x, w, sums);
  }
}

template <int results, int vectors>
inline __attribute__((always_inline)) void filter_block(const LineFilterTile& tile, int64_t at) {
  LineSums<results, vectors> sums;
#pragma GCC unroll 4
  for (int i = 0; i < results; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      sums.values[0][i][j] = V::all(tile.start[i]);
      if (results == 1) sums.values[LineSums<results, vectors>::chains - 1][i][j] = V::all(0);
    }
  const float* w = tile.w;
  const bool are_lines = results > 1 && tile.w_result == 0;
  for (int64_t plane = 0; plane < tile.planes; ++plane, w += tile.rows * tile.taps) {
    const float* x = tile.x + plane * tile.x_plane + at;
    if (are_lines) {
      add_first_rows<0>(tile, x, w, sums);
      for (int64_t row = results - 1; row < tile.rows; ++row)
        add_row_of_line<0, results>(tile, x + row * tile.x_row, w + row * tile.taps, -tile.taps, sums);
      add_last_rows<1>(tile, x + tile.rows * tile.x_row, w + (tile.rows - 1) * tile.taps, sums);
    } else {
      for (int64_t row = 0; row < tile.rows; ++row)
        add_row_of_line<0, results>(tile, x + row * tile.x_row, w + row * tile.taps, tile.w_result, sums);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < results; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      V sum = sums.values[0][i][j];
      if (results == 1) sum = sum + sums.values[LineSums<results, vectors>::chains - 1][i][j];
      sum.store(tile.y + i * panel_columns + at + j * V::width);
    }
}

template <int results>
void filter_results(const LineFilterTile& tile) {
  constexpr int vectors = results <= 2 || V::accumulators >= 4 ? 4 : 2;
  int64_t at = 0;
  for (; at + (vectors - 1) * V::width < tile.count; at += vectors * V::width) filter_block<results, vectors>(tile, at);
  for (; at < tile.count; at += V::width) filter_block<results, 1>(tile, at);
}

void filter_lines(const LineFilterTile& tile) {
  switch (tile.results) {
    case 1:
      return filter_results<1>(tile);
    case 2:
      return filter_results<2>(tile);
    case 3:
      return filter_results<3>(tile);
    default:
      return filter_results<4>(tile);
  }
}

}  // namespace
