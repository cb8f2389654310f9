// Roots of one, as Fourier transforms multiply by them.
#pragma once

#include <cstdint>
#include <numbers>

#include "support/math.h"

namespace atenon::math {

struct Root {
  double cosine, sine;
};

// e^(turn * 2 pi i * j / n), for 0 <= j < n and a turn of 1 or -1. Exact at quarters: the middle of what real numbers
// become is real, of no sign but PyTorch's.
inline Root root_of_one(int64_t j, int64_t n, double turn) {
  if (4 * j % n == 0) {
    constexpr double quarters[] = {1, 0, -1, 0};
    const int64_t quarter = 4 * j / n;
    const double sine = quarters[(quarter + 3) % 4];
    return {quarters[quarter], sine == 0 ? 0 : turn * sine};
  }
  const double at = static_cast<double>(j) * (turn * 2 * std::numbers::pi) / static_cast<double>(n);
  return {cos(at), sin(at)};
}

}  // namespace atenon::math
