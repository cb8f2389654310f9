// Products with panels, over the vector type V: see lanes_loops.h, which comes before.

namespace {

// Of k: its part of a panel, of the next one and of the rows stay in the second-level cache, which CPUs of narrower
// vectors have half as much of.
constexpr int64_t depth_block = V::width < widest_vector ? 512 : 1024;
constexpr int64_t streamed_depth = 64;  // of a widened one: that stays in the first-level cache
constexpr int64_t longest_sum = 512;    // of products; then it joins those before it, as a longer one loses digits
constexpr int64_t line = 16;            // floats

// How many vectors wide blocks of so many rows are: for few rows a panel is read in longer runs, and there are as many
// sums.
constexpr int64_t block_vectors(int64_t rows) {
  constexpr int64_t whole = panel_columns / V::width;
  const int64_t most = V::accumulators * (rows == 1 ? 4 : rows <= 3 ? 2 : 1);
  return most < whole ? most : whole;
}

// What blocks fetch on their way: the first `blocks` of them, every 4 steps, `lines` cache lines from `first` on, and
// each of them what lies `block` floats behind that of the one before. Into the second-level cache where reading is all
// that takes time; else into the first, too, which hinders the products less (measured on Zen 4: 3 to 7 %, and -13 % in
// the other case; an Intel Xeon knows no difference).
struct Fetch {
  const float* first = nullptr;
  int64_t blocks = 0, lines = 0, block = 0;
  bool is_stream = false;
};

// A part of a tile's depth.
struct Part {
  int64_t depth, longest;  // and how many steps one sum has at most
  int64_t a_row;
  const float* b;     // of the part
  const float* bias;  // that sums begin with; null: they are added to those in `sums`
  float* sums;        // of the tile's rows, panel_columns each
  bool is_last;       // sums go to `end`, else to `sums`
  End end;            // of the tile's first row and column
  int64_t columns;    // of the tile
  Fetch fetch;
};

// Rows that are reached from one pointer: at it, one distance behind it, and two.
constexpr int rows_of_pointer = 3;

// sum[i][j] += a[i][k] * b[k][j].
template <int rows, int vectors, int pointers>
inline void add_step(V (&sum)[rows][vectors], const float* const (&a)[pointers], int64_t a_row, const float* b,
                     int64_t k) {
  V right[vectors];
#pragma GCC unroll 8
  for (int j = 0; j < vectors; ++j) right[j] = V::load(b + k * panel_columns + j * V::width);
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
    const V left = V::all(a[i / rows_of_pointer][i % rows_of_pointer * a_row + k]);
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) sum[i][j].add_product(left, right[j]);
  }
}

// V::steps_at_once of them. The including file may have its own for some blocks.
template <int rows, int vectors, int pointers>
inline void add_steps(V (&sum)[rows][vectors], const float* const (&a)[pointers], int64_t a_row, const float* b) {
  constexpr int64_t steps = V::steps_at_once(rows, vectors);
#pragma GCC unroll 8
  for (int64_t k = 0; k < steps; ++k) add_step(sum, a, a_row, b, k);
}

// The sums of a block go to `end`; where some are there already, in rows of panel_columns at `partial`, they join them.
template <bool is_plain, bool is_begun, int chains, int rows, int vectors>
inline void end_block(const V (&sum)[chains][rows][vectors], const float* partial, const End& end) {
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) {
      V total = chains == 2 ? sum[0][i][j] + sum[chains - 1][i][j] : sum[0][i][j];
      if (is_begun) total = V::load(partial + i * panel_columns + j * V::width) + total;
      if (is_plain)
        total.store(end.first + i * end.row + j * V::width);
      else
        end.put(total, i, j * V::width, j + 1 == vectors);
    }
}

