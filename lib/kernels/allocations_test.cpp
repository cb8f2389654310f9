// What allocates, for the tests of all kernels: each runs its calls twice, and the second time nothing may (testing.h).
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "kernels/testing.h"

// All of this test binary's; malloc itself stays as it is, for the sanitizers.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (atenon::kernels::testing::counts_allocations.load(std::memory_order_relaxed))
    ++atenon::kernels::testing::allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
