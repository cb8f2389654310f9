#include "program/program_file.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "program/container.h"
#include "program/program.pb.h"
#include "text/text.h"

using namespace atenon;

namespace {

std::string file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return (std::ostringstream() << stream.rdbuf()).str();
}

Result<ir::ExportedProgram> parse(const std::string& bytes, const program::ReadOptions& options = {}) {
  std::shared_ptr<Storage> storage = Storage::allocate(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(storage->mutable_data()));
  return program::parse(storage, "p.atn", options);
}

ir::ExportedProgram sample() {
  Result<ir::ExportedProgram> program = parse(file("testdata/format/program-1.0.txt"));
  REQUIRE(program);
  return std::move(*program);
}

ir::Weight counting(const std::string& name, int64_t count, int64_t first) {
  ir::Weight weight{name, Tensor::empty(ScalarType::i32, {count})};
  for (int64_t i = 0; i < count; ++i) weight.tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(first + i);
  return weight;
}

// Small and large, tied, of equal content but not tied.
ir::ExportedProgram with_weights() {
  ir::ExportedProgram program = sample();
  program.weights = {counting("large", 50000, 7), counting("small", 100, 0), counting("tiny", 3, 5)};
  program.weights.push_back(counting("equal", 50000, 7));
  program.weights.push_back({"tied", program.weights[1].tensor});
  program.weights.back().tensor.sizes = {10};
  program.weights.back().tensor.offset = 90;
  program.code[0].bytes = counting("", 40, 3).tensor.storage;
  program.extra_files = {{"labels.txt", counting("", 3, 1).tensor.storage},
                         {"large", counting("", 500, 1).tensor.storage}};
  return program;
}

// "ok", or the code of the error.
std::string outcome(const std::string& bytes, const program::ReadOptions& options = {}) {
  Result<ir::ExportedProgram> program = parse(bytes, options);
  if (program) return "ok";
  const Diagnostic diagnostic = program.error();
  CHECK(diagnostic.status == Status::bad_input);
  return "E0" + std::to_string(diagnostic.code);
}

std::string binary(const ir::ExportedProgram& program, bool compress = false) {
  return *program::serialize(program, {.compress = compress});
}

}  // namespace

TEST_CASE("text -> binary -> text is the identity") {
  const std::string text = file("testdata/format/program-1.0.txt");
  Result<ir::ExportedProgram> back = parse(binary(sample()));
  if (!back) FAIL(back.error().render("test"));
  CHECK(text::print(*back) == text);
}

TEST_CASE("binary -> text -> binary is the identity, given the bytes") {
  for (const bool compress : {false, true}) {
    const ir::ExportedProgram program = with_weights();
    const std::string bytes = binary(program, compress);
    Result<ir::ExportedProgram> read = parse(bytes, {.verify_weights = true});
    REQUIRE(read);
    CHECK(binary(*read, compress) == bytes);
    CHECK(binary(*read) == bytes);  // what was read compressed stays so
    Result<ir::ExportedProgram> passed_on = parse(bytes);
    REQUIRE(passed_on);
    CHECK(binary(*passed_on) == bytes);
    CHECK(passed_on->weight("large")->tensor.storage->is_lazy() == compress);  // and is not decoded on the way
    const auto& storage = [&](const char* name) { return read->weight(name)->tensor.storage; };
    CHECK(storage("small") == storage("tied"));
    CHECK(storage("large") != storage("equal"));
    CHECK(read->weight("tied")->tensor.int_at(9) == 99);
    CHECK(bytes.size() < 210000);  // equal content is stored once

    const std::string path = "program_test.atn";
    REQUIRE(program::write(program, path, {.compress = compress}));
    CHECK(file(path) == bytes);
    const std::string text = text::print(program);
    Result<ir::ExportedProgram> bare = parse(text, {.verify_weights = true});
    REQUIRE(bare);
    CHECK(program::require_weights(*bare).failure().code == 235);
    Result<ir::ExportedProgram> supplied = parse(text, {.segments = path, .verify_weights = true});
    REQUIRE(supplied);
    CHECK(binary(*supplied, compress) == bytes);
    std::remove(path.c_str());
  }
}

