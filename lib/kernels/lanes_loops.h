// The loops behind lanes.h, over a vector type V that the including file defines.
//
// V has `width` floats and: load, load_first(p, n), store, store_first(p, n), all(x), +, -, *, max, fma(a, b, c) = a *
// b + c, round (to nearest), power_of_two (of whole numbers), sum and largest over lanes; `accumulators` is how many
// vectors a block of a product is wide, so that 6 rows of them fit the registers.

namespace {

constexpr float infinity = __builtin_inff();
constexpr int64_t row_block = 6;     // rows of a product that are computed at once
constexpr int64_t query_block = 32;  // queries whose scores are held at once

// e^x for x <= 88, 0 below -87. Argument reduction by ln 2 in two parts, then a polynomial of degree 6 (Cephes, expf).
inline V exp_of(V x) {
  const V clamped = max(x, V::all(-87.3365f));
  const V n = round(clamped * V::all(1.44269504088896341f));
  V r = fma(n, V::all(-0.693359375f), clamped);
  r = fma(n, V::all(2.12194440e-4f), r);
  V p = V::all(1.9875691500e-4f);
  p = fma(p, r, V::all(1.3981999507e-3f));
  p = fma(p, r, V::all(8.3334519073e-3f));
  p = fma(p, r, V::all(4.1665795894e-2f));
  p = fma(p, r, V::all(1.6666665459e-1f));
  p = fma(p, r, V::all(5.0000001201e-1f));
  p = fma(p, r * r, r + V::all(1.0f));
  return zero_where_below(p * power_of_two(n), x, V::all(-87.3365f));
}

inline V sigmoid_of(V x) {
  // e^-x overflows below -88; there the result is 0 to the last bit anyway.
  return V::all(1.0f) / (V::all(1.0f) + exp_of(min(V::all(0.0f) - x, V::all(88.0f))));
}

inline V tanh_of(V x) {
  // 1 - 2 / (e^2x + 1): an absolute error of one unit in the last place of 1, which is what a cell's state needs.
  return V::all(1.0f) - V::all(2.0f) / (V::all(1.0f) + exp_of(min(x + x, V::all(88.0f))));
}

// c[0..rows)[0..columns) = a * b for up to row_block rows and accumulators * width columns. b's last vector may be
// partial.
template <int rows, int vectors>
inline void product_block(int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_row, float* c,
                          int64_t c_row, int last) {
  V sum[rows][vectors];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = V::all(0);
  for (int64_t k = 0; k < depth; ++k) {
    V right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      right[j] = j + 1 == vectors && last ? V::load_first(b + k * b_row + j * V::width, last)
                                          : V::load(b + k * b_row + j * V::width);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const V left = V::all(a[i * a_row + k]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      float* place = c + i * c_row + j * V::width;
      if (j + 1 == vectors && last)
        sum[i][j].store_first(place, last);
      else
        sum[i][j].store(place);
    }
}

template <int vectors>
void product_rows(int64_t rows, int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_row, float* c,
                  int64_t c_row, int last) {
  switch (rows) {
    case 1:
      return product_block<1, vectors>(depth, a, a_row, b, b_row, c, c_row, last);
    case 2:
      return product_block<2, vectors>(depth, a, a_row, b, b_row, c, c_row, last);
    case 3:
      return product_block<3, vectors>(depth, a, a_row, b, b_row, c, c_row, last);
    case 4:
      return product_block<4, vectors>(depth, a, a_row, b, b_row, c, c_row, last);
    case 5:
      return product_block<5, vectors>(depth, a, a_row, b, b_row, c, c_row, last);
    default:
      return product_block<6, vectors>(depth, a, a_row, b, b_row, c, c_row, last);
  }
}

// c = a * b: m x depth times depth x n, unit distance between columns.
void product(int64_t m, int64_t n, int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_row,
             float* c, int64_t c_row) {
  constexpr int64_t wide = V::accumulators * V::width;
  for (int64_t j = 0; j < n; j += wide) {
    const int64_t columns = n - j < wide ? n - j : wide;
    const int vectors = static_cast<int>((columns + V::width - 1) / V::width),
              last = static_cast<int>(columns % V::width);
    for (int64_t i = 0; i < m; i += row_block) {
      const int64_t rows = m - i < row_block ? m - i : row_block;
      const float* left = a + i * a_row;
      float* place = c + i * c_row + j;
      switch (vectors) {
        case 1:
          product_rows<1>(rows, depth, left, a_row, b + j, b_row, place, c_row, last);
          break;
        case 2:
          product_rows<2>(rows, depth, left, a_row, b + j, b_row, place, c_row, last);
          break;
        case 3:
          product_rows<(V::accumulators > 2 ? 3 : 2)>(rows, depth, left, a_row, b + j, b_row, place, c_row, last);
          break;
        default:
          product_rows<V::accumulators>(rows, depth, left, a_row, b + j, b_row, place, c_row, last);
          break;
      }
    }
  }
}

int64_t round_up(int64_t n) { return (n + V::width - 1) / V::width * V::width; }

// Panels of k^T: panel p holds keys [p * wide, (p + 1) * wide) as depth rows, so that product() reads it in order.
constexpr int64_t panel_width = V::accumulators * V::width;

void pack_keys(const AttentionTile& tile, int64_t keys, float* packed) {
  for (int64_t first = 0; first < keys; first += panel_width, packed += panel_width * tile.depth) {
    const int64_t columns = keys - first < panel_width ? keys - first : panel_width;
    const float* source = tile.k + first * tile.k_row;
    int64_t column = 0;
    if (tile.k_column == 1)
      for (; column + V::width <= columns; column += V::width)
        V::transpose(source + column * tile.k_row, tile.k_row, tile.depth, packed + column, panel_width);
    for (; column < columns; ++column)
      for (int64_t d = 0; d < tile.depth; ++d)
        packed[d * panel_width + column] = source[column * tile.k_row + d * tile.k_column];
  }
}

// Masks one row of scores, and turns it into weights; returns 1 / their sum, or 0 where nothing is seen.
float softmax_row(const AttentionTile& tile, int64_t query, float* scores, int64_t keys) {
  int64_t seen = keys;
  if (tile.causal && tile.first_query + query + 1 < seen) seen = tile.first_query + query + 1;
  if (tile.added) {
    const float* added = tile.added + query * tile.mask_row;
    if (tile.mask_column == 1) {
      int64_t j = 0;
      for (; j + V::width <= seen; j += V::width) (V::load(scores + j) + V::load(added + j)).store(scores + j);
      for (; j < seen; ++j) scores[j] += added[j];
    } else {
      for (int64_t j = 0; j < seen; ++j) scores[j] += added[j * tile.mask_column];
    }
  }
  if (tile.allowed) {
    const unsigned char* allowed = tile.allowed + query * tile.mask_row;
    for (int64_t j = 0; j < seen; ++j) scores[j] = allowed[j * tile.mask_column] ? scores[j] : -infinity;
  }
  const int64_t padded = round_up(keys);
  for (int64_t j = seen; j < padded; ++j) scores[j] = -infinity;
  V most = V::all(-infinity);
  for (int64_t j = 0; j < padded; j += V::width) most = max(most, V::load(scores + j));
  float largest = most.largest();
  if (largest == -infinity) largest = tile.empty_is_zero ? 0 : __builtin_nanf("");
  const V shift = V::all(largest);
  V sum = V::all(0);
  for (int64_t j = 0; j < padded; j += V::width) {
    const V weight = exp_of(V::load(scores + j) - shift);
    weight.store(scores + j);
    sum = sum + weight;
  }
  const float total = sum.sum();
  return total == 0 ? (tile.empty_is_zero ? 0 : __builtin_nanf("")) : 1 / total;
}

void dots(const float* x, int64_t x_row, int64_t m, const float* w, int64_t w_row, int64_t n, int64_t k, float* y,
          int64_t y_row);

// Few queries are products of vectors: packing the keys would cost more than it gains.
constexpr int64_t few_queries = 4;

int64_t attention_scratch(int64_t keys, int64_t depth, int64_t value_depth) {
  const int64_t padded = (keys + panel_width - 1) / panel_width * panel_width;
  return padded * depth + query_block * padded + query_block * (depth + V::width) + keys * value_depth +
         query_block * (value_depth + V::width);
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
  if (tile.v_column != 1) {
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < tile.value_depth; ++d)
        values[j * tile.value_depth + d] = tile.v[j * tile.v_row + d * tile.v_column];
    v = values;
    v_row = tile.value_depth;
  }
  const bool few = tile.queries <= few_queries && tile.k_column == 1;
  if (!few) pack_keys(tile, keys, packed);

  for (int64_t first = 0; first < tile.queries; first += query_block) {
    const int64_t rows = tile.queries - first < query_block ? tile.queries - first : query_block;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t d = 0; d < tile.depth; ++d)
        queries[i * tile.depth + d] = tile.scale * tile.q[(first + i) * tile.q_row + d * tile.q_column];
    if (few)
      dots(queries, tile.depth, rows, tile.k, tile.k_row, keys, tile.depth, scores, padded);
    else
      for (int64_t j = 0; j < keys; j += panel_width)
        product(rows, panel_width, tile.depth, queries, tile.depth, packed + j * tile.depth, panel_width, scores + j,
                padded);
    float factors[query_block];
    for (int64_t i = 0; i < rows; ++i) factors[i] = softmax_row(tile, first + i, scores + i * padded, keys);
    product(rows, tile.value_depth, keys, scores, padded, v, v_row, results, tile.value_depth);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t d = 0; d < tile.value_depth; ++d)
        tile.y[(first + i) * tile.y_row + d * tile.y_column] = results[i * tile.value_depth + d] * factors[i];
  }
}

