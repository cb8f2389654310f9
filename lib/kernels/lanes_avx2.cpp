// The loops of lanes_loops.h over 8 floats. Compiled for AVX2 and FMA; runs only where lanes() found them.
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

#include <utility>

#include "kernels/lanes.h"
#include "kernels/winograd_transforms.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace atenon::kernels {

namespace {

struct V {
  static constexpr int width = 8;
  static constexpr int accumulators = 2;
  static constexpr int64_t steps_at_once(int rows, int vectors) { return rows >= 4 && vectors == 2 ? 8 : 4; }
  __m256 v;
  static V all(float x) { return {_mm256_set1_ps(x)}; }
  static V load(const float* p) { return {_mm256_loadu_ps(p)}; }
  // Itself, in a register: the compiler does not read memory anew for each use.
  V kept() const {
    V same = *this;
    asm("" : "+x"(same.v));
    return same;
  }
  // In place: of twelve sums in sixteen registers the compiler moves some about and spills others.
  void add_product(V a, V b) { asm("vfmadd231ps %2, %1, %0" : "+x"(v) : "x"(a.v), "x"(b.v)); }
  static V load_first(const float* p, int n) { return {_mm256_maskload_ps(p, first(n))}; }
  static V load_first(const float* p, int n, V others) {
    return {_mm256_blendv_ps(others.v, _mm256_maskload_ps(p, first(n)), _mm256_castsi256_ps(first(n)))};
  }
  static V load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static V load_bfloat(const uint16_t* p) {
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))};
  }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store_first(float* p, int n) const { _mm256_maskstore_ps(p, first(n), v); }
  // In the order of store_sums().
  float sum() const {
    const __m256 pairs = _mm256_add_ps(v, _mm256_shuffle_ps(v, v, 0x4e)),
                 fours = _mm256_add_ps(pairs, _mm256_shuffle_ps(pairs, pairs, 0xb1));
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1)));
  }
  // to[i] = v[i].sum()
  static void store_sums(const V (&v)[4], float* to) {
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(v[0].v, v[1].v), _mm256_unpackhi_ps(v[0].v, v[1].v));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(v[2].v, v[3].v), _mm256_unpackhi_ps(v[2].v, v[3].v));
    const __m256 all = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
  }
  float largest() const {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_shuffle_ps(half, half, 1)));
  }
  static V where(const unsigned char* truths, V yes, V no) {
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(truths)));
    return {_mm256_blendv_ps(no.v, yes.v, _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256())))};
  }
  // p[step * i], for steps of 2 to 4.
  template <int step>
  static V every(const float* p) {
    if constexpr (step == 3) {
      const __m256i places = _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5);  // in the vector that each lies in
      const __m256 ends = _mm256_blend_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + width), 0x92);
      return {_mm256_permutevar8x32_ps(_mm256_blend_ps(ends, _mm256_loadu_ps(p + 2 * width), 0x24), places)};
    } else {
      const __m256 a = step == 2 ? _mm256_loadu_ps(p) : every<2>(p).v,
                   b = step == 2 ? _mm256_loadu_ps(p + width) : every<2>(p + 2 * width).v;
      return {_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)), 0xd8))};
    }
  }
  // line[places[i]], where places ascend.
  static V pick(const float* line, const int32_t* places) {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places));
    if (places[width - 1] - places[0] >= width) return {_mm256_i32gather_ps(line, at, 4)};
    return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(line + places[0]),
                                     _mm256_sub_epi32(at, _mm256_set1_epi32(places[0])))};
  }
  // Of groups that lie in turn, their numbers at p for the outputs of each.
  template <int groups>
  static V spread(const float* p) {
    if constexpr (groups == 2)
      return {_mm256_castpd_ps(_mm256_broadcast_sd(reinterpret_cast<const double*>(p)))};
    else if constexpr (groups == 4)
      return {_mm256_broadcast_ps(reinterpret_cast<const __m128*>(p))};
    else
      return all(*p);
  }
  // v[places[i]]
  V placed(const int32_t* places) const {
    return {_mm256_permutevar8x32_ps(v, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places)))};
  }
  static void transpose(const float* from, int64_t from_row, int64_t depth, float* to, int64_t to_row) {
    int64_t d = 0;
    for (; d + 4 <= depth; d += 4) {  // 4 x 4 blocks in each half
      __m256 part[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const float* p = from + i * from_row + d;
        part[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * from_row), 1);
      }
      const __m256 a = _mm256_unpacklo_ps(part[0], part[1]), b = _mm256_unpackhi_ps(part[0], part[1]);
      const __m256 c = _mm256_unpacklo_ps(part[2], part[3]), e = _mm256_unpackhi_ps(part[2], part[3]);
      _mm256_storeu_ps(to + d * to_row, _mm256_shuffle_ps(a, c, 0x44));
      _mm256_storeu_ps(to + (d + 1) * to_row, _mm256_shuffle_ps(a, c, 0xee));
      _mm256_storeu_ps(to + (d + 2) * to_row, _mm256_shuffle_ps(b, e, 0x44));
      _mm256_storeu_ps(to + (d + 3) * to_row, _mm256_shuffle_ps(b, e, 0xee));
    }
    for (; d < depth; ++d)
      for (int i = 0; i < width; ++i) to[d * to_row + i] = from[i * from_row + d];
  }

 private:
  static __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

