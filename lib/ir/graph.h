// Graphs: flat lists of nodes in topological order, SSA, functional.
//
// A Graph owns its nodes and values; pointers to them stay valid until they are erased, also when the Graph is moved.
// Each Value knows its users, kept in step by Node's setters. A node has as many results as its operator yields for
// these arguments: several results, and lists of tensors, are flattened into several Values, so there is no getitem.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/types.h"
#include "tensor/tensor.h"

namespace atenon::ir {

class Graph;
class Node;
struct Value;
struct Argument;

struct None {
  bool operator==(const None&) const = default;
};
// A layout, device or memory format: words that have no meaning here but are kept as captured.
struct Word {
  std::string text;
  bool operator==(const Word&) const = default;
};
// A subgraph of the same variant, by name: the branch of a cond, or the meaning of a lowered call.
struct SubgraphRef {
  std::string name;
  bool operator==(const SubgraphRef&) const = default;
};
using ArgumentList = std::vector<Argument>;

// What a node is applied to. Equality of Values is identity.
struct Argument : std::variant<None, SymInt, SymFloat, SymBool, std::complex<double>, std::string, ScalarType, Word,
                               SubgraphRef, Value*, ArgumentList> {
  using variant::variant;
  Argument(int64_t value) : variant(SymInt(value)) {}
  Argument(int value) : variant(SymInt(value)) {}
  Argument(bool value) : variant(SymBool(value)) {}
  Argument(double value) : variant(SymFloat(value)) {}
  Argument(const char* text) : variant(std::string(text)) {}

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(*this);
  }
  template <class T>
  const T& get() const {
    return std::get<T>(*this);
  }
  Value* value() const { return is<Value*>() ? get<Value*>() : nullptr; }
};

// A name and an argument: a keyword argument, or an annotation.
struct Named {
  std::string name;
  Argument argument;
};

// Names of values, subgraphs and symbols consist of these: letters, digits, `_` and `.`
constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// `text` with `_` for whatever a name may not have.
std::string as_name(std::string text);

// One result of a node, or one input of a graph.
struct Value {
  std::string name;  // unique in its graph, without the leading %
  Type type;
  Node* producer = nullptr;  // null for an input of the graph
  int index = 0;             // among the producer's results, or among the graph's inputs
  // One entry a use, in no particular order (do not let it reach an output); the graph's own outputs count by
  // `returned`.
  std::vector<Node*> users = {};
  int returned = 0;  // how often the graph returns it

  bool has_users() const { return !users.empty() || returned > 0; }
  bool is_tensor() const { return std::holds_alternative<TensorMeta>(type); }
  const TensorMeta& meta() const { return std::get<TensorMeta>(type); }
};

// The position of a call stack in ExportedProgram::provenance; 0 is "unknown".
using ProvenanceId = uint32_t;

// A truth that must hold (assumption) or will hold (guarantee), and where it was relied on.
struct Constraint {
  SymBool truth;
  ProvenanceId provenance = 0;
  std::string reason;  // "aten::add broadcasts x and y"; may be empty
};

// An operator applied to arguments: `%y: f32[b, 64] = aten::add.Tensor(%x, 1, alpha=2) @12`.
class Node {
 public:
  const std::string& target() const { return target_; }  // "aten::add.Tensor"; "atenon::call" after lower
  void set_target(std::string target) { target_ = std::move(target); }

  const std::vector<Argument>& arguments() const { return arguments_; }
  const std::vector<Named>& keywords() const { return keywords_; }
  const Argument* keyword(const std::string& name) const;
  void set_arguments(std::vector<Argument> arguments, std::vector<Named> keywords = {});

  const std::vector<std::unique_ptr<Value>>& results() const { return results_; }
  Value* result(size_t i = 0) const { return results_[i].get(); }
  bool has_users() const;

  // What a stage adds without changing the meaning: kernel="onednn.convolution". Kept by every stage, read by few.
  std::vector<Named> annotations;
  const Argument* annotation(const std::string& name) const;
  void annotate(const std::string& name, Argument value);  // replaces one of the same name

  ProvenanceId provenance = 0;

  // Every Value among the arguments and keywords, at any depth, in order.
  std::vector<Value*> operands() const;
  // Replaces one Value wherever it is an operand.
  void replace_operand(Value* from, const Argument& to);
  Graph& graph() const { return *graph_; }

 private:
  friend class Graph;
  Node() = default;
  void count_uses(bool add);

  Graph* graph_ = nullptr;
  std::string target_;
  std::vector<Argument> arguments_;
  std::vector<Named> keywords_;
  std::vector<std::unique_ptr<Value>> results_;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

class Graph {
 public:
  Graph() = default;
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  // A copy with nodes and values of its own, same names.
  Graph clone() const;

