// Reading and writing programs: the binary file, told from text by its magic.
//
// File: magic and version; the protobuf message, length-prefixed and deterministic; aligned segments (weights, code)
// with the XXH3-128 of their decoded bytes, raw or zstd; a trailer (container.h, program.proto). Written and read in
// one pass, so pipes work; a regular file is mapped, not read. Hostile input is an error, never a crash: every size,
// offset, count, nesting, name and type is checked before use, against caps. The message and code are compared with
// their digests on every read; weights by verify_digests, so that a stage which leaves them alone passes them through
// untouched.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "ir/program.h"
#include "text/text.h"

namespace atenon::program {

struct ReadOptions {
  std::string segments;         // a binary program that supplies the bytes which a text program names by digest
  bool verify_weights = false;  // verify_digests at once
  // Of a pipe, reads no further than to the weights: they follow when somebody looks at them, or are passed on by
  // write() without ever being in memory. That the pipe was cut off, or code is damaged, shows no earlier.
  bool leave_in_pipe = false;
  text::NodePlaces* places = nullptr;  // filled from a text program
};

struct WriteOptions {
  bool text = false;
  bool compress = false;  // zstd for segments that it makes smaller; one that was read so stays so in any case
  bool verify = false;    // verify_digests on the way: E0232, and nothing is written to a file
};

// "-" is standard input. Text or binary is recognised. E0230: not a program; E0231: cut off; E0232: damaged; E0233:
// from a newer major version; E0234: contradicts itself; E021x: errors in the text.
Result<ir::ExportedProgram> read(const std::string& path, const ReadOptions& options = {});
Result<ir::ExportedProgram> parse(std::shared_ptr<Storage> bytes, const std::string& file_name,
                                  const ReadOptions& options = {});

// Writes whole or not at all: to a temporary file beside `path`, then renamed. "-" is standard output; a closed pipe is
// no error (the result is then ok), a full disk is one.
Result<void> write(const ir::ExportedProgram& program, const std::string& path, const WriteOptions& options = {});
Result<std::string> serialize(const ir::ExportedProgram& program, const WriteOptions& options = {});

// Puts shared libraries with kernels for custom operators into a program, by the names of their files; one takes the
// place of a library of its name. E0236: it is none. E0237: another of these files, or generated code, has its name.
Result<void> add_kernel_libraries(ir::ExportedProgram& program, const std::vector<std::string>& paths);

// What a stage calls before it computes with weights: compares bytes that came from a file and were not checked since
// with their digests (E0232). Bytes that are absent are left alone. Cheap when called again.
Result<void> verify_digests(const ir::ExportedProgram& program);
// For a stage that cannot know before which weights it will use: called when it is done with those that it was given.
// What nobody has read from its pipe is left alone.
Result<void> verify_read_digests(const std::vector<ir::Weight>& weights);
// Weights that no run reads, only meanings: calls say so by `unread=[operand, ...]`. Their bytes may be absent.
std::set<std::string> unread_weights(const ir::ExportedProgram& program);
// verify_digests where all bytes are needed but those of unread weights: E0235 if some are absent.
Result<void> require_weights(const ir::ExportedProgram& program);

}  // namespace atenon::program
