// What the readers share: bytes of a file as a tensor, and complaints. Shared with lib/pt2, whose archives are zip
// files too.
#pragma once

#include <string>

#include "arrays/arrays.h"

namespace atenon::arrays {

// E0812, naming the file.
Diagnostic damaged(const std::string& file_name, const std::string& what);

// A part of a file: inside the contents, or decompressed.
struct Member {
  std::string name;
  Contents contents;
};

// The part of `contents` from `offset`, sharing its bytes. Must lie inside.
Contents part(const Contents& contents, size_t offset, size_t size);

// Number of elements of these sizes; nullopt if one is negative or the bytes would not fit into 2^62.
std::optional<int64_t> checked_numel(const std::vector<int64_t>& sizes);

// The bytes as a storage: mapped if aligned for `dtype`, else copied. Bools become 0 or 1.
std::shared_ptr<Storage> to_storage(const Contents& bytes, ScalarType dtype);
// A row-major tensor over exactly these bytes.
Tensor to_tensor(const Contents& bytes, ScalarType dtype, std::vector<int64_t> sizes);

// The header of a .npy file for this tensor; its bytes follow, row-major.
std::string npy_header(const Tensor& tensor);

Result<void> write_npz(OutputFile& file, const std::vector<Array>& arrays);
Result<void> write_safetensors(OutputFile& file, const std::vector<Array>& arrays);

}  // namespace atenon::arrays
