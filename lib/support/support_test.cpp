// Support: messages as users see them, digests, threads, files that appear whole or not at all.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/exceptions.h"
#include "support/hash.h"
#include "support/math.h"
#include "support/parallel.h"
#include "support/result.h"
#include "support/streams.h"

namespace fs = std::filesystem;
using namespace atenon;

namespace {

struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    char name[] = "/tmp/atenon-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

}  // namespace

TEST_CASE("a diagnostic shows place, line, caret and notes") {
  const Diagnostic diagnostic =
      error(Status::bad_input, 107, "aten::gelu has no argument 'aproximate'")
          .at({"mlp.txt", 7, 36, 10, "  %h: f32[s0, 10] = aten::gelu(%y, aproximate=\"tanh\")\n"})
          .note("did you mean 'approximate'?")
          .note("aten::gelu is defined here", {"opsets/aten/pointwise.ops", 1, 0, 1, ""});
  CHECK(diagnostic.render("atenon-decompose") ==
        "atenon-decompose: mlp.txt:7:36: error[E0107]: aten::gelu has no argument 'aproximate'\n"
        "  %h: f32[s0, 10] = aten::gelu(%y, aproximate=\"tanh\")\n"
        "                                   ^~~~~~~~~~\n"
        "note: did you mean 'approximate'?\n"
        "note: opsets/aten/pointwise.ops:1: aten::gelu is defined here\n");
}

TEST_CASE("the caret stands right under any text") {
  const auto rendered = [](SourceSpan span) { return error(Status::bug, 0, "m").at(std::move(span)).render("t"); };
  CHECK(rendered({"f", 1, 4, 2, "\xC3\xA4\xC3\xB6x"}) ==
        "t: f:1:4: error: m\n  \xC3\xA4\xC3\xB6x\n    ^\n");  // 2 bytes an umlaut
  CHECK(rendered({"f", 1, 2, 99, "abc"}) == "t: f:1:2: error: m\n  abc\n   ^~\n");
  CHECK(rendered({"f", 1, 4, 1, "abc"}) == "t: f:1:4: error: m\n  abc\n     ^\n");  // just behind the end
  CHECK(rendered({"f", 1, 9, 1, "abc"}) == "t: f:1:9: error: m\n  abc\n");
  CHECK(rendered({"f", 1, 0, 1, "\ta\tc"}) == "t: f:1: error: m\n  a c\n");
  CHECK(rendered({}) == "t: error: m\n");
  CHECK(error(Status::no, 3, "m").render("t", "warning") == "t: warning[E0003]: m\n");
}

TEST_CASE("the nearest name is suggested if it is near") {
  const std::vector<std::string> names = {"add", "addmm", "gelu", "relu", "layer_norm"};
  CHECK(nearest("gleu", names) == "gelu");
  CHECK(nearest("layernorm", names) == "layer_norm");
  CHECK(nearest("ad", names) == "add");
  CHECK(nearest("conv2d", names).empty());
  CHECK(nearest("x", {"y"}).empty());
}

TEST_CASE("digests are XXH3-128, in one piece or several") {
  CHECK(xxh3_128("", 0) == "99aa06d3014798d86001c324468d497f");
  Hasher hasher;
  hasher.add("ab", 2);
  hasher.add("c", 1);
  CHECK(hasher.digest() == xxh3_128("abc", 3));
}

TEST_CASE("sines of large numbers are exact") {
  const double arguments[] = {1e6 + 1, 1e15, 1e22, 5.319372648326541e+255, 1.7976931348623157e308, -1e22};
  for (const double x : arguments) {
    CHECK(std::fabs(math::sin(x) - static_cast<double>(std::sin(static_cast<long double>(x)))) <= 3e-16);
    CHECK(std::fabs(math::cos(x) - static_cast<double>(std::cos(static_cast<long double>(x)))) <= 3e-16);
  }
}

