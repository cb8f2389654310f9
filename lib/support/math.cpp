// Range reduction and polynomials, each named where it comes from.
#include "support/math.h"

#include <bit>
#include <cmath>  // sqrt, floor, ldexp, fabs: exact, hence the same everywhere
#include <cstdint>
#include <limits>

#include "support/coefficients.h"
#include "support/exponential.h"

namespace atenon::math {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double pi = 3.141592653589793116;
constexpr double half_pi = 1.570796326794896558;
// pi/2 in parts with trailing zeros, so that multiples of the first parts are exact (Cody and Waite).
constexpr double half_pi_1 = 1.57079632673412561417e+00;
constexpr double half_pi_2 = 6.07710050630396597660e-11;
constexpr double half_pi_3 = 2.02226624879595063154e-21;

template <int n>
double polynomial(double x, const double (&coefficients)[n]) {  // the constant term comes first
  double sum = coefficients[n - 1];
  for (int i = n - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

// 2^k times m, for k that may leave the exponent's range by the size of the mantissa.
double scale(double m, int k) {
  if (k > -1000 && k < 1000) return m * std::bit_cast<double>(static_cast<uint64_t>(1023 + k) << 52);
  return std::ldexp(m, k);
}

// sin and cos on |r| <= pi/4 (Taylor; remainders below 2^-57).
double sin_small(double r) {
  static constexpr double taylor[] = {-1.0 / 6,
                                      1.0 / 120,
                                      -1.0 / 5040,
                                      1.0 / 362880,
                                      -1.0 / 39916800,
                                      1.0 / 6227020800.0,
                                      -1.0 / 1307674368000.0,
                                      1.0 / 355687428096000.0};
  const double z = r * r;
  return r + r * z * polynomial(z, taylor);
}

double cos_small(double r) {
  static constexpr double taylor[] = {-0.5,           1.0 / 24,        -1.0 / 720,           1.0 / 40320,
                                      -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
  const double z = r * r;
  return 1 + z * polynomial(z, taylor);
}

// x = quadrant * pi/2 + remainder, |remainder| <= pi/4.
struct Reduced {
  double remainder;
  int quadrant;
};

// By the product of x's mantissa and those bits of 2/pi whose products matter modulo 4 (Payne and Hanek): exact to the
// last bits of the remainder for every x >= 1.
Reduced reduce_large(double x) {
  __extension__ using Wide = unsigned __int128;
  const uint64_t bits = std::bit_cast<uint64_t>(std::fabs(x));
  const int exponent = static_cast<int>(bits >> 52) - 1075;  // x = mantissa * 2^exponent
  const int shift = (exponent - 2) & 7, first = (exponent - 2 - shift) / 8 + 8;
  const uint64_t mantissa = ((bits & 0xfffffffffffffu) | 0x10000000000000u) << shift;
  const auto word = [&](int n) {  // the n-th 64 bits of 2/pi from there on
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | two_over_pi[sizeof two_over_pi - 1 - (first + 8 * n + i)];
    return value;
  };
  const Wide turns = (static_cast<Wide>(mantissa * word(0)) << 64) + static_cast<Wide>(mantissa) * word(1) +
                     (static_cast<Wide>(mantissa) * word(2) >> 64);  // quarters of a turn, times 2^126
  const auto quadrant = static_cast<int>((turns + (Wide{1} << 125)) >> 126);
  const Wide rest = turns - (static_cast<Wide>(quadrant) << 126);
  const double fraction = static_cast<double>(static_cast<int64_t>(rest >> 64)) * 0x1p-62 +
                          static_cast<double>(static_cast<uint64_t>(rest)) * 0x1p-126;
  return x < 0 ? Reduced{-fraction * half_pi, -quadrant & 3} : Reduced{fraction * half_pi, quadrant & 3};
}

// Three parts of pi/2 hold while k times the first two is exact.
Reduced reduce(double x) {
  if (std::fabs(x) > 1e6) return reduce_large(x);
  const double k = std::floor(x / half_pi + 0.5);
  const double r = ((x - k * half_pi_1) - k * half_pi_2) - k * half_pi_3;
  return {r, static_cast<int>(static_cast<int64_t>(k) & 3)};
}

// 2 * atanh(s) / s - 2 as a polynomial of s^2, |s| <= 0.1716.
double two_atanh_rest(double z) {
  static constexpr double taylor[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                      2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  return z * polynomial(z, taylor);
}

// erfc(x) for x >= 0.84375.
double erfc_tail(double x) {
  if (x < 1.25) {
    const double s = x - 1;
    return 1 - fdlibm::erx - polynomial(s, fdlibm::pa) / polynomial(s, fdlibm::qa);
  }
  if (x > 28) return 0;
  const double s = 1 / (x * x);
  const double ratio = x < 1 / 0.35 ? polynomial(s, fdlibm::ra) / polynomial(s, fdlibm::sa)
                                    : polynomial(s, fdlibm::rb) / polynomial(s, fdlibm::sb);
  // exp(-x^2) in two factors: z is x with half of its bits, so z*z is exact.
  const double z = std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0xffffffff00000000u);
  return exp(-z * z - 0.5625) * exp((z - x) * (z + x) + ratio) / x;
}

}  // namespace

double exp(double x) {
  if (x != x) return x;
  if (x > 709.79) return infinity;
  if (x < -745.2) return 0;
  if (std::fabs(x) < exp_limit) return exp_in_range(x);
  const double k = std::floor(x / log_of_2 + 0.5);
  const double r = (x - k * log2_high) - k * log2_low;
  return scale(1 + expm1_small(r), static_cast<int>(k));
}

double exp2(double x) {
  if (x != x) return x;
  if (x >= 1024) return infinity;
  if (x < -1076) return 0;
  const double k = std::floor(x + 0.5);
  return scale(1 + expm1_small((x - k) * log_of_2), static_cast<int>(k));
}

double expm1(double x) { return std::fabs(x) <= 0.35 ? expm1_small(x) : exp(x) - 1; }

double log(double x) {
  if (x != x || x == infinity) return x;
  if (x < 0) return not_a_number;
  if (x == 0) return -infinity;
  int k = 0;
  double m = std::frexp(x, &k);  // 0.5 <= m < 1
  if (m < 0.70710678118654752) {
    m *= 2;
    --k;
  }
  const double s = (m - 1) / (m + 1);
  return k * log2_high + (2 * s + (s * two_atanh_rest(s * s) + k * log2_low));
}

double log2(double x) {
  int k = 0;
  if (x > 0 && x < infinity && std::frexp(x, &k) == 0.5) return k - 1;  // powers of two are exact
  return log(x) * 1.4426950408889634074;
}

double log10(double x) { return log(x) * 0.43429448190325182765; }

double log1p(double x) {
  if (std::fabs(x) > 0.25) return log(1 + x);
  const double s = x / (2 + x);
  return 2 * s + s * two_atanh_rest(s * s);
}

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return not_a_number;
  if (y == 1) return x;
  if (y == 2) return x * x;
  if (y == 0.5 && x != -infinity) return x == 0 ? 0.0 : std::sqrt(x);
  const bool whole = y == std::floor(y);
  const bool odd = whole && std::fabs(y) < 9007199254740992.0 && std::fmod(y, 2) != 0;
  const double a = std::fabs(x);
  const double sign = odd && std::signbit(x) ? -1 : 1;
  if (a == 0) return y > 0 ? sign * 0.0 : sign * infinity;
  if (x < 0 && !whole && x != -infinity && y != infinity && y != -infinity) return not_a_number;
  if (y == infinity || y == -infinity) return a == 1 ? 1 : (a > 1) == (y > 0) ? infinity : 0;
  if (a == infinity) return y > 0 ? sign * infinity : sign * 0.0;
  if (whole && std::fabs(y) <= 32) {  // few enough products to be more exact than exp(y log x)
    double power = 1;
    for (int n = static_cast<int>(std::fabs(y)); n > 0; --n) power *= a;
    return sign * (y < 0 ? 1 / power : power);
  }
  return sign * exp(y * log(a));
}

double sin(double x) {
  if (x != x || std::fabs(x) == infinity) return not_a_number;
  const Reduced at = reduce(x);
  const double value = at.quadrant & 1 ? cos_small(at.remainder) : sin_small(at.remainder);
  return at.quadrant & 2 ? -value : value;
}

double cos(double x) {
  if (x != x || std::fabs(x) == infinity) return not_a_number;
  const Reduced at = reduce(x);
  const double value = at.quadrant & 1 ? sin_small(at.remainder) : cos_small(at.remainder);
  return at.quadrant == 1 || at.quadrant == 2 ? -value : value;
}

double tan(double x) { return sin(x) / cos(x); }

double atan(double x) {
  if (x != x) return x;
  // Down to |r| <= 0.4375 around one of five points (fdlibm).
  const double a = std::fabs(x);
  int piece = 0;
  double r = a;
  if (a >= 2.4375)
    piece = 4, r = -1 / a;
  else if (a >= 1.1875)
    piece = 3, r = (a - 1.5) / (1 + 1.5 * a);
  else if (a >= 0.6875)
    piece = 2, r = (a - 1) / (a + 1);
  else if (a >= 0.4375)
    piece = 1, r = (2 * a - 1) / (2 + a);
  const double z = r * r;
  const double value = fdlibm::atan_at[piece] + (r - r * z * polynomial(z, fdlibm::atan_odd));
  return x < 0 ? -value : value;
}

double atan2(double y, double x) {
  if (x != x || y != y) return not_a_number;
  const double sign = std::signbit(y) ? -1 : 1;
  if (y == 0) return std::signbit(x) ? sign * pi : sign * 0.0;
  if (x == 0) return sign * half_pi;
  if (std::fabs(x) == infinity && std::fabs(y) == infinity) return sign * (x > 0 ? pi / 4 : 3 * pi / 4);
  const double angle = atan(std::fabs(y / x));
  return sign * (x > 0 ? angle : pi - angle);
}

double asin(double x) { return std::fabs(x) > 1 ? not_a_number : atan2(x, std::sqrt((1 - x) * (1 + x))); }
double acos(double x) { return std::fabs(x) > 1 ? not_a_number : atan2(std::sqrt((1 - x) * (1 + x)), x); }

double sinh(double x) {
  const double a = std::fabs(x);
  const double e = expm1(a);
  const double value = a < 0.35  ? 0.5 * (e + e / (1 + e))
                       : a > 700 ? 0.5 * exp(0.5 * a) * exp(0.5 * a)
                                 : 0.5 * (exp(a) - exp(-a));
  return x < 0 ? -value : value;
}

double cosh(double x) {
  const double a = std::fabs(x);
  return a > 700 ? 0.5 * exp(0.5 * a) * exp(0.5 * a) : 0.5 * (exp(a) + exp(-a));
}

double tanh(double x) {
  if (x != x) return x;
  const double a = std::fabs(x);
  if (a > 20) return x < 0 ? -1 : 1;
  const double e = expm1(2 * a);
  const double value = e / (e + 2);
  return std::signbit(x) ? -value : value;
}

double asinh(double x) {
  const double a = std::fabs(x);
  const double value = a > 1e150 ? log(a) + log_of_2 : log1p(a + a * a / (1 + std::sqrt(a * a + 1)));
  return std::signbit(x) ? -value : value;
}

double acosh(double x) {
  if (x < 1) return not_a_number;
  const double t = x - 1;
  return x > 1e150 ? log(x) + log_of_2 : log1p(t + std::sqrt(2 * t + t * t));
}

double atanh(double x) { return 0.5 * log1p(2 * x / (1 - x)); }

double erf(double x) {
  if (x != x) return x;
  const double a = std::fabs(x);
  if (a < 0.84375) return x + x * (polynomial(x * x, fdlibm::pp) / polynomial(x * x, fdlibm::qq));
  const double value = a > 6 ? 1 : 1 - erfc_tail(a);
  return x < 0 ? -value : value;
}

double erfc(double x) {
  if (x != x) return x;
  if (std::fabs(x) < 0.84375) return 1 - erf(x);
  return x < 0 ? 2 - erfc_tail(-x) : erfc_tail(x);
}

double lgamma(double x) {
  if (x != x) return x;
  if (std::fabs(x) == infinity) return infinity;
  if (x <= 0 && x == std::floor(x)) return infinity;
  if (x < 0.5) return log(pi / std::fabs(sin(pi * (x - std::nearbyint(x))))) - lgamma(1 - x);
  if (x == 1 || x == 2) return 0;
  const double y = x - 1;
  double sum = lanczos_first;
  for (int i = 0; i < 8; ++i) sum += lanczos[i] / (y + i + 1);
  const double t = y + 7.5;
  return 0.91893853320467274178 + (y + 0.5) * log(t) - t + log(sum);
}

// Recurrence up to 10, then the asymptotic series.
double digamma(double x) {
  if (x != x || x == infinity) return x;
  if (x == 0) return std::signbit(x) ? infinity : -infinity;
  if (x < 0) return x == std::floor(x) ? not_a_number : digamma(1 - x) - pi / tan(pi * (x - std::nearbyint(x)));
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double z = 1 / (x * x);
  return sum + log(x) - 0.5 / x - z * polynomial(z, digamma_series);
}

double sigmoid(double x) { return 1 / (1 + exp(-x)); }

}  // namespace atenon::math
