// Writes a weight of one element as a number into the node that multiplies a tensor by it or adds it, as the learned
// factors of HGNet are: behind a product that is a step without an operand. What changes nothing goes.
#include <algorithm>
#include <cmath>

#include "specialize/passes.h"

namespace atenon::specialize {
namespace {

struct Operation {
  const char* target;
  bool is_commutative;
  double nothing;  // the second operand that gives back the first
};
constexpr Operation operations[] = {
    {"aten::add.Tensor", true, 0},
    {"aten::sub.Tensor", false, 0},
    {"aten::mul.Tensor", true, 1},
    {"aten::div.Tensor", false, 1},
};

// The only element of a constant that changes neither the type nor the shape of what `other` is.
std::optional<double> number_behind(const Scope& scope, const ir::Argument& argument, const ir::Argument& other) {
  const ir::Value *value = argument.value(), *x = other.value();
  if (!value || !x || !x->is_tensor() || x->meta().dtype != ScalarType::f32) return std::nullopt;
  const std::optional<Tensor> tensor = constant_behind(scope, value);
  if (!tensor || tensor->dtype != ScalarType::f32 || tensor->numel() != 1) return std::nullopt;
  if (static_cast<int>(tensor->sizes.size()) > x->meta().rank()) return std::nullopt;
  const double number = tensor->float_at(0);
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

}  // namespace

void write_numbers(Scope& scope) {
  for (ir::Node& node : scope.variant.graph.forward()) {
    const Operation* operation =
        std::ranges::find_if(operations, [&](const Operation& known) { return node.target() == known.target; });
    std::vector<ir::Argument> arguments = node.arguments();
    if (operation == std::end(operations) || arguments.size() < 2) continue;
    std::optional<double> number = number_behind(scope, arguments[1], arguments[0]);
    if (!number && operation->is_commutative && arguments.size() == 2 && node.keywords().empty()) {
      std::swap(arguments[0], arguments[1]);
      number = number_behind(scope, arguments[1], arguments[0]);
    }
    if (!number) continue;
    scope.report("wrote a number into " + node.target() + " %" + node.result()->name);
    if (*number == operation->nothing) {
      scope.variant.graph.replace_uses(node.result(), arguments[0].value());
      scope.variant.graph.erase(node);
    } else {
      arguments[1] = *number;
      node.set_arguments(std::move(arguments), node.keywords());
    }
  }
}

}  // namespace atenon::specialize
