// Evaluates expressions of blocks.
//
// One evaluator serves three purposes, which differ in what a tensor stands for: to infer types, it is its type, and an
// operator applied to it makes a value that is in no graph; to expand a decomposition, an operator makes a node; to
// derive loops, a tensor is the element that a loop is at, and arithmetic on it makes Scalars of a Meaning.
//
// The first failure sticks: every later step returns none, so that callers look only where it matters.
#pragma once

#include <deque>
#include <functional>

#include "opset/call.h"
#include "opset/library.h"

namespace atenon::opset {

class Loops;

class Evaluator {
 public:
  // Makes the results of an operator that a block applies to tensors.
  using Apply = std::function<std::vector<ir::Value*>(Call call, Inference inference)>;

  Evaluator(const Opset& opset, const Call& call, const shape::Facts& facts);

  // How operators and elements are made; without the one or the other, asking for it is a failure of the block.
  Apply apply;
  void apply_apart();  // results are in no graph, and live as long as the evaluator
  Loops* loops = nullptr;
  int next_unbacked = 0;
  // Raises next_unbacked beyond the names in use when the first fresh size is made; asking costs a walk over the graph.
  std::function<int()> first_free_unbacked;
  int depth = 0;                           // of decompositions within decompositions
  const shape::Bindings* hints = nullptr;  // example sizes, for `static`
  // Steps that evaluation may still take, nested decompositions included: blocks that travel in programs are untrusted.
  std::shared_ptr<int64_t> budget;

  // Outcome.
  bool failed() const { return failure_.has_value(); }
  Diagnostic take_failure() { return std::move(*failure_); }
  std::vector<ir::Constraint> assumptions;
  std::vector<ir::Symbol> unbacked;

  // --- Blocks ---
  // Goes through the call's block up to the meaning that applies and returns it (null after a failure). `checked`:
  // evaluates the checks, else trusts that they hold. The evaluator is left in the meaning's frame; `result_type` is
  // what `type` said, if any.
  const Step* walk(bool checked);
  bool is_lowering = false;  // `lowered` decompositions apply, too
  std::optional<Datum> result_type;

  // The result of a decomposition that walk() chose; `wide` ones compute 16-bit floats in f32 and narrow their results.
  Datum decomposed(const Step& step);

  // --- Expressions ---
  Datum evaluate(const Expr* expr);
  void bind(const Pattern& pattern, const Datum& value, const Expr* at);
  // The parameters' slots are filled in order.
  Datum call_function(const Function& function, const Expr& at, std::vector<Datum> arguments);
  void set(int slot, Datum value) { stack_[base_ + static_cast<size_t>(slot)] = std::move(value); }
  // Evaluates `body` in a frame of its own, with `arguments` in the first slots.
  Datum in_frame(const SourceFile& file, int slots, std::vector<Datum> arguments, const std::function<Datum()>& body);

  // --- What may be symbolic ---
  const shape::Facts& facts() const { return own_facts_ ? *own_facts_ : given_facts_; }
  // The condition of an `if` or `when`. Where it is open, an equality takes the general case (unequal) and is recorded;
  // an order takes the case of `hints`, and without them fails as "undecided".
  bool holds(const Datum& condition, const Expr* at);
  // A truth if the facts settle it, else as it is.
  ir::SymBool settled(const ir::SymBool& truth) const;
  // Refuted: false. Open: it becomes an assumption.
  bool assume(const ir::SymBool& truth, const std::string& reason);
  ir::SymInt simplified(const ir::SymInt& size) const { return size.is_constant() ? size : facts().simplify(size); }

  // --- Values, for rules ---
  Datum unary(Operation operation, const Datum& a, const Expr* at);
  Datum binary(Operation operation, const Datum& a, const Datum& b, const Expr* at);
  Datum equality(const Datum& a, const Datum& b, const Expr* at);
  Datum combine(Operation operation, const Datum& a, const Datum& b,
                const Expr* at);  // logical_and, logical_or of truths
  std::optional<ir::SymInt> as_int(const Datum& datum, const Expr* at);
  std::optional<ir::SymFloat> as_float(const Datum& datum, const Expr* at);
  std::optional<int64_t> as_static(const Datum& datum, const Expr* at);  // a constant, or "undecided"
  std::vector<ir::SymInt> as_shape(const Datum& datum, const Expr* at);
  Datum apply_operator(const std::string& name, std::vector<Datum> arguments, const std::vector<std::string>& names,
                       const Expr* at);
  const Library& library() const { return *call_.op->block().library; }
  const Opset& opset() const { return opset_; }
  const Call& call() const { return call_; }

  // --- Failures. `label` is what an example's `fails` names ---
  Datum fail(const Expr* at, int code, const std::string& label, const std::string& message);
  // A mistake in the block itself.
  Datum mistake(const Expr* at, const std::string& message) { return fail(at, 115, "", message); }
  void adopt(Diagnostic failure, const std::string& label = "");
  const std::string& label() const { return label_; }

 private:
  // Tensors that `wide` replaces by f32 copies, made when first used.
  struct Widening {
    std::map<ir::Value*, Datum> copies;
    std::optional<ScalarType> narrow;  // the dtype of results
  };
  std::optional<Widening> widening_;
  std::deque<ir::Value> apart_;  // results of operators inside the block

  void enter(const Block& block, size_t header);
  void check(const Step& step);
  std::string format(const Message& message);
  bool choose(const ir::SymBool& truth, const Expr* at);
  Datum field(const Datum& owner, const Expr& expr);
  Datum index(const Expr& expr);
  Datum element_of_list(const Datum& list, const Expr& item);
  Datum each(const Expr& expr);
  Datum call_expression(const Expr& expr);
  Datum call_rule(const Expr& expr, const std::vector<Datum>& arguments);
  Datum choice(const Expr& expr);
  std::optional<Datum> either_size(const ir::SymBool& order, const Expr& expr);
  Datum binary_expression(const Expr& expr);
  Datum compare(Operation operation, const Datum& a, const Datum& b, const Expr* at);
  Datum compute_complex(Operation operation, const Datum& a, const Datum& b, const Expr* at);
  Datum compute(Operation operation, const Datum& a, const Datum& b, const Expr* at);
  bool has_tensor(const Datum& datum) const { return datum.is<ir::Value*>(); }
  Datum widened(const Datum& datum, const Expr* at);
  Datum narrowed(const Datum& datum, const Expr* at);

  const Opset& opset_;
  const Call& call_;
  const shape::Facts& given_facts_;
  std::optional<shape::Facts> own_facts_;  // with the assumptions made here
  std::vector<Datum> stack_;
  size_t base_ = 0;
  const SourceFile* file_ = nullptr;
  int calls_ = 0;  // of functions within functions
  std::optional<Diagnostic> failure_;
  std::string label_;
};

// infer() inside of `outer` (null at the top). A failed check leaves its label (C1, broadcast, ...).
Result<Inference> infer_nested(const Opset& opset, const Call& call, const shape::Facts& facts, int first_unbacked,
                               const shape::Bindings* hints, const Evaluator* outer, std::string* label = nullptr);

// The call of the operator that a derived one follows from: `add_(x, y)` has the block of `add(x, y)`.
Call origin_call(const Call& call);

}  // namespace atenon::opset
