// Products with panels, over the vector type V: see lanes_loops.h, which comes before.

namespace {

constexpr int64_t streamed_depth = 64;  // rows of a panel, widened for few blocks, that stay in the first-level cache
// Of products: 3 x 3 pixels of 64 channels. Then it joins those before it, as a longer one loses digits.
constexpr int64_t longest_sum = 576;
constexpr int64_t line = 16;  // floats

// How many vectors wide blocks of so many rows are: for few rows a panel is read in longer runs, and there are as many
// sums.
constexpr int64_t block_vectors(int64_t rows) {
  constexpr int64_t whole = panel_columns / V::width;
  const int64_t most = V::accumulators * (rows == 1 ? 4 : rows <= 3 ? 2 : 1);
  return most < whole ? most : whole;
}

// What blocks fetch on their way: the first `blocks` of them, every 4 steps, `lines` cache lines, the first `more` of
// them one more; from `first` on, where a line of each 4 steps is `block` floats of the whole. Into the second-level
// cache where reading is all that takes time; else into the first, too, which hinders the products less (measured on
// Zen 4: 3 to 7 %, and -13 % in the other case; an Intel Xeon knows no difference).
struct Fetch {
  const float* first = nullptr;
  int64_t blocks = 0, lines = 0, more = 0, block = 0;
  bool is_stream = false;
};

// The products of some rows with a part of a panel: pieces of `depth` steps, of which the last may be shorter. Some of
// them are one sum.
struct Block {
  const float* a;
  int64_t a_row;
  const int64_t* pieces;  // where each begins in a row of a; or null: one behind the other
  int64_t piece_count, depth, last_depth, pieces_of_sum;
  const float* b;
  int64_t b_piece;    // between pieces
  const float* bias;  // that is added to the sums; null: they are added to `sums`
  float* sums;        // of the rows, panel_columns each
  bool is_short;      // the sums of all parts
  bool is_complete;   // nothing more is added to the sums
  bool is_last;       // so that they go to `end`, else to `sums`
  End end;
  int64_t columns;  // that are there
};

// A sum that began with a large bias would be rounded to the bias's last place at each step: only short ones do.
constexpr int64_t short_sum = 64;

// The sums of a block go to `end`, with what they are added to, in rows `row` apart: the bias or earlier sums; null:
// they began with it.
template <End::Kind kind, bool is_added, int chains, int rows, int vectors>
inline void end_block(const V (&sum)[chains][rows][vectors], const float* added_to, int64_t row, const End& end) {
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) {
      V total = chains == 2 ? sum[0][i][j] + sum[chains - 1][i][j] : sum[0][i][j];
      if (is_added) total = V::load(added_to + i * row + j * V::width) + total;
      end.put<kind>(total, i, j * V::width, j + 1 == vectors);
    }
}

