// The loops behind lanes.h, over a vector type V that the including file defines.
//
// max and min give their second operand where one is NaN, larger gives a NaN. V has `width` floats and: load,
// load_first(p, n, others = 0), load_half, load_bfloat, store, store_first(p, n), all(x), where(truths, yes, no), +, -,
// *, max, fma(a, b, c) = a * b + c, fms(a, b, c) = a * b - c, sum.add_product(a, b) for one of many sums, which all
// stay in their registers, reciprocal(a) for 1 <= a <= 2^100, round (to nearest), scaled_unless_below, sum and largest
// over lanes; `accumulators` is how many vectors a block of a product is wide, so that 6 rows of them fit the
// registers, and steps_at_once(rows, vectors) how many steps of a block follow each other before anything else is done.

namespace {

constexpr float infinity = __builtin_inff();
constexpr int64_t row_block = 6;  // rows of a product that are computed at once
// Rows of a block of at most two vectors: as many sums as in the widest blocks of row_block rows.
constexpr int64_t tall_block = row_block * (V::accumulators < 4 ? 1 : V::accumulators / 2);
static_assert(tall_block <= tallest_block);

// e^x for x <= 88, 0 below -87, NaN of NaN; relative error 1.6e-7, and where V fuses 1.4e-8 |x|, else 6e-8 |x|. A
// polynomial fitted to 2^r on [-0.5, 0.5].
inline V exp_of(V x) {
  const V log2_e = V::all(1.44269504f), n = round(x * log2_e), r = fms(x, log2_e, n);
  V p = V::all(1.32647273e-3f);
  p = fma(p, r, V::all(9.67151299e-3f));
  p = fma(p, r, V::all(5.55073358e-2f));
  p = fma(p, r, V::all(2.40222424e-1f));
  p = fma(p, r, V::all(6.93147004e-1f));
  p = fma(p, r, V::all(1));
  return scaled_unless_below(p, n, x, V::all(-87.3365f));
}

inline V sigmoid_of(V x) {
  // Far below it is 0, so that x times it is, too, however large. From 30 on it is 1.
  const V e = exp_of(min(V::all(30), x));
  return e * reciprocal(V::all(1) + e);
}

inline V tanh_of(V x) {
  // 1 - 2 / (e^2x + 1): an absolute error of one unit in the last place of 1, which is what a cell's state needs.
  return V::all(1) - V::all(2) * reciprocal(V::all(1) + exp_of(min(V::all(60), x + x)));
}

// Rows that are reached from one pointer: at it, one distance behind it, and two.
constexpr int rows_of_pointer = 3;
constexpr int pointers_of(int rows) { return (rows + rows_of_pointer - 1) / rows_of_pointer; }

// sum[i][j] += a[i][k] * b[k][j].
template <int rows, int vectors, int pointers>
inline void add_step(V (&sum)[rows][vectors], const float* const (&a)[pointers], int64_t a_row, const float* b,
                     int64_t b_row, int64_t k) {
  V right[vectors];
#pragma GCC unroll 8
  for (int j = 0; j < vectors; ++j) right[j] = V::load(b + k * b_row + j * V::width);
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
    const V left = V::all(a[i / rows_of_pointer][i % rows_of_pointer * a_row + k]);
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) sum[i][j].add_product(left, right[j]);
  }
}

// V::steps_at_once of them. The including file may have its own for some blocks. b_row: a number, or RowsOfPanel.
template <int rows, int vectors, int pointers, class RowOfB>
inline void add_steps(V (&sum)[rows][vectors], const float* const (&a)[pointers], int64_t a_row, const float* b,
                      RowOfB b_row) {
  constexpr int64_t steps = V::steps_at_once(rows, vectors);
#pragma GCC unroll 8
  for (int64_t k = 0; k < steps; ++k) add_step(sum, a, a_row, b, b_row, k);
}

