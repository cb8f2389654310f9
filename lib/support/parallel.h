// Threads: one pool for the whole process (pool.h), which oneDNN runs in, too: there are never two that fight for the
// same cores.
//
// Work is cut into tiles by shape, never by the number of threads, so results have the same bits for any number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace atenon {

// A function that lives as long as the call that it is given to: unlike std::function, it allocates nothing.
template <class... Arguments>
class FunctionRef {
 public:
  template <class F>
  FunctionRef(const F& function)  // NOLINT(google-explicit-constructor): a lambda is given as it is
      : function_(std::addressof(function)),
        call_([](const void* f, Arguments... arguments) { (*static_cast<const F*>(f))(arguments...); }) {}
  void operator()(Arguments... arguments) const { call_(function_, arguments...); }

 private:
  const void* function_;
  void (*call_)(const void*, Arguments...);
};

// How many CPUs this process may use by its affinity and its cgroup's quota, rounded up. At least 1.
int available_cpus();

// How many threads work on one parallel_for: at first available_cpus().
int threads();
// For the whole process; 0 goes back to the default. Not while parallel_for runs.
void set_threads(int count);

// Calls `tile(i)` for i in [0, tiles), in any order, on several threads, and returns when all are done. Tiles are
// handed out one by one (Tiles, below), so they need not cost the same, but each should be worth some microseconds.
// Inside a tile, another parallel_for, or oneDNN, has one thread. `tile` must not throw.
void parallel_for(int64_t tiles, FunctionRef<int64_t> tile);

// The same for tiles that need memory: on at most `members` threads, each of which gives `tile(i, own)` its own `bytes`
// of `memory`, which has members * bytes. `shares`: as for Tiles, below.
void parallel_for(int64_t tiles, int64_t members, void* memory, size_t bytes, FunctionRef<int64_t, void*> tile,
                  int64_t shares = INT64_MAX);

// In whole cache lines: memory of two threads shares none.
constexpr size_t in_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Hands out tiles [0, count) to threads that work on them together, in runs of neighbours. Each member takes from a
// part of its own first, front to back, which is the same part whenever as many members do as many tiles: what it wrote
// in the call before lies in its core's cache. Then it takes from the others' parts, but for their first runs: these
// need no agreement, so a loop of one tile a member has no cache line that two cores write. So each member must come.
class Tiles {
 public:
  // A run has 1 / `shares` of the tiles left in its part, at least one.
  Tiles(int64_t count, int64_t members, int64_t shares = INT64_MAX);

  // Calls `run(first, last)` for runs [first, last), and returns when none is left. Once for each member.
  template <class F>
  void for_each_run(int64_t member, const F& run) {
    if (member < parts_) {
      __builtin_prefetch(&part_[member], 1);  // on its way from the caller's core in the meantime
      run(begin_of(member), begin_of(member) + first_run_of(member));
    }
    for (int64_t first, last; take(member, first, last);) run(first, last);
  }
  // The same, tile by tile.
  template <class F>
  void for_each(int64_t member, const F& tile) {
    for_each_run(member, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) tile(i);
    });
  }

 private:
  struct alignas(64) Part {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;
  };
  static constexpr int64_t most_parts = 16;

  int64_t begin_of(int64_t part) const { return count_ * part / parts_; }
  int64_t share_of(int64_t left) const { return std::max<int64_t>(1, left / shares_); }
  int64_t first_run_of(int64_t part) const { return share_of(begin_of(part + 1) - begin_of(part)); }
  bool take(int64_t member, int64_t& first, int64_t& last);

  const int64_t count_, parts_, shares_;
  Part part_[most_parts];
};

// Threads that run one body at the same time, for phases too short to be handed out anew. A member takes its part by
// its number; the part of a phase stays with the same core, and so does the data in its cache.
class Team {
 public:
  explicit Team(int members) : members_(members) {}
  int members() const { return members_; }
  // The end of a phase: returns when every member has called it. Spins, since phases last microseconds.
  void wait();

 private:
  const int members_;
  std::atomic<int> arrived_ = 0;
  std::atomic<uint32_t> phase_ = 0;
};

// Runs `body(team, member)` on each of at most `most` members; on one inside a tile.
void run_team(int most, FunctionRef<Team&, int> body);

}  // namespace atenon
