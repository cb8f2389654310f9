// The worker threads of the process, and regions of code that they run together with a caller.
//
// A worker that has nothing to do spins for a moment, since in a run of a program the next region follows within
// microseconds, and then sleeps. There is one set of workers, which callers share: the more of them run regions at the
// same time, the fewer workers each gets, down to none. So many callers of a program do not fight for the cores.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "support/parallel.h"

namespace atenon {

struct Worker;

// From construction to destruction, `body(member)` is run for members 1, 2, ... `parts` - 1, by workers where there are
// some; the caller is member 0 and does its part between the two. At the end it also does the parts that no worker has
// begun, so that a worker without a core holds nobody up. Only the thread that made a region may end it.
class Region {
 public:
  // Asks for `parts` - 1 workers, at most most_members - 1. `body` lives as long as the region.
  Region(int parts, FunctionRef<int> body);
  // What the workers wrote is seen by the caller.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Those that have a thread: the caller and its workers. 1 where other regions have the workers, or no thread can be
  // made.
  int members() const { return members_; }

  static constexpr int most_members = 256;

 private:
  const int parts_;
  const FunctionRef<int> body_;
  bool counts_ = false;  // among the regions under way
  bool spins_ = false;   // every member has a core
  int members_ = 1;
  Worker* workers_[most_members - 1];  // of members 1, 2, ...
  uint32_t posted_[most_members - 1];  // their words then
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

// Returns the value when it is no longer `old`. Sleeps when it has spun for so long.
uint32_t wait_while(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds spin);

}  // namespace atenon
