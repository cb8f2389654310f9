// NO_COLOR (no-color.org) and TERM=dumb are honoured.
#include "cli/message.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>

namespace atenon::cli {
namespace {

constexpr const char *bold = "\033[1m", *red = "\033[1;31m", *yellow = "\033[1;33m", *green = "\033[1;32m",
                     *cyan = "\033[1;36m", *plain = "\033[0m";

bool wants_colour() {
  const char *no_color = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (terminal != nullptr && std::string(terminal) == "dumb");
  return !refused && isatty(STDERR_FILENO) != 0;
}

bool is_caret_line(const std::string& line) {
  return line.find('^') != std::string::npos && line.find_first_not_of(" ^~") == std::string::npos;
}

}  // namespace

std::string coloured(const std::string& rendered, const std::string& severity) {
  std::istringstream lines(rendered);
  std::string out, line;
  bool first = true;
  while (std::getline(lines, line)) {
    if (first) {
      // `tool: file:7:36: error[E0107]: message`
      size_t start = line.find(" " + severity + ": ");
      start = std::min(start, line.find(" " + severity + "["));
      if (start != std::string::npos) {
        const size_t end = line.find(": ", start);
        out += line.substr(0, start + 1) + (severity == "error" ? red : yellow) + line.substr(start + 1, end - start) +
               plain + bold + line.substr(end + 1) + plain + "\n";
      } else {
        out += line + "\n";
      }
    } else if (is_caret_line(line)) {
      out += green + line + plain + "\n";
    } else if (line.starts_with("note: ")) {
      out += cyan + std::string("note:") + plain + line.substr(5) + "\n";
    } else {
      out += line + "\n";
    }
    first = false;
  }
  return out;
}

void print_message(const Diagnostic& diagnostic, const std::string& tool, const std::string& severity) {
  const std::string text = diagnostic.render(tool, severity);
  std::cerr << (wants_colour() ? coloured(text, severity) : text);
}

int finish_output(Status status, const std::string& tool) {
  errno = 0;
  std::cout.flush();
  if (std::cout.good() || errno == EPIPE) return static_cast<int>(status);
  print_message(error(Status::usage, 3, std::string("cannot write standard output: ") + std::strerror(errno)), tool);
  return static_cast<int>(Status::usage);
}

}  // namespace atenon::cli