// Some rows of a part, `strips` strips of vectors * width columns from `column` on; `number` counts blocks. Where a
// core serves two threads, each gets half of the instructions that it can begin: the loop has few besides its products.
template <int rows, int vectors>
void panel_rows(const Part& part, const float* first_a, int64_t row, int64_t column, int64_t strips, int64_t number) {
  // An addition waits for the one before it: where there are few sums, even and odd steps have one each.
  constexpr int chains = vectors == 1 || rows * vectors <= 6 ? 2 : 1;
  constexpr int pointers = (rows + rows_of_pointer - 1) / rows_of_pointer;
  constexpr int64_t strip = vectors * V::width, steps = V::steps_at_once(rows, vectors);
  const int64_t a_row = part.a_row;
  for (; strips > 0; --strips, column += strip, ++number) {
    const float *a[pointers], *b = part.b + column;
#pragma GCC unroll 4
    for (int i = 0; i < pointers; ++i) a[i] = first_a + i * rows_of_pointer * a_row;
    const auto advance = [&](int64_t count) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int i = 0; i < pointers; ++i) {
        a[i] += count;
        asm("" : "+r"(a[i]));  // the compiler would have one pointer for each row
      }
      b += count * panel_columns;
    };
    const int64_t lines = number < part.fetch.blocks ? part.fetch.lines * (steps / 4) : 0;
    const float* ahead = part.fetch.first + number * part.fetch.block;
    float* const partial = part.sums + row * panel_columns + column;
    End result = part.end;
    if (part.is_last) {
      result.first += row * result.row + column;
      result.last = column + strip >= part.columns ? static_cast<int>(part.columns % V::width) : 0;
      if (result.added) {
        result.added += row * result.added_row + column;
        for (int i = 0; i < rows; ++i)
          for (int64_t j = 0; j < strip; j += line) __builtin_prefetch(result.added + i * result.added_row + j, 0, 3);
      }
    }
    const float* bias = part.bias;
    int64_t left = part.depth;
    do {
      const int64_t depth = left < part.longest ? left : part.longest;
      left -= depth;
      V sum[chains][rows][vectors];
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j) {
        const V start = bias ? V::load(bias + column + j * V::width) : V::all(0);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) {
          if (chains == 2) sum[chains - 1][i][j] = V::all(0);
          sum[0][i][j] = start;
        }
      }
      for (int64_t rounds = depth / steps; rounds > 0; --rounds) {
        if (lines > 0) {
          if (part.fetch.is_stream)
            for (int64_t l = 0; l < lines; ++l, ahead += line) __builtin_prefetch(ahead, 0, 2);
          else
            for (int64_t l = 0; l < lines; ++l, ahead += line) __builtin_prefetch(ahead, 0, 3);
        }
        if constexpr (chains == 1) {
          add_steps(sum[0], a, a_row, b);
        } else {
#pragma GCC unroll 8
          for (int64_t k = 0; k < steps; ++k) add_step(sum[k % chains], a, a_row, b, k);
        }
        advance(steps);
      }
      for (int64_t k = depth % steps; k > 0; --k) {
        add_step(sum[0], a, a_row, b, 0);
        advance(1);
      }
      const End end = left > 0 || !part.is_last ? End{partial, panel_columns} : result;
      if (end.is_plain())
        bias ? end_block<true, false>(sum, partial, end) : end_block<true, true>(sum, partial, end);
      else
        bias ? end_block<false, false>(sum, partial, end) : end_block<false, true>(sum, partial, end);
      bias = nullptr;
    } while (left > 0);
  }
}

using PanelRows = void (*)(const Part&, const float*, int64_t, int64_t, int64_t, int64_t);

// Nobody asks for more rows than fit.
template <int vectors, int rows>
constexpr PanelRows rows_of_at_most() {
  constexpr bool fits = rows <= (vectors <= 2 ? tall_block : row_block) && vectors <= block_vectors(rows);
  constexpr int fitting = fits ? rows : 1;
  return panel_rows<fitting, vectors>;
}

template <int vectors>
PanelRows panel_rows_of(int64_t rows) {
  static constexpr PanelRows blocks[] = {
      rows_of_at_most<vectors, 1>(),  rows_of_at_most<vectors, 2>(),  rows_of_at_most<vectors, 3>(),
      rows_of_at_most<vectors, 4>(),  rows_of_at_most<vectors, 5>(),  rows_of_at_most<vectors, 6>(),
      rows_of_at_most<vectors, 7>(),  rows_of_at_most<vectors, 8>(),  rows_of_at_most<vectors, 9>(),
      rows_of_at_most<vectors, 10>(), rows_of_at_most<vectors, 11>(), rows_of_at_most<vectors, 12>()};
  return blocks[rows - 1];
}

PanelRows panel_rows_of(int64_t rows, int64_t vectors) {
  constexpr int most = static_cast<int>(block_vectors(1));
  static constexpr PanelRows (*of_vectors[])(int64_t) = {panel_rows_of<1>,
                                                         panel_rows_of<2>,
                                                         panel_rows_of<3>,
                                                         panel_rows_of<4>,
                                                         panel_rows_of<(most < 5 ? most : 5)>,
                                                         panel_rows_of<(most < 6 ? most : 6)>,
                                                         panel_rows_of<(most < 7 ? most : 7)>,
                                                         panel_rows_of<(most < 8 ? most : 8)>};
  return of_vectors[vectors - 1](rows);
}

// How long equal parts of `whole` are that are at most `most`: several are a multiple of 4.
int64_t equal_part(int64_t whole, int64_t most) {
  if (whole <= most) return whole;
  const int64_t parts = (whole + most - 1) / most;
  return ((whole + parts - 1) / parts + 3) / 4 * 4;
}

