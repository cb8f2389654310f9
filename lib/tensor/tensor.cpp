// Storages and strided windows on them.
#include "tensor/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tensor/elements.h"

namespace atenon {
namespace {

constexpr size_t huge_page = size_t{2} << 20;

// Calls `visit(position, index)` in row-major order, index relative to the tensor's offset.
template <class Visit>
void for_each_element(const Tensor& tensor, Visit visit) {
  const int64_t count = tensor.numel();
  std::vector<int64_t> at(tensor.sizes.size());
  int64_t index = 0;
  for (int64_t position = 0; position < count; ++position) {
    visit(position, index);
    for (size_t axis = at.size(); axis-- > 0;) {
      index += tensor.strides[axis];
      if (++at[axis] < tensor.sizes[axis]) break;
      index -= tensor.strides[axis] * tensor.sizes[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace

void Storage::allocate_bytes() {
  // Weights are written once: with pages of 2 MB, the first touch costs a third of what it does with small ones.
  const size_t alignment = size_ >= huge_page ? huge_page : 64;
  // At least one byte, so that data() is null only for absent bytes.
  if (posix_memalign(&data_, alignment, std::max<size_t>(size_, 1)) != 0) throw std::bad_alloc();
  // The last one would hold more than was asked for, and than `run --memory` says.
  if (alignment == huge_page) madvise(data_, size_ / huge_page * huge_page, MADV_HUGEPAGE);
  keep_alive_ = std::shared_ptr<void>(data_, &std::free);
  writable_ = true;
}

std::shared_ptr<Storage> Storage::allocate(size_t bytes) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->size_ = bytes;
  storage->allocate_bytes();
  return storage;
}

std::shared_ptr<Storage> Storage::zeros(size_t bytes) {
  std::shared_ptr<Storage> storage = allocate(bytes);
  std::memset(storage->data_, 0, bytes);
  return storage;
}

std::shared_ptr<Storage> Storage::view(void* data, size_t bytes, std::shared_ptr<void> keep_alive, bool writable) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->data_ = data;
  storage->size_ = bytes;
  storage->keep_alive_ = std::move(keep_alive);
  storage->writable_ = writable;
  return storage;
}

std::shared_ptr<Storage> Storage::absent(size_t bytes, std::string digest) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->size_ = bytes;
  storage->absent_ = true;
  storage->digest_ = std::move(digest);
  return storage;
}

std::shared_ptr<Storage> Storage::lazy(size_t bytes, std::function<void(void*)> fill) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->size_ = bytes;
  storage->fill_ = std::move(fill);
  storage->pending_ = true;
  return storage;
}

std::shared_ptr<Storage> Storage::incoming(size_t bytes, std::shared_ptr<Incoming> origin, size_t offset) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->size_ = bytes;
  storage->writable_ = false;
  storage->origin_ = std::move(origin);
  storage->origin_offset_ = offset;
  storage->pending_ = true;
  return storage;
}

const void* Storage::data() {
  if (pending_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(filling_);
    if (pending_.load(std::memory_order_relaxed)) {
      if (origin_) {
        data_ = origin_->load() + origin_offset_;
      } else {
        allocate_bytes();
        fill_(data_);
        fill_ = nullptr;
      }
      pending_.store(false, std::memory_order_release);
    }
  }
  return data_;
}

void* Storage::mutable_data() {
  if (absent_) return nullptr;
  data();
  if (!writable_) {
    const void* original = data_;
    const std::shared_ptr<void> keep = keep_alive_;
    allocate_bytes();
    std::memcpy(data_, original, size_);
  }
  forget_origin();
  return data_;
}

void Storage::forget_origin() {
  origin_ = nullptr;
  digest_.clear();
  set_packed({}, nullptr);
  unchecked_ = false;
}

void Storage::discard_pending() {
  const std::lock_guard lock(filling_);
  if (!pending_.load(std::memory_order_relaxed)) return;
  forget_origin();
  allocate_bytes();
  fill_ = nullptr;
  pending_.store(false, std::memory_order_release);
}

void Storage::fill_later(std::function<void(void*)> fill) {
  const std::lock_guard lock(filling_);
  data_ = nullptr;
  keep_alive_ = nullptr;
  forget_origin();
  fill_ = std::move(fill);
  pending_.store(true, std::memory_order_release);
}

void Storage::change(std::function<void(void*)> change) {
  if (is_lazy() && !origin_) {
    forget_origin();
    fill_ = [before = std::move(fill_), change = std::move(change)](void* data) {
      before(data);
      change(data);
    };
  } else if (void* data = mutable_data()) {
    change(data);
  }
}

Tensor Tensor::empty(ScalarType dtype, std::vector<int64_t> sizes) {
  auto bytes = static_cast<int64_t>(size_of(dtype));
  for (const int64_t size : sizes)  // an empty tensor has strides, too
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) throw std::bad_alloc();
  Tensor tensor{.dtype = dtype, .sizes = std::move(sizes)};
  tensor.strides = contiguous_strides(tensor.sizes);
  tensor.storage = Storage::allocate(tensor.nbytes());
  return tensor;
}