// Moves the pointers by so many steps.
template <int pointers>
inline void advance(const float* (&a)[pointers], const float*& b, int64_t b_row, int64_t steps) {
#pragma GCC unroll 4
  for (int i = 0; i < pointers; ++i) {
    a[i] += steps;
    asm("" : "+r"(a[i]));  // the compiler would have one pointer for each row
  }
  b += steps * b_row;
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
      for (int j = 0; j < vectors; ++j) sum[i][j].add_product(left, right[j]);
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

// --- Products of few rows with a matrix that lies row by row

// So many rows and columns that a number of each row, one of the matrix and the sums fit the registers.
constexpr int dots_rows_at_once = V::accumulators < 4 ? 4 : 6;
constexpr int dots_columns_at_once = 4;  // as many as store_sums() takes
constexpr int dots_columns(int rows) { return V::accumulators < 4 && rows == 4 ? 2 : dots_columns_at_once; }
constexpr int64_t dots_chunk = 4096;  // floats of the matrix that stay in the nearest cache for the next rows

template <int rows, int columns>
inline void dots_block(const float* x, int64_t x_row, const float* w, int64_t w_row, int64_t k, float* y, int64_t y_row,
                       bool is_far) {
  V sum[rows][columns];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) sum[i][j] = V::all(0);
  const auto add = [&](auto load) __attribute__((always_inline)) {
    V left[rows];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) left[i] = load(x + i * x_row);
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) {
      const V right = load(w + j * w_row);
#pragma GCC unroll 6
      for (int i = 0; i < rows; ++i) sum[i][j].add_product(left[i], right);
    }
  };
  int64_t l = 0;
  for (; l + V::width <= k; l += V::width) {
    // A core with little to compute begins reading what follows by itself.
    if (is_far && rows > 2)
      for (int j = 0; j < columns; ++j) __builtin_prefetch(w + (dots_columns_at_once + j) * w_row + l);
    add([l](const float* p) { return V::load(p + l); });
  }
  if (const int rest = static_cast<int>(k - l); rest > 0)
    add([l, rest](const float* p) { return V::load_first(p + l, rest); });
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
    if constexpr (columns == dots_columns_at_once)
      V::store_sums(sum[i], y + i * y_row);
    else
#pragma GCC unroll 2
      for (int j = 0; j < columns; ++j) y[i * y_row + j] = sum[i][j].sum();
}

template <int rows>
void dots_rows(const float* x, int64_t x_row, const float* w, int64_t w_row, int64_t n, int64_t k, float* y,
               int64_t y_row, bool is_far) {
  constexpr int columns = dots_columns(rows);
  int64_t j = 0;
  for (; j + columns <= n; j += columns)
    dots_block<rows, columns>(x, x_row, w + j * w_row, w_row, k, y + j, y_row, is_far);
  for (; j < n; ++j) dots_block<rows, 1>(x, x_row, w + j * w_row, w_row, k, y + j, y_row, is_far);
}

// Nobody asks for more rows than fit.
constexpr int fitting_rows(int rows) { return rows <= dots_rows_at_once ? rows : 1; }

void dots_at_once(const float* x, int64_t x_row, int64_t m, const float* w, int64_t w_row, int64_t n, int64_t k,
                  float* y, int64_t y_row, bool is_far) {
  constexpr decltype(&dots_rows<1>) of_rows[] = {dots_rows<1>,
                                                 dots_rows<2>,
                                                 dots_rows<3>,
                                                 dots_rows<fitting_rows(4)>,
                                                 dots_rows<fitting_rows(5)>,
                                                 dots_rows<fitting_rows(6)>};
  if (m > 0) of_rows[m - 1](x, x_row, w, w_row, n, k, y, y_row, is_far);
}

void dots(const float* x, int64_t x_row, int64_t m, const float* w, int64_t w_row, int64_t n, int64_t k, float* y,
          int64_t y_row, bool is_far) {
  const int64_t groups = (m + dots_rows_at_once - 1) / dots_rows_at_once;
  if (groups <= 1) return dots_at_once(x, x_row, m, w, w_row, n, k, y, y_row, is_far);
  const int64_t blocks = k > 0 ? dots_chunk / k / dots_columns_at_once : n,
                columns = (blocks > 0 ? blocks : 1) * dots_columns_at_once;
  for (int64_t j = 0; j < n; j += columns)
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t first = m * group / groups, rows = m * (group + 1) / groups - first;
      dots_at_once(x + first * x_row, x_row, rows, w + j * w_row, w_row, n - j < columns ? n - j : columns, k,
                   y + first * y_row + j, y_row, is_far);
    }
}

