// What a scalar operation computes, for folding constants and for the interpreter: floats as double, integers and bools
// as int64. The functions are our own (support/math.h), so that what is folded is the same on every machine.
//
// A float of fewer bits is computed in double and rounded to f32 after each operation, which for + - * / and sqrt is
// what f32 arithmetic gives (double has more than twice the bits). Narrow integers wrap after each operation. Integer
// division by zero gives 0 here; the caller knows that it happened.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "opset/meaning.h"
#include "support/math.h"
#include "tensor/elements.h"

namespace atenon::opset {

inline double round_to(double x, ScalarType dtype) {
  return dtype == ScalarType::f64 ? x : static_cast<double>(static_cast<float>(x));
}

// As a cast to 16 bits would leave it.
inline double narrow(double x, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::f16:
      return convert<double>(convert<Half>(x));
    case ScalarType::bf16:
      return convert<double>(convert<BFloat16>(x));
    default:
      return round_to(x, dtype);
  }
}

inline int64_t wrap(int64_t x, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::u8:
      return static_cast<uint8_t>(x);
    case ScalarType::i8:
      return static_cast<int8_t>(x);
    case ScalarType::i16:
      return static_cast<int16_t>(x);
    case ScalarType::i32:
      return static_cast<int32_t>(x);
    case ScalarType::boolean:
      return x != 0;
    default:
      return x;
  }
}

inline int64_t truncate_to(double x, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::u8:
      return truncate<uint8_t>(x);
    case ScalarType::i8:
      return truncate<int8_t>(x);
    case ScalarType::i16:
      return truncate<int16_t>(x);
    case ScalarType::i32:
      return truncate<int32_t>(x);
    case ScalarType::boolean:
      return x != 0;
    default:
      return truncate<int64_t>(x);
  }
}

// PyTorch's minimum and maximum: a NaN wins.
inline double minimum(double a, double b) { return a != a ? a : b != b ? b : b < a ? b : a; }
inline double maximum(double a, double b) { return a != a ? a : b != b ? b : b > a ? b : a; }

// As PyTorch's div(rounding_mode="floor"): exact where the quotient is a whole number.
inline double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return whole;
}

inline double modulus(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

inline int64_t add_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t multiply_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t negate_wrapping(int64_t a) { return static_cast<int64_t>(0 - static_cast<uint64_t>(a)); }

inline int64_t truncated_quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? negate_wrapping(a) : a / b; }
inline int64_t floored_quotient(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return truncated_quotient(a, b);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline int64_t floored_rest(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

inline int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base = multiply_wrapping(base, base))
    if (exponent & 1) result = multiply_wrapping(result, base);
  return result;
}

inline int64_t shift_left(int64_t a, int64_t by) {
  return by < 0 || by > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << by);
}
inline int64_t shift_right(int64_t a, int64_t by) { return by < 0 || by > 63 ? (a < 0 ? -1 : 0) : a >> by; }

// Half to even, whatever the rounding mode.
inline double round_even(double x) {
  const double down = std::floor(x);
  const double over = x - down;
  return over < 0.5 || (over == 0.5 && std::fmod(down, 2) == 0) ? std::copysign(down, x) : down + 1;
}

// A function of one float; null for other operations.
inline double (*function_of(ScalarOp op))(double) {
  static constexpr double (*functions[])(double) = {math::exp,
                                                    math::exp2,
                                                    math::expm1,
                                                    math::log,
                                                    math::log2,
                                                    math::log10,
                                                    math::log1p,
                                                    [](double x) { return std::sqrt(x); },
                                                    [](double x) { return 1 / std::sqrt(x); },
                                                    math::sin,
                                                    math::cos,
                                                    math::tan,
                                                    math::asin,
                                                    math::acos,
                                                    math::atan,
                                                    math::sinh,
                                                    math::cosh,
                                                    math::tanh,
                                                    math::asinh,
                                                    math::acosh,
                                                    math::atanh,
                                                    math::erf,
                                                    math::erfc,
                                                    math::lgamma,
                                                    math::digamma,
                                                    [](double x) { return std::fabs(x); },
                                                    [](double x) { return std::floor(x); },
                                                    [](double x) { return std::ceil(x); },
                                                    [](double x) { return std::trunc(x); },
                                                    round_even};
  static_assert(static_cast<size_t>(ScalarOp::round) - static_cast<size_t>(ScalarOp::exp) + 1 == std::size(functions));
  if (op == ScalarOp::sigmoid) return math::sigmoid;
  return op < ScalarOp::exp || op > ScalarOp::round
             ? nullptr
             : functions[static_cast<size_t>(op) - static_cast<size_t>(ScalarOp::exp)];
}

inline double evaluate_float(ScalarOp op, double a, double b) {
  if (const auto function = function_of(op)) return function(a);
  switch (op) {
    case ScalarOp::floor_div:
      return floor_divide(a, b);
    case ScalarOp::mod:
      return modulus(a, b);
    case ScalarOp::trunc_div:
      return std::trunc(a / b);
    case ScalarOp::pow:
      return math::pow(a, b);
    case ScalarOp::minimum:
      return minimum(a, b);
    case ScalarOp::maximum:
      return maximum(a, b);
    case ScalarOp::atan2:
      return math::atan2(a, b);
    case ScalarOp::neg:
      return -a;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

inline int64_t evaluate_integer(ScalarOp op, int64_t a, int64_t b) {
  switch (op) {
    case ScalarOp::add:
      return add_wrapping(a, b);
    case ScalarOp::sub:
      return add_wrapping(a, negate_wrapping(b));
    case ScalarOp::mul:
      return multiply_wrapping(a, b);
    case ScalarOp::div:
    case ScalarOp::trunc_div:
      return truncated_quotient(a, b);
    case ScalarOp::floor_div:
      return floored_quotient(a, b);
    case ScalarOp::mod:
      return floored_rest(a, b);
    case ScalarOp::pow:
      return power(a, b);
    case ScalarOp::neg:
      return negate_wrapping(a);
    case ScalarOp::abs:
      return a < 0 ? negate_wrapping(a) : a;
    case ScalarOp::minimum:
      return b < a ? b : a;
    case ScalarOp::maximum:
      return b > a ? b : a;
    case ScalarOp::eq:
      return a == b;
    case ScalarOp::ne:
      return a != b;
    case ScalarOp::lt:
      return a < b;
    case ScalarOp::le:
      return a <= b;
    case ScalarOp::logical_and:
      return a != 0 && b != 0;
    case ScalarOp::logical_or:
      return a != 0 || b != 0;
    case ScalarOp::logical_not:
      return a == 0;
    case ScalarOp::bit_and:
      return a & b;
    case ScalarOp::bit_or:
      return a | b;
    case ScalarOp::bit_xor:
      return a ^ b;
    case ScalarOp::bit_not:
      return ~a;
    case ScalarOp::shift_left:
      return shift_left(a, b);
    case ScalarOp::shift_right:
      return shift_right(a, b);
    case ScalarOp::isnan:
      return 0;
    default:  // floor and its kin leave integers alone
      return a;
  }
}

}  // namespace atenon::opset
