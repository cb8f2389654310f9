#include "support/parallel.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "support/pool.h"

namespace atenon {
namespace {

int cpus_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

// CPUs that a cgroup's quota allows; infinite where none is set.
double quota_of(const std::string& folder) {
  std::ifstream v2(folder + "/cpu.max");
  double quota = 0, period = 0;
  if (v2 >> quota >> period && period > 0) return quota / period;  // "max 100000" fails to parse: no limit
  std::ifstream v1_quota(folder + "/cpu.cfs_quota_us"), v1_period(folder + "/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return HUGE_VAL;
}

// The smallest quota from our own cgroup up to the root. In a container /proc/self/cgroup names a path of the host,
// which is not there: then the mount's root is our own.
double cpus_by_cgroup() {
  double cpus = HUGE_VAL;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice" or "4:cpu,cpuacct:/docker/f00"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::string mount = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    std::string path = line.substr(second + 1);
    while (true) {
      cpus = std::min(cpus, quota_of(mount + path));
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos || path == "/") break;
      path.resize(slash);
    }
  }
  return cpus;
}

// The pool belongs to the process, and so does its size.
std::atomic<int>& chosen_threads() {
  static std::atomic<int> count = 0;
  return count;
}

}  // namespace

int available_cpus() {
  static const int count =
      std::max(1, static_cast<int>(std::min<double>(cpus_by_affinity(), std::ceil(cpus_by_cgroup()))));
  return count;
}

int threads() {
  const int count = chosen_threads().load(std::memory_order_relaxed);
  return count > 0 ? count : available_cpus();
}

void set_threads(int count) { chosen_threads().store(std::max(count, 0), std::memory_order_relaxed); }

Tiles::Tiles(int64_t count, int64_t members, int64_t shares)
    : count_(count), parts_(std::clamp<int64_t>(std::min(members, count), 0, most_parts)), shares_(shares) {
  for (int64_t i = 0; i < parts_; ++i) {
    part_[i].next.store(begin_of(i) + first_run_of(i), std::memory_order_relaxed);
    part_[i].end = begin_of(i + 1);
  }
}

bool Tiles::take(int64_t member, int64_t& first, int64_t& last) {
  for (int64_t i = 0; i < parts_; ++i) {
    Part& part = part_[(member + i) % parts_];
    first = part.next.load(std::memory_order_relaxed);
    while (first < part.end) {
      last = first + share_of(part.end - first);
      if (part.next.compare_exchange_weak(first, last, std::memory_order_relaxed)) return true;
    }
  }
  return false;
}

void parallel_for(int64_t count, FunctionRef<int64_t> tile) {
  const int members = static_cast<int>(std::min<int64_t>(threads(), count));
  Tiles tiles(count, members);
  // `tile` by value: a worker that comes reads one line of this frame, not one after the other.
  const auto work = [&tiles, tile](int member) { tiles.for_each(member, tile); };
  const Region region(members, work);
  const InRegion part;
  work(0);
}

void parallel_for(int64_t count, int64_t members, void* memory, size_t bytes, FunctionRef<int64_t, void*> tile,
                  int64_t shares) {
  Tiles tiles(count, members, shares);
  parallel_for(members, [&](int64_t member) {
    void* own = static_cast<char*>(memory) + static_cast<size_t>(member) * bytes;
    tiles.for_each(member, [&](int64_t i) { tile(i, own); });
  });
}

void Team::wait() {
  // A member that lost its core to another process has it back after a slice of the scheduler's. Who slept meanwhile
  // would then wait for such a slice at each of the next phases.
  constexpr std::chrono::milliseconds spin{5};
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
  } else {
    wait_while(phase_, phase, members_ <= available_cpus() ? spin : spin.zero());
  }
}

void run_team(int most, FunctionRef<Team&, int> body) {
  TeamRegion region(std::min(most, threads()), body);
  body(region.team(), 0);
}

}  // namespace atenon
