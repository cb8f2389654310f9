// The loops of a Meaning, run at concrete sizes.
#pragma once

#include <optional>
#include <vector>

#include "opset/meaning.h"
#include "reference/loop_program.h"
#include "support/idle.h"
#include "tensor/tensor.h"

namespace atenon::reference {

// Computes every result. `operands` are in the order of Meaning::tensors. E0611 where an index that comes from data
// lies outside of its tensor, E0631 for an integer division by zero.
Result<std::vector<Tensor>> run_loops(const opset::Meaning& meaning, const std::vector<Tensor>& operands,
                                      const shape::Bindings& symbols);

// The two halves of that, for what has no scatter and no complex numbers: made once for these sizes and strides (no
// data is read), and run any number of times, also at the same time.
struct Lying {
  std::vector<int64_t> sizes, strides;
  bool operator==(const Lying&) const = default;
};
// `results`: where a result lies, or nullopt where nobody wants it.
Result<std::vector<LoopProgram>> compile_loops(const opset::Meaning& meaning, const std::vector<Tensor>& operands,
                                               const std::vector<std::optional<Lying>>& results,
                                               const shape::Bindings& symbols);
// `frames` are this program's, kept from run to run.
Result<void> run_program(const LoopProgram& program, const LoopData& data, Idle<Frame>& frames);

// For a view: a window on the operand's storage, if strides can say it.
std::optional<Tensor> alias(const opset::Meaning& meaning, const Tensor& operand, const shape::Bindings& symbols);

}  // namespace atenon::reference
