// Machine code from memory: a shared object that no file system knows. And less memory for code from a file.
#pragma once

#include <memory>
#include <string>

#include "support/result.h"

namespace atenon {

class SharedObject {
 public:
  // `name` is what debuggers show. The failure is the system's reason, without code or place: the caller knows better.
  static Result<std::shared_ptr<const SharedObject>> open(const std::string& name, const void* bytes, size_t size);
  ~SharedObject();
  void* find(const std::string& symbol) const;  // null if absent

 private:
  SharedObject() = default;
  int file_ = -1;  // open as long as the object: its number is the name that the system's loader knows it by
  void* handle_ = nullptr;
};

// Takes the code of the object that holds `function` out of this process's resident memory. It is its file's still:
// what is called again comes back, from the system's cache, some microseconds for each 64 KB.
void unmap_code_of(const void* function);

}  // namespace atenon