Tensor Tensor::zeros(ScalarType dtype, std::vector<int64_t> sizes) {
  Tensor tensor = empty(dtype, std::move(sizes));
  std::memset(tensor.mutable_data(), 0, tensor.nbytes());
  return tensor;
}

Tensor Tensor::scalar(double value, ScalarType dtype) {
  Tensor tensor = empty(dtype, {});
  tensor.set(0, value);
  return tensor;
}

int64_t Tensor::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (sizes[axis] == 0) return true;
    if (sizes[axis] != 1 && strides[axis] != expected) {
      for (const int64_t size : sizes) {
        if (size == 0) return true;
      }
      return false;
    }
    expected *= sizes[axis];
  }
  return true;
}

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  Tensor copy = empty(dtype, sizes);
  visit_element_type(dtype, [&]<class T>(T) {
    const T* from = as<T>();
    T* to = copy.mutable_as<T>();
    for_each_element(*this, [&](int64_t position, int64_t index) { to[position] = from[index]; });
  });
  return copy;
}

const void* Tensor::data() const {
  const void* bytes = storage ? storage->data() : nullptr;  // a tensor that holds nothing has no storage
  return bytes == nullptr ? nullptr : static_cast<const char*>(bytes) + offset * static_cast<int64_t>(size_of(dtype));
}

void* Tensor::mutable_data() {
  void* bytes = storage->mutable_data();
  return bytes == nullptr ? nullptr : static_cast<char*>(bytes) + offset * static_cast<int64_t>(size_of(dtype));
}

int64_t Tensor::index_of(int64_t position) const {
  if (is_contiguous()) return position;
  int64_t index = 0;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    index += position % sizes[axis] * strides[axis];
    position /= sizes[axis];
  }
  return index;
}

double Tensor::float_at(int64_t position) const {
  return visit_element_type(dtype, [&]<class T>(T) { return convert<double>(as<T>()[index_of(position)]); });
}

int64_t Tensor::int_at(int64_t position) const {
  return visit_element_type(dtype, [&]<class T>(T) { return convert<int64_t>(as<T>()[index_of(position)]); });
}

void Tensor::set(int64_t position, double value) {
  visit_element_type(dtype, [&]<class T>(T) { mutable_as<T>()[index_of(position)] = convert<T>(value); });
}

void Tensor::set_int(int64_t position, int64_t value) {
  visit_element_type(dtype, [&]<class T>(T) { mutable_as<T>()[index_of(position)] = convert<T>(value); });
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(sizes[axis], 1);  // as PyTorch: empty axes count as one
  }
  return strides;
}

Tensor cast(const Tensor& tensor, ScalarType dtype) {
  Tensor out = Tensor::empty(dtype, tensor.sizes);
  const int64_t count = tensor.numel();
  visit_element_type(tensor.dtype, [&]<class From>(From) {
    const From* from = tensor.as<From>();
    visit_element_type(dtype, [&]<class To>(To) {
      To* to = out.mutable_as<To>();
      if (tensor.is_contiguous()) {
        for (int64_t i = 0; i < count; ++i) to[i] = convert<To>(from[i]);
      } else {
        for_each_element(tensor, [&](int64_t position, int64_t index) { to[position] = convert<To>(from[index]); });
      }
    });
  });
  return out;
}

}  // namespace atenon
