// How far generated functions are from the exact value, in units of the last place.
//
// The exact value is the C library's in long double (11 bits more than f64), or, of digamma, a series in it. Arguments
// are of every magnitude, denormal and huge ones included, of both signs, and what is special.
#include "lower/inline_functions.h"

#include <cmath>
#include <limits>
#include <random>

#include "lower/run_kernel.h"
#include "opset/scalar_values.h"

namespace atenon::lower {
namespace {

using Exact = long double;

// The distance in units of the last place; of zeros, infinities and NaN only the same will do.
template <class Float>
double ulps(Float x, Exact exact) {
  if (std::isnan(exact) || std::isnan(x)) return std::isnan(exact) && std::isnan(x) ? 0 : INFINITY;
  const Float rounded = static_cast<Float>(exact);
  if (std::isinf(rounded) || std::isinf(x)) {
    // One that is as far above the largest number as it is from that is rounded either way.
    constexpr Exact largest = std::numeric_limits<Float>::max();
    if (rounded == x) return 0;
    return std::fabs(exact) / largest - 1 < 4 * std::numeric_limits<Float>::epsilon() &&
                   1 - std::fabs(exact) / largest < 4 * std::numeric_limits<Float>::epsilon()
               ? 1
               : INFINITY;
  }
  if (exact == 0 && x == 0) return std::signbit(exact) == std::signbit(x) ? 0 : INFINITY;
  int exponent;
  std::frexp(rounded, &exponent);
  using Limits = std::numeric_limits<Float>;
  const int last = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::fabs(x - exact) / std::ldexp(1.0L, last));
}

// One kernel: op of vectors of its operands.
template <class Float>
std::vector<Float> generated(ScalarOp op, std::vector<std::vector<Float>> inputs) {
  std::vector<Float> output(inputs[0].size());
  const ScalarType type = sizeof(Float) == 4 ? ScalarType::f32 : ScalarType::f64;
  const ir::TensorMeta meta{type, {static_cast<int64_t>(output.size())}};
  ir::Graph graph;
  opset::Meaning meaning;
  const auto add = [&](opset::Scalar scalar) {
    meaning.scalars.push_back(std::move(scalar));
    return static_cast<opset::ScalarId>(meaning.scalars.size() - 1);
  };
  meaning.variable_count = 1;
  const opset::ScalarId index = add({.op = ScalarOp::index, .dtype = ScalarType::i64, .variable = 0});
  std::vector<ir::Argument> operands;
  std::vector<opset::ScalarId> reads;
  std::vector<void*> buffers;
  for (std::vector<Float>& input : inputs) {
    ir::Value* value = graph.add_input("x" + std::to_string(operands.size()), meta);
    operands.emplace_back(value);
    meaning.tensors.push_back(value);
    reads.push_back(add({.op = ScalarOp::read,
                         .dtype = type,
                         .operands = {index},
                         .tensor = static_cast<int>(meaning.tensors.size()) - 1}));
    buffers.push_back(input.data());
  }
  buffers.push_back(output.data());
  meaning.results.push_back(
      {.type = meta, .variables = {0}, .value = add({.op = op, .dtype = type, .operands = reads})});
  graph.set_outputs({graph.add("test::f", operands, {}, {{"y", meta}})->result()});
  Result<Loops> loops = compose(
      graph, [&](const ir::Node&) { return &meaning; },
      [](const ir::Value& value) { return row_major(value.meta().sizes); }, shape::Facts(), {});
  REQUIRE_MESSAGE(bool(loops), (loops ? "" : loops.failure().message));
  testing::run_kernel(*loops, buffers, {});
  return output;
}

Exact digamma(Exact x) {
  constexpr Exact pi = 3.14159265358979323846264338327950288L;
  if (std::isnan(x) || x == INFINITY) return x;
  if (x == 0) return std::copysign(static_cast<Exact>(INFINITY), -x);
  if (x < 0) {
    const Exact rest = x - std::nearbyint(x);
    return rest == 0 || std::isinf(x) ? NAN : digamma(1 - x) - pi / std::tan(pi * rest);
  }
  Exact sum = 0;
  for (; x < 60; x += 1) sum -= 1 / x;
  const Exact z = 1 / (x * x);
  return sum + std::log(x) - 0.5L / x -
         z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z / 132))));
}

Exact sigmoid(Exact x) { return 1 / (1 + std::exp(-x)); }
Exact rsqrt(Exact x) { return 1 / std::sqrt(x); }

