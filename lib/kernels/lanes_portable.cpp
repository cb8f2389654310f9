// The loops of lanes_loops.h over 4 floats in plain C++: for CPUs without AVX2, and for comparison.
#include <utility>

#include "kernels/lanes.h"
#include "kernels/winograd_transforms.h"
#include "tensor/tensor.h"

namespace atenon::kernels {

namespace {

struct V {
  static constexpr int width = 4;
  static constexpr int accumulators = 2;
  static constexpr int64_t steps_at_once(int, int) { return 4; }
  float v[4];
  static V all(float x) { return {{x, x, x, x}}; }
  static V load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
  V kept() const { return *this; }
  void add_product(V a, V b) {
    for (int i = 0; i < width; ++i) v[i] = a.v[i] * b.v[i] + v[i];
  }
  static V load_first(const float* p, int n) { return load_first(p, n, all(0)); }
  static V load_first(const float* p, int n, V others) {
    for (int i = 0; i < n; ++i) others.v[i] = p[i];
    return others;
  }
  static V load_half(const uint16_t* p) {
    return {{half_to_float(p[0]), half_to_float(p[1]), half_to_float(p[2]), half_to_float(p[3])}};
  }
  static V load_bfloat(const uint16_t* p) {
    return {{bfloat16_to_float(p[0]), bfloat16_to_float(p[1]), bfloat16_to_float(p[2]), bfloat16_to_float(p[3])}};
  }
  void store(float* p) const {
    for (int i = 0; i < width; ++i) p[i] = v[i];
  }
  void store_first(float* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
  float sum() const { return (v[0] + v[2]) + (v[1] + v[3]); }
  static void store_sums(const V (&v)[4], float* to) {
    for (int i = 0; i < 4; ++i) to[i] = v[i].sum();
  }
  float largest() const {
    const float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
  }
  static V where(const unsigned char* truths, V yes, V no) {
    V result = no;
    for (int i = 0; i < width; ++i)
      if (truths[i]) result.v[i] = yes.v[i];
    return result;
  }
  // p[step * i], for steps of 2 to 4.
  template <int step>
  static V every(const float* p) {
    return {{p[0], p[step], p[2 * step], p[3 * step]}};
  }
  // line[places[i]], where places ascend.
  static V pick(const float* line, const int32_t* places) {
    return {{line[places[0]], line[places[1]], line[places[2]], line[places[3]]}};
  }
  // Of groups that lie in turn, their numbers at p for the outputs of each.
  template <int groups>
  static V spread(const float* p) {
    return {{p[0], p[1 % groups], p[2 % groups], p[3 % groups]}};
  }
  // v[places[i]]
  V placed(const int32_t* places) const { return {{v[places[0]], v[places[1]], v[places[2]], v[places[3]]}}; }
  static void transpose(const float* from, int64_t from_row, int64_t depth, float* to, int64_t to_row) {
    for (int64_t d = 0; d < depth; ++d)
      for (int i = 0; i < width; ++i) to[d * to_row + i] = from[i * from_row + d];
  }
};

// The same bytes as f64.
struct D {
  static constexpr int width = 2;
  double v[2];
  static D all(double x) { return {{x, x}}; }
  static D load(const double* p) { return {{p[0], p[1]}}; }
  void add_product(D a, D b) {
    for (int i = 0; i < width; ++i) v[i] = a.v[i] * b.v[i] + v[i];
  }
  void store(double* p) const {
    for (int i = 0; i < width; ++i) p[i] = v[i];
  }
};

template <class F>
inline V each(V a, V b, F f) {
  return {{f(a.v[0], b.v[0]), f(a.v[1], b.v[1]), f(a.v[2], b.v[2]), f(a.v[3], b.v[3])}};
}
inline V operator+(V a, V b) {
  return each(a, b, [](float x, float y) { return x + y; });
}
inline V operator-(V a, V b) {
  return each(a, b, [](float x, float y) { return x - y; });
}
inline V operator*(V a, V b) {
  return each(a, b, [](float x, float y) { return x * y; });
}
inline V operator/(V a, V b) {
  return each(a, b, [](float x, float y) { return x / y; });
}
inline V max(V a, V b) {
  return each(a, b, [](float x, float y) { return x > y ? x : y; });
}
inline V min(V a, V b) {
  return each(a, b, [](float x, float y) { return x < y ? x : y; });
}
inline V larger(V a, V b) {
  return each(a, b, [](float x, float y) { return x > y || x != x ? x : y; });
}
inline V fma(V a, V b, V c) { return a * b + c; }
inline V fms(V a, V b, V c) { return a * b - c; }
inline V reciprocal(V a) { return V::all(1) / a; }
inline V round(V a) {
  return each(a, a, [](float x, float) { return __builtin_nearbyintf(x); });
}
// value * 2^n; 0 where x < limit.
inline V scaled_unless_below(V value, V n, V x, V limit) {
  V scaled = x;  // also where it is a NaN
  for (int i = 0; i < V::width; ++i)
    if (x.v[i] < limit.v[i])
      scaled.v[i] = 0;
    else if (x.v[i] == x.v[i])
      scaled.v[i] = __builtin_ldexpf(value.v[i], static_cast<int>(n.v[i]));
  return scaled;
}

}  // namespace

#include "kernels/all_loops.h"

constinit const Lanes lanes_portable = lanes_of("portable");

}  // namespace atenon::kernels
