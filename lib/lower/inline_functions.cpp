// Polynomials and reductions of arguments behind inline_functions.h.
//
// exp: Cody and Waite's reduction by ln 2, then a polynomial, scaled in two steps so that denormal results are right.
// log: mantissa in [sqrt(1/2), sqrt(2)), Cephes' polynomial (f32) or the series of atanh (f64).
// pow in f64: the logarithm as two doubles. erf: a power of 2 (f32), fdlibm's rational functions (f64).
// tanh: Cephes near 0, exp elsewhere. sin, cos: the argument times the bits of 2/pi that matter, as integers. atan:
// around one of fdlibm's five points. lgamma: Lanczos. digamma: the asymptotic series beyond 10.
#include "lower/inline_functions.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "support/coefficients.h"

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
  Value* is_below_zero(Value* x) { return b_.CreateICmpSLT(bits(x), integer(x, 0)); }  // -0 is
  Value* equals(Value* a, double b) { return b_.CreateFCmpOEQ(a, number(a, b)); }
  Value* less(Value* a, double b) { return b_.CreateFCmpOLT(a, number(a, b)); }
  Value* greater(Value* a, double b) { return b_.CreateFCmpOGT(a, number(a, b)); }
  Value* widen(Value* x) { return b_.CreateFPExt(x, b_.getDoubleTy()); }
  Value* narrow(Value* x, Value* like) { return b_.CreateFPTrunc(x, like->getType()); }
  Value* reciprocal(Value* x) { return b_.CreateFDiv(number(x, 1), x); }
  Value* infinity(Value* like) { return number(like, std::numeric_limits<double>::infinity()); }
  Value* nan(Value* like) { return number(like, std::numeric_limits<double>::quiet_NaN()); }
  Value* choose(Value* truth, Value* a, Value* b) { return b_.CreateSelect(truth, a, b); }
  Value* choose(Value* truth, double a, Value* b) { return b_.CreateSelect(truth, number(b, a), b); }
  // Horner's rule, highest coefficient first.
  Value* polynomial(Value* x, std::initializer_list<double> coefficients);
  // And with the constant term first.
  template <int n>
  Value* series(Value* x, const double (&coefficients)[n]) {
    Value* sum = number(x, coefficients[n - 1]);
    for (int i = n - 2; i >= 0; --i) sum = fma(sum, x, number(x, coefficients[i]));
    return sum;
  }
  // The nearest integer, as a float and as an integer; garbage but no trap for what is out of range.
  std::pair<Value*, Value*> nearest(Value* x);
  Value* scale(Value* x, Value* exponent);  // x * 2^exponent, |exponent| < 2 * 127 (1023)

  // exp(x + rest) * 2^power, where rest is below half a unit of x's last place; null is 0.
  Value* exp(Value* x, Value* rest = nullptr, int power = 0);
  Value* expm1_of_rest(Value* x, Value* n);
  Value* exp_series(Value* x);
  Value* exp2(Value* x);
  Value* exp2m1_of_rest(Value* r);
  Value* expm1(Value* x);
  // A positive normal number is m * 2^exponent, m in [sqrt(1/2), sqrt(2)).
  struct Logarithm {
    Value *exponent, *m;
  };
  Logarithm take_apart(Value* x);
  Logarithm take_lifted_apart(Value* x);
  Value* log_single(Value* n, Value* f);
  Value* log_double(Value* n, Value* m);
  Value* log_of_specials(Value* x, Value* result);
  Value* log(Value* x);
  Value* log2(Value* x);
  Value* log1p(Value* x);
  Value* tanh(Value* x);
  Value* sinh(Value* x);
  Value* cosh(Value* x);
  Value* asinh(Value* x);
  Value* acosh(Value* x);
  Value* erf(Value* x);
  Value* erf_of_double(Value* x, bool complement);
  struct Angle {
    Value* quadrant;         // an i64
    Value* remainder;        // f64, up to pi/4
    bool is_single = false;  // wanted to the precision of f32
  };
  Angle reduce_single(Value* x);
  Angle reduce_double(Value* x);
  Value* sine(const Angle& angle, bool cosine);
  Value* trigonometric(ScalarOp op, Value* x);
  Value* sine_of_pi_times(Value* x, bool cosine);
  Value* atan(Value* x);
  Value* atan2(Value* y, Value* x);
  Value* atan2_single(Value* y, Value* x);
  Value* arc_single(ScalarOp op, Value* x);
  Value* lgamma(Value* x);
  Value* digamma(Value* x);
  Value* pow(Value* x, Value* y, bool for_f32);
  Value* precise_power(Value* x, Value* y);
  Value* floored(ScalarOp op, Value* x, Value* n);
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

Value* Functions::exp(Value* x, Value* rest, int power) {
  // Beyond these bounds the result is 0 or infinity anyway; comparisons are ordered, so NaN passes. What is far below,
  // as masked scores are, is set to 0: to come there by denormal numbers takes twice as long.
  const double low = is_double(x) ? -747 : -104, high = is_double(x) ? 711 : 90;
  Value* is_zero = less(x, low);
  x = choose(is_zero, 0.0, x);
  x = choose(greater(x, high), high, x);
  auto [n, exponent] = nearest(mul(x, std::numbers::log2e));
  if (power != 0) exponent = b_.CreateAdd(exponent, integer(x, power));
  Value* e;
  if (is_double(x)) {
    Value* r = fma(n, number(x, -6.93145751953125e-1), x);
    r = fma(n, number(x, -1.42860682030941723212e-6), r);
    if (rest) r = b_.CreateFAdd(r, rest);
    e = exp_series(r);
  } else {
    e = add(expm1_of_rest(x, n), 1);
  }
  return choose(is_zero, 0.0, scale(e, exponent));
}

