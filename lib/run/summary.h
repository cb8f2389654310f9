// What `atenon run` prints of outputs that are not written to a file.
#pragma once

#include "run/engine.h"

namespace atenon::run {

// An output that is neither a tensor nor a number: None, or a text.
bool is_word(const Leaf& leaf);

// A line for each: its type, its range if it is one of several real numbers, its first elements. As JSON, where NaN and
// infinity are null: {"schema": 1, "outputs": [{"name", "dtype", "sizes", "range", "first"}]}.
std::string describe_outputs(const Session& session, const std::vector<Datum>& outputs, bool json);

}  // namespace atenon::run
