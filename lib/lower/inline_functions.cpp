// Polynomials and reductions of arguments behind inline_functions.h.
//
// exp: Cody and Waite's reduction by ln 2, then a polynomial, scaled in two steps so that denormal results are right.
// log: mantissa in [sqrt(1/2), sqrt(2)), Cephes' polynomial (f32) or the series of atanh (f64).
// pow in f64: the logarithm as two doubles. erf: Norbert Juffa's two polynomials. tanh: Cephes near 0, exp elsewhere.
// sin, cos: reduced by pi/2 in f64.
#include "lower/inline_functions.h"

#include <initializer_list>
#include <limits>
#include <numbers>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

namespace atenon::lower {

namespace {

using llvm::Value;
using opset::ScalarOp;

class Functions {
 public:
  explicit Functions(llvm::IRBuilderBase& builder) : b_(builder) {}

  Value* evaluate(ScalarOp op, std::span<Value* const> x);

 private:
  static bool is_double(Value* x) { return x->getType()->isDoubleTy(); }
  llvm::Type* integer_type(Value* x) { return is_double(x) ? b_.getInt64Ty() : b_.getInt32Ty(); }
  Value* number(Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }
  Value* integer(Value* like, int64_t value) { return llvm::ConstantInt::get(integer_type(like), value, true); }
  Value* bits(Value* x) { return b_.CreateBitCast(x, integer_type(x)); }
  Value* from_bits(Value* x, Value* like) { return b_.CreateBitCast(x, like->getType()); }
  Value* fma(Value* a, Value* b, Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  }
  Value* call(llvm::Intrinsic::ID id, Value* x) { return b_.CreateUnaryIntrinsic(id, x); }
  Value* absolute(Value* x) { return call(llvm::Intrinsic::fabs, x); }
  Value* copy_sign(Value* x, Value* sign) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign); }
  Value* add(Value* a, double b) { return b_.CreateFAdd(a, number(a, b)); }
  Value* mul(Value* a, double b) { return b_.CreateFMul(a, number(a, b)); }
  Value* less(Value* a, double b) { return b_.CreateFCmpOLT(a, number(a, b)); }
  Value* greater(Value* a, double b) { return b_.CreateFCmpOGT(a, number(a, b)); }
  Value* widen(Value* x) { return b_.CreateFPExt(x, b_.getDoubleTy()); }
  Value* narrow(Value* x, Value* like) { return b_.CreateFPTrunc(x, like->getType()); }
  Value* reciprocal(Value* x) { return b_.CreateFDiv(number(x, 1), x); }
  // Horner's rule, highest coefficient first.
  Value* polynomial(Value* x, std::initializer_list<double> coefficients);
  // The nearest integer, as a float and as an integer; garbage but no trap for what is out of range.
  std::pair<Value*, Value*> nearest(Value* x);
  Value* scale(Value* x, Value* exponent);  // x * 2^exponent, |exponent| < 2 * 127 (1023)

  Value* exp(Value* x);
  Value* exp_series(Value* x);
  Value* exp2(Value* x);
  Value* expm1(Value* x);
  Value* log(Value* x);
  Value* log1p(Value* x);
  Value* tanh(Value* x);
  Value* erf(Value* x);
  Value* sine(Value* x, bool cosine);
  Value* atan(Value* x);
  Value* atan2(Value* y, Value* x);
  Value* pow(Value* x, Value* y, bool for_f32);
  Value* precise_power(Value* x, Value* y, Value* rough);
  // Evaluates a function of f32 in f64.
  template <class Function>
  Value* wide(Value* x, Function function) {
    return is_double(x) ? function(x) : narrow(function(widen(x)), x);
  }

  llvm::IRBuilderBase& b_;
};

Value* Functions::polynomial(Value* x, std::initializer_list<double> coefficients) {
  Value* sum = nullptr;
  for (double coefficient : coefficients) sum = sum ? fma(sum, x, number(x, coefficient)) : number(x, coefficient);
  return sum;
}

