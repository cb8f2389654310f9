// The loops of pooling over a vector type V, behind lanes_loops.h.

namespace {

template <bool is_max>
inline V pooled(V a, V b) {
  if constexpr (is_max) return larger(a, b);
  return a + b;
}

template <bool is_max>
inline V unpooled() {
  return V::all(is_max ? -infinity : 0);
}

// block<vectors>(at, last) for runs of up to four vectors of `count` floats; the last vector of a run has `last`.
template <class Block>
__attribute__((always_inline)) inline void in_blocks(int64_t count, const Block& block) {
  int64_t at = 0;
  for (; count - at > 4 * V::width; at += 4 * V::width) block.template operator()<4>(at, V::width);
  const int rest = static_cast<int>(count - at), last = (rest - 1) % V::width + 1;
  if (rest > 3 * V::width)
    block.template operator()<4>(at, last);
  else if (rest > 2 * V::width)
    block.template operator()<3>(at, last);
  else if (rest > V::width)
    block.template operator()<2>(at, last);
  else
    block.template operator()<1>(at, last);
}

// The first `count` floats at p. Whole vectors are read and written without a mask: with one, even of ones alone, the
// machine does not fetch ahead what comes from memory.
inline V load_some(const float* p, int count) { return count == V::width ? V::load(p) : V::load_first(p, count); }

template <int vectors>
inline void store_block(const V* values, float* y, int last) {
#pragma GCC unroll 4
  for (int v = 0; v + 1 < vectors; ++v) values[v].store(y + v * V::width);
  if (last == V::width)
    values[vectors - 1].store(y + (vectors - 1) * V::width);
  else
    values[vectors - 1].store_first(y + (vectors - 1) * V::width, last);
}

// `count` rows from `row` on, `step` floats apart, become one, of which the last vector has `last` floats.
template <bool is_max, int vectors>
__attribute__((always_inline)) inline void pool_block(const float* row, int64_t step, int64_t count, int last, V* y) {
  V all[vectors];  // in registers: y may lie anywhere
#pragma GCC unroll 4
  for (V& sum : all) sum = unpooled<is_max>();
  for (int64_t i = 0; i < count; ++i, row += step) {
#pragma GCC unroll 4
    for (int v = 0; v + 1 < vectors; ++v) all[v] = pooled<is_max>(V::load(row + v * V::width), all[v]);
    V& end = all[vectors - 1];
    end = pooled<is_max>(load_some(row + (vectors - 1) * V::width, last), end);
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) y[v] = all[v];
}

// The rows of a window become one.
template <bool is_max>
void pool_rows(const float* from, int64_t step, int64_t count, int64_t width, float* y) {
  in_blocks(width, [&]<int vectors>(int64_t at, int last) __attribute__((always_inline)) {
    V all[vectors];
    pool_block<is_max, vectors>(from + at, step, count, last, all);
    store_block<vectors>(all, y + at, last);
  });
}

// `step`: the distance between windows where it is 1 to 4; 0: any other.
template <bool is_max, int step>
void pool_columns(const PoolTile& tile, float share, const float* line, float* y) {
  const int64_t window = tile.window, dilation = tile.dilation;
  in_blocks(tile.outputs, [&]<int vectors>(int64_t at, int last) __attribute__((always_inline)) {
    V all[vectors];
#pragma GCC unroll 4
    for (V& sum : all) sum = unpooled<is_max>();
    const float* from = line + step * at;
    for (int64_t k = 0; k < window; ++k, from += dilation)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const float* place = from + step * v * V::width;
        if constexpr (step == 0)
          all[v] = pooled<is_max>(V::pick(place, tile.places + at + v * V::width), all[v]);
        else if constexpr (step == 1)
          all[v] = pooled<is_max>(V::load(place), all[v]);
        else
          all[v] = pooled<is_max>(V::every<step>(place), all[v]);
      }
    if (!is_max)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) all[v] = all[v] * (V::all(share) * V::load(tile.shares + at + v * V::width));
    store_block<vectors>(all, y + at, last);
  });
}

