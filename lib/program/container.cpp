// Header and trailer of the file.
#include "program/container.h"

#include <bit>
#include <cstring>

#include "support/hash.h"
#include "text/limits.h"
#include "text/words.h"

namespace atenon::program {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers in the file are little-endian");

constexpr char magic[8] = {'\x89', 'A', 'T', 'N', '\r', '\n', '\x1a', '\n'};
constexpr char end_mark[8] = {'A', 'T', 'N', '-', 'E', 'N', 'D', '\n'};
constexpr size_t digest_start = 48;

struct Header {
  char magic[8];
  uint16_t major, minor;
  uint32_t zero;
  uint64_t message_size, segments_start, file_size, reserved;
  char digest[16];
};
static_assert(sizeof(Header) == header_size);

std::string digest_of(std::string_view head, std::string_view message) {
  Hasher hasher;
  hasher.add(head.data(), digest_start);
  hasher.add(message.data(), message.size());
  return digest_bytes(hasher.digest());
}

}  // namespace

Diagnostic damaged(int code, const std::string& file_name, std::string message) {
  return error(Status::bad_input, code, file_name + ": " + std::move(message));
}

Diagnostic not_intact(const std::string& what) {
  return error(Status::bad_input, 232, what + " is damaged: its digest does not match its bytes");
}

std::string digest_bytes(std::string_view hex) {
  std::string bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

std::string digest_hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) hex += {digits[static_cast<unsigned char>(c) >> 4], digits[c & 15]};
  return hex;
}

bool has_magic(std::string_view bytes) {
  return !bytes.empty() && std::memcmp(bytes.data(), magic, std::min(bytes.size(), sizeof magic)) == 0;
}

Diagnostic cut_off(const std::string& file_name, size_t size) {
  return damaged(231, file_name, "the file is cut off: it ends after " + std::to_string(size) + " bytes");
}

Result<Layout> read_header(std::string_view bytes, const std::string& file_name) {
  Header header;
  if (bytes.size() < sizeof header) return cut_off(file_name, bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.major > text::format_major) {
    return damaged(233, file_name,
                   "this program is of version " + std::to_string(header.major) + "." + std::to_string(header.minor) +
                       ", and this tool reads up to " + std::to_string(text::format_major) +
                       ".x: a newer atenon wrote it");
  }
  const bool is_consistent = header.message_size <= header.file_size && header.segments_start <= header.file_size &&
                             header.segments_start >= sizeof header &&
                             header.file_size >= sizeof header + trailer_size &&
                             header.message_size <= header.segments_start - sizeof header &&
                             header.segments_start <= header.file_size - trailer_size &&
                             header.file_size <= static_cast<uint64_t>(text::max_bytes);
  if (!is_consistent || header.major == 0)
    return damaged(232, file_name, "the file is damaged: its header contradicts itself");
  return Layout{header.message_size, header.segments_start, header.file_size};
}

Result<void> check_digest(std::string_view header, std::string_view message, const std::string& file_name) {
  if (digest_of(header, message) == header.substr(digest_start, header_size - digest_start)) return {};
  return damaged(232, file_name, "the file is damaged: its digest does not match its contents");
}

Result<Container> open_container(std::string_view bytes, const std::string& file_name) {
  const Result<Layout> layout = read_header(bytes, file_name);
  if (!layout) return layout.failure();
  if (bytes.size() < header_size + layout->message_size) return cut_off(file_name, bytes.size());
  const std::string_view message = bytes.substr(header_size, layout->message_size);
  if (Result<void> checked = check_digest(bytes, message, file_name); !checked) return checked.error();
  if (bytes.size() < layout->file_size) return cut_off(file_name, bytes.size());
  if (bytes.size() > layout->file_size) return damaged(234, file_name, "there are bytes behind the end of the program");
  const std::string_view trailer = bytes.substr(layout->file_size - trailer_size);
  if (trailer != container_trailer(layout->file_size))
    return damaged(232, file_name, "the file is damaged: its trailer is wrong");
  return Container{message, bytes.substr(layout->segments_start, layout->segments_size())};
}

std::string container_head(std::string_view message, size_t segments_size, bool has_large) {
  const size_t alignment = has_large ? large_alignment : small_alignment;
  const size_t segments_start = (header_size + message.size() + alignment - 1) / alignment * alignment;
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.major = text::format_major;
  header.minor = text::format_minor;
  header.message_size = message.size();
  header.segments_start = segments_start;
  header.file_size = segments_start + segments_size + trailer_size;
  std::string head(reinterpret_cast<const char*>(&header), sizeof header);
  head.replace(digest_start, 16, digest_of(head, message));
  head += message;
  head.resize(segments_start);
  return head;
}

std::string container_trailer(size_t file_size) {
  std::string trailer(end_mark, sizeof end_mark);
  const uint64_t size = file_size;
  trailer.append(reinterpret_cast<const char*>(&size), sizeof size);
  return trailer;
}

}  // namespace atenon::program
