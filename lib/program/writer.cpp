// Writes programs: text or binary, to a file, a pipe or memory.
#include <zstd.h>

#include <cassert>

#include "program/container.h"
#include "program/encode.h"
#include "program/program_file.h"
#include "support/streams.h"
#include "text/text.h"

namespace atenon::program {
namespace {

constexpr int zstd_level = 3;

// The bytes of one segment as they are stored, and the zeros before them.
struct Piece {
  size_t padding = 0;
  const void* bytes = nullptr;
  size_t size = 0;
  std::shared_ptr<void> keep_alive;
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

File lay_out(const ir::ExportedProgram& program, const WriteOptions& options) {
  File file;
  Encoded encoded = encode(program);
  size_t position = 0;
  bool has_large = false;
  for (size_t i = 0; i < encoded.segments.size(); ++i) {
    wire::Segment& segment = *encoded.message.mutable_segments(static_cast<int>(i));
    Storage& storage = *encoded.segments[i];
    if (storage.is_absent()) {
      segment.set_encoding(wire::Segment::ABSENT);
      continue;
    }
    Piece piece;
    std::shared_ptr<std::string> made;
    if (options.compress && storage.packed().empty()) made = compress(storage);
    if (made && made->size() < storage.size()) {
      piece = {0, made->data(), made->size(), made};
      segment.set_encoding(wire::Segment::ZSTD);
    } else if (!storage.packed().empty()) {
      piece = {0, storage.packed().data(), storage.packed().size(), encoded.segments[i]};
      segment.set_encoding(wire::Segment::ZSTD);
    } else {
      piece = {0, storage.data(), storage.size(), encoded.segments[i]};
    }
    const size_t alignment = piece.size >= large_segment ? large_alignment : small_alignment;
    has_large |= piece.size >= large_segment;
    piece.padding = (alignment - position % alignment) % alignment;
    segment.set_offset(position + piece.padding);
    segment.set_stored_size(piece.size);
    position += piece.padding + piece.size;
    file.segments.push_back(std::move(piece));
  }
  file.head = container_head(encoded.message.SerializeAsString(), position, has_large);
  file.trailer = container_trailer(file.head.size() + position + trailer_size);
  return file;
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
    out.append(static_cast<const char*>(piece.bytes), piece.size);
  }
  return out + file.trailer;
}

Result<void> write(const ir::ExportedProgram& program, const std::string& path, const WriteOptions& options) {
  if (options.text) return write_contents(path, text::print(program));
  const File file = lay_out(program, options);
  static constexpr char zeros[large_alignment] = {};
  Result<OutputFile> output = OutputFile::create(path);
  if (!output) return output.error();
  Result<void> written = output->write(file.head);
  for (const Piece& piece : file.segments) {
    if (written) written = output->write(zeros, piece.padding);
    if (written) written = output->write(piece.bytes, piece.size);
  }
  if (written) written = output->write(file.trailer);
  if (!written) return written;
  return output->commit();
}

}  // namespace atenon::program
