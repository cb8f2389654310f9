// Real data: storages, owned or mapped, and strided tensors over them.
//
// Storages are shared by identity: two tensors alias exactly when they hold the same Storage object. Sizes and strides
// here are concrete and count elements; symbolic types are ir/types.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"
#include "tensor/scalar_type.h"

namespace atenon {

// Bytes that have not come yet: several storages lie in them.
class Incoming {
 public:
  virtual ~Incoming() = default;
  virtual std::byte* load() = 0;  // waits for all of them; they live as long as this
};

// A run of bytes, aligned to 64 where we allocate it. Bytes may be absent (a text program names large weights by digest
// only): then data() is null while size() is known.
class Storage {
 public:
  static std::shared_ptr<Storage> allocate(size_t bytes);  // not initialised
  static std::shared_ptr<Storage> zeros(size_t bytes);
  // Bytes that somebody else owns; `keep_alive` is held as long as the storage lives.
  static std::shared_ptr<Storage> view(void* data, size_t bytes, std::shared_ptr<void> keep_alive, bool writable);
  static std::shared_ptr<Storage> absent(size_t bytes, std::string digest);
  // Bytes that are waited for on first read, at `offset` of what comes.
  static std::shared_ptr<Storage> incoming(size_t bytes, std::shared_ptr<Incoming> origin, size_t offset);
  // Bytes made on first read, by `fill(data)`: how random initialisation that nobody reads costs nothing.
  static std::shared_ptr<Storage> lazy(size_t bytes, std::function<void(void*)> fill);

  size_t size() const { return size_; }
  bool is_absent() const { return absent_; }
  // Where the bytes come from, or came from unless they were changed; null of all other storages.
  const std::shared_ptr<Incoming>& origin() const { return origin_; }
  size_t origin_offset() const { return origin_offset_; }
  bool is_lazy() const { return pending_.load(std::memory_order_acquire); }
  // Materialises a lazy storage; null if absent. Safe to call from several threads at once.
  const void* data();
  // The same for writing: copies bytes that must not be written first, and forgets the digest.
  void* mutable_data();
  // A writer that overwrites every byte calls this first: drops a pending fill unread.
  void discard_pending();
  // Replaces the whole content by what `fill` makes on first read; what was pending before is dropped unread.
  void fill_later(std::function<void(void*)> fill);
  // Changes a part of the content: at once, or right after the pending fill.
  void change(std::function<void(void*)> change);
  const std::string& digest() const { return digest_; }                 // XXH3-128, 32 hex digits; "" unless known
  void set_digest(std::string digest) { digest_ = std::move(digest); }  // by who has computed or read it
  // Bytes of a file that nobody has compared with digest() yet: program::verify_digests does, before weights are used.
  bool is_unchecked() const { return unchecked_; }
  void set_unchecked(bool unchecked) { unchecked_ = unchecked; }
  // The content as the zstd frame that it was read from, so that who passes it on need not decode it; empty if there is
  // none. `owner` keeps the frame alive.
  std::string_view packed() const { return packed_; }
  void set_packed(std::string_view frame, std::shared_ptr<void> owner) {
    packed_ = frame;
    packed_owner_ = std::move(owner);
  }

 private:
  Storage() = default;
  void forget_origin();  // the content is no longer what was read
  void allocate_bytes();

  void* data_ = nullptr;
  size_t size_ = 0;
  bool absent_ = false;
  bool writable_ = true;
  bool unchecked_ = false;
  std::string digest_;
  std::string_view packed_;
  std::shared_ptr<void> packed_owner_;
  std::shared_ptr<void> keep_alive_;  // owns data_, or keeps its owner
  std::function<void(void*)> fill_;
  std::shared_ptr<Incoming> origin_;
  size_t origin_offset_ = 0;
  std::atomic<bool> pending_ = false;  // fill_ has not run
  std::mutex filling_;
};

// A strided window on a storage. Copying a Tensor shares the storage.
struct Tensor {
  ScalarType dtype = ScalarType::f32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements
  int64_t offset = 0;            // elements
  std::shared_ptr<Storage> storage;

  // A new contiguous tensor, not initialised.
  static Tensor empty(ScalarType dtype, std::vector<int64_t> sizes);
  static Tensor zeros(ScalarType dtype, std::vector<int64_t> sizes);
  // A tensor of rank 0.
  static Tensor scalar(double value, ScalarType dtype);

  int64_t numel() const;
  size_t nbytes() const { return static_cast<size_t>(numel()) * size_of(dtype); }
  bool is_contiguous() const;
  Tensor contiguous() const;  // itself, or a copy in row-major order
  const void* data() const;   // of the first element
  void* mutable_data();
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data());
  }
  template <class T>
  T* mutable_as() {
    return static_cast<T*>(mutable_data());
  }

  // Elements from data() to the one at a row-major position.
  int64_t index_of(int64_t position) const;
  // The element at a row-major position, widened. Integers beyond 2^53 need int_at.
  double float_at(int64_t position) const;
  int64_t int_at(int64_t position) const;
  void set(int64_t position, double value);
  void set_int(int64_t position, int64_t value);
};

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes);
// Converts element by element as PyTorch does: floats to integers truncate (out of range as x86 does: the lowest
// integer, narrower ones its low bits), anything to bool is != 0, complex to real drops the imaginary part.
Tensor cast(const Tensor& tensor, ScalarType dtype);

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

}  // namespace atenon