// In f32: exp(x - n ln 2) - 1, where n is the nearest to x / ln 2.
Value* Functions::expm1_of_rest(Value* x, Value* n) {
  Value* r = fma(n, number(x, -0.693359375), x);
  r = fma(n, number(x, 2.12194440e-4), r);
  Value* e = polynomial(
      r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  return fma(e, b_.CreateFMul(r, r), r);
}

// In f64, for |x| up to ln 2 / 2.
Value* Functions::exp_series(Value* x) {
  return polynomial(x, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                        1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1});
}

// The fraction is what is left of x, without rounding, so large exponents cost no precision.
Value* Functions::exp2(Value* x) {
  const double low = is_double(x) ? -1076 : -151, high = is_double(x) ? 1025 : 129;
  x = choose(less(x, low), low, x);
  x = choose(greater(x, high), high, x);
  auto [n, exponent] = nearest(x);
  Value* r = b_.CreateFSub(x, n);
  return scale(is_double(x) ? exp_series(mul(r, std::numbers::ln2)) : add(exp2m1_of_rest(r), 1), exponent);
}

// In f32: 2^r - 1, |r| <= 1/2. Relative error 1.1e-8.
Value* Functions::exp2m1_of_rest(Value* r) {
  Value* sum =
      polynomial(r, {1.54035122e-4, 1.33907353e-3, 9.61823761e-3, 5.55035733e-2, 2.40226492e-1, std::numbers::ln2});
  return b_.CreateFMul(sum, r);
}

// Where exp(x) is near 1 its last bits would be lost to the subtraction.
Value* Functions::expm1(Value* x) {
  if (!is_double(x)) {
    constexpr double low = -30, high = 89;  // beyond these it is -1 or infinity
    x = choose(less(x, low), low, x);
    x = choose(greater(x, high), high, x);
    auto [n, exponent] = nearest(mul(x, std::numbers::log2e));
    // 2^exponent (e - 1) + 2^exponent - 1 by halves, as 2^128 is none.
    Value* power = from_bits(b_.CreateShl(b_.CreateAdd(exponent, integer(x, 126)), integer(x, 23)), x);
    Value* y = mul(fma(expm1_of_rest(x, n), power, add(power, -0.5)), 2);
    return choose(less(absolute(x), 0x1p-24), x, y);  // denormal numbers have no halves, and -0 is its own
  }
  Value* exact = add(exp(x), -1);
  Value* series = b_.CreateFMul(
      x, polynomial(x, {1.0 / 355687428096000, 1.0 / 20922789888000, 1.0 / 1307674368000, 1.0 / 87178291200,
                        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                        1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1}));
  return choose(less(absolute(x), 0.6), series, exact);
}

Functions::Logarithm Functions::take_apart(Value* x) {
  const int mantissa = is_double(x) ? 52 : 23;
  Value* root = bits(number(x, std::numbers::sqrt2 / 2));
  Value* exponent = b_.CreateAShr(b_.CreateSub(bits(x), root), integer(x, mantissa));
  return {exponent, from_bits(b_.CreateSub(bits(x), b_.CreateShl(exponent, integer(x, mantissa))), x)};
}

// Also of those that are not normal; the exponent is a number of x's type.
Functions::Logarithm Functions::take_lifted_apart(Value* x) {
  const double smallest = is_double(x) ? 0x1p-1022 : 0x1p-126;
  const int lift = is_double(x) ? 54 : 25;
  Value* is_tiny = less(x, smallest);
  auto [exponent, m] = take_apart(choose(is_tiny, mul(x, std::ldexp(1.0, lift)), x));
  return {b_.CreateSIToFP(b_.CreateSub(exponent, choose(is_tiny, integer(x, lift), integer(x, 0))), x->getType()), m};
}

// log(2^n * (1 + f)) of f32, where 1 + f is in [sqrt(1/2), sqrt(2)).
Value* Functions::log_single(Value* n, Value* f) {
  Value* z = b_.CreateFMul(f, f);
  Value* tail = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                               -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  tail = b_.CreateFMul(b_.CreateFMul(tail, z), f);
  tail = fma(n, number(f, -2.12194440e-4), tail);
  tail = fma(z, number(f, -0.5), tail);
  return fma(n, number(f, 0.693359375), b_.CreateFAdd(f, tail));
}

// log(2^n * m) of f64: log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716.
Value* Functions::log_double(Value* n, Value* m) {
  Value* s = b_.CreateFDiv(add(m, -1), add(m, 1));
  Value* z = b_.CreateFMul(s, s);
  Value* tail = polynomial(
      z, {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3});
  Value* low = fma(n, number(m, 1.42860682030941723212e-6), fma(b_.CreateFMul(tail, z), s, mul(s, 2)));
  return b_.CreateFAdd(low, mul(n, 6.93145751953125e-1));
}