// `strips` strips of vectors * width columns of a block, from `column` on, which are the `number`th and so on that may
// fetch. Where a core serves two threads, each gets half of the instructions that it can begin: the loop has few
// besides its products.
template <int rows, int vectors>
void panel_rows(const Block& block, int64_t column, int64_t strips, const Fetch& fetch, int64_t number) {
  // An addition waits for the one before it: where there are few sums, even and odd steps have one each.
  constexpr int chains = vectors == 1 || rows * vectors <= 6 ? 2 : 1;
  constexpr int pointers = pointers_of(rows);
  constexpr int64_t strip = vectors * V::width, steps = V::steps_at_once(rows, vectors);
  const int64_t a_row = block.a_row;
  for (; strips > 0; --strips, column += strip, ++number) {
    const bool is_more = number < fetch.more;
    const int64_t lines = number < fetch.blocks ? (fetch.lines + is_more) * (steps / 4) : 0;
    const float* ahead = fetch.first + (number * fetch.lines + (is_more ? number : fetch.more)) * fetch.block;
    float* const partial = block.sums + column;
    End result = block.end;
    if (block.is_last) {
      result.first += column;
      result.last = column + strip >= block.columns ? static_cast<int>(block.columns % V::width) : 0;
      if (result.added) {
        result.added += column;
        for (int i = 0; i < rows; ++i)
          for (int64_t j = 0; j < strip; j += line) __builtin_prefetch(result.added + i * result.added_row + j, 0, 3);
      }
    }
    const float* start = block.bias && block.is_short ? block.bias + column : nullptr;
    const float* added_to = block.bias ? block.bias + column : partial;
    int64_t added_row = block.bias ? 0 : panel_columns, piece = 0;
    do {
      V sum[chains][rows][vectors];
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j) {
        const V first = start ? V::load(start + j * V::width) : V::all(0);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) {
          if (chains == 2) sum[chains - 1][i][j] = V::all(0);
          sum[0][i][j] = first;
        }
      }
      const int64_t behind =
          piece + block.pieces_of_sum < block.piece_count ? piece + block.pieces_of_sum : block.piece_count;
      for (; piece < behind; ++piece) {
        const float *a[pointers], *b = block.b + piece * block.b_piece + column;
        const int64_t begin = block.pieces ? block.pieces[piece] : piece * block.depth;
#pragma GCC unroll 4
        for (int i = 0; i < pointers; ++i) a[i] = block.a + begin + i * rows_of_pointer * a_row;
        const int64_t depth = piece + 1 < block.piece_count ? block.depth : block.last_depth;
        for (int64_t rounds = depth / steps; rounds > 0; --rounds) {
          if (lines > 0) {
            if (fetch.is_stream)
              for (int64_t l = 0; l < lines; ++l, ahead += line) __builtin_prefetch(ahead, 0, 2);
            else
              for (int64_t l = 0; l < lines; ++l, ahead += line) __builtin_prefetch(ahead, 0, 3);
          }
          if constexpr (chains == 1) {
            add_steps(sum[0], a, a_row, b, RowsOfPanel());
          } else {
            static_assert(steps == 4);
            add_step(sum[0], a, a_row, b, panel_columns, 0);
            add_step(sum[1], a, a_row, b, panel_columns, 1);
            add_step(sum[0], a, a_row, b, panel_columns, 2);
            add_step(sum[1], a, a_row, b, panel_columns, 3);
          }
          advance(a, b, panel_columns, steps);
        }
        for (int64_t k = depth % steps; k > 0; --k) {
          add_step(sum[0], a, a_row, b, panel_columns, 0);
          advance(a, b, panel_columns, 1);
        }
      }
      const End end = piece < block.piece_count || !block.is_last ? End{partial, panel_columns} : result;
      using Kind = End::Kind;
      switch (end.kind()) {
        case Kind::plain:
          start ? end_block<Kind::plain, false>(sum, nullptr, 0, end)
                : end_block<Kind::plain, true>(sum, added_to, added_row, end);
          break;
        case Kind::bounded:
          start ? end_block<Kind::bounded, false>(sum, nullptr, 0, end)
                : end_block<Kind::bounded, true>(sum, added_to, added_row, end);
          break;
        case Kind::any:
          start ? end_block<Kind::any, false>(sum, nullptr, 0, end)
                : end_block<Kind::any, true>(sum, added_to, added_row, end);
      }
      start = nullptr;
      added_to = partial;
      added_row = panel_columns;
    } while (piece < block.piece_count);
  }
}

using PanelRows = void (*)(const Block&, int64_t, int64_t, const Fetch&, int64_t);

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

// How many parts of at most `most` there are.
int64_t parts_of(int64_t whole, int64_t most) { return (whole + most - 1) / most; }

// How many things such parts have, if they are equal.
int64_t equal_count(int64_t whole, int64_t most) { return parts_of(whole, parts_of(whole, most)); }

