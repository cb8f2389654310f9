// Arrays in files: NumPy's .npy and .npz, .safetensors, and PyTorch's state dicts (.pt, read only).
//
// What a file holds is told from its first bytes, not from its name. Bytes are mapped, not copied, where the file
// stores them uncompressed and aligned. A .pt file is read by an unpickler that builds plain values and runs no code,
// so any file may be looked at. Every size, offset and count is checked before use: a hostile file is an error. NumPy
// has no bfloat16: its uint16 arrays are read as bf16, and bf16 is written as uint16.
#pragma once

#include <string>
#include <vector>

#include "support/streams.h"
#include "tensor/tensor.h"

namespace atenon::arrays {

// `name` is "" in .npy, the member's in .npz, the qualified name ("layers.0.weight") in the others. Tensors of a .pt
// file that share a storage there share it here.
struct Array {
  std::string name;
  Tensor tensor;
};

// "-" is standard input. E0811: not one of these formats; E0812: damaged; E0813: a type that we do not have.
Result<std::vector<Array>> read(const std::string& path);
Result<std::vector<Array>> parse(const Contents& contents, const std::string& file_name);

Result<std::vector<Array>> parse_npy(const Contents& contents, const std::string& file_name);
Result<std::vector<Array>> parse_npz(const Contents& contents, const std::string& file_name);
Result<std::vector<Array>> parse_safetensors(const Contents& contents, const std::string& file_name);
Result<std::vector<Array>> parse_torch(const Contents& contents, const std::string& file_name);

// The format follows from the extension: .npy (exactly one array), .npz, .safetensors; "-" is .npy for one array, else
// .npz. The same arrays give the same bytes. E0814: another extension, or a type or number of arrays that the format
// cannot hold; check_format() says so beforehand, but for types.
Result<void> check_format(const std::string& path, size_t count);
Result<void> write(const std::string& path, const std::vector<Array>& arrays);

}  // namespace atenon::arrays