// The numbers behind `at`, of which there are whole vectors; as many behind them are fetched.
const float* widened(const Halves& halves, int64_t at, int64_t count) {
  const auto widen = [count](const uint16_t* from, float* to, auto load) {
    for (int64_t i = 0; i < count; i += panel_columns) {
      __builtin_prefetch(from + i + count, 0, 2);
      __builtin_prefetch(from + i + count + 2 * line, 0, 2);
#pragma GCC unroll 4
      for (int64_t j = i; j < i + panel_columns; j += V::width) load(from + j).store(to + j);
    }
  };
  if (halves.is_bfloat)
    widen(halves.first + at, halves.room, [](const uint16_t* p) { return V::load_bfloat(p); });
  else
    widen(halves.first + at, halves.room, [](const uint16_t* p) { return V::load_half(p); });
  return halves.room;
}

void panel(const PanelTile& tile) {
  // Few columns, and rows that would not fit one block of all columns by a little, go in tall blocks.
  const int64_t line_rows = tile.line_rows ? tile.line_rows : tile.rows;
  const bool is_tall = tile.columns <= 2 * V::width || (line_rows > row_block && line_rows <= tall_block);
  const int64_t wide = is_tall ? 2 : block_vectors(line_rows), most_rows = is_tall ? tall_block : row_block;
  const int64_t vectors = (tile.columns + V::width - 1) / V::width;
  const int64_t strips = vectors / wide, last_vectors = vectors % wide;
  const int64_t run = tile.runs ? tile.run : tile.k;
  const int64_t line_groups = line_rows <= most_rows ? 1 : (line_rows + most_rows - 1) / most_rows;
  const int64_t lines = line_rows == tile.rows ? 1 : tile.rows / line_rows, groups = lines * line_groups,
                blocks = strips + (last_vectors > 0);
  // While a panel's part is used, the next one is fetched, spread over the blocks; with few rows, reading the panel is
  // all that takes time, and what is fetched lies a little ahead in it.
  const bool is_stream = groups <= 2;
  const int64_t depth = equal_part(run, !tile.halves.first ? depth_block : is_stream ? streamed_depth : widened_depth);
  const int64_t step_lines = panel_columns / line * 4;  // of four steps
  const int64_t fetched = is_stream ? step_lines : (step_lines + groups * blocks - 1) / (groups * blocks);
  float room[panel_columns];
  Part part{.a_row = tile.a_row, .bias = whole_bias(tile, room), .sums = tile.scratch, .columns = tile.columns};
  part.end = {tile.y, tile.y_row};
  const bool is_direct = ends_at_once(tile, part.end);
  int64_t k = 0;
  do {  // once where k is 0, too: then the bias is all
    const int64_t in_run = tile.runs ? k % run : k;
    part.depth = run - in_run < depth ? run - in_run : depth;
    part.longest = equal_part(part.depth, longest_sum);
    const bool is_last = k + part.depth >= tile.k;
    part.is_last = is_last && is_direct;
    part.b = tile.halves.first ? widened(tile.halves, k * panel_columns, part.depth * panel_columns)
                               : tile.b + k * panel_columns;
    const float* ahead = is_last ? tile.next : part.b + part.depth * panel_columns;
    if (tile.halves.first) ahead = nullptr;
    if (tile.is_made) ahead = tile.next ? tile.next + k * panel_columns : nullptr;
    part.fetch = {};
    if (is_stream && tile.next)
      part.fetch = {part.b + 32 * panel_columns, 1, fetched, 0, true};
    else if (!is_stream && ahead)
      part.fetch = {ahead, (step_lines + fetched - 1) / fetched, fetched, fetched * (depth / 4) * line, false};
    const float* line_a = tile.a + (tile.runs ? tile.runs[k / run] + in_run : k);
    int64_t row = 0, number = 0;
    for (int64_t in_lines = 0; in_lines < lines; ++in_lines, line_a += tile.a_line) {
      const float* a = line_a;
      for (int64_t group = 0; group < line_groups; ++group, number += blocks) {
        const int64_t rows = line_rows / line_groups + (group < line_rows % line_groups);
        if (strips > 0) panel_rows_of(rows, wide)(part, a, row, 0, strips, number);
        if (last_vectors > 0)
          panel_rows_of(rows, last_vectors)(part, a, row, strips * wide * V::width, 1, number + strips);
        if (is_last && !is_direct) finish_rows(tile, row, rows);
        row += rows;
        a += rows * tile.a_row;
      }
    }
    part.bias = nullptr;
    k += part.depth;
  } while (k < tile.k);
}

}  // namespace