// sigmoid(x) * tanh(y), by one division.
inline V sigmoid_tanh_of(V x, V y) {
  // From 20 on the one is 1, as the other is from 10 on.
  const V e = exp_of(min(V::all(20), x)), d = exp_of(min(V::all(20), y + y)), one = V::all(1);
  return e * (d - one) * reciprocal((one + e) * (one + d));
}

void lstm_cell(const float* const of_input[4], const float* const of_state[4], float* c, float* h, int64_t units) {
  const auto each_vector = [units](auto cell) __attribute__((always_inline)) {
    int64_t u = 0;
    for (; u + V::width <= units; u += V::width)
      cell(u, [](const float* p) { return V::load(p); }, [](V v, float* p) { v.store(p); });
    if (const int left = static_cast<int>(units - u); left > 0)
      cell(u, [=](const float* p) { return V::load_first(p, left); }, [=](V v, float* p) { v.store_first(p, left); });
  };
  const auto gate = [&](int i, int64_t u, auto load)
                        __attribute__((always_inline)) { return load(of_input[i] + u) + load(of_state[i] + u); };
  // Two loops: what a core has begun at once are several vectors of one, where one vector of both would wait for
  // itself.
  each_vector([&](int64_t u, auto load, auto store) __attribute__((always_inline)) {
    store(fma(sigmoid_of(gate(1, u, load)), load(c + u), sigmoid_tanh_of(gate(0, u, load), gate(2, u, load))), c + u);
  });
  each_vector([&](int64_t u, auto load, auto store)
                  __attribute__((always_inline)) { store(sigmoid_tanh_of(gate(3, u, load), load(c + u)), h + u); });
}

// --- What follows a product

// Where sums go, a row every `row` floats, what is added to them, between which bounds, and how they are then scaled
// and shifted. Of the last vector, `last` floats; 0: all.
struct End {
  float* first;
  int64_t row;
  int last = 0;
  float low = -infinity, high = infinity;
  const float* added = nullptr;  // or null
  int64_t added_row = 0;
  bool is_scaled = false;
  float scale = 1, shift = 0;

  // What there is to do with sums: nothing, bounds alone, or anything. A block of sums asks for it once.
  enum class Kind { plain, bounded, any };

  Kind kind() const {
    if (added || last != 0 || is_scaled) return Kind::any;
    return low == -infinity && high == infinity ? Kind::plain : Kind::bounded;
  }

  template <Kind kind = Kind::any>
  void put(V sums, int64_t at, int64_t column, bool is_last) const {
    float* place = first + at * row + column;
    if (kind == Kind::plain) return sums.store(place);
    if (kind == Kind::bounded) return min(V::all(high), max(V::all(low), sums)).store(place);
    const int count = is_last ? last : 0;
    if (added) {
      const float* other = added + at * added_row + column;
      sums = sums + (count ? V::load_first(other, count) : V::load(other));
    }
    V total = min(V::all(high), max(V::all(low), sums));
    if (is_scaled) total = fma(V::all(scale), total, V::all(shift));
    if (count)
      total.store_first(place, count);
    else
      total.store(place);
  }

  void go_to_next_row() {
    first += row;
    if (added) added += added_row;
  }
};

// Where rows of a tile go: one every `row` floats.
struct Rows {
  float* first;
  int64_t row;
};

// y := f(x, other) for rows * columns values of a tile; of an other operand, `read(row, column, count)` gives values
// that lie side by side. What lies behind the columns may be anything, such as numbers so small that they take a CPU a
// hundred times as long, so it is not computed with.
template <class F, class Read>
inline void map_rows(const float* x, Rows y, int64_t rows, int64_t columns, F f, Read read) {
  const int left = static_cast<int>(columns % V::width);
  for (int64_t i = 0; i < rows; ++i, x += panel_columns, y.first += y.row) {
    int64_t j = 0;
    for (; j < columns - left; j += V::width) f(V::load(x + j), read(i, j, V::width)).store(y.first + j);
    if (left > 0) f(V::load_first(x + j, left), read(i, j, left)).store_first(y.first + j, left);
  }
}

template <class F>
inline void map_tile(const float* x, Rows y, int64_t rows, int64_t columns, F f) {
  map_rows(x, y, rows, columns, [f](V v, V) { return f(v); }, [](int64_t, int64_t, int) { return V::all(0); });
}

