#include "reference/complex_parts.h"

#include <algorithm>
#include <cmath>

#include "tensor/real_parts.h"

namespace atenon::reference {

using opset::LoopNest;
using opset::Meaning;
using opset::Monoid;
using opset::no_scalar;
using opset::Reduction;
using opset::Scalar;
using opset::ScalarId;
using opset::ScalarOp;
using opset::Scatter;

namespace {

struct Parts {
  ScalarId real = no_scalar, imaginary = no_scalar;  // the latter is missing for what is real
};

class Splitter {
 public:
  explicit Splitter(const Meaning& from) : from_(from) {}

  Result<Meaning> split() {
    to_.tensors = from_.tensors;
    to_.variable_count = from_.variable_count;
    to_.is_view = false;
    for (const Scalar& scalar : from_.scalars) parts_.push_back(split(scalar));
    for (const Reduction& reduction : from_.reductions) to_.reductions.push_back(split(reduction));
    for (const LoopNest& nest : from_.results) to_.results.push_back(split(nest));
    if (from_.scatter) split(*from_.scatter);
    if (!failure_.empty()) return error(Status::unsupported, 634, failure_ + " of complex numbers is not known");
    return std::move(to_);
  }

 private:
  const Parts& parts(ScalarId id) const { return parts_[static_cast<size_t>(id)]; }
  ScalarId real(ScalarId id) const { return id == no_scalar ? no_scalar : parts(id).real; }
  ScalarType dtype(ScalarId id) const { return to_.scalars[static_cast<size_t>(id)].dtype; }

  ScalarId add(Scalar scalar) {
    to_.scalars.push_back(std::move(scalar));
    return static_cast<ScalarId>(to_.scalars.size() - 1);
  }
  ScalarId make(ScalarOp op, std::vector<ScalarId> operands) {
    const ScalarType type = dtype(operands.back());
    return add({.op = op, .dtype = type, .operands = std::move(operands)});
  }
  ScalarId make_truth(ScalarOp op, std::vector<ScalarId> operands) {
    return add({.op = op, .dtype = ScalarType::boolean, .operands = std::move(operands)});
  }
  ScalarId number(double value, ScalarType type) {
    return add({.op = ScalarOp::constant, .dtype = type, .number = value});
  }
  ScalarId integer(int64_t value) {
    return add({.op = ScalarOp::constant, .dtype = ScalarType::i64, .integer = value});
  }
  ScalarId cast(ScalarId id, ScalarType type) {
    return dtype(id) == type ? id : add({.op = ScalarOp::cast, .dtype = type, .operands = {id}});
  }
  ScalarId sum(ScalarId a, ScalarId b) { return make(ScalarOp::add, {a, b}); }
  ScalarId difference(ScalarId a, ScalarId b) { return make(ScalarOp::sub, {a, b}); }
  ScalarId product(ScalarId a, ScalarId b) { return make(ScalarOp::mul, {a, b}); }
  ScalarId of(ScalarOp function, ScalarId a) { return make(function, {a}); }
  ScalarId choose(ScalarId truth, ScalarId a, ScalarId b) { return make(ScalarOp::select, {truth, a, b}); }

  // --- Arithmetic