std::pair<Value*, Value*> Functions::nearest(Value* x) {
  // Adding 1.5 * 2^(mantissa bits) leaves the integer in the low bits.
  Value* magic = number(x, is_double(x) ? 6755399441055744.0 : 12582912.0);
  Value* shifted = b_.CreateFAdd(x, magic);
  return {b_.CreateFSub(shifted, magic), b_.CreateSub(bits(shifted), bits(magic))};
}

Value* Functions::scale(Value* x, Value* exponent) {
  const int mantissa = is_double(x) ? 52 : 23, bias = is_double(x) ? 1023 : 127;
  Value* half = b_.CreateAShr(exponent, integer(x, 1));
  Value* rest = b_.CreateSub(exponent, half);
  for (Value* part : {half, rest}) {
    Value* power = b_.CreateShl(b_.CreateAdd(part, integer(x, bias)), integer(x, mantissa));
    x = b_.CreateFMul(x, from_bits(power, x));
  }
  return x;
}

Value* Functions::exp(Value* x) {
  // Beyond these bounds the result is 0 or infinity anyway; comparisons are ordered, so NaN passes.
  const double low = is_double(x) ? -746 : -104, high = is_double(x) ? 710 : 89;
  x = b_.CreateSelect(less(x, low), number(x, low), x);
  x = b_.CreateSelect(greater(x, high), number(x, high), x);
  auto [n, exponent] = nearest(mul(x, std::numbers::log2e));
  Value* r;
  Value* e;
  if (is_double(x)) {
    r = fma(n, number(x, -6.93145751953125e-1), x);
    r = fma(n, number(x, -1.42860682030941723212e-6), r);
    e = exp_series(r);
  } else {
    r = fma(n, number(x, -0.693359375), x);
    r = fma(n, number(x, 2.12194440e-4), r);
    e = polynomial(
        r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
    e = b_.CreateFAdd(fma(e, b_.CreateFMul(r, r), r), number(x, 1));
  }
  return scale(e, exponent);
}

// In f64, for |x| up to ln 2 / 2.
Value* Functions::exp_series(Value* x) {
  return polynomial(x, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                        1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1});
}

// In f64: the fraction is what is left of x, without rounding, so large exponents cost no precision.
Value* Functions::exp2(Value* x) {
  x = b_.CreateSelect(less(x, -1076), number(x, -1076), x);
  x = b_.CreateSelect(greater(x, 1025), number(x, 1025), x);
  auto [n, exponent] = nearest(x);
  return scale(exp_series(mul(b_.CreateFSub(x, n), std::numbers::ln2)), exponent);
}

// In f64. Where exp(x) is near 1 its last bits would be lost to the subtraction.
Value* Functions::expm1(Value* x) {
  Value* exact = add(exp(x), -1);
  Value* series = b_.CreateFMul(
      x, polynomial(x, {1.0 / 355687428096000, 1.0 / 20922789888000, 1.0 / 1307674368000, 1.0 / 87178291200,
                        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                        1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1}));
  return b_.CreateSelect(less(absolute(x), 0.6), series, exact);
}

Value* Functions::log(Value* x) {
  const int mantissa = is_double(x) ? 52 : 23;
  const double smallest = is_double(x) ? 0x1p-1022 : 0x1p-126, lift = is_double(x) ? 0x1p54 : 0x1p25;
  const double infinity = std::numeric_limits<double>::infinity();
  Value* tiny = less(x, smallest);
  Value* y = b_.CreateSelect(tiny, mul(x, lift), x);
  // The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)).
  Value* root = bits(number(x, std::numbers::sqrt2 / 2));
  Value* offset = b_.CreateSub(bits(y), root);
  Value* exponent = b_.CreateAShr(offset, integer(x, mantissa));
  Value* m = from_bits(b_.CreateSub(bits(y), b_.CreateShl(exponent, integer(x, mantissa))), x);
  exponent = b_.CreateSub(exponent, b_.CreateSelect(tiny, integer(x, is_double(x) ? 54 : 25), integer(x, 0)));
  Value* n = b_.CreateSIToFP(exponent, x->getType());
  Value* result;
  if (is_double(x)) {
    // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716.
    Value* s = b_.CreateFDiv(add(m, -1), add(m, 1));
    Value* z = b_.CreateFMul(s, s);
    Value* tail = polynomial(
        z, {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3});
    result = fma(b_.CreateFMul(tail, z), s, mul(s, 2));
    result = b_.CreateFAdd(fma(n, number(x, 1.42860682030941723212e-6), result), mul(n, 6.93145751953125e-1));
  } else {
    Value* f = add(m, -1);
    Value* z = b_.CreateFMul(f, f);
    Value* tail = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                                 -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    tail = b_.CreateFMul(b_.CreateFMul(tail, z), f);
    tail = fma(n, number(x, -2.12194440e-4), tail);
    tail = fma(z, number(x, -0.5), tail);
    result = b_.CreateFAdd(f, tail);
    result = fma(n, number(x, 0.693359375), result);
  }
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, infinity)), x, result);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, 0)), number(x, -infinity), result);
  // Negative numbers and NaN.
  return b_.CreateSelect(b_.CreateFCmpUGE(x, number(x, 0)), b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, result),
                         number(x, std::numeric_limits<double>::quiet_NaN()));
}