  // Of a subgraph: what holds whenever it runs, beyond what its variant assumes. Checked when it begins, and what data
  // decide as soon as they are there.
  std::vector<Constraint> assumptions;

  Value* add_input(std::string name, Type type);
  void erase_input(Value* input);  // must have no users
  // Puts the inputs into this order; all of them must be named.
  void order_inputs(const std::vector<std::string>& names);
  void rename(Value* value, const std::string& name);  // `name` must be free
  const std::vector<std::unique_ptr<Value>>& inputs() const { return inputs_; }

  const std::vector<Argument>& outputs() const { return outputs_; }
  void set_outputs(std::vector<Argument> outputs);

  struct Result {
    std::string name;  // a wish: made unique by a suffix; "" derives it from the target
    Type type;
  };
  // Appends, or inserts before `before`.
  Node* add(std::string target, std::vector<Argument> arguments, std::vector<Named> keywords,
            std::vector<Result> results, Node* before = nullptr);
  // Adds a copy of a node of this or another graph, with annotations and provenance, that reads what `map` says.
  Node* add_copy(const Node& node, const std::function<Argument(Value*)>& map, Node* before = nullptr);
  Value* add_result(Node& node, Result result);
  void erase(Node& node);  // its results must have no users
  void move_before(Node& node, Node& other);
  // Lets every user of `from`, and the graph's outputs, use `to`: another value, or what a number is known to be.
  void replace_uses(Value* from, const Argument& to);
  // Lets `values` take the place of the node's results, and erases it. Numbers keep their names, which are symbols.
  void replace(Node& node, const std::vector<Value*>& values);

  // Walks in order; erasing or inserting around the current node is allowed.
  class Iterator;
  class Span;
  Span forward();
  Span backward();
  Span forward() const;

  size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.empty(); }
  Value* find(const std::string& name) const;
  // Symbols that are read by types, arguments and assumptions anywhere in the graph.
  std::set<std::string> symbols() const;
  // Replaces symbols in all types, arguments, annotations and assumptions.
  void substitute(const shape::Substitution& substitution);
  // `wish`, with what no name may hold replaced by _, and the smallest free suffix _1, _2, ... where it is taken.
  std::string unique_name(const std::string& wish);

 private:
  friend class Node;
  using Nodes = std::list<std::unique_ptr<Node>>;
  void forget_name(const std::string& name);

  Nodes nodes_;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<Argument> outputs_;
  std::map<std::string, Value*> names_;
  std::map<std::string, int> first_free_;  // by stem: every suffix below it is taken
};

// A range over nodes that tolerates erasing the current one: it steps before the body runs.
class Graph::Iterator {
 public:
  Iterator(const Nodes* nodes, Nodes::const_iterator current, bool backward);
  Node& operator*() const { return **current_; }
  Iterator& operator++();
  bool operator!=(const Iterator& other) const { return current_ != other.current_; }

 private:
  void look_ahead();
  const Nodes* nodes_;
  Nodes::const_iterator current_;
  Nodes::const_iterator next_;
  bool backward_;
};

class Graph::Span {
 public:
  Span(const Nodes* nodes, bool backward) : nodes_(nodes), backward_(backward) {}
  Iterator begin() const;
  Iterator end() const;

 private:
  const Nodes* nodes_;
  bool backward_;
};

// Symbols that an argument, or all of a node's arguments, mention.
std::set<std::string> symbols_of(const Argument& argument);
std::set<std::string> symbols_read(const Node& node);
// Symbols that the node defines: numbers that it yields, by the names of its results, and sizes that only its data
// decide. A lowered call defines none.
std::set<std::string> symbols_defined(const Node& node);
// Calls `visit` for every argument at any depth, lists first outside, then inside.
void for_each(const Argument& argument, const std::function<void(const Argument&)>& visit);
// Rebuilds an argument with every leaf that is a Value replaced.
Argument map_values(const Argument& argument, const std::function<Argument(Value*)>& map);
std::vector<Argument> map_values(const std::vector<Argument>& arguments, const std::function<Argument(Value*)>& map);
std::vector<Named> map_values(const std::vector<Named>& named, const std::function<Argument(Value*)>& map);
// The argument of that name, or null.
const Argument* find(const std::vector<Named>& named, const std::string& name);
Type substitute(const Type& type, const shape::Substitution& substitution);
Argument substitute(const Argument& argument, const shape::Substitution& substitution);

}  // namespace atenon::ir
