// Formats are told apart by their first bytes when read, by the extension when written.
#include "arrays/arrays.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>

#include "arrays/member.h"

namespace atenon::arrays {

Diagnostic damaged(const std::string& file_name, const std::string& what) {
  return error(Status::bad_input, 812, what).at({.file = file_name});
}

Contents part(const Contents& contents, size_t offset, size_t size) {
  assert(offset <= contents.size && size <= contents.size - offset);
  return {contents.bytes + offset, size, contents.keep_alive, contents.mapped};
}

std::optional<int64_t> checked_numel(const std::vector<int64_t>& sizes) {
  // All sizes but 0 are multiplied, so that strides fit too.
  int64_t product = 1;
  bool empty = false;
  for (const int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    empty |= size == 0;
    if (size > 0 && (__builtin_mul_overflow(product, size, &product) || product > int64_t{1} << 58))
      return std::nullopt;
  }
  return empty ? 0 : product;
}

std::shared_ptr<Storage> to_storage(const Contents& bytes, ScalarType dtype) {
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.bytes);
  const bool is_normal =
      dtype != ScalarType::boolean || std::all_of(first, first + bytes.size, [](uint8_t b) { return b <= 1; });
  const size_t alignment = is_complex(dtype) ? size_of(dtype) / 2 : size_of(dtype);
  if (is_normal && bytes.size > 0 && reinterpret_cast<uintptr_t>(first) % alignment == 0) {
    return Storage::view(bytes.bytes, bytes.size, bytes.keep_alive, true);
  }
  std::shared_ptr<Storage> copy = Storage::allocate(bytes.size);
  auto* to = static_cast<uint8_t*>(copy->mutable_data());
  if (bytes.size > 0) std::memcpy(to, first, bytes.size);
  if (!is_normal) std::transform(to, to + bytes.size, to, [](uint8_t b) -> uint8_t { return b != 0; });
  return copy;
}

Tensor to_tensor(const Contents& bytes, ScalarType dtype, std::vector<int64_t> sizes) {
  Tensor tensor{.dtype = dtype, .sizes = std::move(sizes), .storage = to_storage(bytes, dtype)};
  tensor.strides = contiguous_strides(tensor.sizes);
  assert(tensor.nbytes() == bytes.size);
  return tensor;
}

namespace {

Result<std::vector<Array>> parse_by_content(const Contents& contents, const std::string& file_name) {
  const std::string_view text = contents.text();
  if (text.starts_with("\x93NUMPY")) return parse_npy(contents, file_name);
  // PyTorch's legacy format is a pickle that starts with a magic number.
  if (text.starts_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"))
    return parse_torch(contents, file_name);
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) {
    // Both .npz and .pt are zip archives; PyTorch's has one folder with data.pkl in it.
    const bool is_torch =
        text.find("data.pkl", 0) != std::string_view::npos && text.find(".npyPK") == std::string_view::npos;
    return is_torch ? parse_torch(contents, file_name) : parse_npz(contents, file_name);
  }
  if (text.size() > 8 && text[8] == '{') return parse_safetensors(contents, file_name);
  return error(Status::bad_input, 811, "this is no .npy, .npz, .safetensors or .pt file").at({.file = file_name});
}

}  // namespace

Result<std::vector<Array>> parse(const Contents& contents, const std::string& file_name) {
  Result<std::vector<Array>> arrays = parse_by_content(contents, file_name);
  if (!arrays) return arrays;
  std::set<std::string_view> names;
  for (const Array& array : *arrays)
    if (!names.insert(array.name).second) return damaged(file_name, "two arrays are named '" + array.name + "'");
  return arrays;
}

Result<std::vector<Array>> read(const std::string& path) {
  Result<Contents> contents = read_contents(path);
  if (!contents) return contents.error();
  return parse(*contents, path == "-" ? "<stdin>" : path);
}

Result<void> check_format(const std::string& path, size_t count) {
  if (path != "-" && !path.ends_with(".npy") && !path.ends_with(".npz") && !path.ends_with(".safetensors"))
    return error(Status::usage, 814, "no array format goes by the extension of '" + path + "'")
        .note("there are: .npy, .npz, .safetensors");
  if (path.ends_with(".npy") && count != 1)
    return error(Status::usage, 814, "a .npy file holds one array, not " + std::to_string(count))
        .note("a .npz file holds several");
  return {};
}

Result<void> write(const std::string& path, const std::vector<Array>& arrays) {
  if (Result<void> known = check_format(path, arrays.size()); !known) return known;
  for (const Array& array : arrays) {
    if (array.tensor.storage->is_absent()) {
      return error(Status::usage, 814, "the bytes of '" + array.name + "' are not here")
          .note("--segments FILE names a program that has them");
    }
  }
  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.error();
  Result<void> written;
  if (path.ends_with(".npy") || (path == "-" && arrays.size() == 1)) {
    const Tensor tensor = arrays[0].tensor.contiguous();
    written = file->write(npy_header(tensor));
    if (written) written = file->write(tensor.data(), tensor.nbytes());
  } else {
    written = path.ends_with(".safetensors") ? write_safetensors(*file, arrays) : write_npz(*file, arrays);
  }
  if (!written) return written.error();
  return file->commit();
}

}  // namespace atenon::arrays