TEST_CASE("a file that is cut off anywhere is an error") {
  const std::string bytes = binary(sample());
  for (size_t size = 0; size < bytes.size(); ++size) REQUIRE(outcome(bytes.substr(0, size)) == "E0231");
  CHECK(outcome(bytes + "x") == "E0234");
}

// What a stage makes of a pipe that brings `bytes`: the file that it writes, or the code of its error.
std::string passed_on(const std::string& bytes, const std::function<void(ir::ExportedProgram&)>& change = {},
                      const program::WriteOptions& options = {}) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::jthread writer([&bytes, to = ends[1]] {
    std::signal(SIGPIPE, SIG_IGN);
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t put = write(to, bytes.data() + at, bytes.size() - at);
      if (put <= 0) break;
      at += static_cast<size_t>(put);
    }
    close(to);
  });
  Result<ir::ExportedProgram> program =
      program::read("/proc/self/fd/" + std::to_string(ends[0]), {.leave_in_pipe = true});
  close(ends[0]);
  if (!program) return "E0" + std::to_string(program.error().code);
  if (change) change(*program);
  const std::string path = "passed_on.atn";
  std::remove(path.c_str());
  if (Result<void> written = program::write(*program, path, options); !written) {
    CHECK(file(path).empty());
    return "E0" + std::to_string(written.error().code);
  }
  const std::string passed = file(path);
  std::remove(path.c_str());
  return passed;
}

TEST_CASE("a pipe's weights are passed on without being in memory, whole or not at all") {
  const ir::ExportedProgram program = with_weights();
  for (const bool compress : {false, true}) {
    const std::string bytes = binary(program, compress);
    CHECK(passed_on(bytes, [&](const ir::ExportedProgram& read) {
            CHECK(read.weight("large")->tensor.storage->is_lazy());
            CHECK(read.weight("small")->tensor.storage->is_lazy() == compress);
          }) == bytes);
    CHECK(passed_on(bytes, {}, {.verify = true}) == bytes);
    CHECK(passed_on(bytes, [](const ir::ExportedProgram& read) {
            CHECK(read.weight("large")->tensor.int_at(49999) == 50006);
            CHECK(program::verify_digests(read));
          }) == bytes);
    for (const size_t size :
         {size_t{0}, size_t{10}, size_t{500}, bytes.size() / 2, bytes.size() - 20, bytes.size() - 1}) {
      CAPTURE(size);
      CHECK(passed_on(bytes.substr(0, size)) == "E0231");
      CHECK(passed_on(bytes.substr(0, size), {}, {.text = true}) == "E0231");
      CHECK(passed_on(bytes.substr(0, size), {}, {.compress = true}) == "E0231");
    }
    CHECK(passed_on(bytes + "x") == "E0234");
    CHECK(passed_on(text::print(sample())) == binary(sample()));
  }

  std::string damaged = binary(program);
  damaged[damaged.size() - 100] ^= 1;
  CHECK(passed_on(damaged) == damaged);  // nobody looked
  CHECK(passed_on(damaged, {}, {.verify = true}) == "E0232");
  passed_on(damaged, [](const ir::ExportedProgram& read) {
    CHECK(program::verify_read_digests(read.weights));
    read.weight("large")->tensor.storage->data();
    CHECK(program::verify_read_digests(read.weights).failure().code == 232);
  });
  passed_on(damaged.substr(0, damaged.size() - 200),
            [](const ir::ExportedProgram& read) { CHECK(program::verify_digests(read).failure().code == 231); });

  // Weights that are asked for in another order than the pipe's.
  ir::ExportedProgram two = sample();
  two.weights = {counting("first", 30000, 1), counting("second", 40000, 2)};
  const auto swap = [](ir::ExportedProgram& read) { std::swap(read.weights[0], read.weights[1]); };
  const std::string straight = binary(two);
  swap(two);
  CHECK(passed_on(straight, swap) == binary(two));

  // A file whose large segment comes first, as early writers left it.
  ir::ExportedProgram mixed = sample();
  mixed.weights = {counting("large", 30000, 1), counting("small", 100, 2)};
  mixed.code.clear();
  const std::string bytes = binary(mixed);
  const Result<program::Container> container = program::open_container(bytes, "bytes");
  wire::Program message;
  REQUIRE(message.ParseFromArray(container->message.data(), static_cast<int>(container->message.size())));

  // A hostile one, of which a small segment begins in what is read at once and ends in what is not.
  wire::Program overlapping = message;
  wire::Segment *large = nullptr, *small = nullptr;
  for (wire::Segment& segment : *overlapping.mutable_segments())
    (segment.stored_size() == 120000 ? large : small) = &segment;
  small->set_offset(large->offset() - small->stored_size() / 2);
  std::string hostile = program::container_head(overlapping.SerializeAsString(), container->segments.size(), true);
  hostile += container->segments;
  hostile += program::container_trailer(hostile.size() + program::trailer_size);
  CHECK(outcome(hostile) == "ok");  // in memory, both are there: their digests tell
  CHECK(passed_on(hostile) == "E0234");

  std::string segments;
  for (wire::Segment& segment : *message.mutable_segments()) {
    const std::string_view content = container->segments.substr(segment.offset(), segment.stored_size());
    segments.resize((segments.size() + program::large_alignment - 1) / program::large_alignment *
                    program::large_alignment);
    segment.set_offset(segments.size());
    segments += content;
  }
  std::string early = program::container_head(message.SerializeAsString(), segments.size(), true) + segments;
  early += program::container_trailer(early.size() + program::trailer_size);
  CHECK(early != bytes);
  CHECK(binary(*parse(early)) == bytes);
  CHECK(passed_on(early) == bytes);
}

