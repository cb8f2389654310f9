// ZipArchive and ZipWriter. Sizes and offsets come from an untrusted file: each is checked against the bytes that are
// there.
#include "arrays/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace atenon::arrays {
namespace {

constexpr uint32_t local_signature = 0x04034b50, directory_signature = 0x02014b50, end_signature = 0x06054b50;
constexpr uint32_t end64_signature = 0x06064b50, locator64_signature = 0x07064b50;
constexpr size_t local_size = 30, directory_size = 46, end_size = 22, end64_size = 56, locator64_size = 20;
constexpr uint16_t stored = 0, deflated = 8, zip64_field = 1;
constexpr size_t verified_up_to = size_t{1} << 20;  // larger stored members are mapped unread
constexpr uint64_t highest_ratio = 1040;            // of deflate, a bit above its 1032

// Little-endian fields of a stretch of bytes; reading past the end gives 0 and is noticed by who checks sizes first.
class Fields {
 public:
  Fields(std::string_view text, size_t offset) : text_(text.substr(std::min(offset, text.size()))) {}
  uint64_t at(size_t offset, size_t bytes) const {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
      value = value << 8 | (offset + i < text_.size() ? static_cast<uint8_t>(text_[offset + i]) : 0);
    return value;
  }
  uint16_t two(size_t offset) const { return static_cast<uint16_t>(at(offset, 2)); }
  uint32_t four(size_t offset) const { return static_cast<uint32_t>(at(offset, 4)); }
  uint64_t eight(size_t offset) const { return at(offset, 8); }

 private:
  std::string_view text_;
};

void put(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

uint32_t checksum(uint32_t start, const void* data, size_t size) {
  return static_cast<uint32_t>(crc32_z(start, static_cast<const Bytef*>(data), size));
}

}  // namespace

Result<ZipArchive> ZipArchive::open(const Contents& contents, const std::string& file_name) {
  ZipArchive archive;
  archive.contents_ = contents;
  archive.file_name_ = file_name;
  const std::string_view text = contents.text();
  const Diagnostic bad = damaged(file_name, "the zip archive is cut off or damaged: its directory cannot be read");
  if (text.size() < end_size) return bad;
  // The end record is last, but for a comment of up to 64 kB.
  const size_t earliest = text.size() - std::min<size_t>(text.size(), end_size + 0xFFFF);
  const size_t end = text.rfind("PK\x05\x06");
  if (end == std::string_view::npos || end < earliest || end > text.size() - end_size) return bad;
  const Fields last(text, end);
  uint64_t count = last.two(10), size = last.four(12), start = last.four(16);
  if (end >= locator64_size && Fields(text, end - locator64_size).four(0) == locator64_signature) {
    const uint64_t at = Fields(text, end - locator64_size).eight(8);
    if (at > text.size() || text.size() - at < end64_size) return bad;
    const Fields wide(text, at);
    if (wide.four(0) != end64_signature) return bad;
    count = wide.eight(32), size = wide.eight(40), start = wide.eight(48);
  }
  if (start > end || size > end - start || count > size / directory_size) return bad;

  size_t next = start;
  for (uint64_t i = 0; i < count; ++i) {
    if (end - next < directory_size) return bad;
    const Fields fields(text, next);
    if (fields.four(0) != directory_signature) return bad;
    const size_t name_size = fields.two(28), extra_size = fields.two(30), comment_size = fields.two(32);
    if (end - next - directory_size < name_size + extra_size + comment_size) return bad;
    Entry entry{std::string(text.substr(next + directory_size, name_size)),
                fields.two(10),
                fields.four(16),
                fields.four(20),
                fields.four(24),
                fields.four(42)};
    if ((fields.two(8) & 1) != 0) return damaged(file_name, "'" + entry.name + "' in the zip archive is encrypted");
    // Values that do not fit stand in an extra field, in this order, only those.
    for (size_t at = next + directory_size + name_size, stop = at + extra_size; at + 4 <= stop;) {
      const Fields extra(text, at);
      size_t value = 4;
      if (extra.two(0) == zip64_field) {
        for (uint64_t* field : {&entry.size, &entry.compressed, &entry.header}) {
          if (*field == 0xFFFFFFFF && value + 8 <= 4 + size_t{extra.two(2)}) *field = extra.eight(value), value += 8;
        }
      }
      at += 4 + extra.two(2);
    }
    if (entry.method == stored && entry.size != entry.compressed) return bad;
    archive.entries_.push_back(std::move(entry));
    next += directory_size + name_size + extra_size + comment_size;
  }
  return archive;
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

bool ZipArchive::has(const std::string& name) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
}

Result<Contents> ZipArchive::member(const std::string& name) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (entry == entries_.end()) return damaged(file_name_, "the zip archive lacks '" + name + "'");
  const std::string_view text = contents_.text();
  const Diagnostic bad = damaged(file_name_, "'" + name + "' in the zip archive is cut off or damaged");
  if (entry->header > text.size() || text.size() - entry->header < local_size) return bad;
  const Fields local(text, entry->header);
  if (local.four(0) != local_signature) return bad;
  const uint64_t start = entry->header + local_size + local.two(26) + local.two(28);
  if (start > text.size() || entry->compressed > text.size() - start) return bad;
  const Contents bytes = part(contents_, start, entry->compressed);
  if (entry->method == stored) {
    if (bytes.size <= verified_up_to && checksum(0, bytes.bytes, bytes.size) != entry->checksum) return bad;
    return bytes;
  }
  if (entry->method != deflated) {
    return damaged(file_name_, "'" + name + "' in the zip archive is compressed in an unknown way");
  }
  if (entry->size / highest_ratio > entry->compressed || entry->compressed > UINT32_MAX || entry->size > SIZE_MAX / 2)
    return bad;

