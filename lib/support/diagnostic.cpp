// Printing of diagnostics, and the choice of a name to suggest.
//
// Columns are bytes, as parsers count them; the caret must stand under a character, so multi-byte characters count once
// and tabs are printed as one space.
#include "support/diagnostic.h"

#include <algorithm>
#include <cstdio>

namespace atenon {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t characters(const std::string& text, size_t begin, size_t end) {
  size_t count = 0;
  for (size_t i = begin; i < std::min(end, text.size()); ++i) count += !continues_character(text[i]);
  return count;
}

// The line in question without its indentation, and a caret with a tail of tildes below.
std::string quote(const SourceSpan& span) {
  std::string line = span.text;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  const size_t indentation = std::min(line.find_first_not_of(" \t"), line.size());
  std::string out = "  " + line.substr(indentation) + "\n";
  std::replace_if(out.begin(), out.end() - 1, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  const size_t start = static_cast<size_t>(span.column - 1);
  if (span.column < 1 || start < indentation || start > line.size()) return out;
  // A span that runs over the end of its line is marked up to the end.
  const size_t end = std::min(start + static_cast<size_t>(std::max(span.width, 1)), line.size());
  const size_t tail = std::max<size_t>(characters(line, start, end), 1) - 1;
  return out + "  " + std::string(characters(line, indentation, start), ' ') + "^" + std::string(tail, '~') + "\n";
}

std::string place(const SourceSpan& span) {
  std::string out = span.file;
  if (span.known()) out += ":" + std::to_string(span.line);
  if (span.known() && span.column > 0) out += ":" + std::to_string(span.column);
  return out.empty() ? out : out + ": ";
}

// Edits (insert, delete, replace, swap of neighbours) between two names, or a number above `limit` once it is exceeded.
size_t edit_distance(const std::string& a, const std::string& b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  std::vector<size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(above);
    above = row;
  }
  return above[b.size()];
}

}  // namespace

std::string Diagnostic::code_name() const {
  if (code == 0) return "";
  char text[16];
  std::snprintf(text, sizeof text, "E%04d", code);
  return text;
}

std::string Diagnostic::render(const std::string& tool, const std::string& severity) const {
  std::string out = tool.empty() ? "" : tool + ": ";
  out += place(where) + severity;
  if (code != 0) out += "[" + code_name() + "]";
  out += ": " + message + "\n";
  if (!where.text.empty()) out += quote(where);
  for (const Note& note : notes) {
    out += "note: " + place(note.where) + note.text + "\n";
    if (!note.where.text.empty()) out += quote(note.where);
  }
  return out;
}

Diagnostic error(Status status, int code, std::string message) {
  return {.status = status, .code = code, .message = std::move(message)};
}

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  // A third of the name may be wrong; more, and the suggestion is noise.
  size_t limit = std::max<size_t>(name.size() / 3, 1);
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate, limit);
    if (distance > limit || distance >= std::max(name.size(), candidate.size())) continue;
    if (best != nullptr && distance == limit) continue;  // the first of equals wins
    best = &candidate;
    limit = distance;
  }
  return best != nullptr ? *best : "";
}

}  // namespace atenon
