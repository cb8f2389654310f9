// NumPy's .npz: a zip archive with one .npy for each array.
#include "arrays/zip_archive.h"

namespace atenon::arrays {

Result<std::vector<Array>> parse_npz(const Contents& contents, const std::string& file_name) {
  Result<ZipArchive> archive = ZipArchive::open(contents, file_name);
  if (!archive) return archive.error();
  std::vector<Array> arrays;
  for (const std::string& member : archive->names()) {
    if (!member.ends_with(".npy")) continue;  // NumPy gives these out as bytes
    Result<Contents> bytes = archive->member(member);
    if (!bytes) return bytes.error();
    Result<std::vector<Array>> array = parse_npy(*bytes, file_name + ":" + member);
    if (!array) return array.error();
    arrays.push_back({member.substr(0, member.size() - 4), std::move((*array)[0].tensor)});
  }
  return arrays;
}

Result<void> write_npz(OutputFile& file, const std::vector<Array>& arrays) {
  ZipWriter zip(file);
  for (const Array& array : arrays) {
    const Tensor tensor = array.tensor.contiguous();
    Result<void> added = zip.add(array.name + ".npy", npy_header(tensor), tensor.data(), tensor.nbytes());
    if (!added) return added;
  }
  return zip.finish();
}

}  // namespace atenon::arrays
