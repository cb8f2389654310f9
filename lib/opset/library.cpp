// The scan of headers: one pass over line starts; nothing else is looked at until an operator is used.
#include "opset/library.h"

#include <cstring>

namespace atenon::opset {
namespace {

bool starts(std::string_view line, std::string_view word) { return line.substr(0, word.size()) == word; }

// The end of the word at `at`.
std::string_view word_at(std::string_view text, size_t at) {
  return text.substr(at, text.find_first_of(" (\n", at) - at);
}

}  // namespace

Result<Scan> scan(const SourceFile& file) {
  Scan scan;
  const std::string_view text = file.text;
  size_t* open_end = nullptr;  // of the construct that the current line belongs to
  bool in_headers = false;
  for (size_t at = 0; at < text.size();) {
    const void* found = std::memchr(text.data() + at, '\n', text.size() - at);
    const size_t end = found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : text.size();
    const std::string_view line = text.substr(at, end - at);
    if (starts(line, "op ")) {
      if (!in_headers) scan.blocks.push_back({.file = &file});
      BlockPlace& block = scan.blocks.back();
      block.headers.emplace_back(at + 3, end);
      block.body = block.end = std::min(end + 1, text.size());
      open_end = &block.end;
      in_headers = true;
    } else if (starts(line, "def ") || starts(line, "monoid ")) {
      const bool is_function = line[0] == 'd';
      std::vector<Scan::Definition>& definitions = is_function ? scan.functions : scan.monoids;
      definitions.push_back(
          {std::string(word_at(text, line.find_first_not_of(' ', is_function ? 3 : 6) + at)), at, end});
      open_end = &definitions.back().end;
      in_headers = false;
    } else if (starts(line, "  ") && open_end) {
      *open_end = std::min(end + 1, text.size());
      in_headers = false;
    } else if (!line.empty() && line[0] != '#' && line.find_first_not_of(" \r") != std::string_view::npos) {
      return error(Status::bad_input, 102, "expected 'op', 'def', 'monoid' or a line indented by two")
          .at(file.span(at, word_at(text, at).size()));
    } else if (line.empty()) {
      open_end = nullptr;
      in_headers = false;
    }
    at = end + 1;
  }
  return scan;
}

std::string_view target_of(const BlockPlace& place, size_t header) {
  return word_at(place.file->text, place.headers[header].first);
}

Result<Schema> parse_header(const BlockPlace& place, size_t header) {
  const auto [begin, end] = place.headers[header];
  Result<Schema> schema = parse_schema(place.file->text.substr(begin, end - begin));
  if (schema) return schema;
  Diagnostic failure = schema.error();
  failure.where = place.file->span(begin + static_cast<size_t>(failure.where.column) - 1);
  return failure;
}

void LazyBlock::parse() const {
  std::call_once(once_, [&] {
    std::vector<Schema> schemas;
    for (size_t i = 0; i < place.headers.size(); ++i) {
      Result<Schema> schema = parse_header(place, i);
      if (!schema) return void(failure_ = schema.error());
      schemas.push_back(std::move(*schema));
    }
    std::vector<const Schema*> pointers;
    for (const Schema& schema : schemas) pointers.push_back(&schema);
    Result<void> parsed = parse_block(place, pointers, *library, false, block_);
    if (!parsed) failure_ = parsed.error();
  });
}

const Block& LazyBlock::get() const {
  parse();
  assert(!failure_);
  return block_;
}

std::string_view LazyBlock::text() const {
  const size_t begin = place.headers.front().first;
  return std::string_view(place.file->text).substr(begin, place.end - begin);
}

Result<void> LazyBlock::check() const {
  parse();
  return failure_ ? Result<void>(*failure_) : Result<void>();
}

}  // namespace atenon::opset
