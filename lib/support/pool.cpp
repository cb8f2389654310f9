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

// A worker's part of a region: what a caller asks for lies on the cache line of the word by which it asks.
//
// The word counts up through four states. A caller takes a worker that is free and fills in the other fields, posts
// them, and the worker begins its part, after which it is free again; or the caller takes back what it has posted, and
// does the part itself. Both are the change of one word, so only one of them comes to pass.
struct alignas(64) Worker {
  enum State : uint32_t { free, taken, posted, begun };

  std::atomic<uint32_t> word = free;
  int member = 0;
  bool spins = true;  // in this region and after it
  std::optional<FunctionRef<int>> body;

  void work();
};

namespace {

using Clock = std::chrono::steady_clock;

// Longer than what lies between two regions of one run, and short enough that nobody sees an idle program work.
constexpr std::chrono::microseconds spin_time{200};

constexpr uint32_t states = 4;

// How long members spin that each have a core, or else.
std::chrono::microseconds spin_of(bool spins) { return spins ? spin_time : std::chrono::microseconds(0); }

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

// Says that this thread waits for another one's next store.
void spin_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

uint32_t wait_while(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds spin) {
  if (spin.count() > 0) {
    std::optional<Clock::time_point> end;  // not asked for what comes at once
    do {
      for (int i = 0; i < 32; ++i) {
        const uint32_t now = value.load(std::memory_order_acquire);
        if (now != old) return now;
        spin_once();
      }
      if (!end) end = Clock::now() + spin;
    } while (Clock::now() < *end);
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

void Worker::work() {
  const InRegion part;
  bool is_spinning = true;
  for (uint32_t now = free;; now = wait_while(word, now, spin_of(is_spinning))) {
    if (now % states != posted || !word.compare_exchange_strong(now, now + 1, std::memory_order_acquire)) continue;
    is_spinning = spins;
    (*body)(member);
    now += 2;
    word.store(now);
    word.notify_one();
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

Region::Region(int parts, FunctionRef<int> body) : parts_(parts), body_(body) {
  if (parts <= 1 || in_region()) return;
  Pool& pool = atenon::pool();
  counts_ = true;
  const int regions = pool.regions.fetch_add(1, std::memory_order_relaxed) + 1;
  const int most = std::min({parts, most_members, threads()});  // plans of oneDNN are for more, whatever there is
  const int wanted = std::min(most, std::max(threads() / regions, 1));
  while (pool.made.load(std::memory_order_relaxed) < most - 1 && pool.make_worker()) {}
  const int made = pool.made.load(std::memory_order_acquire);
  for (int i = 0; i < made && members_ < wanted; ++i) {
    Worker& worker = pool.workers[i];
    uint32_t now = worker.word.load(std::memory_order_relaxed);
    if (now % states != Worker::free || !worker.word.compare_exchange_strong(now, now + 1, std::memory_order_acquire))
      continue;
    workers_[members_ - 1] = &worker;
    worker.member = members_++;
  }
  spins_ = members_ <= available_cpus();
  for (int i = 0; i < members_ - 1; ++i) {
    Worker& worker = *workers_[i];
    worker.body.emplace(body);
    worker.spins = spins_;
    posted_[i] = worker.word.fetch_add(1) + 1;
    worker.word.notify_one();
  }
}

Region::~Region() {
  const InRegion part;
  for (int i = 0; i < members_ - 1; ++i) {
    uint32_t posted = posted_[i];
    if (workers_[i]->word.compare_exchange_strong(posted, posted + 2, std::memory_order_relaxed)) body_(i + 1);
  }
  for (int member = members_; member < parts_; ++member) body_(member);
  for (int i = 0; i < members_ - 1; ++i) wait_while(workers_[i]->word, posted_[i] + 1, spin_of(spins_));
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
  if (member < team_->members()) body_(*team_, member);
}

}  // namespace atenon
