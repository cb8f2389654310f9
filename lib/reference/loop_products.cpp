// Finds sums of products, sum{x[...] * w[...] when inside}, and runs them without registers for their elements.
//
// The variables that the guard depends on go outside: there the lanes that take part are found once, and the others run
// inside, a few lanes at a time along the innermost variable.
#include <algorithm>

#include "reference/lane_ops.h"
#include "reference/loop_compiler.h"

namespace atenon::reference {

using opset::Reduction;
using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

void LoopCompiler::collect_conditions(ScalarId guard, std::vector<LinearForm>& conditions) {
  const Scalar& scalar = meaning_.scalars[static_cast<size_t>(guard)];
  if (scalar.op == ScalarOp::logical_and) {
    for (const ScalarId id : scalar.operands) collect_conditions(id, conditions);
    return;
  }
  if (scalar.op != ScalarOp::le && scalar.op != ScalarOp::lt) return;
  if (meaning_.scalars[static_cast<size_t>(scalar.operands[0])].dtype != ScalarType::i64) return;
  const LinearForm right = forms_.form(scalar.operands[1]);
  LinearForm difference = sum(forms_.form(scalar.operands[0]), right, -1);
  if (scalar.op == ScalarOp::lt) ++difference.constant;
  conditions.push_back(std::move(difference));
}

bool LoopCompiler::is_inside(ScalarId index, int64_t size, const std::vector<LinearForm>& conditions) {
  if (forms_.interval(index).within(0, size - 1)) return true;
  const LinearForm form = forms_.form(index);
  const Interval range = forms_.interval(form);
  // `wanted <= 0` follows from a condition with the same terms and at least its constant.
  const auto follows = [&](const LinearForm& wanted) {
    return std::any_of(conditions.begin(), conditions.end(), [&](const LinearForm& condition) {
      return condition.terms == wanted.terms && condition.constant >= wanted.constant;
    });
  };
  const bool from = range.lower >= 0 || follows(sum({}, form, -1));
  LinearForm over = form;
  over.constant -= size - 1;
  return from && (range.upper < size || follows(over));
}

std::optional<Product> LoopCompiler::product_of(const Reduction& reduction, ReductionPlan& plan) {
  const auto scalar = [&](ScalarId id) -> const Scalar& { return meaning_.scalars[static_cast<size_t>(id)]; };
  if (plan.kind != MonoidKind::sum || reduction.element.size() != 1 || reduction.prefix || plan.variables.empty())
    return std::nullopt;
  const Scalar& element = scalar(reduction.element[0]);
  if (element.op != ScalarOp::mul || !is_floating(element.dtype)) return std::nullopt;
  Product product;
  LinearForm places[2];
  for (int side = 0; side < 2; ++side) {
    const Scalar* read = &scalar(element.operands[static_cast<size_t>(side)]);
    if (read->op == ScalarOp::cast && read->dtype == ScalarType::f32) read = &scalar(read->operands[0]);
    if (read->op != ScalarOp::read || !is_floating(read->dtype) || read->dtype == ScalarType::f64) return std::nullopt;
    const Tensor& tensor = operands_[static_cast<size_t>(read->tensor)];
    product.tensors[side] = read->tensor;
    for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
      if (!is_inside(read->operands[axis], tensor.sizes[axis], conditions_)) return std::nullopt;
      places[side] = sum(places[side], forms_.form(read->operands[axis]), tensor.strides[axis]);
    }
    if (!forms_.is_affine(places[side])) return std::nullopt;
  }
  const uint64_t guarding =
      reduction.guard == opset::no_scalar ? 0 : dependences_[static_cast<size_t>(reduction.guard)];
  std::vector<int> outer, inner;
  std::vector<int64_t> outer_extents, inner_extents;
  for (size_t i = 0; i < reduction.variables.size(); ++i) {
    const Interval extent = forms_.interval(reduction.extents[i]);
    if (extent.lower != extent.upper) return std::nullopt;
    const bool guards = guarding >> reduction.variables[i] & 1;
    (guards ? outer : inner).push_back(reduction.variables[i]);
    (guards ? outer_extents : inner_extents).push_back(extent.lower);
  }
  product.outer = outer.size();
  product.extents = outer_extents;
  product.extents.insert(product.extents.end(), inner_extents.begin(), inner_extents.end());
  plan.variables = outer;
  plan.variables.insert(plan.variables.end(), inner.begin(), inner.end());
  if (!program_.scopes.empty())
    for (int side = 0; side < 2; ++side) product.addresses[side] = address_of(places[side], 0);
  return product;
}

