// For tests: compiles one kernel and runs it on real buffers, in pieces, as a caller with several threads would.
#pragma once

#include <doctest/doctest.h>

#include "kernels/kernel.h"
#include "lower/link.h"

namespace atenon::lower::testing {

inline void run_kernel(const Loops& loops, std::vector<void*> buffers, const shape::Bindings& symbols) {
  Result<Target> target = resolve_target("host");
  REQUIRE(bool(target));
  Result<Compiled> compiled = compile({{"k0", &loops}}, *target);
  REQUIRE_MESSAGE(bool(compiled), (compiled ? "" : compiled.failure().message));
  REQUIRE_MESSAGE(compiled->code, compiled->refusals[0]);
  Result<std::shared_ptr<const kernels::Code>> code = kernels::Code::open({{"code", target->name, compiled->code}});
  REQUIRE(bool(code));
  atenon_kernel_v1* kernel = (*code)->find("code", "k0");
  REQUIRE(bool(kernel));
  std::vector<int64_t> sizes;
  for (const std::string& symbol : loops.symbols) sizes.push_back(symbols.at(symbol));
  std::shared_ptr<Storage> scratch = Storage::allocate(*shape::evaluate(compiled->scratch[0], symbols));
  const int64_t rows = *shape::evaluate(loops.row_count(), symbols);
  const int64_t step = std::max<int64_t>(1, rows / 3);
  for (int64_t begin = 0; begin < rows; begin += step)
    kernel(buffers.data(), sizes.data(), begin, std::min(begin + step, rows), scratch->mutable_data());
}

}  // namespace atenon::lower::testing