TEST_CASE("members of a team meet at the end of each phase") {
  const int before = threads();
  for (int count : {1, 2, 5}) {
    set_threads(count);
    std::atomic<int> arrivals = 0, early = 0, most = 0;
    run_team(4, [&](Team& team, int member) {
      if (member == 0) most = team.members();
      for (int phase = 1; phase <= 200; ++phase) {
        ++arrivals;
        team.wait();
        if (arrivals < phase * team.members()) ++early;
        team.wait();
      }
    });
    CHECK(early == 0);
    CHECK(most == std::min(count, 4));
    CHECK(arrivals == 200 * most);
    parallel_for(3, [&](int64_t) { run_team(4, [&](Team& team, int) { early += team.members() - 1; }); });
    CHECK(early == 0);
  }
  set_threads(before);
}

TEST_CASE("parallel_for runs every tile once, for any number of threads") {
  for (const int count : {1, 2, 5}) {
    set_threads(count);
    CHECK(threads() == count);
    std::vector<std::atomic<int>> seen(1000);
    parallel_for(1000, [&](int64_t i) {
      parallel_for(2, [&](int64_t) { ++seen[static_cast<size_t>(i)]; });  // nested: one thread
    });
    CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& n) { return n == 2; }));
  }
  parallel_for(0, [](int64_t) { FAIL("no tile, no call"); });
  set_threads(0);
  CHECK(threads() >= 1);
}

TEST_CASE("tiles are taken from a part of one's own first, then from the others' but for their first runs") {
  using Runs = std::vector<std::pair<int64_t, int64_t>>;
  const auto taken_by = [](Tiles& tiles, int64_t member) {
    Runs runs;
    tiles.for_each_run(member, [&](int64_t first, int64_t last) { runs.emplace_back(first, last); });
    return runs;
  };
  Tiles tiles(10, 2, 2);
  CHECK(taken_by(tiles, 1) == Runs{{5, 7}, {7, 8}, {8, 9}, {9, 10}, {2, 3}, {3, 4}, {4, 5}});
  CHECK(taken_by(tiles, 0) == Runs{{0, 2}});
  Tiles few(2, 3);
  CHECK(taken_by(few, 2) == Runs{});
  CHECK(taken_by(few, 1) == Runs{{1, 2}});
  CHECK(taken_by(few, 0) == Runs{{0, 1}});
  for (const int64_t count : {0, 1, 100})
    for (const int64_t members : {1, 3, 40})
      for (const int64_t shares : {1, 3, 1000}) {
        std::vector<int> seen(static_cast<size_t>(count));
        Tiles some(count, members, shares);
        for (int64_t member = members - 1; member >= 0; --member)
          some.for_each(member, [&](int64_t i) { ++seen[static_cast<size_t>(i)]; });
        CHECK(seen == std::vector<int>(static_cast<size_t>(count), 1));
      }
}

