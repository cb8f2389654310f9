// Messages on standard error: coloured on a terminal, plain elsewhere. Private to lib/cli.
#pragma once

#include <string>

#include "support/diagnostic.h"

namespace atenon::cli {

void print_message(const Diagnostic& diagnostic, const std::string& tool, const std::string& severity = "error");

// Ends a tool that has written what it had to say: `status`, or E0003 where standard output took no more. A reader that
// left has read enough, but nobody has read what a full disk swallowed.
int finish_output(Status status, const std::string& tool);

// The same text with escape sequences: the severity and its code, the caret, and the word `note`.
std::string coloured(const std::string& rendered, const std::string& severity);

}  // namespace atenon::cli
