// The k elements that come first in an order, as PyTorch's topk finds them: of equal ones it takes those, in that
// order, that these steps of the standard library leave in front. Random models draw equal scores rarely, but routers
// that begin as zeros, masked scores and scores behind a ReLU are equal by the dozen.
#pragma once

#include <algorithm>
#include <cstdint>

namespace atenon {

// So few that they come in order whether asked for or not.
inline bool is_few(int64_t k, int64_t n) { return k * 64 <= n; }

// Leaves the first k of n elements in front, in order where `sorted`.
template <class T, class Before>
void move_first(T* elements, int64_t k, int64_t n, bool sorted, Before before) {
  if (k == 0) return;
  if (is_few(k, n)) {
    std::partial_sort(elements, elements + k, elements + n, before);
    return;
  }
  std::nth_element(elements, elements + k - 1, elements + n, before);
  if (sorted) std::sort(elements, elements + k - 1, before);
}

}  // namespace atenon
