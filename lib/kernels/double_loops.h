// Products of f64 with a panel, behind lanes_loops.h: the vector type D has V's bytes.

namespace {

constexpr int double_rows = 6;  // that are computed at once, as row_block

template <int rows, int vectors>
inline void double_block(const DoubleTile& tile, const double* a, const double* b, double* sums) {
  D sum[rows][vectors];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      sum[i][j] = tile.adds ? D::load(sums + i * double_columns + j * D::width) : D::all(0);
  for (int64_t k = 0; k < tile.k; ++k, a += tile.a_column, b += double_columns) {
    D right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) right[j] = D::load(b + j * D::width);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const D left = D::all(a[i * tile.a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[i][j].add_product(left, right[j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j].store(sums + i * double_columns + j * D::width);
}

template <int vectors>
void double_block_of(int64_t rows, const DoubleTile& tile, const double* a, const double* b, double* sums) {
  switch (rows) {
    case 1:
      return double_block<1, vectors>(tile, a, b, sums);
    case 2:
      return double_block<2, vectors>(tile, a, b, sums);
    case 3:
      return double_block<3, vectors>(tile, a, b, sums);
    case 4:
      return double_block<4, vectors>(tile, a, b, sums);
    case 5:
      return double_block<5, vectors>(tile, a, b, sums);
    default:
      return double_block<6, vectors>(tile, a, b, sums);
  }
}

void double_panel(const DoubleTile& tile) {
  constexpr int64_t wide = V::accumulators * D::width;
  for (int64_t j = 0; j < tile.columns; j += wide) {
    const int64_t vectors = (tile.columns - j + D::width - 1) / D::width;
    for (int64_t i = 0; i < tile.rows; i += double_rows) {
      const int64_t rows = tile.rows - i < double_rows ? tile.rows - i : double_rows;
      const double *a = tile.a + i * tile.a_row, *b = tile.b + j;
      double* sums = tile.sums + i * double_columns + j;
      switch (vectors) {
        case 1:
          double_block_of<1>(rows, tile, a, b, sums);
          break;
        case 2:
          double_block_of<2>(rows, tile, a, b, sums);
          break;
        case 3:
          double_block_of<(V::accumulators < 3 ? 2 : 3)>(rows, tile, a, b, sums);
          break;
        default:
          double_block_of<V::accumulators>(rows, tile, a, b, sums);
          break;
      }
    }
  }
}

}  // namespace
