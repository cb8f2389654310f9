// One row an option: what --help, man pages, completions and the history of a program are printed from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace atenon::cli {

struct OptionRow {
  std::string names;       // "-o,--output"; of a positional, the name of its value
  std::string value_name;  // "" for a flag
  std::string help;
  std::string fallback;  // the default as text, "" if there is none to show
  Effect effect = Effect::result;
  bool is_positional = false;
  bool required = false;
  bool repeated = false;
  bool is_output = false;  // names a file that is written
  // The values given, as they would be written on a command line; empty if the option was not given.
  std::function<std::vector<std::string>()> given = {};

  std::vector<std::string> spellings() const;  // "-o", "--output"
  std::string long_name() const;               // "--output"
};

struct ToolText {
  std::string name;     // atenon-lower
  std::string purpose;  // a clause without subject
  std::string example;  // one command line
  std::vector<OptionRow> options;

  std::string usage() const;
};

std::string help_text(const ToolText& tool);
std::string man_page(const ToolText& tool);
// E0006 for a shell that is not known.
Result<std::string> completions(const ToolText& tool, const std::string& shell);
// The section of lib/*/errors.md about "E0107". E0007 if there is none.
Result<std::string> explanation(const std::string& code, const std::string& folder);

}  // namespace atenon::cli
