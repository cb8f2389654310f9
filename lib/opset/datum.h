// What an expression of the operator language evaluates to.
//
// Static values (sizes, numbers, dtypes, texts, lists of them) are known when an operator is applied; sizes may be
// symbolic. Two kinds stand for what is only known at run time: a tensor, and, inside a loop, an Element: a scalar of
// the Meaning under construction. Data are immutable and cheap to copy.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "opset/meaning.h"

namespace atenon::opset {

struct Datum;

// A list, or a tuple (several results); always of static length.
struct Sequence {
  std::vector<Datum> items;
  bool is_tuple = false;
};
using List = std::shared_ptr<const Sequence>;

// A scalar of the Meaning that is being built.
struct Element {
  ScalarId id = no_scalar;
};

// What a `type` line says of one result: its type, and how operands are computed with (same, floating, predicate).
struct ResultType {
  ir::Type type;
  std::optional<ScalarType> computed_in = std::nullopt;
  std::vector<const ir::Value*> operands = {};  // tensors that the rule named: they are converted to `computed_in`
};
using TypeOf = std::shared_ptr<const ResultType>;

// `lowest`, `highest` and `last`: constants whose value depends on the dtype of a monoid's component.
enum class Extreme { lowest, highest, last };

struct Datum : std::variant<ir::None, ir::SymInt, ir::SymFloat, ir::SymBool, std::complex<double>, ScalarType,
                            std::string, ir::Word, List, ir::Value*, Element, TypeOf, Extreme> {
  using variant::variant;
  Datum(int value) : variant(ir::SymInt(value)) {}
  Datum(int64_t value) : variant(ir::SymInt(value)) {}
  Datum(double value) : variant(ir::SymFloat(value)) {}
  Datum(bool value) : variant(ir::SymBool(value)) {}

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(*this);
  }
  template <class T>
  const T& get() const {
    return *std::get_if<T>(this);
  }

  bool is_none() const { return is<ir::None>(); }
  bool is_number() const { return is<ir::SymInt>() || is<ir::SymFloat>() || is<ir::SymBool>(); }
  bool is_list() const { return is<List>(); }
  const std::vector<Datum>& items() const { return get<List>()->items; }
  // The tensor, or null. A number that a node yields is a Value too, but no tensor.
  ir::Value* tensor() const { return is<ir::Value*>() && get<ir::Value*>()->is_tensor() ? get<ir::Value*>() : nullptr; }
  std::optional<int64_t> integer() const { return is<ir::SymInt>() ? get<ir::SymInt>().constant() : std::nullopt; }
};

Datum list(std::vector<Datum> items);
Datum tuple(std::vector<Datum> items);
Datum list(const std::vector<ir::SymInt>& sizes);

// An argument of a call as the language sees it. An integer that a node yields is the symbol of the node's name.
Datum from_argument(const ir::Argument& argument);
// nullopt for what cannot be an argument of a node: elements and types.
std::optional<ir::Argument> to_argument(const Datum& datum);

std::string to_string(const Datum& datum);

}  // namespace atenon::opset