// In f64. What 1 + x rounds away is put back by the ratio of x to what was left of it (Kahan).
Value* Functions::log1p(Value* x) {
  Value* u = add(x, 1);
  Value* left = add(u, -1);
  Value* y = b_.CreateFMul(log(u), b_.CreateFDiv(x, left));
  y = b_.CreateSelect(b_.CreateFCmpOEQ(left, number(x, 0)), x, y);
  return b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, std::numeric_limits<double>::infinity())), x, y);
}

Value* Functions::tanh(Value* x) {
  if (is_double(x)) {
    Value* e = expm1(mul(absolute(x), -2));
    return copy_sign(b_.CreateFDiv(b_.CreateFNeg(e), add(e, 2)), x);
  }
  Value* t = absolute(x);
  Value* z = b_.CreateFMul(x, x);
  Value* near =
      polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
  near = fma(b_.CreateFMul(near, z), x, x);
  Value* far = b_.CreateFSub(number(x, 1), b_.CreateFDiv(number(x, 2), add(exp(mul(t, 2)), 1)));
  return b_.CreateSelect(less(t, 0.625), near, copy_sign(far, x));
}

Value* Functions::erf(Value* x) {
  Value* t = absolute(x);
  Value* s = b_.CreateFMul(x, x);
  Value* high = fma(number(x, -1.72853470e-5), t, number(x, 3.83197126e-4));
  Value* middle = fma(number(x, -3.88396438e-3), t, number(x, 2.42546219e-2));
  Value* far = fma(high, s, middle);
  for (double coefficient : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1}) far = fma(far, t, number(x, coefficient));
  far = fma(far, t, b_.CreateFNeg(t));
  far = copy_sign(b_.CreateFSub(number(x, 1), exp(far)), x);
  Value* near =
      polynomial(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
  near = fma(near, x, x);
  return b_.CreateSelect(greater(t, 0.927734375), far, near);
}

Value* Functions::sine(Value* x, bool cosine) {
  auto [n, quadrant] = nearest(mul(x, 2 / std::numbers::pi));
  Value* r = fma(n, number(x, -1.5707963267948966), x);
  r = fma(n, number(x, -6.123233995736766e-17), r);
  Value* z = b_.CreateFMul(r, r);
  Value* s = polynomial(z, {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6});
  s = fma(b_.CreateFMul(s, z), r, r);
  Value* c = polynomial(z, {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1});
  if (cosine) quadrant = b_.CreateAdd(quadrant, integer(x, 1));
  Value* is_odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, integer(x, 1)), integer(x, 0));
  Value* is_negative = b_.CreateICmpNE(b_.CreateAnd(quadrant, integer(x, 2)), integer(x, 0));
  Value* magnitude = b_.CreateSelect(is_odd, c, s);
  return b_.CreateSelect(is_negative, b_.CreateFNeg(magnitude), magnitude);
}

