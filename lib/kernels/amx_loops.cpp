// The loops of amx.h. Compiled for AMX; runs only where amx() found it.
#include "kernels/amx.h"

#if defined(__AMX_BF16__)

#include <immintrin.h>

namespace atenon::kernels {

namespace {

constexpr int64_t tile_numbers = amx_rows * amx_depth;

// Two vectors of 16 numbers on their way to parts, of which the numbers of both lie in turn.
struct Pair {
  __m512 first, second;

  // The next part of both: to the nearest, of two as near the larger one. It is taken off.
  __m512i take() {
    const __m512i half = _mm512_set1_epi32(0x8000), kept = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    const __m512i one = _mm512_add_epi32(_mm512_castps_si512(first), half),
                  other = _mm512_add_epi32(_mm512_castps_si512(second), half);
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_and_si512(one, kept)));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(_mm512_and_si512(other, kept)));
    return in_turn(one, other);
  }
  // What is left, of which 8 bits are all.
  __m512i last() const { return in_turn(_mm512_castps_si512(first), _mm512_castps_si512(second)); }

 private:
  static __m512i in_turn(__m512i one, __m512i other) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(one, 16), other);
  }
};

// What is seen of numbers: whether all are below 2^63, by bits without the sign, and their second parts.
class Seen {
 public:
  void see(const Pair& pair) { see(pair.first), see(pair.second); }
  void see_second(__m512i parts) { seconds_ = _mm512_or_si512(seconds_, parts); }
  Split split() const {
    return {_mm512_reduce_max_epu32(largest_) < (127u + 63u) << 23, _mm512_test_epi32_mask(seconds_, seconds_) == 0};
  }

 private:
  void see(__m512 x) {
    largest_ = _mm512_max_epu32(largest_, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
  }
  __m512i largest_ = _mm512_setzero_si512(), seconds_ = _mm512_setzero_si512();
};

Split split_rows(const RowsInParts& rows) {
  Seen seen;
  const auto load = [](const float* from, int64_t left) {
    return left >= 16 ? _mm512_loadu_ps(from)
                      : _mm512_maskz_loadu_ps(static_cast<__mmask16>(left > 0 ? (1 << left) - 1 : 0), from);
  };
  for (int64_t i = 0; i < rows.rows; ++i) {
    const float* from = rows.from + i * rows.from_row;
    uint16_t* to = rows.to + i * rows.to_row;
    for (int64_t j = 0; j < rows.k; j += amx_depth) {
      Pair pair{load(from + j, rows.k - j), load(from + j + 16, rows.k - j - 16)};
      seen.see(pair);
      _mm512_storeu_si512(to + j, pair.take());
      const __m512i second = pair.take();
      seen.see_second(second);
      _mm512_storeu_si512(to + rows.plane + j, second);
      _mm512_storeu_si512(to + 2 * rows.plane + j, pair.last());
    }
  }
  return seen.split();
}

// A vector of a row of a panel that is not there.
alignas(64) constexpr float no_vector[amx_rows] = {};

template <PanelNumbers numbers>
inline __m512 load(const char* vector) {
  if constexpr (numbers == PanelNumbers::f32) {
    return _mm512_loadu_ps(reinterpret_cast<const float*>(vector));
  } else {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(vector));
    if constexpr (numbers == PanelNumbers::f16) return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
}

// Splits a panel little by little.
template <PanelNumbers numbers>
class Splitting {
 public:
  explicit Splitting(const PanelInParts& panel)
      : panel_(panel),
        end_(panel.columns > panel_columns / 2 ? row_vectors : row_vectors / 2),
        left_(panel.k / 2 * end_),
        to_(panel.to) {
    for (int i = 0; i < row_vectors; ++i) {
      offsets_[i] = panel.vectors[i] * number_bytes;
      offsets_[row_vectors + i] = offsets_[i] + amx_rows * row_bytes();
    }
    find_step();
  }

  int64_t left() const { return left_; }
  Split split() const { return seen_.split(); }

