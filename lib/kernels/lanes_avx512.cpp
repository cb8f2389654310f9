// The loops of lanes_loops.h over 16 floats. Compiled for AVX-512; runs only where lanes() found it.
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <utility>

#include "kernels/lanes.h"
#include "kernels/winograd_transforms.h"

#if defined(__AVX512F__)

namespace atenon::kernels {

namespace {

struct V {
  static constexpr int width = 16;
  static constexpr int accumulators = 4;
  static constexpr int64_t steps_at_once(int, int) { return 4; }
  __m512 v;
  static V all(float x) { return {_mm512_set1_ps(x)}; }
  static V load(const float* p) { return {_mm512_loadu_ps(p)}; }
  // Itself, in a register: the compiler does not read memory anew for each use.
  V kept() const {
    V same = *this;
    asm("" : "+v"(same.v));
    return same;
  }
  void add_product(V a, V b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
  static V load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
  static V load_first(const float* p, int n, V others) { return {_mm512_mask_loadu_ps(others.v, first(n), p)}; }
  static V load_half(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static V load_bfloat(const uint16_t* p) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_first(float* p, int n) const { _mm512_mask_storeu_ps(p, first(n), v); }
  // In the order of store_sums().
  float sum() const {
    const __m512 pairs = _mm512_add_ps(v, _mm512_shuffle_ps(v, v, 0x4e)),
                 fours = _mm512_add_ps(pairs, _mm512_shuffle_ps(pairs, pairs, 0xb1));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(fours), _mm512_extractf32x8_ps(fours, 1));
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }
  // to[i] = v[i].sum()
  static void store_sums(const V (&v)[4], float* to) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0].v, v[1].v), _mm512_unpackhi_ps(v[0].v, v[1].v));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2].v, v[3].v), _mm512_unpackhi_ps(v[2].v, v[3].v));
    const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }
  float largest() const { return _mm512_reduce_max_ps(v); }
  static V where(const unsigned char* truths, V yes, V no) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(truths));
    return {_mm512_mask_blend_ps(_mm_test_epi8_mask(bytes, bytes), no.v, yes.v)};
  }
  // p[step * i], for steps of 2 to 4.
  template <int step>
  static V every(const float* p) {
    const __m512i places = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                              _mm512_set1_epi32(step));
    __m512 picked = _mm512_permutex2var_ps(_mm512_loadu_ps(p), places, _mm512_loadu_ps(p + width));
    constexpr __mmask16 behind = static_cast<__mmask16>(0xffffu << (2 * width + step - 1) / step);
    if constexpr (step == 3)
      return {_mm512_mask_permutexvar_ps(picked, behind, places, _mm512_loadu_ps(p + 2 * width))};
    if constexpr (step == 4)
      picked = _mm512_mask_mov_ps(
          picked, behind,
          _mm512_permutex2var_ps(_mm512_loadu_ps(p + 2 * width), places, _mm512_loadu_ps(p + 3 * width)));
    return {picked};
  }
  // line[places[i]], where places ascend.
  static V pick(const float* line, const int32_t* places) {
    const __m512i at = _mm512_loadu_si512(places);
    const int32_t reach = places[width - 1] - places[0];
    if (reach >= 2 * width) return {_mm512_i32gather_ps(at, line, 4)};
    const __m512i from = _mm512_sub_epi32(at, _mm512_set1_epi32(places[0]));
    const __m512 first = _mm512_loadu_ps(line + places[0]);
    if (reach < width) return {_mm512_permutexvar_ps(from, first)};
    return {_mm512_permutex2var_ps(first, from, _mm512_loadu_ps(line + places[0] + width))};
  }
  // Of groups that lie in turn, their numbers at p for the outputs of each.
  template <int groups>
  static V spread(const float* p) {
    if constexpr (groups == 2)
      return {_mm512_castpd_ps(_mm512_broadcastsd_pd(_mm_load_sd(reinterpret_cast<const double*>(p))))};
    else if constexpr (groups == 4)
      return {_mm512_broadcast_f32x4(_mm_loadu_ps(p))};
    else
      return all(*p);
  }
  // v[places[i]]
  V placed(const int32_t* places) const { return {_mm512_permutexvar_ps(_mm512_loadu_si512(places), v)}; }
  // `width` rows of `depth` floats become depth rows of `width`.
  static void transpose(const float* from, int64_t from_row, int64_t depth, float* to, int64_t to_row) {
    const __m512i rows = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                            _mm512_set1_epi32(static_cast<int>(from_row)));
    int64_t d = 0;
    for (; d + 4 <= depth; d += 4) {  // 4 x 4 blocks in each quarter
      __m512 part[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const float* p = from + i * from_row + d;
        part[i] = _mm512_castps128_ps512(_mm_loadu_ps(p));
        part[i] = _mm512_insertf32x4(part[i], _mm_loadu_ps(p + 4 * from_row), 1);
        part[i] = _mm512_insertf32x4(part[i], _mm_loadu_ps(p + 8 * from_row), 2);
        part[i] = _mm512_insertf32x4(part[i], _mm_loadu_ps(p + 12 * from_row), 3);
      }
      const __m512 a = _mm512_unpacklo_ps(part[0], part[1]), b = _mm512_unpackhi_ps(part[0], part[1]);
      const __m512 c = _mm512_unpacklo_ps(part[2], part[3]), e = _mm512_unpackhi_ps(part[2], part[3]);
      _mm512_storeu_ps(to + d * to_row, _mm512_shuffle_ps(a, c, 0x44));
      _mm512_storeu_ps(to + (d + 1) * to_row, _mm512_shuffle_ps(a, c, 0xee));
      _mm512_storeu_ps(to + (d + 2) * to_row, _mm512_shuffle_ps(b, e, 0x44));
      _mm512_storeu_ps(to + (d + 3) * to_row, _mm512_shuffle_ps(b, e, 0xee));
    }
    for (; d < depth; ++d) _mm512_storeu_ps(to + d * to_row, _mm512_i32gather_ps(rows, from + d, 4));
  }

 private:
  static __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1); }
};

