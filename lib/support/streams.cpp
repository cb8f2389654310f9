// Contents and OutputFile over POSIX.
#include "support/streams.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace atenon {
namespace {

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number > STDERR_FILENO) close(number);
  }
};

Diagnostic cannot(const std::string& verb, int code, const std::string& path, int error_number) {
  const std::string name = path == "-" ? "standard " + std::string(code == 3 ? "output" : "input") : "'" + path + "'";
  const bool absent = error_number == ENOENT || error_number == ENOTDIR;
  return error(Status::usage, code,
               absent ? "there is no " + name : "cannot " + verb + " " + name + ": " + std::strerror(error_number));
}

// What a pipe holds at most, for fewer switches between writer and reader: all that an unprivileged process may ask
// for.
constexpr int pipe_size = 1 << 20;

Contents map(int descriptor, size_t size) {
  // MAP_PRIVATE with PROT_WRITE: a consumer may scribble on a weight without touching the user's file.
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) return {};
  return {static_cast<std::byte*>(address), size, std::shared_ptr<void>(address, [size](void* p) { munmap(p, size); }),
          true};
}

// Pages of our own, not malloc: they grow by moving (mremap) instead of copying, are aligned for whatever lies in them,
// and huge ones take 440 MB from a pipe in 0.09 s where small ones need 0.25 s.
Result<Contents> read_stream(int descriptor, const std::string& path) {
  struct Pages {
    void* address = MAP_FAILED;
    size_t size = 0;
    ~Pages() {
      if (address != MAP_FAILED) munmap(address, size);
    }
  };
  const auto pages = std::make_shared<Pages>();
  const auto grow = [&pages](size_t size) {
    void* grown = pages->address == MAP_FAILED
                      ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                      : mremap(pages->address, pages->size, size, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) return false;
    pages->address = grown;
    pages->size = size;
    madvise(grown, size, MADV_HUGEPAGE);
    return true;
  };
  fcntl(descriptor, F_SETPIPE_SZ, pipe_size);
  size_t size = 0;
  for (;;) {
    if (size == pages->size && !grow(std::max<size_t>(size * 2, size_t{1} << 20)))
      return cannot("read", 2, path, ENOMEM);
    const ssize_t got = ::read(descriptor, static_cast<char*>(pages->address) + size, pages->size - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot("read", 2, path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  return Contents{static_cast<std::byte*>(pages->address), size, pages, false};
}

}  // namespace

Result<Contents> read_contents(const std::string& path) {
  Descriptor file{path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) return cannot("open", 1, path, errno);
  struct stat status{};
  if (fstat(file.number, &status) != 0) return cannot("read", 2, path, errno);
  if (S_ISDIR(status.st_mode)) return cannot("read", 2, path, EISDIR);
  // Standard input may be a regular file that somebody read from already: only at its start does mapping mean the same.
  if (S_ISREG(status.st_mode) && status.st_size > 0 && lseek(file.number, 0, SEEK_CUR) == 0) {
    Contents mapped = map(file.number, static_cast<size_t>(status.st_size));
    if (mapped.mapped) return mapped;
  }
  return read_stream(file.number, path);
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  if (path == "-") {
    file.descriptor_ = STDOUT_FILENO;
    fcntl(STDOUT_FILENO, F_SETPIPE_SZ, pipe_size);  // fails, and does no harm, where it is no pipe
    return file;
  }
  // A link keeps pointing: its target is replaced.
  char resolved[PATH_MAX];
  const std::string target = realpath(path.c_str(), resolved) != nullptr ? resolved : path;
  struct stat status{};
  const bool exists = stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return cannot("create", 1, path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    file.descriptor_ = open(target.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.descriptor_ < 0) return cannot("create", 1, path, errno);
    return file;
  }
  const size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  const mode_t mode = exists ? status.st_mode & 07777 : 0666;
  file.target_ = target;
  // A file without a name vanishes with its last descriptor, whatever ends the process.
  file.descriptor_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (file.descriptor_ < 0) {
    file.temporary_ = target + ".tmp" + std::to_string(getpid());
    file.descriptor_ = open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  if (file.descriptor_ < 0) {
    file.temporary_.clear();
    return cannot("create", 1, path, errno);
  }
  if (exists && fchmod(file.descriptor_, mode) != 0) return cannot("create", 1, path, errno);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, "")),
      closed_by_reader_(other.closed_by_reader_) {}

OutputFile::~OutputFile() {
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Diagnostic OutputFile::failure(int error_number) const { return cannot("write", 3, path_, error_number); }

Result<void> OutputFile::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  // EPIPE must come back as an error here instead of as a signal that ends us silently.
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  if (target_.empty()) sigaction(SIGPIPE, &ignore, &before);
  int error_number = 0;
  while (bytes > 0 && !closed_by_reader_ && error_number == 0) {
    const ssize_t put = ::write(descriptor_, next, std::min<size_t>(bytes, size_t{1} << 30));
    if (put >= 0) {
      next += put;
      bytes -= static_cast<size_t>(put);
    } else if (errno == EPIPE) {
      closed_by_reader_ = true;
    } else if (errno != EINTR) {
      error_number = errno;
    }
  }
  if (target_.empty()) sigaction(SIGPIPE, &before, nullptr);
  if (error_number != 0) return failure(error_number);
  return {};
}

Result<void> OutputFile::commit() {
  assert(descriptor_ >= 0);
  if (!target_.empty() && temporary_.empty()) {
    // linkat does not replace a name, rename does: the file gets a name of its own for that instant.
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
    const std::string name = target_ + ".tmp" + std::to_string(getpid());
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) return failure(errno);
    temporary_ = name;
  }
  // Network file systems report a full disk only now.
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor > STDERR_FILENO && close(descriptor) != 0) return failure(errno);
  if (target_.empty()) return {};
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return failure(errno);
  temporary_.clear();
  return {};
}

Result<void> write_contents(const std::string& path, std::string_view text) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.error();
  if (Result<void> written = file->write(text); !written) return written.error();
  return file->commit();
}

}  // namespace atenon