struct Function {
  ScalarOp op;
  Exact (*exact)(Exact);
  double low, high;  // where it is sampled densely, besides arguments of every magnitude
  double allowed = 4;
  bool cancels = false;  // in f64, where terms larger than the value cancel: the unit is that of 1 or more there
};
const Function functions[] = {
    {ScalarOp::exp, std::exp, -110, 90},
    {ScalarOp::exp2, std::exp2, -152, 130},
    {ScalarOp::expm1, std::expm1, -20, 90},
    {ScalarOp::log, std::log, 0, 3},
    {ScalarOp::log2, std::log2, 0, 3},
    {ScalarOp::log10, std::log10, 0, 3},
    {ScalarOp::log1p, std::log1p, -1, 3},
    {ScalarOp::sqrt, std::sqrt, 0, 100, 0.5},
    {ScalarOp::rsqrt, rsqrt, 0, 100},
    {ScalarOp::sin, std::sin, -100, 100},
    {ScalarOp::cos, std::cos, -100, 100},
    {ScalarOp::tan, std::tan, -10, 10},
    {ScalarOp::asin, std::asin, -1.1, 1.1},
    {ScalarOp::acos, std::acos, -1.1, 1.1},
    {ScalarOp::atan, std::atan, -4, 4},
    {ScalarOp::sinh, std::sinh, -90, 90},
    {ScalarOp::cosh, std::cosh, -90, 90},
    {ScalarOp::tanh, std::tanh, -12, 12},
    {ScalarOp::asinh, std::asinh, -90, 90},
    {ScalarOp::acosh, std::acosh, 0.9, 100},
    {ScalarOp::atanh, std::atanh, -1.1, 1.1},
    {ScalarOp::erf, std::erf, -6, 6},
    {ScalarOp::erfc, std::erfc, -7, 30},
    {ScalarOp::lgamma, [](Exact x) -> Exact { return std::lgamma(x); }, -30, 40, 32, true},
    {ScalarOp::digamma, digamma, -30, 40, 32, true},
    {ScalarOp::sigmoid, sigmoid, -110, 90},
};

// Of each magnitude and sign, and the special ones.
template <class Float>
std::vector<Float> arguments(double low, double high) {
  using Limits = std::numeric_limits<Float>;
  std::vector<Float> found = {0,
                              Limits::denorm_min(),
                              Limits::denorm_min() * 123,
                              Limits::min(),
                              Limits::max(),
                              Limits::infinity(),
                              Limits::quiet_NaN(),
                              Float(0.5),
                              1,
                              2,
                              3,
                              Float(1e22),
                              std::nextafter(Float(1), Float(2)),
                              std::nextafter(Float(1), Float(0)),
                              static_cast<Float>(1.5707963267948966),
                              static_cast<Float>(5.319372648326541e+255L)};  // a hard case of sin's reduction (Kahan)
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> mantissa(1, 2);
  for (int exponent = Limits::min_exponent - Limits::digits; exponent < Limits::max_exponent; ++exponent)
    for (int i = 0; i < 12; ++i) found.push_back(static_cast<Float>(std::ldexp(mantissa(generator), exponent)));
  const size_t positive = found.size();
  for (size_t i = 0; i < positive; ++i) found.push_back(-found[i]);
  for (int i = 0; i <= 20000; ++i) found.push_back(static_cast<Float>(low + (high - low) * i / 20000));
  return found;
}

template <class Float>
void check(const Function& function) {
  const bool is_double = sizeof(Float) == 8;
  // exp and its kin reach further in f64.
  const bool is_exponential = function.op == ScalarOp::exp || function.op == ScalarOp::exp2 ||
                              function.op == ScalarOp::expm1 || function.op == ScalarOp::sinh ||
                              function.op == ScalarOp::cosh || function.op == ScalarOp::sigmoid;
  const double reach = is_double && is_exponential ? 8 : 1;
  const std::vector<Float> input = arguments<Float>(function.low * reach, function.high * reach);
  const std::vector<Float> output = generated<Float>(function.op, {input});
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    const Exact exact = function.exact(input[i]);
    double distance = ulps(output[i], exact);
    if (function.cancels && is_double && std::fabs(exact) < 1)
      distance = static_cast<double>(std::fabs(output[i] - exact) / std::numeric_limits<Float>::epsilon());
    if (distance > worst) worst = distance, where = i;
  }
  CHECK_MESSAGE(worst <= (is_double ? function.allowed : std::min(function.allowed, 4.0)), "function ",
                std::string(opset::name_of(function.op)), " is ", worst, " units off at ", input[where], ": ",
                output[where]);
}

TEST_CASE("functions of f32 and f64 are within 4 units in the last place, whatever the argument") {
  for (const Function& function : functions) {
    check<float>(function);
    check<double>(function);
  }
}

