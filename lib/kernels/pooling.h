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

// The largest of each window, dense channels last in both buffers, the image's and the result's: NaN where there is
// one, over which oneDNN passes.
std::unique_ptr<PreparedCall> largest_of_windows(const Pooling& pooling, const std::vector<int64_t>& x,
                                                 const std::vector<int64_t>& y);

// The mean of each channel of each image, dense in rows or channels last; means are dense, too.
std::unique_ptr<PreparedCall> means_of_images(const std::vector<int64_t>& x, bool in_rows);

// How many of a window's elements lie in the image, and the first of them.
struct Inside {
  int64_t first = 0, count = 0;
  Inside(int64_t begin, int64_t window, int64_t dilation, int64_t size) {
    for (int64_t i = window; i-- > 0;)
      if (const int64_t place = begin + i * dilation; place >= 0 && place < size) first = place, ++count;
  }
};

}  // namespace atenon::kernels
