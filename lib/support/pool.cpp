#include "support/pool.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

namespace atenon {

// On a cache line of its own.
struct alignas(64) Worker {
  std::atomic<bool> taken = false;  // by the region whose fields the next ones are
  std::atomic<int> gate = 0;        // odd: open. Opening and closing count it up.
  std::atomic<int> begun = 0;       // the last gate behind which somebody does this member's part
  std::atomic<int> inside = 0;      // 1: the worker is behind the gate
  std::atomic<bool> spin = true;    // in this region and after it
  int member = 0;                   // this and the body are read behind the gate only
  std::optional<FunctionRef<int>> body;

  void work();
};

namespace {

using Clock = std::chrono::steady_clock;

// Longer than what lies between two regions of one run, and short enough that nobody sees an idle program work.
constexpr std::chrono::microseconds spin_time{200};

// Returns when `value` is no longer `old`; spins at first where every member has a core.
void wait_while(const std::atomic<int>& value, int old, bool spin) {
  if (spin) {
    const Clock::time_point end = Clock::now() + spin_time;
    do {
      for (int i = 0; i < 32; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        spin_once();
      }
    } while (Clock::now() < end);
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

struct Pool {
  std::atomic<int> regions = 0;  // under way
  std::atomic<int> made = 0;     // of the workers, from the first on
  std::mutex making;
  std::array<Worker, Region::most_members - 1> workers;

  bool make_worker();
};

std::atomic<Pool*> shared_pool = nullptr;

Pool& pool() {
  static const bool once = [] {
    shared_pool = new Pool;  // never destroyed: workers outlive main's statics
    // A forked child has no workers.
    pthread_atfork(nullptr, nullptr, [] { shared_pool.store(new Pool, std::memory_order_relaxed); });
    return true;
  }();
  (void)once;
  return *shared_pool.load(std::memory_order_relaxed);
}

thread_local bool inside_region = false;

}  // namespace

// A worker goes in and then looks whether the gate is still open; a caller closes the gate and then looks whether the
// worker is inside. Both orders are sequentially consistent, so one of them sees the other.
void Worker::work() {
  const InRegion part;
  for (int now = 0;;) {
    wait_while(gate, now, spin.load(std::memory_order_relaxed));
    now = gate.load(std::memory_order_acquire);
    if (now % 2 == 0) continue;
    inside.store(1);
    if (gate.load() == now && begun.exchange(now, std::memory_order_relaxed) != now) (*body)(member);
    inside.store(0);
    inside.notify_one();
  }
}

bool Pool::make_worker() {
  const std::lock_guard lock(making);
  const int number = made.load(std::memory_order_relaxed);
  if (number == static_cast<int>(workers.size())) return false;
  try {
    std::thread thread([worker = &workers[number]] { worker->work(); });
    pthread_setname_np(thread.native_handle(), ("atenon-" + std::to_string(number + 1)).c_str());
    thread.detach();
  } catch (const std::system_error&) {  // no more threads for this process
    return false;
  }
  made.store(number + 1, std::memory_order_release);
  return true;
}

Region::Region(int members, FunctionRef<int> body) {
  if (members <= 1 || in_region()) return;
  Pool& pool = atenon::pool();
  counts_ = true;
  const int regions = pool.regions.fetch_add(1, std::memory_order_relaxed) + 1;
  const int most = std::min({members, most_members, threads()});  // plans of oneDNN are for more, whatever there is
  const int wanted = std::min(most, std::max(threads() / regions, 1));
  while (pool.made.load(std::memory_order_relaxed) < most - 1 && pool.make_worker()) {}
  const int made = pool.made.load(std::memory_order_acquire);
  for (int i = 0; i < made && members_ < wanted; ++i) {
    Worker& worker = pool.workers[i];
    if (worker.taken.load(std::memory_order_relaxed) || worker.taken.exchange(true, std::memory_order_acquire))
      continue;
    workers_[members_ - 1] = &worker;
    worker.member = members_++;
  }
  for (int i = 0; i < members_ - 1; ++i) {
    Worker& worker = *workers_[i];
    worker.body.emplace(body);
    worker.spin.store(members_ <= available_cpus(), std::memory_order_relaxed);
    worker.gate.fetch_add(1);
    worker.gate.notify_one();
  }
}

Region::~Region() {
  const InRegion part;
  for (int i = 0; i < members_ - 1; ++i) {
    Worker& worker = *workers_[i];
    const int now = worker.gate.load(std::memory_order_relaxed);
    if (worker.begun.exchange(now, std::memory_order_relaxed) != now) (*worker.body)(worker.member);
  }
  for (int i = 0; i < members_ - 1; ++i) {
    Worker& worker = *workers_[i];
    worker.gate.fetch_add(1);
    while (worker.inside.load() != 0) wait_while(worker.inside, 1, worker.spin.load(std::memory_order_relaxed));
    worker.taken.store(false, std::memory_order_release);
  }
  if (counts_) pool().regions.fetch_sub(1, std::memory_order_relaxed);
}

bool in_region() { return inside_region; }

InRegion::InRegion() : before_(inside_region) { inside_region = true; }
InRegion::~InRegion() { inside_region = before_; }

TeamRegion::TeamRegion(int members, FunctionRef<Team&, int> body)
    : body_(body), region_(members, FunctionRef<int>(*this)) {
  team_.emplace(region_.members());
  made_.store(true, std::memory_order_release);
  made_.notify_all();
}

void TeamRegion::operator()(int member) const {
  made_.wait(false, std::memory_order_acquire);
  body_(*team_, member);
}

}  // namespace atenon
