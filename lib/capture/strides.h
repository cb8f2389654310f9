// Strides of traced tensors: known where a model asks (stride(), is_contiguous()) and where PyTorch decides by them
// whether a call copies. The graph itself has none: it is functional, and layout is lower's affair.
//
// Views follow from their calls; results of elementwise operators lie as their operands do, those of convolutions and
// pooling with channels last where the image does. All others count as row-major.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// Strides after `step` on something with strides `viewed`; nullopt where they come out row-major for `sizes`.
std::optional<std::vector<SymInt>> strides_of_view(const Step& step, const std::vector<SymInt>& viewed,
                                                   const std::vector<SymInt>& sizes);

// The offset after `step` on something with this offset and the strides `viewed`.
SymInt offset_of_view(const Step& step, const SymInt& offset, const std::vector<SymInt>& viewed);

// Strides that show the same elements under other sizes; nullopt where only a copy can (PyTorch's reshape then copies).
std::optional<std::vector<SymInt>> strides_of_reshape(const std::vector<SymInt>& sizes,
                                                      const std::vector<SymInt>& strides,
                                                      const std::vector<SymInt>& reshaped);

// Where strides_of_reshape finds none: the truths of which one would have to hold for there to be some.
std::vector<SymBool> ways_to_reshape(const std::vector<SymInt>& sizes, const std::vector<SymInt>& strides,
                                     const std::vector<SymInt>& reshaped);

// The strides of sizes in "torch.channels_last" or "torch.channels_last_3d"; nullopt of all other formats, and where
// they are row-major.
std::optional<std::vector<SymInt>> strides_of_format(const std::string& format, const std::vector<SymInt>& sizes);

// Do both say where the same elements lie? The stride of an axis of size 1 says nothing. Absent: row-major.
bool lie_alike(const std::optional<std::vector<SymInt>>& a, const std::optional<std::vector<SymInt>>& b,
               const std::vector<SymInt>& sizes);

// Whether is_contiguous() holds, also for the sizes of a run: the stride of an axis of size 1 says nothing.
SymBool lies_in_rows(const std::vector<SymInt>& sizes, const std::vector<SymInt>& strides);

// A tensor operand of a call.
struct Laid {
  std::vector<SymInt> sizes, strides;
};

// How a result of a call (its `index`th), of `sizes`, lies that is no view; nullopt where row-major.
std::optional<std::vector<SymInt>> strides_of_result(const opset::Call& call, const std::vector<Laid>& operands,
                                                     const std::vector<SymInt>& sizes, const shape::Facts& facts,
                                                     size_t index = 0);
// Memory for a tensor of `sizes` that lies so, all of it numbers.
Tensor empty_with_strides(ScalarType dtype, const std::vector<int64_t>& sizes, const std::vector<SymInt>& strides);

// The axes from the widest stride to the least: the order in which elements lie in memory.
std::vector<size_t> order_of_memory(const Laid& tensor, const shape::Facts& facts);

}  // namespace atenon::capture