namespace {

constexpr int together = 8;  // lanes that are summed at once, so that additions need not wait for one another

// totals[lane] += sum over k < count of a[lane][k * stride_a] * b[lane][k * stride_b], in order of k.
template <class A, class B>
void add_products(const A* a, const B* b, const int64_t* lanes_a, const int64_t* lanes_b, const int* active,
                  int active_count, int64_t count, int64_t stride_a, int64_t stride_b, double* totals) {
  const auto value = [](auto x) { return convert<double>(x); };
  int at = 0;
  for (; at + together <= active_count; at += together) {
    const A* from_a[together];
    const B* from_b[together];
    double sums[together];
    for (int j = 0; j < together; ++j) {
      const int lane = active[at + j];
      from_a[j] = a + (lanes_a ? lanes_a[lane] : 0);
      from_b[j] = b + (lanes_b ? lanes_b[lane] : 0);
      sums[j] = totals[lane];
    }
    for (int64_t k = 0; k < count; ++k)
      for (int j = 0; j < together; ++j) sums[j] += value(from_a[j][k * stride_a]) * value(from_b[j][k * stride_b]);
    for (int j = 0; j < together; ++j) totals[active[at + j]] = sums[j];
  }
  for (; at < active_count; ++at) {
    const int lane = active[at];
    const A* from_a = a + (lanes_a ? lanes_a[lane] : 0);
    const B* from_b = b + (lanes_b ? lanes_b[lane] : 0);
    double sum = totals[lane];
    for (int64_t k = 0; k < count; ++k) sum += value(from_a[k * stride_a]) * value(from_b[k * stride_b]);
    totals[lane] = sum;
  }
}

// Steps `at` through the box in row-major order; false at the end.
bool advance(std::vector<int64_t>& at, const int64_t* extents) {
  for (size_t axis = at.size(); axis-- > 0;) {
    if (++at[axis] < extents[axis]) return true;
    at[axis] = 0;
  }
  return false;
}

}  // namespace

void Frame::reduce_products(const ReductionPlan& plan, int n) {
  const Product& product = *plan.product;
  std::copy_n(integers(plan.identity[0]), n, integers(plan.accumulator[0]));
  int64_t* bad = faults(plan.accumulator[0]);
  if (bad) std::fill_n(bad, n, 0);
  if (std::any_of(product.extents.begin(), product.extents.end(), [](int64_t e) { return e <= 0; })) return;

  const size_t rank = plan.variables.size();
  const bool has_inner = product.outer < rank;
  const int64_t count = has_inner ? product.extents.back() : 1;
  int64_t strides[2] = {0, 0};
  for (int side = 0; side < 2; ++side)
    for (const auto& [variable, coefficient] : product.addresses[side].uniform)
      if (has_inner && variable == plan.variables.back()) strides[side] = coefficient;

  std::vector<int64_t> outer(product.outer, 0);
  int active[lanes];
  do {
    for (size_t i = 0; i < product.outer; ++i) variables[static_cast<size_t>(plan.variables[i])] = outer[i];
    int active_count = 0;
    if (plan.guard == no_register) {
      for (int i = 0; i < n; ++i) active[active_count++] = i;
    } else {
      execute(program_.scopes[static_cast<size_t>(plan.scope)].steps, n);
      const int64_t* guard = integers(plan.guard);
      const int64_t* bad_guard = faults(plan.guard);
      for (int i = 0; i < n; ++i) {
        if (bad && bad_guard && bad_guard[i] && !bad[i]) bad[i] = bad_guard[i];
        if (guard[i] && !(bad_guard && bad_guard[i])) active[active_count++] = i;
      }
    }
    if (active_count == 0) continue;
    std::vector<int64_t> inner(has_inner ? rank - product.outer - 1 : 0, 0);
    do {
      for (size_t i = 0; i < inner.size(); ++i)
        variables[static_cast<size_t>(plan.variables[product.outer + i])] = inner[i];
      if (has_inner) variables[static_cast<size_t>(plan.variables.back())] = 0;
      visit_element_type(data_->operand_types[static_cast<size_t>(product.tensors[0])], [&]<class A>(A) {
        visit_element_type(data_->operand_types[static_cast<size_t>(product.tensors[1])], [&]<class B>(B) {
          if constexpr (!is_complex_type<A> && !is_complex_type<B> && !std::is_integral_v<A> && !std::is_integral_v<B>)
            add_products(reinterpret_cast<const A*>(data_->operands[static_cast<size_t>(product.tensors[0])]) +
                             address(product.addresses[0]),
                         reinterpret_cast<const B*>(data_->operands[static_cast<size_t>(product.tensors[1])]) +
                             address(product.addresses[1]),
                         lane_part(product.addresses[0]), lane_part(product.addresses[1]), active, active_count, count,
                         strides[0], strides[1], doubles(plan.accumulator[0]));
        });
      });
    } while (advance(inner, product.extents.data() + product.outer));
  } while (advance(outer, product.extents.data()));
}

}  // namespace atenon::reference
