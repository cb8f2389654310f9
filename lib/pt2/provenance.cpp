#include "pt2/provenance.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace atenon::pt2 {
namespace {

constexpr std::string_view packages = "-packages/";  // site-packages, dist-packages

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// `File "a/net.py", line 12, in forward`, and the line of code below it.
std::vector<ir::Frame> frames_of(const std::string& traceback) {
  std::vector<ir::Frame> frames;
  for (const std::string& raw : split(traceback, '\n')) {
    const std::string line = trimmed(raw);
    if (line.starts_with("File \"")) {
      const size_t end = line.find("\", line ", 6);
      if (end == std::string::npos) continue;
      ir::Frame frame{.file = line.substr(6, end - 6)};
      const char* number = line.data() + end + 8;
      const char* rest = std::from_chars(number, line.data() + line.size(), frame.line).ptr;
      const size_t in = line.find(", in ", static_cast<size_t>(rest - line.data()));
      if (in != std::string::npos) frame.function = line.substr(in + 5);
      frames.push_back(std::move(frame));
    } else if (!frames.empty() && frames.back().code.empty()) {
      frames.back().code = line;
    }
  }
  return frames;
}

// Of PyTorch itself, or made while exporting.
bool is_foreign(const std::string& file) {
  const size_t at = file.rfind(packages);
  return (at != std::string::npos && file.compare(at + packages.size(), 6, "torch/") == 0) ||
         file.starts_with("torch/") || file.starts_with("<");
}

}  // namespace

void CallStacks::note(const std::string& traceback) {
  for (const ir::Frame& frame : frames_of(traceback))
    if (!is_foreign(frame.file) && frame.file.find(packages) == std::string::npos)
      folders_.insert(frame.file.substr(0, frame.file.rfind('/') + 1));
}

std::string CallStacks::relative(const std::string& file) const {
  if (const size_t at = file.rfind(packages); at != std::string::npos) return file.substr(at + packages.size());
  if (folders_.empty()) return file.substr(file.rfind('/') + 1);
  // Of sorted texts, what the first and the last share is shared by all.
  const std::string &first = *folders_.begin(), &last = *folders_.rbegin();
  const size_t shared =
      static_cast<size_t>(std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first - first.begin());
  const size_t folder = first.substr(0, shared).rfind('/');
  return folder == std::string::npos ? file : file.substr(folder + 1);
}

ir::CallStack CallStacks::stack(const std::string& traceback, const std::string& modules) const {
  ir::CallStack stack;
  for (ir::Frame& frame : frames_of(traceback)) {
    if (is_foreign(frame.file)) continue;
    frame.file = relative(frame.file);
    stack.frames.push_back(std::make_shared<ir::Frame>(std::move(frame)));
  }
  const std::string innermost = modules.substr(modules.rfind(';') == std::string::npos ? 0 : modules.rfind(';') + 1);
  const size_t first = innermost.find(','), last = innermost.rfind(',');
  if (first != std::string::npos && first < last && !innermost.starts_with("_empty_nn_module_stack")) {
    stack.module_path = innermost.substr(first + 1, last - first - 1);
    stack.module_class = innermost.substr(last + 1);
  }
  return stack;
}

}  // namespace atenon::pt2
