// Joins programs into one package: several variants behind guards, several entry points, shared weights stored once.
//
// Programs whose entry points have different names become the entry points of one package. Programs of one entry point
// become its variants, tried in the order given; each gets the guards (assumptions on the sizes of inputs) that tell it
// from the others. Weights of one name and content are one; others are renamed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/opset.h"

namespace atenon::pack {

struct Part {
  std::string source;      // what messages call it: the file's name
  std::string entry_name;  // renames its first entry point; "" keeps the name
  ir::ExportedProgram program;
};

// Reads the parts with `read`: `files` as they are, `named` as ENTRY=FILE.
Result<std::vector<Part>> read(const std::vector<std::string>& files, const std::vector<std::string>& named,
                               const std::function<Result<ir::ExportedProgram>(const std::string&)>& read);

// E0550: parts that do not fit together; E0551: bytes of a weight are missing. At least one part.
// `kernels` are shared libraries of the user's, which go inside.
Result<ir::ExportedProgram> run(std::vector<Part> parts, const std::vector<std::string>& kernels = {});

// The package, to be written in our own format ("atn"); or nullopt, once it is written to `output` as an archive of
// torch.export ("pt2"). E0552: another format.
Result<std::optional<ir::ExportedProgram>> in_format(const std::string& format, ir::ExportedProgram package,
                                                     const opset::Opset& opset, const std::string& output);

}  // namespace atenon::pack