template <bool is_max, int step>
void pool_planes(const PoolTile& tile) {
  for (int64_t i = 0; i < tile.lines * tile.line_floats; i += V::width) unpooled<is_max>().store(tile.scratch + i);
  for (int64_t plane = 0; plane < tile.planes; ++plane) {
    const float* x = tile.x + plane * tile.x_plane;
    float *y = tile.y + plane * tile.y_plane, *line = tile.scratch;
    // First all rows, so that columns are not read while they are being written.
    for (int64_t i = 0; i < tile.lines; ++i, line += tile.line_floats)
      pool_rows<is_max>(x + tile.rows[i] * tile.width, tile.x_row, tile.row_counts[i], tile.width, line + tile.padding);
    line = tile.scratch;
    for (int64_t i = 0; i < tile.lines; ++i, line += tile.line_floats, y += tile.outputs)
      pool_columns<is_max, step>(tile, is_max ? 0 : tile.row_shares[i], line, y);
  }
}

template <bool is_max>
void pool_planes(const PoolTile& tile) {
  switch (tile.step) {
    case 1:
      return pool_planes<is_max, 1>(tile);
    case 2:
      return pool_planes<is_max, 2>(tile);
    case 3:
      return pool_planes<is_max, 3>(tile);
    case 4:
      return pool_planes<is_max, 4>(tile);
    default:
      return pool_planes<is_max, 0>(tile);
  }
}

void pool(const PoolTile& tile) {
  if (tile.shares)
    pool_planes<false>(tile);
  else
    pool_planes<true>(tile);
}

// Sums of thousands, one added to the last, would lose the last digits: halves are added up first, down to so many
// rows.
constexpr int64_t rows_a_sum = 64;

template <int vectors>
void add_block(const float* row, int64_t step, int64_t count, int last, V* all) {
  if (count <= rows_a_sum) return pool_block<false, vectors>(row, step, count, last, all);
  V rest[vectors];
  const int64_t half = count / 2;
  add_block<vectors>(row, step, half, last, all);
  add_block<vectors>(row + half * step, step, count - half, last, rest);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) all[v] = all[v] + rest[v];
}

void add_rows(const float* x, int64_t x_row, int64_t rows, int64_t n, float* y) {
  in_blocks(n, [&]<int vectors>(int64_t at, int last) __attribute__((always_inline)) {
    V all[vectors];
    add_block<vectors>(x + at, x_row, rows, last, all);
    store_block<vectors>(all, y + at, last);
  });
}

// Zero times every number is added up in `sums`, which one that is not finite makes NaN: that is half of what `larger`
// costs. Only then are windows looked at again, with care.
template <bool careful>
void largest_of_windows(const WindowsTile& tile, V* sums) {
  for (int64_t i = 0; i < tile.outputs; ++i) {
    const float* from = tile.x + tile.columns[i];
    float* y = tile.y + i * tile.channels;
    in_blocks(tile.channels, [&]<int vectors>(int64_t at, int last) __attribute__((always_inline)) {
      V all[vectors];
#pragma GCC unroll 4
      for (V& best : all) best = unpooled<true>();
      for (int64_t row = 0; row < tile.row_count; ++row) {
        const float* pixel = from + tile.rows[row] + at;
        for (int32_t k = 0; k < tile.column_counts[i]; ++k, pixel += tile.x_tap)
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) {
            const float* place = pixel + v * V::width;
            const V x = v + 1 < vectors ? V::load(place) : load_some(place, last);
            all[v] = careful ? larger(x, all[v]) : max(x, all[v]);
            if (!careful) sums[v] = fma(x, V::all(0), sums[v]);
          }
      }
      store_block<vectors>(all, y + at, last);
    });
  }
}

void largest_of_windows(const WindowsTile& tile) {
  V sums[4] = {V::all(0), V::all(0), V::all(0), V::all(0)};
  largest_of_windows<false>(tile, sums);
  const float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
  if (sum != sum) largest_of_windows<true>(tile, sums);
}

}  // namespace