// With the step's operand: one number for a row, or some that lie side by side, or apart.
template <class F>
inline void map_tile(const float* x, Rows y, int64_t rows, int64_t columns, const Step& step, F f) {
  const auto place = [&](int64_t i) { return step.operand + i * step.row; };
  if (step.column == 0)
    map_rows(x, y, rows, columns, f, [=](int64_t i, int64_t, int) { return V::all(*place(i)); });
  else if (step.column == 1)
    map_rows(x, y, rows, columns, f, [=](int64_t i, int64_t j, int count) {
      return count == V::width ? V::load(place(i) + j) : V::load_first(place(i) + j, count);
    });
  else
    map_rows(x, y, rows, columns, f, [&](int64_t i, int64_t j, int count) {
      float gathered[V::width] = {};
      for (int l = 0; l < count; ++l) gathered[l] = place(i)[(j + l) * step.column];
      return V::load(gathered);
    });
}

// erf, absolute error 5e-7: an odd rational function fitted on [-3.9, 3.9], and 1 or -1 exactly beyond.
inline V erf_of(V x) {
  const V z = min(V::all(3.9f), max(V::all(-3.9f), x)), u = z * z;
  V p = V::all(2.01187552e-8f);
  p = fma(p, u, V::all(-1.99690903e-6f));
  p = fma(p, u, V::all(1.47470953e-4f));
  p = fma(p, u, V::all(3.89612221e-3f));
  p = fma(p, u, V::all(5.11484196e-2f));
  p = fma(p, u, V::all(2.04221235e-1f));
  p = fma(p, u, V::all(1.1283791f));
  V q = V::all(1.00656438e-3f);
  q = fma(q, u, V::all(1.47301781e-2f));
  q = fma(q, u, V::all(1.16784002e-1f));
  q = fma(q, u, V::all(5.14315372e-1f));
  q = fma(q, u, V::all(1));
  return min(V::all(1), max(V::all(-1), z * p * reciprocal(q) * V::all(1.0000003f)));
}

void apply_step(const float* x, Rows y, int64_t rows, int64_t columns, const Step& step) {
  const V zero = V::all(0), one = V::all(1), six = V::all(6), alpha = V::all(step.alpha), beta = V::all(step.beta);
  const auto map = [&](auto f) { map_tile(x, y, rows, columns, f); };
  const auto map_both = [&](auto f) { map_tile(x, y, rows, columns, step, f); };
  switch (step.kind) {
    case StepKind::relu:
      return map([&](V v) { return max(zero, v); });
    case StepKind::clamp:
      return map([&](V v) { return min(beta, max(alpha, v)); });
    case StepKind::gelu_erf:
      return map([&](V v) {
        const V half = V::all(0.5f) * v;
        return fma(half, erf_of(v * V::all(0.70710678f)), half);
      });
    case StepKind::gelu_tanh:
      return map([&](V v) { return v * sigmoid_of(V::all(1.5957691f) * fma(V::all(0.044715f) * v * v, v, v)); });
    case StepKind::silu:
      return map([&](V v) { return v * sigmoid_of(v); });
    case StepKind::sigmoid:
      return map([&](V v) { return sigmoid_of(v); });
    case StepKind::tanh:
      return map([&](V v) { return tanh_of(v); });
    case StepKind::hardswish:
      return map([&](V v) { return v * min(six, max(zero, v + V::all(3))) * V::all(1.0f / 6); });
    case StepKind::hardsigmoid:
      return map([&](V v) { return min(six, max(zero, v + V::all(3))) * V::all(1.0f / 6); });
    case StepKind::leaky_relu:
      return map([&](V v) { return fma(alpha, min(zero, v), max(zero, v)); });
    case StepKind::elu:
      return map([&](V v) { return fma(alpha, exp_of(min(zero, v)) - one, max(zero, v)); });
    case StepKind::abs:
      return map([&](V v) { return max(v, zero - v); });
    case StepKind::affine:
      return map([&](V v) { return fma(alpha, v, beta); });
    case StepKind::add:
      return map_both([](V v, V other) { return v + other; });
    case StepKind::subtract:
      return map_both([](V v, V other) { return v - other; });
    case StepKind::multiply:
      return map_both([](V v, V other) { return v * other; });
    case StepKind::divide:
      return map_both([](V v, V other) { return v / other; });
    case StepKind::exp:
    case StepKind::sqrt:
      return;  // has_lanes() says no
  }
}

