// Loops as LLVM IR: plain scalar loops that LLVM's vectoriser widens.
//
// A kernel is an exported function with the ABI of lib/kernels/abi.h around an internal one whose buffers are `noalias`
// arguments. Code stands at the outermost loop that it depends on. Reductions at one level with the same loops share
// them; a value that is dear and needed in a later loop of the same extent is kept in scratch.
#pragma once

#include <string>

#include "lower/loops.h"
#include "support/result.h"

namespace llvm {
class Module;
}

namespace atenon::lower {

// Adds `symbol` to the module, for vectors of `vector_width` numbers of 32 bits. Refuses (an error without code) what
// has no code. Returns the bytes of scratch that an invocation needs, a formula of the loops' symbols.
Result<SymInt> generate(llvm::Module& module, const Loops& loops, const std::string& symbol, int vector_width);

}  // namespace atenon::lower