// In f64, to the precision of f32: the argument is brought below tan(pi/16) by two additions of angles.
Value* Functions::atan(Value* x) {
  Value* t = absolute(x);
  Value* is_large = greater(t, 1);
  t = b_.CreateSelect(is_large, reciprocal(t), t);
  Value* is_middle = greater(t, 0.41421356237309503);
  t = b_.CreateSelect(is_middle, b_.CreateFDiv(add(t, -1), add(t, 1)), t);
  Value* z = b_.CreateFMul(t, t);
  Value* sum = polynomial(z, {1.0 / 25, -1.0 / 23, 1.0 / 21, -1.0 / 19, 1.0 / 17, -1.0 / 15, 1.0 / 13, -1.0 / 11,
                              1.0 / 9, -1.0 / 7, 1.0 / 5, -1.0 / 3});
  Value* angle = fma(b_.CreateFMul(sum, z), t, t);
  angle = b_.CreateSelect(is_middle, add(angle, std::numbers::pi / 4), angle);
  angle = b_.CreateSelect(is_large, b_.CreateFSub(number(x, std::numbers::pi / 2), angle), angle);
  return copy_sign(angle, x);
}

Value* Functions::atan2(Value* y, Value* x) {
  const double infinity = std::numeric_limits<double>::infinity();
  Value* both_infinite = b_.CreateAnd(b_.CreateFCmpOEQ(absolute(x), number(x, infinity)),
                                      b_.CreateFCmpOEQ(absolute(y), number(y, infinity)));
  Value* both_zero = b_.CreateAnd(b_.CreateFCmpOEQ(x, number(x, 0)), b_.CreateFCmpOEQ(y, number(y, 0)));
  Value* ratio = b_.CreateFDiv(absolute(y), absolute(x));
  ratio = b_.CreateSelect(both_infinite, number(x, 1), b_.CreateSelect(both_zero, number(x, 0), ratio));
  Value* angle = atan(ratio);
  Value* is_left = b_.CreateICmpSLT(bits(x), integer(x, 0));  // -0 is
  angle = b_.CreateSelect(is_left, b_.CreateFSub(number(x, std::numbers::pi), angle), angle);
  Value* is_nan = b_.CreateFCmpUNO(x, y);
  return b_.CreateSelect(is_nan, b_.CreateFAdd(x, y), copy_sign(angle, y));
}

// x^y in f64, x > 0: the logarithm as a sum of two doubles, since an error in it grows with y. `rough` where x is 0,
// denormal or infinite, or the result leaves the range.
Value* Functions::precise_power(Value* x, Value* y, Value* rough) {
  Value* root = bits(number(x, std::numbers::sqrt2 / 2));
  Value* exponent = b_.CreateAShr(b_.CreateSub(bits(x), root), integer(x, 52));
  Value* m = from_bits(b_.CreateSub(bits(x), b_.CreateShl(exponent, integer(x, 52))), x);
  Value* n = b_.CreateSIToFP(exponent, x->getType());
  // log m = 2 atanh(s), s = (m - 1) / (m + 1) with what the division and the sum round away.
  Value* difference = add(m, -1);
  Value* total = add(m, 1);
  Value* total_rest = b_.CreateFSub(m, add(total, -1));
  Value* s = b_.CreateFDiv(difference, total);
  Value* s_rest = b_.CreateFSub(fma(b_.CreateFNeg(s), total, difference), b_.CreateFMul(s, total_rest));
  s_rest = b_.CreateFDiv(s_rest, total);
  Value* z = b_.CreateFMul(s, s);
  Value* tail = polynomial(z, {2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9,
                               2.0 / 7, 2.0 / 5, 2.0 / 3});
  tail = b_.CreateFMul(b_.CreateFMul(tail, z), s);
  Value* whole = mul(n, 6.93145751953125e-1);  // exact
  Value* high = b_.CreateFAdd(whole, mul(s, 2));
  Value* before = b_.CreateFSub(high, whole);
  Value* low = b_.CreateFAdd(b_.CreateFSub(whole, b_.CreateFSub(high, before)), b_.CreateFSub(mul(s, 2), before));
  low = b_.CreateFAdd(low, fma(n, number(x, 1.42860682030941723212e-6), fma(s_rest, number(x, 2), tail)));
  Value* sum = b_.CreateFAdd(high, low);
  low = b_.CreateFSub(low, b_.CreateFSub(sum, high));
  high = sum;
  Value* product = b_.CreateFMul(y, high);
  Value* rest = fma(y, low, fma(y, high, b_.CreateFNeg(product)));
  Value* power = exp(product);
  power = fma(power, rest, power);
  Value* is_plain = b_.CreateAnd(less(absolute(product), 700), greater(x, 0x1p-1022));
  is_plain = b_.CreateAnd(is_plain, less(x, std::numeric_limits<double>::infinity()));
  return b_.CreateSelect(is_plain, power, rough);
}

