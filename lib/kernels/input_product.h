// What the kernels of recurrent layers share.
#pragma once

#include "kernels/kernel.h"

namespace atenon::kernels {

// The product of a layer's inputs of all steps with its input weights, prepared as a call of its own: buffers x,
// weight, bias, result.
struct InputProduct {
  Result<std::unique_ptr<PreparedCall>> call;
  std::unique_ptr<ir::Weight> packed = nullptr;  // the weight in the layout that the call reads, if it lay otherwise
};

// `body` must live as long as the call.
InputProduct prepare_input_product(const Operand& weight, int64_t rows, int threads, ir::Graph& body);

}  // namespace atenon::kernels
