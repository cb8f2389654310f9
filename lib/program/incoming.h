// A program's segments while a pipe still holds them: private to lib/program.
//
// A stage of a pipeline that leaves weights alone never has them in its memory: they go from its pipe to the next one
// (splice), page by page and without being copied. Memory that is touched for the first time is what a stage costs:
// 0.4 s for 440 MB, where passing them on takes 0.05 s.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "support/result.h"
#include "support/streams.h"
#include "tensor/tensor.h"

namespace atenon::program {

class IncomingSegments final : public Incoming {
 public:
  // `size` bytes of segments and then a trailer are what `stream` has left, if it is whole.
  IncomingSegments(InputStream stream, std::string file_name, size_t size, std::string trailer);

  // All segments, in memory, once; what the pipe did not bring reads as zeros, and is the problem().
  std::byte* load() override;
  bool is_loaded() const { return contents_.bytes != nullptr; }
  // Of load(): E0231: cut off; E0232: a wrong trailer; E0234: bytes behind it; E0002: reading failed.
  const std::optional<Diagnostic>& problem() const { return problem_; }

  // Takes a segment out of the pipe into `output`, and drops what lies before it: segments must be asked for in order,
  // and not after load(). `hasher`, if there is one, sees the bytes.
  Result<void> pass(size_t offset, size_t size, OutputFile& output, Hasher* hasher);
  // Reads to the end of the pipe, if load() has not. The same errors.
  Result<void> finish();

 private:
  std::optional<Diagnostic> end_problem(std::string_view end) const;
  Result<void> drop(size_t bytes);
  Diagnostic cut_off() const;

  InputStream stream_;
  std::string file_name_;
  size_t size_;
  std::string trailer_;
  size_t position_ = 0;  // what has been taken out of the pipe
  Contents contents_;
  std::optional<Diagnostic> problem_;
  std::mutex loading_;
};

// Where a storage's bytes still are; null if they are in memory or absent.
IncomingSegments* incoming(const Storage& storage);

}  // namespace atenon::program