// `result` where x is a positive number, else what log(x) is there.
Value* Functions::log_of_specials(Value* x, Value* result) {
  const double infinity = std::numeric_limits<double>::infinity();
  result = choose(equals(x, infinity), x, result);
  result = choose(equals(x, 0), -infinity, result);
  // Negative numbers and NaN.
  return choose(b_.CreateFCmpUGE(x, number(x, 0)), choose(b_.CreateFCmpUNO(x, x), x, result),
                number(x, std::numeric_limits<double>::quiet_NaN()));
}

Value* Functions::log(Value* x) {
  auto [n, m] = take_lifted_apart(x);
  return log_of_specials(x, is_double(x) ? log_double(n, m) : log_single(n, add(m, -1)));
}

Value* Functions::log2(Value* x) {
  auto [n, m] = take_lifted_apart(x);  // of a power of two, m is 1 and the result exact: sizes are made of it
  Value* fraction = is_double(x) ? log_double(number(x, 0), m) : log_single(number(x, 0), add(m, -1));
  return log_of_specials(x, fma(fraction, number(x, std::numbers::log2e), n));
}

// What 1 + x rounds away is put back: in f64 by the ratio of x to what was left of it (Kahan), in f32 to the mantissa.
Value* Functions::log1p(Value* x) {
  Value* u = add(x, 1);
  Value* left = add(u, -1);
  if (is_double(x)) {
    Value* y = b_.CreateFMul(log(u), b_.CreateFDiv(x, left));
    y = choose(equals(left, 0), x, y);
    return choose(equals(x, std::numeric_limits<double>::infinity()), x, y);
  }
  auto [exponent, m] = take_apart(u);
  Value* lost = b_.CreateFAdd(b_.CreateFSub(number(x, 1), b_.CreateFSub(u, left)), b_.CreateFSub(x, left));
  // 2^-exponent; beyond 2^64 nothing that is lost matters.
  Value* bounded = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, exponent, integer(x, 64));
  Value* power = from_bits(b_.CreateSub(bits(number(x, 1)), b_.CreateShl(bounded, integer(x, 23))), x);
  Value* y = log_single(b_.CreateSIToFP(exponent, x->getType()), fma(lost, power, add(m, -1)));
  return choose(equals(left, 0), x, log_of_specials(u, y));
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
  return copy_sign(choose(less(t, 0.625), near, far), x);
}

// 1 - 2^a, where a, the logarithm of 1 - erf t, is t times a polynomial: fitted for the least relative error of erf,
// 4e-9, up to 3.92, beyond which erf is 1. What is small comes from the part of 2^a beside its whole power, so that
// nothing cancels.
Value* Functions::erf(Value* x) {
  Value* t = absolute(x);
  t = choose(greater(t, 3.92), 3.92, t);
  Value* a = polynomial(t, {1.3353967e-05, -1.69720472e-4, 9.12990596e-4, -2.40501226e-3, 2.31402606e-4, 2.76320297e-2,
                            -1.48277059e-1, -9.18447614e-1, -1.62790704});
  a = b_.CreateFMul(a, t);
  auto [n, exponent] = nearest(a);
  Value* r = b_.CreateFSub(a, n);
  Value* rest = exp2m1_of_rest(r);
  Value* power = from_bits(b_.CreateShl(b_.CreateAdd(exponent, integer(x, 127)), integer(x, 23)), x);
  return copy_sign(fma(b_.CreateFNeg(power), rest, b_.CreateFSub(number(x, 1), power)), x);
}

// In f64, of |x|, with fdlibm's four pieces. exp(-x^2) has what x^2 is rounded by as its rest.
Value* Functions::erf_of_double(Value* x, bool complement) {
  using namespace math::fdlibm;
  Value* t = absolute(x);
  Value* square = b_.CreateFMul(x, x);
  Value* near = b_.CreateFDiv(series(square, pp), series(square, qq));  // (erf x - x) / x
  Value* s = add(t, -1);
  Value* middle = b_.CreateFDiv(series(s, pa), series(s, qa));  // erf t - erx
  Value* inverse = reciprocal(square);
  Value* is_far = greater(t, 1 / 0.35);
  Value* top = choose(is_far, series(inverse, rb), series(inverse, ra));
  Value* bottom = choose(is_far, series(inverse, sb), series(inverse, sa));
  Value* minus = b_.CreateFNeg(square);
  Value* tail = exp(minus, fma(b_.CreateFNeg(x), x, square));
  tail = b_.CreateFDiv(b_.CreateFMul(tail, exp(add(b_.CreateFDiv(top, bottom), -0.5625))), t);
  tail = choose(greater(t, 28), 0.0, tail);  // erfc t
  Value* is_near = less(t, 0.84375);
  Value* is_middle = less(t, 1.25);
  Value* is_nan = b_.CreateFCmpUNO(x, x);
  if (!complement) {
    Value* value = choose(is_middle, add(middle, erx), b_.CreateFSub(number(x, 1), tail));
    value = choose(is_near, fma(t, near, t), value);
    return choose(is_nan, x, copy_sign(value, x));
  }
  Value* is_negative = less(x, 0);
  Value* right = choose(is_middle, b_.CreateFSub(number(x, 1 - erx), middle), tail);
  Value* left = choose(is_middle, add(middle, 1 + erx), b_.CreateFSub(number(x, 2), tail));
  // 1 - erf x, from 1/4 on as 1/2 - (x - 1/2 + x near), which keeps the bits of what is subtracted.
  Value* half = b_.CreateFSub(number(x, 0.5), b_.CreateFAdd(add(x, -0.5), b_.CreateFMul(x, near)));
  Value* centre = choose(less(x, 0.25), b_.CreateFSub(number(x, 1), fma(x, near, x)), half);
  return choose(is_nan, x, choose(is_near, centre, choose(is_negative, left, right)));
}

