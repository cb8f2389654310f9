// Loops written for the compiler to vectorise, compiled once for each generation of x86 CPUs; the loader picks the
// best.
//
// Contraction is off and fused operations are spelled out, so every clone computes the same bits. They are also
// PyTorch's bits: its normal_() uses Cephes' logf and sincosf (by way of avx_mathfun.h) and GCC contracts products and
// sums there in the pattern that is written out below. This file is compiled with -O3 (CMakeLists.txt).
#include "tensor/random_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace atenon::random_blocks {
namespace {

constexpr int size = 624, middle = 397;  // of MT19937's state (Matsumoto and Nishimura 1998)

inline uint32_t mix(uint32_t high, uint32_t low) {
  const uint32_t y = (high & 0x80000000u) | (low & 0x7FFFFFFFu);
  return (y >> 1) ^ ((0u - (low & 1u)) & 0x9908B0DFu);
}

// Cephes' logf for 0 < x <= 1.
inline float log_of(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  float e = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126);
  x = std::bit_cast<float>((bits & 0x007FFFFFu) | 0x3F000000u);  // in [0.5, 1)
  const bool low = x < 0.707106781186547524f;
  e -= low ? 1.0f : 0.0f;
  x = (x - 1.0f) + (low ? x : 0.0f);
  const float z = x * x;
  float y = 7.0376836292E-2f;
  y = std::fma(y, x, -1.1514610310E-1f);
  y = std::fma(y, x, 1.1676998740E-1f);
  y = std::fma(y, x, -1.2420140846E-1f);
  y = std::fma(y, x, 1.4249322787E-1f);
  y = std::fma(y, x, -1.6668057665E-1f);
  y = std::fma(y, x, 2.0000714765E-1f);
  y = std::fma(y, x, -2.4999993993E-1f);
  y = std::fma(y, x, 3.3333331174E-1f);
  y = std::fma(y * x, z, e * -2.12194440e-4f);
  y = std::fma(z, -0.5f, y);
  return std::fma(e, 0.693359375f, x + y);
}

// Cephes' sinf and cosf for x >= 0, below 8192.
inline void sine_and_cosine(float x, float& sine, float& cosine) {
  const uint32_t octant = (static_cast<uint32_t>(static_cast<int32_t>(x * 1.27323954473516f)) + 1u) & ~1u;
  const float y = static_cast<float>(static_cast<int32_t>(octant));
  x = std::fma(y, -0.78515625f, x);
  x = std::fma(y, -2.4187564849853515625e-4f, x);
  x = std::fma(y, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c = 2.443315711809948E-005f;
  c = std::fma(c, z, -1.388731625493765E-003f);
  c = std::fma(c, z, 4.166664568298827E-002f);
  c = std::fma(c * z, z, z * -0.5f) + 1.0f;
  float s = -1.9515295891E-4f;
  s = std::fma(s, z, 8.3321608736E-3f);
  s = std::fma(s, z, -1.6666654611E-1f);
  s = std::fma(s * z, x, x);
  const bool sine_is_first = (octant & 2u) == 0;
  const uint32_t sine_sign = (octant & 4u) << 29, cosine_sign = (~(octant - 2u) & 4u) << 29;
  sine = std::bit_cast<float>(std::bit_cast<uint32_t>(sine_is_first ? s : c) ^ sine_sign);
  cosine = std::bit_cast<float>(std::bit_cast<uint32_t>(sine_is_first ? c : s) ^ cosine_sign);
}

}  // namespace

#ifdef __x86_64__
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
void twist(uint32_t* state) {
  for (int i = 0; i < size - middle; ++i) state[i] = state[i + middle] ^ mix(state[i], state[i + 1]);
  for (int i = size - middle; i < size - 1; ++i) state[i] = state[i + middle - size] ^ mix(state[i], state[i + 1]);
  state[size - 1] = state[middle - 1] ^ mix(state[size - 1], state[0]);
}

#ifdef __x86_64__
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
void temper(const uint32_t* state, uint32_t* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t y = state[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    out[i] = y ^ (y >> 18);
  }
}

#ifdef __x86_64__
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
void uniforms(const uint32_t* draws, float* out, int64_t count, float from, float to) {
  for (int64_t i = 0; i < count; ++i) {
    const float x =
        std::fma(static_cast<float>(static_cast<int32_t>(draws[i] & 0xFFFFFFu)) * 0x1p-24f, to - from, from);
    out[i] = x == to ? from : x;
  }
}

#ifdef __x86_64__
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#endif
void normals(const uint32_t* draws, float* out, int64_t blocks_of_16, float mean, float deviation) {
  constexpr int64_t group = 16;  // blocks at a time: halves are gathered so that vectors of any width are full
  float first[group * 8], second[group * 8];
  for (int64_t start = 0; start < blocks_of_16; start += group) {
    const int64_t blocks = std::min(group, blocks_of_16 - start);
    const uint32_t* from = draws + start * 16;
    for (int64_t block = 0; block < blocks; ++block) {
      for (int i = 0; i < 8; ++i) {
        first[block * 8 + i] =
            1.0f - static_cast<float>(static_cast<int32_t>(from[block * 16 + i] & 0xFFFFFFu)) * 0x1p-24f;
        second[block * 8 + i] =
            static_cast<float>(static_cast<int32_t>(from[block * 16 + 8 + i] & 0xFFFFFFu)) * 0x1p-24f;
      }
    }
    for (int64_t i = 0; i < blocks * 8; ++i) {
      const float radius = std::sqrt(-2.0f * log_of(first[i]));
      float sine, cosine;
      sine_and_cosine(6.283185307179586f * second[i], sine, cosine);
      first[i] = std::fma(radius * cosine, deviation, mean);
      second[i] = std::fma(radius * sine, deviation, mean);
    }
    float* to = out + start * 16;
    for (int64_t block = 0; block < blocks; ++block) {
      for (int i = 0; i < 8; ++i) to[block * 16 + i] = first[block * 8 + i];
      for (int i = 0; i < 8; ++i) to[block * 16 + 8 + i] = second[block * 8 + i];
    }
  }
}

}  // namespace atenon::random_blocks
