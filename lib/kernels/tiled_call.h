// Calls that are cut into tiles, which threads work on together.
#pragma once

#include <algorithm>

#include "kernels/kernel.h"
#include "support/parallel.h"

namespace atenon::kernels {

class TiledCall : public PreparedCall {
 public:
  virtual int64_t tiles() const = 0;
  // Bytes of memory that a thread needs for the tile at hand.
  virtual size_t worker_bytes() const = 0;
  // How many threads are worth it, of those that there are.
  virtual int64_t workers() const { return std::min<int64_t>(tiles(), threads()); }
  // Before all tiles; `memory` is that of all threads.
  virtual void begin(void* /*memory*/) const {}
  // Tile `i`; `own` is the thread's memory.
  virtual void run_tile(std::span<void* const> buffers, int64_t i, void* own) const = 0;

  size_t scratch_bytes() const final { return worker_bytes() * static_cast<size_t>(workers()); }
  Result<void> run(std::span<void* const> buffers, void* scratch) final {
    begin(scratch);
    parallel_for(tiles(), workers(), scratch, worker_bytes(), [&](int64_t i, void* own) { run_tile(buffers, i, own); });
    return {};
  }
};

}  // namespace atenon::kernels
