// Texts of what a program plans to take.
#pragma once

#include "run/engine.h"
#include "support/json.h"

namespace atenon::run {

// A line for each kind of memory; the same as data.
std::string to_text(const Memory& memory);
nlohmann::ordered_json to_json(const Memory& memory);
// For sizes that are named: "batch=8", or "batch=1..64" for a line each; others are as in the example.
// E0628: a size that cannot be read, is given twice, or that the program has not.
Result<std::string> memory_at(Session& session, const std::vector<std::string>& sizes, bool json);

}  // namespace atenon::run