  Parts multiply(Parts a, Parts b) {
    return {difference(product(a.real, b.real), product(a.imaginary, b.imaginary)),
            sum(product(a.real, b.imaginary), product(a.imaginary, b.real))};
  }
  // Smith's method: the divisor's larger part is divided out first, so that nothing overflows on the way. Zero divides
  // either part: not by 0 / 0, which is NaN.
  Parts divide(Parts a, Parts b) {
    const ScalarId wide = make_truth(ScalarOp::le, {of(ScalarOp::abs, b.imaginary), of(ScalarOp::abs, b.real)});
    const ScalarId large = choose(wide, b.real, b.imaginary), small = choose(wide, b.imaginary, b.real);
    const ScalarId is_zero = make_truth(ScalarOp::eq, {large, number(0, dtype(large))});
    const ScalarId ratio = make(ScalarOp::div, {small, choose(is_zero, number(1, dtype(large)), large)});
    const ScalarId scale = sum(large, product(small, ratio));
    const auto quotient = [&](ScalarId x) { return make(ScalarOp::div, {x, scale}); };
    return {quotient(choose(wide, sum(a.real, product(a.imaginary, ratio)), sum(product(a.real, ratio), a.imaginary))),
            quotient(choose(wide, difference(a.imaginary, product(a.real, ratio)),
                            difference(product(a.imaginary, ratio), a.real)))};
  }
  // The root of the sum of squares, in double: neither over- nor underflows for parts in f32.
  ScalarId magnitude(Parts a) {
    const ScalarType type = dtype(a.real);
    const ScalarId x = cast(a.real, ScalarType::f64), y = cast(a.imaginary, ScalarType::f64);
    const ScalarId root = of(ScalarOp::sqrt, sum(product(x, x), product(y, y)));
    const auto infinite = [&](ScalarId part) {
      return make_truth(ScalarOp::eq, {of(ScalarOp::abs, part), number(INFINITY, ScalarType::f64)});
    };
    const ScalarId any = make_truth(ScalarOp::logical_or, {infinite(x), infinite(y)});
    return cast(choose(any, number(INFINITY, ScalarType::f64), root), type);
  }
  ScalarId angle(Parts a) { return make(ScalarOp::atan2, {a.imaginary, a.real}); }
  Parts polar(ScalarId length, ScalarId angle) {
    return {product(length, of(ScalarOp::cos, angle)), product(length, of(ScalarOp::sin, angle))};
  }
  Parts exponential(Parts a) { return polar(of(ScalarOp::exp, a.real), a.imaginary); }
  Parts logarithm(Parts a) { return {of(ScalarOp::log, magnitude(a)), angle(a)}; }
  Parts root(Parts a) {
    const ScalarId length = magnitude(a), half = number(0.5, dtype(a.real)), zero = number(0, dtype(a.real));
    const auto part = [&](ScalarId x) { return of(ScalarOp::sqrt, product(half, make(ScalarOp::maximum, {x, zero}))); };
    const ScalarId y = part(difference(length, a.real));
    const ScalarId below = make_truth(ScalarOp::lt, {a.imaginary, zero});
    return {part(sum(length, a.real)), choose(below, of(ScalarOp::neg, y), y)};
  }
  Parts sine(Parts a) {
    return {product(of(ScalarOp::sin, a.real), of(ScalarOp::cosh, a.imaginary)),
            product(of(ScalarOp::cos, a.real), of(ScalarOp::sinh, a.imaginary))};
  }
  Parts cosine(Parts a) {
    return {product(of(ScalarOp::cos, a.real), of(ScalarOp::cosh, a.imaginary)),
            of(ScalarOp::neg, product(of(ScalarOp::sin, a.real), of(ScalarOp::sinh, a.imaginary)))};
  }
  Parts hyperbolic_sine(Parts a) {
    return {product(of(ScalarOp::sinh, a.real), of(ScalarOp::cos, a.imaginary)),
            product(of(ScalarOp::cosh, a.real), of(ScalarOp::sin, a.imaginary))};
  }
  Parts hyperbolic_cosine(Parts a) {
    return {product(of(ScalarOp::cosh, a.real), of(ScalarOp::cos, a.imaginary)),
            product(of(ScalarOp::sinh, a.real), of(ScalarOp::sin, a.imaginary))};
  }
  // By tanh and 1/cosh of the real part, which stay finite where sinh and cosh do not.
  Parts hyperbolic_tangent(Parts a) {
    const ScalarId t = of(ScalarOp::tanh, a.real), sin = of(ScalarOp::sin, a.imaginary),
                   cos = of(ScalarOp::cos, a.imaginary), ts = product(t, sin);
    const ScalarId divisor = sum(product(cos, cos), product(ts, ts));
    const ScalarId secant = make(ScalarOp::div, {number(1, dtype(a.real)), of(ScalarOp::cosh, a.real)});
    return {make(ScalarOp::div, {t, divisor}),
            make(ScalarOp::div, {product(product(sin, cos), product(secant, secant)), divisor})};
  }
  Parts power(Parts a, Parts b) {
    const ScalarId zero = number(0, dtype(a.real)), one = number(1, dtype(a.real));
    const auto is_zero = [&](Parts x) {
      return make_truth(ScalarOp::logical_and,
                        {make_truth(ScalarOp::eq, {x.real, zero}), make_truth(ScalarOp::eq, {x.imaginary, zero})});
    };
    const Parts general = exponential(multiply(logarithm(a), b));
    const ScalarId base = is_zero(a), exponent = is_zero(b);
    const ScalarId infinite = number(INFINITY, dtype(a.real)), nan = number(NAN, dtype(a.real));
    const ScalarId shrinks = make_truth(ScalarOp::lt, {zero, b.real}), grows = make_truth(ScalarOp::lt, {b.real, zero});
    const Parts of_zero = {choose(shrinks, zero, choose(grows, infinite, nan)), choose(shrinks, zero, nan)};
    return {choose(exponent, one, choose(base, of_zero.real, general.real)),
            choose(exponent, zero, choose(base, of_zero.imaginary, general.imaginary))};
  }
  // Inverse functions by their logarithms, in double, which makes up for what cancels.
  Parts wide(Parts a) { return {cast(a.real, ScalarType::f64), cast(a.imaginary, ScalarType::f64)}; }
  Parts narrow(Parts a, ScalarType type) { return {cast(a.real, type), cast(a.imaginary, type)}; }
  Parts plus(Parts a, Parts b) { return {sum(a.real, b.real), sum(a.imaginary, b.imaginary)}; }
  Parts plus(Parts a, double b) { return {sum(a.real, number(b, dtype(a.real))), a.imaginary}; }
  Parts times(Parts a, double b) {
    const ScalarId factor = number(b, dtype(a.real));
    return {product(a.real, factor), product(a.imaginary, factor)};
  }
  Parts turned(Parts a) { return {of(ScalarOp::neg, a.imaginary), a.real}; }  // by i
  Parts inverse_hyperbolic_sine(Parts a) { return logarithm(plus(a, root(plus(multiply(a, a), 1)))); }
  Parts inverse_hyperbolic_cosine(Parts a) { return logarithm(plus(a, multiply(root(plus(a, 1)), root(plus(a, -1))))); }
  Parts inverse_hyperbolic_tangent(Parts a) {
    return times(plus(logarithm(plus(a, 1)), negate(logarithm(plus(negate(a), 1)))), 0.5);
  }
  Parts inverse_sine(Parts a) { return negate(turned(inverse_hyperbolic_sine(turned(a)))); }
  Parts inverse_tangent(Parts a) { return negate(turned(inverse_hyperbolic_tangent(turned(a)))); }
  Parts reciprocal(Parts a) { return divide({number(1, dtype(a.real)), number(0, dtype(a.real))}, a); }
  Parts negate(Parts a) { return {of(ScalarOp::neg, a.real), of(ScalarOp::neg, a.imaginary)}; }

