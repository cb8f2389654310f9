// Finds sums of products, sum{x[...] * w[...] when inside}, and runs them without registers for their elements.
//
// The variables that the guard depends on go outside: there the lanes that take part are found once. The others run
// inside. Of the two operands one is the same for a stretch of lanes, the factor; the elements of the other are a row,
// as they lie or else gathered, so that the stretch adds up in vectors. What was gathered serves the next stretch, too,
// if it reads the same: a block of lanes is a few rows of the result, which share their columns' elements. Every sum is
// in order of the variables, and the product of two floats is exact in double: the bits do not depend on any of this.
#include <algorithm>
#include <ranges>
#include <span>

#include "reference/loop_compiler.h"
#include "tensor/elements.h"

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

std::optional<uint64_t> LoopCompiler::variables_of(const LinearForm& form) const {
  uint64_t found = 0;
  for (const auto& [term, coefficient] : form.terms) {
    const IndexForms::Atom* atom = forms_.atom_of(term);
    if (!atom) {
      found |= uint64_t{1} << term;
      continue;
    }
    if (atom->scalar != opset::no_scalar) return std::nullopt;
    const std::optional<uint64_t> inside = variables_of(atom->numerator);
    if (!inside) return std::nullopt;
    found |= *inside;
  }
  return found;
}

Register LoopCompiler::emit_form(const LinearForm& form, int scope) {
  const auto of_integers = [](ScalarOp op, Register a, Register b) {
    return Step{.op = op, .dtype = ScalarType::i64, .in = {a, b, no_register}};
  };
  const auto number = [&](int64_t value) {
    return emit_step({.kind = Step::Kind::constant, .dtype = ScalarType::i64, .integer = value}, scope);
  };
  LinearForm plain{form.constant, {}};
  std::vector<Register> parts;
  for (const auto& [term, coefficient] : form.terms) {
    const IndexForms::Atom* atom = forms_.atom_of(term);
    if (!atom) {
      plain.terms[term] = coefficient;
      continue;
    }
    const IndexForms::Atom division = *atom;
    const Register numerator = emit_form(division.numerator, scope);
    const Register quotient = emit_step(of_integers(ScalarOp::floor_div, numerator, number(division.divisor)), scope);
    parts.push_back(emit_step(of_integers(ScalarOp::mul, quotient, number(coefficient)), scope));
  }
  Register total =
      emit_step({.kind = Step::Kind::linear, .dtype = ScalarType::i64, .address = address_of(plain, scope)}, scope);
  for (const Register part : parts) total = emit_step(of_integers(ScalarOp::add, total, part), scope);
  return total;
}

std::optional<Product> LoopCompiler::product_of(const Reduction& reduction, ReductionPlan& plan) {
  const auto scalar = [&](ScalarId id) -> const Scalar& { return meaning_.scalars[static_cast<size_t>(id)]; };
  if (plan.kind != MonoidKind::sum || reduction.element.size() != 1 || reduction.prefix || plan.variables.empty())
    return std::nullopt;
  const Scalar& element = scalar(reduction.element[0]);
  if (element.op != ScalarOp::mul || !is_floating(element.dtype)) return std::nullopt;
  Product product;
  LinearForm places[2], offsets[2];
  // What the guard depends on, and what is no sum of variables, is known before the inner loops begin.
  uint64_t outside = reduction.guard == opset::no_scalar ? 0 : dependences_[static_cast<size_t>(reduction.guard)];
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
    const std::optional<uint64_t> known = variables_of(places[side]);
    if (!known) return std::nullopt;
    for (const auto& [term, coefficient] : places[side].terms)
      if (forms_.atom_of(term)) offsets[side].terms[term] = coefficient;
    places[side] = sum(places[side], offsets[side], -1);
    outside |= *variables_of(offsets[side]);
  }
  std::vector<int> outer, inner;
  std::vector<int64_t> outer_extents, inner_extents;
  for (size_t i = 0; i < reduction.variables.size(); ++i) {
    const Interval extent = forms_.interval(reduction.extents[i]);
    if (extent.lower != extent.upper) return std::nullopt;
    const bool guards = outside >> reduction.variables[i] & 1;
    (guards ? outer : inner).push_back(reduction.variables[i]);
    (guards ? outer_extents : inner_extents).push_back(extent.lower);
  }
  const bool has_offsets = !offsets[0].terms.empty() || !offsets[1].terms.empty();
  if (has_offsets && inner.empty()) return std::nullopt;
  // The longest comes last, so that a run of products costs little to begin.
  if (const auto longest = std::ranges::max_element(inner_extents); longest != inner_extents.end()) {
    const auto variable = inner.begin() + (longest - inner_extents.begin());
    std::rotate(variable, variable + 1, inner.end());
    std::rotate(longest, longest + 1, inner_extents.end());
  }
  product.outer = outer.size();
  product.extents = outer_extents;
  product.extents.insert(product.extents.end(), inner_extents.begin(), inner_extents.end());
  plan.variables = outer;
  plan.variables.insert(plan.variables.end(), inner.begin(), inner.end());
  if (!program_.scopes.empty())
    for (int side = 0; side < 2; ++side) {
      product.addresses[side] = address_of(places[side], 0);
      if (!offsets[side].terms.empty()) product.offsets[side] = emit_form(offsets[side], plan.scope);
    }
  return product;
}