// |x| in quarters of a turn, of f32 in f64. What is large is brought below 2^50: it is a times a power of two, and that
// power less its whole turns is known as a pair of doubles, whose product with a is exact enough.
Functions::Angle Functions::reduce_single(Value* x) {
  struct Power {
    double from, scale;      // |x| from here on, times this, is a
    double turn, turn_rest;  // 1 / scale modulo 2 pi
  };
  constexpr Power powers[] = {
      {0x1p50, 0x1p-27, -0.868565626261989, -9.019323986564577e-18},
      {0x1p77, 0x1p-54, 2.0278995540254936, -2.337085380988763e-17},
      {0x1p104, 0x1p-81, -2.0638772974200656, 6.455098825958123e-17},
  };
  Value* magnitude = widen(absolute(x));
  Value *scale = number(magnitude, 1), *turn = number(magnitude, 1), *rest = number(magnitude, 0);
  for (const Power& power : powers) {
    Value* is_beyond = b_.CreateFCmpOGE(magnitude, number(magnitude, power.from));
    scale = choose(is_beyond, power.scale, scale);
    turn = choose(is_beyond, power.turn, turn);
    rest = choose(is_beyond, power.turn_rest, rest);
  }
  Value* a = b_.CreateFMul(magnitude, scale);
  Value* product = b_.CreateFMul(a, turn);
  Value* product_rest = fma(a, rest, fma(a, turn, b_.CreateFNeg(product)));
  auto [n, quadrant] = nearest(mul(product, 2 / std::numbers::pi));
  Value* r = fma(n, number(a, -1.5707963267948966), product);
  r = b_.CreateFAdd(fma(n, number(a, -6.123233995736766e-17), r), product_rest);
  return {quadrant, r, true};
}

// |x| in quarters of a turn, of f64: the product of its mantissa and those bits of 2/pi that matter modulo 4, as
// integers (Payne and Hanek). Hence as exact for the largest argument as for a small one.
Functions::Angle Functions::reduce_double(Value* x) {
  constexpr int table_bytes = sizeof math::two_over_pi;
  llvm::Type *word = b_.getInt64Ty(), *twice = b_.getInt128Ty();
  llvm::Module& module = *b_.GetInsertBlock()->getModule();
  llvm::GlobalVariable* table = module.getNamedGlobal("two_over_pi");
  if (!table) {
    auto* bytes = llvm::ConstantDataArray::get(b_.getContext(), llvm::ArrayRef<uint8_t>(math::two_over_pi));
    table = new llvm::GlobalVariable(module, bytes->getType(), true, llvm::GlobalValue::InternalLinkage, bytes,
                                     "two_over_pi");
  }
  Value* magnitude = absolute(x);
  Value* whole = bits(magnitude);
  // magnitude = mantissa * 2^exponent; the first bit of 2/pi of interest is a byte's, for which the mantissa is
  // shifted.
  Value* exponent = b_.CreateSub(b_.CreateLShr(whole, integer(x, 52)), integer(x, 1075 + 2));
  Value* shift = b_.CreateAnd(exponent, integer(x, 7));
  Value* mantissa = b_.CreateAnd(whole, integer(x, (int64_t{1} << 52) - 1));
  mantissa = b_.CreateShl(b_.CreateOr(mantissa, integer(x, int64_t{1} << 52)), shift);
  mantissa = b_.CreateZExt(mantissa, twice);
  Value* first = b_.CreateAdd(b_.CreateAShr(b_.CreateSub(exponent, shift), integer(x, 3)), integer(x, 8));
  first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, first, integer(x, 0));
  const auto product = [&](int n) {
    Value* place = b_.CreateSub(integer(x, table_bytes - (n + 1) * 8), first);
    Value* pointer = b_.CreateGEP(b_.getInt8Ty(), table, place);
    return b_.CreateMul(mantissa, b_.CreateZExt(b_.CreateAlignedLoad(word, pointer, llvm::Align(1)), twice));
  };
  Value* turns = b_.CreateShl(product(0), 64);
  turns = b_.CreateAdd(turns, b_.CreateAdd(product(1), b_.CreateLShr(product(2), 64)));
  Value* top = b_.CreateTrunc(b_.CreateLShr(turns, 64), word);
  Value* quadrant = b_.CreateLShr(b_.CreateAdd(top, integer(x, int64_t{1} << 61)), 62);
  Value* fraction = b_.CreateSIToFP(b_.CreateSub(top, b_.CreateShl(quadrant, 62)), x->getType());
  Value* rest = b_.CreateUIToFP(b_.CreateTrunc(turns, word), x->getType());
  fraction = fma(rest, number(x, 0x1p-126), mul(fraction, 0x1p-62));
  // What is small is its own remainder, to all its bits; of infinity and NaN there is none.
  Value* is_small = less(magnitude, std::numbers::pi / 4);
  Value* is_finite = less(magnitude, std::numeric_limits<double>::infinity());
  Value* remainder = choose(is_small, magnitude, mul(fraction, std::numbers::pi / 2));
  return {choose(is_small, integer(x, 0), quadrant), choose(is_finite, remainder, nan(remainder))};
}

