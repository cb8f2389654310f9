// Programs from hostile bytes: as a file, as a message whose digest fits, and as text. What is read must print, and
// what is printed must read again as the same. (ATENON_FUZZ; `fuzz/program_fuzz testdata/format`)
#include <cstdlib>

#include "program/container.h"
#include "program/program_file.h"
#include "text/text.h"

using namespace atenon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (bytes[0] == 'M') {
    const std::string head = program::container_head(bytes.substr(1), 0, false);
    bytes = head + program::container_trailer(head.size() + program::trailer_size);
  }
  std::shared_ptr<Storage> storage = Storage::allocate(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(storage->mutable_data()));
  const Result<ir::ExportedProgram> program = program::parse(storage, "fuzz");
  if (!program) return 0;
  (void)program::verify_digests(*program);
  const std::string text = text::print(*program);
  const Result<ir::ExportedProgram> again = text::parse(text, "fuzz");
  if (!again || text::print(*again) != text) std::abort();
  return 0;
}
