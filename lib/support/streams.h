// Files and pipes, whole: what every reader starts from and every writer ends in.
//
// Reading maps a regular file and reads anything else to its end. Writing to a file happens aside, and the name appears
// when all is well: an interrupted tool leaves nothing behind. "-" is standard input or output. A pipe that its reader
// closed is no error: the reader has seen what it wanted. A full disk is one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "support/result.h"

namespace atenon {

// The bytes of a file or a stream, mapped (private, so a write does not reach the file) or read. Copies share them.
struct Contents {
  std::byte* bytes = nullptr;
  size_t size = 0;
  std::shared_ptr<void> keep_alive;
  bool mapped = false;

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes), size}; }
};

// E0001: it is not there or must not be read; E0002: reading failed.
Result<Contents> read_contents(const std::string& path);

// A file being written. Without commit() nothing appears.
class OutputFile {
 public:
  // "-" is standard output. Devices and named pipes are written directly. E0001 if it cannot be created.
  static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // E0003: the disk is full, or another failure to write. Ok and without effect once the reader closed the pipe.
  Result<void> write(const void* data, size_t bytes);
  Result<void> write(std::string_view text) { return write(text.data(), text.size()); }
  // Gives the file its name, replacing one that was there (with its permissions). Nothing may be written afterwards.
  Result<void> commit();

 private:
  OutputFile() = default;
  Diagnostic failure(int error_number) const;

  int descriptor_ = -1;
  std::string path_;       // as the user named it
  std::string target_;     // with symbolic links resolved; "" when written directly
  std::string temporary_;  // "" where the file system lets a file have no name
  bool closed_by_reader_ = false;
};

// Writes all of `text` to `path` ("-": standard output), whole or not at all.
Result<void> write_contents(const std::string& path, std::string_view text);

}  // namespace atenon