Value* Functions::sine(const Angle& angle, bool cosine) {
  Value* r = angle.remainder;
  Value* z = b_.CreateFMul(r, r);
  Value* s = angle.is_single ? polynomial(z, {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6})
                             : polynomial(z, {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800,
                                              -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6});
  Value* c = angle.is_single
                 ? polynomial(z, {1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1})
                 : polynomial(z, {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                  1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1});
  s = fma(b_.CreateFMul(s, z), r, r);
  Value* quadrant = cosine ? b_.CreateAdd(angle.quadrant, b_.getInt64(1)) : angle.quadrant;
  Value* is_odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, b_.getInt64(1)), b_.getInt64(0));
  Value* is_negative = b_.CreateICmpNE(b_.CreateAnd(quadrant, b_.getInt64(2)), b_.getInt64(0));
  Value* magnitude = choose(is_odd, c, s);
  return choose(is_negative, b_.CreateFNeg(magnitude), magnitude);
}

Value* Functions::trigonometric(ScalarOp op, Value* x) {
  const Angle angle = is_double(x) ? reduce_double(x) : reduce_single(x);
  Value* value = op == ScalarOp::cos   ? sine(angle, true)
                 : op == ScalarOp::sin ? sine(angle, false)
                                       : b_.CreateFDiv(sine(angle, false), sine(angle, true));
  if (!is_double(x)) value = narrow(value, x);
  if (op == ScalarOp::cos) return value;
  return choose(is_below_zero(x), b_.CreateFNeg(value), value);  // odd functions
}

// In f64: x is exact in half turns.
Value* Functions::sine_of_pi_times(Value* x, bool cosine) {
  Value* halves = call(llvm::Intrinsic::roundeven, mul(x, 2));
  Value* rest = mul(fma(halves, number(x, -0.5), x), std::numbers::pi);
  Value* quarter = b_.CreateFSub(halves, mul(call(llvm::Intrinsic::floor, mul(halves, 0.25)), 4));
  return sine({b_.CreateFPToSI(quarter, b_.getInt64Ty()), rest}, cosine);
}

// In f64.
Value* Functions::atan(Value* x) {
  using namespace math::fdlibm;
  constexpr double points[] = {0, 0.5, 1, 1.5};
  Value* t = absolute(x);
  Value *above = t, *below = number(x, 1);
  Value *angle = number(x, 0), *rest = number(x, 0);
  const double bounds[] = {0, 0.4375, 0.6875, 1.1875, 2.4375};
  for (int i = 1; i < 5; ++i) {
    Value* is_beyond = b_.CreateFCmpOGE(t, number(x, bounds[i]));
    above = choose(is_beyond, i < 4 ? add(t, -points[i % 4]) : number(x, -1), above);
    below = choose(is_beyond, i < 4 ? fma(t, number(x, points[i % 4]), number(x, 1)) : t, below);
    angle = choose(is_beyond, atan_at[i], angle);
    rest = choose(is_beyond, atan_at_rest[i], rest);
  }
  Value* r = b_.CreateFDiv(above, below);
  Value* z = b_.CreateFMul(r, r);
  Value* correction = b_.CreateFSub(b_.CreateFMul(b_.CreateFMul(r, z), series(z, atan_odd)), rest);
  return copy_sign(b_.CreateFSub(angle, b_.CreateFSub(correction, r)), x);
}

Value* Functions::atan2(Value* y, Value* x) {
  const double infinite = std::numeric_limits<double>::infinity();
  Value* both_infinite = b_.CreateAnd(equals(absolute(x), infinite), equals(absolute(y), infinite));
  Value* both_zero = b_.CreateAnd(equals(x, 0), equals(y, 0));
  Value* ratio = b_.CreateFDiv(absolute(y), absolute(x));
  ratio = choose(both_infinite, 1, choose(both_zero, 0.0, ratio));
  Value* angle = atan(ratio);
  Value* turned = b_.CreateFSub(number(x, std::numbers::pi), add(angle, -2 * math::fdlibm::atan_at_rest[4]));
  angle = choose(is_below_zero(x), turned, angle);
  return choose(b_.CreateFCmpUNO(x, y), b_.CreateFAdd(x, y), copy_sign(angle, y));
}

// Of f32. The smaller one by the larger one is an angle up to pi/4, whose tangent the series is fitted to, within 3e-9.
Value* Functions::atan2_single(Value* y, Value* x) {
  Value *height = absolute(y), *width = absolute(x), *is_steep = b_.CreateFCmpOGT(height, width);
  Value *above = choose(is_steep, width, height), *below = choose(is_steep, height, width);
  Value* ratio = choose(equals(below, 0), 0.0, b_.CreateFDiv(above, below));
  ratio = choose(b_.CreateFCmpOEQ(above, infinity(x)), 1, ratio);
  Value* z = b_.CreateFMul(ratio, ratio);
  Value* tail = polynomial(z, {-0.00179362031, 0.0109145996, -0.0311778345, 0.0579575823, -0.0840344968, 0.109521856,
                               -0.142642416, 0.199985483, -0.333332991});
  Value* angle = fma(b_.CreateFMul(ratio, z), tail, ratio);
  angle = choose(is_steep, b_.CreateFSub(number(x, std::numbers::pi / 2), angle), angle);
  angle = choose(is_below_zero(x), b_.CreateFSub(number(x, std::numbers::pi), angle), angle);
  return choose(b_.CreateFCmpUNO(x, y), b_.CreateFAdd(x, y), copy_sign(angle, y));
}