TEST_CASE_TEMPLATE("the binary logarithm of a power of two is exact", Float, float, double) {
  std::vector<Float> input, exact;
  for (int n = std::numeric_limits<Float>::min_exponent; n < std::numeric_limits<Float>::max_exponent; ++n) {
    input.push_back(std::ldexp(Float(1), n));
    exact.push_back(static_cast<Float>(n));
  }
  CHECK(generated<Float>(ScalarOp::log2, {input}) == exact);
}

struct Operation {
  ScalarOp op;
  Exact (*exact)(Exact, Exact);
  double allowed;
};
const Operation operations[] = {
    {ScalarOp::add, [](Exact a, Exact b) { return a + b; }, 0.5001},
    {ScalarOp::sub, [](Exact a, Exact b) { return a - b; }, 0.5001},
    {ScalarOp::mul, [](Exact a, Exact b) { return a * b; }, 0.5001},
    {ScalarOp::div, [](Exact a, Exact b) { return a / b; }, 0.5001},
    {ScalarOp::pow, [](Exact a, Exact b) { return std::pow(a, b); }, 4},
    {ScalarOp::atan2, [](Exact a, Exact b) { return std::atan2(a, b); }, 4},
};

template <class Float>
void check(const Operation& operation) {
  using Limits = std::numeric_limits<Float>;
  std::vector<Float> x, y;
  const Float special[] = {0,   Limits::denorm_min(), Limits::min(),       1,    2,           3,
                           0.5, Limits::infinity(),   Limits::quiet_NaN(), 1e15, Float(1e17), Limits::max()};
  for (const Float a : special)
    for (const Float b : special)
      for (const int sign : {1, -1})
        for (const int other : {1, -1}) x.push_back(sign * a), y.push_back(other * b);
  std::mt19937_64 generator(2);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 40000; ++i) {
    const double scale = Limits::max_exponent * 0.98;
    x.push_back(static_cast<Float>(std::exp2(scale * unit(generator))));
    // Powers are taken to where their result leaves the range; others of every magnitude.
    y.push_back(static_cast<Float>(operation.op == ScalarOp::pow
                                       ? scale * 1.1 * unit(generator) / std::log2(static_cast<double>(x.back()))
                                       : std::exp2(scale * unit(generator))));
    if (operation.op != ScalarOp::pow && i % 2 == 0) x.back() = -x.back();
    if (i % 3 == 0) y.back() = -y.back();
    if (i % 4 == 0)
      x.back() = static_cast<Float>(7 * unit(generator)), y.back() = static_cast<Float>(unit(generator) * 7);
  }
  const std::vector<Float> output = generated<Float>(operation.op, {x, y});
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double distance = ulps(output[i], operation.exact(x[i], y[i]));
    if (distance > worst) worst = distance, where = i;
  }
  CHECK_MESSAGE(worst <= operation.allowed, std::string(opset::name_of(operation.op)), " of ", x[where], " and ",
                y[where], " is ", worst, " units off: ", output[where]);
}

TEST_CASE("arithmetic is rounded once; powers and angles are within 4 units in the last place") {
  for (const Operation& operation : operations) {
    check<float>(operation);
    check<double>(operation);
  }
}

template <class Float>
void check_floored() {
  const Float special[] = {0, 1, 3, Float(0.1), 1e15, 1e30, INFINITY, std::numeric_limits<Float>::quiet_NaN()};
  std::vector<Float> x, n;
  const auto add = [&](Float a, Float b) {
    for (const Float sign : {1, -1})
      for (const Float other : {1, -1}) x.push_back(sign * a), n.push_back(other * b);
  };
  for (const Float a : special)
    for (const Float b : special) add(a, b);
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> unit(0.5, 1), power(-5, 110);
  for (int i = 0; i < 20000; ++i) {
    const Float b = static_cast<Float>(unit(generator));
    add(static_cast<Float>(i % 2 ? b * std::floor(64 * unit(generator)) : std::exp2(power(generator))), b);
  }
  const std::vector<Float> rests = generated<Float>(ScalarOp::mod, {x, n});
  const std::vector<Float> quotients = generated<Float>(ScalarOp::floor_div, {x, n});
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    CAPTURE(n[i]);
    const double rest = opset::modulus(x[i], n[i]), quotient = opset::floor_divide(x[i], n[i]);
    CHECK((rests[i] == static_cast<Float>(rest) || (std::isnan(rests[i]) && std::isnan(rest))));
    CHECK((quotient == 0 ? quotients[i] == 0 : ulps(quotients[i], quotient) <= 2.5));  // both are rounded
  }
}

TEST_CASE("floored quotients and their rests are exact, where quotients are large or infinite, too") {
  check_floored<float>();
  check_floored<double>();
}

}  // namespace
}  // namespace atenon::lower
