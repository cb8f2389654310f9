// What machine code is made for: an instruction set by a short name, which is recorded with the code and checked before
// it runs.
#pragma once

#include <string>

#include "support/result.h"

namespace atenon::lower {

struct Target {
  std::string name;    // "x86_64-avx512"
  std::string triple;  // LLVM's
  std::string cpu;     // LLVM's: a level of the x86-64 ABI, so that code depends on the name alone
  int vector_bits = 0;
};

// "host" resolves to the best that this CPU has. E0502: unknown, or the host is none of ours.
Result<Target> resolve_target(const std::string& name);

}  // namespace atenon::lower
