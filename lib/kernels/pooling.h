// Pooling as kernels see it: max_pool, avg_pool, adaptive pooling with equal windows, and means over all spatial axes.
#pragma once

#include "kernels/kernel.h"

namespace atenon::kernels {

struct Pooling {
  // An average counts the elements of the window that lie in the image, or those in the padding, too.
  enum class Kind { max, average, average_with_padding };
  Kind kind = Kind::max;
  int x = -1;           // input of the body
  bool global = false;  // one window over all spatial axes
  std::vector<int64_t> window, stride, padding, dilation;
};

// Windows that slide over images in rows, one axis or two; null for others, and where operands lie otherwise.
std::unique_ptr<PreparedCall> prepare_pooling_in_rows(const Pooling& pooling, const CallSite& site);

}  // namespace atenon::kernels
