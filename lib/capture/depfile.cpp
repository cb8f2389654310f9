#include "capture/depfile.h"

#include "support/streams.h"

namespace atenon::capture {
namespace {

// As Make wants names: spaces, # and $ stand for themselves only with a mark before them.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == ' ' || c == '#' || c == ':') text += '\\';
    if (c == '$') text += '$';
    text += c;
  }
  return text;
}

}  // namespace

Result<void> write_depfile(const std::string& file, const std::vector<std::string>& targets,
                           const std::string& model_file, const std::string& model_path,
                           const std::vector<std::string>& imports) {
  std::string text, rules;
  for (const std::string& target : targets) text += (text.empty() ? "" : " ") + escaped(target);
  text += ": " + escaped(model_file);
  for (const std::string& path : imports) {
    if (path == model_path) continue;
    text += " \\\n  " + escaped(path);
    rules += escaped(path) + ":\n";
  }
  return write_contents(file, text + "\n" + rules);
}

}  // namespace atenon::capture
