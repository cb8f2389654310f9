// libFuzzer: no bytes may crash the reader of .npy files, and what it accepts can be read to the last element.
#include "arrays/arrays.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> copy(data, data + size);
  const atenon::Contents contents{reinterpret_cast<std::byte*>(copy.data()), size, nullptr, false};
  auto arrays = atenon::arrays::parse_npy(contents, "fuzz");
  if (!arrays) return 0;
  for (const auto& array : *arrays) {
    const int64_t last = array.tensor.numel() - 1;
    if (last >= 0) (void)array.tensor.float_at(last);
  }
  return 0;
}