namespace {

constexpr int64_t gathered_floats = 32768;  // about what the nearest caches hold
constexpr int64_t least_gathered = 64;      // terms, so that a row's start costs little
constexpr int direct_run = 16;              // lanes side by side for which it is not worth to gather

// How many of `places` from the first on step by `step`.
int run_length(std::span<const int64_t> places, int64_t step) {
  size_t n = 1;
  while (n < places.size() && places[n] - places[n - 1] == step) ++n;
  return static_cast<int>(n);
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

// Elements `from + lane place + k * stride` of an operand, for lanes in `places` and k < count: to[k * places.size() +
// i].
template <class T>
void Frame::gather(const Factor& from, std::span<const int64_t> places, int64_t first, int64_t count, T* to) const {
  const auto n = static_cast<int64_t>(places.size());
  visit_element_type(data_->operand_types[static_cast<size_t>(from.tensor)], [&]<class Element>(Element) {
    if constexpr (!is_complex_type<Element> && !std::is_integral_v<Element>) {
      const auto* base = reinterpret_cast<const Element*>(data_->operands[static_cast<size_t>(from.tensor)]) +
                         from.base + first * from.stride;
      // In the order in which they lie.
      if (from.stride == 1) {
        for (int64_t i = 0; i < n; ++i)
          for (int64_t k = 0; k < count; ++k) to[k * n + i] = convert<T>(base[places[static_cast<size_t>(i)] + k]);
      } else {
        for (int64_t i = 0, run = 0; i < n; i += run) {
          const std::span<const int64_t> rest = places.subspan(static_cast<size_t>(i));
          const int64_t step = rest.size() > 1 ? rest[1] - rest[0] : 1;
          run = run_length(rest, step);
          for (int64_t k = 0; k < count; ++k) {
            const Element* row = base + rest[0] + k * from.stride;
            T* copy = to + k * n + i;
            if (step == 1)
              for (int64_t j = 0; j < run; ++j) copy[j] = convert<T>(row[j]);
            else
              for (int64_t j = 0; j < run; ++j) copy[j] = convert<T>(row[j * step]);
          }
        }
      }
    }
  });
}

// Cuts the lanes in places_ into runs: of each, one operand's places are the same.
void Frame::find_runs(const Factor (&factors)[2]) {
  const std::span<const int64_t> places[2] = {places_[0], places_[1]};
  runs_.clear();
  for (int lane = 0; lane < static_cast<int>(sums_.size()); lane += runs_.back().width) {
    const auto from = static_cast<size_t>(lane);
    // The factor is the operand that stays the same for longer.
    const int alike[2] = {run_length(places[0].subspan(from), 0), run_length(places[1].subspan(from), 0)};
    Run run{.side = alike[0] >= alike[1] ? 0 : 1, .lane = lane};
    run.width = alike[run.side];
    const int rows = 1 - run.side;
    const bool is_single = data_->operand_types[static_cast<size_t>(factors[rows].tensor)] == ScalarType::f32;
    const int beside = is_single ? run_length(places[rows].subspan(from, static_cast<size_t>(run.width)), 1) : 0;
    run.is_beside = beside >= std::min(run.width, direct_run);
    if (run.is_beside) run.width = beside;
    runs_.push_back(run);
  }
}

// sums_[i] += the products of both operands in the i-th lane, over `count` terms.
void Frame::add_products(const Factor (&factors)[2], int64_t count) {
  const int64_t terms =
      std::clamp<int64_t>(gathered_floats / static_cast<int64_t>(sums_.size()), least_gathered, gathered_floats);
  for (int64_t first = 0; first < count; first += terms) {
    const int64_t some = std::min(terms, count - first);
    std::span<const int64_t> gathered;  // whose rows are there
    int gathered_side = -1;
    for (const Run& run : runs_) {
      const Factor &factor = factors[run.side], &rows = factors[1 - run.side];
      const auto lane = static_cast<size_t>(run.lane), width = static_cast<size_t>(run.width);
      const std::span<const int64_t> row = std::span(places_[1 - run.side]).subspan(lane, width);
      factors_.resize(static_cast<size_t>(some));
      gather(factor, std::span(places_[run.side]).subspan(lane, 1), first, some, factors_.data());
      if (run.is_beside) {
        const float* at = reinterpret_cast<const float*>(data_->operands[static_cast<size_t>(rows.tensor)]) +
                          rows.base + row[0] + first * rows.stride;
        ops_.add_products(sums_.data() + lane, factors_.data(), at, rows.stride, some, run.width);
        continue;
      }
      if (gathered_side != run.side || !std::ranges::equal(gathered, row)) {
        rows_.resize(static_cast<size_t>(some) * width);
        gather(rows, row, first, some, rows_.data());
        gathered = row;
        gathered_side = run.side;
      }
      ops_.add_products(sums_.data() + lane, factors_.data(), rows_.data(), run.width, some, run.width);
    }
  }
}

void Frame::reduce_products(const ReductionPlan& plan, int n) {
  const Product& product = *plan.product;
  std::copy_n(integers(plan.identity[0]), n, integers(plan.accumulator[0]));
  int64_t* bad = faults(plan.accumulator[0]);
  if (bad) std::fill_n(bad, n, 0);
  if (std::any_of(product.extents.begin(), product.extents.end(), [](int64_t e) { return e <= 0; })) return;

  const size_t rank = plan.variables.size();
  const bool has_inner = product.outer < rank;
  const int64_t count = has_inner ? product.extents.back() : 1;
  Factor factors[2];
  for (int side = 0; side < 2; ++side) {
    factors[side].tensor = product.tensors[side];
    for (const auto& [variable, coefficient] : product.addresses[side].uniform)
      if (has_inner && variable == plan.variables.back()) factors[side].stride = coefficient;
  }

  double* totals = doubles(plan.accumulator[0]);
  std::vector<int64_t> outer(product.outer, 0);
  do {
    for (size_t i = 0; i < product.outer; ++i) variables[static_cast<size_t>(plan.variables[i])] = outer[i];
    execute(program_.scopes[static_cast<size_t>(plan.scope)].steps, n);
    active_.clear();
    if (plan.guard == no_register) {
      for (int i = 0; i < n; ++i) active_.push_back(i);
    } else {
      const int64_t* guard = integers(plan.guard);
      const int64_t* bad_guard = faults(plan.guard);
      for (int i = 0; i < n; ++i) {
        if (bad && bad_guard && bad_guard[i] && !bad[i]) bad[i] = bad_guard[i];
        if (guard[i] && !(bad_guard && bad_guard[i])) active_.push_back(i);
      }
    }
    if (active_.empty()) continue;
    sums_.clear();
    for (const int lane : active_) sums_.push_back(totals[lane]);
    for (int side = 0; side < 2; ++side) {
      const int64_t* part = lane_part(product.addresses[side]);
      const int64_t* offset = product.offsets[side] == no_register ? nullptr : integers(product.offsets[side]);
      places_[side].clear();
      for (const int lane : active_) places_[side].push_back((part ? part[lane] : 0) + (offset ? offset[lane] : 0));
    }
    find_runs(factors);
    std::vector<int64_t> inner(has_inner ? rank - product.outer - 1 : 0, 0);
    do {
      for (size_t i = 0; i < inner.size(); ++i)
        variables[static_cast<size_t>(plan.variables[product.outer + i])] = inner[i];
      if (has_inner) variables[static_cast<size_t>(plan.variables.back())] = 0;
      for (int side = 0; side < 2; ++side) factors[side].base = address(product.addresses[side]);
      add_products(factors, count);
    } while (advance(inner, product.extents.data() + product.outer));
    for (size_t i = 0; i < active_.size(); ++i) totals[active_[i]] = sums_[i];
  } while (advance(outer, product.extents.data()));
}

}  // namespace atenon::reference
