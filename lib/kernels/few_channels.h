// Convolutions of few channels line by line, for kernels that go on with what they give.
#pragma once

#include <memory>
#include <span>

#include "kernels/convolution.h"

namespace atenon::kernels {

constexpr int64_t most_channels_of_first = 4;  // convolution of a network

class LinesCall : public ConvolutionCall {
 public:
  // Computes lines [top, bottom) of one image into `y`, where they lie at the strides of the prepared result; at most
  // as many lines as it was prepared for. Any number of threads may call it at once, each with worker_bytes() of
  // scratch.
  virtual void run_lines(std::span<void* const> buffers, int64_t image, int64_t top, int64_t bottom, float* y,
                         void* scratch) const = 0;
};

// For up to `lines` lines at once of a convolution without groups; 0: as many as are good for the whole of it, which
// may have groups. Null where its operands do not lie as it reads them.
std::unique_ptr<LinesCall> prepare_lines(const CallSite& site, int64_t lines);

}  // namespace atenon::kernels