  // The next vector of the panel, and that half a step behind it.
  __attribute__((always_inline)) void advance() {
    uint16_t* to = to_ + (vector_ >> 1) * panel_.half + (vector_ & 1) * tile_numbers;
    Pair pair{load<numbers>(places_[vector_]), load<numbers>(places_[row_vectors + vector_])};
    seen_.see(pair);
    if constexpr (parts == 1) {
      _mm512_storeu_si512(to, pair.last());
    } else {
      _mm512_storeu_si512(to, pair.take());
      const __m512i second = pair.take();
      seen_.see_second(second);
      _mm512_storeu_si512(to + 2 * tile_numbers, second);
      _mm512_storeu_si512(to + 4 * tile_numbers, pair.last());
    }
    --left_, ++vector_;
    if (vector_ == end_) next_row();
  }

 private:
  static constexpr int64_t parts = parts_of(numbers), number_bytes = numbers == PanelNumbers::f32 ? 4 : 2,
                           row_vectors = panel_columns / amx_rows;
  int64_t row_bytes() const { return panel_.row * number_bytes; }
  void next_row() {
    vector_ = 0, ++row_, to_ += amx_depth;
    if (row_ == amx_rows) {
      row_ = 0, panel_.first += amx_depth, to_ += (2 * parts - 1) * tile_numbers;
      if (left_ > 0) find_step();
    } else {
      find_rows();
    }
  }
  void find_step() {
    const int64_t run = panel_.k > 0 ? panel_.first / panel_.filled_run : 0,
                  in_run = panel_.first - run * panel_.filled_run;
    step_ = static_cast<const char*>(panel_.from) + (run * panel_.run + in_run) * row_bytes();
    there_ = panel_.run - in_run;
    find_rows();
  }
  void find_rows() {
    const auto all = [](const char* place) { return _mm512_set1_epi64(reinterpret_cast<int64_t>(place)); };
    const auto there = static_cast<__mmask8>((row_ < there_ ? 0x0f : 0) | (row_ + amx_rows < there_ ? 0xf0 : 0));
    _mm512_store_si512(places_, _mm512_mask_add_epi64(all(reinterpret_cast<const char*>(no_vector)), there,
                                                      all(step_ + row_ * row_bytes()), _mm512_load_si512(offsets_)));
  }

  PanelInParts panel_;
  int64_t end_, left_, row_ = 0, vector_ = 0;  // of a step
  const char* step_ = nullptr;
  int64_t there_ = 0;  // rows of it
  // The vectors of the row at hand and of that half a step behind it, and how far they are from the first one.
  alignas(64) const char* places_[2 * row_vectors];
  alignas(64) int64_t offsets_[2 * row_vectors];
  uint16_t* to_;
  Seen seen_;
};

template <PanelNumbers numbers>
Split split_all(const PanelInParts& panel) {
  Splitting<numbers> splitting(panel);
  while (splitting.left() > 0) splitting.advance();
  return splitting.split();
}

Split split_panel(const PanelInParts& panel, PanelNumbers numbers) {
  switch (numbers) {
    case PanelNumbers::f32:
      return split_all<PanelNumbers::f32>(panel);
    case PanelNumbers::f16:
      return split_all<PanelNumbers::f16>(panel);
    case PanelNumbers::bf16:
      return split_all<PanelNumbers::bf16>(panel);
  }
  return {};
}

// Registers are parts of instructions, so what repeats is a macro.
#define BEGIN_2(first, second, at)                     \
  if (tile.begins) {                                   \
    _tile_zero(first);                                 \
    _tile_zero(second);                                \
  } else {                                             \
    _tile_loadd(first, (at), panel_columns * 4);       \
    _tile_loadd(second, (at) + 16, panel_columns * 4); \
  }
#define STORE_2(first, second, at)              \
  _tile_stored(first, (at), panel_columns * 4); \
  _tile_stored(second, (at) + 16, panel_columns * 4)

#define TILES_2X2(first, second, left, right) \
  _tile_dpbf16ps(0, first, left);             \
  _tile_dpbf16ps(1, first, right);            \
  _tile_dpbf16ps(2, second, left);            \
  _tile_dpbf16ps(3, second, right)

// Two blocks of rows by two vectors of columns. While the unit is busy with four tiles, `advances` vectors are split:
// it is as fast as if they were not, where all of them at once would take half as long again.
template <PanelNumbers numbers, bool a_is_first, bool b_is_first>
void multiply_2x2(const AmxTile& tile, const uint16_t* first, const uint16_t* second, const uint16_t* b, float* sums,
                  Splitting<numbers>& next, int64_t advances) {
  const int64_t a_bytes = tile.a_row * 2;
  const auto split = [&]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < advances && next.left() > 0; ++i) next.advance();
  };
  float* below = sums + tile.block_rows * panel_columns;
  BEGIN_2(0, 1, sums)
  BEGIN_2(2, 3, below)
  for (int64_t step = 0; step < tile.step_count; ++step, b += step_numbers(parts_of(numbers)) / 2) {
    const uint16_t *a0 = first + tile.steps[step], *a1 = second + tile.steps[step];
    const uint16_t *b0 = b, *b1 = b0 + 2 * tile_numbers, *b2 = b1 + 2 * tile_numbers;
    // In an order in which most of what is there serves the next products, too.
    if constexpr (!b_is_first) {
      _tile_loadd(4, a0, a_bytes);
      _tile_loadd(6, b2, 64);
      _tile_loadd(7, b2 + tile_numbers, 64);
      _tile_loadd(5, a1, a_bytes);
      TILES_2X2(4, 5, 6, 7);
      split();
      _tile_loadd(6, b1, 64);
      _tile_loadd(7, b1 + tile_numbers, 64);
      TILES_2X2(4, 5, 6, 7);
      split();
      if constexpr (!a_is_first) {
        _tile_loadd(4, a0 + tile.a_plane, a_bytes);
        _tile_loadd(5, a1 + tile.a_plane, a_bytes);
        TILES_2X2(4, 5, 6, 7);
        split();
      }
    }
    _tile_loadd(6, b0, 64);
    _tile_loadd(7, b0 + tile_numbers, 64);
    if constexpr (!a_is_first) {
      _tile_loadd(4, a0 + tile.a_plane, a_bytes);
      _tile_loadd(5, a1 + tile.a_plane, a_bytes);
      TILES_2X2(4, 5, 6, 7);
      split();
      _tile_loadd(4, a0 + 2 * tile.a_plane, a_bytes);
      _tile_loadd(5, a1 + 2 * tile.a_plane, a_bytes);
      TILES_2X2(4, 5, 6, 7);
      split();
    }
    _tile_loadd(4, a0, a_bytes);
    _tile_loadd(5, a1, a_bytes);
    TILES_2X2(4, 5, 6, 7);
    split();
  }
  STORE_2(0, 1, sums);
  STORE_2(2, 3, below);
}

