// Attention of lanes.h, included behind lanes_loops.h.

namespace {

constexpr int64_t query_block = 36;  // queries whose scores are held at once; row_block divides it

int64_t round_up(int64_t n) { return (n + V::width - 1) / V::width * V::width; }

// to[i * to_row + j] = from[i * from_row + j * from_column] for i < rows, j < columns.
void lay_in_rows(const float* from, int64_t from_row, int64_t from_column, int64_t rows, int64_t columns, float* to,
                 int64_t to_row) {
  const int64_t whole = from_column == 1 || from_row == 1 ? columns / V::width * V::width : 0;
  for (int64_t j = 0; j < whole; j += V::width) {
    if (from_column == 1)
      for (int64_t i = 0; i < rows; ++i) V::load(from + i * from_row + j).store(to + i * to_row + j);
    else
      V::transpose(from + j * from_column, from_column, rows, to + j, to_row);
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = whole; j < columns; ++j) to[i * to_row + j] = from[i * from_row + j * from_column];
}

// to[i * to_row + j * to_column] = from[i * columns + j] for i < rows, j < columns.
void lay_apart(const float* from, int64_t rows, int64_t columns, float* to, int64_t to_row, int64_t to_column) {
  if (to_row == 1) return lay_in_rows(from, 1, columns, columns, rows, to, to_column);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[i * to_row + j * to_column] = from[i * columns + j];
}

// Panels of k^T: panel p holds keys [p * wide, (p + 1) * wide) as depth rows, so that product() reads it in order.
constexpr int64_t panel_width = V::accumulators * V::width;

void pack_keys(const AttentionTile& tile, int64_t keys, float* packed) {
  for (int64_t first = 0; first < keys; first += panel_width, packed += panel_width * tile.depth) {
    const int64_t columns = keys - first < panel_width ? keys - first : panel_width;
    lay_in_rows(tile.k + first * tile.k_row, tile.k_column, tile.k_row, tile.depth, columns, packed, panel_width);
  }
}

// What a mask adds to `count` scores of a query from the first one on; the other lanes are 0.
inline V added_by(const AttentionMask<float>& mask, int64_t query, int64_t first, int count) {
  const float* added = mask.first + query * mask.row + first * mask.column;
  if (mask.column == 1) return count == V::width ? V::load(added) : V::load_first(added, count);
  float numbers[V::width] = {};
  for (int i = 0; i < count; ++i) numbers[i] = added[i * mask.column];
  return V::load(numbers);
}

// `count` scores of a query from the first one on, with those that truths hide replaced.
inline V hide(const AttentionTile& tile, int64_t query, int64_t first, int count, V scores) {
  const unsigned char* truths = tile.truths.first + query * tile.truths.row + first * tile.truths.column;
  unsigned char copied[V::width];
  if (count < V::width || tile.truths.column != 1) {
    for (int i = 0; i < V::width; ++i) copied[i] = i < count ? truths[i * tile.truths.column] : !tile.truths_hide;
    truths = copied;
  }
  const V hidden = V::all(tile.hidden);
  return tile.truths_hide ? V::where(truths, hidden, scores) : V::where(truths, scores, hidden);
}

// Masks one row of scores, and turns it into weights; returns 1 / their sum, or 0 where nothing is seen.
float softmax_row(const AttentionTile& tile, int64_t query, float* scores, int64_t keys) {
  int64_t seen = keys;
  if (tile.causal && tile.first_query + query + 1 < seen) seen = tile.first_query + query + 1;
  const bool is_masked = tile.added[0].first || tile.truths.first;
  V most = V::all(-infinity);
  auto see = [&](int64_t j, int count) __attribute__((always_inline)) {
    V score = count == V::width ? V::load(scores + j) : V::load_first(scores + j, count, V::all(-infinity));
    if (is_masked) {
      for (const AttentionMask<float>& added : tile.added)
        if (added.first) score = score + added_by(added, query, j, count);
      if (tile.truths.first) score = hide(tile, query, j, count, score);
    }
    if (is_masked || count < V::width) score.store(scores + j);
    most = max(most, score);
  };
  int64_t j = 0;
  for (; j + V::width <= seen; j += V::width) see(j, V::width);
  if (j < seen) see(j, static_cast<int>(seen - j));
  float largest = most.largest();
  if (largest == -infinity) largest = tile.empty_is_zero ? 0 : __builtin_nanf("");
  const V shift = V::all(largest);
  V sum = V::all(0);
  for (j = 0; j < seen; j += V::width) {
    const V weight = exp_of(V::load(scores + j) - shift);
    weight.store(scores + j);
    sum = sum + weight;
  }
  for (; j < keys; j += V::width) V::all(0).store(scores + j);
  const float total = sum.sum();
  return total == 0 ? (tile.empty_is_zero ? 0 : __builtin_nanf("")) : 1 / total;
}

// Few queries are products of vectors: packing the keys would cost more than it gains.
constexpr int64_t few_queries = 4;

int64_t attention_scratch(int64_t keys, int64_t depth, int64_t value_depth) {
  const int64_t padded = (keys + panel_width - 1) / panel_width * panel_width;
  return padded * depth + query_block * padded + query_block * (depth + V::width) + keys * value_depth +
         query_block * (value_depth + V::width);
}

// y[i] = factor * x[i] for i < n; y may be x.
inline void scale_row(const float* x, float factor, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + V::width <= n; i += V::width) (V::all(factor) * V::load(x + i)).store(y + i);
  if (const int rest = static_cast<int>(n - i); rest > 0)
    (V::all(factor) * V::load_first(x + i, rest)).store_first(y + i, rest);
}

