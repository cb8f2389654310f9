#include "reference/index_forms.h"

#include <algorithm>

namespace atenon::reference {

using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;

namespace {

constexpr int64_t far = int64_t{1} << 62;

int64_t saturate(__int128 x) { return static_cast<int64_t>(std::clamp<__int128>(x, -far, far)); }
int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Interval plus(Interval a, Interval b) {
  return {saturate(__int128(a.lower) + b.lower), saturate(__int128(a.upper) + b.upper)};
}

Interval times(Interval a, Interval b) {
  const __int128 products[] = {__int128(a.lower) * b.lower, __int128(a.lower) * b.upper, __int128(a.upper) * b.lower,
                               __int128(a.upper) * b.upper};
  return {saturate(*std::min_element(products, products + 4)), saturate(*std::max_element(products, products + 4))};
}

}  // namespace

LinearForm sum(const LinearForm& a, const LinearForm& b, int64_t factor) {
  LinearForm result = a;
  result.constant += factor * b.constant;
  for (const auto& [atom, coefficient] : b.terms) {
    const auto at = result.terms.emplace(atom, 0).first;
    at->second += factor * coefficient;
    if (at->second == 0) result.terms.erase(at);
  }
  return result;
}

IndexForms::IndexForms(const opset::Meaning& meaning, std::vector<int64_t> sizes)
    : meaning_(meaning),
      sizes_(std::move(sizes)),
      ranges_(static_cast<size_t>(meaning.variable_count), Interval{0, far}),
      forms_(meaning.scalars.size()),
      intervals_(meaning.scalars.size()) {}

int IndexForms::atom(Atom atom) {
  if (atom.scalar == opset::no_scalar) {
    const auto [at, fresh] = divisions_.try_emplace({atom.numerator, atom.divisor}, 0);
    if (!fresh) return at->second;
    at->second = meaning_.variable_count + static_cast<int>(atoms_.size());
  }
  atoms_.push_back(std::move(atom));
  return meaning_.variable_count + static_cast<int>(atoms_.size()) - 1;
}

const LinearForm& IndexForms::form(ScalarId id) {
  auto& slot = forms_[static_cast<size_t>(id)];
  if (!slot) slot = compute(id);
  return *slot;
}

Interval IndexForms::interval(ScalarId id) {
  auto& slot = intervals_[static_cast<size_t>(id)];
  if (!slot) slot = compute_interval(id);
  return *slot;
}

bool IndexForms::is_affine(const LinearForm& form) const {
  return form.terms.empty() || form.terms.rbegin()->first < meaning_.variable_count;
}

Interval IndexForms::interval(const LinearForm& form) {
  Interval total{form.constant, form.constant};
  for (const auto& [atom, coefficient] : form.terms) {
    Interval range;
    if (atom < meaning_.variable_count) {
      range = ranges_[static_cast<size_t>(atom)];
    } else {
      const Atom at = atoms_[static_cast<size_t>(atom - meaning_.variable_count)];
      if (at.scalar != opset::no_scalar) {
        range = interval(at.scalar);
      } else {
        const Interval numerator = interval(at.numerator);
        range = {floor_of(numerator.lower, at.divisor), floor_of(numerator.upper, at.divisor)};
      }
    }
    total = plus(total, times(range, {coefficient, coefficient}));
  }
  return total;
}

// Takes out what the divisor divides; what is left vanishes where it lies in [0, divisor).
LinearForm IndexForms::divide(const LinearForm& numerator, int64_t divisor) {
  if (divisor == 1) return numerator;
  LinearForm quotient, rest;
  quotient.constant = floor_of(numerator.constant, divisor);
  rest.constant = numerator.constant - quotient.constant * divisor;
  for (const auto& [atom, coefficient] : numerator.terms) {
    if (coefficient % divisor == 0)
      quotient.terms[atom] = coefficient / divisor;
    else
      rest.terms[atom] = coefficient;
  }
  if (interval(rest).within(0, divisor - 1)) return quotient;
  // (x // a) // b is x // (a*b).
  if (rest.constant == 0 && rest.terms.size() == 1 && rest.terms.begin()->second == 1 &&
      rest.terms.begin()->first >= meaning_.variable_count) {
    const Atom inner = atoms_[static_cast<size_t>(rest.terms.begin()->first - meaning_.variable_count)];
    if (inner.scalar == opset::no_scalar && inner.divisor < far / divisor)
      return sum(quotient, divide(inner.numerator, inner.divisor * divisor));
  }
  quotient.terms[atom({opset::no_scalar, rest, divisor})] += 1;
  return quotient;
}

LinearForm IndexForms::compute(ScalarId id) {
  const Scalar& scalar = meaning_.scalars[static_cast<size_t>(id)];
  const auto operand = [&](size_t i) -> const LinearForm& { return form(scalar.operands[i]); };
  const auto is_integer = [&](size_t i) {
    return meaning_.scalars[static_cast<size_t>(scalar.operands[i])].dtype == ScalarType::i64;
  };
  if (scalar.dtype == ScalarType::i64) {
    switch (scalar.op) {
      case ScalarOp::constant:
        if (scalar.is_placeholder()) break;
        return {scalar.integer, {}};
      case ScalarOp::size:
        return {sizes_[static_cast<size_t>(id)], {}};
      case ScalarOp::index: {
        const Interval range = ranges_[static_cast<size_t>(scalar.variable)];
        if (range.lower == range.upper) return {range.lower, {}};
        return {0, {{scalar.variable, 1}}};
      }
      case ScalarOp::cast:
        if (is_integer(0)) return operand(0);
        break;
      case ScalarOp::add:
        return sum(operand(0), operand(1));
      case ScalarOp::sub:
        return sum(operand(0), operand(1), -1);
      case ScalarOp::neg:
        return sum({}, operand(0), -1);
      case ScalarOp::mul:
        if (operand(0).terms.empty()) return sum({}, operand(1), operand(0).constant);
        if (operand(1).terms.empty()) return sum({}, operand(0), operand(1).constant);
        break;
      case ScalarOp::floor_div:
        if (operand(1).terms.empty() && operand(1).constant > 0) {
          const LinearForm numerator = operand(0);
          return divide(numerator, operand(1).constant);
        }
        break;
      case ScalarOp::mod:
        if (operand(1).terms.empty() && operand(1).constant > 0) {
          const LinearForm numerator = operand(0);
          const int64_t divisor = operand(1).constant;
          return sum(numerator, divide(numerator, divisor), -divisor);
        }
        break;
      default:
        break;
    }
    const Interval range = interval(id);
    if (range.lower == range.upper) return {range.lower, {}};
  }
  return {0, {{atom({id, {}, 0}), 1}}};
}

// Of scalars that are no sums; sums ask their form.
Interval IndexForms::compute_interval(ScalarId id) {
  const Scalar& scalar = meaning_.scalars[static_cast<size_t>(id)];
  const Interval anything{-far, far};
  if (scalar.dtype == ScalarType::boolean) return {0, 1};
  if (scalar.dtype != ScalarType::i64 || scalar.is_placeholder()) return anything;
  const auto operand = [&](size_t i) { return interval(scalar.operands[i]); };
  switch (scalar.op) {
    case ScalarOp::minimum: {
      const Interval a = operand(0), b = operand(1);
      return {std::min(a.lower, b.lower), std::min(a.upper, b.upper)};
    }
    case ScalarOp::maximum: {
      const Interval a = operand(0), b = operand(1);
      return {std::max(a.lower, b.lower), std::max(a.upper, b.upper)};
    }
    case ScalarOp::select: {
      const Interval a = operand(1), b = operand(2);
      return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
    }
    case ScalarOp::mul:
      return times(operand(0), operand(1));
    case ScalarOp::cast:
      return meaning_.scalars[static_cast<size_t>(scalar.operands[0])].dtype == ScalarType::i64 ? operand(0) : anything;
    case ScalarOp::abs: {
      const Interval a = operand(0);
      return {0, std::max(std::abs(a.lower), std::abs(a.upper))};
    }
    case ScalarOp::mod: {
      const Interval divisor = operand(1);
      return divisor.lower > 0 ? Interval{0, divisor.upper - 1} : anything;
    }
    case ScalarOp::constant:
    case ScalarOp::size:
    case ScalarOp::index:
    case ScalarOp::add:
    case ScalarOp::sub:
    case ScalarOp::neg:
      return interval(form(id));
    case ScalarOp::floor_div: {
      const Interval divisor = operand(1);
      return divisor.lower == divisor.upper && divisor.lower > 0 ? interval(form(id)) : anything;
    }
    default:
      return anything;
  }
}

}  // namespace atenon::reference
