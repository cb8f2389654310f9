// oneDNN's parallel regions, run by our pool.
//
// oneDNN is built for GNU OpenMP and calls these ten functions of it. scripts/setup puts "atenon_" before their names
// in our copy of the library, because libgomp would keep a pool of its own for each thread that calls us, whose threads
// spin for milliseconds. What the functions do is libgomp's: https://gcc.gnu.org/onlinedocs/libgomp (Runtime Library
// Routines; The libgomp ABI).
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "kernels/onednn.h"
#include "support/pool.h"

namespace {

using namespace atenon;

// What this thread does in the region that it is in: the part of one member.
struct Part {
  int member = 0, members = 1;
  Team* team = nullptr;
  // Of the loop that the region shares out: this member's next piece, [next, next + piece * step), and what follows it.
  long next = 0, end = 0, step = 1, piece = 0;
};
thread_local Part part;

// The region that this thread has opened. It has as many members as oneDNN asked for, which has cut its work by them:
// where fewer threads come, since other callers have the workers, each does the parts of several, one after the other.
// oneDNN calls the body itself for the first, between start and end.
class Opened {
 public:
  Opened(void (*body)(void*), void* data, int members)
      : body_(body), data_(data), members_(members), region_(members, *this) {
    part = {.member = 0, .members = members_, .team = &region_.team()};
  }
  ~Opened() { run(region_.team(), 1, first_of(region_.team(), 1)); }
  void operator()(Team& team, int thread) const { run(team, first_of(team, thread), first_of(team, thread + 1)); }

 private:
  int first_of(const Team& team, int thread) const { return members_ * thread / team.members(); }
  void run(Team& team, int first, int last) const {
    for (int member = first; member < last; ++member) {
      part = {.member = member, .members = members_, .team = &team};
      body_(data_);
    }
    part = {};
  }

  void (*body_)(void*);
  void* data_;
  int members_;
  TeamRegion region_;
};
thread_local std::optional<Opened> opened;

thread_local int planned = 0;  // 0: as many as there are

}  // namespace

namespace atenon::kernels {

PlannedThreads::PlannedThreads(int count) { planned = count; }
PlannedThreads::~PlannedThreads() { planned = 0; }

}  // namespace atenon::kernels

#define ATENON_FOR_ONEDNN extern "C" __attribute__((visibility("default")))

ATENON_FOR_ONEDNN int atenon_omp_get_max_threads() { return planned > 0 ? planned : in_region() ? 1 : threads(); }
ATENON_FOR_ONEDNN int atenon_omp_get_num_threads() { return part.members; }
ATENON_FOR_ONEDNN int atenon_omp_get_thread_num() { return part.member; }
ATENON_FOR_ONEDNN int atenon_omp_in_parallel() { return in_region() ? 1 : 0; }

// 0 threads: as many as there are.
ATENON_FOR_ONEDNN void atenon_GOMP_parallel_start(void (*body)(void*), void* data, unsigned count) {
  opened.emplace(body, data, count == 0 ? threads() : static_cast<int>(count));
}
ATENON_FOR_ONEDNN void atenon_GOMP_parallel_end() { opened.reset(); }

// Members that one thread stands for cannot wait for each other. What oneDNN computes here has no barriers.
ATENON_FOR_ONEDNN void atenon_GOMP_barrier() {
  if (!part.team) return;
  if (part.team->members() < part.members) std::abort();
  part.team->wait();
}

// schedule(static): without a chunk, each member has one piece of nearly equal length; with one, pieces go round.
ATENON_FOR_ONEDNN bool atenon_GOMP_loop_static_next(long* first, long* last) {
  if (part.piece == 0 || (part.step > 0 ? part.next >= part.end : part.next <= part.end)) return false;
  *first = part.next;
  *last = part.next + part.piece * part.step;
  if (part.step > 0 ? *last > part.end : *last < part.end) *last = part.end;
  part.next += part.members * part.piece * part.step;
  return true;
}
ATENON_FOR_ONEDNN bool atenon_GOMP_loop_static_start(long start, long end, long step, long chunk, long* first,
                                                     long* last) {
  const long count = std::max((end - start + step - (step > 0 ? 1 : -1)) / step, 0L);
  part.piece = chunk > 0 ? chunk : (count + part.members - 1) / part.members;
  part.next = start + part.member * part.piece * step;
  part.end = end;
  part.step = step;
  return atenon_GOMP_loop_static_next(first, last);
}
ATENON_FOR_ONEDNN void atenon_GOMP_loop_end_nowait() { part.piece = 0; }
