// Reading and writing programs: the binary file, told from text by its magic.
//
// File: magic and version; the protobuf message, length-prefixed and deterministic; aligned segments (weights, code) with the
// XXH3-128 of their decoded bytes, raw or zstd; a trailer. Written and read in one pass, so pipes work; a regular file is
// mapped, not read. Hostile input is an error, never a crash: every size, offset, count, nesting, name and type is checked
// before use, against caps.
#pragma once

#include <memory>
#include <string>

#include "ir/program.h"

namespace atenon::program {

struct ReadOptions {
  std::string segments;      // a binary program that supplies the bytes which a text program names by digest
  bool verify_weights = false;  // check every digest now instead of when the weight is first decoded
};

struct WriteOptions {
  bool text = false;
  bool compress = false;     // zstd for segments
};

// "-" is standard input. Text or binary is recognised. E02xx: damaged, cut off, from a newer major version, not a program.
Result<ir::ExportedProgram> read(const std::string& path, const ReadOptions& options = {});
Result<ir::ExportedProgram> parse(std::shared_ptr<Storage> bytes, const std::string& file_name, const ReadOptions& options = {});

// Writes whole or not at all: to a temporary file beside `path`, then renamed. "-" is standard output; a closed pipe is no error
// (the result is then ok), a full disk is one.
Result<void> write(const ir::ExportedProgram& program, const std::string& path, const WriteOptions& options = {});
Result<std::string> serialize(const ir::ExportedProgram& program, const WriteOptions& options = {});

// Fills in absent weights of a text program and checks digests of the given storage on first use.
Result<void> verify_digests(const ir::ExportedProgram& program);

}  // namespace atenon::program