Value* Functions::pow(Value* x, Value* y, bool for_f32) {
  const double infinity = std::numeric_limits<double>::infinity();
  Value* product = b_.CreateFMul(y, log(absolute(x)));
  Value* magnitude = for_f32 ? exp(product) : precise_power(absolute(x), y, exp(product));
  Value* whole = b_.CreateFCmpOEQ(call(llvm::Intrinsic::trunc, y), y);
  Value* half = mul(y, 0.5);
  Value* is_odd = b_.CreateAnd(whole, b_.CreateFCmpONE(call(llvm::Intrinsic::trunc, half), half));
  Value* is_negative = b_.CreateICmpSLT(bits(x), integer(x, 0));
  Value* result = b_.CreateSelect(b_.CreateAnd(is_negative, is_odd), b_.CreateFNeg(magnitude), magnitude);
  Value* undefined = b_.CreateAnd(b_.CreateAnd(less(x, 0), greater(x, -infinity)), b_.CreateNot(whole));
  undefined = b_.CreateAnd(undefined, b_.CreateFCmpONE(absolute(y), number(y, infinity)));
  result = b_.CreateSelect(undefined, number(x, std::numeric_limits<double>::quiet_NaN()), result);
  // 1 to any power and anything to the power 0 are 1; |x| = 1 to an infinite power too.
  Value* is_one = b_.CreateOr(b_.CreateFCmpOEQ(x, number(x, 1)), b_.CreateFCmpOEQ(y, number(y, 0)));
  is_one = b_.CreateOr(
      is_one, b_.CreateAnd(b_.CreateFCmpOEQ(x, number(x, -1)), b_.CreateFCmpOEQ(absolute(y), number(y, infinity))));
  return b_.CreateSelect(is_one, number(x, 1), result);
}