// asin or acos of f32. Beyond 1/2 it is that of sqrt((1 - |x|) / 2), whose square is exact. The series is fitted to
// asin(s) / s = 1 + s^2 P(s^2) for s up to 1/2, within 5e-9.
Value* Functions::arc_single(ScalarOp op, Value* x) {
  Value* t = absolute(x);
  Value* is_far = greater(t, 0.5);
  Value* square = choose(is_far, mul(b_.CreateFSub(number(x, 1), t), 0.5), b_.CreateFMul(t, t));
  Value* s = choose(is_far, call(llvm::Intrinsic::sqrt, square), t);
  Value* tail = series(square, {0.166667539, 0.0749524177, 0.045477098, 0.0241476071, 0.0422185545});
  Value* angle = fma(b_.CreateFMul(s, square), tail, s);
  Value *quarter = number(x, std::numbers::pi / 2), *doubled = mul(angle, 2);
  if (op == ScalarOp::asin) return copy_sign(choose(is_far, b_.CreateFSub(quarter, doubled), angle), x);
  Value* far = choose(less(x, 0), b_.CreateFSub(number(x, std::numbers::pi), doubled), doubled);
  return choose(is_far, far, b_.CreateFSub(quarter, copy_sign(angle, x)));
}

// In f64. What is below 1/2 is mirrored.
Value* Functions::lgamma(Value* x) {
  Value* is_mirrored = less(x, 0.5);
  Value* y = choose(is_mirrored, b_.CreateFNeg(x), add(x, -1));
  // The sum as one quotient, whose parts stay in range; from 1e30 on it is its first term.
  Value *above = number(x, math::lanczos_first), *below = number(x, 1), *bounded = choose(greater(y, 1e30), 1e30, y);
  for (int i = 0; i < 8; ++i) {
    Value* next = add(bounded, i + 1);
    above = fma(above, next, mul(below, math::lanczos[i]));
    below = b_.CreateFMul(below, next);
  }
  Value* sum = b_.CreateFDiv(above, below);
  Value* t = add(y, 7.5);
  Value* value = add(fma(add(y, 0.5), log(t), b_.CreateFNeg(t)), 0.91893853320467274178);
  // value + log(sum), or log(pi / |sin(pi x)|) less that; near 0 gamma is 1 / x.
  Value* is_tiny = less(absolute(x), 0x1p-60);
  Value* factor = choose(is_mirrored, b_.CreateFMul(sum, absolute(sine_of_pi_times(x, false))), sum);
  Value* rest = log(choose(is_tiny, absolute(x), factor));
  Value* mirrored = b_.CreateFSub(b_.CreateFSub(number(x, 1.1447298858494001741), rest), value);
  value = choose(is_tiny, b_.CreateFNeg(rest), choose(is_mirrored, mirrored, b_.CreateFAdd(value, rest)));
  value = choose(b_.CreateOr(equals(x, 1), equals(x, 2)), 0.0, value);
  Value* is_pole =
      b_.CreateAnd(b_.CreateFCmpOEQ(x, call(llvm::Intrinsic::floor, x)), b_.CreateFCmpOLE(x, number(x, 0)));
  Value* is_infinite = b_.CreateFCmpOEQ(absolute(x), infinity(x));
  return choose(b_.CreateOr(is_pole, is_infinite), infinity(x), value);
}

// In f64. What is below 0 is mirrored, what is below 10 found by ten steps of the recurrence.
Value* Functions::digamma(Value* x) {
  Value* is_mirrored = less(x, 0);
  Value* y = choose(is_mirrored, b_.CreateFSub(number(x, 1), x), x);
  // The sum of 1 / (y + i), i = 0..9, as one quotient.
  Value *above = number(x, 1), *below = y;
  for (int i = 1; i < 10; ++i) {
    Value* next = add(y, i);
    above = fma(above, next, below);
    below = b_.CreateFMul(below, next);
  }
  Value* is_small = less(y, 10);
  Value* steps = choose(is_small, b_.CreateFDiv(above, below), number(x, 0));
  Value* large = choose(is_small, add(y, 10), y);
  Value* inverse = reciprocal(large);
  Value* z = b_.CreateFMul(inverse, inverse);
  Value* value = b_.CreateFSub(log(large), fma(z, series(z, math::digamma_series), mul(inverse, 0.5)));
  value = b_.CreateFSub(value, steps);
  Value* cotangent = b_.CreateFDiv(sine_of_pi_times(x, true), sine_of_pi_times(x, false));
  value = choose(is_mirrored, b_.CreateFSub(value, mul(cotangent, std::numbers::pi)), value);
  Value* is_whole = b_.CreateFCmpOEQ(x, call(llvm::Intrinsic::floor, x));
  value = choose(b_.CreateAnd(is_mirrored, is_whole), nan(x), value);
  value = choose(equals(x, 0), copy_sign(infinity(x), b_.CreateFNeg(x)), value);
  return choose(b_.CreateFCmpOEQ(x, infinity(x)), x, value);
}

