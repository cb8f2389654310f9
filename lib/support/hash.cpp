// XXH3-128 by libxxhash.
#include "support/hash.h"

#include <xxhash.h>

#include <cstdio>

namespace atenon {
namespace {

std::string hex(XXH128_hash_t hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
};

std::string xxh3_128(const void* data, size_t bytes) { return hex(XXH3_128bits(data, bytes)); }

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
Hasher::~Hasher() { XXH3_freeState(state_->xxh); }
void Hasher::add(const void* data, size_t bytes) { XXH3_128bits_update(state_->xxh, data, bytes); }
std::string Hasher::digest() const { return hex(XXH3_128bits_digest(state_->xxh)); }

}  // namespace atenon