Value* Functions::evaluate(ScalarOp op, std::span<Value* const> operands) {
  Value* x = operands[0];
  switch (op) {
    case ScalarOp::exp:
      return exp(x);
    case ScalarOp::log:
      return log(x);
    case ScalarOp::tanh:
      return tanh(x);
    case ScalarOp::erf:
      return erf(x);
    case ScalarOp::sigmoid:
      return reciprocal(add(exp(b_.CreateFNeg(x)), 1));
    case ScalarOp::sqrt:
      return call(llvm::Intrinsic::sqrt, x);
    case ScalarOp::rsqrt:
      return reciprocal(call(llvm::Intrinsic::sqrt, x));
    case ScalarOp::abs:
      return absolute(x);
    case ScalarOp::floor:
      return call(llvm::Intrinsic::floor, x);
    case ScalarOp::ceil:
      return call(llvm::Intrinsic::ceil, x);
    case ScalarOp::trunc:
      return call(llvm::Intrinsic::trunc, x);
    case ScalarOp::round:
      return call(llvm::Intrinsic::roundeven, x);
    case ScalarOp::isnan:
      return b_.CreateFCmpUNO(x, x);
    case ScalarOp::pow:
      return is_double(x) ? pow(x, operands[1], false) : narrow(pow(widen(x), widen(operands[1]), true), x);
    case ScalarOp::exp2:
      return wide(x, [&](Value* v) { return exp2(v); });
    case ScalarOp::expm1:
      return wide(x, [&](Value* v) { return expm1(v); });
    case ScalarOp::log2:
      return wide(x, [&](Value* v) { return mul(log(v), std::numbers::log2e); });
    case ScalarOp::log10:
      return wide(x, [&](Value* v) { return mul(log(v), std::numbers::log10e); });
    case ScalarOp::log1p:
      return wide(x, [&](Value* v) { return log1p(v); });
    case ScalarOp::sinh:
      return wide(x, [&](Value* v) { return mul(b_.CreateFSub(expm1(v), expm1(b_.CreateFNeg(v))), 0.5); });
    case ScalarOp::cosh:
      return wide(x, [&](Value* v) { return mul(b_.CreateFAdd(exp(v), exp(b_.CreateFNeg(v))), 0.5); });
    case ScalarOp::atanh:
      return wide(x, [&](Value* v) {
        Value* t = absolute(v);
        Value* ratio = b_.CreateFDiv(mul(t, 2), b_.CreateFSub(number(v, 1), t));
        return copy_sign(mul(log1p(ratio), 0.5), v);
      });
    case ScalarOp::asinh:
      return wide(x, [&](Value* v) {
        Value* t = absolute(v);
        Value* root = call(llvm::Intrinsic::sqrt, add(b_.CreateFMul(t, t), 1));
        // sqrt(1 + t t) - 1, without cancellation where t is small.
        Value* rest = b_.CreateFDiv(b_.CreateFMul(t, t), add(root, 1));
        Value* y = b_.CreateFAdd(t, b_.CreateSelect(greater(t, 1), add(root, -1), rest));
        return copy_sign(log1p(y), v);
      });
    case ScalarOp::acosh:
      return wide(x, [&](Value* v) {
        Value* y = add(v, -1);
        return log1p(b_.CreateFAdd(y, call(llvm::Intrinsic::sqrt, b_.CreateFMul(y, add(v, 1)))));
      });
    default:
      break;
  }
  // The rest is for f32 only, by way of f64.
  if (is_double(x)) return nullptr;
  switch (op) {
    case ScalarOp::sin:
      return wide(x, [&](Value* v) { return sine(v, false); });
    case ScalarOp::cos:
      return wide(x, [&](Value* v) { return sine(v, true); });
    case ScalarOp::tan:
      return wide(x, [&](Value* v) { return b_.CreateFDiv(sine(v, false), sine(v, true)); });
    case ScalarOp::atan:
      return wide(x, [&](Value* v) { return atan(v); });
    case ScalarOp::atan2:
      return narrow(atan2(widen(x), widen(operands[1])), x);
    case ScalarOp::asin:
      return wide(x, [&](Value* v) {
        Value* cosine = call(llvm::Intrinsic::sqrt, b_.CreateFMul(b_.CreateFSub(number(v, 1), v), add(v, 1)));
        return atan2(v, cosine);
      });
    case ScalarOp::acos:
      return wide(x, [&](Value* v) {
        Value* sine = call(llvm::Intrinsic::sqrt, b_.CreateFMul(b_.CreateFSub(number(v, 1), v), add(v, 1)));
        return atan2(sine, v);
      });
    default:
      return nullptr;
  }
}

}  // namespace

llvm::Value* emit_function(llvm::IRBuilderBase& builder, ScalarOp op, std::span<Value* const> operands) {
  return Functions(builder).evaluate(op, operands);
}

int cost_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::constant:
    case ScalarOp::size:
    case ScalarOp::size_float:
    case ScalarOp::reduce:
      return 0;
    case ScalarOp::div:
    case ScalarOp::sqrt:
    case ScalarOp::rsqrt:
    case ScalarOp::floor_div:
    case ScalarOp::mod:
    case ScalarOp::trunc_div:
      return 8;
    case ScalarOp::pow:
      return 40;
    default:
      return op >= ScalarOp::exp && op <= ScalarOp::erfc ? 20 : 1;
  }
}

bool has_function(ScalarOp op, ScalarType dtype) {
  switch (op) {
    case ScalarOp::erfc:
    case ScalarOp::lgamma:
    case ScalarOp::digamma:
      return false;
    case ScalarOp::erf:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tan:
    case ScalarOp::atan:
    case ScalarOp::atan2:
    case ScalarOp::asin:
    case ScalarOp::acos:
      return dtype != ScalarType::f64;
    default:
      return true;
  }
}

}  // namespace atenon::lower
