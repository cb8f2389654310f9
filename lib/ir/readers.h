// Who reads a value.
#pragma once

#include "ir/graph.h"

namespace atenon::ir {

// The node that alone reads `value`, and once; null where there are several, or none, or the graph returns it.
inline Node* sole_reader(const Value& value) {
  return value.users.size() == 1 && value.returned == 0 ? value.users[0] : nullptr;
}

}  // namespace atenon::ir