TEST_CASE("callers at the same time share the workers: each part is done once, whoever has them") {
  set_threads(3);
  std::atomic<int64_t> sum = 0, parts = 0, members = 0;
  const auto call = [&] {
    for (int round = 0; round < 300; ++round) {
      parallel_for(10, [&](int64_t i) { sum += i; });
      run_team(3, [&](Team& team, int member) {
        if (member == 0) members += team.members();
        ++parts;
        team.wait();
      });
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(call);
  for (std::thread& caller : callers) caller.join();
  CHECK(sum == 4 * 300 * 45);
  CHECK(parts == members);
  CHECK(members >= 4 * 300);
  set_threads(0);
}

TEST_CASE("workers that have nothing to do take no time") {
  set_threads(4);
  std::atomic<int> done = 0;
  for (int i = 0; i < 50; ++i) parallel_for(8, [&](int64_t) { ++done; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // they spin for a moment first
  const auto taken = [] {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double before = taken();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(taken() - before < 0.01);
  CHECK(done == 400);
  set_threads(0);
}

TEST_CASE("a forked child makes workers of its own, and no more than it has threads") {
  set_threads(2);
  parallel_for(2, [](int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> members = 0;
    run_team(2, [&](Team& team, int) {
      ++members;
      team.wait();
    });
    if (members != 2) _exit(1);
    run_team(16, [](Team& team, int) { team.wait(); });
    _exit(std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()) == 2 ? 0 : 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  set_threads(0);
}

TEST_CASE("a file appears on commit, whole") {
  const TemporaryFolder folder;
  const std::string path = folder.path / "out";
  {
    auto file = OutputFile::create(path);
    REQUIRE(file);
    REQUIRE(file->write("half"));
  }
  CHECK(folder.entries() == 0);
  REQUIRE(write_contents(path, "first"));
  fs::permissions(path, fs::perms(0640));
  fs::create_symlink("out", folder.path / "link");
  REQUIRE(write_contents(folder.path / "link", "second"));
  CHECK(fs::is_symlink(folder.path / "link"));
  // What an earlier process of the same number left behind, as the first ones of containers are.
  const std::string left = path + ".tmp" + std::to_string(getpid());
  REQUIRE(write_contents(left, ""));
  CHECK(write_contents(path, "second"));
  fs::remove(left);
  CHECK(fs::status(path).permissions() == fs::perms(0640));
  auto contents = read_contents(path);
  REQUIRE(contents);
  CHECK(contents->mapped);
  CHECK(contents->text() == "second");
  CHECK(folder.entries() == 2);
}

// Where a file must have a name, as on network file systems.
static bool forbid_nameless_files() {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 3),
                           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                           BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_CASE("a file that must have a name goes with the process that a signal ends") {
  const TemporaryFolder folder;
  for (const bool is_committed : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      if (!forbid_nameless_files()) _exit(77);
      std::signal(SIGTERM, SIG_DFL);
      auto file = OutputFile::create(folder.path / "out");
      if (!file || !file->write("half") || folder.entries() != 1) _exit(1);
      if (is_committed && !file->commit()) _exit(2);
      raise(SIGTERM);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) continue;  // no such filters here
    CHECK(WIFSIGNALED(status));
    CHECK(folder.entries() == (is_committed ? 1 : 0));
  }
}

TEST_CASE("what a library throws is explained") {
  CHECK(explain(std::bad_alloc()).code == 10);
  const Diagnostic threads =
      explain(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(threads.render("t") == "t: error[E0011]: this process may start no more threads\n");
  CHECK(threads.status == Status::unsupported);
  CHECK(explain(std::runtime_error("x")).status == Status::bug);
}

TEST_CASE("failures name the file") {
  const TemporaryFolder folder;
  const std::string absent = folder.path / "absent";
  CHECK(read_contents(absent).failure().render("t") == "t: error[E0001]: there is no '" + absent + "'\n");
  CHECK(read_contents(folder.path).failure().code == 2);
  CHECK(OutputFile::create(absent + "/x").failure().code == 1);
  CHECK(OutputFile::create(folder.path).failure().code == 1);
  CHECK(OutputFile::create("").failure().code == 1);
  CHECK(read_contents("/dev/zero").failure().code == 2);  // which has no end
  CHECK(read_contents("/dev/null")->size == 0);
  if (fs::exists("/dev/full")) CHECK(write_contents("/dev/full", "x").failure().code == 3);
}

TEST_CASE("pipes: read to the end; a reader that left is no error") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string path = "/proc/self/fd/" + std::to_string(ends[1]);
  auto file = OutputFile::create(path);
  REQUIRE(file);
  REQUIRE(file->write("through a pipe"));
  REQUIRE(file->commit());
  close(ends[1]);
  auto contents = read_contents("/proc/self/fd/" + std::to_string(ends[0]));
  REQUIRE(contents);
  CHECK(contents->text() == "through a pipe");

  REQUIRE(pipe(ends) == 0);
  auto closed = OutputFile::create("/proc/self/fd/" + std::to_string(ends[1]));
  REQUIRE(closed);
  close(ends[0]);
  CHECK(closed->write("nobody listens"));
  CHECK(closed->write("still fine"));
  close(ends[1]);
}
