#include "opset/elementwise.h"

#include "opset/library.h"

namespace atenon::opset {

bool is_elementwise(const Operator& op) {
  const Block* block = op.replacement() ? &op.replacement()->get() : nullptr;
  if (!block || !block->meaning()) block = &op.block().get();
  bool found = false;
  for (const Step& step : block->steps) {
    if (!is_meaning(step.kind) || step.kind == StepKind::decompose) continue;
    if (step.kind != StepKind::pointwise || step.at) return false;
    found = true;
  }
  return found;
}

}  // namespace atenon::opset
