// What is caught where our code ends: in a tool's main, and before a C caller.
#pragma once

#include <exception>

#include "support/result.h"

namespace atenon {

// E0010 where memory does not suffice, E0011 where no thread can be started; anything else that a library throws is a
// bug of ours.
Diagnostic explain(const std::exception& problem);

}  // namespace atenon
