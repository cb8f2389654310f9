// The core of exp, for math.cpp and for loops that are compiled once for each vector width: the same operations in the
// same order, hence the same bits.
//
// `static`, so that code for one instruction set is never shared with callers that may not use it.
#pragma once

#include <cstdint>

namespace atenon::math {

static constexpr double log_of_2 = 0.693147180559945286;
// log 2 in parts with trailing zeros, so that multiples of the first part are exact (Cody and Waite).
static constexpr double log2_high = 6.93147180369123816490e-01;
static constexpr double log2_low = 1.90821492927058770002e-10;

// exp(r) - 1 for |r| <= 0.35: Taylor to degree 14, whose remainder is below 2^-56.
[[gnu::always_inline]] static inline double expm1_small(double r) {
  double sum = 1.0 / 87178291200.0;
  sum = sum * r + 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 1.0 / 2;
  sum = sum * r + 1.0;
  return r * sum;
}

// exp(x) for |x| < exp_limit, where no exponent leaves its range.
static constexpr double exp_limit = 690;
[[gnu::always_inline]] static inline double exp_in_range(double x) {
  const double k = __builtin_floor(x / log_of_2 + 0.5);
  const double r = (x - k * log2_high) - k * log2_low;
  return (1 + expm1_small(r)) *
         __builtin_bit_cast(double, static_cast<uint64_t>(static_cast<int64_t>(1023) + static_cast<int32_t>(k)) << 52);
}

}  // namespace atenon::math
