// The worker threads of the process, and regions of code that they run together with a caller.
//
// A worker that has nothing to do spins for a moment, since in a run of a program the next region follows within
// microseconds, and then sleeps. There is one set of workers: while one caller has them, others run their regions
// alone, so that many callers of a program share the cores instead of fighting for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "support/parallel.h"

namespace atenon {

// From construction to destruction, workers run `body(member)` for members 1, 2, ...; the caller is member 0 and does
// its part between the two. At the end it also does the parts that no worker has begun, so that a worker without a core
// holds nobody up. Only the thread that made a region may end it.
class Region {
 public:
  // Asks for `members` - 1 workers. `body` lives as long as the region.
  Region(int members, FunctionRef<int> body);
  // What the workers wrote is seen by the caller.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // With the caller; 1 where the workers belong to another region, or no thread can be made.
  int members() const { return members_; }

 private:
  int members_ = 1;
};

// Whether this thread runs a part of a region; then all that it calls has one thread.
bool in_region();

// Marks this thread as one that runs a part of a region.
class InRegion {
 public:
  InRegion();
  ~InRegion();
  InRegion(const InRegion&) = delete;
  InRegion& operator=(const InRegion&) = delete;

 private:
  const bool before_;
};

// A region whose members are a team: workers call `body(team, member)`, the caller does its part between construction
// and destruction. `body` lives as long.
class TeamRegion {
 public:
  TeamRegion(int members, FunctionRef<Team&, int> body);
  Team& team() { return *team_; }

  void operator()(int member) const;

 private:
  FunctionRef<Team&, int> body_;
  mutable std::optional<Team> team_;  // made when it is known how many come
  std::atomic<bool> made_ = false;
  Region region_;
  InRegion caller_;
};

// Says that this thread waits for another one's next store.
inline void spin_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace atenon