// The epilogue of rows whose sums are complete; its last step writes the result. The first of them is row `place` of
// the result, the others `distance` apart.
void finish_rows(const PanelTile& tile, int64_t first, int64_t rows, int64_t place, int64_t distance) {
  float* sums = tile.scratch + first * panel_columns;
  const Rows y{tile.y + place * tile.y_row, distance * tile.y_row};
  for (int64_t i = 0; i < tile.step_count; ++i) {
    Step step = tile.steps[i];
    if (step.operand) step.operand += place * step.row;
    step.row *= distance;
    apply_step(sums, i + 1 == tile.step_count ? y : Rows{sums, panel_columns}, rows, tile.columns, step);
  }
  if (tile.step_count == 0 && tile.y != tile.scratch) map_tile(sums, y, rows, tile.columns, [](V v) { return v; });
}

void finish_rows(const PanelTile& tile) { finish_rows(tile, 0, tile.rows, 0, 1); }

// Whether the epilogue is but a tensor that is added, bounds, and a factor with a summand, which are then `end`'s: it
// is done before sums are stored.
bool ends_at_once(const PanelTile& tile, End& end) {
  const Step *step = tile.steps, *const behind = step + tile.step_count;
  if (step != behind && step->kind == StepKind::add && step->operand && step->column == 1) {
    end.added = step->operand;
    end.added_row = step->row;
    ++step;
  }
  if (step != behind && (step->kind == StepKind::relu || step->kind == StepKind::clamp)) {
    end.low = step->kind == StepKind::relu ? 0 : step->alpha;
    if (step->kind == StepKind::clamp) end.high = step->beta;
    ++step;
  }
  if (step != behind && step->kind == StepKind::affine) {
    end.is_scaled = true;
    end.scale = step->alpha;
    end.shift = step->beta;
    ++step;
  }
  return step == behind;
}

void finish(const PanelTile& tile) {
  if (tile.bias)
    apply_step(tile.scratch, {tile.scratch, panel_columns}, tile.rows, tile.columns,
               {StepKind::add, 0, 0, tile.bias, 0, 1});
  finish_rows(tile);
}

// The bias of a tile's columns, of which whole vectors are read; in `room` where it is not there or is no whole
// vectors.
const float* whole_bias(const PanelTile& tile, float (&room)[panel_columns]) {
  if (tile.bias && tile.columns % V::width == 0) return tile.bias;
  for (int64_t j = 0; j < tile.columns; j += V::width) {
    const int count = static_cast<int>(tile.columns - j < V::width ? tile.columns - j : V::width);
    (tile.bias ? V::load_first(tile.bias + j, count) : V::all(0)).store(room + j);
  }
  return room;
}

void make_panel(const float* b, int64_t b_column, int64_t k, int64_t columns, float* panel, int64_t panel_row) {
  int64_t j = 0;
  for (; j + V::width <= columns; j += V::width) V::transpose(b + j * b_column, b_column, k, panel + j, panel_row);
  if (j < columns) {
    float room[V::width * V::width] = {};  // the last columns, and zeros behind them
    for (int64_t i = 0; i < k; i += V::width) {
      const int64_t rows = k - i < V::width ? k - i : V::width;
      for (int64_t c = j; c < columns; ++c)
        V::load_first(b + c * b_column + i, static_cast<int>(rows)).store(room + (c - j) * V::width);
      V::transpose(room, V::width, rows, panel + i * panel_row + j, panel_row);
    }
    j += V::width;
  }
  for (int64_t i = 0; j < panel_row && i < k; ++i)
    for (int64_t zeros = j; zeros < panel_row; zeros += V::width) V::all(0).store(panel + i * panel_row + zeros);
}

void turn(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  for (int64_t i = 0; i < rows; i += V::width) {
    const int64_t at = i + V::width <= rows ? i : rows - V::width;  // the last rows are turned with those before them
    V::transpose(from + at * from_row, from_row, columns, to + at, to_row);
  }
}

