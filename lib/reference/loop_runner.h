// The loops of a Meaning, run at concrete sizes.
#pragma once

#include <optional>
#include <vector>

#include "opset/meaning.h"
#include "tensor/tensor.h"

namespace atenon::reference {

// Computes every result. `operands` are in the order of Meaning::tensors. E0611 where an index that comes from data
// lies outside of its tensor, E0631 for an integer division by zero.
Result<std::vector<Tensor>> run_loops(const opset::Meaning& meaning, const std::vector<Tensor>& operands,
                                      const shape::Bindings& symbols);

// For a view: a window on the operand's storage, if strides can say it.
std::optional<Tensor> alias(const opset::Meaning& meaning, const Tensor& operand, const shape::Bindings& symbols);

}  // namespace atenon::reference
