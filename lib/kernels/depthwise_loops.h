// The loops of depthwise convolutions over a vector type V, behind lanes_loops.h.

namespace {

// Outputs [at, at + outputs) of vectors [column, column + vectors * width), from taps [begin, stop) of each row. Where
// channels have several filters, each number is spread to the outputs of them all.
template <int outputs, int vectors, bool is_partial, bool spreads>
inline void depthwise_block(const DepthwiseTile& tile, const float* bias, const End& end, int64_t at, int64_t column,
                            int64_t begin, int64_t stop) {
  static constexpr int32_t twice[] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
                           four_times[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const int64_t filters = spreads ? tile.filters : 1, vector = V::width / filters;
  const int channels = static_cast<int>(vector),
            last = static_cast<int>((end.last + filters - 1) / filters);  // of a partial vector
  V sum[outputs][vectors];
#pragma GCC unroll 6
  for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sum[i][j] = V::load(bias + column + j * V::width);
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float *x = tile.x + tile.rows_x[row] + at * tile.x_step + column / filters,
                *w = tile.w + tile.rows_w[row] + column;
    for (int64_t k = begin; k < stop; ++k) {
      V weight[vectors];
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) weight[j] = V::load(w + k * panel_columns + j * V::width);
#pragma GCC unroll 6
      for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) {
          const float* place = x + i * tile.x_step + k * tile.x_tap + j * vector;
          const bool is_last = is_partial && j + 1 == vectors;
          V value = is_last ? V::load_first(place, last) : spreads ? V::load_first(place, channels) : V::load(place);
          if (spreads) value = value.placed(filters == 2 ? twice : four_times);
          sum[i][j] = fma(value, weight[j], sum[i][j]);
        }
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < outputs; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) end.put(sum[i][j], at + i, column + j * V::width, is_partial && j + 1 == vectors);
}

// part<vectors, is_partial>(column) for runs of `most` vectors of columns [column, columns), then of one, of which the
// last may be partial.
template <int most, class Part>
__attribute__((always_inline)) inline void in_vectors(int64_t column, int64_t columns, const Part& part) {
  for (; column + most * V::width <= columns; column += most * V::width) part.template operator()<most, false>(column);
  for (; column + V::width <= columns; column += V::width) part.template operator()<1, false>(column);
  if (column < columns) part.template operator()<1, true>(column);
}

template <int outputs>
inline void depthwise_outputs(const DepthwiseTile& tile, const float* bias, const End& end, int64_t at, int64_t begin,
                              int64_t stop) {
  const auto run = [&]<bool spreads>() {
    in_vectors<2>(0, tile.out.columns,
                  [&]<int vectors, bool is_partial>(int64_t column) __attribute__((always_inline)) {
                    depthwise_block<outputs, vectors, is_partial, spreads>(tile, bias, end, at, column, begin, stop);
                  });
  };
  tile.filters > 1 ? run.template operator()<true>() : run.template operator()<false>();
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

// The outputs in lines [begin, stop) of vectors [column, column + vectors * width) of windows of three taps a row,
// whose weights stay in registers. Where windows overlap, as the next one begins at the middle of the one before, each
// pixel is read once for the three outputs that it is part of.
template <int rows, int vectors, bool is_partial, bool overlaps>
void put_threes(const DepthwiseTile& tile, const float* bias, const End& result, int64_t begin, int64_t stop,
                int64_t column) {
  const int64_t x_step = tile.x_step, x_tap = tile.x_tap, count = tile.out.rows;
  const int64_t x_vector = tile.x_vector ? tile.x_vector : V::width;
  V weight[3][rows][vectors];
  const float* x[rows];  // of the output at hand
#pragma GCC unroll 3
  for (int row = 0; row < rows; ++row) {
    x[row] = tile.x + tile.rows_x[row] + begin * tile.x_line + column / V::width * x_vector;
#pragma GCC unroll 3
    for (int k = 0; k < 3; ++k)
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j)
        weight[k][row][j] = V::load(tile.w + tile.rows_w[row] + k * panel_columns + column + j * V::width);
  }
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
        const float* place = x[row] + tap * x_tap + j * x_vector;
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
  // Outputs from `at` on that are put alike, and which taps of them lie in the image: left and middle of the first,
  // right of the last.
  struct Run {
    int64_t outputs;
    bool left, middle, right;
  };
  const auto run_from = [&](int64_t at) __attribute__((always_inline)) {
    const auto is_inside = [&](int64_t place) { return place >= 0 && place < tile.width; };
    const int64_t left = tile.first + at * tile.stride, middle = left + tile.dilation, right = middle + tile.dilation;
    Run run{1, is_inside(left), is_inside(middle), is_inside(right)};
    if (run.middle && (overlaps || (run.left && run.right))) {
      const int64_t inside = (tile.width - 1 - (overlaps ? middle : right)) / tile.stride + 1;
      run.outputs = inside < count - at ? inside : count - at;
      run.right = right + (run.outputs - 1) * tile.stride < tile.width;
    }
    return run;
  };
  const Run first = run_from(0);
  for (int64_t line = begin; line < stop; ++line) {
    end.first = result.first + line * tile.y_line + column;
    if (end.added) end.added = result.added + column;
    for (int64_t at = 0; at < count;) {
      const Run run = at == 0 ? first : run_from(at);
      if (run.outputs == 1)
        put_one(run.left, run.middle, run.right);
      else if (overlaps)
        put_overlapping(run.outputs, run.left, run.right);
      else
        for (int64_t i = 0; i < run.outputs; ++i) put_one(true, true, true);
      at += run.outputs;
    }
#pragma GCC unroll 3
    for (int row = 0; row < rows; ++row) x[row] += tile.x_line - count * x_step;
  }
}

