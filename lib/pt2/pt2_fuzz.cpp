// No bytes may crash the reader of archives. Members of a zip file have checksums, which a fuzzer that flips bits
// fails, so bytes that look like JSON stand for the program of an archive with one weight. (ATENON_FUZZ; `fuzz/pt2_fuzz
// testdata/pt2`)
#include "pt2/archive.h"
#include "pt2/pt2.h"

using namespace atenon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto opset = opset::Opset::load("opsets");
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const Contents contents{reinterpret_cast<std::byte*>(bytes.data()), bytes.size(), nullptr, false};
  if (bytes.starts_with("{")) {
    const Tensor weight = Tensor::zeros(ScalarType::f32, {4, 4});
    (void)pt2::read_program({.file_name = "fuzz", .program = contents, .weights = {{"first.weight", weight}}}, **opset);
  } else {
    (void)pt2::read(contents, "fuzz", **opset);
  }
  return 0;
}