// How many steps they have: if there are several, a multiple of 4.
int64_t equal_part(int64_t whole, int64_t most) {
  return whole <= most ? whole : parts_of(equal_count(whole, most), 4) * 4;
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

// Columns [first, last) of runs [first_run, last_run) of a panel.
struct Part {
  int64_t first_run, last_run, first, last;
};

// What a stretch takes of a part that begins at `b`: all of the block but its rows' places. False: nothing.
bool take(const PanelTile& tile, const Part& part, const Stretch& stretch, const float* b, const float* bias,
          bool is_direct, Block& block) {
  const int64_t run = tile.runs ? tile.run : tile.k, runs_of_line = tile.runs ? tile.runs_of_line : 1;
  const int64_t first_run = part.first_run < stretch.first_run ? stretch.first_run : part.first_run,
                last_run = part.last_run < stretch.last_run ? part.last_run : stretch.last_run;
  const int64_t first = part.first < stretch.first ? stretch.first : part.first,
                last = part.last < stretch.last ? part.last : stretch.last;
  // A line of several runs comes in parts of one.
  const int64_t in_line = part.first_run % runs_of_line;
  const bool is_beside = in_line < stretch.first_run % runs_of_line || in_line > (stretch.last_run - 1) % runs_of_line;
  if (tile.k > 0 && (first_run >= last_run || first >= last || is_beside)) return false;
  block.a = tile.a + stretch.a + first;
  block.a_row = stretch.a_row;
  block.b = b + ((first_run - part.first_run) * run + first - part.first) * panel_columns;
  if (last_run - first_run > 1) {
    block.pieces = tile.runs + first_run;
    block.piece_count = last_run - first_run;
    block.depth = block.last_depth = last - first;
    block.pieces_of_sum = longest_sum / block.depth;
    block.b_piece = run * panel_columns;
  } else {
    if (tile.runs) block.a += tile.runs[first_run];
    block.pieces = nullptr;
    block.depth = equal_part(last - first, longest_sum);
    block.piece_count = last == first ? 1 : parts_of(last - first, block.depth);
    block.last_depth = last - first - (block.piece_count - 1) * block.depth;
    block.pieces_of_sum = 1;
    block.b_piece = block.depth * panel_columns;
  }
  block.bias = first_run == stretch.first_run && first == stretch.first ? bias : nullptr;
  block.is_complete = last_run == stretch.last_run && last == stretch.last;
  block.is_last = block.is_complete && is_direct;
  return true;
}

// One row by a panel that comes from memory, four parts of it at once: a core fetches more in several streams than in
// one. Where registers do not hold the sums of four whole lines, it does not pay.
constexpr int streams = 4;
constexpr bool has_streams = V::accumulators >= 4;

void multiply_in_streams(const PanelTile& tile) {
  constexpr int vectors = panel_columns / V::width;
  const int64_t most = equal_part(tile.k, streams * longest_sum);
  for (int64_t first = 0; first < tile.k; first += most) {
    const int64_t depth = tile.k - first < most ? tile.k - first : most, part = depth / streams;
    V sum[streams][vectors];
#pragma GCC unroll 4
    for (int s = 0; s < streams; ++s)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[s][j] = V::all(0);
    const auto add = [&](int s, int64_t k) __attribute__((always_inline)) {
      const V left = V::all(tile.a[first + k]);
      const float* const row = tile.b + (first + k) * panel_columns;
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[s][j].add_product(left, V::load(row + j * V::width));
    };
    for (int64_t k = 0; k < part; ++k)
#pragma GCC unroll 4
      for (int s = 0; s < streams; ++s) add(s, s * part + k);
    for (int64_t k = streams * part; k < depth; ++k) add(0, k);
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      float* const total = tile.scratch + j * V::width;
      const V piece = (sum[0][j] + sum[1][j]) + (sum[2][j] + sum[3][j]);
      (first > 0 ? V::load(total) + piece : piece).store(total);
    }
  }
  finish(tile);
}

// As many panels as there are registers for the sums.
constexpr int panels_at_once = has_streams ? 4 : 1;

// One row by `panels` panels, of which the rows of a step are read together.
template <int panels>
void multiply_side_by_side(const float* a, int64_t k, const float* b, float* y) {
  constexpr int vectors = panel_columns / V::width;
  const int64_t most = equal_part(k, longest_sum);
  for (int64_t first = 0; first < k; first += most) {
    const int64_t last = k - first < most ? k : first + most;
    V sum[panels][vectors];
#pragma GCC unroll 4
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j) sum[p][j] = V::all(0);
    for (int64_t step = first; step < last; ++step) {
      const V left = V::all(a[step]);
#pragma GCC unroll 4
      for (int p = 0; p < panels; ++p)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j)
          sum[p][j].add_product(left, V::load(b + (p * k + step) * panel_columns + j * V::width));
    }
#pragma GCC unroll 4
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j) {
        float* const total = y + p * panel_columns + j * V::width;
        (first > 0 ? V::load(total) + sum[p][j] : sum[p][j]).store(total);
      }
  }
}

// Nobody asks for more panels than fit.
constexpr int fitting_panels(int panels) { return panels <= panels_at_once ? panels : 1; }

void row_by_panels(const float* a, int64_t k, const float* b, int64_t panels, float* y) {
  constexpr decltype(&multiply_side_by_side<1>) of_panels[] = {
      multiply_side_by_side<1>, multiply_side_by_side<fitting_panels(2)>, multiply_side_by_side<fitting_panels(3)>,
      multiply_side_by_side<fitting_panels(4)>};
  for (int64_t count; panels > 0; panels -= count, b += count * k * panel_columns, y += count * panel_columns) {
    count = panels < panels_at_once ? panels : panels_at_once;
    of_panels[count - 1](a, k, b, y);
  }
}

