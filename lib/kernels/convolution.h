// Convolutions as kernels see them: conv1d to conv3d, transposed ones and aten::convolution brought to one form.
#pragma once

#include <string>
#include <vector>

#include "kernels/body.h"

namespace atenon::kernels {

struct Convolution {
  int x = -1, weight = -1, bias = -1;  // inputs of the body; bias -1: none
  std::vector<int64_t> stride, padding, padding_end, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
  // Strided and transposed, with more terms in a sum than oneDNN 3.2's first choice (brgconv_strided) adds at once: it
  // then applies bias and post-ops to partial sums, and is wrong. Seen from 8192 terms on, never up to 4096.
  bool is_deep = false;
  std::vector<PostOp> epilogue;
};

bool is_convolution(const ir::Node& node);

// "" and `found`, or why this is no convolution that we can run.
std::string read_convolution(const ir::Graph& body, const shape::Bindings& symbols, Convolution& found);

}  // namespace atenon::kernels
