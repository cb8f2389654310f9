// Writes programs: text or binary, to a file, a pipe or memory.
#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "program/container.h"
#include "program/encode.h"
#include "program/incoming.h"
#include "program/program_file.h"
#include "support/streams.h"
#include "text/text.h"

namespace atenon::program {
namespace {

constexpr int zstd_level = 3;

// One segment as it is stored, and the zeros before it.
struct Piece {
  wire::Segment* segment = nullptr;
  size_t padding = 0;
  const void* bytes = nullptr;  // null: still in the storage's pipe
  size_t size = 0;
  std::shared_ptr<Storage> storage;
  std::shared_ptr<void> keep_alive = nullptr;
};

// A whole file, in the order in which it is written.
struct File {
  std::string head;
  std::vector<Piece> segments;
  std::string trailer;
  size_t size() const {
    size_t total = head.size() + trailer.size();
    for (const Piece& piece : segments) total += piece.padding + piece.size;
    return total;
  }
};

std::shared_ptr<std::string> compress(Storage& storage) {
  auto out = std::make_shared<std::string>(ZSTD_compressBound(storage.size()), '\0');
  const size_t size = ZSTD_compress(out->data(), out->size(), storage.data(), storage.size(), zstd_level);
  assert(!ZSTD_isError(size));  // the bound is large enough
  out->resize(size);
  return out;
}

// How a segment is stored; where, is not decided yet.
Piece piece_of(wire::Segment& segment, const std::shared_ptr<Storage>& storage, bool is_compressing) {
  std::shared_ptr<std::string> made;
  if (is_compressing && storage->packed().empty()) made = compress(*storage);
  if (made && made->size() < storage->size()) {
    segment.set_encoding(wire::Segment::ZSTD);
    return {&segment, 0, made->data(), made->size(), storage, made};
  }
  if (!storage->packed().empty()) {
    segment.set_encoding(wire::Segment::ZSTD);
    return {&segment, 0, storage->packed().data(), storage->packed().size(), storage};
  }
  return {&segment, 0, incoming(*storage) ? nullptr : storage->data(), storage->size(), storage};
}

bool is_large(const Piece& piece) { return piece.size >= large_segment; }

// A pipe gives its segments in one order: one from which others are wanted is read to its end.
void load_unordered(std::vector<Piece>& pieces) {
  std::map<IncomingSegments*, size_t> positions;
  for (const Piece& piece : pieces) {
    IncomingSegments* from = incoming(*piece.storage);
    if (!from) continue;
    size_t& position = positions[from];
    if (piece.storage->origin_offset() < position) from->load();
    position = piece.storage->origin_offset() + piece.size;
  }
  for (Piece& piece : pieces)
    if (!piece.bytes && !incoming(*piece.storage)) piece.bytes = piece.storage->data();
}

File lay_out(const ir::ExportedProgram& program, const WriteOptions& options) {
  File file;
  Encoded encoded = encode(program);
  for (size_t i = 0; i < encoded.segments.size(); ++i) {
    wire::Segment& segment = *encoded.message.mutable_segments(static_cast<int>(i));
    if (encoded.segments[i]->is_absent()) {
      segment.set_encoding(wire::Segment::ABSENT);
    } else {
      file.segments.push_back(piece_of(segment, encoded.segments[i], options.compress));
    }
  }
  const auto large = std::stable_partition(file.segments.begin(), file.segments.end(), std::not_fn(is_large));
  load_unordered(file.segments);
  size_t position = 0;
  for (Piece& piece : file.segments) {
    const size_t alignment = is_large(piece) ? large_alignment : small_alignment;
    piece.padding = (alignment - position % alignment) % alignment;
    piece.segment->set_offset(position + piece.padding);
    piece.segment->set_stored_size(piece.size);
    position += piece.padding + piece.size;
  }
  const bool has_large = large != file.segments.end();
  file.head = container_head(encoded.message.SerializeAsString(), position, has_large);
  file.trailer = container_trailer(file.head.size() + position + trailer_size);
  return file;
}

// "weight 'fc.bias'".
std::string name_of(const Storage& storage, const ir::ExportedProgram& program) {
  for (const auto& [known, what] : storages_of(program))
    if (known == &storage) return what;
  return "a segment";
}

// False if the segment is not what its digest says, where that is asked.
Result<bool> write_piece(const Piece& piece, OutputFile& output, bool verify) {
  static constexpr char zeros[large_alignment] = {};
  if (Result<void> written = output.write(zeros, piece.padding); !written) return written.error();
  Storage& storage = *piece.storage;
  std::optional<Hasher> hasher;
  if (verify && storage.is_unchecked()) hasher.emplace();
  if (IncomingSegments* pipe = incoming(storage)) {
    const Result<void> passed = pipe->pass(storage.origin_offset(), piece.size, output, hasher ? &*hasher : nullptr);
    if (!passed) return passed.failure();
  } else {
    if (hasher) hasher->add(storage.data(), storage.size());
    if (Result<void> written = output.write(piece.bytes, piece.size); !written) return written.error();
  }
  return !hasher || !output.is_wanted() || hasher->digest() == storage.digest();
}

// Whether the pipes that the program came through brought all that they should. Its bytes are not to be had any more.
Result<void> finish_pipes(const ir::ExportedProgram& program) {
  std::set<IncomingSegments*> pipes;
  const auto add = [&](const std::shared_ptr<Storage>& storage) {
    if (auto* pipe = dynamic_cast<IncomingSegments*>(storage->origin().get())) pipes.insert(pipe);
  };
  for (const ir::Weight& weight : program.weights) add(weight.tensor.storage);
  for (const ir::CodeSegment& code : program.code) add(code.bytes);
  for (const ir::ExtraFile& file : program.extra_files) add(file.bytes);
  for (IncomingSegments* pipe : pipes)
    if (Result<void> finished = pipe->finish(); !finished) return finished;
  return {};
}

}  // namespace

Result<std::string> serialize(const ir::ExportedProgram& program, const WriteOptions& options) {
  if (options.text) return text::print(program);
  const File file = lay_out(program, options);
  std::string out;
  out.reserve(file.size());
  out += file.head;
  for (const Piece& piece : file.segments) {
    out.append(piece.padding, '\0');
    out.append(static_cast<const char*>(piece.bytes ? piece.bytes : piece.storage->data()), piece.size);
  }
  return out + file.trailer;
}

Result<void> write(const ir::ExportedProgram& program, const std::string& path, const WriteOptions& options) {
  if (options.text) {
    if (options.verify)
      if (Result<void> verified = verify_digests(program); !verified) return verified;
    const std::string text = text::print(program);
    if (Result<void> finished = finish_pipes(program); !finished) return finished;
    return write_contents(path, text);
  }
  const File file = lay_out(program, options);
  Result<OutputFile> output = OutputFile::create(path);
  if (!output) return output.error();
  if (Result<void> written = output->write(file.head); !written) return written;
  for (const Piece& piece : file.segments) {
    const Result<bool> intact = write_piece(piece, *output, options.verify);
    if (!intact) return intact.failure();
    if (!*intact) return not_intact(name_of(*piece.storage, program));
  }
  if (!output->is_wanted()) return {};
  if (Result<void> finished = finish_pipes(program); !finished) return finished;
  if (Result<void> written = output->write(file.trailer); !written) return written;
  return output->commit();
}

}  // namespace atenon::program
