// The inner loops of random numbers, over blocks that stay in the cache. Private to lib/tensor.
#pragma once

#include <cstdint>

namespace atenon::random_blocks {

// The next 624 words of MT19937's state, in place.
void twist(uint32_t* state);
// The words as they are drawn.
void temper(const uint32_t* state, uint32_t* out, int64_t count);
// from + (to - from) * 2^-24 * the low 24 bits; what rounds up to `to` becomes `from`.
void uniforms(const uint32_t* draws, float* out, int64_t count, float from, float to);
// Box-Muller as PyTorch vectorises it: in each block of 16 draws the first eight give radii, the last eight angles.
void normals(const uint32_t* draws, float* out, int64_t blocks_of_16, float mean, float deviation);

}  // namespace atenon::random_blocks
