#include "pack/pack.h"

#include "pack/join.h"
#include "program/program_file.h"
#include "pt2/pt2.h"

namespace atenon::pack {

Result<std::vector<Part>> read(const std::vector<std::string>& files, const std::vector<std::string>& named,
                               const std::function<Result<ir::ExportedProgram>(const std::string&)>& read) {
  std::vector<Part> parts;
  for (const std::string& file : files) parts.push_back({file, "", {}});
  for (const std::string& word : named) {
    size_t equals = word.find('=');
    if (equals == 0)
      return error(Status::usage, 5, "'" + word + "' names no entry point")
          .note("write name=" + word.substr(1) + ", or " + word.substr(1) + " to keep the name that it has");
    parts.push_back({word.substr(equals + 1), word.substr(0, equals), {}});
  }
  for (Part& part : parts) {
    Result<ir::ExportedProgram> program = read(part.source);
    if (!program) return program.error();
    part.program = std::move(*program);
  }
  return parts;
}

Result<ir::ExportedProgram> run(std::vector<Part> parts, const std::vector<std::string>& kernels) {
  for (Part& part : parts) {
    const auto without = [&](const std::string& what, const std::string& name) {
      return error(Status::bad_input, 551, part.source + " names the " + what + " '" + name + "' without its bytes")
          .note("a text program holds large ones by digest only: pack the binary program, or give it by --segments");
    };
    const std::set<std::string> unread = program::unread_weights(part.program);  // these need none
    for (const ir::Weight& weight : part.program.weights)
      if (weight.tensor.storage->is_absent() && !unread.contains(weight.name)) return without("weight", weight.name);
    for (const ir::ExtraFile& file : part.program.extra_files)
      if (file.bytes->is_absent()) return without("extra file", file.name);
    for (const ir::CodeSegment& code : part.program.code)
      if (code.bytes->is_absent()) return without("code", code.name);
    if (part.entry_name.empty()) continue;
    if (part.program.entries.size() != 1) {
      return error(Status::bad_input, 550,
                   part.source + " has several entry points, so it cannot be renamed to '" + part.entry_name + "'");
    }
    part.program.entries[0].name = part.entry_name;
  }
  ir::ExportedProgram package = std::move(parts.front().program);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (Result<void> joined = join(package, std::move(parts[i])); !joined) return joined.error();
  }
  if (Result<void> added = program::add_kernel_libraries(package, kernels); !added) return added.error();
  return package;
}

Result<std::optional<ir::ExportedProgram>> in_format(const std::string& format, ir::ExportedProgram package,
                                                     const opset::Opset& opset, const std::string& output) {
  if (format == "atn") return std::optional(std::move(package));
  if (format != "pt2")
    return error(Status::usage, 552, "there is no format '" + format + "'").note("there are: atn, pt2");
  if (Result<void> whole = program::verify_digests(package); !whole) return whole.error();
  if (Result<void> written = pt2::write(package, opset, output); !written) return written.error();
  return std::optional<ir::ExportedProgram>();
}

}  // namespace atenon::pack
