#include "support/pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

namespace atenon {
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

// Members and the fields that several threads write lie on cache lines of their own.
struct alignas(64) Worker {
  std::atomic<int> begun = 0;  // the last gate behind which somebody does this member's part
};

struct Pool {
  std::atomic<bool> taken = false;  // by the region that has the workers
  std::deque<Worker> workers;       // of the region that has them

  alignas(64) std::atomic<int> gate = 0;    // odd: open. Opening and closing count it up.
  std::atomic<int> wanted = 0;              // workers of the region behind the gate
  std::atomic<bool> spin = true;            // in this region and after it
  std::optional<FunctionRef<int>> body;     // read behind the gate only
  alignas(64) std::atomic<int> inside = 0;  // workers behind the gate

  void work(Worker& worker, int member);
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

// A worker goes in and then looks whether the gate is still open; a caller closes the gate and then looks whether
// anybody is inside. Both orders are sequentially consistent, so one of them sees the other.
void Pool::work(Worker& worker, int member) {
  const InRegion part;
  for (int now = 0;;) {
    wait_while(gate, now, spin.load(std::memory_order_relaxed));
    now = gate.load(std::memory_order_acquire);
    if (now % 2 == 0 || member > wanted.load(std::memory_order_relaxed)) continue;
    inside.fetch_add(1);
    if (gate.load() == now && worker.begun.exchange(now, std::memory_order_relaxed) != now) (*body)(member);
    if (inside.fetch_sub(1) == 1) inside.notify_one();
  }
}

bool Pool::make_worker() {
  const int member = static_cast<int>(workers.size()) + 1;
  Worker& worker = workers.emplace_back();
  try {
    std::thread thread([this, &worker, member] { work(worker, member); });
    pthread_setname_np(thread.native_handle(), ("atenon-" + std::to_string(member)).c_str());
    thread.detach();
  } catch (const std::system_error&) {  // no more threads for this process
    workers.pop_back();
    return false;
  }
  return true;
}

}  // namespace

Region::Region(int members, FunctionRef<int> body) {
  if (members <= 1 || in_region()) return;
  Pool& pool = atenon::pool();
  if (pool.taken.exchange(true, std::memory_order_acquire)) return;
  while (static_cast<int>(pool.workers.size()) < members - 1 && pool.make_worker()) {}
  members_ = std::min(members, static_cast<int>(pool.workers.size()) + 1);
  if (members_ == 1) {
    pool.taken.store(false, std::memory_order_release);
    return;
  }
  pool.body.emplace(body);
  pool.wanted.store(members_ - 1, std::memory_order_relaxed);
  pool.spin.store(members_ <= available_cpus(), std::memory_order_relaxed);
  pool.gate.fetch_add(1);
  pool.gate.notify_all();
}

Region::~Region() {
  if (members_ == 1) return;
  Pool& pool = atenon::pool();
  const int now = pool.gate.load(std::memory_order_relaxed);
  const InRegion part;
  for (int member = 1; member < members_; ++member)
    if (pool.workers[member - 1].begun.exchange(now, std::memory_order_relaxed) != now) (*pool.body)(member);
  pool.gate.fetch_add(1);
  for (int left; (left = pool.inside.load()) != 0;)
    wait_while(pool.inside, left, pool.spin.load(std::memory_order_relaxed));
  pool.taken.store(false, std::memory_order_release);
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
