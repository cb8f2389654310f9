// From loops to a shared object: LLVM's optimiser and code generator, then lld.
//
// The object needs nothing (no libc, no relocations against symbols) and lies anywhere, so that the machine that runs
// it needs neither compiler nor linker. The same kernels give the same bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lower/loops.h"
#include "lower/target.h"
#include "support/result.h"
#include "tensor/tensor.h"

namespace atenon::lower {

struct KernelSource {
  std::string symbol;
  const Loops* loops = nullptr;
};

struct Compiled {
  std::shared_ptr<Storage> code;      // null if no kernel could be generated
  std::vector<SymInt> scratch;        // a kernel: bytes
  std::vector<std::string> refusals;  // a kernel: "" or why it has no code
};

// Compiles kernels side by side. E0503: LLVM or lld failed, or this process may not have files in memory.
Result<Compiled> compile(const std::vector<KernelSource>& kernels, const Target& target);

}  // namespace atenon::lower