// The same bytes as f64.
struct D {
  static constexpr int width = 4;
  __m256d v;
  static D all(double x) { return {_mm256_set1_pd(x)}; }
  static D load(const double* p) { return {_mm256_loadu_pd(p)}; }
  void add_product(D a, D b) { asm("vfmadd231pd %2, %1, %0" : "+x"(v) : "x"(a.v), "x"(b.v)); }
  void store(double* p) const { _mm256_storeu_pd(p, v); }
};

inline V operator+(V a, V b) { return {_mm256_add_ps(a.v, b.v)}; }
inline V operator-(V a, V b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline V operator*(V a, V b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline V operator/(V a, V b) { return {_mm256_div_ps(a.v, b.v)}; }
inline V max(V a, V b) { return {_mm256_max_ps(a.v, b.v)}; }
inline V min(V a, V b) { return {_mm256_min_ps(a.v, b.v)}; }
inline V larger(V a, V b) { return {_mm256_blendv_ps(max(a, b).v, a.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))}; }
inline V fma(V a, V b, V c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline V fms(V a, V b, V c) { return {_mm256_fmsub_ps(a.v, b.v, c.v)}; }
inline V reciprocal(V a) { return V::all(1) / a; }
inline V round(V a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// value * 2^n; 0 where x < limit.
inline V scaled_unless_below(V value, V n, V x, V limit) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
  const __m256 scaled = _mm256_mul_ps(value.v, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  return {_mm256_and_ps(_mm256_cmp_ps(x.v, limit.v, _CMP_NLT_UQ), scaled)};
}

}  // namespace

#ifndef __clang__  // with which sanitizers are built: they are to see each read
namespace {

// Eight steps of blocks of panel_loops.h and groups_loops.h, in one piece: left to itself, the compiler moves sums from
// one register to another. %0, %1, ... are the sums, row by row. Rows of b lie as far apart as a panel's columns, or as
// it says.
// clang-format off
#define ROW(first, second, left)                  \
  "vbroadcastss " left ", %%ymm14\n"              \
  "vfmadd231ps %%ymm12, %%ymm14, %" #first "\n"   \
  "vfmadd231ps %%ymm13, %%ymm14, %" #second "\n"
#define FOUR_ROWS(left, right)                    \
  "vmovups " #right "(%[b]), %%ymm12\n"           \
  "vmovups 32 + " #right "(%[b]), %%ymm13\n"      \
  ROW(0, 1, #left "(%[first])")                   \
  ROW(2, 3, #left "(%[first], %[row])")           \
  ROW(4, 5, #left "(%[first], %[row], 2)")        \
  ROW(6, 7, #left "(%[fourth])")
#define FIVE_ROWS(left, right) FOUR_ROWS(left, right) ROW(8, 9, #left "(%[fourth], %[row])")
#define SIX_ROWS(left, right) FIVE_ROWS(left, right) ROW(10, 11, #left "(%[fourth], %[row], 2)")
#define SUMS(i) "+x"(sum[i][0].v), "+x"(sum[i][1].v)
#define NEXT_ROW "add %[b_row], %[b]\n"
#define ADD_STEPS(rows, STEP, ...)                                                                         \
  inline void add_steps(V(&sum)[rows][2], const float* const(&a)[2], int64_t a_row, const float* b,        \
                        RowsOfPanel) {                                                                     \
    asm volatile(STEP(0, 0) STEP(4, 256) STEP(8, 512) STEP(12, 768)                                        \
                 STEP(16, 1024) STEP(20, 1280) STEP(24, 1536) STEP(28, 1792)                               \
                 : __VA_ARGS__                                                                             \
                 : [first] "r"(a[0]), [fourth] "r"(a[1]), [row] "r"(a_row * sizeof(float)), [b] "r"(b)     \
                 : "xmm12", "xmm13", "xmm14", "memory");                                                   \
  }                                                                                                        \
  inline void add_steps(V(&sum)[rows][2], const float* const(&a)[2], int64_t a_row, const float* b,        \
                        int64_t b_row) {                                                                   \
    asm volatile(STEP(0, 0) NEXT_ROW STEP(4, 0) NEXT_ROW STEP(8, 0) NEXT_ROW STEP(12, 0) NEXT_ROW          \
                 STEP(16, 0) NEXT_ROW STEP(20, 0) NEXT_ROW STEP(24, 0) NEXT_ROW STEP(28, 0)                \
                 : __VA_ARGS__, [b] "+&r"(b)                                                               \
                 : [first] "r"(a[0]), [fourth] "r"(a[1]), [row] "r"(a_row * sizeof(float)),                \
                   [b_row] "r"(b_row * sizeof(float))                                                      \
                 : "xmm12", "xmm13", "xmm14", "memory");                                                   \
  }
ADD_STEPS(4, FOUR_ROWS, SUMS(0), SUMS(1), SUMS(2), SUMS(3))
ADD_STEPS(5, FIVE_ROWS, SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4))
ADD_STEPS(6, SIX_ROWS, SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5))
// clang-format on
#undef ROW
#undef FOUR_ROWS
#undef FIVE_ROWS
#undef SIX_ROWS
#undef SUMS
#undef NEXT_ROW
#undef ADD_STEPS

}  // namespace
#endif

#include "kernels/all_loops.h"

constinit const Lanes lanes_avx2 = lanes_of("avx2");

}  // namespace atenon::kernels

#endif