#undef TILES_2X2
#define VECTOR_OF_1(sum, at)                     \
  if constexpr (!b_is_first) {                   \
    _tile_loadd(7, (at) + 4 * tile_numbers, 64); \
    _tile_dpbf16ps(sum, 4, 7);                   \
    _tile_loadd(7, (at) + 2 * tile_numbers, 64); \
    _tile_dpbf16ps(sum, 4, 7);                   \
    if constexpr (!a_is_first) {                 \
      _tile_dpbf16ps(sum, 5, 7);                 \
    }                                            \
  }                                              \
  _tile_loadd(7, (at), 64);                      \
  if constexpr (!a_is_first) {                   \
    _tile_dpbf16ps(sum, 5, 7);                   \
    _tile_dpbf16ps(sum, 6, 7);                   \
  }                                              \
  _tile_dpbf16ps(sum, 4, 7)

// One block of rows by two vectors of columns. Two registers have their sums, and two others those of the two vectors
// before them, which are stored `before` when the unit has enough to do: a store waits until all is done that the unit
// was given, and if it were the sums' own the unit would have nothing meanwhile.
template <PanelNumbers numbers, bool a_is_first, bool b_is_first, bool is_other>
void multiply_1x2(const AmxTile& tile, const uint16_t* rows, const uint16_t* b, float* sums, float* before) {
  const int64_t a_bytes = tile.a_row * 2;
  if constexpr (is_other) {
    BEGIN_2(2, 3, sums)
  } else {
    BEGIN_2(0, 1, sums)
  }
  for (int64_t step = 0; step < tile.step_count; ++step, b += step_numbers(parts_of(numbers)) / 2) {
    const uint16_t* a = rows + tile.steps[step];
    _tile_loadd(4, a, a_bytes);
    if constexpr (!a_is_first) {
      _tile_loadd(5, a + tile.a_plane, a_bytes);
      _tile_loadd(6, a + 2 * tile.a_plane, a_bytes);
    }
    if constexpr (is_other) {
      VECTOR_OF_1(2, b);
      VECTOR_OF_1(3, b + tile_numbers);
    } else {
      VECTOR_OF_1(0, b);
      VECTOR_OF_1(1, b + tile_numbers);
    }
    if (step > 0 || !before) continue;
    if constexpr (is_other) {
      STORE_2(0, 1, before);
    } else {
      STORE_2(2, 3, before);
    }
  }
}

