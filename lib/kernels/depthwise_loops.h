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

// part<vectors, is_partial>(column) for runs of `most` vectors of the columns, then of one; the last may be partial.
template <int most, class Part>
__attribute__((always_inline)) inline void in_vectors(int64_t columns, const Part& part) {
  int64_t column = 0;
  for (; column + most * V::width <= columns; column += most * V::width) part.template operator()<most, false>(column);
  for (; column + V::width <= columns; column += V::width) part.template operator()<1, false>(column);
  if (column < columns) part.template operator()<1, true>(column);
}

template <int outputs>
inline void depthwise_outputs(const DepthwiseTile& tile, const float* bias, const End& end, int64_t at, int64_t begin,
                              int64_t stop) {
  in_vectors<2>(tile.out.columns, [&]<int vectors, bool is_partial>(int64_t column) __attribute__((always_inline)) {
    depthwise_block<outputs, vectors, is_partial>(tile, bias, end, at, column, begin, stop);
  });
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
// registers. Where windows overlap, each pixel is read once for the three outputs that it is part of.
template <int rows, int vectors, bool is_partial>
void depthwise_threes(const DepthwiseTile& tile, const float* bias, const End& result, int64_t column) {
  V weight[3][rows][vectors];
  const float* x[rows];  // of the output at hand
#pragma GCC unroll 3
  for (int row = 0; row < rows; ++row) {
    x[row] = tile.x + tile.rows_x[row] + column;
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k)
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j)
        weight[k][row][j] = V::load(tile.w + tile.rows_w[row] + k * panel_columns + column + j * V::width);
  }
  const int64_t x_step = tile.x_step, x_tap = tile.x_tap, count = tile.out.rows;
  End end = result;
  struct Sum {
    V of[vectors];
  };
  const auto begun = [&]() __attribute__((always_inline)) {
    Sum sum;
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sum.of[j] = V::load(bias + column + j * V::width);
    return sum;
  };
  // Adds the pixels `tap` behind x, by each tap of a window to what sums[tap] is; null: to nothing.
  const auto add = [&](int tap, Sum* const(&sums)[3]) __attribute__((always_inline)) {
#pragma GCC unroll 3
    for (int row = 0; row < rows; ++row)
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) {
        const float* place = x[row] + tap * x_tap + j * V::width;
        const V value = (is_partial && j + 1 == vectors ? V::load_first(place, end.last) : V::load(place)).kept();
#pragma GCC unroll 3
        for (int k = 0; k < 3; ++k)
          if (sums[k]) sums[k]->of[j] = fma(value, weight[k][row][j], sums[k]->of[j]);
      }
  };
  const auto put = [&](const Sum& sum) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) end.put(sum.of[j], 0, j * V::width, is_partial && j + 1 == vectors);
    end.go_to_next_row();
#pragma GCC unroll 3
    for (int row = 0; row < rows; ++row) x[row] += x_step;
  };
  const auto put_one = [&](bool left, bool middle, bool right) __attribute__((always_inline)) {
    Sum sum = begun();
    if (left) add(0, {&sum, nullptr, nullptr});
    if (middle) add(1, {nullptr, &sum, nullptr});
    if (right) add(2, {nullptr, nullptr, &sum});
    put(sum);
  };
  // Outputs whose middle tap is in the image and is the left one of the next.
  const auto put_overlapping = [&](int64_t outputs, bool left, bool right) __attribute__((always_inline)) {
    Sum ending = begun(), going_on = begun();
    if (left) add(0, {&ending, nullptr, nullptr});
    add(1, {&going_on, &ending, nullptr});
    for (int64_t i = 1; i < outputs; ++i) {
      Sum beginning = begun();
      add(2, {&beginning, &going_on, &ending});
      put(ending);
      ending = going_on, going_on = beginning;
    }
    if (right) add(2, {nullptr, nullptr, &ending});
    put(ending);
  };
  for (int64_t line = 0; line < tile.lines; ++line) {
    end.first = result.first + line * tile.y_line + column;
    if (end.added) end.added = result.added + column;
    for (int64_t at = 0, place = tile.first; at < count;) {
      const int64_t middle = place + tile.dilation, right = middle + tile.dilation;
      const bool has_left = place >= 0 && place < tile.width, has_middle = middle >= 0 && middle < tile.width;
      int64_t outputs = 1;
      if (has_middle && tile.stride == tile.dilation) {
        const int64_t inside = (tile.width - 1 - middle) / tile.stride + 1;
        outputs = inside < count - at ? inside : count - at;
      }
      if (outputs > 1)
        put_overlapping(outputs, has_left, right + (outputs - 1) * tile.stride < tile.width);
      else
        put_one(has_left, has_middle, right >= 0 && right < tile.width);
      at += outputs, place += outputs * tile.stride;
    }
#pragma GCC unroll 3
    for (int row = 0; row < rows; ++row) x[row] += tile.x_line - count * x_step;
  }
}

