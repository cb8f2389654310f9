// What the user said of dynamic dimensions, held against what the program relies on.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// What a program relies on.
struct Reliance {
  const std::vector<ir::Symbol>& symbols;
  const std::vector<ir::Constraint>& assumptions;
  const ir::Provenance& provenance;  // of the assumptions
  bool is_all = true;                // else more is yet to be found out, and nothing is said of what warns only
};

// A dimension that was named is dynamic: no one number, no other name's, and all of the range that was given for it.
// False with E0308 where the assumptions say otherwise, which name the line. A bound that nobody gave (Dim("n") alone)
// is none to break. Sizes within a range that the program does not take beside others that it does, as for
// `s % 4 == 0`, are a finding: run refuses them.
bool keeps_promises(Session& session, const Reliance& reliance);

}  // namespace atenon::capture
