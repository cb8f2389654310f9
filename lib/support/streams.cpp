// Contents and OutputFile over POSIX.
#include "support/streams.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace atenon {
namespace {

Diagnostic cannot(const std::string& verb, int code, const std::string& path, int error_number) {
  const std::string name = path == "-" ? "standard " + std::string(code == 3 ? "output" : "input") : "'" + path + "'";
  const bool absent = error_number == ENOENT || error_number == ENOTDIR;
  return error(Status::usage, code,
               absent ? "there is no " + name : "cannot " + verb + " " + name + ": " + std::strerror(error_number));
}

// What a pipe holds at most, for fewer switches between writer and reader: all that an unprivileged process may ask
// for.
constexpr int pipe_size = 1 << 20;

// MAP_PRIVATE with PROT_WRITE: a consumer may scribble on a weight without touching the user's file.
Contents map(int descriptor, size_t size, int flags = MAP_PRIVATE) {
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (address == MAP_FAILED) return {};
  return {static_cast<std::byte*>(address), size, std::shared_ptr<void>(address, [size](void* p) { munmap(p, size); }),
          descriptor >= 0};
}

// Pages of our own, not malloc: they grow by moving (mremap) instead of copying, are aligned for whatever lies in them,
// and huge ones take 440 MB from a pipe in 0.09 s where small ones need 0.25 s. What is never written takes no memory,
// so a limit may be far too high.
Result<Contents> read_pages(InputStream& stream, const std::string& path, size_t limit) {
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
  const size_t first = limit == SIZE_MAX ? size_t{1} << 20 : std::max<size_t>(limit, 1);
  size_t size = 0;
  do {
    if (!grow(std::max(size * 2, first))) return cannot("read", 2, path, ENOMEM);
    const size_t wanted = std::min(pages->size, limit) - size;
    const Result<size_t> got = stream.read(static_cast<char*>(pages->address) + size, wanted);
    if (!got) return got.failure();
    size += *got;
  } while (size == pages->size && size < limit);
  return Contents{static_cast<std::byte*>(pages->address), size, pages, false};
}

// Names of files that are not whole yet, for the signals that end a process.
std::array<std::atomic<char*>, 16> unfinished;

void unlink_unfinished(int signal) {
  for (const std::atomic<char*>& name : unfinished)
    if (const char* found = name.load()) unlink(found);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void remember_unfinished(const std::string& name) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(signal, unlink_unfinished);
  }
  char* copy = strdup(name.c_str());
  for (std::atomic<char*>& slot : unfinished)
    if (char* empty = nullptr; slot.compare_exchange_strong(empty, copy)) return;
  free(copy);
}

void forget_unfinished(const std::string& name) {
  for (std::atomic<char*>& slot : unfinished)
    if (char* found = slot.load(); found && name == found && slot.compare_exchange_strong(found, nullptr)) free(found);
}

// Makes a file under a name beside `target` that is not taken: an earlier process of our number, as the first ones of
// containers have it, may have been killed and left one. "", with errno, where it cannot be made. A signal that ends
// the process takes the file away until it is forgotten.
std::string make_beside(const std::string& target, const std::function<bool(const char*)>& make) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // there is no instant in which it is there and not remembered
  const std::string first = target + ".tmp" + std::to_string(getpid());
  std::string name = first;
  bool is_made = make(name.c_str());
  for (int i = 1; !is_made && errno == EEXIST; ++i) {
    name = first + "-" + std::to_string(i);
    is_made = make(name.c_str());
  }
  const int problem = errno;
  if (is_made) remember_unfinished(name);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = problem;
  return is_made ? name : "";
}

}  // namespace

Contents zeros(size_t bytes) {
  Contents contents = map(-1, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (contents.bytes == nullptr) throw std::bad_alloc();
  return contents;
}

Result<InputStream> InputStream::open(const std::string& path) {
  InputStream stream(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC), path);
  if (stream.descriptor_ < 0) return cannot("open", 1, path, errno);
  struct stat status{};
  if (fstat(stream.descriptor_, &status) != 0) return cannot("read", 2, path, errno);
  if (S_ISDIR(status.st_mode)) return cannot("read", 2, path, EISDIR);
  if (S_ISFIFO(status.st_mode)) fcntl(stream.descriptor_, F_SETPIPE_SZ, pipe_size);
  return stream;
}

