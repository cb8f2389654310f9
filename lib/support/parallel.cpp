// parallel_for over libgomp.
//
// GOMP_parallel is what `#pragma omp parallel` compiles to in GCC. Calling it by name lets every compiler use the pool
// that oneDNN's build for libgomp uses (clang would bring libomp, a second pool), and needs no flags for this file.
#include "support/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>

extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_in_parallel();
int omp_get_thread_num();
int omp_get_num_threads();
int omp_get_max_threads();
void omp_set_num_threads(int count);
}

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

int default_threads() {
  static const int count =
      std::max(1, static_cast<int>(std::min<double>(cpus_by_affinity(), std::ceil(cpus_by_cgroup()))));
  return count;
}

// The pool belongs to the process, and so does its size: the one piece of global state.
std::atomic<int>& chosen_threads() {
  static std::atomic<int> count = 0;
  return count;
}

struct Work {
  int64_t tiles;
  FunctionRef<int64_t> tile;
  std::atomic<int64_t> next = 0;
};

void take_tiles(void* data) {
  Work& work = *static_cast<Work*>(data);
  // acq_rel: the counter also carries the order of memory between caller and workers (libgomp's own futexes are
  // invisible to the thread sanitizer).
  for (int64_t i; (i = work.next.fetch_add(1, std::memory_order_acq_rel)) < work.tiles;) work.tile(i);
}

// The team is made by the first member to come, when it is known how many threads there really are.
struct TeamWork {
  FunctionRef<Team&, int> body;
  std::once_flag once;
  std::optional<Team> team;
};

void join_team(void* data) {
  TeamWork& work = *static_cast<TeamWork*>(data);
  std::call_once(work.once, [&] { work.team.emplace(omp_get_num_threads()); });
  work.body(*work.team, omp_get_thread_num());
  work.team->wait();  // what was written is seen by the caller
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int threads() {
  const int count = chosen_threads().load(std::memory_order_relaxed);
  return count > 0 ? count : default_threads();
}

void set_threads(int count) {
  chosen_threads().store(std::max(count, 0), std::memory_order_relaxed);
  share_threads_with_libraries();
}

void share_threads_with_libraries() { omp_set_num_threads(threads()); }

void parallel_for(int64_t tiles, FunctionRef<int64_t> tile) {
  if (tiles <= 0) return;
  const int64_t team = std::min<int64_t>(threads(), tiles);
  if (omp_in_parallel() != 0) {
    for (int64_t i = 0; i < tiles; ++i) tile(i);
  } else if (team == 1) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);  // what is called inside a tile is called single-threaded
    for (int64_t i = 0; i < tiles; ++i) tile(i);
    omp_set_num_threads(before);
  } else {
    Work work{tiles, tile};
    work.next.store(0, std::memory_order_release);
    GOMP_parallel(take_tiles, &work, static_cast<unsigned>(team), 0);
    work.next.load(std::memory_order_acquire);
  }
}

void Team::wait() {
  constexpr int spins = 4000;  // some tens of microseconds
  const int phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  for (int i = 0; i < spins; ++i) {
    if (phase_.load(std::memory_order_acquire) != phase) return;
    pause();
  }
  while (phase_.load(std::memory_order_acquire) == phase) phase_.wait(phase, std::memory_order_acquire);
}

void run_team(int most, FunctionRef<Team&, int> body) {
  const int size = omp_in_parallel() != 0 ? 1 : std::min(most, threads());
  if (size <= 1) {
    Team alone(1);
    body(alone, 0);
    return;
  }
  TeamWork work{body, {}, std::nullopt};
  GOMP_parallel(join_team, &work, static_cast<unsigned>(size), 0);
}

}  // namespace atenon
