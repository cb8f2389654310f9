// Objects that one thread uses at a time, kept for the next use by any thread: what a call needs besides its data.
#pragma once

#include <array>
#include <atomic>
#include <memory>

namespace atenon {

// A number of this thread among all that asked: 0, 1, ...
inline unsigned thread_number() {
  static std::atomic<unsigned> next = 0;
  thread_local const unsigned number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// Neither side locks or allocates. A thread begins at a slot of its own, so threads seldom meet.
template <class T>
class Idle {
 public:
  Idle() = default;
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;
  ~Idle() {
    while (take()) {}
  }

  // An object for which `fits` holds, now the caller's; null: none is idle.
  template <class Fits>
  std::unique_ptr<T> take(const Fits& fits) {
    for (unsigned i = 0; i < slots_.size(); ++i) {
      std::atomic<T*>& slot = at(i);
      if (!slot.load(std::memory_order_relaxed)) continue;
      std::unique_ptr<T> found(slot.exchange(nullptr, std::memory_order_acquire));
      if (found && fits(*found)) return found;
      if (found) give(std::move(found), i);
    }
    return nullptr;
  }
  std::unique_ptr<T> take() {
    return take([](const T&) { return true; });
  }

  // Keeps the object where there is room, else deletes it.
  void give(std::unique_ptr<T> object) { give(std::move(object), 0); }

 private:
  std::atomic<T*>& at(unsigned i) { return slots_[(thread_number() + i) % slots_.size()]; }

  void give(std::unique_ptr<T> object, unsigned first) {
    for (unsigned i = 0; i < slots_.size(); ++i) {
      T* empty = nullptr;
      if (!at(first + i).compare_exchange_strong(empty, object.get(), std::memory_order_release)) continue;
      object.release();
      return;
    }
  }

  std::array<std::atomic<T*>, 64> slots_{};
};

}  // namespace atenon
