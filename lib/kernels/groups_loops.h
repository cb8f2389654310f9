// Convolutions in groups, over vectors V. Included after lanes_loops.h.
//
// Groups of fewer outputs than a vector holds share one: their numbers lie in turn, so that one load spreads what all
// of them read over the whole vector.

namespace {

// Where the numbers of `groups` groups, one behind the other in a vector, lie in turn, and back.
template <int groups>
struct Turns {
  static constexpr int each = V::width / groups;
  int32_t in_turn[V::width], one_by_one[V::width];
  constexpr Turns() : in_turn(), one_by_one() {
    for (int g = 0; g < groups; ++g)
      for (int k = 0; k < each; ++k) {
        in_turn[k * groups + g] = g * each + k;
        one_by_one[g * each + k] = k * groups + g;
      }
  }
};

template <int groups>
constexpr Turns<groups> turns{};

// Outputs from row `at` on, which read what lies from x on. `fixed`: the distance between outputs where it is known, so
// that it costs no registers; else 0.
template <int rows, int vectors, int groups, int fixed>
void groups_block(const GroupsTile& tile, const float* x, const float* bias, const End& end, int64_t at,
                  int64_t column) {
  constexpr int chains = rows * vectors <= 6 ? 2 : 1;  // as in panel_rows
  const int64_t x_step = fixed > 0 ? fixed : tile.x_step;
  const int64_t channels = groups > 1 ? V::width / groups : tile.channels, w_row = groups > 1 ? V::width : tile.w_row;
  const float* w = tile.w + column;
  V sum[chains][rows][vectors];
#pragma GCC unroll 2
  for (int c = 0; c < chains; ++c)
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[c][i][j] = V::all(0);
  auto step = [&](const float* first, const float* row, int chain) __attribute__((always_inline)) {
    V right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) right[j] = V::load(row + j * V::width);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      const V left = V::template spread<groups>(first + i * x_step);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[chain][i][j] = fma(left, right[j], sum[chain][i][j]);
    }
  };
  for (int64_t t = 0; t < tile.tap_count; ++t) {
    const float* first = x + tile.taps[t];
    if constexpr ((vectors == 2 || vectors > V::accumulators) && chains == 1) {  // wider blocks are not faster so
      constexpr int pointers = pointers_of(rows);
      constexpr int64_t steps = V::steps_at_once(rows, vectors);
      const float* a[pointers];
#pragma GCC unroll 4
      for (int i = 0; i < pointers; ++i) a[i] = first + i * rows_of_pointer * x_step;
      for (int64_t rounds = channels / steps; rounds > 0; --rounds) {
        add_steps(sum[0], a, x_step, w, w_row);
        advance(a, w, w_row, steps);
      }
      for (int64_t c = channels % steps; c > 0; --c) {
        add_step(sum[0], a, x_step, w, w_row, 0);
        advance(a, w, w_row, 1);
      }
    } else {
#pragma GCC unroll 8
      for (int64_t c = 0; c < channels; c += 2, first += 2 * groups, w += 2 * w_row)
        step(first, w, 0), step(first + groups, w + w_row, chains - 1);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      V total = chains == 2 ? sum[0][i][j] + sum[chains - 1][i][j] : sum[0][i][j];
      if (groups > 1) total = total.placed(turns<groups>.one_by_one);
      end.put(total + V::load(bias + column + j * V::width), at + i, column + j * V::width, j + 1 == vectors);
    }
}

using GroupsBlock = void (*)(const GroupsTile&, const float*, const float*, const End&, int64_t, int64_t);

// Rows of a block: as many as there are registers for sums.
template <int vectors>
constexpr int64_t most_group_rows = vectors == 1                ? tallest_block
                                    : vectors == 2              ? tall_block
                                    : vectors > V::accumulators ? 4
                                                                : row_block;

// Nobody asks for more rows than fit.
template <int vectors, int groups, int fixed, int rows>
constexpr GroupsBlock groups_block_of_at_most() {
  constexpr int fitting = rows <= most_group_rows<vectors> ? rows : 1;
  return groups_block<fitting, vectors, groups, fixed>;
}