// One block of rows by all panels.
template <PanelNumbers numbers, bool a_is_first, bool b_is_first>
void multiply_block(const AmxTile& tile, int64_t block, int64_t halves) {
  const uint16_t* rows = tile.a + tile.blocks[block];
  float* before = nullptr;
  for (int64_t i = 0; i < tile.panels * halves; ++i) {
    const int64_t panel = i / halves, half = i % halves;
    const uint16_t* b = tile.b + (2 * panel + half) * tile.b_half;
    float* sums = tile.sums + (panel * tile.block_count + block) * tile.block_rows * panel_columns + half * 32;
    if (i % 2 == 0)
      multiply_1x2<numbers, a_is_first, b_is_first, false>(tile, rows, b, sums, before);
    else
      multiply_1x2<numbers, a_is_first, b_is_first, true>(tile, rows, b, sums, before);
    before = sums;
  }
  if (tile.panels * halves % 2 != 0) {
    STORE_2(0, 1, before);
  } else {
    STORE_2(2, 3, before);
  }
}

#undef VECTOR_OF_1
#undef STORE_2
#undef BEGIN_2

// What the registers hold, as the instruction that sets it up reads it.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Registers from `b` on are of b; the others hold sums and rows of a.
void configure(int64_t block_rows, int b) {
  Configuration configuration;
  for (int i = 0; i < 8; ++i) {
    configuration.row_bytes[i] = 64;
    configuration.rows[i] = static_cast<uint8_t>(i < b ? block_rows : amx_rows);
  }
  asm("" : : "r"(&configuration) : "memory");  // GCC 12 thinks that only its first bytes are read
  _tile_loadconfig(&configuration);
}

template <PanelNumbers numbers, bool a_is_first, bool b_is_first>
Split multiply_all(const AmxTile& tile) {
  constexpr int64_t products = a_is_first && b_is_first ? 1 : a_is_first || b_is_first ? 3 : 6;
  Splitting<numbers> next(tile.next);
  const int64_t halves = tile.columns > panel_columns / 2 ? 2 : 1, pairs = tile.block_count / 2;
  const int64_t groups = tile.panels * pairs * halves * tile.step_count * products;
  const int64_t advances = groups == 0 ? 0 : (next.left() + groups - 1) / groups;
  if (pairs > 0) configure(tile.block_rows, 6);
  for (int64_t panel = 0; panel < tile.panels; ++panel)
    for (int64_t half = 0; half < halves; ++half)
      for (int64_t pair = 0; pair < pairs; ++pair)
        multiply_2x2<numbers, a_is_first, b_is_first>(
            tile, tile.a + tile.blocks[2 * pair], tile.a + tile.blocks[2 * pair + 1],
            tile.b + (2 * panel + half) * tile.b_half,
            tile.sums + (panel * tile.block_count + 2 * pair) * tile.block_rows * panel_columns + half * 32, next,
            advances);
  if (tile.block_count % 2 != 0) {
    configure(tile.block_rows, 7);
    multiply_block<numbers, a_is_first, b_is_first>(tile, 2 * pairs, halves);
  }
  _tile_release();
  while (next.left() > 0) next.advance();
  return next.split();
}

template <PanelNumbers numbers>
Split multiply_parts(const AmxTile& tile) {
  if constexpr (parts_of(numbers) > 1)
    if (!tile.b_is_first)
      return tile.a_is_first ? multiply_all<numbers, true, false>(tile) : multiply_all<numbers, false, false>(tile);
  return tile.a_is_first ? multiply_all<numbers, true, true>(tile) : multiply_all<numbers, false, true>(tile);
}

Split multiply(const AmxTile& tile) {
  switch (tile.numbers) {
    case PanelNumbers::f32:
      return multiply_parts<PanelNumbers::f32>(tile);
    case PanelNumbers::f16:
      return multiply_parts<PanelNumbers::f16>(tile);
    case PanelNumbers::bf16:
      return multiply_parts<PanelNumbers::bf16>(tile);
  }
  return {};
}

}  // namespace

const Amx amx_loops{split_rows, split_panel, multiply};

}  // namespace atenon::kernels

#else

namespace atenon::kernels {
const Amx amx_loops{};
}

#endif