template <int rows, int most, bool overlaps>
void depthwise_threes(const DepthwiseTile& tile, const float* bias, const End& end, int64_t begin, int64_t stop,
                      int64_t column, int64_t columns) {
  if (columns > tile.out.columns) columns = tile.out.columns;
  in_vectors<most>(column, columns, [&]<int vectors, bool is_partial>(int64_t at) __attribute__((always_inline)) {
    put_threes<rows, vectors, is_partial, overlaps>(tile, bias, end, begin, stop, at);
  });
}

// A line of so many outputs does not stay in the nearest cache, with those that it reads, until the next is computed.
constexpr int64_t long_line = 32;

// Long lines are computed for all channels of a cache line in turn, which so is read and written once.
template <int rows>
void depthwise_threes(const DepthwiseTile& tile, const float* bias, const End& end) {
  constexpr int most = V::accumulators / 2;  // vectors whose weights fit the registers
  constexpr int64_t together = most * V::width < widest_vector ? widest_vector : panel_columns;
  const auto run =
      tile.stride == tile.dilation ? depthwise_threes<rows, most, true> : depthwise_threes<rows, most, false>;
  const int64_t lines = together < panel_columns && tile.out.rows >= long_line ? 1 : tile.lines;
  for (int64_t column = 0; column < tile.out.columns; column += together)
    for (int64_t line = 0; line < tile.lines; line += lines)
      run(tile, bias, end, line, line + lines, column, column + together);
}

// Adds `taps` taps of a row of the window, which stay in registers, to the sums of `outputs` outputs side by side. Each
// pixel is read once for all the outputs that it is part of; bit p of `inside`: pixel p lies in the image.
template <int taps, bool is_inside, int outputs>
__attribute__((always_inline)) inline void add_taps(V (&sum)[outputs], const float* x, const float* w,
                                                    uint32_t inside) {
  V weight[taps];
#pragma GCC unroll 5
  for (int k = 0; k < taps; ++k) weight[k] = V::load(w + k * panel_columns).kept();
#pragma GCC unroll 16
  for (int p = 0; p < outputs + taps - 1; ++p) {
    if (!is_inside && !(inside >> p & 1)) continue;
    const V value = V::load(x + p * V::width).kept();
#pragma GCC unroll 11
    for (int i = 0; i < outputs; ++i)
      if (p >= i && p < i + taps) sum[i].add_product(value, weight[p - i]);
  }
}

// So many taps of a row are added at once, to so many outputs, that weights, sums and a pixel fit 16 registers.
constexpr int taps_at_once(int taps) { return taps <= 5 ? taps : (taps + 1) / 2; }
constexpr int outputs_at_once(int taps) { return 15 - taps_at_once(taps); }

// Outputs from `at` on of one vector of channels; pixels lie side by side.
template <int taps, bool is_inside, int outputs>
void depthwise_run(const DepthwiseTile& tile, const float* bias, const End& result, int64_t at, int64_t vector,
                   uint32_t inside) {
  constexpr int first = taps_at_once(taps);
  const int64_t column = vector * V::width;
  V sum[outputs];
#pragma GCC unroll 11
  for (int i = 0; i < outputs; ++i) sum[i] = V::load(bias + column);
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float *x = tile.x + tile.rows_x[row] + at * V::width + vector * tile.x_vector,
                *w = tile.w + tile.rows_w[row] + column;
    add_taps<first, is_inside>(sum, x, w, inside);
    if constexpr (taps > first)
      add_taps<taps - first, is_inside>(sum, x + first * V::width, w + first * panel_columns, inside >> first);
  }
  End end = result;
  end.first += at * end.row + column;
  if (end.added) end.added += at * end.added_row + column;
  const auto put = [&](bool is_last) __attribute__((always_inline)) {
#pragma GCC unroll 11
    for (int i = 0; i < outputs; ++i) end.put(sum[i], 0, 0, is_last), end.go_to_next_row();
  };
  column + V::width > tile.out.columns ? put(true) : put(false);
}

using DepthwiseRun = void (*)(const DepthwiseTile&, const float*, const End&, int64_t, int64_t, uint32_t);

