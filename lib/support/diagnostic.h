// What a tool says to its user: one message with its place, its reason and its fix.
//
// Every layer reports what a user can cause as a Diagnostic inside a Result (result.h). A Diagnostic decides the exit
// status of the tool, so it is chosen where the cause is known, not in main. The texts behind `--explain E0107` live in
// lib/<folder>/errors.md, one `## E0107 Title` section a code; a test holds the two lists together. Codes by layer:
// 00xx files and options, 01xx operators and verify, 02xx text form and file format, 03xx capture, 04xx decompose and
// specialize, 05xx lower and pack, 06xx run, 07xx diff and show, 08xx arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atenon {

// The exit status of a tool (design.md, 5).
enum class Status : int {
  ok = 0,           // done, yes, or the same
  no = 1,           // the answer is no: a difference, a failed check
  usage = 2,        // wrong usage, or a file or name that is not there
  bad_input = 3,    // the input is damaged or not what was expected
  unsupported = 4,  // the model does something unsupported, or its own Python raised
  violated = 5,     // an input violates the program's assumptions
  bug = 70,         // ours
};

// A stretch of text that a message points at. `line` and `column` count from 1; line 0 means no place is known.
struct SourceSpan {
  std::string file;  // as the user named it; "<stdin>" for standard input
  int line = 0;
  int column = 0;    // in bytes; 0 points at the whole line
  int width = 1;     // bytes under the caret and its tildes
  std::string text;  // the line itself, for printing; empty when there is none to show

  bool known() const { return line > 0; }
};

// A further line under a message: `note: captured from net.py:12: h = F.gelu(y)`.
struct Note {
  std::string text;
  SourceSpan where = {};
};

// One error or warning. `message` is a sentence without a final stop.
struct Diagnostic {
  Status status = Status::bug;
  int code = 0;  // 107 prints as E0107; 0 prints none
  std::string message;
  SourceSpan where = {};
  std::vector<Note> notes = {};

  Diagnostic&& note(std::string text, SourceSpan span = {}) && {
    notes.push_back({std::move(text), std::move(span)});
    return std::move(*this);
  }
  Diagnostic&& at(SourceSpan span) && {
    where = std::move(span);
    return std::move(*this);
  }
  // `tool: file:7:36: error[E0107]: message`, the line with its caret, then the notes; ends with a newline.
  std::string render(const std::string& tool, const std::string& severity = "error") const;
  // "E0107", or "" for none.
  std::string code_name() const;
};

// An error for what a user caused. `code` is the number of a section in the layer's errors.md.
Diagnostic error(Status status, int code, std::string message);

// The candidate nearest to `name` by edit distance, or "" when none is near enough to suggest.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace atenon
