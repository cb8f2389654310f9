// Operator schemas: ATen's own one-line signatures, parsed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace atenon::opset {

using ir::Argument;
using ir::Named;

// The kinds of values that a schema names. SymInt and int are one kind here; so are float and SymFloat.
enum class Kind {
  tensor,
  integer,
  floating,
  boolean,
  number,
  text,
  dtype,
  word /* layout, device, memory format */,
  generator,
  custom
};

struct ParameterType {
  Kind kind = Kind::tensor;
  bool optional = false;        // `?`: None is allowed
  bool list = false;            // `[]`
  bool optional_items = false;  // `Tensor?[]`
  int list_size = 0;            // `int[2]`: one value stands for that many
  std::string alias;            // "a" of Tensor(a) or Tensor(a!)
  bool mutated = false;         // the ! of Tensor(a!)

  std::string to_string() const;
};

struct Parameter {
  std::string name;
  ParameterType type;
  std::optional<Argument> fallback = std::nullopt;  // the default
  bool keyword_only = false;
};

struct Return {
  ParameterType type;
  std::string name;  // "" unless the schema gives one
};

// `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`
struct Schema {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"; "" is what PyTorch calls default
  std::vector<Parameter> parameters;
  std::vector<Return> returns;

  // Parameters that the operator updates in place without returning them: a node gives what each holds afterwards as a
  // further result, after the returns.
  std::vector<size_t> updated() const;
  std::vector<Return> results() const;  // of a node: the returns, and what is updated
  std::string target() const { return overload.empty() ? name : name + "." + overload; }  // as in Node::target
  const Parameter* parameter(const std::string& name) const;
  std::string to_string() const;
};

// Columns of errors point into `text`.
Result<Schema> parse_schema(const std::string& text);

}  // namespace atenon::opset