InputStream::InputStream(InputStream&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

InputStream::~InputStream() {
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
}

bool InputStream::is_pipe() const {
  struct stat status{};
  return fstat(descriptor_, &status) == 0 && S_ISFIFO(status.st_mode);
}

Result<size_t> InputStream::read(void* data, size_t bytes) {
  size_t size = 0;
  while (size < bytes) {
    const ssize_t got = ::read(descriptor_, static_cast<char*>(data) + size, bytes - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot("read", 2, path_, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  return size;
}

Result<Contents> InputStream::rest(size_t limit) {
  struct stat status{};
  if (fstat(descriptor_, &status) != 0) return cannot("read", 2, path_, errno);
  // Standard input may be a regular file that somebody read from already: only at its start does mapping mean the same.
  const bool is_untouched = S_ISREG(status.st_mode) && lseek(descriptor_, 0, SEEK_CUR) == 0;
  if (is_untouched && status.st_size > 0 && limit == SIZE_MAX) {
    Contents mapped = map(descriptor_, static_cast<size_t>(status.st_size));
    if (mapped.mapped) return mapped;
  }
  const bool is_endless = S_ISCHR(status.st_mode) && status.st_rdev != makedev(1, 3) && isatty(descriptor_) == 0;
  if (is_endless && limit == SIZE_MAX)  // all devices but /dev/null and terminals
    return error(Status::usage, 2, "cannot read '" + path_ + "': it is a device, which has no end");
  return read_pages(*this, path_, limit);
}

Result<Contents> read_contents(const std::string& path) {
  Result<InputStream> stream = InputStream::open(path);
  if (!stream) return stream.error();
  return stream->rest();
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  if (path == "-") {
    file.descriptor_ = STDOUT_FILENO;
    fcntl(STDOUT_FILENO, F_SETPIPE_SZ, pipe_size);  // fails, and does no harm, where it is no pipe
    return file;
  }
  if (path.empty()) return cannot("create", 1, path, ENOENT);
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
    file.temporary_ = make_beside(target, [&](const char* name) {
      file.descriptor_ = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      return file.descriptor_ >= 0;
    });
  }
  if (file.descriptor_ < 0 && errno == ENOENT && !exists && slash != std::string::npos)
    return cannot("create", 1, path.substr(0, path.rfind('/') + 1), errno);  // there is no such folder
  if (file.descriptor_ < 0) return cannot("create", 1, path, errno);
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
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  forget_unfinished(temporary_);
}

Diagnostic OutputFile::failure(int error_number) const { return cannot("write", 3, path_, error_number); }

// Calls `step(bytes left)` until all is done, it returns 0, or the reader has gone: as write and splice want it.
Result<size_t> OutputFile::repeat(size_t bytes, const std::function<ssize_t(size_t)>& step) {
  // EPIPE must come back as an error here instead of as a signal that ends us silently.
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  if (target_.empty()) sigaction(SIGPIPE, &ignore, &before);
  int error_number = 0;
  size_t done = 0;
  while (done < bytes && !closed_by_reader_ && error_number == 0) {
    const ssize_t moved = step(std::min<size_t>(bytes - done, size_t{1} << 30));
    if (moved == 0) break;
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (errno == EPIPE) {
      closed_by_reader_ = true;
    } else if (errno != EINTR) {
      error_number = errno;
    }
  }
  if (target_.empty()) sigaction(SIGPIPE, &before, nullptr);
  if (error_number != 0) return failure(error_number);
  return closed_by_reader_ ? bytes : done;
}

Result<void> OutputFile::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  const Result<size_t> put = repeat(bytes, [&](size_t left) {
    const ssize_t put = ::write(descriptor_, next, left);
    if (put > 0) next += put;
    return put;
  });
  if (!put) return put.failure();
  return {};
}

Result<size_t> OutputFile::take(InputStream& pipe, size_t bytes, Hasher* hasher) {
  bool can_splice = hasher == nullptr;
  size_t taken = 0;
  if (can_splice) {
    Result<size_t> moved = repeat(bytes, [&](size_t left) -> ssize_t {
      const ssize_t moved = ::splice(pipe.descriptor(), nullptr, descriptor_, nullptr, left, SPLICE_F_MOVE);
      can_splice = moved >= 0 || errno != EINVAL;  // as files that are appended to and some devices answer
      return can_splice ? moved : 0;
    });
    if (!moved || can_splice) return moved;
    taken = *moved;
  }
  std::vector<std::byte> buffer(std::min(bytes, size_t{1} << 18));  // stays in the cache
  while (taken < bytes && !closed_by_reader_) {
    const size_t wanted = std::min(bytes - taken, buffer.size());
    Result<size_t> got = pipe.read(buffer.data(), wanted);
    if (!got) return got;
    if (hasher) hasher->add(buffer.data(), *got);
    if (Result<void> written = write(buffer.data(), *got); !written) return written.error();
    taken += *got;
    if (*got < wanted) return taken;
  }
  return bytes;
}

Result<void> OutputFile::commit() {
  assert(descriptor_ >= 0);
  if (!target_.empty() && temporary_.empty()) {
    // linkat does not replace a name, rename does: the file gets a name of its own for that instant.
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
    temporary_ = make_beside(target_, [&](const char* name) {
      return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    });
    if (temporary_.empty()) return failure(errno);
  }
  // Network file systems report a full disk only now.
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor > STDERR_FILENO && close(descriptor) != 0) return failure(errno);
  if (target_.empty()) return {};
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return failure(errno);
  forget_unfinished(std::exchange(temporary_, ""));
  return {};
}

Result<void> write_contents(const std::string& path, std::string_view text) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.error();
  if (Result<void> written = file->write(text); !written) return written.error();
  return file->commit();
}

}  // namespace atenon
