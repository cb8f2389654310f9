// The file around the message: private to lib/program.
//
//     0  magic 89 41 54 4e 0d 0a 1a 0a: no text, and destroyed by whatever rewrites line ends
//     8  u16 major, u16 minor, u32 zero
//    16  u64 bytes of the message
//    24  u64 start of the segments in the file
//    32  u64 bytes of the file
//    40  u64 zero
//    48  XXH3-128 of the 48 bytes above and of the message
//    64  the message (program.proto), zeros up to the start of the segments
//        segments at their offsets, aligned to 64 bytes, those of 64 KiB and more to 4096 so that they can be mapped;
//        the small ones come first, so that who reads a pipe has them without waiting for the others
//        trailer: "ATN-END\n", u64 bytes of the file
//
// Numbers are little-endian. Everything is known before the first byte is written, so a pipe is written in one pass.
#pragma once

#include <string>
#include <string_view>

#include "support/result.h"
#include "tensor/tensor.h"

namespace atenon::program {

inline constexpr size_t header_size = 64;
inline constexpr size_t trailer_size = 16;
inline constexpr size_t small_alignment = 64;
inline constexpr size_t large_alignment = 4096;
inline constexpr size_t large_segment = 1 << 16;

bool has_magic(std::string_view bytes);

// What the header says of a file.
struct Layout {
  size_t message_size, segments_start, file_size;

  size_t segments_size() const { return file_size - trailer_size - segments_start; }
};
// Of a file's first header_size bytes, or as many as there are; checked: version, and that the sizes fit.
Result<Layout> read_header(std::string_view bytes, const std::string& file_name);
// E0232 unless the header's digest is right.
Result<void> check_digest(std::string_view header, std::string_view message, const std::string& file_name);

// Where the message and the segments of a file lie; checked: version, length, digest, trailer.
struct Container {
  std::string_view message;
  std::string_view segments;
};
Result<Container> open_container(std::string_view bytes, const std::string& file_name);

// The header, the message and zeros up to the segments, which take `segments_size` bytes.
std::string container_head(std::string_view message, size_t segments_size, bool has_large);
std::string container_trailer(size_t file_size);

// E0231, of a file that ends after `size` bytes.
Diagnostic cut_off(const std::string& file_name, size_t size);
// An error about a file as a whole: E02xx, status bad_input.
Diagnostic damaged(int code, const std::string& file_name, std::string message);

// E0232, of "weight 'fc.bias'".
Diagnostic not_intact(const std::string& what);

std::string digest_bytes(std::string_view hex);  // 32 hex digits to 16 bytes
std::string digest_hex(std::string_view bytes);

}  // namespace atenon::program
