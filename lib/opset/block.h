// Parsed blocks: the syntax tree of opsets/.
//
// Variables were resolved to slots of a frame when the block was parsed, calls to rules and functions likewise, so that
// evaluating a block looks no name up. A tree points into its SourceFile for messages and lives as long as its Block.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "opset/datum.h"
#include "opset/lexer.h"
#include "opset/meaning.h"
#include "opset/schema.h"

namespace atenon::opset {

struct Expr;
struct Function;
struct MonoidDefinition;
class Evaluator;

// A rule that is written in C++ (rules.cpp): promote, broadcast, ravel, len, ...
struct Rule {
  Datum (*evaluate)(Evaluator&, const Expr& call, const std::vector<Datum>& arguments);
  size_t least = 1, most = least;  // arguments
};
const Rule* find_rule(std::string_view name);

// What a let, a comprehension or an `at` binds: one slot, or the items of a list.
struct Pattern {
  int slot = -1;
  std::vector<Pattern> items;
};

struct Binding {
  Pattern pattern;
  const Expr* value = nullptr;
};

enum class ExprKind : uint8_t {
  constant,
  variable,
  count,      // the number of elements that a reduction goes through
  sequence,   // [a, b], (a, b)
  each,       // [operands[0] for bindings[0] if guard]
  call,       // name(operands...); names holds the keywords, "" for positional ones
  index,      // operands[0][operands[1], ...]
  slice,      // lower : upper, inside an index; either may be null
  field,      // operands[0].name
  component,  // operands[0].slot
  unary,
  binary,
  choice,  // operands[1] if operands[0] else operands[2]
  let,     // bindings, then operands[0]
  monoid,  // name{ bindings; operands... when guard }
};

enum class Operation : uint8_t {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  pow,
  bit_and,
  bit_or,
  shift_left,
  shift_right,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
  logical_not,
  contained,
  is_none,
  is_not_none,
  otherwise /* ?? */,
  neg,
  bit_not
};

// How an operation is written, the operator that it is on tensors (null: none) and what it is on elements. gt and ge
// are lt and le with their operands swapped.
struct OperationForm {
  const char* spelled;
  const char* op;
  ScalarOp scalar;
};
const OperationForm& form_of(Operation operation);

struct Expr {
  ExprKind kind = ExprKind::constant;
  Operation operation = Operation::add;
  bool is_tuple = false;
  int slot = -1;
  int height = 0;                // of the tree below, which is bounded
  size_t offset = 0, width = 1;  // where it stands
  Datum value;
  std::string name;
  std::vector<const Expr*> operands;
  std::vector<std::string> names;
  std::vector<Binding> bindings;
  const Expr* guard = nullptr;
  const Rule* rule = nullptr;          // of a call
  const Function* function = nullptr;  // of a call
  const MonoidDefinition* monoid = nullptr;
};

// A message with {expressions} in it.
struct Message {
  struct Piece {
    std::string text;
    const Expr* expr = nullptr;
  };
  std::vector<Piece> pieces;
};

struct Tree {
  std::deque<Expr> exprs;  // stable addresses
  int slots = 0;           // size of a frame
};

// `def name(parameters) = body "message"`; parsed when first called.
struct Function {
  std::string name;
  const SourceFile* file = nullptr;
  size_t begin = 0, end = 0;  // of its text
  struct Body {
    Tree tree;
    size_t parameters = 0;  // their slots come first
    const Expr* value = nullptr;
    Message message;
  };
  mutable std::once_flag once;
  mutable Body body;
  mutable std::optional<Diagnostic> failure;
};

// `monoid name identity joined`; slots 0 and 1 are a and b. Parsed when first used.
struct MonoidDefinition {
  std::string name;
  const SourceFile* file = nullptr;
  size_t begin = 0, end = 0;
  struct Body {
    Tree tree;
    const Expr* identity = nullptr;
    const Expr* joined = nullptr;
  };
  mutable std::once_flag once;
  mutable Body body;
  mutable std::optional<Diagnostic> failure;
};

// What blocks may call by name, besides rules and operators.
struct Library {
  std::map<std::string, Function, std::less<>> functions;
  std::map<std::string, MonoidDefinition, std::less<>> monoids;
};

enum class StepKind { let, check, type, pointwise, reduction, view, scatter, decompose, extern_kernel };
const char* name_of(StepKind kind);
inline bool is_meaning(StepKind kind) { return kind > StepKind::type; }

// One line of a block.
struct Step {
  StepKind kind = StepKind::let;
  size_t offset = 0, width = 1;
  std::string label;  // check: C1; extern: the kernel's name
  Binding let;        // let
  Message message;    // check
  bool is_prefix = false, is_wide = false, is_lowered = false;
  std::optional<Pattern> at;           // absent: tensors stand for their element at the broadcast index
  std::optional<Pattern> over;         // reduction at ... over
  int position_slot = -1;              // reduction over ... as NAME
  const Expr* extent = nullptr;        // reduction: axes, or the extents of `over`; scatter: of `at`
  const Expr* guard = nullptr;         // when
  const Expr* base = nullptr;          // scatter
  const Expr* place = nullptr;         // scatter: the index written to
  const Expr* value = nullptr;         // check, type, meanings
  std::vector<const Expr*> arguments;  // extern NAME(...)
  bool has_arguments = false;
};

struct Example {
  size_t offset = 0, width = 1;
  const Expr* call = nullptr;
  const Expr* values = nullptr;       // ==
  const Expr* types = nullptr;        // :
  const Expr* assumptions = nullptr;  // assumes
  std::string fails;                  // the label
};

// Where a block stands; found by the scan of headers.
struct BlockPlace {
  const SourceFile* file = nullptr;
  std::vector<std::pair<size_t, size_t>> headers;  // begin and end of each schema
  size_t body = 0, end = 0;
};

struct Block {
  const SourceFile* file = nullptr;
  size_t begin = 0;  // of the first header
  std::vector<std::string> tags;
  Tree tree;
  // Slots of each header's parameters, in the schema's order. A parameter that an overload lacks is none there.
  std::vector<std::vector<int>> parameter_slots;
  int out_slot = -1;
  std::vector<Step> steps;
  std::vector<Example> examples;

  const Step* meaning() const;  // the first; null for a block that has none
  bool is_declaration() const;  // headers alone: neither types nor a meaning
};

// `schemas` are those of the headers, in their order.
Result<void> parse_block(const BlockPlace& place, const std::vector<const Schema*>& schemas, const Library& library,
                         bool with_examples, Block& block);
// The parsed bodies.
Result<const Function::Body*> body_of(const Function& function, const Library& library);
Result<const MonoidDefinition::Body*> body_of(const MonoidDefinition& monoid, const Library& library);

}  // namespace atenon::opset
