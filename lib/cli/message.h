// Messages on standard error: coloured on a terminal, plain elsewhere. Private to lib/cli.
#pragma once

#include <string>

#include "support/diagnostic.h"

namespace atenon::cli {

void print_message(const Diagnostic& diagnostic, const std::string& tool, const std::string& severity = "error");

// The same text with escape sequences: the severity and its code, the caret, and the word `note`.
std::string coloured(const std::string& rendered, const std::string& severity);

}  // namespace atenon::cli
