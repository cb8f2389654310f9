// The signature of an archive's program in our terms. Private to lib/pt2.
#pragma once

#include "ir/signature.h"
#include "pt2/json_items.h"

namespace atenon::pt2 {

// Inputs and outputs in the archive's order. What the JSON lacks is noted in its document; E0823 is for kinds of inputs
// and outputs that are not supported.
Result<ir::GraphSignature> read_signature(const Item& graph_module, const std::string& file_name);

}  // namespace atenon::pt2
