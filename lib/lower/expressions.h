// The expressions of a kernel while it is composed: equal ones are one (hash consing), and what sizes decide is folded.
//
// Arithmetic on sizes and loop variables stays a symbolic integer, so that a view's index is an address; a clamp, a
// comparison or a choice that the extents of the loops decide vanishes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lower/index.h"
#include "lower/loops.h"

namespace atenon::lower {

class Expressions {
 public:
  // What is made is appended to `loops`, which outlives this.
  Expressions(const shape::Facts& facts, Loops& loops) : space_(facts), loops_(loops) {}

 protected:
  // `expr`, or the one that is there and equals it; which loops it depends on and the like are told from its parts.
  ExprId intern(Expr expr);
  ExprId integer(const SymInt& value);
  // One operation on `operands`, folded where it can be.
  ExprId apply(ScalarOp op, ScalarType dtype, std::vector<ExprId> operands);
  ExprId clamped(ExprId index, const SymInt& size);  // into 0 .. size - 1
  // An integer expression as an index.
  SymInt index_of(ExprId id) const;
  int add_loop(const SymInt& extent);

  // Notes why there will be no kernel; the first reason counts. What is made from then on is never used.
  ExprId fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
    return integer(0);
  }

  IndexSpace space_;
  Loops& loops_;
  std::string failure_;

 private:
  ExprId fold_integers(ScalarOp op, const std::vector<ExprId>& operands);

  std::map<std::string, ExprId> interned_;
};

}  // namespace atenon::lower
