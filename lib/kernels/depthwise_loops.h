// The loops of depthwise convolutions over a vector type V, behind lanes_loops.h.

namespace {

// Outputs [at, at + outputs) of vectors [column, column + vectors * width), from taps [begin, stop) of each row.
template <int outputs, int vectors, bool is_partial>
inline void depthwise_block(const DepthwiseTile& tile, const float* bias, const End& end, int64_t at, int64_t column,
                            int64_t begin, int64_t stop) {
  V sum[outputs][vectors];
#pragma GCC unroll 6
  for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sum[i][j] = V::load(bias + column + j * V::width);
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float *x = tile.x + tile.rows_x[row] + at * tile.x_step + column, *w = tile.w + tile.rows_w[row] + column;
    for (int64_t k = begin; k < stop; ++k) {
      V weight[vectors];
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) weight[j] = V::load(w + k * panel_columns + j * V::width);
#pragma GCC unroll 6
      for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) {
          const float* place = x + i * tile.x_step + k * tile.x_tap + j * V::width;
          const V value = is_partial && j + 1 == vectors ? V::load_first(place, end.last) : V::load(place);
          sum[i][j] = fma(value, weight[j], sum[i][j]);
        }
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) end.put(sum[i][j], at + i, column + j * V::width, is_partial && j + 1 == vectors);
}

template <int outputs>
inline void depthwise_outputs(const DepthwiseTile& tile, const float* bias, const End& end, int64_t at, int64_t begin,
                              int64_t stop) {
  const int64_t columns = tile.out.columns;
  int64_t column = 0;
  for (; column + 2 * V::width <= columns; column += 2 * V::width)
    depthwise_block<outputs, 2, false>(tile, bias, end, at, column, begin, stop);
  if (column + V::width <= columns) {
    depthwise_block<outputs, 1, false>(tile, bias, end, at, column, begin, stop);
    column += V::width;
  }
  if (column < columns) depthwise_block<outputs, 1, true>(tile, bias, end, at, column, begin, stop);
}

void depthwise_row(const DepthwiseTile& tile, const float* bias, const End& end) {
  for (int64_t at = 0; at < tile.out.rows;) {
    // The taps that lie in the image, from the first output's window on.
    const int64_t left = tile.first + at * tile.stride, reach = (tile.taps - 1) * tile.dilation;
    const int64_t begin = left < 0 ? (-left + tile.dilation - 1) / tile.dilation : 0;
    const int64_t inside = left < tile.width ? (tile.width - 1 - left) / tile.dilation + 1 : 0;
    const int64_t stop = inside < tile.taps ? inside : tile.taps;
    // Outputs whose windows lie in the image as a whole are computed several at once.
    int64_t whole = left >= 0 && left + reach < tile.width ? (tile.width - 1 - reach - left) / tile.stride + 1 : 0;
    if (whole > tile.out.rows - at) whole = tile.out.rows - at;
    if (whole >= 6) {
      depthwise_outputs<6>(tile, bias, end, at, 0, tile.taps);
      at += 6;
    } else if (whole >= 2) {
      depthwise_outputs<2>(tile, bias, end, at, 0, tile.taps);
      at += 2;
    } else {
      depthwise_outputs<1>(tile, bias, end, at, begin, stop > begin ? stop : begin);
      at += 1;
    }
  }
}

// All outputs of vectors [column, column + vectors * width) of windows of three taps a row, whose weights stay in
// registers.
template <int rows, int vectors, bool is_partial>
void depthwise_threes(const DepthwiseTile& tile, const float* bias, const End& result, int64_t column) {
  V weight[rows][3][vectors], first[vectors];
  const float* x[rows];  // of the output at hand
#pragma GCC unroll 3
  for (int row = 0; row < rows; ++row) {
    x[row] = tile.x + tile.rows_x[row] + column;
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k)
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j)
        weight[row][k][j] = V::load(tile.w + tile.rows_w[row] + k * panel_columns + column + j * V::width);
  }
#pragma GCC unroll 2
  for (int j = 0; j < vectors; ++j) first[j] = V::load(bias + column + j * V::width);
  const int64_t x_step = tile.x_step, x_tap = tile.x_tap, count = tile.out.rows;
  End end = result;
  const auto next = [&](bool left, bool middle, bool right) __attribute__((always_inline)) {
    V sum[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sum[j] = first[j];
#pragma GCC unroll 3
    for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 3
      for (int k = 0; k < 3; ++k) {
        if (k == 0 ? !left : k == 1 ? !middle : !right) continue;
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) {
          const float* place = x[row] + k * x_tap + j * V::width;
          const V value = is_partial && j + 1 == vectors ? V::load_first(place, end.last) : V::load(place);
          sum[j] = fma(value, weight[row][k][j], sum[j]);
        }
      }
      x[row] += x_step;
    }
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) end.put(sum[j], 0, j * V::width, is_partial && j + 1 == vectors);
    end.first += end.row;
    if (end.added) end.added += end.added_row;
  };
  for (int64_t line = 0; line < tile.lines; ++line) {
    end.first = result.first + line * tile.y_line + column;
    if (end.added) end.added = result.added + column;
    for (int64_t at = 0, place = tile.first; at < count; ++at, place += tile.stride) {
      const int64_t middle = place + tile.dilation, right = middle + tile.dilation;
      if (place >= 0 && right < tile.width)
        next(true, true, true);
      else
        next(place >= 0 && place < tile.width, middle >= 0 && middle < tile.width, right >= 0 && right < tile.width);
    }
#pragma GCC unroll 3
    for (int row = 0; row < rows; ++row) x[row] += tile.x_line - count * x_step;
  }
}

template <int rows>
void depthwise_threes(const DepthwiseTile& tile, const float* bias, const End& end) {
  constexpr int most = V::accumulators / 2;  // vectors whose weights fit the registers
  const int64_t columns = tile.out.columns;
  int64_t column = 0;
  for (; column + most * V::width <= columns; column += most * V::width)
    depthwise_threes<rows, most, false>(tile, bias, end, column);
  for (; column + V::width <= columns; column += V::width) depthwise_threes<rows, 1, false>(tile, bias, end, column);
  if (column < columns) depthwise_threes<rows, 1, true>(tile, bias, end, column);
}

void depthwise(const DepthwiseTile& tile) {
  float room[panel_columns] = {};
  const float* bias = whole_bias(tile.out, room);
  End end{tile.out.y, tile.out.y_row};
  const bool is_direct = ends_at_once(tile.out, end);
  if (!is_direct) end = {tile.out.scratch, panel_columns};
  end.last = static_cast<int>(tile.out.columns % V::width);
  const auto run = [&](const DepthwiseTile& part) {
    if (part.taps == 3 && part.rows == 3)
      depthwise_threes<3>(part, bias, end);
    else if (part.taps == 3 && part.rows == 2)
      depthwise_threes<2>(part, bias, end);
    else if (part.taps == 3 && part.rows == 1)
      depthwise_threes<1>(part, bias, end);
    else
      depthwise_row(part, bias, end);
  };
  if (is_direct && tile.taps == 3 && tile.rows <= 3) return run(tile);
  DepthwiseTile one = tile;
  one.lines = 1;
  for (int64_t line = 0; line < tile.lines; ++line) {
    run(one);
    if (!is_direct) finish_rows(one.out, 0, one.out.rows);
    one.x += tile.x_line;
    one.out.y += tile.y_line;
    if (is_direct) end.first += tile.y_line;
  }
}

}  // namespace
