// Files and pipes, whole: what every reader starts from and every writer ends in.
//
// Reading maps a regular file and reads anything else to its end. Writing to a file happens aside, and the name appears
// when all is well: an interrupted tool leaves nothing behind. "-" is standard input or output. A pipe that its reader
// closed is no error: the reader has seen what it wanted. A full disk is one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "support/hash.h"
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

// Zeros that take no memory before they are written.
Contents zeros(size_t bytes);

// What is read from the front, where a whole is not wanted at once.
class InputStream {
 public:
  // "-" is standard input, which stays open. Errors as of read_contents.
  static Result<InputStream> open(const std::string& path);
  InputStream(InputStream&& other) noexcept;
  InputStream& operator=(InputStream&&) = delete;
  ~InputStream();

  bool is_pipe() const;
  // The next `bytes` bytes; fewer only at the end. E0002.
  Result<size_t> read(void* data, size_t bytes);
  // All that is left, or its first `limit` bytes: mapped if this is a regular file that nobody has read from,
  // otherwise read. E0002.
  Result<Contents> rest(size_t limit = SIZE_MAX);
  int descriptor() const { return descriptor_; }

 private:
  InputStream(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_;
  std::string path_;
};

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
  // Moves up to `bytes` bytes from a pipe, without copying them where this is a pipe, too. The number that was there,
  // fewer only at the pipe's end. With `hasher`, which sees them, they are copied. Nothing is taken once the reader
  // closed. Errors as of write; E0002.
  Result<size_t> take(InputStream& pipe, size_t bytes, Hasher* hasher = nullptr);
  // False once the reader closed the pipe.
  bool is_wanted() const { return !closed_by_reader_; }
  // Gives the file its name, replacing one that was there (with its permissions). Nothing may be written afterwards.
  Result<void> commit();

 private:
  OutputFile() = default;
  Result<size_t> repeat(size_t bytes, const std::function<ssize_t(size_t)>& step);
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