TEST_CASE("a flipped bit is found: in the message or code by any reader, in weights when they are used") {
  for (const bool compress : {false, true}) {
    const ir::ExportedProgram program = with_weights();
    const std::string bytes = binary(program, compress), text = text::print(program);
    const size_t step = compress ? 13 : 1013;
    for (size_t i = 0; i < bytes.size(); i += i < 6000 ? 3 : step) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      Result<ir::ExportedProgram> read = parse(damaged, {.verify_weights = true});
      // What is not found means nothing: zeros between segments, bits that zstd does not use.
      if (read) REQUIRE(text::print(*read) == text);
    }
  }
}

TEST_CASE("a damaged message with a right digest is an error, never a crash") {
  // What a hostile writer would do: damage the message, then make the digest fit.
  const std::string bytes = binary(sample());
  const program::Container container = *program::open_container(bytes, "p.atn");
  const std::string message(container.message), segments(container.segments);
  int read = 0;
  for (size_t i = 0; i < message.size(); ++i) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string damaged = message;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      const std::string file = program::container_head(damaged, segments.size(), false) + segments;
      read += outcome(file + program::container_trailer(file.size() + program::trailer_size)) == "ok";
    }
  }
  CHECK(read > 0);  // some changes only make another program
}

TEST_CASE("what is no program is said to be none") {
  CHECK(outcome("\x89"
                "ATN") == "E0231");
  CHECK(outcome("") == "E0231");
  CHECK(outcome(std::string("\0\1\2", 3)) == "E0230");
  CHECK(outcome("# a comment\nimport torch\n") == "E0230");
  CHECK(outcome("# a comment\n\n  program 1.0\n") == "ok");
}

TEST_CASE("the file of every released version is read, and written again as it was") {
  const std::string bytes = file("testdata/format/program-1.0.atn");
  Result<ir::ExportedProgram> program = parse(bytes, {.verify_weights = false});
  if (!program) FAIL(program.error().render("test"));
  CHECK(text::print(*program) == file("testdata/format/program-1.0.txt"));
  CHECK(binary(*program) == bytes);
}
