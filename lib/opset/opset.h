// The operators that are known: every block under opsets/ and every block that a program or a user brings.
//
// Loading scans for headers only (3 ms for everything); a header's schema and its block's body are parsed when first
// asked for. Derived variants are looked up like any other: `add_.Tensor`, `add.out`, `slice_copy.Tensor`,
// `slice_scatter` exist as soon as `add.Tensor` is tagged `inplace`, has tensor results, or `slice.Tensor` is a view.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "opset/schema.h"

namespace atenon::opset {

struct LazyBlock;  // a block's text, parsed when first asked for; private to lib/opset

// How an operator that is not written in a block follows from one that is.
enum class Derivation { none, inplace, out, copy, scatter };

class Operator {
 public:
  const Schema& schema() const { return schema_; }
  std::string target() const { return schema_.target(); }
  bool has_tag(const std::string& tag) const;  // core, inplace, random, keep, as_image, ...
  // inplace, out, copy, scatter: `origin` is the operator that this follows from.
  Derivation derivation() const { return derivation_; }
  const Operator* origin() const { return origin_; }
  // What kind of meaning the block gives, for reports: "pointwise", "reduction", "view", "scatter", "decompose",
  // "extern". A block with several guarded meanings has the kind of the first.
  std::string meaning_kind() const;
  bool is_view() const;  // the result aliases its first tensor argument
  // A custom operator of which only the schema is known: its nodes state what they give, and a kernel computes it.
  bool is_declared() const;
  // The text that it was read from, with all that stands beside it; null for what comes with Atenon.
  const std::string* brought_by() const;
  // Where the block stands: "opsets/aten/pointwise.ops", line.
  SourceSpan place() const;

  // For the evaluation of blocks only. The block that gives checks and types; the one that replaces its meanings, or
  // null; which of its headers this is.
  const LazyBlock& block() const { return *block_; }
  const LazyBlock* replacement() const { return replacement_; }
  size_t header() const { return header_; }
  size_t replacement_header() const { return replacement_header_; }

 private:
  friend class Opset;
  Schema schema_;
  Derivation derivation_ = Derivation::none;
  const Operator* origin_ = nullptr;
  const LazyBlock* block_ = nullptr;
  const LazyBlock* replacement_ = nullptr;
  size_t header_ = 0;
  size_t replacement_header_ = 0;
};

// A set of operators by name, such as `core` or `lowerable`: what `decompose --to` keeps. A file `opsets/core.set`: one
// operator a line, `aten::add.Tensor`, or `tag core` for all that carry a tag; `#` comments.
struct TargetSet {
  std::string name;
  std::function<bool(const Operator&)> contains;
};

class Opset {
 public:
  // Reads every .ops file under `folder` (share/atenon/opsets next to the tools). Errors point into the file.
  static Result<std::unique_ptr<Opset>> load(const std::string& folder);
  ~Opset();

  // Adds blocks from a text (a user's .ops file, a program's custom blocks). A known schema with only meanings replaces
  // the meaning; a new name adds an operator; what was only declared may be defined. The same block twice is one.
  Result<void> add(const std::string& text, const std::string& file_name);

  // `target` as in Node::target ("aten::add.Tensor"; "aten.add.Tensor" and a trailing ".default" are understood).
  // Null if there is none, or its block does not parse: then check() has the reason.
  const Operator* find(const std::string& target) const;
  Result<const Operator*> check(const std::string& target) const;  // find, or E0101 with the nearest name
  // Whether the node's operator is known, and has the tag.
  bool has_tag(const ir::Node& node, const std::string& tag) const;
  // All overloads of "aten::add", in file order.
  std::vector<const Operator*> overloads(const std::string& name) const;
  // Names without overload of all operators in all namespaces, sorted: for Python's binding and for suggestions.
  std::vector<std::string> names() const;

  // `name` stands for `<folder>/<name>.set`; a name with a dot or a slash is the path of such a file.
  Result<TargetSet> target_set(const std::string& name) const;

  // Parses every block and runs every example in it. Reports all failures; used by tests.
  std::vector<Diagnostic> check_all() const;

 private:
  Opset();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atenon::opset