void panel(const PanelTile& tile) {
  if (has_streams && tile.rows == 1 && tile.next && !tile.is_made && !tile.runs && !tile.halves.first)
    return multiply_in_streams(tile);
  const Stretch all{tile.rows, 0, tile.a_row, 0, 1, 0, 1, 0, tile.k};
  const Stretch* stretches = tile.stretches ? tile.stretches : &all;
  const int64_t stretch_count = tile.stretches ? tile.stretch_count : 1;
  int64_t longest = 0;
  for (int64_t i = 0; i < stretch_count; ++i) longest = longest < stretches[i].rows ? stretches[i].rows : longest;
  // Few columns, and rows that would not fit one block of all columns by a little, go in tall blocks.
  const bool is_tall = tile.columns <= 2 * V::width || (longest > row_block && longest <= tall_block);
  const int64_t wide = is_tall ? 2 : block_vectors(longest), most_rows = is_tall ? tall_block : row_block;
  const auto groups_of = [&](const Stretch& stretch) { return parts_of(stretch.rows, most_rows); };
  int64_t groups = 0;
  for (int64_t i = 0; i < stretch_count; ++i) groups += groups_of(stretches[i]);
  const int64_t vectors = parts_of(tile.columns, V::width), strips = vectors / wide, last_vectors = vectors % wide,
                all_strips = strips + (last_vectors > 0);
  // While a panel's part is used, the next one is fetched, spread over the blocks, so that memory is never idle; where
  // one block does it all, what is fetched lies a little ahead in the panel.
  const int64_t step_lines = panel_columns / line * 4;  // of four steps
  const int64_t blocks = groups * all_strips;
  const bool is_stream = blocks == 1;
  // A part is several runs, or some columns of one.
  const int64_t run = tile.runs ? tile.run : tile.k, runs = tile.runs ? tile.k / run : 1;
  const int64_t most = tile.halves.first && groups <= 2 ? streamed_depth : panel_depth;
  const int64_t depth = equal_part(run, most);
  const bool is_joined = tile.runs && tile.runs_of_line == 1 && run <= most;
  const int64_t runs_of_part = is_joined ? equal_count(runs, most / run) : 1;
  float room[panel_columns];
  const float* bias = whole_bias(tile, room);
  End result{tile.y, tile.y_row};
  const bool is_direct = ends_at_once(tile, result);
  Block block{.is_short = tile.k <= short_sum, .columns = tile.columns};
  for (Part part{0, runs_of_part, 0, depth};;) {
    if (part.last_run > runs) part.last_run = runs;
    if (part.last > run) part.last = run;
    const int64_t at = part.first_run * run + part.first,
                  length = (part.last_run - part.first_run) * (part.last - part.first);
    const bool is_end = part.last_run == runs && part.last == run;
    const float* b = tile.halves.first ? widened(tile.halves, at * panel_columns, length * panel_columns)
                                       : tile.b + at * panel_columns;
    const float* ahead = is_end ? tile.next : b + length * panel_columns;
    if (tile.halves.first) ahead = nullptr;
    if (tile.is_made) ahead = tile.next ? tile.next + at * panel_columns : nullptr;
    Fetch fetch;
    if (is_stream && tile.next)
      fetch = {b + 32 * panel_columns, 1, step_lines, 0, 0, true};
    else if (!is_stream && ahead)
      fetch = {ahead, blocks, step_lines / blocks, step_lines % blocks, length / 4 * line, false};
    int64_t row = 0, number = 0;
    for (int64_t i = 0; i < stretch_count; ++i) {
      const Stretch& stretch = stretches[i];
      if (!take(tile, part, stretch, b, bias, is_direct, block)) {
        row += stretch.rows;
        continue;
      }
      const int64_t stretch_groups = groups_of(stretch);
      int64_t place = stretch.place;
      for (int64_t group = 0; group < stretch_groups; ++group, number += all_strips) {
        const int64_t rows = stretch.rows / stretch_groups + (group < stretch.rows % stretch_groups);
        block.sums = tile.scratch + row * panel_columns;
        block.end = result;
        block.end.first += place * result.row;
        block.end.row = stretch.step * result.row;
        if (result.added) block.end.added += place * result.added_row;
        block.end.added_row = stretch.step * result.added_row;
        if (strips > 0) panel_rows_of(rows, wide)(block, 0, strips, fetch, number);
        if (last_vectors > 0)
          panel_rows_of(rows, last_vectors)(block, strips * wide * V::width, 1, fetch, number + strips);
        if (block.is_complete && !is_direct) finish_rows(tile, row, rows, place, stretch.step);
        row += rows;
        place += rows * stretch.step;
        block.a += rows * stretch.a_row;
      }
    }
    if (is_end) break;
    if (part.last < run)
      part = {part.first_run, part.last_run, part.last, part.last + depth};
    else
      part = {part.last_run, part.last_run + runs_of_part, 0, depth};
  }
}

}  // namespace
