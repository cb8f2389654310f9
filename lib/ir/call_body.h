// A call that `lower` made: `%y: f32[b, 10] = atenon::call(@linear, %x, %w) {kernel="panels", slots=[-1]}`.
//
// It means its body, a subgraph of the variant: the body's inputs are the operands, its outputs the results.
#pragma once

#include "ir/program.h"

namespace atenon::ir {

bool is_call(const Node& node);
// Null for any other node, and where the variant has no such subgraph.
const Graph* body_of(const Node& call, const Variant& variant);

}  // namespace atenon::ir