// x^y in f64, x > 0: the logarithm as a sum of two doubles, since an error in it grows with y. Not for 0 and infinity.
Value* Functions::precise_power(Value* x, Value* y) {
  auto [n, m] = take_lifted_apart(x);
  // log m = 2 atanh(s), s = (m - 1) / (m + 1) with what the division and the sum round away.
  Value* difference = add(m, -1);
  Value* total = add(m, 1);
  Value* total_rest = b_.CreateFSub(m, add(total, -1));
  Value* s = b_.CreateFDiv(difference, total);
  Value* s_rest = b_.CreateFSub(fma(b_.CreateFNeg(s), total, difference), b_.CreateFMul(s, total_rest));
  s_rest = b_.CreateFDiv(s_rest, total);
  // Its first term is 2 s; 2/3 s^3 is a pair, too, since it is up to a hundredth of that; the others follow.
  const auto product_rest = [&](Value* a, Value* b, Value* product) { return fma(a, b, b_.CreateFNeg(product)); };
  Value* z = b_.CreateFMul(s, s);
  Value* z_rest = fma(mul(s, 2), s_rest, product_rest(s, s, z));
  Value* cube = b_.CreateFMul(z, s);
  Value* cube_rest = fma(z, s_rest, fma(z_rest, s, product_rest(z, s, cube)));
  Value* third = mul(cube, 2.0 / 3);
  Value* third_rest = fma(cube_rest, number(x, 2.0 / 3), product_rest(cube, number(x, 2.0 / 3), third));
  third_rest = fma(cube, number(x, 3.700743415417188e-17), third_rest);  // 2/3 - its double
  Value* tail = polynomial(
      z, {2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5});
  tail = fma(b_.CreateFMul(tail, z), cube, third_rest);
  tail = fma(n, number(x, 1.42860682030941723212e-6), fma(s_rest, number(x, 2), tail));
  const auto sum_rest = [&](Value* a, Value* b, Value* sum) {  // Knuth's
    Value* part = b_.CreateFSub(sum, a);
    return b_.CreateFAdd(b_.CreateFSub(a, b_.CreateFSub(sum, part)), b_.CreateFSub(b, part));
  };
  Value* whole = mul(n, 6.93145751953125e-1);  // exact
  Value* first = b_.CreateFAdd(whole, mul(s, 2));
  Value* high = b_.CreateFAdd(first, third);
  Value* low = b_.CreateFAdd(sum_rest(whole, mul(s, 2), first), sum_rest(first, third, high));
  low = b_.CreateFAdd(low, tail);
  Value* sum = b_.CreateFAdd(high, low);
  low = b_.CreateFSub(low, b_.CreateFSub(sum, high));
  Value* product = b_.CreateFMul(y, sum);
  Value* rest = fma(y, low, fma(y, sum, b_.CreateFNeg(product)));
  return exp(product, choose(less(absolute(product), 800), rest, number(x, 0)));
}

Value* Functions::pow(Value* x, Value* y, bool for_f32) {
  const double infinite = std::numeric_limits<double>::infinity();
  Value* t = absolute(x);
  Value* magnitude = exp(b_.CreateFMul(y, log(t)));
  if (!for_f32) {
    Value* is_plain = b_.CreateAnd(greater(t, 0), less(t, infinite));
    magnitude = choose(is_plain, precise_power(t, y), magnitude);
  }
  Value* whole = b_.CreateFCmpOEQ(call(llvm::Intrinsic::trunc, y), y);
  Value* half = mul(y, 0.5);
  Value* is_odd = b_.CreateAnd(whole, b_.CreateFCmpONE(call(llvm::Intrinsic::trunc, half), half));
  Value* is_negative = b_.CreateICmpSLT(bits(x), integer(x, 0));
  Value* result = choose(b_.CreateAnd(is_negative, is_odd), b_.CreateFNeg(magnitude), magnitude);
  Value* undefined = b_.CreateAnd(b_.CreateAnd(less(x, 0), greater(x, -infinite)), b_.CreateNot(whole));
  undefined = b_.CreateAnd(undefined, b_.CreateFCmpONE(absolute(y), number(y, infinite)));
  result = choose(undefined, nan(x), result);
  // 1 to any power and anything to the power 0 are 1; |x| = 1 to an infinite power too.
  Value* is_one = b_.CreateOr(equals(x, 1), equals(y, 0));
  is_one = b_.CreateOr(is_one, b_.CreateAnd(equals(x, -1), equals(absolute(y), infinite)));
  return choose(is_one, 1, result);
}

// Half of exp stays in range where exp itself would not.
Value* Functions::sinh(Value* x) {
  Value* t = absolute(x);
  Value* small;
  if (is_double(x)) {
    Value* e = expm1(choose(greater(t, 1), 1, t));
    small = mul(b_.CreateFAdd(e, b_.CreateFDiv(e, add(e, 1))), 0.5);
  } else {
    Value* square = b_.CreateFMul(t, t);
    small = fma(b_.CreateFMul(polynomial(square, {1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6}), square), t, t);
  }
  Value* half = exp(t, nullptr, -1);
  Value* large = b_.CreateFSub(half, b_.CreateFDiv(number(x, 0.25), half));
  return copy_sign(choose(less(t, 1), small, large), x);
}

Value* Functions::cosh(Value* x) {
  Value* half = exp(absolute(x), nullptr, -1);
  return b_.CreateFAdd(half, b_.CreateFDiv(number(x, 0.25), half));
}

