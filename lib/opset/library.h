// Blocks as the scan of headers leaves them, and how they are parsed when first asked for.
#pragma once

#include "opset/block.h"
#include "opset/opset.h"

namespace atenon::opset {

struct LazyBlock {
  BlockPlace place;
  const Library* library = nullptr;
  std::vector<std::string> targets;  // of the headers
  bool is_built_in = false;

  // The parsed block. Asserts that it parses: an Operator whose block does not is never handed out.
  const Block& get() const;
  std::string_view text() const;  // headers and body
  Result<void> check() const;

 private:
  void parse() const;
  mutable std::once_flag once_;
  mutable Block block_;
  mutable std::optional<Diagnostic> failure_;
};

// The schema of one header, with errors that point into the file.
Result<Schema> parse_header(const BlockPlace& place, size_t header);

// What the scan of a text finds, in order.
struct Scan {
  std::vector<BlockPlace> blocks;
  struct Definition {
    std::string name;
    size_t begin = 0, end = 0;
  };
  std::vector<Definition> functions, monoids;
};
Result<Scan> scan(const SourceFile& file);
// "aten::add.Tensor", the target of a header, without parsing its schema.
std::string_view target_of(const BlockPlace& place, size_t header);

// --- derive.cpp: the operators that follow from others.

struct DerivedName {
  Derivation derivation = Derivation::none;
  std::vector<std::string> origins;  // targets that it may follow from; the first that exists and qualifies counts
  std::string any_view_of;           // scatter: any overload of this name
};
// The ways in which `target` could be derived, by its name alone.
std::vector<DerivedName> possible_origins(const std::string& target);
bool can_derive(const Operator& origin, Derivation derivation);
Schema derive_schema(const Schema& origin, Derivation derivation);

}  // namespace atenon::opset
