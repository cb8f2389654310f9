// A shared library of the user's as a part of a program. It is looked at and not opened: opening would run code in it.
#include <elf.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "program/program_file.h"
#include "support/streams.h"

namespace atenon::program {
namespace {

// "" where there is no name for the machine of an ELF file.
std::string architecture(uint16_t machine) {
  return machine == EM_X86_64 ? "x86_64" : machine == EM_AARCH64 ? "aarch64" : "";
}

Result<ir::CodeSegment> read_library(const std::string& path) {
  Result<Contents> contents = read_contents(path);
  if (!contents) return contents.error();
  Elf64_Ehdr header{};
  if (contents->size >= sizeof header) std::memcpy(&header, contents->bytes, sizeof header);
  const bool is_library = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                          header.e_type == ET_DYN;
  const std::string target = architecture(header.e_machine);
  if (!is_library || target.empty())
    return error(Status::bad_input, 236, path + " is no shared library")
        .note("fix: cc -shared -fPIC -O2 kernels.c -o kernels.so, where kernels.c includes atenon_kernel.h");
  auto bytes = Storage::view(contents->bytes, contents->size, contents->keep_alive, /*writable=*/false);
  return ir::CodeSegment{std::filesystem::path(path).filename().string(), target, std::move(bytes), true};
}

}  // namespace

Result<void> add_kernel_libraries(ir::ExportedProgram& program, const std::vector<std::string>& paths) {
  std::set<std::string> taken;
  for (const ir::CodeSegment& code : program.code)
    if (!code.is_library) taken.insert(code.name);
  for (const std::string& path : paths) {
    Result<ir::CodeSegment> library = read_library(path);
    if (!library) return library.error();
    if (!taken.insert(library->name).second)
      return error(Status::usage, 237, "the name of " + path + " is that of other code in the program")
          .note("fix: rename the file");
    std::erase_if(program.code, [&](const ir::CodeSegment& other) { return other.name == library->name; });
    program.code.push_back(std::move(*library));
  }
  return {};
}

}  // namespace atenon::program
