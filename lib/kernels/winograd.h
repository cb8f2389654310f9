// Winograd's algorithm for 3 x 3 convolutions, which `lower --winograd` chooses: fewer multiplications, larger errors.
//
// A call has one operand more than its meaning reads: its last, the weight as it was transformed for tiles of
// `outputs` x `outputs` results (2 or 4). The weight itself stays an operand, so that the meaning is exactly the
// convolution that was captured; nobody reads its bytes while the call runs, and `lower` leaves them out.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace atenon::kernels {

// Why Winograd's algorithm cannot take a convolution as others take it; "" if it can.
std::string winograd_refusal(const ir::Graph& body);
// The operand that is the convolution's weight; the body was not refused.
size_t winograd_filter(const ir::Graph& body);

// How many results a side a tile has that is expected to be fastest at these sizes and layouts; 0: the direct
// convolution is.
int64_t winograd_outputs(const CallSite& site);

// A weight [k, c, 3, 3] becomes [panels, points, c, 64]: panels of 64 of the k outputs, padded with zeros, and
// (outputs + 2)^2 points. Each is computed in double and rounded once.
Tensor winograd_weight(const Tensor& weight, int64_t outputs);

// Errors on a sample, as parts of its largest |exact|: the largest |y - exact| over a fixed set of positions and
// outputs, for an image of numbers that are evenly distributed in [-1, 1). Both algorithms are computed in f32 as
// kernels do, every sum in order of the channels; `exact` in double. The numbers depend on the weight alone.
struct WinogradError {
  double winograd = 0, direct = 0;
};
WinogradError winograd_error(const Tensor& weight, int64_t outputs);

}  // namespace atenon::kernels
