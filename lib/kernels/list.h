// One function a kernel file; kernels.cpp puts them in order.
#pragma once

#include "kernels/kernel.h"

namespace atenon::kernels {

const Kernel& strips();
const Kernel& few_channels();
const Kernel& few_outputs();
const Kernel& line_filters();
const Kernel& depthwise();
const Kernel& groups();
const Kernel& disjoint();
const Kernel& transposed();
const Kernel& overlapping();
const Kernel& winograd();
const Kernel& onednn_convolution();
const Kernel& few_rows();
const Kernel& panels();
const Kernel& chosen_matrices();
const Kernel& small_matrices();
const Kernel& onednn_matmul();
const Kernel& double_products();
const Kernel& double_convolutions();
const Kernel& attention();
const Kernel& lstm();
const Kernel& recurrent();
const Kernel& onednn_pooling();
const Kernel& bilinear();
const Kernel& sorting();
const Kernel& searching();
const Kernel& fourier();
const Kernel& generated();
const Kernel& reference_kernel();

}  // namespace atenon::kernels
