// Sums of products and the places that they read, written as sizes are.
#pragma once

#include <map>
#include <optional>

#include "specialize/channel_affine.h"

namespace atenon::specialize {

// A sum of products, perhaps plus one read of a bias at [channel].
struct SumOfProducts {
  const opset::Reduction* reduction = nullptr;
  const opset::Scalar *left = nullptr, *right = nullptr;  // the factors, both reads
  const opset::Scalar* bias = nullptr;
};
// nullopt where the meaning is something else.
std::optional<SumOfProducts> sum_of_products(const opset::Meaning& meaning);

// Whether a scalar's value may change with a loop variable.
bool depends_on(const opset::Meaning& meaning, opset::ScalarId id, int variable);

// What IndexExpressions takes loop variables for: result_index of each axis, in order.
std::map<int, ir::SymInt> result_indices(const std::vector<int>& variables);

// Scalars over indices as sizes over symbols: each loop variable stands for what `variables` says. nullopt where a
// scalar cannot be written so.
class IndexExpressions {
 public:
  IndexExpressions(const opset::Meaning& meaning, const std::map<int, ir::SymInt>& variables)
      : meaning_(meaning), variables_(variables) {}

  std::optional<ir::SymInt> integer(opset::ScalarId id) const;
  std::optional<shape::SymBool> truth(opset::ScalarId id) const;

 private:
  template <class F>
  auto of_two(const opset::Scalar& scalar, const F& f) const -> std::optional<decltype(f(ir::SymInt(), ir::SymInt()))> {
    const std::optional<ir::SymInt> a = integer(scalar.operands[0]), b = integer(scalar.operands[1]);
    if (!a || !b) return std::nullopt;
    return f(*a, *b);
  }

  const opset::Meaning& meaning_;
  const std::map<int, ir::SymInt>& variables_;
};

}  // namespace atenon::specialize
