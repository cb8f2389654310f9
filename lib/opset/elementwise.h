// Which operators work element by element: whatever they are called with, an element of the result is made of those
// that stand at its index in the operands, broadcast. Their block says `pointwise` without `at`, and nothing but that
// and what it decomposes into.
#pragma once

#include "opset/opset.h"

namespace atenon::opset {

bool is_elementwise(const Operator& op);

}  // namespace atenon::opset