  const std::shared_ptr<Storage> out = Storage::allocate(entry->size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return bad;
  stream.next_in = reinterpret_cast<Bytef*>(bytes.bytes);
  stream.avail_in = static_cast<uInt>(bytes.size);
  auto* to = static_cast<Bytef*>(out->mutable_data());
  uint64_t left = entry->size;
  int status = Z_OK;
  while (status == Z_OK) {  // zlib counts in 32 bits
    const uInt room = static_cast<uInt>(std::min<uint64_t>(left, 1u << 30));
    stream.next_out = to;
    stream.avail_out = room;
    status = inflate(&stream, Z_NO_FLUSH);
    to += room - stream.avail_out;
    left -= room - stream.avail_out;
    if (status == Z_OK && left == 0 && stream.avail_out == 0) {
      // All is out; one more call must find the end, in no space.
      Bytef none;
      stream.next_out = &none;
      stream.avail_out = 0;
      status = inflate(&stream, Z_FINISH);
      if (status == Z_OK) status = Z_DATA_ERROR;
    }
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || left != 0 || checksum(0, out->data(), out->size()) != entry->checksum) return bad;
  return Contents{static_cast<std::byte*>(out->mutable_data()), out->size(), out, false};
}

Result<void> ZipWriter::add(const std::string& name, std::string_view head, const void* body, size_t body_size) {
  const uint64_t size = head.size() + body_size;
  const uint32_t sum = checksum(checksum(0, head.data(), head.size()), body, body_size);
  const bool wide = size >= UINT32_MAX || written_ >= UINT32_MAX;
  // An extra field of the private kind moves the data to a multiple of 64.
  const size_t fixed = local_size + name.size() + (wide ? 20 : 0) + 4;
  const size_t padding = (64 - (written_ + fixed) % 64) % 64;

  std::string common;  // what both headers have, from version to uncompressed size
  put(common, wide ? 45 : 20, 2);
  put(common, 0x0800, 2);  // names are UTF-8
  put(common, stored, 2);
  put(common, 0, 2);     // no time
  put(common, 0x21, 2);  // 1980-01-01
  put(common, sum, 4);
  put(common, wide ? UINT32_MAX : size, 4);
  put(common, wide ? UINT32_MAX : size, 4);
  put(common, name.size(), 2);

  std::string local;
  put(local, local_signature, 4);
  local += common;
  put(local, (wide ? 20 : 0) + 4 + padding, 2);
  local += name;
  if (wide) {
    put(local, zip64_field, 2);
    put(local, 16, 2);
    put(local, size, 8);
    put(local, size, 8);
  }
  put(local, 0x4E41, 2);
  put(local, padding, 2);
  local.append(padding, '\0');

  put(directory_, directory_signature, 4);
  put(directory_, wide ? 45 : 20, 2);
  directory_ += common;
  put(directory_, wide ? 28 : 0, 2);
  directory_.append(10, '\0');  // no comment, disk, attributes
  put(directory_, wide ? UINT32_MAX : written_, 4);
  directory_ += name;
  if (wide) {
    put(directory_, zip64_field, 2);
    put(directory_, 24, 2);
    put(directory_, size, 8);
    put(directory_, size, 8);
    put(directory_, written_, 8);
  }
  ++members_;
  written_ += local.size() + size;
  if (Result<void> out = file_.write(local); !out) return out;
  if (Result<void> out = file_.write(head); !out) return out;
  return file_.write(body, body_size);
}

Result<void> ZipWriter::finish() {
  std::string end;
  const bool wide = written_ >= UINT32_MAX || members_ >= 0xFFFF;
  if (wide) {
    put(end, end64_signature, 4);
    put(end, end64_size - 12, 8);
    put(end, 45, 2);
    put(end, 45, 2);
    put(end, 0, 8);  // one disk
    put(end, members_, 8);
    put(end, members_, 8);
    put(end, directory_.size(), 8);
    put(end, written_, 8);
    put(end, locator64_signature, 4);
    put(end, 0, 4);
    put(end, written_ + directory_.size(), 8);
    put(end, 1, 4);
  }
  put(end, end_signature, 4);
  put(end, 0, 4);
  put(end, wide ? 0xFFFF : members_, 2);
  put(end, wide ? 0xFFFF : members_, 2);
  put(end, wide ? UINT32_MAX : directory_.size(), 4);
  put(end, wide ? UINT32_MAX : written_, 4);
  put(end, 0, 2);
  if (Result<void> out = file_.write(directory_); !out) return out;
  return file_.write(end);
}

}  // namespace atenon::arrays