template <int taps, bool is_inside>
DepthwiseRun depthwise_run_of(int64_t outputs) {
  constexpr int most = outputs_at_once(taps);
  static constexpr DepthwiseRun runs[] = {
      depthwise_run<taps, is_inside, 1>,  depthwise_run<taps, is_inside, 2>,   depthwise_run<taps, is_inside, 3>,
      depthwise_run<taps, is_inside, 4>,  depthwise_run<taps, is_inside, 5>,   depthwise_run<taps, is_inside, 6>,
      depthwise_run<taps, is_inside, 7>,  depthwise_run<taps, is_inside, 8>,   depthwise_run<taps, is_inside, 9>,
      depthwise_run<taps, is_inside, 10>, depthwise_run<taps, is_inside, most>};
  static_assert(most == 10 || most == 11);
  return runs[outputs - 1];
}

// All lines of a tile whose pixels lie side by side, some vectors at once, so that whole cache lines are written.
template <int taps>
void depthwise_runs(const DepthwiseTile& tile, const float* bias, const End& end) {
  constexpr int64_t most = outputs_at_once(taps), together = widest_vector / V::width;
  struct Run {
    DepthwiseRun add;
    int64_t at;
    uint32_t inside;
  } runs[most_depthwise_outputs / 8];
  const int64_t run_count = (tile.out.rows + most - 1) / most;
  for (int64_t run = 0, at = 0; run < run_count; ++run) {
    const int64_t outputs = tile.out.rows / run_count + (run < tile.out.rows % run_count);
    const int64_t first = tile.first + at, pixels = outputs + taps - 1;
    const bool is_inside = first >= 0 && first + pixels <= tile.width;
    uint32_t inside = 0;
    for (int p = 0; p < pixels; ++p) inside |= static_cast<uint32_t>(first + p >= 0 && first + p < tile.width) << p;
    runs[run] = {is_inside ? depthwise_run_of<taps, true>(outputs) : depthwise_run_of<taps, false>(outputs), at,
                 inside};
    at += outputs;
  }
  const int64_t vectors = (tile.out.columns + V::width - 1) / V::width;
  for (int64_t group = 0; group < vectors; group += together) {
    DepthwiseTile line = tile;
    End line_end = end;
    for (int64_t l = 0; l < tile.lines; ++l, line.x += tile.x_line, line_end.first += tile.y_line)
      for (int64_t vector = group; vector < vectors && vector < group + together; ++vector)
        for (int64_t run = 0; run < run_count; ++run)
          runs[run].add(line, bias, line_end, runs[run].at, vector, runs[run].inside);
  }
}

void depthwise(const DepthwiseTile& tile) {
  float room[panel_columns] = {};
  const float* bias = whole_bias(tile.out, room);
  End end{tile.out.y, tile.out.y_row};
  const bool is_direct = ends_at_once(tile.out, end);
  if (!is_direct) end = {tile.out.scratch, panel_columns};
  end.last = static_cast<int>(tile.out.columns % V::width);
  const bool is_in_runs = tile.x_vector > 0 && tile.taps > 3;
  const auto run = [&](const DepthwiseTile& part) {
    if (is_in_runs && part.taps == 5)
      depthwise_runs<5>(part, bias, end);
    else if (is_in_runs)
      depthwise_runs<7>(part, bias, end);
    else if (part.taps == 3 && part.rows == 3)
      depthwise_threes<3>(part, bias, end);
    else if (part.taps == 3 && part.rows == 2)
      depthwise_threes<2>(part, bias, end);
    else if (part.taps == 3 && part.rows == 1)
      depthwise_threes<1>(part, bias, end);
    else
      depthwise_row(part, bias, end);
  };
  if (is_direct && (is_in_runs || (tile.taps == 3 && tile.rows >= 1 && tile.rows <= 3))) return run(tile);
  DepthwiseTile one = tile;
  one.lines = 1;
  for (int64_t line = 0; line < tile.lines; ++line) {
    run(one);
    if (!is_direct) finish_rows(one.out);
    one.x += tile.x_line;
    one.out.y += tile.y_line;
    if (is_direct) end.first += tile.y_line;
  }
}

// `together` vectors of each pixel, from x to to.
template <int together>
void move_vectors(const float* x, int64_t x_step, int64_t pixels, float* to, int64_t to_vector) {
  for (int64_t p = 0; p < pixels; ++p, x += x_step, to += V::width)
#pragma GCC unroll 4
    for (int v = 0; v < together; ++v) V::load(x + v * V::width).store(to + v * to_vector);
}

void set_apart(const float* x, int64_t x_step, int64_t pixels, int64_t channels, float* to, int64_t to_vector) {
  for (; channels >= 4 * V::width; channels -= 4 * V::width, x += 4 * V::width, to += 4 * to_vector)
    move_vectors<4>(x, x_step, pixels, to, to_vector);
  for (; channels >= V::width; channels -= V::width, x += V::width, to += to_vector)
    move_vectors<1>(x, x_step, pixels, to, to_vector);
  if (const int left = static_cast<int>(channels); left > 0)
    for (int64_t p = 0; p < pixels; ++p) V::load_first(x + p * x_step, left).store(to + p * V::width);
}

}  // namespace
