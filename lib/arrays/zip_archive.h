// Zip archives, as NumPy and PyTorch write them: read from memory, written in one pass.
//
// Members that are stored are given out in place; deflated ones are inflated. Format: PKWARE's APPNOTE.TXT, with zip64.
#pragma once

#include "arrays/member.h"

namespace atenon::arrays {

class ZipArchive {
 public:
  // Reads the directory only. E0812 if it is damaged.
  static Result<ZipArchive> open(const Contents& contents, const std::string& file_name);

  // In the directory's order.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  // The bytes; a checksum is verified unless the member is stored and large.
  Result<Contents> member(const std::string& name) const;

 private:
  struct Entry {
    std::string name;
    uint16_t method = 0;
    uint32_t checksum = 0;
    uint64_t compressed = 0;
    uint64_t size = 0;
    uint64_t header = 0;  // offset of the local header
  };
  Contents contents_;
  std::string file_name_;
  std::vector<Entry> entries_;
};

// Stores members uncompressed, their bytes aligned to 64, without clock or attributes: same members, same bytes.
class ZipWriter {
 public:
  explicit ZipWriter(OutputFile& file) : file_(file) {}
  // The member's bytes are those of `head` and then of `body`.
  Result<void> add(const std::string& name, std::string_view head, const void* body, size_t body_size);
  Result<void> finish();

 private:
  OutputFile& file_;
  uint64_t written_ = 0;
  uint64_t members_ = 0;
  std::string directory_;
};

}  // namespace atenon::arrays