template <int rows>
void depthwise_threes(const DepthwiseTile& tile, const float* bias, const End& end) {
  constexpr int most = V::accumulators / 2;  // vectors whose weights fit the registers
  in_vectors<most>(tile.out.columns, [&]<int vectors, bool is_partial>(int64_t column) __attribute__((always_inline)) {
    depthwise_threes<rows, vectors, is_partial>(tile, bias, end, column);
  });
}

// All outputs of vectors [column, column + vectors * width) of windows that overlap in all pixels but one: each pixel
// is read once, for all the outputs that it is part of. No window lies before the image.
template <int taps, int vectors, bool is_partial>
void depthwise_sliding(const DepthwiseTile& tile, const float* bias, const End& result, int64_t column) {
  End end = result;
  end.first += column;
  if (end.added) end.added += column;
  V sums[taps][vectors];  // of the output whose tap k is the pixel at hand
  const auto slide = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
#pragma GCC unroll 7
      for (int k = taps - 1; k > 0; --k) sums[k][j] = sums[k - 1][j];
      sums[0][j] = V::load(bias + column + j * V::width);
    }
  };
  const auto put = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) end.put(sums[taps - 1][j], 0, j * V::width, is_partial && j + 1 == vectors);
    end.go_to_next_row();
  };
#pragma GCC unroll 7
  for (int k = 0; k < taps; ++k) slide();
  const int64_t count = tile.out.rows, last = tile.first + count + taps - 1;
  const int64_t from = tile.first < 0 ? 0 : tile.first, to = last < tile.width ? last : tile.width;
  int64_t output = from - tile.first - (taps - 1);  // whose last tap is the pixel at hand
  const float* x = tile.x + (from - tile.first) * tile.x_step + column;
  for (int64_t pixel = from; pixel < to; ++pixel, ++output, x += tile.x_step) {
    for (int64_t row = 0; row < tile.rows; ++row) {
      const float *place = x + tile.rows_x[row], *w = tile.w + tile.rows_w[row] + column;
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) {
        const V value = is_partial && j + 1 == vectors ? V::load_first(place + j * V::width, end.last)
                                                       : V::load(place + j * V::width);
        if (row >= tile.known_rows) __builtin_prefetch(place + (vectors + j) * V::width);
#pragma GCC unroll 7
        for (int k = 0; k < taps; ++k)
          sums[k][j] = fma(value, V::load(w + k * panel_columns + j * V::width), sums[k][j]);
      }
    }
    if (output >= 0) put();
    slide();
  }
  for (; output < count; ++output) {
    if (output >= 0) put();
    slide();
  }
}

template <int taps>
void depthwise_sliding(const DepthwiseTile& tile, const float* bias, const End& end) {
  in_vectors<2>(tile.out.columns, [&]<int vectors, bool is_partial>(int64_t column) __attribute__((always_inline)) {
    depthwise_sliding<taps, vectors, is_partial>(tile, bias, end, column);
  });
}

void depthwise(const DepthwiseTile& tile) {
  float room[panel_columns] = {};
  const float* bias = whole_bias(tile.out, room);
  End end{tile.out.y, tile.out.y_row};
  const bool is_direct = ends_at_once(tile.out, end);
  if (!is_direct) end = {tile.out.scratch, panel_columns};
  end.last = static_cast<int>(tile.out.columns % V::width);
  const auto run = [&](const DepthwiseTile& part) {
    const bool is_sliding = slides(part.taps, part.stride, part.dilation) && part.first > -part.taps;
    if (part.taps == 3 && part.rows == 3)
      depthwise_threes<3>(part, bias, end);
    else if (part.taps == 3 && part.rows == 2)
      depthwise_threes<2>(part, bias, end);
    else if (part.taps == 3 && part.rows == 1)
      depthwise_threes<1>(part, bias, end);
    else if (is_sliding && part.taps == 5)
      depthwise_sliding<5>(part, bias, end);
    else if (is_sliding && part.taps == 7)
      depthwise_sliding<7>(part, bias, end);
    else
      depthwise_row(part, bias, end);
  };
  if (is_direct && tile.taps == 3 && tile.rows <= 3) return run(tile);
  DepthwiseTile one = tile;
  one.lines = 1;
  for (int64_t line = 0; line < tile.lines; ++line) {
    run(one);
    if (!is_direct) finish_rows(one.out);
    one.x += tile.x_line;
    one.known_rows = tile.rows - 1;
    one.out.y += tile.y_line;
    if (is_direct) end.first += tile.y_line;
  }
}

}  // namespace
