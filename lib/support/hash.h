// XXH3-128, the digest of weights, code and whole files: 32 hex digits, most significant first (as xxhsum -H2 prints).
//
// Not a cryptographic hash: it finds damage, and names content, at the speed of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace atenon {

std::string xxh3_128(const void* data, size_t bytes);

// The same of bytes that come in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  void add(const void* data, size_t bytes);
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atenon