// --- Products of few rows with a matrix that lies row by row
// ----------------------------------------------------------

template <int rows, int columns>
inline void dots_block(const float* x, int64_t x_row, const float* w, int64_t w_row, int64_t k, float* y,
                       int64_t y_row) {
  V sum[rows][columns];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) sum[i][j] = V::all(0);
  int64_t l = 0;
  for (; l + V::width <= k; l += V::width) {
    V right[columns];
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) right[j] = V::load(w + j * w_row + l);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      const V left = V::load(x + i * x_row + l);
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sum[i][j] = fma(left, right[j], sum[i][j]);
    }
  }
  if (const int rest = static_cast<int>(k - l); rest > 0) {
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      const V left = V::load_first(x + i * x_row + l, rest);
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sum[i][j] = fma(left, V::load_first(w + j * w_row + l, rest), sum[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) y[i * y_row + j] = sum[i][j].sum();
}

template <int rows>
void dots_rows(const float* x, int64_t x_row, const float* w, int64_t w_row, int64_t n, int64_t k, float* y,
               int64_t y_row) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) dots_block<rows, 4>(x, x_row, w + j * w_row, w_row, k, y + j, y_row);
  for (; j < n; ++j) dots_block<rows, 1>(x, x_row, w + j * w_row, w_row, k, y + j, y_row);
}

