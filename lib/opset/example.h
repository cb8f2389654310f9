// The examples of blocks: every one is run as a test.
#pragma once

#include <map>

#include "opset/call.h"
#include "tensor/tensor.h"

namespace atenon::opset {

// One `example` line, made ready to run. Operands are inputs of `inputs`; those that are written as data are in `data`.
struct RunnableExample {
  std::string text;
  SourceSpan place;
  ir::Graph inputs;
  std::map<const ir::Value*, Tensor> data;
  Call call;
  // `== values`: one for each result, lists flattened: tensors, or numbers as tensors of rank 0.
  std::vector<Tensor> expected;
  std::string fails;  // the label that must fail, when it only shows in the values (range); else ""
};

// The examples with values among an operator's block, for lib/reference to run. Those that state types and most
// failures are run by Opset::check_all().
Result<std::vector<RunnableExample>> value_examples(const Opset& opset, const Operator& op);
// The calls of all examples but those that must fail, for tests that need no values; `expected` is empty.
Result<std::vector<RunnableExample>> example_calls(const Opset& opset, const Operator& op);

// Runs a block's examples as far as no values are needed: types with exactly the assumptions listed, the label that
// must fail, and of values their types.
void check_examples(const Opset& opset, const LazyBlock& block, std::vector<Diagnostic>& failures);

}  // namespace atenon::opset
