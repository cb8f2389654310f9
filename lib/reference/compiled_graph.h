// A graph at concrete sizes and strides, as loops that are ready to run any number of times.
//
// What reference.h evaluates anew in every run, binding, meanings and loops, is done here once; and what an operator is
// decomposed into becomes as few passes over memory as its reductions allow. Each element has the bits that evaluate()
// gives it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "opset/opset.h"
#include "reference/loop_runner.h"

namespace atenon::reference {

class CompiledGraph {
 public:
  // `operands` are the graph's inputs, without data; `results` say where its outputs lie. An error where a node has no
  // loops (extern, a scatter, control flow), computes with complex numbers or has sizes that depend on data, and where
  // an output is a view of an input: then the graph is to be evaluated.
  static Result<std::unique_ptr<CompiledGraph>> compile(const opset::Opset& opset, const ir::Graph& graph,
                                                        const std::vector<Tensor>& operands,
                                                        const std::vector<Lying>& results,
                                                        const shape::Bindings& symbols);

  size_t scratch_bytes() const { return scratch_bytes_; }
  // Inputs, then outputs, each at its first element. Safe to call from several threads at once.
  Result<void> run(std::span<void* const> buffers, void* scratch) const;

 private:
  // Where a pass reads or writes: one of the buffers, or so many bytes into the scratch.
  struct Place {
    bool is_scratch = false;
    size_t at = 0;
  };
  struct Pass {
    explicit Pass(LoopProgram loops) : program(std::move(loops)) {}
    LoopProgram program;
    std::vector<Place> operands, results;
    std::vector<ScalarType> operand_types, result_types;
    mutable Idle<Frame> frames;
    mutable Idle<LoopData> data;
  };

  std::vector<std::unique_ptr<Pass>> passes_;
  size_t scratch_bytes_ = 0;
};

}  // namespace atenon::reference
