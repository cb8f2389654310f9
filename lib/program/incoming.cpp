// Segments in a pipe: passed on, or loaded after all.
#include "program/incoming.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "program/container.h"

namespace atenon::program {

IncomingSegments::IncomingSegments(InputStream stream, std::string file_name, size_t size, std::string trailer)
    : stream_(std::move(stream)), file_name_(std::move(file_name)), size_(size), trailer_(std::move(trailer)) {}

Diagnostic IncomingSegments::cut_off() const {
  return damaged(231, file_name_, "the program is cut off: it ends within its weights or code");
}

std::optional<Diagnostic> IncomingSegments::end_problem(std::string_view end) const {
  if (end.size() < trailer_.size()) return cut_off();
  if (!end.starts_with(trailer_)) return damaged(232, file_name_, "the file is damaged: its trailer is wrong");
  if (end.size() > trailer_.size()) return damaged(234, file_name_, "there are bytes behind the end of the program");
  return std::nullopt;
}

std::byte* IncomingSegments::load() {
  const std::lock_guard lock(loading_);
  if (is_loaded()) return contents_.bytes;
  assert(position_ == 0);  // what has been passed on cannot be had again
  Result<Contents> rest = stream_.rest(size_ + trailer_.size() + 1);
  if (rest && rest->size >= size_) {
    contents_ = std::move(*rest);
    problem_ = end_problem(contents_.text().substr(size_));
    return contents_.bytes;
  }
  problem_ = rest ? cut_off() : rest.error();
  contents_ = zeros(std::max<size_t>(size_, 1));
  if (rest) std::memcpy(contents_.bytes, rest->bytes, rest->size);
  return contents_.bytes;
}

Result<void> IncomingSegments::drop(size_t bytes) {
  std::array<std::byte, large_alignment> dropped;  // padding, mostly
  while (bytes > 0) {
    const Result<size_t> got = stream_.read(dropped.data(), std::min(bytes, dropped.size()));
    if (!got) return got.failure();
    if (*got == 0) return cut_off();
    bytes -= *got;
    position_ += *got;
  }
  return {};
}

Result<void> IncomingSegments::pass(size_t offset, size_t size, OutputFile& output, Hasher* hasher) {
  assert(!is_loaded() && offset >= position_);
  if (Result<void> dropped = drop(offset - position_); !dropped) return dropped;
  const Result<size_t> taken = output.take(stream_, size, hasher);
  if (!taken) return taken.failure();
  position_ += *taken;
  return *taken < size ? Result<void>(cut_off()) : Result<void>();
}

Result<void> IncomingSegments::finish() {
  if (is_loaded()) return problem_ ? Result<void>(*problem_) : Result<void>();
  if (Result<void> dropped = drop(size_ - position_); !dropped) return dropped;
  std::string end(trailer_.size() + 1, '\0');
  const Result<size_t> got = stream_.read(end.data(), end.size());
  if (!got) return got.failure();
  end.resize(*got);
  if (const std::optional<Diagnostic> problem = end_problem(end)) return *problem;
  return {};
}

IncomingSegments* incoming(const Storage& storage) {
  auto* segments = dynamic_cast<IncomingSegments*>(storage.origin().get());
  return segments && !segments->is_loaded() ? segments : nullptr;
}

}  // namespace atenon::program