// In f64. The square of what is large would leave the range: there it is log 2x.
Value* Functions::asinh(Value* x) {
  Value* t = absolute(x);
  Value* is_large = greater(t, 0x1p500);
  Value* root = call(llvm::Intrinsic::sqrt, add(b_.CreateFMul(t, t), 1));
  // sqrt(1 + t t) - 1, without cancellation where t is small.
  Value* rest = b_.CreateFDiv(b_.CreateFMul(t, t), add(root, 1));
  Value* y = b_.CreateFAdd(t, choose(greater(t, 1), add(root, -1), rest));
  Value* value = log1p(choose(is_large, t, y));
  return copy_sign(choose(is_large, add(value, std::numbers::ln2), value), x);
}

Value* Functions::acosh(Value* x) {
  Value* is_large = greater(x, 0x1p500);
  Value* t = add(x, -1);
  Value* y = b_.CreateFAdd(t, call(llvm::Intrinsic::sqrt, b_.CreateFMul(t, add(x, 1))));
  Value* value = log1p(choose(is_large, x, y));
  value = choose(is_large, add(value, std::numbers::ln2), value);
  return choose(less(x, 1), nan(x), value);
}

// x // n and x % n of Python, as PyTorch computes them: from the rest of truncating division, which is exact.
//
// A round subtracts the nearest quotient that there is of a number times n, without rounding, so it takes 53 bits off
// the quotient; three serve all below 2^150. What is left may have n's sign or the other one, whatever x's was.
Value* Functions::floored(ScalarOp op, Value* x, Value* n) {
  Value* rest = x;
  for (int round = 0; round < 3; ++round) {
    Value* quotient = call(llvm::Intrinsic::trunc, b_.CreateFDiv(rest, n));
    Value* is_done = b_.CreateFCmpOLT(absolute(rest), absolute(n));  // an infinite n times 0 would be NaN
    rest = choose(is_done, rest, fma(b_.CreateFNeg(quotient), n, rest));
  }
  Value* is_apart = b_.CreateAnd(b_.CreateFCmpONE(rest, number(x, 0)), b_.CreateXor(less(rest, 0), less(n, 0)));
  if (op == ScalarOp::mod) return choose(is_apart, b_.CreateFAdd(rest, n), rest);
  Value* whole = call(llvm::Intrinsic::roundeven, b_.CreateFDiv(b_.CreateFSub(x, rest), n));
  whole = choose(is_apart, add(whole, -1), whole);
  return choose(equals(n, 0), b_.CreateFDiv(x, n), whole);
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
      return is_double(x) ? erf_of_double(x, false) : erf(x);
    case ScalarOp::sigmoid: {
      // 1 / (1 + exp(-x)), by exp(x) where exp(-x) might overflow.
      Value* e = exp(b_.CreateFNeg(absolute(x)));
      return b_.CreateFDiv(choose(less(x, 0), e, number(x, 1)), add(e, 1));
    }
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
      return exp2(x);
    case ScalarOp::expm1:
      return expm1(x);
    case ScalarOp::log2:
      return log2(x);
    case ScalarOp::log10:
      return wide(x, [&](Value* v) { return mul(log(v), std::numbers::log10e); });
    case ScalarOp::log1p:
      return log1p(x);
    case ScalarOp::sinh:
      return sinh(x);
    case ScalarOp::cosh:
      return cosh(x);
    case ScalarOp::atanh:
      return wide(x, [&](Value* v) {
        Value* t = absolute(v);
        Value* ratio = b_.CreateFDiv(mul(t, 2), b_.CreateFSub(number(v, 1), t));
        return copy_sign(mul(log1p(ratio), 0.5), v);
      });
    case ScalarOp::asinh:
      return wide(x, [&](Value* v) { return asinh(v); });
    case ScalarOp::acosh:
      return wide(x, [&](Value* v) { return acosh(v); });
    case ScalarOp::erfc:
      return wide(x, [&](Value* v) { return erf_of_double(v, true); });
    case ScalarOp::lgamma:
      return wide(x, [&](Value* v) { return lgamma(v); });
    case ScalarOp::digamma:
      return wide(x, [&](Value* v) { return digamma(v); });
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tan:
      return trigonometric(op, x);
    case ScalarOp::atan:
      return is_double(x) ? atan(x) : atan2_single(x, number(x, 1));
    case ScalarOp::atan2:
      return is_double(x) ? atan2(x, operands[1]) : atan2_single(x, operands[1]);
    case ScalarOp::floor_div:
    case ScalarOp::mod:
      return is_double(x) ? floored(op, x, operands[1]) : narrow(floored(op, widen(x), widen(operands[1])), x);
    case ScalarOp::asin:
    case ScalarOp::acos:
      if (is_double(x)) {
        Value* other = call(llvm::Intrinsic::sqrt, b_.CreateFMul(b_.CreateFSub(number(x, 1), x), add(x, 1)));
        return op == ScalarOp::asin ? atan2(x, other) : atan2(other, x);
      }
      return arc_single(op, x);
    default:
      return nullptr;
  }
}

}  // namespace

llvm::Value* emit_function(llvm::IRBuilderBase& builder, ScalarOp op, std::span<Value* const> operands) {
  return Functions(builder).evaluate(op, operands);
}

}  // namespace atenon::lower
