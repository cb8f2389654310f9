// Concatenations, told by their meaning: result[.., i, ..] = i < end ? part[.., i - start, ..] : the next part and so
// on.
#pragma once

#include "specialize/passes.h"

namespace atenon::specialize {

// What is concatenated, in order.
struct Concatenation {
  int axis = -1;
  std::vector<ir::Value*> parts;
};

// nullopt where `node` is none, or a part's size along the axis is not known.
std::optional<Concatenation> concatenation(const Scope& scope, const ir::Node& node);

// A concatenation of more parts is better one of concatenations: code that looks for the part of an element looks
// through few then, and those of the same sizes share it.
inline constexpr size_t many_parts = 32;
// `parts` one behind the other along an axis, put before `node`; none has more than `many_parts`.
Result<ir::Value*> append_concatenation(Scope& scope, ir::Node& node, ir::ArgumentList parts, int64_t axis);

// Whether a part has so few channels that vectors stay half empty in what is computed from it alone.
bool has_thin_part(const Concatenation& joined);

// Elements at the sizes of the example inputs, where dimensions are dynamic.
std::optional<int64_t> elements(const Scope& scope, const ir::Value& value);

}  // namespace atenon::specialize
