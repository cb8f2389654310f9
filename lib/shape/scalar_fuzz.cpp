// libFuzzer: no text may crash the reader of symbolic scalars, and what it accepts prints as something that reads back
// equal.
#include <cstdlib>

#include "shape/symint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = [](const auto& x) { return x.to_string(); };
  auto value = atenon::shape::parse_scalar(std::string(reinterpret_cast<const char*>(data), size));
  if (!value) return 0;
  const std::string spelling = std::visit(text, *value);
  auto again = atenon::shape::parse_scalar(spelling);
  if (!again || std::visit(text, *again) != spelling) std::abort();
  return 0;
}
