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

// Whether a part has so few channels that vectors stay half empty in what is computed from it alone.
bool has_thin_part(const Concatenation& joined);

// Elements at the sizes of the example inputs, where dimensions are dynamic.
std::optional<int64_t> elements(const Scope& scope, const ir::Value& value);

}  // namespace atenon::specialize
