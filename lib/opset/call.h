// A call of an operator: arguments bound to the schema, checks, result types, and what the call means.
//
// The same three steps serve everybody: bind() (capture's overload resolution, the verifier), infer() (shape and dtype,
// with checks proven / refuted / assumed), and then either meaning() (the loops that compute it: reference interpreter,
// constant folding, code generation) or expand() (the operators it is made of: decompose).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "opset/meaning.h"
#include "opset/opset.h"

namespace atenon::opset {

// Arguments in the order of the schema, defaults filled in, `int[2]` spread, numbers converted to the parameter's kind.
// A tensor is a Value (its type is all that is read). An integer that a node yields (a Value too) is the symbol of that
// Value's name.
struct Call {
  const Operator* op = nullptr;
  std::vector<Argument> arguments;
};

// Where a number may stand for a tensor (x + 2) and a bool for an integer.
enum class Numbers {
  strict,      // nowhere
  as_python,   // what a model writes: for a tensor only in operators tagged `numbers`, as PyTorch has it
  as_tensors,  // what blocks and programs write: everywhere
};

// Fits arguments to one overload. E0107 and its neighbours say which argument and what was expected.
Result<Call> bind(const Operator& op, const std::vector<Argument>& arguments, const std::vector<Named>& keywords,
                  Numbers numbers = Numbers::as_tensors);
// As bind(), but a number stands for no tensor and a bool for no integer: what resolve() tries first.
std::optional<Call> bind_exactly(const Operator& op, const std::vector<Argument>& arguments,
                                 const std::vector<Named>& keywords);
// The first overload of `name` ("aten::add"), in file order, that takes the arguments; as they are, if one does.
Result<Call> resolve(const Opset& opset, const std::string& name, const std::vector<Argument>& arguments,
                     const std::vector<Named>& keywords, Numbers numbers = Numbers::as_tensors);
Result<Call> bind(const Opset& opset, const ir::Node& node);

struct Inference {
  std::vector<ir::Type> types;              // of the results, lists flattened
  std::vector<ir::Constraint> assumptions;  // open checks that must hold from now on
  // Sizes that depend on data (nonzero): fresh symbols used in `types`, to be defined by the node. Names are u0, u1,
  // ... beyond `first_unbacked`.
  std::vector<ir::Symbol> unbacked;
  // Per schema return: is it a list, and how many results it stands for (1 unless a list).
  std::vector<std::pair<bool, size_t>> returns;
};
// `hints` are the example sizes: what an operator needs as a number (how many parts unbind yields) and which of two
// cases an order of sizes takes is decided by them, and becomes an assumption; without hints it is E0112.
Result<Inference> infer(const Opset& opset, const Call& call, const shape::Facts& facts, int first_unbacked = 0,
                        const shape::Bindings* hints = nullptr);

// The loops that compute the call, for operators that have them (pointwise, reduction, view, scatter); for `extern`,
// the name of its kernel with its arguments. A decomposition is an error here: expand() it first.
Result<Meaning> meaning(const Opset& opset, const Call& call, const shape::Facts& facts);
// Which of the two a call has; `unknown` of an operator that is only declared, whose meaning() is E0119.
enum class MeaningKind { loops, extern_kernel, decomposition, unknown };
Result<MeaningKind> meaning_kind(const Opset& opset, const Call& call, const shape::Facts& facts);
// The operand that the node gives back: its only result has the operand's type, and its element at every index is the
// operand's there. Null where there is none, or only expand() would show it.
Result<ir::Value*> unchanged_operand(const Opset& opset, const ir::Node& node, const shape::Facts& facts);

// Rewrites one call into the operators of its decomposition, one level deep, inserting nodes before `before` (null
// appends). Returns the values that replace the call's results (an argument of the call itself where the decomposition
// returns it). Each new node carries `provenance` and is itself bound and inferred. Scalars of the decomposition become
// `aten::full` only where an operator needs a tensor. `is_lowering`: decompositions that are for `lower` apply.
struct Expansion {
  std::vector<ir::Value*> results;
  std::vector<ir::Constraint> assumptions;
  std::vector<ir::Symbol> unbacked;  // sizes that depend on data inside of the decomposition: the caller declares them
};
Result<Expansion> expand(const Opset& opset, const Call& call, const shape::Facts& facts, ir::Graph& graph,
                         ir::Node* before, ir::ProvenanceId provenance, bool is_lowering = false);

// Appends `op(arguments...)` to a graph after binding and inferring it. What capture, decompositions and passes use to
// build nodes. The first overload that fits is taken when `target` names no overload.
Result<ir::Node*> append(const Opset& opset, ir::Graph& graph, const std::string& target,
                         std::vector<Argument> arguments, std::vector<Named> keywords, const shape::Facts& facts,
                         ir::ProvenanceId provenance, ir::Node* before = nullptr,
                         std::vector<ir::Constraint>* assumptions = nullptr, const shape::Bindings* hints = nullptr);

}  // namespace atenon::opset
