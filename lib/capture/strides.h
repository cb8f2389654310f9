// Strides of traced tensors: known where a model asks (stride(), is_contiguous()) and where PyTorch decides by them
// whether a call copies. The graph itself has none: it is functional, and layout is lower's affair.
//
// Results of operators count as row-major; views follow from their calls.
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

}  // namespace atenon::capture