// The same bytes as f64.
struct D {
  static constexpr int width = 8;
  __m512d v;
  static D all(double x) { return {_mm512_set1_pd(x)}; }
  static D load(const double* p) { return {_mm512_loadu_pd(p)}; }
  void add_product(D a, D b) { v = _mm512_fmadd_pd(a.v, b.v, v); }
  void store(double* p) const { _mm512_storeu_pd(p, v); }
};

inline V operator+(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
inline V operator-(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline V operator*(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline V operator/(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
inline V max(V a, V b) { return {_mm512_max_ps(a.v, b.v)}; }
inline V min(V a, V b) { return {_mm512_min_ps(a.v, b.v)}; }
inline V larger(V a, V b) { return {_mm512_mask_mov_ps(max(a, b).v, _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), a.v)}; }
inline V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline V fms(V a, V b, V c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
// For 1 <= a <= 2^100: an estimate of 14 bits and a step of Newton's, a quarter of a division's time.
inline V reciprocal(V a) {
  const __m512 estimate = _mm512_rcp14_ps(a.v);
  return {_mm512_fmadd_ps(_mm512_fnmadd_ps(a.v, estimate, _mm512_set1_ps(1)), estimate, estimate)};
}
inline V round(V a) { return {_mm512_roundscale_ps(a.v, 0)}; }
// value * 2^n; 0 where x < limit.
inline V scaled_unless_below(V value, V n, V x, V limit) {
  return {_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), value.v, n.v)};
}

}  // namespace

#include "kernels/all_loops.h"

constinit const Lanes lanes_avx512 = lanes_of("avx512");

}  // namespace atenon::kernels

#endif
