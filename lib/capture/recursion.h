// Python's own limit on recursion, for our functions that walk nested lists and dicts: one that holds itself is a
// RecursionError, and not the end of the stack.
#pragma once

#include "capture/python.h"

namespace atenon::capture {

// One level deeper while it lives; false with the exception set where that is too deep.
class Recursion {
 public:
  explicit Recursion(const char* where) : is_fine_(Py_EnterRecursiveCall(where) == 0) {}
  ~Recursion() {
    if (is_fine_) Py_LeaveRecursiveCall();
  }
  Recursion(const Recursion&) = delete;
  Recursion& operator=(const Recursion&) = delete;
  explicit operator bool() const { return is_fine_; }

 private:
  bool is_fine_;
};

}  // namespace atenon::capture