  // --- Scalars

  Parts split(const Scalar& scalar) {
    const bool reads_complex =
        scalar.op != ScalarOp::read && std::any_of(scalar.operands.begin(), scalar.operands.end(),
                                                   [&](ScalarId id) { return parts(id).imaginary != no_scalar; });
    if (is_complex(scalar.dtype)) return split_complex(scalar);
    if (reads_complex) return {split_to_real(scalar), no_scalar};
    Scalar copy = scalar;
    for (ScalarId& id : copy.operands) id = real(id);
    if (copy.op == ScalarOp::reduce) copy = reduced(scalar, false);
    return {add(std::move(copy)), no_scalar};
  }

  Parts split_complex(const Scalar& scalar) {
    const ScalarType type = part_of(scalar.dtype);
    const auto at = [&](size_t i) { return parts(scalar.operands[i]); };
    switch (scalar.op) {
      case ScalarOp::constant: {  // a monoid's placeholder: numbers are casts
        const auto placeholder = [&] {
          return add({.op = ScalarOp::constant, .dtype = type, .variable = static_cast<int>(to_.scalars.size())});
        };
        const ScalarId first = placeholder();
        return {first, placeholder()};
      }
      case ScalarOp::read: {
        const auto part = [&](int64_t which) {
          Scalar read = scalar;
          read.dtype = type;
          for (ScalarId& id : read.operands) id = real(id);
          read.operands.push_back(integer(which));
          return add(std::move(read));
        };
        const ScalarId first = part(0);
        return {first, part(1)};
      }
      case ScalarOp::cast: {
        const Parts a = at(0);
        return {cast(a.real, type), a.imaginary == no_scalar ? number(0, type) : cast(a.imaginary, type)};
      }
      case ScalarOp::complex:
        return {at(0).real, at(1).real};
      case ScalarOp::select:
        return {choose(at(0).real, at(1).real, at(2).real), choose(at(0).real, at(1).imaginary, at(2).imaginary)};
      case ScalarOp::reduce: {
        const ScalarId first = add(reduced(scalar, false));
        return {first, add(reduced(scalar, true))};
      }
      case ScalarOp::add:
        return {sum(at(0).real, at(1).real), sum(at(0).imaginary, at(1).imaginary)};
      case ScalarOp::sub:
        return {difference(at(0).real, at(1).real), difference(at(0).imaginary, at(1).imaginary)};
      case ScalarOp::neg:
        return negate(at(0));
      case ScalarOp::mul:
        return multiply(at(0), at(1));
      case ScalarOp::div:
        return divide(at(0), at(1));
      case ScalarOp::pow:  // in double: an error of the logarithm grows with the exponent
        return narrow(power(wide(at(0)), wide(at(1))), type);
      case ScalarOp::exp:
        return exponential(at(0));
      case ScalarOp::log:
        return logarithm(at(0));
      case ScalarOp::sqrt:
        return root(at(0));
      case ScalarOp::rsqrt:
        return reciprocal(root(at(0)));
      case ScalarOp::sin:
        return sine(at(0));
      case ScalarOp::cos:
        return cosine(at(0));
      case ScalarOp::tan:
        return negate(turned(hyperbolic_tangent(turned(at(0)))));
      case ScalarOp::sinh:
        return hyperbolic_sine(at(0));
      case ScalarOp::cosh:
        return hyperbolic_cosine(at(0));
      case ScalarOp::tanh:
        return hyperbolic_tangent(at(0));
      case ScalarOp::asin:
        return narrow(inverse_sine(wide(at(0))), type);
      case ScalarOp::acos:
        return narrow(plus(negate(inverse_sine(wide(at(0)))), 1.5707963267948966), type);
      case ScalarOp::atan:
        return narrow(inverse_tangent(wide(at(0))), type);
      case ScalarOp::asinh:
        return narrow(inverse_hyperbolic_sine(wide(at(0))), type);
      case ScalarOp::acosh:
        return narrow(inverse_hyperbolic_cosine(wide(at(0))), type);
      case ScalarOp::atanh:
        return narrow(inverse_hyperbolic_tangent(wide(at(0))), type);
      case ScalarOp::log2:
        return narrow(times(logarithm(wide(at(0))), 1.4426950408889634), type);
      case ScalarOp::log10:
        return narrow(times(logarithm(wide(at(0))), 0.4342944819032518), type);
      case ScalarOp::log1p:
        return narrow(logarithm(plus(wide(at(0)), 1)), type);
      case ScalarOp::exp2:
        return narrow(exponential(times(wide(at(0)), 0.6931471805599453)), type);
      case ScalarOp::expm1:
        return narrow(plus(exponential(wide(at(0))), -1), type);
      case ScalarOp::sigmoid: {
        const Parts e = exponential(negate(at(0)));
        return reciprocal({sum(number(1, type), e.real), e.imaginary});
      }
      default:
        return unknown(scalar);
    }
  }