void dots(const float* x, int64_t x_row, int64_t m, const float* w, int64_t w_row, int64_t n, int64_t k, float* y,
          int64_t y_row) {
  switch (m) {
    case 1:
      return dots_rows<1>(x, x_row, w, w_row, n, k, y, y_row);
    case 2:
      return dots_rows<2>(x, x_row, w, w_row, n, k, y, y_row);
    case 3:
      return dots_rows<3>(x, x_row, w, w_row, n, k, y, y_row);
    default:
      return dots_rows<4>(x, x_row, w, w_row, n, k, y, y_row);
  }
}

void lstm_cell(const float* input, const float* forget, const float* cell, const float* output, float* c, float* h,
               int64_t units) {
  for (int64_t u = 0; u < units; u += V::width) {
    const int64_t left = units - u;
    const int count = static_cast<int>(left < V::width ? left : V::width);
    auto load = [&](const float* p) { return count == V::width ? V::load(p + u) : V::load_first(p + u, count); };
    const V state = fma(sigmoid_of(load(forget)), load(c), sigmoid_of(load(input)) * tanh_of(load(cell)));
    const V shown = sigmoid_of(load(output)) * tanh_of(state);
    state.store_first(c + u, count);
    shown.store_first(h + u, count);
  }
}

}  // namespace
