// `--explain E0107`: the section of lib/<folder>/errors.md about a code, installed under share/atenon/errors.
#include <filesystem>

#include "cli/option_table.h"
#include "support/streams.h"

namespace atenon::cli {

Result<std::string> explanation(const std::string& code, const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    Result<Contents> contents = read_contents(file.string());
    if (!contents) return contents.error();
    std::string_view text = contents->text();
    size_t start = text.starts_with("## " + code + " ") ? 0 : text.find("\n## " + code + " ");
    if (start == std::string_view::npos) continue;
    start = text.find(code, start);
    size_t end = text.find("\n## ", start);
    std::string section(text.substr(start, end == std::string_view::npos ? end : end - start));
    while (section.ends_with('\n')) section.pop_back();
    return section + "\n";
  }
  return error(Status::usage, 7, "no error has the code " + code)
      .note("a code stands in brackets in its message: E0107");
}

}  // namespace atenon::cli