  // A real number or a truth about complex ones.
  ScalarId split_to_real(const Scalar& scalar) {
    const auto at = [&](size_t i) { return parts(scalar.operands[i]); };
    const auto zero = [&] { return number(0, dtype(at(0).real)); };
    const auto either = [&](ScalarOp op, ScalarId a, ScalarId b) { return make_truth(op, {a, b}); };
    switch (scalar.op) {
      case ScalarOp::real:
        return at(0).real;
      case ScalarOp::imag:
        return at(0).imaginary;
      case ScalarOp::abs:
        return magnitude(at(0));
      case ScalarOp::cast:
        return scalar.dtype != ScalarType::boolean
                   ? cast(at(0).real, scalar.dtype)
                   : either(ScalarOp::logical_or, either(ScalarOp::ne, at(0).real, zero()),
                            either(ScalarOp::ne, at(0).imaginary, zero()));
      case ScalarOp::eq:
      case ScalarOp::ne:
        return either(scalar.op == ScalarOp::eq ? ScalarOp::logical_and : ScalarOp::logical_or,
                      either(scalar.op, at(0).real, at(1).real), either(scalar.op, at(0).imaginary, at(1).imaginary));
      case ScalarOp::isnan:
        return either(ScalarOp::logical_or, make_truth(ScalarOp::isnan, {at(0).real}),
                      make_truth(ScalarOp::isnan, {at(0).imaginary}));
      default:
        return unknown(scalar).real;
    }
  }

  Parts unknown(const Scalar& scalar) {
    if (failure_.empty()) failure_ = opset::name_of(scalar.op);
    const ScalarId zero = number(0, part_of(scalar.dtype));
    return {zero, zero};
  }

  // --- Reductions

  // A component of a reduction as the first, or second, of its two.
  Scalar reduced(const Scalar& scalar, bool imaginary) const {
    Scalar result = scalar;
    if (is_complex(scalar.dtype)) result.dtype = part_of(scalar.dtype);
    result.component = imaginary ? 1 : 0;
    const std::vector<ScalarId>& elements = from_.reductions[static_cast<size_t>(scalar.reduction)].element;
    for (int c = 0; c < scalar.component; ++c)
      result.component += parts(elements[static_cast<size_t>(c)]).imaginary == no_scalar ? 1 : 2;
    return result;
  }

