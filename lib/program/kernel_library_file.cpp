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

// Whether a whole ELF file is a library: an executable that may lie anywhere is ET_DYN, too, but names an interpreter.
bool is_library(const Contents& file, const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN || header.e_phnum == 0)
    return false;
  Elf64_Phdr part{};
  if (header.e_phoff > file.size || header.e_phnum > (file.size - header.e_phoff) / sizeof part) return false;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    std::memcpy(&part, file.bytes + header.e_phoff + i * sizeof part, sizeof part);
    if (part.p_type == PT_INTERP || part.p_offset > file.size || part.p_filesz > file.size - part.p_offset)
      return false;
  }
  return true;
}

Result<ir::CodeSegment> read_library(const std::string& path) {
  Result<Contents> contents = read_contents(path);
  if (!contents) return contents.error();
  Elf64_Ehdr header{};
  if (contents->size >= sizeof header) std::memcpy(&header, contents->bytes, sizeof header);
  const std::string target = architecture(header.e_machine);
  if (!is_library(*contents, header) || target.empty())
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
