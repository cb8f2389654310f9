// Builds the scalars of a Meaning: what arithmetic on elements leaves behind.
//
// Equal scalars are made once, and what can be computed now is. Numbers take the dtype of the element that they meet;
// floats of 16 bits are widened to f32 when they are computed with (not when they are only moved).
#pragma once

#include "opset/evaluator.h"

namespace atenon::opset {

class Loops {
 public:
  Loops(Evaluator& evaluator, Meaning& meaning) : evaluator_(evaluator), meaning_(meaning) {}

  // Where tensors stand for their element: the index of the broadcast shape, or nothing in the `at` forms.
  std::optional<std::vector<ScalarId>> broadcast_index;
  const ResultType* type = nullptr;  // whose operands are converted to `computed_in`

  // The reduction that monoids belong to; null outside of one.
  struct Scope {
    std::vector<int> variables;
    std::vector<ScalarId> extents;
    Datum count;
    int prefix_axis = -1;
  };
  const Scope* scope = nullptr;

  // A new loop variable; `extent` where it is no element.
  int variable(std::optional<ir::SymInt> extent);
  ScalarId index(int variable);
  ScalarId size(const ir::SymInt& size);
  ScalarId constant(int64_t value, ScalarType dtype);
  ScalarId constant(double value, ScalarType dtype);
  ScalarId cast(ScalarId id, ScalarType dtype);
  ScalarId read(ir::Value* tensor, std::vector<ScalarId> index);
  ScalarId extreme(Extreme extreme, ScalarType dtype);
  ScalarId placeholder(ScalarType dtype);

  // A number, an element or (in its broadcast position) a tensor as a scalar; of `dtype`, if given.
  ScalarId scalar(const Datum& datum, const Expr* at, std::optional<ScalarType> dtype = std::nullopt);
  std::vector<ScalarId> indices(const std::vector<Datum>& items, const Expr* at);  // ints and lists of ints, joined
  Datum element(const Datum& tensor, const std::vector<Datum>& index, const Expr* at);

  Datum binary(Operation operation, const Datum& a, const Datum& b, const Expr* at);
  Datum unary(Operation operation, const Datum& a, const Expr* at);
  Datum function(ScalarOp op, const std::vector<Datum>& arguments, const Expr* at);  // exp, minimum, ...
  Datum select(const Datum& condition, const Datum& then, const Datum& otherwise, const Expr* at);
  Datum monoid(const Expr& expr);
  Monoid make_monoid(const MonoidDefinition& definition, const std::vector<ScalarType>& dtypes, const Expr* at);

  bool is_dynamic(const Datum& datum) const { return datum.is<Element>() || datum.is<ir::Value*>(); }
  ScalarType dtype(ScalarId id) const { return meaning_.scalars[static_cast<size_t>(id)].dtype; }
  Meaning& meaning() { return meaning_; }

 private:
  ScalarId add(Scalar scalar);
  ScalarId make(ScalarOp op, ScalarType dtype, std::vector<ScalarId> operands);
  ScalarId widened(ScalarId id);
  ScalarType dtype_of_widened(ScalarId id) const;
  ScalarId truth(const ir::SymBool& truth, const Expr* at);
  const Scalar& at(ScalarId id) const { return meaning_.scalars[static_cast<size_t>(id)]; }
  // The dtype in which a and b are computed together.
  ScalarType common(const Datum& a, const Datum& b, const Expr* at);
  bool is_nonnegative(ScalarId id) const;
  bool is_index_below(const Datum& condition, const Datum& then, const Datum& otherwise) const;
  int tensor_number(ir::Value* tensor);

  Evaluator& evaluator_;
  Meaning& meaning_;
  std::vector<uint64_t> hashes_;                    // of the scalars, to find equal ones
  std::vector<std::optional<ir::SymInt>> extents_;  // of the variables
};

}  // namespace atenon::opset
