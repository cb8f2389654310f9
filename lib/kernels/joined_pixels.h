// Convolutions to so few outputs that they fill half of a vector or less: pixels side by side are computed as one pixel
// of more outputs.
//
// Channels last, the result is the same memory. The filter has the outputs of each of these pixels, moved along by one
// and zero elsewhere, and steps over all of them: 3 columns become 4 for two pixels, whose outputs fill twice as much.
// An infinity or NaN in an image so reaches the results of the pixels that are joined with those that read it.
#pragma once

#include <map>

#include "kernels/convolution.h"

namespace atenon::kernels {

// How many pixels along the last axis had best be one; 1 where that gains nothing or cannot be.
int64_t joined_pixels(const CallSite& site, const Convolution& convolution);

// The call with so many pixels joined, and its filter and bias, which no buffer of the call holds.
struct JoinedPixels {
  CallSite site;
  Convolution convolution;
  std::map<int, Tensor> made;  // by operand
};
JoinedPixels join_pixels(const CallSite& site, const Convolution& convolution, int64_t pixels);

}  // namespace atenon::kernels
