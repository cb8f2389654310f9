// ExportedProgram to message and back: private to lib/program, the only code that sees both.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "program/program.pb.h"

namespace atenon::program {

// The message, with every segment's digest and size but not its place, and the storage that each segment's bytes come
// from.
struct Encoded {
  wire::Program message;
  std::vector<std::shared_ptr<Storage>> segments;
};
Encoded encode(const ir::ExportedProgram& program);

// Every storage of a program once, with what it holds: "weight 'fc.bias'".
using Storages = std::vector<std::pair<Storage*, std::string>>;
Storages storages_of(const ir::ExportedProgram& program);

// `storage` gives a new Storage over the bytes of a segment; called once for each storage and code. Everything in the
// message is checked before use; errors are E0234.
Result<ir::ExportedProgram> decode(const wire::Program& message, const std::string& file_name,
                                   const std::function<std::shared_ptr<Storage>(const wire::Segment&)>& storage);

}  // namespace atenon::program