  // The parts of all, one after the other.
  std::vector<ScalarId> taken(const std::vector<ScalarId>& ids) const {
    std::vector<ScalarId> result;
    for (const ScalarId id : ids) {
      result.push_back(parts(id).real);
      if (parts(id).imaginary != no_scalar) result.push_back(parts(id).imaginary);
    }
    return result;
  }

  // Even a sum is one reduction of two components, not two: they share what their elements are made of.
  Monoid taken(const Monoid& from) const {
    Monoid to = {.name = from.name,
                 .identity = taken(from.identity),
                 .left = taken(from.left),
                 .right = taken(from.right),
                 .joined = taken(from.joined)};
    if (to.left.size() != from.left.size()) to.name = "complex " + from.name;
    return to;
  }

  Reduction split(const Reduction& from) const {
    Reduction to = from;
    to.monoid = taken(from.monoid);
    to.element = taken(from.element);
    for (ScalarId& id : to.extents) id = real(id);
    to.guard = real(from.guard);
    return to;
  }

  // --- Results

  // The part that the variable stands for.
  ScalarId part_at(int variable, ScalarId value) {
    const ScalarId index = add({.op = ScalarOp::index, .dtype = ScalarType::i64, .variable = variable});
    if (const ScalarId moved = moved_part(value, index); moved != no_scalar) return moved;
    return choose(make_truth(ScalarOp::eq, {index, integer(0)}), parts(value).real, parts(value).imaginary);
  }

  // The part at `index` of what is only read, chosen or zero: as it is there, whichever it is. no_scalar of others.
  ScalarId moved_part(ScalarId id, ScalarId index) {
    const Scalar& scalar = from_.scalars[static_cast<size_t>(id)];
    const auto operand = [&](size_t i) { return moved_part(scalar.operands[i], index); };
    if (scalar.op == ScalarOp::read && is_complex(scalar.dtype)) {
      Scalar read = to_.scalars[static_cast<size_t>(parts(id).real)];
      read.operands.back() = index;
      return add(std::move(read));
    }
    if (scalar.op == ScalarOp::select) {
      const ScalarId a = operand(1), b = a == no_scalar ? no_scalar : operand(2);
      return b == no_scalar ? no_scalar : choose(parts(scalar.operands[0]).real, a, b);
    }
    if (scalar.op != ScalarOp::cast) return no_scalar;
    const Scalar& number = from_.scalars[static_cast<size_t>(scalar.operands[0])];
    const bool is_zero = number.op == ScalarOp::constant && number.number == 0 && number.integer == 0;
    return is_zero && !is_complex(number.dtype) ? parts(id).imaginary : no_scalar;
  }

  LoopNest split(const LoopNest& from) {
    LoopNest to = from;
    to.value = real(from.value);
    if (!is_complex(from.type.dtype)) return to;
    to.type.dtype = part_of(from.type.dtype);
    to.type.sizes.emplace_back(2);
    to.type.strides.reset();
    if (from.value == no_scalar) return to;
    to.variables.push_back(to_.variable_count++);
    to.value = part_at(to.variables.back(), from.value);
    return to;
  }

  void split(const Scatter& from) {
    Scatter to = from;
    for (auto* ids : {&to.extents, &to.at})
      for (ScalarId& id : *ids) id = real(id);
    if (to.join)
      for (auto* ids : {&to.join->identity, &to.join->left, &to.join->right, &to.join->joined})
        for (ScalarId& id : *ids) id = real(id);
    to.value = real(from.value);
    if (is_complex(from_.results[0].type.dtype)) {
      if (to.join && to.join->name != "sum")
        failure_ = "scatter by " + to.join->name;  // the parts of a sum do not meet
      const int variable = to_.variable_count++;
      to.variables.push_back(variable);
      to.extents.push_back(integer(2));
      to.at.push_back(add({.op = ScalarOp::index, .dtype = ScalarType::i64, .variable = variable}));
      to.value = part_at(variable, from.value);
    }
    to_.scatter = std::move(to);
  }

  const Meaning& from_;
  Meaning to_;
  std::vector<Parts> parts_;  // of the scalars
  std::string failure_;
};

}  // namespace

bool has_complex(const Meaning& meaning) {
  return std::any_of(meaning.scalars.begin(), meaning.scalars.end(),
                     [](const Scalar& scalar) { return is_complex(scalar.dtype); });
}

Result<Meaning> in_real_parts(const Meaning& meaning) { return Splitter(meaning).split(); }

}  // namespace atenon::reference