template <int vectors, int groups, int fixed>
void groups_rows(const GroupsTile& tile, const float* bias, const End& end, int64_t column) {
  static constexpr GroupsBlock blocks[] = {
      groups_block_of_at_most<vectors, groups, fixed, 1>(),  groups_block_of_at_most<vectors, groups, fixed, 2>(),
      groups_block_of_at_most<vectors, groups, fixed, 3>(),  groups_block_of_at_most<vectors, groups, fixed, 4>(),
      groups_block_of_at_most<vectors, groups, fixed, 5>(),  groups_block_of_at_most<vectors, groups, fixed, 6>(),
      groups_block_of_at_most<vectors, groups, fixed, 7>(),  groups_block_of_at_most<vectors, groups, fixed, 8>(),
      groups_block_of_at_most<vectors, groups, fixed, 9>(),  groups_block_of_at_most<vectors, groups, fixed, 10>(),
      groups_block_of_at_most<vectors, groups, fixed, 11>(), groups_block_of_at_most<vectors, groups, fixed, 12>()};
  constexpr int64_t most = most_group_rows<vectors>;
  const int64_t parts = (tile.line_rows + most - 1) / most;
  const float* x = tile.x;
  for (int64_t line = 0; line < tile.out.rows; line += tile.line_rows, x += tile.x_line)
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t at = tile.line_rows * part / parts, rows = tile.line_rows * (part + 1) / parts - at;
      blocks[rows - 1](tile, x + at * tile.x_step, bias, end, line + at, column);
    }
}

template <int groups>
void groups_in_turn(const GroupsTile& tile, const float* bias, const End& end, int64_t column) {
  if constexpr (groups > V::width)
    return;
  else if (tile.x_step == V::width)
    groups_rows<1, groups, V::width>(tile, bias, end, column);
  else if (tile.x_step == 2 * V::width)
    groups_rows<1, groups, 2 * V::width>(tile, bias, end, column);
  else
    groups_rows<1, groups, 0>(tile, bias, end, column);
}

void groups_of_vector(const GroupsTile& tile, const float* bias, const End& end, int64_t column) {
  if (tile.groups == 4)
    groups_in_turn<4>(tile, bias, end, column);
  else if (tile.groups == 2)
    groups_in_turn<2>(tile, bias, end, column);
  else
    groups_in_turn<1>(tile, bias, end, column);
}

void grouped(const GroupsTile& tile) {
  const PanelTile& out = tile.out;
  float room[panel_columns];
  const float* bias = whole_bias(out, room);
  End end{out.y, out.y_row};
  const bool is_direct = ends_at_once(out, end);
  if (!is_direct) end = {out.scratch, panel_columns};
  // Three vectors that are left go together: a block of one waits for its loads.
  constexpr int most = V::accumulators < 3 ? 3 : V::accumulators;
  for (int64_t column = 0, next; column < out.columns; column = next) {
    const int64_t left = (out.columns - column + V::width - 1) / V::width,
                  vectors = left <= most ? left : V::accumulators;
    next = column + vectors * V::width;
    if (is_direct) end.last = next > out.columns ? static_cast<int>(out.columns % V::width) : 0;
    switch (vectors) {
      case 1:
        groups_of_vector(tile, bias, end, column);
        break;
      case 2:
        groups_rows<2, 1, 0>(tile, bias, end, column);
        break;
      case 3:
        groups_rows<3, 1, 0>(tile, bias, end, column);
        break;
      default:
        groups_rows<most, 1, 0>(tile, bias, end, column);
        break;
    }
  }
  if (!is_direct) finish_rows(out);
}

// What a pixel has of a line's groups.
template <int groups>
void pixels_in_turn(const LineInTurn& line) {
  if constexpr (groups <= V::width) {
    const int count = static_cast<int>(line.present * (V::width / groups));
    const int64_t pixels = line.pixels, step = line.step;  // a vector's store may be to any memory, the line's own, too
    const float* from = line.from;
    float* to = line.to + line.before * V::width;
    for (int64_t i = 0; i < pixels; ++i, from += step, to += V::width) {
      const V pixel = count == V::width ? V::load(from) : V::load_first(from, count);
      pixel.placed(turns<groups>.in_turn).store(to);
    }
  }
}

void pixels_of_one_group(const LineInTurn& line) {
  const int64_t pixels = line.pixels, step = line.step, channels = line.channels;
  const float* from = line.from;
  float* to = line.to + line.before * channels;
  for (int64_t i = 0; i < pixels; ++i, from += step, to += channels) {
    int64_t k = 0;
    for (; k + V::width <= channels; k += V::width) V::load(from + k).store(to + k);
    const int left = static_cast<int>(channels - k);
    if (left > 0) V::load_first(from + k, left).store_first(to + k, left);
  }
}

void zeros(float* to, int64_t count) {
  int64_t i = 0;
  for (; i + V::width <= count; i += V::width) V::all(0).store(to + i);
  if (i < count) V::all(0).store_first(to + i, static_cast<int>(count - i));
}

void in_turn(const LineInTurn& line) {
  const int64_t pixel = line.groups * line.channels;
  zeros(line.to, line.before * pixel);
  if (line.groups == 4)
    pixels_in_turn<4>(line);
  else if (line.groups == 2)
    pixels_in_turn<2>(line);
  else
    pixels_of_one_group(line);
  zeros(line.to + (line.before + line.pixels) * pixel, line.after * pixel);
}

}  // namespace
