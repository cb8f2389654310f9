// The loops behind vector_ops.h, for one instruction set. No function of the standard library: see there.

#include "reference/vector_ops.h"
#include "support/exponential.h"

namespace atenon::reference {

namespace {

using opset::ScalarOp;

template <class T, class Out, class F>
[[gnu::always_inline]] inline bool over(const T* a, const T* b, Out* out, int n, F f) {
  for (int i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
  return true;
}

double magnitude(double x) { return __builtin_fabs(x); }
float magnitude(float x) { return __builtin_fabsf(x); }
double root(double x) { return __builtin_sqrt(x); }
float root(float x) { return __builtin_sqrtf(x); }
double down(double x) { return __builtin_floor(x); }
float down(float x) { return __builtin_floorf(x); }

// As opset/scalar_values.h's minimum and maximum: a NaN wins.
template <class T>
[[gnu::always_inline]] inline T smaller(T a, T b) {
  const T least = b < a ? b : a;
  const T other = b != b ? b : least;
  return a != a ? a : other;
}
template <class T>
[[gnu::always_inline]] inline T larger(T a, T b) {
  const T most = b > a ? b : a;
  const T other = b != b ? b : most;
  return a != a ? a : other;
}

// math::exp but for what has a subnormal result or nearly overflows; `inside` becomes 0 where it meets that.
[[gnu::always_inline]] inline double exponential(double x, int64_t& inside) {
  const bool is_in_range = magnitude(x) < math::exp_limit;
  const bool is_none = x < -745.2, is_endless = x > 709.79, is_nan = x != x;
  inside &= is_in_range | is_none | is_endless | is_nan;
  double value = math::exp_in_range(is_in_range ? x : 0);
  value = is_none ? 0 : value;
  value = is_endless ? __builtin_inf() : value;
  return is_nan ? x : value;
}

[[gnu::always_inline]] inline double sigmoid(double x, int64_t& inside) { return 1 / (1 + exponential(-x, inside)); }

[[gnu::always_inline]] inline double hyperbolic_tangent(double x, int64_t& inside) {
  const double a = magnitude(x), twice = 2 * a;
  const double large = exponential(twice, inside) - 1;
  const double e = twice <= 0.35 ? math::expm1_small(twice) : large;
  double value = e / (e + 2);
  value = a > 20 ? 1 : value;
  value = __builtin_copysign(value, x);
  return x != x ? x : value;
}

template <class T, class F>
[[gnu::always_inline]] inline bool function(const T* a, T* out, int n, F f) {
  int64_t inside = 1;
  for (int i = 0; i < n; ++i) out[i] = static_cast<T>(f(static_cast<double>(a[i]), inside));
  return inside;
}

template <class T>
bool arithmetic(ScalarOp op, const T* a, const T* b, T* out, int n) {
  switch (op) {
    case ScalarOp::add:
      return over(a, b, out, n, [](T x, T y) { return x + y; });
    case ScalarOp::sub:
      return over(a, b, out, n, [](T x, T y) { return x - y; });
    case ScalarOp::mul:
      return over(a, b, out, n, [](T x, T y) { return x * y; });
    case ScalarOp::div:
      return over(a, b, out, n, [](T x, T y) { return x / y; });
    case ScalarOp::minimum:
      return over(a, b, out, n, [](T x, T y) { return smaller(x, y); });
    case ScalarOp::maximum:
      return over(a, b, out, n, [](T x, T y) { return larger(x, y); });
    case ScalarOp::neg:
      return over(a, b, out, n, [](T x, T) { return -x; });
    case ScalarOp::abs:
      return over(a, b, out, n, [](T x, T) { return magnitude(x); });
    case ScalarOp::floor:
      return over(a, b, out, n, [](T x, T) { return down(x); });
    case ScalarOp::sqrt:
      return over(a, b, out, n, [](T x, T) { return root(x); });
    case ScalarOp::rsqrt:
      return over(a, b, out, n, [](T x, T) { return static_cast<T>(1 / root(static_cast<double>(x))); });
    case ScalarOp::exp:
      return function(a, out, n, [](double x, int64_t& inside) { return exponential(x, inside); });
    case ScalarOp::sigmoid:
      return function(a, out, n, [](double x, int64_t& inside) { return sigmoid(x, inside); });
    case ScalarOp::tanh:
      return function(a, out, n, [](double x, int64_t& inside) { return hyperbolic_tangent(x, inside); });
    default:
      return false;
  }
}

template <class T>
bool test(ScalarOp op, const T* a, const T* b, int64_t* out, int n) {
  switch (op) {
    case ScalarOp::eq:
      return over(a, b, out, n, [](T x, T y) -> int64_t { return x == y; });
    case ScalarOp::ne:
      return over(a, b, out, n, [](T x, T y) -> int64_t { return x != y; });
    case ScalarOp::lt:
      return over(a, b, out, n, [](T x, T y) -> int64_t { return x < y; });
    case ScalarOp::le:
      return over(a, b, out, n, [](T x, T y) -> int64_t { return x <= y; });
    case ScalarOp::isnan:
      return over(a, b, out, n, [](T x, T) -> int64_t { return x != x; });
    case ScalarOp::logical_not:
      return over(a, b, out, n, [](T x, T) -> int64_t { return x == 0; });
    default:
      return false;
  }
}

template <class T>
void choose(const int64_t* chooses, const T* a, const T* b, T* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = chooses[i] ? a[i] : b[i];
}

void widen(const float* from, double* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = static_cast<double>(from[i]);
}
void narrow(const double* from, float* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
void add_to(double* totals, const double* elements, int n) {
  for (int i = 0; i < n; ++i) totals[i] += elements[i];
}
// Eight elements at once: whatever vectors the CPU has, the compiler makes these of them.
using Eight = double __attribute__((vector_size(64)));
using EightSingles = float __attribute__((vector_size(32)));

// `width` times eight totals, which stay in registers.
template <int width>
[[gnu::always_inline]] inline void add_products_of(double* totals, const double* factors, const float* rows,
                                                   int64_t stride, int64_t count) {
  Eight sums[width];
  __builtin_memcpy(sums, totals, sizeof sums);
  for (int64_t k = 0; k < count; ++k) {
    const Eight factor = factors[k] - Eight{};
#pragma GCC unroll 8
    for (int j = 0; j < width; ++j) {
      EightSingles row;
      __builtin_memcpy(&row, rows + k * stride + 8 * j, sizeof row);
      sums[j] += factor * __builtin_convertvector(row, Eight);
    }
  }
  __builtin_memcpy(totals, sums, sizeof sums);
}

// The same for a few totals that fill no vector.
template <int few>
void add_few_products(double* totals, const double* factors, const float* rows, int64_t stride, int64_t count) {
  double sums[few];
  __builtin_memcpy(sums, totals, sizeof sums);
  for (int64_t k = 0; k < count; ++k)
#pragma GCC unroll 8
    for (int j = 0; j < few; ++j) sums[j] += factors[k] * static_cast<double>(rows[k * stride + j]);
  __builtin_memcpy(totals, sums, sizeof sums);
}

void add_products(double* totals, const double* factors, const float* rows, int64_t stride, int64_t count, int n) {
  using Few = void (*)(double*, const double*, const float*, int64_t, int64_t);
  static constexpr Few few[] = {add_few_products<1>, add_few_products<2>, add_few_products<3>, add_few_products<4>,
                                add_few_products<5>, add_few_products<6>, add_few_products<7>};
  int i = 0;
  for (; i + 64 <= n; i += 64) add_products_of<8>(totals + i, factors, rows + i, stride, count);
  for (; i + 16 <= n; i += 16) add_products_of<2>(totals + i, factors, rows + i, stride, count);
  for (; i + 8 <= n; i += 8) add_products_of<1>(totals + i, factors, rows + i, stride, count);
  if (i < n) few[n - i - 1](totals + i, factors, rows + i, stride, count);
}

void raise_to(double* best, const double* elements, int n) {
  for (int i = 0; i < n; ++i) best[i] = larger(best[i], elements[i]);
}
void lower_to(double* best, const double* elements, int n) {
  for (int i = 0; i < n; ++i) best[i] = smaller(best[i], elements[i]);
}

constexpr VectorOps loops{arithmetic<float>, arithmetic<double>, test<float>, test<double>, test<int64_t>,
                          choose<float>,     choose<int64_t>,    widen,       narrow,       add_to,
                          add_products,      raise_to,           lower_to};

}  // namespace

}  // namespace atenon::reference