void attention(const AttentionTile& tile) {
  int64_t keys = tile.keys;
  if (tile.causal && tile.first_query + tile.queries < keys) keys = tile.first_query + tile.queries;
  const int64_t padded = (tile.keys + panel_width - 1) / panel_width * panel_width;
  float* packed = tile.scratch;
  float* scores = packed + padded * tile.depth;
  float* queries = scores + query_block * padded;
  float* values = queries + query_block * (tile.depth + V::width);
  float* results = values + tile.keys * tile.value_depth;
  const float* v = tile.v;
  int64_t v_row = tile.v_row;
  // Rows far apart lie in few sets of the first-level cache: where several blocks read them, it pays to copy them.
  const bool are_apart = v_row != tile.value_depth && tile.queries > 2 * query_block;
  if (tile.v_column != 1 || are_apart) {
    lay_in_rows(tile.v, tile.v_row, tile.v_column, keys, tile.value_depth, values, tile.value_depth);
    v = values;
    v_row = tile.value_depth;
  }
  const bool few = tile.queries <= few_queries && tile.k_column == 1;
  if (!few) pack_keys(tile, keys, packed);

  for (int64_t first = 0; first < tile.queries; first += query_block) {
    const int64_t rows = tile.queries - first < query_block ? tile.queries - first : query_block;
    int64_t seen = keys;  // by any query of the block
    if (tile.causal && tile.first_query + first + rows < seen) seen = tile.first_query + first + rows;
    const float* q = tile.q + first * tile.q_row;
    int64_t q_row = tile.q_row;
    if (tile.q_column != 1) {
      lay_in_rows(q, q_row, tile.q_column, rows, tile.depth, queries, tile.depth);
      q = queries;
      q_row = tile.depth;
    }
    for (int64_t i = 0; i < rows; ++i) scale_row(q + i * q_row, tile.scale, queries + i * tile.depth, tile.depth);
    if (few)
      dots(queries, tile.depth, rows, tile.k, tile.k_row, seen, tile.depth, scores, padded, false);
    else
      for (int64_t j = 0; j < seen; j += panel_width)
        product(rows, seen - j < panel_width ? round_up(seen - j) : panel_width, tile.depth, queries, tile.depth,
                packed + j * tile.depth, panel_width, scores + j, padded);
    float factors[query_block];
    for (int64_t i = 0; i < rows; ++i) factors[i] = softmax_row(tile, first + i, scores + i * padded, seen);
    product(rows, tile.value_depth, seen, scores, padded, v, v_row, results, tile.value_depth);
    float* y = tile.y + first * tile.y_row;
    for (int64_t i = 0; i < rows; ++i) {
      float* row = results + i * tile.value_depth;
      scale_row(row, factors[i], tile.y_column == 1 ? y + i * tile.y_row : row, tile.value_depth);
    }
    if (tile.y_column != 1) lay_apart(results, rows, tile.value_depth, y, tile.y_row, tile.y_column);
  }
}

}  // namespace