void add_lines(const float* const* lines, int64_t count, float start, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + V::width <= n; i += V::width) {
    V sum = V::all(start);
    for (int64_t k = 0; k < count; ++k) sum = sum + V::load(lines[k] + i);
    sum.store(y + i);
  }
  if (i == n) return;
  const int left = static_cast<int>(n - i);
  V sum = V::all(start);
  for (int64_t k = 0; k < count; ++k) sum = sum + V::load_first(lines[k] + i, left);
  sum.store_first(y + i, left);
}

// --- Convolutions of few channels

// `fixed`: the distance between outputs where it is known, so that it costs no register; else 0.
template <int rows, int vectors, int fixed>
inline void taps_block(const TapsTile& tile, const float* bias, const End& end, int64_t at, int64_t column) {
  constexpr int chains = rows * vectors <= 6 ? 2 : 1;  // as in panel_rows
  const int64_t x_step = fixed > 0 ? fixed : tile.x_step;
  const float *x = tile.x + at * x_step, *w = tile.w + column;
  V sum[chains][rows][vectors];
#pragma GCC unroll 2
  for (int c = 0; c < chains; ++c)
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[c][i][j] = c == 0 ? V::load(bias + column + j * V::width) : V::all(0);
  auto step = [&](int64_t k, int chain) __attribute__((always_inline)) {
    V right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) right[j] = V::load(w + k * tile.w_row + j * V::width);
    const float* first = x + tile.taps[k];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      const V left = V::all(first[i * x_step]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[chain][i][j].add_product(left, right[j]);
    }
  };
  int64_t k = 0;
  for (; k + 2 <= tile.tap_count; k += 2) step(k, 0), step(k + 1, chains - 1);
  if (k < tile.tap_count) step(k, 0);
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      end.put(chains == 2 ? sum[0][i][j] + sum[chains - 1][i][j] : sum[0][i][j], at + i, column + j * V::width,
              j + 1 == vectors);
}

template <int vectors, int fixed>
void taps_rows(const TapsTile& tile, const float* bias, const End& end, int64_t column) {
  constexpr int most = vectors == 1 ? 12 : 6;  // outputs at once
  for (int64_t at = 0; at < tile.out.rows;) {
    const int64_t left = tile.out.rows - at;
    if (left >= most) {
      taps_block<most, vectors, fixed>(tile, bias, end, at, column);
      at += most;
    } else if (left >= 4) {
      taps_block<4, vectors, fixed>(tile, bias, end, at, column);
      at += 4;
    } else if (left >= 2) {
      taps_block<2, vectors, fixed>(tile, bias, end, at, column);
      at += 2;
    } else {
      taps_block<1, vectors, fixed>(tile, bias, end, at, column);
      at += 1;
    }
  }
}

template <int vectors>
void taps_columns(const TapsTile& tile, const float* bias, const End& end, int64_t column) {
  if (tile.x_step == 1)
    taps_rows<vectors, 1>(tile, bias, end, column);
  else if (tile.x_step == 2)
    taps_rows<vectors, 2>(tile, bias, end, column);
  else
    taps_rows<vectors, 0>(tile, bias, end, column);
}

void taps(const TapsTile& tile) {
  const PanelTile& out = tile.out;
  float room[panel_columns];
  const float* bias = whole_bias(out, room);
  End end{out.y, out.y_row};
  const bool is_direct = ends_at_once(out, end);
  if (!is_direct) end = {out.scratch, panel_columns};
  constexpr int most = V::accumulators;
  for (int64_t column = 0; column < out.columns; column += most * V::width) {
    const int64_t columns = out.columns - column < most * V::width ? out.columns - column : most * V::width;
    if (is_direct) end.last = static_cast<int>(columns % V::width);
    switch ((columns + V::width - 1) / V::width) {
      case 1:
        taps_columns<1>(tile, bias, end, column);
        break;
      case 2:
        taps_columns<2>(tile, bias, end, column);
        break;
      case 3:
        taps_columns<(most < 3 ? most : 3)>(tile, bias, end, column);
        break;
      default:
        taps_columns<most>(tile, bias, end, column);
        break;
    }
  }
  if (!is_direct) finish_rows(out);
}

}  // namespace
